"""``gradops demo``: both jobs on small pictures, every kind of picture, every way to go wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gradops.cli import _photograph, main
from gradops.cli._common import CommandError
from gradops.cli._linear import adjoint_error, blur, conjugate_gradients, crops, differences

Picture = Callable[..., Path]


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    """Return a function that writes the picture of a disc on a slope and returns its path."""

    def write(name: str = "disc.png", size: tuple[int, int] = (40, 32), mode: str = "RGB", **options: Any) -> Path:
        path = tmp_path / name
        _disc(size).convert(mode).save(path, **options)
        return path

    return write


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the way through matters."""
    monkeypatch.setattr("gradops.cli._jobs._ROUNDS", 2)
    monkeypatch.setattr("gradops.cli._jobs._STEPS_PER_ROUND", 2)


def _disc(size: tuple[int, int]) -> Image.Image:
    width, height = size
    y, x = np.mgrid[:height, :width]
    disc = (y - height / 2) ** 2 + (x - width / 2) ** 2 < (min(size) / 3) ** 2
    return Image.fromarray(np.stack([255 * disc, 6 * y % 256, 6 * x % 256], axis=-1).astype(np.uint8))


def _error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command line, which must fail with one line, and return that line."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


# --- what it makes ---


def test_both_jobs_raise_the_psnr_and_write_their_files(
    picture: Picture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made" / "here"
    assert main(["demo", "--image", str(picture()), "--out", str(out)]) == 0

    figures = json.loads((out / "figures.json").read_text())
    assert figures["size"] == [32, 40]
    assert figures["seed"] == 0
    for job in ("deblur", "crops"):
        assert figures[job]["psnr_after"] > figures[job]["psnr_before"] + 3
        assert figures[job]["misfit"] < 2 * figures[job]["noise"]
        assert figures[job]["adjoint_error"] < 1e-6  # float32, relative to the lengths of the vectors
        assert 0 < figures[job]["iterations"] <= 100
    assert figures["crops"]["boxes"] == 300
    assert 0 < figures["crops"]["boxes_partly_outside"] < 300
    assert figures["crops"]["covered"] > 0.95
    for name in ("deblur.png", "crops.png"):
        with Image.open(out / name) as panel:
            panel.load()
            assert panel.mode == "RGB"
            assert min(panel.size) > 400

    captured = capsys.readouterr()
    assert captured.err == ""
    for text in ("40 x 32 pixels", "PSNR before", "PSNR after", "deblur.png", "crops.png", "figures.json"):
        assert text in captured.out
    assert f"{figures['deblur']['psnr_after']:.2f} dB" in captured.out


@pytest.mark.usefixtures("few_steps")
def test_a_log_gets_no_control_codes(
    picture: Picture, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["demo", "--image", str(picture()), "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # the progress bar's place
    assert "\r" not in captured.out
    assert "\x1b[2K" not in captured.out  # erase line
    assert "\x1b[?25l" not in captured.out  # hide cursor


@pytest.mark.usefixtures("few_steps")
def test_same_seed_same_pictures(picture: Picture, tmp_path: Path) -> None:
    for out, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        assert main(["demo", "--image", str(picture()), "--out", str(tmp_path / out), "--seed", seed]) == 0
    for name in ("deblur.png", "crops.png"):
        a, b, c = ((tmp_path / out / name).read_bytes() for out in "abc")
        assert a == b
        assert a != c


def test_default_photograph_is_matplotlibs() -> None:
    photograph = _photograph.load(_photograph.sample_photograph())
    assert photograph.pixels.shape == (1, 600, 512, 3)


# --- every kind of picture ---


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "I;16", "F"])
def test_every_mode_of_pillow_can_be_read(mode: str, tmp_path: Path) -> None:
    path = tmp_path / ("picture.tif" if mode in ("CMYK", "YCbCr", "I;16", "F") else "picture.png")
    grey = _disc((40, 32)).convert("L")
    image = Image.fromarray(np.asarray(grey, np.uint16) * 257) if mode == "I;16" else grey.convert(mode)
    image.save(path)
    pixels = _photograph.load(path).pixels
    assert pixels.shape == (1, 32, 40, 3)
    assert pixels.dtype == np.float32
    if mode != "1":  # black and white only
        np.testing.assert_allclose(pixels[0, :, :, 1], np.asarray(grey) / 255, atol=2 / 255)


def test_transparent_pixels_become_white(tmp_path: Path) -> None:
    Image.new("RGBA", (16, 16), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (_photograph.load(tmp_path / "clear.png").pixels == 1).all()


def test_float_pixels_that_are_not_finite_become_black(tmp_path: Path) -> None:
    values = np.ones((16, 16), np.float32)
    values[0, :3] = np.nan, np.inf, -np.inf
    Image.fromarray(values).save(tmp_path / "float.tif")
    pixels = _photograph.load(tmp_path / "float.tif").pixels[0, :, :, 0]
    assert pixels[0, :4].tolist() == [0, 0, 0, 1]


def test_exif_orientation_is_followed(picture: Picture) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter
    path = picture("turned.jpg", size=(40, 32), exif=exif)
    assert _photograph.load(path).pixels.shape == (1, 40, 32, 3)


@pytest.mark.usefixtures("few_steps")
def test_long_picture_is_made_smaller_and_the_output_says_so(
    picture: Picture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = picture(size=(1536, 24))
    assert main(["demo", "--image", str(path), "--out", str(tmp_path)]) == 0
    assert "768 x 12 pixels, made smaller from 1536 x 24" in capsys.readouterr().out


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("size", [(8, 8), (9, 8), (8, 31), (33, 9)])
def test_tiny_picture_goes_through(picture: Picture, tmp_path: Path, size: tuple[int, int]) -> None:
    assert main(["demo", "--image", str(picture(size=size)), "--out", str(tmp_path)]) == 0


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("colour", ["black", "white"])
def test_picture_of_one_colour_goes_through(tmp_path: Path, colour: str) -> None:
    Image.new("RGB", (12, 12), colour).save(tmp_path / "plain.png")
    assert main(["demo", "--image", str(tmp_path / "plain.png"), "--out", str(tmp_path)]) == 0


@pytest.mark.usefixtures("few_steps")
def test_name_with_brackets_is_printed_as_it_is(
    picture: Picture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--image", str(picture("[bold]x.png")), "--out", str(tmp_path)]) == 0
    assert "[bold]x.png" in capsys.readouterr().out


# --- every way to go wrong: one line, and 2 ---


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("not an image\n")


def _truncated(path: Path) -> None:
    _disc((200, 200)).save(path, format="JPEG")
    path.write_bytes(path.read_bytes()[:-2000])


def _broken_png(path: Path) -> None:
    _disc((200, 200)).save(path, format="PNG")
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)


def _pixel(path: Path) -> None:
    Image.new("RGB", (1, 1)).save(path, format="PNG")


def _too_thin(path: Path) -> None:
    Image.new("RGB", (4000, 10)).save(path, format="PNG")


def _nothing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_nothing, "no such file"),
        (Path.mkdir, "not a file"),
        (_empty, "cannot be read as an image"),
        (_text, "cannot be read as an image"),
        (_truncated, "cannot be read as an image"),
        (_broken_png, "cannot be read as an image"),
        (_pixel, "1 x 1 pixels are too few"),
        (_too_thin, "4000 x 10 pixels are too few"),
    ],
)
def test_bad_image_is_one_line(
    make: Callable[[Path], object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    make(path)
    out = tmp_path / "out"
    line = _error(capsys, "demo", "--image", str(path), "--out", str(out))
    assert line.startswith(f"gradops demo: {path}: ")
    assert words in line
    assert not out.exists()


@pytest.mark.parametrize("limit", [1000, 500])  # Pillow warns above its limit, and refuses above twice that
def test_decompression_bomb_is_one_line(
    limit: int, picture: Picture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    assert "decompression bomb" in _error(capsys, "demo", "--image", str(picture(size=(40, 32))))


def test_device_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "not a file" in _error(capsys, "demo", "--image", "/dev/zero", "--out", str(tmp_path))


@pytest.mark.parametrize("out", ["file", "file/below", "/proc/nowhere"])
def test_unwritable_out_is_one_line(
    out: str, picture: Picture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    line = _error(capsys, "demo", "--image", str(picture()), "--out", str(tmp_path / out))
    assert "cannot be written" in line


@pytest.mark.usefixtures("few_steps")
def test_file_in_the_way_of_a_panel_is_one_line(
    picture: Picture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "crops.png").mkdir()
    assert main(["demo", "--image", str(picture()), "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error == f"gradops demo: {tmp_path / 'crops.png'}: cannot be written: Is a directory\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: command"),
        (["paint"], "invalid choice: 'paint'"),
        (["demo", "--seed", "-1"], "-1 is negative"),
        (["demo", "--seed", "x"], "invalid"),
        (["demo", "--image"], "expected one argument"),
        (["demo", "photo.jpg"], "unrecognized arguments: photo.jpg"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in _error(capsys, *arguments)


def test_debug_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--debug", "--image", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "no such file" in error


@pytest.mark.parametrize(
    ("module", "command"), [("rich", "info"), ("rich", "demo"), ("PIL", "demo"), ("matplotlib", "demo")]
)
def test_missing_extra_names_the_command_that_installs_it(
    module: str, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # import raises ImportError
    line = _error(capsys, command)
    assert f"package {module}" in line
    assert "pip install 'gradops[demo]'" in line


def test_matplotlib_without_its_photograph_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("grace_hopper.jpg")

    monkeypatch.setattr("matplotlib.cbook.get_sample_data", missing)
    with pytest.raises(CommandError, match="name one with --image"):
        _photograph.sample_photograph()


def test_ctrl_c_ends_quietly_with_130(
    picture: Picture, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gradops.cli._linear.conjugate_gradients", interrupt)
    assert main(["demo", "--image", str(picture()), "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == ""


# --- the process ---


def test_help_needs_no_extra() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['rich', 'PIL', 'matplotlib']))\n"
        "from gradops.cli import main; sys.exit(main(['demo', '--help']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--image" in done.stdout


def test_python_m_gradops_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "gradops", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout
    assert "info" in done.stdout
    assert done.stderr == ""


# --- the helpers ---


def test_conjugate_gradients_solve_a_small_system() -> None:
    random = np.random.default_rng(0)
    root = random.standard_normal((6, 6), np.float32)
    matrix = root @ root.T + np.eye(6, dtype=np.float32)
    rhs = random.standard_normal(6, np.float32)
    steps: list[tuple[int, float]] = []
    solution = conjugate_gradients(
        lambda x: np.asarray(matrix @ x, np.float32),
        rhs,
        np.zeros_like(rhs),
        20,
        lambda step, residual: steps.append((step, residual)),
    )
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, rhs), rtol=1e-3)
    assert [step for step, _ in steps] == list(range(1, len(steps) + 1))
    assert steps[-1][1] <= 1e-6 < steps[-2][1]


def test_conjugate_gradients_take_no_step_from_the_solution() -> None:
    start = np.ones(3, np.float32)
    result = conjugate_gradients(lambda x: 2 * x, 2 * start, start, 5, lambda *_: pytest.fail("a step"))
    np.testing.assert_array_equal(result, start)


def test_differences_are_down_and_to_the_right() -> None:
    image = np.array([[1, 2], [4, 8]], np.float32).reshape(1, 2, 2, 1)
    assert differences(image.shape).apply(image).ravel().tolist() == [3, 1]


@pytest.mark.parametrize("name", ["blur", "differences", "crops"])
def test_every_map_carries_its_adjoint(name: str) -> None:
    random = np.random.default_rng(1)
    shape = (1, 13, 11, 3)
    linear_map = {
        "blur": lambda: blur(shape, random.random((4, 4), np.float32), 2),
        "differences": lambda: differences(shape),
        "crops": lambda: crops(shape, np.array([[0.1, -0.2, 0.8, 0.9], [0.3, 0.2, 1.1, 0.4]], np.float32), (5, 6)),
    }[name]()
    image = random.standard_normal(shape, np.float32)
    seen = random.standard_normal(linear_map.apply(image).shape, np.float32)
    assert adjoint_error(linear_map, image, seen) < 1e-6
