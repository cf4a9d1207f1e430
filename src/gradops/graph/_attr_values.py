"""Attributes of nodes between the form that nodes hold and TensorFlow's AttrValue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gradops.graph._errors import GraphDefError
from gradops.graph._graph import Node
from gradops.graph._schema import message_class
from gradops.graph._tensor_proto import (
    Allowance,
    array_from_proto,
    array_to_proto,
    shape_from_proto,
    shape_to_proto,
)
from gradops.graph._types import DataType
from gradops.ops._operator import Attr, Operator

__all__ = ["attrs_from_proto", "attrs_to_proto"]

#: The field of AttrValue that holds each kind of attribute.
_FIELDS: Final = {
    "bool": "b",
    "float": "f",
    "int": "i",
    "list(int)": "list",
    "shape": "shape",
    "string": "s",
    "tensor": "tensor",
    "type": "type",
}
_KINDS: Final = {field: kind for kind, field in _FIELDS.items() if field != "list"}


def attrs_from_proto(operator: Operator, protos: Mapping[str, Any], allowance: Allowance) -> dict[str, Any]:
    """Return a NodeDef's attributes as `Graph.add` takes them.

    Undeclared ones are kept: texts and lists of texts as such, everything else as the message it is.

    Raises
    ------
    GraphDefError
        If a declared attribute is of another kind than declared, or its value is malformed.
    """
    declared = {attr.name: attr for attr in operator.attrs}
    return {
        name: _from_proto(declared[name], value, allowance) if name in declared else _undeclared(value)
        for name, value in protos.items()
    }


def _from_proto(attr: Attr, value: Any, allowance: Allowance) -> Any:
    given = value.WhichOneof("value")
    if given != _FIELDS[attr.kind]:
        raise GraphDefError(
            f"AttrValue had value with type {_described(value)!r} when {attr.kind!r} expected for {attr.name!r}"
        )
    content = getattr(value, given)
    try:
        if attr.kind == "list(int)":
            return _integers(content)
        if attr.kind == "shape":
            return shape_from_proto(content)
        if attr.kind == "tensor":
            return array_from_proto(content, allowance)
        if attr.kind == "type":
            return _element_type(content)
        return content.decode() if attr.kind == "string" else content
    except ValueError as error:  # no such element type, bytes that are no text, or our own
        raise GraphDefError(f"attr {attr.name!r}: {error}") from error


def _element_type(number: int) -> DataType:
    if number == DataType.INVALID:
        raise GraphDefError("AttrValue has invalid DataType 0")
    return DataType(number)


def _integers(content: Any) -> tuple[int, ...]:
    others = [field.name for field, _ in content.ListFields() if field.name != "i"]
    if others:
        raise GraphDefError(f"expected a list of integers, but there is {', '.join(others)} in it")
    return tuple(content.i)


def _described(value: Any) -> str:
    """TensorFlow's name of the kind of value that an AttrValue holds."""
    given = value.WhichOneof("value")
    if given == "list":
        kinds = [_KINDS.get(field.name, field.name) for field, _ in value.list.ListFields()]
        return f"list({','.join(kinds) or 'any'})"
    return _KINDS.get(given, given or "nothing")


def _undeclared(value: Any) -> Any:
    given = value.WhichOneof("value")
    try:
        if given == "s":
            return value.s.decode()
        if given == "list" and [field.name for field, _ in value.list.ListFields()] == ["s"]:
            return tuple(text.decode() for text in value.list.s)
    except UnicodeDecodeError:
        pass
    kept = message_class("AttrValue")()
    kept.CopyFrom(value)  # a part of a message keeps the whole alive
    return kept


def attrs_to_proto(node: Node, protos: Any) -> None:
    """Write a node's attributes, default or not, into the map of its NodeDef."""
    declared = {attr.name: attr.kind for attr in node.operator.attrs}
    for name, value in node.attrs.items():
        if name in declared:
            _write(protos[name], declared[name], value)
        else:
            _write_undeclared(protos[name], value)


def _write(proto: Any, kind: str, value: Any) -> None:
    if kind == "list(int)":
        proto.list.SetInParent()  # an empty list is present, too
        proto.list.i.extend(value)
    elif kind == "shape":
        proto.shape.CopyFrom(shape_to_proto(value))
    elif kind == "tensor":
        proto.tensor.CopyFrom(array_to_proto(value, DataType.of(value.dtype)))
    elif kind == "string":
        proto.s = value.encode()
    else:
        setattr(proto, _FIELDS[kind], value)


def _write_undeclared(proto: Any, value: Any) -> None:
    if isinstance(value, str):
        proto.s = value.encode()
    elif isinstance(value, tuple):
        proto.list.s.extend(text.encode() for text in value)
    else:
        proto.CopyFrom(value)
