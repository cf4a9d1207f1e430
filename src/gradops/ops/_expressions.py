"""Gradients as data: expressions over an operator's inputs and the gradient of its result.

A table of them is part of an operator's description. The graph turns an expression into nodes, an
eager face into calls; neither holds a rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "GRAD",
    "SAME",
    "Call",
    "Constant",
    "Differentiated",
    "Expression",
    "Grad",
    "Gradients",
    "Own",
    "Result",
    "ShapeOf",
    "Vjps",
]


@dataclass(frozen=True)
class Grad:
    """The gradient with respect to the operator's result number `index`."""

    index: int = 0


GRAD: Final = Grad()


@dataclass(frozen=True)
class Own:
    """The operator's own result number `index`."""

    index: int = 0


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that depends on nothing."""

    value: Any
    dtype: npt.DTypeLike = np.int32
    #: Whether TensorFlow writes it as a plain value of its consumer, which names the node otherwise.
    is_literal: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """An operator applied to expressions, and its first result. One object used twice is computed once.

    Attributes
    ----------
    op : str
        TensorFlow's name of the operator.
    inputs : tuple of Expression
        In the order of its signature; a tuple for a list of tensors.
    attrs : Mapping or "same"
        Attributes beside those that its inputs decide. A string ``"$method"`` is the attribute
        `method` of the operator that is differentiated; ``"same"`` is all that both have.
    """

    op: str
    inputs: tuple[Expression, ...]
    attrs: Mapping[str, Any] | Literal["same"] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """Result number `index` of a call."""

    call: Call
    index: int


#: The attributes of the operator that is differentiated.
SAME: Final = "same"


def ShapeOf(tensor: Expression) -> Call:  # noqa: N802
    """Return the int32 vector of the sizes of `tensor`."""
    return Call("Shape", (tensor,))


#: An input's name, or one of the classes above; a tuple of them is a list of tensors.
Expression: TypeAlias = "str | Grad | Own | Constant | Call | Result | tuple[Expression, ...]"


@dataclass(frozen=True)
class Gradients:
    """Gradients by the names of inputs, and what TensorFlow computes before any of them, in its order."""

    of: Mapping[str, Expression]
    first: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Differentiated:
    """What a table of gradients may depend on."""

    #: Element types by TensorFlow's names.
    attrs: Mapping[str, Any]
    num_inputs: int
    num_outputs: int


#: What `Operator.vjps` may be.
Vjps: TypeAlias = (
    Mapping[str, Expression] | Gradients | Callable[[Differentiated], Mapping[str, Expression] | Gradients] | None
)
