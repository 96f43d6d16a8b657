"""Positions in MLIR text, and errors that quote the line that they are about."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from typing import Final

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.graph.opset import BY_MLIR
from tosa_convert.io.source_excerpt import SPLIT_MARKER, excerpt_at
from tosa_convert.records import replace

#: What MLIR calls a text that is not a file.
UNNAMED: Final = "-"
#: A position at the beginning of the place of an operator.
_PLACE: Final = re.compile(r"([^\n]*?):(\d{1,9}):(\d{1,9})(?:: |\Z)")
#: An operation in text, and an operator in a path.
_WRITTEN: Final = re.compile(rb'"?(tosa\.[a-z]\w*)')
_OPERATOR: Final = re.compile(r" operator #\d+ (\w+)\Z")
#: The most findings that quote a line.
_QUOTED: Final = 100
#: The beginning of a function's arguments, in custom and in generic form; what is read of them.
_FUNCTION: Final = rb'\bfunc(?:\.func)?\s+(?:\w+\s+)?@(?:%b|"%b")\s*\('
_GENERIC_FUNCTION: Final = rb'"(?:func|builtin)\.func"\s*\('
_FIRST_BLOCK: Final = rb"\(\s*\{\s*\^[\w$.-]+\("
_TOKEN: Final = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|->|[()\[\]{}<>]|%[\w$.-]+(?=\s*:)'
_POSITION: Final = re.compile(r"(.*):(\d+):(\d+)\Z", re.DOTALL)
#: Bytes that are searched for line ends at once.
_BLOCK: Final = 1 << 13


class SourceText:
    """A text that MLIR parses, and the name that its locations have.

    Lines and columns count from 1, and columns are bytes, as in MLIR's diagnostics.
    """

    def __init__(self, data: memoryview, path: str = "") -> None:
        self.data = data
        self.name = path or UNNAMED

    @cached_property
    def _lines_before(self) -> list[int]:
        """Count how many lines end before each block of the text, and in all of it."""
        counts = [
            bytes(self.data[start : start + _BLOCK]).count(b"\n")
            for start in range(0, len(self.data), _BLOCK)
        ]
        return list(accumulate(counts, initial=0))

    def lines(self) -> int:
        """Count the line ends."""
        return self._lines_before[-1]

    def where(self, offset: int) -> str:
        """Return the position of a byte, as `name:line:column`."""
        lines, block = self._lines_before, offset // _BLOCK
        head = bytes(self.data[block * _BLOCK : offset])
        line = 1 + lines[block] + head.count(b"\n")
        return f"{self.name}:{line}:{offset - (self._line_start(line) or 0) + 1}"

    def offset(self, where: str) -> int | None:
        """Return the byte at `name:line:column`; None if that is not a position in this text."""
        match = _POSITION.match(where)
        if match is None or match[1] != self.name or match[2] == "0":
            return None
        start = self._line_start(int(match[2]))
        return None if start is None else min(start + max(int(match[3]) - 1, 0), len(self.data))

    def _line_start(self, line: int) -> int | None:
        lines, left = self._lines_before, line - 1
        if left < 1 or left > lines[-1]:
            return None if left else 0
        block = bisect_left(lines, left) - 1
        end = min((block + 1) * _BLOCK, len(self.data))
        raw = bytes(self.data[block * _BLOCK : end])
        return end - len(raw.split(b"\n", left - lines[block])[-1])

    def has_own_locations(self) -> bool:
        """Return whether locations in the text may have the text's own name and mean another file.

        Text printed with debug information names the file that it was made from, which may be called
        the same, or "-".
        """
        quoted = f'"{self.name}":'.encode("utf-8", "surrogateescape")
        overlap = len(quoted)
        return any(
            quoted in bytes(self.data[start : start + _BLOCK + overlap])
            for start in range(0, len(self.data), _BLOCK)
        )

    def of_operators(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return findings that begin with a position in this text, with its whole name and the line.

        The locations of operators have only the last part of the name.
        """
        short = SourceText(self.data, os.path.basename(self.name))
        if short.has_own_locations():
            return tuple(findings)
        found: list[Finding] = []
        quoted = 0
        for finding in findings:
            match = _PLACE.match(finding.where)
            if match is not None and match[1] in (short.name, self.name) and not finding.excerpt:
                offset = None
                if quoted < _QUOTED:
                    offset = short.offset(f"{short.name}:{match[2]}:{match[3]}")
                    quoted += 1
                excerpt = "" if offset is None else excerpt_at(self.data, offset)
                where = f"{self.name}{finding.where[match.end(1) :]}"
                message = finding.message + self._as_written(where, offset)
                finding = replace(finding, where=where, message=message, excerpt=excerpt)
            found.append(finding)
        return tuple(found)

    def _as_written(self, where: str, offset: int | None) -> str:
        """Return what names the operation of the text, if the operator of a path is made of another."""
        found, made = _WRITTEN.match(self.data, offset or 0), _OPERATOR.search(where)
        if offset is None or found is None or made is None:
            return ""
        name = found[1].decode()
        spec = BY_MLIR.get(name)
        return "" if spec is not None and spec.name == made[1] else f" (the text has {name})"

    def with_excerpts(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return the findings; those at a position in this text quote its line, with a caret."""
        places = [None if finding.excerpt else self.offset(finding.where) for finding in findings]
        if not any(place is not None for place in places) or self.has_own_locations():
            return findings
        return tuple(
            finding if place is None else replace(finding, excerpt=excerpt_at(self.data, place))
            for finding, place in zip(findings, places, strict=True)
        )


def argument_names(data: memoryview, function: str) -> list[str]:
    """Return the names that a function's arguments have in a text that was parsed, such as %x.

    [] if the function is not found. In generic form it must be the only one.
    """
    name = re.escape(function.encode("utf-8", "surrogateescape"))
    start = re.search(_FUNCTION % (name, name), data)
    if start is None:
        generic = list(re.finditer(_GENERIC_FUNCTION, data))
        start = (
            re.compile(_FIRST_BLOCK).search(data, generic[0].end()) if len(generic) == 1 else None
        )
    names: list[str] = []
    depth = 1
    for token in () if start is None else re.compile(_TOKEN).finditer(data, start.end()):
        text = token[0]
        if text.startswith(b"%") and depth == 1:
            names.append(text.decode())
        elif len(text) == 1:
            depth += 1 if text in b"([{<" else -1
        if not depth:
            break
    return names


@contextmanager
def quoting(data: memoryview, path: str = "") -> Iterator[None]:
    """Let errors that are raised inside, at positions in MLIR text, quote the line."""
    try:
        yield
    except TosaConvertError as error:
        findings = error.findings
        if bytes(data[:4]) != b"ML\xefR":
            text = SourceText(data, path)
            findings = text.of_operators(text.with_excerpts(findings))
            if SPLIT_MARKER.search(data):
                hint = "lines of // ----- separate modules: convert --split-input-file"
                findings = tuple(
                    replace(row, hint=f"{row.hint}; {hint}")
                    if row.code == "ambiguous-function"
                    else row
                    for row in findings
                )
        if findings == error.findings:
            raise
        raise TosaConvertError(findings) from None
