"""What the masks of StridedSlice mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.errors import InvalidArgumentError
from gradops.ops._inference import Inference, Shape, Size

__all__ = ["SliceSpec", "slice_shape"]

_Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SliceSpec:
    """A slice with one entry for each element of `begin`; ends are None where not known."""

    length: int
    begin: list[int] | None = None
    end: list[int] | None = None
    strides: list[int] | None = None
    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0

    @classmethod
    def of(cls, begin: _Array | None, end: _Array | None, strides: _Array | None, **masks: int) -> SliceSpec:
        """Make one from the operator's inputs, None for one that is not known."""
        known = [x for x in (begin, end, strides) if x is not None]
        if any(np.ndim(x) != 1 or x.size != known[0].size for x in known):
            raise InvalidArgumentError("StridedSlice: begin, end and strides must be vectors of equal size")
        if strides is not None and 0 in strides:
            raise InvalidArgumentError("strides[i] must be non-zero")
        ellipsis = masks.get("ellipsis_mask", 0)
        if ellipsis & (ellipsis - 1):
            raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")
        first, last, steps = (None if x is None else x.tolist() for x in (begin, end, strides))
        return cls(known[0].size, first, last, steps, **masks)

    def index(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the slice as NumPy takes it, checked against a shape."""
        entries = self._entries(len(shape))
        axis = 0
        for entry in entries:
            if isinstance(entry, int) and not -shape[axis] <= entry < shape[axis]:
                raise InvalidArgumentError(f"slice index {entry} of dimension {axis} out of bounds for shape {shape}")
            axis += entry is not None
        return tuple(entries)

    def _entries(self, rank: int) -> list[Any]:
        """One entry for each axis, and None for each new one; an ellipsis spelled out."""
        new_axes = [
            i for i in range(self.length) if self._is(self.new_axis_mask, i) and not self._is(self.ellipsis_mask, i)
        ]
        has_ellipsis = any(self._is(self.ellipsis_mask, i) for i in range(self.length))
        given = self.length - len(new_axes) - has_ellipsis
        if given > rank:
            raise InvalidArgumentError(f"Index out of range using input dim {rank}; input has only {rank} dims")
        rest = [slice(None)] * (rank - given)
        entries: list[Any] = []
        for i in range(self.length):
            if self._is(self.ellipsis_mask, i):
                entries += rest
            elif i in new_axes:
                entries.append(None)
            else:
                entries.append(self._entry(i))
        return entries if has_ellipsis else entries + rest

    def _entry(self, i: int) -> Any:
        if self._is(self.shrink_axis_mask, i):
            if self.strides is not None and self.strides[i] <= 0:
                raise InvalidArgumentError("only stride 1 allowed on non-range indexing.")
            return 0 if self.begin is None else self.begin[i]
        masked_begin, masked_end = self._is(self.begin_mask, i), self._is(self.end_mask, i)
        stride = 1 if self.strides is None else self.strides[i]
        if self.strides is None or (self.begin is None and not masked_begin) or (self.end is None and not masked_end):
            return _UNKNOWN
        begin = None if masked_begin or self.begin is None else self.begin[i]
        end = None if masked_end or self.end is None else self.end[i]
        return slice(begin, end, stride)

    @staticmethod
    def _is(mask: int, i: int) -> bool:
        return bool(mask >> i & 1)

    def shape(self, shape: tuple[Size, ...]) -> tuple[Size, ...]:
        """Return the shape of the slice of a tensor of a partly known shape."""
        result: list[Size] = []
        axes = iter(shape)
        for entry in self._entries(len(shape)):
            if entry is None:
                result.append(1)
                continue
            size = next(axes)
            if isinstance(entry, slice):
                result.append(_sliced_size(entry, size))
            elif entry is _UNKNOWN:
                result.append(None)
            elif size is not None and self.begin is not None and not -size <= entry < size:
                raise InvalidArgumentError(f"slice index {entry} of dimension of size {size} out of bounds")
        return tuple(result)


_UNKNOWN = object()


def _sliced_size(entry: slice, size: Size) -> Size:
    if size is None:
        return None
    return len(range(*entry.indices(size)))


def slice_shape(node: Inference) -> Shape:
    """Shape function of StridedSlice."""
    shape, values = node.shapes[0], [node.value(i) for i in (1, 2, 3)]
    masks = {name: value for name, value in node.attrs.items() if name.endswith("_mask")}
    if shape is None or all(value is None for value in values):
        return None
    return SliceSpec.of(*values, **masks).shape(shape)
