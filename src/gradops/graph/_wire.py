"""What a GraphDef says, checked as far as that needs no operator: names, inputs, order, devices, versions."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from gradops.graph._errors import GraphDefError
from gradops.graph._schema import message_class, protobuf

__all__ = [
    "DEVICE",
    "NODE_NAME",
    "PRODUCER",
    "Tensor",
    "WireNode",
    "check_versions",
    "message_from_bytes",
    "message_from_text",
    "sorted_nodes",
    "tensor_named",
    "wire_nodes",
]

#: The version of TensorFlow's operators and file format that is followed and written: that of 2.21.
PRODUCER: Final = 2474

#: What a node may be called, and devices as text; both for `fullmatch`. Checked with TensorFlow 2.21.
_NAME: Final = r"[A-Za-z0-9.][A-Za-z0-9_>./-]*"
NODE_NAME: Final = re.compile(_NAME)
_DATA_INPUT: Final = re.compile(rf"({_NAME})(?::([0-9]{{1,10}}))?")
_ID: Final = r"(?:\d{1,10}|\*)"
DEVICE: Final = re.compile(
    rf"/|(?:/job:[A-Za-z]\w*|/replica:{_ID}|/task:{_ID}|/device:[A-Za-z]\w*(?::{_ID})?|/(?:cpu|CPU|gpu|GPU|tpu|TPU):{_ID})*",
    re.ASCII,
)


class Tensor(NamedTuple):
    """A data input, as text names it."""

    node: str
    output: int


class WireNode(NamedTuple):
    """One NodeDef, its inputs taken apart."""

    proto: Any
    name: str
    inputs: tuple[Tensor, ...]
    control_inputs: tuple[str, ...]


# --- messages ---


def message_from_bytes(name: str, data: bytes) -> Any:
    """Return the message of that name that is written in `data`.

    Raises
    ------
    GraphDefError
        If `data` is cut off, or anything else than such a message.
    """
    errors = (protobuf("message").DecodeError, UnicodeDecodeError, RecursionError)
    try:
        return message_class(name).FromString(data)
    except errors as error:  # the second and third come from protobuf without its C extension
        raise GraphDefError(f"the {len(data)} bytes are not a {name}, or only a part of one: {error}") from error


def message_from_text(name: str, data: bytes) -> Any:
    """Return the message of that name that is written in `data` in protobuf's text form.

    Raises
    ------
    GraphDefError
        If `data` is anything else than such a message.
    """
    text_format = protobuf("text_format")
    try:
        return text_format.Parse(data.decode(), message_class(name)())
    except (text_format.ParseError, ValueError, RecursionError) as error:
        raise GraphDefError(f"the text is not a {name}: {error}") from error


# --- names, inputs, devices, versions ---


def wire_nodes(protos: Iterable[Any]) -> dict[str, WireNode]:
    """Return nodes by name, in the order of the file.

    Raises
    ------
    GraphDefError
        If a name, an input or a device is malformed, a name is not unique, or a data input comes
        after a control input.
    """
    nodes: dict[str, WireNode] = {}
    for proto in protos:
        node = _wire_node(proto)
        if node.name in nodes:
            raise GraphDefError(f"Node {node.name!r} is not unique")
        nodes[node.name] = node
    return nodes


def _wire_node(proto: Any) -> WireNode:
    name = str(proto.name)
    if not NODE_NAME.fullmatch(name):
        raise GraphDefError(
            f"Node {name!r} ({proto.op}): Node name contains invalid characters. It begins with a letter, a digit or "
            "'.', and goes on with these, '_', '>', '/' and '-'"
        )
    if not DEVICE.fullmatch(proto.device):
        raise GraphDefError(f"Malformed device specification {proto.device!r} in node {name!r}")
    inputs: list[Tensor] = []
    controls: dict[str, None] = {}
    for text in proto.input:
        if text.startswith("^"):
            controls[_control_input(name, text)] = None
        elif controls:
            raise GraphDefError(f"Node {name!r}: Control dependencies must come after regular dependencies: {text!r}")
        else:
            inputs.append(_data_input(name, text))
    return WireNode(proto, name, tuple(inputs), tuple(controls))


def _control_input(node: str, text: str) -> str:
    if not NODE_NAME.fullmatch(text, 1):
        raise GraphDefError(f"Node {node!r} has an invalid control input {text!r}. It is '^' and the name of a node")
    return text[1:]


def _data_input(node: str, text: str) -> Tensor:
    tensor = tensor_named(text)
    if tensor is None:
        raise GraphDefError(f"Node {node!r} has an invalid input {text!r}. It is 'name', 'name:1' or '^name'")
    return tensor


def tensor_named(text: str) -> Tensor | None:
    """Return the tensor that ``"name"`` or ``"name:1"`` means; None for a text that names none."""
    match = _DATA_INPUT.fullmatch(text)
    return None if match is None else Tensor(match[1], int(match[2] or 0))


def check_versions(versions: Any) -> None:
    """Refuse a graph that says it is not for readers of this version.

    Raises
    ------
    GraphDefError
        If `min_consumer` is larger than our version, our version is among `bad_consumers`, or the
        producer is negative.
    """
    if versions.producer < 0:
        raise GraphDefError(f"GraphDef producer version {versions.producer} is below 0, the least that is supported")
    if versions.min_consumer > PRODUCER:
        raise GraphDefError(f"GraphDef min consumer version {versions.min_consumer} above current version {PRODUCER}")
    if PRODUCER in versions.bad_consumers:
        raise GraphDefError(f"GraphDef disallows consumer version {PRODUCER}")


# --- order ---


def sorted_nodes(nodes: Mapping[str, WireNode], is_given: Callable[[Tensor], bool]) -> list[WireNode]:
    """Return nodes so that each comes after what it depends on, and otherwise in the order of the file.

    Parameters
    ----------
    nodes : Mapping
        By name.
    is_given : callable
        Whether a tensor comes from elsewhere, so that nothing has to be waited for.

    Raises
    ------
    GraphDefError
        If an input is of a node that is not there, or nodes wait for each other in a circle.
    """
    listed = list(nodes.values())
    place = {node.name: i for i, node in enumerate(listed)}
    consumers: list[list[int]] = [[] for _ in listed]
    waits = [0] * len(listed)
    for i, node in enumerate(listed):
        for name in _dependencies(node, is_given):
            if name not in place:
                raise GraphDefError(f"Node {node.name!r}: Unknown input node {name!r}")
            consumers[place[name]].append(i)
            waits[i] += 1
    ready = [i for i, wait in enumerate(waits) if not wait]
    order: list[WireNode] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(listed[i])
        for consumer in consumers[i]:
            waits[consumer] -= 1
            if not waits[consumer]:
                heapq.heappush(ready, consumer)
    if len(order) < len(listed):
        stuck = [listed[i].name for i, wait in enumerate(waits) if wait]
        raise GraphDefError(
            f"Graph is invalid, contains {len(stuck)} nodes in a cycle or after one: {', '.join(stuck[:5])}"
        )
    return order


def _dependencies(node: WireNode, is_given: Callable[[Tensor], bool]) -> set[str]:
    return {tensor.node for tensor in node.inputs if not is_given(tensor)}.union(node.control_inputs)
