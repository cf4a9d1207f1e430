"""``gradops info``: what runs here."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from typing import Any

import gradops
from gradops import _core
from gradops.cli._common import require_extras

__all__ = ["DESCRIPTION", "HELP", "add_arguments", "run"]

HELP = "show versions, instruction set, threads and optional packages"
DESCRIPTION = "Show what a bug report needs: versions, instruction set, threads, and the optional packages found."

#: Distributions that gradops uses or recognises when they are there.
_PACKAGES = ("numpy", "ml_dtypes", "rich", "pillow", "matplotlib", "torch", "jax", "tensorflow")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("--json", action="store_true", help="print JSON, which needs no optional package")


def run(options: argparse.Namespace) -> None:
    """Print the facts, as a table or as JSON."""
    if options.json:
        print(json.dumps(_facts(), indent=2))
    else:
        require_extras("rich")
        _print_table(_facts())


def _facts() -> dict[str, Any]:
    return {
        "gradops": gradops.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "instruction_set": gradops.instruction_set(),
        "available_instruction_sets": list(_core.available_levels()),
        "threads": gradops.get_num_threads(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _print_table(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="gradops", show_header=False)
    for name, value in facts.items():
        if name == "packages":
            table.add_section()
            for package, version in value.items():
                table.add_row(package, version or "not installed")
        else:
            table.add_row(name.replace("_", " "), ", ".join(value) if isinstance(value, list) else str(value))
    Console(file=sys.stdout, highlight=False, markup=False).print(table)
