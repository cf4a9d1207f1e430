"""What is wrong with a graph that comes from outside."""

from __future__ import annotations

from gradops.errors import InvalidArgumentError, NotFoundError

__all__ = ["GraphDefError", "UnknownOpError"]


class GraphDefError(InvalidArgumentError):
    """A file or message that is not a graph of TensorFlow's, or one that TensorFlow would refuse too.

    Whatever bytes are read, this is the only error they can cause.
    """


class UnknownOpError(GraphDefError, NotFoundError):
    """A node of an operator that is not implemented here: TensorFlow's NotFound."""

    code = 5
