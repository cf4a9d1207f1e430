"""Every operator that a graph can hold, by TensorFlow's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gradops.errors import NotFoundError
from gradops.graph._basic_ops import BASIC_OPERATORS
from gradops.ops._operator import Operator
from gradops.ops._registry import OPERATORS as IMAGE_OPERATORS

__all__ = ["OPERATORS", "operator_named"]

OPERATORS: Final[Mapping[str, Operator]] = {**IMAGE_OPERATORS, **BASIC_OPERATORS}


def operator_named(op: str) -> Operator:
    """Return the description of an operator.

    Raises
    ------
    NotFoundError
        If there is none of that name.
    """
    try:
        return OPERATORS[op]
    except KeyError:
        raise NotFoundError(f"Op type not registered {op!r}; there are {', '.join(sorted(OPERATORS))}") from None
