"""The operators that small graphs and gradients need around the image operators, one description each."""

from collections.abc import Mapping
from typing import Final

from gradops.graph._basic_ops import _arithmetic, _layout, _networks, _tensors
from gradops.ops._operator import Operator

__all__ = ["BASIC_OPERATORS"]

BASIC_OPERATORS: Final[Mapping[str, Operator]] = {
    operator.name: operator for module in (_tensors, _arithmetic, _layout, _networks) for operator in module.OPERATORS
}
