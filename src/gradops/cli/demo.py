"""``gradops demo``: two real jobs on a photograph."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradops.cli._common import CommandError, require_extras
from gradops.cli._jobs import JOBS, STEPS, Figure, Job, Outcome
from gradops.cli._linear import Array

if TYPE_CHECKING:
    from rich.console import Console

    from gradops.cli._photograph import Photograph

__all__ = ["DESCRIPTION", "HELP", "add_arguments", "run"]

HELP = "deblur a photograph, and rebuild it from random crops"
DESCRIPTION = (
    "Do two jobs on a photograph, each with an operator and its exact adjoint in conjugate gradients: "
    "undo a blur with stride 2 and noise (conv2d, conv2d_backprop_input), and rebuild the photograph from 300 "
    "overlapping crops (crop_and_resize, crop_and_resize_grad_image). Print how much better the pictures got, "
    "and write them as PNG files, the figures as figures.json. Needs pip install 'gradops[demo]'."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument(
        "--image",
        type=Path,
        metavar="FILE",
        help="photograph to use, made smaller if over 768 pixels long (default: the one that Matplotlib ships)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("demo"), help="folder for the results (default: demo)"
    )
    parser.add_argument(
        "--seed", type=_seed, metavar="N", default=0, help="choice of noise and crops, 0 or more (default: 0)"
    )


def run(options: argparse.Namespace) -> None:
    """Do both jobs, print their figures, and write pictures and figures to files."""
    require_extras("rich", "PIL", "matplotlib")
    from rich.console import Console

    from gradops.cli import _photograph

    path = options.image or _photograph.sample_photograph()
    photograph = _photograph.load(path)
    _prepare_folder(options.out)
    console = Console(file=sys.stdout, highlight=False, markup=False)
    console.print(_describe(path, photograph), soft_wrap=True)
    report: dict[str, Any] = {"image": _printable(path), "seed": options.seed, "size": photograph.pixels.shape[1:3]}
    written = [_do_job(console, job, photograph.pixels, options, report) for job in JOBS]
    written.append(_write_figures(options.out / "figures.json", report))
    console.print(f"Written: {', '.join(map(_printable, written))}", soft_wrap=True)


def _do_job(console: Console, job: Job, pixels: Array, options: argparse.Namespace, report: dict[str, Any]) -> Path:
    """Do one job, print and report its figures, and return the path of its panel."""
    from gradops.cli._panel import save_panel

    outcome = _with_progress(job, pixels, options.seed)
    _print_table(console, job.title, outcome.figures)
    report[job.name] = {figure.key: figure.value for figure in outcome.figures}
    path: Path = options.out / f"{job.name}.png"
    with _file_errors(path):
        save_panel(path, job.title, outcome.pictures)
    return path


def _with_progress(job: Job, pixels: Array, seed: int) -> Outcome:
    """Do one job under a progress bar, which only a person at a terminal gets to see."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("residual {task.fields[residual]:.1e}"),
        TimeElapsedColumn(),
    )
    hidden = not (console.is_interactive and sys.stderr.isatty())  # FORCE_COLOR alone makes no terminal of a log
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(job.name, total=STEPS, residual=1.0)
        return job.do(
            pixels,
            np.random.default_rng([seed, JOBS.index(job)]),
            lambda step, residual: progress.update(task, completed=step, residual=residual),
        )


def _print_table(console: Console, title: str, figures: Sequence[Figure]) -> None:
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for figure in figures:
        table.add_row(figure.label, figure.text, style="bold" if figure.key.startswith("psnr") else None)
    console.print(f"\n{title}", style="bold", soft_wrap=True)
    console.print(table)


def _write_figures(path: Path, report: dict[str, Any]) -> Path:
    with _file_errors(path):
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return path


def _prepare_folder(folder: Path) -> None:
    """Make the folder, and find out before the work, not after it, if nothing can be written there."""
    with _file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Turn what the file system says into the one line that the user gets."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror or error}") from error


def _describe(path: Path, photograph: Photograph) -> str:
    height, width = photograph.pixels.shape[1:3]
    text = f"{_printable(path)}: {width} x {height} pixels"
    if (height, width) != photograph.original_size:
        text += f", made smaller from {photograph.original_size[1]} x {photograph.original_size[0]}"
    return text


def _printable(path: Path) -> str:
    """Path as text that any stdout takes, whatever bytes are in its name."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return str(path).encode(encoding, "backslashreplace").decode(encoding)


def _seed(text: str) -> int:
    seed = int(text)
    if seed < 0:
        raise argparse.ArgumentTypeError(f"{seed} is negative; a seed is 0 or more")
    return seed
