"""Where MLIR spells attributes differently from the rest, or from the graph."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.dtypes import DType

#: Lists are array<i64> in MLIR, these array<i32>.
I32_ARRAYS: Final = {("TRANSPOSE", "perms")}

#: Enum class of the graph -> mnemonic of MLIR's attribute.
MNEMONICS: Final = {
    "NanPropagationMode": "nan_mode",
    "RoundingMode": "rounding_mode",
    "ResizeMode": "resize_mode",
    "BlockSize": "block_size",
}

#: Members that MLIR calls otherwise.
MLIR_MEMBERS: Final = {("ResizeMode", "NEAREST"): "NEAREST_NEIGHBOR"}
GRAPH_MEMBERS: Final = {(enum, mlir): member for (enum, member), mlir in MLIR_MEMBERS.items()}


def int_bits(dtype: DType) -> int:
    """Bits of an integer element; i1 is a byte in a file but one bit in MLIR."""
    return 1 if dtype.name == "BOOL" else dtype.bits
