"""Conv2D: a 2-D convolution (cross-correlation) of images with a filter."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from gradops.errors import InvalidArgumentError
from gradops.geometry import LAYOUTS
from gradops.ops import _convolution as conv
from gradops.ops._expressions import GRAD, SAME, Call, ShapeOf
from gradops.ops._inference import Inference, Shape, Size, with_rank
from gradops.ops._operator import Input, Operator

__all__ = ["OPERATOR", "conv2d"]

_OP = "conv2d"
_INT32_MAX = 2**31 - 1


def conv2d(
    input: Any,
    filter: Any,
    strides: Sequence[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    *,
    out: npt.NDArray[Any] | None = None,
) -> Any:
    """Convolution of images with a filter, not flipped: a cross-correlation.

    Parameters
    ----------
    input : (batch, in_height, in_width, in_channels) float16, bfloat16, float32, float64 or int32
        Images in `data_format` order.
    filter : (filter_height, filter_width, in_channels / groups, out_channels), dtype of `input`
        HWIO in either `data_format`. Its third dimension sets the number of groups.
    strides : sequence of 4 int
        Step of the window along each dimension, in `data_format` order; 1 for batch and channels.
    padding : {"SAME", "VALID", "EXPLICIT"}
        Padding rule; see `gradops.geometry.place_windows`.
    use_cudnn_on_gpu : bool, default True
        Accepted for the signature's sake; it has no effect on a CPU.
    explicit_paddings : sequence of 8 int, default ()
        With padding EXPLICIT, positions added before and after each dimension, in `data_format`
        order; 0 for batch and channels. Empty otherwise.
    data_format : {"NHWC", "NCHW"}, default "NHWC"
        Order of the dimensions of `input`, the result, and every attribute of 4 or 8 values.
    dilations : sequence of 4 int, default (1, 1, 1, 1)
        Distance of the filter's taps along each dimension; 1 for batch and channels.
    out : numpy.ndarray, optional
        Array to write the result into: exactly its shape and dtype, writable, apart from the inputs.

    Returns
    -------
    (batch, out_height, out_width, out_channels) array, dtype of `input`
        In `data_format` order, of the kind of `input`.

    Raises
    ------
    TypeError
        If an argument is of a wrong kind; see `conv2d_backprop_input`.
    InvalidArgumentError
        In this order, if: an attribute is none of its allowed values; a dtype is wrong or the
        dtypes differ; a stride or dilation exceeds 32 bits; `dilations` or `strides` has not 4
        values; a stride, then a dilation, of height or width is below 1; `explicit_paddings` has
        not 8 values, a negative one, or one for batch or channels, or is given without EXPLICIT;
        `input` or `filter` has not rank 4, or a dimension beyond 32 bits; the filter's depth is 0
        or does not divide the input's channels; the output would have a negative size; `filter`
        has no elements; the groups do not divide out_channels.
    UnimplementedError
        If a stride or dilation of batch or channels is not 1.
    ResourceExhaustedError
        If there is no memory for the result or the workspace.

    See Also
    --------
    conv2d_backprop_input : its adjoint.

    Notes
    -----
    ::

        result[b, i, j, k] = sum over a, g, c of
            input[b, i * stride_height + a * dilation_height - pad_top,
                     j * stride_width + g * dilation_width - pad_left, c] * filter[a, g, c, k]

    where ``c`` runs over the in_channels of ``k``'s group and pixels outside the image are left
    out. The sum runs in ascending ``a``, ``g``, ``c`` with fused multiply-adds, in blocks whose
    sums are added; float16 and bfloat16 sum in float32 and round once; int32 wraps modulo 2**32.
    The bits do not depend on threads, batch split or CPU.

    Follows ``tensorflow/core/kernels/conv_ops.cc`` (TensorFlow 2.21), without its limits on CPUs.

    Examples
    --------
    >>> import numpy as np, gradops
    >>> image = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1)
    >>> filter = np.array([[1, 2], [3, 4]], np.float32).reshape(2, 2, 1, 1)
    >>> gradops.conv2d(image, filter, [1, 1, 1, 1], "VALID")[0, :, :, 0]
    array([[37., 47.],
           [67., 77.]], dtype=float32)
    """
    return OPERATOR(
        (input, filter),
        {
            "strides": strides,
            "use_cudnn_on_gpu": use_cudnn_on_gpu,
            "padding": padding,
            "explicit_paddings": explicit_paddings,
            "data_format": data_format,
            "dilations": dilations,
        },
        out,
    )


def _compute(
    input: npt.NDArray[Any],
    filter: npt.NDArray[Any],
    *,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
    out: npt.NDArray[Any] | None = None,
    **_: Any,
) -> npt.NDArray[Any]:
    convolution = plan_convolution(
        input.shape, filter.shape, strides, padding, explicit_paddings, data_format, dilations
    )
    return convolution(filter, input, out)


@functools.lru_cache(maxsize=256)
def plan_convolution(
    input_shape: tuple[int, ...],
    filter_shape: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> conv.Convolution:
    """Check everything, in TensorFlow's order, and return the convolution, ready to run."""
    layout = LAYOUTS[data_format]
    conv.check_int32(_OP, "strides", strides)
    conv.check_int32(_OP, "dilations", dilations)
    conv.check_length(_OP, "dilations", dilations)
    conv.check_length(_OP, "strides", strides)
    conv.check_strides(_OP, strides, layout)
    conv.check_dilations(_OP, dilations, layout)
    conv.check_explicit_paddings(_OP, padding, explicit_paddings, layout)
    conv.check_rank(_OP, "input", input_shape)
    conv.check_rank(_OP, "filter", filter_shape)
    _check_32_bits("filter", filter_shape[:3], filter_shape)
    in_channels = input_shape[layout.channels]
    conv.check_channels(_OP, in_channels, filter_shape)
    in_sizes = input_shape[layout.height], input_shape[layout.width]
    _check_32_bits("input", (*in_sizes, input_shape[layout.batch]), input_shape)
    placed = conv.windows(_OP, layout, in_sizes, filter_shape, strides, padding, explicit_paddings, dilations)
    sizes = conv.sizes_of(
        data_format, input_shape[layout.batch], in_channels, in_sizes, filter_shape, strides, dilations, placed
    )
    if math.prod(sizes.output_shape) > 2**63 - 1:
        raise InvalidArgumentError(f"{_OP}: a result of shape {sizes.output_shape} has more than 2**63 - 1 elements")
    if 0 not in sizes.output_shape and 0 not in sizes.input_shape:
        _check_filter_and_groups(filter_shape, sizes.groups)
    return conv.Convolution(_OP, "forward", sizes)


def _check_32_bits(name: str, sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if max(sizes) > _INT32_MAX:
        raise InvalidArgumentError(f"{_OP}: {name} is too large: a size of {shape} exceeds 32 bits")


def _check_filter_and_groups(filter_shape: tuple[int, ...], groups: int) -> None:
    """What TensorFlow looks at only where there is something to compute."""
    if 0 in filter_shape:
        raise InvalidArgumentError(f"{_OP}: filter must not have zero elements, got shape {filter_shape}")
    if filter_shape[3] % groups:
        raise InvalidArgumentError(
            f"{_OP}: out_channels must be evenly divisible by the number of groups, but filter {filter_shape} "
            f"makes {filter_shape[3]} channels for {groups} groups"
        )


def _infer(node: Inference) -> tuple[Shape, ...]:
    """What TensorFlow's shape function checks: all but strides and dilations of batch and channels, and 32 bits."""
    attrs, layout = node.attrs, LAYOUTS[node.attrs["data_format"]]
    strides, dilations, explicit_paddings = attrs["strides"], attrs["dilations"], attrs["explicit_paddings"]
    for name in ("strides", "dilations"):
        conv.check_length(_OP, name, attrs[name])
        conv.check_positive(_OP, name, attrs[name], layout)
    conv.check_explicit_paddings(_OP, attrs["padding"], explicit_paddings, layout)
    image = with_rank(_OP, "input", node.shapes[0], 4)
    filter_height, filter_width, depth, out_channels = with_rank(_OP, "filter", node.shapes[1], 4)
    if depth is not None:
        conv.check_channels(_OP, image[layout.channels] or 0, (0, 0, depth, 0))

    def out_size(name: str, axis: int, filter_size: Size) -> Size:
        in_size = image[axis]
        if in_size is None or filter_size is None:
            return None
        return conv.place_along(
            _OP, name, axis, in_size, filter_size, strides, attrs["padding"], explicit_paddings, dilations
        ).out_size

    out_height = out_size("height", layout.height, filter_height)
    out_width = out_size("width", layout.width, filter_width)
    return (layout.shape(image[layout.batch], out_height, out_width, out_channels),)


OPERATOR = Operator(
    name="Conv2D",
    function=_OP,
    inputs=(Input("input", "T"), Input("filter", "T")),
    attrs=conv.ATTRS,
    outputs=(Input("output", "T"),),
    compute=_compute,
    infer=_infer,
    vjps={
        "input": Call("Conv2DBackpropInput", (ShapeOf("input"), "filter", GRAD), SAME),
        "filter": Call("Conv2DBackpropFilter", ("input", ShapeOf("filter"), GRAD), SAME),
    },
)
