"""The operators as classes that add a node to a scope: ``ops.Conv2D(scope, input, filter, strides, padding)``.

They are called as in C++, and also by TensorFlow's name where that differs (``Multiply`` and
``Mul``). Optional attributes come as C++ chains them or as keywords::

    ops.Conv2D(root, x, w, [1, 2, 2, 1], "SAME", ops.Conv2D.data_format("NCHW").dilations([1, 1, 2, 2]))
    ops.Conv2D(root, x, w, [1, 2, 2, 1], "SAME", data_format="NCHW", dilations=[1, 1, 2, 2])
"""

from __future__ import annotations

from gradops.graph._building import CPP_NAMES
from gradops.graph._operation_classes import Const, OptionalAttrs, TensorOperation, operation_class
from gradops.graph._registry import OPERATORS

#: C++'s second names.
_ALIASES = {f"Reduce{name}": name for name in ("Sum", "Mean", "Prod")}


def _classes() -> dict[str, type[TensorOperation]]:
    made = {name: Const if name == "Const" else operation_class(operator) for name, operator in OPERATORS.items()}
    cpp = {class_name: made[op] for op, class_name in CPP_NAMES.items()}  # Concat is C++'s: ConcatV2
    return {**made, **cpp, **{alias: made[name] for alias, name in _ALIASES.items()}}


_CLASSES = _classes()
globals().update(_CLASSES)

__all__ = ["OptionalAttrs", "TensorOperation", *_CLASSES]


def __getattr__(name: str) -> type[TensorOperation]:
    raise AttributeError(f"module {__name__!r} has no operator {name!r}; there are {', '.join(sorted(_CLASSES))}")
