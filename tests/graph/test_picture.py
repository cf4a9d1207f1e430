"""Pictures of graphs: Graphviz source and SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

from gradops.errors import InvalidArgumentError
from gradops.graph import Scope, load_graph, ops, to_dot, to_svg
from graph_golden import FOLDER, GRAPHS

SVG = "{http://www.w3.org/2000/svg}"


def small_graph() -> Scope:
    root = Scope.new_root_scope()
    x = ops.Placeholder(root.with_op_name("x"), "float", shape=[None, 4])
    parts = ops.Unpack(root.with_op_name("parts"), x, 4, axis=1)
    first = ops.NoOp(root.with_op_name("first"))
    ops.Mul(root.with_control_dependencies(first).with_op_name("y"), parts.operation.output(1), np.float32(2))
    return root


def drawn(svg: str) -> Any:
    return ElementTree.fromstring(svg)


def texts(svg: str) -> list[str | None]:
    return [text.text for text in drawn(svg).iter(f"{SVG}text")]


def test_dot_says_names_operators_shapes_and_inputs() -> None:
    lines = to_dot(small_graph()).splitlines()
    assert '  "x" [label="x\\nPlaceholder\\nfloat[?,4]", fillcolor="#d7e8fa"];' in lines
    assert '  "x" -> "parts";' in lines
    assert '  "parts" -> "y" [taillabel="1"];' in lines
    assert '  "first" -> "y" [style=dashed];' in lines
    assert lines[-1] == "}"


def test_dot_escapes_what_graphviz_would_read() -> None:
    root = Scope.new_root_scope()
    ops.NoOp(root.with_op_name('quote " back \\N line \n'))
    assert '"quote \\" back \\\\N line \ufffd"' in to_dot(root)


def test_svg_is_wellformed_and_labels_everything() -> None:
    svg = to_svg(small_graph())
    assert {"x", "Placeholder", "float[?,4]", "parts", "Unpack", "y", "Mul", "first", "NoOp", "1"} <= set(texts(svg))
    assert len(re.findall('class="control"', svg)) == 2  # of y, and of the constant that it multiplies by
    assert "shape: [?, 4]" in "".join(title.text or "" for title in drawn(svg).iter(f"{SVG}title"))


@pytest.mark.parametrize("name", [name for name in GRAPHS if name.endswith(".pb")])
def test_boxes_do_not_overlap_and_lie_inside_the_picture(name: str) -> None:
    root = drawn(to_svg(load_graph(FOLDER / name)))
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = [
        tuple(float(group.find(f"{SVG}rect").get(key)) for key in ("x", "y", "width", "height"))
        for group in root.iter(f"{SVG}g")
    ]
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        for x2, y2, w2, h2 in boxes[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_what_is_needed_lies_above() -> None:
    root = drawn(to_svg(small_graph()))
    tops = {group.find(f"{SVG}text").text: float(group.find(f"{SVG}rect").get("y")) for group in root.iter(f"{SVG}g")}
    assert tops["x"] < tops["parts"] < tops["y"]
    assert tops["first"] < tops["y"]


def test_any_name_makes_wellformed_pictures() -> None:
    root = Scope.new_root_scope()
    for name in ("<&>", "\x00\x1f", "\ud800", "a" * 300, '"'):
        ops.NoOp(root.with_op_name(name))
    svg = to_svg(root)
    assert "<&>" in texts(svg)
    assert max(len(text or "") for text in texts(svg)) < 50
    to_dot(root).encode()


def test_two_nodes_of_one_name_are_no_endless_loop() -> None:
    root = Scope.new_root_scope()
    inner = ops.Const(root.new_sub_scope("a").with_op_name("b"), 1.0)
    ops.Neg(root.with_op_name("a/b"), inner)
    assert drawn(to_svg(root)) is not None


def test_an_empty_graph_is_an_empty_picture() -> None:
    assert texts(to_svg(Scope.new_root_scope())) == []
    assert to_dot(Scope.new_root_scope()).startswith("digraph")


def test_a_picture_that_nobody_could_read_is_refused() -> None:
    root = Scope.new_root_scope()
    for _ in range(501):
        ops.NoOp(root)
    with pytest.raises(InvalidArgumentError, match="at most 500 nodes, and the graph has 501"):
        to_svg(root)
    to_dot(root)


def test_edges_that_would_take_minutes_are_refused() -> None:
    root = Scope.new_root_scope()
    made: list[Any] = [ops.Placeholder(root, "float", shape=[])]
    for _ in range(400):
        made.append(ops.AddN(root, made))
    with pytest.raises(InvalidArgumentError, match="at most 50000 layers"):
        to_svg(root)


def test_an_error_in_the_scope_is_raised() -> None:
    root = Scope.new_root_scope()
    root.update_status(InvalidArgumentError("first"))
    for draw in (to_dot, to_svg):
        with pytest.raises(InvalidArgumentError, match="first"):
            draw(root)
        with pytest.raises(TypeError, match="Scope or a Graph"):
            draw("graph")  # type: ignore[arg-type]


def test_pictures_are_the_same_every_time() -> None:
    assert to_svg(small_graph()) == to_svg(small_graph())
    assert to_dot(small_graph()) == to_dot(small_graph())
