"""What the convolutions share: their attributes, the checks, and the call into C++.

Each operator's file lists the checks in TensorFlow's order; this file holds each check once.
`op` is the eager function's name, which every message begins with.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gradops import _core, arrays
from gradops.errors import GradopsError, InvalidArgumentError, UnimplementedError
from gradops.geometry import LAYOUTS, Layout, Window, place_windows
from gradops.ops._operator import Attr

__all__ = [
    "ATTRS",
    "Convolution",
    "ConvolutionSizes",
    "check_channels",
    "check_dilations",
    "check_explicit_paddings",
    "check_int32",
    "check_length",
    "check_positive",
    "check_rank",
    "check_strides",
    "place_along",
    "sizes_of",
    "windows",
]

_INT32_MAX = 2**31 - 1

#: The attributes of all convolutions, in the order of TensorFlow's OpDef.
ATTRS = (
    Attr("T", "type", allowed=("half", "bfloat16", "float", "double", "int32")),
    Attr("strides", "list(int)"),
    Attr("use_cudnn_on_gpu", "bool", True),
    Attr("padding", "string", allowed=("SAME", "VALID", "EXPLICIT")),
    Attr("explicit_paddings", "list(int)", ()),
    Attr("data_format", "string", "NHWC", allowed=("NHWC", "NCHW")),
    Attr("dilations", "list(int)", (1, 1, 1, 1)),
)


class ConvolutionSizes(NamedTuple):
    """All sizes of one checked convolution.

    Conv2D maps input to output; its gradient with respect to the input maps back.
    """

    data_format: str
    batch: int
    in_height: int
    in_width: int
    in_channels: int
    filter_height: int
    filter_width: int
    out_height: int
    out_width: int
    out_channels: int
    groups: int
    stride_height: int
    stride_width: int
    dilation_height: int
    dilation_width: int
    pad_top: int
    pad_left: int

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        return LAYOUTS[self.data_format].shape(self.batch, self.in_height, self.in_width, self.in_channels)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        return LAYOUTS[self.data_format].shape(self.batch, self.out_height, self.out_width, self.out_channels)


def sizes_of(
    data_format: str,
    batch: int,
    in_channels: int,
    in_sizes: tuple[int, int],
    filter_shape: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    placed: tuple[Window, Window],
) -> ConvolutionSizes:
    """Put the sizes of a checked convolution together."""
    layout = LAYOUTS[data_format]
    rows, columns = placed
    return ConvolutionSizes(
        data_format=data_format,
        batch=batch,
        in_height=in_sizes[0],
        in_width=in_sizes[1],
        in_channels=in_channels,
        filter_height=filter_shape[0],
        filter_width=filter_shape[1],
        out_height=rows.out_size,
        out_width=columns.out_size,
        out_channels=filter_shape[3],
        groups=in_channels // filter_shape[2],
        stride_height=strides[layout.height],
        stride_width=strides[layout.width],
        dilation_height=dilations[layout.height],
        dilation_width=dilations[layout.width],
        pad_top=rows.pad_before,
        pad_left=columns.pad_before,
    )


# --- attributes ---


def check_int32(op: str, name: str, values: tuple[int, ...]) -> None:
    """TensorFlow keeps strides and dilations in 32 bits."""
    for value in values:
        if not -(2**31) <= value <= _INT32_MAX:
            raise InvalidArgumentError(f"{op}: {name} has value {value} out of range for an int32")


def check_length(op: str, name: str, values: tuple[int, ...]) -> None:
    if len(values) != 4:
        raise InvalidArgumentError(
            f"{op}: {name} must have 4 values, one for each dimension in data_format order, "
            f"got {len(values)}: {list(values)}"
        )


def check_strides(
    op: str, strides: tuple[int, ...], layout: Layout, refusal: type[GradopsError] = UnimplementedError
) -> None:
    """Strides of batch and channels are 1, of height and width at least 1."""
    _check_batch_and_channels(op, "strides", strides, layout, refusal)
    check_positive(op, "strides", strides, layout)


def check_dilations(
    op: str, dilations: tuple[int, ...], layout: Layout, refusal: type[GradopsError] = UnimplementedError
) -> None:
    """Dilations of batch and channels are 1, of height and width at least 1."""
    _check_batch_and_channels(op, "dilations", dilations, layout, refusal)
    check_positive(op, "dilations", dilations, layout)


def check_positive(op: str, name: str, values: tuple[int, ...], layout: Layout) -> None:
    if values[layout.height] <= 0 or values[layout.width] <= 0:
        raise InvalidArgumentError(f"{op}: {name} of height and width must be larger than 0, got {list(values)}")


def _check_batch_and_channels(
    op: str, name: str, values: tuple[int, ...], layout: Layout, refusal: type[GradopsError]
) -> None:
    if values[layout.batch] != 1 or values[layout.channels] != 1:
        raise refusal(
            f"{op}: {name} in the batch and channel dimensions must be 1, got {list(values)} "
            f"for {'NCHW' if layout.channels == 1 else 'NHWC'}"
        )


def check_explicit_paddings(op: str, padding: str, explicit_paddings: tuple[int, ...], layout: Layout) -> None:
    """EXPLICIT takes 8 values, none negative, none for batch or channels; SAME and VALID take none."""
    if padding != "EXPLICIT":
        if explicit_paddings:
            raise InvalidArgumentError(
                f"{op}: explicit_paddings must be empty with padding {padding!r}, got {list(explicit_paddings)}. "
                "Use padding 'EXPLICIT', or leave explicit_paddings away."
            )
        return
    if len(explicit_paddings) != 8:
        raise InvalidArgumentError(
            f"{op}: explicit_paddings must contain 8 values, [before, after] for each dimension in data_format "
            f"order, got {len(explicit_paddings)}: {list(explicit_paddings)}"
        )
    if min(explicit_paddings) < 0:
        raise InvalidArgumentError(
            f"{op}: all elements of explicit_paddings must be nonnegative, got {list(explicit_paddings)}"
        )
    b, c = 2 * layout.batch, 2 * layout.channels
    if any(explicit_paddings[b : b + 2]) or any(explicit_paddings[c : c + 2]):
        raise InvalidArgumentError(
            f"{op}: nonzero explicit_paddings in the batch or channel dimensions are not supported, "
            f"got {list(explicit_paddings)}"
        )
    if max(explicit_paddings) > _INT32_MAX:
        raise InvalidArgumentError(f"{op}: explicit_paddings must fit 32 bits, got {list(explicit_paddings)}")


# --- shapes ---


def check_rank(op: str, name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 4:
        raise InvalidArgumentError(f"{op}: {name} must be 4-dimensional, got rank {len(shape)}: shape {shape}")


def check_channels(op: str, in_channels: int, filter_shape: tuple[int, ...]) -> None:
    """The filter's depth is positive and divides the input's channels: the quotient counts groups."""
    depth = filter_shape[2]
    if depth <= 0:
        raise InvalidArgumentError(
            f"{op}: filter depth (its dimension 2) must be greater than zero, got filter {filter_shape}"
        )
    if in_channels % depth:
        raise InvalidArgumentError(
            f"{op}: the input's depth must be evenly divisible by the filter's, but the input has {in_channels} "
            f"channels and filter {filter_shape} takes {depth}"
        )


def windows(
    op: str,
    layout: Layout,
    in_sizes: tuple[int, int],
    filter_shape: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    dilations: tuple[int, ...],
    out_sizes: tuple[int, int] | None = None,
) -> tuple[Window, Window]:
    """Place the windows along height and width, and compare with `out_sizes` where given."""
    placed = []
    for i, name in enumerate(("height", "width")):
        axis = layout.height if i == 0 else layout.width
        window = place_along(
            op, name, axis, in_sizes[i], filter_shape[i], strides, padding, explicit_paddings, dilations
        )
        if out_sizes is not None and out_sizes[i] != window.out_size:
            raise InvalidArgumentError(
                f"{op}: out_backprop has {name} {out_sizes[i]}, but an input of {name} {in_sizes[i]} with a filter "
                f"of {filter_shape[i]}, stride {strides[axis]}, dilation {dilations[axis]} and padding {padding} "
                f"makes {window.out_size}. Give out_backprop {name} {window.out_size}."
            )
        placed.append(window)
    return placed[0], placed[1]


def place_along(
    op: str,
    name: str,
    axis: int,
    in_size: int,
    filter_size: int,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Window:
    """Place the windows along one axis, of which there may be none but not fewer."""
    explicit = explicit_paddings[2 * axis : 2 * axis + 2] if explicit_paddings else (0, 0)
    window = place_windows(padding, in_size, filter_size, strides[axis], dilations[axis], (explicit[0], explicit[1]))
    if window.out_size < 0:
        raise InvalidArgumentError(
            f"{op}: computed output {name} would be negative: {window.out_size}. An input of {name} "
            f"{in_size} with padding {padding} is too small for a filter of {filter_size} "
            f"dilated by {dilations[axis]}."
        )
    return window


# --- the call into C++ ---


class Convolution:
    """One checked convolution in one direction; remembered by each operator for its arguments."""

    def __init__(self, op: str, direction: Literal["forward", "input_gradient"], sizes: ConvolutionSizes) -> None:
        self.sizes = sizes
        self.result_shape = sizes.output_shape if direction == "forward" else sizes.input_shape
        self._op = op
        self._direction = direction
        self._plans: dict[np.dtype[Any], _core.Convolution] = {}

    def plan(self, dtype: np.dtype[Any]) -> _core.Convolution:
        """Return the native plan for an element type, made on first use."""
        plan = self._plans.get(dtype)
        if plan is None:
            data_format, *numbers = self.sizes
            plan = _core.Convolution(self._direction, dtype.name, data_format == "NCHW", *numbers)
            self._plans[dtype] = plan
        return plan

    def __call__(
        self, filter: npt.NDArray[Any], source: npt.NDArray[Any], out: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any]:
        """Compute the result; a sum of no terms is 0, so an empty `source` or `filter` makes zeros."""
        dtype = source.dtype
        result = arrays.empty(self._op, self.result_shape, dtype, out)
        if result.size:
            if source.size and filter.size:
                view, op = arrays.native_view, self._op
                filter, source = arrays.contiguous(op, filter), arrays.contiguous(op, source)
                self.plan(dtype).run(view(filter), view(source), view(result))
            else:
                result.fill(0)
        return arrays.finish(result, out)
