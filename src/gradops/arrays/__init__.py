"""From the caller's arrays to NumPy and back, without a copy where that is safe.

Array libraries are recognised by the name of the module that a type comes from, so that none is
imported here. What a library's arrays need (and what would end the process, or silently lose a
gradient) is in the file of that library: `_numpy`, `_torch`, `_jax`, `_dlpack`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gradops import _core
from gradops.arrays import _dlpack, _jax, _numpy, _torch
from gradops.arrays._kind import Kind
from gradops.arrays._lists import from_list
from gradops.errors import InvalidArgumentError, ResourceExhaustedError
from gradops.ops._sizes import size_vector_from_list

if TYPE_CHECKING:
    from gradops.ops._operator import Input

__all__ = ["Borrowed", "borrow", "borrow_foreign", "check_out", "contiguous", "empty", "finish", "native_view"]

_NUMPY: Kind = _numpy.KIND
_KINDS_BY_MODULE: dict[str, Kind] = {
    "numpy": _NUMPY,
    "torch": _torch.KIND,
    "jax": _jax.KIND,
    "jaxlib": _jax.KIND,
}
#: Libraries whose objects look like arrays, but would be computed or downloaded by being read.
_REFUSED_MODULES = {
    "dask": "compute it first (x.compute())",
    "cupy": "move it to the CPU first (cupy.asnumpy(x))",
    "scipy": "make it dense first (x.toarray())",
    "sparse": "make it dense first (x.todense())",
}


def _kind_of(value: object) -> Kind | None:
    """The kind of array that a value is; None for lists, numbers and everything unknown."""
    return _kind_of_type(type(value))  # type: ignore[arg-type] # mypy doubts that types can be hashed


@functools.lru_cache(maxsize=256)
def _kind_of_type(cls: type[object]) -> Kind | None:
    if issubclass(cls, (list, tuple)):  # torch.Size is a tuple from torch
        return None
    for base in cls.__mro__:
        root = base.__module__.partition(".")[0]
        if root in _KINDS_BY_MODULE:
            return _KINDS_BY_MODULE[root]
        if root in _REFUSED_MODULES:
            return _dlpack.refused_kind(root, _REFUSED_MODULES[root])
    if hasattr(cls, "__dlpack__"):
        return _dlpack.KIND
    return None


@dataclass(slots=True)
class Borrowed:
    """The inputs of one call as NumPy arrays, and the way back to the caller's kind."""

    tensors: list[Any]  #: NumPy arrays, or a `SizeVector` for a list of sizes
    element_type: np.dtype[Any] | None
    kind: Kind
    like: Any

    def give_back(self, result: npt.NDArray[Any]) -> Any:
        """Return `result` as an array of the caller's kind."""
        return result if self.kind is _NUMPY else self.kind.give_back(result, self.like)


def borrow(
    op: str, declared: Sequence[Input], values: Sequence[Any], check_type: Callable[[str, np.dtype[Any]], None]
) -> Borrowed:
    """Return the inputs of a call as NumPy arrays of the declared element types.

    Arrays must have the very type that the operator declares, as in TensorFlow; nested lists and
    Python numbers convert to it. The tensors declared as T must agree. Nothing is copied except a
    list, or an array of foreign byte order.

    Raises
    ------
    TypeError
        If a value is no array, or one whose memory cannot be read here and now: on another device,
        sparse, conjugated, masked, traced, or recording gradients; or if floating-point inputs are
        of more than one kind.
    InvalidArgumentError
        If an array has another element type than the operator declares, or a list does not convert;
        what `check_type` raises of an element type T that is not allowed.
    """
    tensors: list[Any] = [None] * len(declared)
    element_type: np.dtype[Any] | None = None
    kind, like, of = _NUMPY, None, None
    lists = []
    for i, (spec, value) in enumerate(zip(declared, values, strict=True)):
        its_kind = _kind_of(value)
        if its_kind is None:
            if spec.is_sizes and (sizes := size_vector_from_list(value)) is not None:
                tensors[i] = sizes
            else:
                lists.append(i)
            continue
        tensor = its_kind.borrow(value, op, spec.name)
        if spec.type == "T":
            if element_type is None:
                element_type = tensor.dtype
                check_type(op, element_type)
            elif tensor.dtype != element_type:
                raise InvalidArgumentError(
                    f"{op}: {spec.name} is {tensor.dtype}, but an earlier input is {element_type}. "
                    f"Give both the same element type, for example {spec.name}.astype({element_type})."
                )
        elif tensor.dtype != _FIXED[spec.type]:
            raise InvalidArgumentError(
                f"{op}: {spec.name} must be {_FIXED[spec.type]}, got {tensor.dtype}. "
                f"Convert it first: {its_kind.cast_hint.format(name=spec.name, dtype=_FIXED[spec.type])}."
            )
        if spec.type != "int32":  # sizes and indices may be of any kind: they follow nobody
            if of is None:
                kind, like, of = its_kind, value, spec.name
            elif its_kind is not kind:
                raise TypeError(
                    f"{op}: {of} is a {kind.name} array and {spec.name} a {its_kind.name} array. "
                    f"Give arrays of one kind; {its_kind.to_numpy_hint.format(name=spec.name)} makes a NumPy array."
                )
        tensors[i] = tensor
    for i in lists:
        spec = declared[i]
        wanted = element_type if spec.type == "T" else _FIXED[spec.type]
        tensors[i] = from_list(op, spec.name, values[i], wanted)
        if spec.type == "T" and element_type is None:
            element_type = tensors[i].dtype
            check_type(op, element_type)
    return Borrowed(tensors, element_type, kind, like)


_FIXED = {"float": np.dtype(np.float32), "int32": np.dtype(np.int32)}


def check_out(op: str, out: Any, borrowed: Borrowed) -> None:
    """Check what does not depend on the result's shape: `out` is ours to write into.

    Raises
    ------
    TypeError
        If `out` is not a NumPy array, or the inputs are not NumPy's.
    InvalidArgumentError
        If `out` is read-only or shares memory with an input.
    """
    if type(out) is not np.ndarray:
        raise TypeError(f"{op}: out must be a NumPy array, not {type(out).__module__}.{type(out).__qualname__}")
    if borrowed.kind is not _NUMPY:
        raise TypeError(
            f"{op}: out works with NumPy inputs, but these are {borrowed.kind.name} arrays. Leave out= away."
        )
    if not out.flags.writeable:
        raise InvalidArgumentError(f"{op}: out is read-only. Give a writable array.")
    for tensor in borrowed.tensors:
        if isinstance(tensor, np.ndarray) and _overlap(out, tensor):
            raise InvalidArgumentError(f"{op}: out shares memory with an input. Give an array of its own.")
    if 0 in out.strides and out.size > 1:
        raise InvalidArgumentError(f"{op}: elements of out share memory with each other. Give an ordinary array.")


def _overlap(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type] # NumPy takes any integer
    except np.exceptions.TooHardError:
        return True


def empty(op: str, shape: tuple[int, ...], dtype: np.dtype[Any], out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return the array to compute into: `out` if it serves as it is, else a new one.

    New arrays are 64-byte aligned (JAX then borrows them without a copy; stores do not straddle
    cache lines) and come from the library's cache of released blocks. A caller whose `out` has
    gaps gets a new array here and copies it at the end.

    Raises
    ------
    InvalidArgumentError
        If `out` has another shape or dtype than the result.
    ResourceExhaustedError
        If there is no memory for it.
    """
    if out is not None:
        if out.shape != shape or out.dtype != dtype:
            raise InvalidArgumentError(
                f"{op}: out is {out.dtype} of shape {out.shape}, but the result is {dtype} of shape {shape}"
            )
        if out.flags.c_contiguous and out.flags.aligned:
            return out
    size = math.prod(shape) * dtype.itemsize
    try:
        # Beyond 63 bits there is no memory either, but the binding would complain of the integer.
        return np.ndarray(shape, dtype, buffer=_core.allocate(min(size, 2**63 - 1)))
    except ValueError:  # no elements, but sizes whose product is beyond NumPy
        raise InvalidArgumentError(f"{op}: the result's shape {shape} is too large") from None
    except MemoryError:
        raise ResourceExhaustedError(
            f"{op}: no memory for an array of shape {shape}, {dtype} ({size:,} bytes)"
        ) from None


def contiguous(op: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `array` as the kernels read it, C-contiguous and aligned: itself if it is, else a copy.

    Raises
    ------
    ResourceExhaustedError
        If there is no memory for the copy. An array of stride 0 may claim any size.
    """
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    copy = empty(op, array.shape, array.dtype, None)
    np.copyto(copy, array)
    return copy


def native_view(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `array` as an array that the extension recognises: bfloat16 travels as its bits."""
    return array.view(np.uint16) if array.dtype.num not in _NATIVE_TYPE_NUMBERS else array


_NATIVE_TYPE_NUMBERS = frozenset(np.dtype(t).num for t in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2"))


def finish(result: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return `out` holding the result if there is one, else the result."""
    if out is None or out is result:
        return result
    np.copyto(out, result)
    return out


def borrow_foreign(op: str, argument: str, value: Any) -> npt.NDArray[Any] | None:
    """Return an array of any kind as a NumPy array on the same memory; None if it is no array.

    Raises
    ------
    TypeError
        If its memory cannot be read here and now; see `borrow`.
    """
    kind = _kind_of(value)
    return None if kind is None else kind.borrow(value, op, argument)
