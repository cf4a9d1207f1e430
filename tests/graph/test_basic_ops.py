"""The operators around the image operators: values, and errors at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gradops import errors
from gradops.graph import ClientSession, Scope, ops


def run(build: Callable[[Scope], Any]) -> np.ndarray[Any, Any]:
    root = Scope.new_root_scope()
    made = build(root)
    assert root.status() is None
    [result] = ClientSession(root).run([made])
    return np.asarray(result)


A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
I8 = np.array([-7, 7, -8, 127], np.int8)

VALUES: list[tuple[str, Callable[[Scope], Any], Any]] = [
    ("stop gradient", lambda r: ops.StopGradient(r, 3.0), 3.0),
    ("ones like", lambda r: ops.OnesLike(r, A > 3), np.ones((2, 3, 4), bool)),
    ("zeros like", lambda r: ops.ZerosLike(r, I8), [0, 0, 0, 0]),
    ("shape", lambda r: ops.Shape(r, A, out_type="int64"), np.array([2, 3, 4])),
    ("size and rank", lambda r: ops.Pack(r, [ops.Size(r, A), ops.Rank(r, A)]), np.array([24, 3], np.int32)),
    ("shape of a scalar", lambda r: ops.Shape(r, 1.0), np.empty(0, np.int32)),
    ("fill", lambda r: ops.Fill(r, [2, 2], 7), np.full((2, 2), 7, np.int32)),
    ("range", lambda r: ops.Range(r, 5, 0, -2), np.array([5, 3, 1], np.int32)),
    ("range of floats", lambda r: ops.Range(r, 0.0, 1.0, 0.25), np.arange(0, 1, 0.25, np.float32)),
    ("cast truncates", lambda r: ops.Cast(r, [-1.9, 1.9], "int32"), np.array([-1, 1], np.int32)),
    ("division of integers is C's", lambda r: ops.Div(r, I8, np.int8(2)), np.array([-3, 3, -4, 63], np.int8)),
    ("floor division", lambda r: ops.FloorDiv(r, I8, np.int8(2)), np.array([-4, 3, -4, 63], np.int8)),
    ("remainder has the sign of x", lambda r: ops.Mod(r, [-7, 7], [3, -3]), np.array([-1, 1], np.int32)),
    ("maximum", lambda r: ops.Maximum(r, [1.0, np.nan], 2.0), np.array([2, np.nan], np.float32)),
    ("floor and ceil", lambda r: ops.Sub(r, ops.Ceil(r, [-1.5, 2.0]), ops.Floor(r, [-1.5, 2.0])),
     np.array([1, 0], np.float32)),
    ("comparisons", lambda r: ops.LogicalAnd(r, ops.GreaterEqual(r, [1, 2, 3], 2), ops.LessEqual(r, [1, 2, 3], 2)),
     np.array([False, True, False])),
    ("select", lambda r: ops.SelectV2(r, [[True], [False]], [1, 2], 3), np.array([[1, 2], [3, 3]], np.int32)),
    ("int8 wraps", lambda r: ops.Add(r, I8, np.int8(1)), np.array([-6, 8, -7, -128], np.int8)),
    ("int32 sums wrap", lambda r: ops.Sum(r, [2**31 - 1, 1], 0), np.int32(-(2**31))),
    ("half sums in float", lambda r: ops.Sum(r, np.full(5000, 1, np.float16), 0), np.float16(5000)),
    ("bfloat16 sums in float", lambda r: ops.Sum(r, np.full(512, 1, ml_dtypes.bfloat16), 0), ml_dtypes.bfloat16(512)),
    ("half means in float", lambda r: ops.Mean(r, np.full(50000, 2, np.float16), [0]), np.float16(2)),
    ("means of integers", lambda r: ops.Mean(r, [-3, 0], [0]), np.int32(-1)),
    ("mean of nothing", lambda r: ops.Mean(r, np.empty((0, 2), np.float32), [0]), np.full(2, np.nan, np.float32)),
    ("sum over no axis", lambda r: ops.Sum(r, A, np.empty(0, np.int32)), A),
    ("prod", lambda r: ops.Prod(r, A, [0, 2], keep_dims=True), A.prod((0, 2), keepdims=True)),
    ("half matmul in float", lambda r: ops.MatMul(r, np.ones((1, 5000), np.float16), np.ones((5000, 1), np.float16)),
     np.full((1, 1), 5000, np.float16)),
    ("add n", lambda r: ops.AddN(r, [A, A, A]), 3 * A),
    ("bias NCHW", lambda r: ops.BiasAdd(r, A, [0.0, 1.0, 2.0], data_format="NCHW"),
     A + np.arange(3, dtype=np.float32)[:, None]),
    ("bias gradient NCHW", lambda r: ops.BiasAddGrad(r, A, data_format="NCHW"), A.sum((0, 2))),
    ("relu of nan", lambda r: ops.Relu(r, [-1.0, np.nan, 2.0]), np.array([0, np.nan, 2], np.float32)),
    ("relu grad at 0", lambda r: ops.ReluGrad(r, [5.0, 5.0], [0.0, 1.0]), np.array([0, 5], np.float32)),
    ("reshape", lambda r: ops.Reshape(r, A, [4, -1]), A.reshape(4, 6)),
    ("reshape of nothing", lambda r: ops.Reshape(r, np.empty((0, 3)), [3, 0]), np.empty((3, 0))),
    ("reshape to a scalar", lambda r: ops.Reshape(r, [3.0], np.empty(0, np.int32)), np.float32(3)),
    ("transpose", lambda r: ops.Transpose(r, A, [2, 0, -2]), A.transpose(2, 0, 1)),
    ("invert permutation", lambda r: ops.InvertPermutation(r, [2, 0, 1]), np.array([1, 2, 0], np.int32)),
    ("slice", lambda r: ops.Slice(r, A, [1, 0, 2], [1, -1, 2]), A[1:, :, 2:]),
    ("strided slice", lambda r: ops.StridedSlice(r, A, [0, -1, 0], [0, 0, 9], [1, -2, 3], begin_mask=4,
                                                 shrink_axis_mask=1), A[0, -1:0:-2, ::3]),
    ("strided slice, ellipsis and new axis", lambda r: ops.StridedSlice(
        r, A, [0, 0, 1], [0, 0, 3], [1, 1, 1], ellipsis_mask=1, new_axis_mask=2), A[..., None, 1:3]),
    ("strided slice's gradient", lambda r: ops.StridedSliceGrad(r, [5], [3], [0], [-2], [1.0, 2.0]),
     np.array([0, 2, 0, 1, 0], np.float32)),
    ("pad", lambda r: ops.Pad(r, [1.0], [[2, 1]]), np.array([0, 0, 1, 0], np.float32)),
    ("pack", lambda r: ops.Pack(r, [A, A], axis=-1), np.stack([A, A], -1)),
    ("unpack", lambda r: ops.Unpack(r, A, 3, axis=1)[1], A[:, 1]),
    ("concat", lambda r: ops.Concat(r, [A, A], -1), np.concatenate([A, A], -1)),
    ("concat offset", lambda r: ops.ConcatOffset(r, 1, [[2, 3], [2, 5]])[1], np.array([0, 3], np.int32)),
    ("tile", lambda r: ops.Tile(r, A, [1, 2, 0]), np.empty((2, 6, 0), np.float32)),
    ("squeeze", lambda r: ops.Squeeze(r, A[None, :, :1]), A[:, 0]),
    ("expand dims", lambda r: ops.ExpandDims(r, A, -1), A[..., None]),
    ("dynamic stitch", lambda r: ops.DynamicStitch(r, [[0, 2], [1, 2]], [[1, 2], [3, 4]]),
     np.array([1, 3, 4], np.int32)),
    ("broadcast gradient args", lambda r: ops.BroadcastGradientArgs(r, [2, 1, 3], [5, 1])[1], np.array([0, 2], "i4")),
    ("empty broadcast args", lambda r: ops.BroadcastGradientArgs(r, [2, 3], [2, 3]).r0, np.empty(0, np.int32)),
    ("shape n", lambda r: ops.ShapeN(r, [A, A[0]])[1], np.array([3, 4], np.int32)),
    ("strings add", lambda r: ops.Add(r, "a", ["b", "c"]), np.array([b"ab", b"ac"], object)),
]  # fmt: skip


@pytest.mark.parametrize(("build", "expected"), [pytest.param(b, e, id=name) for name, b, e in VALUES])
def test_values(build: Callable[[Scope], Any], expected: Any) -> None:
    result = run(build)
    np.testing.assert_array_equal(result, expected)
    if isinstance(expected, (np.ndarray, np.generic)):
        assert result.dtype == expected.dtype


#: What only the run can find out: inputs are fed, so that nothing is known while building.
RUN_TIME_ERRORS: list[tuple[str, Callable[..., Any], list[Any], str]] = [
    ("add", ops.Add, [np.ones(2), np.ones(3)], "Incompatible shapes"),
    ("select", ops.SelectV2, [np.ones(2, bool), np.ones(3), np.ones(3)], "incompatible shapes"),
    ("add n", lambda r, x, y: ops.AddN(r, [x, y]), [np.ones(2), np.ones(3)], "same size and shape"),
    ("div by zero", ops.Div, [np.int32(1), np.int32(0)], "division by zero"),
    ("mod by zero", ops.Mod, [np.int32(1), np.int32(0)], "division by zero"),
    ("sum's axis", ops.Sum, [np.ones(2), np.int32(1)], "invalid reduction dimension 1"),
    ("sum's axes", ops.Sum, [np.ones(2), np.array([0, -1], np.int32)], "duplicate"),
    ("matmul", ops.MatMul, [np.ones((2, 3)), np.ones((2, 3))], "Matrix size-incompatible"),
    ("matmul's rank", ops.MatMul, [np.ones(2), np.ones((2, 3))], "Matrix size-incompatible"),
    ("bias", ops.BiasAdd, [np.ones((2, 3)), np.ones(2)], "as many biases"),
    ("bias gradient", ops.BiasAddGrad, [np.ones(2)], "at least 2D"),
    ("relu gradient", ops.ReluGrad, [np.ones(2), np.ones(3)], "differ in shape"),
    ("reshape", ops.Reshape, [np.ones(4), np.array([3], np.int32)], "Cannot reshape a tensor with 4 elements"),
    ("reshape twice -1", ops.Reshape, [np.ones(4), np.array([-1, -1], np.int32)], "at most one of -1"),
    ("reshape by a matrix", ops.Reshape, [np.ones(4), np.ones((1, 1), np.int32)], "must be a vector"),
    ("transpose", ops.Transpose, [np.ones((2, 2)), np.array([0], np.int32)], "expects a vector of size 2"),
    ("transpose twice", ops.Transpose, [np.ones((2, 2)), np.array([0, 0], np.int32)], "every axis once"),
    ("permutation", ops.InvertPermutation, [np.array([0, 2], np.int32)], "not a permutation"),
    ("slice", ops.Slice, [np.ones(3), np.array([2], np.int32), np.array([2], np.int32)], "Expected begin"),
    ("strided slice", lambda r, x, b, e, s: ops.StridedSlice(r, x, b, e, s, shrink_axis_mask=1),
     [np.ones(3), *(np.array([k], np.int32) for k in (3, 4, 1))], "out of bounds"),
    ("stride 0", ops.StridedSlice, [np.ones(3), *(np.array([k], np.int32) for k in (0, 1, 0))], "non-zero"),
    ("too many slices", ops.StridedSlice, [np.ones(3), *(np.ones(2, np.int32),) * 3], "only 1 dims"),
    ("unequal slices", ops.StridedSlice, [np.ones(3), np.ones(2, np.int32), *(np.ones(1, np.int32),) * 2],
     "equal size"),
    ("slice's gradient", ops.StridedSliceGrad,
     [*(np.array([k], np.int32) for k in (5, 0, 3, 1)), np.ones(2)], "dy has shape"),
    ("pad", ops.Pad, [np.ones(3), np.array([[-1, 0]], np.int32)], "not negative"),
    ("pack", lambda r, x, y: ops.Pack(r, [x, y]), [np.ones(2), np.ones(3)], "must match"),
    ("unpack", lambda r, x: ops.Unpack(r, x, 2), [np.ones(3)], "must have 2 sizes"),
    ("concat", lambda r, x, y: ops.Concat(r, [x, y], 0), [np.ones((2, 2)), np.ones((2, 3))], "match along all but"),
    ("concat's axis", lambda r, x, a: ops.Concat(r, [x, x], a), [np.ones(2), np.int32(1)], "axis 1 is not in"),
    ("squeeze", lambda r, x: ops.Squeeze(r, x, squeeze_dims=[0]), [np.ones(2)], "can not squeeze"),
    ("tile", ops.Tile, [np.ones(2), np.array([-1], np.int32)], "multiples >= 0"),
    ("fill", ops.Fill, [np.array([-1], np.int32), np.ones(())], "dims must be >= 0"),
    ("range", ops.Range, [np.int32(0), np.int32(1), np.int32(0)], "delta != 0"),
    ("range's way", ops.Range, [np.int32(1), np.int32(0), np.int32(1)], "start <= limit"),
    ("stitch", lambda r, i, x: ops.DynamicStitch(r, [i], [x]), [np.array([-1], np.int32), np.ones(1)], "must be >= 0"),
    ("stitch's shapes", lambda r, i, x: ops.DynamicStitch(r, [i], [x]), [np.array([1], np.int32), np.ones(2)],
     "shapes"),
    ("broadcast args", lambda r, x, y: ops.BroadcastGradientArgs(r, x, y).r0,
     [np.array([2], np.int32), np.array([3], np.int32)], "Incompatible shapes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "values", "words"), [pytest.param(*rest, id=name) for name, *rest in RUN_TIME_ERRORS]
)
def test_errors_at_run_time(build: Callable[..., Any], values: list[Any], words: str) -> None:
    root = Scope.new_root_scope()
    fed = {ops.Placeholder(root, value.dtype): value for value in values}
    made = build(root, *fed)
    assert root.status() is None
    with pytest.raises(errors.InvalidArgumentError, match=words) as raised:
        ClientSession(root).run(fed, [getattr(made, "operation", made)])
    assert "[[node" in str(raised.value)
