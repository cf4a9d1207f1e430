"""Operation, Output, what makes an input, and the operators' classes with their attributes."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from gradops.errors import InvalidArgumentError, ResourceExhaustedError
from gradops.graph import ClientSession, DataType, Operation, Output, Scope, ops
from gradops.graph._registry import OPERATORS

W = np.ones((3, 3, 2, 4), np.float32)
DY = np.ones((1, 3, 3, 4), np.float32)


@pytest.fixture
def root() -> Scope:
    return Scope.new_root_scope()


# --- handles ---


def test_an_operation_shows_its_node(root: Scope) -> None:
    x = ops.Placeholder(root.with_op_name("x"), np.float32)
    y = ops.Cast(root.with_control_dependencies(x).with_op_name("y"), x, "double").operation
    assert (y.name, y.num_inputs, y.num_outputs) == ("y", 1, 1)
    assert y.input(0) == x.output
    assert (y.input_type(0), y.output_type(0)) == (DataType.FLOAT, DataType.DOUBLE)
    assert y.node() is root.graph.find("y")


def test_operations_are_equal_by_node_and_outputs_by_node_and_index(root: Scope) -> None:
    x = ops.Placeholder(root, np.float32)
    assert Operation(x.node()) == x.operation
    assert hash(Operation(x.node())) == hash(x.operation)
    assert Output(x.operation) == x.output
    assert hash(Output(x.operation, 0)) == hash(x.output)
    assert Output(x.operation, 1) != x.output
    assert x.operation != ops.Placeholder(root, np.float32).operation
    assert Operation() == Operation()
    assert x.operation != x.output


def test_an_output_has_a_name_with_its_index(root: Scope) -> None:
    x = ops.Placeholder(root.with_op_name("x"), np.float32, shape=(2, None))
    assert (x.output.name, x.output.index, x.output.type, x.output.shape) == ("x:0", 0, DataType.FLOAT, (2, None))
    assert Output(x.operation, 5).name == "x:5"
    assert Output().name == ":0"
    assert x.output.op == x.operation


def test_a_wrong_index_is_refused_where_it_is_used(root: Scope) -> None:
    ops.Add(root, Output(ops.Const(root, 1.0).operation, 5), 2.0)
    assert "Attempt to add output 5 of Const, not in range [0, 1)" in str(root.status())


def test_handles_of_nothing_say_so() -> None:
    for read in (lambda: Operation().name, lambda: Output().type, lambda: Output().shape):
        with pytest.raises(InvalidArgumentError, match="status"):
            read()


def test_outputs_are_found_by_tensorflows_names_too(root: Scope) -> None:
    crop = ops.CropAndResize(root, np.ones((1, 2, 2, 1), np.float32), [[0, 0, 1, 1]], [0], [2, 2])
    assert crop.crops == crop.output
    both = ops.BroadcastGradientArgs(root, [2, 3], [3])
    assert (both.r0.index, both.r1.index, both[1]) == (0, 1, both.r1)
    parts = ops.Unpack(root, np.ones((2, 3)), 2)
    assert [part.name for part in parts.output] == ["Unstack:0", "Unstack:1"]
    with pytest.raises(AttributeError):
        _ = ops.NoOp(root).output


def test_an_operation_with_several_outputs_is_no_tensor(root: Scope) -> None:
    both = ops.BroadcastGradientArgs(root, [2, 3], [3])
    with pytest.raises(TypeError, match="say which one"):
        ops.Neg(root, both)


def test_operations_are_no_sequences(root: Scope) -> None:
    both: Any = ops.BroadcastGradientArgs(root, [2, 3], [3])
    for use in (list, lambda op: [*op], lambda op: both.r0 in op, lambda op: ClientSession(root).run([both.r0], op)):
        with pytest.raises(TypeError):
            use(both)


@pytest.mark.parametrize("make", [lambda: Operation("x"), lambda: Output("x"), lambda: Output(None, "x")])
def test_handles_are_made_of_nodes(make: Any) -> None:
    with pytest.raises(TypeError):
        make()


# --- inputs ---

CONSTANTS = [
    # value, element type and shape of the constant that it makes
    (1, DataType.INT32, ()),
    (1.0, DataType.FLOAT, ()),
    (True, DataType.BOOL, ()),
    (2**40, DataType.INT64, ()),
    ("text", DataType.STRING, ()),
    (b"text", DataType.STRING, ()),
    (1j, DataType.COMPLEX128, ()),
    ([1, 2], DataType.INT32, (2,)),
    ([[1.0, 2], [3, 4]], DataType.FLOAT, (2, 2)),
    (["a", "b"], DataType.STRING, (2,)),
    (np.float64(1), DataType.DOUBLE, ()),
    (np.zeros((2, 0)), DataType.DOUBLE, (2, 0)),
    (np.arange(3, dtype=np.uint8), DataType.UINT8, (3,)),
    (np.array([1.5], ">f4"), DataType.FLOAT, (1,)),
    ([], DataType.FLOAT, (0,)),
]


@pytest.mark.parametrize(("value", "dtype", "shape"), CONSTANTS)
def test_values_have_the_types_of_cpp(root: Scope, value: Any, dtype: DataType, shape: tuple[int, ...]) -> None:
    output = ops.Const(root, value).output
    assert (output.type, output.shape) == (dtype, shape)


def test_numbers_in_lists_follow_what_the_operator_wants(root: Scope) -> None:
    half = ops.Placeholder(root, "half")
    ops.Mul(root, half, 2)
    ops.Mul(root, 0.5, half)
    ops.CropAndResize(root, np.ones((1, 2, 2, 1), np.uint8), [[0, 0, 1, 1]], [0], [2, 2])
    ops.Reshape(root, half, np.array([2], np.int64))
    assert root.ok()
    types = [n.dtypes[0].label for n in root.graph if n.op == "Const"]
    assert types == ["half", "half", "uint8", "float", "int32", "int32", "int64"]


WRONG_INPUTS = [
    (lambda r: ops.Conv2DBackpropInput(r, [1.0, 5, 5, 2], W, DY, [1, 1, 1, 1], "VALID"),
     "Input 'input_sizes' passed float expected int32"),
    (lambda r: ops.Conv2DBackpropInput(r, [1, 5, 5, 2], W, DY.astype(float), [1, 1, 1, 1], "VALID"),
     "Inconsistent values for attr 'T' DT_FLOAT vs. DT_DOUBLE"),
    (lambda r: ops.Add(r, np.float32(1), np.float64(2)), "Inconsistent values for attr 'T'"),
    (lambda r: ops.Neg(r, [[1, 2], [3]]), "should all have the same shape"),
    (lambda r: ops.Const(r, [[1, 2], [3]]), "should all have the same shape"),
    (lambda r: ops.Const(r, [1, 2], shape=(3,)), "Cannot construct a tensor with 3 from an initializer list with 2"),
    (lambda r: ops.Const(r, 1.0, shape=(2**20, 2**20, 2**20)), "no memory for a tensor of shape [1048576,"),
    (lambda r: ops.Const(r, 1.0, shape=(2**70,)), "no memory"),
    (lambda r: ops.Const(r, 1.0, shape=(2, -1)), "shape must be fully known, got [2,?]"),
    (lambda r: ops.Const(r, "\ud800"), "UTF-8 cannot express"),
    (lambda r: ops.Fill(r, [-5], 1.0), "dims must have sizes >= -1"),
    (lambda r: ops.Conv2D(r, DY, W, [1, 1, 1, 1], "FOO"), "attr 'padding' of 'FOO' is not in the list"),
    (lambda r: ops.Conv2D(r, DY, W, [1, 1, 1, 1], "SAME", data_format="NHCW"), "attr 'data_format'"),
    (lambda r: ops.Conv2D(r, DY.astype(np.int64), W.astype(np.int64), [1] * 4, "SAME"), "attr 'T' of int64"),
    (lambda r: ops.CropAndResizeGradImage(r, DY, [[0, 0, 1, 1]], [0], [1, 2, 2, 4], "bfloat16"), "attr 'T'"),
    (lambda r: ops.Neg(r, [2**70]), "fit no element type"),
    (lambda r: ops.Mul(r, np.uint8(1), 300), "out of range for uint8"),
    (lambda r: ops.AddN(r, []), "missing"),
    (lambda r: ops.Neg(r, ops.Placeholder(Scope.new_root_scope(), "float")), "of another graph"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "words"), WRONG_INPUTS)
def test_what_tensorflow_refuses_is_kept_in_the_status(root: Scope, build: Any, words: str) -> None:
    assert build(root).node() is None
    assert isinstance(root.status(), InvalidArgumentError | ResourceExhaustedError)
    assert words in str(root.status())


PROGRAMMING_ERRORS = [
    (lambda r: ops.Neg(r), "missing a required argument"),
    (lambda r: ops.Neg(r, 1.0, 2.0), "too many positional"),
    (lambda r: ops.Neg(r, 1.0, rate=2), "unexpected keyword"),
    (lambda r: ops.Neg(r, None), "NoneType"),
    (lambda r: ops.Neg(r, object()), "object"),
    (lambda r: ops.Neg(r, [ops.Const(r, 1.0)]), "one output alone"),
    (lambda r: ops.Neg(r.graph, 1.0), "Scope"),
    (lambda r: ops.Const(r.graph, 1.0), "Scope"),
    (lambda r: ops.Const(r, [1, "a"]), "among strings"),
    (lambda r: ops.Const(r, np.array([3, "a"], object)), "among strings"),
    (lambda r: ops.Const(r, 1.0, shape="ab"), "expected a shape"),
    (lambda r: ops.Placeholder(r, "float", ops.Placeholder.shape(5)), "expected a shape"),
    (lambda r: ops.AddN(r, 1.0), "list of tensors"),
    (lambda r: ops.Conv2D(r, DY, W, 1, "SAME"), "strides"),
    (lambda r: ops.Conv2D(r, DY, W, [1, 1, 1, 1], 1), "padding"),
    (lambda r: ops.Conv2D(r, DY, W, [1, 1, 1, 1], "SAME", {"data_format": "NHWC"}), "Conv2D.Attrs"),
    (lambda r: ops.Conv2D(r, DY, W, [1, 1, 1, 1], "SAME", ops.CropAndResize.method("nearest")), "Conv2D.Attrs"),
    (lambda r: ops.CropAndResizeGradImage(r, DY, [[0, 0, 1, 1]], [0], [1, 2, 2, 4]), "'T'"),
    (lambda r: ops.CropAndResizeGradImage(r, DY, [[0, 0, 1, 1]], [0], [1, 2, 2, 4], 7.5), "element type"),
]


@pytest.mark.parametrize(("build", "words"), PROGRAMMING_ERRORS)
def test_an_argument_of_a_wrong_python_kind_is_a_type_error(root: Scope, build: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        build(root)
    assert root.ok()


def test_constants_take_a_shape_for_a_flat_list_or_one_number(root: Scope) -> None:
    values = ClientSession(root).run(
        [ops.Const(root, [1, 2, 3, 4], shape=(2, 2)), ops.Const(root, 7.0, shape=(3,)), ops.Const(root, ["a", "b"])]
    )
    assert values[0].tolist() == [[1, 2], [3, 4]]
    assert values[1].tolist() == [7, 7, 7]
    assert values[2].tolist() == [b"a", b"b"]


def test_a_constant_is_its_own_copy(root: Scope) -> None:
    array = np.ones(3, np.float32)
    c = ops.Const(root, array)
    array[:] = 5
    [first] = ClientSession(root).run([c])
    first[:] = 6
    assert ClientSession(root).run([c])[0].tolist() == [1, 1, 1]


def test_a_constant_that_nobody_can_write_to_is_not_copied(root: Scope) -> None:
    content = np.frombuffer(bytes(16), np.float32)
    splat = np.broadcast_to(content[:1], (1000, 1000))
    owned = np.ones(4)
    owned.flags.writeable = False
    for array in (content, content.reshape(2, 2)[1:], splat, owned):
        assert ops.Const(root, array).node().attrs["value"] is array


def test_a_read_only_view_of_what_can_be_written_to_is_copied(root: Scope) -> None:
    array = np.ones(3, np.float32)
    view = array[:2]
    view.flags.writeable = False
    c = ops.Const(root, view)
    array[:] = 5
    assert ClientSession(root).run([c])[0].tolist() == [1, 1]


def test_bytes_keep_their_zeros(root: Scope) -> None:
    assert ClientSession(root).run([ops.Const(root, [b"a\0", "b"])])[0].tolist() == [b"a\0", b"b"]


# --- attributes ---


def test_chains_start_on_the_class_and_go_on_as_methods(root: Scope) -> None:
    attrs = (
        ops.Conv2DBackpropInput.explicit_paddings([0, 0, 1, 1, 1, 1, 0, 0])
        .data_format("NHWC")
        .dilations([1, 1, 1, 1])
        .use_cudnn_on_gpu(False)
    )
    g = ops.Conv2DBackpropInput(root, [1, 3, 3, 2], W, DY, [1, 1, 1, 1], "EXPLICIT", attrs)
    by_keyword = ops.Conv2DBackpropInput(
        root, [1, 3, 3, 2], W, DY, [1, 1, 1, 1], "EXPLICIT",
        explicit_paddings=(0, 0, 1, 1, 1, 1, 0, 0), use_cudnn_on_gpu=False,
    )  # fmt: skip
    assert g.node().attrs == by_keyword.node().attrs
    assert g.node().attrs["explicit_paddings"] == (0, 0, 1, 1, 1, 1, 0, 0)


def test_setters_leave_their_chain_unchanged() -> None:
    start = ops.Conv2D.data_format("NCHW")
    longer = start.dilations([1, 1, 2, 2])
    assert start == ops.Conv2D.Attrs().data_format("NCHW")
    assert longer != start
    assert hash(start) == hash(ops.Conv2D.data_format("NCHW"))
    assert repr(longer) == "Conv2D.data_format('NCHW').dilations([1, 1, 2, 2])"


def test_every_attribute_is_written_default_or_not(root: Scope) -> None:
    node = ops.Conv2D(root, DY, W[:, :, :, :].transpose(0, 1, 3, 2), [1, 1, 1, 1], "SAME").node()
    assert node.attrs == {
        "T": DataType.FLOAT,
        "strides": (1, 1, 1, 1),
        "use_cudnn_on_gpu": True,
        "padding": "SAME",
        "explicit_paddings": (),
        "data_format": "NHWC",
        "dilations": (1, 1, 1, 1),
    }


SETTERS = {
    "Conv2D": "use_cudnn_on_gpu explicit_paddings data_format dilations",
    "Conv2DBackpropInput": "use_cudnn_on_gpu explicit_paddings data_format dilations",
    "Conv2DBackpropFilter": "use_cudnn_on_gpu explicit_paddings data_format dilations",
    "CropAndResize": "method extrapolation_value",
    "CropAndResizeGradImage": "method",
    "CropAndResizeGradBoxes": "method",
}


@pytest.mark.parametrize("op", SETTERS)
def test_every_setter_of_cpp_is_there_in_both_forms(op: str) -> None:
    cls = getattr(ops, op)
    for setter in SETTERS[op].split():
        assert callable(getattr(cls, setter))
        assert callable(getattr(cls.Attrs, setter))
        assert setter in inspect.signature(cls).parameters


SIGNATURES = {
    "Conv2D": "scope input filter strides padding attrs",
    "Conv2DBackpropInput": "scope input_sizes filter out_backprop strides padding attrs",
    "Conv2DBackpropFilter": "scope input filter_sizes out_backprop strides padding attrs",
    "CropAndResize": "scope image boxes box_ind crop_size attrs",
    "CropAndResizeGradImage": "scope grads boxes box_ind image_size T attrs",
    "CropAndResizeGradBoxes": "scope grads image boxes box_ind attrs",
    "Placeholder": "scope dtype attrs",
    "Cast": "scope x DstT attrs",
    "AddN": "scope inputs",
    "Unstack": "scope value num attrs",
    "NoOp": "scope",
}


@pytest.mark.parametrize("op", SIGNATURES)
def test_positional_arguments_are_those_of_cpp(op: str) -> None:
    parameters = inspect.signature(getattr(ops, op)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == SIGNATURES[op].split()


def test_a_placeholders_empty_shape_in_a_chain_means_what_it_means_in_cpp(root: Scope) -> None:
    assert ops.Placeholder(root, "float", ops.Placeholder.shape([])).output.shape is None
    assert ops.Placeholder(root, "float", ops.Placeholder.shape([1, -1, 3])).output.shape == (1, None, 3)
    assert ops.Placeholder(root, "float", shape=()).output.shape == ()
    assert ops.Placeholder(root, "float").output.shape is None


def test_every_operator_has_a_documented_class() -> None:
    for name in OPERATORS:
        assert getattr(ops, name).__doc__
    assert ops.Mul is ops.Multiply
    assert ops.Concat is ops.ConcatV2
    with pytest.raises(AttributeError, match="no operator 'Nonsense'"):
        _ = ops.Nonsense


def test_unknown_operators_are_not_found(root: Scope) -> None:
    with pytest.raises(LookupError, match="Op type not registered 'Nonsense'"):
        root.graph.add("Nonsense", "x")


def test_claims_of_absurd_lists_are_refused_before_anything_is_made(root: Scope) -> None:
    x = ops.Placeholder(root, "float").output
    for num in (-1, 2**60):
        with pytest.raises(InvalidArgumentError, match="num"):
            root.graph.add("Unpack", "x", [x], {"T": "float", "num": num})
