"""Graphs of TensorFlow's operators, built as TensorFlow's C++ API builds them, and run here.

A `Scope` collects nodes, `ops` has a class for each operator, `ClientSession` runs what was built,
`add_symbolic_gradients` differentiates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradops.graph import ops
from gradops.graph._errors import GraphDefError, UnknownOpError
from gradops.graph._gradients import add_symbolic_gradients
from gradops.graph._graph import Graph, Node, Operation, Output
from gradops.graph._scope import CompositeOpScopes, Scope
from gradops.graph._session import ClientSession
from gradops.graph._types import DataType

if TYPE_CHECKING:
    from gradops.graph._graphdef import import_graph_def, load_graph, save_graph
    from gradops.graph._picture import to_dot, to_svg
    from gradops.graph._saved_model import load_saved_model

__all__ = [
    "ClientSession",
    "CompositeOpScopes",
    "DataType",
    "Graph",
    "GraphDefError",
    "Node",
    "Operation",
    "Output",
    "Scope",
    "UnknownOpError",
    "add_symbolic_gradients",
    "import_graph_def",
    "load_graph",
    "load_saved_model",
    "ops",
    "save_graph",
    "to_dot",
    "to_svg",
]

#: Imported on first use: all but the pictures need protobuf, which is optional.
_LAZY = {
    "import_graph_def": "_graphdef",
    "load_graph": "_graphdef",
    "save_graph": "_graphdef",
    "load_saved_model": "_saved_model",
    "to_dot": "_picture",
    "to_svg": "_picture",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"gradops.graph.{_LAZY[name]}"), name)
