"""CropAndResize: worked examples and rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gradops
from gradops.errors import InvalidArgumentError, OutOfRangeError


def row(*values: float, dtype: Any = np.float32) -> npt.NDArray[Any]:
    """An image of one row and one channel."""
    return np.array(values, dtype).reshape(1, 1, -1, 1)


def crop_row(image: npt.NDArray[Any], x1: float, x2: float, count: int, **options: Any) -> list[float]:
    """Samples of a one-row image along x."""
    crops = gradops.crop_and_resize(image, [[0, x1, 0, x2]], [0], [1, count], **options)
    values: list[float] = crops[0, 0, :, 0].tolist()
    return values


NINE = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1)

# what, box, crop size, options, expected rows
EXAMPLES: list[tuple[str, list[float], list[int], dict[str, Any], list[list[float]]]] = [
    ("the corners", [0, 0, 1, 1], [2, 2], {}, [[1, 3], [7, 9]]),
    ("a crop of one takes the centre", [0, 0, 1, 1], [1, 1], {}, [[5]]),
    ("a reversed box flips", [1, 1, 0, 0], [2, 2], {}, [[9, 7], [3, 1]]),
    ("reversed in x alone", [0, 1, 1, 0], [2, 2], {}, [[3, 1], [9, 7]]),
    (
        "outside is extrapolated",
        [-1, -1, 2, 2],
        [3, 3],
        {"extrapolation_value": 9.0},
        [[9, 9, 9], [9, 5, 9], [9, 9, 9]],
    ),
    ("between pixels", [0, 0, 0.5, 0.5], [1, 1], {}, [[3]]),
    ("a degenerate box repeats its point", [0.5, 0.25, 0.5, 0.25], [2, 3], {}, [[4.5] * 3] * 2),
    ("crop height 1 takes the centre row, but all columns", [0, 0, 1, 1], [1, 3], {}, [[4, 5, 6]]),
    ("nearest: halves go up", [0, 0.25, 0, 0.75], [1, 2], {"method": "nearest"}, [[2, 3]]),
]


@pytest.mark.parametrize(
    ("box", "size", "options", "expected"), [case[1:] for case in EXAMPLES], ids=[case[0] for case in EXAMPLES]
)
def test_worked_example(
    box: list[float], size: list[int], options: dict[str, Any], expected: list[list[float]]
) -> None:
    result = gradops.crop_and_resize(NINE, [box], [0], size, **options)
    assert result.dtype == np.float32
    assert result[0, :, :, 0].tolist() == expected


@pytest.mark.parametrize(
    "dtype", ["uint8", "uint16", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_the_result_is_float32_for_every_image_type(dtype: str) -> None:
    result = gradops.crop_and_resize(NINE.astype(dtype), [[0, 0, 1, 0.5]], [0], [2, 2])
    assert result.dtype == np.float32
    assert result[0, :, :, 0].tolist() == [[1, 2], [7, 8]]


# element type, pixel, what float32 makes of it
CONVERSIONS = [
    (np.int64, 2**53 + 1, 9007199254740992.0),
    (np.int32, 2**24 + 1, 16777216.0),
    (np.int64, -(2**63), -(2.0**63)),
    (np.uint16, 65535, 65535.0),
    (np.int8, -128, -128.0),
    (np.uint8, 255, 255.0),
    (np.float64, 0.1, float(np.float32(0.1))),
    (np.float16, 65504, 65504.0),
    (np.float16, 2.0**-24, 2.0**-24),
]


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize(("dtype", "pixel", "expected"), CONVERSIONS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_pixels_become_float32_first(dtype: Any, pixel: Any, expected: float, method: str) -> None:
    image = np.full((1, 1, 1, 3), pixel, dtype)
    assert gradops.crop_and_resize(image, [[0, 0, 0, 0]], [0], [1, 1], method).ravel().tolist() == [expected] * 3


def test_infinite_pixels_make_nan_when_bilinear_and_stay_when_nearest() -> None:
    """Bilinear subtracts neighbours even where a weight is 0: Inf - Inf, as in TensorFlow."""
    for image in (row(np.inf, 1), row(1e300, 1, dtype=np.float64)):
        assert np.isnan(crop_row(image, 0, 0, 1)).all()
        assert crop_row(image, 0, 0, 1, method="nearest") == [np.inf]


def test_nearest_rounds_halves_away_from_zero() -> None:
    assert crop_row(row(0, 1, 2, 3), 0.5 / 3, 2.5 / 3, 3, method="nearest") == [1, 2, 3]  # at .5, 1.5, 2.5


def test_the_last_sample_of_the_whole_image_may_lie_outside() -> None:
    """H = 4, 22 rows: the last one lands at 3.0000002 in float32, as in TensorFlow."""
    crops = gradops.crop_and_resize(
        np.ones((1, 4, 1, 1), np.float32), [[0, 0, 1, 0]], [0], [22, 1], extrapolation_value=7
    )
    assert crops.ravel().tolist() == [1] * 21 + [7]


def test_a_box_just_beyond_1_drops_its_last_sample() -> None:
    beyond = float(np.nextafter(np.float32(1), np.float32(2)))
    assert crop_row(row(1, 2, 3), 0, beyond, 3, extrapolation_value=-1)[2] == -1
    assert crop_row(row(1, 2, 3), 0, 1, 3, extrapolation_value=-1) == [1, 2, 3]


def test_a_subnormal_coordinate_counts_as_zero() -> None:
    """TensorFlow's kernel threads flush them, so -1e-45 is inside; the normal -1.2e-38 is not."""
    assert crop_row(row(5, 6), -1e-45, -1e-45, 1) == [5]
    assert crop_row(row(5, 6), -1.2e-38, 1, 2) == [0, 6]


def test_minus_zero_is_inside() -> None:
    assert crop_row(row(5, 6), -0.0, -0.0, 2) == [5, 5]


def test_an_image_of_height_1_is_sampled_by_every_box() -> None:
    crops = gradops.crop_and_resize(row(1, 2), [[-5, 0, 9, 1]], [0], [3, 2])
    assert crops[0, :, :, 0].tolist() == [[1, 2]] * 3


def test_the_extrapolation_value_is_kept_as_float32_nan_included() -> None:
    assert np.isnan(crop_row(row(1, 2), 2, 3, 2, extrapolation_value=np.nan)).all()
    assert crop_row(row(1, 2), 2, 3, 1, extrapolation_value=0.1) == [float(np.float32(0.1))]
    assert crop_row(row(1, 2), 2, 3, 1, extrapolation_value=1e300) == [np.inf]


def test_each_box_reads_the_image_of_its_index() -> None:
    images = np.arange(3, dtype=np.float32).reshape(3, 1, 1, 1)
    crops = gradops.crop_and_resize(images, np.zeros((4, 4), np.float32), [2, 0, 1, 2], [1, 1])
    assert crops.ravel().tolist() == [2, 0, 1, 2]


def test_all_channels_of_a_sample_share_its_fate() -> None:
    image = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    crops = gradops.crop_and_resize(image, [[0, 0, 0, 2]], [0], [1, 3], extrapolation_value=-1)
    assert crops[0, 0].tolist() == [[0, 1, 2], [3, 4, 5], [-1, -1, -1]]


def test_huge_finite_boxes_lie_outside() -> None:
    """The last one overflows y2 - y1 and crashes TensorFlow."""
    boxes = np.array([[0, 0, 1e30, 1], [-1e30, 0, 1e30, 1], [3e38, 0, -3e38, 1]], np.float32)
    crops = gradops.crop_and_resize(np.ones((1, 3, 3, 1), np.float32), boxes, [0, 0, 0], [2, 2], extrapolation_value=5)
    # Row 0 of the first box is at 0, inside; all else is far away.
    assert crops[:, :, :, 0].tolist() == [[[1, 1], [5, 5]], [[5, 5], [5, 5]], [[5, 5], [5, 5]]]


def test_the_centre_of_a_huge_box_may_be_inside() -> None:
    """A crop of 1 takes 0.5 * (y1 + y2): zero here, although y2 - y1 overflows."""
    assert gradops.crop_and_resize(NINE, [[3e38, 0, -3e38, 0]], [0], [1, 1]).item() == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [[1, 1], [2, 2]])
def test_a_box_that_is_not_finite_is_refused(bad: float, size: list[int]) -> None:
    boxes = np.zeros((3, 4), np.float32)
    boxes[1, 2] = bad
    with pytest.raises(InvalidArgumentError, match=rf"boxes\[1, 2\] is {bad}"):
        gradops.crop_and_resize(NINE, boxes, [0, 0, 0], size)


def test_a_bad_index_is_found_before_a_bad_box() -> None:
    with pytest.raises(OutOfRangeError, match=r"box_ind\[1\] is 1"):
        gradops.crop_and_resize(NINE, np.full((2, 4), np.nan, np.float32), [0, 1], [2, 2])


# what, image shape, boxes shape, box_ind, shape of the result
EMPTY = [
    ("no boxes", (1, 3, 3, 2), (0, 4), [], (0, 2, 5, 2)),
    ("no boxes of seven columns, which nobody looks at", (1, 3, 3, 2), (0, 7), [], (0, 2, 5, 2)),
    ("boxes without columns and without indices", (1, 3, 3, 2), (5, 0), [], (0, 2, 5, 2)),
    ("no images and no boxes", (0, 3, 3, 2), (0, 4), [], (0, 2, 5, 2)),
    ("no channels", (1, 3, 3, 0), (2, 4), [0, 0], (2, 2, 5, 0)),
]


@pytest.mark.parametrize(
    ("image", "boxes", "box_ind", "shape"), [case[1:] for case in EMPTY], ids=[case[0] for case in EMPTY]
)
def test_empty_tensors(image: Any, boxes: Any, box_ind: Any, shape: Any) -> None:
    result = gradops.crop_and_resize(np.ones(image, np.uint8), np.ones(boxes, np.float32), box_ind, [2, 5])
    assert result.shape == shape
    assert result.dtype == np.float32


def test_arguments_are_positional_in_tensorflows_order() -> None:
    assert gradops.crop_and_resize(NINE, [[0, 0, 9, 0]], [0], [2, 1], "nearest", 4.0).ravel().tolist() == [1, 4]
