"""A graph as people look at it: one line of text for each thing there is to know of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradops.graph._graph import Graph, Node
from gradops.graph._scope import Scope
from gradops.graph._types import DataType
from gradops.ops._inference import Shape, describe

__all__ = ["NodeView", "view", "view_node"]

_MOST_ELEMENTS = 6
_LONGEST_TEXT = 60


@dataclass(frozen=True)
class NodeView:
    """What is shown of one node."""

    name: str
    op: str
    #: Names of nodes and numbers of their outputs.
    inputs: tuple[tuple[str, int], ...] = ()
    control_inputs: tuple[str, ...] = ()
    #: Element types and shapes.
    outputs: tuple[tuple[str, Shape], ...] = ()
    device: str = ""
    attrs: Mapping[str, str] | None = None
    #: Whether the operator is implemented here.
    is_known: bool = True

    @property
    def input_texts(self) -> tuple[str, ...]:
        """Inputs as TensorFlow writes them: ``x``, ``split:1``, ``^init``."""
        data = (f"{name}:{index}" if index else name for name, index in self.inputs)
        return (*data, *(f"^{name}" for name in self.control_inputs))

    @property
    def output_texts(self) -> tuple[str, ...]:
        """Element types and shapes: ``float[2,?,3]``."""
        return tuple(f"{dtype}{describe(shape)}" for dtype, shape in self.outputs)


def view(graph: Scope | Graph) -> list[NodeView]:
    """Return what is shown of a graph, in the order of creation.

    Raises
    ------
    GradopsError
        The first error of the scope's status.
    TypeError
        If `graph` is neither.
    """
    if isinstance(graph, Scope):
        graph.raise_error()
        graph = graph.graph
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a Scope or a Graph, not {graph!r}")
    return [view_node(node) for node in graph]


def view_node(node: Node) -> NodeView:
    """Return what is shown of one node."""
    return NodeView(
        node.name,
        node.op,
        tuple((maker.name, given.index) for given in node.inputs if (maker := given.node()) is not None),
        tuple(given.name for given in node.control_inputs),
        tuple((dtype.label, shape) for dtype, shape in zip(node.dtypes, node.shapes, strict=True)),
        node.device,
        {name: _text(value) for name, value in node.attrs.items()},
    )


def _text(value: Any) -> str:
    if isinstance(value, DataType):
        return value.label
    if isinstance(value, np.ndarray):
        return _array_text(value)
    if isinstance(value, tuple):
        return _shortened(f"[{', '.join('?' if item is None else str(item) for item in value)}]")
    return _shortened("?" if value is None else str(value))


def _array_text(array: np.ndarray[Any, Any]) -> str:
    first = [_shortened(str(array[index])) for index in _first_indices(array.shape)]
    return f"{', '.join(first)}{', ...' if array.size > len(first) else ''}"


def _first_indices(shape: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """The first places of an array, however large its shape."""
    if 0 in shape:
        return []
    inner = [int(size) for size in shape]
    count = 1
    for size in inner:
        count = min(count * size, _MOST_ELEMENTS)
    indices = []
    for number in range(count):
        index = []
        for size in reversed(inner):
            number, place = divmod(number, size)
            index.append(place)
        indices.append(tuple(reversed(index)))
    return indices


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
