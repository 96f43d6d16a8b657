"""MLIR text, looked at before MLIR's own parser sees it.

That parser calls itself for each bracket that it enters, without bound: some kilobytes of "[" use its
stack up and end the process. It makes room for as many results as the number behind "%x#" says, and
for integers of any width. And aliases that stand for one another let a kilobyte spell a gigabyte.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail

#: Brackets of any kind within one another. MLIR's parser dies of some 6,000 on a stack of 8 MiB; the
#: deepest modules that we write ourselves have twice as many as regions (bindings/write.py).
MAX_DEPTH: Final = 1024
#: Parts that an alias may stand for, those of the aliases in it included.
MAX_PARTS: Final = 100_000
#: Numbers of results, added up; MLIR makes room for all of them.
MAX_RESULTS: Final = 1_000_000

#: What may hold brackets that are none: strings and comments. Both end with their line.
_QUIET: Final = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*(?:"|\n|\Z)|//[^\n]*')
_RESULT: Final = re.compile(rb"#\s*(\d{4,})")
_DIGITS: Final = 12
_MINUS: Final = re.compile(rb"(?:-\s*){%d}" % MAX_DEPTH)
_WIDE: Final = re.compile(rb"(?:(?<![\w%@#!.$-])|(?<=[\d?\]*]x))[su]?i(\d{4,})(?![\w.$-])")
_MAYBE_WIDE: Final = re.compile(rb"i\d{4,}")
#: A resource's bytes begin with their alignment; MLIR asks for memory that is aligned to it.
_UNALIGNED: Final = re.compile(rb':\s*"0x0{8}')
_RESOURCES: Final = b"dialect_resources"
_DEFINITION: Final = re.compile(rb"([#!][\w.$-]+)\s*=(?!=)")
_ALIAS: Final = re.compile(rb"[#!][\w.$-]+")
_BRACKETS: Final = b"([{<)]}>"
#: Brackets up to which counting them is enough, and much faster: most aliases have two or four.
_FEW: Final = 16
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[list(b"([{<")] = 1
_STEPS[list(b")]}>")] = -1
_DAMAGED: Final = "the text is damaged; write it again"


def check(text: memoryview, where: str = "") -> None:
    """Refuse text that would have MLIR's parser use up its stack or the memory.

    Raises TosaConvertError("too-large") for brackets or aliases within one another, ("malformed-mlir")
    for numbers of results and alignments that no module has, ("unsupported-dtype") for integers of
    thousands of bits.
    """
    raw = bytes(text)
    code = _without_strings(raw)
    for mark in (b"->", b">=", b"<="):
        code = code.replace(mark, b" ")
    signs = code.count(b"-") >= MAX_DEPTH and _MINUS.search(code) is not None
    if signs or _depth(code) > MAX_DEPTH:
        raise _deep(where, f"brackets or signs are nested more than {MAX_DEPTH} deep")
    total = 0
    for digits in _RESULT.findall(code):
        total += int(digits[:_DIGITS])
        if total > MAX_RESULTS:
            message = f"found result number {digits[:20].decode()}, and no operation has that many"
            raise fail("malformed-mlir", where, message, _DAMAGED)
    # The short pattern is ten times as fast, and nearly always enough.
    wide = _WIDE.search(code) if _MAYBE_WIDE.search(code) else None
    if wide is not None:
        message = f"found the type i{wide[1][:20].decode()}; TOSA has no integers over 64 bits"
        raise fail("unsupported-dtype", where, message, "use a type that TOSA has")
    resources = raw.find(_RESOURCES)
    if resources >= 0 and _UNALIGNED.search(raw, resources) is not None:
        message = "a resource is aligned to 0 bytes, expected a power of two"
        raise fail("malformed-mlir", where, message, _DAMAGED)
    _check_aliases(code, where)


def _deep(where: str, message: str) -> TosaConvertError:
    hint = "MLIR's parser would use up its stack; --limit text-depth=N allows more"
    return fail("too-large", where, message, hint)


def _without_strings(text: bytes) -> bytes:
    """The text without its strings and comments."""
    if b"//" in text or b'\\"' in text:
        return _QUIET.sub(b" ", text)
    # Text that MLIR wrote, whose strings may be the weights: far faster than a pattern.
    return b" ".join(text.split(b'"')[::2])


def _depth(code: bytes) -> int:
    """Most brackets within one another; of few how many open, which is no less."""
    brackets = code.translate(None, _OTHERS)
    if len(brackets) < _FEW:
        return sum(map(brackets.count, (b"(", b"[", b"{", b"<")))
    steps = _STEPS[np.frombuffer(brackets, np.uint8)]
    return int(np.cumsum(steps, dtype=np.int32).max())


def _check_aliases(code: bytes, where: str) -> None:
    """Refuse aliases that stand for too much, or stand within one another too deeply."""
    found = list(_DEFINITION.finditer(code))
    ends = [match.start() for match in found][1:] + [len(code)] * bool(found)
    named = {match[1] for match in found}
    uses: dict[bytes, list[bytes]] = {}
    depths: dict[bytes, int] = {}
    for match, end in zip(found, ends, strict=True):
        body = _first(code[match.end() : end])
        plain = b"#" not in body and b"!" not in body
        uses[match[1]] = [] if plain else [n for n in _ALIAS.findall(body) if n in named]
        depths[match[1]] = _depth(body)
    parts: dict[bytes, int] = {}
    for name in uses:
        pending = [name]
        while pending:
            top = pending[-1]
            if parts.get(top):
                pending.pop()
                continue
            # 0: being looked at. What is met again stands for itself, which MLIR refuses.
            if top not in parts:
                parts[top] = 0
                pending += [use for use in uses[top] if use not in parts]
                continue
            pending.pop()
            parts[top] = 1 + sum(parts[use] for use in uses[top])
            depths[top] += max((depths[use] for use in uses[top]), default=0)
            if parts[top] > MAX_PARTS:
                message = f"{top[:200].decode(errors='replace')} stands for over {MAX_PARTS} parts"
                raise fail("too-large", where, message, "aliases that use one another multiply")
            if depths[top] > MAX_DEPTH:
                raise _deep(where, f"aliases are nested more than {MAX_DEPTH} deep")


def _first(body: bytes) -> bytes:
    """What follows an alias's "=", up to the end of a line at which all brackets are closed."""
    open_brackets = 0
    end = 0
    while end < len(body):
        stop = body.find(b"\n", end)
        stop = len(body) if stop < 0 else stop
        line = body[end:stop].translate(None, _OTHERS)
        closed = sum(map(line.count, (b")", b"]", b"}", b">")))
        open_brackets += len(line) - 2 * closed
        end = stop + 1
        if open_brackets <= 0 and body[:stop].strip():
            break
    return body[:end]
