"""The image operators in a graph: TensorFlow's values, the shapes that were inferred, the eager functions' bits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from golden_cases import FOLDER, FUNCTIONS, arguments, array, attributes
from gradops.graph import ClientSession, Scope, ops
from tolerances import assert_close, golden_bound


def _values() -> list[Any]:
    with (FOLDER / "cases.jsonl").open() as lines:
        cases = [json.loads(line) for line in lines]
    return [pytest.param(case, id=case["id"]) for case in cases if case["kind"] == "value"]


@pytest.mark.parametrize("case", _values())
def test_a_graph_gives_tensorflows_values(case: dict[str, Any]) -> None:
    root = Scope.new_root_scope()
    made = getattr(ops, case["op"])(root, **arguments(case), **attributes(case))
    assert root.status() is None
    [result] = ClientSession(root).run([made])
    assert result.dtype == made.output.type.numpy
    assert all(known in (None, size) for known, size in zip(made.output.shape, result.shape, strict=True))
    if case["op"] in FUNCTIONS:
        eager = FUNCTIONS[case["op"]](**arguments(case), **attributes(case))
        assert result.tobytes() == eager.tobytes()
        return
    expected = array(case, case["expected"], case["expected_dtype"])
    exact = array(case, case["exact"], "float64") if case.get("exact") else expected
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    finite = np.isfinite(exact)
    bound = golden_bound(case["tolerance"], exact, case["scale"])
    assert_close(result[finite], exact[finite], np.broadcast_to(bound, exact.shape)[finite])
