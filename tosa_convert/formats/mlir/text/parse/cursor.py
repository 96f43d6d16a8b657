"""A position in MLIR text, the tokens at it, and aliases, which a text may define after their use."""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Final, NoReturn, TypeVar

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.mlir.names import unescape_bytes, unknown_escape
from tosa_convert.graph.opset import BY_MLIR
from tosa_convert.io.source_excerpt import SPLIT_MARKER, excerpt_at

# -- positions in MLIR text, and errors that quote the line that they are about --------------------

#: What MLIR calls a text that is not a file.
UNNAMED: Final = "-"
#: A position at the beginning of the place of an operator.
_PLACE: Final = re.compile(r"([^\n]*?):(\d{1,9}):(\d{1,9})(?:: |\Z)")
#: An operation in text, and an operator in a path.
_WRITTEN: Final = re.compile(rb'"?(tosa\.[a-z]\w*)')
_OPERATOR: Final = re.compile(r" operator #\d+ (\w+)\Z")
#: The most findings that quote a line.
_QUOTED_TEXT: Final = 100
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
        """Return whether locations may name this text and mean another file, such as "-" in a dump."""
        quoted = f'"{self.name}":'.encode("utf-8", "surrogateescape")
        overlap = len(quoted)
        return any(
            quoted in bytes(self.data[start : start + _BLOCK + overlap])
            for start in range(0, len(self.data), _BLOCK)
        )

    def of_operators(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return findings that begin with a position in this text, with its whole name and the line."""
        short = SourceText(self.data, os.path.basename(self.name))
        if short.has_own_locations():
            return tuple(findings)
        found: list[Finding] = []
        quoted = 0
        for finding in findings:
            match = _PLACE.match(finding.where)
            if match is not None and match[1] in (short.name, self.name) and not finding.excerpt:
                offset = None
                if quoted < _QUOTED_TEXT:
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
    """Return the names of a function's arguments in a text that was parsed, such as %x, or []."""
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


#: In a text of many operations there may be a part for each of so many bytes: each takes more memory
#: than its characters.
_BYTES_EACH: Final = 32
#: Bytes of the text that a message quotes.
_QUOTED: Final = 40

_BLANK_BYTES: Final = b" \t\r\n/"
#: Blanks and comments, so many that the regular expression takes little memory.
_BLANK: Final = re.compile(rb"(?:[ \t\r\n]+|//[^\n]*){1,100}")
_WORD: Final = re.compile(rb"[A-Za-z_][\w$.]*")
#: A string literal up to an escape, and so many escapes that the regular expression takes little memory.
_STRING: Final = re.compile(rb'"[^"\\\n]*')
_ESCAPED: Final = re.compile(rb'(?:\\.[^"\\\n]*){1,100}')
_FOUND: Final = re.compile(rb'[%^@#!]?[\w$.-]+|"[^"\n]{0,40}"?|->|.', re.DOTALL)
#: What `skip_balanced` looks at: strings, comments, arrows and brackets.
_BRACKET: Final = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|->|[()\[\]{}<>]')
_CLOSED_BY: Final = {b"(": b")", b"[": b"]", b"{": b"}", b"<": b">"}


class TextCursor:
    """A position in a text.

    Args:
        data: the text.
        path: the file that it is the content of, or "".
        depth: how deep brackets may nest.
        parts: how many entries a list may have.

    Attributes:
        at: the offset of the next byte.
    """

    def __init__(self, data: memoryview, path: str, depth: int, parts: int = sys.maxsize) -> None:
        self.data = data
        self.source = SourceText(data, path)
        self.max_depth = depth
        self.max_parts = parts
        self.depth = 0
        self.at = 0
        self._size = len(data)

    # -- errors -------------------------------------------------------------------------------

    def error(self, message: str, at: int | None = None, hint: str = "") -> TosaConvertError:
        """Return the error at an offset, by default at the next token; it quotes the line."""
        return self.coded("malformed-mlir", message, at, hint)

    def coded(
        self, code: str, message: str, at: int | None = None, hint: str = ""
    ) -> TosaConvertError:
        if at is None:
            self.skip()
            at = self.at
        return fail(code, self.source.where(at), message, hint, excerpt_at(self.data, at))

    def refuse(self, message: str, at: int | None = None, hint: str = "") -> NoReturn:
        raise self.error(message, at, hint)

    def unexpected(self, what: str) -> TosaConvertError:
        """Return the error that something else is here than what was expected."""
        return self.error(f"found {self.found()}, expected {what}")

    def found(self) -> str:
        self.skip()
        token = _FOUND.match(self.data, self.at)
        if token is None:
            return "the end of the text"
        text = token[0].decode("utf-8", "replace")
        return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")

    def enter(self) -> None:
        """Go one level deeper into an attribute, a type or a location."""
        self.depth += 1
        if self.depth > self.max_depth:
            message = f"nested more than {self.max_depth} deep"
            raise self.coded("too-large", message)

    def bound(self, count: int, what: str, *, in_all: bool = False) -> None:
        """Refuse more parts than a list may have, or than a text may have `in_all`."""
        most = self.max_parts + (len(self.data) // _BYTES_EACH if in_all else 0)
        if count > most:
            rule = f", {self.max_parts} and one for each {_BYTES_EACH} bytes of the text"
            message = f"found more than {most} {what}{rule if in_all else ''}"
            hint = "--limit text-parts=N (limits={'text-parts': N}) allows more"
            raise self.coded("too-large", message, hint=hint)

    # -- tokens -------------------------------------------------------------------------------

    def skip(self) -> None:
        data, at = self.data, self.at
        while at < self._size and data[at] in _BLANK_BYTES:
            blank = _BLANK.match(data, at)
            if blank is None:
                return
            self.at = at = blank.end()

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Take what a pattern matches after blanks; None, and nothing is taken, if it does not."""
        self.skip()
        found = pattern.match(self.data, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def peek(self, token: bytes) -> bool:
        data, at = self.data, self.at
        if at == self._size:
            return False
        if data[at] in _BLANK_BYTES:
            self.skip()
            at = self.at
            if at == self._size:
                return False
        # Most tokens are one byte, and most that are asked for are not there.
        return data[at] == token[0] and (len(token) == 1 or self.follows(token))

    def follows(self, token: bytes) -> bool:
        """Return whether these bytes are next, without blanks before them."""
        return bytes(self.data[self.at : self.at + len(token)]) == token

    def accept(self, token: bytes) -> bool:
        if self.peek(token):
            self.at += len(token)
            return True
        return False

    def expect(self, token: bytes, what: str = "") -> None:
        """Take these bytes, or refuse the text."""
        if not self.accept(token):
            raise self.unexpected(what or repr(token.decode()))

    def word(self) -> bytes:
        found = self.match(_WORD)
        return found[0] if found else b""

    def peek_word(self) -> bytes:
        self.skip()
        found = _WORD.match(self.data, self.at)
        return found[0] if found else b""

    def accept_word(self, word: bytes) -> bool:
        if self.peek_word() == word:
            self.at += len(word)
            return True
        return False

    def string_span(self) -> tuple[int, int] | None:
        """Take a string literal; the offsets of what is between its quotes. It may be large."""
        self.skip()
        found = _STRING.match(self.data, self.at)
        while found is not None:
            end = found.end()
            if bytes(self.data[end : end + 1]) == b'"':
                span = self.at + 1, end
                self.at = end + 1
                return span
            found = _ESCAPED.match(self.data, end)
        return None

    def string(self) -> bytes | None:
        span = self.string_span()
        if span is None:
            return None
        raw = bytes(self.data[span[0] : span[1]])
        if b"\\" not in raw:
            return raw
        wrong = unknown_escape(raw)
        if wrong >= 0:
            message = (
                'found a backslash that is not before two hexadecimal digits or one of " \\ n t'
            )
            self.refuse(message, span[0] + wrong)
        return unescape_bytes(raw)

    def name(self, pattern: re.Pattern[bytes], what: str) -> bytes:
        """Take a name: a string literal, or what a pattern matches."""
        quoted = self.string()
        if quoted is not None:
            return quoted
        found = self.match(pattern)
        if found is None:
            raise self.unexpected(what)
        return found[0]

    def skip_balanced(self, opened: bytes, what: str) -> None:
        start = self.at
        self.expect(opened, what)
        closing = bytearray(_CLOSED_BY[opened])
        while closing:
            found = _BRACKET.search(self.data, self.at)
            if found is None:
                self.refuse(f"{opened.decode()!r} is not closed", start)
            self.at = found.end()
            token = found[0]
            if token in _CLOSED_BY:
                closing += _CLOSED_BY[token]
                if len(closing) > self.max_depth:
                    raise self.coded("too-large", f"nested more than {self.max_depth} deep", start)
            elif token in (b")", b"]", b"}", b">"):
                if token[0] != closing[-1]:
                    message = f"found {token.decode()!r}, expected {chr(closing[-1])!r}"
                    self.refuse(message, found.start())
                closing.pop()


Value = TypeVar("Value")

#: A definition begins a line. Strings do not reach over line ends, so it is not part of one.
_DEFINITION: Final = re.compile(rb"\n[ \t]*([#!][A-Za-z0-9_$][\w$.-]*)[ \t]*=")
#: Aliases between two looks at how many there are.
_COUNTED: Final = 1 << 10
_FIRST: Final = re.compile(_DEFINITION.pattern.removeprefix(rb"\n"))
_NEXT_DEFINITION: Final = re.compile(rb"([#!][A-Za-z0-9_$][\w$.-]*)[ \t]*=")


class Aliases:
    """The aliases of one text. Each is parsed when it is first used, and once."""

    def __init__(self, cursor: TextCursor) -> None:
        self.cursor = cursor
        #: Alias with its `#` or `!` -> the offset of its definition; None while that is parsed, then
        #: its value, that offset, and where its definition ends.
        self.known: dict[bytes, int | tuple[Any, int, int] | None] = {}
        first = _FIRST.match(cursor.data)
        for definition in chain([first] if first else [], _DEFINITION.finditer(cursor.data)):
            if definition[1] in self.known:
                self._refuse_second(definition)
            self.known[definition[1]] = definition.end()
            if not len(self.known) % _COUNTED:
                cursor.bound(len(self.known), "aliases", in_all=True)
        cursor.bound(len(self.known), "aliases", in_all=True)

    def _refuse_second(self, definition: re.Match[bytes]) -> NoReturn:
        self.cursor.refuse(f"{_shown(definition[1])} is defined twice", definition.start(1))

    def __contains__(self, name: bytes) -> bool:
        return name in self.known

    def resolve(self, name: bytes, at: int, parse: Callable[[], Value]) -> Value:
        cursor = self.cursor
        known = self.known.get(name, -1)
        if isinstance(known, tuple):
            found: Value = known[0]
            return found
        if known == -1:
            cursor.refuse(f"the alias {_shown(name)} is not defined", at)
        if known is None:
            cursor.refuse(f"the alias {_shown(name)} refers to itself", at)
        self.known[name] = None
        resume, cursor.at = cursor.at, known
        cursor.enter()
        try:
            value = parse()
            self.known[name] = value, known, cursor.at
        finally:
            cursor.depth -= 1
            cursor.at = resume
        return value

    def next_definition(self) -> bytes:
        """Return the name of the alias whose definition is next at the top of the module, or b""."""
        self.cursor.skip()
        definition = _NEXT_DEFINITION.match(self.cursor.data, self.cursor.at)
        if definition is None:
            return b""
        name, place = definition[1], definition.end()
        # A definition that does not begin a line is found only here.
        known = self.known.setdefault(name, place)
        if (known[1] if isinstance(known, tuple) else known) != place:
            self._refuse_second(definition)
        return name

    def end(self, name: bytes) -> int:
        """Return where the definition of an alias that was resolved ends."""
        known = self.known[name]
        assert isinstance(known, tuple)
        return known[2]


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")
