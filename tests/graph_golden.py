"""Reads `tests/graph/golden`: graphs that TensorFlow wrote, with inputs and its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tolerances import assert_close, golden_bound

__all__ = ["FOLDER", "GRAPHS", "assert_results", "feeds_and_results"]

FOLDER = Path(__file__).parent / "graph" / "golden"

#: Every file that this library can run.
GRAPHS = (
    "constants.pb",
    "constants.pbtxt",
    "control_inputs_and_devices.pb",
    "defaults_left_out.pb",
    "frozen.pb",
    "frozen.pbtxt",
    "image_operators.pb",
    "image_operators.pbtxt",
)

_CLASSES = {"float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16"}
#: No sum in these graphs has more absolute terms than so many times its largest result.
_TERMS = 64
#: TensorFlow adds up its 16-bit results in 16 bits: so many numbers in `image_operators`.
_16_BIT_SUMS = 8
_16_BIT_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def feeds_and_results(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a graph's inputs and TensorFlow's results, by the tensors' names."""
    stored = np.load(FOLDER / f"{Path(name).stem}.npz")
    feeds = {key.removeprefix("feed "): stored[key] for key in stored if key.startswith("feed ")}
    return feeds, {key.removeprefix("fetch "): stored[key] for key in stored if key.startswith("fetch ")}


def assert_results(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    """Fail where a result is not TensorFlow's up to rounding."""
    for name, exact in expected.items():
        result = np.asarray(actual[name])
        assert result.shape == exact.shape, name
        if result.dtype.name not in _CLASSES:
            if result.dtype != object:
                assert result.dtype == exact.dtype, name
            np.testing.assert_array_equal(result, exact.astype(result.dtype), name)
            continue
        exact = exact.astype(np.float64)
        assert_close(result.astype(np.float64), exact, _bound(name, result.dtype.name, exact))


def _bound(name: str, dtype: str, exact: Any) -> Any:
    largest = np.max(np.abs(exact), initial=0)
    # Gradients of an image of type double are made of float32 weights.
    kind = f"grad_image_{_CLASSES[dtype]}" if name.startswith("image_") else _CLASSES[dtype]
    bound = golden_bound(kind, exact, _TERMS * largest)
    return bound + _16_BIT_ROUNDOFF[dtype] * _16_BIT_SUMS * largest if dtype in _16_BIT_ROUNDOFF else bound
