"""Arrays that users pass in, and the `.npy` dialect of the reference model.

The model reads and writes each element type in one numpy type only: BF16 as two opaque bytes, FP8E4M3
and FP8UE8M0 as one, FP8E5M2 and MXINT8 as uint8, FP4 and FP6 packed into uint8 along the last
dimension, INT4 as int8, INT48 as int64. In precise mode every floating-point tensor is a float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import Finding, TosaConvertError, fail, suggest
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.scratch import incomplete_file, write_npy
from tosa_convert.graph.constant import pack, unpack
from tosa_convert.graph.dtypes import INT4, INT64, DType, dtype
from tosa_convert.graph.model import Block, ShapeValue, Tensor, quoted
from tosa_convert.records import dataclass

#: Appended to the name of a block-scaled tensor: the name of its scales.
SCALE_SUFFIX: Final = "/scale"
#: What the name of a file with scales adds to that of the values.
SCALE_FILE: Final = "_scale"
INT48: Final = dtype("INT48")
_UINT8_IN_FILE: Final = frozenset(("FP8E5M2", "MXINT8"))


@dataclass(frozen=True, slots=True)
class Slot:
    """One array that a graph takes or gives: its key, element type and shape.

    tensor: the tensor's name; the key adds SCALE_SUFFIX for the scales of a block-scaled tensor.
    """

    key: str
    tensor: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the array, unpacked."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.element_bytes

    def __str__(self) -> str:
        return f'"{self.key}" {self.dtype}{list(self.shape)}'


def slots(block: Block, name: str, where: str = "") -> list[Slot]:
    """List the arrays of a tensor or shape: one, or values and scales.

    Raises TosaConvertError("unsupported-shape") if the shape is not static, and "undefined-name".
    """
    value: Tensor | ShapeValue | None = block.tensors.get(name) or block.shapes.get(name)
    if value is None:
        raise fail("undefined-name", where, f'the block has no tensor or shape "{name}"')
    if isinstance(value, ShapeValue):
        return [Slot(name, name, INT64, (value.rank,))]
    if value.shape is None or min(value.shape, default=0) < 0:
        shape = "unranked" if value.shape is None else str(list(value.shape))
        raise fail(
            "unsupported-shape",
            where or f'tensor "{name}"',
            f"its shape is {shape}; only static shapes can be run",
        )
    values = Slot(name, name, value.dtype, value.shape)
    if value.scale is None:
        return [values]
    blocks = (*value.shape[:-1], value.shape[-1] // int(value.scale.shape))
    return [values, Slot(name + SCALE_SUFFIX, name, value.scale.dtype, blocks)]


def coerce(slot: Slot, array: Any) -> Array:
    """Convert an array to the slot's own numpy type and shape.

    Opaque bytes, as numpy reads types of ml_dtypes from a file, and raw uint8 codes are
    reinterpreted; a list of numbers is converted if no value changes. Nothing is broadcast.
    Raises TosaConvertError("input-mismatch").
    """
    if isinstance(array, (np.ndarray, np.generic)):
        result = np.asarray(array)
    else:
        result = _converted(slot, array)
    if result.shape != slot.shape:
        raise _mismatch(slot, f"found shape {list(result.shape)}", str(list(slot.shape)))
    result = _reinterpreted(slot, result)
    if slot.dtype is INT48 and result.size:
        _refuse_values_outside(slot, result, -(2**47), 2**47 - 1, "48 bits")
    return np.ascontiguousarray(result).reshape(slot.shape)


def _converted(slot: Slot, numbers: Any) -> Array:
    """Python numbers as an array of the slot's type."""
    target = slot.dtype.numpy
    try:
        given = np.asarray(numbers)
    except ValueError:  # rows of different lengths
        raise _mismatch(slot, f"found {numbers!r}, which is not an array") from None
    if given.dtype.kind not in "OUS":
        converted: Array = given.astype(target)
        is_float = given.dtype.kind == "f"
        if is_float and target.kind in "fV":
            return converted  # rounding is allowed
        if np.array_equal(converted.astype(given.dtype), given, equal_nan=is_float):
            return converted
    raise _mismatch(slot, f"found {numbers!r}, which {slot.dtype} cannot hold")


def _reinterpreted(slot: Slot, array: Array) -> Array:
    """View an array in the slot's type, if its own type holds the same elements in another notation."""
    target = slot.dtype.numpy
    if array.dtype == target:
        return array
    same_width = array.dtype.itemsize == target.itemsize
    # Types of ml_dtypes have the kind "V" as well, and other values for the same bits.
    is_opaque = array.dtype.type is np.void and same_width
    are_codes = array.dtype == np.uint8 and same_width and target.kind not in "biu"
    if is_opaque or are_codes:
        return np.ascontiguousarray(array).view(target).reshape(array.shape)
    if slot.dtype is INT4 and array.dtype == np.int8:
        if array.size:
            _refuse_values_outside(slot, array, -7, 7, "-7 to 7")
        return array.astype(target)
    raise _mismatch(slot, f"found {array.dtype}", str(target))


def _refuse_values_outside(slot: Slot, array: Array, low: int, high: int, expected: str) -> None:
    if array.min() < low or array.max() > high:
        raise _mismatch(slot, f"found values {array.min()}..{array.max()}", expected)


def _mismatch(slot: Slot, found: str, expected: str = "") -> TosaConvertError:
    wanted = f", expected {expected}" if expected else ""
    return fail("input-mismatch", f'input "{slot.key}"', f"{found}{wanted}; it is {slot}")


def missing_input(slot: Slot) -> Finding:
    """Make the finding for an input without an array."""
    return Finding("input-mismatch", f'input "{slot.key}"', f"it is missing; it is {slot}")


def match(
    wanted: list[Slot], given: Mapping[str, Any], *, strict: bool = True, complete: bool = True
) -> dict[str, Array]:
    """Return every slot's array, in the slots' order.

    strict: also refuse arrays that have no slot. complete: refuse slots that have no array.
    Raises TosaConvertError("input-mismatch") with a finding for each array that is missing, that
    has no slot, or that has another type or shape.
    """
    findings: list[Finding] = []
    arrays: dict[str, Array] = {}
    for slot in wanted:
        if slot.key not in given:
            findings += [missing_input(slot)] * complete
            continue
        try:
            arrays[slot.key] = coerce(slot, given[slot.key])
        except TosaConvertError as error:
            findings += error.findings
    keys = {slot.key for slot in wanted}
    for key in given if strict else ():
        if key not in keys:
            hint = suggest(quoted(key), map(quoted, keys))
            names = ", ".join(f'"{name}"' for name in sorted(keys)) or "none"
            message = f"there is no such input; the inputs are: {names}"
            findings.append(Finding("input-mismatch", f'input "{key}"', message, hint))
    if findings:
        raise TosaConvertError(findings)
    return arrays


def save_npy(path: Path, slot: Slot, array: Array) -> None:
    """Write an array of the slot's type and shape as the reference model expects it.

    Raises OSError.
    """
    row = slot.dtype
    if row.is_packed and row is not INT4:
        codes = np.ascontiguousarray(array).view(np.uint8)
        last = slot.shape[-1] if slot.shape else 1
        packed = pack(codes.reshape(-1), row.bits)
        rows = codes.size // last if last else 0
        if rows and len(packed) == rows * row.wire_bytes(last):
            packed = packed.reshape(*slot.shape[:-1], row.wire_bytes(last))
        write_npy(path, packed)
    elif row is INT4:
        write_npy(path, array.astype(np.int8))
    elif row.name in _UINT8_IN_FILE:
        write_npy(path, np.ascontiguousarray(array).view(np.uint8).reshape(slot.shape))
    else:
        write_npy(path, array)


def slot_file(stem: str, slot: Slot) -> str:
    """Return the name of a slot's file, for the stem of its tensor's file."""
    return f"{stem}.npy" if slot.key == slot.tensor else f"{stem}{SCALE_FILE}.npy"


def load_npy(path: Path, slot: Slot) -> Array:
    """Read what the reference model wrote for a slot; float64 stays as it is (precise mode).

    Raises OSError, and TosaConvertError("file-error") for a file that is cut off.
    """
    try:
        raw: Array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise incomplete_file(path, error) from None
    row = slot.dtype
    if raw.dtype == np.float64:
        return raw.reshape(slot.shape)
    if row.is_packed and row is not INT4:
        count = int(np.prod(slot.shape, dtype=np.int64))
        return unpack(raw.reshape(-1), row.bits, count).view(row.numpy).reshape(slot.shape)
    if row is INT4:
        raw = raw.astype(row.numpy)
    elif raw.dtype != row.numpy:
        raw = np.ascontiguousarray(raw).view(row.numpy)
    return raw.reshape(slot.shape)


def unpacked(slot: Slot, array: Array) -> Array:
    """Unpack an array that is packed as the reference model packs elements below 8 bits.

    Any other array is returned unchanged.
    """
    row = slot.dtype
    if not row.is_packed or row is INT4 or array.dtype != np.uint8 or not slot.shape:
        return array
    if array.shape != (*slot.shape[:-1], row.wire_bytes(slot.shape[-1])):
        return array
    count = int(np.prod(slot.shape, dtype=np.int64))
    return unpack(array.reshape(-1), row.bits, count).view(row.numpy).reshape(slot.shape)
