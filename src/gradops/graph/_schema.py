"""TensorFlow's messages, built when they are first needed, in a descriptor pool of their own.

Code that protoc generates refuses every protobuf older than its protoc, and messages under
TensorFlow's names in the default pool clash with an imported TensorFlow. Messages built from the
text below do neither, whatever the version of protobuf (4.25 and later) and the order of imports.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from gradops.graph._types import DataType

__all__ = ["message_class", "protobuf"]

#: Fields and numbers are TensorFlow's (2.21): graph.proto and all it refers to, and of saved_model.proto,
#: meta_graph.proto and saved_object_graph.proto what is read of them. Fields that are missing here are
#: kept unread in the binary form. Only the names of fields show in the text form, not those of messages.
_SCHEMA: Final = """
message GraphDef {
  repeated NodeDef node = 1;
  FunctionDefLibrary library = 2;
  int32 version = 3;
  VersionDef versions = 4;
  GraphDebugInfo debug_info = 5;
}
message VersionDef {
  int32 producer = 1;
  int32 min_consumer = 2;
  repeated int32 bad_consumers = 3;
}
message NodeDef {
  string name = 1;
  string op = 2;
  repeated string input = 3;
  string device = 4;
  map<string, AttrValue> attr = 5;
  NodeDebugInfo experimental_debug_info = 6;
  FullTypeDef experimental_type = 7;
}
message NodeDebugInfo {
  repeated string original_node_names = 1;
  repeated string original_func_names = 2;
}
message AttrValue {
  oneof value {
    ListValue list = 1;
    bytes s = 2;
    int64 i = 3;
    float f = 4;
    bool b = 5;
    DataType type = 6;
    TensorShapeProto shape = 7;
    TensorProto tensor = 8;
    string placeholder = 9;
    NameAttrList func = 10;
  }
}
message ListValue {
  repeated bytes s = 2;
  repeated int64 i = 3;
  repeated float f = 4;
  repeated bool b = 5;
  repeated DataType type = 6;
  repeated TensorShapeProto shape = 7;
  repeated TensorProto tensor = 8;
  repeated NameAttrList func = 9;
}
message NameAttrList {
  string name = 1;
  map<string, AttrValue> attr = 2;
}
message TensorShapeProto {
  repeated Dim dim = 2;
  bool unknown_rank = 3;
}
message Dim {
  int64 size = 1;
  string name = 2;
}
message TensorProto {
  DataType dtype = 1;
  TensorShapeProto tensor_shape = 2;
  int32 version_number = 3;
  bytes tensor_content = 4;
  repeated float float_val = 5;
  repeated double double_val = 6;
  repeated int32 int_val = 7;
  repeated bytes string_val = 8;
  repeated float scomplex_val = 9;
  repeated int64 int64_val = 10;
  repeated bool bool_val = 11;
  repeated double dcomplex_val = 12;
  repeated int32 half_val = 13;
  repeated ResourceHandleProto resource_handle_val = 14;
  repeated VariantTensorDataProto variant_val = 15;
  repeated uint32 uint32_val = 16;
  repeated uint64 uint64_val = 17;
  bytes float8_val = 18;
}
message ResourceHandleProto {
  string device = 1;
  string container = 2;
  string name = 3;
  uint64 hash_code = 4;
  string maybe_type_name = 5;
  repeated DtypeAndShape dtypes_and_shapes = 6;
}
message DtypeAndShape {
  DataType dtype = 1;
  TensorShapeProto shape = 2;
}
message VariantTensorDataProto {
  string type_name = 1;
  bytes metadata = 2;
  repeated TensorProto tensors = 3;
}
message FullTypeDef {
  FullTypeId type_id = 1;
  repeated FullTypeDef args = 2;
  oneof attr {
    string s = 3;
    int64 i = 4;
  }
}
message FunctionDefLibrary {
  repeated FunctionDef function = 1;
  repeated GradientDef gradient = 2;
  repeated RegisteredGradient registered_gradients = 3;
}
message FunctionDef {
  OpDef signature = 1;
  repeated NodeDef node_def = 3;
  map<string, string> ret = 4;
  map<string, AttrValue> attr = 5;
  map<string, string> control_ret = 6;
  map<uint32, ArgAttrs> arg_attr = 7;
  map<uint32, uint32> resource_arg_unique_id = 8;
}
message ArgAttrs {
  map<string, AttrValue> attr = 1;
}
message GradientDef {
  string function_name = 1;
  string gradient_func = 2;
}
message RegisteredGradient {
  string gradient_func = 1;
  string registered_op_type = 2;
}
message OpDef {
  string name = 1;
  repeated ArgDef input_arg = 2;
  repeated ArgDef output_arg = 3;
  repeated AttrDef attr = 4;
  string summary = 5;
  string description = 6;
  OpDeprecation deprecation = 8;
  bool is_aggregate = 16;
  bool is_stateful = 17;
  bool is_commutative = 18;
  bool allows_uninitialized_input = 19;
  repeated string control_output = 20;
  bool is_distributed_communication = 21;
}
message ArgDef {
  string name = 1;
  string description = 2;
  DataType type = 3;
  string type_attr = 4;
  string number_attr = 5;
  string type_list_attr = 6;
  repeated DtypeAndShape handle_data = 7;
  bool is_ref = 16;
  FullTypeDef experimental_full_type = 17;
}
message AttrDef {
  string name = 1;
  string type = 2;
  AttrValue default_value = 3;
  string description = 4;
  bool has_minimum = 5;
  int64 minimum = 6;
  AttrValue allowed_values = 7;
}
message OpDeprecation {
  int32 version = 1;
  string explanation = 2;
}
message GraphDebugInfo {
  repeated string files = 1;
  map<string, StackTrace> traces = 2;
  map<fixed64, FileLineCol> frames_by_id = 4;
  map<string, fixed64> name_to_trace_id = 5;
  map<fixed64, StackTrace> traces_by_id = 6;
}
message FileLineCol {
  int32 file_index = 1;
  int32 line = 2;
  int32 col = 3;
  string func = 4;
  string code = 5;
}
message StackTrace {
  repeated FileLineCol file_line_cols = 1;
  repeated fixed64 frame_id = 2;
}
message SavedModel {
  int64 saved_model_schema_version = 1;
  repeated MetaGraphDef meta_graphs = 2;
}
message MetaGraphDef {
  MetaInfoDef meta_info_def = 1;
  GraphDef graph_def = 2;
  map<string, SignatureDef> signature_def = 5;
  SavedObjectGraph object_graph_def = 7;
}
message SavedObjectGraph {
  repeated SavedObject nodes = 1;
  map<string, SavedConcreteFunction> concrete_functions = 2;
}
message SavedObject {
  SavedConstant constant = 9;
}
message SavedConstant {
  string operation = 1;
}
message SavedConcreteFunction {
  repeated int32 bound_inputs = 2;
}
message MetaInfoDef {
  repeated string tags = 4;
  string tensorflow_version = 5;
  map<string, string> function_aliases = 8;
}
message SignatureDef {
  map<string, TensorInfo> inputs = 1;
  map<string, TensorInfo> outputs = 2;
  string method_name = 3;
}
message TensorInfo {
  string name = 1;
  DataType dtype = 2;
  TensorShapeProto tensor_shape = 3;
}
"""

#: full_type.proto: values of `FullTypeDef.type_id`.
_FULL_TYPES: Final = (
    "UNSET=0 VAR=1 ANY=2 PRODUCT=3 NAMED=4 FOR_EACH=20 CALLABLE=100 BOOL=200 UINT8=201 UINT16=202 UINT32=203 "
    "UINT64=204 INT8=205 INT16=206 INT32=207 INT64=208 HALF=209 FLOAT=210 DOUBLE=211 COMPLEX64=212 "
    "COMPLEX128=213 STRING=214 BFLOAT16=215 TENSOR=1000 ARRAY=1001 OPTIONAL=1002 LITERAL=1003 ENCODED=1004 "
    "SHAPE_TENSOR=1005 DATASET=10102 RAGGED=10103 ITERATOR=10104 MUTEX_LOCK=10202 LEGACY_VARIANT=10203"
)

_ENUMS: Final = {
    "DataType": {f"DT_{member.name}": member.value for member in DataType},
    "FullTypeId": {f"TFT_{name}": int(number) for name, number in re.findall(r"(\w+)=(\d+)", _FULL_TYPES)},
}

_STATEMENT: Final = re.compile(
    r"(?P<block>message|oneof) (?P<block_name>\w+) \{"
    r"|map<(?P<key>\w+), (?P<value>\w+)> (?P<map_name>\w+) = (?P<map_number>\d+);"
    r"|(?P<repeated>repeated )?(?P<type>\w+) (?P<name>\w+) = (?P<number>\d+);"
    r"|(?P<end>\})"
)


def protobuf(module: str) -> ModuleType:
    """Import a module of protobuf's.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        return importlib.import_module(f"google.protobuf.{module}")
    except ImportError as error:
        raise ImportError(
            "reading and writing TensorFlow's graphs needs protobuf 4.25 or later: pip install 'gradops[graph]'"
        ) from error


@functools.cache
def message_class(name: str) -> Any:
    """Return the class of TensorFlow's message of that name, ``"GraphDef"``."""
    return protobuf("message_factory").GetMessageClass(_pool().FindMessageTypeByName(f"gradops.{name}"))


@functools.cache
def _pool() -> Any:
    pool = protobuf("descriptor_pool").DescriptorPool()
    pool.AddSerializedFile(_file().SerializeToString())
    return pool


def _file() -> Any:
    """The schema as protobuf's own description of a file."""
    file = protobuf("descriptor_pb2").FileDescriptorProto(
        name="gradops/graph.proto", package="gradops", syntax="proto3"
    )
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    _add_messages(file)
    return file


def _add_messages(file: Any) -> None:
    message, oneof = None, False
    for statement in _statements():
        if statement["block"] == "message":
            message = file.message_type.add(name=statement["block_name"])
        elif statement["block"] == "oneof":
            assert message is not None
            message.oneof_decl.add(name=statement["block_name"])
            oneof = True
        elif statement["end"]:
            oneof = False  # of a message too: then it is False already
        elif statement["key"]:
            _add_map(message, statement)
        else:
            assert message is not None
            field = message.field.add(name=statement["name"], number=int(statement["number"]))
            _set_type(field, statement["type"], repeated=bool(statement["repeated"]))
            if oneof:
                field.oneof_index = len(message.oneof_decl) - 1


def _statements() -> Iterator[re.Match[str]]:
    for line in _SCHEMA.strip().splitlines():
        statement = _STATEMENT.fullmatch(line.strip())
        assert statement is not None, line
        yield statement


def _add_map(message: Any, statement: re.Match[str]) -> None:
    """A map is a list of entries, messages of a key and a value."""
    name = statement["map_name"]
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1), statement["key"])
    _set_type(entry.field.add(name="value", number=2), statement["value"])
    field = message.field.add(name=name, number=int(statement["map_number"]))
    _set_type(field, f"{message.name}.{entry.name}", repeated=True)


def _set_type(field: Any, name: str, *, repeated: bool = False) -> None:
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    scalar = getattr(field, f"TYPE_{name.upper()}", None)
    if scalar is not None:
        field.type = scalar
    else:
        field.type = field.TYPE_ENUM if name in _ENUMS else field.TYPE_MESSAGE
        field.type_name = f".gradops.{name}"
