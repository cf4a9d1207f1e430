"""Where tensors come from, and what can be asked of one: Const, Placeholder, Identity, Shape, Cast, ..."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.errors import InvalidArgumentError
from gradops.graph._basic_ops._types import COMPLEX, FLOATS, INDICES, REALS
from gradops.ops._expressions import GRAD, Call, Constant, Differentiated, Expression
from gradops.ops._inference import Inference, Shape, sizes_input, with_rank
from gradops.ops._operator import Attr, Input, Operator

__all__ = ["OPERATORS", "described_shape", "same_shape"]

_Array = npt.NDArray[Any]


def same_shape(node: Inference) -> Sequence[Shape]:
    """Shape function: the first input's shape."""
    return (node.shapes[0],)


def described_shape(node: Inference, i: int, name: str) -> Shape:
    """Return the shape that input `i`, a vector of any number of sizes, is known to describe."""
    with_rank(node.op, name, node.shapes[i], 1)
    # Without a look at the sizes, a vector of two billion of them would be a shape of two billion axes.
    return None if node.sizes(i) is None else sizes_input(node, i, name)


def _const_shape(node: Inference) -> Sequence[Shape]:
    return (node.attrs["value"].shape,)


def _const(*, value: _Array, dtype: np.dtype[Any]) -> _Array:
    if value.dtype != dtype:
        raise InvalidArgumentError(f"Const: the value is {value.dtype}, but attr 'dtype' says {dtype}")
    return value


def _unfed_placeholder(*, dtype: np.dtype[Any], shape: Shape) -> _Array:
    raise InvalidArgumentError(f"You must feed a value for placeholder tensor: dtype {dtype}, shape {shape}")


def _identity(x: _Array, **_: Any) -> _Array:
    return x


def _shape_shape(node: Inference) -> Sequence[Shape]:
    shape = node.shapes[0]
    return ((None if shape is None else len(shape),),)


def _scalar_shape(node: Inference) -> Sequence[Shape]:  # noqa: ARG001
    return ((),)


def _fill_shape(node: Inference) -> Sequence[Shape]:
    return (described_shape(node, 0, "dims"),)


def _fill(dims: _Array, value: _Array, **_: Any) -> _Array:
    if np.size(dims) and np.min(dims) < 0:
        raise InvalidArgumentError(f"Fill: dims must be >= 0, got {dims.tolist()}")
    return np.full(tuple(dims.tolist()), value, value.dtype)


def _fill_vjps() -> Mapping[str, Expression]:
    every_axis = Call("Range", (Constant(0), Call("Rank", (GRAD,)), Constant(1)))
    return {"value": Call("Sum", (GRAD, every_axis))}


def _cast(x: _Array, *, DstT: np.dtype[Any], **_: Any) -> _Array:
    return x.astype(DstT, copy=False)


def _cast_vjps(node: Differentiated) -> Mapping[str, Expression]:
    """A gradient goes from floats to floats alone, as in TensorFlow."""
    if node.attrs["SrcT"] in FLOATS and node.attrs["DstT"] in FLOATS:
        return {"x": Call("Cast", (GRAD,), {"DstT": "$SrcT"})}
    return {}


def _range_shape(node: Inference) -> Sequence[Shape]:
    start, limit, delta = (node.value(i) for i in range(3))
    if start is None or limit is None or delta is None:
        return ((None,),)
    return ((_range_length(start, limit, delta),),)


def _range_length(start: _Array, limit: _Array, delta: _Array) -> int:
    if any(np.ndim(x) for x in (start, limit, delta)):
        raise InvalidArgumentError("Range: start, limit and delta must be scalars")
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise InvalidArgumentError("Range requires delta != 0: 0")
    if (first > last) if step > 0 else (first < last):
        raise InvalidArgumentError(f"Range requires start {'<=' if step > 0 else '>='} limit: {first}, {last}")
    if isinstance(first, int):
        return len(range(first, last, step))
    count = float((last - first) / step)
    if not math.isfinite(count):
        raise InvalidArgumentError(f"Range from {first} to {last} by {step} has no end")
    return math.ceil(count)


def _range(start: _Array, limit: _Array, delta: _Array) -> _Array:
    steps = np.arange(_range_length(start, limit, delta), dtype=start.dtype if start.dtype.kind in "iu" else None)
    return np.asarray(start + steps * delta, start.dtype)


_T = Attr("T", "type")
_OUT_TYPE = Attr("out_type", "type", "int32", allowed=INDICES)

OPERATORS = (
    Operator(
        name="Const",
        function="const",
        inputs=(),
        attrs=(Attr("value", "tensor"), Attr("dtype", "type")),
        outputs=(Input("output", "dtype"),),
        compute=_const,
        infer=_const_shape,
        vjps={},
    ),
    Operator(
        name="Placeholder",
        function="placeholder",
        inputs=(),
        attrs=(Attr("dtype", "type"), Attr("shape", "shape", None)),
        outputs=(Input("output", "dtype"),),
        compute=_unfed_placeholder,
        infer=lambda node: (node.attrs["shape"],),
        vjps={},
    ),
    Operator(
        name="Identity",
        function="identity",
        inputs=(Input("input", "T"),),
        attrs=(_T,),
        outputs=(Input("output", "T"),),
        compute=_identity,
        infer=same_shape,
        vjps={"input": Call("Identity", (GRAD,))},
        shares_memory=True,
    ),
    Operator(
        name="StopGradient",
        function="stop_gradient",
        inputs=(Input("input", "T"),),
        attrs=(_T,),
        outputs=(Input("output", "T"),),
        compute=_identity,
        infer=same_shape,
        vjps={},
        shares_memory=True,
    ),
    Operator(
        name="Shape",
        function="shape",
        inputs=(Input("input", "T"),),
        attrs=(_T, _OUT_TYPE),
        outputs=(Input("output", "out_type"),),
        compute=lambda x, out_type, **_: np.array(x.shape, out_type),
        infer=_shape_shape,
        vjps={},
    ),
    Operator(
        name="Size",
        function="size",
        inputs=(Input("input", "T"),),
        attrs=(_T, _OUT_TYPE),
        outputs=(Input("output", "out_type"),),
        compute=lambda x, out_type, **_: np.array(x.size, out_type),
        infer=_scalar_shape,
        vjps={},
    ),
    Operator(
        name="Rank",
        function="rank",
        inputs=(Input("input", "T"),),
        attrs=(_T,),
        outputs=(Input("output", "int32"),),
        compute=lambda x, **_: np.array(x.ndim, np.int32),
        infer=_scalar_shape,
        vjps={},
    ),
    Operator(
        name="OnesLike",
        function="ones_like",
        inputs=(Input("x", "T"),),
        attrs=(Attr("T", "type", allowed=(*REALS, *COMPLEX, "bool")),),
        outputs=(Input("y", "T"),),
        compute=lambda x, **_: np.ones(x.shape, x.dtype),
        infer=same_shape,
        vjps={},
    ),
    Operator(
        name="ZerosLike",
        function="zeros_like",
        inputs=(Input("x", "T"),),
        attrs=(_T,),
        outputs=(Input("y", "T"),),
        compute=lambda x, **_: np.zeros(x.shape, x.dtype),
        infer=same_shape,
        vjps={},
    ),
    Operator(
        name="Fill",
        function="fill",
        inputs=(Input("dims", "index_type"), Input("value", "T")),
        attrs=(_T, Attr("index_type", "type", "int32", allowed=INDICES)),
        outputs=(Input("output", "T"),),
        compute=_fill,
        infer=_fill_shape,
        vjps=_fill_vjps(),
    ),
    Operator(
        name="ShapeN",
        function="shape_n",
        inputs=(Input("input", "T", count="N"),),
        attrs=(Attr("N", "int"), _T, _OUT_TYPE),
        outputs=(Input("output", "out_type", count="N"),),
        compute=lambda *inputs, out_type: tuple(np.array(x.shape, out_type) for x in inputs),
        infer=lambda node: tuple((None if shape is None else len(shape),) for shape in node.shapes),
        vjps={},
    ),
    Operator(
        name="Range",
        function="range",
        inputs=(Input("start", "Tidx"), Input("limit", "Tidx"), Input("delta", "Tidx")),
        attrs=(Attr("Tidx", "type", "int32", allowed=tuple(name for name in REALS if name != "uint8")),),
        outputs=(Input("output", "Tidx"),),
        compute=_range,
        infer=_range_shape,
        vjps={},
    ),
    Operator(
        name="Cast",
        function="cast",
        inputs=(Input("x", "SrcT"),),
        attrs=(Attr("SrcT", "type"), Attr("DstT", "type"), Attr("Truncate", "bool", False)),
        outputs=(Input("y", "DstT"),),
        compute=_cast,
        infer=same_shape,
        vjps=_cast_vjps,
        shares_memory=True,
    ),
    Operator(
        name="NoOp",
        function="no_op",
        inputs=(),
        attrs=(),
        outputs=(),
        compute=lambda: (),
        vjps={},
    ),
)
