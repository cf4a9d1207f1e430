"""Element types of tensors, with TensorFlow's numbers and names, and NumPy's dtypes for them."""

from __future__ import annotations

import enum
from typing import Any, Final

import ml_dtypes
import numpy as np

from gradops.errors import InvalidArgumentError

__all__ = ["DataType"]

_REF: Final = 100  # the number of a reference type is that of its type plus 100


class DataType(enum.IntEnum):
    """The element type of a tensor; its value is TensorFlow's number, on the wire too.

    >>> DataType.HALF.label, DataType.HALF.numpy
    ('half', dtype('float16'))
    >>> DataType.of(np.float64)
    <DataType.DOUBLE: 2>
    """

    INVALID = 0
    FLOAT = 1
    DOUBLE = 2
    INT32 = 3
    UINT8 = 4
    INT16 = 5
    INT8 = 6
    STRING = 7
    COMPLEX64 = 8
    INT64 = 9
    BOOL = 10
    QINT8 = 11
    QUINT8 = 12
    QINT32 = 13
    BFLOAT16 = 14
    QINT16 = 15
    QUINT16 = 16
    UINT16 = 17
    COMPLEX128 = 18
    HALF = 19
    RESOURCE = 20
    VARIANT = 21
    UINT32 = 22
    UINT64 = 23
    FLOAT8_E5M2 = 24
    FLOAT8_E4M3FN = 25
    FLOAT8_E4M3FNUZ = 26
    FLOAT8_E4M3B11FNUZ = 27
    FLOAT8_E5M2FNUZ = 28
    INT4 = 29
    UINT4 = 30
    INT2 = 31
    UINT2 = 32
    FLOAT4_E2M1FN = 33
    FLOAT_REF = 101
    DOUBLE_REF = 102
    INT32_REF = 103
    UINT8_REF = 104
    INT16_REF = 105
    INT8_REF = 106
    STRING_REF = 107
    COMPLEX64_REF = 108
    INT64_REF = 109
    BOOL_REF = 110
    QINT8_REF = 111
    QUINT8_REF = 112
    QINT32_REF = 113
    BFLOAT16_REF = 114
    QINT16_REF = 115
    QUINT16_REF = 116
    UINT16_REF = 117
    COMPLEX128_REF = 118
    HALF_REF = 119
    RESOURCE_REF = 120
    VARIANT_REF = 121
    UINT32_REF = 122
    UINT64_REF = 123
    FLOAT8_E5M2_REF = 124
    FLOAT8_E4M3FN_REF = 125
    FLOAT8_E4M3FNUZ_REF = 126
    FLOAT8_E4M3B11FNUZ_REF = 127
    FLOAT8_E5M2FNUZ_REF = 128
    INT4_REF = 129
    UINT4_REF = 130
    INT2_REF = 131
    UINT2_REF = 132
    FLOAT4_E2M1FN_REF = 133

    @property
    def label(self) -> str:
        """TensorFlow's name of it in messages and signatures: ``"float"``, ``"half"``, ``"int32_ref"``."""
        return self.name.lower()

    @property
    def is_ref(self) -> bool:
        """Whether it is a reference to a tensor: a TensorFlow 1 variable's output."""
        return self > _REF

    @property
    def base(self) -> DataType:
        """The type without the reference."""
        return DataType(self - _REF) if self.is_ref else self

    @property
    def is_floating(self) -> bool:
        """Whether numbers of this type have a fraction: the types that gradients flow through."""
        return self.base in _FLOATING

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's dtype of such elements; strings are objects (`bytes`).

        Raises
        ------
        InvalidArgumentError
            If NumPy has none: quantised types, resources, variants, references.
        """
        dtype = _NUMPY.get(self)
        if dtype is None:
            raise InvalidArgumentError(f"tensors of type {self.label} cannot be held in a NumPy array")
        return dtype

    @property
    def has_numpy(self) -> bool:
        """Whether `numpy` gives a dtype."""
        return self in _NUMPY

    @classmethod
    def of(cls, value: Any) -> DataType:
        """Return the element type that `value` names.

        Parameters
        ----------
        value : DataType, int, str, or anything that NumPy takes as a dtype
            ``DataType.FLOAT``, ``1``, ``"float"``, ``"DT_FLOAT"``, ``np.float32``, ``tf.float32``.

        Raises
        ------
        TypeError
            If it names no element type.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return cls(value)
            except ValueError:
                raise TypeError(f"{value} is no element type's number") from None
        if isinstance(value, str):
            named = cls.__members__.get(value.removeprefix("DT_").upper())
            if named is not None:
                return named
        number = getattr(value, "as_datatype_enum", None)  # tf.float32
        if number is not None:
            return cls(number)
        return cls._of_dtype(value)

    @classmethod
    def _of_dtype(cls, value: Any) -> DataType:
        try:
            if value is None:
                raise TypeError("None")
            dtype = np.dtype(value)
        except TypeError:
            raise TypeError(f"expected an element type, such as np.float32 or 'float', not {value!r}") from None
        if dtype.kind in "SU":
            return cls.STRING
        found = _FROM_NUMPY.get(dtype.newbyteorder("="))
        if found is None:
            raise TypeError(f"TensorFlow has no element type for NumPy's {dtype}")
        return found


def _numpy_types() -> dict[DataType, np.dtype[Any]]:
    types: dict[DataType, Any] = {
        DataType.FLOAT: np.float32,
        DataType.DOUBLE: np.float64,
        DataType.HALF: np.float16,
        DataType.COMPLEX64: np.complex64,
        DataType.COMPLEX128: np.complex128,
        DataType.BOOL: np.bool_,
        DataType.STRING: np.object_,
    }
    for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"):
        types[DataType[name]] = getattr(np, name.lower())
    for member in DataType:
        if member not in types and hasattr(ml_dtypes, member.label):  # the newest ml_dtypes has all of them
            types[member] = getattr(ml_dtypes, member.label)
    return {member: np.dtype(scalar) for member, scalar in types.items()}


_NUMPY: Final = _numpy_types()
_FROM_NUMPY: Final = {dtype: member for member, dtype in _NUMPY.items()}
_FLOATING: Final = frozenset(
    member
    for member in DataType
    if member in (DataType.FLOAT, DataType.DOUBLE, DataType.HALF, DataType.BFLOAT16)
    or member.name.startswith(("FLOAT8", "FLOAT4"))
)
