"""Values of an untrusted JSON text: objects, strings, numbers, and lists of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tosa_convert.errors import MAX_FINDINGS, Finding
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.io.options import Limits
from tosa_convert.io.source_excerpt import excerpt_at

# -- a position in an untrusted JSON text, which never becomes a tree ------------------------------
# JSON, and what flatc accepts beyond it: comments, unquoted keys, a comma after the last member.

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
        """Record a finding at a byte, by default here; raise Stop if there are too many."""
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
        return self.buffer[self.position] if self.position < self.size else -1

    def space(self) -> None:
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


#: Memory in bytes: of a member of a list of numbers, of one of a list of strings, and of a string.
INTEGER_MEMORY: Final = 40
ENTRY_MEMORY: Final = 20
STRING_MEMORY: Final = 120
#: Members of an enum that a message lists.
LISTED: Final = 24
#: Distinct strings that are shared if the text repeats them.
REMEMBERED: Final = 1 << 16
#: Bytes of text in the first block of a list of bytes; later blocks are larger, up to CHUNK.
FIRST_CHUNK: Final = 1 << 10
#: Texts of fewer bytes are read without numpy, which takes less time than its import.
_LITTLE: Final = 1 << 20
#: What a list of bytes in JSON is made of, so that it has neither other lists nor words.
_OF_BYTES: Final = re.compile(rb"[0-9, \t\r\n]*")

_KEY: Final = re.compile(SPACE + rb'"(\w{1,64})"' + SPACE + rb":" + SPACE)
_BARE_KEY: Final = re.compile(rb"[A-Za-z_]\w*")
_STRING_MEMBER: Final = re.compile(SPACE + rb'"([^"\\\x00-\x1f]*)"' + SPACE + rb"([,\]])")
# 20 digits are enough for the widest field; longer numbers are refused before they are converted.
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,19})(?![\w.+-])")
_BYTE_MEMBER: Final = re.compile(SPACE + rb"(0|[1-9][0-9]{0,2})" + SPACE + rb"([,\]])")
_BOOL: Final = re.compile(rb"(true|false|0|1)(?![\w.+-])")
_NULL: Final = re.compile(rb"null(?![\w.+-])")
_TRUE: Final = frozenset({b"true", b"1"})
_ESCAPES: Final = {
    ord(escape): text
    for escape, text in {
        '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"
    }.items()
}  # fmt: skip

#: Field -> the function that reads its value.
FieldReaders: TypeAlias = dict[str, Callable[[], Any]]


class Scanner(Cursor):
    """Reads the value at the position; reports a wrong one and returns an empty one instead."""

    def __init__(self, buffer: memoryview, limits: Limits) -> None:
        super().__init__(buffer, limits)
        self._strings: dict[bytes, str] = {}

    def table(self, readers: FieldReaders) -> dict[str, Any]:
        """Read the object that starts here; members that are null are left out."""
        values: dict[str, Any] = {}
        if not self.opens(OBJECT, "an object"):
            return values
        self.depth += 1
        buffer, path = self.buffer, self.path
        while True:
            match = _KEY.match(buffer, self.position)
            if match is None:
                if self.closes(CLOSERS[OBJECT]):
                    break
                start = self.position
                key = self.any_key()
            else:
                # Fast path of any_key; equal by test test_a_key_is_read_alike_in_every_form
                start = match.start(1) - 1
                key = match[1].decode("ascii")
                self.position = match.end()
            reader = readers.get(key)
            path.append(f".{key[:QUOTED]}")
            if reader is None:
                expected = ", ".join(readers) or "none"
                self.add(f"unknown field, expected one of: {expected}", at=start)
                self.skip()
            elif self.peek() == 0x6E and _NULL.match(buffer, self.position):
                self.position += 4
            elif key in values:
                self.add("duplicate field", at=start)
                self.skip()
            else:
                values[key] = reader()
            path.pop()
            if self.delimiter(CLOSERS[OBJECT]):
                break
        self.depth -= 1
        return values

    def any_key(self) -> str:
        """Read the key that starts here, with or without quotes, escapes, and comments around it."""
        if self.peek() == QUOTE:
            key = self.string()
        else:
            match = _BARE_KEY.match(self.buffer, self.position)
            if match is None:
                raise self.stop(f"found {self.describe()}, expected a field's name")
            key = match[0].decode("ascii")
            self.position = match.end()
        self.space()
        if self.peek() != COLON:
            raise self.stop(f'found {self.describe()}, expected ":" after a field\'s name')
        self.position += 1
        self.space()
        return key

    def tables(self, member: Callable[[], Any]) -> list[Any]:
        members: list[Any] = []
        if not self.opens(LIST, "a list of objects"):
            return members
        self.depth += 1
        index = 0
        while not self.closes(CLOSERS[LIST]):
            self.path.append(f"[{index}]")
            members.append(member())
            self.path.pop()
            index += 1
            if self.delimiter(CLOSERS[LIST]):
                break
        self.depth -= 1
        return members

    def string(self) -> str:
        match = STRING.match(self.buffer, self.position)
        if match is None:
            if self.peek() != QUOTE:
                self.unexpected("a string")
                return ""
            return self.escaped_string()
        # Fast path of escaped_string; equal by test test_any_name_survives
        self.position = match.end()
        return self.remembered(match[1], match.start(1))

    def remembered(self, raw: bytes, at: int) -> str:
        """Return the text of the UTF-8 bytes at `at`; equal texts are one object."""
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
            # Python stores every character of a string as wide as the widest.
            self.charge(STRING_MEMORY + len(text) * (1 if text.isascii() else 4))
            return text
        except UnicodeDecodeError as error:
            self.add("a string is not UTF-8", at=at + error.start)
            return ""

    def escaped_string(self) -> str:
        """Read the string that starts here, with or without escapes."""
        start = self.position
        self.position += 1
        parts: list[str] = []
        while True:
            match = PLAIN.match(self.buffer, self.position)
            assert match is not None
            parts.append(self.decoded(match[0], self.position))
            self.position = match.end()
            character = self.peek()
            if character == QUOTE:
                self.position += 1
                return "".join(parts)
            if character != BACKSLASH:
                raise self.bad_string(start)
            parts.append(self.escape())

    def escape(self) -> str:
        """Read the character that the escape here means."""
        start = self.position
        raw = bytes(self.buffer[start + 1 : start + 2])
        text = _ESCAPES.get(raw[0]) if raw else None
        if text is not None:
            self.position += 2
            return text
        unit = self.code_unit()
        if 0xD800 <= unit < 0xDC00:
            low = self.code_unit() if self.peek() == BACKSLASH else -1
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00)
            unit = -1
        if unit < 0 or 0xDC00 <= unit < 0xE000:
            end = start + (6 if raw == b"u" else 2)
            text = bytes(self.buffer[start:end]).decode(errors="replace")
            raise self.stop(f"the escape {text} is not a character", at=start)
        return chr(unit)

    def code_unit(self) -> int:
        r"""Read the number of the `\uXXXX` here; return -1 if it is not one."""
        digits = bytes(self.buffer[self.position + 2 : self.position + 6])
        if bytes(self.buffer[self.position + 1 : self.position + 2]) != b"u":
            return -1
        if not re.fullmatch(rb"[0-9A-Fa-f]{4}", digits):
            return -1
        self.position += 6
        return int(digits, 16)

    def integer(self, low: int, high: int) -> int:
        """Read the integer that starts here; 0 after a finding if it is not from `low` to `high`."""
        match = _INTEGER.match(self.buffer, self.position)
        if match is not None:
            value = int(match[0])
            if low <= value <= high:
                self.position = match.end()
                return value
        self.unexpected(f"a whole number from {low} to {high}")
        return 0

    def boolean(self) -> bool:
        match = _BOOL.match(self.buffer, self.position)
        if match is None:
            self.unexpected("true or false")
            return False
        self.position = match.end()
        return match[1] in _TRUE

    def enum(self, name: str, members: Mapping[str, int], high: int) -> int:
        """Read the enum's member that is named here, or a number from 0 to `high`; return its number."""
        if self.peek() == QUOTE:
            start = self.position
            value = members.get(self.string())
            if value is not None:
                return value
            self.position = start
        elif match := _INTEGER.match(self.buffer, self.position):
            value = int(match[0])
            if 0 <= value <= high:
                self.position = match.end()
                return value
        names = ", ".join(members) if len(members) <= LISTED else ""
        self.unexpected(
            f"the name of a member of {name}, or its number", names and f"names: {names}"
        )
        return 0

    def strings(self) -> tuple[str, ...]:
        members: list[str] = []
        if not self.opens(LIST, "a list of strings"):
            return ()
        buffer = self.buffer
        while True:
            match = _STRING_MEMBER.match(buffer, self.position)
            if match is not None:
                # Fast path of string; equal by test test_members_of_lists_are_read_alike_in_every_form
                self.position = match.end()
                members.append(self.remembered(match[1], match.start(1)))
                self.charge(ENTRY_MEMORY)
                if buffer[self.position - 1] != COMMA:
                    return tuple(members)
            elif self.closes(CLOSERS[LIST]):
                return tuple(members)
            else:
                self.path.append(f"[{len(members)}]")
                members.append(self.string())
                self.charge(ENTRY_MEMORY)
                self.path.pop()
                if self.delimiter(CLOSERS[LIST]):
                    return tuple(members)

    def integers(self, low: int, high: int) -> tuple[int, ...]:
        members: list[int] = []
        if not self.opens(LIST, "a list of numbers"):
            return ()
        while not self.closes(CLOSERS[LIST]):
            self.path.append(f"[{len(members)}]")
            members.append(self.integer(low, high))
            self.charge(INTEGER_MEMORY)
            self.path.pop()
            if self.delimiter(CLOSERS[LIST]):
                break
        return tuple(members)

    # -- lists of bytes -----------------------------------------------------------------------

    def byte_list(self) -> memoryview:
        """Read the list of integers from 0 to 255 that starts here."""
        start = self.position
        if not self.opens(LIST, "a list of bytes"):
            return memoryview(b"")
        data = self.all_at_once()
        if data is None:
            self.position = start + 1
            data = self.one_by_one(start)
        return memoryview(data).toreadonly()

    def one_by_one(self, start: int) -> bytearray:
        """Read the members of any list, short, with comments, or wrong; `start` is its bracket."""
        data = bytearray()
        buffer = self.buffer
        while True:
            match = _BYTE_MEMBER.match(buffer, self.position)
            if match is not None and int(match[1]) <= 0xFF:
                data.append(int(match[1]))
                self.position = match.end()
                if buffer[self.position - 1] != COMMA:
                    return data
                continue
            if self.closes(CLOSERS[LIST]):
                return data
            integer = _INTEGER.match(buffer, self.position)
            if integer is None or not 0 <= int(integer[0]) <= 0xFF:
                self.path.append(f"[{len(data)}]")
                self.add(f"found {self.describe()}, expected a whole number from 0 to 255")
                self.path.pop()
                # One finding for a list: a weight in the wrong form has it in every member.
                self.position = start
                self.skip()
                return data
            data.append(int(integer[0]))
            self.position = integer.end()
            if self.delimiter(CLOSERS[LIST]):
                return data

    def all_at_once(self) -> bytearray | None:
        """Read the members if there are many, all are right, and there are no comments; else None."""
        # Fast path of one_by_one; equal by test test_long_lists_of_bytes_are_read_as_json_does
        data = bytearray()
        position = self.position
        size = FIRST_CHUNK
        while True:
            raw = bytes(self.buffer[position : position + size])
            close = raw.find(b"]")
            if close >= 0 and size == FIRST_CHUNK:
                return None
            # Cut after a comma, so that no number is split.
            raw = raw[:close] if close >= 0 else raw[: raw.rfind(b",") + 1]
            if not raw and close < 0:
                return None
            parse = few_bytes if self.size < _LITTLE else parse_byte_list
            numbers = parse(raw, last=close >= 0)
            if numbers is None:
                return None
            data += numbers
            position += len(raw)
            if close >= 0:
                self.position = position + 1
                return data
            size = min(2 * size, CHUNK)


def few_bytes(raw: bytes, *, last: bool) -> bytes | None:
    """Do what `parse_byte_list` does, without numpy."""
    import json  # few texts have long lists

    # Fast path of parse_byte_list; equal by test
    # test_numbers_are_converted_at_once_only_if_all_of_them_are_right
    listed = raw.strip(b" \t\r\n")
    text = listed.removesuffix(b",")
    if not _OF_BYTES.fullmatch(text) or (listed and (not text or (not last and text == listed))):
        return None
    try:
        return bytes(json.loads(b"[%b]" % text))
    except ValueError:
        return None


def parse_byte_list(raw: bytes, *, last: bool) -> memoryview | None:
    """Parse a text "1, 2, 3," without comments; return None unless it is exactly that."""
    text = np.frombuffer(raw, np.uint8)
    digits = text - ord("0") < 10
    count = int(np.count_nonzero(digits[1:] > digits[:-1])) + int(digits[:1].sum())
    dense = raw.translate(None, b" \t\r\n")
    if last and dense and not dense.endswith(b","):
        dense += b","
    text = np.frombuffer(dense, np.uint8)
    commas = np.flatnonzero(text == ord(","))
    # As many numbers as commas before white space was removed: white space has split none of them.
    if len(commas) != count or np.count_nonzero(text - ord("0") < 10) != len(text) - count:
        return None
    if not count:
        return memoryview(b"") if not dense else None
    lengths = np.diff(commas, prepend=-1) - 1
    if lengths.min() < 1 or lengths.max() > 3:
        return None
    values = (text[commas - 1] - ord("0")).astype(np.uint16)
    # An index before a number's first digit is in the previous number; the mask drops that digit.
    for place, weight in ((2, 10), (3, 100)):
        present = lengths >= place
        digit = np.where(present, text[commas - place] - ord("0"), 0).astype(np.uint16)
        # JSON has no leading zeros.
        if ((lengths == place) & (digit == 0)).any():
            return None
        values += digit * np.uint16(weight)
    if values.max() > 0xFF:
        return None
    return memoryview(values.astype(np.uint8).data)
