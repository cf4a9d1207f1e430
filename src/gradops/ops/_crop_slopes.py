"""The gradients of CropAndResizeGradBoxes, made of crops.

A box's gradient sums, over its samples, ``g * slope * d position / d box``. A bilinear sample, its
slopes and the slope of a slope (by rows of the one by columns; all others are 0 between pixels) are
sums of the four pixels around it. A pixel is a crop of one pixel from a box of no extent. So the
gradients with respect to grads and boxes take four such crops of the image, and the one with respect
to the image adds four such crops' gradients back.

All of this can be differentiated again. What depends on nothing but sizes stops gradients. So does a
sample's position, where the order of float32 operations decides between which pixels it falls: that
order is the one of CropAndResizeGradBoxes, so a sample falls between the same pixels there and here.
Its dependence on the box is added as a term that is 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gradops.ops._crop import GRAD_IMAGE_TYPES
from gradops.ops._expressions import GRAD, Call, Constant, Differentiated, Expression, Gradients, ShapeOf

__all__ = ["vjps"]

_FLOAT: Final = {"DstT": "float"}


def _integer(value: object) -> Constant:
    return Constant(value, is_literal=True)


def _number(value: float) -> Constant:
    return Constant(value, np.float32, is_literal=True)


def _add(x: Expression, y: Expression) -> Call:
    return Call("Add", (x, y))


def _subtract(x: Expression, y: Expression) -> Call:
    return Call("Sub", (x, y))


def _multiply(x: Expression, y: Expression) -> Call:
    return Call("Mul", (x, y))


def _reshape(x: Expression, *sizes: Expression) -> Call:
    return Call("Reshape", (x, Call("Pack", (sizes,))))


def _size(tensor: str, axis: int) -> Call:
    """One size of an input, an int32 scalar."""
    ends = tuple(_integer([end]) for end in (axis, axis + 1, 1))
    return Call("StridedSlice", (ShapeOf(tensor), *ends), {"shrink_axis_mask": 1})


def _column(tensor: Expression, index: int) -> Call:
    """One column of an (num_boxes, 4) tensor, as (num_boxes, 1)."""
    return Call("Slice", (tensor, _integer([0, index]), _integer([-1, 1])))


def _stop(x: Expression) -> Call:
    return Call("StopGradient", (x,))


def _sum(x: Expression, axis: int) -> Call:
    return Call("Sum", (x, _integer([axis])))


class _Axis(NamedTuple):
    """The samples of all boxes along one axis, each tensor (num_boxes, count) unless it says otherwise."""

    start: Call  #: the pixel at or before each sample; 0 for one outside
    end: Call  #: the pixel at or after
    share: Call  #: of the pixel after, in the sample
    is_inside: Call
    derivative: Call  #: of what the box's gradient is asked for, along the axis
    by_low: Call  #: derivative of the position with respect to the box's first coordinate, (count,)
    by_high: Call  #: and its second
    last: Call  #: the image's last pixel, a scalar


def _axis(image_axis: int, crop_axis: int) -> _Axis:
    first, count = image_axis - 1, _size("grads", crop_axis)
    low, high = _column("boxes", first), _column("boxes", first + 2)
    last = _stop(Call("Cast", (_subtract(_size("image", image_axis), _integer(1)),), _FLOAT))
    is_one = Call("LessEqual", (count, _integer(1)))
    steps = Call("Cast", (Call("Range", (_integer(0), count, _integer(1))),), _FLOAT)
    intervals = Call("Cast", (Call("Maximum", (_subtract(count, _integer(1)), _integer(1))),), _FLOAT)
    ratio = Call("RealDiv", (last, intervals))
    spread = _add(_multiply(low, last), _multiply(steps, _multiply(_subtract(high, low), ratio)))
    position = _stop(Call("SelectV2", (is_one, _centre(low, high, last), spread)))
    inside = Call("LogicalAnd", (Call("GreaterEqual", (position, _number(0))), Call("LessEqual", (position, last))))
    by_high = _stop(Call("SelectV2", (is_one, _multiply(_number(0.5), last), _multiply(steps, ratio))))
    by_low = _stop(Call("SelectV2", (is_one, by_high, _subtract(last, by_high))))
    zero = _add(
        _multiply(_subtract(low, _stop(low)), by_low),
        _multiply(_subtract(high, _stop(high)), by_high),
    )
    place = _stop(Call("SelectV2", (inside, position, _number(0))))
    start, end = Call("Floor", (place,)), Call("Ceil", (place,))
    derivative = _add(_multiply(_column(GRAD, first), by_low), _multiply(_column(GRAD, first + 2), by_high))
    return _Axis(start, end, _add(_subtract(place, start), zero), inside, derivative, by_low, by_high, last)


def _centre(low: Expression, high: Expression, last: Expression) -> Call:
    """The middle of a box; float64 but for the sum, as in the kernel."""
    doubled, end = (Call("Cast", (x,), {"DstT": "double"}) for x in (_add(low, high), last))
    middle = _multiply(_multiply(Constant(0.5, np.float64, is_literal=True), doubled), end)
    return Call("Cast", (middle,), _FLOAT)


def vjps(node: Differentiated) -> Gradients:
    rows, columns = _axis(1, 1), _axis(2, 2)
    num_boxes, height, width, depth = (_size("grads", axis) for axis in range(4))
    one, all_samples = _integer(1), _integer([-1])

    def down(by_row: Expression) -> Call:
        return _reshape(by_row, num_boxes, height, one, one)

    def across(by_column: Expression) -> Call:
        return _reshape(by_column, num_boxes, one, width, one)

    def number(is_true: Expression) -> Call:
        return Call("Cast", (is_true,), _FLOAT)

    ones = Call("Fill", (Call("Pack", ((num_boxes, height, width, one),)), _number(1)))
    inside = _multiply(down(number(rows.is_inside)), across(number(columns.is_inside)))
    row_weights, column_weights = down(rows.derivative), across(columns.derivative)
    lower, right = down(rows.share), across(columns.share)
    upper, left = _subtract(_number(1), lower), _subtract(_number(1), right)
    box_ind = Call("Reshape", (_multiply(
        _reshape("box_ind", num_boxes, one, one, one), Call("Cast", (ones,), {"DstT": "int32"})
    ), all_samples))  # fmt: skip

    def pixels_at(row: Expression, column: Expression) -> Call:
        """A box of no extent for every sample."""
        places = down(_fraction(row, rows.last)), across(_fraction(column, columns.last))
        corner = [Call("Reshape", (_multiply(ones, place), all_samples)) for place in places]
        return Call("Pack", ((*corner, *corner),), {"axis": 1})

    corners = [pixels_at(row, column) for row in (rows.start, rows.end) for column in (columns.start, columns.end)]
    top_left, top_right, bottom_left, bottom_right = (
        Call("Reshape", (Call("CropAndResize", ("image", corner, box_ind, _integer([1, 1]))), ShapeOf("grads")))
        for corner in corners
    )
    left_slope, right_slope = _subtract(bottom_left, top_left), _subtract(bottom_right, top_right)
    top_slope, bottom_slope = _subtract(top_right, top_left), _subtract(bottom_right, bottom_left)
    by_row = _add(_multiply(left, left_slope), _multiply(right, right_slope))
    by_column = _add(_multiply(upper, top_slope), _multiply(lower, bottom_slope))
    weighted = _multiply("grads", inside)
    twist = _multiply(weighted, _subtract(right_slope, left_slope))
    gradients: dict[str, Expression] = {
        "grads": _multiply(_add(_multiply(by_row, row_weights), _multiply(by_column, column_weights)), inside),
        "boxes": _by_boxes(_sum(twist, 3), rows, columns, num_boxes, height, width),
    }
    if node.attrs["T"] in GRAD_IMAGE_TYPES:
        along_rows, along_columns = _multiply(weighted, row_weights), _multiply(weighted, column_weights)
        at_left, at_right = _multiply(along_rows, left), _multiply(along_rows, right)
        at_top, at_bottom = _multiply(along_columns, upper), _multiply(along_columns, lower)
        parts = (
            Call("Neg", (_add(at_left, at_top),)), _subtract(at_top, at_right),
            _subtract(at_left, at_bottom), _add(at_right, at_bottom),
        )  # fmt: skip
        count = _multiply(_multiply(num_boxes, height), width)
        gradients["image"] = Call("AddN", (tuple(
            Call("CropAndResizeGradImage", (
                _reshape(part, count, one, one, depth), corner, box_ind, ShapeOf("image")
            ), {"T": "$T"})
            for part, corner in zip(parts, corners, strict=True)
        ),))  # fmt: skip
    return Gradients(gradients)


def _by_boxes(
    twist: Expression, rows: _Axis, columns: _Axis, num_boxes: Expression, height: Expression, width: Expression
) -> Call:
    """The second derivative by boxes, of every sample's by row and column, (num_boxes, height, width)."""
    by_rows = _sum(_multiply(twist, _reshape(columns.derivative, num_boxes, _integer(1), width)), 2)
    by_columns = _sum(_multiply(twist, _reshape(rows.derivative, num_boxes, height, _integer(1))), 1)
    return Call("Pack", ((
        _sum(_multiply(by_rows, rows.by_low), 1), _sum(_multiply(by_columns, columns.by_low), 1),
        _sum(_multiply(by_rows, rows.by_high), 1), _sum(_multiply(by_columns, columns.by_high), 1),
    ),), {"axis": 1})  # fmt: skip


def _fraction(position: Expression, last: Expression) -> Call:
    """A place in pixels as a box's coordinate."""
    return Call("RealDiv", (position, _stop(Call("Maximum", (last, _number(1))))))
