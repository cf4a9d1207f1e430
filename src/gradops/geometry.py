"""Where a convolution's windows lie: the only place that knows TensorFlow's padding rule.

Pure integer arithmetic on one spatial axis at a time, in Python integers, so nothing overflows.
The rule follows ``tensorflow/core/framework/kernel_shape_util.cc`` (TensorFlow 2.21).
"""

from typing import NamedTuple, TypeVar

from gradops.errors import InvalidArgumentError

__all__ = ["LAYOUTS", "Layout", "Window", "effective_filter_size", "place_windows"]


_Size = TypeVar("_Size", int, int | None)


class Layout(NamedTuple):
    """The position of each named axis in a 4-D tensor."""

    batch: int
    height: int
    width: int
    channels: int

    def shape(self, batch: _Size, height: _Size, width: _Size, channels: _Size) -> tuple[_Size, _Size, _Size, _Size]:
        """Return the four sizes in this layout's order."""
        if self.channels == 1:
            return (batch, channels, height, width)
        return (batch, height, width, channels)


#: ``data_format`` -> where its axes are.
LAYOUTS = {"NHWC": Layout(0, 1, 2, 3), "NCHW": Layout(0, 2, 3, 1)}


class Window(NamedTuple):
    """How the windows of a convolution lie along one spatial axis."""

    out_size: int
    pad_before: int
    pad_after: int


def effective_filter_size(filter_size: int, dilation: int) -> int:
    """Return the number of input positions from a filter's first tap to its last."""
    return (filter_size - 1) * dilation + 1


def place_windows(
    padding: str,
    in_size: int,
    filter_size: int,
    stride: int,
    dilation: int,
    explicit: tuple[int, int] = (0, 0),
) -> Window:
    """Place a convolution's windows along one axis of `in_size` positions.

    Parameters
    ----------
    padding : {"SAME", "VALID", "EXPLICIT"}
        SAME makes ``ceil(in_size / stride)`` windows and pads as little as that takes, the odd
        position after; VALID pads nothing; EXPLICIT pads `explicit`.
    in_size, filter_size, stride, dilation : int
        Sizes in positions; `stride` and `dilation` at least 1.
    explicit : (int, int)
        Positions added before and after; used by EXPLICIT alone.

    Returns
    -------
    Window
        Its `out_size` is negative where the filter is longer than the padded input by more than a
        stride: the caller refuses that with the sizes at hand. Window ``i`` starts at position
        ``i * stride - pad_before`` of the input.

    Raises
    ------
    InvalidArgumentError
        If `padding` is none of the three.
    """
    extent = effective_filter_size(filter_size, dilation)
    if padding == "SAME":
        out_size = (in_size + stride - 1) // stride
        needed = max(0, (out_size - 1) * stride + extent - in_size)
        return Window(out_size, needed // 2, needed - needed // 2)
    if padding == "VALID":
        return Window(_divide(in_size - extent + stride, stride), 0, 0)
    if padding == "EXPLICIT":
        before, after = explicit
        return Window(_divide(in_size + before + after - extent + stride, stride), before, after)
    raise InvalidArgumentError(f"padding must be SAME, VALID or EXPLICIT, not {padding!r}")


def _divide(numerator: int, denominator: int) -> int:
    """Divide as C does, toward zero.

    TensorFlow's sizes depend on it: a filter longer than its input makes no window, not a negative
    count of them, as long as less than a stride is missing.
    """
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)
