"""Locations of operators, which are texts as MLIR prints them, in messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tosa_convert.graph.model import Operator

#: The location that a program read from MLIR has where nothing is known.
UNKNOWN_LOCATION: Final = "loc(unknown)"
#: Texts of the location of an operator that has none.
UNLOCATED: Final = ("", UNKNOWN_LOCATION)
#: A position in a file, as locations of MLIR have it. Those of bytecode are in line 0.
_FILE_POSITION: Final = re.compile(r'"([^"\\]{1,4096})":([1-9]\d{0,8}):(\d{1,9})')
#: A location that begins with a name, as those of tensors do. MLIR escapes bytes in hexadecimal.
_NAMED: Final = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')
_ESCAPED: Final = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)


def located(path: str, operator: Operator) -> str:
    """Return an operator's path behind its location, whose line and column editors can open.

    Example:
        >>> from tosa_convert.graph.opset import operator
        >>> from tosa_convert.graph.model import Operator
        >>> exp = Operator(operator("EXP"), ("x",), ("y",), {}, 'loc("f.mlir":2:8)')
        >>> print(located('region "f" block "main" operator #0 EXP', exp))
        f.mlir:2:8: region "f" block "main" operator #0 EXP
    """
    location = operator.location
    if location in UNLOCATED:
        return path
    match = _FILE_POSITION.search(location)
    if match is None or not match[1].isprintable():
        return f"{location}: {path}"
    position = f"{match[1]}:{match[2]}:{match[3]}"
    is_all = location == f"loc({match[0]})"
    return f"{position}: {path}" if is_all else f"{position}: {location}: {path}"


def name_in_location(location: str) -> str:
    """Return the name with which a location begins, such as that of the framework's tensor; "" without.

    Example:
        >>> name_in_location('loc("add_1"("m.tflite":0:0))'), name_in_location('loc("f.mlir":2:8)')
        ('add_1', '')
    """
    match = _NAMED.match(location)
    if match is None:
        return ""

    def character(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 16)]) if found[1] else found[2]

    return _ESCAPED.sub(character, match[1].encode()).decode(errors="replace")
