"""Gradients as more graph: TensorFlow's AddSymbolicGradients."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradops.errors import InvalidArgumentError, NotFoundError
from gradops.graph._building import add_constant, as_output, build, inferred_attrs
from gradops.graph._graph import Node, Output
from gradops.graph._registry import operator_named
from gradops.graph._scope import Scope
from gradops.graph._types import DataType
from gradops.ops._expressions import (
    SAME,
    Call,
    Constant,
    Differentiated,
    Expression,
    Grad,
    Gradients,
    Own,
    Result,
)

__all__ = ["add_symbolic_gradients"]


def add_symbolic_gradients(
    scope: Scope, ys: Sequence[Any], xs: Sequence[Any], grad_ys: Sequence[Any] | None = None
) -> list[Output]:
    """Add nodes that compute the gradient of the sum of `ys` with respect to each of `xs`.

    Parameters
    ----------
    scope : Scope
        Where they are added.
    ys, xs : sequence of Output or operators' instances
    grad_ys : sequence of Output or operators' instances, optional
        Gradients with respect to `ys`, one each. Ones, if left away.

    Returns
    -------
    list of Output
        One for each x. An output of nothing (``output.node() is None``) where no gradient flows:
        only integers, or an operator that is constant in that input, lie between.

    Raises
    ------
    TypeError
        If something given is no tensor of a graph.
    InvalidArgumentError
        If `grad_ys` has another length than `ys`, or an x is not reachable from the `ys`.
    NotFoundError
        If an operator on the way has no gradient.
    GradopsError
        The scope's first error, if it is not ok before, or when the gradient's nodes are refused.

    Notes
    -----
    The nodes are those of TensorFlow's C++ function of this name, with the same names, wiring and
    types, wherever it has a gradient. It has none for Conv2DBackpropFilter, CropAndResizeGradImage,
    CropAndResizeGradBoxes, ReluGrad, BiasAddGrad, StridedSliceGrad and OnesLike, which have one
    here, so gradients can be taken of gradients. Where TensorFlow is wrong, it is not followed: its
    convolution gradients lose `dilations` and `explicit_paddings`; and where one of the `xs` is also
    among the `ys`, what flows into it from the others is lost.
    """
    scope.raise_error()
    outputs, inputs = _outputs("ys", ys), _outputs("xs", xs)
    if grad_ys is not None and len(grad_ys) != len(outputs):
        raise InvalidArgumentError("Must specify a gradient input for each output.")
    starts = [_ones_like(scope, y) for y in outputs] if grad_ys is None else _outputs("grad_ys", grad_ys)
    results = _Backpropagation(scope, outputs, inputs).run(starts)
    scope.raise_error()
    return results


def _outputs(what: str, values: Sequence[Any]) -> list[Output]:
    outputs = []
    for value in values:
        output = as_output(value)
        if output is None:
            raise TypeError(f"{what} holds {value!r}, which is no tensor of a graph")
        output.type  # noqa: B018, refuses an output that does not exist
        outputs.append(output)
    return outputs


def _ones_like(scope: Scope, y: Output) -> Output:
    return Output(build(scope, operator_named("OnesLike"), (y,), {}))


class _Backpropagation:
    """Goes from the ys to the xs through all nodes between, each after every node that uses it."""

    def __init__(self, scope: Scope, ys: list[Output], xs: list[Output]) -> None:
        self._scope = scope
        self._ys = ys
        self._xs = xs
        self._between = _nodes_between(ys, xs)
        self._waiting_for = _count_uses(self._between)
        self._parts: dict[Output, list[Output]] = {}
        self._sums: dict[Output, Output] = {}
        self._ready: deque[Node] = deque()

    def run(self, starts: list[Output]) -> list[Output]:
        for y, start in zip(self._ys, starts, strict=True):
            self._parts.setdefault(y, []).append(start)
        for y in self._ys:
            self._make_ready(y.node())
        while self._ready and self._scope.ok():
            self._visit(self._ready.popleft())
        return [self._sums.get(x, Output()) for x in self._xs]

    def _make_ready(self, node: Node | None) -> None:
        if node is not None and self._waiting_for.get(node) == 0:
            del self._waiting_for[node]
            self._ready.append(node)

    def _visit(self, node: Node) -> None:
        grads = [self._sum(Output(node, i)) for i in range(len(node.dtypes))]
        if not any(given.node() in self._between for given in node.inputs):
            return
        for given, grad in zip(node.inputs, self._input_gradients(node, grads), strict=True):
            source = given.node()
            if source not in self._between:
                continue
            if grad is not None:
                self._parts.setdefault(given, []).append(grad)
            self._waiting_for[source] -= 1
            self._make_ready(source)

    def _sum(self, output: Output) -> Output | None:
        """Add up what has come in for an output."""
        parts = self._parts.pop(output, [])
        if not parts:
            return None
        if len(parts) > 1:
            parts = [Output(build(self._scope, operator_named("AddN"), (parts,), {}))]
        self._sums[output] = parts[0]
        return parts[0]

    def _input_gradients(self, node: Node, grads: list[Output | None]) -> Sequence[Output | None]:
        nothing = [None] * len(node.inputs)
        if all(grad is None for grad in grads):
            return nothing
        table = _table(node)
        if not table.of:
            return nothing
        filled = [self._zeros(node, i) if grad is None else grad for i, grad in enumerate(grads)]
        emitter = _Emitter(self._scope, node, filled)
        for expression in table.first:
            emitter.emit(expression)
        by_name = {name: emitter.emit(expression) for name, expression in table.of.items()}
        flat: list[Output | None] = []
        for name, given in _inputs_by_name(node).items():
            found = by_name.get(name)
            if isinstance(given, list):
                flat += found if isinstance(found, list) else [None] * len(given)
            else:
                flat.append(found if isinstance(found, Output) else None)
        return flat

    def _zeros(self, node: Node, index: int) -> Output:
        return Output(build(self._scope, operator_named("ZerosLike"), (Output(node, index),), {}))


def _nodes_between(ys: list[Output], xs: list[Output]) -> set[Node | None]:
    """The nodes that the ys depend on and that depend on the xs, both ends included."""
    ancestors: set[Node] = set()
    waiting = [node for y in ys if (node := y.node()) is not None]
    while waiting:
        node = waiting.pop()
        if node not in ancestors:
            ancestors.add(node)
            waiting += [maker for given in node.inputs if (maker := given.node()) is not None]
    starts = {x.node() for x in xs}
    for x in xs:
        if (node_of_x := x.node()) not in ancestors:
            name = node_of_x.name if node_of_x is not None else ""
            raise InvalidArgumentError(
                f"Cannot compute the partial derivative for node {name!r} as it's unreachable from the output node(s)."
            )
    between: set[Node | None] = set()
    for node in sorted(ancestors, key=lambda node: node.id):
        if node in starts or any(given.node() in between for given in node.inputs):
            between.add(node)
    return between


def _count_uses(between: set[Node | None]) -> dict[Node | None, int]:
    uses = dict.fromkeys(between, 0)
    for node in between:
        for given in node.inputs if node is not None else ():
            if given.node() in uses:
                uses[given.node()] += 1
    return uses


def _table(node: Node) -> Gradients:
    """The gradients of a node's operator."""
    vjps = node.operator.vjps
    if vjps is None:
        raise NotFoundError(f"No gradient defined for op: {node.op} (node {node.name!r})")
    if callable(vjps):
        attrs = {name: value.label if isinstance(value, DataType) else value for name, value in node.attrs.items()}
        vjps = vjps(Differentiated(attrs, len(node.inputs), len(node.dtypes)))
    return vjps if isinstance(vjps, Gradients) else Gradients(vjps)


def _inputs_by_name(node: Node) -> dict[str, Output | list[Output]]:
    named: dict[str, Output | list[Output]] = {}
    start = 0
    for tensor in node.operator.inputs:
        if tensor.count:
            count = node.attrs[tensor.count]
            named[tensor.name] = list(node.inputs[start : start + count])
            start += count
        else:
            named[tensor.name] = node.inputs[start]
            start += 1
    return named


class _Emitter:
    """Turns one node's gradient expressions into nodes."""

    def __init__(self, scope: Scope, node: Node, grads: list[Output]) -> None:
        self._scope = scope
        self._node = node
        self._grads = grads
        self._inputs = _inputs_by_name(node)
        self._made: dict[Call | Constant, Node | None] = {}

    def emit(self, expression: Expression) -> Any:
        """Return the tensor of an expression, or the list of tensors, or a literal's value."""
        match expression:
            case str():
                return self._inputs[expression]
            case Grad():
                return self._grads[expression.index]
            case Own():
                return Output(self._node, expression.index)
            case tuple():
                return [self.emit(part) for part in expression]
            case Result():
                return Output(self._call(expression.call), expression.index)
            case Constant() if expression.is_literal:
                return np.asarray(expression.value, expression.dtype)
            case Constant():
                return Output(self._constant(expression))
            case Call():
                return Output(self._call(expression))

    def _constant(self, constant: Constant) -> Node | None:
        if constant not in self._made:
            self._made[constant] = add_constant(self._scope, np.asarray(constant.value, constant.dtype))
        return self._made[constant]

    def _call(self, call: Call) -> Node | None:
        if call not in self._made:
            inputs = [self.emit(given) for given in call.inputs]
            self._made[call] = build(self._scope, operator_named(call.op), inputs, self._attrs(call))
        return self._made[call]

    def _attrs(self, call: Call) -> Mapping[str, Any]:
        if call.attrs == SAME:
            operator = operator_named(call.op)
            inferred = inferred_attrs(operator)
            names = [attr.name for attr in operator.attrs if attr.name not in inferred]
            return {name: self._node.attrs[name] for name in names if name in self._node.attrs}
        return {name: self._own_attr(value) for name, value in dict(call.attrs).items()}

    def _own_attr(self, value: Any) -> Any:
        return self._node.attrs[value[1:]] if isinstance(value, str) and value.startswith("$") else value
