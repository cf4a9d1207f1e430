"""From the arguments of an operator's class to a node: constants made, element types found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gradops.errors import GradopsError, InvalidArgumentError
from gradops.graph import _constants
from gradops.graph._graph import Node, Operation, Output
from gradops.graph._scope import Scope
from gradops.graph._types import DataType
from gradops.ops._operator import Input, Operator

__all__ = ["CPP_NAMES", "add_constant", "as_output", "build", "inferred_attrs"]

#: Operators whose class is called otherwise in C++; their nodes are, too.
CPP_NAMES: Final[Mapping[str, str]] = {
    "ConcatV2": "Concat",
    "Mul": "Multiply",
    "Neg": "Negate",
    "Pack": "Stack",
    "Sub": "Subtract",
    "Unpack": "Unstack",
}


def as_output(value: Any) -> Output | None:
    """Return the tensor that a handle stands for; None for anything that is no handle.

    Raises
    ------
    TypeError
        If the handle is of an operation that has not exactly one output.
    """
    if isinstance(value, Output):
        return value
    operation = value if isinstance(value, Operation) else getattr(value, "operation", None)
    if not isinstance(operation, Operation):
        return None
    node = operation.node()
    if node is not None and len(node.dtypes) != 1:
        raise TypeError(f"{node.name!r} ({node.op}) has {len(node.dtypes)} outputs: say which one")
    return Output(node)


def inferred_attrs(operator: Operator) -> frozenset[str]:
    """Return the attributes that an operator's inputs decide."""
    return frozenset(name for tensor in operator.inputs for name in (tensor.type, tensor.count))


def build(scope: Scope, operator: Operator, values: Sequence[Any], attrs: Mapping[str, Any]) -> Node | None:
    """Add one node for an operator, and before it a Const for each input that is a plain value.

    Parameters
    ----------
    values : sequence
        One for each declared input: a handle or a plain value; for a list input a list of them.
    attrs : Mapping
        Those that the inputs do not decide.

    Returns
    -------
    Node or None
        None if an error is in the scope's status, an old one or a new one.

    Raises
    ------
    TypeError
        If a value is of no kind that makes a tensor.
    """
    if not scope.ok():
        return None
    try:
        lists = [_listed(tensor, value) for tensor, value in zip(operator.inputs, values, strict=True)]
        known = _known_types(operator, lists)
    except GradopsError as error:
        scope.update_status(error)
        return None
    flat: list[Output] = []
    for tensor, items in zip(operator.inputs, lists, strict=True):
        for item in items:
            output = item if isinstance(item, Output) else _constant_input(scope, tensor, item, known)
            if output is None:
                return None
            flat.append(output)
            if tensor.type in known and known[tensor.type] is None:
                known[tensor.type] = output.type
    types = {name: dtype for name, dtype in known.items() if dtype is not None}
    counts = {tensor.count: len(items) for tensor, items in zip(operator.inputs, lists, strict=True) if tensor.count}
    return scope.add_node(
        operator.name, CPP_NAMES.get(operator.name, operator.name), flat, {**types, **counts, **attrs}
    )


def _listed(tensor: Input, value: Any) -> list[Any]:
    """One input's tensors, handles as outputs."""
    if not tensor.count:
        values = [value]
    elif isinstance(value, (list, tuple)):
        values = list(value)
    else:
        raise TypeError(f"input {tensor.name!r} is a list of tensors, not {value!r}")
    return [output if (output := as_output(item)) is not None else item for item in values]


def _known_types(operator: Operator, lists: Sequence[Sequence[Any]]) -> dict[str, DataType | None]:
    """The element types that handles and arrays fix, by attribute; plain Python numbers follow them."""
    declared = {attr.name for attr in operator.attrs if attr.kind == "type"}
    known: dict[str, DataType | None] = {tensor.type: None for tensor in operator.inputs if tensor.type in declared}
    for tensor, items in zip(operator.inputs, lists, strict=True):
        for item in items:
            dtype = item.type.base if isinstance(item, Output) else _constants.given_type(item)
            if dtype is None or tensor.type not in known:
                continue
            before = known[tensor.type]
            if before is not None and before != dtype:
                raise InvalidArgumentError(
                    f"Inconsistent values for attr {tensor.type!r} DT_{before.name} vs. DT_{dtype.name} while building "
                    f"{operator.name}, input {tensor.name!r}"
                )
            known[tensor.type] = dtype
    return known


def _constant_input(scope: Scope, tensor: Input, value: Any, known: Mapping[str, DataType | None]) -> Output | None:
    wanted = known[tensor.type] if tensor.type in known else DataType[tensor.type.upper()]
    try:
        array = _constants.to_array(tensor.name, value, wanted)
    except GradopsError as error:
        scope.update_status(error)
        return None
    node = add_constant(scope.new_sub_scope("Const"), array)
    return None if node is None else Output(node)


def add_constant(scope: Scope, array: np.ndarray[Any, Any]) -> Node | None:
    """Add a Const."""
    return scope.add_node("Const", "Const", (), {"value": array, "dtype": DataType.of(array.dtype)})
