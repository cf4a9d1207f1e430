"""CropAndResize: crops of images, resampled to one size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradops import _core, arrays
from gradops.errors import InvalidArgumentError
from gradops.ops import _crop as crop
from gradops.ops._expressions import GRAD, Call, Differentiated, Expression, ShapeOf
from gradops.ops._inference import Inference, Shape, merge_sizes, sizes_input, with_rank
from gradops.ops._operator import Attr, Input, Operator
from gradops.ops._sizes import size_vector

__all__ = ["OPERATOR", "crop_and_resize"]

_OP = "crop_and_resize"


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    *,
    out: npt.NDArray[Any] | None = None,
) -> Any:
    """Crops of images, each resampled to one size: the crop of Mask R-CNN.

    Parameters
    ----------
    image : (batch, height, width, depth) uint8, uint16, int8, int16, int32, int64, float16, \
float32 or float64
        The images; pixels are converted to float32 before anything else.
    boxes : (num_boxes, 4) float32
        y1, x1, y2, x2 of each box as fractions of the image's height - 1 and width - 1. May lie
        outside 0..1 and be reversed, which flips the crop.
    box_ind : (num_boxes,) int32
        The image that each box lies in, from 0 to batch - 1.
    crop_size : (2,) int32
        Height and width of every crop, in pixels.
    method : {"bilinear", "nearest"}, default "bilinear"
        How a sample between pixels is read.
    extrapolation_value : float, default 0.0
        Value of the samples that lie outside the image.
    out : numpy.ndarray, optional
        Array to write the result into: exactly its shape and dtype, writable, apart from the inputs.

    Returns
    -------
    (num_boxes, crop_height, crop_width, depth) float32 array
        Of the kind of `image`.

    Raises
    ------
    TypeError
        If an argument is of a wrong kind; see `conv2d_backprop_input`.
    InvalidArgumentError
        In this order, if: `method` or the image's dtype is none of its allowed values; a dtype is
        wrong; `image` has not rank 4, or no height or width; `boxes` has not rank 2; `box_ind` has
        not rank 1; `boxes` has not 4 columns; `box_ind` has not one element for each box;
        `crop_size` has not rank 1 and 2 values, both positive; the crops have more than 2**63 - 1
        elements; and, after the errors below, if a box is not finite.
    ResourceExhaustedError
        If there is no memory for the crops.
    OutOfRangeError
        If an element of `box_ind` is not in [0, batch).

    See Also
    --------
    crop_and_resize_grad_image : its adjoint, and where its samples lie.

    Notes
    -----
    The samples lie as `crop_and_resize_grad_image` says. A bilinear one between four pixels is ::

        upper = top_left + (top_right - top_left) * fx
        lower = bottom_left + (bottom_right - bottom_left) * fx
        result = upper + (lower - upper) * fy

    in float32, nothing fused, with TensorFlow's bits. All four pixels are read even where a weight
    is 0, so an infinite pixel hit exactly gives NaN, as in TensorFlow.

    Follows ``tensorflow/core/kernels/image/crop_and_resize_op.cc`` (TensorFlow 2.21).

    Examples
    --------
    >>> import numpy as np, gradops
    >>> image = np.arange(1, 10, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> gradops.crop_and_resize(image, [[0, 0, 1, 1]], [0], [2, 2])[0, :, :, 0]
    array([[1., 3.],
           [7., 9.]], dtype=float32)
    """
    return OPERATOR(
        (image, boxes, box_ind, crop_size), {"method": method, "extrapolation_value": extrapolation_value}, out
    )


def _compute(
    image: npt.NDArray[Any],
    boxes: npt.NDArray[np.float32],
    box_ind: npt.NDArray[np.int32],
    crop_size: npt.NDArray[np.int32],
    *,
    method: str,
    extrapolation_value: float,
    out: npt.NDArray[Any] | None = None,
    **_: Any,
) -> npt.NDArray[Any]:
    shape = crops_shape(image, boxes, box_ind, crop_size)
    crops = arrays.empty(_OP, shape, np.dtype(np.float32), out)
    image = arrays.contiguous(_OP, image)
    boxes, box_ind = np.array(boxes, order="C"), np.array(box_ind, order="C")  # what is checked is what is used
    if shape[0]:
        crop.check_box_ind_values(_OP, box_ind, image.shape[0])
        crop.check_boxes_finite(_OP, boxes)
    if crops.size:
        _core.crop_and_resize(method, image, boxes, box_ind, extrapolation_value, crops)
    return arrays.finish(crops, out)


def crops_shape(
    image: npt.NDArray[Any],
    boxes: npt.NDArray[Any],
    box_ind: npt.NDArray[Any],
    crop_size: npt.NDArray[Any],
) -> tuple[int, ...]:
    """Check all shapes, in TensorFlow's order, and return the crops'."""
    if image.ndim != 4:
        raise InvalidArgumentError(
            f"{_OP}: image must be 4-D, (batch, height, width, depth), got rank {image.ndim}: shape {image.shape}"
        )
    _, height, width, depth = image.shape
    crop.check_image_size_positive(_OP, height, width, f"image {image.shape}")
    crop.check_boxes_rank(_OP, boxes)
    crop.check_box_ind_rank(_OP, box_ind)
    if crop.no_boxes(boxes, box_ind):
        num_boxes = 0
    else:
        crop.check_box_columns(_OP, boxes)
        crop.check_box_ind_length(_OP, box_ind, boxes)
        num_boxes = boxes.shape[0]

    size_shape, sizes = size_vector(crop_size)
    if len(size_shape) != 1:
        raise InvalidArgumentError(f"{_OP}: crop_size must be 1-D, got rank {len(size_shape)}: shape {size_shape}")
    if size_shape[0] != 2:
        raise InvalidArgumentError(
            f"{_OP}: crop_size must have 2 elements (height, width), got {size_shape[0]}: {list(sizes)}"
        )
    if min(sizes) <= 0:
        raise InvalidArgumentError(f"{_OP}: crop dimensions must be positive, got crop_size {list(sizes)}")
    shape = (num_boxes, *sizes, depth)
    crop.check_element_count(_OP, "a result of shape", shape)
    return shape


def _infer(node: Inference) -> tuple[Shape, ...]:
    """What TensorFlow's shape function checks: ranks, columns, numbers of boxes, and how many sizes there are."""
    *_, depth = with_rank(_OP, "image", node.shapes[0], 4)
    num_boxes, columns = with_rank(_OP, "boxes", node.shapes[1], 2)
    (num_indices,) = with_rank(_OP, "box_ind", node.shapes[2], 1)
    num_boxes = merge_sizes(_OP, "numbers of boxes and box_ind", num_boxes, num_indices)
    merge_sizes(_OP, "4 and the columns of boxes", 4, columns)
    height, width = sizes_input(node, 3, "crop_size", 2) or (None, None)
    return ((num_boxes, height, width, depth),)


def _vjps(node: Differentiated) -> dict[str, Expression]:
    """The image's gradient exists where CropAndResizeGradImage can make its type, the boxes' always."""
    boxes: Expression = Call("CropAndResizeGradBoxes", (GRAD, "image", "boxes", "box_ind"))
    if node.attrs["T"] not in crop.GRAD_IMAGE_TYPES:
        return {"boxes": boxes}
    attrs = {"T": "$T", "method": "$method"}
    image = Call("CropAndResizeGradImage", (GRAD, "boxes", "box_ind", ShapeOf("image")), attrs)
    return {"image": image, "boxes": boxes}


OPERATOR = Operator(
    name="CropAndResize",
    function=_OP,
    inputs=(
        Input("image", "T"),
        Input("boxes", "float"),
        Input("box_ind", "int32"),
        Input("crop_size", "int32", is_sizes=True),
    ),
    attrs=(
        Attr(
            "T",
            "type",
            allowed=("uint8", "uint16", "int8", "int16", "int32", "int64", "half", "float", "double"),
        ),
        Attr("method", "string", "bilinear", allowed=("bilinear", "nearest")),
        Attr("extrapolation_value", "float", 0.0),
    ),
    outputs=(Input("crops", "float"),),
    compute=_compute,
    infer=_infer,
    vjps=_vjps,
)
