"""Gradients: TensorFlow's very nodes where it has one, and right values, to any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gradops
from gradops import errors
from gradops.graph import ClientSession, Output, Scope, add_symbolic_gradients, import_graph_def, ops
from gradops.graph._registry import OPERATORS

F = "float"
ONE = [1, 1, 1, 1]


def placeholder(scope: Scope, name: str, dtype: str, *shape: int) -> Any:
    return ops.Placeholder(scope.with_op_name(name), dtype, shape=shape)


# --- the graphs that TensorFlow makes ---

X, Z, XZ = ("x", F, 2, 3), ("z", F, 3), ("z", F, 2, 3)
IMAGE, WEIGHTS = ("x", F, 1, 5, 5, 2), ("w", F, 3, 3, 2, 4)
CROP = (("im", F, 1, 5, 5, 2), ("b", F, 3, 4), ("bi", "int32", 3))

#: title -> placeholders, what is differentiated, and with respect to how many of the placeholders.
RECORDED: dict[str, tuple[Sequence[Any], Callable[..., Any], int]] = {
    "Conv2D": ([IMAGE, WEIGHTS], lambda r, x, w: ops.Conv2D(
        r, x, w, [1, 2, 2, 1], "EXPLICIT",
        ops.Conv2D.explicit_paddings([0, 0, 1, 1, 1, 1, 0, 0]).use_cudnn_on_gpu(False).dilations(ONE)), 2),
    "Conv2DBackpropInput": ([WEIGHTS, ("dy", F, 1, 3, 3, 4)], lambda r, w, dy: ops.Conv2DBackpropInput(
        r, [1, 5, 5, 2], w, dy, ONE, "VALID"), 2),
    "CropAndResize": (CROP, lambda r, im, b, bi: ops.CropAndResize(
        r, im, b, bi, [2, 2], ops.CropAndResize.method("nearest").extrapolation_value(3.0)), 2),
    "Add": ([X, Z], ops.Add, 2),
    "AddV2": ([X, Z], ops.AddV2, 2),
    "Sub": ([X, Z], ops.Sub, 2),
    "Mul": ([X, Z], ops.Mul, 2),
    "Div": ([X, Z], ops.Div, 2),
    "RealDiv": ([X, Z], ops.RealDiv, 2),
    "Neg": ([X], ops.Neg, 1),
    "Identity": ([X], ops.Identity, 1),
    "Relu": ([X], ops.Relu, 1),
    "Square": ([X], ops.Square, 1),
    "ZerosLike": ([X], ops.ZerosLike, 1),
    "Shape": ([X], ops.Shape, 1),
    "AddN": ([X, XZ], lambda r, x, z: ops.AddN(r, [x, z, x]), 2),
    "BiasAdd": ([("x", F, 1, 2, 2, 3), Z], ops.BiasAdd, 2),
    "Reshape": ([X], lambda r, x: ops.Reshape(r, x, [3, 2]), 1),
    "Transpose": ([X], lambda r, x: ops.Transpose(r, x, [1, 0]), 1),
    "StridedSlice": ([X], lambda r, x: ops.StridedSlice(
        r, x, [0, 1], [0, 3], [1, 1], ops.StridedSlice.end_mask(1)), 1),
    "Stack": ([X, XZ], lambda r, x, z: ops.Stack(r, [x, z], ops.Stack.axis(1)), 2),
    "Unstack": ([X], lambda r, x: ops.Unstack(r, x, 2)[1], 1),
    "Concat": ([X, XZ], lambda r, x, z: ops.Concat(r, [x, z], 1), 2),
    "Cast": ([X], lambda r, x: ops.Cast(r, x, "double"), 1),
    "Sum": ([X], lambda r, x: ops.Sum(r, x, [0]), 1),
    "Mean": ([X], lambda r, x: ops.Mean(r, x, [0], ops.Mean.keep_dims(True)), 1),
    "scalar axis": ([X], lambda r, x: ops.Mean(r, x, 0), 1),
    "MatMul": ([("x", F, 3, 3), ("z", F, 3, 3)], ops.MatMul, 2),
    "Tile": ([X], lambda r, x: ops.Tile(r, x, [2, 1]), 1),
    "ExpandDims": ([X], lambda r, x: ops.ExpandDims(r, x, 0), 1),
    "Slice": ([X], lambda r, x: ops.Slice(r, x, [0, 1], [1, 2]), 1),
    "Pad": ([X], lambda r, x: ops.Pad(r, x, [[0, 1], [1, 2]]), 1),
    "Squeeze": ([("x", F, 2, 1)], ops.Squeeze, 1),
    "StopGradient": ([("x", F, 2, 1)], ops.StopGradient, 1),
    "Fill": ([("x", F)], lambda r, x: ops.Fill(r, [2, 3], x), 1),
    "diamond": ([X], lambda r, x: ops.Add(r, ops.Mul(r, x, x), x), 1),
    "int": ([("x", "int32", 2, 3)], ops.Neg, 1),
    "through int": ([X], lambda r, x: ops.Cast(r, ops.Cast(r, x, "int32"), F), 1),
    "through shape": ([X], lambda r, x: ops.Cast(r, ops.Shape(r, x), F), 1),
    "two ys": ([X], lambda r, x: [ops.Neg(r, x), ops.Relu(r, x)], 1),
}  # fmt: skip


def recorded(title: str) -> list[str]:
    text = (Path(__file__).parent / "tensorflow_gradients.txt").read_text()
    (block,) = (part for part in text.split("=== ")[1:] if part.startswith(f"{title}\n"))
    return block.splitlines()[1:]


def listed(scope: Scope, results: list[Output]) -> list[str]:
    def inputs(node: Any) -> str:
        return " ".join(given.name.removesuffix(":0") for given in node.inputs)

    lines = [f"{node.name} {node.op} ({inputs(node)})" for node in scope.graph]
    return [*lines, "result: " + " ".join(r.name if r.node() else "null" for r in results)]


@pytest.mark.parametrize("title", RECORDED)
def test_the_nodes_are_tensorflows(title: str) -> None:
    specs, build, count = RECORDED[title]
    root = Scope.new_root_scope()
    given = [placeholder(root, *spec) for spec in specs]
    ys = build(root, *given)
    results = add_symbolic_gradients(root, ys if isinstance(ys, list) else [ys], given[:count])
    assert listed(root, results) == recorded(title)


def test_given_gradients_scopes_and_names_are_followed_as_in_tensorflow() -> None:
    root = Scope.new_root_scope()
    x, g = placeholder(root, *X), placeholder(root, "g", F, 2, 3)
    assert listed(root, add_symbolic_gradients(root, [ops.Neg(root, x)], [x], [g])) == recorded("given grads")
    for title, derive in (
        ("sub scope", lambda r: r.new_sub_scope("gradients")),
        ("with op name", lambda r: r.with_op_name("gg")),
    ):
        root = Scope.new_root_scope()
        x = placeholder(root, *X)
        y = ops.Neg(root, x)
        assert listed(root, add_symbolic_gradients(derive(root), [y], [x])) == recorded(title)


def test_gradients_of_convolutions_keep_all_attributes() -> None:
    """TensorFlow's C++ gradients drop dilations and explicit_paddings, and are wrong then."""
    root = Scope.new_root_scope()
    x, w = placeholder(root, "x", F, 1, 2, 9, 9), placeholder(root, "w", F, 3, 3, 1, 4)
    attrs = {"explicit_paddings": [0, 0, 0, 0, 1, 2, 0, 1], "data_format": "NCHW", "dilations": [1, 1, 2, 3]}
    y = ops.Conv2D(root, x, w, [1, 1, 2, 1], "EXPLICIT", **attrs)
    grads = add_symbolic_gradients(root, [y], [x, w])
    second = add_symbolic_gradients(root, grads, [x, w])
    made = [node for node in root.graph if node.op.startswith("Conv2D")]
    assert len(made) == 7
    assert all(node.attrs == y.node().attrs for node in made)
    assert [g.shape for g in (*grads, *second)] == [(1, 2, 9, 9), (3, 3, 1, 4)] * 2


# --- values ---


def numeric(function: Callable[[], float], x: npt.NDArray[Any], step: float) -> npt.NDArray[np.float64]:
    """Central differences of `function` by every element of `x`, which it reads."""
    result = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        kept = x[i]
        x[i] = kept + step
        above = function()
        x[i] = kept - step
        below = function()
        x[i] = kept
        result[i] = (above - below) / (2 * step)
    return result


D = "double"
A, B, V = ("a", D, 2, 3), ("b", D, 2, 3), ("v", D, 3)
BOXES = np.array([[0.11, 0.07, 0.83, 0.91], [0.88, 0.23, 0.35, 0.77]], np.float32)
BOX_IND = np.array([0, 1], np.int32)

#: name -> inputs, what is computed of them, and how many times it is differentiated.
SMOOTH: dict[str, tuple[Sequence[Any], Callable[..., Any], int]] = {
    "Add": ([A, V], ops.Add, 1),
    "Sub": ([V, A], ops.Sub, 1),
    "Mul": ([A, V], ops.Mul, 3),
    "Mul of a scalar": ([A, ("s", D)], ops.Mul, 2),
    "Mul of ones": ([("a", D, 1, 3), ("b", D, 2, 1)], ops.Mul, 2),
    "RealDiv": ([A, V], ops.RealDiv, 2),
    "Div": ([A, V], ops.Div, 2),
    "Square": ([A], ops.Square, 2),
    "AddN": ([A, B], lambda r, a, b: ops.AddN(r, [a, ops.Mul(r, a, b), b, a]), 2),
    "BiasAdd": ([A, V], lambda r, a, v: ops.Square(r, ops.BiasAdd(r, a, v)), 2),
    "BiasAdd NCHW": ([("a", D, 2, 3, 2), V], lambda r, a, v: ops.Square(
        r, ops.BiasAdd(r, a, v, data_format="NCHW")), 2),
    "Relu": ([A], lambda r, a: ops.Relu(r, ops.Square(r, ops.Relu(r, a))), 3),
    "MatMul": ([A, ("b", D, 4, 3)], lambda r, a, b: ops.MatMul(r, a, b, transpose_b=True), 2),
    "MatMul, transposed": ([A, ("b", D, 4, 2)], lambda r, a, b: ops.MatMul(
        r, a, b, transpose_a=True, transpose_b=True), 2),
    "MatMul, left transposed": ([A, ("b", D, 2, 4)], lambda r, a, b: ops.MatMul(r, a, b, transpose_a=True), 2),
    "Sum": ([A], lambda r, a: ops.Square(r, ops.Sum(r, a, [-1])), 3),
    "Mean": ([A], lambda r, a: ops.Square(r, ops.Mean(r, a, [0, 1], keep_dims=True)), 2),
    "Tile": ([A], lambda r, a: ops.Square(r, ops.Tile(r, a, [2, 3])), 2),
    "Reshape": ([A], lambda r, a: ops.Square(r, ops.Reshape(r, a, [-1])), 2),
    "Transpose": ([("a", D, 2, 3, 4)], lambda r, a: ops.Square(r, ops.Transpose(r, a, [2, 0, 1])), 2),
    "StridedSlice": ([("a", D, 4, 5)], lambda r, a: ops.Square(r, ops.StridedSlice(
        r, a, [3, 0, 1], [0, 0, 2], [-2, 1, 1], new_axis_mask=2, shrink_axis_mask=4)), 2),
    "Slice": ([("a", D, 4, 5)], lambda r, a: ops.Square(r, ops.Slice(r, a, [1, 2], [2, -1])), 2),
    "Pad": ([A], lambda r, a: ops.Square(r, ops.Pad(r, a, [[1, 0], [2, 1]])), 2),
    "Pack": ([A, B], lambda r, a, b: ops.Square(r, ops.Pack(r, [a, b, a], axis=-1)), 2),
    "Unpack": ([A], lambda r, a: ops.Mul(r, *ops.Unpack(r, a, 3, axis=1).output[:2]), 2),
    "Concat": ([A, B], lambda r, a, b: ops.Square(r, ops.Concat(r, [a, b], -1)), 2),
    "Squeeze": ([("a", D, 1, 3)], lambda r, a: ops.Square(r, ops.Squeeze(r, a)), 2),
    "ExpandDims": ([A], lambda r, a: ops.Square(r, ops.ExpandDims(r, a, 1)), 2),
    "Fill": ([("a", D)], lambda r, a: ops.Square(r, ops.Fill(r, [2, 3], a)), 2),
    "Cast": ([A], lambda r, a: ops.Square(r, ops.Cast(r, ops.Cast(r, a, "double"), "double")), 2),
    "Conv2D": ([("x", D, 2, 5, 4, 2), ("w", D, 3, 2, 2, 3)], lambda r, x, w: ops.Conv2D(
        r, x, w, [1, 2, 1, 1], "SAME"), 3),
    "Conv2D, every attribute": ([("x", D, 1, 2, 5, 5), ("w", D, 2, 2, 1, 2)], lambda r, x, w: ops.Conv2D(
        r, x, w, [1, 1, 2, 1], "EXPLICIT", explicit_paddings=[0, 0, 0, 0, 1, 0, 0, 2], data_format="NCHW",
        dilations=[1, 1, 1, 2]), 2),
    "Conv2DBackpropInput": ([("w", D, 3, 2, 2, 3), ("dy", D, 1, 2, 3, 3)], lambda r, w, dy: ops.Conv2DBackpropInput(
        r, [1, 4, 4, 2], w, dy, [1, 2, 1, 1], "EXPLICIT",
        explicit_paddings=[0, 0, 1, 0, 0, 0, 0, 0]), 3),
    "Conv2DBackpropFilter": ([("x", D, 2, 4, 4, 2), ("dy", D, 2, 2, 3, 3)], lambda r, x, dy: ops.Conv2DBackpropFilter(
        r, x, [3, 2, 2, 3], dy, [1, 2, 1, 1], "EXPLICIT", explicit_paddings=[0, 0, 1, 0, 0, 0, 0, 0]), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_values_are_those_of_finite_differences(name: str) -> None:
    specs, build, order = SMOOTH[name]
    rng = np.random.default_rng(5)
    root = Scope.new_root_scope()
    xs = [placeholder(root, *spec) for spec in specs]
    fed = {x: rng.uniform(0.5, 1.5, spec[2:]) for x, spec in zip(xs, specs, strict=True)}
    session = ClientSession(root)
    y: Any = build(root, *xs)
    for _ in range(order):
        [value] = session.run(fed, [y])
        weights = rng.uniform(-1, 1, value.shape)
        reached = [x for x in xs if depends_on(y, x)]
        grads = add_symbolic_gradients(root, [y], reached, [ops.Const(root, weights)])
        for x, grad in zip(reached, grads, strict=True):
            found = session.run(fed, [grad])[0] if grad.node() else np.zeros(fed[x].shape)
            expected = numeric(lambda y=y, w=weights: float(np.sum(w * session.run(fed, [y])[0])), fed[x], 1e-5)
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)
        y = next((grad for grad in grads if grad.node()), None)
        if y is None:  # a bilinear operator has no third derivative
            break


def depends_on(y: Any, x: Any) -> bool:
    """Whether x is among the nodes that y is computed from, for its shape alone maybe."""
    found, waiting = set(), [(y if isinstance(y, Output) else y.output).node()]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [given.node() for given in node.inputs]
    return x.node() in found


@pytest.mark.parametrize("dtype", ["float", "half", "double"])
def test_the_image_gradient_is_linear_with_the_crop_as_its_adjoint(dtype: str) -> None:
    rng = np.random.default_rng(2)
    root = Scope.new_root_scope()
    grads = placeholder(root, "grads", F, 2, 3, 2, 2)
    image = ops.CropAndResizeGradImage(root, grads, BOXES, BOX_IND, [2, 6, 5, 2], dtype, method="nearest")
    weights = rng.uniform(-1, 1, (2, 6, 5, 2)).astype(image.output.type.numpy)
    [found] = add_symbolic_gradients(root, [image], [grads], [ops.Const(root, weights)])
    assert (found.type.label, found.shape) == ("float", (2, 3, 2, 2))
    [value] = ClientSession(root).run({grads: np.ones((2, 3, 2, 2), np.float32)}, [found])
    np.testing.assert_array_equal(value, gradops.crop_and_resize(weights, BOXES, BOX_IND, [3, 2], "nearest"))


def test_gradients_by_boxes_are_those_of_finite_differences() -> None:
    """Away from pixel edges, in float32: the crop's, and the image gradient's, which TensorFlow lacks."""
    rng = np.random.default_rng(3)
    picture = rng.uniform(-1, 1, (2, 6, 5, 2)).astype(np.float32)
    crops = rng.uniform(-1, 1, (2, 3, 2, 2)).astype(np.float32)
    root = Scope.new_root_scope()
    boxes = placeholder(root, "boxes", F, 2, 4)
    crop = ops.CropAndResize(root, picture, boxes, BOX_IND, [3, 2])
    image = ops.CropAndResizeGradImage(root, crops, boxes, BOX_IND, [2, 6, 5, 2], "float")
    session, fed = ClientSession(root), BOXES.copy()
    for y, weights in ((crop, crops), (image, picture)):
        [grad] = add_symbolic_gradients(root, [y], [boxes], [ops.Const(root, weights)])
        [found] = session.run({boxes: fed}, [grad])
        expected = numeric(
            lambda y=y, w=weights: float(np.vdot(w.astype(float), session.run({boxes: fed}, [y])[0])), fed, 2.0**-9
        )
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2)


def test_a_crops_gradient_by_image_is_differentiated_again() -> None:
    """d/d boxes of d/d image is what CropAndResizeGradBoxes gives for the gradient as the image."""
    root = Scope.new_root_scope()
    rng = np.random.default_rng(4)
    image, boxes = placeholder(root, "image", F, 2, 6, 5, 1), placeholder(root, "boxes", F, 2, 4)
    seed, direction = rng.uniform(-1, 1, (2, 3, 2, 1)).astype(np.float32), rng.uniform(-1, 1, (2, 6, 5, 1)).astype("f4")
    crop = ops.CropAndResize(root, image, boxes, BOX_IND, [3, 2])
    [by_image] = add_symbolic_gradients(root, [crop], [image], [ops.Const(root, seed)])
    [mixed] = add_symbolic_gradients(root, [by_image], [boxes], [ops.Const(root, direction)])
    [found] = ClientSession(root).run({image: direction, boxes: BOXES}, [mixed])
    np.testing.assert_allclose(
        found, gradops.reference.crop_and_resize_grad_boxes(seed, direction, BOXES, BOX_IND), rtol=1e-5, atol=1e-5
    )


BOX_GRADIENTS = [
    # crop, boxes; some samples outside, on pixel edges, reversed, of no extent
    ((3, 2), BOXES),
    ((1, 1), BOXES),
    ((1, 4), BOXES),
    ((5, 3), [[-0.2, 0.1, 0.7, 1.3], [1, 1, 0, 0]]),
    ((6, 5), [[0, 0, 1, 1], [0.4, 0.5, 0.4, 0.5]]),
    ((2, 2), [[0.2, 1.4, 0.9, 1.6], [0.13, 0.4, 0.4, 0.8]]),
]


@pytest.mark.parametrize(("size", "dtype"), [((6, 5), "float"), ((1, 4), "double")])
@pytest.mark.parametrize(("crop", "boxes"), BOX_GRADIENTS)
def test_gradients_of_box_gradients_by_grads_and_image(
    size: tuple[int, int], crop: tuple[int, int], boxes: Any, dtype: str
) -> None:
    """It is linear in both, so differences with any step are exact but for rounding."""
    rng = np.random.default_rng(8)
    root = Scope.new_root_scope()
    grads, image = ops.Placeholder(root, F), ops.Placeholder(root, dtype)
    y = ops.CropAndResizeGradBoxes(root, grads, image, boxes, BOX_IND)
    weights = rng.uniform(-1, 1, (2, 4)).astype(np.float32)
    found = add_symbolic_gradients(root, [y], [grads, image], [ops.Const(root, weights)])
    assert [g.type for g in found] == [grads.output.type, image.output.type]
    session = ClientSession(root)
    fed = {
        grads: rng.uniform(-1, 1, (2, *crop, 2)).astype(np.float32),
        image: rng.uniform(-1, 1, (2, *size, 2)).astype(image.output.type.numpy),
    }
    for x, gradient in zip(fed, session.run(fed, found), strict=True):
        expected = numeric(lambda: float(np.vdot(weights, session.run(fed, [y])[0].astype(float))), fed[x], 0.5)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=2e-5)


def second_by_boxes(grads: Any, image: Any, boxes: Any, direction: Any) -> npt.NDArray[np.float64]:
    """What CropAndResizeGradBoxes's gradient by boxes is, of every sample's four pixels."""
    _, height, width, _ = image.shape

    def samples(low: np.float32, high: np.float32, count: int, size: int) -> list[tuple[int, int, npt.NDArray[Any]]]:
        f, last = np.float32, np.float32(size - 1)
        ratio = last / f(max(count - 1, 1))
        if count == 1:
            at, by = [f(0.5 * float(low + high) * float(last))], [np.full(2, last / 2, float)]
        else:
            at = [low * last + f(i) * ((high - low) * ratio) for i in range(count)]
            by = [np.array([last - f(i) * ratio, f(i) * ratio], float) for i in range(count)]
        # without a sample, a cell of no extent
        cells = [(int(np.floor(p)), int(np.ceil(p))) if 0 <= p <= last else (0, 0) for p in at]
        return [(*cell, weights) for cell, weights in zip(cells, by, strict=True)]

    result = np.zeros((len(boxes), 4))
    for b, (y1, x1, y2, x2) in enumerate(np.asarray(boxes, np.float32)):
        pixels = image[BOX_IND[b]].astype(float)
        for i, (top, bottom, a) in enumerate(samples(y1, y2, grads.shape[1], height)):
            for j, (left, right, c) in enumerate(samples(x1, x2, grads.shape[2], width)):
                twist = pixels[bottom, right] - pixels[bottom, left] - pixels[top, right] + pixels[top, left]
                by_both = float(np.vdot(grads[b, i, j], twist))
                result[b, 0::2] += by_both * a * (direction[b, 1::2] @ c)
                result[b, 1::2] += by_both * c * (direction[b, 0::2] @ a)
    return result


@pytest.mark.parametrize(("size", "dtype"), [((6, 5), "float"), ((1, 4), "double"), ((4, 7), "int32")])
@pytest.mark.parametrize(("crop", "boxes"), BOX_GRADIENTS)
def test_second_derivatives_by_boxes(size: tuple[int, int], crop: tuple[int, int], boxes: Any, dtype: str) -> None:
    rng = np.random.default_rng(9)
    root = Scope.new_root_scope()
    image = rng.integers(-9, 9, (2, *size, 2)).astype(np.int32 if dtype == "int32" else dtype)
    grads, direction = rng.uniform(-1, 1, (2, *crop, 2)).astype(np.float32), rng.uniform(-1, 1, (2, 4)).astype("f4")
    x = placeholder(root, "boxes", F, 2, 4)
    crops = ops.CropAndResize(root, image, x, BOX_IND, crop)
    by_boxes = add_symbolic_gradients(root, [crops], [x], [ops.Const(root, grads)])
    [second] = add_symbolic_gradients(root, by_boxes, [x], [ops.Const(root, direction)])
    [found] = ClientSession(root).run({x: np.array(boxes, np.float32)}, [second])
    np.testing.assert_allclose(found, second_by_boxes(grads, image, boxes, direction), rtol=1e-4, atol=1e-4)


def test_derivatives_by_boxes_to_the_fourth_are_those_of_finite_differences() -> None:
    """Of what is not linear in the crop, by all inputs at once; away from pixel edges, in float32."""
    rng = np.random.default_rng(10)
    root = Scope.new_root_scope()
    image, boxes = placeholder(root, "image", F, 2, 3, 4, 2), placeholder(root, "boxes", F, 2, 4)
    xs = [image, boxes]
    fed = {
        image: rng.uniform(-1, 1, (2, 3, 4, 2)).astype(np.float32),
        boxes: np.array([[0.2, 0.15, 0.8, 0.85], [0.78, 0.23, 0.28, 0.49]], np.float32),
    }
    session = ClientSession(root)
    y: Any = ops.Square(root, ops.CropAndResize(root, image, boxes, BOX_IND, [2, 2]))
    for _ in range(4):
        weights = rng.uniform(-1, 1, session.run(fed, [y])[0].shape).astype(np.float32)
        grads = add_symbolic_gradients(root, [y], xs, [ops.Const(root, weights)])
        for x, found in zip(xs, session.run(fed, grads), strict=True):
            expected = numeric(
                lambda y=y, w=weights: float(np.vdot(w.astype(float), session.run(fed, [y])[0])), fed[x], 2.0**-7
            )
            assert np.abs(found - expected).max() <= 5e-3 * np.abs(expected).max()
        y = grads[1]


@pytest.mark.parametrize("shape", [(0, 2, 3, 2), (2, 2, 3, 0)])
def test_second_derivatives_of_nothing_are_zeros(shape: tuple[int, ...]) -> None:
    root = Scope.new_root_scope()
    n, depth = shape[0], shape[3]
    shapes = {"grads": shape, "image": (2, 4, 5, depth), "boxes": (n, 4)}
    inputs = [placeholder(root, name, F, *sizes) for name, sizes in shapes.items()]
    y = ops.CropAndResizeGradBoxes(root, *inputs, BOX_IND[:n])
    results = add_symbolic_gradients(root, [y], inputs)
    fed = {x: np.full(sizes, 0.3, np.float32) for x, sizes in zip(inputs, shapes.values(), strict=True)}
    for found, sizes in zip(ClientSession(root).run(fed, results), shapes.values(), strict=True):
        np.testing.assert_array_equal(found, np.zeros(sizes))


# --- where no gradient flows ---


def test_integers_get_none_and_boxes_of_an_integer_image_do() -> None:
    root = Scope.new_root_scope()
    image, boxes = placeholder(root, "image", "uint8", 1, 3, 3, 1), placeholder(root, "boxes", F, 1, 4)
    index = placeholder(root, "index", "int32", 1)
    crop = ops.CropAndResize(root, image, boxes, index, [2, 2])
    results = add_symbolic_gradients(root, [crop], [image, boxes, index])
    assert [r.node() is not None for r in results] == [False, True, False]
    assert "CropAndResizeGradImage" not in {node.op for node in root.graph}


def test_an_x_among_the_ys_also_gets_what_flows_in_from_the_others() -> None:
    """TensorFlow's C++ function gives 1 here instead of 1 + 1."""
    root = Scope.new_root_scope()
    x = placeholder(root, *X)
    y = ops.Neg(root, x)
    by_x, by_y = add_symbolic_gradients(root, [ops.Relu(root, y), y], [x, y])
    values = ClientSession(root).run({x: np.full((2, 3), -1, np.float32)}, [by_x, by_y])
    assert [v[0, 0] for v in values] == [-2, 2]


def test_the_same_x_twice_gets_its_gradient_twice() -> None:
    root = Scope.new_root_scope()
    x = placeholder(root, *X)
    first, second = add_symbolic_gradients(root, [ops.Neg(root, x)], [x, x])
    assert first == second
    assert first.node() is not None


def test_no_xs_and_a_y_that_is_an_x() -> None:
    root = Scope.new_root_scope()
    y = ops.Neg(root, placeholder(root, *X))
    assert add_symbolic_gradients(root, [y], []) == []
    [own] = add_symbolic_gradients(root, [y], [y])
    assert own.op.name == "OnesLike_1"


def test_an_unreachable_x_is_refused() -> None:
    root = Scope.new_root_scope()
    x, u = placeholder(root, *X), placeholder(root, "u", F, 1)
    with pytest.raises(errors.InvalidArgumentError, match="node 'u' as it's unreachable"):
        add_symbolic_gradients(root, [ops.Neg(root, x)], [x, u])
    assert root.ok()


def test_one_gradient_for_each_y_is_asked_for() -> None:
    root = Scope.new_root_scope()
    x = placeholder(root, *X)
    with pytest.raises(errors.InvalidArgumentError, match="a gradient input for each output"):
        add_symbolic_gradients(root, [ops.Neg(root, x)], [x], [x, x])
    with pytest.raises(TypeError, match="no tensor"):
        add_symbolic_gradients(root, [1.0], [x])


def test_an_operator_without_a_gradient_is_not_found() -> None:
    root = Scope.new_root_scope()
    x = placeholder(root, *X)
    with pytest.raises(errors.NotFoundError, match="No gradient defined for op: Maximum"):
        add_symbolic_gradients(root, [ops.Maximum(root, x, x)], [x])


def test_gradients_that_tensorflow_refuses_are_in_the_status_and_raised() -> None:
    root = Scope.new_root_scope()
    w = placeholder(root, "w", "int32", 1, 1, 1, 1)
    y = ops.Conv2DBackpropInput(root, [1, 2, 2, 1], w, np.ones((1, 2, 2, 1), np.int32), ONE, "SAME")
    with pytest.raises(errors.InvalidArgumentError, match=r"Conv2DBackpropFilter.*'T' of int32"):
        add_symbolic_gradients(root, [y], [w])
    assert not root.ok()
    with pytest.raises(errors.InvalidArgumentError):
        add_symbolic_gradients(root, [y], [w])


def test_every_name_in_a_table_of_gradients_is_an_input() -> None:
    for operator in OPERATORS.values():
        table = operator.vjps
        if isinstance(table, dict):
            assert set(table) <= {tensor.name for tensor in operator.inputs}, operator.name


def test_a_chain_of_fifty_thousand_nodes_is_no_recursion() -> None:
    root = Scope.new_root_scope()
    x = y = ops.Placeholder(root.with_op_name("x"), "float", shape=[])
    for _ in range(50_001):
        y = ops.Neg(root, y)
    [gradient] = add_symbolic_gradients(root, [y], [x])
    loaded = Scope.new_root_scope()
    import_graph_def(root.to_graph_def(), loaded)
    assert ClientSession(loaded).run({"x": 1.0}, [y.output.name, gradient.name]) == [-1, -1]
    assert loaded.to_dot().count("->") == root.to_dot().count("->") > 100_000
