"""Pictures of graphs: Graphviz source, and SVG that needs no other program."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

from gradops.errors import InvalidArgumentError
from gradops.graph._graph import Graph
from gradops.graph._scope import Scope
from gradops.graph._view import NodeView, view

__all__ = ["dot_of", "svg_of", "to_dot", "to_svg"]

_MOST_NODES: Final = 500  # more cannot be read, and the layout of n layers takes n**2 steps
_MOST_PARTS: Final = 50_000  # nodes, edges, and layers that edges cross; so many take a few seconds
_LONGEST_LABEL: Final = 44

#: Fill colours by operator; everything else is white.
_COLOURS: Final[Mapping[str, str]] = {
    "Const": "#eeeeee",
    "Placeholder": "#d7e8fa",
    **dict.fromkeys(("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"), "#fde3c8"),
    **dict.fromkeys(("CropAndResize", "CropAndResizeGradImage", "CropAndResizeGradBoxes"), "#d9f0d3"),
}
_UNKNOWN_COLOUR: Final = "#f8d0d0"


def to_dot(graph: Scope | Graph) -> str:
    """Return a graph as Graphviz source: ``dot -Tsvg``.

    Parameters
    ----------
    graph : Scope or Graph

    Returns
    -------
    str
        A node is drawn with its name, operator, and each output's element type and shape; control
        inputs are dashed.

    Raises
    ------
    GradopsError
        The first error of the scope's status.
    TypeError
        If `graph` is neither.
    """
    return dot_of(view(graph))


def to_svg(graph: Scope | Graph) -> str:
    """Return a graph as an SVG picture, laid out from top to bottom.

    Parameters
    ----------
    graph : Scope or Graph
        Of at most 500 nodes, whose edges cross at most 50000 layers in all.

    Returns
    -------
    str
        A node is drawn with its name, operator, and each output's element type and shape; control
        inputs are dashed. Attributes show while the mouse rests on a node.

    Raises
    ------
    InvalidArgumentError
        If it is larger. Graphviz draws what `to_dot` returns.
    GradopsError
        The first error of the scope's status.
    TypeError
        If `graph` is neither.
    """
    return svg_of(view(graph))


def _colour(node: NodeView) -> str:
    return _COLOURS.get(node.op, "#ffffff") if node.is_known else _UNKNOWN_COLOUR


def _label(node: NodeView) -> list[str]:
    lines = [node.name] if node.name == node.op else [node.name, node.op]
    return [_short(_printable(line)) for line in (*lines, *node.output_texts[:4])]


def _short(text: str) -> str:
    """The text, its middle left out if it is long."""
    if len(text) <= _LONGEST_LABEL:
        return text
    half = (_LONGEST_LABEL - 1) // 2
    return f"{text[:half]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"


def _printable(text: str) -> str:
    """The text without what XML cannot hold: a scope takes any name."""
    return re.sub(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\N{REPLACEMENT CHARACTER}", text)


# --- Graphviz ---


def dot_of(nodes: Sequence[NodeView]) -> str:
    """Return nodes as Graphviz source."""
    lines = [
        "digraph graph_def {",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    for node in nodes:
        label = "\\n".join(map(_dot_escaped, _label(node)))
        lines.append(f'  {_quoted(node.name)} [label="{label}", fillcolor="{_colour(node)}"];')
    for node in nodes:
        for name, index in node.inputs:
            label = f' [taillabel="{index}"]' if index else ""
            lines.append(f"  {_quoted(name)} -> {_quoted(node.name)}{label};")
        for name in node.control_inputs:
            lines.append(f"  {_quoted(name)} -> {_quoted(node.name)} [style=dashed];")
    return "\n".join((*lines, "}", ""))


def _quoted(text: str) -> str:
    return f'"{_dot_escaped(_printable(text))}"'


def _dot_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# --- SVG ---

_CHARACTER: Final = 7.1  # width of a bold 11 px letter, on the safe side
_LINE: Final = 14
_PADDING: Final = 8
_GAP: Final = 18
_LAYER_GAP: Final = 44
_MARGIN: Final = 16
_SWEEPS: Final = 4


@dataclass(eq=False)
class _Box:
    """A node in the picture, or (without a view) a place where a long edge passes a layer."""

    node: NodeView | None
    lines: list[str]
    layer: int
    above: list[_Box] = field(default_factory=list)
    below: list[_Box] = field(default_factory=list)
    #: The centre, the upper edge, and the lower edge: of a place where an edge passes, that of its layer.
    x: float = 0.0
    y: float = 0.0
    bottom: float = 0.0

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * _CHARACTER + 2 * _PADDING if self.lines else 2.0

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PADDING if self.lines else 0.0


@dataclass(frozen=True)
class _Edge:
    #: From the box that makes the tensor, through places in between, to the one that takes it.
    boxes: list[_Box]
    index: int
    is_control: bool


def svg_of(nodes: Sequence[NodeView]) -> str:
    """Return nodes as an SVG picture."""
    if len(nodes) > _MOST_NODES:
        raise InvalidArgumentError(
            f"to_svg draws at most {_MOST_NODES} nodes, and the graph has {len(nodes)}. Give to_dot's text to Graphviz"
        )
    boxes, edges = _boxes_and_edges(nodes)
    layers = _layers(boxes)
    for _ in range(_SWEEPS):
        for layer in layers:
            layer.sort(key=lambda box: _mean_place(box.above, box))
            _number(layer)
        for layer in reversed(layers):
            layer.sort(key=lambda box: _mean_place(box.below, box))
            _number(layer)
    _place(layers)
    return _drawn(layers, edges)


def _boxes_and_edges(nodes: Sequence[NodeView]) -> tuple[list[_Box], list[_Edge]]:
    by_name = {node.name: _Box(node, _label(node), layer) for node, layer in _with_layers(nodes)}
    boxes, edges = list(by_name.values()), []
    parts = 0
    for node in nodes:
        sources = [(name, index, False) for name, index in node.inputs]
        sources += [(name, 0, True) for name in node.control_inputs]
        for name, index, is_control in sources:
            if name not in by_name:
                continue
            passed = [by_name[name], by_name[node.name]]
            parts += 1 + max(0, passed[1].layer - passed[0].layer)
            if parts > _MOST_PARTS:
                raise InvalidArgumentError(
                    f"to_svg draws edges through at most {_MOST_PARTS} layers in all, and the graph's cross more. "
                    "Give to_dot's text to Graphviz"
                )
            passed[1:1] = [_Box(None, [], layer) for layer in range(passed[0].layer + 1, passed[1].layer)]
            for upper, lower in itertools.pairwise(passed):
                upper.below.append(lower)
                lower.above.append(upper)
            boxes += passed[1:-1]
            edges.append(_Edge(passed, index, is_control))
    return boxes, edges


def _with_layers(nodes: Sequence[NodeView]) -> Iterable[tuple[NodeView, int]]:
    """Each node below all that it needs; one that needs nothing just above the first that needs it."""
    by_name = {node.name: node for node in nodes}
    layers: dict[str, int] = {}
    begun: set[str] = set()  # two nodes of one name, which a scope allows, may seem to be a cycle
    waiting = list(reversed(by_name))
    while waiting:  # depth first, without recursion: nodes may come in any order
        name = waiting[-1]
        begun.add(name)
        missing = [s for s in _sources(by_name[name]) if s in by_name and s not in layers and s not in begun]
        if missing and name not in layers:
            waiting += missing
            continue
        waiting.pop()
        layers[name] = 1 + max((layers[source] for source in _sources(by_name[name]) if source in layers), default=-1)
    first_use: dict[str, int] = {}
    for node in by_name.values():
        for source in _sources(node):
            first_use[source] = min(first_use.get(source, layers[node.name]), layers[node.name])
    for node in by_name.values():
        is_source = not _sources(node) and node.name in first_use
        yield node, first_use[node.name] - 1 if is_source else layers[node.name]


def _sources(node: NodeView) -> list[str]:
    return [*(name for name, _ in node.inputs), *node.control_inputs]


def _layers(boxes: Iterable[_Box]) -> list[list[_Box]]:
    layers: dict[int, list[_Box]] = {}
    for box in boxes:
        layers.setdefault(box.layer, []).append(box)
    ordered = [layers[number] for number in sorted(layers)]
    for layer in ordered:
        _number(layer)
    return ordered


def _number(layer: list[_Box]) -> None:
    for place, box in enumerate(layer):
        box.x = place


def _mean_place(neighbours: list[_Box], box: _Box) -> float:
    return sum(neighbour.x for neighbour in neighbours) / len(neighbours) if neighbours else box.x


def _place(layers: list[list[_Box]]) -> None:
    """Give every box its place: as near below its neighbours as the others in its layer allow."""
    y: float = _MARGIN
    for layer in layers:
        x, height = 0.0, max(box.height for box in layer)
        for box in layer:
            box.x, box.y = x + box.width / 2, y
            box.bottom = y + (box.height if box.node is not None else height)
            x += box.width + _GAP
        y += height + _LAYER_GAP
    for _ in range(_SWEEPS):
        for layer in layers[1:]:
            _settle(layer, [_mean_place(box.above, box) for box in layer])
        for layer in reversed(layers[:-1]):
            _settle(layer, [_mean_place(box.below, box) for box in layer])
    left = min((box.x - box.width / 2 for layer in layers for box in layer), default=0.0)
    for layer in layers:
        for box in layer:
            box.x += _MARGIN - left


def _settle(layer: list[_Box], wished: list[float]) -> None:
    """Move boxes toward their wishes: half of what pushing to the right gives, half of pushing to the left."""
    right, left = list(wished), list(wished)
    for i in range(1, len(layer)):
        right[i] = max(right[i], right[i - 1] + _distance(layer[i - 1], layer[i]))
    for i in reversed(range(len(layer) - 1)):
        left[i] = min(left[i], left[i + 1] - _distance(layer[i], layer[i + 1]))
    for box, low, high in zip(layer, left, right, strict=True):
        box.x = (low + high) / 2


def _distance(a: _Box, b: _Box) -> float:
    return (a.width + b.width) / 2 + _GAP


_STYLE: Final = """
    text { font: 11px Helvetica, Arial, sans-serif; text-anchor: middle; fill: #222 }
    .name { font-weight: bold }
    .shape { fill: #555 }
    .number { font-size: 9px; fill: #777 }
    rect { stroke: #555; rx: 6px }
    path { fill: none; stroke: #777; marker-end: url(#arrow) }
    .control { stroke-dasharray: 4 3 }
"""


def _drawn(layers: list[list[_Box]], edges: list[_Edge]) -> str:
    boxes = [box for layer in layers for box in layer]
    width = max((box.x + box.width / 2 for box in boxes), default=0.0) + _MARGIN
    height = max((box.bottom for box in boxes), default=0.0) + _MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"  <style>{_STYLE}  </style>",
        '  <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<polygon points="0,0 8,4 0,8" fill="#777"/></marker></defs>',
        '  <rect width="100%" height="100%" style="fill: white; stroke: none"/>',
    ]
    lines += (line for edge in edges for line in _drawn_edge(edge))
    lines += (line for box in boxes if box.node is not None for line in _drawn_box(box, box.node))
    return "\n".join((*lines, "</svg>", ""))


def _drawn_edge(edge: _Edge) -> Iterable[str]:
    first, *rest = edge.boxes
    x, y = first.x, first.bottom
    path = f"M{x:.1f},{y:.1f}"
    for box in rest:
        middle = (y + box.y) / 2
        path += f" C{x:.1f},{middle:.1f} {box.x:.1f},{middle:.1f} {box.x:.1f},{box.y:.1f}"
        x, y = box.x, box.bottom
        if box.node is None:
            path += f" V{y:.1f}"
    yield f'  <path class="{"control" if edge.is_control else "data"}" d="{path}"/>'
    if edge.index:
        yield f'  <text class="number" x="{first.x + 10:.1f}" y="{first.bottom + 11:.1f}">{edge.index}</text>'


def _drawn_box(box: _Box, node: NodeView) -> Iterable[str]:
    position = f'x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
    shapes = len(box.lines) - len(node.output_texts[:4])
    yield f"  <g><title>{_xml(_tooltip(node))}</title>"
    yield f'    <rect {position} fill="{_colour(node)}"/>'
    for i, line in enumerate(box.lines):
        kind = "name" if i == 0 else "shape" if i >= shapes else "op"
        y = box.y + _PADDING + _LINE * (i + 0.75)
        yield f'    <text class="{kind}" x="{box.x:.1f}" y="{y:.1f}">{_xml(line)}</text>'
    yield "  </g>"


def _tooltip(node: NodeView) -> str:
    attrs = [f"{name}: {value}" for name, value in (node.attrs or {}).items()]
    device = [f"device: {node.device}"] if node.device else []
    return " | ".join((f"{node.name} ({node.op})", *node.output_texts, *attrs, *device))


def _xml(text: str) -> str:
    return escape(_printable(text))
