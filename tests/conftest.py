"""What every test file shares: hypothesis' profile, and the process-wide settings put back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

import gradops
from gradops import _core

# The same examples on every run: a failure that comes and goes helps nobody.
settings.register_profile("gradops", derandomize=True, deadline=None, max_examples=60, database=None, print_blob=False)
settings.load_profile("gradops")


@pytest.fixture
def restore_settings() -> Iterator[None]:
    """Put the number of threads and the instruction set back after the test."""
    threads, level = gradops.get_num_threads(), _core.active_level()
    yield
    gradops.set_num_threads(threads)
    assert _core.set_level(level)
