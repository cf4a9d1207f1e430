"""Cases from public bug reports, advisories, questions and tests, in our own words and numbers.

The docstring of each test names its source. Larger arrays are in `field/cases.npz`, under the key
that the test's number begins. Their values are plain NumPy sums in float64; where TensorFlow is
right, it agrees.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import gradops
from gradops.errors import InvalidArgumentError, OutOfRangeError

CASES = np.load(Path(__file__).parent / "field" / "cases.npz")
ONES = [1, 1, 1, 1]
TWO = [1, 2, 2, 1]


def ones(*shape: int) -> npt.NDArray[np.float32]:
    return np.ones(shape, np.float32)


def column(values: list[float], *shape: int) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32).reshape(shape)


def backprop(key: str, strides: list[int], padding: str, **attrs: Any) -> Any:
    """The gradient of the case's own inputs."""
    sizes, weights, grad = (CASES[f"{key}_{name}"] for name in ("input_sizes", "filter", "out_backprop"))
    return gradops.conv2d_backprop_input(sizes, weights, grad, strides, padding, **attrs)


def assert_exact(result: Any, expected: Any) -> None:
    """All inputs are multiples of 1/4, so every order of summation gives these very numbers."""
    assert result.shape == np.shape(expected)
    assert np.array_equal(result.astype(np.float64), expected)


def assert_next_call_works() -> None:
    assert gradops.conv2d_backprop_input([1, 1, 1, 1], ones(1, 1, 1, 1), ones(1, 1, 1, 1), ONES, "VALID").item() == 1


# --- conv2d_backprop_input ---


def test_f01_channels_first_works_on_a_cpu() -> None:
    """https://github.com/carpedm20/BEGAN-tensorflow/issues/29, https://github.com/mihahauke/deep_rl_vizdoom/issues/8"""
    result = backprop("F01", [1, 1, 2, 2], "SAME", data_format="NCHW")
    assert_exact(result, CASES["F01_expected"])
    assert result.sum() == 46
    sizes, grad = CASES["F01_input_sizes"][[0, 2, 3, 1]], CASES["F01_out_backprop"].transpose(0, 2, 3, 1)
    channels_last = gradops.conv2d_backprop_input(sizes, CASES["F01_filter"], grad, TWO, "SAME")
    assert_exact(result, channels_last.transpose(0, 3, 1, 2))


def test_f04_a_dilated_transposed_convolution_in_one_dimension() -> None:
    """https://github.com/tensorflow/tensorflow/issues/69103, https://github.com/tensorflow/tensorflow/issues/41712"""
    result = backprop("F04", ONES, "VALID", dilations=[1, 1, 3, 1])
    assert_exact(result, CASES["F04_expected"])
    assert np.abs(result).sum() == 93.3125
    with pytest.raises(InvalidArgumentError, match=r"^conv2d_backprop_input: "):
        backprop("F04", ONES, "VALID", dilations=[1, 1, 4, 1])


def test_f06_an_even_filter_pads_after() -> None:
    """https://github.com/tensorflow/tensorflow/issues/45999, https://github.com/tensorflow/tensorflow/issues/7969"""
    result = gradops.conv2d_backprop_input([1, 2, 2, 1], ones(2, 2, 1, 1), ones(1, 2, 2, 1), ONES, "SAME")
    assert result.ravel().tolist() == [1, 2, 2, 4]


def test_f09_any_size_that_the_forward_could_have_had() -> None:
    """https://github.com/jax-ml/jax/issues/4592, https://github.com/pytorch/vision/issues/2205"""
    for size in (8, 9, 10):
        assert_exact(backprop(f"F09_{size}", [1, 3, 3, 1], "VALID"), CASES[f"F09_{size}_expected"])
    weights, grad = CASES["F09_8_filter"], CASES["F09_8_out_backprop"]
    with pytest.raises(InvalidArgumentError, match=r"has height 3, .* makes 4"):
        gradops.conv2d_backprop_input([1, 11, 11, 1], weights, grad, [1, 3, 3, 1], "VALID")


@pytest.mark.parametrize(
    ("sizes", "filter", "grad", "strides", "numbers"),
    [
        ([1, 7, 7, 1], (3, 3, 1, 2), (1, 3, 3, 2), TWO, ("3", "4")),
        ([50, 7, 7, 1], (3, 3, 1, 2), (25, 4, 4, 2), TWO, ("25", "50")),
        ([1, 16, 16, 1], (16, 16, 1, 1), (1, 7, 7, 1), ONES, ("7", "16")),
    ],
    ids="abc",
)
def test_f10_a_size_that_disagrees_is_named_with_both_numbers(
    sizes: list[int], filter: Any, grad: Any, strides: list[int], numbers: tuple[str, str]
) -> None:
    """https://github.com/tensorflow/tensorflow/issues/27409, https://github.com/keras-team/keras/issues/11041,
    https://github.com/LMescheder/AdversarialVariationalBayes/issues/1, https://github.com/tflearn/tflearn/issues/112,
    https://github.com/talmolab/sleap/issues/2039
    """
    with pytest.raises(InvalidArgumentError) as raised:
        gradops.conv2d_backprop_input(sizes, ones(*filter), ones(*grad), strides, "SAME")
    for number in numbers:
        assert f" {number}" in str(raised.value)


def test_f11_same_with_stride_2_is_not_shifted_by_a_pixel() -> None:
    """https://github.com/keras-team/keras/pull/22876"""
    rng = np.random.default_rng(42)
    grad = rng.standard_normal((4, 16, 16, 16)).astype(np.float32)
    weights = (rng.standard_normal((3, 3, 32, 16)) * 0.05).astype(np.float32)
    result = gradops.conv2d_backprop_input([4, 32, 32, 32], weights, grad, TWO, "SAME")
    corners = [result[0, 0, 0, 0], result[1, 0, 31, 5], result[2, 31, 31, 31], result[3, 17, 4, 16]]
    assert np.allclose(corners, [0.34898857, -0.42742764, -0.25138668, 0.25642131], rtol=0, atol=1e-6)
    assert abs(result.sum(dtype=np.float64) - 44.59735053) < 1e-4


def test_f15_stride_with_dilation_touches_every_second_pixel() -> None:
    """https://github.com/pytorch/pytorch/issues/1565"""
    explicit = [0, 0, 0, 0, 1, 1, 0, 0]
    result = backprop("F15", [1, 1, 2, 1], "EXPLICIT", dilations=[1, 1, 2, 1], explicit_paddings=explicit)
    assert result.ravel().tolist() == [0, 2, 0, 3, 0, 3, 0, 3, 0, 3, 0, 2, 0, 1]


def test_f16_a_filter_smaller_than_the_stride_and_its_own_gradient() -> None:
    """https://github.com/pytorch/pytorch/issues/63314"""
    assert backprop("F16", [1, 1, 2, 1], "VALID").ravel().tolist() == [1.5, 0, 0.1875]
    cotangent = column([1.5, 0, 0.75], 1, 1, 3, 1)
    vjp = gradops.conv2d(cotangent, CASES["F16_filter"], [1, 1, 2, 1], "VALID")
    assert vjp.ravel().tolist() == [-1.125, -0.5625]


@pytest.mark.parametrize("sizes", [[8, 8, 3], [], 8])
def test_f20_a_malformed_output_shape_is_an_error(sizes: Any) -> None:
    """https://github.com/tensorflow/tensorflow/issues/125511, https://github.com/tensorflow/tensorflow/pull/127293"""
    for given in (sizes, np.array(sizes, np.int32)):
        with pytest.raises(InvalidArgumentError, match="input_sizes must"):
            gradops.conv2d_backprop_input(given, ones(3, 3, 3, 3), ones(1, 4, 4, 3), TWO, "SAME")
    assert_next_call_works()


F22: dict[str, dict[str, Any]] = {
    "a": {"filter": np.float32(8)},
    "b": {"input_sizes": [1, 1], "filter": ones(1)},
    "c": {"input_sizes": ONES, "filter": ones(1, 1, 1, 1), "out_backprop": ones(1, 1, 1, 1), "strides": [1, 1, 1]},
    "d": {"out_backprop": ones(1, 5, 5, 5)},
    "e": {"input_sizes": [1, 5, 5, 5]},
    "f, stride": {"strides": [1, 0, 1, 1]},
    "f, dilation": {"dilations": [1, 1, 0, 1]},
    "g": {"strides": [2, 1, 1, 1]},
    "h": {"explicit_paddings": [0, 0, 1, 1, 1, 1, 0, 0]},
}


@pytest.mark.parametrize("fault", F22)
def test_f22_wrong_ranks_and_lengths_are_errors(fault: str) -> None:
    """https://github.com/tensorflow/tensorflow/pull/125946, https://github.com/tensorflow/tensorflow/issues/78428,
    https://github.com/tensorflow/tensorflow/issues/62950
    """
    valid: dict[str, Any] = {
        "input_sizes": [1, 5, 5, 3],
        "filter": ones(3, 3, 3, 2),
        "out_backprop": ones(1, 5, 5, 2),
        "strides": ONES,
        "padding": "SAME",
    }
    gradops.conv2d_backprop_input(**valid)
    with pytest.raises(gradops.errors.GradopsError):
        gradops.conv2d_backprop_input(**{**valid, **F22[fault]})
    assert_next_call_works()


@pytest.mark.parametrize(
    "sizes",
    [np.array([1, 5, 5, 2**40]), [2**30, 2**20, 2**20, 3], [1, -5, 5, 3], [1, 5, 5, 2**30]],
    ids=["int64", "overflow", "negative", "indivisible"],
)
def test_f23_absurd_sizes_are_refused_before_anything_is_allocated(sizes: Any) -> None:
    """https://github.com/tensorflow/tensorflow/issues/78428"""
    with pytest.raises(InvalidArgumentError, match="conv2d_backprop_input: "):
        gradops.conv2d_backprop_input(sizes, ones(3, 3, 3, 2), ones(1, 5, 5, 2), ONES, "SAME")


def test_f24_bfloat16_in_bfloat16_out() -> None:
    """https://github.com/tensorflow/tensorflow/issues/62525"""
    weights, grad = ones(3, 3, 1, 6).astype(ml_dtypes.bfloat16), ones(2, 3, 3, 6).astype(ml_dtypes.bfloat16)
    result = gradops.conv2d_backprop_input([2, 7, 7, 1], weights, grad, TWO, "VALID")
    assert result.dtype == ml_dtypes.bfloat16
    windows = np.array([1, 1, 2, 1, 2, 1, 1])
    assert_exact(result, np.broadcast_to(6 * np.outer(windows, windows)[None, :, :, None], (2, 7, 7, 1)))
    assert result.astype(np.float64).sum() == 972


def test_f26_padding_as_large_as_the_filter_and_larger() -> None:
    """https://github.com/tensorflow/tensorflow/issues/93733"""
    result = backprop("F26", TWO, "EXPLICIT", explicit_paddings=[0, 0, 3, 3, 3, 3, 0, 0])
    assert_exact(result, CASES["F26_expected"])
    explicit = [0, 0, 5, 5, 5, 5, 0, 0]
    result = gradops.conv2d_backprop_input(
        [1, 4, 4, 1], ones(3, 3, 1, 1), ones(1, 12, 12, 1), ONES, "EXPLICIT", explicit_paddings=explicit
    )
    assert (result == 9).all()


def test_f27_same_padding_depends_on_the_input_size() -> None:
    """https://github.com/tensorflow/tensorflow/issues/17654, https://github.com/tensorflow/tensorflow/issues/10747"""
    assert backprop("F27_2", TWO, "SAME").ravel().tolist() == [0, 1, 3, 4]
    assert backprop("F27_1", TWO, "SAME").ravel().tolist() == [4]


def test_f28_all_output_channels_are_summed() -> None:
    """https://github.com/tensorflow/tfjs/issues/4892, https://github.com/tensorflow/tfjs/pull/5518"""
    rows = [[3, 3, 6, 6, 9, 9]] * 2 + [[12, 12, 15, 15, 18, 18]] * 2
    assert backprop("F28", TWO, "SAME")[0, :, :, 0].tolist() == rows


def test_f48_a_zero_in_a_shape_divides_nothing() -> None:
    """https://osv.dev/vulnerability/BIT-tensorflow-2021-29525"""
    result = gradops.conv2d_backprop_input([52, 1, 1, 5], ones(0, 1, 5, 0), ones(52, 1, 1, 0), ONES, "SAME")
    assert_exact(result, np.zeros((52, 1, 1, 5)))
    result = gradops.conv2d_backprop_input([2, 4, 4, 3], ones(3, 3, 3, 0), ones(2, 4, 4, 0), ONES, "SAME")
    assert_exact(result, np.zeros((2, 4, 4, 3)))
    with pytest.raises(InvalidArgumentError, match="filter depth"):
        gradops.conv2d_backprop_input([2, 4, 4, 3], ones(3, 3, 0, 2), ones(2, 4, 4, 2), ONES, "SAME")


# --- crop_and_resize and its gradient ---


def crop(key: str, size: list[int], method: str = "bilinear", extrapolation_value: float = 0.0) -> Any:
    image, boxes, box_ind = (CASES[f"{key}_{name}"] for name in ("image", "boxes", "box_ind"))
    return gradops.crop_and_resize(image, boxes, box_ind, size, method, extrapolation_value)


def grad_image(key: str, method: str = "bilinear") -> Any:
    grads, boxes, box_ind, image = (CASES[f"{key}_{name}"] for name in ("grads", "boxes", "box_ind", "image"))
    return gradops.crop_and_resize_grad_image(grads.astype(np.float32), boxes, box_ind, image.shape, np.float32, method)


def test_f30_a_box_on_whole_pixels_returns_them() -> None:
    """https://github.com/longcw/RoIAlign.pytorch/issues/1, https://github.com/longcw/RoIAlign.pytorch/issues/15"""
    assert crop("F30", [3, 3])[0, :, :, 0].tolist() == [[0, 1, 2]] * 3
    gradient = grad_image("F30")[0, :, :, 0]
    assert gradient[:3, :3].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert gradient.sum() == 45


@pytest.mark.parametrize(
    ("low", "widths"),
    [
        (0.0, [28, 29, 47, 48, 59, 82, 89, 96, 103, 112, 121, 122, 123]),
        (0.2, [7, 11, 16, 24, 29, 39, 45, 50, 55, 60, 72, 82, 87, 92, 97, 102, 107, 112, 117, 122, 127]),
    ],
)
def test_f31_halving_an_image_drops_the_last_row_for_these_widths_alone(low: float, widths: list[int]) -> None:
    """https://github.com/tensorflow/tfjs/issues/6624, https://github.com/tensorflow/tfjs/pull/8231

    A fused multiply-add in the coordinates would change the second list.
    """
    hit = []
    for width in range(2, 130):
        crops = gradops.crop_and_resize(
            ones(1, 2 * width, 2 * width, 1), [[low, low, 1, 1]], [0], [width, width], extrapolation_value=0.18782
        )
        assert set(np.unique(crops)) <= {np.float32(0.18782), np.float32(1)}
        if (crops != 1).any():
            assert (crops[0, -1] != 1).all()
            hit.append(width)
    assert hit == widths


def test_f31_the_gradient_drops_the_same_samples() -> None:
    """https://github.com/tensorflow/tfjs/issues/6624, https://github.com/tensorflow/tfjs/pull/8231"""
    for width, total in ((27, 27 * 27), (28, 27 * 27)):
        grads = ones(1, width, width, 1)
        image = gradops.crop_and_resize_grad_image(grads, [[0, 0, 1, 1]], [0], [1, 2 * width, 2 * width, 1], np.float64)
        assert abs(image.sum() - total) < total * 2.0**-22


@pytest.mark.parametrize("index", [1, -1])
def test_f36_a_bad_box_index_is_named_with_position_value_and_batch(index: int) -> None:
    """https://github.com/tensorflow/tensorflow/issues/10618"""
    message = rf"box_ind\[0\] is {index}, but the batch has 1 images"
    with pytest.raises(OutOfRangeError, match=message):
        gradops.crop_and_resize(ones(1, 3, 3, 1), [[0, 0, 1, 1]], [index], [2, 2])
    with pytest.raises(IndexError, match=message):
        gradops.crop_and_resize_grad_image(ones(1, 2, 2, 1), [[0, 0, 1, 1]], [index], [1, 3, 3, 1], np.float32)


def test_f38_degenerate_boxes_are_legal_and_empty_crops_are_not() -> None:
    """https://github.com/talmolab/sleap/issues/239"""
    with pytest.raises(InvalidArgumentError, match=r"crop dimensions must be positive, got crop_size \[0, 2\]"):
        gradops.crop_and_resize(ones(1, 3, 3, 1), [[0, 0, 1, 1]], [0], [0, 2])
    with pytest.raises(InvalidArgumentError, match=r"grads dimensions must be positive.*\(1, 0, 2, 1\)"):
        gradops.crop_and_resize_grad_image(ones(1, 0, 2, 1), [[0, 0, 1, 1]], [0], [1, 3, 3, 1], np.float32)
    assert (crop("F38", [3, 3]) == -1).all()
    gradient = grad_image("F38")
    assert gradient[0, 2, 1, 0] == 4.5
    assert np.count_nonzero(gradient) == 1


def test_f39_a_float16_gradient_does_not_stall() -> None:
    """https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/image/crop_and_resize_op.cc"""
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (4096, 1))
    image = gradops.crop_and_resize_grad_image(
        ones(4096, 4, 4, 1), boxes, np.zeros(4096, np.int32), [1, 4, 4, 1], np.float16
    )
    assert (image == 4096).all()


def test_f42_nearest_has_a_gradient_and_rounds_halves_up() -> None:
    """https://mindspore.cn/docs/zh-CN/r2.4.10/_sources/api_python/ops/mindspore.ops.CropAndResize.rst.txt"""
    assert crop("F42", [3, 3], "nearest")[0, :, :, 0].tolist() == [[1, 2, 2], [3, 4, 4], [3, 4, 4]]
    assert grad_image("F42", "nearest")[0, :, :, 0].tolist() == [[1, 5], [11, 28]]


def test_f44_extrapolation_counts_forward_and_not_backward() -> None:
    """https://github.com/openvinotoolkit/openvino/blob/master/tests/layer_tests/tensorflow_tests/test_tf_CropAndResize.py"""
    crops = crop("F44", [4, 5], extrapolation_value=1.0)[0, :, :, 0]
    assert (crops[[0, -1]] == 1).all()
    assert (crops[:, 0] == 1).all()
    inside = [[0.5, 0.875, 1.2916667, -0.2291666], [-1.1666667, 0.4375, -0.6666667, -0.8333333]]
    assert np.allclose(crops[1:3, 1:], inside, rtol=0, atol=1e-6)
    assert np.allclose(grad_image("F44"), CASES["F44_grad_image"], rtol=0, atol=1e-6)


def test_f45_a_fractional_crop_of_a_camera_image_is_float32() -> None:
    """https://github.com/pytorch/rl/pull/3995"""
    crops = crop("F45", [8, 8])
    assert crops.dtype == np.float32
    assert np.allclose(crops, CASES["F45_crops"], rtol=0, atol=2e-4)
    assert np.allclose(crops[0, 3, 4], [42.630936, 79.630936, 116.630936], rtol=0, atol=2e-4)


def test_f46_a_crop_on_whole_pixels_changes_none() -> None:
    """https://github.com/tensorflow/tfjs/issues/1325"""
    wanted = [[55, 108, 161, 214], [150, 203, 5, 58], [245, 47, 100, 153]]
    assert crop("F46", [3, 4])[0, :, :, 0].tolist() == wanted
    mistake = [[11 / 16, 5 / 16, 14 / 16, 9 / 16]]  # divided by the size instead of the size - 1
    corner = gradops.crop_and_resize(CASES["F46_image"], mistake, [0], [3, 4])[0, 0, 0, 0]
    assert abs(corner - 145.6875) < 2e-4
