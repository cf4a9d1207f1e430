"""One class for each operator, as C++ has them: made from its description."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from gradops.errors import GradopsError, InvalidArgumentError, ResourceExhaustedError
from gradops.graph import _constants
from gradops.graph._building import add_constant, build, inferred_attrs
from gradops.graph._graph import Node, Operation, Output, canonical_attr
from gradops.graph._registry import OPERATORS
from gradops.graph._scope import Scope, check_scope
from gradops.graph._types import DataType
from gradops.ops._inference import Shape, describe
from gradops.ops._operator import REQUIRED, Attr, Operator

__all__ = ["Const", "OptionalAttrs", "TensorOperation", "operation_class"]


class OptionalAttrs:
    """Optional attributes of an operator: a value whose methods return a changed copy.

    Each method sets one attribute and is called after it. What is not set keeps its default.
    """

    OPERATOR: ClassVar[Operator]
    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: Mapping[str, Any] = {}

    def _with(self, name: str, value: Any) -> OptionalAttrs:
        changed = type(self)()
        changed._values = {**self._values, name: value}
        return changed

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(sorted((name, repr(value)) for name, value in self._values.items())))

    def __repr__(self) -> str:
        chain = ".".join(f"{_setter_name(name)}({value!r})" for name, value in self._values.items())
        return f"{self.OPERATOR.name}.{chain or 'Attrs()'}"


class TensorOperation:
    """An operation added to a graph; stands for its output wherever an input is.

    Attributes
    ----------
    operation : Operation
        Its node's handle; of nothing after an error, which is in the scope's status.
    output : Output
        The single output. It is also found by TensorFlow's name for it (``crops``, ``z``), as are
        the outputs of operations that have several.
    """

    OPERATOR: ClassVar[Operator]
    Attrs: ClassVar[type[OptionalAttrs]]
    __signature__: ClassVar[inspect.Signature]
    operation: Operation
    __iter__: ClassVar[None] = None  # a tensor is no sequence, whatever Python makes of `__getitem__`

    def __init__(self, scope: Scope, *args: Any, **keywords: Any) -> None:
        arguments = self.__signature__.bind(scope, *args, **keywords).arguments
        check_scope(arguments.pop("scope"))
        operator = self.OPERATOR
        attrs = dict(_chained(type(self), arguments.pop("attrs", None)))
        inputs = [arguments.pop(tensor.name) for tensor in operator.inputs]
        attrs.update(arguments)
        self.operation = Operation(build(scope, operator, inputs, _checked_attrs(scope, operator, attrs)))

    def node(self) -> Node | None:
        """Return the node, or None after an error."""
        return self.operation.node()

    @property
    def output(self) -> Any:
        """The output; a list of them where the operator makes a list."""
        return self._output_named(0)

    def __getitem__(self, index: int) -> Output:
        """Return output number `index`; a wrong one is refused where it is used."""
        return Output(self.operation, index)

    def _output_named(self, position: int) -> Any:
        node = self.node()
        if not self.OPERATOR.outputs:
            raise AttributeError(f"{self.OPERATOR.name} has no output")
        if node is None:
            return [] if self.OPERATOR.outputs[position].count else Output()
        start = 0
        for tensor in self.OPERATOR.outputs[:position]:
            start += node.attrs[tensor.count] if tensor.count else 1
        tensor = self.OPERATOR.outputs[position]
        if tensor.count:
            return [Output(node, start + i) for i in range(node.attrs[tensor.count])]
        return Output(node, start)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.operation!r}>"


def _chained(cls: type[TensorOperation], attrs: Any) -> Mapping[str, Any]:
    if attrs is None:
        return {}
    if not isinstance(attrs, cls.Attrs):
        raise TypeError(f"attrs must be a {cls.__name__}.Attrs, not {attrs!r}")
    return attrs._values


def _checked_attrs(scope: Scope, operator: Operator, given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by TensorFlow's names, converted; a value that is not allowed goes to the status."""
    checked = {}
    for attr in operator.attrs:
        for name in (attr.name, _setter_name(attr.name)):
            if name in given:
                try:
                    checked[attr.name] = canonical_attr(operator.name, attr, given[name])
                except GradopsError as error:
                    scope.update_status(error)
    return checked


def operation_class(operator: Operator) -> type[TensorOperation]:
    """Make the class of an operator."""
    inferred = inferred_attrs(operator)
    own = [attr for attr in operator.attrs if attr.name not in inferred]
    required = [attr for attr in own if attr.default is REQUIRED]
    optional = [attr for attr in own if attr.default is not REQUIRED]
    name = operator.name
    setters = {_setter_name(attr.name): attr for attr in optional}
    attrs_class = type("Attrs", (OptionalAttrs,), {"__slots__": (), "OPERATOR": operator, **_methods(setters)})
    attrs_class.__qualname__, attrs_class.__module__ = f"{name}.Attrs", "gradops.graph.ops"
    members: dict[str, Any] = {
        "OPERATOR": operator,
        "Attrs": attrs_class,
        "__doc__": _document(operator, required, optional),
        "__module__": "gradops.graph.ops",
        "__signature__": _signature(operator, required, optional),
    }
    for position, tensor in enumerate(operator.outputs):
        members[tensor.name] = _output_property(position)
    members.update({setter: _starter(attrs_class, setter, attr) for setter, attr in setters.items()})
    return type(name, (TensorOperation,), members)


def _output_property(position: int) -> property:
    return property(lambda self: self._output_named(position))


def _setter_name(attr: str) -> str:
    return attr.lower()  # only Truncate has a capital


def _methods(setters: Mapping[str, Attr]) -> dict[str, Callable[..., Any]]:
    return {setter: _method(setter, attr) for setter, attr in setters.items()}


def _method(setter: str, attr: Attr) -> Callable[..., Any]:
    def method(self: OptionalAttrs, value: Any) -> OptionalAttrs:
        return self._with(attr.name, _as_cpp(attr, value))

    method.__name__ = setter
    method.__doc__ = f"Return a copy with `{attr.name}` set; {attr.kind}, default {attr.default!r}."
    return method


def _as_cpp(attr: Attr, value: Any) -> Any:
    """In C++, ``Placeholder::Shape({})`` is the shape of unknown rank; the keyword ``shape=()`` is a scalar's."""
    return None if attr.kind == "shape" and isinstance(value, (list, tuple)) and not value else value


def _starter(attrs_class: type[OptionalAttrs], setter: str, attr: Attr) -> staticmethod[[Any], Any]:
    def start(value: Any) -> OptionalAttrs:
        changed: OptionalAttrs = getattr(attrs_class(), setter)(value)
        return changed

    start.__name__ = setter
    start.__doc__ = f"Start a chain of optional attributes with `{attr.name}`."
    return staticmethod(start)


def _signature(operator: Operator, required: list[Attr], optional: list[Attr]) -> inspect.Signature:
    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    names = ["scope", *(tensor.name for tensor in operator.inputs), *(attr.name for attr in required)]
    parameters = [inspect.Parameter(name, positional) for name in names]
    if optional:
        parameters.append(inspect.Parameter("attrs", positional, default=None))
    parameters += [inspect.Parameter(_setter_name(attr.name), keyword, default=attr.default) for attr in optional]
    return inspect.Signature(parameters)


def _document(operator: Operator, required: list[Attr], optional: list[Attr]) -> str:
    lines = [f"TensorFlow's operator ``{operator.name}``, added to a graph.", "", "Parameters", "----------"]
    lines += ["scope : Scope", "    Where the node is added."]
    for tensor in operator.inputs:
        kind = f"list of {tensor.type} tensors" if tensor.count else f"{tensor.type} tensor"
        lines += [f"{tensor.name} : {kind}", "    An output, an operation, an array, or numbers in lists."]
    for attr in required:
        lines.append(f"{attr.name} : {attr.kind}{_choices(attr)}")
    if optional:
        lines += ["attrs : Attrs, optional", "    The optional attributes as C++ chains them. Each is also a keyword."]
    lines += [f"{_setter_name(attr.name)} : {attr.kind}, default {attr.default!r}{_choices(attr)}" for attr in optional]
    lines += ["", "Raises", "------", "TypeError", "    If an argument is missing or of a wrong kind. What TensorFlow"]
    lines += ["    refuses is no exception here: it is kept in the scope's status."]
    return "\n".join(lines)


def _choices(attr: Attr) -> str:
    return f", one of {', '.join(attr.allowed)}" if attr.allowed else ""


_CONST_SHAPE: Final = Attr("shape", "shape")


class Const(TensorOperation):
    """A constant.

    Parameters
    ----------
    scope : Scope
        Where the node is added.
    value : array, number, bool, string, or nested lists of them
        Arrays keep their element type; Python's integers are int32, or int64 where they do not fit,
        and its floats float32.
    dtype : dtype, optional
        C++'s ``Const<T>``: where `value` has another type that does not convert by itself, a Cast
        follows the Const, as in C++: integers in a list to a floating-point `dtype`, and any array.
    shape : tuple of int, optional
        The shape of a flat list, or of as many copies of one number.

    Raises
    ------
    TypeError
        If an argument is of a wrong kind. Ragged lists, a wrong count of elements and a shape that no
        memory holds are no exception: they are kept in the scope's status.
    """

    OPERATOR = OPERATORS["Const"]
    Attrs = OptionalAttrs

    def __init__(self, scope: Scope, value: Any, dtype: Any = None, *, shape: Any = None) -> None:
        check_scope(scope)
        wanted = None if dtype is None else DataType.of(dtype)
        self.operation = Operation(_constant(scope, value, wanted, shape) if scope.ok() else None)


def _constant(scope: Scope, value: Any, dtype: DataType | None, shape: Any) -> Node | None:
    try:
        natural = _constants.to_array("value", value, None)
        array = (
            _constants.to_array("value", value, dtype) if natural.dtype.kind != "i" or _is_integer(dtype) else natural
        )
        if shape is not None:
            array = _reshaped(array, _CONST_SHAPE.check("Const", shape))
    except GradopsError as error:
        scope.update_status(error)
        return None
    node = add_constant(scope, array)
    if node is None or dtype is None or node.dtypes[0] == dtype:
        return node
    return build(scope, OPERATORS["Cast"], (node.output(),), {"DstT": dtype})


def _is_integer(dtype: DataType | None) -> bool:
    return dtype is not None and dtype.has_numpy and dtype.numpy.kind in "iu"


def _reshaped(array: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    if shape is None or None in shape:
        raise InvalidArgumentError(f"Const: shape must be fully known, got {describe(shape)}")
    sizes = tuple(size or 0 for size in shape)
    count = math.prod(sizes)
    if array.ndim == 0:
        try:
            return np.full(sizes, array, array.dtype)
        except (MemoryError, ValueError):  # NumPy says the second where it cannot even count the bytes
            raise ResourceExhaustedError(f"Const: no memory for a tensor of shape {describe(shape)}") from None
    if array.size != count:
        raise InvalidArgumentError(
            f"Cannot construct a tensor with {count} from an initializer list with {array.size} elements"
        )
    return array.reshape(sizes)


Const.__module__ = "gradops.graph.ops"
