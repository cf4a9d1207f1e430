"""What the library needs to know about one kind of array."""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt

__all__ = ["Kind"]


class Kind(Protocol):
    """One kind of array: NumPy's, PyTorch's, JAX's, or any other with DLPack."""

    #: As a message calls it.
    name: str
    #: How a user of this kind converts an element type and makes a NumPy array, as format strings.
    cast_hint: str
    to_numpy_hint: str

    def borrow(self, array: Any, op: str, argument: str) -> npt.NDArray[Any]:
        """Return a NumPy array on the same memory (read-only if the kind's arrays are), any strides.

        Raises TypeError, naming the way out, if that memory cannot be read here and now.
        """
        ...

    def give_back(self, result: npt.NDArray[Any], like: Any) -> Any:
        """Return `result`, a fresh contiguous array, as an array of this kind."""
        ...
