"""The error table: call, class, words of the message, in the order in which the checks are made."""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradops
from gradops import errors
from gradops.errors import (
    GradopsError,
    InvalidArgumentError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
)


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


#: A legal call of each operator.
CONV2D: dict[str, Any] = {
    "input": ones(2, 5, 6, 4),
    "filter": ones(3, 2, 2, 8),
    "strides": [1, 2, 1, 1],
    "padding": "SAME",
}
BACKPROP: dict[str, Any] = {
    "input_sizes": [2, 5, 6, 4],
    "filter": ones(3, 2, 2, 8),
    "out_backprop": ones(2, 3, 6, 8),
    "strides": [1, 2, 1, 1],
    "padding": "SAME",
}
CROP: dict[str, Any] = {
    "image": ones(2, 4, 5, 3),
    "boxes": np.zeros((2, 4), np.float32),
    "box_ind": [0, 1],
    "crop_size": [2, 3],
}
GRAD_IMAGE: dict[str, Any] = {
    "grads": ones(2, 2, 3, 3),
    "boxes": np.zeros((2, 4), np.float32),
    "box_ind": [0, 1],
    "image_size": [2, 4, 5, 3],
    "T": np.float32,
}

# what, arguments that differ from the legal call, class, words of the message. In the order of the
# checks: of two faults in one call, the earlier row is reported.
Row = tuple[str, dict[str, Any], type[BaseException], list[str]]
EXPLICIT = {"padding": "EXPLICIT"}

CONVOLUTION_ATTRIBUTES: list[Row] = [
    ("padding in lower case", {"padding": "same"}, InvalidArgumentError, ["'padding'", "'same'", "'SAME', 'VALID'"]),
    ("data_format of volumes", {"data_format": "NDHWC"}, InvalidArgumentError, ["'data_format'", "'NHWC', 'NCHW'"]),
    (
        "a stride beyond 32 bits",
        {"strides": [1, 2**31, 1, 1]},
        InvalidArgumentError,
        ["strides", "2147483648", "int32"],
    ),
]
STRIDES_LENGTH: list[Row] = [
    ("three strides", {"strides": [1, 2, 1]}, InvalidArgumentError, ["strides must have 4 values", "got 3: [1, 2, 1]"]),
]
DILATIONS_LENGTH: list[Row] = [
    ("five dilations", {"dilations": [1] * 5}, InvalidArgumentError, ["dilations must have 4 values", "got 5"]),
]
STRIDES: list[Row] = [
    (
        "a stride over the batch",
        {"strides": [2, 1, 1, 1]},
        UnimplementedError,
        ["strides in the batch", "[2, 1, 1, 1]"],
    ),
    ("a stride of 0", {"strides": [1, 2, 0, 1]}, InvalidArgumentError, ["strides", "larger than 0", "[1, 2, 0, 1]"]),
]
DILATIONS: list[Row] = [
    ("dilated channels", {"dilations": [1, 1, 1, 2]}, UnimplementedError, ["dilations in the batch", "[1, 1, 1, 2]"]),
    ("a dilation of -1", {"dilations": [1, -1, 1, 1]}, InvalidArgumentError, ["dilations", "larger than 0", "-1"]),
]
EXPLICIT_PADDINGS: list[Row] = [
    (
        "six paddings",
        {**EXPLICIT, "explicit_paddings": [0] * 6},
        InvalidArgumentError,
        ["must contain 8 values", "got 6"],
    ),
    (
        "a negative padding",
        {**EXPLICIT, "explicit_paddings": [0, 0, -1, 0, 0, 0, 0, 0]},
        InvalidArgumentError,
        ["must be nonnegative", "-1"],
    ),
    (
        "padding of the batch",
        {**EXPLICIT, "explicit_paddings": [0, 1, 0, 0, 0, 0, 0, 0]},
        InvalidArgumentError,
        ["nonzero explicit_paddings in the batch or channel", "[0, 1, 0"],
    ),
    (
        "paddings with SAME",
        {"explicit_paddings": [0] * 8},
        InvalidArgumentError,
        ["must be empty with padding", "'SAME'", "Use padding 'EXPLICIT'"],
    ),
]

TABLE: dict[str, tuple[Callable[..., Any], dict[str, Any], list[Row]]] = {
    "conv2d": (
        gradops.conv2d,
        CONV2D,
        [
            *CONVOLUTION_ATTRIBUTES,
            *DILATIONS_LENGTH,
            *STRIDES_LENGTH,
            *STRIDES,
            *DILATIONS,
            *EXPLICIT_PADDINGS,
            (
                "input of rank 3",
                {"input": ones(5, 6, 4)},
                InvalidArgumentError,
                ["input must be 4-dim", "rank 3", "(5, 6, 4)"],
            ),
            (
                "filter of rank 5",
                {"filter": ones(1, 3, 2, 2, 8)},
                InvalidArgumentError,
                ["filter must be 4-dim", "rank 5"],
            ),
            (
                "filter depth 0",
                {"filter": ones(3, 2, 0, 8)},
                InvalidArgumentError,
                ["filter depth", "greater than zero"],
            ),
            (
                "depths that do not divide",
                {"filter": ones(3, 2, 3, 8)},
                InvalidArgumentError,
                ["evenly divisible", "has 4 channels", "takes 3"],
            ),
            (
                "filter too high",
                {"padding": "VALID", "filter": ones(9, 2, 2, 8)},
                InvalidArgumentError,
                ["output height would be negative", "height 5", "filter of 9"],
            ),
            (
                "filter too wide",
                {"padding": "VALID", "filter": ones(3, 9, 2, 8)},
                InvalidArgumentError,
                ["output width would be negative", "width 6", "filter of 9"],
            ),
            (
                "filter without width",
                {"filter": ones(3, 0, 2, 8)},
                InvalidArgumentError,
                ["zero elements", "(3, 0, 2, 8)"],
            ),
            (
                "groups that do not divide the output",
                {"filter": ones(3, 2, 2, 7)},
                InvalidArgumentError,
                ["evenly divisible by the number of groups", "7 channels", "2 groups"],
            ),
        ],
    ),
    "conv2d_backprop_input": (
        gradops.conv2d_backprop_input,
        BACKPROP,
        [
            *CONVOLUTION_ATTRIBUTES,
            *STRIDES_LENGTH,
            *STRIDES,
            *DILATIONS_LENGTH,
            *DILATIONS,
            *EXPLICIT_PADDINGS,
            (
                "out_backprop of rank 3",
                {"out_backprop": ones(3, 6, 8)},
                InvalidArgumentError,
                ["out_backprop must be 4", "rank 3"],
            ),
            (
                "sizes of rank 2",
                {"input_sizes": [[2, 5, 6, 4]]},
                InvalidArgumentError,
                ["input_sizes must be 1-dim", "rank 2"],
            ),
            (
                "a size of -1",
                {"input_sizes": [-1, 5, 6, 4]},
                InvalidArgumentError,
                ["must be >= 0", "-1 is not inferred"],
            ),
            ("too many elements", {"input_sizes": [2**31 - 1] * 4}, InvalidArgumentError, ["2**63 - 1 elements"]),
            (
                "three sizes",
                {"input_sizes": [5, 6, 4]},
                InvalidArgumentError,
                ["4 values or 2 values", "got 3", "NHWC"],
            ),
            ("filter of rank 3", {"filter": ones(2, 2, 8)}, InvalidArgumentError, ["filter must be 4-dim", "rank 3"]),
            (
                "another batch",
                {"input_sizes": [3, 5, 6, 4]},
                InvalidArgumentError,
                ["same batch size", "has 3", "has 2"],
            ),
            (
                "filter depth 0",
                {"filter": ones(3, 2, 0, 8)},
                InvalidArgumentError,
                ["filter depth", "greater than zero"],
            ),
            (
                "depths that do not divide",
                {"filter": ones(3, 2, 3, 8)},
                InvalidArgumentError,
                ["evenly divisible", "has 4 channels", "takes 3"],
            ),
            (
                "another out_channels",
                {"out_backprop": ones(2, 3, 6, 5)},
                InvalidArgumentError,
                ["same out_channels", "makes 8", "has 5", "Give out_backprop 8 channels or a filter ending in 5"],
            ),
            (
                "filter too high",
                {"padding": "VALID", "filter": ones(9, 2, 2, 8)},
                InvalidArgumentError,
                ["output height would be negative", "height 5", "filter of 9"],
            ),
            (
                "another height",
                {"out_backprop": ones(2, 4, 6, 8)},
                InvalidArgumentError,
                ["has height 4", "input of height 5", "stride 2", "Give out_backprop height 3"],
            ),
            (
                "filter too wide",
                {"padding": "VALID", "filter": ones(3, 9, 2, 8), "out_backprop": ones(2, 2, 6, 8)},
                InvalidArgumentError,
                ["output width would be negative", "width 6", "filter of 9"],
            ),
            (
                "another width",
                {"out_backprop": ones(2, 3, 7, 8)},
                InvalidArgumentError,
                ["has width 7", "input of width 6", "Give out_backprop width 6"],
            ),
            (
                "groups that do not divide the output",
                {"filter": ones(3, 2, 2, 7), "out_backprop": ones(2, 3, 6, 7)},
                InvalidArgumentError,
                ["2 groups", "7 channels"],
            ),
        ],
    ),
    "crop_and_resize": (
        gradops.crop_and_resize,
        CROP,
        [
            ("method in capitals", {"method": "BILINEAR"}, InvalidArgumentError, ["'method'", "'bilinear', 'nearest'"]),
            (
                "extrapolation that is no number",
                {"extrapolation_value": "0"},
                TypeError,
                ["'extrapolation_value'", "'0'"],
            ),
            (
                "image of rank 3",
                {"image": ones(4, 5, 3)},
                InvalidArgumentError,
                ["image must be 4-D", "rank 3", "(4, 5, 3)"],
            ),
            (
                "image without height",
                {"image": ones(2, 0, 5, 3)},
                InvalidArgumentError,
                ["image dimensions must be positive", "height 0"],
            ),
            ("boxes of rank 1", {"boxes": ones(4)}, InvalidArgumentError, ["boxes must be 2-D", "rank 1"]),
            ("box_ind of rank 2", {"box_ind": [[0, 1]]}, InvalidArgumentError, ["box_ind must be 1-D", "rank 2"]),
            ("boxes of 5 columns", {"boxes": ones(2, 5)}, InvalidArgumentError, ["boxes must have 4 columns", "got 5"]),
            (
                "too few indices",
                {"box_ind": [0]},
                InvalidArgumentError,
                ["box_ind has incompatible shape (1,)", "2 boxes"],
            ),
            ("crop_size of rank 2", {"crop_size": [[2, 3]]}, InvalidArgumentError, ["crop_size must be 1-D", "rank 2"]),
            (
                "three crop sizes",
                {"crop_size": [2, 3, 3]},
                InvalidArgumentError,
                ["crop_size must have 2 elements", "got 3"],
            ),
            (
                "a crop of 0",
                {"crop_size": [2, 0]},
                InvalidArgumentError,
                ["crop dimensions must be positive", "[2, 0]"],
            ),
            ("crops beyond 64 bits", {"crop_size": [2**31 - 1] * 2}, InvalidArgumentError, ["2**63 - 1 elements"]),
            ("an index beyond the batch", {"box_ind": [0, 2]}, OutOfRangeError, ["box_ind[1] is 2", "has 2 images"]),
            (
                "a box of NaN",
                {"boxes": np.full((2, 4), np.nan, np.float32)},
                InvalidArgumentError,
                ["not finite", "boxes[0, 0] is nan"],
            ),
        ],
    ),
    "crop_and_resize_grad_image": (
        gradops.crop_and_resize_grad_image,
        GRAD_IMAGE,
        [
            ("T of int32", {"T": np.int32}, InvalidArgumentError, ["'T'", "int32", "float, half, double"]),
            ("method in capitals", {"method": "BILINEAR"}, InvalidArgumentError, ["'method'", "'bilinear', 'nearest'"]),
            ("grads of rank 3", {"grads": ones(2, 3, 3)}, InvalidArgumentError, ["grads must be 4-D", "rank 3"]),
            (
                "crops without height",
                {"grads": ones(2, 0, 3, 3)},
                InvalidArgumentError,
                ["grads dimensions must be positive", "(2, 0, 3, 3)"],
            ),
            ("boxes of rank 1", {"boxes": ones(8)}, InvalidArgumentError, ["boxes must be 2-D", "rank 1"]),
            ("boxes of 3 columns", {"boxes": ones(2, 3)}, InvalidArgumentError, ["boxes must have 4 columns", "got 3"]),
            ("box_ind of rank 2", {"box_ind": [[0, 1]]}, InvalidArgumentError, ["box_ind must be 1-D", "rank 2"]),
            (
                "too few indices",
                {"box_ind": [0]},
                InvalidArgumentError,
                ["box_ind has incompatible shape (1,)", "2 boxes"],
            ),
            (
                "grads of another number of boxes",
                {"grads": ones(3, 2, 3, 3)},
                InvalidArgumentError,
                ["boxes and grads have incompatible shapes", "holds 2", "holds 3"],
            ),
            (
                "image_size of rank 2",
                {"image_size": [[2, 4, 5, 3]]},
                InvalidArgumentError,
                ["image_size must be 1-D", "rank 2"],
            ),
            (
                "three image sizes",
                {"image_size": [4, 5, 3]},
                InvalidArgumentError,
                ["image_size must have 4 elements", "got 3"],
            ),
            (
                "an image without height",
                {"image_size": [2, 0, 5, 3]},
                InvalidArgumentError,
                ["image dimensions must be positive", "height 0"],
            ),
            (
                "another depth",
                {"image_size": [2, 4, 5, -3]},
                InvalidArgumentError,
                ["image_size and grads are incompatible", "depth -3", "has 3"],
            ),
            (
                "a negative batch",
                {"image_size": [-1, 4, 5, 3]},
                InvalidArgumentError,
                ["batch of image_size must be >= 0", "-1"],
            ),
            (
                "an image beyond 64 bits",
                {"image_size": [2**31 - 1] * 3 + [3]},
                InvalidArgumentError,
                ["2**63 - 1 elements"],
            ),
            ("an index below 0", {"box_ind": [0, -1]}, OutOfRangeError, ["box_ind[1] is -1", "has 2 images"]),
            (
                "an infinite box",
                {"boxes": np.full((2, 4), np.inf, np.float32)},
                InvalidArgumentError,
                ["not finite", "boxes[0, 0] is inf"],
            ),
        ],
    ),
}

ROWS = [(op, row) for op, (_, _, rows) in TABLE.items() for row in rows]


def assert_refused(op: str, arguments: dict[str, Any], error: type[BaseException], words: list[str]) -> None:
    function, legal, _ = TABLE[op]
    with pytest.raises(error, match=rf"^{op}: ") as raised:
        function(**{**legal, **arguments})
    assert type(raised.value) is error
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize("op", TABLE)
def test_the_legal_call_is_legal(op: str) -> None:
    function, legal, _ = TABLE[op]
    assert np.isfinite(function(**legal)).all()


@pytest.mark.parametrize(("op", "row"), ROWS, ids=[f"{op}, {row[0]}" for op, row in ROWS])
def test_a_fault_is_named_with_its_numbers(op: str, row: Row) -> None:
    _, arguments, error, words = row
    assert_refused(op, arguments, error, words)


@pytest.mark.parametrize("op", TABLE)
def test_of_two_faults_the_earlier_in_the_table_is_reported(op: str) -> None:
    checked = 0
    for earlier, later in itertools.combinations(TABLE[op][2], 2):
        if earlier[1].keys() & later[1].keys():
            continue  # faults of the same argument
        try:
            assert_refused(op, {**later[1], **earlier[1]}, earlier[2], earlier[3][:1])
        except AssertionError as error:
            raise AssertionError(f"{earlier[0]} + {later[0]}: {error}") from error
        checked += 1
    assert checked > 40


# what, function, arguments, class, words
TYPES: list[tuple[str, str, dict[str, Any], type[BaseException], list[str]]] = [
    (
        "float64 for T float32",
        "conv2d",
        {"filter": ones(3, 2, 2, 8, dtype=np.float64)},
        InvalidArgumentError,
        ["filter is float64", "an earlier input is float32", "filter.astype(float32)"],
    ),
    (
        "an element type no convolution has",
        "conv2d",
        {"input": ones(2, 5, 6, 4, dtype=np.int8), "filter": ones(3, 2, 2, 8, dtype=np.int8)},
        InvalidArgumentError,
        ["'T'", "int8", "half, bfloat16, float, double, int32"],
    ),
    (
        "an image of bool",
        "crop_and_resize",
        {"image": ones(2, 4, 5, 3, dtype=bool)},
        InvalidArgumentError,
        ["'T'", "bool"],
    ),
    (
        "float64 boxes",
        "crop_and_resize",
        {"boxes": np.zeros((2, 4))},
        InvalidArgumentError,
        ["boxes must be float32, got float64", "boxes.astype(np.float32)"],
    ),
    (
        "float16 grads",
        "crop_and_resize_grad_image",
        {"grads": ones(2, 2, 3, 3, dtype=np.float16)},
        InvalidArgumentError,
        ["grads must be float32, got float16", "grads.astype(np.float32)"],
    ),
    (
        "int64 indices",
        "crop_and_resize",
        {"box_ind": np.array([0, 1])},
        InvalidArgumentError,
        ["box_ind must be int32, got int64", "box_ind.astype(np.int32)"],
    ),
    (
        "int64 sizes",
        "conv2d_backprop_input",
        {"input_sizes": np.array([2, 5, 6, 4])},
        InvalidArgumentError,
        ["input_sizes must be int32, got int64", "input_sizes.astype(np.int32)"],
    ),
    (
        "a size beyond 32 bits in a list",
        "conv2d_backprop_input",
        {"input_sizes": [2, 5, 6, 2**40]},
        InvalidArgumentError,
        ["input_sizes holds 1099511627776", "int32"],
    ),
    (
        "fractional sizes",
        "conv2d_backprop_input",
        {"input_sizes": [2, 5.5, 6, 4]},
        InvalidArgumentError,
        ["input_sizes must hold integers"],
    ),
    (
        "sizes as a string",
        "conv2d_backprop_input",
        {"input_sizes": "2564"},
        TypeError,
        ["input_sizes is a builtins.str"],
    ),
    ("None for a tensor", "conv2d", {"filter": None}, InvalidArgumentError, ["filter is None"]),
    (
        "a ragged list",
        "conv2d",
        {"filter": [[1.0], [1.0, 2.0]]},
        InvalidArgumentError,
        ["filter does not make an array"],
    ),
    ("a list of strings", "conv2d", {"filter": ["a"]}, InvalidArgumentError, ["filter must hold numbers"]),
    ("an object", "conv2d", {"input": object()}, TypeError, ["input is a builtins.object", "nested list"]),
    ("one integer for strides", "conv2d", {"strides": 2}, TypeError, ["list of integers", "'strides'", "2"]),
    (
        "a fractional stride, which TensorFlow cuts",
        "conv2d",
        {"strides": [1, 1.5, 1, 1]},
        InvalidArgumentError,
        ["strides must be an integer", "1.5"],
    ),
    (
        "a stride beyond 64 bits",
        "conv2d",
        {"strides": [1, 2**64, 1, 1]},
        InvalidArgumentError,
        ["strides", str(2**64), "int64"],
    ),
    ("padding that is no string", "conv2d", {"padding": 1}, TypeError, ["'padding'", "1"]),
    (
        "use_cudnn_on_gpu that is no bool",
        "conv2d",
        {"use_cudnn_on_gpu": "yes"},
        TypeError,
        ["'use_cudnn_on_gpu'", "'yes'"],
    ),
    ("T that is no type", "crop_and_resize_grad_image", {"T": 7.5}, TypeError, ["element type", "'T'", "7.5"]),
    (
        "T of None, which NumPy takes for float64",
        "crop_and_resize_grad_image",
        {"T": None},
        TypeError,
        ["element type", "'T'", "None"],
    ),
    ("T of bfloat16", "crop_and_resize_grad_image", {"T": "bfloat16"}, InvalidArgumentError, ["'T'", "bfloat16"]),
]


@pytest.mark.parametrize(
    ("op", "arguments", "error", "words"), [row[1:] for row in TYPES], ids=[row[0] for row in TYPES]
)
def test_a_wrong_type_is_named_with_the_way_out(
    op: str, arguments: dict[str, Any], error: type[BaseException], words: list[str]
) -> None:
    assert_refused(op, arguments, error, words)


@pytest.mark.parametrize("missing", ["strides", "padding", "filter"])
def test_a_missing_argument_is_a_type_error(missing: str) -> None:
    with pytest.raises(TypeError, match=f"missing 1 required positional argument: '{missing}'"):
        gradops.conv2d(**{name: value for name, value in CONV2D.items() if name != missing})


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'rate'"):
        gradops.conv2d(**{**CONV2D, "rate": [1, 1]})


def test_in_nchw_the_messages_speak_of_nchw() -> None:
    with pytest.raises(UnimplementedError, match=re.escape("must be 1, got [1, 2, 1, 1] for NCHW")):
        gradops.conv2d(**{**CONV2D, "strides": [1, 2, 1, 1], "data_format": "NCHW"})


def test_a_result_beyond_memory_is_an_error() -> None:
    with pytest.raises(ResourceExhaustedError, match=r"no memory for an array of shape \(1, 2097152, 2097152, 1024\)"):
        gradops.crop_and_resize(ones(1, 1, 1, 1024), ones(1, 4), [0], [2**21, 2**21])


# --- the classes ---

CLASSES: list[tuple[type[GradopsError], type[Exception], int]] = [
    (InvalidArgumentError, ValueError, 3),
    (ResourceExhaustedError, MemoryError, 8),
    (OutOfRangeError, IndexError, 11),
    (UnimplementedError, NotImplementedError, 12),
]


@pytest.mark.parametrize(("cls", "built_in", "code"), CLASSES)
def test_an_error_is_also_the_built_in_and_has_tensorflows_code(
    cls: type[GradopsError], built_in: type[Exception], code: int
) -> None:
    assert issubclass(cls, built_in)
    assert issubclass(cls, GradopsError)
    assert cls.code == code
    assert cls.__name__ in errors.__all__


@pytest.mark.parametrize("cls", [cls for cls, _, _ in CLASSES])
def test_an_error_pickles(cls: type[GradopsError]) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(cls("conv2d: 3 and 4"), protocol))
        assert type(copy) is cls
        assert str(copy) == "conv2d: 3 and 4"
        assert copy.code == cls.code


def test_a_raised_error_pickles() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        gradops.conv2d(**{**CONV2D, "padding": "same"})
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
