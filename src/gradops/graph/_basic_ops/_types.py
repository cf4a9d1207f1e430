"""The sets of element types that TensorFlow's OpDefs allow."""

from typing import Final

__all__ = ["COMPLEX", "FLOATS", "INDICES", "NUMBERS", "REALS"]

FLOATS: Final = ("bfloat16", "half", "float", "double")
REALS: Final = (*FLOATS, "uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64")
COMPLEX: Final = ("complex64", "complex128")
NUMBERS: Final = (*REALS, *COMPLEX, "qint8", "quint8", "qint32", "qint16", "quint16")
#: Of sizes and indices.
INDICES: Final = ("int32", "int64")
