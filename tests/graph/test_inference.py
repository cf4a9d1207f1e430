"""Shapes while building, and what is refused then: as TensorFlow, at the same moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import golden_cases
from gradops import errors
from gradops.graph import ClientSession, Output, Scope, ops
from gradops.ops._inference import Shape

UNKNOWN = None


def placeholder(scope: Scope, *shape: int | None, dtype: str = "float") -> Any:
    return ops.Placeholder(scope, dtype, shape=shape)


def anything(scope: Scope, dtype: str = "float") -> Any:
    return ops.Placeholder(scope, dtype)


ONE = [1, 1, 1, 1]
SHAPES: list[tuple[str, Callable[[Scope], Any], Shape]] = [
    # convolutions
    ("conv SAME", lambda r: ops.Conv2D(r, placeholder(r, None, 7, None, 2), placeholder(r, 3, 3, 2, 4), [1, 2, 2, 1],
                                       "SAME"), (None, 4, None, 4)),
    ("conv NCHW", lambda r: ops.Conv2D(r, placeholder(r, 5, 2, 7, 6), placeholder(r, 3, 3, 1, 4), ONE, "VALID",
                                       data_format="NCHW"), (5, 4, 5, 4)),
    ("conv EXPLICIT", lambda r: ops.Conv2D(r, placeholder(r, 1, 5, 5, 1), placeholder(r, 3, 3, 1, 1), ONE, "EXPLICIT",
                                           explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0]), (1, 6, 4, 1)),
    ("conv of anything", lambda r: ops.Conv2D(r, anything(r), anything(r), ONE, "SAME"), (None,) * 4),
    ("strides of batch pass", lambda r: ops.Conv2D(r, anything(r), anything(r), [2, 1, 1, 1], "SAME"), (None,) * 4),
    ("backprop input", lambda r: ops.Conv2DBackpropInput(r, [2, 5, 6, 3], anything(r), anything(r), ONE, "SAME"),
     (2, 5, 6, 3)),
    ("backprop input, two sizes", lambda r: ops.Conv2DBackpropInput(r, [5, 6], placeholder(r, 3, 3, 2, 4),
                                                                    placeholder(r, 7, 5, 6, 4), ONE, "SAME"),
     (7, 5, 6, 2)),
    ("backprop input, two sizes, NCHW", lambda r: ops.Conv2DBackpropInput(
        r, [5, 6], placeholder(r, 3, 3, 2, 4), placeholder(r, 7, 4, 5, 6), ONE, "SAME", data_format="NCHW"),
     (7, 2, 5, 6)),
    ("-1 is unknown, the batch is known", lambda r: ops.Conv2DBackpropInput(
        r, [-1, -1, 6, 3], anything(r), placeholder(r, 7, 5, 6, 4), ONE, "SAME"), (7, None, 6, 3)),
    ("sizes only known at run time", lambda r: ops.Conv2DBackpropInput(
        r, placeholder(r, 4, dtype="int32"), anything(r), placeholder(r, 7, 5, 6, 4), ONE, "SAME"),
     (7, None, None, None)),
    ("sizes of unknown length", lambda r: ops.Conv2DBackpropInput(
        r, anything(r, "int32"), anything(r), placeholder(r, 7, 5, 6, 4), ONE, "SAME"), (7, None, None, None)),
    ("sizes from Shape", lambda r: ops.Conv2DBackpropInput(
        r, ops.Shape(r, placeholder(r, 7, None, 6, 2)), anything(r), anything(r), ONE, "SAME"), (7, None, 6, 2)),
    ("sizes from Pack and StridedSlice", lambda r: ops.Conv2DBackpropInput(
        r, ops.Pack(r, [ops.StridedSlice(r, ops.Shape(r, placeholder(r, 7, 8)), [i], [i + 1], [1], shrink_axis_mask=1)
                        for i in (1, 0)] + [3, ops.StridedSlice(r, ops.Shape(r, placeholder(r, None)), [0], [1], [1],
                                                                shrink_axis_mask=1)]),
        anything(r), anything(r), ONE, "SAME"), (8, 7, 3, None)),
    ("sizes from Concat, Cast and Identity", lambda r: ops.Conv2DBackpropInput(
        r, ops.Identity(r, ops.Cast(r, ops.Concat(r, [ops.Shape(r, placeholder(r, 7, None), out_type="int64"),
                                                      np.array([5, 2])], 0), "int32")),
        anything(r), anything(r), ONE, "SAME"), (7, None, 5, 2)),
    ("backprop filter", lambda r: ops.Conv2DBackpropFilter(r, anything(r), [3, 3, 2, -1], anything(r), ONE, "SAME"),
     (3, 3, 2, None)),
    ("backprop filter, sizes unknown", lambda r: ops.Conv2DBackpropFilter(
        r, anything(r), anything(r, "int32"), anything(r), ONE, "SAME"), (None,) * 4),
    # crops
    ("crop", lambda r: ops.CropAndResize(r, placeholder(r, 2, 5, 5, 3), placeholder(r, None, 4),
                                         placeholder(r, 6, dtype="int32"), [2, -1]), (6, 2, None, 3)),
    ("crop of size 0 passes", lambda r: ops.CropAndResize(r, anything(r), anything(r), anything(r, "int32"), [0, 3]),
     (None, 0, 3, None)),
    ("crop's gradient by image", lambda r: ops.CropAndResizeGradImage(
        r, placeholder(r, 3), placeholder(r, 1, 2, 3), placeholder(r, 4, 4, dtype="int32"), [2, -1, 5, 3], "half"),
     (2, None, 5, 3)),
    ("crop's gradient by boxes", lambda r: ops.CropAndResizeGradBoxes(
        r, anything(r), anything(r), placeholder(r, 9, 4), anything(r, "int32")), (9, 4)),
    # the others
    ("broadcast", lambda r: ops.Add(r, placeholder(r, 2, 1, None), placeholder(r, 5, 1)), (2, 5, None)),
    ("broadcast of unknown rank", lambda r: ops.Mul(r, anything(r), placeholder(r, 3)), UNKNOWN),
    ("add n merges", lambda r: ops.AddN(r, [placeholder(r, None, 3), placeholder(r, 2, None), anything(r)]), (2, 3)),
    ("bias", lambda r: ops.BiasAdd(r, placeholder(r, None, None, None), placeholder(r, 4)), (None, None, 4)),
    ("bias gradient", lambda r: ops.BiasAddGrad(r, placeholder(r, 2, 3, 4), data_format="NCHW"), (3,)),
    ("reshape fills in", lambda r: ops.Reshape(r, placeholder(r, 4, 6), [3, -1]), (3, 8)),
    ("reshape of unknown", lambda r: ops.Reshape(r, placeholder(r, None, 6), [3, -1]), (3, None)),
    ("transpose", lambda r: ops.Transpose(r, placeholder(r, 2, None, 4), [2, 0, 1]), (4, 2, None)),
    ("transpose by unknown", lambda r: ops.Transpose(r, placeholder(r, 2, 3), anything(r, "int32")), (None, None)),
    ("slice with masks", lambda r: ops.StridedSlice(r, placeholder(r, 4, 5, 6, 7), [1, 0, 0, -1], [3, 0, 0, 0],
                                                    [1, 1, 1, 1], ellipsis_mask=2, new_axis_mask=4,
                                                    shrink_axis_mask=8), (2, 5, 6, 1)),
    ("slice of unknown sizes", lambda r: ops.StridedSlice(r, placeholder(r, None, 5), [1, 4], [3, 0], [1, -2]),
     (None, 2)),
    ("pack", lambda r: ops.Pack(r, [placeholder(r, 2, None), placeholder(r, None, 3)], axis=-1), (2, 3, 2)),
    ("unpack", lambda r: ops.Unpack(r, placeholder(r, 2, 3), 3, axis=1)[2], (2,)),
    ("concat", lambda r: ops.Concat(r, [placeholder(r, 2, None), placeholder(r, 5, 3)], 0), (7, 3)),
    ("concat along unknown", lambda r: ops.Concat(r, [placeholder(r, 2, 3), anything(r)], anything(r, "int32")),
     (None, None)),
    ("sum", lambda r: ops.Sum(r, placeholder(r, 2, None, 4), [0, -1]), (None,)),
    ("sum keeps", lambda r: ops.Mean(r, placeholder(r, 2, None, 4), 1, keep_dims=True), (2, 1, 4)),
    ("sum over unknown axes", lambda r: ops.Sum(r, placeholder(r, 2, 3), anything(r, "int32")), UNKNOWN),
    ("matmul", lambda r: ops.MatMul(r, placeholder(r, 2, 3), placeholder(r, 5, 2), transpose_a=True, transpose_b=True),
     (3, 5)),
    ("shape", lambda r: ops.Shape(r, placeholder(r, 2, None)), (2,)),
    ("fill", lambda r: ops.Fill(r, [2, 3], 1.0), (2, 3)),
    ("range", lambda r: ops.Range(r, 1, 10, 3), (3,)),
    ("tile", lambda r: ops.Tile(r, placeholder(r, 2, None), [3, 2]), (6, None)),
    ("pad", lambda r: ops.Pad(r, placeholder(r, 2, None), [[1, 1], [0, 2]]), (4, None)),
    ("slice", lambda r: ops.Slice(r, placeholder(r, 5, 5), [1, 0], [2, -1]), (2, None)),
    ("squeeze", lambda r: ops.Squeeze(r, placeholder(r, 1, 2, 1), squeeze_dims=[0]), (2, 1)),
    ("squeeze all", lambda r: ops.Squeeze(r, placeholder(r, 1, 2, 1)), (2,)),
    ("expand dims", lambda r: ops.ExpandDims(r, placeholder(r, 2), -1), (2, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("build", "shape"), [pytest.param(b, s, id=name) for name, b, s in SHAPES])
def test_shapes_are_known_as_far_as_they_can_be(build: Callable[[Scope], Any], shape: Shape) -> None:
    root = Scope.new_root_scope()
    made = build(root)
    assert root.status() is None
    output = made if isinstance(made, Output) else made.output
    assert output.shape == shape


REFUSED = [
    (lambda r: ops.Conv2D(r, placeholder(r, 5, 5, 2), anything(r), ONE, "SAME"), "rank 4"),
    (lambda r: ops.Conv2D(r, placeholder(r, 1, 2, 2, 1), placeholder(r, 4, 4, 1, 1), ONE, "VALID"), "negative"),
    (lambda r: ops.Conv2D(r, placeholder(r, 1, 2, 2, 5), placeholder(r, 3, 3, 2, 1), ONE, "SAME"), "evenly divisible"),
    (lambda r: ops.Conv2D(r, anything(r), placeholder(r, 3, 3, 0, 1), ONE, "SAME"), "greater than zero"),
    (lambda r: ops.Conv2D(r, anything(r), anything(r), [1, 0, 1, 1], "SAME"), "larger than 0"),
    (lambda r: ops.Conv2D(r, anything(r), anything(r), ONE, "SAME", dilations=[1, 1]), "dilations must have 4"),
    (lambda r: ops.Conv2D(r, anything(r), anything(r), ONE, "EXPLICIT"), "8 values"),
    (lambda r: ops.Conv2DBackpropInput(r, [1, 2, 3], anything(r), anything(r), ONE, "SAME"), "4 values or 2"),
    (lambda r: ops.Conv2DBackpropInput(r, [1, -2, 3, 4], anything(r), anything(r), ONE, "SAME"), ">= -1"),
    (lambda r: ops.Conv2DBackpropInput(r, [[1, 2]], anything(r), anything(r), ONE, "SAME"), "rank 1"),
    (lambda r: ops.Conv2DBackpropInput(r, [2, 5, 5, 1], anything(r), placeholder(r, 3, 5, 5, 1), ONE, "SAME"), "batch"),
    (lambda r: ops.CropAndResize(r, anything(r), placeholder(r, 2, 5), anything(r, "int32"), [1, 1]), "columns"),
    (lambda r: ops.CropAndResize(r, anything(r), placeholder(r, 2, 4), placeholder(r, 3, dtype="int32"), [1, 1]),
     "numbers of boxes"),
    (lambda r: ops.CropAndResize(r, anything(r), anything(r), anything(r, "int32"), [1, 1, 1]), "crop_size"),
    (lambda r: ops.Add(r, placeholder(r, 2), placeholder(r, 3)), "are 2 and 3"),
    (lambda r: ops.AddN(r, [placeholder(r, 2), placeholder(r, 2, 3)]), "equal shapes"),
    (lambda r: ops.Reshape(r, placeholder(r, 5), [2, -1]), "Cannot reshape a tensor with 5 elements"),
    (lambda r: ops.Transpose(r, placeholder(r, 2, 3), [0, 0]), "every axis once"),
    (lambda r: ops.StridedSlice(r, placeholder(r, 2), [5], [6], [1], shrink_axis_mask=1), "out of bounds"),
    (lambda r: ops.StridedSlice(r, placeholder(r, 2), [0], [1], [0]), "non-zero"),
    (lambda r: ops.Concat(r, [placeholder(r, 2), placeholder(r, 2, 3)], 0), "equal ranks"),
    (lambda r: ops.Sum(r, placeholder(r, 2), [1]), "invalid reduction dimension"),
    (lambda r: ops.MatMul(r, placeholder(r, 2, 3), placeholder(r, 2, 3)), "inner sizes"),
    (lambda r: ops.BiasAdd(r, placeholder(r, 2, 3), placeholder(r, 4)), "channels"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "words"), REFUSED)
def test_shapes_that_cannot_be_are_refused_while_building(build: Callable[[Scope], Any], words: str) -> None:
    root = Scope.new_root_scope()
    assert build(root).node() is None
    assert words in str(root.status())


# --- every refused call of TensorFlow's: at the same moment ---


def _refused_calls() -> list[Any]:
    with (golden_cases.FOLDER / "cases.jsonl").open() as lines:
        cases = [json.loads(line) for line in lines]
    return [pytest.param(case, id=case["id"]) for case in cases if case["kind"] == "error"]


@pytest.mark.parametrize("case", _refused_calls())
def test_what_tensorflow_refuses_is_refused_at_the_same_moment(case: dict[str, Any]) -> None:
    root = Scope.new_root_scope()
    made_by = getattr(ops, case["op"])
    if case["error_graph"] == "TypeError" and case["error"] == "TypeError":
        with pytest.raises(TypeError):
            made_by(root, **golden_cases.arguments(case), **golden_cases.attributes(case))
        return
    if None in case["args"].values():
        with pytest.raises(TypeError):
            made_by(root, **golden_cases.arguments(case), **golden_cases.attributes(case))
        return
    made = made_by(root, **golden_cases.arguments(case), **golden_cases.attributes(case))
    # Python says TypeError or ValueError where C++ sets the status.
    assert root.ok() is (case["error_graph"] not in ("ValueError", "TypeError")), root.status()
    if not root.ok():
        assert isinstance(root.status(), errors.InvalidArgumentError)
        return
    if case["error"] == "ResourceExhaustedError" or case.get("cpu_limitation"):
        return  # a limit of memory or of TensorFlow's kernels
    with pytest.raises(getattr(errors, case["error"])):
        ClientSession(root).run([made])


# --- hostile graphs ---


def test_long_chains_of_constants_are_no_recursion() -> None:
    root = Scope.new_root_scope()
    size, sizes = ops.Const(root, [2]), ops.Shape(root, placeholder(root, None))
    for _ in range(3000):
        size, sizes = ops.Identity(root, size), ops.Identity(root, sizes)
    assert ops.Reshape(root, [1.0, 2.0], size).output.shape == (2,)
    assert ops.Reshape(root, anything(root), sizes).output.shape == (None,)


@pytest.mark.parametrize("build", [
    lambda r: ops.Range(r, 0, 2**31 - 1, 1),
    lambda r: ops.Fill(r, [2**31 - 1], 1),
    lambda r: ops.Tile(r, [1], [2**31 - 1]),
    lambda r: ops.DynamicStitch(r, [[2**31 - 2]], [[1]]),
    lambda r: ops.StridedSliceGrad(r, [2**31 - 1], [0], [1], [1], np.ones(1, np.int32)),
    lambda r: ops.Pad(r, [1], [[0, 2**31 - 2]]),
])  # fmt: skip
def test_nothing_large_is_computed_while_building(build: Callable[[Scope], Any]) -> None:
    import tracemalloc

    root = Scope.new_root_scope()
    tracemalloc.start()
    huge = build(root)
    ops.Reshape(root, anything(root), huge)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert root.ok()
    assert huge.output.shape == (2**31 - 1,)
    assert peak < 2**20


def test_sizes_that_come_from_one_place_many_times_are_looked_at_once() -> None:
    root = Scope.new_root_scope()
    vector, size = ops.Placeholder(root, "int32", shape=[0]), ops.Placeholder(root, "int32", shape=[])
    for _ in range(60):  # 2**60 ways from the last to the first
        vector = ops.ConcatV2(root, [vector, vector], 0)
        size = ops.StridedSlice(root, ops.Pack(root, [size, size]), [0], [1], [1], shrink_axis_mask=1)
    made = ops.Reshape(root, anything(root), ops.ConcatV2(root, [vector, ops.Pack(root, [size])], 0))
    assert made.output.shape == (None,)


def test_a_vector_that_grows_is_no_shape() -> None:
    root = Scope.new_root_scope()
    vector = ops.Placeholder(root, "int32", shape=[1])
    for _ in range(30):
        vector = ops.ConcatV2(root, [vector, vector], 0)
    assert ops.Reshape(root, anything(root), vector).output.shape is None


def test_partly_known_sizes_are_followed_through_a_long_chain() -> None:
    root = Scope.new_root_scope()
    shape = ops.Shape(root, ops.Placeholder(root, "float", shape=[None, 7, 5]))
    for _ in range(3000):
        shape = ops.Identity(root, shape)
    tail = ops.StridedSlice(root, shape, [1], [3], [1])
    batch = ops.StridedSlice(root, shape, [0], [1], [1], shrink_axis_mask=1)
    seven = ops.StridedSlice(root, shape, [1], [2], [1], shrink_axis_mask=1)
    sizes = ops.ConcatV2(root, [ops.Pack(root, [seven, batch]), tail], 0)
    assert ops.Reshape(root, anything(root), sizes).output.shape == (7, None, 7, 5)
