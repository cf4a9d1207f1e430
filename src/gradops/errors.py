"""The errors that gradops raises, named and numbered as TensorFlow's.

Each is also the built-in exception that a Python user would expect, so ``except ValueError`` works
as well as ``except gradops.errors.InvalidArgumentError``. An argument of a wrong Python *type* (a
string where a list belongs, a tensor that requires a gradient) is a plain `TypeError`, as it is in
TensorFlow.
"""

from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "FailedPreconditionError",
    "GradopsError",
    "InvalidArgumentError",
    "NotFoundError",
    "OutOfRangeError",
    "ResourceExhaustedError",
    "UnimplementedError",
]


class GradopsError(Exception):
    """Base class of every error below."""

    #: TensorFlow's (and gRPC's) status code.
    code: ClassVar[int] = 2


class InvalidArgumentError(GradopsError, ValueError):
    """A value, shape or dtype that the operator does not allow."""

    code = 3


class NotFoundError(GradopsError, LookupError):
    """Something that is asked for by name and does not exist: an operator, a gradient."""

    code = 5


class AlreadyExistsError(GradopsError, ValueError):
    """A name that can be used once, used again."""

    code = 6


class ResourceExhaustedError(GradopsError, MemoryError):
    """There is no memory for the result or the workspace."""

    code = 8


class FailedPreconditionError(GradopsError, RuntimeError):
    """Something that cannot be done in the state that an object is in."""

    code = 9


class OutOfRangeError(GradopsError, IndexError):
    """An index that points outside the tensor it indexes."""

    code = 11


class UnimplementedError(GradopsError, NotImplementedError):
    """A combination that TensorFlow's signature can spell but no implementation offers."""

    code = 12
