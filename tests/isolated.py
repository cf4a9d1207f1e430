"""Code that might crash, hang or eat the machine, run in a process of its own with little memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

__all__ = ["outcomes", "run"]

_CHILD = """
import json, sys
limit = int(sys.argv[1])
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
import numpy as np
import gradops
for name, code in json.load(sys.stdin).items():
    names = {"np": np, "gradops": gradops}
    try:
        exec(code, names)
        result = names.get("result")
        outcome = names.get("outcome") or f"{result.dtype} {list(result.shape)} sum {float(np.sum(result))!r}"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    print(json.dumps([name, outcome]), flush=True)
"""


def outcomes(
    snippets: Mapping[str, str],
    *,
    address_space: int = 8 << 30,
    timeout: float = 60,
    env: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Run each snippet with `np` and `gradops` at hand and return how it ended, by name.

    An outcome is what the snippet assigned to `outcome`, else the dtype, shape and sum of its
    `result`, or ``"ErrorClass: message"``, ``"killed by SIGSEGV"`` or ``"no answer in 60 s"``. All
    run in one process; the one that ends it is followed by the rest in a new process.
    """
    ended: dict[str, str] = {}
    while left := {name: code for name, code in snippets.items() if name not in ended}:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(address_space)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        timed_out = threading.Event()

        def stop(child: subprocess.Popen[str] = child, timed_out: threading.Event = timed_out) -> None:
            timed_out.set()
            child.kill()

        timer = threading.Timer(timeout, stop)
        timer.start()
        try:
            lines, errors = child.communicate(json.dumps(left))
        finally:
            timer.cancel()
        ended.update(map(json.loads, lines.splitlines()))
        if child.returncode == 0:
            break
        at = next(name for name in left if name not in ended)
        if timed_out.is_set():
            ended[at] = f"no answer in {timeout} s"
        elif child.returncode < 0:
            ended[at] = f"killed by {signal.Signals(-child.returncode).name}"
        else:
            ended[at] = f"exit status {child.returncode}: {errors[-500:]}"
    return ended


def run(code: str, *, timeout: float = 60, env: Mapping[str, str] | None = None) -> str:
    """Run a program in a fresh interpreter; return what it printed, fail if it did not end well.

    A variable given as the empty string in `env` is taken out of the environment.
    """
    environment = {name: value for name, value in {**os.environ, **(env or {})}.items() if value != ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-2000:]}"
    return done.stdout.strip()
