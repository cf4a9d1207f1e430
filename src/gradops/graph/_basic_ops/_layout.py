"""The same elements in another arrangement: Reshape, Transpose, slices, joins and their gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradops.errors import InvalidArgumentError
from gradops.graph._basic_ops._strided_slice import SliceSpec, slice_shape
from gradops.graph._basic_ops._tensors import described_shape
from gradops.graph._basic_ops._types import INDICES
from gradops.ops._expressions import (
    GRAD,
    SAME,
    Call,
    Constant,
    Differentiated,
    Expression,
    Grad,
    Gradients,
    Own,
    Result,
    ShapeOf,
)
from gradops.ops._inference import Inference, Shape, Size, describe, merge_shapes, merge_sizes, with_rank
from gradops.ops._operator import Attr, Input, Operator

__all__ = ["OPERATORS"]

_Array = npt.NDArray[Any]


def _axis(op: str, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"{op}: axis {axis} is not in [{-rank}, {rank})")
    return axis % rank


def _vector(op: str, name: str, values: _Array, length: int | None = None) -> list[int]:
    if np.ndim(values) != 1 or (length is not None and values.size != length):
        wanted = "a vector" if length is None else f"a vector of {length} elements"
        raise InvalidArgumentError(f"{op}: {name} must be {wanted}, got shape {np.shape(values)}")
    return [int(value) for value in values]


# --- Reshape, Squeeze, ExpandDims ---


def _full_shape(op: str, count: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Fill in the one size of -1."""
    known = math.prod(size for size in sizes if size != -1)
    if list(sizes).count(-1) > 1 or min(sizes, default=0) < -1:
        raise InvalidArgumentError(f"{op}: shape must have sizes >= 0 and at most one of -1, got {list(sizes)}")
    missing = count // known if known else 0
    full = tuple(missing if size == -1 else size for size in sizes)
    if math.prod(full) != count:
        raise InvalidArgumentError(f"Cannot reshape a tensor with {count} elements to shape {list(sizes)}")
    return full


def _reshape(tensor: _Array, shape: _Array) -> _Array:
    return np.reshape(tensor, _full_shape("Reshape", tensor.size, _vector("Reshape", "shape", shape)))


def _reshape_shape(node: Inference) -> Sequence[Shape]:
    sizes = described_shape(node, 1, "shape")
    given, wanted = node.shapes[0], node.value(1)
    if wanted is None or given is None or None in given:
        return (sizes,)
    count = math.prod(size for size in given if size is not None)
    return (_full_shape(node.op, count, wanted.tolist()),)


def _squeezed(op: str, shape: tuple[Size, ...], axes: Sequence[int]) -> Shape:
    chosen = {_axis(op, axis, len(shape)) for axis in axes}
    for axis in chosen:
        if shape[axis] not in (1, None):
            raise InvalidArgumentError(
                f"{op}: can not squeeze dim[{axis}], expected a dimension of 1, got {shape[axis]}"
            )
    if chosen:
        return tuple(size for axis, size in enumerate(shape) if axis not in chosen)
    return None if None in shape else tuple(size for size in shape if size != 1)


def _squeeze(x: _Array, *, squeeze_dims: tuple[int, ...]) -> _Array:
    return np.reshape(x, tuple(size for size in _squeezed("Squeeze", x.shape, squeeze_dims) or () if size is not None))


def _expand_dims(x: _Array, dim: _Array) -> _Array:
    return np.expand_dims(x, _axis("ExpandDims", int(np.reshape(dim, ())), x.ndim + 1))


def _expand_dims_shape(node: Inference) -> Sequence[Shape]:
    shape, dim = node.shapes[0], node.value(1)
    if shape is None:
        return (None,)
    if dim is None:
        return ((None,) * (len(shape) + 1),)
    axis = _axis(node.op, int(dim.reshape(())), len(shape) + 1)
    return ((*shape[:axis], 1, *shape[axis:]),)


_BACK_TO_INPUT = Call("Reshape", (GRAD, ShapeOf("input")))

# --- Transpose ---


def _permutation(op: str, perm: _Array, rank: int) -> tuple[int, ...]:
    axes = _vector(op, "perm", perm)
    if len(axes) != rank:
        raise InvalidArgumentError(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size {len(axes)}"
        )
    axes = [_axis(op, axis, rank) for axis in axes]
    if len(set(axes)) != rank:
        raise InvalidArgumentError(f"{op}: perm must name every axis once, got {axes}")
    return tuple(axes)


def _transpose_shape(node: Inference) -> Sequence[Shape]:
    shape, perm = node.shapes[0], node.value(1)
    if shape is None or perm is None:
        return (None if shape is None else (None,) * len(shape),)
    return (tuple(shape[axis] for axis in _permutation(node.op, perm, len(shape))),)


def _invert_permutation(x: _Array) -> _Array:
    axes = _vector("InvertPermutation", "x", x)
    if sorted(axes) != list(range(len(axes))):
        raise InvalidArgumentError(f"InvertPermutation: {axes} is not a permutation")
    return np.argsort(x).astype(x.dtype)


# --- slices ---

_MASKS = tuple(Attr(f"{mask}_mask", "int", 0) for mask in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"))


def _strided_slice(x: _Array, begin: _Array, end: _Array, strides: _Array, **masks: int) -> _Array:
    return np.asarray(x[SliceSpec.of(begin, end, strides, **masks).index(x.shape)])


def _strided_slice_shape(node: Inference) -> Sequence[Shape]:
    return (slice_shape(node),)


def _strided_slice_grad(shape: _Array, begin: _Array, end: _Array, strides: _Array, dy: _Array, **masks: int) -> _Array:
    result = np.zeros(tuple(_vector("StridedSliceGrad", "shape", shape)), dy.dtype)
    index = SliceSpec.of(begin, end, strides, **masks).index(result.shape)
    if result[index].shape != dy.shape:
        raise InvalidArgumentError(f"StridedSliceGrad: dy has shape {dy.shape}, but the slice {result[index].shape}")
    result[index] = dy
    return result


def _slice(x: _Array, begin: _Array, size: _Array) -> _Array:
    starts = _vector("Slice", "begin", begin, x.ndim)
    counts = [
        total - start if count == -1 else count
        for total, start, count in zip(x.shape, starts, _vector("Slice", "size", size, x.ndim), strict=True)
    ]
    for axis, (total, start, count) in enumerate(zip(x.shape, starts, counts, strict=True)):
        if not (0 <= start <= total and 0 <= count <= total - start):
            raise InvalidArgumentError(
                f"Expected begin[{axis}] in [0, {total}] and size in [0, {total} - begin], got {start} and {count}"
            )
    return x[tuple(slice(start, start + count) for start, count in zip(starts, counts, strict=True))]


def _slice_shape(node: Inference) -> Sequence[Shape]:
    size = node.value(2)
    if size is None or -1 in size:
        known = node.sizes(2)
        return (known if known is not None or node.shapes[0] is None else (None,) * len(node.shapes[0]),)
    return (tuple(size.tolist()),)


def _slice_vjps() -> Gradients:
    """Zeros before and after, as many as were cut off."""
    shape_out = ShapeOf(Own())
    rank = Call("Rank", ("input",))
    column = Call("Pack", ((rank, Constant(1, is_literal=True)),))
    before = Call("Reshape", ("begin", column))
    rest = Call("Sub", (Call("Sub", (ShapeOf("input"), shape_out)), "begin"))
    paddings = Call("ConcatV2", ((before, Call("Reshape", (rest, column))), Constant(1)))
    return Gradients({"input": Call("Pad", (GRAD, paddings))}, (rank, shape_out, column))


def _pad(x: _Array, paddings: _Array) -> _Array:
    if np.shape(paddings) != (x.ndim, 2) or np.min(paddings, initial=0) < 0:
        raise InvalidArgumentError(
            f"Pad: paddings must be [{x.ndim}, 2] and not negative, got {np.asarray(paddings).tolist()}"
        )
    return np.pad(x, paddings)


def _pad_shape(node: Inference) -> Sequence[Shape]:
    shape, paddings = node.shapes[0], node.value(1)
    if shape is None or paddings is None:
        return (None if shape is None else (None,) * len(shape),)
    if paddings.shape != (len(shape), 2):
        raise InvalidArgumentError(f"Pad: paddings must be [{len(shape)}, 2], got shape {paddings.shape}")
    added = paddings.sum(axis=1).tolist()
    return (tuple(None if size is None else size + more for size, more in zip(shape, added, strict=True)),)


def _pad_vjps() -> Mapping[str, Expression]:
    """The part that is not padding."""
    column = Call("Pack", ((Call("Rank", ("input",)), Constant(1, is_literal=True)),))
    before = Call("Slice", ("paddings", Constant([0, 0], is_literal=True), column))
    before = Call("Reshape", (before, Constant([-1], is_literal=True)))
    return {"input": Call("Slice", (GRAD, before, ShapeOf("input")))}


# --- joins ---


def _stacked_axis(op: str, shape: tuple[Any, ...], axis: int) -> int:
    return _axis(op, axis, len(shape) + 1)


def _pack(*values: _Array, axis: int) -> _Array:
    _check_equal_shapes("Pack", values)
    return np.stack(values, _stacked_axis("Pack", values[0].shape, axis))


def _check_equal_shapes(op: str, values: Sequence[_Array]) -> None:
    for i, value in enumerate(values):
        if value.shape != values[0].shape:
            raise InvalidArgumentError(
                f"Shapes of all inputs must match: values[0].shape = {list(values[0].shape)} != "
                f"values[{i}].shape = {list(value.shape)} ({op})"
            )


def _pack_shape(node: Inference) -> Sequence[Shape]:
    shape: Shape = None
    for given in node.shapes:
        shape = merge_shapes(node.op, "the inputs", shape, given)
    if shape is None:
        return (None,)
    axis = _stacked_axis(node.op, shape, node.attrs["axis"])
    return ((*shape[:axis], len(node.shapes), *shape[axis:]),)


def _pack_vjps(node: Differentiated) -> Mapping[str, Expression]:
    parts = Call("Unpack", (GRAD,), {"num": "$N", "axis": "$axis"})
    return {"values": tuple(Result(parts, i) for i in range(node.attrs["N"]))}


def _unpack(value: _Array, *, num: int, axis: int) -> tuple[_Array, ...]:
    if value.ndim == 0 or value.shape[_axis("Unpack", axis, value.ndim)] != num:
        raise InvalidArgumentError(f"Unpack: input of shape {value.shape} must have {num} sizes along axis {axis}")
    return tuple(np.moveaxis(value, axis, 0)[i] for i in range(num))


def _unpack_shape(node: Inference) -> Sequence[Shape]:
    shape, num = node.shapes[0], node.num_outputs
    if shape is None:
        return (None,) * num
    axis = _axis(node.op, node.attrs["axis"], len(shape))
    merge_sizes(node.op, "num and the size of the axis", shape[axis], num)
    return ((*shape[:axis], *shape[axis + 1 :]),) * num


def _unpack_vjps(node: Differentiated) -> Mapping[str, Expression]:
    grads = tuple(Grad(i) for i in range(node.num_outputs))
    return {"value": Call("Pack", (grads,), {"axis": "$axis"})}


def _joined(op: str, values: Sequence[_Array], axis: _Array) -> _Array:
    if np.size(axis) != 1:
        raise InvalidArgumentError(f"{op}: the axis must be a scalar, got shape {np.shape(axis)}")
    which = _axis(op, int(np.reshape(axis, ())), values[0].ndim)
    rests = {(value.ndim, *value.shape[:which], *value.shape[which + 1 :]) for value in values}
    if len(rests) != 1:
        raise InvalidArgumentError(
            f"{op}: dimensions of inputs should match along all but axis {which}: {[list(v.shape) for v in values]}"
        )
    return np.concatenate(values, which)


def _concat(concat_dim: _Array, *values: _Array) -> _Array:
    return _joined("Concat", values, concat_dim)


def _concat_v2(*inputs: _Array) -> _Array:
    return _joined("ConcatV2", inputs[:-1], inputs[-1])


def _joined_shape(node: Inference, shapes: Sequence[Shape], axis: _Array | None) -> Sequence[Shape]:
    ranks = {len(shape) for shape in shapes if shape is not None}
    if len(ranks) > 1:
        raise InvalidArgumentError(f"{node.op}: inputs must have equal ranks, got {', '.join(map(describe, shapes))}")
    if not ranks:
        return (None,)
    (rank,) = ranks
    if axis is None:
        return ((None,) * rank,)
    which = _axis(node.op, int(axis.reshape(())), rank)
    total: Size = 0
    rest: Shape = None
    for shape in shapes:
        sizes = with_rank(node.op, "an input", shape, rank)
        total = None if total is None or sizes[which] is None else total + (sizes[which] or 0)
        rest = merge_shapes(node.op, "inputs but for the axis", rest, (*sizes[:which], None, *sizes[which + 1 :]))
    assert rest is not None
    return ((*rest[:which], total, *rest[which + 1 :]),)


def _concat_vjps(axis: str) -> Any:
    def vjps(node: Differentiated) -> Gradients:
        count = node.attrs["N"]
        shapes = Call("ShapeN", ("values",))
        sizes = tuple(Result(shapes, i) for i in range(count))
        offsets = Call("ConcatOffset", (axis, sizes))
        parts = tuple(Call("Slice", (GRAD, Result(offsets, i), sizes[i])) for i in range(count))
        return Gradients({"values": parts}, (shapes, offsets))

    return vjps


def _concat_offset(concat_dim: _Array, *shapes: _Array) -> tuple[_Array, ...]:
    axis = _axis("ConcatOffset", int(np.reshape(concat_dim, ())), shapes[0].size)
    offsets = [np.zeros_like(shape) for shape in shapes]
    start = 0
    for offset, shape in zip(offsets, shapes, strict=True):
        offset[axis] = start
        start += int(shape[axis])
    return tuple(offsets)


# --- Tile, DynamicStitch ---


def _tile(x: _Array, multiples: _Array) -> _Array:
    repeats = _vector("Tile", "multiples", multiples, x.ndim)
    if min(repeats, default=0) < 0:
        raise InvalidArgumentError(f"Tile: expected multiples >= 0, got {repeats}")
    return np.tile(x, repeats)


def _tile_shape(node: Inference) -> Sequence[Shape]:
    shape, multiples = node.shapes[0], node.value(1)
    if shape is None or multiples is None:
        return (None if shape is None else (None,) * len(shape),)
    repeats = _vector("Tile", "multiples", multiples, len(shape))
    return (tuple(None if size is None else size * times for size, times in zip(shape, repeats, strict=True)),)


def _tile_vjps() -> Gradients:
    """Split every axis in (multiple, size) and sum over the multiples; TensorFlow's nodes, in its order."""

    def literal(value: Any) -> Constant:
        return Constant(value, is_literal=True)

    pairs = Call("Pack", (("multiples", ShapeOf("input")),))
    last = Call("Sub", (Call("Rank", (pairs,)), literal(1)))
    reverse = Call("Range", (last, literal(-1), literal(-1)))
    split = Call("Reshape", (Call("Transpose", (pairs, reverse)), literal([-1])))
    evens = Call("Range", (Constant(0), Call("Size", (split,)), literal(2)))
    return Gradients({"input": Call("Sum", (Call("Reshape", (GRAD, split)), evens))}, (split, evens))


def _dynamic_stitch(*inputs: _Array) -> _Array:
    indices, data = inputs[: len(inputs) // 2], inputs[len(inputs) // 2 :]
    tails = {part.shape[np.ndim(index) :] for index, part in zip(indices, data, strict=True)}
    if len(tails) != 1 or any(part.shape[: np.ndim(i)] != np.shape(i) for i, part in zip(indices, data, strict=True)):
        raise InvalidArgumentError("DynamicStitch: the shapes of data must start with those of their indices")
    count = max((int(np.max(index)) for index in indices if np.size(index)), default=-1) + 1
    merged = np.zeros((count, *tails.pop()), data[0].dtype)
    for index, part in zip(indices, data, strict=True):
        if np.size(index) and np.min(index) < 0:
            raise InvalidArgumentError("DynamicStitch: indices must be >= 0")
        merged[index] = part
    return merged


def _dynamic_stitch_shape(node: Inference) -> Sequence[Shape]:
    count = len(node.shapes) // 2
    tail: Shape = None
    for index, data in zip(node.shapes[:count], node.shapes[count:], strict=True):
        if index is not None and data is not None:
            tail = merge_shapes(node.op, "the data of one index", tail, data[len(index) :])
    indices = [node.value(i) for i in range(count)]
    if tail is None or any(index is None for index in indices):
        return (None if tail is None else (None, *tail),)
    return ((max((int(index.max()) for index in indices if index is not None and index.size), default=-1) + 1, *tail),)


_T = Attr("T", "type")
_N = Attr("N", "int")


def _index_type(name: str) -> Attr:
    return Attr(name, "type", "int32", allowed=INDICES)


OPERATORS = (
    Operator(
        name="Reshape",
        function="reshape",
        inputs=(Input("tensor", "T"), Input("shape", "Tshape")),
        attrs=(_T, _index_type("Tshape")),
        outputs=(Input("output", "T"),),
        compute=_reshape,
        infer=_reshape_shape,
        vjps={"tensor": Call("Reshape", (GRAD, ShapeOf("tensor")))},
        shares_memory=True,
    ),
    Operator(
        name="Squeeze",
        function="squeeze",
        inputs=(Input("input", "T"),),
        attrs=(_T, Attr("squeeze_dims", "list(int)", ())),
        outputs=(Input("output", "T"),),
        compute=_squeeze,
        infer=lambda node: (
            None if node.shapes[0] is None else _squeezed(node.op, node.shapes[0], node.attrs["squeeze_dims"]),
        ),
        vjps={"input": _BACK_TO_INPUT},
        shares_memory=True,
    ),
    Operator(
        name="ExpandDims",
        function="expand_dims",
        inputs=(Input("input", "T"), Input("dim", "Tdim")),
        attrs=(_T, _index_type("Tdim")),
        outputs=(Input("output", "T"),),
        compute=_expand_dims,
        infer=_expand_dims_shape,
        vjps={"input": _BACK_TO_INPUT},
        shares_memory=True,
    ),
    Operator(
        name="Transpose",
        function="transpose",
        inputs=(Input("x", "T"), Input("perm", "Tperm")),
        attrs=(_T, _index_type("Tperm")),
        outputs=(Input("y", "T"),),
        compute=lambda x, perm: np.transpose(x, _permutation("Transpose", perm, x.ndim)),
        infer=_transpose_shape,
        vjps={"x": Call("Transpose", (GRAD, Call("InvertPermutation", ("perm",))))},
        shares_memory=True,
    ),
    Operator(
        name="InvertPermutation",
        function="invert_permutation",
        inputs=(Input("x", "T"),),
        attrs=(_index_type("T"),),
        outputs=(Input("y", "T"),),
        compute=_invert_permutation,
        infer=lambda node: (with_rank(node.op, "x", node.shapes[0], 1),),
        vjps={},
    ),
    Operator(
        name="StridedSlice",
        function="strided_slice",
        inputs=(Input("input", "T"), Input("begin", "Index"), Input("end", "Index"), Input("strides", "Index")),
        attrs=(_T, Attr("Index", "type", allowed=("int16", *INDICES)), *_MASKS),
        outputs=(Input("output", "T"),),
        compute=_strided_slice,
        infer=_strided_slice_shape,
        vjps={"input": Call("StridedSliceGrad", (ShapeOf("input"), "begin", "end", "strides", GRAD), SAME)},
        shares_memory=True,
    ),
    Operator(
        name="StridedSliceGrad",
        function="strided_slice_grad",
        inputs=(
            Input("shape", "Index"),
            Input("begin", "Index"),
            Input("end", "Index"),
            Input("strides", "Index"),
            Input("dy", "T"),
        ),
        attrs=(_T, Attr("Index", "type", allowed=INDICES), *_MASKS),
        outputs=(Input("output", "T"),),
        compute=_strided_slice_grad,
        infer=lambda node: (described_shape(node, 0, "shape"),),
        vjps={"dy": Call("StridedSlice", (GRAD, "begin", "end", "strides"), SAME)},
    ),
    Operator(
        name="Slice",
        function="slice",
        inputs=(Input("input", "T"), Input("begin", "Index"), Input("size", "Index")),
        attrs=(_T, Attr("Index", "type", allowed=INDICES)),
        outputs=(Input("output", "T"),),
        compute=_slice,
        infer=_slice_shape,
        vjps=_slice_vjps(),
        shares_memory=True,
    ),
    Operator(
        name="Pad",
        function="pad",
        inputs=(Input("input", "T"), Input("paddings", "Tpaddings")),
        attrs=(_T, _index_type("Tpaddings")),
        outputs=(Input("output", "T"),),
        compute=_pad,
        infer=_pad_shape,
        vjps=_pad_vjps(),
    ),
    Operator(
        name="Pack",
        function="pack",
        inputs=(Input("values", "T", count="N"),),
        attrs=(_N, _T, Attr("axis", "int", 0)),
        outputs=(Input("output", "T"),),
        compute=_pack,
        infer=_pack_shape,
        vjps=_pack_vjps,
    ),
    Operator(
        name="Unpack",
        function="unpack",
        inputs=(Input("value", "T"),),
        attrs=(Attr("num", "int"), _T, Attr("axis", "int", 0)),
        outputs=(Input("output", "T", count="num"),),
        compute=_unpack,
        infer=_unpack_shape,
        vjps=_unpack_vjps,
        shares_memory=True,
    ),
    Operator(
        name="Concat",
        function="concat",
        inputs=(Input("concat_dim", "int32"), Input("values", "T", count="N")),
        attrs=(_N, _T),
        outputs=(Input("output", "T"),),
        compute=_concat,
        infer=lambda node: _joined_shape(node, node.shapes[1:], node.value(0)),
        vjps=_concat_vjps("concat_dim"),
    ),
    Operator(
        name="ConcatV2",
        function="concat_v2",
        inputs=(Input("values", "T", count="N"), Input("axis", "Tidx")),
        attrs=(_N, _T, _index_type("Tidx")),
        outputs=(Input("output", "T"),),
        compute=_concat_v2,
        infer=lambda node: _joined_shape(node, node.shapes[:-1], node.value(len(node.shapes) - 1)),
        vjps=_concat_vjps("axis"),
    ),
    Operator(
        name="ConcatOffset",
        function="concat_offset",
        inputs=(Input("concat_dim", "int32"), Input("shape", "shape_type", count="N")),
        attrs=(_N, _index_type("shape_type")),
        outputs=(Input("offset", "shape_type", count="N"),),
        compute=_concat_offset,
        infer=lambda node: tuple(node.shapes[1:]),
        vjps={},
    ),
    Operator(
        name="Tile",
        function="tile",
        inputs=(Input("input", "T"), Input("multiples", "Tmultiples")),
        attrs=(_T, _index_type("Tmultiples")),
        outputs=(Input("output", "T"),),
        compute=_tile,
        infer=_tile_shape,
        vjps=_tile_vjps(),
    ),
    Operator(
        name="DynamicStitch",
        function="dynamic_stitch",
        inputs=(Input("indices", "int32", count="N"), Input("data", "T", count="N")),
        attrs=(_N, _T),
        outputs=(Input("merged", "T"),),
        compute=_dynamic_stitch,
        infer=_dynamic_stitch_shape,
    ),
)
