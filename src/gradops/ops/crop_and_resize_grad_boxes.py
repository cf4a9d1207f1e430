"""CropAndResizeGradBoxes: the gradient of a crop with respect to the boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradops import arrays, reference
from gradops.errors import InvalidArgumentError
from gradops.ops import _crop as crop
from gradops.ops import _crop_slopes
from gradops.ops._inference import Inference, Shape
from gradops.ops._operator import Attr, Input, Operator

__all__ = ["OPERATOR", "crop_and_resize_grad_boxes"]

_OP = "crop_and_resize_grad_boxes"


def crop_and_resize_grad_boxes(
    grads: Any,
    image: Any,
    boxes: Any,
    box_ind: Any,
    method: str = "bilinear",
    *,
    out: npt.NDArray[Any] | None = None,
) -> Any:
    """Gradient of `crop_and_resize` with respect to its boxes.

    Parameters
    ----------
    grads : (num_boxes, crop_height, crop_width, depth) float32
        Gradient with respect to the crops.
    image : (batch, height, width, depth) uint8, uint16, int8, int16, int32, int64, float16, \
float32 or float64
        The images that were cropped.
    boxes : (num_boxes, 4) float32
        y1, x1, y2, x2 of each box, as `crop_and_resize` takes them.
    box_ind : (num_boxes,) int32
        The image that each box lies in, from 0 to batch - 1.
    method : {"bilinear"}
        TensorFlow has no other.
    out : numpy.ndarray, optional
        Array to write the result into: exactly its shape and dtype, writable, apart from the inputs.

    Returns
    -------
    (num_boxes, 4) float32 array
        Of the kind of `grads`.

    Raises
    ------
    TypeError
        If an argument is of a wrong kind; see `conv2d_backprop_input`.
    InvalidArgumentError
        In this order, if: `method` or a dtype is none of its allowed values; `grads` has not rank 4,
        or a crop height or width of 0; `image` has not rank 4, or no height or width; the depths
        differ; `boxes` has not rank 2 and 4 columns; `box_ind` has not rank 1 and one element for
        each box; `grads` has another number of boxes; and, after the error below, if a box is not
        finite.
    OutOfRangeError
        If an element of `box_ind` is not in [0, batch).

    Notes
    -----
    A sample at row y between rows ``top`` and ``bottom`` adds ``(bottom - top) * g`` times the
    derivative of y with respect to y1 and y2, and likewise for columns. A sample exactly on a row
    has no slope, and one outside the image adds nothing.

    Follows ``tensorflow/core/kernels/image/crop_and_resize_op.cc`` (TensorFlow 2.21).

    Examples
    --------
    >>> import numpy as np, gradops
    >>> image = np.array([0, 1, 4, 9], np.float32).reshape(1, 1, 4, 1)
    >>> crop_and_resize_grad_boxes(np.ones((1, 1, 2, 1), np.float32), image, [[0, 1 / 6, 0, 5 / 6]], [0])
    array([[ 0.,  3.,  0., 15.]], dtype=float32)
    """
    return OPERATOR((grads, image, boxes, box_ind), {"method": method}, out)


def _compute(
    grads: npt.NDArray[np.float32],
    image: npt.NDArray[Any],
    boxes: npt.NDArray[np.float32],
    box_ind: npt.NDArray[np.int32],
    *,
    out: npt.NDArray[Any] | None = None,
    **_: Any,
) -> npt.NDArray[Any]:
    num_boxes = check_shapes(grads, image, boxes, box_ind)
    result = arrays.empty(_OP, (num_boxes, 4), np.dtype(np.float32), out)
    if num_boxes:
        crop.check_box_ind_values(_OP, box_ind, image.shape[0])
        crop.check_boxes_finite(_OP, boxes)
        result[...] = reference.crop_and_resize_grad_boxes(grads, image, boxes, box_ind)
    return arrays.finish(result, out)


def check_shapes(
    grads: npt.NDArray[Any], image: npt.NDArray[Any], boxes: npt.NDArray[Any], box_ind: npt.NDArray[Any]
) -> int:
    """Check all shapes, in TensorFlow's order, and return the number of boxes."""
    crop.check_grads(_OP, grads)
    if image.ndim != 4:
        raise InvalidArgumentError(
            f"{_OP}: image must be 4-D, (batch, height, width, depth), got rank {image.ndim}: shape {image.shape}"
        )
    _, height, width, depth = image.shape
    crop.check_image_size_positive(_OP, height, width, f"image {image.shape}")
    if depth != grads.shape[3]:
        raise InvalidArgumentError(
            f"{_OP}: image and grads must have the same depth, but image {image.shape} has {depth} and grads "
            f"{grads.shape} has {grads.shape[3]}"
        )
    crop.check_boxes_of_grads(_OP, grads, boxes, box_ind)
    return len(grads)


def _infer(node: Inference) -> tuple[Shape, ...]:
    """As TensorFlow's shape function, it checks nothing."""
    return (node.shapes[2],)


OPERATOR = Operator(
    name="CropAndResizeGradBoxes",
    function=_OP,
    inputs=(Input("grads", "float"), Input("image", "T"), Input("boxes", "float"), Input("box_ind", "int32")),
    attrs=(
        Attr(
            "T",
            "type",
            allowed=("uint8", "uint16", "int8", "int16", "int32", "int64", "half", "float", "double"),
        ),
        Attr("method", "string", "bilinear", allowed=("bilinear",)),
    ),
    outputs=(Input("output", "float"),),
    compute=_compute,
    infer=_infer,
    vjps=_crop_slopes.vjps,
)
