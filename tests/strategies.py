"""Hypothesis strategies: valid convolutions and crops, and calls with some of their arguments spoiled.

A drawn case is a small frozen dataclass. Its repr is the line to paste to get it back, and the
arrays follow from its `seed`.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

__all__ = [
    "CONVOLUTION_DTYPES",
    "Convolution",
    "Crops",
    "convolutions",
    "crops",
    "random_array",
    "spoiled_convolutions",
    "spoiled_crops",
]

Array = npt.NDArray[Any]

CONVOLUTION_DTYPES = ("float32", "float64", "float16", "bfloat16", "int32")


def random_array(seed: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Return an array of normal numbers, or of integers from the whole range of int32."""
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, shape, np.int32)
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@dataclass(frozen=True)
class Convolution:
    """One legal convolution. Spatial attributes are (height, width) pairs."""

    batch: int
    in_size: tuple[int, int]
    groups: int
    depth: int
    out_depth: int
    filter_size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: str = "SAME"
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    data_format: str = "NHWC"
    dtype: str = "float32"
    seed: int = 0

    def _axis_out(self, axis: int) -> int:
        """Windows along an axis; written out here so that no test leans on the rule it tests."""
        extent = (self.filter_size[axis] - 1) * self.dilation[axis] + 1
        size, stride = self.in_size[axis], self.stride[axis]
        if self.padding == "SAME":
            return -(-size // stride)
        if self.padding == "EXPLICIT":
            size += self.pads[2 * axis] + self.pads[2 * axis + 1]
        distance = size - extent + stride
        return distance // stride if distance >= 0 else -(-distance // stride)  # toward zero

    @property
    def out_size(self) -> tuple[int, int]:
        return self._axis_out(0), self._axis_out(1)

    def ordered(self, batch: int, height: int, width: int, channels: int) -> tuple[int, int, int, int]:
        """Return four values in `data_format` order."""
        return (batch, channels, height, width) if self.data_format == "NCHW" else (batch, height, width, channels)

    @property
    def input_sizes(self) -> tuple[int, int, int, int]:
        return self.ordered(self.batch, *self.in_size, self.groups * self.depth)

    @property
    def output_sizes(self) -> tuple[int, int, int, int]:
        return self.ordered(self.batch, *self.out_size, self.groups * self.out_depth)

    @functools.cached_property
    def input(self) -> Array:
        return random_array(3 * self.seed, self.input_sizes, self.dtype)

    @functools.cached_property
    def filter(self) -> Array:
        shape = (*self.filter_size, self.depth, self.groups * self.out_depth)
        return random_array(3 * self.seed + 1, shape, self.dtype)

    @functools.cached_property
    def out_backprop(self) -> Array:
        return random_array(3 * self.seed + 2, self.output_sizes, self.dtype)

    @property
    def attrs(self) -> dict[str, Any]:
        """Keyword arguments of the operators."""
        explicit = [0, 0, 0, 0, *self.pads] if self.data_format == "NCHW" else [0, 0, *self.pads, 0, 0]
        return {
            "strides": list(self.ordered(1, *self.stride, 1)),
            "padding": self.padding,
            "explicit_paddings": explicit if self.padding == "EXPLICIT" else [],
            "data_format": self.data_format,
            "dilations": list(self.ordered(1, *self.dilation, 1)),
        }

    @property
    def forward_terms(self) -> int:
        """Largest number of terms in one element of the output."""
        return self.filter_size[0] * self.filter_size[1] * self.depth

    @property
    def gradient_terms(self) -> int:
        """Largest number of terms in one element of the input gradient."""
        return self.filter_size[0] * self.filter_size[1] * self.out_depth


def _pair(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(low, high), st.integers(low, high))


@st.composite
def convolutions(draw: st.DrawFn, dtypes: tuple[str, ...] = CONVOLUTION_DTYPES, max_size: int = 9) -> Convolution:
    """Draw a legal convolution of a few thousand products at most."""
    case = Convolution(
        batch=draw(st.integers(0, 3)),
        in_size=draw(_pair(1, max_size)),
        groups=draw(st.sampled_from([1, 1, 1, 2, 3, 8])),
        depth=draw(st.sampled_from([1, 1, 2, 3, 5, 8, 17])),
        out_depth=draw(st.sampled_from([1, 2, 3, 4, 8, 19])),
        filter_size=draw(_pair(1, 4)),
        stride=draw(_pair(1, 3)),
        dilation=draw(_pair(1, 3)),
        padding=draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"])),
        pads=draw(st.tuples(*[st.integers(0, 5)] * 4)),
        data_format=draw(st.sampled_from(["NHWC", "NHWC", "NCHW"])),
        dtype=draw(st.sampled_from(dtypes)),
        seed=draw(st.integers(0, 10**6)),
    )
    if min(case.out_size) < 0:  # VALID or EXPLICIT with a filter that does not fit
        case = dataclasses.replace(case, padding="SAME")
    return case


@dataclass(frozen=True)
class Crops:
    """Boxes in images. `boxes` holds eighths of the image or, by `kind`, random fractions."""

    batch: int
    image_size: tuple[int, int]
    depth: int
    num_boxes: int
    crop_size: tuple[int, int]
    kind: str = "anywhere"
    method: str = "bilinear"
    dtype: str = "float32"
    seed: int = 0

    @functools.cached_property
    def boxes(self) -> npt.NDArray[np.float32]:
        rng = np.random.default_rng(self.seed)
        shape = (self.num_boxes, 4)
        if self.kind == "eighths":
            return (rng.integers(-4, 13, shape) / 8).astype(np.float32)
        if self.kind == "inside":
            return np.sort(rng.random((self.num_boxes, 2, 2)), axis=1).reshape(shape).astype(np.float32)
        if self.kind == "overlapping":
            return (rng.random(shape) * 0.1 + [0.2, 0.2, 0.7, 0.7]).astype(np.float32)
        if self.kind == "unit":
            return np.tile(np.array([0, 0, 1, 1], np.float32), (self.num_boxes, 1))
        return rng.uniform(-0.5, 1.5, shape).astype(np.float32)

    @functools.cached_property
    def box_ind(self) -> npt.NDArray[np.int32]:
        return np.random.default_rng(self.seed + 1).integers(0, self.batch, self.num_boxes, np.int32)

    @property
    def image_shape(self) -> tuple[int, int, int, int]:
        return (self.batch, *self.image_size, self.depth)

    @functools.cached_property
    def image(self) -> Array:
        rng = np.random.default_rng(self.seed + 2)
        if np.dtype(self.dtype).kind in "iu":
            limits = np.iinfo(self.dtype)
            return rng.integers(limits.min, limits.max, self.image_shape, self.dtype, endpoint=True)
        return rng.standard_normal(self.image_shape).astype(self.dtype)

    @functools.cached_property
    def grads(self) -> npt.NDArray[np.float32]:
        rng = np.random.default_rng(self.seed + 3)
        return rng.standard_normal((self.num_boxes, *self.crop_size, self.depth)).astype(np.float32)


@st.composite
def crops(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",)) -> Crops:
    """Draw a legal crop of a few hundred samples at most."""
    size = st.sampled_from([1, 1, 2, 3, 4, 5, 7, 8, 12])
    return Crops(
        batch=draw(st.integers(1, 3)),
        image_size=(draw(size), draw(size)),
        depth=draw(st.sampled_from([0, 1, 1, 2, 3, 4, 5, 8, 17])),
        num_boxes=draw(st.integers(0, 5)),
        crop_size=(draw(st.integers(1, 6)), draw(st.integers(1, 6))),
        kind=draw(st.sampled_from(["anywhere", "eighths", "inside", "overlapping", "unit"])),
        method=draw(st.sampled_from(["bilinear", "nearest"])),
        dtype=draw(st.sampled_from(dtypes)),
        seed=draw(st.integers(0, 10**6)),
    )


# --- arguments that may be anything: those of a legal call, some of them spoiled ---

_ODD_INTEGERS = st.sampled_from([0, -1, 1, 2, 3, 7, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63])
_NO_TENSOR = st.sampled_from([None, 1.5, "text", [], [[1.0], [2.0, 3.0]], object()])


@st.composite
def _spoiled_list(draw: st.DrawFn, values: list[int]) -> list[int]:
    """Integers with one replaced, dropped or added."""
    values = list(values)
    place = draw(st.integers(0, len(values)))
    if place < len(values) and draw(st.integers(0, 3)):
        values[place] = draw(_ODD_INTEGERS)
    elif place < len(values) and draw(st.booleans()):
        del values[place]
    else:
        values.insert(place, draw(_ODD_INTEGERS))
    return values


@st.composite
def _spoiled_tensor(draw: st.DrawFn, array: Array) -> Any:
    """An array of another rank, size or element type, with hostile values, or no array at all."""
    how = draw(st.sampled_from(["size", "size", "size", "rank", "rank", "dtype", "values", "values", "none"]))
    if how == "size" and array.ndim:
        axis = draw(st.integers(0, array.ndim - 1))
        return np.repeat(array, draw(st.sampled_from([0, 2, 3])), axis)
    if how == "rank":
        return array[None] if draw(st.booleans()) or array.ndim == 0 or not len(array) else array[0]
    if how == "dtype":
        return array.astype(draw(st.sampled_from(["float64", "int64", "float16", "int32", "bool", ">f4", "complex64"])))
    if how == "values" and array.dtype.kind in "fi":
        odd = [0, 1, -1, 2**31 - 1] if array.dtype.kind == "i" else [0, 1e-40, -3e38, np.inf, np.nan]
        with np.errstate(over="ignore"):
            return np.full_like(array, draw(st.sampled_from(odd)))
    return draw(_NO_TENSOR)


_OTHER_STRINGS = st.sampled_from(
    ["SAME", "VALID", "EXPLICIT", "same", "NCHW", "NHWC", "bilinear", "nearest", "", 1, None]
)
_OTHER_TYPES = st.sampled_from(["float16", "float64", "bfloat16", "int32", "nonsense", None, 7.5])


@st.composite
def _spoiled(draw: st.DrawFn, arguments: dict[str, Any]) -> dict[str, Any]:
    """Spoil none to three of the arguments of a legal call."""
    for name in draw(st.lists(st.sampled_from(sorted(arguments)), max_size=3, unique=True)):
        value = arguments[name]
        if isinstance(value, np.ndarray):
            arguments[name] = draw(_spoiled_tensor(value))
        elif isinstance(value, list):
            arguments[name] = draw(_spoiled_list(value))
        elif isinstance(value, str):
            arguments[name] = draw(_OTHER_TYPES if name == "T" else _OTHER_STRINGS)
        else:
            arguments[name] = draw(st.sampled_from([np.nan, 1e300, "1", None, 2]))
    return arguments


def spoiled_convolutions(forward: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Draw keyword arguments for a convolution of which up to three are wrong, or only odd."""

    def legal(case: Convolution) -> dict[str, Any]:
        tensors: dict[str, Any] = {"input": case.input, "filter": case.filter}
        if not forward:
            tensors = {
                "input_sizes": list(case.input_sizes),
                "filter": case.filter,
                "out_backprop": case.out_backprop,
            }
        return {**tensors, **case.attrs}

    return convolutions(max_size=5).flatmap(lambda case: _spoiled(legal(case)))


def spoiled_crops(forward: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Draw keyword arguments for a crop of which up to three are wrong, or only odd."""

    def legal(case: Crops) -> dict[str, Any]:
        shared = {"boxes": case.boxes, "box_ind": case.box_ind, "method": case.method}
        if forward:
            return {"image": case.image, "crop_size": list(case.crop_size), "extrapolation_value": 0.5, **shared}
        return {"grads": case.grads, "image_size": list(case.image_shape), "T": "float32", **shared}

    return crops().flatmap(lambda case: _spoiled(legal(case)))
