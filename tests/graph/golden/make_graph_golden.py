"""Writes this folder's graphs with an installed TensorFlow (2.21 wrote those that are here).

    TF_ENABLE_ONEDNN_OPTS=0 python tests/graph/golden/make_graph_golden.py

Beside each graph an .npz holds inputs (``feed x:0``) and TensorFlow's results (``fetch y:0``);
bfloat16 is in it as float32.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

tf1 = tf.compat.v1
raw = tf.raw_ops
FOLDER = Path(__file__).parent
RANDOM = np.random.default_rng(7)

STRIDES = [1, 2, 2, 1]
BOXES = np.float32([[0.1, 0.2, 0.8, 0.9], [-0.2, 0.0, 1.2, 0.5], [0.9, 0.7, 0.1, 0.3]])
BOX_IND = np.int32([0, 1, 0])


def normal(*shape: int, dtype: str = "float32") -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def save(name: str, graph: Any, feeds: dict[str, Any], fetches: list[str], *, text: bool = False) -> None:
    graph_def = graph if isinstance(graph, tf1.GraphDef) else graph.as_graph_def()
    (FOLDER / f"{name}.pb").write_bytes(graph_def.SerializeToString(deterministic=True))
    if text:
        (FOLDER / f"{name}.pbtxt").write_text(text_format.MessageToString(graph_def))
    with tf1.Graph().as_default() as imported:
        tf1.import_graph_def(graph_def, name="")
        with tf1.Session(graph=imported) as session:
            save_results(name, feeds, dict(zip(fetches, session.run(fetches, feeds), strict=True)))


def save_results(name: str, feeds: dict[str, Any], results: dict[str, Any]) -> None:
    arrays = {f"feed {key}": value for key, value in feeds.items()}
    arrays |= {f"fetch {key}": value for key, value in results.items()}
    np.savez_compressed(FOLDER / f"{name}.npz", **{key: storable(value) for key, value in arrays.items()})


def storable(value: Any) -> Any:
    value = np.asarray(value)
    if value.dtype == object:
        return value.astype("S")
    return value.astype(np.float32) if value.dtype == tf.bfloat16.as_numpy_dtype else value


def image_operators() -> None:
    """The six operators: every attribute, default and not, and the element types."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2, 7, 8, 2], name="x")
        dy = tf1.placeholder(tf.float32, [2, 4, 4, 3], name="dy")
        dy_valid = tf1.placeholder(tf.float32, [None, None, None, 3], name="dy_valid")
        w = tf.constant(normal(3, 3, 2, 3), name="w")
        sizes = tf.constant([2, 7, 8, 2], name="sizes")
        paddings = [0, 0, 2, 1, 1, 0, 0, 0]
        explicit = {"strides": STRIDES, "padding": "EXPLICIT", "explicit_paddings": paddings}
        off = {"use_cudnn_on_gpu": False, "data_format": "NHWC", "dilations": [1, 1, 1, 1]}
        raw.Conv2D(input=x, filter=w, strides=STRIDES, padding="SAME", name="conv")
        raw.Conv2D(input=x, filter=w, **explicit, **off, name="conv_explicit")
        raw.Conv2D(input=x, filter=w, strides=[1] * 4, padding="VALID", dilations=[1, 2, 2, 1], name="conv_dilated")
        for name, arguments in {"same": {"strides": STRIDES, "padding": "SAME"}, "explicit": explicit | off}.items():
            raw.Conv2DBackpropInput(input_sizes=sizes, filter=w, out_backprop=dy, **arguments, name=f"input_{name}")
            raw.Conv2DBackpropFilter(
                input=x, filter_sizes=[3, 3, 2, 3], out_backprop=dy, **arguments, name=f"filter_{name}"
            )
        raw.Conv2DBackpropInput(
            input_sizes=sizes, filter=w, out_backprop=dy_valid, strides=[1] * 4, padding="VALID", name="input_valid"
        )
        for dtype in (tf.half, tf.double, tf.bfloat16):
            raw.Conv2DBackpropInput(
                input_sizes=sizes,
                filter=tf.cast(w, dtype),
                out_backprop=tf.cast(dy, dtype),
                strides=STRIDES,
                padding="SAME",
                name=f"input_{dtype.name}",
            )
        crops = tf1.placeholder(tf.float32, [3, 4, 5, 2], name="crops")
        for method in ("bilinear", "nearest"):
            boxes = {"boxes": BOXES, "box_ind": BOX_IND, "method": method}
            raw.CropAndResize(image=x, **boxes, crop_size=[4, 5], extrapolation_value=2.5, name=f"crop_{method}")
            for dtype in (tf.float32, tf.half, tf.double):
                name = f"image_{method}_{dtype.name}"
                raw.CropAndResizeGradImage(grads=crops, **boxes, image_size=[2, 7, 8, 2], T=dtype, name=name)
        for dtype in (tf.uint8, tf.float32):
            image = tf.cast(x, dtype)
            raw.CropAndResizeGradBoxes(
                grads=crops, image=image, boxes=BOXES, box_ind=BOX_IND, name=f"boxes_{dtype.name}"
            )
    feeds = {
        "x:0": np.abs(normal(2, 7, 8, 2)) * 50,
        "dy:0": normal(2, 4, 4, 3),
        "dy_valid:0": normal(2, 5, 6, 3),
        "crops:0": normal(3, 4, 5, 2),
    }
    skipped = ("Const", "Placeholder", "Cast")
    fetches = [f"{node.name}:0" for node in graph.as_graph_def().node if node.op not in skipped]
    save("image_operators", graph, feeds, fetches, text=True)
    stripped = tf1.GraphDef()
    stripped.CopyFrom(graph.as_graph_def())
    for node in stripped.node:
        for name in ("use_cudnn_on_gpu", "explicit_paddings", "data_format", "dilations", "method"):
            if name in node.attr and node.name in ("conv", "input_same", "crop_bilinear", "image_bilinear_float32"):
                del node.attr[name]
    stripped.ClearField("library")
    stripped.ClearField("versions")
    save(
        "defaults_left_out", stripped, feeds, ["conv:0", "input_same:0", "crop_bilinear:0", "image_bilinear_float32:0"]
    )


def constants() -> None:
    """Constants of every element type, of no, one and several elements, equal or not."""
    names = "half bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128"
    fetches = []
    with tf1.Graph().as_default() as graph:
        for name in names.split():
            dtype = tf.as_dtype(name)
            values = {
                "scalar": np.array(1),
                "several": np.array([[3, 0, 1], [1, 7, 2]]),
                "empty": np.zeros((0, 2)),
                "equal": np.ones((2, 3)),
            }
            for kind, value in values.items():
                typed = value.astype(dtype.as_numpy_dtype)
                if dtype.is_complex and kind == "several":
                    typed = typed + typed.dtype.type(2j)
                if dtype.is_floating and kind == "several":
                    typed = typed / typed.dtype.type(-4)
                fetches.append(tf.identity(tf.constant(typed, dtype), name=f"{name}_{kind}").name)
        for kind, text in {"scalar": "text", "several": ["a", "", "ä"], "equal": ["b", "b"], "empty": []}.items():
            fetches.append(tf.identity(tf.constant(text, tf.string), name=f"string_{kind}").name)
        short = tf.identity(tf.constant(np.float32([1, 2, 3, 3, 3, 3])), name="repeats_its_last")
        fetches.append(short.name)
    graph_def = graph.as_graph_def()
    tensor = next(node for node in graph_def.node if node.name == short.op.inputs[0].op.name).attr["value"].tensor
    tensor.tensor_content = b""
    tensor.float_val.extend([1, 2, 3])
    save("constants", graph_def, {}, fetches, text=True)


def control_inputs_and_devices() -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 2], name="x")
        with tf1.device("/cpu:0"):
            first = tf.identity(x, name="first")
        with tf1.control_dependencies([first.op]):
            nothing = tf.no_op(name="nothing")
        device = "/job:localhost/replica:0/task:0/device:CPU:0"
        with tf1.device(device), tf1.control_dependencies([first.op, nothing]):
            second = tf.multiply(x, 3.0, name="scope/second")
        with tf1.control_dependencies([second.op]), tf1.colocate_with(first.op):
            tf.concat([x, second], 0, name="both")
        parts = tf.unstack(x, 2, axis=1, name="parts")
        tf.add(parts[1], parts[0], name="sum")
    save("control_inputs_and_devices", graph, {"x:0": normal(3, 2)}, ["both:0", "sum:0", "scope/second:0"])


def frozen() -> None:
    """A network of TensorFlow 1 and its gradients, its variables frozen into constants."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        with tf1.variable_scope("layer"):
            w = tf1.get_variable("w", initializer=normal(3, 3, 3, 4), use_resource=False)
            b = tf1.get_variable("b", initializer=normal(4), use_resource=False)
        y = tf.nn.relu(tf.nn.bias_add(tf1.nn.conv2d(x, w, STRIDES, "SAME"), b), name="y")
        crops = tf.image.crop_and_resize(y, BOXES, BOX_IND, [3, 3])
        for name, gradient in zip("xwb", tf1.gradients(tf.reduce_sum(crops * crops), [x, w, b]), strict=True):
            tf.identity(gradient, name=f"grad_{name}")
        outputs = ["y", "grad_x", "grad_w", "grad_b"]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            graph_def = tf1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), outputs)
    save("frozen", graph_def, {"x:0": normal(2, 8, 8, 3)}, [f"{name}:0" for name in outputs], text=True)


class Model(tf.Module):
    """Both operators in functions that call each other."""

    def __init__(self, *, has_variable: bool) -> None:
        super().__init__()
        w = normal(3, 3, 2, 3)
        self.w = tf.Variable(w) if has_variable else tf.constant(w)

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 3], tf.float32, "dy")])
    def backprop(self, dy: Any) -> Any:
        sizes = tf.stack([tf.shape(dy)[0], 8, 8, 2])
        return raw.Conv2DBackpropInput(
            input_sizes=sizes, filter=self.w, out_backprop=dy, strides=STRIDES, padding="SAME"
        )

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4, 4, 3], tf.float32, "dy"),
            tf.TensorSpec([None, 3, 3, 2], tf.float32, "grads"),
        ]
    )
    def both(self, dy: Any, grads: Any) -> Any:
        dx = self.backprop(dy)
        image = raw.CropAndResizeGradImage(
            grads=grads, boxes=BOXES, box_ind=BOX_IND, image_size=tf.shape(dx), T=tf.float32, method="nearest"
        )
        return {"dx": dx, "total": dx + image, "again": self.backprop(2.0 * dy)}


def saved_models() -> None:
    feeds = {"dy": normal(2, 4, 4, 3), "grads": normal(3, 3, 3, 2)}
    for name, has_variable in {"saved_model": False, "saved_model_with_variable": True}.items():
        model = Model(has_variable=has_variable)
        path = FOLDER / name
        shutil.rmtree(path, ignore_errors=True)
        tf.saved_model.save(model, str(path), signatures={"serving_default": model.both, "backprop": model.backprop})
        if not has_variable:
            save_results(name, feeds, dict(model.both(feeds["dy"], feeds["grads"])))
        for extra in ("assets", "variables"):
            shutil.rmtree(path / extra, ignore_errors=True)
        (path / "fingerprint.pb").unlink()


def calls() -> None:
    """A graph of TensorFlow 2 that calls functions, which call one."""

    @tf.function(autograph=False)
    def backprop(dy: Any, w: Any) -> Any:
        return raw.Conv2DBackpropInput(
            input_sizes=[2, 8, 8, 2], filter=w, out_backprop=dy, strides=STRIDES, padding="SAME"
        )

    @tf.function(autograph=False)
    def twice(dy: Any, w: Any) -> Any:
        return backprop(dy, w), backprop(2.0 * dy, w)

    with tf1.Graph().as_default() as graph:
        dy = tf1.placeholder(tf.float32, [2, 4, 4, 3], name="dy")
        w = tf.constant(normal(3, 3, 2, 3), name="w")
        one, two = twice(dy, w)
        tf.add(one, two, name="sum")
        tf.identity(backprop(dy, w), name="alone")
    save("calls", graph, {"dy:0": normal(2, 4, 4, 3)}, ["sum:0", "alone:0"])


def unknown_operator() -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2, 3], name="x")
        tf.identity(tf.sin(x, name="sine"), name="y")
    save("unknown_operator", graph, {"x:0": normal(2, 3)}, ["y:0"])


if __name__ == "__main__":
    for make in (image_operators, constants, control_inputs_and_devices, frozen, saved_models, calls, unknown_operator):
        make()
