"""Arrays in one file: what the readers of safetensors, IREE's archives and GGUF return.

An array of a file has a kind, which is the name that safetensors has for its type. Elements are stored
as in an `.npy` file, except that those below 8 bits are packed where the kind says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.weights import npy
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DTYPES, INT4, DType
from tosa_convert.records import NamedTuple

#: Kind -> bits of an element. Those that TOSA does not have are read to say what they are.
BITS: Final = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
_OWN_KINDS: Final = {
    "BOOL": "BOOL",
    "INT4": "I8",
    "MXINT8": "I8",
    "INT48": "I64",
    "BF16": "BF16",
    "FP8E4M3": "F8_E4M3",
    "FP8E5M2": "F8_E5M2",
    "FP8UE8M0": "F8_E8M0",
    "FP6E2M3": "F6_E2M3",
    "FP6E3M2": "F6_E3M2",
    "FP4E2M1": "F4",
}
#: Element type -> its kind. INT4 and INT48, which no kind is, take the next larger integer.
KINDS: Final = {
    row: _OWN_KINDS.get(row.name, row.name.replace("FP", "F").replace("INT", "I")) for row in DTYPES
}
#: Most dimensions of an array that is read.
_MOST_DIMENSIONS: Final = 64


class Stored(NamedTuple):
    """An array of a file.

    kind: "" if the file does not say. shape: None if it does not say. offset, nbytes: its place in the
    file. splat: the bytes are one element, which is repeated. load: returns the bytes of the
    elements; they are those of the file, but for formats that mix them with scales.
    """

    kind: str
    shape: tuple[int, ...] | None
    offset: int
    nbytes: int
    load: Callable[[], memoryview]
    splat: bool = False


class Contents(NamedTuple):
    """The arrays of a file by their keys, and the manifest if `weights.write` wrote the file."""

    manifest: bytes | None
    arrays: Mapping[str, Stored]


class Item(NamedTuple):
    """A constant that is to be written under a key."""

    key: str
    shape: tuple[int, ...]
    constant: Constant


def damaged(where: str, offset: int, message: str) -> TosaConvertError:
    """Return the error for a file that is damaged at an offset in bytes."""
    hint = "the file is damaged or cut off: write it again"
    return fail("malformed-weights", f"{where}: byte {offset}", message, hint)


def checked_shape(sizes: Any, where: str, offset: int) -> tuple[int, ...]:
    """Return sizes that a file gives as a shape; raise `damaged` if they are not one."""
    good = isinstance(sizes, list) and len(sizes) <= _MOST_DIMENSIONS
    if not good or any(type(size) is not int or not 0 <= size < 1 << 63 for size in sizes):
        raise damaged(where, offset, f"a shape is {str(sizes)[:80]}, expected a list of sizes")
    return tuple(sizes)


def parse_json(text: bytes, where: str, offset: int) -> Any:
    """Parse JSON in which no key occurs twice; raise `damaged` for anything else."""

    def unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(items)
        if len(members) != len(items):
            raise ValueError("duplicate key")
        return members

    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise damaged(where, offset, f"its header is not JSON: {reason}") from None


def is_packed(row: DType, count: int) -> bool:
    """Return whether elements of a type are packed in a safetensors file, which has whole bytes only."""
    return row.is_packed and row is not INT4 and row.bits * count % 8 == 0


def stored_kind(row: DType, count: int) -> str:
    """Return the kind as which so many elements of a type are stored in a safetensors file."""
    return "U8" if row.is_packed and row is not INT4 and not is_packed(row, count) else KINDS[row]


def stored_bytes(constant: Constant, *, packed: bool) -> int:
    """Return the bytes of the elements of a constant in a file."""
    return constant.nbytes if packed else npy.stored_bytes(constant.dtype, constant.count)


def stored_pieces(constant: Constant, *, packed: bool) -> Iterator[memoryview]:
    """Iterate over the bytes of the elements of a constant in a file."""
    return constant.chunks() if packed else npy.blocks(constant)
