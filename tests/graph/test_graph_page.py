"""The program of docs/graph.md runs, and its graph is the one that the C++ beside it makes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradops
from gradops.graph import Scope, ops

PAGE = Path(__file__).parents[2] / "docs" / "graph.md"


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    variables: dict[str, Any] = {}
    exec(block, variables)
    return variables


def test_it_computes_what_the_eager_functions_do(program: dict[str, Any]) -> None:
    total, image = program["outputs"]
    filter, ones = np.full((3, 3, 3, 2), 0.5, np.float32), np.ones((2, 2, 2, 3), np.float32)
    dx = gradops.conv2d_backprop_input(
        [2, 8, 8, 3], filter, np.ones((2, 4, 4, 2), np.float32), [1, 2, 2, 1], "EXPLICIT",
        explicit_paddings=[0, 0, 0, 1, 0, 1, 0, 0],
    )  # fmt: skip
    boxes = [[0, 0, 1, 1], [0.5, 0, 1, 0.5]]
    expected = gradops.crop_and_resize_grad_image(ones, boxes, [0, 1], [2, 8, 8, 3], np.float32, "nearest")
    np.testing.assert_array_equal(image, expected)
    np.testing.assert_array_equal(total, dx + expected)


def test_its_graph_is_the_one_of_cpp(program: dict[str, Any]) -> None:
    """As TensorFlow 2.21.0 prints it for the C++ program."""
    nodes = [(n.name, n.op, " ".join(g.name.removesuffix(":0") for g in n.inputs)) for n in program["root"].graph]
    assert nodes == [
        ("tower/filter", "Const", ""),
        ("tower/dy", "Placeholder", ""),
        ("tower/Const/Const", "Const", ""),
        ("tower/dx", "Conv2DBackpropInput", "tower/Const/Const tower/filter tower/dy"),
        ("crops", "Placeholder", ""),
        ("Const/Const", "Const", ""),
        ("Const_1/Const", "Const", ""),
        ("Const_2/Const", "Const", ""),
        ("image", "CropAndResizeGradImage", "crops Const/Const Const_1/Const Const_2/Const"),
        ("sum", "Add", "tower/dx image"),
    ]


def test_every_python_name_of_the_table_exists() -> None:
    rows = [row.split("|")[2] for row in PAGE.read_text().splitlines() if row.startswith("| `")]
    names = re.findall(r"scope\.(\w+)\(", "".join(rows))
    assert len(names) > 15
    for name in names:
        assert hasattr(Scope, name), name
    for name in re.findall(r"ops\.([A-Z]\w+)", "".join(rows)):
        assert name == "X" or hasattr(ops, name), name
