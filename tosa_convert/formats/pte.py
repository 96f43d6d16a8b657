"""The payloads of a `.pte` file's delegates, one of which holds TOSA; by ExecuTorch's schema."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.io import log
from tosa_convert.io.flatbuffer_tables import FlatbufferError, Table, root_table

#: The extended header after the identifier: its sign, its bytes, those of the flatbuffer, where segments
#: begin, and how long they are.
_HEADER: Final = struct.Struct("<4sIQQQ")
_HEADER_AT: Final = 8
_HEADER_SIGN: Final = b"eh00"
_SEGMENT: Final = 1
_VGF: Final = b"VGF1"
_ETHOS_U: Final = "EthosUBackend"
_NO_TOSA: Final = (
    "only a VGF payload holds TOSA. Convert the model itself: save what torch.export gives as .pt2; or "
    "lower it with ExecuTorch's VGF backend"
)
_COMMANDS: Final = (
    "Vela compiled the TOSA to commands, from which nothing leads back: lower the model again with "
    "EthosUCompileSpec(...).dump_intermediate_artifacts_to(FOLDER), which keeps the .tosa file, or "
    "convert the model itself, as .pt2"
)


class Payload(NamedTuple):
    """What a delegate was given. name: `METHOD_NUMBER`. backend: its name in ExecuTorch."""

    name: str
    backend: str
    data: memoryview

    @property
    def is_vgf(self) -> bool:
        """Return whether it is a VGF file, which holds TOSA."""
        return bytes(self.data[: len(_VGF)]) == _VGF

    def __str__(self) -> str:
        kind = "a VGF file, " if self.is_vgf else ""
        return f"{self.name} of {self.backend} ({kind}{len(self.data)} bytes)"


class _Program(NamedTuple):
    """payloads: of all methods. operators: those that no delegate runs, by name."""

    payloads: list[Payload]
    operators: list[str]


def payloads(data: memoryview, where: str) -> tuple[list[str], list[str]]:
    """Return the names of the payloads that are VGF files, and descriptions of all else in the file."""
    program = _read(data, where)
    others = [str(row) for row in program.payloads if not row.is_vgf]
    if program.operators:
        others.append(_outside(program.operators).removeprefix("; "))
    return [row.name for row in program.payloads if row.is_vgf], others


def vgf_payload(data: memoryview, where: str, func: str | None = None) -> memoryview:
    """Return the VGF file in a `.pte` file; it shares the bytes. Other payloads are logged."""
    program = _read(data, where)
    listing = ", ".join(map(str, program.payloads)) or "no delegates"
    found = [row for row in program.payloads if row.is_vgf]
    if not found:
        commands = any(row.backend == _ETHOS_U for row in program.payloads)
        what = "an Ethos-U command stream" if commands else "no TOSA"
        message = f"it has {what}: {listing}{_outside(program.operators)}"
        hint = _COMMANDS if commands else _NO_TOSA
        raise fail("unsupported-operator", where, message, hint)
    chosen = [row for row in found if func in (None, row.name)]
    names = ", ".join(row.name for row in found)
    if not chosen:
        raise fail("unknown-function", where, f"no VGF payload {func}; found {names}")
    if len(chosen) > 1:
        message = f"several of its payloads are VGF files: {listing}"
        raise fail("ambiguous-function", where, message, f"choose one with --func: {names}")
    if len(program.payloads) > 1 or program.operators:
        others = [str(row) for row in program.payloads if row is not chosen[0]]
        rest = f"{', '.join(others)}{_outside(program.operators)}".removeprefix("; ")
        log.warning("%s: only %s is read; the file also has %s", where, chosen[0].name, rest)
    return chosen[0].data


def _outside(operators: list[str]) -> str:
    if not operators:
        return ""
    more = f" and {len(operators) - 8} more" if len(operators) > 8 else ""
    return f"; operators that no delegate runs: {', '.join(operators[:8])}{more}"


def _read(data: memoryview, where: str) -> _Program:
    try:
        root = root_table(data)
        segments = _segments(data, root)
        inline = [row.octets(0) for row in root.tables(3)]
        payloads, operators = [], []
        for plan in root.tables(1):
            method = plan.text(0)
            operators += [
                ".".join(filter(None, (row.text(0), row.text(1)))) for row in plan.tables(6)
            ]
            for number, row in enumerate(plan.tables(7)):
                reference = row.table(1)
                if reference is None:
                    continue
                stored = segments if reference.number(0, "b") == _SEGMENT else inline
                place = reference.number(1, "I")
                if place >= len(stored):
                    raise FlatbufferError(f"delegate {number} has no payload {place}")
                payloads.append(Payload(f"{method}_{number}", row.text(0), stored[place]))
    except FlatbufferError as error:
        hint = "the file is damaged or cut off: write it again"
        raise fail("malformed-pte", where, f"its tables are damaged: {error}", hint) from None
    return _Program(payloads, list(dict.fromkeys(operators)))


def _segments(data: memoryview, root: Table) -> list[memoryview]:
    """Return the bytes of the segments after the flatbuffer."""
    rows = [(row.number(0, "Q"), row.number(1, "Q")) for row in root.tables(4)]
    if not any(size for _, size in rows):
        return [data[:0]] * len(rows)
    sign, base = b"", 0
    if len(data) >= _HEADER_AT + _HEADER.size:
        sign, _, _, base, _ = _HEADER.unpack_from(data, _HEADER_AT)
    if sign != _HEADER_SIGN:
        raise FlatbufferError("it has segments, and no header that says where they are")
    for offset, size in rows:
        if base + offset + size > len(data):
            raise FlatbufferError(f"a segment of {size} bytes at {base + offset} leads out of it")
    return [data[base + offset : base + offset + size] for offset, size in rows]
