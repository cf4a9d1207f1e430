"""Write the declarations of the operators named in tensorflow_opdefs.json anew; run it with TensorFlow 2.21.0."""

import json
from pathlib import Path
from typing import Any

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

FILE = Path(__file__).parent / "tensorflow_opdefs.json"


def type_name(number: int) -> str:
    return types_pb2.DataType.Name(number).removeprefix("DT_").lower()


def tensor(arg: Any) -> list[str]:
    return [arg.name, arg.type_attr or type_name(arg.type), arg.number_attr]


def attr(declared: Any) -> dict[str, Any]:
    allowed = declared.allowed_values.list
    entry: dict[str, Any] = {
        "name": declared.name,
        "kind": declared.type,
        "allowed": sorted(set(map(type_name, allowed.type))) or sorted(text.decode() for text in allowed.s),
    }
    if declared.HasField("default_value"):
        kind = declared.default_value.WhichOneof("value")
        value = getattr(declared.default_value, kind)
        convert = {"list": lambda v: list(v.i), "s": bytes.decode, "type": type_name, "shape": lambda _: None}
        entry["default"] = convert.get(kind, lambda v: v)(value)
    return entry


def declaration(name: str) -> dict[str, Any]:
    op = op_def_registry.get(name)
    return {
        "inputs": [tensor(arg) for arg in op.input_arg],
        "outputs": [tensor(arg) for arg in op.output_arg],
        "attrs": [attr(declared) for declared in op.attr],
    }


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(declaration(name))}" for name in sorted(json.loads(FILE.read_text())))
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
