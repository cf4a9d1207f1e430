"""Shapes of which not every size is known, and the rules that shape functions are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from gradops.errors import InvalidArgumentError

__all__ = [
    "Inference",
    "Shape",
    "Size",
    "broadcast_shapes",
    "merge_shapes",
    "merge_sizes",
    "sizes_input",
    "unknown_shapes",
    "with_rank",
    "with_rank_at_least",
]

#: A size, or None where it is unknown.
Size: TypeAlias = int | None
#: The sizes of a tensor, or None where even their number is unknown.
Shape: TypeAlias = tuple[Size, ...] | None


@dataclass(frozen=True, slots=True)
class Inference:
    """What is known of a node's inputs while the graph is built."""

    #: TensorFlow's name of the operator; messages begin with it.
    op: str
    #: One for each input, lists of tensors laid out flat.
    shapes: tuple[Shape, ...]
    attrs: Mapping[str, Any]
    #: ``value(i)``: the tensor that input i is known to hold, or None.
    value: Callable[[int], npt.NDArray[Any] | None]
    #: ``sizes(i)``: the shape that input i, a vector of sizes, is known to describe: -1 is an unknown size.
    sizes: Callable[[int], Shape]
    #: How many outputs there are.
    num_outputs: int = 1


def unknown_shapes(node: Inference) -> Sequence[Shape]:
    """Shape function of an operator about whose results nothing is known."""
    return (None,) * node.num_outputs


def with_rank(op: str, name: str, shape: Shape, rank: int) -> tuple[Size, ...]:
    """Return `shape`, known to have `rank` sizes."""
    if shape is None:
        return (None,) * rank
    if len(shape) != rank:
        raise InvalidArgumentError(f"{op}: {name} must have rank {rank}, but is rank {len(shape)}: {describe(shape)}")
    return shape


def with_rank_at_least(op: str, name: str, shape: Shape, rank: int) -> Shape:
    """Return `shape`, which has at least `rank` sizes if their number is known."""
    if shape is not None and len(shape) < rank:
        raise InvalidArgumentError(
            f"{op}: {name} must have rank {rank} or more, but is rank {len(shape)}: {describe(shape)}"
        )
    return shape


def sizes_input(node: Inference, i: int, name: str, count: int | None = None) -> Shape:
    """Return the shape that input `i`, a vector of (`count`) sizes, is known to describe; -1 is an unknown size."""
    (length,) = with_rank(node.op, name, node.shapes[i], 1)
    if count is not None:
        length = merge_sizes(node.op, f"{count} and the number of values of {name}", count, length)
    sizes = node.sizes(i)
    if sizes is None:  # a declared length may be anything; TensorFlow's tensors end at rank 254
        return None if length is None or length > 254 else (None,) * length
    for size in sizes:
        if size is not None and size < 0:
            raise InvalidArgumentError(f"{node.op}: {name} must have sizes >= -1, got {describe(sizes)}")
    return sizes


def merge_sizes(op: str, what: str, a: Size, b: Size) -> Size:
    """Return the size that is both `a` and `b`."""
    if a is None or a == b:
        return b
    if b is None:
        return a
    raise InvalidArgumentError(f"{op}: {what} must be equal, but are {a} and {b}")


def merge_shapes(op: str, what: str, a: Shape, b: Shape) -> Shape:
    """Return the shape that is both `a` and `b`."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise InvalidArgumentError(f"{op}: {what} must have equal shapes, but are {describe(a)} and {describe(b)}")
    return tuple(merge_sizes(op, f"the sizes of {what}", x, y) for x, y in zip(a, b, strict=True))


def broadcast_shapes(op: str, a: Shape, b: Shape) -> Shape:
    """Return the shape that NumPy's broadcasting gives."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(_broadcast_sizes(op, x, y) for x, y in zip(a, b, strict=True))


def _broadcast_sizes(op: str, a: Size, b: Size) -> Size:
    if a == 1 or b == 1:
        return b if a == 1 else a
    if a is None or b is None:
        return a if b is None else b  # an unknown size is 1 or the other
    return merge_sizes(op, "sizes that are not 1", a, b)


def describe(shape: Shape) -> str:
    """Return a shape as messages show it: ``[2,?,3]``."""
    if shape is None:
        return "<unknown>"
    return f"[{','.join('?' if size is None else str(size) for size in shape)}]"
