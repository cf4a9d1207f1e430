"""Reading a photograph of any kind that Pillow knows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from gradops.cli._common import CommandError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Photograph", "load", "sample_photograph"]

_LONGEST = 768  # pixels; what two slow cores rebuild well under a minute
_SHORTEST = 8


class Photograph(NamedTuple):
    """A picture, ready to work on."""

    pixels: npt.NDArray[np.float32]  # (1, height, width, 3), from 0 to 1
    original_size: tuple[int, int]  # (height, width) before it was made smaller


def sample_photograph() -> Path:
    """Path of the photograph that Matplotlib ships: Grace Hopper, by James S. Davis, public domain."""
    from matplotlib import cbook

    try:
        return Path(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))
    except OSError as error:
        raise CommandError("this Matplotlib came without its sample photograph; name one with --image") from error


def load(path: Path) -> Photograph:
    """Read a photograph, upright, in colour, at most 768 pixels long.

    Parameters
    ----------
    path : Path
        Any file that Pillow reads; of several frames, the first.

    Returns
    -------
    Photograph
        Grey becomes equal red, green and blue; what is transparent becomes white.

    Raises
    ------
    CommandError
        If it is no file, no picture, broken, or of a size to refuse.
    """
    if not path.exists():
        raise CommandError(f"{path}: no such file")
    if not path.is_file():
        raise CommandError(f"{path}: not a file")
    try:
        image = _read(path)
    except Exception as error:  # on a broken file Pillow's readers raise nearly anything
        raise CommandError(f"{path}: cannot be read as an image: {error or type(error).__name__}") from error
    width, height = image.size
    image = _shrink(image)
    if min(image.size) < _SHORTEST:
        raise CommandError(
            f"{path}: {width} x {height} pixels are too few; the demo needs {_SHORTEST} x {_SHORTEST}, "
            f"after the longer side is cut down to {_LONGEST}"
        )
    return Photograph(np.asarray(image, np.float32)[None] / np.float32(255), (height, width))


def _read(path: Path) -> Image.Image:
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks about odd metadata
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(path) as image:
            return _to_rgb(ImageOps.exif_transpose(image))


def _to_rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):  # Pillow would clip these to 8 bits
        return _from_wide(np.asarray(image, np.float32)).convert("RGB")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _from_wide(values: npt.NDArray[np.float32]) -> Image.Image:
    """Scale 16-bit integers, or floats from 0 to 1 or to 255, to 8 bits; wilder ranges by their largest value."""
    from PIL import Image

    values = np.nan_to_num(values, nan=0, posinf=0, neginf=0)
    largest = values.max(initial=0)
    full = next((limit for limit in (1, 255, 65535) if largest <= limit), largest)
    return Image.fromarray((values.clip(0) * (255 / full)).round().astype(np.uint8))


def _shrink(image: Image.Image) -> Image.Image:
    from PIL import Image

    scale = _LONGEST / max(image.size)
    if scale >= 1:
        return image
    width, height = (max(1, round(side * scale)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)
