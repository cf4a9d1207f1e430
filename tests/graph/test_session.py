"""Running: feeds, fetches, targets, what is refused, what is computed, and who owns the results."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import gradops
from gradops import errors
from gradops.graph import ClientSession, Operation, Output, Scope, ops
from isolated import run


@pytest.fixture
def root() -> Scope:
    return Scope.new_root_scope()


def x_and_y(root: Scope) -> tuple[Any, Any]:
    x = ops.Placeholder(root.with_op_name("x"), np.float32)
    return x, ops.Mul(root.with_op_name("y"), x, 2.0)


def test_what_the_design_shows(root: Scope) -> None:
    dy = np.ones((1, 4, 4, 2), np.float32)
    w = np.arange(54, dtype=np.float32).reshape(3, 3, 3, 2)
    x = ops.Placeholder(root.with_op_name("dy"), np.float32)
    g = ops.Conv2DBackpropInput(
        root.with_op_name("dx"), [1, 8, 8, 3], w, x, [1, 2, 2, 1], "SAME",
        ops.Conv2DBackpropInput.data_format("NHWC").dilations([1, 1, 1, 1]),
    )  # fmt: skip
    [dx] = ClientSession(root).run({x: dy}, [g])
    np.testing.assert_array_equal(dx, gradops.conv2d_backprop_input([1, 8, 8, 3], w, dy, [1, 2, 2, 1], "SAME"))


def test_fetches_by_output_instance_operation_and_name(root: Scope) -> None:
    x, y = x_and_y(root)
    results = ClientSession(root).run({x: [1.0]}, [y, y.output, "y", "y:0", y.operation])
    assert [None if r is None else r.tolist() for r in results] == [[2], [2], [2], [2], None]


@pytest.mark.parametrize("key", ["instance", "output", "operation", "name", "name:0"])
def test_feeds_by_anything_that_means_the_tensor(root: Scope, key: str) -> None:
    x, y = x_and_y(root)
    keys = {"instance": x, "output": x.output, "operation": x.operation, "name": "x", "name:0": "x:0"}
    assert ClientSession(root).run({keys[key]: np.float32(4)}, [y])[0] == 8


def test_feeds_may_be_left_away_as_in_cpp(root: Scope) -> None:
    c = ops.Const(root, 3)
    assert ClientSession(root).run([c]) == [3]
    assert ClientSession(root).run(None, [c]) == [3]


def test_any_tensor_can_be_fed_and_what_only_it_needed_does_not_run(root: Scope) -> None:
    _, y = x_and_y(root)
    z = ops.Neg(root, y)
    assert ClientSession(root).run({y: np.float32(5)}, [z])[0] == -5  # x stays unfed
    two_outputs = ops.BroadcastGradientArgs(root, [2, 3], [3])
    fed = ClientSession(root).run({two_outputs.r0: [7]}, [ops.Neg(root, two_outputs.r0), two_outputs.r1])
    assert [f.tolist() for f in fed] == [[-7], [0]]


def test_only_what_is_needed_runs(root: Scope) -> None:
    x, y = x_and_y(root)
    ops.Neg(root, ops.Placeholder(root, "float"))
    assert ClientSession(root).run({x: [1.0]}, [y])[0] == 2


def test_nodes_that_are_added_later_are_seen(root: Scope) -> None:
    x, y = x_and_y(root)
    session = ClientSession(root)
    session.run({x: [1.0]}, [y])
    assert session.run({x: [1.0]}, [ops.Neg(root, y)])[0] == -2


def test_control_dependencies_run_first_and_targets_run(root: Scope) -> None:
    x, y = x_and_y(root)
    bad = ops.Reshape(root.with_op_name("bad"), x, ops.Placeholder(root.with_op_name("shape"), "int32"))
    after = ops.NoOp(root.with_control_dependencies(bad).with_op_name("after"))
    session = ClientSession(root)
    assert session.run({x: [1.0, 2.0], "shape": [2]}, [y], [after])[0].tolist() == [2, 4]
    assert session.run({x: [1.0, 2.0], "shape": [2]}, [], ["after"]) == []
    with pytest.raises(INVALID, match=r"(?s)Cannot reshape .*\[\[node bad \(Reshape\)\]\]") as raised:
        session.run({x: [1.0, 2.0], "shape": [3]}, [], [after.operation])
    assert isinstance(raised.value.__cause__, errors.InvalidArgumentError)


def test_a_fed_placeholder_satisfies_control_dependencies(root: Scope) -> None:
    x, _ = x_and_y(root)
    c = ops.Const(root.with_control_dependencies(x), 1)
    assert ClientSession(root).run({x: [1.0]}, [ops.Neg(root.with_control_dependencies(x), c)]) == [-1]


# --- refusals ---


ONE = np.float32(1)
INVALID, RANGE = errors.InvalidArgumentError, errors.OutOfRangeError
NOT_FOUND = "was not found in the Graph"
#: Of a graph with a placeholder x and y = 2 x: feeds, fetches, targets, and what is said.
REFUSALS: list[tuple[str, Any, Any, Any, type[Exception], str]] = [
    ("unfed placeholder", {}, ["y"], [], INVALID, r"(?s)You must feed a value for placeholder tensor.*\[\[node x"),
    ("unknown feed", {"nope": 1.0}, ["y"], [], INVALID, f"nope, to feed, {NOT_FOUND}"),
    ("unknown fetch", {"x": ONE}, ["nope:0"], [], INVALID, NOT_FOUND),
    ("no number", {"x": ONE}, ["y:z"], [], INVALID, NOT_FOUND),
    ("unknown target", {"x": ONE}, [], ["nope"], INVALID, f"to run, {NOT_FOUND}"),
    ("fetch index", {"x": ONE}, ["y:1"], [], RANGE, "does not have output 1"),
    ("feed index", {"x:1": ONE}, ["y"], [], RANGE, "does not have output 1"),
    ("fed twice", {"x": ONE, "x:0": ONE}, ["y"], [], INVALID, "x:0 is fed more than once"),
    ("fed and fetched", {"x": ONE}, ["x"], [], INVALID, "x:0 is both fed and fetched"),
    ("dtype", {"x": np.float64(1)}, ["y"], [], INVALID, r"Expects arg\[0\] .*to be float but double is provided"),
    ("text for numbers", {"x": "text"}, ["y"], [], INVALID, "to be float but string is provided"),
    ("ragged feed", {"x": [[1], [1, 2]]}, ["y"], [], INVALID, "same shape"),
    ("nothing", {"x": ONE}, [], [], INVALID, "Must specify at least one target"),
    ("another graph", {"x": ONE}, [ops.Const(Scope.new_root_scope(), 1)], [], INVALID, NOT_FOUND),
    ("output of nothing", {"x": ONE}, [Output()], [], INVALID, NOT_FOUND),
    ("operation of nothing", {"x": ONE}, [], [Operation()], INVALID, NOT_FOUND),
    ("bare fetch", {"x": ONE}, 5, [], TypeError, "give a list"),
    ("bare name", {"x": ONE}, "y", [], TypeError, "give a list"),
    ("no tensor", {"x": ONE}, [1.5], [], TypeError, "cannot fetch"),
    ("list among fetches", {"x": ONE}, [["y"]], [], TypeError, "cannot fetch"),
    ("list among targets", {"x": ONE}, [], [["y"]], TypeError, "cannot run"),
    ("absurd number", {"x": ONE}, ["y:" + "9" * 5000], [], INVALID, NOT_FOUND),
    ("a tensor as value", {"x": Scope.new_root_scope()}, ["y"], [], TypeError, "is a Scope"),
    ("no operation", {"x": ONE}, [], [1.5], TypeError, "cannot run"),
    ("no tensor to feed", {1.5: ONE}, ["y"], [], TypeError, "cannot feed"),
    ("no value", {"x": None}, ["y"], [], TypeError, "NoneType"),
]


@pytest.mark.parametrize(
    ("feeds", "fetches", "targets", "error", "words"), [pytest.param(*rest, id=name) for name, *rest in REFUSALS]
)
def test_refusals(root: Scope, feeds: Any, fetches: Any, targets: Any, error: type[Exception], words: str) -> None:
    x_and_y(root)
    with pytest.raises(error, match=words):
        ClientSession(root).run(feeds, fetches, targets)


def test_a_declared_shape_is_not_compared_with_the_feed_as_in_cpp(root: Scope) -> None:
    w = ops.Placeholder(root, np.float32, shape=(1, 3, 3, 1))
    y = ops.Conv2D(root, w, np.ones((1, 1, 1, 1), np.float32), [1, 1, 1, 1], "SAME")
    assert ClientSession(root).run({w: np.ones((2, 2, 1, 1), np.float32)}, [y])[0].shape == (2, 2, 1, 1)


def test_the_status_of_the_scope_is_raised_by_run(root: Scope) -> None:
    c = ops.Const(root, 1)
    ops.Neg(root, "text")
    with pytest.raises(errors.InvalidArgumentError, match="attr 'T'"):
        ClientSession(root).run([c])


def test_a_session_takes_a_scope() -> None:
    with pytest.raises(TypeError, match="Scope"):
        ClientSession("root")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["bad name!", "_lead", "/x", "back\\slash", "line\n"])
def test_names_that_tensorflow_refuses_are_refused_by_the_session(root: Scope, name: str) -> None:
    c = ops.Const(root.with_op_name(name), 1)
    with pytest.raises(errors.InvalidArgumentError, match="not allowed"):
        ClientSession(root).run([c])


@pytest.mark.parametrize("name", [".x", "9x", "a//b", "A>B", "a.b-c_d"])
def test_names_that_tensorflow_accepts(root: Scope, name: str) -> None:
    assert ClientSession(root).run([ops.Const(root.with_op_name(name), 1)]) == [1]


def test_names_that_meet_through_scopes_are_not_unique(root: Scope) -> None:
    ops.NoOp(root.with_op_name("a/b"))
    c = ops.Const(root.new_sub_scope("a").with_op_name("b"), 1)
    assert root.ok()
    with pytest.raises(errors.InvalidArgumentError, match="'a/b' is not unique"):
        ClientSession(root).run([c])


@pytest.mark.parametrize(("device", "is_known"), [
    ("", True), ("/", True), ("/cpu:0", True), ("/job:a/replica:*/task:*", True),
    ("/job:worker/replica:0/task:1/device:GPU:0", True), ("/device:CPU:*", True),
    ("/job:_a", False), ("cpu", False), ("/cpu", False), ("/job:", False), ("nonsense", False),
])  # fmt: skip
def test_device_texts_must_be_devices(root: Scope, device: str, is_known: bool) -> None:
    c = ops.Const(root.with_device(device), 1)
    if is_known:
        assert ClientSession(root).run([c]) == [1]
    else:
        with pytest.raises(errors.InvalidArgumentError, match="Malformed device"):
            ClientSession(root).run([c])


def test_errors_of_kernels_keep_their_class_and_name_the_node(root: Scope) -> None:
    image = np.ones((1, 2, 2, 1), np.float32)
    crop = ops.CropAndResize(root.with_op_name("crop"), image, [[0, 0, 1, 1]], [3], [2, 2])
    strided = ops.Conv2D(root.with_op_name("conv"), image, np.ones((1, 1, 1, 1), np.float32), [2, 1, 1, 1], "SAME")
    one, size = np.ones((1, 1, 1, 1), np.float32), [2**30, 2**15, 2**12, 1]
    huge = ops.CropAndResizeGradImage(root.with_op_name("huge"), one, [[0, 0, 1, 1]], [0], size, "double")
    session = ClientSession(root)
    for fetch, error, node in (
        (crop, errors.OutOfRangeError, "crop (CropAndResize)"),
        (strided, errors.UnimplementedError, "conv (Conv2D)"),
        (huge, errors.ResourceExhaustedError, "huge (CropAndResizeGradImage)"),
    ):
        with pytest.raises(error) as raised:
            session.run([fetch])
        assert f"[[node {node}]]" in str(raised.value)


# --- results ---


def test_results_are_the_callers_own(root: Scope) -> None:
    x = ops.Placeholder(root, np.float32)
    c = ops.Const(root, [1.0, 2.0])
    same, shaped, row = ops.Identity(root, x), ops.Reshape(root, c, [2, 1]), ops.Unpack(root, x, 2)[0]
    fed = np.ones((2, 2), np.float32)
    session = ClientSession(root)
    fetches = [same, same, shaped, c, row, ops.Transpose(root, x, [1, 0])]
    for result in session.run({x: fed}, fetches):
        result[...] = 7
    assert fed.tolist() == [[1, 1], [1, 1]]
    assert [r.tolist() for r in session.run({x: fed}, [shaped, c])] == [[[1], [2]], [1, 2]]


def test_results_are_arrays_of_the_nodes_type_scalars_too(root: Scope) -> None:
    for dtype in ("half", "bfloat16", "int8", "int64", "complex64"):
        x = ops.Placeholder(root, dtype)
        [result] = ClientSession(root).run({x: 3}, [ops.Add(root, x, x)])
        assert type(result) is np.ndarray
        assert result.shape == ()
        assert result.dtype == x.output.type.numpy
        assert result == 6


def test_integers_wrap_and_floats_overflow_without_a_warning(root: Scope) -> None:
    x = ops.Placeholder(root, "int32")
    y = ops.Placeholder(root, "float")
    results = ClientSession(root).run({x: 2**31 - 1, y: 3e38}, [ops.Add(root, x, x), ops.Add(root, y, y)])
    assert results == [-2, np.inf]


def test_what_nothing_needs_any_more_is_freed(root: Scope) -> None:
    """A thousand arrays of a megabyte would be seen; a few at a time are not."""
    import tracemalloc

    x = ops.Placeholder(root, "float")
    y = x
    for _ in range(200):
        y = ops.Neg(root, y)
    session, fed = ClientSession(root), np.ones(250_000, np.float32)
    session.run({x: fed}, [y])
    tracemalloc.start()
    session.run({x: fed}, [y])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * fed.nbytes


def test_a_chain_of_thousands_of_nodes_is_no_recursion(root: Scope) -> None:
    x = ops.Placeholder(root, "float")
    y = x
    for _ in range(5001):
        y = ops.Neg(root, y)
    assert ClientSession(root).run({x: 1.0}, [y]) == [-1]


def test_the_first_runs_may_come_from_many_threads(root: Scope) -> None:
    x = y = ops.Placeholder(root, "float")
    for _ in range(2001):
        y = ops.Neg(root, y)
    for _ in range(5):
        session, start, results = ClientSession(root), threading.Barrier(8), []

        def work(session: Any = session, start: Any = start, results: Any = results) -> None:
            start.wait()
            results += session.run({x: 1.0}, [y])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [-1] * 8


def test_a_session_goes_on_after_a_fork() -> None:
    code = """
import os, numpy as np
from gradops.graph import ClientSession, Scope, ops
root = Scope.new_root_scope()
x = ops.Placeholder(root, "float")
y = ops.Conv2D(root, x, np.ones((3, 3, 4, 4), np.float32), [1, 1, 1, 1], "SAME")
session, fed = ClientSession(root), np.ones((4, 60, 60, 4), np.float32)
[wanted] = session.run({x: fed}, [y])
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(session.run({x: fed}, [y])[0], wanted) else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run(code, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"}) == "0"


def test_runs_from_many_threads_do_not_meet(root: Scope) -> None:
    x, y = x_and_y(root)
    z = ops.Sum(root, ops.Mul(root, y, y), [0])
    session = ClientSession(root)
    wrong: list[int] = []

    def work(value: int) -> None:
        for _ in range(50):
            if session.run({x: np.full(10, value, np.float32)}, [z])[0] != 40 * value * value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
