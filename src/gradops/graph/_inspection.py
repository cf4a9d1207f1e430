"""Looking at graphs that may hold operators that are not implemented here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradops.graph._graphdef import Importer
from gradops.graph._scope import Scope
from gradops.graph._tensor_proto import MAX_SPLAT_BYTES, Allowance
from gradops.graph._view import NodeView, view_node
from gradops.graph._wire import wire_nodes

__all__ = ["view_graph_def"]


def view_graph_def(message: Any, *, max_splat_bytes: int = MAX_SPLAT_BYTES) -> list[NodeView]:
    """Return what is shown of a GraphDef, in the order of the file.

    Of a node whose operator is not implemented here, that is what the file says; what needs its
    results is shown with as much as is known without them.

    Raises
    ------
    GraphDefError
        If the message is refused for any other reason.
    """
    importer = Importer(message, Scope.new_root_scope(), {}, Allowance(max_splat_bytes), skips_unknown_ops=True)
    importer.run("")
    views = []
    for name, wire in wire_nodes(message.node).items():
        node = importer.nodes[name]
        written = NodeView(name, str(wire.proto.op), wire.inputs, wire.control_inputs, device=str(wire.proto.device))
        if node is None:
            views.append(replace(written, is_known=False))
        else:
            known = view_node(node)
            views.append(replace(written, outputs=known.outputs, attrs=known.attrs))
    return views
