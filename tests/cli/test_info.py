"""``gradops info``: the facts of a bug report, as a table and as JSON."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import gradops
from gradops.cli import main


def test_json_holds_what_runs_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["gradops"] == gradops.__version__
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["instruction_set"] == gradops.instruction_set()
    assert facts["instruction_set"] in facts["available_instruction_sets"]
    assert facts["threads"] == gradops.get_num_threads()


def test_json_needs_no_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["info", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_table_names_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradops.cli.info._version", lambda name: None if name == "jax" else "1.2.3")
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("jax" in line and "not installed" in line for line in lines)
    assert any("numpy" in line and "1.2.3" in line for line in lines)
    assert any("instruction set" in line and gradops.instruction_set() in line for line in lines)


@pytest.mark.usefixtures("restore_settings")
def test_threads_are_those_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    gradops.set_num_threads(3)
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["threads"] == 3


def test_version_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gradops {gradops.__version__}\n"
