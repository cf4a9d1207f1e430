"""NumPy arrays: any strides, read-only or not, either byte order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["KIND"]


class _NumpyKind:
    name = "NumPy"
    cast_hint = "{name}.astype(np.{dtype})"
    to_numpy_hint = "np.asarray({name})"

    def borrow(self, array: Any, op: str, argument: str) -> npt.NDArray[Any]:
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(
                f"{op}: {argument} is a masked array, whose mask would be lost. "
                f"Give {argument}.filled(value) or {argument}.data."
            )
        plain = np.asarray(array)  # a NumPy scalar becomes an array, a subclass its base
        return plain if plain.dtype.isnative else plain.astype(plain.dtype.newbyteorder("="))

    def give_back(self, result: npt.NDArray[Any], like: Any) -> Any:
        return result


KIND = _NumpyKind()
