"""``gradops graph show``: tables, JSON and pictures of graph files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gradops.cli import main
from graph_golden import FOLDER
from isolated import run


def show(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["graph", "show", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_table_has_names_operators_inputs_shapes_and_types(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = show(capsys, FOLDER / "frozen.pb")
    assert status == 0
    (line,) = (line for line in out.splitlines() if line.split()[1:2] == ["CropAndResize"])
    assert "float[3,3,3,4]" in line
    assert "32 nodes of " in out
    assert "producer 2474" in out
    assert "gradients/Conv2D_grad/Conv2DBackpropInput" in out  # not cut where it goes to a file


def test_json_needs_no_rich(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    status, out, _ = show(capsys, FOLDER / "control_inputs_and_devices.pb", "--json")
    assert status == 0
    nodes = {node["name"]: node for node in json.loads(out)["nodes"]}
    assert nodes["sum"]["inputs"] == ["parts:1", "parts"]
    assert nodes["both"]["outputs"] == [{"dtype": "float", "shape": [None, 2]}]
    assert nodes["scope/second/y"]["inputs"] == ["^first", "^nothing"]
    assert nodes["first"]["device"] == "/device:CPU:0"


def test_unknown_operators_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = show(capsys, FOLDER / "unknown_operator.pb")
    assert status == 0
    assert "Sin (unknown)" in out
    assert "float<unknown>" in out


def test_saved_models_and_texts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "identity_2" in show(capsys, FOLDER / "saved_model", "--function", "both")[1]
    assert "float[3,3,2,3]" in show(capsys, FOLDER / "saved_model")[1]
    assert "bfloat16[2,3]" in show(capsys, FOLDER / "constants.pbtxt")[1]


def test_pictures_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dot, svg = tmp_path / "graph.dot", tmp_path / "graph.svg"
    assert show(capsys, FOLDER / "unknown_operator.pb", "--dot", dot, "--svg", svg) == (0, "", "")
    assert '"sine" -> "y"' in dot.read_text()
    assert svg.read_text().startswith("<svg")


ERRORS = [
    ((FOLDER / "none.pb",), "No such file"),
    ((FOLDER / "frozen.npz",), "not a GraphDef"),
    ((FOLDER / "frozen.pb", "--function", "f"), "--function is for a SavedModel"),
    ((FOLDER / "saved_model", "--function", "nothing"), "no function or signature 'nothing'"),
    ((FOLDER / "frozen.pb", "--svg", FOLDER / "none" / "graph.svg"), "cannot be written"),
]


@pytest.mark.parametrize(("arguments", "message"), ERRORS)
def test_errors_take_one_line_and_end_with_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], message: str
) -> None:
    status, out, err = show(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_without_protobuf_the_error_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: str) -> None:
        raise ImportError("pip install 'gradops[graph]'")

    monkeypatch.setattr("gradops.graph._wire.message_class", missing)
    monkeypatch.setattr("gradops.graph._wire.protobuf", missing)
    status, _, err = show(capsys, FOLDER / "frozen.pb")
    assert status == 2
    assert "gradops[graph]" in err


def test_the_other_commands_start_without_graphs() -> None:
    code = "import sys; from gradops.cli import main; main(['--help']); print('gradops.graph' in sys.modules)"
    assert run(code).splitlines()[-1] == "False"
