"""``gradops graph show``: what is in a file of TensorFlow's graphs."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradops.cli._common import CommandError, require_extras

if TYPE_CHECKING:
    from gradops.graph._view import NodeView

__all__ = ["DESCRIPTION", "HELP", "add_arguments", "run"]

HELP = "show the nodes of a TensorFlow graph"
DESCRIPTION = "Look into TensorFlow's graph files, without TensorFlow."

_WIDEST = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    show = parser.add_subparsers(dest="action", metavar="action", required=True).add_parser(
        "show",
        help="print nodes, shapes and element types",
        description="Print the nodes of a graph with what is known of their shapes, as a table.",
    )
    show.add_argument("file", type=Path, help="a GraphDef (.pb, or .pbtxt as text), or a SavedModel's folder")
    show.add_argument("--function", help="signature or function of a SavedModel; by default all signatures")
    show.add_argument("--json", action="store_true", help="print JSON, which needs no optional package but protobuf")
    show.add_argument("--dot", type=Path, metavar="OUT", help="write Graphviz source instead")
    show.add_argument("--svg", type=Path, metavar="OUT", help="write an SVG picture instead")


def run(options: argparse.Namespace) -> None:
    """Print the table or JSON, or write pictures."""
    nodes, facts = _read(options.file, options.function)
    if options.dot or options.svg:
        _write_pictures(nodes, options.dot, options.svg)
    elif options.json:
        print(json.dumps({**facts, "nodes": [_as_dict(node) for node in nodes]}, indent=2))
    else:
        require_extras("rich")
        _print_table(options.file, nodes, facts)


def _read(path: Path, function: str | None) -> tuple[list[NodeView], dict[str, Any]]:
    """The nodes in a file, and what else there is to say about it.

    `gradops.graph` is imported here, so that other commands start without it.
    """
    try:
        if path.is_dir() or path.name.startswith("saved_model.pb"):
            from gradops.graph._saved_model import load_saved_model
            from gradops.graph._view import view

            return view(load_saved_model(path, function)), {}
        if function is not None:
            raise CommandError("--function is for a SavedModel, which is a folder")
        from gradops.graph._graphdef import read_graph_def
        from gradops.graph._inspection import view_graph_def

        message = read_graph_def(path)
        functions = [function.signature.name for function in message.library.function]
        return view_graph_def(message), {"producer": message.versions.producer, "functions": functions}
    except (OSError, ImportError) as error:
        raise CommandError(str(error)) from error


def _as_dict(node: NodeView) -> dict[str, Any]:
    return {
        "name": node.name,
        "op": node.op,
        "is_known": node.is_known,
        "inputs": list(node.input_texts),
        "outputs": [{"dtype": dtype, "shape": shape} for dtype, shape in node.outputs],
        "attrs": dict(node.attrs or {}),
        "device": node.device,
    }


def _write_pictures(nodes: list[NodeView], dot: Path | None, svg: Path | None) -> None:
    from gradops.graph._picture import dot_of, svg_of

    for path, draw in ((dot, dot_of), (svg, svg_of)):
        if path is not None:
            try:
                path.write_text(draw(nodes), "utf-8")
            except OSError as error:
                raise CommandError(f"{path} cannot be written: {error}") from error


def _print_table(path: Path, nodes: list[NodeView], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=path.name, title_justify="left", caption_justify="left", caption=_caption(nodes, facts))
    for column in ("name", "operator", "inputs", "outputs"):
        table.add_column(column, overflow="fold")
    for node in nodes:
        op = node.op if node.is_known else f"{node.op} (unknown)"
        table.add_row(node.name, op, "\n".join(node.input_texts), "\n".join(node.output_texts))
    console = Console(file=sys.stdout, highlight=False, markup=False)
    if not console.is_terminal:  # a file or a pipe takes lines of any length
        console.width = Console(width=_WIDEST).measure(table).maximum
    console.print(table)


def _caption(nodes: list[NodeView], facts: dict[str, Any]) -> str:
    parts = [f"{len(nodes)} nodes of {len(Counter(node.op for node in nodes))} operators"]
    if facts.get("producer"):
        parts.append(f"producer {facts['producer']}")
    if facts.get("functions"):
        parts.append(f"{len(facts['functions'])} functions")
    return ", ".join(parts)
