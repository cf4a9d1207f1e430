"""Python and NumPy values as the tensors that constants hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradops import arrays
from gradops.errors import InvalidArgumentError
from gradops.graph._types import DataType

__all__ = ["given_type", "to_array"]

_INT32 = np.iinfo(np.int32)


def given_type(value: Any) -> DataType | None:
    """Return the element type that an array has of itself; None for Python numbers and lists of them."""
    if isinstance(value, (np.ndarray, np.generic)):
        return DataType.of(value.dtype)
    return DataType.of(array.dtype) if (array := arrays.borrow_foreign("graph", "value", value)) is not None else None


def to_array(name: str, value: Any, wanted: DataType | None) -> npt.NDArray[Any]:
    """Return a value as an array.

    Parameters
    ----------
    name : str
        Of the input that it is for.
    value : array, number, bool, string, or nested lists of them
        An array keeps its element type. Python's floats become any floating-point type and its
        integers any type of numbers that holds them: whichever is wanted.
    wanted : DataType, optional
        Where nothing is wanted, or the value does not convert, floats are float32, integers int32
        (int64 where they do not fit), as C++ has them.

    Raises
    ------
    TypeError
        If it is nothing of that kind.
    InvalidArgumentError
        If lists are ragged, or an integer does not fit.
    """
    if (array := arrays.borrow_foreign("graph", name, value)) is not None:
        return _as_strings(name, array) if array.dtype.kind in "SUO" else array
    if not isinstance(value, (bool, int, float, complex, str, bytes, list, tuple, range)):
        raise TypeError(
            f"input {name!r} is a {type(value).__qualname__}: give an output, an array, or numbers in lists"
        )
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"input {name!r}: lists on one level should all have the same shape") from None
    return _converted(name, value, array, wanted)


def _converted(name: str, value: Any, array: npt.NDArray[Any], wanted: DataType | None) -> npt.NDArray[Any]:
    kind = array.dtype.kind
    if kind in "SU":  # also of numbers and strings together
        return _as_strings(name, np.asarray(value, object))
    if array.size == 0:
        return np.empty(array.shape, wanted.numpy if wanted is not None and wanted.has_numpy else np.float32)
    if kind == "b":
        return array
    if kind not in "iufc":
        if any(isinstance(x, int) for x in array.ravel()):
            raise InvalidArgumentError(f"input {name!r} holds integers that fit no element type")
        raise TypeError(
            f"input {name!r} holds {type(array.ravel()[0]).__qualname__}: give numbers, or one output alone"
        )
    dtype = wanted.numpy if wanted is not None and wanted.has_numpy else None
    if dtype is None or not _converts(kind, dtype):
        dtype = _default(array)
    if kind in "iu" and dtype.kind in "iu":
        _check_range(name, array, dtype)
    with np.errstate(over="ignore"):  # 1e39 is inf in float32
        return array.astype(dtype)


def _converts(kind: str, dtype: np.dtype[Any]) -> bool:
    target = DataType.of(dtype)
    if kind in "iu":
        return dtype.kind in "iuc" or target.is_floating
    return dtype.kind == "c" or (kind == "f" and target.is_floating)


def _default(array: npt.NDArray[Any]) -> np.dtype[Any]:
    if array.dtype.kind == "f":
        return np.dtype(np.float32)
    if array.dtype.kind == "c":
        return np.dtype(np.complex128)
    fits = array.min() >= _INT32.min and array.max() <= _INT32.max
    return np.dtype(np.int32 if fits else np.int64)


def _check_range(name: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    if array.min() < limits.min or array.max() > limits.max:
        raise InvalidArgumentError(f"input {name!r} holds integers out of range for {dtype}: {array.tolist()}")


def _as_strings(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    texts = [_as_bytes(name, text) for text in array.ravel().tolist()]
    strings = np.empty(len(texts), object)
    strings[:] = texts
    return strings.reshape(array.shape)


def _as_bytes(name: str, text: Any) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"input {name!r} holds {text!r}, a {type(text).__qualname__}, among strings or objects")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"input {name!r} holds {text!r}, which UTF-8 cannot express") from None
