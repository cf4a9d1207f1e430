"""CropAndResizeGradImage: the gradient of a crop with respect to the image it was taken from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradops import _core, arrays
from gradops.errors import InvalidArgumentError
from gradops.ops import _crop as crop
from gradops.ops._expressions import GRAD, Call, Constant, ShapeOf
from gradops.ops._inference import Inference, Shape, sizes_input
from gradops.ops._operator import Attr, Input, Operator
from gradops.ops._sizes import size_vector

__all__ = ["OPERATOR", "crop_and_resize_grad_image"]

_OP = "crop_and_resize_grad_image"


def crop_and_resize_grad_image(
    grads: Any,
    boxes: Any,
    box_ind: Any,
    image_size: Any,
    T: npt.DTypeLike,
    method: str = "bilinear",
    *,
    out: npt.NDArray[Any] | None = None,
) -> Any:
    """Gradient of `crop_and_resize` with respect to its image: the crops added back in place.

    Parameters
    ----------
    grads : (num_boxes, crop_height, crop_width, depth) float32
        Gradient with respect to the crops.
    boxes : (num_boxes, 4) float32
        y1, x1, y2, x2 of each box as fractions of the image's height - 1 and width - 1. May lie
        outside 0..1, be reversed, and overlap.
    box_ind : (num_boxes,) int32
        The image that each box lies in, from 0 to batch - 1.
    image_size : (4,) int32
        Shape of the image: batch, height, width, depth.
    T : dtype
        Element type of the image: float16 ("half"), float32 or float64.
    method : {"bilinear", "nearest"}, default "bilinear"
        How `crop_and_resize` sampled the image.
    out : numpy.ndarray, optional
        Array to write the result into: exactly its shape and dtype, writable, apart from the inputs.

    Returns
    -------
    (batch, height, width, depth) array of `T`
        Of the kind of `grads`. Pixels that no sample touches are 0.

    Raises
    ------
    TypeError
        If an argument is of a wrong kind; see `conv2d_backprop_input`.
    InvalidArgumentError
        In this order, if: `T` or `method` is none of its allowed values; a dtype is wrong; `grads`
        has not rank 4, or a crop height or width of 0; `boxes` has not rank 2 and 4 columns;
        `box_ind` has not rank 1 and one element for each box; `grads` has another number of boxes;
        `image_size` has not rank 1 and 4 values; height or width is not positive; the depths of
        `image_size` and `grads` differ; the batch is negative; the image has more than 2**63 - 1
        elements; and, after the errors below, if a box is not finite.
    ResourceExhaustedError
        If there is no memory for the image.
    OutOfRangeError
        If an element of `box_ind` is not in [0, batch).

    See Also
    --------
    crop_and_resize : the crop that this is the adjoint of.

    Notes
    -----
    Sample (i, j) of a box lies at row (and likewise column) ::

        y = y1 * (height - 1) + i * ((y2 - y1) * (height - 1) / (crop_height - 1))    crop_height > 1
        y = 0.5 * (y1 + y2) * (height - 1)                                            crop_height = 1

    in float32, every operation rounded once, in this order. A sample outside [0, height - 1] adds
    nothing; neither does one whose coordinate overflowed on the way. With ``top = floor(y)``,
    ``fy = y - top`` and the columns alike, a bilinear sample of gradient g adds ::

        image[top, left]    += (1 - fx) * ((1 - fy) * g)    image[top, right]    += fx * ((1 - fy) * g)
        image[bottom, left] += (1 - fx) * (fy * g)          image[bottom, right] += fx * (fy * g)

    in float32, and a nearest one adds g to the pixel at its rounded coordinates, halves up. Samples
    add in the order box, row, column, nothing is fused, and subnormals count as zero: for float32
    and float64 (float32 products, float64 sums) the result has the bits of TensorFlow's
    deterministic mode, for any number of threads. TensorFlow's default mode loses updates where
    boxes overlap. float16 sums in float32 and rounds once, where TensorFlow rounds every sum.

    Follows ``tensorflow/core/kernels/image/crop_and_resize_op.cc`` (TensorFlow 2.21).

    Examples
    --------
    >>> import numpy as np, gradops
    >>> grads = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 2, 2, 1)
    >>> gradops.crop_and_resize_grad_image(grads, [[0, 0, 1, 1]], [0], [1, 3, 3, 1], np.float32)[0, :, :, 0]
    array([[1., 0., 2.],
           [0., 0., 0.],
           [3., 0., 4.]], dtype=float32)
    """
    return OPERATOR((grads, boxes, box_ind, image_size), {"T": T, "method": method}, out)


def _compute(
    grads: npt.NDArray[np.float32],
    boxes: npt.NDArray[np.float32],
    box_ind: npt.NDArray[np.int32],
    image_size: npt.NDArray[np.int32],
    *,
    T: np.dtype[Any],
    method: str,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    shape = image_shape(grads, boxes, box_ind, image_size)
    image = arrays.empty(_OP, shape, T, out)
    grads = arrays.contiguous(_OP, grads)
    boxes, box_ind = np.array(boxes, order="C"), np.array(box_ind, order="C")  # what is checked is what is used
    if grads.shape[0]:  # without boxes, TensorFlow asks nothing more of them
        crop.check_box_ind_values(_OP, box_ind, shape[0])
        crop.check_boxes_finite(_OP, boxes)
    if grads.size and image.size:
        _core.crop_and_resize_grad_image(method, grads, boxes, box_ind, image)
    else:
        image.fill(0)
    return arrays.finish(image, out)


def image_shape(
    grads: npt.NDArray[Any],
    boxes: npt.NDArray[Any],
    box_ind: npt.NDArray[Any],
    image_size: npt.NDArray[Any],
) -> tuple[int, ...]:
    """Check all shapes, in TensorFlow's order, and return the image's."""
    crop.check_grads(_OP, grads)
    crop.check_boxes_of_grads(_OP, grads, boxes, box_ind)

    size_shape, sizes = size_vector(image_size)
    if len(size_shape) != 1:
        raise InvalidArgumentError(f"{_OP}: image_size must be 1-D, got rank {len(size_shape)}: shape {size_shape}")
    if size_shape[0] != 4:
        raise InvalidArgumentError(
            f"{_OP}: image_size must have 4 elements (batch, height, width, depth), got {size_shape[0]}: {list(sizes)}"
        )
    batch, height, width, depth = sizes
    crop.check_image_size_positive(_OP, height, width, f"image_size {list(sizes)}")
    if depth != grads.shape[3]:
        raise InvalidArgumentError(
            f"{_OP}: image_size and grads are incompatible: image_size {list(sizes)} has depth {depth}, "
            f"grads {grads.shape} has {grads.shape[3]}"
        )
    if batch < 0:
        raise InvalidArgumentError(f"{_OP}: the batch of image_size must be >= 0, got {batch} in {list(sizes)}")
    crop.check_element_count(_OP, "image_size", sizes)
    return sizes


def _infer(node: Inference) -> tuple[Shape, ...]:
    """As TensorFlow's shape function, it looks at nothing but how many sizes there are."""
    return (sizes_input(node, 3, "image_size", 4),)


_ENDS = tuple(Constant([end], is_literal=True) for end in (1, 3, 1))
_CROP_SIZE = Call("StridedSlice", (ShapeOf("grads"), *_ENDS))

OPERATOR = Operator(
    name="CropAndResizeGradImage",
    function=_OP,
    inputs=(
        Input("grads", "float"),
        Input("boxes", "float"),
        Input("box_ind", "int32"),
        Input("image_size", "int32", is_sizes=True),
    ),
    attrs=(
        Attr("T", "type", allowed=crop.GRAD_IMAGE_TYPES),
        Attr("method", "string", "bilinear", allowed=("bilinear", "nearest")),
    ),
    outputs=(Input("output", "T"),),
    compute=_compute,
    infer=_infer,
    vjps={
        "grads": Call("CropAndResize", (GRAD, "boxes", "box_ind", _CROP_SIZE), {"method": "$method"}),
        "boxes": Call("CropAndResizeGradBoxes", ("grads", GRAD, "boxes", "box_ind")),
    },
)
