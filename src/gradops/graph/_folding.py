"""What a tensor is known to hold while the graph is built: constants, and shapes that are partly known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gradops.errors import GradopsError
from gradops.graph._types import DataType
from gradops.ops._inference import Shape

if TYPE_CHECKING:
    from gradops.graph._graph import Node, Output

__all__ = ["compute_attrs", "constant_value", "folded_inputs", "partial_inputs", "partial_value"]

#: Only small tensors are computed ahead: sizes, indices, single numbers.
_MOST_ELEMENTS = 1024
#: What depends on more than its inputs.
_NEVER = frozenset({"Placeholder", "PlaceholderWithDefault", "NoOp"})


def folded_inputs(output: Output) -> tuple[Output, ...]:
    """Return the tensors whose values decide whether that of `output` is known."""
    node = output.node()
    if node is None or node.op in _NEVER or node.op == "Shape" or not _is_small(output.shape):
        return ()
    return node.inputs


def constant_value(output: Output) -> npt.NDArray[Any] | None:
    """Return the tensor that `output` holds whatever is fed, if that is known and small, else None.

    Those of `folded_inputs` are known to the graph.
    """
    node = output.node()
    if node is None or node.op in _NEVER or not _is_small(output.shape):
        return None
    if node.op == "Shape":
        return _known_shape(node)
    values = [node.graph.constant_value(given) for given in node.inputs]
    known = [value for value in values if value is not None]
    return _computed(node, known, output.index) if len(known) == len(values) else None


def _is_small(shape: Shape) -> bool:
    return shape is None or None in shape or math.prod(size or 0 for size in shape) <= _MOST_ELEMENTS


def _known_shape(node: Node) -> npt.NDArray[Any] | None:
    shape = node.inputs[0].shape
    if shape is None or None in shape:
        return None
    return np.array(shape, node.dtypes[0].numpy)


def _computed(node: Node, values: list[npt.NDArray[Any]], index: int) -> npt.NDArray[Any] | None:
    """Compute a node ahead. An error is left to the run, whose message names the node."""
    try:
        with np.errstate(all="ignore"):
            result = node.operator.compute(*values, **compute_attrs(node))
    except (GradopsError, TypeError, ValueError, LookupError, ArithmeticError, MemoryError):
        return None
    value = np.asarray(result if len(node.dtypes) == 1 else result[index])
    return value if value.size <= _MOST_ELEMENTS else None


def compute_attrs(node: Node) -> dict[str, Any]:
    """Return the attributes as `compute` takes them: types as NumPy's, and none that the inputs show anyway."""
    shown = {name for given in node.operator.inputs for name in (given.type, given.count)}
    return {
        attr.name: value.numpy if isinstance(value := node.attrs[attr.name], DataType) else value
        for attr in node.operator.attrs
        if attr.name not in shown
    }


def partial_inputs(output: Output) -> tuple[Output, ...]:
    """Return the tensors of which as much as is known decides how much is known of `output`."""
    node = output.node()
    if node is None or node.graph.constant_value(output) is not None:
        return ()
    if node.op in _SAME_NUMBERS or node.op == "StridedSlice":
        return node.inputs[:1]
    return node.inputs if node.op in _REARRANGED else ()


def partial_value(output: Output) -> npt.NDArray[Any] | None:
    """Return a scalar or vector of sizes, None in it for each that is not known; None if not even its shape is.

    Those of `partial_inputs` are known to the graph. As TensorFlow does, this sees through Shape,
    Pack, ConcatV2, StridedSlice and Cast.
    """
    node = output.node()
    if node is None:
        return None
    value = node.graph.constant_value(output)
    if value is not None:
        return value if value.ndim <= 1 and value.dtype.kind in "iu" else None
    if node.op == "Shape" and (shape := node.inputs[0].shape) is not None:
        return np.array(shape, object)
    if node.op in _SAME_NUMBERS:
        return node.graph.partial_value(node.inputs[0])
    rearranged = _rearranged(node) if node.op in _REARRANGED else None
    return rearranged if rearranged is not None else _unknown_sizes(output.shape)


def _rearranged(node: Node) -> npt.NDArray[Any] | None:
    """Compute a node on partly known sizes."""
    indices = node.inputs[1:] if node.op == "StridedSlice" else ()  # which have to be known
    values = [node.graph.partial_value(given) for given in node.inputs[: len(node.inputs) - len(indices)]]
    values += [node.graph.constant_value(given) for given in indices]
    known = [value for value in values if value is not None]
    result = _computed(node, known, 0) if len(known) == len(values) else None
    return result if result is not None and result.ndim <= 1 else None


def _unknown_sizes(shape: Shape) -> npt.NDArray[Any] | None:
    if shape is None or len(shape) > 1 or None in shape or not _is_small(shape):
        return None
    return np.full(tuple(size or 0 for size in shape), None, object)


_SAME_NUMBERS = frozenset({"Identity", "Cast"})
_REARRANGED = frozenset({"Pack", "ConcatV2", "StridedSlice"})
