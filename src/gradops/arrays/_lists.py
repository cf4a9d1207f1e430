"""Nested lists and Python numbers, converted as TensorFlow converts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.errors import InvalidArgumentError

__all__ = ["from_list"]


def from_list(op: str, argument: str, value: Any, wanted: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Return a list (or number) as an array of element type `wanted`.

    Integers become any type that holds them, floats any floating-point type, nothing else converts.
    Where nothing is wanted, floats are float32 and integers int32, TensorFlow's defaults.

    Raises
    ------
    TypeError
        If the value is no list, tuple or number at all.
    InvalidArgumentError
        If the list is ragged, or an element does not convert.
    """
    if value is None:
        raise InvalidArgumentError(f"{op}: {argument} is None. Give an array or a nested list of numbers.")
    if not isinstance(value, (list, tuple, int, float, range, memoryview)):
        raise TypeError(
            f"{op}: {argument} is a {type(value).__module__}.{type(value).__qualname__}. Give a NumPy array, "
            "an array with DLPack on the CPU (PyTorch, JAX), or a nested list of numbers."
        )
    if isinstance(value, (list, tuple)) and any(isinstance(item, np.ma.MaskedArray) for item in value):
        raise TypeError(f"{op}: {argument} holds masked arrays, whose masks would be lost. Fill them first.")
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError, TypeError, RuntimeError) as error:
        raise InvalidArgumentError(f"{op}: {argument} does not make an array: {error}") from error
    if array.size == 0:
        return np.empty(array.shape, np.float32 if wanted is None else wanted)
    if wanted is None:
        wanted = np.dtype(np.int32 if array.dtype.kind in "iu" else np.float32)
    _check_converts(op, argument, array, wanted)
    with np.errstate(over="ignore"):  # 1e39 is inf in float32, as in TensorFlow
        return array.astype(wanted)


def _check_converts(op: str, argument: str, array: npt.NDArray[Any], wanted: np.dtype[Any]) -> None:
    is_integer = array.dtype.kind in "iu"
    if wanted.kind in "iu":
        if not is_integer:
            raise InvalidArgumentError(
                f"{op}: {argument} must hold integers ({wanted}), got elements of type {array.dtype}"
            )
        limits = np.iinfo(wanted)
        outside = (array < limits.min) | (array > limits.max)
        if outside.any():
            raise InvalidArgumentError(
                f"{op}: {argument} holds {array[outside][0]}, out of range for {wanted} ({limits.min}..{limits.max})"
            )
    elif not is_integer and array.dtype.kind != "f":
        raise InvalidArgumentError(f"{op}: {argument} must hold numbers, got elements of type {array.dtype}")
