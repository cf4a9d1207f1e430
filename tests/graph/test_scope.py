"""Scopes: names, what derived scopes write on their nodes, and the status."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradops.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from gradops.graph import DataType, Operation, Output, Scope, ops


def names(scope: Scope) -> list[str]:
    return [node.name for node in scope.graph]


def add(scope: Scope, name: str = "") -> str:
    return ops.NoOp(scope.with_op_name(name)).operation.name


# --- names; every sequence is one that TensorFlow 2.21 gives ---

NAME_SEQUENCES = [
    (
        "add add add foo foo foo_1 foo_2 foo foo_2 foo_1 foo_1",
        "add add_1 add_2 foo foo_1 foo_1_1 foo_2 foo_3 foo_2_1 foo_1_2 foo_1_3",
    ),
    ("x x_1 x x", "x x_1 x_2 x_3"),
    ("a/b a/b a b", "a/b a/b_1 a b"),
]


@pytest.mark.parametrize(("asked", "given"), NAME_SEQUENCES)
def test_names_that_are_taken_get_the_next_free_number(asked: str, given: str) -> None:
    root = Scope.new_root_scope()
    assert [add(root, name) for name in asked.split()] == given.split()


def test_an_operation_without_a_name_is_called_after_its_class_in_cpp() -> None:
    root = Scope.new_root_scope()
    x = ops.Placeholder(root, "float")
    for made in (ops.Mul(root, x, x), ops.Sub(root.with_op_name(""), x, x), ops.Neg(root, x), ops.Relu(root, x)):
        assert made.node() is not None
    assert names(root) == ["Placeholder", "Multiply", "Subtract", "Negate", "Relu"]


def test_child_scopes_and_operations_share_one_table_of_names() -> None:
    root = Scope.new_root_scope()
    assert add(root.new_sub_scope("child"), "x") == "child/x"
    assert add(root.new_sub_scope("child"), "x") == "child_1/x"
    assert add(root, "child") == "child_2"


def test_two_operations_and_a_scope_of_one_name() -> None:
    root = Scope.new_root_scope()
    named = root.with_op_name("d")
    assert [ops.NoOp(named).operation.name, ops.NoOp(named).operation.name] == ["d", "d_1"]
    assert add(root.new_sub_scope("d"), "x") == "d_2/x"


def test_the_sub_scope_without_a_name_is_the_same_level() -> None:
    root = Scope.new_root_scope()
    assert [add(root, "x"), add(root.new_sub_scope(""), "x")] == ["x", "x_1"]


def test_a_sub_scope_drops_a_pending_name() -> None:
    root = Scope.new_root_scope()
    assert ops.NoOp(root.with_op_name("d").new_sub_scope("s")).operation.name == "s/NoOp"


def test_with_op_name_joins_its_fragments_as_text() -> None:
    root = Scope.new_root_scope()
    assert ops.NoOp(root.with_op_name("layer", 3, "/", "out")).operation.name == "layer3/out"


def test_an_empty_default_name_is_kept_empty_once() -> None:
    root = Scope.new_root_scope()
    assert [root.unique_name_for_op(""), root.unique_name_for_op("")] == ["", "_1"]


def test_plain_values_become_constants_named_after_a_scope_of_their_own() -> None:
    root = Scope.new_root_scope()
    ops.Neg(root, 1.0)
    ops.Const(root, 2.0)
    ops.Neg(root.with_op_name("named"), 3.0)
    assert names(root) == ["Const/Const", "Negate", "Const_1", "Const_2/Const", "named"]


def test_plain_values_below_a_scope() -> None:
    root = Scope.new_root_scope()
    ops.Neg(root.new_sub_scope("a").with_op_name("b"), 1.0)
    assert names(root) == ["a/Const/Const", "a/b"]


def test_a_reserved_name_is_taken_with_its_first_part() -> None:
    root = Scope.new_root_scope()
    tower = root.new_sub_scope("tower")
    assert tower.reserve("a/b") == tower.reserve("a/b") == "tower/a/b"
    assert [add(tower, "a/b"), add(tower.new_sub_scope("a"), "b"), add(root, "a/b")] == [
        "tower/a/b_1",
        "tower/a_1/b",
        "a/b",
    ]


def test_all_or_nothing_takes_nodes_and_names_back() -> None:
    root = Scope.new_root_scope()
    kept = ops.Const(root.with_op_name("kept"), 1)

    def fail_halfway() -> None:
        with root.all_or_nothing():
            add(root, "x")
            ops.Neg(root.new_sub_scope("s"), kept)
            raise KeyError

    with pytest.raises(KeyError):
        fail_halfway()
    assert names(root) == ["kept"]
    assert root.graph.find("x") is None
    assert [add(root, "x"), add(root.new_sub_scope("s"), "y")] == ["x", "s/y"]
    with root.all_or_nothing():
        assert add(root, "x") == "x_1"


def test_a_constant_of_another_type_is_cast_as_in_cpp() -> None:
    root = Scope.new_root_scope()
    ops.Const(root, [1, 2, 3], np.float32)
    ops.Const(root.with_op_name("k"), [1, 2, 3], np.float32)
    assert [(n.name, n.op) for n in root.graph] == [
        ("Const", "Const"),
        ("Cast", "Cast"),
        ("k", "Const"),
        ("k_1", "Cast"),
    ]


def test_composite_operations_name_their_last_node_after_the_whole() -> None:
    root = Scope.new_root_scope()
    child, last = root.get_composite_op_scopes("comp")
    a = ops.Const(child.with_op_name("q"), 1.0)
    ops.Neg(last, a)
    assert names(root) == ["comp/q", "comp"]
    ops.Neg(last, a)
    assert isinstance(root.status(), InvalidArgumentError)
    assert "Cannot get a unique name" in str(root.status())


def test_composite_scopes_take_the_pending_name_first_and_need_one() -> None:
    root = Scope.new_root_scope()
    child, last = root.with_op_name("mine").get_composite_op_scopes("default")
    assert [add(child, "x"), ops.NoOp(last).operation.name] == ["mine/x", "mine"]
    root.get_composite_op_scopes("")
    assert "empty name" in str(root.status())


# --- what derived scopes write ---


def test_every_derived_scope_leaves_its_mark() -> None:
    root = Scope.new_root_scope()
    a = ops.Const(root.with_op_name("a"), 1)
    marked = root.with_device("/cpu:0").with_control_dependencies([a.operation])
    y = ops.Neg(marked.with_op_name("n"), 2.0)
    constant, node = root.graph.nodes[1:3]
    assert [(n.name, n.device, [c.name for c in n.control_inputs]) for n in (constant, node)] == [
        ("Const/Const", "/cpu:0", ["a"]),
        ("n", "/cpu:0", ["a"]),
    ]
    ops.Neg(marked.with_no_control_dependencies().with_kernel_label("lab").colocate_with(y), 3.0)
    for node in root.graph.nodes[3:]:
        assert node.control_inputs == ()
        assert (node.attrs["_class"], node.attrs["_kernel"]) == (("loc:@n",), "lab")


def test_control_dependencies_add_up_and_count_once() -> None:
    root = Scope.new_root_scope()
    a, b = ops.NoOp(root.with_op_name("a")), ops.NoOp(root.with_op_name("b"))
    scope = root.with_control_dependencies(a).with_control_dependencies([b.operation, a.operation])
    c = ops.NoOp(scope)
    assert [n.name for n in c.node().control_inputs] == ["a", "b"]
    assert c.operation.num_inputs == 0


def test_colocation_follows_the_node_that_is_pointed_at_and_can_be_cleared() -> None:
    root = Scope.new_root_scope()
    a = ops.NoOp(root.with_op_name("a"))
    b = ops.NoOp(root.with_op_name("b").colocate_with(a))
    scope = root.colocate_with(b).colocate_with(ops.NoOp(root.with_op_name("0")))
    assert ops.NoOp(scope).node().attrs["_class"] == ("loc:@0", "loc:@a")
    assert ops.NoOp(scope.clear_colocation()).node().attrs == {}


def test_xla_cluster_is_an_attribute_and_the_assigned_device_is_not() -> None:
    node = ops.NoOp(Scope.new_root_scope().with_assigned_device("/job:a/cpu:0").with_xla_cluster("cl")).node()
    assert (node.attrs, node.assigned_device, node.device) == ({"_XlaCluster": "cl"}, "/job:a/cpu:0", "")


# --- status ---


def test_the_first_error_is_kept_in_all_scopes() -> None:
    root = Scope.new_root_scope()
    child = root.new_sub_scope("child")
    assert root.ok()
    assert root.status() is None
    first = NotFoundError("first")
    child.update_status(None)
    child.update_status(first)
    root.update_status(AlreadyExistsError("second"))
    root.update_status(None)
    assert not root.ok()
    assert root.status() is first


def test_an_error_that_is_raised_again_and_again_does_not_grow() -> None:
    root = Scope.new_root_scope()
    root.update_status(NotFoundError("first"))
    lengths = []
    for _ in range(3):
        with pytest.raises(NotFoundError) as raised:
            root.raise_error()
        lengths.append(len(raised.traceback))
    assert lengths[0] == lengths[2]


def test_after_an_error_operations_add_nothing_and_are_of_no_node() -> None:
    root = Scope.new_root_scope()
    x = ops.Placeholder(root, "float")
    bad = ops.Neg(root, "text")
    later = ops.Neg(root, x)
    assert "T" in str(root.status())
    assert len(root.graph) == 2  # the placeholder, and the constant that came before the error
    for made in (bad, later):
        assert made.node() is None
        assert made.output.node() is None
        assert made.operation == Operation()
        assert made.output == Output()
    assert ops.Const(root, 1.0).node() is None


def test_exit_on_error_raises_at_once() -> None:
    root = Scope.new_root_scope()
    with pytest.raises(InvalidArgumentError, match="list of allowed values"):
        ops.Neg(root.exit_on_error(), "text")
    assert not root.ok()


def test_only_errors_of_this_library_are_a_status() -> None:
    for wrong in ("text", ValueError("x"), 5):
        with pytest.raises(TypeError, match="status"):
            Scope.new_root_scope().update_status(wrong)  # type: ignore[arg-type]


def test_what_is_written_on_nodes_must_be_text() -> None:
    root: Any = Scope.new_root_scope()
    for derive in (
        root.new_sub_scope,
        root.with_device,
        root.with_assigned_device,
        root.with_xla_cluster,
        root.with_kernel_label,
    ):
        for wrong in (None, 5, b"x"):
            with pytest.raises(TypeError, match="expected text"):
                derive(wrong)


def test_a_control_dependency_on_another_graph_is_refused() -> None:
    root = Scope.new_root_scope()
    ops.NoOp(root.with_control_dependencies(ops.NoOp(Scope.new_root_scope())))
    assert "is to run after 'NoOp', of another graph" in str(root.status())


def test_characters_are_left_to_the_session() -> None:
    root = Scope.new_root_scope()
    assert add(root, "bad name!") == "bad name!"
    assert root.ok()


def test_scopes_are_values() -> None:
    root = Scope.new_root_scope()
    named = root.with_op_name("x")
    assert add(root) == "NoOp"
    assert ops.NoOp(named).operation.name == "x"
    assert len({root, named, named.with_op_name("x")}) == 2


def test_element_types_have_tensorflows_numbers() -> None:
    numbers = "FLOAT 1, DOUBLE 2, INT32 3, UINT8 4, INT16 5, INT8 6, STRING 7, COMPLEX64 8, INT64 9, BOOL 10"
    more = "BFLOAT16 14, UINT16 17, HALF 19, UINT32 22, UINT64 23, FLOAT_REF 101"
    for entry in f"{numbers}, {more}".split(", "):
        name, number = entry.split()
        assert DataType[name] == int(number)
    assert [DataType.of(t) for t in ("half", "DT_INT32", np.float64, 10, "bfloat16")] == [19, 3, 2, 10, 14]
    assert DataType.FLOAT_REF.base is DataType.FLOAT
    for wrong in (7.5, None, "no such type", 99, np.dtype("M8[s]")):
        with pytest.raises(TypeError):
            DataType.of(wrong)
    with pytest.raises(InvalidArgumentError, match="resource"):
        _ = DataType.RESOURCE.numpy
