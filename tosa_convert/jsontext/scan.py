"""Tokens of a JSON text that nobody has vouched for.

Accepts JSON, and what flatc accepts beyond it: comments, unquoted keys, and a comma behind the last
member. The text is looked at where it lies and never turned into a tree, so memory is that of the
values that are kept, and nesting costs nothing. Lists of bytes, the weights, are converted block by
block without an object for each number.

What is wrong is collected. A wrong value is stepped over, so that one run reports many; where the
text can no longer be followed, `Stop` ends the reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tosa_convert.errors import MAX_FINDINGS, Finding
from tosa_convert.jsontext.numbers import parsed
from tosa_convert.jsontext.schema import Enum
from tosa_convert.options import DEFAULT_LIMITS, Limits

#: Bytes of memory that reading may take for each byte of the text, and for any text at all. Texts
#: that programs write take less than their size; only one of nearly nothing but empty objects more.
MEMORY_PER_BYTE: Final = 10
MEMORY_FREE: Final = 32 << 20
#: What things take: a member of a list of numbers or strings, and a string among those remembered.
INTEGER_MEMORY: Final = 40
ENTRY_MEMORY: Final = 20
STRING_MEMORY: Final = 120
#: Characters of the text that a message quotes.
QUOTED: Final = 40
#: Members of an enum that a message lists.
LISTED: Final = 24
#: Strings that are remembered, to share what is written more than once.
REMEMBERED: Final = 1 << 16
#: Bytes of text converted at a time; a list of bytes starts with few, because most are short.
FIRST_CHUNK: Final = 1 << 10
CHUNK: Final = 1 << 20

_SPACE: Final = rb"[ \t\r\n]*"
_WHITE: Final = re.compile(_SPACE)
_KEY: Final = re.compile(_SPACE + rb'"(\w{1,64})"' + _SPACE + rb":" + _SPACE)
_BARE_KEY: Final = re.compile(rb"[A-Za-z_]\w*")
_DELIMITER: Final = re.compile(_SPACE + rb"([,}\]])")
_STRING: Final = re.compile(rb'"([^"\\\x00-\x1f]*)"')
_STRING_MEMBER: Final = re.compile(_SPACE + rb'"([^"\\\x00-\x1f]*)"' + _SPACE + rb"([,\]])")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
# 20 digits are enough for the widest field, and no number is converted before it is known short.
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,19})(?![\w.+-])")
_INTEGER_MEMBER: Final = re.compile(_SPACE + rb"(-?(?:0|[1-9][0-9]{0,9}))" + _SPACE + rb"([,\]])")
_BYTE_MEMBER: Final = re.compile(_SPACE + rb"(0|[1-9][0-9]{0,2})" + _SPACE + rb"([,\]])")
_BOOL: Final = re.compile(rb"(true|false|0|1)(?![\w.+-])")
_NULL: Final = re.compile(rb"null(?![\w.+-])")
_WORD: Final = re.compile(rb'[^\s,:\[\]{}"/]+')
_LINE_END: Final = re.compile(rb"[\r\n]")
_COMMENT_END: Final = re.compile(rb"\*/")
_BOM: Final = b"\xef\xbb\xbf"
_TRUE: Final = frozenset({b"true", b"1"})
_ESCAPES: Final = {
    ord(escape): text
    for escape, text in {
        '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"
    }.items()
}  # fmt: skip
_QUOTE, _BACKSLASH, _COMMA, _COLON, _SLASH, _STAR = b'"\\,:/*'
_OBJECT, _LIST = b"{["
_CLOSERS: Final = {_OBJECT: ord("}"), _LIST: ord("]")}

#: Key -> the function that reads its value.
Rows: TypeAlias = dict[str, Callable[[], Any]]


class Stop(Exception):
    """Reading cannot go on; the findings say why."""


@dataclass(frozen=True, slots=True)
class Located:
    """A finding before its line is known. offset: in bytes."""

    offset: int
    code: str
    path: str
    message: str
    hint: str


class Scanner:
    """A position in the text, the path of the value that is read there, and what was found wrong."""

    def __init__(self, buffer: memoryview, limits: Limits = DEFAULT_LIMITS) -> None:
        self.buffer = buffer
        self.most_depth = limits.json_depth
        self.size = len(buffer)
        self.position = len(_BOM) if bytes(buffer[: len(_BOM)]) == _BOM else 0
        self.path: list[str] = []
        self.found: list[Located] = []
        self._strings: dict[bytes, str] = {}
        #: Bytes of memory that may still be taken.
        self.memory = MEMORY_FREE + MEMORY_PER_BYTE * self.size

    def charge(self, memory: int) -> None:
        """Count bytes of memory that are taken; raises Stop where there are too many."""
        self.memory -= memory
        if self.memory < 0:
            raise self.stop(
                f"a text of {self.size} bytes describes more objects than we read in one of its size",
                "it holds little but empty objects or lists; write it as a .tosa file",
            )

    # -- findings -----------------------------------------------------------------------------

    def say(
        self, message: str, hint: str = "", *, code: str = "malformed-json", at: int | None = None
    ) -> None:
        """Note a finding about the value of the current path; raises Stop if there are many."""
        offset = self.position if at is None else at
        self.found.append(Located(offset, code, "".join(self.path).lstrip("."), message, hint))
        if len(self.found) >= MAX_FINDINGS:
            raise Stop

    def stop(self, message: str, hint: str = "", *, at: int | None = None) -> Stop:
        """Note a finding after which the text cannot be followed; to be raised by the caller."""
        self.say(message, hint, at=at)
        return Stop()

    def wrong(self, expected: str, hint: str = "") -> None:
        """Note that the value here is not what is expected, and step over it."""
        self.say(f"found {self.describe()}, expected {expected}", hint)
        self.skip()

    def describe(self) -> str:
        """What stands at the position, for a message."""
        character = self.peek()
        if character < 0:
            return "the end of the text"
        if character == _OBJECT:
            return "an object"
        if character == _LIST:
            return "a list"
        # Only as much as is quoted: what stands there may be as long as the file.
        excerpt = bytes(self.buffer[self.position : self.position + QUOTED])
        if character == _QUOTE:
            string = _STRING.match(excerpt)
            return f"the string {(string[0] if string else excerpt).decode(errors='replace')}"
        word = _WORD.match(excerpt)
        if word is None:
            return f'"{chr(character)}"'
        text = word[0].decode(errors="backslashreplace")
        return text if text.isprintable() else ascii(text)[1:-1]

    def findings(self, where: str) -> list[Finding]:
        """What was found, in the text's order, with lines and columns (bytes, from 1)."""
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
            results.append(Finding(row.code, path, row.message, row.hint))
        return results

    # -- what stands between values -----------------------------------------------------------

    def peek(self) -> int:
        """The byte at the position; -1 at the end."""
        return self.buffer[self.position] if self.position < self.size else -1

    def space(self) -> None:
        """Step over white space and comments."""
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
        """Step over what follows a member; whether it was the last, and `closer` follows."""
        match = _DELIMITER.match(self.buffer, self.position)
        if match is None:
            self.space()
            match = _DELIMITER.match(self.buffer, self.position)
        if match is not None:
            found = match[1][0]
            if found == _COMMA:
                self.position = match.end()
                return False
            if found == closer:
                self.position = match.end()
                return True
        self.space()
        raise self.stop(f'found {self.describe()}, expected "," or "{chr(closer)}"')

    def closes(self, closer: int) -> bool:
        """Whether `closer` stands here, where a member could; steps over it."""
        self.space()
        if self.peek() != closer:
            return False
        self.position += 1
        return True

    def opens(self, opener: int, expected: str) -> bool:
        """Whether a list or object opens here; steps over the bracket, or over a wrong value."""
        if self.peek() == opener:
            self.position += 1
            return True
        self.wrong(expected)
        return False

    def end(self) -> None:
        """Check that nothing follows."""
        self.space()
        if self.position != self.size:
            raise self.stop(f"found {self.describe()} behind the end of the graph")

    def skip(self) -> None:
        """Step over one value, whatever it is."""
        closers = bytearray()
        while True:
            self.space()
            character = self.peek()
            if character in _CLOSERS:
                if len(closers) >= self.most_depth:
                    raise self.stop(f"lists and objects are nested deeper than {self.most_depth}")
                closers.append(_CLOSERS[character])
                self.position += 1
                continue
            if character == _QUOTE:
                self.skip_string()
            elif closers and character == closers[-1]:
                closers.pop()
                self.position += 1
            elif closers and character in (_COMMA, _COLON):
                self.position += 1
                continue
            else:
                word = _WORD.match(self.buffer, self.position)
                if word is None:
                    raise self.stop(f"found {self.describe()}, expected a value")
                self.position = word.end()
            if not closers:
                return

    def skip_string(self) -> None:
        start = self.position
        self.position += 1
        while True:
            match = _PLAIN.match(self.buffer, self.position)
            assert match is not None
            self.position = match.end()
            character = self.peek()
            if character == _BACKSLASH:
                self.position = min(self.position + 2, self.size)
            elif character == _QUOTE:
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

    # -- values -------------------------------------------------------------------------------

    def table(self, rows: Rows) -> dict[str, Any]:
        """The object that starts here, each member read by its row; null members are left out."""
        values: dict[str, Any] = {}
        if not self.opens(_OBJECT, "an object"):
            return values
        buffer, path = self.buffer, self.path
        while True:
            match = _KEY.match(buffer, self.position)
            if match is None:
                if self.closes(_CLOSERS[_OBJECT]):
                    return values
                start = self.position
                key = self.odd_key()
            else:
                start = match.start(1) - 1
                key = match[1].decode("ascii")
                self.position = match.end()
            row = rows.get(key)
            path.append(f".{key[:QUOTED]}")
            if row is None:
                expected = ", ".join(rows) or "none"
                self.say(f"there is no field of this name, expected one of: {expected}", at=start)
                self.skip()
            elif self.peek() == 0x6E and _NULL.match(buffer, self.position):
                self.position += 4
            elif key in values:
                self.say("this field is there twice", at=start)
                self.skip()
            else:
                values[key] = row()
            path.pop()
            if self.delimiter(_CLOSERS[_OBJECT]):
                return values

    def odd_key(self) -> str:
        """A key that has no quotes, has escapes, or has comments around it."""
        if self.peek() == _QUOTE:
            key = self.string()
        else:
            match = _BARE_KEY.match(self.buffer, self.position)
            if match is None:
                raise self.stop(f"found {self.describe()}, expected a field's name")
            key = match[0].decode("ascii")
            self.position = match.end()
        self.space()
        if self.peek() != _COLON:
            raise self.stop(f'found {self.describe()}, expected ":" behind a field\'s name')
        self.position += 1
        self.space()
        return key

    def tables(self, member: Callable[[], Any]) -> list[Any]:
        """The list that starts here, each member read by `member`."""
        members: list[Any] = []
        if not self.opens(_LIST, "a list of objects"):
            return members
        index = 0
        while not self.closes(_CLOSERS[_LIST]):
            self.path.append(f"[{index}]")
            members.append(member())
            self.path.pop()
            index += 1
            if self.delimiter(_CLOSERS[_LIST]):
                break
        return members

    def string(self) -> str:
        """The string that starts here."""
        match = _STRING.match(self.buffer, self.position)
        if match is None:
            if self.peek() != _QUOTE:
                self.wrong("a string")
                return ""
            return self.escaped_string()
        self.position = match.end()
        return self.remembered(match[1], match.start(1))

    def remembered(self, raw: bytes, at: int) -> str:
        """The text of UTF-8 that stands at `at`."""
        text = self._strings.get(raw)
        if text is None:
            text = self.decoded(raw, at)
            if len(self._strings) >= REMEMBERED:
                self._strings.clear()
            self._strings[raw] = text
        return text

    def decoded(self, raw: bytes, at: int) -> str:
        try:
            text = raw.decode()
            # Each character takes as much as the widest.
            self.charge(STRING_MEMORY + len(text) * (1 if text.isascii() else 4))
            return text
        except UnicodeDecodeError as error:
            self.say("a string is not UTF-8", at=at + error.start)
            return ""

    def escaped_string(self) -> str:
        start = self.position
        self.position += 1
        parts: list[str] = []
        while True:
            match = _PLAIN.match(self.buffer, self.position)
            assert match is not None
            parts.append(self.decoded(match[0], self.position))
            self.position = match.end()
            character = self.peek()
            if character == _QUOTE:
                self.position += 1
                return "".join(parts)
            if character != _BACKSLASH:
                raise self.bad_string(start)
            parts.append(self.escape())

    def escape(self) -> str:
        """The character that an escape stands for."""
        start = self.position
        raw = bytes(self.buffer[start + 1 : start + 2])
        text = _ESCAPES.get(raw[0]) if raw else None
        if text is not None:
            self.position += 2
            return text
        unit = self.code_unit()
        if 0xD800 <= unit < 0xDC00:
            low = self.code_unit() if self.peek() == _BACKSLASH else -1
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00)
            unit = -1
        if unit < 0 or 0xDC00 <= unit < 0xE000:
            end = start + (6 if raw == b"u" else 2)
            excerpt = bytes(self.buffer[start:end]).decode(errors="replace")
            raise self.stop(f"found the escape {excerpt}, which stands for no character", at=start)
        return chr(unit)

    def code_unit(self) -> int:
        r"""The number of a `\uXXXX`; -1 if it is none."""
        digits = bytes(self.buffer[self.position + 2 : self.position + 6])
        if bytes(self.buffer[self.position + 1 : self.position + 2]) != b"u":
            return -1
        if not re.fullmatch(rb"[0-9A-Fa-f]{4}", digits):
            return -1
        self.position += 6
        return int(digits, 16)

    def integer(self, low: int, high: int) -> int:
        """The whole number that starts here; 0 if it is none or not from `low` to `high`."""
        match = _INTEGER.match(self.buffer, self.position)
        if match is not None:
            value = int(match[0])
            if low <= value <= high:
                self.position = match.end()
                return value
        self.wrong(f"a whole number from {low} to {high}")
        return 0

    def boolean(self) -> bool:
        """The truth value that starts here."""
        match = _BOOL.match(self.buffer, self.position)
        if match is None:
            self.wrong("true or false")
            return False
        self.position = match.end()
        return match[1] in _TRUE

    def enum(self, enum: Enum, high: int) -> int:
        """The number of the enum's member that is named here, or the number itself."""
        if self.peek() == _QUOTE:
            start = self.position
            value = enum.members.get(self.string())
            if value is not None:
                return value
            self.position = start
        elif match := _INTEGER.match(self.buffer, self.position):
            value = int(match[0])
            if 0 <= value <= high:
                self.position = match.end()
                return value
        names = ", ".join(enum.members) if len(enum.members) <= LISTED else ""
        self.wrong(
            f"the name of a member of {enum.name}, or its number", names and f"names: {names}"
        )
        return 0

    def strings(self) -> tuple[str, ...]:
        """The list of strings that starts here."""
        members: list[str] = []
        if not self.opens(_LIST, "a list of strings"):
            return ()
        buffer = self.buffer
        while True:
            match = _STRING_MEMBER.match(buffer, self.position)
            if match is not None:
                self.position = match.end()
                members.append(self.remembered(match[1], match.start(1)))
                self.charge(ENTRY_MEMORY)
                if buffer[self.position - 1] != _COMMA:
                    return tuple(members)
            elif self.closes(_CLOSERS[_LIST]):
                return tuple(members)
            else:
                self.path.append(f"[{len(members)}]")
                members.append(self.string())
                self.charge(ENTRY_MEMORY)
                self.path.pop()
                if self.delimiter(_CLOSERS[_LIST]):
                    return tuple(members)

    def integers(self, low: int, high: int) -> tuple[int, ...]:
        """The list of whole numbers that starts here."""
        members: list[int] = []
        if not self.opens(_LIST, "a list of numbers"):
            return ()
        buffer = self.buffer
        while True:
            match = _INTEGER_MEMBER.match(buffer, self.position)
            if match is not None and low <= int(match[1]) <= high:
                self.position = match.end()
                members.append(int(match[1]))
                self.charge(INTEGER_MEMORY)
                if buffer[self.position - 1] != _COMMA:
                    return tuple(members)
            elif self.closes(_CLOSERS[_LIST]):
                return tuple(members)
            else:
                self.path.append(f"[{len(members)}]")
                members.append(self.integer(low, high))
                self.charge(INTEGER_MEMORY)
                self.path.pop()
                if self.delimiter(_CLOSERS[_LIST]):
                    return tuple(members)

    # -- lists of bytes -----------------------------------------------------------------------

    def byte_list(self) -> memoryview:
        """The list of numbers from 0 to 255 that starts here."""
        start = self.position
        if not self.opens(_LIST, "a list of bytes"):
            return memoryview(b"")
        data = self.plain_bytes()
        if data is None:
            self.position = start + 1
            data = self.single_bytes(start)
        return memoryview(data).toreadonly()

    def single_bytes(self, start: int) -> bytearray:
        """The members one by one: for short lists, lists with comments, and to name what is wrong."""
        data = bytearray()
        buffer = self.buffer
        while True:
            match = _BYTE_MEMBER.match(buffer, self.position)
            if match is not None and int(match[1]) <= 0xFF:
                data.append(int(match[1]))
                self.position = match.end()
                if buffer[self.position - 1] != _COMMA:
                    return data
                continue
            if self.closes(_CLOSERS[_LIST]):
                return data
            integer = _INTEGER.match(buffer, self.position)
            if integer is None or not 0 <= int(integer[0]) <= 0xFF:
                self.path.append(f"[{len(data)}]")
                self.say(f"found {self.describe()}, expected a whole number from 0 to 255")
                self.path.pop()
                # One finding a list: a weight that is written wrongly is wrong all over.
                self.position = start
                self.skip()
                return data
            data.append(int(integer[0]))
            self.position = integer.end()
            if self.delimiter(_CLOSERS[_LIST]):
                return data

    def plain_bytes(self) -> bytearray | None:
        """The members all at once, if there are many and nothing but digits and commas."""
        data = bytearray()
        position = self.position
        size = FIRST_CHUNK
        while True:
            raw = bytes(self.buffer[position : position + size])
            close = raw.find(b"]")
            if close >= 0 and size == FIRST_CHUNK:
                return None
            # Cut behind a comma, so that no number is torn.
            raw = raw[:close] if close >= 0 else raw[: raw.rfind(b",") + 1]
            if not raw and close < 0:
                return None
            numbers = parsed(raw, last=close >= 0)
            if numbers is None:
                return None
            data += numbers.data
            position += len(raw)
            if close >= 0:
                self.position = position + 1
                return data
            size = min(2 * size, CHUNK)
