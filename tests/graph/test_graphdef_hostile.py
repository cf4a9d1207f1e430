"""Whatever bytes are read as a graph: a graph or one error, fast, and no memory that they do not justify."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from gradops.graph import Scope, import_graph_def, load_graph, load_saved_model
from gradops.graph._errors import GraphDefError
from gradops.graph._inspection import view_graph_def
from gradops.graph._schema import message_class
from gradops.graph._wire import message_from_bytes
from graph_golden import FOLDER

FILES = sorted(FOLDER.glob("*.pb"))
SIZES = [-(2**63), -1, 0, 1, 2, 3, 255, 2**31, 2**62, 2**63 - 1]
TEXTS = [b"\xff", b"", b"EXPLICIT", b"NCHW", b"nearest", b"SAME"]


def read(data: bytes) -> bool:
    """Whether it is a graph; any error but the one fails the test."""
    try:
        scope = Scope.new_root_scope()
        import_graph_def(data, scope)
        scope.to_graph_def().SerializeToString()
        return True
    except GraphDefError:
        return False


def with_wrong_bytes(data: bytes, source: random.Random) -> bytes:
    mutated = bytearray(data)
    if source.random() < 0.1:
        return bytes(mutated[: source.randrange(len(mutated))])
    for _ in range(source.choice([1, 1, 2, 3, 8, 40])):
        if not mutated:
            break
        place, kind = source.randrange(len(mutated)), source.randrange(5)
        if kind == 0:
            mutated[place] = source.randrange(256)
        elif kind == 1:
            mutated[place] ^= 1 << source.randrange(8)
        elif kind == 2:
            del mutated[place : place + source.choice([1, 4, 30])]
        elif kind == 3:
            start = source.randrange(len(mutated))
            mutated[place:place] = mutated[start : start + source.choice([1, 4, 30])]
        else:
            mutated[place:place] = source.choice([b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x07", b"\x00", b"\x7f"])
    return bytes(mutated)


def with_wrong_fields(data: bytes, source: random.Random) -> bytes:
    message = message_class("GraphDef").FromString(data)
    for _ in range(source.choice([1, 1, 2, 3])):
        spoil(source.choice(message.node), source.choice(message.node), source)
    return bytes(message.SerializeToString())


def spoil(node: Any, other: Any, source: random.Random) -> None:
    kind = source.randrange(7)
    if kind == 0 and node.input:
        suffix = source.choice(["", ":1", ":7", ":99999999999"])
        node.input[source.randrange(len(node.input))] = other.name + suffix
    elif kind == 1:
        node.input.append(source.choice(["^", "", "^x", "x", ":0"]))
    elif kind == 2:
        node.name = other.name
    elif kind == 3:
        node.op = other.op
    elif kind == 4 and node.attr:
        del node.attr[source.choice(sorted(node.attr))]
    elif kind == 5 and node.attr and other.attr:
        node.attr[source.choice(sorted(node.attr))].CopyFrom(other.attr[source.choice(sorted(other.attr))])
    elif node.attr:
        spoil_value(node.attr[source.choice(sorted(node.attr))], source)


def spoil_value(value: Any, source: random.Random) -> None:
    field = value.WhichOneof("value")
    if field == "i":
        value.i = source.choice(SIZES)
    elif field == "list" and value.list.i:
        value.list.i[source.randrange(len(value.list.i))] = source.choice(SIZES)
    elif field == "shape" and value.shape.dim:
        source.choice(value.shape.dim).size = source.choice(SIZES)
    elif field == "type":
        value.type = source.randrange(140)
    elif field == "s":
        value.s = source.choice(TEXTS)
    elif field == "f":
        value.f = source.choice([float("nan"), float("inf"), -1e38])
    elif field == "tensor":
        spoil_tensor(value.tensor, source)


def spoil_tensor(tensor: Any, source: random.Random) -> None:
    if tensor.tensor_shape.dim and source.random() < 0.5:
        source.choice(tensor.tensor_shape.dim).size = source.choice(SIZES)
    elif tensor.int_val:
        tensor.int_val[0] = source.choice([-1, 0, 1, 5, 2**31 - 1, -(2**31)])
    elif tensor.tensor_content:
        tensor.tensor_content = with_wrong_bytes(tensor.tensor_content, source)
    else:
        tensor.dtype = source.randrange(140)


@pytest.mark.parametrize("mutate", [with_wrong_bytes, with_wrong_fields])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_mutated_files_are_graphs_or_raise_the_one_error(path: Path, mutate: Any) -> None:
    source, data = random.Random(f"{path.stem} {mutate.__name__}"), path.read_bytes()
    read_well = [read(mutate(data, source)) for _ in range(250)]
    assert not all(read_well)


def test_mutated_files_raise_the_one_error_with_protobuf_in_pure_python() -> None:
    """Its errors are others: UnicodeDecodeError, RecursionError."""
    code = (
        f"import random, sys; sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(Path(__file__).parent)!r}]\n"
        "from google.protobuf.internal import api_implementation\n"
        "assert api_implementation.Type() == 'python'\n"
        "from test_graphdef_hostile import *\n"
        "source = random.Random(1)\n"
        "for i in range(150):\n"
        "    read(with_wrong_bytes(source.choice(FILES[1:]).read_bytes(), source))\n"
        "assert not read(nested(100_000))\n"
        "assert not read(b'\\n\\x04\\n\\x02\\xff\\xff')\n"
    )
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_mutated_saved_models_raise_the_one_error(tmp_path: Path) -> None:
    data = (FOLDER / "saved_model" / "saved_model.pb").read_bytes()
    source, path = random.Random(5), tmp_path / "saved_model.pb"
    results = set()
    for _ in range(300):
        path.write_bytes(with_wrong_bytes(data, source))
        try:
            load_saved_model(path, source.choice([None, "both", "serving_default"]))
            results.add("read")
        except GraphDefError:
            results.add("refused")
    assert results == {"read", "refused"}


@pytest.mark.filterwarnings("ignore:.*invalid:DeprecationWarning")  # Python's, from within protobuf
def test_mutated_texts_raise_the_one_error(tmp_path: Path) -> None:
    data = (FOLDER / "frozen.pbtxt").read_bytes()
    source, path = random.Random(6), tmp_path / "graph.pbtxt"
    for _ in range(100):
        path.write_bytes(with_wrong_bytes(data, source))
        with contextlib.suppress(GraphDefError):
            load_graph(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_truncation_is_refused_or_shorter(path: Path) -> None:
    data = path.read_bytes()
    nodes = len(message_class("GraphDef").FromString(data).node)
    for end in range(1, len(data), 37):
        try:
            assert len(message_from_bytes("GraphDef", data[:end]).node) <= nodes
        except GraphDefError:
            continue


def nested(depth: int) -> bytes:
    """A message of messages of messages: the type of a node's type's argument, and so on."""
    data = b""
    for _ in range(depth):
        data = b"\x12" + varint(len(data)) + data
        if len(data) > 10**6:
            break
    data = b"\x3a" + varint(len(data)) + data
    return b"\x0a" + varint(len(data)) + data


def varint(number: int) -> bytes:
    data = b""
    while number >= 0x80:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


@pytest.mark.parametrize("depth", [101, 1000, 20_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    assert not read(nested(depth))


def graph_def(**fields: Any) -> Any:
    return message_class("GraphDef")(**fields)


def test_a_length_beyond_the_end_allocates_nothing() -> None:
    for data in (b"\x0a\xff\xff\xff\xff\x07", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0a\x80"):
        assert not read(data)


HUGE = [
    # element type, shape: one value is given in the file
    (1, [2**62]),
    (1, [2**31, 2**31]),
    (1, [2**40]),
    (18, [2**35]),
    (7, [2**40]),
]


@pytest.mark.parametrize(("dtype", "shape"), HUGE)
def test_huge_constants_are_refused_before_any_memory_is_taken(dtype: int, shape: list[int]) -> None:
    message = graph_def()
    node = message.node.add(name="c", op="Const")
    node.attr["dtype"].type = dtype
    tensor = node.attr["value"].tensor
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.float_val.append(1)
    tracemalloc.start()
    assert not read(message.SerializeToString())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_many_large_constants_are_refused_together() -> None:
    message = graph_def()
    for i in range(2000):
        node = message.node.add(name=f"c{i}", op="Const")
        node.attr["dtype"].type = 1
        node.attr["value"].tensor.dtype = 1
        node.attr["value"].tensor.tensor_shape.dim.add(size=2**20)
    assert not read(message.SerializeToString())


def test_a_long_chain_and_a_long_cycle_take_no_recursion() -> None:
    message = graph_def()
    for i in range(5000):
        message.node.add(name=f"n{i}", op="NoOp", input=[f"^n{i + 1}"] if i < 4999 else [])
    assert read(message.SerializeToString())
    message.node[-1].input.append("^n0")
    with pytest.raises(GraphDefError, match="5000 nodes in a cycle"):
        import_graph_def(message, Scope.new_root_scope())


def test_a_list_attribute_of_huge_length_is_refused() -> None:
    for op, count, dtype in (("AddN", "N", "T"), ("Unpack", "num", "T"), ("ShapeN", "N", "T"), ("Pack", "N", "T")):
        message = graph_def()
        placeholder = message.node.add(name="x", op="Placeholder")
        placeholder.attr["dtype"].type = 1
        node = message.node.add(name="n", op=op, input=["x"])
        node.attr[dtype].type = 1
        for length in (2**40, 2**63 - 1, -1):
            node.attr[count].i = length
            assert not read(message.SerializeToString()), (op, length)


def test_functions_that_call_themselves_or_grow_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "saved_model.pb"
    for name, depth, copies in (("calls itself", 1, "a"), ("again and again", 40, "ab"), ("100 levels deep", 200, "a")):
        model = message_class("SavedModel")(saved_model_schema_version=1)
        graph = model.meta_graphs.add().graph_def
        graph.node.add(name="call", op="f0")
        for i in range(depth):
            function = graph.library.function.add()
            function.signature.name = f"f{i}"
            for copy in copies:
                called = "f0" if depth == 1 else f"f{i + 1}"
                function.node_def.add(name=copy, op=called if i < depth - 1 or depth == 1 else "NoOp")
                function.control_ret[copy] = copy
        path.write_bytes(model.SerializeToString())
        with pytest.raises(GraphDefError, match=name):
            load_saved_model(path)


def test_looking_at_a_graph_is_as_safe_as_reading_it() -> None:
    source = random.Random(3)
    data = (FOLDER / "unknown_operator.pb").read_bytes() + (FOLDER / "control_inputs_and_devices.pb").read_bytes()
    for _ in range(300):
        with contextlib.suppress(GraphDefError):
            view_graph_def(message_from_bytes("GraphDef", with_wrong_bytes(data, source)))


def test_nodes_that_claim_a_million_outputs_each_are_refused_in_time() -> None:
    message = message_class("GraphDef")()
    message.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    for i in range(100):
        node = message.node.add(name=f"parts_{i}", op="Unpack", input=["x"])
        node.attr["T"].type, node.attr["num"].i = 1, 999_999
    with pytest.raises(GraphDefError, match="'parts_4' have more than 4194304 outputs"):
        import_graph_def(message, Scope.new_root_scope())
