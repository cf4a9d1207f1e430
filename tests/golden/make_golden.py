"""Make golden vectors from an installed TensorFlow: python make_golden.py FOLDER [SEED].

Needs TensorFlow and NumPy, not gradops. README.md beside this file describes the format. The cases
are drawn at random from SEED, so another seed gives another set to test against.
"""

from __future__ import annotations

import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # the plain kernels: exact int32, errors instead of aborts
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

ORIGIN = f"tensorflow {tf.__version__} cpu"
TOLERANCES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "int_exact"}
OPS = {
    "Conv2D": tf.raw_ops.Conv2D,
    "Conv2DBackpropInput": tf.raw_ops.Conv2DBackpropInput,
    "CropAndResize": tf.raw_ops.CropAndResize,
    "CropAndResizeGradImage": tf.raw_ops.CropAndResizeGradImage,
}
NAMES = {
    "Conv2D": "conv2d",
    "Conv2DBackpropInput": "conv2d_backprop_input",
    "CropAndResize": "crop_and_resize",
    "CropAndResizeGradImage": "crop_and_resize_grad_image",
}
BFLOAT16 = tf.bfloat16.as_numpy_dtype


class Writer:
    """Collects cases and arrays, and writes them."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, op: str, category: str, args: dict[str, Any], attrs: dict[str, Any], **more: Any) -> None:
        """Add a case; arrays in `more` go to the file."""
        stem = f"{NAMES[op]}_{category}"
        number = f"{sum(case['id'].startswith(stem + '/') for case in self.cases):03}"
        file = "errors.npz" if category == "errors" else f"{stem}.npz"
        arrays = self.files.setdefault(file, {})

        def store(name: str, value: Any) -> str:
            key = f"{stem}.{number}.{name}"
            value = np.asarray(value)
            arrays[key] = value.view(np.uint16) if value.dtype == BFLOAT16 else value
            return key

        case: dict[str, Any] = {
            "id": f"{stem}/{number}",
            "op": op,
            "category": category,
            "file": file,
            "args": {name: store(name, value) for name, value in args.items()},
            "arg_dtypes": {name: np.asarray(value).dtype.name for name, value in args.items()},
            "attrs": attrs,
            "origin": ORIGIN,
        }
        for name, value in more.items():
            case[name] = store(name, value) if isinstance(value, np.ndarray) else value
        self.cases.append(case)

    def write(self, folder: Path) -> None:
        """Write everything into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for file, arrays in self.files.items():
            np.savez_compressed(folder / file, **arrays)
        lines = [json.dumps(case) + "\n" for case in self.cases]
        (folder / "cases.jsonl").write_text("".join(lines))


def call(op: str, args: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """Call TensorFlow eagerly."""
    given = {**attrs, "T": tf.as_dtype(attrs["T"])} if "T" in attrs else attrs
    return OPS[op](**{name: tf.constant(value) for name, value in args.items()}, **given).numpy()


def wide(value: Any) -> Any:
    """The value in float64, but sizes and indices as they are."""
    return value if value.dtype == np.int32 else value.astype(np.float64)


def add_convolution(writer: Writer, rng: np.random.Generator, dtype: str, padding: str) -> None:
    """Add a forward convolution and its input gradient, on the NHWC problems that plain kernels take."""
    height, width = rng.integers(4, 12, 2).tolist()
    filter_height, filter_width = rng.integers(1, 5, 2).tolist()
    in_channels, out_channels = rng.integers(1, 9, 2).tolist()
    batch = int(rng.integers(1, 4))
    pads = rng.integers(0, 4, 4).tolist()
    attrs: dict[str, Any] = {
        "strides": [1, *rng.integers(1, 4, 2).tolist(), 1],
        "padding": padding,
        "explicit_paddings": [0, 0, *pads, 0, 0] if padding == "EXPLICIT" else [],
        "data_format": "NHWC",
        "dilations": [1, 1, 1, 1],
    }

    def draw(*shape: int) -> Any:
        if dtype == "int32":
            return rng.integers(-(2**31), 2**31, shape, np.int32)
        return rng.standard_normal(shape).astype(BFLOAT16 if dtype == "bfloat16" else dtype)

    image = draw(batch, height, width, in_channels)
    weights = draw(filter_height, filter_width, in_channels, out_channels)
    output = call("Conv2D", {"input": image, "filter": weights}, attrs)
    sizes = np.array(image.shape, np.int32)
    for op, args, terms in (
        ("Conv2D", {"input": image, "filter": weights}, filter_height * filter_width * in_channels),
        (
            "Conv2DBackpropInput",
            {"input_sizes": sizes, "filter": weights, "out_backprop": draw(*output.shape)},
            filter_height * filter_width * out_channels,
        ),
    ):
        expected = call(op, args, attrs)
        exact = call(op, {name: wide(value) for name, value in args.items()}, attrs)
        tensors = {
            name: np.abs(wide(value).astype(np.float64)) for name, value in args.items() if name != "input_sizes"
        }
        sizes_too = {"input_sizes": sizes} if "input_sizes" in args else {}
        scale = float(call(op, {**sizes_too, **tensors}, attrs).max(initial=0))
        more: dict[str, Any] = (
            {} if dtype in ("int32", "float64") else {"exact": exact, "exact_from": "tensorflow float64"}
        )
        writer.add(
            op, "random", args, attrs, kind="value", dtype=dtype, expected=expected, expected_dtype=dtype,
            expected_shape=list(expected.shape), tolerance=TOLERANCES[dtype], scale=scale, terms=terms, **more,
        )  # fmt: skip


def add_crop(writer: Writer, rng: np.random.Generator, T: str, method: str) -> None:
    """Add a crop and its image gradient, boxes of every kind."""
    batch, height, width, depth = rng.integers(1, 9, 4).tolist()
    num_boxes, crop_height, crop_width = rng.integers(1, 9, 3).tolist()
    boxes = rng.uniform(-0.3, 1.3, (num_boxes, 4)).astype(np.float32)
    boxes[rng.random(num_boxes) < 0.3] = [0, 0, 1, 1]
    box_ind = rng.integers(0, batch, num_boxes, np.int32)
    shape = np.array([batch, height, width, depth], np.int32)
    image = rng.standard_normal(shape).astype(T)
    args = {
        "image": image,
        "boxes": boxes,
        "box_ind": box_ind,
        "crop_size": np.array([crop_height, crop_width], np.int32),
    }
    attrs: dict[str, Any] = {"method": method, "extrapolation_value": 0.5}
    crops = call("CropAndResize", args, attrs)
    writer.add(
        "CropAndResize", "random", args, attrs, kind="value", dtype=T, expected=crops, expected_dtype="float32",
        expected_shape=list(crops.shape), tolerance="crop_f32", scale=float(np.abs(image).max()), terms=4,
    )  # fmt: skip

    args = {
        "grads": rng.standard_normal(crops.shape).astype(np.float32),
        "boxes": boxes,
        "box_ind": box_ind,
        "image_size": shape,
    }
    attrs = {"T": T, "method": method}
    expected = call("CropAndResizeGradImage", args, attrs)
    exact = call("CropAndResizeGradImage", args, {**attrs, "T": "float64"})  # products in float32, sums in float64
    magnitude = call("CropAndResizeGradImage", {**args, "grads": np.abs(args["grads"])}, {**attrs, "T": "float64"})
    short = {"float16": "f16", "float32": "f32", "float64": "f64"}[T]
    writer.add(
        "CropAndResizeGradImage", "random", args, attrs, kind="value", dtype=T, expected=expected, expected_dtype=T,
        expected_shape=list(expected.shape), exact=exact, exact_from="tensorflow T float64",
        tolerance=f"grad_image_{short}", scale=float(magnitude.max()), terms=4 * num_boxes * crop_height * crop_width,
    )  # fmt: skip


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


CONV = {"strides": [1, 1, 1, 1], "padding": "SAME"}
INDEX = np.zeros(1, np.int32)
IMAGE_SIZE = np.array([1, 3, 3, 1], np.int32)
#: note, op, arrays, attributes: calls that TensorFlow refuses.
ERRORS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("filter of rank 3", "Conv2D", {"input": ones(1, 3, 3, 1), "filter": ones(1, 1, 1)}, CONV),
    ("stride 0", "Conv2D", {"input": ones(1, 3, 3, 1), "filter": ones(1, 1, 1, 1)}, {**CONV, "strides": [1, 0, 1, 1]}),
    (
        "batch stride", "Conv2D",
        {"input": ones(1, 3, 3, 1), "filter": ones(1, 1, 1, 1)}, {**CONV, "strides": [2, 1, 1, 1]},
    ),
    (
        "wrong height of out_backprop", "Conv2DBackpropInput",
        {"input_sizes": IMAGE_SIZE, "filter": ones(1, 1, 1, 1), "out_backprop": ones(1, 4, 3, 1)}, CONV,
    ),
    (
        "three input_sizes", "Conv2DBackpropInput",
        {"input_sizes": IMAGE_SIZE[:3], "filter": ones(1, 1, 1, 1), "out_backprop": ones(1, 3, 3, 1)}, CONV,
    ),
    (
        "boxes of 3 columns", "CropAndResize",
        {"image": ones(1, 3, 3, 1), "boxes": ones(1, 3), "box_ind": INDEX, "crop_size": np.ones(2, np.int32)}, {},
    ),
    (
        "box_ind out of range", "CropAndResize",
        {"image": ones(1, 3, 3, 1), "boxes": ones(1, 4), "box_ind": INDEX + 1, "crop_size": np.ones(2, np.int32)}, {},
    ),
    (
        "depth differs", "CropAndResizeGradImage",
        {"grads": ones(1, 1, 1, 2), "boxes": ones(1, 4), "box_ind": INDEX, "image_size": IMAGE_SIZE},
        {"T": "float32"},
    ),
    (
        "box_ind negative", "CropAndResizeGradImage",
        {"grads": ones(1, 1, 1, 1), "boxes": ones(1, 4), "box_ind": INDEX - 1, "image_size": IMAGE_SIZE},
        {"T": "float32"},
    ),
]  # fmt: skip


def main(folder: str, seed: str = "0") -> None:
    """Write the vectors."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    rng, writer = np.random.default_rng(int(seed)), Writer()
    for dtype in TOLERANCES:
        for padding in ("SAME", "VALID", "EXPLICIT"):
            for _ in range(4):
                add_convolution(writer, rng, dtype, padding)
    for dtype in ("float32", "float64", "float16"):
        for method in ("bilinear", "nearest"):
            for _ in range(6):
                add_crop(writer, rng, dtype, method)
    for note, op, args, attrs in ERRORS:
        try:
            call(op, args, attrs)
        except tf.errors.OpError as error:
            more = {"kind": "error", "error": type(error).__name__, "message": error.message[:120], "note": note}
            writer.add(op, "errors", args, attrs, **more)
        else:
            raise SystemExit(f"{op}, {note}: TensorFlow accepts this")
    writer.write(Path(folder))
    print(f"{len(writer.cases)} cases from {ORIGIN} in {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
