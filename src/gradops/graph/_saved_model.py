"""Graphs out of TensorFlow's SavedModels, where operators sit in functions that call each other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gradops.graph._errors import GraphDefError, UnknownOpError
from gradops.graph._functions import Flattener, identity, unique
from gradops.graph._graphdef import import_graph_def
from gradops.graph._schema import message_class
from gradops.graph._scope import Scope
from gradops.graph._tensor_proto import MAX_SPLAT_BYTES
from gradops.graph._wire import message_from_bytes, message_from_text

__all__ = ["load_saved_model"]

_VARIABLES: Final = frozenset({"ReadVariableOp", "VarHandleOp", "VarIsInitializedOp", "Variable", "VariableV2"})


def load_saved_model(
    path: str | os.PathLike[str],
    function: str | None = None,
    tags: Iterable[str] | None = None,
    *,
    max_splat_bytes: int = MAX_SPLAT_BYTES,
) -> Scope:
    """Read a SavedModel as one graph without functions.

    Parameters
    ----------
    path : path
        The model's folder, or its ``saved_model.pb`` or ``saved_model.pbtxt``.
    function : str, optional
        What to read. The name of a signature, ``"serving_default"``: what its results need of the main
        graph, every call replaced by the function's nodes, and an identity for each result, of its
        name in the signature. The name of a function, in full
        (``"__inference_f_12"``) or as Python has it (``"f"``): its body, the arguments as
        placeholders (constants that it captured are constants) and the results as identities of the
        names in its signature, ``"identity"``, ``"identity_1"``. Without one: what
        all signatures need, or the whole main graph if there is no signature.
    tags : iterable of str, optional
        Which of several graphs; by default the one that is tagged ``serve`` alone, or the only one.
    max_splat_bytes : int, default 2**28
        See `import_graph_def`.

    Returns
    -------
    Scope
        The root scope of a new graph. A call with one result has become an Identity of its name, so
        that ``"StatefulPartitionedCall:0"`` is still what the signature says; of one with several,
        result number 1 is ``"StatefulPartitionedCall/output_1:0"``.

    Raises
    ------
    OSError
        If there is no such file.
    GraphDefError
        If it is no SavedModel; there is no such function, signature or graph of these tags; functions
        call themselves or, flattened, grow without end; or `import_graph_def` refuses the result.
    UnknownOpError
        If what is left has an operator that is not implemented here. Variables are the usual ones: their
        values are in other files, in a format of their own, which is not read. Freeze such a model
        first, with TensorFlow's ``convert_variables_to_constants_v2``, and use `load_graph`.
    ImportError
        If protobuf is not installed.
    """
    data, model = _read(Path(path))
    meta_graph = _meta_graph(model, None if tags is None else frozenset(tags))
    graph_def = meta_graph.graph_def
    flattener = Flattener(graph_def.library, len(data))
    nodes, wanted = _wanted(meta_graph, flattener, function)
    flat, _ = flattener.flatten(nodes, wanted)
    _check_variables(flat)
    result = message_class("GraphDef")(node=flat)
    result.versions.CopyFrom(graph_def.versions)
    scope = Scope.new_root_scope()
    import_graph_def(result, scope, max_splat_bytes=max_splat_bytes)
    return scope


def _read(path: Path) -> tuple[bytes, Any]:
    if path.is_dir():
        text = path / "saved_model.pbtxt"
        path = text if text.exists() else path / "saved_model.pb"
    data = path.read_bytes()
    parse = message_from_text if path.suffix == ".pbtxt" else message_from_bytes
    return data, parse("SavedModel", data)


def _meta_graph(model: Any, tags: frozenset[str] | None) -> Any:
    if model.saved_model_schema_version != 1:
        raise GraphDefError(f"not a SavedModel of version 1, but of {model.saved_model_schema_version}")
    graphs = {frozenset(graph.meta_info_def.tags): graph for graph in model.meta_graphs}
    if tags is None:
        tags = next(iter(graphs)) if len(graphs) == 1 else frozenset({"serve"})
    if tags not in graphs:
        listed = ", ".join(sorted(str(sorted(found)) for found in graphs)) or "none"
        raise GraphDefError(f"the SavedModel has no graph of tags {sorted(tags)}; there are {listed}")
    return graphs[tags]


def _wanted(meta_graph: Any, flattener: Flattener, function: str | None) -> tuple[Sequence[Any], list[str]]:
    """The nodes to begin with, and what is wanted of them."""
    nodes, signatures = meta_graph.graph_def.node, meta_graph.signature_def
    if function is None:
        chosen = list(signatures.values())
        return nodes, _signature_tensors(chosen) if chosen else [node.name for node in nodes]
    if function in signatures:
        signature = signatures[function]
        results = _named_results(signature.outputs, {node.name for node in nodes})
        return [*nodes, *results], [*_signature_tensors([signature]), *(node.name for node in results)]
    name = _function_name(meta_graph, flattener.functions, function)
    body, results = flattener.function_graph(name, _captures(meta_graph, name, flattener.functions[name]))
    arguments = [node.name for node in body if node.op == "Placeholder"]
    return body, arguments + results


def _named_results(outputs: Mapping[str, Any], taken: set[str]) -> list[Any]:
    """A signature's results under their names in the signature."""
    return [
        identity(unique(name, taken), tensor.name, tensor.dtype)
        for name, tensor in sorted(outputs.items())
        if tensor.dtype
    ]


def _signature_tensors(signatures: Iterable[Any]) -> list[str]:
    return [
        tensor.name
        for signature in signatures
        for tensors in (signature.inputs, signature.outputs)
        for tensor in tensors.values()
    ]


def _captures(meta_graph: Any, name: str, function: Any) -> list[Any]:
    """The nodes of the main graph that a function's last arguments are bound to; None for what is no constant."""
    objects = meta_graph.object_graph_def
    if name not in objects.concrete_functions:
        return []
    bound = objects.concrete_functions[name].bound_inputs[: len(function.signature.input_arg)]
    constants = {node.name: node for node in meta_graph.graph_def.node if node.op == "Const"}
    known = {i: constants.get(entry.constant.operation) for i, entry in enumerate(objects.nodes)}
    return [known.get(i) for i in bound]


def _function_name(meta_graph: Any, functions: Iterable[str], asked: str) -> str:
    """The full name of the function that is meant."""
    aliases = meta_graph.meta_info_def.function_aliases
    pattern = re.compile(rf"__inference_{re.escape(asked)}_\d+")
    found = [name for name in functions if name == asked]
    found = found or [name for name in functions if name in aliases and aliases[name] == asked]
    found = found or [name for name in functions if pattern.fullmatch(name)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found or [*functions, *meta_graph.signature_def])
    problem = f"several functions {asked!r}" if found else f"no function or signature {asked!r}"
    raise GraphDefError(f"the SavedModel has {problem}; give one of {listed or 'none'}")


def _check_variables(nodes: Sequence[Any]) -> None:
    variables = [node.name for node in nodes if node.op in _VARIABLES]
    if variables:
        raise UnknownOpError(
            f"the model reads variables ({', '.join(variables[:3])}), whose values lie in other files that are not "
            "read. Freeze it in TensorFlow first, with convert_variables_to_constants_v2, and read the result "
            "with load_graph"
        )
