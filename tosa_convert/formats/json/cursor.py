"""A position in an untrusted JSON text: white space, punctuation, values to skip, and findings.

Accepts JSON and what flatc accepts beyond it: comments, unquoted keys, and a comma after the last
member. The text is read in place and never becomes a tree, so memory is that of the values that are
returned, and nesting costs nothing.

Findings are collected. A wrong value is skipped, so that one run reports many; if the text cannot
be parsed any further, `Stop` ends the reading.
"""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.errors import MAX_FINDINGS, Finding
from tosa_convert.io.options import Limits
from tosa_convert.io.source_excerpt import excerpt_at
from tosa_convert.records import dataclass

#: Memory in bytes that the result may take: for any text, and for each byte of it. Texts that
#: programs write take less than their size; texts of little but empty objects take more.
MEMORY_FREE: Final = 32 << 20
MEMORY_PER_BYTE: Final = 10
#: Characters of the text that a message quotes.
QUOTED: Final = 40
#: Bytes of the text that are counted for line breaks at a time.
CHUNK: Final = 1 << 20

SPACE: Final = rb"[ \t\r\n]*"
STRING: Final = re.compile(rb'"([^"\\\x00-\x1f]*)"')
PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_WHITE: Final = re.compile(SPACE)
_DELIMITER: Final = re.compile(SPACE + rb"([,}\]])")
_WORD: Final = re.compile(rb'[^\s,:\[\]{}"/]+')
_LINE_END: Final = re.compile(rb"[\r\n]")
_COMMENT_END: Final = re.compile(rb"\*/")
_BOM: Final = b"\xef\xbb\xbf"
QUOTE, BACKSLASH, COMMA, COLON, _SLASH, _STAR = b'"\\,:/*'
OBJECT, LIST = b"{["
CLOSERS: Final = {OBJECT: ord("}"), LIST: ord("]")}


class Stop(Exception):
    """Reading cannot go on; the findings say why."""


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding whose line is not counted yet. offset: in bytes; path: the field's."""

    offset: int
    code: str
    path: str
    message: str
    hint: str


class Cursor:
    """A position in the text, the path of the value that is read there, and the findings so far."""

    def __init__(self, buffer: memoryview, limits: Limits) -> None:
        self.buffer = buffer
        self.size = len(buffer)
        self.position = len(_BOM) if bytes(buffer[: len(_BOM)]) == _BOM else 0
        self.path: list[str] = []
        self.found: list[LocatedFinding] = []
        #: Lists and objects that are open, and how many may be.
        self.depth = 0
        self.max_depth = limits.json_depth
        #: Bytes of memory that the result may still take.
        self.memory = MEMORY_FREE + MEMORY_PER_BYTE * self.size

    def charge(self, memory: int) -> None:
        """Charge bytes of memory that the result takes; raises Stop if it takes too many."""
        self.memory -= memory
        if self.memory < 0:
            raise self.stop(
                f"a text of {self.size} bytes describes more objects than its size allows",
                "it holds little but empty objects or lists; write it as a .tosa file",
            )

    # -- findings -----------------------------------------------------------------------------

    def add(
        self, message: str, hint: str = "", *, code: str = "malformed-json", at: int | None = None
    ) -> None:
        """Record a finding about the value of the current path; raises Stop if there are too many.

        at: the byte that it is about, by default the current position.
        """
        offset = self.position if at is None else at
        path = "".join(self.path).lstrip(".")
        self.found.append(LocatedFinding(offset, code, path, message, hint))
        if len(self.found) >= MAX_FINDINGS:
            raise Stop

    def add_at(self, offset: int, code: str, message: str, hint: str = "") -> None:
        """Record a finding about the value that starts at `offset`."""
        self.add(message, hint, code=code, at=offset)

    def stop(self, message: str, hint: str = "", *, at: int | None = None) -> Stop:
        """Record a finding after which the text cannot be parsed; the caller raises the result."""
        self.add(message, hint, at=at)
        return Stop()

    def unexpected(self, expected: str, hint: str = "") -> None:
        """Record that the value here is not the expected one, and skip it."""
        self.add(f"found {self.describe()}, expected {expected}", hint)
        self.skip()

    def describe(self) -> str:
        """Return the token at the position, for messages."""
        character = self.peek()
        if character < 0:
            return "the end of the text"
        if character == OBJECT:
            return "an object"
        if character == LIST:
            return "a list"
        # Only as much as is quoted: the token may be as long as the file.
        start = bytes(self.buffer[self.position : self.position + QUOTED])
        if character == QUOTE:
            string = STRING.match(start)
            return f"the string {(string[0] if string else start).decode(errors='replace')}"
        word = _WORD.match(start)
        if word is None:
            return f'"{chr(character)}"'
        text = word[0].decode(errors="backslashreplace")
        return text if text.isprintable() else ascii(text)[1:-1]

    def findings(self, where: str) -> list[Finding]:
        """Return the findings in order, with lines, columns (in bytes, from 1) and excerpts."""
        results = []
        line, line_start, position = 1, 0, 0
        for row in sorted(self.found, key=lambda row: row.offset):
            while position < row.offset:
                chunk = bytes(self.buffer[position : min(row.offset, position + CHUNK)])
                line += chunk.count(b"\n")
                last = chunk.rfind(b"\n")
                if last >= 0:
                    line_start = position + last + 1
                position += len(chunk)
            place = f"{where or 'line '}{':' if where else ''}{line}:{row.offset - line_start + 1}"
            path = f"{place}: {row.path}" if row.path else place
            excerpt = excerpt_at(self.buffer, row.offset)
            results.append(Finding(row.code, path, row.message, row.hint, excerpt))
        return results

    # -- between values -----------------------------------------------------------------------

    def peek(self) -> int:
        """Return the byte at the position; -1 at the end."""
        return self.buffer[self.position] if self.position < self.size else -1

    def space(self) -> None:
        """Skip white space and comments."""
        while True:
            match = _WHITE.match(self.buffer, self.position)
            assert match is not None
            self.position = match.end()
            if self.peek() != _SLASH:
                return
            start = self.position
            second = self.buffer[start + 1] if start + 1 < self.size else -1
            if second == _SLASH:
                match = _LINE_END.search(self.buffer, start)
                self.position = match.end() if match else self.size
            elif second == _STAR:
                match = _COMMENT_END.search(self.buffer, start + 2)
                if match is None:
                    raise self.stop("a comment starts here and does not end")
                self.position = match.end()
            else:
                raise self.stop('found "/", expected a value or a comment')

    def delimiter(self, closer: int) -> bool:
        """Skip what follows a member; whether that is `closer` and not a comma."""
        match = _DELIMITER.match(self.buffer, self.position)
        if match is None:
            self.space()
            match = _DELIMITER.match(self.buffer, self.position)
        if match is not None:
            found = match[1][0]
            if found == COMMA:
                self.position = match.end()
                return False
            if found == closer:
                self.position = match.end()
                return True
        self.space()
        raise self.stop(f'found {self.describe()}, expected "," or "{chr(closer)}"')

    def closes(self, closer: int) -> bool:
        """Return whether `closer` is here, in place of a member; skips it."""
        self.space()
        if self.peek() != closer:
            return False
        self.position += 1
        return True

    def opens(self, opener: int, expected: str) -> bool:
        """Return whether a list or object opens here. Skips the bracket, or the whole wrong value."""
        if self.peek() == opener:
            if self.depth >= self.max_depth:
                raise self.too_deep()
            self.position += 1
            return True
        self.unexpected(expected)
        return False

    def end(self) -> None:
        """Check that nothing but white space and comments follows."""
        self.space()
        if self.position != self.size:
            raise self.stop(f"found {self.describe()} after the end of the graph")

    def skip(self) -> None:
        """Skip one value of any kind."""
        closers = bytearray()
        while True:
            self.space()
            character = self.peek()
            if character in CLOSERS:
                if self.depth + len(closers) >= self.max_depth:
                    raise self.too_deep()
                closers.append(CLOSERS[character])
                self.position += 1
                continue
            if character == QUOTE:
                self.skip_string()
            elif closers and character == closers[-1]:
                closers.pop()
                self.position += 1
            elif closers and character in (COMMA, COLON):
                self.position += 1
                continue
            else:
                word = _WORD.match(self.buffer, self.position)
                if word is None:
                    raise self.stop(f"found {self.describe()}, expected a value")
                self.position = word.end()
            if not closers:
                return

    def too_deep(self) -> Stop:
        return self.stop(
            f"lists and objects are nested deeper than {self.max_depth}",
            "--limit json-depth=N allows more",
        )

    def skip_string(self) -> None:
        """Skip the string that starts here."""
        start = self.position
        self.position += 1
        while True:
            match = PLAIN.match(self.buffer, self.position)
            assert match is not None
            self.position = match.end()
            character = self.peek()
            if character == BACKSLASH:
                self.position = min(self.position + 2, self.size)
            elif character == QUOTE:
                self.position += 1
                return
            else:
                raise self.bad_string(start)

    def bad_string(self, start: int) -> Stop:
        character = self.peek()
        if character < 0:
            return self.stop("a string starts here and does not end", at=start)
        return self.stop(
            f"found the control character 0x{character:02X} in a string",
            f"write it as \\u{character:04X}",
        )
