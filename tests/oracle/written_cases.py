"""Programs written by hand, for what the official tests lack.

`cases()` lists the modules of cases/*.mlir, separated by `// -----` as MLIR's own tools do, and
`constants()` makes modules with constants of every element type in every form. A comment of a module
may say where tosa-opt is wrong: `// differs: REGEX`, once for each expected difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

FOLDER: Final = Path(__file__).with_name("cases")

_SEPARATOR: Final = re.compile(r"^// -----\n", re.MULTILINE)
_DIFFERS: Final = re.compile(r"^// differs: (.*)$", re.MULTILINE)
_FUNCTION: Final = re.compile(r"func\.func (?:private )?@(\w+)")


@dataclass(frozen=True)
class Case:
    """A module's text; `differs`: the differences to expect, and no others."""

    name: str
    text: str
    differs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def cases() -> list[Case]:
    """Return every module of the folder."""
    found = []
    for file in sorted(FOLDER.glob("*.mlir")):
        for number, text in enumerate(_SEPARATOR.split(file.read_text(encoding="utf-8"))):
            function = _FUNCTION.search(text)
            name = f"{file.stem}-{number}-{function[1] if function else ''}"
            found.append(Case(name, text, tuple(_DIFFERS.findall(text))))
    return found


# -- constants -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Element:
    """An element type: `width` bytes in MLIR's memory, `bits` of them in a file if packed."""

    mlir: str
    width: int
    bits: int
    patterns: tuple[int, ...]

    @property
    def packed(self) -> bool:
        """Return whether elements share a byte in a file."""
        return self.bits < 8

    def wire(self, raw: bytes) -> bytes:
        """Unpacked elements as a file has them: a stream of bits, the lowest first."""
        if not self.packed:
            return raw
        elements = np.frombuffer(raw, np.uint8)
        bits = np.unpackbits(elements[:, None], axis=1, bitorder="little")[:, : self.bits]
        return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def _all(bits: int, *without: int) -> tuple[int, ...]:
    return tuple(value for value in range(1 << bits) if value not in without)


def _edges(bits: int) -> tuple[int, ...]:
    top = 1 << (bits - 1)
    return (0, 1, top, top - 1, 2 * top - 1, 0x1234567890ABCDEF & (2 * top - 1), top + 2)


# Zeros of both signs, denormals, infinities, and NaNs quiet and signalling, with payloads.
_F16: Final = (0, 0x8000, 0x0001, 0x7C00, 0xFC00, 0x7C01, 0xFE01, 0x7E00, 0x7DFF, 0xFFFF)
_BF16: Final = (0, 0x8000, 0x0001, 0x7F80, 0xFF80, 0x7F81, 0xFFC1, 0x7FC0, 0x7FBF, 0xFFFF)
_F32: Final = (
    0,
    0x80000000,
    1,
    0x7F800000,
    0xFF800000,
    0x7F800001,
    0xFFC12345,
    0x7FC00000,
    ~0 & 0xFFFFFFFF,
)

ELEMENTS: Final = (
    Element("i1", 1, 8, (0, 1, 1, 0, 1)),
    Element("i4", 1, 4, _all(4, 8)),  # -8 is excluded
    Element("i8", 1, 8, _all(8)),
    Element("i16", 2, 16, _edges(16)),
    Element("i32", 4, 32, _edges(32)),
    Element("i48", 6, 48, _edges(48)),
    Element("i64", 8, 64, _edges(64)),
    Element("f32", 4, 32, _F32),
    Element("f16", 2, 16, _F16),
    Element("bf16", 2, 16, _BF16),
    Element("f8E4M3FN", 1, 8, _all(8)),
    Element("f8E5M2", 1, 8, _all(8)),
    Element("f6E2M3FN", 1, 6, _all(6)),
    Element("f6E3M2FN", 1, 6, _all(6)),
    Element("f4E2M1FN", 1, 4, _all(4)),
    Element("f8E8M0FNU", 1, 8, _all(8)),
    Element("!tosa.mxint8", 1, 8, _all(8)),
)

FORMS: Final = ("dense", "splat", "resource")

#: Elements of the constants; most are not a multiple of 8 bytes in a file. 1 means rank 0.
_COUNTS: Final = (1, 3, 5, 7, 8, 17, 300)


def constants(form: str, elements: Sequence[Element] = ELEMENTS) -> tuple[str, list[bytes]]:
    """Return a module that returns constants of some types, and the unpacked bytes of each."""
    types, raws, lines, blobs = [], [], [], []
    for number, (element, (place, count)) in enumerate(product(elements, enumerate(_COUNTS))):
        kind = f"tensor<{element.mlir}>" if count == 1 else f"tensor<{count}x{element.mlir}>"
        patterns = element.patterns
        if form == "splat":
            values = [patterns[(3 * place + 1) % len(patterns)]] * count
        else:
            values = [patterns[(place + i) % len(patterns)] for i in range(count)]
        raw = b"".join(value.to_bytes(element.width, "little") for value in values)
        if form == "resource":
            value = f"dense_resource<blob_{number}>"
            # A resource's bytes are those of a file, after their alignment.
            blobs.append(f'blob_{number}: "0x08000000{element.wire(raw).hex().upper()}"')
        else:
            value = f"dense<{_literal(element, raw, form)}>"
        types.append(kind)
        raws.append(raw)
        lines.append(f'  %{number} = "tosa.const"() <{{values = {value} : {kind}}}> : () -> {kind}')
    returned = ", ".join(f"%{number}" for number in range(len(raws)))
    text = f"func.func @main() -> ({', '.join(types)}) {{\n" + "\n".join(lines)
    text += f"\n  return {returned} : {', '.join(types)}\n}}\n"
    if blobs:
        text += "{-# dialect_resources: { builtin: { " + ", ".join(blobs) + " } } #-}\n"
    return text, raws


def _literal(element: Element, raw: bytes, form: str) -> str:
    if element.mlir == "!tosa.mxint8":
        # The dialect prints each element as a string.
        strings = [f'"0x{byte:X}"' for byte in raw]
        return strings[0] if form == "splat" or len(raw) == 1 else f"[{', '.join(strings)}]"
    if form == "splat":
        raw = raw[: element.width]
    if element.mlir == "i1":
        booleans = [("false", "true")[byte] for byte in raw]
        return booleans[0] if len(raw) == 1 else f"[{', '.join(booleans)}]"
    return f'"0x{raw.hex().upper()}"'
