"""Panels of pictures side by side, a detail of each below it, drawn with Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gradops.cli._jobs import Picture

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

__all__ = ["save_panel"]

_TILE = 400  # pixels: the longer side of every picture
_GAP = 16
_HEADING, _CAPTION = 64, 68  # heights of the lines of text
_ZOOM = 3
_DETAIL = (0.3, 0.5)  # middle of the detail, down and to the right: where a portrait has its face
_INK, _FAINT, _PAPER = "#1a1a1a", "#6b6b6b", "#ffffff"


def save_panel(path: Path, heading: str, pictures: Sequence[Picture]) -> None:
    """Write the pictures, captioned, in one row, and below it the same detail of each.

    Parameters
    ----------
    path : Path
        The PNG file to write.
    heading : str
        What the panel shows.
    pictures : sequence of Picture
        All of one height and width.
    """
    from PIL import Image, ImageDraw

    whole = [_image(picture) for picture in pictures]
    box = _detail_box(*whole[0].size)
    details = [image.crop(box) for image in whole]
    (width, height), (_, detail_height) = _tile_size(whole[0]), _tile_size(details[0])
    panel = Image.new(
        "RGB",
        (
            _GAP + len(pictures) * (width + _GAP),
            _HEADING + height + _GAP + detail_height + _CAPTION,
        ),
        _PAPER,
    )
    draw = ImageDraw.Draw(panel)
    _write(draw, (_GAP, 18), heading, 24, _INK, panel.width - 2 * _GAP)
    for i, picture in enumerate(pictures):
        left, top = _GAP + i * (width + _GAP), _HEADING
        panel.paste(_fit(whole[i], (width, height)), (left, top))
        top += height + _GAP
        panel.paste(_fit(details[i], (width, detail_height)), (left, top))
        top += detail_height
        _write(draw, (left, top + 8), picture.title, 20, _INK, width)
        _write(draw, (left, top + 36), picture.note, 16, _FAINT, width)
    panel.save(path, format="PNG")


def _image(picture: Picture) -> Image.Image:
    """Picture in 8-bit colours; two-dimensional pixels as a heat map, black where nothing is."""
    from matplotlib import colormaps
    from PIL import Image

    pixels = picture.pixels
    if pixels.ndim == 2:
        pixels = colormaps["magma"](pixels / max(float(pixels.max()), 1e-9))[:, :, :3]
    return Image.fromarray((pixels.clip(0, 1) * 255).round().astype(np.uint8))


def _detail_box(width: int, height: int) -> tuple[int, int, int, int]:
    down, right = _DETAIL
    left, top = int(width * (right - 0.5 / _ZOOM)), max(0, int(height * (down - 0.5 / _ZOOM)))
    return left, top, left + max(1, width // _ZOOM), top + max(1, height // _ZOOM)


def _tile_size(image: Image.Image) -> tuple[int, int]:
    scale = _TILE / max(image.size)
    return max(1, round(image.width * scale)), max(1, round(image.height * scale))


def _fit(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Resize: smoothly to make it smaller; to make it larger, so that its pixels can be seen."""
    from PIL import Image

    smaller = size[0] < image.width
    return image.resize(size, Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST)


def _write(draw: ImageDraw.ImageDraw, at: tuple[int, int], text: str, size: int, ink: str, room: int) -> None:
    """Write one line, in smaller letters where the room asks for it."""
    from PIL import ImageFont

    font = ImageFont.load_default(size)
    while size > 8 and draw.textlength(text, font=font) > room:
        size -= 1
        font = ImageFont.load_default(size)
    draw.text(at, text, fill=ink, font=font)
