"""What an operator is: one description that every face of the library derives from."""

from __future__ import annotations

import functools
import operator as _operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from gradops import arrays
from gradops.errors import InvalidArgumentError, ResourceExhaustedError
from gradops.ops._expressions import Vjps
from gradops.ops._inference import Inference, Shape, unknown_shapes

__all__ = ["REQUIRED", "TYPE_NAMES", "Attr", "Input", "Operator", "bfloat16"]

bfloat16 = np.dtype(ml_dtypes.bfloat16)

#: TensorFlow's name of an element type -> NumPy's dtype. Messages and attributes use the former.
TYPE_NAMES: Final[Mapping[str, np.dtype[Any]]] = {
    "half": np.dtype(np.float16),
    "bfloat16": bfloat16,
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
}


@functools.cache
def _dtypes(names: tuple[str, ...]) -> frozenset[np.dtype[Any]]:
    return frozenset(TYPE_NAMES[name] for name in names)


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


#: The default of an attribute that has none.
REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class Input:
    """One tensor that an operator takes."""

    name: str
    #: TensorFlow's name of its element type, or of the attribute that says it: ``"T"``.
    type: str
    #: Whether it is a short vector that decides a shape. `compute` then takes a `SizeVector` too,
    #: which spares a list of four sizes the way through NumPy.
    is_sizes: bool = False
    #: Name of the attribute that counts the tensors of a list, ``"N"``; empty: one tensor. Graphs only.
    count: str = ""


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute of an operator, as TensorFlow's OpDef declares it."""

    name: str
    kind: Literal["bool", "float", "int", "list(int)", "shape", "string", "tensor", "type"]
    default: Any = REQUIRED
    #: The values it may have; empty: all. Of a type, TensorFlow's names in TensorFlow's order.
    allowed: tuple[str, ...] = ()

    def check(self, op: str, value: Any) -> Any:
        """Return `value` in its canonical form: hashable, of the attribute's kind, allowed.

        Raises
        ------
        TypeError
            If the value is not of the attribute's kind.
        InvalidArgumentError
            If it is, but is not one of the allowed values or a list holds something else than
            integers of 64 bits.
        """
        if value is self.default or (value is None and self.default is not REQUIRED):
            return self.default  # as in TensorFlow, None asks for the default
        value = _CONVERTERS[self.kind](op, self.name, value)
        if self.kind == "type":
            self.check_type(op, value)
        elif self.allowed and value not in self.allowed:
            raise InvalidArgumentError(
                f"{op}: value for attr {self.name!r} of {value!r} is not in the list of allowed values: "
                f"{', '.join(map(repr, self.allowed))}"
            )
        return value

    def check_type(self, op: str, dtype: np.dtype[Any]) -> None:
        """Refuse an element type that is not allowed."""
        if self.allowed and dtype not in _dtypes(self.allowed):
            raise InvalidArgumentError(
                f"{op}: value for attr {self.name!r} of {dtype} is not in the list of allowed values: "
                f"{', '.join(self.allowed)}"
            )


@dataclass(frozen=True)
class Operator:
    """Everything there is to know about one operator.

    Attributes
    ----------
    name : str
        TensorFlow's name of the operator, ``"Conv2DBackpropInput"``.
    function : str
        The eager function's name, ``"conv2d_backprop_input"``; messages begin with it.
    inputs : tuple of Input
        In the order of the signature.
    attrs : tuple of Attr
        In the order of TensorFlow's OpDef.
    outputs : tuple of Input
        Names and element types of the results; one, for an operator that can be called eagerly.
    compute : callable
        ``compute(*inputs, out=None, **attrs)`` on NumPy arrays of the right dtypes, any strides:
        validates, computes, and returns a new array or `out`. T is among `attrs` only where no
        input has it. Graphs never give `out`, and take a tuple where there are several outputs.
    infer : callable
        The shape function of graphs: from an `Inference`, one partial shape for each output.
        Refuses what TensorFlow refuses while a graph is built, and leaves the rest to `compute`.
    vjps : Mapping or callable
        Vector-Jacobian products: input name -> an `Expression` for the gradient with respect to
        it; inputs that are missing have none. A callable makes the mapping from the node.
        None: the operator has no gradient, and asking for it is an error.
    shares_memory : bool
        Whether a result may be a view of an input.
    """

    name: str
    function: str
    inputs: tuple[Input, ...]
    attrs: tuple[Attr, ...]
    outputs: tuple[Input, ...]
    compute: Callable[..., Any] = field(repr=False)
    infer: Callable[[Inference], Sequence[Shape]] = field(repr=False, default=unknown_shapes)
    vjps: Vjps = field(repr=False, default=None)
    shares_memory: bool = False

    @property
    def output(self) -> Input:
        """The single output."""
        (output,) = self.outputs
        return output

    def _check_type(self, op: str, dtype: np.dtype[Any]) -> None:
        self.type_attr.check_type(op, dtype)

    @functools.cached_property
    def type_attr(self) -> Attr:
        """The attribute that gives the element type of the tensors declared as T."""
        return next(attr for attr in self.attrs if attr.name == "T")

    def __call__(self, inputs: tuple[Any, ...], attrs: Mapping[str, Any], out: Any = None) -> Any:
        """Check, convert and compute; give the result back as the caller's kind of array."""
        op = self.function
        given = {attr.name: attr.check(op, attrs[attr.name]) for attr in self.attrs if attr.name in attrs}
        try:
            borrowed = arrays.borrow(op, self.inputs, inputs, self._check_type)
            if out is not None:
                arrays.check_out(op, out, borrowed)
            result = self.compute(*borrowed.tensors, out=out, **given)
        except MemoryError as error:  # of NumPy or the kernels; our own says more
            if isinstance(error, ResourceExhaustedError):
                raise
            raise ResourceExhaustedError(f"{op}: no memory for the workspace. {error}") from error
        return borrowed.give_back(result)


# --- attribute values, one converter for each kind ---


def _to_bool(op: str, name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{op}: expected a bool for argument {name!r}, not {value!r}")
    return bool(value)


def _to_float(op: str, name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):  # float("1") would take it
        raise TypeError(f"{op}: expected a number for argument {name!r}, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{op}: expected a number for argument {name!r}, not {value!r}") from error


def _to_int(op: str, name: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{op}: expected an integer for argument {name!r}, not {value!r}")
    try:
        return _operator.index(value)
    except TypeError as error:
        raise TypeError(f"{op}: expected an integer for argument {name!r}, not {value!r}") from error


def _to_shape(op: str, name: str, value: Any) -> Shape:
    """None is the shape of unknown rank; None or -1 in it an unknown size."""
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{op}: expected a shape for argument {name!r}, not {value!r}")
    sizes = tuple(None if size is None else _to_int(op, name, size) for size in value)
    if any(size is not None and size < -1 for size in sizes):
        raise InvalidArgumentError(f"{op}: {name} has a negative size: {list(sizes)}. -1 or None is an unknown one.")
    return tuple(None if size == -1 else size for size in sizes)


def _to_tensor(op: str, name: str, value: Any) -> npt.NDArray[Any]:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"{op}: expected a NumPy array for argument {name!r}, not {value!r}")
    return np.asarray(value)


def _to_string(op: str, name: str, value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise TypeError(f"{op}: expected a string for argument {name!r}, not {value!r}")
    return str(value)


def _to_int_list(op: str, name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        if not (isinstance(value, np.ndarray) and value.ndim == 1):
            raise TypeError(f"{op}: expected a list of integers for argument {name!r}, not {value!r}")
        value = value.tolist()
    try:
        integers = tuple(map(_operator.index, value))
    except TypeError as error:
        raise InvalidArgumentError(f"{op}: every element of {name} must be an integer, got {value!r}") from error
    for integer in integers:
        if not -(2**63) <= integer < 2**63:
            raise InvalidArgumentError(f"{op}: {name} has value {integer} out of range for an int64")
    return integers


def _to_type(op: str, name: str, value: Any) -> np.dtype[Any]:
    if value is None:
        raise TypeError(f"{op}: expected an element type for argument {name!r}, not None")
    if isinstance(value, str) and value in ("half", "bfloat16"):
        return TYPE_NAMES[value]
    value = getattr(value, "as_numpy_dtype", value)  # tf.float32
    if type(value).__module__ == "torch":
        value = str(value).removeprefix("torch.")
        value = bfloat16 if value == "bfloat16" else value
    try:
        dtype: np.dtype[Any] = np.dtype(value).newbyteorder("=")
        return dtype
    except (TypeError, ValueError, SyntaxError) as error:
        raise TypeError(f"{op}: expected an element type for argument {name!r}, not {value!r}") from error


_CONVERTERS: Final[Mapping[str, Callable[[str, str, Any], Any]]] = {
    "bool": _to_bool,
    "float": _to_float,
    "int": _to_int,
    "list(int)": _to_int_list,
    "shape": _to_shape,
    "string": _to_string,
    "tensor": _to_tensor,
    "type": _to_type,
}
