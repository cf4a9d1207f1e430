"""CropAndResizeGradImage: worked examples and rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gradops
from gradops.errors import InvalidArgumentError, OutOfRangeError

TYPES = [np.float32, np.float64, np.float16]


def grad_row(values: list[float], x1: float, x2: float, width: int, T: Any = np.float32, **options: Any) -> list[float]:
    """Gradient of a one-row image for one box along x."""
    grads = np.array(values, np.float32).reshape(1, 1, -1, 1)
    image = gradops.crop_and_resize_grad_image(grads, [[0, x1, 0, x2]], [0], [1, 1, width, 1], T, **options)
    pixels: list[float] = image.ravel().tolist()
    return pixels


# what, image_size, boxes, box_ind, crop size, grads, options, expected values in order
EXAMPLES: list[tuple[str, list[int], Any, list[int], tuple[int, int], list[float], dict[str, Any], list[float]]] = [
    ("on pixels", [1, 3, 3, 1], [[0, 0, 1, 1]], [0], (2, 2), [1, 2, 3, 4], {}, [1, 0, 2, 0, 0, 0, 3, 0, 4]),
    ("a crop of one", [1, 3, 3, 1], [[0, 0, 0.5, 0.5]], [0], (1, 1), [8], {}, [2, 2, 0, 2, 2, 0, 0, 0, 0]),
    (
        "overlap, and a sample past the edge",
        [1, 1, 5, 1],
        [[0, 0, 0, 1], [0, 0.75, 0, 1.25]],
        [0, 0],
        (1, 3),
        [1, 2, 3, 4, 8, 16],
        {},
        [1, 0, 2, 4, 11],
    ),
    ("half way, bilinear", [1, 1, 4, 1], [[0, 0, 0, 1]], [0], (1, 3), [1, 2, 4], {}, [1, 1, 1, 4]),
    ("half way, nearest", [1, 1, 4, 1], [[0, 0, 0, 1]], [0], (1, 3), [1, 2, 4], {"method": "nearest"}, [1, 0, 2, 4]),
    ("a reversed box", [1, 1, 3, 1], [[0, 1, 0, 0]], [0], (1, 3), [1, 2, 3], {}, [3, 2, 1]),
    (
        "the second image",
        [2, 2, 2, 1],
        [[0.25, 0.5, 0.25, 0.5]],
        [1],
        (1, 1),
        [16],
        {},
        [0, 0, 0, 0, 6, 6, 2, 2],
    ),
    (
        "a degenerate box gathers on its point",
        [1, 1, 3, 1],
        [[0, 0.5, 0, 0.5]],
        [0],
        (2, 2),
        [1, 2, 3, 4],
        {},
        [0, 10, 0],
    ),
    ("wholly outside", [1, 2, 2, 1], [[2, 2, 3, 3]], [0], (2, 2), [1, 2, 3, 4], {}, [0, 0, 0, 0]),
    ("two channels", [1, 1, 2, 2], [[0, 0.5, 0, 0.5]], [0], (1, 1), [2, 4], {}, [1, 2, 1, 2]),
]


@pytest.mark.parametrize("T", TYPES)
@pytest.mark.parametrize(
    ("size", "boxes", "box_ind", "crop", "grads", "options", "expected"),
    [case[1:] for case in EXAMPLES],
    ids=[case[0] for case in EXAMPLES],
)
def test_worked_example(
    size: list[int],
    boxes: Any,
    box_ind: list[int],
    crop: tuple[int, int],
    grads: list[float],
    options: dict[str, Any],
    expected: list[float],
    T: Any,
) -> None:
    shaped = np.array(grads, np.float32).reshape(len(boxes), *crop, size[3])
    result = gradops.crop_and_resize_grad_image(shaped, boxes, box_ind, size, T, **options)
    assert result.dtype == T
    assert result.shape == tuple(size)
    assert result.ravel().tolist() == expected


def test_nearest_rounds_halves_away_from_zero() -> None:
    assert grad_row([1, 10, 100], 0.5 / 3, 2.5 / 3, 4, method="nearest") == [0, 1, 10, 100]


def test_the_last_row_of_the_whole_image_may_be_dropped() -> None:
    """H = 4, 22 rows: the last one lands at 3.0000002 and adds nothing, so 42 of 44 ones arrive."""
    ones = np.ones((1, 22, 2, 1), np.float32)
    assert gradops.crop_and_resize_grad_image(ones, [[0, 0, 1, 1]], [0], [1, 4, 2, 1], np.float32).sum() == 42


def test_float64_sums_float32_products() -> None:
    """At .2 of two pixels: 1 - .2 and .2 squared in float32, not in float64."""
    ones = np.ones((1, 1, 1, 1), np.float32)
    image = gradops.crop_and_resize_grad_image(ones, [[0.2, 0.2, 0.2, 0.2]], [0], [1, 2, 2, 1], np.float64)
    f = np.float32
    low, high = f(1) - f(0.2), f(0.2)
    assert image.ravel().tolist() == [float(low * low), float(high * low), float(low * high), float(high * high)]
    assert image[0, 0, 0, 0] != 0.64


def test_float64_sums_are_wider_than_float32() -> None:
    """2**24 and then ones: float32 stalls there as it must, float64 does not."""
    grads = np.array([2.0**24, 1, 1, 1], np.float32).reshape(4, 1, 1, 1)
    boxes, box_ind = np.zeros((4, 4), np.float32), np.zeros(4, np.int32)
    for dtype, expected in ((np.float32, 2.0**24), (np.float64, 2.0**24 + 3)):
        assert gradops.crop_and_resize_grad_image(grads, boxes, box_ind, [1, 1, 1, 1], dtype).item() == expected


def test_samples_add_in_the_order_box_row_column() -> None:
    """1 + 2**24 - 2**24 is 0 in float32, and 2**24 - 2**24 + 1 is 1."""
    big = 2.0**24
    for order, expected in (([1, big, -big], 0), ([big, -big, 1], 1)):
        grads = np.array(order, np.float32)
        one_pixel = [1, 1, 1, 1]
        for shape in ((3, 1, 1, 1), (1, 3, 1, 1), (1, 1, 3, 1)):
            boxes, box_ind = np.zeros((shape[0], 4), np.float32), np.zeros(shape[0], np.int32)
            for method in ("bilinear", "nearest"):
                image = gradops.crop_and_resize_grad_image(
                    grads.reshape(shape), boxes, box_ind, one_pixel, np.float32, method
                )
                assert image.item() == expected


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("count", [4096, 5000])
def test_float16_sums_are_wide_and_rounded_once(count: int, method: str) -> None:
    """TensorFlow adds in float16 and stalls at 2048."""
    grads, boxes = np.ones((count, 1, 1, 1), np.float32), np.zeros((count, 4), np.float32)
    image = gradops.crop_and_resize_grad_image(grads, boxes, np.zeros(count, np.int32), [1, 1, 1, 1], "half", method)
    assert image.item() == float(np.float16(count))


def test_a_float16_sum_may_pass_through_what_float16_cannot_hold() -> None:
    grads = np.array([60000, 60000, -60000], np.float32).reshape(3, 1, 1, 1)
    image = gradops.crop_and_resize_grad_image(grads, np.zeros((3, 4), np.float32), [0, 0, 0], [1, 1, 1, 1], np.float16)
    assert image.item() == 60000


def test_a_gradient_beyond_float16_becomes_infinite() -> None:
    assert grad_row([1e5], 0, 0, 1, np.float16) == [np.inf]


def test_no_update_is_lost_where_all_boxes_overlap() -> None:
    """TensorFlow's threads race here: it loses up to a fifth of the ones."""
    count = 20000
    image = gradops.crop_and_resize_grad_image(
        np.ones((count, 2, 2, 1), np.float32),
        np.tile(np.array([0, 0, 1, 1], np.float32), (count, 1)),
        np.zeros(count, np.int32),
        [1, 2, 2, 1],
        np.float32,
    )
    assert image.ravel().tolist() == [count] * 4


def test_nan_reaches_the_four_pixels_of_its_sample_even_with_weight_0() -> None:
    """On a pixel the four are the same one; half way between two they are both."""
    assert np.isnan(grad_row([np.nan], 0.5, 0.5, 3)).tolist() == [False, True, False]
    assert np.isnan(grad_row([np.nan], 0.25, 0.25, 3)).tolist() == [True, True, False]


def test_infinity_on_a_pixel_makes_nan_when_bilinear_and_stays_when_nearest() -> None:
    """Infinity times a weight of 1, plus infinity times a weight of 0: as in TensorFlow."""
    assert np.isnan(grad_row([np.inf], 0.5, 0.5, 3)).tolist() == [False, True, False]
    assert grad_row([np.inf], 0.5, 0.5, 3, method="nearest") == [0, np.inf, 0]


def test_a_subnormal_coordinate_counts_as_zero() -> None:
    assert grad_row([5], -1e-45, -1e-45, 2) == [5, 0]
    assert grad_row([5, 6], -1.2e-38, 1, 2) == [0, 6]


def test_minus_zero_and_the_last_pixel_are_inside() -> None:
    assert grad_row([5, 6], -0.0, 1, 2) == [5, 6]


def test_an_image_of_height_1_takes_every_row_of_samples() -> None:
    grads = np.ones((1, 3, 1, 1), np.float32)
    assert gradops.crop_and_resize_grad_image(grads, [[-5, 0, 9, 0]], [0], [1, 1, 1, 1], np.float32).item() == 3


def test_huge_finite_boxes_lie_outside() -> None:
    """The last one overflows y2 - y1 and crashes TensorFlow."""
    boxes = np.array([[0, 0, 1e30, 0], [-1e30, 0, 1e30, 1], [3e38, 0, -3e38, 1]], np.float32)
    grads = np.ones((3, 2, 2, 1), np.float32)
    image = gradops.crop_and_resize_grad_image(grads, boxes, [0, 0, 0], [1, 3, 3, 1], np.float32)
    assert image.ravel().tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0]  # row 0 of the first box alone


def test_a_coordinate_rounded_past_the_last_row_is_outside() -> None:
    """float32(16777219) is 16777220: TensorFlow takes that row for inside and writes past the buffer."""
    one = np.ones((1, 1, 1, 1), np.float32)
    image = gradops.crop_and_resize_grad_image(one, [[1, 0, 1, 0]], [0], [1, 16777220, 1, 1], np.float16)
    assert image.sum(dtype=np.float64) == 0
    image = gradops.crop_and_resize_grad_image(one, [[1, 0, 1, 0]], [0], [1, 16777218, 1, 1], np.float16)
    assert np.flatnonzero(image).tolist() == [16777216]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_box_that_is_not_finite_is_refused(bad: float, depth: int) -> None:
    boxes = np.zeros((3, 4), np.float32)
    boxes[2, 0] = bad
    grads = np.ones((3, 1, 1, depth), np.float32)
    with pytest.raises(InvalidArgumentError, match=rf"boxes\[2, 0\] is {bad}"):
        gradops.crop_and_resize_grad_image(grads, boxes, [0, 0, 0], [1, 3, 3, depth], np.float32)


def test_a_bad_index_is_found_before_a_bad_box() -> None:
    with pytest.raises(OutOfRangeError, match=r"box_ind\[1\] is -7"):
        gradops.crop_and_resize_grad_image(
            np.ones((2, 1, 1, 1), np.float32), np.full((2, 4), np.nan, np.float32), [0, -7], [1, 3, 3, 1], np.float32
        )


# what, grads shape, boxes shape, box_ind, image_size
EMPTY: list[tuple[str, tuple[int, ...], tuple[int, ...], list[int], list[int]]] = [
    ("no boxes", (0, 2, 2, 1), (0, 4), [], [2, 3, 3, 1]),
    ("no boxes of seven columns, which nobody looks at", (0, 2, 2, 1), (0, 7), [], [2, 3, 3, 1]),
    ("boxes without columns and without indices", (0, 2, 2, 1), (5, 0), [], [2, 3, 3, 1]),
    ("no images and no boxes", (0, 2, 2, 1), (0, 4), [], [0, 3, 3, 1]),
    ("no channels", (1, 2, 2, 0), (1, 4), [0], [2, 3, 3, 0]),
]


@pytest.mark.parametrize("T", TYPES)
@pytest.mark.parametrize(
    ("grads", "boxes", "box_ind", "size"), [case[1:] for case in EMPTY], ids=[case[0] for case in EMPTY]
)
def test_empty_tensors_give_zeros(
    grads: tuple[int, ...], boxes: tuple[int, ...], box_ind: list[int], size: list[int], T: Any
) -> None:
    given: npt.NDArray[np.float32] = np.ones(grads, np.float32)
    result = gradops.crop_and_resize_grad_image(given, np.zeros(boxes, np.float32), box_ind, size, T)
    assert result.shape == tuple(size)
    assert result.dtype == T
    assert not result.any()


@pytest.mark.parametrize("T", [np.float16, "half", "float16", "f2", np.dtype("float16")])
def test_t_is_anything_that_names_an_element_type(T: Any) -> None:
    grads = np.ones((1, 1, 1, 1), np.float32)
    assert gradops.crop_and_resize_grad_image(grads, [[0, 0, 0, 0]], [0], [1, 1, 1, 1], T).dtype == np.float16


def test_t_in_foreign_byte_order_means_the_native_one() -> None:
    grads = np.full((1, 1, 1, 1), 3, np.float32)
    image = gradops.crop_and_resize_grad_image(grads, [[0, 0, 0, 0]], [0], [1, 1, 1, 1], ">f4")
    assert image.dtype == np.float32
    assert image.dtype.isnative
    assert image.item() == 3


def test_arguments_are_positional_in_tensorflows_order() -> None:
    grads = np.ones((1, 1, 1, 1), np.float32)
    image = gradops.crop_and_resize_grad_image(grads, [[0, 0.3, 0, 0.3]], [0], [1, 1, 2, 1], np.float32, "nearest")
    assert image.ravel().tolist() == [1, 0]
