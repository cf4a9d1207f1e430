"""Tensors that hold sizes: a handful of int32 values that decide another tensor's shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

__all__ = ["SizeVector", "size_vector"]

_LONGEST = 8  # any vector of sizes that can be right has 4 values at most


class SizeVector(NamedTuple):
    """A tensor of sizes in hashable form."""

    shape: tuple[int, ...]
    #: The values of a vector; of one that is too long to be right, the first few.
    values: tuple[int, ...]


def size_vector(tensor: npt.NDArray[Any] | SizeVector) -> SizeVector:
    """Return the shape and values of a tensor of sizes. The shape may be anything."""
    if isinstance(tensor, SizeVector):
        return tensor
    values = tuple(tensor[:_LONGEST].tolist()) if tensor.ndim == 1 else ()
    return SizeVector(tensor.shape, values)


def size_vector_from_list(value: Any) -> SizeVector | None:
    """Return a list of sizes as a vector; None for anything but a list of ordinary int32 integers."""
    if not isinstance(value, (list, tuple)) or len(value) > _LONGEST:
        return None
    values = tuple(value)
    if not all(type(size) is int and -(2**31) <= size < 2**31 for size in values):
        return None
    return SizeVector((len(values),), values)
