"""Calls of a function library replaced by the functions' nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gradops.graph._errors import GraphDefError
from gradops.graph._registry import OPERATORS
from gradops.graph._schema import message_class
from gradops.graph._types import DataType
from gradops.graph._wire import wire_nodes

__all__ = ["CALLS", "Flattener", "identity", "needed", "unique", "without_calls"]

#: Operators whose attribute ``f`` is the function that they call.
CALLS: Final = ("PartitionedCall", "StatefulPartitionedCall")
#: A function that calls two others, which call two others, ...: 40 of these are more nodes than fit
#: anywhere. Flattened, a graph is at most so many times as large as its file, or 4 MiB, each node
#: counted as 256 bytes beside what it says.
_GROWTH: Final = 64
_GROWTH_BYTES: Final = 2**22
_NODE_BYTES: Final = 256
#: Functions within functions. Every level takes a walk through the whole graph.
_DEEPEST: Final = 100


class _Body(NamedTuple):
    nodes: list[Any]
    #: The tensors that it returns, as inputs name them, and their element types.
    results: list[str]
    types: list[int]
    #: Nodes that have to run in any case.
    controls: list[str]


class Flattener:
    """Takes the functions out of one graph.

    Parameters
    ----------
    library : FunctionDefLibrary
    size : int
        Of the file, in bytes.
    """

    def __init__(self, library: Any, size: int) -> None:
        self.functions = {str(function.signature.name): function for function in library.function}
        self._left = size * _GROWTH + _GROWTH_BYTES
        self._calls_of: dict[str, tuple[str, ...]] = {}

    def flatten(self, nodes: Iterable[Any], wanted: Sequence[str]) -> tuple[list[Any], list[str]]:
        """Return the NodeDefs that `wanted` needs, without calls, and what `wanted` is called among them.

        A call with one result becomes an Identity of its name. One with none or several becomes a
        NoOp of its name, and an Identity ``name/output_0`` for each result.
        """
        flat, wanted = needed(nodes, wanted), list(wanted)
        while calls := [node for node in flat if self._called(node) is not None]:
            replaced: dict[str, str] = {}
            called = {call.name for call in calls}
            flat = [node for node in flat if node.name not in called]
            for call in calls:
                flat += self._inlined(call, replaced)
            for node in flat:
                for i, text in enumerate(node.input):
                    node.input[i] = replaced.get(_canonical(text), text)
            wanted = [replaced.get(_canonical(text), text) for text in wanted]
            flat = needed(flat, wanted)
        return flat, wanted

    def function_graph(self, name: str, captures: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Return a function's body as a graph's NodeDefs, and the names of its results.

        Arguments become placeholders of their names, results identities of theirs.

        Parameters
        ----------
        name : str
        captures : sequence of NodeDef or None
            The constants that its last arguments always are; None for other captured things.
        """
        function = self.functions[name]
        arguments = function.signature.input_arg
        body = self._body(function, "", [[argument.name] for argument in arguments], {}, (), (name,))
        free = len(arguments) - len(captures)
        bound = [None] * free + list(captures)
        placeholders = [_argument_node(function, i, value) for i, value in enumerate(bound)]
        taken = {node.name for node in (*body.nodes, *placeholders)}
        results = [unique(result.name, taken) for result in function.signature.output_arg]
        identities = [identity(*triple) for triple in zip(results, body.results, body.types, strict=True)]
        return [*placeholders, *body.nodes, *identities], [*results, *body.controls]

    def _called(self, node: Any) -> str | None:
        """The function that a node calls, or None."""
        if node.op in self.functions:
            return str(node.op)
        if node.op in CALLS and "f" in node.attr:
            return str(node.attr["f"].func.name)
        return None

    def _inlined(self, call: Any, replaced: dict[str, str]) -> list[Any]:
        name = self._called(call)
        function = self.functions.get(name or "")
        if name is None or function is None:
            raise GraphDefError(f"Node {call.name!r} calls function {name!r}, which is not in the library")
        chain = self._calls_of.get(call.name, ())
        if name in chain:
            raise GraphDefError(f"function {name!r} calls itself: {' -> '.join((*chain, name))}")
        if len(chain) >= _DEEPEST:
            raise GraphDefError(
                f"functions call each other more than {_DEEPEST} levels deep: {', '.join(chain[:5])}, ..."
            )
        attrs = call.attr if call.op == name else call.attr["f"].func.attr
        data = [text for text in call.input if not text.startswith("^")]
        controls = [text for text in call.input if text.startswith("^")]
        arguments = _arguments(call.name, function, attrs, data)
        body = self._body(function, f"{call.name}/", arguments, attrs, controls, (*chain, name))
        return [*body.nodes, *_results(call.name, body, replaced)]

    def _body(
        self,
        function: Any,
        prefix: str,
        arguments: Sequence[Sequence[str]],
        attrs: Mapping[str, Any],
        controls: Sequence[str],
        chain: tuple[str, ...],
    ) -> _Body:
        """A copy of a function's nodes, their inputs written as in a graph.

        Parameters
        ----------
        prefix : str
            Of the nodes' names.
        arguments : sequence of sequences of str
            The tensors that are given for each argument, as inputs name them.
        attrs : Mapping
            The values of the function's own attributes.
        controls : sequence of str
            Control inputs for nodes that do not wait for another one of the body.
        chain : tuple of str
            This function and those that call it.
        """
        names = {argument.name: given for argument, given in zip(function.signature.input_arg, arguments, strict=True)}
        offsets = {node.name: self._offsets(node) for node in function.node_def}
        nodes = []
        for original in function.node_def:
            self._grow(original)
            node = message_class("NodeDef")()
            node.CopyFrom(original)
            node.name = prefix + original.name
            del node.input[:]
            node.input.extend(_graph_input(text, prefix, names, offsets) for text in original.input)
            if all(text.partition(":")[0].removeprefix("^") not in offsets for text in original.input):
                node.input.extend(controls)
            _move_controls_back(node)
            _substitute(node.attr, attrs)
            self._calls_of[node.name] = chain
            nodes.append(node)
        outputs = function.signature.output_arg
        returned = [_returned(function, output) for output in outputs]
        return _Body(
            nodes,
            [_graph_input(text, prefix, names, offsets) for text in returned],
            [_type(output, attrs) for output in outputs],
            [prefix + name for name in function.control_ret.values()],
        )

    def _grow(self, node: Any) -> None:
        self._left -= node.ByteSize() + _NODE_BYTES
        if self._left < 0:
            raise GraphDefError(
                f"flattened, the functions are more than {_GROWTH} times as large as their file: they call each other "
                "again and again"
            )

    def _offsets(self, node: Any) -> dict[str, int]:
        """Where each named result of a node begins among its outputs."""
        function = self.functions.get(node.op)
        if function is not None:
            return {output.name: i for i, output in enumerate(function.signature.output_arg)}
        offsets, start = {}, 0
        operator = OPERATORS.get(node.op)
        for output in operator.outputs if operator is not None else ():
            offsets[output.name] = start
            start += node.attr[output.count].i if output.count and output.count in node.attr else 1
        return offsets


def without_calls(message: Any) -> Any:
    """Return a GraphDef whose calls are replaced by their functions' nodes."""
    wire_nodes(message.node)  # refuses nodes that are not unique
    flattener = Flattener(message.library, message.ByteSize())
    nodes, _ = flattener.flatten(message.node, [node.name for node in message.node])
    result = message_class("GraphDef")(node=nodes)
    result.library.CopyFrom(message.library)
    result.versions.CopyFrom(message.versions)
    return result


def needed(nodes: Iterable[Any], wanted: Iterable[str]) -> list[Any]:
    """Return the NodeDefs that tensors or nodes need, in their order; names that do not exist are left out."""
    by_name = {node.name: node for node in nodes}
    found: set[str] = set()
    waiting = [_node_name(text) for text in wanted]
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in found:
            found.add(name)
            waiting += [_node_name(text) for text in by_name[name].input]
    return [node for name, node in by_name.items() if name in found]


def _node_name(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _canonical(text: str) -> str:
    return text if ":" in text or text.startswith("^") else f"{text}:0"


def _arguments(call: str, function: Any, attrs: Mapping[str, Any], given: Sequence[str]) -> list[list[str]]:
    """The tensors for each of a function's arguments, which may be lists."""
    arguments: list[list[str]] = []
    start = 0
    for argument in function.signature.input_arg:
        count = max(0, _length(argument, attrs))
        arguments.append(list(given[start : start + count]))
        start += count
    if start != len(given):
        names = ", ".join(argument.name for argument in function.signature.input_arg)
        raise GraphDefError(
            f"Node {call!r} calls {function.signature.name!r} with {len(given)} inputs, but its arguments are "
            f"{names or 'none'}"
        )
    return arguments


def _length(argument: Any, attrs: Mapping[str, Any]) -> int:
    if argument.number_attr:
        return int(attrs[argument.number_attr].i) if argument.number_attr in attrs else 0
    if argument.type_list_attr:
        return len(attrs[argument.type_list_attr].list.type) if argument.type_list_attr in attrs else 0
    return 1


def _graph_input(
    text: str, prefix: str, arguments: Mapping[str, Sequence[str]], offsets: Mapping[str, Mapping[str, int]]
) -> str:
    """A function's way to name a tensor, ``"node:output_name:0"`` or ``"argument"``, as a graph's."""
    name, *rest = text.removeprefix("^").split(":")
    if text.startswith("^"):
        source = arguments[name][0] if arguments.get(name) else prefix + name
        return "^" + _node_name(source)
    index = rest[-1] if rest and rest[-1].isdecimal() else "0"
    number = int(index[:10])
    if name in arguments:
        if number >= len(arguments[name]):
            raise GraphDefError(
                f"a function's argument {name!r} has {len(arguments[name])} tensors, no number {number}"
            )
        return arguments[name][number]
    number += offsets.get(name, {}).get(rest[0], 0) if rest else 0
    return f"{prefix}{name}:{number}" if number else prefix + name


def _move_controls_back(node: Any) -> None:
    inputs = sorted(node.input, key=lambda text: text.startswith("^"))
    del node.input[:]
    node.input.extend(inputs)


def _substitute(target: Any, attrs: Mapping[str, Any]) -> None:
    """Fill in the attributes that are the function's own."""
    for name in list(target):
        value = target[name]
        if value.WhichOneof("value") == "func":
            _substitute(value.func.attr, attrs)
        elif value.WhichOneof("value") == "placeholder" and value.placeholder in attrs:
            value.CopyFrom(attrs[value.placeholder])


def _returned(function: Any, output: Any) -> str:
    if output.number_attr or output.type_list_attr:
        raise GraphDefError(
            f"function {function.signature.name!r} returns a list, {output.name!r}: give it single results"
        )
    if output.name not in function.ret:
        raise GraphDefError(f"function {function.signature.name!r} has no node for its result {output.name!r}")
    return str(function.ret[output.name])


def _type(argument: Any, attrs: Mapping[str, Any]) -> int:
    if argument.type_attr:
        return int(attrs[argument.type_attr].type) if argument.type_attr in attrs else 0
    return int(argument.type)


def _results(call: str, body: _Body, replaced: dict[str, str]) -> Iterator[Any]:
    """The nodes that stand for a call's results, and for the call."""
    controls = [f"^{name}" for name in body.controls]
    if len(body.results) == 1:
        yield identity(call, body.results[0], body.types[0], controls)
        return
    taken = {node.name for node in body.nodes}
    for i, (result, dtype) in enumerate(zip(body.results, body.types, strict=True)):
        name = unique(f"{call}/output_{i}", taken)
        replaced[f"{call}:{i}"] = name
        controls.append(f"^{name}")
        yield identity(name, result, dtype)
    yield message_class("NodeDef")(name=call, op="NoOp", input=controls)


def unique(name: str, taken: set[str]) -> str:
    """Return `name`, or the first of name_1, name_2, ... that is not taken, and take it."""
    unique, count = name, 0
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    taken.add(unique)
    return unique


def identity(name: str, tensor: str, dtype: int, controls: Sequence[str] = ()) -> Any:
    """Return the NodeDef of an Identity."""
    node = message_class("NodeDef")(name=name, op="Identity", input=[tensor, *controls])
    node.attr["T"].type = dtype
    return node


def _argument_node(function: Any, i: int, constant: Any) -> Any:
    """The node that stands for a function's argument: a placeholder, or the constant that it always is."""
    argument = function.signature.input_arg[i]
    if argument.number_attr or argument.type_list_attr or argument.type_attr:
        raise GraphDefError(
            f"function {function.signature.name!r}: only a caller can say the type of its argument {argument.name!r}"
        )
    node = message_class("NodeDef")(name=argument.name, op="Placeholder")
    if constant is not None:
        node.CopyFrom(constant)
        node.name = argument.name
    elif argument.type == DataType.RESOURCE:
        node.op = "VarHandleOp"
    else:
        node.attr["dtype"].type = argument.type
        node.attr["shape"].shape.CopyFrom(_argument_shape(function, i))
    return node


def _argument_shape(function: Any, i: int) -> Any:
    if i in function.arg_attr and "_output_shapes" in function.arg_attr[i].attr:
        shapes = function.arg_attr[i].attr["_output_shapes"].list.shape
        if len(shapes) == 1:
            return shapes[0]
    return message_class("TensorShapeProto")(unknown_rank=True)
