"""Any other array on the CPU that speaks DLPack, and the ones we must not touch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.arrays._kind import Kind

__all__ = ["KIND", "refused_kind"]

_DLPACK_CPU = 1


class _DLPackKind:
    name = "DLPack"
    cast_hint = "an array of {dtype}"
    to_numpy_hint = "np.from_dlpack({name})"

    def borrow(self, array: Any, op: str, argument: str) -> npt.NDArray[Any]:
        if type(array).__module__.startswith("tensorflow"):
            return np.asarray(array)  # zero copy, and the only way for its bfloat16
        try:
            device_type = int(array.__dlpack_device__()[0])
            if device_type == _DLPACK_CPU:
                return np.from_dlpack(array)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{op}: {argument} cannot be read through DLPack: {error}") from error
        raise TypeError(f"{op}: {argument} is on DLPack device {device_type}. Move it to the CPU first.")

    def give_back(self, result: npt.NDArray[Any], like: Any) -> Any:
        if type(like).__module__.startswith("tensorflow"):
            return sys.modules["tensorflow"].convert_to_tensor(result)
        namespace = getattr(like, "__array_namespace__", None)
        if namespace is None:
            return result
        return namespace().from_dlpack(result)


class _RefusedKind:
    cast_hint = to_numpy_hint = "np.asarray({name})"

    def __init__(self, name: str, way_out: str) -> None:
        self.name = name
        self._way_out = way_out

    def borrow(self, array: Any, op: str, argument: str) -> npt.NDArray[Any]:
        raise TypeError(f"{op}: {argument} is a {self.name} array: {self._way_out}.")

    def give_back(self, result: npt.NDArray[Any], like: Any) -> Any:
        raise AssertionError("nothing is borrowed from this kind")


KIND: Kind = _DLPackKind()


def refused_kind(name: str, way_out: str) -> Kind:
    """Return the kind of arrays that are refused with a message that says what to do instead."""
    return _RefusedKind(name, way_out)
