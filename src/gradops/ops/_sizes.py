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


def size_vector(tensor: npt.NDArray[Any]) -> SizeVector:
    """Return the shape and values of a tensor of sizes. The shape may be anything."""
    values = tuple(tensor[:_LONGEST].tolist()) if tensor.ndim == 1 else ()
    return SizeVector(tensor.shape, values)
