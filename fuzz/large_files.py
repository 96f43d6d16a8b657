"""Seconds and memory that large hostile files take: `python fuzz/large_files.py --megabytes 20 json`.

Each file has one damage many times, or is nearly valid. A process of its own reads it. Exits with 1
if one takes more memory than a campaign allows, more than SECONDS for each megabyte, or ends in an
exception that is not a TosaConvertError. A file that takes longer is read again, because processor time
grows when other programs use the same cores and caches: the least of ATTEMPTS counts.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from campaign import MEMORY_FREE, MEMORY_PER_BYTE
from large_texts import texts
from mutate_flatbuffer import Map
from targets import CORPUS

import tosa_convert as tc

#: Processor seconds for each megabyte.
SECONDS: Final = 1.0
#: How often a file that takes longer is read.
ATTEMPTS: Final = 3
_READ: Final = """
import sys, time
sys.path.insert(0, sys.argv[1])
from memory import Memory
import ml_dtypes, numpy
import tosa_convert as tc
# Modules that are imported on first use must not count.
for extension in ("json", "tosa", "mlirbc", "mlir"):
    try:
        tc.load(tc.dumps(tc.load(sys.argv[2]), extension) + b"}")
    except tc.TosaConvertError:
        pass
memory = Memory()
base, allowed, times, end = memory.measure()[0], float(sys.argv[4]), [], "accepted"
for _ in range(int(sys.argv[5])):
    start = time.process_time()
    try:
        tc.load(sys.argv[3])
    except tc.TosaConvertError as error:
        end = f"{error.code} x{len(error.findings)}"
    times.append(time.process_time() - start)
    if times[-1] <= allowed:
        break
print(min(times), memory.measure()[1] - base, end)
"""
_VERSION: Final = b'"version":{"_major":1,"_minor":0,"_patch":0,"_draft":false}'
_IN_BLOCK: Final = b',"regions":[{"blocks":[{"tensors":['
_TENSOR: Final = b'{"name":"a","shape":[1],"type":"FP32"'
_OPERATOR: Final = (
    b'{"op":"ABS","attribute_type":"AbsAttribute","attribute":{},"inputs":["a"],"outputs":["b"]}'
)
#: Name -> a list in a JSON program, and the member that fills it.
_MEMBERS: Final = {
    "operators that are numbers": ("operators", b"1"),
    "operators without fields": ("operators", b"{}"),
    "unknown operators": ("operators", b'{"op":"NO"}'),
    "operators on undefined names": ("operators", _OPERATOR),
    "tensors without fields": ("tensors", b"{}"),
    "tensors of wrong types": ("tensors", b'{"name":1,"shape":"x","type":7}'),
    "the same tensor": ("tensors", _TENSOR + b"}"),
    "constants of wrong numbers": ("tensors", _TENSOR + b',"data":[999]}'),
    "undefined inputs": ("inputs", b'"z"'),
    "shapes without fields": ("shapes", b"{}"),
    "blocks without fields": ("blocks", b"{}"),
    "regions without fields": ("regions", b"{}"),
}
#: Name -> the start of a JSON text, what is repeated, and the end.
_REPEATED: Final = {
    "open lists": (b"", b"[", b""),
    "open objects": (b"", b'{"a":', b""),
    "a string": (b'{"a":"', b"x", b'"}'),
    "a string of escapes": (b'{"a":"', b"\\u0041", b'"}'),
    "a string that is not UTF-8": (b'{"a":"', b"\xff", b'"}'),
    "a number": (b'{"a":', b"9", b"}"),
    "spaces": (b"", b" ", b""),
    "comments": (b"", b"//x\n", b"{"),
    "comments in an object": (b"{", b"//x\n", b"}"),
    "the same field": (b"{", b'"version":1,', b"}"),
    "data": (b"{" + _VERSION + _IN_BLOCK + _TENSOR + b',"data":[', b"1,", b"1]}]}]}]}"),
    "sizes": (b"{" + _VERSION + _IN_BLOCK + b'{"shape":[', b"1,", b"1]}]}]}]}"),
}  # fmt: skip


def _filled(size: int, head: bytes, unit: bytes, tail: bytes) -> bytes:
    return head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail


def _json(size: int) -> Iterator[tuple[str, bytes]]:
    for name, (head, unit, tail) in _REPEATED.items():
        yield name, _filled(size, head, unit, tail)
    yield "unknown fields", b"{" + b",".join(b'"k%d":1' % i for i in range(size // 13)) + b"}"
    lists = ("regions", "blocks", "operators")
    for name, (field, member) in _MEMBERS.items():
        above = lists[: lists.index(field)] if field in lists else lists[:2]
        head, tail = b"{" + _VERSION + b",", b"]}"
        for one in above:
            head += b'"%s":[{"name":"main",' % one.encode()
            tail += b"]}"
        yield name, _filled(size, head + b'"%s":[' % field.encode(), member + b",", tail)


def _flatbuffer(size: int) -> Iterator[tuple[str, bytes]]:
    yield "zeros", struct.pack("<I4s", 8, b"TOSA") + bytes(size - 8)
    yield "ones", struct.pack("<I4s", 8, b"TOSA") + b"\1\0\0\0" * (size // 4 - 2)
    sound = (CORPUS / "example.tosa").read_bytes()
    sound += bytes(-len(sound) % 8)
    offsets = Map(sound).offsets
    kinds = ("Operator", "Tensor", "Shape", "BasicBlock", "Region")
    for kind in (*(f"[Tosa{kind}]" for kind in kinds), "[string]"):
        field = next((field for field, its in offsets if its == kind), None)
        if field is None:
            continue
        yield f"one member of {kind} often", _same_member(sound, field, size)


def _same_member(sound: bytes, field: int, size: int) -> bytes:
    """Return a program with a list of one member many times; a copy of it follows the list."""
    first = field + struct.unpack_from("<I", sound, field)[0] + 4
    member = first + struct.unpack_from("<I", sound, first)[0]
    count = (size - 2 * len(sound)) // 4 | 1
    start = len(sound)
    entries = start + 4 + 4 * np.arange(count, dtype=np.int64)
    copy = start + 4 + 4 * count
    list_of: bytes = struct.pack("<I", count) + (copy + member - entries).astype("<u4").tobytes()
    head = bytearray(sound)
    struct.pack_into("<I", head, field, start - field)
    return bytes(head) + list_of + sound


def _varint(number: int) -> bytes:
    size = next(size for size in range(1, 9) if number < 1 << 7 * size)
    return (number << size | 1 << size - 1).to_bytes(size, "little")


def _bytecode(size: int) -> Iterator[tuple[str, bytes]]:
    head, dialect = b"ML\xefR\x0dx\0", b"\0\x0d\x03\x0btosa\0"

    def section(number: int, data: bytes) -> bytes:
        return bytes([number]) + _varint(len(data)) + data

    sound = tc.dumps(tc.load(str(CORPUS / "example.tosa")), "mlirbc")
    for byte in (0, 1, 3, 0xFF):
        yield f"bytes {byte:#x}", head + bytes([byte]) * (size - len(head))
    count = size // 2
    strings = section(0, _varint(count) + b"\3" * count + bytes(count))
    yield "empty strings", head + strings
    yield "empty strings, no dialects", head + strings + section(1, b"\1\1")
    yield "the same dialect", head + dialect + section(1, _varint(size) + b"\1" * size)
    yield "zeros after a program", sound + bytes(size - len(sound))
    after = sound[sound.index(b"\0", 5) + 1 :]
    yield "repeated sections", sound + after * (size // len(after))
    rest = range(0, len(sound), max(1, len(sound) // 8))
    for at in rest:
        yield f"zeros at {at} of a program", sound[:at] + bytes(size) + sound[at:]


FORMS: Final = {"json": _json, "tosa": _flatbuffer, "mlirbc": _bytecode, "mlir": texts}


def main() -> int:
    """Measure, and print a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("forms", nargs="*", metavar="FORMS", help=f"some of {', '.join(FORMS)}")
    parser.add_argument("--megabytes", type=float, default=20.0)
    options = parser.parse_args()
    code = 0
    print("form | file | MB | seconds | MiB | times the file | result")
    with tempfile.TemporaryDirectory(prefix="large-") as folder:
        for form in options.forms or FORMS:
            path = Path(folder) / f"x.{form}"
            for name, data in FORMS[form](round(options.megabytes * 1e6)):
                path.write_bytes(data)
                allowed = SECONDS * max(1.0, len(data) / 1e6)
                words = [str(Path(__file__).parent), str(CORPUS / "example.tosa"), str(path)]
                words += [str(allowed), str(ATTEMPTS)]
                done = subprocess.run(
                    [sys.executable, "-c", _READ, *words], capture_output=True, text=True
                )
                if done.returncode:
                    code = 1
                    print(f"{form} | {name} | DEFECT {done.stderr[-500:]}", flush=True)
                    continue
                seconds, kib, result = done.stdout.strip().split(" ", 2)
                memory = int(kib) << 10
                bad = memory > MEMORY_FREE + MEMORY_PER_BYTE * len(data)
                bad |= float(seconds) > allowed
                code |= bad
                cells = (form, name, f"{len(data) / 1e6:.1f}", f"{float(seconds):.2f}")
                size = (f"{memory >> 20}", f"{memory / len(data):.1f}")
                print(*cells, *size, result + " TOO MUCH" * bad, sep=" | ", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
