"""The element types, one row for each, and the enums of TOSA's attributes; from schema/tosa.fbs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np

V1_0: Final = (1, 0)
V1_1: Final = (1, 1)
#: The state of the newest release of tosa-tools, 2026.8.0, of which the reference model is a part.
TOOLS_STATE: Final = "2026-08"


class Numbers(NamedTuple):
    """The numbers of a type that has fractions.

    fraction: its bits. least: the smallest normal number. most: the largest finite one.
    """

    fraction: int
    least: float
    most: float
    has_infinity: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """An element type. There is one object for each: compare with `is`.

    name: the name in TOSA, such as "INT8".
    code: its number in enum DType of the schema.
    bits: bits of one element in a file; elements below 8 bits are packed without gaps.
    numpy_name: the numpy or ml_dtypes type of one unpacked element. INT48 is widened to int64.
    mlir: the name of the type in MLIR.
    kind: "bool", "integer", "float", "scale" of a block, or "fixed" point in codes.
    numbers: those of a type with fractions, but for scales.
    accumulator: the type in which its sums are added, unless an attribute says another one.
    sums_since: the state of MLIR's dialect that made it an accumulator; None if it is none.
    extension: what it needs by itself.
    is_symmetric: the least integer is minus the greatest one.
    since: the TOSA version that introduced it, (major, minor).
    state: the month of the state of MLIR's dialect that added it; "" if the first one had it.

    Example:
        >>> dtype("INT4").bits, dtype("INT4").mlir, dtype("INT4").wire_bytes(3)
        (4, 'i4', 2)
    """

    name: str
    code: int
    bits: int
    numpy_name: str
    mlir: str
    kind: str
    numbers: Numbers | None = None
    accumulator: str = ""
    sums_since: str | None = None
    extension: str = ""
    is_symmetric: bool = False
    since: tuple[int, int] = V1_0
    state: str = ""

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype, (self.name,)

    @property
    def is_packed(self) -> bool:
        """Return whether elements share bytes in a file."""
        return self.bits < 8

    @property
    def is_float(self) -> bool:
        """Return whether elements are floating-point; the scales FP8UE8M0 are, MXINT8 is not."""
        return self.kind in ("float", "scale")

    @property
    def is_in_tools(self) -> bool:
        """Return whether the newest tosa-tools have it."""
        return self.state <= TOOLS_STATE

    @property
    def is_native(self) -> bool:
        """Return whether numpy has the type, and an element takes as many bits in a file."""
        return (
            self.kind != "fixed"
            and self.numpy_name in (*("bool", f"int{self.bits}", f"float{self.bits}"),)
            and not self.is_packed
        )

    @property
    def is_in_bytes(self) -> bool:
        """Return whether it is an integer below 8 bits, which arrays hold as int8."""
        return self.is_packed and self.kind == "integer"

    @property
    def limits(self) -> tuple[int, int]:
        """Return the least and the greatest integer, or code of fixed point."""
        most = (1 << (self.bits - 1)) - 1
        return (0, 1) if self.kind == "bool" else (-most - (not self.is_symmetric), most)

    @property
    def element_bytes(self) -> int:
        """Return the bytes of one unpacked element, as in MLIR's memory; 1 for types below 8 bits."""
        return (self.bits + 7) // 8

    def wire_bytes(self, count: int) -> int:
        """Return the bytes of `count` elements in a file, without padding."""
        return (self.bits * count + 7) // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """Return the numpy type of an unpacked element; from ml_dtypes where numpy does not have it."""
        return _numpy_type(self.numpy_name)


@cache
def _numpy_type(name: str) -> np.dtype[Any]:
    from tosa_convert.graph.lazy_numpy import np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _float(fraction: int, exponent: int) -> Numbers:
    """Return the numbers of a type of IEEE 754. exponent: of the smallest normal one."""
    return Numbers(fraction, 2.0**exponent, (2 - 2.0**-fraction) * 2.0 ** (1 - exponent), True)


_E4M3: Final = Numbers(3, 2.0**-6, 448.0, has_infinity=False)
_E2M3: Final = Numbers(3, 1.0, 7.5, has_infinity=False)
_E3M2: Final = Numbers(2, 0.25, 28.0, has_infinity=False)
_E2M1: Final = Numbers(1, 1.0, 6.0, has_infinity=False)
#: Fixed point: everywhere the distance that floats of six bits have below 1.
_FIXED: Final = Numbers(6, 1.0, 127 / 64, has_infinity=False)

# fmt: off
DTYPES: Final[tuple[DType, ...]] = (
    DType("BOOL", 1, 8, "bool", "i1", "bool"),
    DType("INT4", 2, 4, "int4", "i4", "integer", extension="INT4", is_symmetric=True, state="2023-08"),
    DType("INT8", 3, 8, "int8", "i8", "integer", accumulator="INT32"),
    DType("INT16", 4, 16, "int16", "i16", "integer", accumulator="INT48"),
    DType("INT32", 5, 32, "int32", "i32", "integer", sums_since=""),
    DType("INT48", 6, 48, "int64", "i48", "integer", sums_since="", extension="INT16"),
    DType("FP32", 7, 32, "float32", "f32", "float", _float(23, -126), "FP32", ""),
    DType("FP16", 8, 16, "float16", "f16", "float", _float(10, -14), "FP16", ""),
    DType("BF16", 9, 16, "bfloat16", "bf16", "float", _float(7, -126), "FP32", "2026-08", "BF16"),
    DType("FP8E4M3", 11, 8, "float8_e4m3fn", "f8E4M3FN", "float", _E4M3, "FP16",
          extension="FP8E4M3", state="2024-07"),
    DType("FP8E5M2", 12, 8, "float8_e5m2", "f8E5M2", "float", _float(2, -14), "FP16",
          extension="FP8E5M2", state="2024-07"),
    DType("FP6E2M3", 13, 6, "float6_e2m3fn", "f6E2M3FN", "float", _E2M3, since=V1_1, state="2025-11"),
    DType("FP6E3M2", 14, 6, "float6_e3m2fn", "f6E3M2FN", "float", _E3M2, since=V1_1, state="2025-11"),
    DType("FP4E2M1", 15, 4, "float4_e2m1fn", "f4E2M1FN", "float", _E2M1, since=V1_1, state="2025-11"),
    DType("FP8UE8M0", 16, 8, "float8_e8m0fnu", "f8E8M0FNU", "scale",
          extension="MX-COMMON", since=V1_1, state="2025-11"),
    DType("INT64", 17, 64, "int64", "i64", "integer", extension="INT64", since=V1_1),
    DType("MXINT8", 18, 8, "int8", "!tosa.mxint8", "fixed", _FIXED,
          is_symmetric=True, since=V1_1, state="2026-05"),
)
# fmt: on

#: Names of enum DType that are not element types of a tensor, and why.
NOT_ELEMENT_TYPES: Final = {
    "UNKNOWN": "means that the type is not set",
    "SHAPE": "the type of a TosaShape, which has no element type field",
}

BY_NAME: Final = {row.name: row for row in DTYPES}
BY_CODE: Final = {row.code: row for row in DTYPES}
BY_MLIR: Final = {row.mlir: row for row in DTYPES}


def dtype(name: str) -> DType:
    """Return the element type of this name.

    Raises:
        KeyError: TOSA does not have it.

    Example:
        >>> dtype("BF16")
        BF16
    """
    return BY_NAME[name]


#: The element types of block-scaled (MX) tensors, and the type of their scales.
BLOCK_SCALED: Final = tuple(
    map(dtype, ("FP8E4M3", "FP8E5M2", "FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"))
)
BLOCK_SCALE: Final = dtype("FP8UE8M0")

#: Floating point in which operators compute, and that of 8 bits.
FLOATS: Final = tuple(row for row in DTYPES if row.kind == "float" and row.bits >= 16)
FP8: Final = tuple(row for row in DTYPES if row.kind == "float" and row.bits == 8)

INT8: Final = dtype("INT8")
INT16: Final = dtype("INT16")
INT32: Final = dtype("INT32")
INT64: Final = dtype("INT64")
FP16: Final = dtype("FP16")
FP32: Final = dtype("FP32")

#: The only zero point besides 0 of unsigned INT16, as an INT16: the bits of 32768.
MIDDLE_OF_UINT16: Final = -(1 << 15)


class NanPropagationMode(IntEnum):
    """The treatment of NaN by an operator that compares values."""

    PROPAGATE = 1
    IGNORE = 2


class RoundingMode(IntEnum):
    """The rounding mode of RESCALE."""

    SINGLE_ROUND = 1
    INEXACT_ROUND = 2
    DOUBLE_ROUND = 3


class ResizeMode(IntEnum):
    """The interpolation mode of RESIZE."""

    NEAREST = 1
    BILINEAR = 2


class BlockSize(IntEnum):
    """Attribute of operators: how many consecutive elements share a scale."""

    BLOCK_SIZE_1 = 1
    BLOCK_SIZE_32 = 32


class BlockShape(IntEnum):
    """Property of a tensor: how many consecutive elements share a scale."""

    BLOCK_SHAPE_32 = 32


#: Name in the schema -> class. None has UNKNOWN (0): other readers refuse it.
ENUMS: Final[dict[str, type[IntEnum]]] = {
    "NanPropagationMode": NanPropagationMode,
    "RoundingMode": RoundingMode,
    "ResizeMode": ResizeMode,
    "BlockSize": BlockSize,
    "BlockShape": BlockShape,
}
