"""Element by element, sums over axes, and matrix products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.errors import GradopsError, InvalidArgumentError
from gradops.graph._basic_ops._tensors import same_shape
from gradops.graph._basic_ops._types import COMPLEX, FLOATS, INDICES, NUMBERS, REALS
from gradops.ops._expressions import (
    GRAD,
    Call,
    Constant,
    Differentiated,
    Expression,
    Gradients,
    Own,
    Result,
    ShapeOf,
    Vjps,
)
from gradops.ops._inference import (
    Inference,
    Shape,
    broadcast_shapes,
    merge_shapes,
    merge_sizes,
    with_rank,
)
from gradops.ops._operator import Attr, Input, Operator

__all__ = ["OPERATORS", "accumulator"]

_Array = npt.NDArray[Any]


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that sums of `dtype` are formed in: float32 for the 16-bit floats."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


# --- with broadcasting ---


def _broadcast(node: Inference) -> Sequence[Shape]:
    return (broadcast_shapes(node.op, node.shapes[0], node.shapes[1]),)


def _broadcasting(function: Callable[[_Array, _Array], _Array]) -> Callable[..., _Array]:
    def compute(x: _Array, y: _Array) -> _Array:
        try:
            return function(x, y)
        except GradopsError:  # a ValueError, too
            raise
        except ValueError:
            raise InvalidArgumentError(f"Incompatible shapes: {list(x.shape)} vs. {list(y.shape)}") from None

    return compute


def _unbroadcast(grad_x: Expression, grad_y: Expression) -> Gradients:
    """Sum each gradient over the axes along which its input was repeated."""
    shape_x, shape_y = ShapeOf("x"), ShapeOf("y")
    axes = Call("BroadcastGradientArgs", (shape_x, shape_y))
    return Gradients(
        {
            "x": Call("Reshape", (Call("Sum", (grad_x, axes)), shape_x)),
            "y": Call("Reshape", (Call("Sum", (grad_y, Result(axes, 1))), shape_y)),
        },
        first=(grad_x, grad_y, shape_x, shape_y, axes),
    )


_SUM_VJPS = _unbroadcast(Call("Identity", (GRAD,)), Call("Identity", (GRAD,)))
_DIFFERENCE_VJPS = _unbroadcast(Call("Identity", (GRAD,)), Call("Neg", (GRAD,)))
_PRODUCT_VJPS = _unbroadcast(Call("Mul", (GRAD, "y")), Call("Mul", (GRAD, "x")))


def _quotient_vjps(op: str) -> Gradients:
    derivative = Call(op, (Call(op, (Call("Neg", ("x",)), "y")), "y"))
    return _unbroadcast(Call(op, (GRAD, "y")), Call("Mul", (GRAD, derivative)))


def _binary(name: str, function: Callable[[_Array, _Array], _Array], allowed: tuple[str, ...], vjps: Vjps) -> Operator:
    return Operator(
        name=name,
        function=name.lower(),
        inputs=(Input("x", "T"), Input("y", "T")),
        attrs=(Attr("T", "type", allowed=allowed),),
        outputs=(Input("z", "T"),),
        compute=_broadcasting(function),
        infer=_broadcast,
        vjps=vjps,
    )


def _unary(name: str, function: Callable[[_Array], _Array], allowed: tuple[str, ...], vjps: Vjps) -> Operator:
    return Operator(
        name=name,
        function=name.lower(),
        inputs=(Input("x", "T"),),
        attrs=(Attr("T", "type", allowed=allowed),),
        outputs=(Input("y", "T"),),
        compute=function,
        infer=same_shape,
        vjps=vjps,
    )


def _comparison(name: str, function: Callable[[_Array, _Array], _Array]) -> Operator:
    return Operator(
        name=name,
        function=name.lower(),
        inputs=(Input("x", "T"), Input("y", "T")),
        attrs=(Attr("T", "type", allowed=REALS),),
        outputs=(Input("z", "bool"),),
        compute=_broadcasting(function),
        infer=_broadcast,
        vjps={},
    )


def _select(condition: _Array, t: _Array, e: _Array) -> _Array:
    try:
        return np.where(condition, t, e)
    except ValueError:
        shapes = ", ".join(str(list(np.shape(x))) for x in (condition, t, e))
        raise InvalidArgumentError(f"SelectV2: incompatible shapes: {shapes}") from None


def _select_shape(node: Inference) -> Sequence[Shape]:
    condition, t, e = node.shapes
    return (broadcast_shapes(node.op, condition, broadcast_shapes(node.op, t, e)),)


def _two_vectors(node: Inference) -> Sequence[Shape]:  # noqa: ARG001
    return ((None,), (None,))


def _broadcast_gradient_args(s0: _Array, s1: _Array) -> tuple[_Array, _Array]:
    """The axes along which each of two shapes is repeated when they are broadcast together."""
    rank = max(s0.size, s1.size)
    sizes0, sizes1 = (np.concatenate([np.ones(rank - s.size, s.dtype), s]) for s in (s0, s1))
    if not np.all((sizes0 == sizes1) | (sizes0 == 1) | (sizes1 == 1)):
        raise InvalidArgumentError(f"Incompatible shapes: {s0.tolist()} vs. {s1.tolist()}")
    both = (sizes0 == 1) & (sizes1 == 1)  # TensorFlow counts these for both; summing over them costs nothing
    repeated = (np.flatnonzero((s == 1) & ((sizes0 != sizes1) | both)) for s in (sizes0, sizes1))
    if np.array_equal(s0, s1):
        return np.empty(0, s0.dtype), np.empty(0, s0.dtype)
    first, second = (axes.astype(s0.dtype) for axes in repeated)
    return first, second


# --- sums ---


def _add_n(*inputs: _Array) -> _Array:
    shapes = {x.shape for x in inputs}
    if len(shapes) != 1:
        raise InvalidArgumentError(f"Inputs to operation AddN must have the same size and shape, got {sorted(shapes)}")
    total = inputs[0].astype(accumulator(inputs[0].dtype))
    for x in inputs[1:]:
        total = total + x
    return total.astype(inputs[0].dtype, copy=False)


def _merged(node: Inference) -> Sequence[Shape]:
    return (functools.reduce(functools.partial(merge_shapes, node.op, "the inputs"), node.shapes),)


def _axes(op: str, indices: _Array, rank: int) -> tuple[int, ...]:
    axes = [int(axis) for axis in np.ravel(indices)]
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"{op}: invalid reduction dimension {axis} for input with {rank} dimension(s)")
    axes = [axis % rank for axis in axes]
    if len(set(axes)) != len(axes):
        raise InvalidArgumentError(f"{op}: invalid reduction arguments: axes contains duplicate dimension: {axes}")
    return tuple(axes)


def _reduced(node: Inference) -> Sequence[Shape]:
    shape, indices, keep = node.shapes[0], node.value(1), node.attrs["keep_dims"]
    if shape is None:
        return (None,)
    if indices is None:
        return ((None,) * len(shape) if keep else None,)
    axes = _axes(node.op, indices, len(shape))
    sizes = [(1 if axis in axes else size) for axis, size in enumerate(shape) if keep or axis not in axes]
    return (tuple(sizes),)


def _sum(x: _Array, reduction_indices: _Array, *, keep_dims: bool) -> _Array:
    axes = _axes("Sum", reduction_indices, np.ndim(x))
    return np.asarray(np.sum(x, axes, accumulator(x.dtype), keepdims=keep_dims)).astype(x.dtype, copy=False)


def _prod(x: _Array, reduction_indices: _Array, *, keep_dims: bool) -> _Array:
    axes = _axes("Prod", reduction_indices, np.ndim(x))
    return np.asarray(np.prod(x, axes, accumulator(x.dtype), keepdims=keep_dims)).astype(x.dtype, copy=False)


def _mean(x: _Array, reduction_indices: _Array, *, keep_dims: bool) -> _Array:
    axes = _axes("Mean", reduction_indices, np.ndim(x))
    count = np.prod([x.shape[axis] for axis in axes], dtype=np.int64)
    total = np.asarray(np.sum(x, axes, accumulator(x.dtype), keepdims=keep_dims))
    if x.dtype.kind in "iu":
        return _truncated_division(total, count.astype(x.dtype))
    return np.asarray(total / count.astype(total.dtype)).astype(x.dtype, copy=False)


def _truncated_division(x: _Array, y: _Array) -> _Array:
    """Divide integers as C does, toward zero."""
    if np.any(np.equal(y, 0)):
        raise InvalidArgumentError("Integer division by zero")
    quotient = np.floor_divide(x, y)
    return np.asarray(quotient + ((np.multiply(quotient, y) != x) & (np.less(x, 0) != np.less(y, 0))), x.dtype)


def _mod(x: _Array, y: _Array) -> _Array:
    """The remainder of C's division: it has the sign of `x`."""
    if x.dtype.kind in "iu" and np.any(np.equal(y, 0)):
        raise InvalidArgumentError("Integer division by zero")
    return np.fmod(x, y)


def _floor_div(x: _Array, y: _Array) -> _Array:
    if x.dtype.kind in "iu" and np.any(np.equal(y, 0)):
        raise InvalidArgumentError("Integer division by zero")
    return np.floor_divide(x, y)


def _div(x: _Array, y: _Array) -> _Array:
    return _truncated_division(x, y) if x.dtype.kind in "iu" else np.divide(x, y)


# --- matrix products ---


def _mat_mul_shape(node: Inference) -> Sequence[Shape]:
    a = with_rank(node.op, "a", node.shapes[0], 2)
    b = with_rank(node.op, "b", node.shapes[1], 2)
    rows, inner_a = a[::-1] if node.attrs["transpose_a"] else a
    inner_b, columns = b[::-1] if node.attrs["transpose_b"] else b
    merge_sizes(node.op, "the inner sizes", inner_a, inner_b)
    return ((rows, columns),)


def _mat_mul(a: _Array, b: _Array, *, transpose_a: bool, transpose_b: bool, **_: Any) -> _Array:
    left, right = (a.T if transpose_a else a), (b.T if transpose_b else b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise InvalidArgumentError(f"Matrix size-incompatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}")
    wide = accumulator(a.dtype)
    product: _Array = np.matmul(left.astype(wide, copy=False), right.astype(wide, copy=False))
    return product.astype(a.dtype, copy=False)


def _mat_mul_vjps(node: Differentiated) -> Mapping[str, Expression]:
    def product(x: Expression, y: Expression, transpose_x: bool, transpose_y: bool) -> Call:
        return Call("MatMul", (x, y), {"transpose_a": transpose_x, "transpose_b": transpose_y})

    if not node.attrs["transpose_a"]:
        if not node.attrs["transpose_b"]:
            return {"a": product(GRAD, "b", False, True), "b": product("a", GRAD, True, False)}
        return {"a": product(GRAD, "b", False, False), "b": product(GRAD, "a", True, False)}
    if not node.attrs["transpose_b"]:
        return {"a": product("b", GRAD, False, True), "b": product("a", GRAD, False, False)}
    return {"a": product("b", GRAD, True, True), "b": product(GRAD, "a", True, True)}


# --- the gradients of sums: every element of the sum goes back to all that were added ---


def _spread(indices: Expression) -> tuple[Call, tuple[Expression, ...]]:
    """Repeat the gradient of a sum along the axes that were summed over: TensorFlow's way to say it, in its order.

    Returns the gradient and what comes before it.
    """
    shape = ShapeOf("input")
    zero, one = Constant(0), Constant(1)
    rank = Call("Size", (shape,))
    axes = Call("Mod", (Call("Add", (indices, rank)), rank))
    every = Call("Range", (zero, rank, one))
    kept_shape = Call("DynamicStitch", ((every, axes), (shape, Call("OnesLike", (axes,)))))
    multiples = Call("Div", (shape, Call("Maximum", (kept_shape, Constant(1)))))
    return Call("Tile", (Call("Reshape", (GRAD, kept_shape)), multiples)), (shape, zero, one, axes, multiples)


def _sum_vjps() -> Gradients:
    grad, first = _spread("reduction_indices")
    return Gradients({"input": grad}, first)


def _mean_vjps() -> Gradients:
    grad, first = _spread("reduction_indices")
    shape_in, shape_out, zero = ShapeOf("input"), ShapeOf(Own()), Constant(0)
    count_in, count_out = Call("Prod", (shape_in, zero)), Call("Prod", (shape_out, zero))
    factor = Call("Div", (count_in, Call("Maximum", (count_out, Constant(1)))))
    mean = Call("Div", (grad, Call("Cast", (factor,), {"DstT": "$T"})))
    return Gradients({"input": mean}, (*first, grad, shape_in, shape_out, zero, count_in, count_out))


def _add_n_vjps(node: Differentiated) -> Mapping[str, Expression]:
    return {"inputs": (Call("Identity", (GRAD,)),) * node.num_inputs}


def _square_vjps() -> Mapping[str, Expression]:
    two = Call("Cast", (Constant(2),), {"DstT": "$T"})
    return {"x": Call("Mul", (GRAD, Call("Mul", (two, "x"))))}


def _reduction(name: str, compute: Callable[..., _Array], vjps: Vjps) -> Operator:
    return Operator(
        name=name,
        function=name.lower(),
        inputs=(Input("input", "T"), Input("reduction_indices", "Tidx")),
        attrs=(
            Attr("keep_dims", "bool", False),
            Attr("T", "type", allowed=NUMBERS),
            Attr("Tidx", "type", "int32", allowed=INDICES),
        ),
        outputs=(Input("output", "T"),),
        compute=compute,
        infer=_reduced,
        vjps=vjps,
    )


_SIGNED = (*FLOATS, "int8", "int16", "int32", "int64", *COMPLEX)
_ADDED = (*FLOATS, "uint8", "int8", "int16", "int32", "int64", *COMPLEX)

OPERATORS = (
    _binary("Add", np.add, (*_ADDED, "string"), _SUM_VJPS),
    _binary("AddV2", np.add, (*_ADDED, "uint16", "uint32", "uint64"), _SUM_VJPS),
    _binary("Sub", np.subtract, (*REALS, *COMPLEX), _DIFFERENCE_VJPS),
    _binary("Mul", np.multiply, (*REALS, *COMPLEX), _PRODUCT_VJPS),
    _binary("Div", _div, (*REALS, *COMPLEX), _quotient_vjps("Div")),
    _binary("RealDiv", np.divide, (*REALS, *COMPLEX), _quotient_vjps("RealDiv")),
    _binary("FloorDiv", _floor_div, (*REALS, *COMPLEX), None),
    _binary("Mod", _mod, ("int32", "int64", *FLOATS), None),
    _binary("Maximum", np.maximum, REALS, None),
    _unary("Neg", np.negative, _SIGNED, {"x": Call("Neg", (GRAD,))}),
    _unary("Square", np.square, (*REALS, *COMPLEX), _square_vjps()),
    _unary("Floor", np.floor, FLOATS, {}),
    _unary("Ceil", np.ceil, FLOATS, {}),
    _comparison("GreaterEqual", np.greater_equal),
    _comparison("LessEqual", np.less_equal),
    Operator(
        name="LogicalAnd",
        function="logical_and",
        inputs=(Input("x", "bool"), Input("y", "bool")),
        attrs=(),
        outputs=(Input("z", "bool"),),
        compute=_broadcasting(np.logical_and),
        infer=_broadcast,
        vjps={},
    ),
    Operator(
        name="SelectV2",
        function="select_v2",
        inputs=(Input("condition", "bool"), Input("t", "T"), Input("e", "T")),
        attrs=(Attr("T", "type"),),
        outputs=(Input("output", "T"),),
        compute=_select,
        infer=_select_shape,
    ),
    Operator(
        name="BroadcastGradientArgs",
        function="broadcast_gradient_args",
        inputs=(Input("s0", "T"), Input("s1", "T")),
        attrs=(Attr("T", "type", "int32", allowed=INDICES),),
        outputs=(Input("r0", "T"), Input("r1", "T")),
        compute=_broadcast_gradient_args,
        infer=_two_vectors,
        vjps={},
    ),
    Operator(
        name="AddN",
        function="add_n",
        inputs=(Input("inputs", "T", count="N"),),
        attrs=(Attr("N", "int"), Attr("T", "type", allowed=(*NUMBERS, "variant"))),
        outputs=(Input("sum", "T"),),
        compute=_add_n,
        infer=_merged,
        vjps=_add_n_vjps,
    ),
    _reduction("Sum", _sum, _sum_vjps()),
    _reduction("Mean", _mean, _mean_vjps()),
    _reduction("Prod", _prod, None),
    Operator(
        name="MatMul",
        function="mat_mul",
        inputs=(Input("a", "T"), Input("b", "T")),
        attrs=(
            Attr("transpose_a", "bool", False),
            Attr("transpose_b", "bool", False),
            Attr("T", "type", allowed=(*FLOATS, "int32", "int64", "uint8", "uint16", "uint32", "uint64", *COMPLEX)),
            Attr("grad_a", "bool", False),
            Attr("grad_b", "bool", False),
        ),
        outputs=(Input("product", "T"),),
        compute=_mat_mul,
        infer=_mat_mul_shape,
        vjps=_mat_mul_vjps,
    ),
)
