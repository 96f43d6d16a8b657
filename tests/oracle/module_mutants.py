"""Valid MLIR modules, and mutants of their text and of their bytecode.

A mutant of text has another type, number, name, keyword or attribute, or lines in another order; one of
bytecode has other bytes in its attributes, types, properties or operations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.read_sections import read_sections

_HERE: Final = Path(__file__).resolve().parent

_TYPE: Final = re.compile(r"tensor<[\w?*x!:.]*>|!tosa\.shape<\d+>")
_ELEMENT: Final = re.compile(
    r"\b(?:u?i(?:1|4|8|16|32|48|64)|index|b?f16|f32|f64|f8E4M3FN|f8E5M2)\b"
)
_NUMBER: Final = re.compile(r"(?<![\w%#@.!-])-?\d+(?:\.\d+(?:e[+-]?\d+)?)?(?![\w.])")
_VALUE: Final = re.compile(r"%[\w$.-]+(?:#\d+)?")
_SYMBOL: Final = re.compile(r"@[\w$.-]+")
_ENTRY: Final = re.compile(
    r"[a-z]\w* = (?:dense<[^>]*> : [\w<>!.?]+|array<[^>]*>|#?[\w.]+<\w+>|[\w.-]+(?: : \w+)?)"
)
_WORD: Final = re.compile(r"\b(?:true|false|[A-Z]{3,}(?:_[A-Z0-9]+)*)\b")
_OPERATION: Final = re.compile(r"\btosa\.[a-z]\w*\b")
_ELEMENTS: Final = (
    "i1",
    "i4",
    "i8",
    "ui8",
    "i16",
    "i32",
    "i48",
    "i64",
    "f16",
    "bf16",
    "f32",
    "f64",
)
_NUMBERS: Final = ("0", "1", "-1", "2", "7", "128", "-129", "1.5", "-0.0", "4294967296", "0xFF")


def _replaced(text: str, found: re.Match[str], new: str) -> str:
    return text[: found.start()] + new + text[found.end() :]


def _another(pattern: re.Pattern[str], more: Sequence[str], text: str, at: random.Random) -> str:
    """Return the text with one match of a pattern replaced by another match, or by one of more texts."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    choice = [*more, *(match[0] for match in at.sample(found, min(4, len(found))))]
    return _replaced(text, at.choice(found), at.choice(choice))


def _other_shape(text: str, at: random.Random) -> str:
    """Another size, rank or element of one type."""
    found = [match for match in _TYPE.finditer(text) if match[0].startswith("tensor<")]
    if not found:
        return text
    match = at.choice(found)
    *sizes, element = match[0][7:-1].split("x") if "!" not in match[0] else (match[0][7:-1],)
    change = at.randrange(4)
    if change == 0 and sizes:
        sizes[at.randrange(len(sizes))] = at.choice(("1", "2", "3", "?", "0", "5"))
    elif change == 1:
        sizes.insert(at.randint(0, len(sizes)), at.choice(("1", "2")))
    elif change == 2 and sizes:
        del sizes[at.randrange(len(sizes))]
    else:
        element = at.choice(_ELEMENTS)
    return _replaced(text, match, f"tensor<{'x'.join([*sizes, element])}>")


def _everywhere(text: str, at: random.Random) -> str:
    """Return one type replaced wherever a line, or the text, has it."""
    types = sorted({match[0] for match in _TYPE.finditer(text)})
    if not types:
        return text
    old = at.choice(types)
    new = _other_shape(old, at) if at.random() < 0.7 else at.choice(types)
    if at.random() < 0.5:
        return text.replace(old, new)
    lines = text.split("\n")
    number = at.choice([n for n, line in enumerate(lines) if old in line])
    lines[number] = lines[number].replace(old, new)
    return "\n".join(lines)


def _lines(text: str, at: random.Random) -> str:
    """Return two lines exchanged, one left out, or one twice."""
    lines = text.split("\n")
    first, second, change = (at.randrange(end) for end in (len(lines), len(lines), 4))
    if change == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif change == 1:
        del lines[first]
    else:
        lines.insert(second if change == 2 else first, lines[first])
    return "\n".join(lines)


def _entry(text: str, at: random.Random) -> str:
    """Return an attribute left out, twice, or with the value of another one."""
    found = list(_ENTRY.finditer(text))
    if not found:
        return text
    match, other, change = at.choice(found), at.choice(found), at.randrange(4)
    key, _, value = match[0].partition(" = ")
    if change == 0:
        return re.sub(r"\{, |, (?=\})", lambda m: m[0][:1] if m[0][0] == "{" else "",
                      _replaced(text, match, "").replace(", ,", ","))  # fmt: skip
    if change == 1:
        return _replaced(text, match, f"{match[0]}, {match[0]}")
    if change == 2:
        return _replaced(text, match, f"{key} = {other[0].partition(' = ')[2]}")
    return _replaced(text, match, f"{match[0]}, x{key} = {value}")


def _listed(text: str, at: random.Random) -> str:
    """Return an operand or a type in parentheses left out, or twice."""
    found = list(re.finditer(r"(?<=[(,])\s*(?:%[\w#.$-]+|tensor<[^>]*>)(?=[,)])", text))
    if not found:
        return text
    match = at.choice(found)
    return _replaced(text, match, at.choice(("", f"{match[0]}, {match[0].strip()}")))


_CHANGES: Final = (
    _other_shape,
    _everywhere,
    _lines,
    _entry,
    _listed,
    lambda text, at: _another(_TYPE, (), text, at),
    lambda text, at: _another(_ELEMENT, _ELEMENTS, text, at),
    lambda text, at: _another(_NUMBER, _NUMBERS, text, at),
    lambda text, at: _another(_VALUE, (), text, at),
    lambda text, at: _another(_SYMBOL, ("@v", "@f"), text, at),
    lambda text, at: _another(_WORD, ("true", "IGNORE"), text, at),
    lambda text, at: _another(_OPERATION, ("tosa.add", "tosa.yield", "tosa.const"), text, at),
)


def text_mutant(text: str, at: random.Random) -> bytes:
    """Return a text with one or two changes."""
    mutant = text
    for _ in range(1 if at.random() < 0.7 else 2):
        mutant = at.choice(_CHANGES)(mutant, at)
    return mutant.encode()


def bytecode_mutant(data: bytes, at: random.Random) -> bytes:
    """Bytecode with another number in an attribute, a type or an operation."""
    sections = Bytecode(read_sections(memoryview(data), "mutant")).file.sections
    section = sections[at.choice((2, 2, 4, 8)) if 8 in sections else at.choice((2, 2, 4))]
    changed = bytearray(data)
    if not len(section.bytes):
        return data
    for _ in range(1 if at.random() < 0.7 else 2):
        place = section.offset + at.randrange(len(section.bytes))
        old = changed[place]
        near = (old + at.choice((2, -2, 4, -4, 6))) & 0xFF
        changed[place] = at.choice((near, near, old ^ 1 << at.randrange(8), at.randrange(256)))
    return bytes(changed)


def programs() -> Iterator[str]:
    """Valid modules: those of the tests, and generated ones in both forms."""
    folders = (_HERE / "cases", _HERE.parent / "text")
    for file in sorted(path for folder in folders for path in folder.glob("*.mlir")):
        if not file.name.startswith("error"):
            for module in file.read_text(encoding="utf-8").split("// -----"):
                yield "\n".join(
                    line for line in module.split("\n") if not line.lstrip().startswith("//")
                ).strip()
    for seed in range(60):
        graph = golden.generate(seed, 3 + seed % 4)
        for generic in (False, True):
            yield tc.dumps(graph, "mlir", generic=generic, locations=False).decode()
