"""A position in MLIR text, the tokens at it, and aliases, which a text may define after their use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import chain
from typing import Any, Final, NoReturn, TypeVar

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.mlir.quoting import unescape_bytes, unknown_escape
from tosa_convert.formats.mlir.text.parse.source_text import SourceText
from tosa_convert.io.source_excerpt import excerpt_at

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
        """Return the error with a code of its own."""
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
        """Return the next token, for a message."""
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
        """Return whether these bytes are next."""
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
        """Take these bytes if they are next."""
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
        """Return the value of an alias."""
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
