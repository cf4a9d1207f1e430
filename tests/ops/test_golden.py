"""TensorFlow's own results, case by case: values within their tolerance, errors of the same class.

`tests/golden/README.md` says where the cases come from. GRADOPS_GOLDEN names another folder made by
`make_golden.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from golden_cases import FOLDER, FUNCTIONS, arguments, array, attributes, load
from gradops import errors
from isolated import outcomes
from tolerances import assert_close, golden_bound

CASES = load()
VALUES = [case for case in CASES if case["kind"] == "value"]
ERRORS = [case for case in CASES if case["kind"] == "error" and case["category"] != "hostile"]
ACCEPTED = [case for case in CASES if case["kind"] == "accepted" and case["category"] != "hostile"]
HOSTILE = [case for case in CASES if case["category"] == "hostile"]

#: CropAndResizeGradImage of float32 and float64 has the bits of TensorFlow's deterministic mode, and
#: CropAndResize no sums whose order could differ.
BIT_EXACT = {("CropAndResizeGradImage", "float32"), ("CropAndResizeGradImage", "float64"), ("CropAndResize", "float32")}

#: Where we answer otherwise than TensorFlow, and why.
DIFFERENT_ERRORS = {
    # NCHW is legal here; the stride of 2 then lies on the channels.
    "conv2d_backprop_input_errors/038": errors.UnimplementedError,
    # A Python converter's OverflowError in TensorFlow: the value of an attribute, so InvalidArgument here.
    "conv2d_backprop_input_hostile/004": errors.InvalidArgumentError,
}
#: TensorFlow cuts a stride of 1.5 to 1; we refuse it.
REFUSED_HERE = {"conv2d_backprop_input_errors/067"}


def ids(cases: list[dict[str, Any]]) -> list[str]:
    return [case["id"] for case in cases]


def call(case: dict[str, Any]) -> Any:
    return FUNCTIONS[case["op"]](**arguments(case), **attributes(case))


def bits(values: Any) -> Any:
    """The bits of numbers; of a NaN, only that it is one."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    return np.where(np.isnan(values), unsigned.type(np.iinfo(unsigned).max), values.view(unsigned))


def test_the_folder_holds_every_operator() -> None:
    assert {case["op"] for case in VALUES} == set(FUNCTIONS), FOLDER
    assert {case["op"] for case in ERRORS} == set(FUNCTIONS), FOLDER


@pytest.mark.parametrize("case", VALUES, ids=ids(VALUES))
def test_the_value_is_tensorflows(case: dict[str, Any]) -> None:
    dtype = case["expected_dtype"]
    expected = array(case, case["expected"], dtype)
    result = call(case)
    assert result.dtype == expected.dtype
    assert list(result.shape) == case["expected_shape"]
    if (case["op"], dtype) in BIT_EXACT:
        assert np.array_equal(bits(result), bits(expected))
    exact = array(case, case["exact"], "float64") if case.get("exact") else expected
    if np.dtype(expected.dtype) == np.int32:
        assert np.array_equal(result, exact)
        return
    # A running sum of float16 may overflow in TensorFlow where the exact sum does not.
    with np.errstate(over="ignore"):
        like = exact.astype(expected.dtype) if case.get("nonfinite_differs") else expected
    like, result = like.astype(np.float64), result.astype(np.float64)
    finite = np.isfinite(like)
    assert np.array_equal(result[~finite], like[~finite], equal_nan=True)
    exact = exact.astype(np.float64)[finite]
    assert_close(result[finite], exact, golden_bound(case["tolerance"], exact, case["scale"]))


@pytest.mark.parametrize("case", ERRORS, ids=ids(ERRORS))
def test_the_error_is_of_tensorflows_class(case: dict[str, Any]) -> None:
    error = DIFFERENT_ERRORS.get(case["id"], case["error"])
    if isinstance(error, str):
        error = getattr(errors, error, None) or {"TypeError": TypeError, "ValueError": ValueError}[error]
    name = FUNCTIONS[case["op"]].__name__
    with pytest.raises(error, match=rf"^{name}(: |\(\) )"):  # "() " is Python's own, of a missing argument
        call(case)


@pytest.mark.parametrize("case", ACCEPTED, ids=ids(ACCEPTED))
def test_what_tensorflow_tolerates_has_its_value_or_is_refused_by_name(case: dict[str, Any]) -> None:
    if case["id"] in REFUSED_HERE:
        with pytest.raises(errors.InvalidArgumentError, match="strides must be an integer"):
            call(case)
    else:
        expected = array(case, case["expected"], case["expected_dtype"])
        result = call(case)
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        assert_close(result, expected, 2.0**-22 * 27 * max(np.abs(expected).max(initial=0), 1))


# --- hostile calls: some kill TensorFlow ---

#: Hostile call -> how it ends here: a class of error, or the sum of the result's absolute values.
HOSTILE_OUTCOMES: dict[str, Any] = {
    # NaN and infinite boxes crash TensorFlow.
    "crop_and_resize_grad_image_hostile/000": "InvalidArgumentError: crop_and_resize_grad_image: boxes contains",
    "crop_and_resize_grad_image_hostile/001": "InvalidArgumentError: crop_and_resize_grad_image: boxes contains",
    "crop_and_resize_grad_image_hostile/002": "InvalidArgumentError: crop_and_resize_grad_image: boxes contains",
    # Every sample is far outside, or its coordinate overflows and counts as outside (TensorFlow crashes).
    "crop_and_resize_grad_image_hostile/003": 0.0,
    "crop_and_resize_grad_image_hostile/004": 0.0,
    "crop_and_resize_hostile/000": 0.0,
    "crop_and_resize_grad_image_hostile/005": "OutOfRangeError",
    "crop_and_resize_grad_image_hostile/006": "ResourceExhaustedError",
    "crop_and_resize_grad_image_hostile/007": "InvalidArgumentError",
    "crop_and_resize_grad_image_hostile/008": "ResourceExhaustedError",
    # Empty boxes or indices of the wrong rank abort TensorFlow.
    "crop_and_resize_grad_image_hostile/009": "InvalidArgumentError: crop_and_resize_grad_image: boxes must be 2-D",
    "crop_and_resize_grad_image_hostile/010": 0.0,
    "crop_and_resize_grad_image_hostile/011": "InvalidArgumentError: crop_and_resize_grad_image: box_ind must be 1-D",
    "crop_and_resize_grad_image_hostile/012": "as TensorFlow",
    "crop_and_resize_hostile/001": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/000": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/001": "ResourceExhaustedError",
    "conv2d_backprop_input_hostile/002": "ResourceExhaustedError",
    "conv2d_backprop_input_hostile/003": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/004": "InvalidArgumentError",
    # TensorFlow's CPU kernel refuses dilations. With SAME, only the middle row of the filter meets the image.
    "conv2d_backprop_input_hostile/005": "the filter's middle row alone",
    "conv2d_backprop_input_hostile/006": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/007": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/008": 0.0,
    "conv2d_backprop_input_hostile/009": 0.0,
    "conv2d_backprop_input_hostile/010": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/011": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/012": "InvalidArgumentError",
    "conv2d_backprop_input_hostile/013": "InvalidArgumentError",
}


def hostile_code(case: dict[str, Any]) -> str:
    """A program for the isolated process: the call, then the result's values in full."""
    name = FUNCTIONS[case["op"]].__name__
    return (
        f"z = np.load({str(FOLDER / case['file'])!r})\n"
        f"arguments = {{name: z[key] for name, key in {case['args']!r}.items()}}\n"
        f"r = gradops.{name}(**arguments, **{case['attrs']!r})\n"
        "import json; outcome = 'values ' + json.dumps([float(v) for v in r.ravel()])"
    )


@pytest.fixture(scope="module")
def hostile_outcomes() -> dict[str, str]:
    return outcomes({case["id"]: hostile_code(case) for case in HOSTILE})


@pytest.mark.parametrize("case", HOSTILE, ids=ids(HOSTILE))
def test_a_hostile_call_is_survived(case: dict[str, Any], hostile_outcomes: dict[str, str]) -> None:
    outcome, wanted = hostile_outcomes[case["id"]], HOSTILE_OUTCOMES[case["id"]]
    if outcome.startswith("values "):
        values = np.array(json.loads(outcome.removeprefix("values ")))
        if wanted == "as TensorFlow":
            expected = array(case, case["expected"], case["expected_dtype"])
            assert np.array_equal(values, expected.ravel())
        elif wanted == "the filter's middle row alone":
            inputs = arguments(case)
            inputs["filter"] = inputs["filter"][1:2]
            same = FUNCTIONS[case["op"]](**inputs, **{**case["attrs"], "dilations": [1, 1, 1, 1]})
            assert np.array_equal(values, same.ravel())
            assert np.abs(values).sum() > 1
        else:
            assert np.abs(values).sum() == wanted
    else:
        assert isinstance(wanted, str)
        assert outcome.startswith(wanted), outcome


def test_every_hostile_call_has_its_outcome_written_down() -> None:
    if HOSTILE:
        assert {case["id"] for case in HOSTILE} == set(HOSTILE_OUTCOMES)
