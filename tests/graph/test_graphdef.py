"""GraphDef: reading what TensorFlow writes, and writing what TensorFlow reads."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradops.errors import InvalidArgumentError, NotFoundError
from gradops.graph import (
    ClientSession,
    DataType,
    GraphDefError,
    Operation,
    Output,
    Scope,
    UnknownOpError,
    import_graph_def,
    load_graph,
    ops,
    save_graph,
)
from gradops.graph._graphdef import read_graph_def
from gradops.graph._schema import message_class
from gradops.graph._wire import message_from_text
from graph_golden import FOLDER, GRAPHS, assert_results, feeds_and_results

X = 'node {name: "x" op: "Placeholder" attr {key: "dtype" value {type: DT_FLOAT}}}'
IDENTITY = 'node {{name: "y" op: "Identity" input: [{inputs}] attr {{key: "T" value {{type: DT_FLOAT}}}}}}'
CONV = (
    'node {name: "w" op: "Placeholder" attr {key: "dtype" value {type: DT_FLOAT}}}'
    'node {name: "c" op: "Conv2D" input: ["x", "w"] attr {key: "T" value {type: DT_FLOAT}}'
)
STRIDES = 'attr {key: "strides" value {list {i: [1, 2, 2, 1]}}}'
PADDING = 'attr {key: "padding" value {s: "SAME"}}'


def imported(text: str, **arguments: Any) -> Scope:
    scope = Scope.new_root_scope()
    import_graph_def(message_from_text("GraphDef", text.encode()), scope, **arguments)
    return scope


def identity(*inputs: str) -> str:
    return IDENTITY.format(inputs=", ".join(f'"{text}"' for text in inputs))


def no_op(name: str, *inputs: str, device: str = "") -> str:
    listed = ", ".join(f'"{text}"' for text in inputs)
    return f'node {{name: "{name}" op: "NoOp" input: [{listed}] device: "{device}"}}'


# --- TensorFlow's own files ---


@pytest.mark.parametrize("name", GRAPHS)
def test_tensorflows_graph_gives_tensorflows_results(name: str) -> None:
    feeds, expected = feeds_and_results(name)
    session = ClientSession(load_graph(FOLDER / name))
    assert_results(dict(zip(expected, session.run(feeds, list(expected)), strict=True)), expected)


@pytest.mark.parametrize("name", GRAPHS)
def test_tensorflows_graph_survives_reading_and_writing(name: str) -> None:
    before, after = read_graph_def(FOLDER / name), load_graph(FOLDER / name).to_graph_def()
    assert [node.name for node in after.node] == [node.name for node in before.node]
    for ours, theirs in zip(after.node, before.node, strict=True):
        assert (ours.op, ours.device, list(ours.input)) == (theirs.op, theirs.device, list(theirs.input))
        assert set(theirs.attr) <= set(ours.attr)
        for attr in theirs.attr:
            if ours.op == "Const" and attr == "value":
                continue  # the same tensor may be written in two ways; results are compared above
            assert ours.attr[attr] == theirs.attr[attr], (ours.name, attr)
    assert after.versions == before.versions


@pytest.mark.parametrize("name", [name for name in GRAPHS if name.endswith(".pbtxt")])
def test_text_and_binary_form_say_the_same(name: str) -> None:
    binary = load_graph((FOLDER / name).with_suffix(".pb"))
    assert load_graph(FOLDER / name).to_graph_def() == binary.to_graph_def()


def test_bytes_are_those_of_tensorflow() -> None:
    data = "0a19 0a0161 12084964656e74697479 1a0178 2a07 0a0154 1202 3001 2202 081b"
    message = message_class("GraphDef").FromString(bytes.fromhex(data))
    (node,) = message.node
    assert (node.name, node.op, list(node.input), node.attr["T"].type) == ("a", "Identity", ["x"], DataType.FLOAT)
    assert message.versions.producer == 27
    assert message.SerializeToString(deterministic=True) == bytes.fromhex(data)


# --- writing ---


def backprop_graph() -> Scope:
    root = Scope.new_root_scope()
    dy = ops.Placeholder(root.with_op_name("dy"), "float", shape=[1, 4, 4, 2])
    w = np.linspace(-1, 1, 54, dtype=np.float32).reshape(3, 3, 3, 2)
    ops.Conv2DBackpropInput(root.with_op_name("dx"), [1, 8, 8, 3], w, dy, [1, 2, 2, 1], "SAME")
    return root


def test_every_attribute_is_written_default_or_not() -> None:
    node = backprop_graph().to_graph_def().node[-1]
    names = ["T", "data_format", "dilations", "explicit_paddings", "padding", "strides", "use_cudnn_on_gpu"]
    assert sorted(node.attr) == names
    assert node.attr["explicit_paddings"].SerializeToString() == bytes.fromhex("0a00")  # an empty list, but present
    assert node.attr["strides"].SerializeToString() == bytes.fromhex("0a061a0401020201")


def test_constants_are_read_without_a_copy_and_one_repeated_value_stays_one() -> None:
    shape = "tensor_shape {dim {size: 1000} dim {size: 1000}}"
    splat = f'attr {{key: "value" value {{tensor {{dtype: DT_FLOAT {shape} float_val: 0.5}}}}}}'
    dtype = 'attr {key: "dtype" value {type: DT_FLOAT}}'
    scope = imported(f'node {{name: "splat" op: "Const" {splat} {dtype}}}')
    value = scope.graph.nodes[0].attrs["value"]
    assert (value.shape, value.strides) == ((1000, 1000), (0, 0))
    assert scope.to_graph_def().ByteSize() < 200
    root = Scope.new_root_scope()
    ops.Const(root, np.ones((1000, 1000), np.float32))
    data = root.to_graph_def().SerializeToString()
    tracemalloc.start()
    loaded = Scope.new_root_scope()
    import_graph_def(data, loaded)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert loaded.graph.nodes[0].attrs["value"].all()
    assert kept < 5e6  # the message's bytes of 4 MB at most once


def test_nodes_are_written_in_the_order_of_creation_with_library_and_versions() -> None:
    message = backprop_graph().to_graph_def()
    assert [node.name for node in message.node] == ["dy", "Const/Const", "Const_1/Const", "dx"]
    assert list(message.node[-1].input) == ["Const/Const", "Const_1/Const", "dy"]
    assert message.HasField("library")
    assert message.versions.producer == 2474


def test_control_inputs_devices_and_scope_attributes_are_written() -> None:
    root = Scope.new_root_scope()
    first = ops.NoOp(root.with_op_name("first"))
    scope = root.with_control_dependencies(first).with_device("/cpu:0").colocate_with(first).with_kernel_label("fast")
    ops.Const(scope.with_op_name("c"), 1.0)
    node = root.to_graph_def().node[-1]
    assert (list(node.input), node.device) == (["^first"], "/cpu:0")
    assert list(node.attr["_class"].list.s) == [b"loc:@first"]
    assert node.attr["_kernel"].s == b"fast"


@pytest.mark.parametrize("suffix", ["pb", "pbtxt"])
def test_files_hold_the_same_graph_and_the_same_bytes_every_time(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
    save_graph(backprop_graph(), first)
    save_graph(load_graph(first), second)
    assert first.read_bytes() == second.read_bytes()
    dy = np.ones((1, 4, 4, 2), np.float32)
    results = [ClientSession(scope).run({"dy": dy}, ["dx"])[0] for scope in (backprop_graph(), load_graph(first))]
    np.testing.assert_array_equal(*results)


def test_a_scope_with_an_error_is_not_written(tmp_path: Path) -> None:
    root = Scope.new_root_scope()
    ops.Neg(root, ops.Const(root, [True]))
    with pytest.raises(InvalidArgumentError, match="'T'"):
        save_graph(root, tmp_path / "graph.pb")
    assert not (tmp_path / "graph.pb").exists()


TENSORS = [
    # value, field, what is in it
    (np.float32(1.5), "float_val", [1.5]),
    (np.array([1.5, 2], np.float32), "tensor_content", np.float32([1.5, 2]).tobytes()),
    (np.zeros((0, 3), np.float32), "float_val", []),
    (np.float16(1.5), "half_val", [15872]),
    (np.array(1.5, ml_dtypes.bfloat16), "half_val", [16320]),
    (np.array(-3, np.int8), "int_val", [-3]),
    (np.uint16(65535), "int_val", [65535]),
    (np.uint32(2**32 - 1), "uint32_val", [2**32 - 1]),
    (np.uint64(2**64 - 1), "uint64_val", [2**64 - 1]),
    (np.int64(-(2**63)), "int64_val", [-(2**63)]),
    (np.bool_(True), "bool_val", [True]),
    (np.complex64(1 + 2j), "scomplex_val", [1, 2]),
    (np.complex128(1 + 2j), "dcomplex_val", [1, 2]),
    (np.array([1.5, 2], ">f4"), "tensor_content", np.array([1.5, 2], "<f4").tobytes()),
    (["a", "", "\xe4"], "string_val", [b"a", b"", b"\xc3\xa4"]),
]


@pytest.mark.parametrize(("value", "field", "content"), TENSORS)
def test_constants_are_written_as_tensorflow_writes_them(value: Any, field: str, content: Any) -> None:
    root = Scope.new_root_scope()
    ops.Const(root.with_op_name("c"), value)
    message = root.to_graph_def()
    tensor = message.node[0].attr["value"].tensor
    written = getattr(tensor, field)
    assert (written if field == "tensor_content" else list(written)) == content
    others = {name.name for name, _ in tensor.ListFields()} - {"dtype", "tensor_shape", field}
    assert not others
    loaded = Scope.new_root_scope()
    import_graph_def(message, loaded)
    before, after = (ClientSession(scope).run(["c"])[0] for scope in (root, loaded))
    assert before.dtype == after.dtype
    np.testing.assert_array_equal(before, after)


def test_a_graph_that_tensorflow_could_not_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradops.graph._graphdef._MOST_BYTES", 100)  # it is 2 GiB
    with pytest.raises(GraphDefError, match="but TensorFlow reads at most 100"):
        save_graph(backprop_graph(), tmp_path / "graph.pb")


# --- reading tensors ---

CONTENTS = [
    # dtype, shape, content, value
    ("FLOAT", [2, 2], "float_val: [1, 2]", [[1, 2], [2, 2]]),
    ("FLOAT", [2], "", [0, 0]),
    ("FLOAT", [2], "float_val: [1, 2, 3]", [1, 2]),
    ("FLOAT", [2], "double_val: 7", [0, 0]),
    ("FLOAT", [1], 'float_val: 7 tensor_content: "\\000\\000\\200\\077"', [1]),
    ("FLOAT", [0], 'tensor_content: "aaaa"', []),
    ("FLOAT", [], "float_val: 3", 3),
    ("HALF", [2], "half_val: [81408, 15872]", [1.5, 1.5]),
    ("BFLOAT16", [1], "half_val: 16320", [1.5]),
    ("INT8", [3], "int_val: [300, -3]", [44, -3, -3]),
    ("COMPLEX64", [2], "scomplex_val: [1, 2, 3]", [1 + 2j, 1 + 2j]),
    ("COMPLEX64", [1], "scomplex_val: 1", [0]),
    ("BOOL", [2], 'tensor_content: "\\001\\000"', [True, False]),
    ("STRING", [2], 'string_val: "q"', [b"q", b"q"]),
    ("STRING", [2], "", [b"", b""]),
    ("STRING", [2], 'tensor_content: "\\001\\002abc"', [b"a", b"bc"]),
    ("UINT64", [1], "uint64_val: 18446744073709551615", [2**64 - 1]),
    ("FLOAT8_E5M2", [3], 'float8_val: "\\070\\071"', [0.5, 0.625, 0.625]),
    ("INT4", [3], 'tensor_content: "\\001\\002\\037"', [1, 2, -1]),
    ("INT4", [3], "int_val: [1, -3, 29]", [1, -3, -3]),
]


def constant(dtype: str, shape: list[int], content: str, declared: str = "") -> str:
    sizes = " ".join(f"dim {{size: {size}}}" for size in shape)
    return (
        f'node {{name: "c" op: "Const" attr {{key: "dtype" value {{type: DT_{declared or dtype}}}}} '
        f'attr {{key: "value" value {{tensor {{dtype: DT_{dtype} tensor_shape {{{sizes}}} {content}}}}}}}}}'
    )


@pytest.mark.parametrize(("dtype", "shape", "content", "value"), CONTENTS)
def test_constants_are_read_as_tensorflow_reads_them(dtype: str, shape: list[int], content: str, value: Any) -> None:
    (result,) = ClientSession(imported(constant(dtype, shape, content))).run(["c"])
    assert result.dtype == DataType[dtype].numpy
    assert result.shape == tuple(shape)
    assert result.astype(object).tolist() == np.array(value, object).reshape(shape).tolist()


BAD_CONSTANTS = [
    (constant("FLOAT", [2], 'tensor_content: "aaaa"'), "Cannot parse tensor from proto: tensor_content has 4 bytes"),
    (constant("FLOAT", [-1], "float_val: 1"), "not fully defined"),
    (constant("FLOAT", [-2], "float_val: 1"), "negative size"),
    (constant("FLOAT", [2**32, 2**32], "float_val: 1"), "too many elements"),
    (constant("FLOAT", [2**32, 2**32, 0], ""), "too many elements"),
    (constant("FLOAT", [2**62, 0], ""), "NumPy"),
    (constant("FLOAT", [1] * 200, "float_val: 1"), "NumPy"),
    (constant("FLOAT", [1] * 300, "float_val: 1"), "300 axes"),
    (constant("FLOAT", [2**40], "float_val: 1"), "max_splat_bytes"),
    (constant("STRING", [2**40], ""), "max_splat_bytes"),
    (constant("STRING", [2**40], 'tensor_content: "a"'), "cannot hold"),
    (constant("STRING", [2], 'tensor_content: "\\001\\002abcd"'), "do not add up"),
    (constant("STRING", [1], 'tensor_content: "\\200\\200\\200\\200\\200\\001"'), "cut off"),
    (constant("STRING", [2], 'tensor_content: "\\001\\200"'), "cut off"),
    (constant("BOOL", [2], 'tensor_content: "\\001\\002"'), "neither 0 nor 1"),
    (constant("QINT8", [2], "int_val: 1"), "qint8"),
    (constant("RESOURCE", [], ""), "resource"),
    (constant("FLOAT", [], "float_val: 1").replace("tensor {dtype: DT_FLOAT", "tensor {dtype: 99"), "number 99"),
]


@pytest.mark.parametrize(("text", "message"), BAD_CONSTANTS)
def test_constants_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(GraphDefError, match=message):
        imported(text)


def test_an_element_type_that_differs_from_the_tensors_is_refused_when_run() -> None:
    scope = imported(constant("INT32", [], "int_val: 1", declared="FLOAT"))
    with pytest.raises(InvalidArgumentError, match="dtype"):
        ClientSession(scope).run(["c"])


def test_repeated_values_are_limited_for_the_file_as_a_whole() -> None:
    text = constant("FLOAT", [10], "") + constant("FLOAT", [10], "").replace('"c"', '"d"')
    imported(text, max_splat_bytes=80)
    with pytest.raises(GraphDefError, match="take 80 bytes, but max_splat_bytes is 79"):
        imported(text, max_splat_bytes=79)


# --- import rules ---

ACCEPTED = [
    X + identity("x"),
    X + identity("x:0"),
    identity("x") + X,
    X + no_op("n") + identity("x", "^n", "^n"),
    *(no_op(name) for name in (".x", "9x", "a//b", "A>B", "a-b_c.d")),
    *(no_op("n", device=device) for device in ("/", "/cpu:0", "/device:GPU:*", "/job:a_1/replica:*/task:0/CPU:0")),
    X + CONV + STRIDES + PADDING + "}",
    X + CONV + STRIDES + PADDING + 'attr {key: "new" value {i: 1}} attr {key: "_new" value {func {name: "f"}}}}',
    "versions {producer: 99999 min_consumer: 2474 bad_consumers: 2473}",
    "",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_tensorflow_imports_is_imported(text: str) -> None:
    imported(text)


REFUSED = [
    # names
    *((no_op(name), "invalid characters") for name in ("", "_lead", "/x", "bad name!", "a\\\\b", "x\\n", "\xe4")),
    (X + X, "'x' is not unique"),
    # inputs
    (identity("x"), "Unknown input node 'x'"),
    (no_op("n", "^m"), "Unknown input node 'm'"),
    (X + identity("x:1"), r"output 1 .*not in range \[0, 1\)"),
    (X + identity("x:9999999999"), "output 9999999999"),
    (X + identity("x:99999999999999999999"), "invalid input"),
    *((X + identity(text), "invalid input") for text in ("", ":0", "x:", "x:-1", "x:output:0", "_x")),
    (no_op("n", "^"), "invalid control input"),
    (no_op("n", "^n:0"), "invalid control input"),
    (X + no_op("n") + identity("^n", "x"), "Control dependencies must come after regular dependencies"),
    (X + identity(), "takes 1 inputs, got 0"),
    (X + identity("x", "x"), "takes 1 inputs, got 2"),
    # order
    (no_op("n", "^n"), "1 nodes in a cycle"),
    (no_op("a", "^b") + no_op("b", "^a"), "2 nodes in a cycle"),
    (identity("y"), "cycle"),
    # devices
    *(
        (no_op("n", device=device), "Malformed device")
        for device in ("cpu:0", "/job:a-b", "/job:_a", "/device:2", "/cpu:x")
    ),
    # attributes
    (X + CONV + PADDING + "}", "attr 'strides' is missing"),
    (X + CONV.replace('attr {key: "T" value {type: DT_FLOAT}}', "") + "}", "attr 'T' is missing"),
    (X + CONV + PADDING + 'attr {key: "strides" value {i: 1}}}', "type 'int' when 'list\\(int\\)' expected"),
    (X + CONV + PADDING + 'attr {key: "strides" value {list {s: "a"}}}}', "list of integers"),
    (X + CONV + STRIDES + 'attr {key: "padding" value {}}}', "type 'nothing' when 'string' expected"),
    (X + CONV + STRIDES + 'attr {key: "padding" value {s: "WIDE"}}}', "not in the list of allowed values"),
    (X + CONV + STRIDES + 'attr {key: "padding" value {s: "\\377"}}}', "utf-8"),
    (X.replace("DT_FLOAT", "DT_INVALID"), "invalid DataType"),
    (X.replace("DT_FLOAT", "77"), "77"),
    (X.replace('"dtype"', '"shape"').replace("type: DT_FLOAT", "shape {dim {size: -5}}"), "negative size"),
    (X.replace('"dtype"', '"shape"').replace("type: DT_FLOAT", "shape {dim {} unknown_rank: true}"), "unknown rank"),
    # versions
    ("versions {min_consumer: 2475}", "min consumer version 2475 above current version 2474"),
    ("versions {bad_consumers: 2474}", "disallows consumer version 2474"),
    ("versions {producer: -1}", "below 0"),
    # text
    ("node {", "the text is not a GraphDef"),
    ("nodes {}", "nodes"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_tensorflow_refuses_is_refused(text: str, message: str) -> None:
    with pytest.raises(GraphDefError, match=message):
        imported(text)


def test_errors_are_tensorflows_classes() -> None:
    with pytest.raises(InvalidArgumentError):
        imported(no_op("bad name!"))
    with pytest.raises(NotFoundError, match="Node 's': Op type not registered 'Sine'") as caught:
        imported('node {name: "s" op: "Sine"}')
    assert isinstance(caught.value, UnknownOpError)
    assert caught.value.code == NotFoundError.code


def test_attributes_that_are_left_out_get_their_defaults() -> None:
    scope = imported(X + CONV + STRIDES + PADDING + "}")
    node = scope.to_graph_def().node[-1]
    assert list(node.attr["dilations"].list.i) == [1, 1, 1, 1]
    assert node.attr["data_format"].s == b"NHWC"
    assert node.attr["use_cudnn_on_gpu"].b
    assert node.attr["explicit_paddings"].HasField("list")


def test_unknown_attributes_and_the_function_library_are_kept() -> None:
    text = (
        X.replace(
            "attr", 'attr {key: "_class" value {list {s: ["loc:@x"]}}} attr {key: "new" value {list {i: 3}}} attr', 1
        )
        + 'library {function {signature {name: "f"}} gradient {function_name: "f" gradient_func: "g"}}'
        + "versions {producer: 77 min_consumer: 12}"
    )
    message = imported(text).to_graph_def()
    assert list(message.node[0].attr["_class"].list.s) == [b"loc:@x"]
    assert list(message.node[0].attr["new"].list.i) == [3]
    assert message.library.function[0].signature.name == "f"
    assert message.library.gradient[0].gradient_func == "g"
    assert (message.versions.producer, message.versions.min_consumer) == (77, 12)


@pytest.mark.parametrize(("producer", "shape"), [(21, None), (22, ()), (2474, ())])
def test_a_placeholder_of_no_sizes_was_once_of_any_shape(producer: int, shape: Any) -> None:
    text = X.replace("attr", 'attr {key: "shape" value {shape {}}} attr', 1) + f"versions {{producer: {producer}}}"
    assert imported(text).graph.nodes[0].shapes == (shape,)


def test_reading_leaves_the_message_alone() -> None:
    message = message_from_text("GraphDef", (X + CONV + STRIDES + PADDING + "}").encode())
    before = message.SerializeToString(deterministic=True)
    import_graph_def(message, Scope.new_root_scope())
    assert message.SerializeToString(deterministic=True) == before


# --- importing into a scope that has nodes already ---

PAIR = X + identity("x")


def test_a_prefix_is_a_sub_scope_with_a_unique_name() -> None:
    root = Scope.new_root_scope()
    for _ in range(2):
        import_graph_def(message_from_text("GraphDef", PAIR.encode()), root, prefix="import")
    assert [node.name for node in root.graph] == ["import/x", "import/y", "import_1/x", "import_1/y"]


def test_names_are_those_of_the_file_and_taken_from_then_on() -> None:
    root = Scope.new_root_scope()
    import_graph_def(message_from_text("GraphDef", (PAIR + no_op("a/b")).encode()), root)
    assert ops.NoOp(root.with_op_name("x")).operation.name == "x_1"
    assert ops.NoOp(root.new_sub_scope("a").with_op_name("b")).operation.name == "a_1/b"
    with pytest.raises(GraphDefError, match=r"'x' already exists in the graph\. Give a prefix"):
        import_graph_def(message_from_text("GraphDef", PAIR.encode()), root)


def test_a_refused_graph_leaves_nothing_behind() -> None:
    root = Scope.new_root_scope()
    ops.NoOp(root.with_op_name("first"))
    before = root.to_graph_def()
    with pytest.raises(GraphDefError):
        import_graph_def(message_from_text("GraphDef", (PAIR + 'node {name: "z" op: "Sine"}').encode()), root)
    assert root.ok()
    assert root.to_graph_def() == before
    assert root.graph.find("x") is None
    assert ops.NoOp(root.with_op_name("x")).operation.name == "x"


def test_inputs_can_be_replaced_and_elements_returned() -> None:
    root, pair = Scope.new_root_scope(), message_from_text("GraphDef", PAIR.encode())
    mine = ops.Const(root, np.float32([1, 2]))
    elements = import_graph_def(pair, root, prefix="p", input_map={"x": mine}, return_elements=["y:0", "x"])
    assert [type(element) for element in elements] == [Output, Operation]
    np.testing.assert_array_equal(ClientSession(root).run([elements[0]])[0], [1, 2])
    for name in ("y:1", "z"):
        with pytest.raises(GraphDefError, match=f"Requested return element '{name}' not found"):
            import_graph_def(pair, Scope.new_root_scope(), return_elements=[name])
    with pytest.raises(GraphDefError, match="not found in graph_def: x:7"):
        import_graph_def(pair, root, prefix="p", input_map={"x:7": mine})
    with pytest.raises(GraphDefError, match="'x:y' names no tensor"):
        import_graph_def(pair, root, prefix="p", input_map={"x:y": mine})
    with pytest.raises(TypeError, match="must be an output of the scope's graph, not 1"):
        import_graph_def(pair, root, prefix="p", input_map={"x": 1})


def test_control_dependencies_and_device_of_the_scope_hold_where_there_is_none() -> None:
    root = Scope.new_root_scope()
    first = ops.NoOp(root.with_op_name("first"))
    scope = root.with_control_dependencies(first).with_device("/cpu:1")
    import_graph_def(message_from_text("GraphDef", (PAIR + no_op("n", device="/cpu:2")).encode()), scope)
    nodes = {node.name: node for node in root.to_graph_def().node}
    assert (list(nodes["x"].input), nodes["x"].device) == (["^first"], "/cpu:1")
    assert list(nodes["y"].input) == ["x"]
    assert nodes["n"].device == "/cpu:2"


def test_versions_and_libraries_are_merged() -> None:
    root = imported('library {function {signature {name: "f"}}} versions {producer: 30 bad_consumers: 5}' + no_op("a"))
    library = 'library {function {signature {name: "g"}} function {signature {name: "f"}}}'
    second = message_from_text("GraphDef", f"{library} versions {{producer: 20 min_consumer: 7}}".encode())
    import_graph_def(second, root)
    message = root.to_graph_def()
    assert [function.signature.name for function in message.library.function] == ["f", "g"]
    versions = message.versions
    assert (versions.producer, versions.min_consumer, list(versions.bad_consumers)) == (20, 7, [5])
    second.library.function[1].signature.summary = "other"
    with pytest.raises(GraphDefError, match="different function with the same name"):
        import_graph_def(second, root)


def test_bytes_and_messages_are_taken_and_nothing_else() -> None:
    message = backprop_graph().to_graph_def()
    import_graph_def(message.SerializeToString(), Scope.new_root_scope())
    with pytest.raises(TypeError, match="GraphDef message or its bytes, not str"):
        import_graph_def("graph.pb", Scope.new_root_scope())


def test_calls_of_functions_can_be_replaced_by_their_nodes() -> None:
    with pytest.raises(UnknownOpError, match=r"calls a function\. Give inline_functions=True"):
        load_graph(FOLDER / "calls.pb")
    scope = load_graph(FOLDER / "calls.pb", inline_functions=True)
    feeds, expected = feeds_and_results("calls")
    assert_results(dict(zip(expected, ClientSession(scope).run(feeds, list(expected)), strict=True)), expected)
    assert len(scope.to_graph_def().library.function) == 2
    with pytest.raises(GraphDefError, match="not unique"):
        imported(X + X, inline_functions=True)


NOT_WRITABLE = [
    (lambda root: ops.NoOp(root.with_op_name("\ud800")), "ud800"),
    (lambda root: ops.NoOp(root.with_kernel_label("\ud800").with_op_name("n")), "'n' .NoOp. cannot be written"),
]


@pytest.mark.parametrize(("build", "message"), NOT_WRITABLE)
def test_what_the_format_cannot_hold_is_not_written(build: Any, message: str) -> None:
    root = Scope.new_root_scope()
    build(root)
    with pytest.raises(InvalidArgumentError, match=message):
        root.to_graph_def()


# --- files that are something else ---


def test_a_saved_model_is_not_taken_for_a_graph() -> None:
    for path in (FOLDER / "saved_model", FOLDER / "saved_model" / "saved_model.pb"):
        with pytest.raises(GraphDefError, match="load_saved_model"):
            load_graph(path)


def test_another_message_is_not_taken_for_an_empty_graph(tmp_path: Path) -> None:
    path = tmp_path / "other.pb"
    path.write_bytes(bytes.fromhex("0808") + bytes.fromhex("3a0a") + b"a" * 10)  # fields 1 and 7, as in an ONNX model
    with pytest.raises(GraphDefError, match="some other message"):
        load_graph(path)


def test_a_missing_file_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_graph(tmp_path / "none.pb")


def test_without_protobuf_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['google.protobuf'] = None\n"
        "from gradops.graph import Scope, ops\n"
        "root = Scope.new_root_scope(); ops.Const(root, 1.0)\n"
        "root.to_dot()\n"
        "try: root.to_graph_def()\n"
        "except ImportError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'gradops[graph]'" in out


# --- any graph ---

VALUES = st.sampled_from(["float", "double", "half", "bfloat16", "int32", "int64"])


@st.composite
def graphs(draw: st.DrawFn) -> Scope:
    root = Scope.new_root_scope()
    dtype = DataType.of(draw(VALUES))
    nodes: list[Any] = [ops.Placeholder(root, dtype, shape=draw(st.sampled_from([None, [2, 3], [None, 3]])))]
    for _ in range(draw(st.integers(0, 12))):
        scope = root.new_sub_scope(draw(st.sampled_from(["", "a", "b/c"])))
        scope = scope.with_op_name(draw(st.sampled_from(["", "x", "y.z"])))
        scope = scope.with_device(draw(st.sampled_from(["", "/cpu:0"])))
        if draw(st.booleans()):
            scope = scope.with_control_dependencies(draw(st.sampled_from(nodes)))
        first, second = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
        kind = draw(st.sampled_from(["const", "identity", "add", "pack", "shape"]))
        if kind == "const":
            values = draw(st.lists(st.integers(-5, 5), min_size=6, max_size=6))
            nodes.append(ops.Const(scope, np.array(values).reshape(2, 3).astype(dtype.numpy)))
        elif kind == "identity":
            nodes.append(ops.Identity(scope, first))
        elif kind == "add":
            nodes.append(ops.AddV2(scope, first, second))
        elif kind == "pack":
            nodes.append(ops.Sum(scope, ops.Pack(scope, [first, second]), [0]))
        else:
            ops.Shape(scope, first)
    root.raise_error()
    return root


@given(graphs())
def test_any_graph_survives_writing_and_reading(root: Scope) -> None:
    written = root.to_graph_def()
    again = Scope.new_root_scope()
    import_graph_def(written.SerializeToString(), again)
    assert again.to_graph_def() == written
    assert [node.shapes for node in again.graph] == [node.shapes for node in root.graph]
    tensors = [f"{node.name}:0" for node in root.graph if node.dtypes]
    feeds = {"Placeholder": np.ones((2, 3), root.graph.nodes[0].dtypes[0].numpy)}
    fetched = [name for name in tensors if name != "Placeholder:0"]
    if fetched:
        for ours, theirs in zip(*(ClientSession(s).run(feeds, fetched) for s in (root, again)), strict=True):
            np.testing.assert_array_equal(ours, theirs)
