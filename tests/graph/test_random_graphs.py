"""Random graphs run as NumPy computes them, whatever is fed, fetched and known while building."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gradops.graph import ClientSession, Scope, add_symbolic_gradients, ops
from gradops.graph._folding import constant_value

#: name -> (number of inputs, node, value); every result is a (2, 3) float64 tensor.
STEPS: dict[str, tuple[int, Any, Any]] = {
    "identity": (1, ops.Identity, lambda x: x),
    "neg": (1, ops.Neg, np.negative),
    "relu": (1, ops.Relu, lambda x: np.maximum(x, 0)),
    "add": (2, ops.Add, np.add),
    "sub": (2, ops.Sub, np.subtract),
    "mul": (2, ops.Mul, np.multiply),
    "add n": (3, lambda r, *xs: ops.AddN(r, xs), lambda *xs: sum(xs)),
    "add a row": (2, lambda r, x, y: ops.Add(r, x, ops.Sum(r, y, [0])), lambda x, y: x + y.sum(0)),
    "mean": (1, lambda r, x: ops.Mul(r, ops.OnesLike(r, x), ops.Mean(r, x, [0, 1])),
             lambda x: np.full((2, 3), x.mean())),
    "transpose twice": (1, lambda r, x: ops.Transpose(r, ops.Transpose(r, x, [1, 0]), [1, 0]), lambda x: x),
    "reverse": (1, lambda r, x: ops.StridedSlice(r, x, [0, 0], [0, 0], [-1, -1], begin_mask=3, end_mask=3),
                lambda x: x[::-1, ::-1]),
    "halves": (2, lambda r, x, y: ops.Concat(r, [ops.Slice(r, x, [0, 0], [1, 3]), ops.Slice(r, y, [1, 0], [1, 3])], 0),
               lambda x, y: np.concatenate([x[:1], y[1:]])),
    "rows": (2, lambda r, x, y: ops.Pack(r, [ops.Unpack(r, x, 2)[1], ops.Unpack(r, y, 2)[0]]),
             lambda x, y: np.stack([x[1], y[0]])),
    "matmul": (2, lambda r, x, y: ops.MatMul(r, ops.MatMul(r, x, y, transpose_b=True), x), lambda x, y: x @ y.T @ x),
    "reshape": (1, lambda r, x: ops.Reshape(r, ops.Reshape(r, x, [-1]), ops.Shape(r, x)), lambda x: x),
}  # fmt: skip

step = st.tuples(st.sampled_from(sorted(STEPS)), st.lists(st.integers(0, 30), min_size=3, max_size=3))


def build(steps: list[Any], known_shape: bool) -> tuple[Scope, list[Any], list[np.ndarray[Any, Any]]]:
    """The graph's tensors and, side by side, their values."""
    root = Scope.new_root_scope()
    rng = np.random.default_rng(len(steps))
    shape = (2, 3) if known_shape else None
    tensors: list[Any] = [ops.Placeholder(root, "double", shape=shape), ops.Const(root, rng.uniform(-1, 1, (2, 3)))]
    values = [rng.uniform(-1, 1, (2, 3)), np.asarray(tensors[1].node().attrs["value"])]
    for name, choices in steps:
        count, node, value = STEPS[name]
        chosen = [choice % len(tensors) for choice in choices[:count]]
        tensors.append(node(root, *(tensors[i] for i in chosen)))
        values.append(value(*(values[i] for i in chosen)))
    assert root.status() is None
    return root, tensors, values


@given(steps=st.lists(step, max_size=12), known_shape=st.booleans(), fetches=st.lists(st.integers(0, 30), min_size=1))
def test_random_graphs_run_as_numpy_computes_them(steps: list[Any], known_shape: bool, fetches: list[int]) -> None:
    root, tensors, values = build(steps, known_shape)
    chosen = [1 + i % (len(tensors) - 1) for i in fetches]
    results = ClientSession(root).run({tensors[0]: values[0]}, [tensors[i] for i in chosen])
    for i, result in zip(chosen, results, strict=True):
        np.testing.assert_allclose(result, values[i], rtol=1e-9, atol=1e-9)
        shape = tensors[i].output.shape
        assert shape is None or all(s in (None, n) for s, n in zip(shape, result.shape, strict=True))
        known = constant_value(tensors[i].output)
        assert known is None or np.array_equal(known, result)


@given(steps=st.lists(step, min_size=1, max_size=8), fed=st.integers(0, 30))
def test_feeding_a_tensor_its_own_value_changes_nothing(steps: list[Any], fed: int) -> None:
    root, tensors, values = build(steps, known_shape=True)
    session, last = ClientSession(root), tensors[-1]
    [plain] = session.run({tensors[0]: values[0]}, [last])
    middle = tensors[1 + fed % (len(tensors) - 2)]
    [value] = session.run({tensors[0]: values[0]}, [middle])
    [again] = session.run({tensors[0]: values[0], middle: value}, [last])
    np.testing.assert_array_equal(plain, again)


@given(steps=st.lists(step, min_size=1, max_size=6))
def test_gradients_of_random_graphs_are_directional_derivatives(steps: list[Any]) -> None:
    root, tensors, values = build(steps, known_shape=True)
    loss = ops.Sum(root, ops.Mul(root, tensors[-1], 0.1), [0, 1])
    x = tensors[0]
    total = ops.Add(root, loss, ops.Sum(root, x, [0, 1]))  # x is always reached
    [grad] = add_symbolic_gradients(root, [total], [x])
    session, direction, step_size = ClientSession(root), np.random.default_rng(1).uniform(-1, 1, (2, 3)), 1e-6
    [found] = session.run({x: values[0]}, [grad])
    above, below = (session.run({x: values[0] + s * step_size * direction}, [total])[0] for s in (1, -1))
    expected = (above - below) / (2 * step_size)
    np.testing.assert_allclose(np.vdot(found, direction), expected, rtol=1e-4, atol=1e-4)
