"""The two jobs of the demo: what is done to the photograph, and how it is undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradops.cli._linear import Array, LinearMap, adjoint_error, blur, crops, rebuild

__all__ = ["JOBS", "STEPS", "Figure", "Job", "Outcome", "Picture", "join_crops", "undo_blur"]

#: Standard deviation of the noise in all that is observed, as a fraction of white.
NOISE = 0.005

#: Each round looks anew at where the edges are.
_ROUNDS, _STEPS_PER_ROUND = 5, 20
STEPS = _ROUNDS * _STEPS_PER_ROUND

_BOXES = 300
_CROP_SIZE = (40, 40)


class Figure(NamedTuple):
    """One line of the table: its name in the JSON file, its name and value for people, its value."""

    key: str
    label: str
    text: str
    value: Any


class Picture(NamedTuple):
    """One picture of a panel."""

    title: str
    note: str
    pixels: Array  # (height, width, 3) from 0 to 1, or (height, width) of any range, shown as a heat map


class Outcome(NamedTuple):
    """What a job has to show."""

    figures: list[Figure]
    pictures: list[Picture]


OnStep = Callable[[int, float], None]


def undo_blur(photograph: Array, random: np.random.Generator, on_step: OnStep) -> Outcome:
    """Blur the photograph as a shaken camera does, keep every second pixel, add noise; then rebuild it."""
    camera = blur(photograph.shape, _shake(8), stride=2)
    seen = _with_noise(camera.apply(photograph), random)
    before = _enlarge(seen / camera.apply(np.ones_like(photograph)), photograph.shape)
    after, figures = _rebuild(camera, seen, before, photograph, random, on_step)
    figures[:0] = [
        Figure("blur", "blur", "8 pixels along a diagonal", "diagonal, 8 pixels"),
        Figure("stride", "kept", "every 2nd pixel of every 2nd row", 2),
    ]
    return Outcome(
        figures,
        [
            _original(photograph),
            _judged("observed, enlarged", before, photograph),
            _judged("rebuilt", after, photograph),
        ],
    )


def join_crops(photograph: Array, random: np.random.Generator, on_step: OnStep) -> Outcome:
    """Take small crops of the photograph at random places, with noise; then rebuild it from them."""
    boxes = _random_boxes(random)
    camera = crops(photograph.shape, boxes, _CROP_SIZE)
    seen = _with_noise(camera.apply(photograph), random)
    coverage = camera.adjoint(np.ones_like(seen))
    before = _weighted_mean(camera.adjoint(seen), coverage)
    after, figures = _rebuild(camera, seen, before, photograph, random, on_step)
    covered, samples = float((coverage > 0).mean()), float(coverage[0, :, :, 0].mean(dtype=np.float64))
    outside = int(((boxes.min(axis=1) < 0) | (boxes.max(axis=1) > 1)).sum())
    figures[:0] = [
        Figure("boxes", "crops", f"{_BOXES} of {_CROP_SIZE[0]} x {_CROP_SIZE[1]} pixels", _BOXES),
        Figure("boxes_partly_outside", "partly outside the photograph", f"{outside}", outside),
        Figure("covered", "pixels covered", f"{covered:.2%}", covered),
        Figure("samples_per_pixel", "samples per pixel, on average", f"{samples:.2f}", samples),
    ]
    return Outcome(
        figures,
        [
            _original(photograph),
            Picture("coverage", f"from 0 to {coverage.max():.1f} samples per pixel", coverage[0, :, :, 0]),
            _judged("crops put back", before, photograph),
            _judged("rebuilt", after, photograph),
        ],
    )


class Job(NamedTuple):
    """One job of the demo."""

    name: str  # of its files and its part of figures.json
    title: str
    do: Callable[[Array, np.random.Generator, OnStep], Outcome]


JOBS = (
    Job("deblur", "Undo a blur: conv2d and conv2d_backprop_input", undo_blur),
    Job("crops", "Join crops: crop_and_resize and crop_and_resize_grad_image", join_crops),
)


def _rebuild(
    camera: LinearMap, seen: Array, before: Array, truth: Array, random: np.random.Generator, on_step: OnStep
) -> tuple[Array, list[Figure]]:
    """Rebuild the photograph and say how well that went."""
    steps = [(0, 0.0)]

    def note_step(step: int, residual: float) -> None:
        steps.append((step, residual))
        on_step(step, residual)

    start = time.perf_counter()
    after = rebuild(camera, seen, before, NOISE, _ROUNDS, _STEPS_PER_ROUND, note_step)
    seconds = time.perf_counter() - start
    misfit = float(np.sqrt(np.mean((camera.apply(after) - seen) ** 2, dtype=np.float64)))
    adjoint = adjoint_error(camera, _random_like(truth, random), _random_like(seen, random))
    psnr_before, psnr_after = _psnr(before, truth), _psnr(after, truth)
    iterations, residual = len(steps) - 1, steps[-1][1]
    return after, [
        Figure("noise", "noise added", f"{NOISE:.2%} of white", NOISE),
        Figure("psnr_before", "PSNR before", f"{psnr_before:.2f} dB", psnr_before),
        Figure("psnr_after", "PSNR after", f"{psnr_after:.2f} dB", psnr_after),
        Figure("misfit", "left unexplained", f"{misfit:.2%} of white", misfit),
        Figure("iterations", "iterations", f"{iterations}", iterations),
        Figure("residual", "residual, relative", f"{residual:.1e}", residual),
        Figure("adjoint_error", "<Ax, y> - <x, A'y>, relative", f"{adjoint:.1e}", adjoint),
        Figure("seconds", "time", f"{seconds:.1f} s", seconds),
    ]


def _original(photograph: Array) -> Picture:
    return Picture("original", f"{photograph.shape[2]} x {photograph.shape[1]} pixels", photograph[0])


def _judged(title: str, pixels: Array, truth: Array) -> Picture:
    return Picture(title, f"PSNR {_psnr(pixels, truth):.2f} dB", pixels[0])


def _psnr(pixels: Array, truth: Array) -> float:
    """Peak signal-to-noise ratio in dB, as the picture will be seen: within black and white."""
    error = np.mean((pixels.clip(0, 1) - truth) ** 2, dtype=np.float64)
    return float(-10 * np.log10(max(error, 1e-14)))  # where float32 ends, so that a perfect picture has a figure too


def _shake(size: int) -> Array:
    """Blur along the diagonal, of an even size: its middle, like that of stride 2, lies between two pixels."""
    across = np.subtract.outer(np.arange(size), np.arange(size)) / np.sqrt(2)
    kernel: Array = np.exp(-2 * across**2).astype(np.float32)
    kernel /= kernel.sum()
    return kernel


def _enlarge(small: Array, shape: tuple[int, ...]) -> Array:
    """Bicubic enlargement by 2 to `shape`."""
    from PIL import Image

    _, height, width, channels = shape
    planes = [
        Image.fromarray(small[0, :, :, channel]).resize(
            (width, height), Image.Resampling.BICUBIC, box=(0, 0, width / 2, height / 2)
        )
        for channel in range(channels)
    ]
    return np.stack([np.asarray(plane) for plane in planes], axis=-1)[None]


def _random_boxes(random: np.random.Generator) -> Array:
    """Boxes from a tenth to four tenths of the photograph's sides, their middles anywhere inside it."""
    middle, size = random.uniform(0, 1, (_BOXES, 2)), random.uniform(0.1, 0.4, (_BOXES, 2))
    return np.concatenate([middle - size / 2, middle + size / 2], axis=1, dtype=np.float32, casting="same_kind")


def _weighted_mean(total: Array, weight: Array) -> Array:
    """Mean of what fell on each pixel; where nothing fell, the mean of all others."""
    covered = weight > 0
    mean = np.divide(total, weight, out=np.zeros_like(total), where=covered)
    mean[~covered] = mean[covered].mean()
    return mean


def _with_noise(pixels: Array, random: np.random.Generator) -> Array:
    return pixels + np.float32(NOISE) * _random_like(pixels, random)


def _random_like(pixels: Array, random: np.random.Generator) -> Array:
    return random.standard_normal(pixels.shape, np.float32)
