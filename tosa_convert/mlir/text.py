"""MLIR text, looked at before MLIR's own parser sees it.

That parser calls itself for each bracket that it enters, without bound: some kilobytes of "[" use its
stack up and end the process. And it makes room for as many results as the number behind "%x#" says.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from tosa_convert.errors import fail

#: Brackets of any kind within one another. MLIR's parser dies of some 6,000 on a stack of 8 MiB; the
#: deepest modules that we write ourselves have twice as many as regions (mlir/write.py).
MAX_DEPTH: Final = 1024

#: Bytes that are looked at together, for their share of memory.
_CHUNK: Final = 1 << 24
#: What may hold brackets that are none: strings and comments.
_QUIET: Final = re.compile(rb'"(?:[^"\\\n]|\\.)*(?:"|\n|$)|//[^\n]*')
#: The number of a result, of which no sound text has that many.
_RESULT: Final = re.compile(rb"%[\w.$-]{1,200}#\d{6,}")
_BRACKETS: Final = b"([{<)]}>"
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[list(b"([{<")] = 1
_STEPS[list(b")]}>")] = -1


def check(text: memoryview, where: str = "") -> None:
    """Refuse text with more than MAX_DEPTH brackets within one another, or results beyond counting.

    Raises TosaConvertError("too-large"), and ("malformed-mlir") for such a result.
    """
    depth = 0
    inside = False
    for start in range(0, len(text), _CHUNK):
        code, inside = _without_strings(bytes(text[start : start + _CHUNK]), inside)
        result = _RESULT.search(code)
        if result is not None:
            raise fail(
                "malformed-mlir",
                where,
                f"found {result[0].decode()}, and no operation has that many results",
                "the text is damaged; write it again",
            )
        for arrow in (b"->", b">=", b"<="):
            code = code.replace(arrow, b"")
        brackets = code.translate(None, _OTHERS)
        if not brackets:
            continue
        depths = np.cumsum(_STEPS[np.frombuffer(brackets, np.uint8)], dtype=np.int64)
        if depth + int(depths.max()) > MAX_DEPTH:
            raise fail(
                "too-large",
                where,
                f"brackets are nested more than {MAX_DEPTH} deep",
                "MLIR's parser would use up its stack; --limit text-depth=N allows more",
            )
        depth += int(depths[-1])


def _without_strings(text: bytes, inside: bool) -> tuple[bytes, bool]:
    """The text without its strings and comments, and whether it ends inside of a string.

    inside: whether it begins inside of one.
    """
    if b"//" in text or b'\\"' in text:
        return _QUIET.sub(b"", b'"' + text if inside else text), False
    # Text that MLIR wrote, whose strings may be the weights: far faster than a pattern.
    parts = text.split(b'"')
    return b"".join(parts[int(inside) :: 2]), inside ^ (len(parts) % 2 == 0)
