"""Constants of booleans in MLIR: bits, or bytes, of which every one but 0 is true.

Constants in the graph have a byte for each boolean, and the bytes of a TOSA file stay as they are.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.lazy_numpy import FEW, np

_BOOL: Final = dtype("BOOL")


def read_booleans(data: memoryview, count: int) -> Constant | None:
    """Booleans of a dense attribute: one byte if all are equal, else bits, or bytes in newer releases.

    None if the data is too long or too short.
    """
    if len(data) == 1 and (count == 1 or data[0] in (0, 0xFF)):
        return Constant(_BOOL, count, bytes([data[0] != 0]), splat=True)
    if len(data) == (count + 7) // 8:
        if count < FEW:
            # Fast path of unpackbits; equal by test test_few_booleans_are_read_and_written_as_many
            bits = int.from_bytes(data, "little")
            return Constant(_BOOL, count, bytes(bits >> index & 1 for index in range(count)))
        raw = np.frombuffer(data, np.uint8)
        return Constant(_BOOL, count, np.unpackbits(raw, count=count, bitorder="little"))
    return read_boolean_bytes(data) if len(data) == count else None


def read_boolean_bytes(data: memoryview) -> Constant:
    """Booleans that have a byte each. Other bytes than 0 and 1 become 1, which MLIR writes for them."""
    if len(data) < FEW:
        # Fast path of the arrays; equal by test test_few_booleans_are_read_and_written_as_many
        is_plain = max(data, default=0) <= 1
        return Constant(_BOOL, len(data), data if is_plain else bytes(map(bool, data)))
    raw = np.frombuffer(data, np.uint8)
    if len(raw) and raw.max() > 1:
        raw = (raw != 0).view(np.uint8)
    return Constant(_BOOL, len(raw), raw)


def write_booleans(data: Constant) -> bytes | memoryview:
    """Return the bits of a dense attribute, or one byte if all booleans are equal."""
    splat = data.uniform()
    if data.count < FEW:
        # Fast path of packbits; equal by test test_few_booleans_are_read_and_written_as_many
        values = data.values()
        if values and all(values):
            return b"\xff"
        bits = sum(value << index for index, value in enumerate(values))
        return bits.to_bytes((len(values) + 7) // 8, "little") if bits or not values else b"\0"
    truths = (data.elements() if splat is None else np.frombuffer(splat, np.uint8)) != 0
    if truths.size and truths.all():
        return b"\xff"
    if truths.size and not truths.any():
        return b"\0"
    return np.packbits(truths.reshape(-1), bitorder="little").data
