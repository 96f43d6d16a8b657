"""Element types, a row each, and the small enums of TOSA's vocabulary.

Sources: enum DType of schema/tosa.fbs for names and codes; the MLIR builtin and TOSA dialects for
the spellings; the bit layouts were established against the reference model (docs/formats.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

V1_0: Final = (1, 0)
V1_1: Final = (1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. Rows are singletons: compare with `is`.

    bits: bits an element takes in a file, where elements below 8 bits are packed without gaps.
    numpy_name: the numpy or ml_dtypes type of one unpacked element; INT48 widens to int64.
    mlir: the spelling of the element type in MLIR.
    since: the TOSA version that introduced it, (major, minor).
    """

    name: str
    code: int
    bits: int
    numpy_name: str
    mlir: str
    since: tuple[int, int] = V1_0

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype, (self.name,)

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte in a file."""
        return self.bits < 8

    @property
    def element_bytes(self) -> int:
        """Bytes of one unpacked element: what MLIR keeps in memory, 1 for every type below 8 bits."""
        return (self.bits + 7) // 8

    def wire_bytes(self, count: int) -> int:
        """Bytes that `count` elements take in a file, without padding."""
        return (self.bits * count + 7) // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of an unpacked element; imports ml_dtypes where numpy has no such type."""
        import numpy as np

        if hasattr(np, self.numpy_name):
            return np.dtype(getattr(np, self.numpy_name))
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, self.numpy_name))


DTYPES: Final[tuple[DType, ...]] = (
    DType("BOOL", 1, 8, "bool", "i1"),
    DType("INT4", 2, 4, "int4", "i4"),
    DType("INT8", 3, 8, "int8", "i8"),
    DType("INT16", 4, 16, "int16", "i16"),
    DType("INT32", 5, 32, "int32", "i32"),
    DType("INT48", 6, 48, "int64", "i48"),
    DType("FP32", 7, 32, "float32", "f32"),
    DType("FP16", 8, 16, "float16", "f16"),
    DType("BF16", 9, 16, "bfloat16", "bf16"),
    DType("FP8E4M3", 11, 8, "float8_e4m3fn", "f8E4M3FN"),
    DType("FP8E5M2", 12, 8, "float8_e5m2", "f8E5M2"),
    DType("FP6E2M3", 13, 6, "float6_e2m3fn", "f6E2M3FN", V1_1),
    DType("FP6E3M2", 14, 6, "float6_e3m2fn", "f6E3M2FN", V1_1),
    DType("FP4E2M1", 15, 4, "float4_e2m1fn", "f4E2M1FN", V1_1),
    DType("FP8UE8M0", 16, 8, "float8_e8m0fnu", "f8E8M0FNU", V1_1),
    DType("INT64", 17, 64, "int64", "i64", V1_1),
    DType("MXINT8", 18, 8, "int8", "!tosa.mxint8", V1_1),
)

#: Codes of enum DType that are not element types of a tensor, and why.
NOT_ELEMENT_TYPES: Final = {
    "UNKNOWN": "stands for no type at all",
    "SHAPE": "the type of a TosaShape, which has no element type field",
}

_BY_NAME: Final = {row.name: row for row in DTYPES}
BY_CODE: Final = {row.code: row for row in DTYPES}
BY_MLIR: Final = {row.mlir: row for row in DTYPES}


def dtype(name: str) -> DType:
    """The row called `name`, for example "INT8"; KeyError if there is none."""
    return _BY_NAME[name]


#: What the elements of a block-scaled (MX) tensor may be, and what its scales are.
BLOCK_SCALED: Final = tuple(
    map(dtype, ("FP8E4M3", "FP8E5M2", "FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"))
)
BLOCK_SCALE: Final = dtype("FP8UE8M0")

INT4: Final = dtype("INT4")
INT8: Final = dtype("INT8")
INT32: Final = dtype("INT32")
INT64: Final = dtype("INT64")


class NanPropagationMode(IntEnum):
    """What an operator that selects among values does with NaN."""

    PROPAGATE = 1
    IGNORE = 2


class RoundingMode(IntEnum):
    """How RESCALE rounds."""

    SINGLE_ROUND = 1
    INEXACT_ROUND = 2
    DOUBLE_ROUND = 3


class ResizeMode(IntEnum):
    """How RESIZE interpolates."""

    NEAREST = 1
    BILINEAR = 2


class BlockSize(IntEnum):
    """How many consecutive elements share a scale in an operator on block-scaled tensors."""

    BLOCK_SIZE_1 = 1
    BLOCK_SIZE_32 = 32


class BlockShape(IntEnum):
    """How many consecutive elements of a block-scaled tensor share a scale."""

    BLOCK_SHAPE_32 = 32


#: Name in the schema -> class; UNKNOWN (0) is in none of them: readers in the field refuse it.
ENUMS: Final[dict[str, type[IntEnum]]] = {
    "NanPropagationMode": NanPropagationMode,
    "RoundingMode": RoundingMode,
    "ResizeMode": ResizeMode,
    "BlockSize": BlockSize,
    "BlockShape": BlockShape,
}
