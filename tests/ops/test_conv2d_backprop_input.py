"""Conv2DBackpropInput: worked examples and rules."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import gradops

ONES = [1, 1, 1, 1]


def f32(values: Any, *shape: int) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32).reshape(shape)


# what, input_sizes, filter, out_backprop, attributes, expected values in order
EXAMPLES: list[tuple[str, list[int], Any, Any, dict[str, Any], list[float]]] = [
    (
        "valid",
        [1, 3, 3, 1],
        f32([1, 2, 3, 4], 2, 2, 1, 1),
        f32([1, 2, 3, 4], 1, 2, 2, 1),
        {"padding": "VALID"},
        [1, 4, 4, 6, 20, 16, 9, 24, 16],
    ),
    # need = 1: nothing before, one after; the last tap of the second window is cropped
    (
        "same puts the odd pixel after",
        [1, 4, 1, 1],
        f32([1, 2, 3], 3, 1, 1, 1),
        f32([1, 10], 1, 2, 1, 1),
        {"padding": "SAME", "strides": [1, 2, 2, 1]},
        [1, 2, 13, 20],
    ),
    (
        "explicit, two channels",
        [1, 1, 2, 2],
        f32([1, 2, 3, 4, 5, 6, 7, 8], 1, 2, 2, 2),
        f32([1, 0, 1, 1], 1, 1, 2, 2),
        {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 0, 1, 0, 0, 0]},
        [8, 14, 11, 15],
    ),
    (
        "dilation 2 in rows",
        [1, 5, 1, 1],
        f32([1, 2], 2, 1, 1, 1),
        f32([1, 2, 3], 1, 3, 1, 1),
        {"padding": "VALID", "dilations": [1, 2, 1, 1]},
        [1, 2, 5, 4, 6],
    ),
    (
        "two groups",
        [1, 1, 1, 2],
        f32([3, 5], 1, 1, 1, 2),
        f32([10, 20], 1, 1, 1, 2),
        {"padding": "VALID"},
        [30, 100],
    ),
    (
        "two groups of two",
        [1, 1, 1, 4],
        f32([1, 2, 3, 4, 5, 6, 7, 8], 1, 1, 2, 4),  # [in, out]; outputs 0, 1 belong to inputs 0, 1
        f32([1, 10, 100, 1000], 1, 1, 1, 4),
        {"padding": "VALID"},
        [21, 65, 4300, 8700],
    ),
    (
        "stride and dilation, explicit",
        [1, 1, 14, 1],
        f32([1, 1, 1], 1, 3, 1, 1),
        f32([1] * 6, 1, 1, 6, 1),
        {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 0, 1, 1, 0, 0], "strides": [1, 1, 2, 1],
         "dilations": [1, 1, 2, 1]},
        [0, 2, 0, 3, 0, 3, 0, 3, 0, 3, 0, 2, 0, 1],
    ),
    (
        "nchw",
        [1, 2, 1, 3],
        f32([1, 2, 10, 20], 1, 2, 2, 1),
        f32([1, 100], 1, 1, 1, 2),
        {"padding": "VALID", "data_format": "NCHW"},
        [1, 110, 1000, 2, 220, 2000],
    ),
    (
        "rows left over at the end are zero",
        [1, 5, 1, 1],
        f32([3], 1, 1, 1, 1),
        f32([1, 2], 1, 2, 1, 1),
        {"padding": "VALID", "strides": [1, 3, 1, 1]},
        [3, 0, 0, 6, 0],
    ),
    (
        "more padding than filter",
        [1, 1, 1, 1],
        f32([2], 1, 1, 1, 1),
        f32([1, 10, 100, 1000], 1, 1, 4, 1),
        {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 0, 2, 1, 0, 0]},
        [200],
    ),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("sizes", "filter", "grad", "attrs", "expected"), [row[1:] for row in EXAMPLES], ids=[row[0] for row in EXAMPLES]
)
def test_worked_example(
    sizes: list[int], filter: Any, grad: Any, attrs: dict[str, Any], expected: list[float], dtype: str
) -> None:
    type_ = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    result = gradops.conv2d_backprop_input(
        sizes, filter.astype(type_), grad.astype(type_), **{"strides": ONES, **attrs}
    )
    assert result.dtype == type_
    assert result.shape == tuple(sizes)
    exact = np.array(expected).astype(type_)
    if dtype == "bfloat16":  # 4300 is no bfloat16, and its inputs 100 and 1000 round too
        assert np.allclose(result.ravel().astype(np.float64), expected, rtol=2.0**-8 + 2.0**-8, atol=0)
    else:
        assert np.array_equal(result.ravel(), exact)


def test_two_input_sizes_take_the_batch_from_out_backprop_and_the_depth_from_the_filter() -> None:
    weights, grad = f32(range(1, 13), 1, 1, 3, 4), f32(range(8), 2, 1, 1, 4)
    for data_format, four in (("NHWC", [2, 1, 1, 3]), ("NCHW", [2, 3, 1, 1])):
        given = grad if data_format == "NHWC" else grad.reshape(2, 4, 1, 1)
        two = gradops.conv2d_backprop_input([1, 1], weights, given, ONES, "SAME", data_format=data_format)
        whole = gradops.conv2d_backprop_input(four, weights, given, ONES, "SAME", data_format=data_format)
        assert two.shape == tuple(four)
        assert np.array_equal(two, whole)


def test_every_input_size_that_the_forward_could_have_had_is_accepted() -> None:
    weights, grad = f32([1, 1], 2, 1, 1, 1), f32([1, 1], 1, 2, 1, 1)
    for height in (5, 6, 7):  # VALID, stride 3: two windows fit 5, 6 and 7 rows
        result = gradops.conv2d_backprop_input([1, height, 1, 1], weights, grad, [1, 3, 1, 1], "VALID")
        assert result.ravel().tolist() == [1, 1, 0, 1, 1, 0, 0][:height]
    for height in (4, 8):
        with pytest.raises(gradops.errors.InvalidArgumentError, match="out_backprop has height 2"):
            gradops.conv2d_backprop_input([1, height, 1, 1], weights, grad, [1, 3, 1, 1], "VALID")


def test_it_is_the_forward_gradient_of_same_padding_on_small_images() -> None:
    """With stride 2 and a weights of 3, SAME pads nothing before an image of 2 but one before an image of 1."""
    weights = f32(range(9), 3, 3, 1, 1)
    one = np.ones((1, 1, 1, 1), np.float32)
    assert gradops.conv2d_backprop_input([1, 2, 2, 1], weights, one, [1, 2, 2, 1], "SAME").ravel().tolist() == [
        0,
        1,
        3,
        4,
    ]
    assert gradops.conv2d_backprop_input([1, 1, 1, 1], weights, one, [1, 2, 2, 1], "SAME").ravel().tolist() == [4]


# what, input_sizes, weights shape, out_backprop shape, attributes: every result is zeros of input_sizes
EMPTY: list[tuple[str, list[int], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("no images", [0, 4, 4, 2], (3, 3, 2, 3), (0, 4, 4, 3), {}),
    ("no height", [1, 0, 4, 2], (3, 3, 2, 3), (1, 0, 4, 3), {}),
    ("no width", [1, 4, 0, 2], (3, 3, 2, 3), (1, 4, 0, 3), {}),
    ("no output channels", [2, 4, 4, 3], (3, 3, 3, 0), (2, 4, 4, 0), {}),
    ("filter of no height, one image", [1, 4, 4, 2], (0, 3, 2, 3), (1, 4, 4, 3), {}),
    ("filter of no height, two images (TensorFlow fails)", [2, 4, 4, 2], (0, 3, 2, 3), (2, 4, 4, 3), {}),
    ("filter taller than the image", [1, 2, 4, 2], (3, 3, 2, 3), (1, 0, 2, 3), {"padding": "VALID"}),
    (
        "the same with stride 2 (crashed older versions)",
        [1, 1, 4, 2],
        (2, 3, 2, 3),
        (1, 0, 1, 3),
        {"padding": "VALID", "strides": [1, 2, 2, 1]},
    ),
]


@pytest.mark.parametrize(
    ("sizes", "filter", "grad", "attrs"), [row[1:] for row in EMPTY], ids=[row[0] for row in EMPTY]
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_empty_tensors_give_zeros(
    sizes: list[int], filter: tuple[int, ...], grad: tuple[int, ...], attrs: dict[str, Any], dtype: str
) -> None:
    result = gradops.conv2d_backprop_input(
        sizes, np.ones(filter, dtype), np.ones(grad, dtype), **{"strides": ONES, "padding": "SAME", **attrs}
    )
    assert result.shape == tuple(sizes)
    assert result.dtype == dtype
    assert not result.any()


def test_int32_wraps() -> None:
    grad = np.full((1, 1, 1, 5), 2**30, np.int32)
    result = gradops.conv2d_backprop_input([1, 1, 1, 1], np.ones((1, 1, 1, 5), np.int32), grad, ONES, "VALID")
    assert result.item() == 2**30  # 5 * 2**30 - 2**32


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("count", [3000, 5000, 50000])
def test_narrow_sums_over_channels_are_wide_and_rounded_once(dtype: Any, count: int) -> None:
    """TensorFlow's plain kernel saturates: 50000 ones make 32768 in float16 and 4096 in bfloat16."""
    result = gradops.conv2d_backprop_input(
        [1, 1, 1, 1], np.ones((1, 1, 1, count), dtype), np.ones((1, 1, 1, count), dtype), ONES, "VALID"
    )
    assert result.item() == float(np.float32(count).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_sums_over_taps_are_wide_and_rounded_once(dtype: Any) -> None:
    """5000 windows on one pixel: TensorFlow's plain kernel stalls at 2048 or 256."""
    weights, grad = np.ones((1, 5000, 1, 1), dtype), np.ones((1, 1, 5000, 1), dtype)
    explicit = [0, 0, 0, 0, 4999, 4999, 0, 0]
    result = gradops.conv2d_backprop_input([1, 1, 1, 1], weights, grad, ONES, "EXPLICIT", explicit_paddings=explicit)
    assert result.item() == float(np.float32(5000).astype(dtype))


def test_a_float16_sum_may_pass_through_what_float16_cannot_hold() -> None:
    """60000 + 60000 - 60000 is infinite in TensorFlow's running float16 sum."""
    grad = np.array([60000, 60000, -60000], np.float16).reshape(1, 1, 1, 3)
    result = gradops.conv2d_backprop_input([1, 1, 1, 1], np.ones((1, 1, 1, 3), np.float16), grad, ONES, "VALID")
    assert result.item() == 60000


def test_a_nan_poisons_the_pixels_its_window_touches_and_no_other() -> None:
    grad = f32([1, np.nan, 1, 1], 1, 1, 4, 1)
    result = gradops.conv2d_backprop_input([1, 1, 5, 1], f32([1, 0], 1, 2, 1, 1), grad, ONES, "VALID")
    assert np.array_equal(result.ravel(), [1, np.nan, np.nan, 1, 0], equal_nan=True)  # a tap of 0 is not skipped


def test_infinity_times_zero_is_nan_where_a_tap_is_and_nowhere_else() -> None:
    result = gradops.conv2d_backprop_input(
        [1, 1, 3, 1], f32([np.inf], 1, 1, 1, 1), f32([0, 1], 1, 1, 2, 1), [1, 1, 2, 1], "VALID"
    )
    assert np.array_equal(result.ravel(), [np.nan, 0, np.inf], equal_nan=True)


def test_sizes_come_as_list_tuple_shape_or_int32_array() -> None:
    weights, grad = f32([1, 2, 3, 4], 2, 2, 1, 1), f32([1, 2, 3, 4], 1, 2, 2, 1)
    wanted = gradops.conv2d_backprop_input([1, 3, 3, 1], weights, grad, ONES, "VALID")
    for sizes in ((1, 3, 3, 1), np.array([1, 3, 3, 1], np.int32), np.zeros((1, 3, 3, 1)).shape, [np.int32(1), 3, 3, 1]):
        assert np.array_equal(gradops.conv2d_backprop_input(sizes, weights, grad, ONES, "VALID"), wanted)
    every_other = np.array([1, 9, 3, 9, 3, 9, 1, 9], np.int32)[::2]
    assert np.array_equal(gradops.conv2d_backprop_input(every_other, weights, grad, ONES, "VALID"), wanted)


def test_arguments_are_positional_in_tensorflows_order() -> None:
    weights, grad = f32([1, 2], 1, 2, 1, 1), f32([1, 1], 1, 1, 2, 1)
    explicit = [0, 0, 0, 0, 1, 0, 0, 0]
    result = gradops.conv2d_backprop_input([1, 1, 2, 1], weights, grad, ONES, "EXPLICIT", True, explicit, "NHWC", ONES)
    assert result.ravel().tolist() == [3, 2]
