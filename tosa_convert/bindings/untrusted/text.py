"""Checks of MLIR text before MLIR's own parser reads it.

That parser recurses for each bracket and each sign without a bound: a few kilobytes of "[" exhaust its
stack and end the process. It allocates as many results as the number in "%x#N" says, and integers of any
width. Aliases that use one another let a kilobyte of text expand to a gigabyte.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tosa_convert.bindings.source_text import SourceText
from tosa_convert.bindings.untrusted.text_nesting import (
    Alias,
    definitions,
    nesting_problem,
)
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.options import DEFAULT_LIMITS, Limits
from tosa_convert.source_excerpt import excerpt_at

#: Parts that an alias may expand to, including those of the aliases that it uses.
MAX_ALIAS_PARTS: Final = 100_000
#: Results that any text may refer to. Text with more bytes may refer to as many results as it has bytes:
#: each result has a type in the text.
MAX_RESULTS: Final = 1_000_000

#: Strings and comments, whose brackets do not count. Both end at the end of the line.
_STRING_OR_COMMENT: Final = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*(?:"|\n|\Z)|//[^\n]*')
_RESULT_NUMBER: Final = re.compile(rb"(%[\w.$-]+)\s*#\s*(\d{4,})")
#: Digits of a result number that are read; a number with more digits is too large anyway.
_DIGITS: Final = 12
_WIDE_INTEGER: Final = re.compile(rb"(?:(?<![\w%@#!.$-])|(?<=[\d?\]*]x))[su]?i(\d{4,})(?![\w.$-])")
_MAYBE_WIDE_INTEGER: Final = re.compile(rb"i\d{4,}")
#: A resource's bytes begin with their alignment; MLIR asks for memory that is aligned to it.
_UNALIGNED_RESOURCE: Final = re.compile(rb':\s*"0x0{8}')
_RESOURCES: Final = b"dialect_resources"
_DAMAGED: Final = "the text is damaged; write it again"


class _Problem(NamedTuple):
    """What is wrong, and the offset at which it is."""

    offset: int
    code: str
    message: str
    hint: str


def check(text: memoryview, where: str = "", limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse text that would make MLIR's parser exhaust its stack or the memory.

    Args:
        text: The content of the file.
        where: The path of the file, or "".
        limits: `text_depth` is the largest nesting of brackets and signs, through aliases, too.

    Raises:
        TosaConvertError: With the line and column of the first problem: "too-large" for brackets,
            signs or aliases that are nested too deeply or expand too far, "malformed-mlir" for result
            numbers and alignments that no module has, "unsupported-dtype" for integers of thousands
            of bits.
    """
    raw = bytes(text)
    problem = _problem(_code_of(raw), limits.text_depth)
    if problem is not None:
        # Only now are offsets needed: look again in a copy that has the length of the text.
        located = _problem(_blank_strings(raw), limits.text_depth)
        raise _error(text, where, problem, located.offset if located is not None else None)
    resources = raw.find(_RESOURCES)
    unaligned = _UNALIGNED_RESOURCE.search(raw, resources) if resources >= 0 else None
    if unaligned is not None:
        message = "a resource is aligned to 0 bytes, expected a power of two"
        problem = _Problem(unaligned.start(), "malformed-mlir", message, _DAMAGED)
        raise _error(text, where, problem, problem.offset)


def _error(text: memoryview, where: str, problem: _Problem, offset: int | None) -> TosaConvertError:
    if offset is None:
        return fail(problem.code, where, problem.message, problem.hint)
    position = SourceText(text, where).where(offset)
    excerpt = excerpt_at(text, offset)
    return fail(problem.code, position, problem.message, problem.hint, excerpt)


def _code_of(text: bytes) -> bytes:
    """The text without strings, comments and arrows. Offsets are those of the text or smaller."""
    if b"//" in text or b'\\"' in text:
        return _without_arrows(_STRING_OR_COMMENT.sub(b" ", text))
    # Fast path of _STRING_OR_COMMENT; equal by test test_text_is_the_same_with_and_without_the_fast_path
    # (text that MLIR wrote, whose strings may be the weights)
    return _without_arrows(b" ".join(text.split(b'"')[::2]))


def _blank_strings(text: bytes) -> bytes:
    """The text with spaces in place of strings, comments and arrows. Offsets stay what they are."""
    return _without_arrows(
        _STRING_OR_COMMENT.sub(lambda match: re.sub(rb"[^\n]", b" ", match[0]), text)
    )


def _without_arrows(code: bytes) -> bytes:
    """Arrows and comparisons are not brackets and signs."""
    for mark in (b"->", b">=", b"<="):
        code = code.replace(mark, b"  ")
    return code


def _problem(code: bytes, depth: int) -> _Problem | None:
    """The first problem of text without strings, in the order of the checks."""
    aliases = definitions(code)
    offset = nesting_problem(code, aliases, depth)
    if offset is not None:
        message = f"brackets, signs or aliases are nested more than {depth} deep"
        hint = (
            "MLIR's parser could exhaust its stack; to accept it, raise the limit: "
            "--limit text-depth=N, or limits={'text-depth': N}"
        )
        return _Problem(offset, "too-large", message, hint)
    return _result_problem(code) or _width_problem(code) or _expansion_problem(aliases)


def _result_problem(code: bytes) -> _Problem | None:
    """Result numbers for which MLIR would allocate more than the text can define.

    MLIR allocates the largest number of each name once, however often the name is used.
    """
    allowed = max(MAX_RESULTS, len(code))
    largest: dict[bytes, int] = {}
    total = 0
    for match in _RESULT_NUMBER.finditer(code):
        name, number = match[1], int(match[2][:_DIGITS])
        previous = largest.get(name, 0)
        if number > previous:
            largest[name] = number
            total += number - previous
            if total > allowed:
                message = (
                    f"found result number {match[2][:20].decode()}; the text can define at most "
                    f"{allowed} results"
                )
                return _Problem(match.start(), "malformed-mlir", message, _DAMAGED)
    return None


def _width_problem(code: bytes) -> _Problem | None:
    """Integer types of a thousand bits or more."""
    # The short pattern is ten times as fast, and nearly always enough.
    wide = _WIDE_INTEGER.search(code) if _MAYBE_WIDE_INTEGER.search(code) else None
    if wide is None:
        return None
    message = f"found the type i{wide[1][:20].decode()}; TOSA has no integers over 64 bits"
    return _Problem(wide.start(), "unsupported-dtype", message, "use a type that TOSA has")


def _expansion_problem(aliases: dict[bytes, Alias]) -> _Problem | None:
    """Aliases that expand to too much, because they use one another."""
    parts: dict[bytes, int] = {}
    for name, alias in aliases.items():
        parts[name] = 1 + sum(parts.get(use, 0) for use in alias.uses)
        if parts[name] > MAX_ALIAS_PARTS:
            shown = name[:200].decode(errors="replace")
            message = f"the alias {shown} expands to more than {MAX_ALIAS_PARTS} parts"
            hint = "each use of an alias counts with all that the alias expands to"
            return _Problem(alias.start, "too-large", message, hint)
    return None
