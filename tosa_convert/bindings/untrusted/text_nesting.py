"""How deeply MLIR text nests brackets and signs, where an alias counts as what it stands for.

The depth at a position is the number of brackets that are open there, plus the signs that apply to them:
`-(` counts two, `- - x` counts two, and the sign of a plain number does not count.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

_DEFINITION: Final = re.compile(rb"([#!][\w.$-]+)\s*=(?!=)")
_ALIAS: Final = re.compile(rb"[#!][\w.$-]+")
_BRACKETS: Final = b"([{<)]}>"
_OPENING: Final = frozenset(b"([{<")
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[list(b"([{<")] = 1
_STEPS[list(b")]}>")] = -1
#: Up to this many brackets, a loop is faster than numpy, and most texts repeat few patterns.
_FEW: Final = 16
#: Signs that apply to a bracket or to another sign.
_NESTED_SIGNS: Final = re.compile(rb"-(?:\s*-)*(?=\s*[(\[{<])|-(?:\s*-)+")
#: What the exact measure reads: signs and the bracket that they apply to, signs alone, an alias.
_TOKEN: Final = re.compile(
    rb"(?P<signs>(?:-\s*)*)(?P<open>[(\[{<])|(?P<close>[)\]}>])"
    rb"|(?P<run>-(?:\s*-)+)|(?P<alias>[#!][\w.$-]+)"
)


class Alias(NamedTuple):
    """The definition of an alias. start: the offset of the body; uses: aliases in the body."""

    start: int
    body: bytes
    uses: list[bytes]


def definitions(code: bytes) -> dict[bytes, Alias]:
    """The aliases that a text without strings and comments defines, each after those that it uses.

    MLIR refuses cycles. Here an alias of a cycle is before one of those that it uses.
    """
    found = list(_DEFINITION.finditer(code))
    names = {match[1] for match in found}
    ends = [match.start() for match in found[1:]] + [len(code)] * bool(found)
    aliases = {}
    for match, end in zip(found, ends, strict=True):
        body = _body(code[match.end() : end])
        plain = b"#" not in body and b"!" not in body
        uses = [] if plain else [name for name in _ALIAS.findall(body) if name in names]
        aliases[match[1]] = Alias(match.end(), body, uses)
    return _sorted(aliases)


def _body(text: bytes) -> bytes:
    """What follows the "=" of an alias, up to the end of a line at which all brackets are closed."""
    open_brackets = 0
    end = 0
    while end < len(text):
        stop = text.find(b"\n", end)
        stop = len(text) if stop < 0 else stop
        line = text[end:stop].translate(None, _OTHERS)
        closed = sum(map(line.count, (b")", b"]", b"}", b">")))
        open_brackets += len(line) - 2 * closed
        end = stop + 1
        if open_brackets <= 0 and text[:stop].strip():
            break
    return text[:end]


def _sorted(aliases: dict[bytes, Alias]) -> dict[bytes, Alias]:
    """Aliases, each after those that it uses."""
    begun: set[bytes] = set()
    done: dict[bytes, Alias] = {}
    for name, alias in aliases.items():
        if name not in begun and all(use in done for use in alias.uses):
            begun.add(name)
            done[name] = alias
            continue
        pending = [name]
        while pending:
            top = pending[-1]
            if top not in begun:
                begun.add(top)
                pending += [use for use in aliases[top].uses if use not in begun]
                continue
            pending.pop()
            done[top] = aliases[top]
    return done


def nesting_problem(code: bytes, aliases: dict[bytes, Alias], limit: int) -> int | None:
    """The offset at which a text without strings and comments nests deeper than `limit`, or None."""
    # Fast path of exact_depth; equal by test test_the_bound_is_never_below_the_exact_depth
    # (an upper bound, which is nearly always enough)
    if _bound(code, aliases, limit) <= limit:
        return None
    depths: dict[bytes, int] = {}
    for name, alias in aliases.items():
        depths[name], offset = exact_depth(alias.body, depths, limit)
        if offset is not None:
            return alias.start + offset
    return exact_depth(code, depths, limit)[1]


def _bound(code: bytes, aliases: dict[bytes, Alias], limit: int) -> int:
    """A depth that the text does not exceed."""
    depths: dict[bytes, int] = {}
    for name, alias in aliases.items():
        depth = bracket_depth(alias.body)
        if alias.uses:
            depth += max(depths.get(use, 0) for use in alias.uses)
        depths[name] = depth
    bound = bracket_depth(code) + max(depths.values(), default=0)
    # If the brackets of an alias stay open, its signs count where it is defined and where it is used.
    signs = 2 * code.count(b"-")
    if bound + signs > limit and signs:
        signs = 2 * sum(match[0].count(b"-") for match in _NESTED_SIGNS.finditer(code))
    return bound + signs


def bracket_depth(code: bytes) -> int:
    """The largest number of brackets that are open at once."""
    brackets = code.translate(None, _OTHERS)
    if len(brackets) < _FEW:
        return _few_brackets_depth(brackets)
    total = np.cumsum(_STEPS[np.frombuffer(brackets, np.uint8)], dtype=np.int32)
    # A bracket that closes nothing does not make room for one that opens.
    lowest = np.minimum(np.minimum.accumulate(total), 0)
    return int((total - lowest).max())


@lru_cache(maxsize=1024)
def _few_brackets_depth(brackets: bytes) -> int:
    depth = deepest = 0
    for bracket in brackets:
        depth = depth + 1 if bracket in _OPENING else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def exact_depth(code: bytes, aliases: dict[bytes, int], limit: int) -> tuple[int, int | None]:
    """The depth of a text, and the offset at which it first exceeds the limit.

    aliases: name -> depth of what it stands for.
    """
    depth = deepest = 0
    opened: list[int] = []
    for match in _TOKEN.finditer(code):
        kind = match.lastgroup
        if kind == "close":
            if opened:
                depth -= opened.pop()
            continue
        if kind == "open":
            opened.append(1 + match["signs"].count(b"-"))
            depth += opened[-1]
            here = depth
        elif kind == "run":
            here = depth + match["run"].count(b"-")
        else:
            here = depth + aliases.get(match["alias"], 0)
        deepest = max(deepest, here)
        if here > limit:
            return deepest, match.start()
    return deepest, None
