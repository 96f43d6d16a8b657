"""The raw bytes of constant attributes, as the file will have them.

They are views of what MLIR keeps, unless MLIR packs or spells the elements otherwise than the format.
None of this goes through numbers, so bits survive: NaN payloads, -0.0.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.mlir.bytecode.decode import Attribute, Dense, DenseStrings, Resource, TensorType

_STRING_ELEMENT: Final = re.compile(rb"0x([0-9A-Fa-f]+)\Z")
_SCALES: Final = re.compile(r"!tosa\.block_scaled<[^,>]*, \{([^}]*)\}>")
_E8M0: Final = dtype("FP8UE8M0")
_BOOL: Final = dtype("BOOL")


class Unreadable(Exception):
    """A constant whose data cannot be had; the message says why."""


def read(attribute: Attribute, kind: DType, count: int) -> Constant:
    """The data of a dense attribute, of one of strings, or of a dense_resource."""
    if isinstance(attribute, Dense):
        return dense(attribute.data, kind, count)
    if isinstance(attribute, Resource):
        return _resource(attribute, kind, count)
    if isinstance(attribute, DenseStrings):
        return _strings(attribute, kind, count)
    raise Unreadable("it is neither dense nor a dense_resource")


def is_resource(attribute: Attribute) -> bool:
    """Whether it is a dense_resource."""
    return isinstance(attribute, Resource)


def block_scaled(
    attribute: Attribute, kind: DType, count: int, block: int
) -> tuple[Constant, Constant]:
    """The values and the scales of a block-scaled constant, whose scales are part of its type."""
    if not isinstance(attribute, (Dense, DenseStrings)):
        raise Unreadable("it is not dense")
    found = (
        _SCALES.match(attribute.type.element) if isinstance(attribute.type, TensorType) else None
    )
    if found is None:
        raise Unreadable("its type has no scales")
    scales = bytes(map(_e8m0, found[1].split(",")))
    blocks = count // block
    if len(scales) not in (1, blocks):
        raise Unreadable(f"it has {len(scales)} scales, expected {blocks}")
    scale = Constant(_E8M0, blocks, scales, splat=len(scales) == 1)
    return read(attribute, kind, count), scale


def dense(data: memoryview, kind: DType, count: int) -> Constant:
    """The data of a dense attribute, from MLIR's own."""
    width = kind.element_bytes
    if kind is _BOOL and count:
        return _bits(data, count)
    splat = count > 0 and len(data) == width
    if not splat and len(data) != width * count:
        raise Unreadable(f"it has {len(data)} bytes of data, expected {width * count}")
    return Constant(kind, count, data, unpacked=kind.is_packed, splat=splat)


def _bits(data: memoryview, count: int) -> Constant:
    """Booleans, which MLIR keeps as bits; all of them are one byte if they are all the same."""
    if len(data) == 1 and (count == 1 or data[0] in (0, 0xFF)):
        return Constant(_BOOL, count, bytes([data[0] != 0]), splat=True)
    raw = np.frombuffer(data, np.uint8)
    if len(data) == (count + 7) // 8:
        raw = np.unpackbits(raw, count=count, bitorder="little")
    elif len(data) != count:
        raise Unreadable(f"it has {len(data)} bytes of data, expected {(count + 7) // 8}")
    return Constant(_BOOL, count, raw)


def _resource(attribute: Resource, kind: DType, count: int) -> Constant:
    """Elements below 8 bits may lie one in a byte, as MLIR keeps dense ones, or packed."""
    data = attribute.data
    if data is None:
        raise Unreadable("it has no data: the resource is missing, or was elided when printed")
    packed, unpacked = kind.wire_bytes(count), kind.element_bytes * count
    if len(data) not in (packed, unpacked):
        raise Unreadable(f"it has {len(data)} bytes of data, expected {packed} or {unpacked}")
    return Constant(kind, count, data, unpacked=kind.is_packed and len(data) != packed)


def _strings(attribute: DenseStrings, kind: DType, count: int) -> Constant:
    """Elements written as strings, as !tosa.mxint8 has them.

    There is one for each, one for all, or one with the bytes of all.
    """
    matches = [_STRING_ELEMENT.match(text) for text in attribute.strings]
    found = [match[1].decode() if match is not None else "" for match in matches]
    splat = attribute.is_splat or len(found) == 1
    if splat and count > 1 and found and len(found[0]) == 2 * count:
        elements, splat = bytes.fromhex(found[0]), False
    elif any(not 0 < len(element) <= 2 for element in found):
        elements = b""
    else:
        elements = bytes(int(element, 16) for element in found)
    splat = splat and len(elements) == 1
    if not splat and len(elements) != count:
        raise Unreadable(f"it has {len(elements)} readable elements, expected {count}")
    if kind.is_packed and max(elements, default=0) >> kind.bits:
        raise Unreadable(f"an element has more than the {kind.bits} bits of {kind}")
    return Constant(kind, count, elements, unpacked=kind.is_packed, splat=splat)


def _e8m0(text: str) -> int:
    """The byte of a scale, a power of two printed in decimal."""
    text = text.strip()
    if text.startswith("0x"):
        return int(text, 16)
    if text.lower() in ("nan", "+nan", "-nan"):
        return 0xFF
    mantissa, exponent = np.frexp(float(text))
    # frexp gives 0.5 <= mantissa < 1; printed digits may fall just short of the power of two.
    return int(exponent) + 126 + int(mantissa > 0.75)
