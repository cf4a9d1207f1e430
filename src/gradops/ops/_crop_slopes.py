"""The gradients of CropAndResizeGradBoxes, made of crops.

A box's gradient sums, over its samples, ``g * slope * d position / d box``. Between two pixels the
bilinear sample's slope is the difference of two samples: on the pixel row below and on the one
above, at the sample's column. A sample at a given place is a crop of one pixel from a box of no
extent. So the gradient with respect to grads takes four such crops of the image, and the one with
respect to the image adds four such crops' gradients back.

Positions are computed in float32 in the order of CropAndResizeGradBoxes, so a sample falls between
the same pixels there and here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gradops.ops._crop import GRAD_IMAGE_TYPES
from gradops.ops._expressions import GRAD, Call, Constant, Differentiated, Expression, Gradients, ShapeOf, Undefined

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


class _Axis(NamedTuple):
    """The samples of all boxes along one axis, each tensor (num_boxes, count), broadcast where it is the same."""

    position: Call  #: in pixels; 0 for a sample outside
    is_inside: Call
    derivative: Call  #: of what the box's gradient is asked for, along the axis
    last: Call  #: the image's last pixel


def _axis(image_axis: int, crop_axis: int) -> _Axis:
    first, count = image_axis - 1, _size("grads", crop_axis)
    low, high = _column("boxes", first), _column("boxes", first + 2)
    last = Call("Cast", (_subtract(_size("image", image_axis), _integer(1)),), _FLOAT)
    is_one = Call("LessEqual", (count, _integer(1)))
    steps = Call("Cast", (Call("Range", (_integer(0), count, _integer(1))),), _FLOAT)
    intervals = Call("Cast", (Call("Maximum", (_subtract(count, _integer(1)), _integer(1))),), _FLOAT)
    ratio = Call("RealDiv", (last, intervals))
    spread = _add(_multiply(low, last), _multiply(steps, _multiply(_subtract(high, low), ratio)))
    position = Call("SelectV2", (is_one, _centre(low, high, last), spread))
    inside = Call("LogicalAnd", (Call("GreaterEqual", (position, _number(0))), Call("LessEqual", (position, last))))
    share = Call("SelectV2", (is_one, _multiply(_number(0.5), last), _multiply(steps, ratio)))
    rest = Call("SelectV2", (is_one, share, _subtract(last, share)))
    derivative = _add(_multiply(_column(GRAD, first), rest), _multiply(_column(GRAD, first + 2), share))
    return _Axis(Call("SelectV2", (inside, position, _number(0))), inside, derivative, last)


def _centre(low: Expression, high: Expression, last: Expression) -> Call:
    """The middle of a box; float64 but for the sum, as in the kernel."""
    doubled, end = (Call("Cast", (x,), {"DstT": "double"}) for x in (_add(low, high), last))
    middle = _multiply(_multiply(Constant(0.5, np.float64, is_literal=True), doubled), end)
    return Call("Cast", (middle,), _FLOAT)


def vjps(node: Differentiated) -> Gradients:
    rows, columns = _axis(1, 1), _axis(2, 2)
    num_boxes, height, width, depth = (_size("grads", axis) for axis in range(4))
    one, minus_one = _integer(1), _integer(-1)

    def over_samples(by_row: Expression, by_column: Expression) -> tuple[Call, Call]:
        return (
            _reshape(by_row, num_boxes, minus_one, one, one),
            _reshape(by_column, num_boxes, one, minus_one, one),
        )

    ones = Call("Fill", (Call("Pack", ((num_boxes, height, width, one),)), _number(1)))
    inside_rows, inside_columns = over_samples(
        Call("Cast", (rows.is_inside,), _FLOAT), Call("Cast", (columns.is_inside,), _FLOAT)
    )
    inside = _multiply(inside_rows, inside_columns)
    row_weights, column_weights = over_samples(rows.derivative, columns.derivative)
    box_ind = Call("Reshape", (_multiply(
        _reshape("box_ind", num_boxes, one, one, one), Call("Cast", (ones,), {"DstT": "int32"})
    ), _integer([-1])))  # fmt: skip

    def boxes_at(row: Expression, column: Expression) -> Call:
        """A box of no extent at every sample."""
        y, x = over_samples(_fraction(row, rows.last), _fraction(column, columns.last))
        corner = [_reshape(_multiply(ones, place), minus_one) for place in (y, x)]
        return Call("Pack", ((*corner, *corner),), {"axis": 1})

    def ends(axis: _Axis) -> tuple[Call, Call]:
        return Call("Ceil", (axis.position,)), Call("Floor", (axis.position,))

    (bottom, top), (right, left) = ends(rows), ends(columns)
    below, above = boxes_at(bottom, columns.position), boxes_at(top, columns.position)
    after, before = boxes_at(rows.position, right), boxes_at(rows.position, left)

    def crop(boxes: Expression) -> Call:
        return Call("CropAndResize", ("image", boxes, box_ind, _integer([1, 1])))

    def slope(end: Expression, start: Expression) -> Call:
        return Call("Reshape", (_subtract(crop(end), crop(start)), ShapeOf("grads")))

    def added_back(gradient: Expression, boxes: Expression) -> Call:
        pixels = _reshape(gradient, minus_one, one, one, depth)
        return Call("CropAndResizeGradImage", (pixels, boxes, box_ind, ShapeOf("image")), {"T": "$T"})

    by_rows, by_columns = _multiply(slope(below, above), row_weights), _multiply(slope(after, before), column_weights)
    gradients: dict[str, Expression] = {
        "grads": _multiply(_add(by_rows, by_columns), inside),
        "boxes": Undefined("second derivatives of CropAndResize with respect to its boxes are not implemented"),
    }
    if node.attrs["T"] in GRAD_IMAGE_TYPES:
        weighted = _multiply("grads", inside)
        down, across = _multiply(weighted, row_weights), _multiply(weighted, column_weights)
        gradients["image"] = Call("AddN", ((
            added_back(down, below), added_back(Call("Neg", (down,)), above),
            added_back(across, after), added_back(Call("Neg", (across,)), before),
        ),))  # fmt: skip
    return Gradients(gradients)


def _fraction(position: Expression, last: Expression) -> Call:
    """A place in pixels as a box's coordinate."""
    return Call("RealDiv", (position, Call("Maximum", (last, _number(1)))))
