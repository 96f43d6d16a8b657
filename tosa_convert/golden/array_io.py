"""Arrays at the edge: what users hand in, and the `.npy` dialect of the reference model.

The model reads and writes each element type in one numpy type only: BF16 as two opaque bytes, FP8E4M3
and FP8UE8M0 as one, FP8E5M2 and MXINT8 as uint8, FP4 and FP6 packed into uint8 along the last
dimension, INT4 as int8, INT48 as int64. In precise mode every floating-point tensor is a float64.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT4, INT64, DType, dtype
from tosa_convert.graph.model import Block, ShapeValue, Tensor
from tosa_convert.graph.packing import pack, unpack

Array = npt.NDArray[Any]

#: Behind the name of a block-scaled tensor: its scales.
SCALE_SUFFIX: Final = "/scale"
_BYTES_IN_FILE: Final = frozenset(("FP8E5M2", "MXINT8"))


@dataclass(frozen=True, slots=True)
class Slot:
    """One array that goes in or comes out: its key, element type and shape.

    tensor: the tensor's name; the key adds SCALE_SUFFIX for the scales of a block-scaled one.
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


class Lazy(Mapping[str, Array]):
    """Arrays by name that are read when they are asked for, and not kept.

    read: gives the array of one of the names, from a file for example.
    """

    def __init__(self, names: Iterable[str], read: Callable[[str], Array]) -> None:
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def slots(block: Block, name: str, where: str = "") -> list[Slot]:
    """The arrays of a tensor or shape: one, or values and scales.

    Raises TosaConvertError("unsupported-shape") if the shape is not static.
    """
    value: Tensor | ShapeValue = block.tensors.get(name) or block.shapes[name]
    if isinstance(value, ShapeValue):
        return [Slot(name, name, INT64, (value.rank,))]
    if value.shape is None or min(value.shape, default=0) < 0:
        shape = "unranked" if value.shape is None else str(list(value.shape))
        raise fail(
            "unsupported-shape",
            where or f'tensor "{name}"',
            f"its shape is {shape}; only static shapes can be run",
            "give the inputs static shapes: --input-shape NAME=SIZES, here or when converting",
        )
    found = [Slot(name, name, value.dtype, value.shape)]
    if value.scale is not None:
        blocks = (*value.shape[:-1], value.shape[-1] // int(value.scale.shape))
        found.append(Slot(name + SCALE_SUFFIX, name, value.scale.dtype, blocks))
    return found


def coerce(slot: Slot, array: Any) -> Array:
    """The array in the slot's own numpy type and shape.

    Opaque bytes, as numpy reads types of ml_dtypes from a file, and raw uint8 codes are taken for
    what the slot says; a list of numbers is converted if no value changes. Nothing is broadcast.
    Raises TosaConvertError("input-mismatch").
    """
    target = slot.dtype.numpy
    given = array if isinstance(array, (np.ndarray, np.generic)) else None
    if given is None:
        given = np.asarray(array)
        converted = given.astype(target)
        if given.dtype.kind in "OUS" or not np.array_equal(
            converted.astype(given.dtype), given, equal_nan=given.dtype.kind == "f"
        ):
            if not (given.dtype.kind == "f" and target.kind in "fV"):
                raise _mismatch(slot, f"found {array!r}, which {slot.dtype} cannot hold")
        given = converted
    result: Array = np.asarray(given)
    if result.dtype != target:
        same_width = result.dtype.itemsize == target.itemsize
        if (result.dtype.kind == "V" and same_width) or (
            result.dtype == np.uint8 and same_width and target.kind not in "biu"
        ):
            result = np.ascontiguousarray(result).view(target)
        elif slot.dtype is INT4 and result.dtype == np.int8:
            if result.size and (result.min() < -7 or result.max() > 7):
                raise _mismatch(slot, f"found values {result.min()}..{result.max()}", "-7 to 7")
            result = result.astype(target)
        else:
            raise _mismatch(slot, f"found {result.dtype}", str(target))
    if result.shape != slot.shape:
        raise _mismatch(slot, f"found shape {list(result.shape)}", str(list(slot.shape)))
    if slot.dtype.name == "INT48" and result.size:
        if result.min() < -(2**47) or result.max() >= 2**47:
            raise _mismatch(slot, f"found values {result.min()}..{result.max()}", "48 bits")
    return np.ascontiguousarray(result).reshape(slot.shape)


def _mismatch(slot: Slot, found: str, expected: str = "") -> TosaConvertError:
    wanted = f", expected {expected}" if expected else ""
    return fail("input-mismatch", f'input "{slot.key}"', f"{found}{wanted}; it is {slot}")


def match(wanted: list[Slot], given: Mapping[str, Any]) -> dict[str, Array]:
    """Every slot's array, in the slots' order.

    Raises TosaConvertError("input-mismatch") with a finding for each array that is missing, that
    nothing asked for, or whose type or shape is another.
    """
    findings: list[Finding] = []
    arrays: dict[str, Array] = {}
    known = {slot.key for slot in wanted}
    for slot in wanted:
        if slot.key not in given:
            findings.append(
                Finding("input-mismatch", f'input "{slot.key}"', f"it is missing; it is {slot}")
            )
            continue
        try:
            arrays[slot.key] = coerce(slot, given[slot.key])
        except TosaConvertError as error:
            findings += error.findings
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f'did you mean "{near[0]}"?' if near else ""
            names = ", ".join(f'"{name}"' for name in sorted(known)) or "none"
            findings.append(
                Finding(
                    "input-mismatch", f'input "{key}"', f"there is no such input; {names}", hint
                )
            )
    if findings:
        raise TosaConvertError(findings)
    return arrays


def save_npy(path: Path, slot: Slot, array: Array) -> None:
    """Write an array that has the slot's type and shape as the reference model wants it."""
    kind = slot.dtype
    if kind.is_packed and kind is not INT4:
        codes = np.ascontiguousarray(array).view(np.uint8)
        last = slot.shape[-1] if slot.shape else 1
        packed = pack(codes.reshape(-1), kind.bits)
        rows = codes.size // last if last else 0
        if rows and len(packed) == rows * kind.wire_bytes(last):
            packed = packed.reshape(*slot.shape[:-1], kind.wire_bytes(last))
        np.save(path, packed)
    elif kind is INT4:
        np.save(path, array.astype(np.int8))
    elif kind.name in _BYTES_IN_FILE:
        np.save(path, np.ascontiguousarray(array).view(np.uint8).reshape(slot.shape))
    else:
        np.save(path, array)


def load_npy(path: Path, slot: Slot) -> Array:
    """Read what the reference model wrote for a slot; float64 stays as it is (precise mode)."""
    raw: Array = np.load(path, allow_pickle=False)
    kind = slot.dtype
    if raw.dtype == np.float64:
        return raw.reshape(slot.shape)
    if kind.is_packed and kind is not INT4:
        count = int(np.prod(slot.shape, dtype=np.int64))
        return unpack(raw.reshape(-1), kind.bits, count).view(kind.numpy).reshape(slot.shape)
    if kind is INT4:
        raw = raw.astype(kind.numpy)
    elif raw.dtype != kind.numpy:
        raw = np.ascontiguousarray(raw).view(kind.numpy)
    return raw.reshape(slot.shape)


def constant_of(slot: Slot, array: Array) -> Constant:
    """The array as constant data of a graph."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if slot.dtype is dtype("INT48"):
        octets = flat.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :6]
        return Constant(slot.dtype, flat.size, np.ascontiguousarray(octets).reshape(-1))
    if flat.dtype.itemsize > 1:
        flat = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
    if slot.dtype is INT4:
        codes = flat.astype(np.int8).view(np.uint8) & 0x0F
        return Constant(slot.dtype, flat.size, codes, unpacked=True)
    return Constant(slot.dtype, flat.size, flat.view(np.uint8), unpacked=slot.dtype.is_packed)
