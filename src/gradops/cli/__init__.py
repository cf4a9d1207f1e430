"""The command line: ``gradops demo | graph | info``. One file per command, its help text beside it."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

import gradops
from gradops.cli import demo, graph, info
from gradops.cli._common import CommandError, Parser
from gradops.errors import GradopsError

__all__ = ["main"]

_DESCRIPTION = "TensorFlow's image-gradient operators, outside TensorFlow."
_EPILOG = "Exit status: 0 if all went well, 2 for a bad command line or file, 130 after Ctrl-C."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the program's name; by default, what the process was started with.

    Returns
    -------
    int
        The exit status: 0 if all went well, 2 for a bad command line or file, with one line on
        stderr that says what to do, and 130 after Ctrl-C.
    """
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as end:  # argparse's way to end: after --help, or after a wrong argument
        return end.code if isinstance(end.code, int) else 2
    try:
        options.run(options)
        sys.stdout.flush()
    except (CommandError, GradopsError) as error:
        if options.debug:
            traceback.print_exc()
        else:
            print(f"gradops {options.command}: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, `head` perhaps, has gone: nobody to tell, now or at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    common = Parser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
    parser = Parser(prog="gradops", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"gradops {gradops.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for command in (demo, graph, info):
        name = command.__name__.rpartition(".")[2]
        subparser = commands.add_parser(name, help=command.HELP, description=command.DESCRIPTION, parents=[common])
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
