"""Conv2D: worked examples and rules."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import gradops

ONES = [1, 1, 1, 1]


def plane(*rows: list[float], dtype: Any = np.float32) -> npt.NDArray[Any]:
    """One image of one channel."""
    values = np.array(rows, dtype)
    return values.reshape(1, *values.shape, 1)


def taps(*rows: list[float], dtype: Any = np.float32) -> npt.NDArray[Any]:
    """A filter from one channel to one."""
    values = np.array(rows, dtype)
    return values.reshape(*values.shape, 1, 1)


NINE = plane([1, 2, 3], [4, 5, 6], [7, 8, 9])
SIXTEEN = plane([1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16])
TWO_BY_TWO = taps([1, 2], [3, 4])
THREE_BY_THREE = taps([1, 2, 3], [4, 5, 6], [7, 8, 9])

# what, input, filter, attributes, expected rows of the one channel
EXAMPLES = [
    ("valid", NINE, TWO_BY_TWO, {"padding": "VALID"}, [[37, 47], [67, 77]]),
    # The odd row and column of padding come after.
    ("same, stride 2", SIXTEEN, THREE_BY_THREE, {"padding": "SAME", "strides": [1, 2, 2, 1]}, [[348, 252], [274, 175]]),
    # Dilated by 2, the filter spans 5 positions: two rows and columns of padding on each side.
    (
        "same, dilation 2",
        SIXTEEN,
        THREE_BY_THREE,
        {"padding": "SAME", "dilations": [1, 2, 2, 1]},
        [[194, 222, 170, 194], [306, 334, 266, 290], [122, 138, 98, 110], [186, 202, 146, 158]],
    ),
    # Padding only above: the first row of windows sees the filter's second row alone.
    (
        "explicit, one row above",
        plane([1, 2], [3, 4]),
        taps([10, 0], [1, 0]),
        {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 0, 0, 0, 0, 0]},
        [[1], [13]],
    ),
    # Padding beyond the filter makes windows that see nothing.
    (
        "explicit, more padding than filter",
        plane([5]),
        taps([2]),
        {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 0, 2, 1, 0, 0]},
        [[0, 0, 10, 0]],
    ),
    (
        "filter smaller than the stride",
        plane([1, 2, 3, 4, 5]),
        taps([7]),
        {"padding": "VALID", "strides": [1, 1, 3, 1]},
        [[7, 28]],
    ),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("image", "filter", "attrs", "expected"), [row[1:] for row in EXAMPLES], ids=[row[0] for row in EXAMPLES]
)
def test_worked_example(image: Any, filter: Any, attrs: Any, expected: Any, dtype: str) -> None:
    type_ = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    result = gradops.conv2d(image.astype(type_), filter.astype(type_), **{"strides": ONES, **attrs})
    # Every sum fits the accumulator; 348 and the like round to bfloat16 once.
    assert result.dtype == type_
    assert np.array_equal(result[0, :, :, 0], np.array(expected).astype(type_))


def test_the_filter_is_not_flipped() -> None:
    assert gradops.conv2d(plane([1, 10, 100]), taps([1, 2, 3]), ONES, "VALID").item() == 321


def test_channels_are_summed_and_the_filter_is_hwio() -> None:
    image = np.array([1, 10], np.float32).reshape(1, 1, 1, 2)
    weights = np.array([[1, 2, 3], [4, 5, 6]], np.float32).reshape(1, 1, 2, 3)
    assert gradops.conv2d(image, weights, ONES, "VALID").ravel().tolist() == [41, 52, 63]


def test_a_filter_of_fewer_channels_splits_them_into_groups() -> None:
    image = np.array([1, 10, 100, 1000], np.float32).reshape(1, 1, 1, 4)
    weights = np.array([[1, 2], [3, 4]], np.float32).reshape(
        1, 1, 2, 2
    )  # output 0 from channels 0, 1; output 1 from 2, 3
    assert gradops.conv2d(image, weights, ONES, "VALID").ravel().tolist() == [31, 4200]


def test_in_nchw_the_attributes_follow_but_the_filter_does_not() -> None:
    image = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    weights = np.array([1, 2], np.float32).reshape(1, 1, 2, 1)
    result = gradops.conv2d(image, weights, [1, 1, 1, 2], "VALID", data_format="NCHW")
    assert result.shape == (1, 1, 2, 2)
    assert result.ravel().tolist() == [0 + 2 * 6, 2 + 2 * 8, 3 + 2 * 9, 5 + 2 * 11]


# filter height, stride, windows on an image of height 1; None: an error
TOO_LONG = [(2, 1, 0), (3, 1, None), (2, 2, 0), (3, 2, 0), (4, 2, 0), (5, 2, None), (6, 3, 0), (7, 3, None)]


@pytest.mark.parametrize(("height", "stride", "windows"), TOO_LONG)
def test_a_filter_too_long_by_less_than_two_strides_makes_no_window(
    height: int, stride: int, windows: int | None
) -> None:
    """TensorFlow divides toward zero: (1 - 4 + 2) / 2 is 0 windows, not -1."""
    image, weights = plane([1]), np.ones((height, 1, 1, 1), np.float32)
    if windows is None:
        with pytest.raises(gradops.errors.InvalidArgumentError, match="computed output height would be negative: -1"):
            gradops.conv2d(image, weights, [1, stride, 1, 1], "VALID")
    else:
        assert gradops.conv2d(image, weights, [1, stride, 1, 1], "VALID").shape == (1, windows, 1, 1)
        none = np.zeros((1, windows, 1, 1), np.float32)
        gradient = gradops.conv2d_backprop_input([1, 1, 1, 1], weights, none, [1, stride, 1, 1], "VALID")
        assert gradient.item() == 0


# what, input shape, weights shape, padding, shape of the result, all zeros
EMPTY = [
    ("no images", (0, 4, 4, 1), (2, 2, 1, 3), {"padding": "VALID"}, (0, 3, 3, 3)),
    ("no height", (2, 0, 4, 1), (2, 2, 1, 3), {"padding": "SAME"}, (2, 0, 4, 3)),
    (
        "no height, but padding",
        (1, 0, 2, 1),
        (1, 1, 1, 1),
        {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 1, 0, 0, 0, 0]},
        (1, 2, 2, 1),
    ),
    ("no channels", (1, 2, 2, 0), (1, 1, 1, 2), {"padding": "SAME"}, (1, 2, 2, 2)),
    ("no output channels", (1, 2, 2, 1), (1, 1, 1, 0), {"padding": "SAME"}, (1, 2, 2, 0)),
]


@pytest.mark.parametrize(
    ("image", "filter", "attrs", "shape"), [row[1:] for row in EMPTY], ids=[row[0] for row in EMPTY]
)
def test_empty_tensors_give_zeros_or_nothing(image: Any, filter: Any, attrs: Any, shape: Any) -> None:
    result = gradops.conv2d(np.ones(image, np.float32), np.ones(filter, np.float32), ONES, **attrs)
    assert result.shape == shape
    assert not result.any()


def test_int32_wraps() -> None:
    image = np.full((1, 1, 1, 5), 2**30, np.int32)
    assert gradops.conv2d(image, np.ones((1, 1, 5, 1), np.int32), ONES, "VALID").item() == 2**30  # 5 * 2**30 - 2**32


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_sums_are_wide_and_rounded_once(dtype: Any) -> None:
    """TensorFlow's float16 loses 16 of these 50000, and more in other shapes."""
    image, weights = np.ones((1, 1, 1, 50000), dtype), np.ones((1, 1, 50000, 1), dtype)
    assert gradops.conv2d(image, weights, ONES, "VALID").item() == float(np.float32(50000).astype(dtype))


def test_padding_adds_nothing_even_where_the_filter_is_infinite() -> None:
    weights = taps([np.inf, 1, 1])
    assert gradops.conv2d(plane([1]), weights, ONES, "SAME").item() == 1  # a padded zero would make inf * 0 = NaN


def test_nan_and_infinity_propagate_as_ieee_says() -> None:
    image = plane([np.nan, 1, np.inf, 1, 1])
    assert np.array_equal(
        gradops.conv2d(image, taps([1, 0]), ONES, "VALID").ravel(), [np.nan, np.nan, np.inf, 1], equal_nan=True
    )


def test_attributes_come_as_any_sequence_of_integers() -> None:
    wanted = gradops.conv2d(NINE, TWO_BY_TWO, [1, 2, 2, 1], "VALID")
    spellings: tuple[Any, ...] = ((1, 2, 2, 1), np.array([1, 2, 2, 1]), [np.int64(1), np.int32(2), 2, 1])
    for strides in spellings:
        assert np.array_equal(gradops.conv2d(NINE, TWO_BY_TWO, strides, "VALID"), wanted)


def test_arguments_are_positional_in_tensorflows_order() -> None:
    explicit = [0, 0, 1, 0, 0, 0, 0, 0]
    result = gradops.conv2d(NINE, TWO_BY_TWO, [1, 1, 2, 1], "EXPLICIT", False, explicit, "NHWC", [1, 1, 1, 1])
    named = gradops.conv2d(
        input=NINE,
        filter=TWO_BY_TWO,
        strides=[1, 1, 2, 1],
        padding="EXPLICIT",
        use_cudnn_on_gpu=False,
        explicit_paddings=explicit,
        data_format="NHWC",
        dilations=[1, 1, 1, 1],
    )
    assert np.array_equal(result, named)
    assert result.shape == (1, 3, 1, 1)


def test_none_asks_for_an_attributes_default() -> None:
    result = gradops.conv2d(NINE, TWO_BY_TWO, ONES, "VALID", None, None, None, None)  # type: ignore[arg-type]
    assert np.array_equal(result, gradops.conv2d(NINE, TWO_BY_TWO, ONES, "VALID"))
