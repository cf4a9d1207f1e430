"""Graphs from and to TensorFlow's GraphDef: messages, ``.pb`` and ``.pbtxt`` files.

Not kept from a file: debug information, full types, names of axes, the order of nodes that come
before what they depend on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradops.errors import GradopsError, NotFoundError
from gradops.graph._attr_values import attrs_from_proto, attrs_to_proto
from gradops.graph._building import as_output
from gradops.graph._errors import GraphDefError, UnknownOpError
from gradops.graph._functions import CALLS, without_calls
from gradops.graph._graph import Graph, Node, Operation, Output, flat_types
from gradops.graph._registry import operator_named
from gradops.graph._schema import message_class, protobuf
from gradops.graph._scope import Scope, check_scope
from gradops.graph._tensor_proto import MAX_SPLAT_BYTES, Allowance
from gradops.graph._wire import (
    PRODUCER,
    Tensor,
    WireNode,
    check_versions,
    message_from_bytes,
    message_from_text,
    sorted_nodes,
    tensor_named,
    wire_nodes,
)
from gradops.ops._operator import Operator

__all__ = ["Importer", "import_graph_def", "load_graph", "read_graph_def", "save_graph", "to_graph_def"]

_TEXT_SUFFIXES = (".pbtxt", ".prototxt", ".txt", ".textproto")
#: Protobuf in C++ reads no more. In Python it writes any number.
_MOST_BYTES = 2**31 - 1
#: What the nodes of a file may claim to have; a few bytes can claim a million.
_MOST_OUTPUTS = 2**22
#: Before this producer, a placeholder of unknown shape was written as a scalar.
_SCALAR_PLACEHOLDERS = 22


# --- writing ---


def save_graph(scope: Scope, path: str | os.PathLike[str]) -> None:
    """Write a scope's graph into a file that TensorFlow opens.

    Parameters
    ----------
    scope : Scope
        Any scope of the graph.
    path : path
        ``.pbtxt`` (also ``.prototxt``, ``.textproto``, ``.txt``) is protobuf's text form, anything else its
        binary form, the same bytes on every run.

    Raises
    ------
    GradopsError
        The first error of the scope's status.
    GraphDefError
        If the graph takes 2 GiB or more, which TensorFlow does not read.
    OSError
        If the file cannot be written.
    TypeError
        If `scope` is none.
    ImportError
        If protobuf is not installed.
    """
    check_scope(scope)
    path = Path(path)
    message = scope.to_graph_def()
    if path.suffix in _TEXT_SUFFIXES:
        path.write_text(protobuf("text_format").MessageToString(message), "utf-8")
        return
    data = message.SerializeToString(deterministic=True)
    if len(data) > _MOST_BYTES:
        raise GraphDefError(
            f"the graph takes {len(data)} bytes, but TensorFlow reads at most {_MOST_BYTES}. Feed large tensors"
        )
    path.write_bytes(data)


def to_graph_def(graph: Graph) -> Any:
    """Return a graph as a GraphDef message: nodes in the order of creation, every attribute of each."""
    message = message_class("GraphDef")()
    for node in graph:
        _write_node(node, message.node.add())
    message.library.SetInParent()
    if graph.library is not None:
        message.library.CopyFrom(graph.library)
    message.versions.CopyFrom(_versions(graph))
    return message


def _versions(graph: Graph) -> Any:
    return graph.versions if graph.versions is not None else message_class("VersionDef")(producer=PRODUCER)


def _write_node(node: Node, proto: Any) -> None:
    try:
        _fill_in(node, proto)
    except ValueError as error:  # a text with lone surrogates, an integer of more than 64 bits
        raise GraphDefError(f"node {node.name!r} ({node.op}) cannot be written: {error}") from error


def _fill_in(node: Node, proto: Any) -> None:
    proto.name, proto.op, proto.device = node.name, node.op, node.device
    proto.input.extend(_input_text(given) for given in node.inputs)
    proto.input.extend(f"^{given.name}" for given in node.control_inputs)
    attrs_to_proto(node, proto.attr)


def _input_text(given: Output) -> str:
    return given.name.removesuffix(":0")


# --- reading ---


def load_graph(
    path: str | os.PathLike[str], *, inline_functions: bool = False, max_splat_bytes: int = MAX_SPLAT_BYTES
) -> Scope:
    """Read a GraphDef that TensorFlow or `save_graph` wrote.

    Parameters
    ----------
    path : path
        A binary file, or one in the text form: then it ends in ``.pbtxt``, ``.prototxt``,
        ``.textproto`` or ``.txt``.
    inline_functions : bool, default False
    max_splat_bytes : int, default 2**28
        See `import_graph_def`.

    Returns
    -------
    Scope
        The root scope of a new graph; what is added to it gets names that the file does not have.

    Raises
    ------
    OSError
        If the file cannot be read.
    GraphDefError
        If it is no GraphDef, or one that `import_graph_def` refuses.
    ImportError
        If protobuf is not installed.

    Notes
    -----
    A SavedModel is another kind of file: `load_saved_model` reads it.

    Examples
    --------
    >>> import tempfile
    >>> from gradops.graph import ClientSession, Scope, load_graph, ops, save_graph
    >>> root = Scope.new_root_scope()
    >>> double = ops.Add(root.with_op_name("y"), [1, 2], [1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_graph(root, f"{folder}/double.pb")
    ...     loaded = load_graph(f"{folder}/double.pb")
    >>> ClientSession(loaded).run(["y"])
    [array([2, 4], dtype=int32)]
    """
    scope = Scope.new_root_scope()
    import_graph_def(read_graph_def(path), scope, inline_functions=inline_functions, max_splat_bytes=max_splat_bytes)
    return scope


def read_graph_def(path: str | os.PathLike[str]) -> Any:
    """Return the GraphDef message in a file, unchecked."""
    path = Path(path)
    if path.is_dir() or path.name.startswith("saved_model.pb"):
        raise GraphDefError(f"{path} is a SavedModel, not a GraphDef: read it with load_saved_model")
    data = path.read_bytes()
    if path.suffix in _TEXT_SUFFIXES:
        return message_from_text("GraphDef", data)
    return _graph_def_from_bytes(data)


def _graph_def_from_bytes(data: bytes) -> Any:
    message = message_from_bytes("GraphDef", data)
    if data and not message.node:
        known = message_class("GraphDef")()
        known.CopyFrom(message)
        known.DiscardUnknownFields()
        if known.ByteSize() < len(data) // 2:  # an ONNX model, for one
            raise GraphDefError(f"the {len(data)} bytes have no node of a GraphDef: they are some other message")
    return message


def import_graph_def(
    graph_def: Any,
    scope: Scope,
    *,
    prefix: str = "",
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] = (),
    inline_functions: bool = False,
    max_splat_bytes: int = MAX_SPLAT_BYTES,
) -> list[Operation | Output]:
    """Add the nodes of a GraphDef to a scope.

    Parameters
    ----------
    graph_def : GraphDef or bytes
        TensorFlow's message, ours, or the bytes of one.
    scope : Scope
        Where they go. Its control dependencies hold for nodes that have no input; its device, for nodes
        that have none.
    prefix : str, optional
        A sub scope for them, its name made unique: ``"import"``, ``"import_1"``. Without one, names are as in the file,
        below the scope's own path.
    input_map : Mapping, optional
        Tensors of the file, ``"x"`` or ``"split:1"``, to be replaced -> tensors of the scope's graph, as
        outputs, operations or operators' instances.
    return_elements : sequence of str, optional
        What to return: ``"y:0"`` is an output, ``"y"`` an operation, as the file names them.
    inline_functions : bool, default False
        Replace calls of functions in the file's library by the functions' nodes. Calls cannot be run
        here. One with one result becomes an Identity of its name; of one with several, result number 1
        becomes ``"call/output_1"``.
    max_splat_bytes : int, default 2**28
        How much memory constants may take that the file gives as one value repeated. A file of a few
        bytes could ask for any amount.

    Returns
    -------
    list of Operation or Output
        In the order of `return_elements`.

    Raises
    ------
    GraphDefError
        If the message is refused: names, inputs, devices and versions that are malformed, unknown or
        not unique, cycles, missing or wrong attributes, constants whose content does not fit their
        shape, inputs that an operator does not take. Nothing has been added then.
    UnknownOpError
        If a node is of an operator that is not implemented here. It is a `GraphDefError`, too.
    GradopsError
        The first error of the scope's status.
    TypeError
        If `graph_def` is no message, `scope` no scope, or `input_map` has something else than tensors.
    ImportError
        If protobuf is not installed.
    """
    check_scope(scope)
    scope.raise_error()
    message = _as_message(graph_def)
    if inline_functions:
        message = without_calls(message)
    importer = Importer(message, scope, input_map or {}, Allowance(max_splat_bytes))
    importer.run(prefix)
    return [importer.element(name) for name in return_elements]


def _as_message(graph_def: Any) -> Any:
    if isinstance(graph_def, message_class("GraphDef")):
        return graph_def
    if isinstance(graph_def, (bytes, bytearray, memoryview)):
        return _graph_def_from_bytes(bytes(graph_def))
    if not hasattr(graph_def, "SerializeToString"):
        raise TypeError(f"graph_def must be a GraphDef message or its bytes, not {type(graph_def).__qualname__}")
    return _graph_def_from_bytes(graph_def.SerializeToString())


class Importer:
    """One import. `nodes` has what became of each name of the file.

    Parameters
    ----------
    message : GraphDef
    scope : Scope
    input_map : Mapping
    allowance : Allowance
    skips_unknown_ops : bool, default False
        To look at a graph that cannot be run: nodes of unknown operators become None, and what
        needs one gets a placeholder instead.
    """

    def __init__(
        self,
        message: Any,
        scope: Scope,
        input_map: Mapping[str, Any],
        allowance: Allowance,
        *,
        skips_unknown_ops: bool = False,
    ) -> None:
        check_versions(message.versions)
        self._message = message
        self._scope = scope
        self._allowance = allowance
        self._skips_unknown_ops = skips_unknown_ops
        self._replaced = {_tensor(name): _given_output(name, value) for name, value in input_map.items()}
        self._wire = wire_nodes(message.node)
        self._order = sorted_nodes(self._wire, self._replaced.__contains__)
        self.nodes: dict[str, Node | None] = {}

    def run(self, prefix: str) -> None:
        """Add everything, or nothing and raise an error."""
        self._check_replaced()
        graph = self._scope.graph
        library = _merged_library(graph.library, self._message.library)
        count = len(graph)
        with self._scope.all_or_nothing():
            self._add_all(prefix)
        graph.library = library
        graph.versions = _merged_versions(_versions(graph) if count else None, self._message.versions)

    def element(self, name: str) -> Operation | Output:
        """Return what the file calls `name`: ``"y:0"`` is an output, ``"y"`` an operation."""
        tensor = _tensor(name)
        node = self.nodes.get(tensor.node)
        if node is None or tensor.output >= max(1, len(node.dtypes)):
            raise GraphDefError(f"Requested return element {name!r} not found in the graph")
        return Output(node, tensor.output) if ":" in name else Operation(node)

    def _check_replaced(self) -> None:
        used = {tensor for node in self._order for tensor in node.inputs}
        unused = [f"{tensor.node}:{tensor.output}" for tensor in self._replaced if tensor not in used]
        if unused:
            raise GraphDefError(f"Attempted to map inputs that were not found in graph_def: {', '.join(unused)}")

    def _add_all(self, prefix: str) -> None:
        target = self._scope.new_sub_scope(prefix)
        outputs = 0
        for wire in self._order:
            try:
                node = self.nodes[wire.name] = self._add(target, wire)
            except NotFoundError as error:
                raise UnknownOpError(f"Node {wire.name!r}: {self._unknown(wire.proto.op, error)}") from error
            except (GradopsError, TypeError) as error:
                raise GraphDefError(f"Node {wire.name!r} ({wire.proto.op}): {error}") from error
            outputs += 0 if node is None else len(node.dtypes)
            if outputs > _MOST_OUTPUTS:
                raise GraphDefError(f"the nodes up to {wire.name!r} have more than {_MOST_OUTPUTS} outputs in all")

    def _unknown(self, op: str, error: NotFoundError) -> str:
        if op in CALLS or any(function.signature.name == op for function in self._message.library.function):
            return f"{op} calls a function. Give inline_functions=True to put the function's nodes in its place"
        return str(error)

    def _add(self, target: Scope, wire: WireNode) -> Node | None:
        try:
            operator = operator_named(wire.proto.op)
        except NotFoundError:
            if self._skips_unknown_ops:
                return None
            raise
        attrs = attrs_from_proto(operator, wire.proto.attr, self._allowance)
        if operator.name == "Placeholder" and self._message.versions.producer < _SCALAR_PLACEHOLDERS:
            attrs["shape"] = attrs.get("shape") or None
        name = target.reserve(wire.name)
        if target.graph.find(name) is not None:
            raise GraphDefError(f"Node name {name!r} already exists in the graph. Give a prefix")
        return target.graph.add(
            operator.name,
            name,
            self._inputs(wire, operator, attrs),
            attrs,
            control_inputs=self._control_inputs(target, wire),
            device=wire.proto.device or target.device,
        )

    def _inputs(self, wire: WireNode, operator: Operator, attrs: Mapping[str, Any]) -> list[Output]:
        inputs = [self._replaced[tensor] if tensor in self._replaced else self._made(tensor) for tensor in wire.inputs]
        if None in inputs:
            inputs = self._stand_ins(operator, attrs, inputs)
        return [given for given in inputs if given is not None]

    def _made(self, tensor: Tensor) -> Output | None:
        node = self.nodes[tensor.node]
        return None if node is None else Output(node, tensor.output)

    def _stand_ins(
        self, operator: Operator, attrs: Mapping[str, Any], inputs: list[Output | None]
    ) -> list[Output | None]:
        """Replace the results of unknown operators by placeholders of the types that are due."""
        known = {**{attr.name: attr.default for attr in operator.attrs}, **attrs}
        filled = list(inputs)
        for i, dtype in zip(range(len(inputs)), flat_types(operator.inputs, known), strict=False):
            if filled[i] is None:
                filled[i] = Output(self._scope.graph.add("Placeholder", "", attrs={"dtype": dtype}))
        return filled

    def _control_inputs(self, target: Scope, wire: WireNode) -> list[Node]:
        if not wire.inputs and not wire.control_inputs:
            return list(target.control_inputs)
        return [node for name in wire.control_inputs if (node := self.nodes[name]) is not None]


def _tensor(name: str) -> Tensor:
    tensor = tensor_named(name)
    if tensor is None:
        raise GraphDefError(f"{name!r} names no tensor: give 'name' or 'name:1'")
    return tensor


def _given_output(name: str, value: Any) -> Output:
    output = as_output(value)
    if output is None:
        raise TypeError(f"input_map[{name!r}] must be an output of the scope's graph, not {value!r}")
    return output


def _merged_versions(old: Any, new: Any) -> Any:
    """The versions of a graph that has nodes of both, as TensorFlow's import merges them."""
    merged = message_class("VersionDef")()
    merged.CopyFrom(new)
    if old is not None:
        merged.producer = min(old.producer, new.producer)
        merged.min_consumer = max(old.min_consumer, new.min_consumer)
        del merged.bad_consumers[:]
        merged.bad_consumers.extend(sorted({*old.bad_consumers, *new.bad_consumers}))
    return merged


def _merged_library(old: Any, new: Any) -> Any:
    """The functions of both.

    Raises
    ------
    GraphDefError
        If two functions are different and have the same name.
    """
    merged = message_class("FunctionDefLibrary")()
    if old is not None:
        merged.CopyFrom(old)
    known = {function.signature.name: function for function in merged.function}
    for function in new.function:
        name = function.signature.name
        if name not in known:
            merged.function.add().CopyFrom(function)
        elif known[name] != function:
            raise GraphDefError(f"Cannot add function {name!r}: a different function with the same name already exists")
    for field in ("gradient", "registered_gradients"):
        present = {item.SerializeToString() for item in getattr(merged, field)}
        getattr(merged, field).extend(item for item in getattr(new, field) if item.SerializeToString() not in present)
    return merged
