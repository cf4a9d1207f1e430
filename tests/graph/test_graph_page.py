"""The program of docs/graph.md runs, and its graph is the one that the C++ beside it makes."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradops
from gradops.cli import main
from gradops.graph import Scope, ops
from graph_golden import FOLDER

PAGE = Path(__file__).parents[2] / "docs" / "graph.md"


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    """What the first block, the program beside the C++, leaves behind."""
    variables: dict[str, Any] = {}
    exec(python_blocks()[0], variables)
    return variables


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_all_the_python_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FOLDER / "saved_model", tmp_path / "saved_model")
    monkeypatch.chdir(tmp_path)
    variables: dict[str, Any] = {}
    for block in python_blocks():
        exec(block, variables)
    assert ElementTree.parse(tmp_path / "model.svg").getroot().tag.endswith("svg")


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
    for name in re.findall(r"^from gradops\.graph import (.*)", PAGE.read_text(), re.MULTILINE):
        assert set(name.split(", ")) <= set(gradops.graph.__all__)
    for name in re.findall(r"ops\.([A-Z]\w+)", "".join(rows)):
        assert name == "X" or hasattr(ops, name), name


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FOLDER / "saved_model", tmp_path / "saved_model")
    for name in ("model.pb", "model.pbtxt"):
        shutil.copy((FOLDER / "frozen").with_suffix(Path(name).suffix), tmp_path / name)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in block.splitlines():
        program, *arguments = line.partition("#")[0].split()
        assert program == "gradops"
        assert main(arguments) == 0, line
    assert (tmp_path / "model.dot").exists()
