"""What a tensor is known to hold while the graph is built: constants, and shapes that are partly known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gradops.errors import GradopsError
from gradops.graph._types import DataType
from gradops.ops._inference import Shape, Size

if TYPE_CHECKING:
    from gradops.graph._graph import Node, Output

__all__ = ["compute_attrs", "constant_sizes", "constant_value", "folded_inputs"]

#: Only small tensors are computed ahead: sizes, indices, single numbers.
_MOST_ELEMENTS = 1024
#: How many nodes a partly known shape is followed through.
_DEEPEST = 50
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


def constant_sizes(output: Output, depth: int = 0) -> Shape:
    """Return the shape that `output`, a vector of sizes, is known to describe.

    A size that is not known is None, as is one of -1; None for all of it where not even the length
    is known. As TensorFlow does, this sees through Shape, Pack, ConcatV2, StridedSlice and Cast.
    """
    node = output.node()
    if node is None:
        return None
    value = node.graph.constant_value(output)
    if value is not None:
        return _sizes(value)
    partial = _PARTIAL.get(node.op)
    if partial is not None and depth < _DEEPEST:
        return partial(node, depth + 1)
    shape = output.shape
    if shape is None or len(shape) != 1 or shape[0] is None or shape[0] > _MOST_ELEMENTS:
        return None
    return (None,) * shape[0]


def _sizes(value: npt.NDArray[Any]) -> Shape:
    if value.ndim != 1 or value.dtype.kind not in "iu":
        return None
    return tuple(None if size == -1 else int(size) for size in value.tolist())


def _scalar_size(output: Output, depth: int) -> Size:
    node = output.node()
    assert node is not None
    value = node.graph.constant_value(output)
    if value is not None and value.ndim == 0:
        size = int(value)
        return None if size == -1 else size
    if node.op == "StridedSlice" and node.attrs["shrink_axis_mask"] == 1:
        sliced = _strided_slice(node, depth, node.attrs | {"shrink_axis_mask": 0})
        return sliced[0] if sliced else None
    return None


def _shape_op(node: Node, depth: int) -> Shape:  # noqa: ARG001
    return node.inputs[0].shape


def _through(node: Node, depth: int) -> Shape:
    return constant_sizes(node.inputs[0], depth)


def _pack(node: Node, depth: int) -> Shape:
    return tuple(_scalar_size(given, depth) for given in node.inputs)


def _concat(node: Node, depth: int) -> Shape:
    sizes: tuple[Size, ...] = ()
    for given in node.inputs[:-1]:
        part = constant_sizes(given, depth)
        if part is None:
            return None
        sizes += part
    return sizes


def _strided_slice(node: Node, depth: int, attrs: dict[str, Any] | None = None) -> Shape:
    """A slice of a vector of sizes, if its ends are known."""
    attrs = node.attrs if attrs is None else attrs
    if any(attrs[mask] for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")):
        return None
    sizes = constant_sizes(node.inputs[0], depth)
    ends = [node.graph.constant_value(given) for given in node.inputs[1:]]
    if sizes is None or any(end is None or end.size != 1 for end in ends):
        return None
    begin, end, stride = (int(value.ravel()[0]) for value in ends if value is not None)
    if stride == 0:
        return None
    if node.attrs["shrink_axis_mask"] & 1:
        end, stride = (begin + 1 if begin != -1 else len(sizes)), 1
    return sizes[None if attrs["begin_mask"] & 1 else begin : None if attrs["end_mask"] & 1 else end : stride]


_PARTIAL = {
    "Shape": _shape_op,
    "Identity": _through,
    "Cast": _through,
    "Pack": _pack,
    "ConcatV2": _concat,
    "StridedSlice": _strided_slice,
}
