"""Conv2DBackpropFilter: the gradient of a convolution with respect to its filter."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy.typing as npt

from gradops import arrays, reference
from gradops.errors import InvalidArgumentError
from gradops.geometry import LAYOUTS
from gradops.ops import _convolution as conv
from gradops.ops._expressions import GRAD, SAME, Call, ShapeOf
from gradops.ops._inference import Inference, Shape, sizes_input
from gradops.ops._operator import Attr, Input, Operator
from gradops.ops._sizes import SizeVector, size_vector

__all__ = ["OPERATOR", "conv2d_backprop_filter"]

_OP = "conv2d_backprop_filter"


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Any = (),
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    *,
    out: npt.NDArray[Any] | None = None,
) -> Any:
    """Gradient of `conv2d` with respect to its filter: the input correlated with the result's gradient.

    Parameters
    ----------
    input : (batch, in_height, in_width, in_channels) float16, bfloat16, float32 or float64
        What the convolution was applied to, its axes in `data_format` order.
    filter_sizes : (4,) int32
        Shape of the filter: filter_height, filter_width, in_channels / groups, out_channels.
    out_backprop : (batch, out_height, out_width, out_channels) array of the same dtype
        Gradient with respect to the convolution's result, its axes in `data_format` order.
    strides, padding, use_cudnn_on_gpu, explicit_paddings, data_format, dilations
        Those of the convolution; see `conv2d`.
    out : numpy.ndarray, optional
        Array to write the result into: exactly its shape and dtype, writable, apart from the inputs.

    Returns
    -------
    array of shape `filter_sizes` and the inputs' dtype
        Of the kind of `input`. A tap that meets no pixel is 0.

    Raises
    ------
    TypeError
        If an argument is of a wrong kind; see `conv2d_backprop_input`.
    InvalidArgumentError
        In this order, if: an attribute or dtype is none of its allowed values; `strides` has not 4
        values, or not 1 for batch and channels and positive ones for height and width; `explicit_paddings` does not fit
        `padding`; `dilations` has not 4 such values; `filter_sizes` has not rank 1,
        a negative size, or more than 2**63 - 1 elements; `input` has not rank 4; `filter_sizes` has
        not 4 values; `out_backprop` has not rank 4; the batches differ; the filter's depth is not
        positive or does not divide the input's; the output channels differ; the windows do not fit
        `out_backprop`; the groups do not divide the output channels.
    ResourceExhaustedError
        If there is no memory for the result.

    Notes
    -----
    ::

        result[a, g, c, k] = sum over b, i, j of
            input[b, i * stride_height + a * dilation_height - pad_top, ..., c] * out_backprop[b, i, j, k]

    Follows ``tensorflow/core/kernels/conv_grad_filter_ops.cc`` (TensorFlow 2.21), without its limits
    on CPUs: every layout, dilation, group count and padding works.

    Examples
    --------
    >>> import numpy as np, gradops
    >>> image = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1)
    >>> out_backprop = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 2, 2, 1)
    >>> conv2d_backprop_filter(image, [2, 2, 1, 1], out_backprop, [1, 1, 1, 1], "VALID")[:, :, 0, 0]
    array([[37., 47.],
           [67., 77.]], dtype=float32)
    """
    return OPERATOR(
        (input, filter_sizes, out_backprop),
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
    filter_sizes: npt.NDArray[Any],
    out_backprop: npt.NDArray[Any],
    *,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
    out: npt.NDArray[Any] | None = None,
    **_: Any,
) -> npt.NDArray[Any]:
    sizes = check_shapes(
        input.shape,
        size_vector(filter_sizes),
        out_backprop.shape,
        strides,
        padding,
        explicit_paddings,
        data_format,
        dilations,
    )
    result = arrays.empty(_OP, sizes, input.dtype, out)
    if result.size:
        result[...] = reference.conv2d_backprop_filter(
            input, sizes, out_backprop, strides, padding, True, explicit_paddings, data_format, dilations
        )
    return arrays.finish(result, out)


@functools.lru_cache(maxsize=256)
def check_shapes(
    input_shape: tuple[int, ...],
    filter_sizes: SizeVector,
    out_backprop_shape: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    data_format: str,
    dilations: tuple[int, ...],
) -> tuple[int, ...]:
    """Check everything, in TensorFlow's order, and return the filter's shape."""
    layout = LAYOUTS[data_format]
    conv.check_int32(_OP, "strides", strides)
    conv.check_int32(_OP, "dilations", dilations)
    conv.check_length(_OP, "strides", strides)
    conv.check_strides(_OP, strides, layout, InvalidArgumentError)
    conv.check_explicit_paddings(_OP, padding, explicit_paddings, layout)
    conv.check_length(_OP, "dilations", dilations)
    conv.check_dilations(_OP, dilations, layout, InvalidArgumentError)
    sizes = _checked_sizes(filter_sizes)
    conv.check_rank(_OP, "input", input_shape)
    conv.check_rank(_OP, "filter_sizes", sizes)
    conv.check_rank(_OP, "out_backprop", out_backprop_shape)
    batch, out_batch = input_shape[layout.batch], out_backprop_shape[layout.batch]
    if batch != out_batch:
        raise InvalidArgumentError(
            f"{_OP}: input and out_backprop must have the same batch size, but input {input_shape} has {batch} and "
            f"out_backprop {out_backprop_shape} has {out_batch}"
        )
    in_channels, out_channels = input_shape[layout.channels], out_backprop_shape[layout.channels]
    conv.check_channels(_OP, in_channels, sizes)
    if sizes[3] != out_channels:
        raise InvalidArgumentError(
            f"{_OP}: filter and out_backprop must have the same out_channels, but filter_sizes {list(sizes)} makes "
            f"{sizes[3]} and out_backprop {out_backprop_shape} has {out_channels}"
        )
    in_sizes = input_shape[layout.height], input_shape[layout.width]
    out_sizes = out_backprop_shape[layout.height], out_backprop_shape[layout.width]
    conv.windows(_OP, layout, in_sizes, sizes, strides, padding, explicit_paddings, dilations, out_sizes)
    groups = in_channels // sizes[2]
    if groups == 0 or out_channels % groups:
        raise InvalidArgumentError(
            f"{_OP}: input {input_shape} with filter_sizes {list(sizes)} makes {groups} groups of channels, "
            f"which must be at least 1 and divide the {out_channels} channels of out_backprop"
        )
    return sizes


def _checked_sizes(filter_sizes: SizeVector) -> tuple[int, ...]:
    shape, sizes = filter_sizes
    if len(shape) != 1:
        raise InvalidArgumentError(f"{_OP}: filter_sizes must be 1-dimensional, got rank {len(shape)}: shape {shape}")
    if min(sizes, default=0) < 0:
        raise InvalidArgumentError(f"{_OP}: every element of filter_sizes must be >= 0, got {list(sizes)}")
    if math.prod(sizes) > 2**63 - 1:
        raise InvalidArgumentError(f"{_OP}: filter_sizes {list(sizes)} makes more than 2**63 - 1 elements")
    return sizes


def _infer(node: Inference) -> tuple[Shape, ...]:
    """As TensorFlow's shape function, it looks at nothing but how many sizes there are."""
    return (sizes_input(node, 1, "filter_sizes", 4),)


OPERATOR = Operator(
    name="Conv2DBackpropFilter",
    function=_OP,
    inputs=(Input("input", "T"), Input("filter_sizes", "int32", is_sizes=True), Input("out_backprop", "T")),
    attrs=(Attr("T", "type", allowed=("half", "bfloat16", "float", "double")), *conv.ATTRS[1:]),
    outputs=(Input("output", "T"),),
    compute=_compute,
    infer=_infer,
    vjps={
        "input": Call("Conv2DBackpropInput", (ShapeOf("input"), GRAD, "out_backprop"), SAME),
        "out_backprop": Call("Conv2D", ("input", GRAD), SAME),
    },
)
