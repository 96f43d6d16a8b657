"""`manifest.json`: which file of a folder holds which constant.

    {"format": "tosa-convert weights", "version": 1, "producer": "...", "constants": [
      {"region": "main", "block": "main", "tensor": "w", "part": "data", "file": "w.npy",
       "dtype": "INT8", "shape": [2, 3], "padding": 2, "sha256": "..."}]}

part: "data", or "scale_data" for a block-scaled tensor's scales, one for each block in row-major
order. padding: zeros that followed the data in a flatbuffer. sha256: of the bytes behind the file's
header, which are those of the elements in the form that `npy` describes.

Version 1: the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError, fail
from tosa_convert.graph.dtypes import DTYPES
from tosa_convert.graph.model import block_path, quoted
from tosa_convert.weights.npy import MAX_RANK

NAME: Final = "manifest.json"
FORMAT: Final = "tosa-convert weights"
VERSION: Final = 1

Part = Literal["data", "scale_data"]

_PARTS: Final = ("data", "scale_data")
_DTYPES: Final = frozenset(row.name for row in DTYPES)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,150}\.npy")
#: Names that Windows gives to devices, whatever extension follows.
_DEVICES: Final = frozenset(
    ["CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10))]
)
_HINT: Final = "the manifest is damaged or was edited: write the weights again"


@dataclass(frozen=True, slots=True)
class Entry:
    """One constant and the file it is in."""

    region: str
    block: str
    tensor: str
    part: Part
    file: str
    dtype: str
    shape: tuple[int, ...]
    padding: int
    sha256: str

    def __str__(self) -> str:
        scales = " scales" if self.part == "scale_data" else ""
        return f"{block_path(self.region, self.block)} tensor {quoted(self.tensor)}{scales}"


def is_device(name: str) -> bool:
    """Whether Windows would take a file of this name for a device."""
    return name.partition(".")[0].upper() in _DEVICES


def is_safe(name: str) -> bool:
    """Whether a name is that of a file in the folder itself, on every system."""
    return _SAFE.fullmatch(name) is not None and not is_device(name)


def dump(entries: Iterable[Entry], producer: str) -> bytes:
    """The manifest's text."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "producer": producer,
        "constants": [asdict(entry) for entry in entries],
    }
    return json.dumps(content, indent=1).encode("ascii") + b"\n"


def load(text: bytes, where: str) -> list[Entry]:
    """The manifest's entries; no file and no part of a tensor occurs twice.

    Raises TosaConvertError("malformed-weights" or "unsafe-path") with all findings, the
    first MAX_FINDINGS of them.
    """
    content = _parsed(text, where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise fail("malformed-weights", where, f"this is no manifest of {FORMAT}", _HINT)
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise fail(
            "malformed-weights",
            where,
            f"its version is {_shown(version)}, we read {VERSION}",
            "the manifest is newer than this program, or damaged",
        )
    check = _Check(where)
    check.keys("", content, ("format", "version", "producer", "constants"))
    check.kind("producer", content.get("producer"), str)
    rows = content.get("constants")
    entries: list[Entry] = []
    if check.kind("constants", rows, list):
        assert isinstance(rows, list)
        for index, row in enumerate(rows):
            check.entry(f"constants[{index}]", row, entries)
    check.duplicates(entries)
    if check.findings:
        raise TosaConvertError(check.findings)
    return entries


def _parsed(text: bytes, where: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError("a key occurs twice")
        return found

    def no_number(word: str) -> Any:
        raise ValueError(f"{word[:20]} is not a whole number")

    try:
        return json.loads(
            text, object_pairs_hook=pairs, parse_constant=no_number, parse_float=no_number
        )
    except (ValueError, RecursionError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise fail("malformed-weights", where, f"it is no JSON: {reason}", _HINT) from None


def _shown(value: object) -> str:
    """A value of the manifest, for a message."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    # Python refuses to print numbers of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    return repr(value[:80] if isinstance(value, str) else value)


class _Check:
    def __init__(self, where: str) -> None:
        self.where = where
        self.findings: list[Finding] = []

    def say(self, path: str, message: str, code: str = "malformed-weights") -> None:
        self.findings.append(Finding(code, f"{self.where}: {path}".rstrip(": "), message, _HINT))
        if len(self.findings) == MAX_FINDINGS:
            raise TosaConvertError(self.findings)

    def keys(self, path: str, found: dict[str, Any], expected: Iterable[str]) -> bool:
        before = len(self.findings)
        expected = tuple(expected)
        for key in found:
            if key not in expected:
                self.say(path, f"there is no field {_shown(key)}, expected " + ", ".join(expected))
        for key in expected:
            if key not in found:
                self.say(path, f"the field {key!r} is missing")
        return len(self.findings) == before

    def kind(self, path: str, value: object, expected: type) -> bool:
        # A truth value is an int to Python, and to nobody else.
        if type(value) is expected:
            return True
        self.say(path, f"found {_shown(value)}, expected {expected.__name__}")
        return False

    def entry(self, path: str, row: object, entries: list[Entry]) -> None:
        if not self.kind(path, row, dict):
            return
        assert isinstance(row, dict)
        before = len(self.findings)
        if not self.keys(path, row, Entry.__slots__):
            return
        for key in ("region", "block", "tensor", "part", "file", "dtype", "sha256"):
            self.kind(f"{path}.{key}", row[key], str)
        self.kind(f"{path}.shape", row["shape"], list)
        self.kind(f"{path}.padding", row["padding"], int)
        if len(self.findings) != before:
            return
        if row["part"] not in _PARTS:
            self.say(f"{path}.part", f"found {_shown(row['part'])}, expected " + ", ".join(_PARTS))
        if row["dtype"] not in _DTYPES:
            self.say(f"{path}.dtype", f"found {_shown(row['dtype'])}, which is no element type")
        if not _SHA256.fullmatch(row["sha256"]):
            self.say(f"{path}.sha256", "expected 64 hexadecimal digits in lower case")
        if not 0 <= row["padding"] < 8:
            self.say(f"{path}.padding", f"found {_shown(row['padding'])}, expected 0 to 7")
        sizes = row["shape"]
        if len(sizes) > MAX_RANK or any(
            type(size) is not int or not 0 <= size < 2**31 for size in sizes
        ):
            self.say(f"{path}.shape", f"expected at most {MAX_RANK} sizes from 0 to {2**31 - 1}")
        if not is_safe(row["file"]):
            self.say(
                f"{path}.file",
                f"found {_shown(row['file'])}, expected the name of an .npy file in this very "
                "folder, of ASCII letters, digits and _ . + -",
                "unsafe-path",
            )
        if len(self.findings) == before:
            entries.append(Entry(**(row | {"shape": tuple(sizes)})))

    def duplicates(self, entries: list[Entry]) -> None:
        files: set[str] = set()
        parts: set[tuple[str, str, str, str]] = set()
        for entry in entries:
            # Names that differ only in case are one file on half of all systems.
            file = entry.file.lower()
            part = (entry.region, entry.block, entry.tensor, entry.part)
            if file in files:
                self.say("", f"two constants are in the file {entry.file!r}")
            if part in parts:
                self.say("", f"{entry} is there twice")
            files.add(file)
            parts.add(part)
