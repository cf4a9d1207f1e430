"""Scopes: where nodes are added, what they are called, and the first error on the way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gradops.errors import GradopsError, InvalidArgumentError
from gradops.graph._graph import Graph, Node, Operation, Output

__all__ = ["CompositeOpScopes", "Scope", "check_scope"]

_COLOCATION = "loc:@"


class _Names:
    """The names in use on one level, of operations and child scopes alike."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """Return `name`, or the first of name_1, name_2, ... that is free; it counts as taken from then on."""
        taken = self.counters
        unique = name
        while unique in taken:
            taken[name] += 1
            unique = f"{name}_{taken[name]}"
        taken[unique] = 0
        return unique


@dataclass(eq=False)
class _Build:
    """What all scopes of one graph share."""

    graph: Graph = field(default_factory=Graph)
    error: GradopsError | None = None


@dataclass(eq=False)
class _SingleUse:
    is_used: bool = False


class CompositeOpScopes(NamedTuple):
    """Scopes for an operation that is made of several nodes."""

    child: Scope
    #: For the last of the nodes alone, which gets the name of the whole.
    last: Scope


@dataclass(frozen=True)
class Scope:
    """A place in a graph where nodes are added: a name prefix, and what every new node gets.

    Scopes are values. The methods that start with ``with_`` return a changed copy; all copies share
    one graph and one status. The first error while building is kept in the status, and from then on
    operations add nothing: a graph can be written down without a check after every line.

    >>> from gradops.graph import Scope, ops
    >>> root = Scope.new_root_scope()
    >>> x = ops.Placeholder(root.with_op_name("x"), "float")
    >>> ops.Neg(root.new_sub_scope("tower"), x).output.name
    'tower/Negate:0'
    """

    _build: _Build = field(repr=False)
    _path: str = ""
    _names: _Names = field(repr=False, default_factory=_Names)
    _op_name: str = ""
    _control_inputs: tuple[Node, ...] = ()
    _device: str = ""
    _assigned_device: str = ""
    _xla_cluster: str = ""
    _kernel_label: str = ""
    _colocation: frozenset[str] = frozenset()
    _exits_on_error: bool = False
    _single_use: _SingleUse | None = field(repr=False, default=None)

    @staticmethod
    def new_root_scope() -> Scope:
        """Return a scope of a new empty graph."""
        return Scope(_Build())

    # --- derived scopes ---

    def new_sub_scope(self, name: str) -> Scope:
        """Return a scope whose names begin with this one's and `name`, made unique; "" is the same level."""
        if not _text("name", name):
            return replace(self, _op_name="", _single_use=None)
        path = self._join(self._names.unique(name))
        return replace(self, _path=path, _names=_Names(), _op_name="", _single_use=None)

    def with_op_name(self, *fragments: object) -> Scope:
        """Return a scope whose next operations are called as `fragments`, joined as text, say.

        Without text, operations are called after their type.
        """
        return replace(self, _op_name="".join(map(str, fragments)))

    def with_control_dependencies(self, operations: Any) -> Scope:
        """Return a scope whose nodes run after `operations`, beside those that had to run before already.

        Parameters
        ----------
        operations : Operation, Output, an instance of an operator's class, or an iterable of them
        """
        nodes = (_node_of(operation) for operation in _listed(operations))
        added = [node for node in nodes if node is not None]
        return replace(self, _control_inputs=tuple(dict.fromkeys((*self._control_inputs, *added))))

    def with_no_control_dependencies(self) -> Scope:
        """Return a scope whose nodes wait for their inputs alone."""
        return replace(self, _control_inputs=())

    def with_device(self, device: str) -> Scope:
        """Return a scope that writes `device` on its nodes, as it is. It has no effect on where they run."""
        return replace(self, _device=_text("device", device))

    def with_assigned_device(self, device: str) -> Scope:
        """Return a scope that notes `device` as the assigned one, which no file keeps."""
        return replace(self, _assigned_device=_text("device", device))

    def with_xla_cluster(self, cluster: str) -> Scope:
        """Return a scope that writes the attribute ``_XlaCluster``."""
        return replace(self, _xla_cluster=_text("cluster", cluster))

    def with_kernel_label(self, label: str) -> Scope:
        """Return a scope that writes the attribute ``_kernel``."""
        return replace(self, _kernel_label=_text("label", label))

    def colocate_with(self, operation: Any) -> Scope:
        """Return a scope that writes the attribute ``_class``: its nodes belong beside `operation`'s."""
        node = _node_of(operation)
        if node is None:
            return self
        given = [name.removeprefix(_COLOCATION) for name in node.attrs.get("_class", (node.name,))]
        return replace(self, _colocation=self._colocation.union(given))

    def clear_colocation(self) -> Scope:
        """Return a scope without colocation."""
        return replace(self, _colocation=frozenset())

    def exit_on_error(self) -> Scope:
        """Return a scope where an error is raised at once. C++ ends the process instead."""
        return replace(self, _exits_on_error=True)

    def get_composite_op_scopes(self, name: str) -> CompositeOpScopes:
        """Return scopes for an operation that is made of several nodes, called `name` or by `with_op_name`.

        The second one names a single node, the last; another one is an `InvalidArgumentError` in the status.
        """
        if not (self._op_name or name):
            self.update_status(InvalidArgumentError("Cannot create composite op scopes with empty name"))
            return CompositeOpScopes(self, self)
        if self._single_use is not None:
            return CompositeOpScopes(replace(self, _path=self._op_name, _op_name="", _single_use=None), self)
        child = self.new_sub_scope(self._op_name or name)
        return CompositeOpScopes(child, replace(child, _op_name=child._path, _single_use=_SingleUse()))

    # --- status ---

    def ok(self) -> bool:
        """Whether no error has happened in any scope of this graph."""
        return self._build.error is None

    def status(self) -> GradopsError | None:
        """Return the first error, or None."""
        return self._build.error

    def update_status(self, error: GradopsError | None) -> None:
        """Keep `error` unless there is an older one; None changes nothing.

        Raises
        ------
        TypeError
            If it is no `GradopsError`.
        GradopsError
            `error` itself, if this scope exits on errors.
        """
        if error is None:
            return
        if not isinstance(error, GradopsError):
            raise TypeError(f"a status is an error of gradops.errors, or None, not {error!r}")
        if self._build.error is None:
            self._build.error = error
        if self._exits_on_error:
            raise error

    def raise_error(self) -> None:
        """Raise the first error if there is one."""
        if self._build.error is not None:
            raise self._build.error.with_traceback(None)  # or every raise would make it longer

    # --- the graph ---

    @property
    def graph(self) -> Graph:
        """The graph that nodes are added to."""
        return self._build.graph

    @property
    def control_inputs(self) -> tuple[Node, ...]:
        """The nodes that new ones run after."""
        return self._control_inputs

    @property
    def device(self) -> str:
        """The device that is written on new nodes."""
        return self._device

    def to_graph_def(self) -> Any:
        """Return the graph as a TensorFlow GraphDef message; needs the extra ``gradops[graph]``.

        Raises
        ------
        GradopsError
            The first error of the status.
        GraphDefError
            If a name or an attribute cannot be written.
        ImportError
            If protobuf is not installed.
        """
        self.raise_error()
        from gradops.graph._graphdef import to_graph_def  # protobuf is optional

        return to_graph_def(self.graph)

    def to_dot(self) -> str:
        """Return the graph as Graphviz source.

        Raises
        ------
        GradopsError
            The first error of the status.
        """
        from gradops.graph._picture import to_dot

        return to_dot(self)

    def to_svg(self) -> str:
        """Return the graph as an SVG picture.

        Raises
        ------
        GradopsError
            The first error of the status.
        InvalidArgumentError
            If the graph is too large for a picture: over 500 nodes, or too many edges.
        """
        from gradops.graph._picture import to_svg

        return to_svg(self)

    def unique_name_for_op(self, default: str) -> str:
        """Return the full name of the next operation, and count it as taken.

        Parameters
        ----------
        default : str
            What it is called if the scope has no name for it: its type.
        """
        if self._single_use is not None:
            if not self._op_name or self._single_use.is_used:
                self.update_status(InvalidArgumentError("Cannot get a unique name in this scope"))
                return ""
            self._single_use.is_used = True
            return self._op_name
        return self._join(self._names.unique(self._op_name or default))

    def add_node(
        self, op: str, default_name: str, inputs: Sequence[Output] = (), attrs: Mapping[str, Any] | None = None
    ) -> Node | None:
        """Add a node with everything that this scope gives; on an error keep it and return None."""
        name = self.unique_name_for_op(default_name)
        if not self.ok():
            return None
        try:
            node = self.graph.add(
                op,
                name,
                inputs,
                {**(attrs or {}), **self._scope_attrs()},
                control_inputs=self._control_inputs,
                device=self._device,
            )
        except GradopsError as error:
            self.update_status(error)
            return None
        node.assigned_device = self._assigned_device
        return node

    def reserve(self, path: str) -> str:
        """Count a name below this scope as taken, if it is not yet, and return it in full.

        Of ``"a/b"``, so does ``"a"``: a later sub scope of that name must not make a second ``"a/b"``.
        """
        for name in (path, path.partition("/")[0]):
            self._names.counters.setdefault(name, 0)
        return self._join(path)

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo what is added to the graph, and which names are taken here, if the block raises an error."""
        count, counters = len(self.graph), self._names.counters.copy()
        try:
            yield
        except BaseException:
            self.graph.truncate(count)
            self._names.counters = counters
            raise

    def _scope_attrs(self) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        if self._colocation:
            attrs["_class"] = tuple(_COLOCATION + name for name in sorted(self._colocation))
        if self._kernel_label:
            attrs["_kernel"] = self._kernel_label
        if self._xla_cluster:
            attrs["_XlaCluster"] = self._xla_cluster
        return attrs

    def _join(self, name: str) -> str:
        return f"{self._path}/{name}" if self._path and name else self._path + name


def check_scope(scope: Any) -> None:
    """Refuse anything that is no scope."""
    if not isinstance(scope, Scope):
        raise TypeError(f"expected a Scope, not {scope!r}")


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text for argument {what!r}, not {value!r}")
    return value


def _listed(operations: Any) -> Iterable[Any]:
    return operations if isinstance(operations, Iterable) else (operations,)


def _node_of(operation: Any) -> Node | None:
    if isinstance(operation, Node):
        return operation
    if isinstance(operation, (Operation, Output)):
        return operation.node()
    found = getattr(operation, "operation", None)
    if isinstance(found, Operation):
        return found.node()
    raise TypeError(f"expected an operation, not {operation!r}")
