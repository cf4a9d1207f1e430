"""Threads, instruction sets, forks, imports, documentation: what surrounds the operators."""

from __future__ import annotations

import concurrent.futures
import doctest
import importlib
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradops
from gradops import _core
from gradops.errors import InvalidArgumentError
from isolated import run
from strategies import Convolution, Crops

ROOT = Path(__file__).parent.parent

#: Prints a checksum of a convolution and a crop gradient large enough to be shared among threads.
WORK = """
import hashlib, numpy as np, gradops
rng = np.random.default_rng(0)
weights, grad = rng.random((3, 3, 8, 8), np.float32), rng.random((2, 64, 64, 8), np.float32)
grads, boxes = rng.random((50, 9, 9, 4), np.float32), rng.random((50, 4), np.float32)
def work():
    conv = gradops.conv2d_backprop_input([2, 64, 64, 8], weights, grad, [1, 1, 1, 1], "SAME")
    box_ind = np.arange(50, dtype=np.int32) % 2
    crop = gradops.crop_and_resize_grad_image(grads, boxes, box_ind, [2, 40, 40, 4], "float32")
    return hashlib.sha256(conv.tobytes() + crop.tobytes()).hexdigest()
"""


# --- threads ---


@pytest.mark.usefixtures("restore_settings")
@pytest.mark.parametrize("count", [1, 2, 7, 1024, np.int64(3), True])
def test_the_number_of_threads_is_set_for_the_process(count: int) -> None:
    gradops.set_num_threads(count)
    assert gradops.get_num_threads() == count


@pytest.mark.parametrize("count", [0, -1, 1025, 2**40])
def test_an_impossible_number_of_threads_is_refused(count: int) -> None:
    before = gradops.get_num_threads()
    with pytest.raises(InvalidArgumentError, match=f"set_num_threads: count must be from 1 to 1024, got {count}"):
        gradops.set_num_threads(count)
    assert gradops.get_num_threads() == before


@pytest.mark.parametrize("count", [1.5, "2", None])
def test_a_number_of_threads_that_is_no_integer_is_refused(count: Any) -> None:
    with pytest.raises(TypeError):
        gradops.set_num_threads(count)


def threads_in_a_new_process(value: str) -> int:
    return int(run("import gradops; print(gradops.get_num_threads())", env={"GRADOPS_NUM_THREADS": value}))


def test_the_environment_sets_the_number_of_threads() -> None:
    assert threads_in_a_new_process("3") == 3
    assert threads_in_a_new_process("1") == 1


def test_the_default_is_the_processors_this_process_may_use() -> None:
    assert 1 <= threads_in_a_new_process("") <= len(os.sched_getaffinity(0))
    one = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); import gradops; "
    assert run(one + "print(gradops.get_num_threads())", env={"GRADOPS_NUM_THREADS": ""}) == "1"


@pytest.mark.parametrize("value", ["0", "-2", "many", "1.5", "99999999999999999999"])
def test_nonsense_in_the_environment_does_no_harm(value: str) -> None:
    """It is refused by name, or the default holds."""
    code = "import gradops; print(gradops.get_num_threads())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "GRADOPS_NUM_THREADS": value},
        check=False,
    )
    if done.returncode:
        assert "GRADOPS_NUM_THREADS" in done.stderr.splitlines()[-1]
    else:
        assert 1 <= int(done.stdout) <= 1024


def test_eight_threads_at_once_get_the_bits_of_one() -> None:
    convolution, crops = Convolution(2, (30, 31), 1, 8, 9, (3, 3)), Crops(2, (20, 21), 3, 60, (5, 5))

    def work(_: int) -> bytes:
        conv = gradops.conv2d(convolution.input, convolution.filter, **convolution.attrs)
        image = gradops.crop_and_resize_grad_image(
            crops.grads, crops.boxes, crops.box_ind, list(crops.image_shape), "float32"
        )
        return bytes(conv.tobytes() + image.tobytes())

    wanted = work(0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(80))) == {wanted}


def test_the_settings_may_change_while_others_compute() -> None:
    case = Convolution(2, (30, 31), 1, 8, 9, (3, 3))
    wanted = gradops.conv2d(case.input, case.filter, **case.attrs).tobytes()
    threads, stop = gradops.get_num_threads(), threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            for count in (1, 2, 5):
                gradops.set_num_threads(count)
                gradops.empty_cache()

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        for _ in range(100):
            assert gradops.conv2d(case.input, case.filter, **case.attrs).tobytes() == wanted
    finally:
        stop.set()
        disturber.join()
        gradops.set_num_threads(threads)


def test_other_python_threads_run_while_a_kernel_does() -> None:
    """The GIL is released: a kernel in one thread and a Python loop in another both make progress."""
    code = (
        WORK
        + """
import threading
gradops.set_num_threads(1)
started, done, seen = threading.Event(), threading.Event(), 0
image, filter = np.ones((1, 600, 600, 32), np.float32), np.ones((3, 3, 32, 32), np.float32)
def kernel():
    started.set()
    gradops.conv2d(image, filter, [1, 1, 1, 1], "SAME")
    done.set()
threading.Thread(target=kernel).start()
started.wait()
while not done.is_set():
    seen += 1
print(seen > 100)
"""
    )
    assert run(code) == "True"


# --- fork ---


def test_a_forked_child_computes_the_same_bits_after_its_parent_did() -> None:
    code = (
        WORK
        + """
import os
gradops.set_num_threads(4)
wanted = work()
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, work().encode())
    os._exit(0)
os.waitpid(child, 0)
assert os.read(read, 100).decode() == wanted
assert work() == wanted  # and so does the parent afterwards
print("same")
"""
    )
    assert run(code, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"}) == "same"


def test_a_pool_of_forked_processes_computes_the_same_bits() -> None:
    code = (
        WORK
        + """
import multiprocessing
gradops.set_num_threads(3)
wanted = work()
def job(_):
    return work()
with multiprocessing.get_context("fork").Pool(3) as pool:
    results = pool.map(job, range(9))
assert set(results) == {wanted}
print("same")
"""
    )
    assert run(code, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"}) == "same"


def test_a_fork_while_other_threads_compute_is_safe() -> None:
    code = (
        WORK
        + """
import os, threading
gradops.set_num_threads(4)
wanted, stop = work(), threading.Event()
def keep_busy():
    while not stop.is_set():
        assert work() == wanted
threads = [threading.Thread(target=keep_busy) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if work() == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
print("same")
"""
    )
    assert run(code, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"}) == "same"


def test_a_process_ends_while_a_daemon_thread_computes() -> None:
    code = """
import threading, time, numpy as np, gradops
image, weights = np.ones((1, 128, 128, 16), np.float32), np.ones((3, 3, 16, 16), np.float32)
def compute_for_ever():
    while True: gradops.conv2d(image, weights, [1, 1, 1, 1], "SAME")
threading.Thread(target=compute_for_ever, daemon=True).start()
time.sleep(0.1)
"""
    for _ in range(3):
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- instruction sets ---


def test_the_best_instruction_set_is_used_unless_told() -> None:
    levels = _core.available_levels()
    assert levels
    assert run("import gradops; print(gradops.instruction_set())", env={"GRADOPS_ISA": ""}) == levels[-1]


@pytest.mark.parametrize("level", _core.available_levels())
def test_the_environment_forces_an_instruction_set_with_the_same_bits(level: str) -> None:
    code = WORK + "print(gradops.instruction_set(), work())"
    best = run(WORK + "print(work())", env={"GRADOPS_ISA": ""})
    assert run(code, env={"GRADOPS_ISA": level}) == f"{level} {best}"


@pytest.mark.parametrize("level", ["v1", "V3", "avx512", "v99"])
def test_an_instruction_set_that_is_not_here_is_refused_at_import(level: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import gradops"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "GRADOPS_ISA": level},
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"InvalidArgumentError: GRADOPS_ISA is '{level}', but this machine has" in last
    assert _core.available_levels()[0] in last


def test_no_level_but_the_available_ones_can_be_set() -> None:
    active = _core.active_level()
    assert not _core.set_level("v99")
    assert _core.active_level() == active


# --- memory ---


MEMORY = """
import numpy as np, gradops
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
def result(rows):  # of 16 MB for 1024 rows
    return gradops.crop_and_resize_grad_image(
        np.ones((0, 1, 1, 1), np.float32), np.ones((0, 4), np.float32), [], [1, rows, 4096, 1], "float32"
    )
"""


def test_the_memory_of_released_results_is_kept_and_can_be_given_back() -> None:
    code = (
        MEMORY
        + """
result(4096)
kept = resident()
gradops.empty_cache()
assert kept - resident() > 50, (kept, resident())
assert not result(4096).any()
print("done")
"""
    )
    assert run(code) == "done"


def test_released_results_do_not_pile_up() -> None:
    """The README promises 256 MB at most."""
    code = (
        MEMORY
        + """
before = resident()
for rows in range(1000, 1060):  # about 1 GB, no two of a size
    result(rows)
assert resident() - before < 256 + 20, (before, resident())
print("done")
"""
    )
    assert run(code) == "done"


# --- imports, stub, documentation ---


def test_importing_gradops_imports_no_framework() -> None:
    code = """
import sys, gradops
heavy = {"torch", "jax", "jaxlib", "tensorflow", "matplotlib", "PIL", "scipy", "rich", "dask", "hypothesis", "google"}
print(sorted(heavy & set(sys.modules)))
"""
    assert run(code) == "[]"


def test_the_stub_of_the_extension_is_what_nanobind_makes(tmp_path: Path) -> None:
    pytest.importorskip("nanobind")
    stub = tmp_path / "_core.pyi"
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-m", "gradops._core", "-o", stub], check=True, timeout=60
    )
    assert (Path(gradops.__file__).parent / "_core.pyi").read_text() == stub.read_text()


def public_modules() -> list[str]:
    names = [info.name for info in pkgutil.walk_packages(gradops.__path__, "gradops.")]
    return ["gradops", *(name for name in names if name.rpartition(".")[2] != "__main__")]


@pytest.mark.parametrize("name", public_modules())
def test_the_examples_of_a_module_print_what_they_say(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("name", ["conv2d", "conv2d_backprop_input", "crop_and_resize", "crop_and_resize_grad_image"])
def test_every_operator_has_an_example(name: str) -> None:
    assert ">>> " in getattr(gradops, name).__doc__


def readme_blocks() -> list[tuple[str, str | None]]:
    """The README's Python blocks, each with the text block after it, if one follows at once."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", readme, re.DOTALL)
    return [(code, printed or None) for code, printed in blocks]


def test_the_readme_has_python_to_run() -> None:
    assert readme_blocks()


@pytest.mark.parametrize(("code", "printed"), readme_blocks())
def test_the_readmes_python_prints_what_it_says(code: str, printed: str | None) -> None:
    output = run(code)
    if printed is not None:
        assert output == printed.strip()


def test_every_public_name_exists() -> None:
    for name in gradops.__all__:
        assert getattr(gradops, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", gradops.__version__)
