"""Threads, instruction sets and memory: what a process can choose about how kernels run.

None of it changes a bit of any result.
"""

from __future__ import annotations

import operator
import os

from gradops import _core
from gradops.errors import InvalidArgumentError

__all__ = ["empty_cache", "get_num_threads", "instruction_set", "set_num_threads"]


def set_num_threads(count: int) -> None:
    """Set how many threads a kernel may use, the caller's included.

    Parameters
    ----------
    count : int
        At least 1.

    Raises
    ------
    TypeError
        If `count` is not an integer.
    InvalidArgumentError
        If `count` is below 1 or above 1024.

    Notes
    -----
    The default is the environment variable ``GRADOPS_NUM_THREADS`` or, without it, the processors
    that this process may run on. The setting holds for the whole process.
    """
    count = operator.index(count)
    if not 1 <= count <= 1024:
        raise InvalidArgumentError(f"set_num_threads: count must be from 1 to 1024, got {count}")
    _core.set_num_threads(count)


def get_num_threads() -> int:
    """Return how many threads a kernel may use."""
    return _core.num_threads()


def instruction_set() -> str:
    """Return the instruction-set level of the kernels in use.

    ``"v2"``, ``"v3"`` (AVX2) or ``"v4"`` (AVX-512) on x86-64, the best that this machine has or
    what the environment variable ``GRADOPS_ISA`` asks for; ``"baseline"`` elsewhere.
    """
    return _core.active_level()


def empty_cache() -> None:
    """Give the memory of released results, kept to be used again, back to the system."""
    _core.empty_cache()


def check_environment() -> None:
    """Refuse a ``GRADOPS_ISA`` that this machine cannot obey.

    Raises
    ------
    InvalidArgumentError
        If the variable names an instruction set that is unknown or missing here.
    """
    wanted = os.environ.get("GRADOPS_ISA")
    if wanted and wanted not in _core.available_levels():
        raise InvalidArgumentError(
            f"GRADOPS_ISA is {wanted!r}, but this machine has {', '.join(_core.available_levels())}. "
            "Unset the variable to use the best."
        )
