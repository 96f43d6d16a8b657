"""Mutations of bits, bytes and ranges, for any format."""

from __future__ import annotations

from random import Random
from typing import Final

#: Values near the limits of integer types.
INTERESTING: Final = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    31,
    32,
    64,
    127,
    128,
    255,
    256,
    1000,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFE,
    0xFFFFFFFF,
    0x7FFFFFFFFFFFFFFF,
    0x8000000000000000,
    0xFFFFFFFFFFFFFFFF,
)


def mutate_bytes(data: bytearray, random: Random, times: int) -> None:
    """Change `data` in place, `times` times."""
    for _ in range(times):
        if not data:
            data += random.randbytes(4)
        position = random.randrange(len(data))
        match random.randrange(8):
            case 0:
                data[position] ^= 1 << random.randrange(8)
            case 1:
                data[position] = random.choice((0, 1, 0x20, 0x7F, 0x80, 0xFF))
            case 2:
                data[position] = random.randrange(256)
            case 3:
                del data[position : position + random.choice((1, 1, 4, 16))]
            case 4:
                data[position:position] = random.randbytes(random.choice((1, 1, 4, 16)))
            case 5:
                size = random.choice((1, 4, 16, 64))
                data[position:position] = data[position : position + size]
            case 6:
                size = random.choice((2, 4, 8))
                value = random.choice(INTERESTING) & (1 << 8 * size) - 1
                data[position : position + size] = value.to_bytes(size, "little")
            case _:
                other = random.randrange(len(data))
                size = random.choice((1, 4, 16))
                data[position : position + size] = data[other : other + size]
