"""The graph: nodes, and the handles `Operation` and `Output` that TensorFlow's C++ API gives its users."""

from __future__ import annotations

import operator as _operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gradops.errors import InvalidArgumentError
from gradops.graph import _folding
from gradops.graph._registry import operator_named
from gradops.graph._types import DataType
from gradops.ops._inference import Inference, Shape
from gradops.ops._operator import REQUIRED, Attr, Input, Operator

__all__ = ["Graph", "Node", "Operation", "Output", "canonical_attr", "flat_types"]

#: A file may claim any number of outputs; none real comes near this.
_LONGEST_LIST: Final = 1_000_000


class Node:
    """One node of a graph. It never changes; `Graph.add` makes it.

    Attributes
    ----------
    graph : Graph
    id : int
        Its place in the order of creation.
    name : str
    operator : Operator
        The description of what it computes.
    inputs : tuple of Output
        Data inputs, list inputs laid out flat.
    control_inputs : tuple of Node
        Nodes that must run before it.
    attrs : dict
        Every declared attribute, in the order of the description, then the undeclared ones. By kind:
        bool, int, float, str; a `DataType` for a type; a tuple of ints for a list(int); for a shape a
        tuple with None for an unknown size, or None; for a tensor a read-only NumPy array.
        Undeclared ones are str, tuple of str (``_class``), or whatever a reader put there.
    device, assigned_device : str
        The second is what `Scope.with_assigned_device` said; no file keeps it.
    dtypes : tuple of DataType
        Of the outputs.
    shapes : tuple of Shape
        Of the outputs, as far as known.
    """

    __slots__ = (
        "assigned_device",
        "attrs",
        "control_inputs",
        "device",
        "dtypes",
        "graph",
        "id",
        "inputs",
        "name",
        "operator",
        "shapes",
    )

    graph: Graph
    id: int
    name: str
    operator: Operator
    inputs: tuple[Output, ...]
    control_inputs: tuple[Node, ...]
    attrs: dict[str, Any]
    device: str
    assigned_device: str
    dtypes: tuple[DataType, ...]
    shapes: tuple[Shape, ...]

    @property
    def op(self) -> str:
        """TensorFlow's name of the operator."""
        return self.operator.name

    def output(self, index: int = 0) -> Output:
        """Return output number `index`; a wrong one is refused where it is used."""
        return Output(self, index)

    def __repr__(self) -> str:
        return f"<Node {self.name!r} {self.op}>"


class Operation:
    """A handle of a node. Two are equal if their nodes are the same; one of nothing has none."""

    __slots__ = ("_node",)

    def __init__(self, node: Node | None = None) -> None:
        self._node = _checked_node(node)

    def node(self) -> Node | None:
        """Return the node, or None if the operation was not built because of an error."""
        return self._node

    @property
    def name(self) -> str:
        """The node's name."""
        return self._existing.name

    @property
    def num_inputs(self) -> int:
        """How many tensors it takes; control inputs do not count."""
        return len(self._existing.inputs)

    @property
    def num_outputs(self) -> int:
        """How many tensors it makes."""
        return len(self._existing.dtypes)

    def input(self, index: int) -> Output:
        """Return the tensor that it takes as input number `index`."""
        return self._existing.inputs[index]

    def input_type(self, index: int) -> DataType:
        """Return the element type of input number `index`."""
        return self.input(index).type

    def output(self, index: int = 0) -> Output:
        """Return output number `index`."""
        return Output(self._existing, index)

    def output_type(self, index: int) -> DataType:
        """Return the element type of output number `index`."""
        return self._existing.dtypes[index]

    @property
    def _existing(self) -> Node:
        if self._node is None:
            raise InvalidArgumentError("this operation was not built: see the status of its scope")
        return self._node

    def __eq__(self, other: object) -> bool:
        return self._node is other._node if isinstance(other, Operation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        return "Operation()" if self._node is None else f"<Operation {self.name!r} {self._node.op}>"


class Output:
    """A tensor of a graph: one output of a node.

    Parameters
    ----------
    op : Operation or Node, optional
        What makes the tensor; without one, the output of nothing.
    index : int, default 0
        Which of its outputs. A wrong number is refused where the output is used, as in TensorFlow.
    """

    __slots__ = ("_index", "_node")

    def __init__(self, op: Operation | Node | None = None, index: int = 0) -> None:
        self._node = op.node() if isinstance(op, Operation) else _checked_node(op)
        self._index = index if type(index) is int else _operator.index(index)

    @property
    def op(self) -> Operation:
        """The operation that makes it."""
        return Operation(self._node)

    def node(self) -> Node | None:
        """Return the node that makes it, or None."""
        return self._node

    @property
    def index(self) -> int:
        """Which of the operation's outputs it is."""
        return self._index

    @property
    def type(self) -> DataType:
        """The element type."""
        node = self._checked
        return node.dtypes[self._index]

    @property
    def shape(self) -> Shape:
        """The sizes as far as known: None for an unknown one, or for the whole where the rank is unknown."""
        node = self._checked
        return node.shapes[self._index]

    @property
    def name(self) -> str:
        """``"node:index"``."""
        return f"{'' if self._node is None else self._node.name}:{self._index}"

    @property
    def _checked(self) -> Node:
        if self._node is None:
            raise InvalidArgumentError("this output belongs to no node: see the status of its scope")
        if not 0 <= self._index < len(self._node.dtypes):
            raise InvalidArgumentError(
                f"Attempt to add output {self._index} of {self._node.name}, not in range [0, {len(self._node.dtypes)})"
            )
        return self._node

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Output):
            return NotImplemented
        return self._node is other._node and self._index == other._index

    def __hash__(self) -> int:
        return hash((self._node, self._index))

    def __repr__(self) -> str:
        return "Output()" if self._node is None else f"<Output {self.name!r}>"


def _checked_node(node: Node | None) -> Node | None:
    if node is not None and not isinstance(node, Node):
        raise TypeError(f"expected a node, or None, not {node!r}")
    return node


class Graph:
    """Nodes in the order of their creation.

    Attributes
    ----------
    nodes : list of Node
    versions, library : object
        What a reader of TensorFlow's format found there and a writer puts back; None if there is nothing.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.versions: Any = None
        self.library: Any = None
        self._by_name: dict[str, Node] = {}
        self._values: dict[Output, npt.NDArray[Any] | None] = {}
        self._partial_values: dict[Output, npt.NDArray[Any] | None] = {}

    def find(self, name: str) -> Node | None:
        """Return the first node of that name."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def add(
        self,
        op: str,
        name: str,
        inputs: Sequence[Output] = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        control_inputs: Sequence[Node] = (),
        device: str = "",
    ) -> Node:
        """Add a node, checked as TensorFlow checks one, its shapes inferred.

        Parameters
        ----------
        op : str
            TensorFlow's name of the operator.
        name : str
            Not checked: a session does that, as in TensorFlow.
        inputs : sequence of Output
            Data inputs, lists laid out flat.
        attrs : Mapping, optional
            Declared attributes in any form that the kind takes; those with a default may be left away,
            T may not. Undeclared attributes are kept as they are.
        control_inputs : sequence of Node, optional
        device : str, optional

        Raises
        ------
        NotFoundError
            If there is no such operator.
        TypeError
            If the value of a declared attribute is of a wrong kind.
        InvalidArgumentError
            If an attribute is missing or not allowed, the number or types of the inputs are not what
            the operator declares, an input is an output that does not exist, an input or control input
            is of another graph, or the shape function refuses the inputs.
        """
        operator = operator_named(op)
        node = Node()
        node.graph, node.id, node.name, node.operator = self, len(self.nodes), name, operator
        node.inputs, node.control_inputs = tuple(inputs), tuple(control_inputs)
        node.device, node.assigned_device = device, ""
        node.attrs = _canonical_attrs(operator, attrs or {})
        self._check_inputs(node)
        node.dtypes = tuple(flat_types(operator.outputs, node.attrs))
        node.shapes = tuple(operator.infer(self._inference(node)))
        self.nodes.append(node)
        self._by_name.setdefault(name, node)
        return node

    def truncate(self, count: int) -> None:
        """Take the nodes from number `count` on away again. No handle of one may be used any more."""
        for node in self.nodes[count:]:
            if self._by_name.get(node.name) is node:
                del self._by_name[node.name]
        del self.nodes[count:]
        self._values.clear()
        self._partial_values.clear()

    def constant_value(self, output: Output) -> npt.NDArray[Any] | None:
        """Return the small tensor that `output` is known to hold whatever is fed, or None."""
        return _known(self._values, output, _folding.folded_inputs, _folding.constant_value)

    def partial_value(self, output: Output) -> npt.NDArray[Any] | None:
        """Return what is known of `output`, a few sizes: objects, None for an unknown one; None if nothing is."""
        return _known(self._partial_values, output, _folding.partial_inputs, _folding.partial_value)

    def constant_sizes(self, output: Output) -> Shape:
        """Return the shape that `output`, a vector of sizes, is known to describe; -1 is an unknown size."""
        sizes = self.partial_value(output)
        if sizes is None or sizes.ndim != 1:
            return None
        return tuple(None if size is None or size == -1 else int(size) for size in sizes)

    def _check_inputs(self, node: Node) -> None:
        count = sum(_count(tensor, node.attrs) for tensor in node.operator.inputs)
        if len(node.inputs) != count:
            raise InvalidArgumentError(f"node {node.name!r} ({node.op}) takes {count} inputs, got {len(node.inputs)}")
        expected = flat_types(node.operator.inputs, node.attrs)
        names = _flat_names(node.operator.inputs, node.attrs)
        for name, wanted, given in zip(names, expected, node.inputs, strict=True):
            dtype = given.type
            if dtype.base != wanted.base:
                raise InvalidArgumentError(
                    f"Input {name!r} passed {dtype.label} expected {wanted.label} while building node {node.name!r} "
                    f"({node.op})"
                )
            if given._checked.graph is not self:
                raise InvalidArgumentError(f"input {name!r} of node {node.name!r} is {given.name}, of another graph")
        for control in node.control_inputs:
            if control.graph is not self:
                raise InvalidArgumentError(f"node {node.name!r} is to run after {control.name!r}, of another graph")

    def _inference(self, node: Node) -> Inference:
        return Inference(
            node.op,
            tuple(given.shape for given in node.inputs),
            node.attrs,
            lambda i: self.constant_value(node.inputs[i]),
            lambda i: self.constant_sizes(node.inputs[i]),
            len(node.dtypes),
        )


_Known: TypeAlias = "npt.NDArray[Any] | None"


def _known(
    found: dict[Output, _Known],
    output: Output,
    needed: Callable[[Output], tuple[Output, ...]],
    compute: Callable[[Output], _Known],
) -> _Known:
    """Return what is known of `output`, after that of everything that it takes, each found once."""
    waiting = [output]  # no recursion: chains may be long
    while waiting:
        current = waiting[-1]
        missing = [] if current in found else [given for given in needed(current) if given not in found]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if current not in found:
            found[current] = compute(current)
    return found[output]


def _canonical_attrs(operator: Operator, given: Mapping[str, Any]) -> dict[str, Any]:
    attrs = {}
    for attr in operator.attrs:
        if attr.name in given:
            attrs[attr.name] = canonical_attr(operator.name, attr, given[attr.name])
        elif attr.default is REQUIRED:
            raise InvalidArgumentError(f"{operator.name}: attr {attr.name!r} is missing, and it has no default")
        else:
            attrs[attr.name] = DataType.of(attr.default) if attr.kind == "type" else attr.default
    declared = frozenset(attrs)
    return attrs | {name: value for name, value in given.items() if name not in declared}


def canonical_attr(op: str, attr: Attr, value: Any) -> Any:
    """Return the value of a declared attribute in the form that nodes hold.

    Raises
    ------
    TypeError
        If it is of a wrong kind.
    InvalidArgumentError
        If it is not allowed.
    """
    if attr.kind == "tensor" and isinstance(value, np.ndarray):
        return _frozen(value)
    if attr.kind != "type":
        return attr.check(op, value)
    dtype = DataType.of(value)
    if attr.allowed and dtype.base.label not in attr.allowed:
        raise InvalidArgumentError(
            f"{op}: value for attr {attr.name!r} of {dtype.label} is not in the list of allowed values: "
            f"{', '.join(attr.allowed)}"
        )
    return dtype


def _frozen(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `value` if nobody can write to it, through no array that it is a view of, or else a read-only copy."""
    owner: Any = value
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    if owner is None or isinstance(owner, bytes):
        return value
    copy = value.copy()
    copy.flags.writeable = False
    return copy


def _count(tensor: Input, attrs: Mapping[str, Any]) -> int:
    """How many tensors one declared input or output stands for."""
    if not tensor.count:
        return 1
    count: int = attrs[tensor.count]
    if not 0 <= count <= _LONGEST_LIST:
        raise InvalidArgumentError(f"attr {tensor.count!r} must be from 0 to {_LONGEST_LIST}, got {count}")
    return count


def flat_types(tensors: tuple[Input, ...], attrs: Mapping[str, Any]) -> Iterator[DataType]:
    """Yield the element types of declared inputs or outputs, lists laid out flat."""
    for tensor in tensors:
        dtype = attrs[tensor.type] if tensor.type in attrs else DataType[tensor.type.upper()]
        for _ in range(_count(tensor, attrs)):
            yield dtype


def _flat_names(tensors: tuple[Input, ...], attrs: Mapping[str, Any]) -> Iterator[str]:
    for tensor in tensors:
        for i in range(_count(tensor, attrs)):
            yield f"{tensor.name}[{i}]" if tensor.count else tensor.name
