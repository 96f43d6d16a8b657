"""Strings as MLIR's text spells them."""

from __future__ import annotations

import re
from typing import Final

#: A string in quotes, with escapes.
STRING: Final = r'"(?:[^"\\\n]|\\.)*"'

_ESCAPE: Final = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\ntr]))')
_ESCAPES: Final = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def unescape(text: str) -> bytes:
    def replace(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 16)]) if found[1] else _ESCAPES[found[2]]

    return _ESCAPE.sub(replace, text[1:-1].encode("utf-8", "replace"))


def unquote(text: str) -> str:
    """The string that a quoted MLIR string spells."""
    return unescape(text).decode("utf-8", "replace")


def quote(raw: bytes) -> str:
    """A string as MLIR quotes it: printable ASCII as it is, all other bytes in hexadecimal."""
    escaped = (
        "\\\\"
        if byte == 0x5C
        else chr(byte)
        if 32 <= byte < 127 and byte != 0x22
        else f"\\{byte:02X}"
        for byte in raw
    )
    return '"' + "".join(escaped) + '"'
