"""Tensors and shapes between NumPy and TensorFlow's messages, checked before anything is allocated."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gradops.graph._errors import GraphDefError
from gradops.graph._schema import message_class
from gradops.graph._types import DataType
from gradops.ops._inference import Shape, describe

__all__ = ["MAX_SPLAT_BYTES", "Allowance", "array_from_proto", "array_to_proto", "shape_from_proto", "shape_to_proto"]

_Array = npt.NDArray[Any]

_MOST_ELEMENTS: Final = 2**63 - 1
_MOST_AXES: Final = 254  # TensorFlow's

#: What the constants of one graph may grow by because a file says "all elements are equal" in place
#: of the elements: 256 MiB. Real graphs do that with zeros and biases; a file of 40 bytes could ask
#: for any amount of memory.
MAX_SPLAT_BYTES: Final = 2**28


class Allowance:
    """The bytes that a file may still cause to be made of nothing."""

    def __init__(self, limit: int = MAX_SPLAT_BYTES) -> None:
        self._limit = limit
        self._left = limit

    def take(self, size: int) -> None:
        """Count `size` bytes, before they are allocated."""
        if size > self._left:
            raise GraphDefError(
                f"constants that are written as one repeated value take {self._limit - self._left + size} bytes, but "
                f"max_splat_bytes is {self._limit}. Give a larger max_splat_bytes if the file can be trusted"
            )
        self._left -= size


# --- shapes ---


def shape_from_proto(proto: Any) -> Shape:
    """Return a TensorShapeProto as sizes, None for what is unknown.

    Raises
    ------
    GraphDefError
        If a size is below -1, there are more elements than TensorFlow can count, or more than 254 axes.
    """
    sizes = [int(dim.size) for dim in proto.dim]
    if proto.unknown_rank:
        if sizes:
            raise GraphDefError(f"a shape of unknown rank has sizes: {sizes}")
        return None
    if len(sizes) > _MOST_AXES:
        raise GraphDefError(f"a shape has {len(sizes)} axes, more than {_MOST_AXES}")
    if any(size < -1 for size in sizes):
        raise GraphDefError(f"shape {sizes} has a negative size. -1 is an unknown one")
    _check_count(sizes)
    return tuple(None if size == -1 else size for size in sizes)


def _check_count(sizes: list[int]) -> None:
    count = 1
    for size in sizes:
        if size == -1:
            return
        count *= size
        if count > _MOST_ELEMENTS:
            raise GraphDefError(f"shape {sizes} has too many elements, more than 2**63 - 1")


def shape_to_proto(shape: Shape) -> Any:
    """Return sizes as a TensorShapeProto."""
    proto = message_class("TensorShapeProto")()
    if shape is None:
        proto.unknown_rank = True
        return proto
    for size in shape:
        proto.dim.add(size=-1 if size is None else size)
    return proto


# --- tensors ---

_INT_VAL: Final = ("INT8", "INT16", "INT32", "UINT8", "UINT16", "INT2", "INT4", "UINT2", "UINT4")

#: Where the values of each element type are, if they are not in `tensor_content`.
_FIELDS: Final[dict[DataType, str]] = {
    DataType.FLOAT: "float_val",
    DataType.DOUBLE: "double_val",
    DataType.STRING: "string_val",
    DataType.COMPLEX64: "scomplex_val",
    DataType.COMPLEX128: "dcomplex_val",
    DataType.INT64: "int64_val",
    DataType.BOOL: "bool_val",
    DataType.HALF: "half_val",
    DataType.BFLOAT16: "half_val",
    DataType.UINT32: "uint32_val",
    DataType.UINT64: "uint64_val",
    **{DataType[name]: "int_val" for name in _INT_VAL},
    **{
        member: "float8_val"
        for member in DataType
        if member.name.startswith(("FLOAT8_", "FLOAT4_")) and not member.is_ref
    },
}

#: The type of the numbers in a field, where it is not the element type.
_WIRE_TYPES: Final = {"scomplex_val": np.float32, "dcomplex_val": np.float64, "half_val": np.int32, "int_val": np.int32}


def array_from_proto(proto: Any, allowance: Allowance) -> _Array:
    """Return a TensorProto's tensor, read-only, by TensorFlow's rules.

    `tensor_content` counts if it is not empty. Otherwise the field of the element type does: a list that
    is too short repeats its last value, an empty one means zeros, and what is too much is ignored.

    Parameters
    ----------
    proto : TensorProto
    allowance : Allowance
        Charged with what the repeated values take.

    Raises
    ------
    GraphDefError
        If the shape is not fully defined or has too many elements, `tensor_content` has not exactly
        the right length, or NumPy has no such element type or shape.
    """
    dtype, shape = _element_type(proto), _full_shape(proto.tensor_shape)
    count = math.prod(shape)
    content = proto.tensor_content if count else b""  # TensorFlow does not look at the content of an empty tensor
    if content:
        values = _from_content(content, dtype, count)
    else:
        values = _repeated(_from_field(proto, dtype, count), dtype, count, allowance)
    values.flags.writeable = False  # and with it every view: the graph need not copy what nobody can write to
    try:
        # Values that are all one stay one: the steps from each to the next are 0 bytes.
        tensor = values.reshape(shape) if values.size == count else np.broadcast_to(values, shape)
    except ValueError as error:  # more axes, or a larger size beside a 0, than NumPy has
        raise GraphDefError(f"Cannot parse tensor from proto: a NumPy array cannot have shape {shape}") from error
    return tensor


def _full_shape(proto: Any) -> tuple[int, ...]:
    shape = shape_from_proto(proto)
    sizes = () if shape is None else tuple(size for size in shape if size is not None)
    if shape is None or len(sizes) < len(shape):
        raise GraphDefError(f"Cannot parse tensor from proto: its shape {describe(shape)} is not fully defined")
    return sizes


def _element_type(proto: Any) -> DataType:
    try:
        dtype = DataType(proto.dtype)
    except ValueError:
        raise GraphDefError(f"there is no element type number {proto.dtype}") from None
    if dtype not in _FIELDS or not dtype.has_numpy:
        raise GraphDefError(f"a constant of type {dtype.label} cannot be held in a NumPy array")
    return dtype


def _from_content(content: bytes, dtype: DataType, count: int) -> _Array:
    if dtype == DataType.STRING:
        return _strings_from_content(content, count)
    itemsize = dtype.numpy.itemsize
    if len(content) != count * itemsize:
        raise GraphDefError(
            f"Cannot parse tensor from proto: tensor_content has {len(content)} bytes, but {count} elements of type "
            f"{dtype.label} take {count * itemsize}"
        )
    if dtype == DataType.BOOL and content.translate(None, b"\0\1"):
        raise GraphDefError("Cannot parse tensor from proto: tensor_content has bools that are neither 0 nor 1")
    if dtype.label.removeprefix("u") in ("int2", "int4"):
        return np.frombuffer(content, np.int8).astype(dtype.numpy)  # the low bits, one element a byte
    return np.frombuffer(content, dtype.numpy)


def _strings_from_content(content: bytes, count: int) -> _Array:
    """`count` lengths as varints, then all the characters."""
    lengths, position = [], 0
    if count > len(content):
        raise GraphDefError(f"Cannot parse tensor from proto: {len(content)} bytes cannot hold {count} strings")
    for _ in range(count):
        length, position = _varint(content, position)
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise GraphDefError("Cannot parse tensor from proto: the lengths of the strings do not add up")
    strings = np.empty(count, object)
    for i, length in enumerate(lengths):
        strings[i] = content[position : position + length]
        position += length
    return strings


def _varint(content: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if position == len(content):
            break
        byte = content[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise GraphDefError("Cannot parse tensor from proto: the lengths of the strings are cut off")


def _from_field(proto: Any, dtype: DataType, count: int) -> _Array:
    """The values in the field of the element type, no more than `count`."""
    field = _FIELDS[dtype]
    if field == "string_val":
        strings = np.empty(min(len(proto.string_val), count), object)
        strings[:] = proto.string_val[:count]
        return strings
    if field == "float8_val":
        return np.frombuffer(proto.float8_val[:count], dtype.numpy)
    numbers = getattr(proto, field)
    used = min(len(numbers), count * 2 if field.endswith("complex_val") else count)
    values = np.fromiter(numbers[:used], _WIRE_TYPES.get(field, dtype.numpy), used)
    if field == "half_val":
        return values.astype(np.uint16).view(dtype.numpy)
    if field.endswith("complex_val"):
        return values[: used // 2 * 2].view(dtype.numpy)
    return values.astype(dtype.numpy, copy=False)


def _repeated(values: _Array, dtype: DataType, count: int, allowance: Allowance) -> _Array:
    """`count` values, the last of `values` repeated; or that one value alone if all are equal to it."""
    if values.size == count:
        return values
    allowance.take((count - values.size) * dtype.numpy.itemsize)
    if values.size == 0:
        return np.full(1, b"" if dtype == DataType.STRING else 0, dtype.numpy)
    if values.size == 1:
        return values
    repeated = np.empty(count, dtype.numpy)
    repeated[: values.size] = values
    repeated[values.size :] = values[-1]
    return repeated


def array_to_proto(array: _Array, dtype: DataType) -> Any:
    """Return a tensor as a TensorProto, written as TensorFlow's C++ does.

    One element is in the field of its type, two and more are bytes. Strings are in their field,
    and an array whose elements are one and the same in memory (`numpy.broadcast_to`) is one value.
    """
    proto = message_class("TensorProto")(dtype=dtype.value, tensor_shape=shape_to_proto(array.shape))
    if dtype not in _FIELDS:
        raise GraphDefError(f"a constant of type {dtype.label} cannot be written")
    array = array.astype(dtype.numpy, copy=False)  # the bytes in the machine's order
    if array.size > 1 and _is_one_value(array):
        array = array[(slice(0, 1),) * array.ndim]
    if dtype == DataType.STRING:
        proto.string_val.extend(array.ravel().tolist())
    elif array.size > 1:
        proto.tensor_content = array.tobytes()
    elif array.size == 1:
        _set_field(proto, array.reshape(1), dtype)
    return proto


def _is_one_value(array: _Array) -> bool:
    return not any(step for step, size in zip(array.strides, array.shape, strict=True) if size > 1)


def _set_field(proto: Any, value: _Array, dtype: DataType) -> None:
    field = _FIELDS[dtype]
    if field == "float8_val":
        proto.float8_val = value.tobytes()
        return
    if field == "half_val":
        value = value.view(np.uint16)
    elif field.endswith("complex_val"):
        value = value.view(_WIRE_TYPES[field])
    elif field == "int_val":
        value = value.astype(np.int32)
    getattr(proto, field).extend(value.tolist())
