"""Reads the vectors of `tests/golden`, or of the folder that GRADOPS_GOLDEN names."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import gradops

__all__ = ["FOLDER", "FUNCTIONS", "arguments", "array", "attributes", "load"]

FOLDER = Path(os.environ.get("GRADOPS_GOLDEN") or Path(__file__).parent / "golden")

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Conv2D": gradops.conv2d,
    "Conv2DBackpropInput": gradops.conv2d_backprop_input,
    "CropAndResize": gradops.crop_and_resize,
    "CropAndResizeGradImage": gradops.crop_and_resize_grad_image,
}


@functools.cache
def load() -> list[dict[str, Any]]:
    """Return the cases of the operators that the library has, in the order of the file."""
    with (FOLDER / "cases.jsonl").open() as lines:
        return [case for case in map(json.loads, lines) if case["op"] in FUNCTIONS]


@functools.cache
def _file(name: str) -> Any:
    return np.load(FOLDER / name)


def array(case: dict[str, Any], key: str, dtype: str) -> npt.NDArray[Any]:
    """Return an array of a case; bfloat16 is stored as its bits."""
    stored: npt.NDArray[Any] = _file(case["file"])[key]
    return stored.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else stored


def arguments(case: dict[str, Any]) -> dict[str, Any]:
    """Return the tensor arguments of a case."""
    return {
        name: None if key is None else array(case, key, case["arg_dtypes"][name]) for name, key in case["args"].items()
    }


def attributes(case: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a case as keyword arguments."""
    return dict(case["attrs"])
