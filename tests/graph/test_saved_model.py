"""SavedModels: functions flattened into one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradops.errors import NotFoundError
from gradops.graph import ClientSession, Scope, load_graph, load_saved_model, save_graph
from gradops.graph._errors import GraphDefError, UnknownOpError
from gradops.graph._schema import message_class, protobuf
from gradops.graph._wire import message_from_text
from graph_golden import FOLDER, assert_results, feeds_and_results

MODEL = FOLDER / "saved_model"
FEEDS, RESULTS = feeds_and_results("saved_model")


def run(scope: Scope, feeds: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The results under TensorFlow's names for them."""
    return dict(zip(("again", "dx", "total"), ClientSession(scope).run(feeds, names), strict=True))


def test_a_signature_gives_tensorflows_results_under_its_names() -> None:
    scope = load_saved_model(MODEL, "serving_default")
    feeds = {f"serving_default_{name}": value for name, value in FEEDS.items()}
    assert_results(run(scope, feeds, ["again", "dx", "total"]), RESULTS)


@pytest.mark.parametrize("name", ["both", "__inference_both_"])
def test_a_functions_body_has_its_arguments_and_results(name: str) -> None:
    if name.endswith("_"):
        (name,) = (function for function in function_names() if function.startswith(name))
    scope = load_saved_model(MODEL, name)
    placeholders = [node.name for node in scope.graph if node.op == "Placeholder"]
    assert placeholders == ["dy", "grads"]  # the filter, which the function captured, is a constant
    assert scope.graph.find("dy").shapes == ((None, 4, 4, 3),)  # type: ignore[union-attr]
    assert_results(run(scope, FEEDS, ["identity", "identity_1", "identity_2"]), RESULTS)


def function_names() -> list[str]:
    model = message_class("SavedModel").FromString((MODEL / "saved_model.pb").read_bytes())
    return [function.signature.name for function in model.meta_graphs[0].graph_def.library.function]


def test_the_main_graph_has_what_its_signatures_need_and_tensors_keep_their_names() -> None:
    scope = load_saved_model(MODEL)
    ops = {node.op for node in scope.graph}
    assert {"Conv2DBackpropInput", "CropAndResizeGradImage"} <= ops
    assert not ops & {"PartitionedCall", "StatefulPartitionedCall"}
    signature = message_class("SavedModel").FromString((MODEL / "saved_model.pb").read_bytes()).meta_graphs[0]
    (result,) = signature.signature_def["backprop"].outputs.values()
    (dx,) = ClientSession(scope).run({"backprop_dy": FEEDS["dy"]}, [result.name])
    assert_results({"dx": dx}, {"dx": RESULTS["dx"]})


def test_a_flattened_model_is_written_as_a_graph(tmp_path: Path) -> None:
    save_graph(load_saved_model(MODEL, "both"), tmp_path / "both.pb")
    assert_results(run(load_graph(tmp_path / "both.pb"), FEEDS, ["identity", "identity_1", "identity_2"]), RESULTS)


def test_the_file_itself_and_its_text_form_are_read_too(tmp_path: Path) -> None:
    data = (MODEL / "saved_model.pb").read_bytes()
    message = message_class("SavedModel").FromString(data)
    message.DiscardUnknownFields()
    text = protobuf("text_format").MessageToString(message)
    (tmp_path / "saved_model.pbtxt").write_text(text)
    graphs = [load_saved_model(path, "both").to_graph_def() for path in (MODEL / "saved_model.pb", tmp_path)]
    assert graphs[0] == graphs[1]


@pytest.mark.parametrize("function", [None, "both", "serving_default"])
def test_variables_are_refused_with_what_to_do(function: str | None) -> None:
    with pytest.raises(UnknownOpError, match="convert_variables_to_constants_v2") as caught:
        load_saved_model(FOLDER / "saved_model_with_variable", function)
    assert isinstance(caught.value, NotFoundError)


def test_an_unknown_function_or_tag_is_refused_with_those_there_are() -> None:
    with pytest.raises(GraphDefError, match=r"no function or signature 'nothing'; give one of .*__inference_both_\d+"):
        load_saved_model(MODEL, "nothing")
    with pytest.raises(GraphDefError, match=r"no graph of tags \['gpu'\]; there are \['serve'\]"):
        load_saved_model(MODEL, tags=["gpu"])
    load_saved_model(MODEL, tags=["serve"])


def test_what_is_no_saved_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphDefError):
        load_saved_model(FOLDER / "frozen.pb")
    with pytest.raises(FileNotFoundError):
        load_saved_model(tmp_path)


# --- flattening, on graphs small enough to see through ---

FLOAT = "type: DT_FLOAT"
ADD_ONE = """
  signature {
    name: "add" input_arg {name: "a" type_attr: "T"} input_arg {name: "b" type_attr: "T"}
    output_arg {name: "sum" type_attr: "T"} output_arg {name: "first" type_attr: "T"}
    attr {name: "T" type: "type"}
  }
  node_def {name: "n" op: "NoOp"}
  node_def {name: "add" op: "AddV2" input: ["a", "b:0", "^n"] attr {key: "T" value {placeholder: "T"}}}
  ret {key: "sum" value: "add:z:0"}
  ret {key: "first" value: "a"}
  control_ret {key: "n" value: "n"}
"""
PARTS = """
  signature {
    name: "parts" input_arg {name: "all" type: DT_FLOAT number_attr: "N"} output_arg {name: "last" type: DT_FLOAT}
    attr {name: "N" type: "int"}
  }
  node_def {name: "pack" op: "Pack" input: ["all:0", "all:1"]
            attr {key: "N" value {i: 2}} attr {key: "T" value {type: DT_FLOAT}}}
  node_def {name: "unpack" op: "Unpack" input: "pack:output:0"
            attr {key: "num" value {i: 2}} attr {key: "T" value {type: DT_FLOAT}}}
  ret {key: "last" value: "unpack:output:1"}
"""
CALLS = """
  node {name: "x" op: "Const" attr {key: "dtype" value {type: DT_FLOAT}}
        attr {key: "value" value {tensor {dtype: DT_FLOAT tensor_shape {} float_val: 2}}}}
  node {name: "before" op: "NoOp"}
  node {name: "direct" op: "add" input: ["x", "x", "^before"] attr {key: "T" value {type: DT_FLOAT}}}
  node {name: "called" op: "PartitionedCall" input: ["direct", "direct:1"]
        attr {key: "f" value {func {name: "add" attr {key: "T" value {type: DT_FLOAT}}}}}}
  node {name: "parts" op: "parts" input: ["called:1", "called"] attr {key: "N" value {i: 2}}}
  node {name: "y" op: "Identity" input: ["parts", "^called"] attr {key: "T" value {type: DT_FLOAT}}}
  node {name: "unneeded" op: "Sine"}
"""


def model(tmp_path: Path, *functions: str, nodes: str = CALLS, signature: str = "y:0") -> Path:
    library = " ".join(f"function {{{function}}}" for function in functions)
    outputs = f'signature_def {{key: "s" value {{outputs {{key: "r" value {{name: "{signature}" dtype: DT_FLOAT}}}}}}}}'
    graph = f"graph_def {{{nodes} library {{{library}}} versions {{producer: 2474}}}}"
    text = f"saved_model_schema_version: 1 meta_graphs {{{graph} {outputs}}}"
    path = tmp_path / "saved_model.pb"
    path.write_bytes(message_from_text("SavedModel", text.encode()).SerializeToString())
    return path


def test_calls_become_their_functions_nodes(tmp_path: Path) -> None:
    scope = load_saved_model(model(tmp_path, ADD_ONE, PARTS))
    assert ClientSession(scope).run(["y"]) == [6.0]
    nodes = {node.name: node for node in scope.graph}
    assert "unneeded" not in nodes
    assert [given.name for given in nodes["direct/n"].control_inputs] == ["before"]
    assert [given.name for given in nodes["direct/add"].inputs] == ["x:0", "x:0"]
    assert [given.name for given in nodes["called/add"].inputs] == ["direct/output_0:0", "direct/output_1:0"]
    assert [given.name for given in nodes["called"].control_inputs] == [
        "called/n",
        "called/output_0",
        "called/output_1",
    ]
    assert [given.name for given in nodes["parts"].inputs] == ["parts/unpack:1"]


BAD_MODELS = [
    ((ADD_ONE,), CALLS, "'parts': Op type not registered"),
    ((ADD_ONE, PARTS), CALLS.replace('name: "add" attr', 'name: "gone" attr'), "calls function 'gone', which is not"),
    ((ADD_ONE, PARTS), CALLS.replace('"x", "x", "^before"', '"x"'), "with 1 inputs, but its arguments are a, b"),
    ((ADD_ONE, PARTS), CALLS.replace("{i: 2}", "{i: -2}"), "with 2 inputs, but its arguments are all"),
    ((ADD_ONE, PARTS.replace("all:1", "all:7")), CALLS, "'all' has 2 tensors, no number 7"),
    ((ADD_ONE.replace('ret {key: "sum"', 'ret {key: "other"'), PARTS), CALLS, "no node for its result 'sum'"),
    ((ADD_ONE, PARTS.replace('"last" type: DT_FLOAT', '"last" number_attr: "N"')), CALLS, "returns a list, 'last'"),
]


@pytest.mark.parametrize(("functions", "nodes", "message"), BAD_MODELS)
def test_functions_that_do_not_fit_are_refused(
    tmp_path: Path, functions: tuple[str, ...], nodes: str, message: str
) -> None:
    with pytest.raises(GraphDefError, match=message):
        load_saved_model(model(tmp_path, *functions, nodes=nodes))


def test_a_function_whose_types_its_caller_decides_cannot_be_read_alone(tmp_path: Path) -> None:
    with pytest.raises(GraphDefError, match="only a caller can say the type of its argument 'a'"):
        load_saved_model(model(tmp_path, ADD_ONE, PARTS), "add")


def test_signature_results_do_not_take_other_nodes_names(tmp_path: Path) -> None:
    path = model(tmp_path, ADD_ONE, PARTS, nodes=CALLS.replace('"unneeded" op: "Sine"', '"r" op: "NoOp"'))
    assert ClientSession(load_saved_model(path, "s")).run(["r_1"]) == [6.0]
    np.testing.assert_equal(ClientSession(load_saved_model(path)).run(["y"]), [6.0])
