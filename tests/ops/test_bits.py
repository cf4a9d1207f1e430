"""The same bits for any number of threads, any instruction set, any split of the batch, and every run."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gradops
from gradops import _core, reference
from strategies import Convolution, Crops
from tolerances import assert_close, rounded_sum

pytestmark = pytest.mark.usefixtures("restore_settings")

Array = npt.NDArray[Any]
THREADS = (1, 2, 3, 8)

# Batches of 3, so that they can be split. Names say what is special.
CONVOLUTIONS = {
    # few channels in, few out
    "one channel": Convolution(3, (13, 17), 1, 1, 1, (3, 3)),
    "rgb to 8": Convolution(3, (14, 15), 1, 3, 8, (5, 5), stride=(2, 2)),
    "2 to 3, valid": Convolution(3, (9, 33), 1, 2, 3, (2, 4), padding="VALID"),
    "1 to 65": Convolution(3, (7, 9), 1, 1, 65, (3, 3)),
    "65 to 1": Convolution(3, (7, 9), 1, 65, 1, (3, 3)),
    # wide: more than 256 terms in every sum, in both directions
    "64 to 32, 576 and 288 terms": Convolution(3, (8, 9), 1, 64, 32, (3, 3)),
    "17 to 300": Convolution(3, (5, 4), 1, 17, 300, (1, 1)),
    "300 to 33, pointwise": Convolution(3, (6, 7), 1, 300, 33, (1, 1)),
    "pointwise, stride 2": Convolution(3, (8, 9), 1, 40, 24, (1, 1), stride=(2, 2)),
    "513 terms in a row": Convolution(3, (1, 600), 1, 1, 1, (1, 513), padding="VALID"),
    "filter as large as the image": Convolution(3, (7, 7), 1, 8, 48, (7, 7), padding="VALID"),
    # strides and dilations
    "stride 2": Convolution(3, (15, 16), 1, 16, 16, (3, 3), stride=(2, 2)),
    "stride 3 and 1": Convolution(3, (15, 16), 1, 8, 12, (4, 2), stride=(3, 1)),
    "stride beyond the filter": Convolution(3, (15, 16), 1, 8, 12, (2, 1), stride=(4, 3), padding="VALID"),
    "dilation 2": Convolution(3, (12, 11), 1, 16, 20, (3, 3), dilation=(2, 2)),
    "dilation 3 and 1, stride 1 and 2": Convolution(3, (12, 11), 1, 9, 7, (2, 3), stride=(1, 2), dilation=(3, 1)),
    "stride and dilation, explicit": Convolution(
        3, (11, 10), 1, 5, 6, (3, 2), (2, 3), (2, 1), padding="EXPLICIT", pads=(3, 0, 1, 5)
    ),
    "padding beyond the filter": Convolution(3, (5, 6), 1, 4, 8, (2, 2), padding="EXPLICIT", pads=(4, 3, 5, 2)),
    # groups
    "depthwise": Convolution(3, (13, 12), 33, 1, 1, (3, 3)),
    "depthwise, stride 2": Convolution(3, (13, 12), 16, 1, 1, (5, 5), stride=(2, 2)),
    "depthwise, dilation 2": Convolution(3, (13, 12), 8, 1, 1, (3, 3), dilation=(2, 2)),
    "depthwise, multiplier 3": Convolution(3, (9, 8), 7, 1, 3, (3, 3)),
    "two groups of 8": Convolution(3, (9, 8), 2, 8, 8, (3, 3)),
    "32 groups of 4": Convolution(3, (6, 7), 32, 4, 4, (3, 3)),
    "three groups, 5 to 2": Convolution(3, (9, 8), 3, 5, 2, (2, 3), stride=(2, 1)),
    # one dimension
    "a column": Convolution(3, (40, 1), 1, 3, 4, (5, 1), stride=(2, 1)),
    "a row": Convolution(3, (1, 131), 1, 4, 3, (1, 9)),
    # enough pixels that the work within one image is shared among threads
    "a large image": Convolution(3, (70, 90), 1, 3, 4, (3, 3)),
    "a large image of 8 channels": Convolution(3, (24, 25), 1, 8, 9, (3, 3)),
}
# Sums of 36100 terms, which are kept in more than the element type.
LONG_SUMS = {
    "forward": Convolution(2, (190, 191), 1, 1, 1, (190, 190), padding="VALID"),
    "gradient": Convolution(2, (1, 2), 1, 1, 1, (190, 190), padding="EXPLICIT", pads=(189, 189, 189, 188)),
}
LAYOUTS_AND_DTYPES = [
    ("NHWC", "float32"),
    ("NHWC", "float64"),
    ("NHWC", "float16"),
    ("NHWC", "bfloat16"),
    ("NHWC", "int32"),
    ("NCHW", "float32"),
    ("NCHW", "bfloat16"),
]

DIRECTIONS = {
    "forward": lambda case: gradops.conv2d(case.input, case.filter, **case.attrs),
    "gradient": lambda case: gradops.conv2d_backprop_input(
        case.input_sizes, case.filter, case.out_backprop, **case.attrs
    ),
}


def image_of(case: Convolution, direction: str, index: int) -> Convolution:
    """One image of the batch as a convolution of its own."""
    one = dataclasses.replace(case, batch=1)
    name = "input" if direction == "forward" else "out_backprop"
    one.__dict__.update(filter=case.filter, **{name: getattr(case, name)[index : index + 1]})
    return one


def settings() -> Iterator[tuple[str, int]]:
    """Every instruction set with every number of threads; leaves the settings as the last pair says."""
    for level, threads in itertools.product(_core.available_levels(), THREADS):
        assert _core.set_level(level)
        gradops.set_num_threads(threads)
        yield level, threads


def assert_same_bits(result: Array, wanted: Array, what: object) -> None:
    assert result.dtype == wanted.dtype
    assert result.shape == wanted.shape
    assert result.tobytes() == wanted.tobytes(), f"{what}: {np.count_nonzero(result != wanted)} elements differ"


@pytest.mark.parametrize(("data_format", "dtype"), LAYOUTS_AND_DTYPES, ids=lambda value: value)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_have_the_same_bits_everywhere(name: str, direction: str, data_format: str, dtype: str) -> None:
    case = dataclasses.replace(CONVOLUTIONS[name], data_format=data_format, dtype=dtype)
    compute: Callable[[Convolution], Array] = DIRECTIONS[direction]
    wanted = compute(case)
    assert_same_bits(compute(case), wanted, "second run")
    images = [compute(image_of(case, direction, index)) for index in range(case.batch)]
    assert_same_bits(np.concatenate(images), wanted, "image by image")
    for setting in settings():
        assert_same_bits(compute(case), wanted, setting)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_very_long_sums_have_the_same_bits_everywhere(direction: str, dtype: str) -> None:
    case = dataclasses.replace(LONG_SUMS[direction], dtype=dtype)
    compute: Callable[[Convolution], Array] = DIRECTIONS[direction]
    wanted = compute(case)
    images = [compute(image_of(case, direction, index)) for index in range(case.batch)]
    assert_same_bits(np.concatenate(images), wanted, "image by image")
    for level, threads in itertools.product(_core.available_levels(), (1, 3)):
        assert _core.set_level(level)
        gradops.set_num_threads(threads)
        assert_same_bits(compute(case), wanted, (level, threads))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_bits_are_those_of_a_right_result(name: str, direction: str) -> None:
    """Or equal bits would prove nothing."""
    case = CONVOLUTIONS[name]
    result = DIRECTIONS[direction](case)
    if direction == "forward":
        exact = reference.conv2d(case.input, case.filter, **case.attrs)
        magnitude = reference.conv2d(np.abs(case.input), np.abs(case.filter), **case.attrs)
    else:
        sizes = case.input_sizes
        exact = reference.conv2d_backprop_input(sizes, case.filter, case.out_backprop, **case.attrs)
        magnitude = reference.conv2d_backprop_input(sizes, np.abs(case.filter), np.abs(case.out_backprop), **case.attrs)
    terms = case.forward_terms if direction == "forward" else case.gradient_terms
    assert_close(result, exact, rounded_sum(np.float32, terms, magnitude, exact))


def algorithm(case: Convolution, direction: str) -> str:
    """The name of the algorithm that a convolution takes."""
    from gradops.ops import conv2d, conv2d_backprop_input
    from gradops.ops._sizes import size_vector_from_list

    attrs = (
        tuple(case.attrs["strides"]),
        case.padding,
        tuple(case.attrs["explicit_paddings"]),
        case.data_format,
        tuple(case.attrs["dilations"]),
    )
    if direction == "forward":
        plan = conv2d.plan_convolution(case.input_sizes, case.filter.shape, *attrs)
    else:
        sizes = size_vector_from_list(list(case.input_sizes))
        plan = conv2d_backprop_input.plan_convolution(sizes, case.filter.shape, case.output_sizes, *attrs)
    return str(plan.plan(np.dtype(case.dtype)).algorithm)


def test_the_cases_above_reach_every_algorithm() -> None:
    reached = {
        algorithm(dataclasses.replace(case, dtype=dtype), direction)
        for dtype in ("float32", "float64")
        for direction in DIRECTIONS
        for case in (*CONVOLUTIONS.values(), LONG_SUMS[direction])
    }
    assert reached == {"compensated", "depthwise", "direct", "strips", "wide"}


# --- crops ---

DEPTHS = (1, 2, 3, 4, 8, 15, 16, 64, 256)
CROPS = {
    **{f"depth {depth}, overlapping": Crops(3, (9, 11), depth, 40, (5, 6), "overlapping") for depth in DEPTHS},
    **{f"depth {depth}, anywhere": Crops(3, (20, 17), depth, 13, (7, 4), seed=depth) for depth in DEPTHS},
    "one image, many boxes": Crops(1, (30, 31), 3, 200, (7, 7), "inside"),
    "one pixel": Crops(1, (1, 1), 5, 60, (3, 3), "overlapping"),
    "one box": Crops(1, (60, 50), 4, 1, (40, 40), "unit"),
    "crops of one": Crops(3, (9, 9), 6, 100, (1, 1)),
    "a tall image": Crops(2, (300, 2), 3, 20, (50, 3)),
    "a wide image": Crops(2, (2, 300), 3, 20, (3, 50)),
    "boxes in eighths": Crops(2, (17, 17), 2, 30, (9, 5), "eighths"),
}
METHODS = ("bilinear", "nearest")


def gradient(case: Crops, T: Any, chosen: Any = slice(None)) -> Array:
    result: Array = gradops.crop_and_resize_grad_image(
        case.grads[chosen], case.boxes[chosen], case.box_ind[chosen], list(case.image_shape), T, case.method
    )
    return result


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("T", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", CROPS)
def test_crop_gradients_have_the_same_bits_everywhere(name: str, T: str, method: str) -> None:
    case = dataclasses.replace(CROPS[name], method=method)
    wanted = gradient(case, T)
    assert wanted.any()
    assert_same_bits(gradient(case, T), wanted, "second run")
    for index in range(case.batch):
        mine = gradient(case, T, case.box_ind == index)  # the boxes of one image, their order kept
        assert_same_bits(mine[index], wanted[index], f"image {index} alone")
    for setting in settings():
        assert_same_bits(gradient(case, T), wanted, setting)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16", "float64", "int64"])
@pytest.mark.parametrize("name", CROPS)
def test_crops_have_the_same_bits_everywhere(name: str, dtype: str, method: str) -> None:
    case = dataclasses.replace(CROPS[name], method=method, dtype=dtype)

    def crop(chosen: Any = slice(None)) -> Array:
        result: Array = gradops.crop_and_resize(
            case.image, case.boxes[chosen], case.box_ind[chosen], list(case.crop_size), method, 0.25
        )
        return result

    wanted = crop()
    assert_same_bits(np.concatenate([crop([box]) for box in range(case.num_boxes)]), wanted, "box by box")
    for setting in settings():
        assert_same_bits(crop(), wanted, setting)


def sequential_gradient(case: Crops, T: Any) -> Array:
    """TensorFlow's deterministic mode, step by step: float32, one rounding an operation, box by box."""
    f = np.float32
    image = np.zeros(case.image_shape, T)
    height, width = case.image_size
    for b, (y1, x1, y2, x2) in enumerate(case.boxes):
        pixels = image[case.box_ind[b]]
        for i, y in enumerate(reference.sample_positions(y1, y2, case.crop_size[0], height)):
            for j, x in enumerate(reference.sample_positions(x1, x2, case.crop_size[1], width)):
                if np.isnan(y) or np.isnan(x):
                    continue
                g = case.grads[b, i, j]
                if case.method == "nearest":
                    pixels[int(np.floor(float(y) + 0.5)), int(np.floor(float(x) + 0.5))] += g.astype(T)
                    continue
                top, left, bottom, right = int(np.floor(y)), int(np.floor(x)), int(np.ceil(y)), int(np.ceil(x))
                fy, fx = f(y - f(top)), f(x - f(left))
                upper, lower = (f(1) - fy) * g, fy * g
                pixels[top, left] += ((f(1) - fx) * upper).astype(T)
                pixels[top, right] += (fx * upper).astype(T)
                pixels[bottom, left] += ((f(1) - fx) * lower).astype(T)
                pixels[bottom, right] += (fx * lower).astype(T)
    return image


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("T", ["float32", "float64"])
@pytest.mark.parametrize("name", CROPS)
def test_crop_gradients_have_the_bits_of_adding_one_sample_after_the_other(name: str, T: str, method: str) -> None:
    case = dataclasses.replace(CROPS[name], method=method)
    # A pixel that only zeros of either sign reach may differ in the sign of zero: none of that here.
    assert_same_bits(gradient(case, T), sequential_gradient(case, T), "sequential")
