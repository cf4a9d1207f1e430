"""What the commands share: their one-line errors and the optional packages."""

from __future__ import annotations

import argparse
import importlib
from typing import NoReturn

__all__ = ["CommandError", "Parser", "require_extras"]


class CommandError(Exception):
    """What the user can put right; the command line prints it as one line and ends with 2."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors take one line."""

    def error(self, message: str) -> NoReturn:
        """Print the message and end with 2."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())} ({self.prog} --help explains)\n")


def require_extras(*modules: str) -> None:
    """Import optional packages, so that a missing one is reported before any work is done.

    Raises
    ------
    CommandError
        If one is missing, with the command that installs it.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise CommandError(
                f"this command needs the Python package {module}, which cannot be imported ({error}). "
                "Install it with: pip install 'gradops[demo]'"
            ) from error
