"""Every operator is declared as TensorFlow's registry declares it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradops.graph._registry import OPERATORS
from gradops.ops._operator import REQUIRED, Attr, Input

#: Of TensorFlow 2.21.0; make_tensorflow_opdefs.py wrote the file.
RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "tensorflow_opdefs.json").read_text())


def test_all_operators_are_recorded() -> None:
    assert set(OPERATORS) == set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_inputs_outputs_and_attributes_are_tensorflows(name: str) -> None:
    operator, recorded = OPERATORS[name], RECORDED[name]
    assert [_tensor(tensor) for tensor in operator.inputs] == recorded["inputs"]
    assert [_tensor(tensor) for tensor in operator.outputs] == recorded["outputs"]
    assert [_attr(attr) for attr in operator.attrs] == recorded["attrs"]


def _tensor(tensor: Input) -> list[str]:
    return [tensor.name, tensor.type, tensor.count]


def _attr(attr: Attr) -> dict[str, Any]:
    entry = {"name": attr.name, "kind": attr.kind, "allowed": sorted(attr.allowed)}
    if attr.default is not REQUIRED:
        entry["default"] = list(attr.default) if isinstance(attr.default, tuple) else attr.default
    return entry
