"""Conv2DBackpropInput: the gradient of a 2-D convolution with respect to its input."""

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
from gradops.ops._inference import Inference, Shape, merge_sizes, sizes_input, with_rank
from gradops.ops._operator import Input, Operator
from gradops.ops._sizes import SizeVector, size_vector

__all__ = ["OPERATOR", "conv2d_backprop_input"]

_OP = "conv2d_backprop_input"


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Sequence[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    *,
    out: npt.NDArray[Any] | None = None,
) -> Any:
    """Gradient of `conv2d` with respect to its input; also called a transposed convolution.

    Parameters
    ----------
    input_sizes : (4,) or (2,) int32
        Shape of the convolution's input, which is the result's: batch, height, width, channels in
        the order of `data_format`. Two values are height and width; the batch is then
        `out_backprop`'s and the channels are the filter's. Every value at least 0; -1 means
        nothing here.
    filter : (filter_height, filter_width, in_channels / groups, out_channels) float16, bfloat16, \
float32, float64 or int32
        HWIO in either `data_format`. Its third dimension sets the number of groups.
    out_backprop : (batch, out_height, out_width, out_channels), dtype of `filter`
        Gradient with respect to the convolution's output, in `data_format` order.
    strides : sequence of 4 int
        Step of the window along each dimension, in `data_format` order; 1 for batch and channels.
    padding : {"SAME", "VALID", "EXPLICIT"}
        The convolution's padding rule; see `gradops.geometry.place_windows`.
    use_cudnn_on_gpu : bool, default True
        Accepted for the signature's sake; it has no effect on a CPU.
    explicit_paddings : sequence of 8 int, default ()
        With padding EXPLICIT, positions added before and after each dimension, in `data_format`
        order; 0 for batch and channels. May exceed the filter. Empty otherwise.
    data_format : {"NHWC", "NCHW"}, default "NHWC"
        Order of the dimensions of `out_backprop`, the result, and every attribute of 4 or 8 values.
    dilations : sequence of 4 int, default (1, 1, 1, 1)
        Distance of the filter's taps along each dimension; 1 for batch and channels.
    out : numpy.ndarray, optional
        Array to write the result into: exactly its shape and dtype, writable, apart from the inputs.

    Returns
    -------
    array of shape `input_sizes`, dtype of `filter`
        Of the kind of `filter`: a NumPy array, a PyTorch tensor, a JAX array, ...

    Raises
    ------
    TypeError
        If an argument is of a wrong kind: no array, no list of integers, no string; a tensor that
        requires a gradient, is not on the CPU, sparse, or traced.
    InvalidArgumentError
        In this order, if: an attribute is none of its allowed values; a dtype is wrong or the
        dtypes differ; a stride or dilation exceeds 32 bits; `strides` has not 4 values, or one of
        height or width is below 1; the same of `dilations`; `explicit_paddings` has not 8 values,
        a negative one, or one for batch or channels, or is given without EXPLICIT; `out_backprop`
        has not rank 4; `input_sizes` has not rank 1, a negative value, more than 2**63 - 1
        elements, or neither 4 nor 2 values; `filter` has not rank 4; the batches differ; the
        filter's depth is 0 or does not divide the input's channels; `filter` and `out_backprop`
        differ in out_channels; the convolution's output would have a negative size, or another
        size than `out_backprop`; the groups do not divide out_channels, or there are none.
    UnimplementedError
        If a stride or dilation of batch or channels is not 1.
    ResourceExhaustedError
        If there is no memory for the result or the workspace: a copy of the arrays in float32 for
        float16 and bfloat16, one in NHWC for NCHW, and the repacked filter.

    See Also
    --------
    conv2d : the convolution that this is the adjoint of.

    Notes
    -----
    With ``y = i * stride_height + a * dilation_height - pad_top`` and likewise for ``x``::

        result[b, y, x, c] = sum over i, j, a, g, k of filter[a, g, c, k] * out_backprop[b, i, j, k]

    where ``k`` runs over the out_channels of ``c``'s group. Pixels that no tap reaches are 0.

    The sum of a pixel runs in ascending ``i``, then ``j``, then ``k``, with fused multiply-adds, in
    blocks whose sums are added; float16 and bfloat16 sum in float32 and round once; int32 wraps
    modulo 2**32. The order depends on nothing but the sizes of one image, so results have the same
    bits for any number of threads, any split of the batch, and any CPU.

    Follows ``tensorflow/core/kernels/conv_grad_input_ops.cc`` (TensorFlow 2.21), without its limits
    on CPUs: every layout, dilation, group count and padding works for every dtype.

    Examples
    --------
    >>> import numpy as np, gradops
    >>> filter = np.array([[1, 2], [3, 4]], np.float32).reshape(2, 2, 1, 1)
    >>> out_backprop = np.array([[1, 2], [3, 4]], np.float32).reshape(1, 2, 2, 1)
    >>> gradops.conv2d_backprop_input([1, 3, 3, 1], filter, out_backprop, [1, 1, 1, 1], "VALID")[0, :, :, 0]
    array([[ 1.,  4.,  4.],
           [ 6., 20., 16.],
           [ 9., 24., 16.]], dtype=float32)
    """
    return OPERATOR(
        (input_sizes, filter, out_backprop),
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
    input_sizes: npt.NDArray[Any],
    filter: npt.NDArray[Any],
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
    convolution = plan_convolution(
        size_vector(input_sizes),
        filter.shape,
        out_backprop.shape,
        strides,
        padding,
        explicit_paddings,
        data_format,
        dilations,
    )
    return convolution(filter, out_backprop, out)


@functools.lru_cache(maxsize=256)
def plan_convolution(
    input_sizes: SizeVector,
    filter_shape: tuple[int, ...],
    out_backprop_shape: tuple[int, ...],
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
    conv.check_length(_OP, "strides", strides)
    conv.check_strides(_OP, strides, layout)
    conv.check_length(_OP, "dilations", dilations)
    conv.check_dilations(_OP, dilations, layout)
    conv.check_explicit_paddings(_OP, padding, explicit_paddings, layout)
    conv.check_rank(_OP, "out_backprop", out_backprop_shape)
    sizes = _full_input_sizes(input_sizes, filter_shape, out_backprop_shape, data_format)
    conv.check_rank(_OP, "filter", filter_shape)

    batch, in_channels = sizes[layout.batch], sizes[layout.channels]
    out_batch, out_channels = out_backprop_shape[layout.batch], out_backprop_shape[layout.channels]
    if batch != out_batch:
        raise InvalidArgumentError(
            f"{_OP}: input_sizes and out_backprop must have the same batch size, but input_sizes {list(sizes)} has "
            f"{batch} and out_backprop {out_backprop_shape} has {out_batch}"
        )
    conv.check_channels(_OP, in_channels, filter_shape)
    if filter_shape[3] != out_channels:
        raise InvalidArgumentError(
            f"{_OP}: filter and out_backprop must have the same out_channels, but filter {filter_shape} makes "
            f"{filter_shape[3]} and out_backprop {out_backprop_shape} has {out_channels}. Give out_backprop "
            f"{filter_shape[3]} channels or a filter ending in {out_channels}."
        )
    in_sizes = sizes[layout.height], sizes[layout.width]
    out_sizes = out_backprop_shape[layout.height], out_backprop_shape[layout.width]
    placed = conv.windows(
        _OP, layout, in_sizes, filter_shape, strides, padding, explicit_paddings, dilations, out_sizes
    )
    groups = in_channels // filter_shape[2]
    if groups == 0 or out_channels % groups:
        raise InvalidArgumentError(
            f"{_OP}: input_sizes {list(sizes)} with filter {filter_shape} makes {groups} groups of channels, "
            f"which must be at least 1 and divide the {out_channels} channels of out_backprop"
        )
    convolution = conv.sizes_of(data_format, batch, in_channels, in_sizes, filter_shape, strides, dilations, placed)
    return conv.Convolution(_OP, "input_gradient", convolution)


def _full_input_sizes(
    input_sizes: SizeVector,
    filter_shape: tuple[int, ...],
    out_backprop_shape: tuple[int, ...],
    data_format: str,
) -> tuple[int, ...]:
    """Return the four input sizes, completing height and width alone."""
    if len(input_sizes.shape) != 1:
        raise InvalidArgumentError(
            f"{_OP}: input_sizes must be 1-dimensional, got rank {len(input_sizes.shape)}: shape {input_sizes.shape}"
        )
    length, values = input_sizes.shape[0], input_sizes.values
    _check_sizes_length(input_sizes.shape, values, data_format)
    if min(values) < 0:
        raise InvalidArgumentError(
            f"{_OP}: every element of input_sizes must be >= 0, got {list(values)}. A size of -1 is not inferred."
        )
    if length == 2:
        # TensorFlow reads the filter's depth here, before it checks the filter's rank, and dies.
        conv.check_rank(_OP, "filter", filter_shape)
        layout = LAYOUTS[data_format]
        height, width = values
        values = layout.shape(out_backprop_shape[layout.batch], height, width, filter_shape[2])
    if math.prod(values) > 2**63 - 1:
        raise InvalidArgumentError(f"{_OP}: input_sizes {list(values)} makes more than 2**63 - 1 elements")
    return values


def _check_sizes_length(shape: tuple[int, ...], values: tuple[int | None, ...], data_format: str) -> None:
    if shape[0] not in (4, 2):
        raise InvalidArgumentError(
            f"{_OP}: input_sizes must contain 4 values or 2 values, got {shape[0]}: {list(values)}. "
            f"Give the whole shape in {data_format} order, or height and width."
        )


def _infer(node: Inference) -> tuple[Shape, ...]:
    """What TensorFlow's shape function checks: ranks, batch, output channels, and how many sizes there are."""
    layout = LAYOUTS[node.attrs["data_format"]]
    sizes = sizes_input(node, 0, "input_sizes")
    *_, depth, out_channels = with_rank(_OP, "filter", node.shapes[1], 4)
    out_backprop = with_rank(_OP, "out_backprop", node.shapes[2], 4)
    merge_sizes(_OP, "out_channels of filter and out_backprop", out_channels, out_backprop[layout.channels])
    batch = out_backprop[layout.batch]
    if sizes is None:
        return (layout.shape(batch, None, None, None),)
    if len(sizes) == 2:
        return (layout.shape(batch, *sizes, depth),)
    _check_sizes_length((len(sizes),), sizes, node.attrs["data_format"])
    batch = merge_sizes(_OP, "batch sizes of input_sizes and out_backprop", sizes[layout.batch], batch)
    return (layout.shape(batch, *(sizes[axis] for axis in layout[1:])),)


OPERATOR = Operator(
    name="Conv2DBackpropInput",
    function=_OP,
    inputs=(Input("input_sizes", "int32", is_sizes=True), Input("filter", "T"), Input("out_backprop", "T")),
    attrs=conv.ATTRS,
    outputs=(Input("output", "T"),),
    compute=_compute,
    infer=_infer,
    vjps={
        "filter": Call("Conv2DBackpropFilter", (GRAD, ShapeOf("filter"), "out_backprop"), SAME),
        "out_backprop": Call("Conv2D", (GRAD, "filter"), SAME),
    },
)
