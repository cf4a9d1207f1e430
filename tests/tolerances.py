"""How far a result may be from the exact one: the only place that knows.

A bound follows from the element type, the number of terms of the longest sum, and the sum of the
absolute values of the terms. It is never chosen by eye.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["assert_close", "golden_bound", "rounded_sum"]

Array = npt.NDArray[Any]

#: Unit roundoff: half the distance from 1 to the next number.
_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
#: Half the smallest positive number: what rounding to the type can lose near zero.
_UNDERFLOW = {"float16": 2.0**-25, "bfloat16": 2.0**-134, "float32": 2.0**-150, "float64": 2.0**-1075}
#: The type that sums are kept in.
_ACCUMULATOR = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "float64": "float64"}


def rounded_sum(dtype: Any, terms: int, magnitude: npt.ArrayLike, exact: npt.ArrayLike, roundings: int = 1) -> Array:
    """Bound on the error of sums, element by element.

    `terms` are added in any order in the accumulator of `dtype` and the sum is rounded to `dtype`
    once; each term has been rounded `roundings` times before, 1 for a product that is not fused.
    `magnitude` is the sum of the absolute values of the terms. Every addition and every product
    changes each term by a factor within 1 +- u, so the relative change of a term is at most
    (1 + u) ** (terms + roundings) - 1. The same again in float64, for the reference's own sums.
    """
    name = np.dtype(dtype).name
    magnitude, exact = np.asarray(magnitude, np.float64), np.abs(np.asarray(exact, np.float64))
    if name == "int32":
        return np.zeros_like(exact)
    accumulator = _ACCUMULATOR[name]
    steps = terms + roundings
    summed = np.expm1(steps * np.log1p(_ROUNDOFF[accumulator])) + np.expm1(steps * np.log1p(_ROUNDOFF["float64"]))
    bound = summed * magnitude + steps * _UNDERFLOW[accumulator]
    if accumulator != name:
        bound = bound * (1 + _ROUNDOFF[name]) + _ROUNDOFF[name] * exact + _UNDERFLOW[name]
    return np.asarray(bound)


#: Class of `tests/golden` -> bound from the exact value and the case's `scale`, the largest sum of
#: absolute terms of any element; the fixed multiples are those that TensorFlow itself keeps.
_GOLDEN: dict[str, Callable[[Array, float], Any]] = {
    "int_exact": lambda _exact, _scale: 0.0,
    "f64": lambda _exact, scale: 2.0**-51 * scale,
    "f32": lambda _exact, scale: 2.0**-22 * scale,
    "f16": lambda exact, scale: 2.0**-11 * exact + 2.0**-22 * scale + 2.0**-25,
    "bf16": lambda exact, scale: 2.0**-8 * exact + 2.0**-22 * scale,
    "grad_image_f32": lambda _exact, scale: 2.0**-22 * scale,
    "grad_image_f64": lambda _exact, scale: 2.0**-22 * scale,
    "grad_image_f16": lambda exact, scale: 2.0**-11 * exact + 2.0**-22 * scale + 2.0**-25,
    "crop_f32": lambda _exact, scale: 2.0**-22 * scale,
    "grad_boxes_f32": lambda _exact, scale: 2.0**-22 * scale,
}


def golden_bound(tolerance: str, exact: Array, scale: float) -> Array:
    """Bound on the error of a case of `tests/golden`, element by element."""
    return np.broadcast_to(np.asarray(_GOLDEN[tolerance](np.abs(exact), scale), np.float64), exact.shape)


def assert_close(actual: npt.ArrayLike, exact: npt.ArrayLike, bound: npt.ArrayLike) -> None:
    """Fail, showing the worst element, where `actual` is farther than `bound` from `exact`.

    All of `actual` must be finite.
    """
    actual, exact = np.asarray(actual), np.asarray(exact)
    assert actual.shape == exact.shape
    if actual.dtype == np.int32 and exact.dtype == np.int32:
        assert np.array_equal(actual, exact)
        return
    error = np.abs(actual.astype(np.float64) - exact.astype(np.float64))
    excess = error - bound
    if not (excess <= 0).all():
        excess[np.isnan(excess)] = np.inf
        worst = np.unravel_index(excess.argmax(), excess.shape)
        limit = np.broadcast_to(bound, error.shape)[worst]
        raise AssertionError(
            f"at {tuple(map(int, worst))}: {actual[worst]!r} is {error[worst]:.3g} from {exact[worst]!r}, "
            f"allowed {limit:.3g} ({int((excess > 0).sum())} of {error.size} elements are outside)"
        )
