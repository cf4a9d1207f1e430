"""Graphs written here run in TensorFlow with equal results, and come back.

Runs where TensorFlow is installed, alone in its process or after gradops: neither order matters.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graph_golden import FOLDER, GRAPHS, assert_results, feeds_and_results

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

from gradops.errors import InvalidArgumentError, NotFoundError  # noqa: E402
from gradops.graph import (  # noqa: E402
    ClientSession,
    DataType,
    Scope,
    add_symbolic_gradients,
    import_graph_def,
    load_graph,
    load_saved_model,
    ops,
    save_graph,
)

tf = pytest.importorskip("tensorflow")
RANDOM = np.random.default_rng(11)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def run_in_tensorflow(graph_def: Any, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        v1.import_graph_def(graph_def, name="")
        with v1.Session(graph=graph) as session:
            return list(session.run(fetches, feeds))


def as_tensorflows(data: bytes) -> Any:
    return tf.compat.v1.GraphDef.FromString(data)


def image_operators(root: Scope) -> dict[str, Any]:
    dy = ops.Placeholder(root.with_op_name("dy"), np.float32, shape=[2, 4, 4, 3])
    x = ops.Placeholder(root.with_op_name("x"), np.float32, shape=[2, 7, 8, 2])
    w, strides = normal(3, 3, 2, 3), [1, 2, 2, 1]
    explicit = ops.Conv2D.explicit_paddings([0, 0, 2, 1, 1, 0, 0, 0]).data_format("NHWC").dilations([1] * 4)
    ops.Conv2D(root.with_op_name("conv"), x, w, strides, "EXPLICIT", explicit.use_cudnn_on_gpu(False))
    dx = ops.Conv2DBackpropInput(root.with_op_name("dx"), [2, 7, 8, 2], w, dy, strides, "SAME")
    ops.Conv2DBackpropFilter(root.with_op_name("dw"), x, [3, 3, 2, 3], dy, strides, "SAME")
    boxes, box_ind = np.float32([[0.1, 0.2, 0.8, 0.9], [-0.2, 0, 1.2, 0.5]]), [1, 0]
    nearest = ops.CropAndResize.method("nearest").extrapolation_value(0.5)
    crops = ops.CropAndResize(root.with_op_name("crops"), dx, boxes, box_ind, [3, 4], nearest)
    ops.CropAndResize(root.with_op_name("smooth"), x, boxes, box_ind, [3, 4])
    ops.CropAndResizeGradImage(root.with_op_name("image"), crops, boxes, box_ind, [2, 7, 8, 2], np.float32)
    ops.CropAndResizeGradBoxes(root.with_op_name("boxes"), crops, x, boxes, box_ind)
    return {"dy:0": normal(2, 4, 4, 3), "x:0": normal(2, 7, 8, 2)}


def constants(root: Scope) -> dict[str, Any]:
    names = "half bfloat16 float double int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128"
    for name in names.split():
        dtype = DataType.of(name).numpy
        for kind, value in {"one": [1], "more": [[1, 0], [1, 1]], "none": np.zeros((0, 2))}.items():
            ops.Identity(root.with_op_name(f"{name}_{kind}"), ops.Const(root, np.array(value).astype(dtype)))
    ops.Identity(root.with_op_name("string"), ops.Const(root, ["a", "\xe4", ""]))
    return {}


def scopes_and_controls(root: Scope) -> dict[str, Any]:
    x = ops.Placeholder(root.with_op_name("x"), np.float32)
    tower = root.new_sub_scope("tower").with_device("/cpu:0")
    first = ops.NoOp(tower.with_op_name("first"))
    scope = tower.with_control_dependencies([first]).colocate_with(first)
    parts = ops.Unpack(scope.with_op_name("parts"), x, 2)
    ops.Sub(root.with_op_name("y"), parts.operation.output(1), parts.operation.output(0))
    ops.ConcatV2(root.with_op_name("z"), [x, x], 0)
    return {"x:0": normal(2, 3)}


def gradients(root: Scope) -> dict[str, Any]:
    x = ops.Placeholder(root.with_op_name("x"), np.float32, shape=[1, 6, 6, 2])
    w, b = ops.Const(root.with_op_name("w"), normal(3, 3, 2, 4)), ops.Const(root.with_op_name("b"), normal(4))
    y = ops.Relu(root, ops.BiasAdd(root, ops.Conv2D(root, x, w, [1, 2, 2, 1], "SAME"), b))
    total = ops.Sum(root, ops.Square(root, y), [0, 1, 2, 3])
    for name, gradient in zip("xwb", add_symbolic_gradients(root, [total], [x, w, b]), strict=True):
        ops.Identity(root.with_op_name(f"grad_{name}"), gradient)
    return {"x:0": normal(1, 6, 6, 2)}


BUILDERS: list[Callable[[Scope], dict[str, Any]]] = [image_operators, constants, scopes_and_controls, gradients]


@pytest.mark.parametrize("suffix", ["pb", "pbtxt"])
@pytest.mark.parametrize("build", BUILDERS)
def test_graphs_written_here_run_in_tensorflow(build: Any, suffix: str, tmp_path: Path) -> None:
    from google.protobuf import text_format

    root = Scope.new_root_scope()
    feeds = build(root)
    root.raise_error()
    path = tmp_path / f"graph.{suffix}"
    save_graph(root, path)
    if suffix == "pb":
        theirs = as_tensorflows(path.read_bytes())
    else:
        theirs = text_format.Parse(path.read_text(), tf.compat.v1.GraphDef())
    fed = {name.removesuffix(":0") for name in feeds}
    fetches = [f"{node.name}:0" for node in root.graph if node.dtypes and node.name not in fed]
    ours = dict(zip(fetches, ClientSession(root).run(feeds, fetches), strict=True))
    results = dict(zip(fetches, map(np.asarray, run_in_tensorflow(theirs, feeds, fetches)), strict=True))
    assert_results(ours, results)
    # and back, through TensorFlow's own message
    again = Scope.new_root_scope()
    import_graph_def(theirs, again)
    assert again.to_graph_def() == root.to_graph_def()


@pytest.mark.parametrize("build", BUILDERS)
def test_shapes_are_those_that_tensorflow_infers(build: Any) -> None:
    root = Scope.new_root_scope()
    build(root)
    with tf.compat.v1.Graph().as_default() as graph:
        tf.compat.v1.import_graph_def(as_tensorflows(root.to_graph_def().SerializeToString()), name="")
    for node in root.graph:
        for i, shape in enumerate(node.shapes):
            theirs = graph.get_tensor_by_name(f"{node.name}:{i}").shape
            assert shape == (None if theirs.rank is None else tuple(theirs.as_list())), node.name


@pytest.mark.parametrize("name", GRAPHS)
def test_tensorflows_files_written_again_run_in_tensorflow(name: str) -> None:
    feeds, expected = feeds_and_results(name)
    written = load_graph(FOLDER / name).to_graph_def().SerializeToString(deterministic=True)
    results = run_in_tensorflow(as_tensorflows(written), feeds, list(expected))
    for result, (key, value) in zip(results, expected.items(), strict=True):
        exact = np.asarray(result)
        np.testing.assert_array_equal(exact.astype(value.dtype), value, key)  # TensorFlow's very bits


def test_a_flattened_saved_model_runs_in_tensorflow() -> None:
    feeds, expected = feeds_and_results("saved_model")
    written = load_saved_model(FOLDER / "saved_model", "serving_default").to_graph_def().SerializeToString()
    fed = {f"serving_default_{name}:0": value for name, value in feeds.items()}
    results = run_in_tensorflow(as_tensorflows(written), fed, [f"{name}:0" for name in expected])
    for result, value in zip(results, expected.values(), strict=True):
        np.testing.assert_array_equal(result, value)


def test_a_graph_without_its_calls_runs_in_tensorflow() -> None:
    feeds, expected = feeds_and_results("calls")
    written = load_graph(FOLDER / "calls.pb", inline_functions=True).to_graph_def().SerializeToString()
    results = run_in_tensorflow(as_tensorflows(written), feeds, list(expected))
    for result, value in zip(results, expected.values(), strict=True):
        np.testing.assert_array_equal(result, value)


def test_a_written_graph_is_a_function_of_tensorflow_2() -> None:
    root = Scope.new_root_scope()
    feeds = image_operators(root)
    graph_def = as_tensorflows(root.to_graph_def().SerializeToString())
    wrapped = tf.compat.v1.wrap_function(lambda: tf.compat.v1.import_graph_def(graph_def, name=""), [])
    pruned = wrapped.prune(["dy:0"], ["dx:0"])
    assert_results(
        {"dx": ClientSession(root).run(feeds, ["dx"])[0]}, {"dx": pruned(tf.constant(feeds["dy:0"]))[0].numpy()}
    )


# What both must refuse. TensorFlow's Python import turns its status into a ValueError.
PLACEHOLDER = 'node {name: "x" op: "Placeholder" attr {key: "dtype" value {type: DT_FLOAT}}}'
REFUSED = [
    'node {name: "bad name!" op: "NoOp"}',
    'node {name: "_lead" op: "NoOp"}',
    'node {name: "n" op: "NoOp"} node {name: "n" op: "NoOp"}',
    'node {name: "n" op: "NoOp" input: "^n"}',
    'node {name: "n" op: "NoOp" input: "^m"}',
    'node {name: "n" op: "Nothing"}',
    'node {name: "y" op: "Identity" input: "x" attr {key: "T" value {type: DT_FLOAT}}}',
    PLACEHOLDER + 'node {name: "y" op: "Identity" input: "x:1" attr {key: "T" value {type: DT_FLOAT}}}',
    PLACEHOLDER + 'node {name: "y" op: "Identity" input: "x" attr {key: "T" value {type: DT_INT32}}}',
    PLACEHOLDER + 'node {name: "y" op: "Identity" input: ["x", "x"] attr {key: "T" value {type: DT_FLOAT}}}',
    PLACEHOLDER + 'node {name: "y" op: "Identity" attr {key: "T" value {type: DT_FLOAT}}}',
    PLACEHOLDER + 'node {name: "y" op: "Identity" input: "x"}',
    PLACEHOLDER + 'node {name: "y" op: "Identity" input: "x" attr {key: "T" value {i: 1}}}',
    PLACEHOLDER.replace("DT_FLOAT", "DT_INVALID"),
    PLACEHOLDER.replace("attr", 'attr {key: "shape" value {shape {dim {size: -2}}}} attr', 1),
    "versions {min_consumer: 99999}",
    "versions {producer: -1}",
    "versions {bad_consumers: 2474}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_here_is_refused_by_tensorflow(text: str) -> None:
    from google.protobuf import text_format

    message = text_format.Parse(text, tf.compat.v1.GraphDef())
    with tf.compat.v1.Graph().as_default(), pytest.raises((ValueError, tf.errors.OpError)):
        tf.compat.v1.import_graph_def(message, name="")
    with pytest.raises((InvalidArgumentError, NotFoundError)):
        import_graph_def(message, Scope.new_root_scope())
