"""String literals of MLIR's text."""

from __future__ import annotations

import re
from typing import Final

#: A string literal, as a regular expression.
STRING: Final = r'"(?:[^"\\\n]|\\.)*"'

_ESCAPE: Final = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\nt]))')
_ESCAPES: Final = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t"}
#: Bytes that are not escaped: printable ASCII without the quotation mark and the backslash.
_PLAIN: Final = re.compile(rb"[ !#-\[\]-~]*\Z")

#: The commonest location by far has no escapes and no nesting, and numbers that are known to fit.
PLAIN_LOCATION: Final = re.compile(r'(loc\("[^"\\:]*"):([0-9]{1,9}):([0-9]{1,9})\)')


def unescape(text: str) -> bytes:
    """Return the bytes of a string literal."""
    return unescape_bytes(text[1:-1].encode("utf-8", "replace"))


def unknown_escape(raw: bytes) -> int:
    """Return where the first backslash is that begins no escape; -1 if there is none."""
    at = raw.find(b"\\")
    while at >= 0:
        found = _ESCAPE.match(raw, at)
        if found is None:
            return at
        at = raw.find(b"\\", found.end())
    return at


def unescape_bytes(raw: bytes) -> bytes:
    """Return the bytes of a string literal, from what is between its quotation marks."""
    parts, end = bytearray(), 0
    for match in _ESCAPE.finditer(raw):
        parts += raw[end : match.start()]
        parts += bytes((int(match[1], 16),)) if match[1] else _ESCAPES[match[2]]
        end = match.end()
    return bytes(parts + raw[end:])


def unquote(text: str) -> str:
    """Return the text of a string literal; bytes that are not UTF-8 become U+FFFD."""
    return unescape(text).decode("utf-8", "replace")


def quote(raw: bytes) -> str:
    """Return the string literal of these bytes: printable ASCII as it is, all others in hexadecimal."""
    if _PLAIN.match(raw):
        return f'"{raw.decode("ascii")}"'
    escaped = (
        "\\\\"
        if byte == 0x5C
        else chr(byte)
        if 32 <= byte < 127 and byte != 0x22
        else f"\\{byte:02X}"
        for byte in raw
    )
    return '"' + "".join(escaped) + '"'
