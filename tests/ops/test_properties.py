"""What must hold for all arguments: adjoint pairs, linearity, and equality with the reference.

A failing example is printed as the line that makes it, `Convolution(...)` or `Crops(...)`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

import gradops
from gradops import errors, reference
from strategies import (
    Convolution,
    Crops,
    convolutions,
    crops,
    random_array,
    spoiled_convolutions,
    spoiled_crops,
)
from tolerances import assert_close, rounded_sum

Array = npt.NDArray[Any]
FLOATS = ("float32", "float64", "float16", "bfloat16")
IMAGE_DTYPES = ("float32", "float64", "float16", "uint8", "int8", "uint16", "int16", "int32", "int64")


def forward(case: Convolution) -> Array:
    result: Array = gradops.conv2d(case.input, case.filter, **case.attrs)
    return result


def backward(case: Convolution) -> Array:
    result: Array = gradops.conv2d_backprop_input(case.input_sizes, case.filter, case.out_backprop, **case.attrs)
    return result


def forward_bound(case: Convolution, exact: Array) -> Array:
    magnitude = reference.conv2d(np.abs(wide(case.input)), np.abs(wide(case.filter)), **case.attrs)
    return rounded_sum(case.input.dtype, case.forward_terms, magnitude, exact)


def backward_bound(case: Convolution, exact: Array) -> Array:
    magnitude = reference.conv2d_backprop_input(
        case.input_sizes, np.abs(wide(case.filter)), np.abs(wide(case.out_backprop)), **case.attrs
    )
    return rounded_sum(case.filter.dtype, case.gradient_terms, magnitude, exact)


def wide(values: Array) -> Array:
    return values.astype(np.float64)


def inner_mod_2_32(a: Array, b: Array) -> int:
    return int((a.astype(np.uint32) * b.astype(np.uint32)).sum(dtype=np.uint32))


# --- convolutions ---


@given(convolutions())
def test_conv2d_equals_the_reference(case: Convolution) -> None:
    result = forward(case)
    exact = reference.conv2d(case.input, case.filter, **case.attrs)
    assert result.dtype == case.input.dtype
    assert result.shape == case.output_sizes
    assert_close(result, exact, forward_bound(case, exact))


@given(convolutions())
def test_conv2d_backprop_input_equals_the_reference(case: Convolution) -> None:
    result = backward(case)
    exact = reference.conv2d_backprop_input(case.input_sizes, case.filter, case.out_backprop, **case.attrs)
    assert result.dtype == case.filter.dtype
    assert result.shape == case.input_sizes
    assert_close(result, exact, backward_bound(case, exact))


@given(convolutions(dtypes=("int32",)))
def test_the_convolutions_are_adjoint_exactly_modulo_2_to_the_32(case: Convolution) -> None:
    """<conv(x, w), g> == <x, backprop(w, g)>, without any rounding to excuse a wrong pixel."""
    assert inner_mod_2_32(forward(case), case.out_backprop) == inner_mod_2_32(case.input, backward(case))


@given(convolutions(dtypes=FLOATS))
def test_the_convolutions_are_adjoint_to_rounding(case: Convolution) -> None:
    left, right = wide(forward(case)) * wide(case.out_backprop), wide(case.input) * wide(backward(case))
    allowed = (forward_bound(case, forward(case)) * np.abs(wide(case.out_backprop))).sum()
    allowed += (backward_bound(case, backward(case)) * np.abs(wide(case.input))).sum()
    allowed += (left.size + right.size) * 2.0**-53 * (np.abs(left).sum() + np.abs(right).sum())
    assert abs(left.sum() - right.sum()) <= allowed


@given(convolutions(dtypes=("int32",)), st.integers(-(2**31), 2**31 - 1))
def test_the_convolutions_are_linear_exactly_modulo_2_to_the_32(case: Convolution, factor: int) -> None:
    other = dataclasses.replace(case, seed=case.seed + 1)
    scale = np.uint32(factor % 2**32)

    def combine(a: Array, b: Array) -> Array:
        return (scale * a.astype(np.uint32) + b.astype(np.uint32)).astype(np.int32)

    combined = gradops.conv2d(combine(case.input, other.input), case.filter, **case.attrs)
    apart = gradops.conv2d(other.input, case.filter, **case.attrs)
    assert np.array_equal(combined, combine(forward(case), apart))
    combined = gradops.conv2d_backprop_input(
        case.input_sizes, case.filter, combine(case.out_backprop, other.out_backprop), **case.attrs
    )
    apart = gradops.conv2d_backprop_input(case.input_sizes, case.filter, other.out_backprop, **case.attrs)
    assert np.array_equal(combined, combine(backward(case), apart))


@given(convolutions(dtypes=("float32", "float64")), st.sampled_from([-1.0, 4.0, -0.125]))
def test_scaling_by_a_power_of_two_scales_every_bit_of_the_convolutions(case: Convolution, factor: float) -> None:
    scale = case.input.dtype.type(factor)
    assert np.array_equal(gradops.conv2d(scale * case.input, case.filter, **case.attrs), scale * forward(case))
    scaled = gradops.conv2d_backprop_input(case.input_sizes, scale * case.filter, case.out_backprop, **case.attrs)
    assert np.array_equal(scaled, scale * backward(case))


@given(convolutions(), st.booleans())
def test_zero_in_zero_out(case: Convolution, zero_filter: bool) -> None:
    weights = np.zeros_like(case.filter) if zero_filter else case.filter
    image, grad = (case.input, case.out_backprop) if zero_filter else (case.input * 0, case.out_backprop * 0)
    assert not gradops.conv2d(image, weights, **case.attrs).any()
    assert not gradops.conv2d_backprop_input(case.input_sizes, weights, grad, **case.attrs).any()


def assert_same_sum(a: Array, b: Array, bound: Array) -> None:
    """Two results of the same sums, each within the bound of the exact one."""
    assert a.dtype == b.dtype
    assert_close(a, b if a.dtype == np.int32 else wide(b), 2 * bound)


@given(convolutions())
def test_nchw_is_transposed_nhwc(case: Convolution) -> None:
    last = dataclasses.replace(case, data_format="NHWC")
    first = dataclasses.replace(case, data_format="NCHW")
    nchw = (0, 3, 1, 2)
    result = gradops.conv2d(last.input.transpose(nchw), case.filter, **first.attrs)
    assert_same_sum(result, forward(last).transpose(nchw), forward_bound(last, forward(last)).transpose(nchw))
    result = gradops.conv2d_backprop_input(
        first.input_sizes, case.filter, last.out_backprop.transpose(nchw), **first.attrs
    )
    assert_same_sum(result, backward(last).transpose(nchw), backward_bound(last, backward(last)).transpose(nchw))


@given(convolutions())
def test_a_dilated_filter_is_a_filter_with_zeros_between_its_taps(case: Convolution) -> None:
    (height, width), (rows, columns) = case.filter_size, case.dilation
    stuffed = np.zeros(((height - 1) * rows + 1, (width - 1) * columns + 1, *case.filter.shape[2:]), case.filter.dtype)
    stuffed[::rows, ::columns] = case.filter
    attrs = {**case.attrs, "dilations": [1, 1, 1, 1]}
    result = gradops.conv2d(case.input, stuffed, **attrs)
    assert_same_sum(forward(case), result, forward_bound(case, result))
    result = gradops.conv2d_backprop_input(case.input_sizes, stuffed, case.out_backprop, **attrs)
    assert_same_sum(backward(case), result, backward_bound(case, result))


@given(convolutions())
def test_groups_are_convolutions_side_by_side(case: Convolution) -> None:
    axis = 1 if case.data_format == "NCHW" else 3
    one = dataclasses.replace(case, groups=1)

    def part(values: Array, axis: int, group: int) -> Array:
        return np.split(values, case.groups, axis)[group]

    result = np.concatenate(
        [gradops.conv2d(part(case.input, axis, g), part(case.filter, 3, g), **case.attrs) for g in range(case.groups)],
        axis,
    )
    assert_same_sum(forward(case), result, forward_bound(case, result))
    result = np.concatenate(
        [
            gradops.conv2d_backprop_input(
                one.input_sizes, part(case.filter, 3, g), part(case.out_backprop, axis, g), **case.attrs
            )
            for g in range(case.groups)
        ],
        axis,
    )
    assert_same_sum(backward(case), result, backward_bound(case, result))


@given(convolutions())
def test_same_is_explicit_padding_with_the_odd_pixel_after(case: Convolution) -> None:
    same = dataclasses.replace(case, padding="SAME")
    pads: list[int] = []
    for size, out, extent, stride, dilation in zip(
        case.in_size, same.out_size, case.filter_size, case.stride, case.dilation, strict=True
    ):
        needed = max(0, (out - 1) * stride + (extent - 1) * dilation + 1 - size)
        pads += [needed // 2, needed - needed // 2]
    explicit = dataclasses.replace(case, padding="EXPLICIT", pads=(pads[0], pads[1], pads[2], pads[3]))
    assert np.array_equal(forward(same), forward(explicit))
    assert np.array_equal(backward(same), backward(explicit))


@given(convolutions())
def test_two_input_sizes_are_four_where_there_is_one_group(case: Convolution) -> None:
    case = dataclasses.replace(case, groups=1)
    two = gradops.conv2d_backprop_input(list(case.in_size), case.filter, case.out_backprop, **case.attrs)
    assert np.array_equal(two, backward(case))


# --- crops ---


def crop(case: Crops, image: Array | None = None, extrapolation_value: float = 0.0) -> Array:
    result: Array = gradops.crop_and_resize(
        case.image if image is None else image,
        case.boxes,
        case.box_ind,
        list(case.crop_size),
        case.method,
        extrapolation_value,
    )
    return result


def crop_gradient(case: Crops, T: Any, grads: Array | None = None) -> Array:
    result: Array = gradops.crop_and_resize_grad_image(
        case.grads if grads is None else grads, case.boxes, case.box_ind, list(case.image_shape), T, case.method
    )
    return result


def reference_gradient(case: Crops, grads: Array) -> Array:
    return reference.crop_and_resize_grad_image(
        grads, case.boxes, case.box_ind, list(case.image_shape), np.float64, case.method
    )


def crop_bound(case: Crops) -> float:
    """Of a bilinear sample: two levels of a + (b - a) * w, six roundings, of sums of at most 6 pixels."""
    pixels = np.abs(case.image.astype(np.float32)).max(initial=0)
    return 0.0 if case.method == "nearest" else float(rounded_sum(np.float32, 6, 6 * pixels, 0))


def gradient_bound(case: Crops, T: Any, exact: Array) -> Array:
    """Each term has two float32 products and two float32 differences in it, T sums them."""
    magnitude = reference_gradient(case, np.abs(case.grads))
    terms = 4 * case.num_boxes * case.crop_size[0] * case.crop_size[1]
    if np.dtype(T) == np.float64:
        return rounded_sum(np.float64, terms, magnitude, exact) + rounded_sum(np.float32, 0, magnitude, exact, 4)
    return rounded_sum(T, terms, magnitude, exact, 4)


@given(crops(dtypes=IMAGE_DTYPES), st.sampled_from([0.0, -2.5]))
def test_crop_and_resize_equals_the_reference(case: Crops, extrapolation_value: float) -> None:
    exact = reference.crop_and_resize(
        case.image, case.boxes, case.box_ind, case.crop_size, case.method, extrapolation_value
    )
    result = crop(case, extrapolation_value=extrapolation_value)
    assert result.dtype == np.float32
    assert_close(result, exact, crop_bound(case))


@given(crops(), st.sampled_from(["float32", "float64", "float16"]))
def test_crop_and_resize_grad_image_equals_the_reference(case: Crops, T: str) -> None:
    exact = reference_gradient(case, case.grads)
    result = crop_gradient(case, T)
    assert result.dtype == T
    assert_close(result, exact, gradient_bound(case, T, exact))


@given(crops())
def test_the_crops_are_adjoint(case: Crops) -> None:
    """<crop(image), g> == <image, gradient(g)>, to rounding."""
    left = wide(crop(case)) * wide(case.grads)
    gradient = crop_gradient(case, np.float64)
    right = wide(case.image) * gradient
    allowed = (crop_bound(case) * np.abs(case.grads)).sum()
    allowed += (gradient_bound(case, np.float64, gradient) * np.abs(case.image)).sum()
    allowed += (left.size + right.size) * 2.0**-53 * (np.abs(left).sum() + np.abs(right).sum())
    assert abs(left.sum() - right.sum()) <= allowed


def simple_crops(case: Crops) -> Crops:
    """The same, with boxes on the pixels and a crop of two rows and columns: all weights are 0 or 1."""
    return dataclasses.replace(case, crop_size=(2, 2), kind="unit")


@given(crops(), st.sampled_from(["float32", "float64"]), st.integers(-8, 8))
def test_the_crop_gradient_is_linear_exactly_on_whole_numbers(case: Crops, T: str, factor: int) -> None:
    case = simple_crops(case)
    a, b = (random_array(case.seed + i, case.grads.shape, "int32") % 1000 for i in (0, 1))
    a, b = a.astype(np.float32), b.astype(np.float32)
    combined = crop_gradient(case, T, factor * a + b)
    assert np.array_equal(combined, factor * crop_gradient(case, T, a) + crop_gradient(case, T, b))


@given(crops(), st.sampled_from([-1.0, 4.0, -0.125]))
def test_scaling_by_a_power_of_two_scales_every_bit_of_the_crops(case: Crops, factor: float) -> None:
    scale = np.float32(factor)
    assert np.array_equal(crop(case, scale * case.image), scale * crop(case))
    for dtype in (np.float32, np.float64):
        assert np.array_equal(crop_gradient(case, dtype, scale * case.grads), scale * crop_gradient(case, dtype))


@given(crops(), st.sampled_from(["float32", "float64", "float16"]))
def test_zero_gradients_make_a_zero_image(case: Crops, T: str) -> None:
    assert not crop_gradient(case, T, np.zeros_like(case.grads)).any()


@given(crops())
def test_mirrored_boxes_mirror_the_crop(case: Crops) -> None:
    """Boxes in eighths: the coordinates have no rounding that depends on the direction."""
    height = 9 if case.image_size[0] > 1 else 1
    case = dataclasses.replace(case, kind="eighths", image_size=(height, 9), crop_size=(3, 5))
    flipped = crop(dataclasses.replace(case), case.image)
    result = gradops.crop_and_resize(case.image, case.boxes[:, [2, 3, 0, 1]], case.box_ind, [3, 5], case.method)
    assert np.array_equal(result, flipped[:, ::-1, ::-1])


# --- arguments that may be anything ---


def assert_result_or_error(function: Any, oracle: Any, arguments: dict[str, Any]) -> None:
    """A refusal names the operator; a result has the reference's shape, and is finite if the inputs are ordinary."""
    refusal = ""
    try:
        result = function(**arguments)
    except (errors.GradopsError, TypeError) as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith(f"{function.__name__}: ")
        return
    given = {name: value for name, value in arguments.items() if value is not None}
    with np.errstate(all="ignore"):
        exact = oracle(**given).astype(result.dtype)
    assert result.shape == exact.shape
    inputs = [wide(value) for value in arguments.values() if isinstance(value, np.ndarray)]
    if all((np.abs(value) < 1e30).all() for value in inputs):
        assert np.array_equal(np.isfinite(wide(result)), np.isfinite(wide(exact)))


@given(spoiled_convolutions(forward=True))
def test_conv2d_gives_a_result_or_an_error_whatever_it_is_given(arguments: dict[str, Any]) -> None:
    assert_result_or_error(gradops.conv2d, reference.conv2d, arguments)


@given(spoiled_convolutions(forward=False))
def test_conv2d_backprop_input_gives_a_result_or_an_error_whatever_it_is_given(arguments: dict[str, Any]) -> None:
    assert_result_or_error(gradops.conv2d_backprop_input, reference.conv2d_backprop_input, arguments)


@given(spoiled_crops(forward=True))
def test_crop_and_resize_gives_a_result_or_an_error_whatever_it_is_given(arguments: dict[str, Any]) -> None:
    assert_result_or_error(gradops.crop_and_resize, reference.crop_and_resize, arguments)


@given(spoiled_crops(forward=False))
def test_the_crop_gradient_gives_a_result_or_an_error_whatever_it_is_given(arguments: dict[str, Any]) -> None:
    assert_result_or_error(gradops.crop_and_resize_grad_image, reference.crop_and_resize_grad_image, arguments)
