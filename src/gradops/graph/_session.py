"""Running a graph."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gradops.errors import GradopsError, InvalidArgumentError, OutOfRangeError, ResourceExhaustedError
from gradops.graph import _constants
from gradops.graph._building import as_output
from gradops.graph._folding import compute_attrs
from gradops.graph._graph import Graph, Node, Operation, Output
from gradops.graph._scope import Scope, check_scope
from gradops.graph._wire import DEVICE, NODE_NAME, tensor_named

__all__ = ["ClientSession"]

_Array = npt.NDArray[Any]

_MOST_PLANS: Final = 128


class ClientSession:
    """Computes tensors of a scope's graph.

    Parameters
    ----------
    scope : Scope
        Any scope of the graph. Nodes that are added later can be run, too.

    Notes
    -----
    What feeds and fetches need is planned once and remembered for the next run with the same ones.
    Nodes run one after another, in the order of their creation, in the caller's thread: the
    kernels have threads of their own, which two heavy nodes at once would only share. Runs may
    overlap, from many threads.

    Examples
    --------
    >>> from gradops.graph import ClientSession, Scope, ops
    >>> root = Scope.new_root_scope()
    >>> x = ops.Placeholder(root.with_op_name("x"), "float")
    >>> y = ops.Mul(root, x, 2.0)
    >>> ClientSession(root).run({x: [1, 2, 3]}, [y])
    [array([2., 4., 6.], dtype=float32)]
    """

    def __init__(self, scope: Scope) -> None:
        check_scope(scope)
        self._scope = scope
        self._checked = 0
        self._plans: dict[Any, _Plan] = {}

    def run(
        self,
        feeds: Mapping[Any, Any] | Sequence[Any] | None = None,
        fetches: Sequence[Any] = (),
        targets: Sequence[Any] = (),
    ) -> list[Any]:
        """Compute tensors, running no node that they do not need.

        Parameters
        ----------
        feeds : Mapping, optional
            Tensors of the graph, placeholders or any others -> their values for this run. Arrays
            must have the tensor's element type; numbers in lists convert to it. Shapes are not
            compared with a placeholder's, as in C++. May be left away: ``run([y])``.
        fetches : sequence
            What to compute: outputs, operators' instances, or names, ``"y"`` meaning ``"y:0"``. An
            `Operation` runs and gives None.
        targets : sequence
            Operations to run for nothing but their being run.

        Returns
        -------
        list
            Arrays in the order of `fetches`, each the caller's own.

        Raises
        ------
        GradopsError
            The first error of the scope's status, if it is not ok.
        TypeError
            If an argument is of a wrong kind.
        InvalidArgumentError
            If a node's name is not unique or not allowed, or its device is malformed; a feed, fetch
            or target is not in the graph, or fed twice, or both fed and fetched; a feed's element
            type is wrong; there is nothing to fetch or run; or a placeholder is needed and not fed.
        OutOfRangeError
            If a fetched or fed output number does not exist.
        GradopsError
            An error of a node's computation, its message ending with the node.
        """
        fed: Mapping[Any, Any] = {}
        if isinstance(feeds, Mapping):
            fed = feeds
        elif feeds is not None:  # C++'s overload without feeds
            fetches, targets = feeds, fetches or targets
        self._scope.raise_error()
        if self._checked != len(self._scope.graph):
            self._check_new_nodes()
        return self._plan(tuple(fed), _listed(fetches), _listed(targets))(fed)

    def _plan(self, feeds: tuple[Any, ...], fetches: tuple[Any, ...], targets: tuple[Any, ...]) -> _Plan:
        key = (feeds, fetches, targets)
        try:
            plan = self._plans.get(key)
        except TypeError:  # something that cannot be hashed is no tensor
            return _planned(self._scope.graph, feeds, fetches, targets)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = _planned(self._scope.graph, feeds, fetches, targets)
        return plan

    def _check_new_nodes(self) -> None:
        """Check what a scope lets pass and TensorFlow's session does not; harmless from many threads at once."""
        graph = self._scope.graph
        count = len(graph)
        for node in graph.nodes[self._checked : count]:
            if graph.find(node.name) is not node:
                raise InvalidArgumentError(f"Node name {node.name!r} is not unique in the graph")
            if not NODE_NAME.fullmatch(node.name):
                raise InvalidArgumentError(f"Node name {node.name!r} is not allowed: illegal op instance name")
            if not DEVICE.fullmatch(node.device):
                raise InvalidArgumentError(f"Malformed device specification {node.device!r} of node {node.name!r}")
        self._checked = count


def _listed(wanted: Any) -> tuple[Any, ...]:
    if type(wanted) is list or type(wanted) is tuple:  # faster than asking what is iterable
        return tuple(wanted)
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise TypeError(f"give a list of fetches or targets, not {wanted!r}")
    return tuple(wanted)


# --- what is meant ---


def _tensor(graph: Graph, what: str, value: Any) -> Output:
    """Return the output that a feed or fetch means."""
    output = _named(graph, what, value) if isinstance(value, str) else as_output(value)
    if output is None:
        raise TypeError(f"cannot {what} {value!r}: give an output, an operation, or a name")
    node = output.node()
    if node is None or node.graph is not graph:
        raise InvalidArgumentError(f"Tensor {output.name}, to {what}, was not found in the Graph of this session")
    if not 0 <= output.index < len(node.dtypes):
        raise OutOfRangeError(
            f"{what} {output.name}: node {node.name!r} ({node.op}) does not have output {output.index}"
        )
    return output


def _named(graph: Graph, what: str, name: str) -> Output:
    tensor = tensor_named(name)
    node = None if tensor is None else graph.find(tensor.node)
    if tensor is None or node is None:
        raise InvalidArgumentError(f"Tensor {name}, to {what}, was not found in the Graph")
    return Output(node, tensor.output)


def _target(graph: Graph, value: Any) -> Node:
    """Return the node that is to be run."""
    if isinstance(value, str):
        node = graph.find(value)
    elif isinstance(value, (Operation, Output)):
        node = value.node()
    else:
        operation = getattr(value, "operation", None)
        if not isinstance(operation, Operation):
            raise TypeError(f"cannot run {value!r}: give an operation or its name")
        node = operation.node()
    if node is None or node.graph is not graph:
        raise InvalidArgumentError(f"Operation {value!r}, to run, was not found in the Graph")
    return node


# --- the plan ---


class _Step(NamedTuple):
    """One node's computation. Tensors are numbered; a number is where a run keeps the tensor."""

    compute: Callable[..., Any]
    sources: tuple[int, ...]
    result: int
    num_results: int
    #: Tensors that nothing needs any more afterwards.
    dead: tuple[int, ...]
    node: Node


class _Feed(NamedTuple):
    output: Output
    dtype: np.dtype[Any]
    slot: int


class _Fetch(NamedTuple):
    slot: int | None  #: None for an operation
    must_copy: bool


class _Plan:
    """Everything that runs with the same feeds, fetches and targets have in common."""

    def __init__(self, feeds: list[_Feed], slots: list[Any], steps: list[_Step], fetches: list[_Fetch]) -> None:
        self._feeds = feeds
        self._slots = slots
        self._steps = steps
        self._fetches = fetches

    def __call__(self, feeds: Mapping[Any, Any]) -> list[Any]:
        tensors = self._slots.copy()
        for i, (feed, value) in enumerate(zip(self._feeds, feeds.values(), strict=True)):
            tensors[feed.slot] = _fed_array(i, feed, value)
        node = None
        try:
            with np.errstate(all="ignore"):
                for compute, sources, result, num_results, dead, node in self._steps:  # noqa: B007
                    if num_results == 1:
                        tensors[result] = compute(*[tensors[source] for source in sources])
                    else:
                        tensors[result : result + num_results] = compute(*[tensors[source] for source in sources])
                    for slot in dead:
                        tensors[slot] = None
        except Exception as error:
            raise _with_node(error, node) from error
        return [None if slot is None else _own(tensors[slot], must_copy) for slot, must_copy in self._fetches]


def _own(tensor: Any, must_copy: bool) -> _Array:
    return np.array(tensor) if must_copy else np.asarray(tensor)


def _fed_array(position: int, feed: _Feed, value: Any) -> _Array:
    if type(value) is np.ndarray and value.dtype == feed.dtype and value.dtype.isnative:
        return value
    array = _constants.to_array(feed.output.name, value, feed.output.type.base)
    if array.dtype != feed.dtype:
        given = _constants.given_type(array)
        raise InvalidArgumentError(
            f"Expects arg[{position}] ({feed.output.name}) to be {feed.output.type.label} but "
            f"{given.label if given else array.dtype} is provided"
        )
    return array


def _with_node(error: Exception, node: Node | None) -> Exception:
    """The error of a node's computation, of the same class, naming the node."""
    if node is None:
        return error
    where = f"\n\t [[node {node.name} ({node.op})]]"
    if isinstance(error, GradopsError):
        return type(error)(f"{error}{where}")
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(f"{error or 'no memory'}{where}")
    if isinstance(error, (ValueError, TypeError, IndexError, ArithmeticError)):
        return InvalidArgumentError(f"{error}{where}")
    return error


def _planned(graph: Graph, feeds: tuple[Any, ...], fetches: tuple[Any, ...], targets: tuple[Any, ...]) -> _Plan:
    if not fetches and not targets:
        raise InvalidArgumentError("Must specify at least one target to fetch or execute.")
    fed = [_tensor(graph, "feed", feed) for feed in feeds]
    for output, count in Counter(fed).items():
        if count > 1:
            raise InvalidArgumentError(f"Tensor {output.name} is fed more than once")
    wanted = [None if isinstance(fetch, Operation) else _tensor(graph, "fetch", fetch) for fetch in fetches]
    for fetch in wanted:
        if fetch is not None and fetch in fed:
            raise InvalidArgumentError(f"Tensor {fetch.name} is both fed and fetched")
    run = [_target(graph, target) for target in (*targets, *(f for f in fetches if isinstance(f, Operation)))]
    return _Planner(fed, [output for output in wanted if output is not None], run).plan(wanted)


class _Planner:
    """Numbers the tensors and puts the nodes in order."""

    def __init__(self, fed: list[Output], wanted: list[Output], run: list[Node]) -> None:
        self._fed = fed
        self._wanted = wanted
        self._nodes = _needed(frozenset(fed), wanted, run)
        self._slots: dict[Output, int] = {}
        self._values: list[Any] = []
        for output in fed:
            self._number(output)

    def plan(self, fetches: list[Output | None]) -> _Plan:
        steps = self._steps()
        feeds = [_Feed(output, output.type.base.numpy, self._slots[output]) for output in self._fed]
        seen: set[Output] = set()
        results = []
        for fetch in fetches:
            if fetch is None:
                results.append(_Fetch(None, False))
                continue
            results.append(_Fetch(self._slots[fetch], fetch in seen or _is_shared(fetch)))
            seen.add(fetch)
        return _Plan(feeds, self._values, steps, results)

    def _number(self, output: Output, value: Any = None) -> int:
        """Return the number of a tensor, a new one on first sight."""
        slot = self._slots.get(output)
        if slot is None:
            slot = self._slots[output] = len(self._values)
            self._values.append(value)
        return slot

    def _steps(self) -> list[_Step]:
        last_use = self._last_uses()
        steps = []
        for node in self._nodes:
            if node.op == "Const":
                self._number(Output(node), _constant(node))
                continue
            sources = tuple(self._number(given) for given in node.inputs)
            results = len(self._values)
            for i in range(len(node.dtypes)):
                self._new_result(node, i)
            dead = tuple(self._slots[output] for output in last_use.get(node, ()) if output in self._slots)
            steps.append(_Step(_bound(node), sources, results, len(node.dtypes), dead, node))
        return steps

    def _new_result(self, node: Node, index: int) -> None:
        """Number a result anew; where it is fed, its consumers keep the number of the feed."""
        output = Output(node, index)
        if output not in self._slots:
            self._slots[output] = len(self._values)
        self._values.append(None)

    def _last_uses(self) -> dict[Node, list[Output]]:
        """The tensors that nothing needs after a node."""
        last: dict[Output, Node] = {}
        for node in self._nodes:
            for i in range(len(node.dtypes)):
                last[Output(node, i)] = node  # a result that nobody needs
            for given in node.inputs:
                last[given] = node
        kept = set(self._wanted)
        dying: dict[Node, list[Output]] = {}
        for output, node in last.items():
            maker = output.node()
            if output not in kept and maker is not None and maker.op != "Const":
                dying.setdefault(node, []).append(output)
        return dying


def _needed(fed: frozenset[Output], wanted: list[Output], run: list[Node]) -> list[Node]:
    """The nodes to run, in the order of creation: every node comes after what it depends on."""
    found: dict[Node, None] = {}
    waiting = [node for output in wanted if (node := output.node()) is not None] + run
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found[node] = None
        waiting += [maker for given in node.inputs if given not in fed and (maker := given.node()) is not None]
        # A fed placeholder has nothing to wait for; any other fed node runs if something must run after it.
        waiting += [n for n in node.control_inputs if not (n.op == "Placeholder" and Output(n) in fed)]
    return sorted(found, key=lambda node: node.id)


def _constant(node: Node) -> _Array:
    try:
        value: _Array = node.operator.compute(**compute_attrs(node))
    except GradopsError as error:
        raise _with_node(error, node) from error
    return value


def _bound(node: Node) -> Callable[..., Any]:
    """The node's computation with its attributes given."""
    attrs = compute_attrs(node)
    return functools.partial(node.operator.compute, **attrs) if attrs else node.operator.compute


def _is_shared(output: Output) -> bool:
    """Whether a result's memory may be another tensor's, which the caller must not get hold of."""
    node = output.node()
    return node is not None and (node.op == "Const" or node.operator.shares_memory)
