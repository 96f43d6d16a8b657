"""Change valid MLIR text and bytecode, and compare what we read with what MLIR reads.

    python tests/oracle/compare_refusals.py --text 20000 --bytecode 20000 --seed 1 [--state FILE]

A mutant of text has another type, number, name, keyword or attribute, or lines in another order; one of
bytecode has another byte in its attributes, types or operations. torch-mlir, in a child process, parses
and verifies each; tosa-opt judges one of each kind of disagreement. Where all accept, our graph of the
mutant must be our graph of the module that MLIR has read.

Prints each kind of disagreement with its count, who is right and why (`EXPLAINED`), and an example. Exit
code 1 if a kind has no explanation. `--table` prints the rows of docs/mlir-refusals.md.
"""

from __future__ import annotations

import argparse
import pickle
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle.mlir_child import Mlir

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.errors import CODES, Category
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.file_sections import read_sections

_HERE: Final = Path(__file__).resolve().parent
#: Larger modules are not changed.
_MAX_BYTES: Final = 3000
#: Seconds between two notes of the state.
_NOTE_EVERY: Final = 10
#: How the judges can agree.
VERDICTS: Final = (
    "all refuse",
    "all accept, equal",
    "a rule of TOSA refuses",
    "valid, but no file can hold it",
    "only MLIR refuses",
    "only we refuse",
    "other numbers",
)


# -- mutants -----------------------------------------------------------------------------------------

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
    """The text with one match of a pattern replaced by another match, or by one of more texts."""
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
    """One type replaced wherever a line, or the text, has it."""
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
    """Two lines exchanged, one left out, or one twice."""
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
    """An attribute left out, twice, or with the value of another one."""
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
    """An operand or a type in parentheses left out, or twice."""
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
    """A text with one or two changes."""
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


# -- the comparison ----------------------------------------------------------------------------------


class Ours(NamedTuple):
    """What we say: the code of the refusal and its message, or a graph."""

    code: str
    message: str = ""
    graph: tc.Graph | None = None


def ours(data: bytes) -> Ours:
    """What we say of a module."""
    try:
        graph = tc.load(data)
        found = tc.validate(graph)
    except tc.TosaConvertError as error:
        first = error.findings[0]
        return Ours(first.code, first.message)
    if found:
        return Ours("rule", found[0].rule or found[0].code)
    return Ours("", "", graph)


class Explained(NamedTuple):
    """Kinds of disagreement that match a pattern: what they are, who is right, and why."""

    pattern: str
    what: str
    who: str
    why: str


EXPLAINED: Final = (
    Explained(
        r"MLIR refuses: .*'axis' failed to satisfy constraint: _-bit",
        "an axis of type i64",
        "both",
        "releases until October 2023 wrote it so",
    ),
    Explained(
        r"MLIR refuses: (redefinition of SSA value|use of undeclared SSA)",
        "a name in the region of a function in generic form, and around it",
        "both",
        "MLIR takes the names around an isolated region for visible while it parses the generic form",
    ),
    Explained(
        r"MLIR refuses: (expected (attribute of type: )?mlir::|expected mlir::StringAttr)",
        "bytecode: a location or a string that is another attribute",
        "MLIR",
        "locations and names of attributes without a field do not change what a program computes",
    ),
    Explained(
        r"MLIR refuses: (unknown: )?'\S+' op (can only contain|arguments may only|results may only"
        r"|visibility expected|expects (argument|result) attribute array)",
        "an attribute of a function or module that its dialect does not allow",
        "MLIR",
        "only names and the target are read",
    ),
    Explained(
        r"MLIR refuses: (unknown (attribute|type) code|attempting to parse|unexpected trailing bytes"
        r"|invalid (attribute|Attribute|type|Type|string) index|MLIR ends|Unable to parse|value index)",
        "bytecode: a damaged entry that the program does not use",
        "MLIR",
        "we decode an entry when an operation uses it, and MLIR decodes or checks all",
    ),
    Explained(
        r"we refuse: duplicate-name",
        "two values that carry one name",
        "we",
        "the names of a file must differ; `names='generate'` drops them",
    ),
    Explained(
        r"we refuse: malformed-mlir: the properties of",
        "bytecode: properties that are cut off, or of the wrong kind",
        "we",
        "MLIR takes a damaged optional property for one that is absent",
    ),
    Explained(
        r"we refuse: malformed-operator: 'tosa.variable' attribute initial_value",
        "the initial value of a variable of another type",
        "we",
        "MLIR's verifier does not compare it",
    ),
    Explained(
        r"we refuse: malformed-mlir: found (_ operations at the top|'xFF')"
        r"|we refuse: malformed-mlir: the section ends",
        "several operations at the top of bytecode; a column in hexadecimal",
        "MLIR",
        "no program writes them",
    ),
    Explained(
        r"MLIR refuses: invalid tensor dimension size",
        "bytecode: a size of -1",
        "both",
        "until 2022 a dynamic size was -1; other negative sizes are refused",
    ),
    Explained(
        r"MLIR refuses: ('tosa.variable_read' op|unknown: 'func.return' op expects parent|'builtin.mod"
        r"ule' op expects region|expected operation name|invalid properties|expected integer or index)",
        "an operation outside the function that is read, or an unknown attribute",
        "MLIR",
        "we read one function, and of an operation the attributes that it has in TOSA",
    ),
    Explained(
        r"differs: .* scales data",
        "the scale 0xFF in the type of a block-scaled constant",
        "we",
        "MLIR prints NaN so, and reads the same text as the bits of a double",
    ),
)


def explanation(kind: str) -> tuple[str, str] | None:
    """Who is right in a kind of disagreement and why; None if it is not known."""
    return next(((row.who, row.why) for row in EXPLAINED if re.match(row.pattern, kind)), None)


_NAMES: Final = re.compile(
    r"%[\w#.$-]+|@[\w.$-]+|-?\b\d+(?:\.\d+)?(?:e[+-]\d+)?\b|tensor<[^>]*>+|0x\w+"
)


def _plain(message: str) -> str:
    """A message without what differs from module to module."""
    line = next((part for part in message.split("\n") if "error: " in part), message)
    text = re.sub(r"^.*?error: (?:\S+:\d+:\d+: )?", "", line)
    return _NAMES.sub("_", text)[:150]


def judged(data: bytes, mlir: Mlir) -> tuple[str, str]:
    """How the judges agree, and the kind of their disagreement; "" for none."""
    found = ours(data)
    read = mlir(data)
    if read.refusal:
        if found.code:
            return "all refuse", ""
        return "only MLIR refuses", f"MLIR refuses: {_plain(read.refusal)}"
    if found.code == "rule":
        return "a rule of TOSA refuses", ""
    if found.code:
        if CODES[found.code][0] is Category.UNSUPPORTED:
            return "valid, but no file can hold it", ""
        return "only we refuse", f"we refuse: {found.code}: {_plain(found.message)}"
    again = ours(read.module)
    if again.graph is None or found.graph is None:
        return "other numbers", f"differs: MLIR's module is refused: {again.code} {again.message}"
    difference = tc.compare(found.graph, again.graph)
    if difference:
        return "other numbers", f"differs: {_plain(str(difference))}"
    return "all accept, equal", ""


@dataclass
class Tally:
    """Counts of many mutants, by form; kinds of disagreement with an example of each."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, bytes] = field(default_factory=dict)

    def add(self, form: str, data: bytes, verdict: str, kind: str) -> None:
        """Count a mutant."""
        self.counts.setdefault(form, Counter())[verdict] += 1
        if kind:
            self.kinds[form, kind] += 1
            self.examples.setdefault(kind, data)

    def unexplained(self) -> list[str]:
        """Return the kinds of disagreement without an explanation."""
        return sorted({kind for _, kind in self.kinds if explanation(kind) is None})

    def lines(self) -> Iterator[str]:
        """The counts and the kinds of disagreement, with examples."""
        for form, counts in self.counts.items():
            yield f"{sum(counts.values())} mutants of {form}: " + ", ".join(
                f"{verdict} {count}" for verdict, count in counts.most_common()
            )
        for (form, kind), count in self.kinds.most_common():
            who, why = explanation(kind) or ("NOT EXPLAINED", "")
            yield f"{count:6} {form}: {kind}\n       {who}: {why}"


def corpus() -> list[str]:
    """The programs to change: small, and read by MLIR and by us."""
    mlir = Mlir()
    found = []
    for text in programs():
        data = text.encode()
        if text and len(data) <= _MAX_BYTES and not mlir(data).refusal and not ours(data).code:
            found.append(text)
    mlir.close()
    return found


def forms(texts: Sequence[str]) -> dict[str, list[Any]]:
    """The programs as text, and as bytecode of the versions that we write and that MLIR writes."""
    mlir = Mlir()
    binary = []
    for text in texts:
        binary.append(tc.dumps(tc.load(text.encode()), "mlirbc"))
        binary.append(mlir(text.encode()).module)
    mlir.close()
    return {"text": list(texts), "bytecode": binary}


def compare(counts: dict[str, int], seed: int, state: Path | None = None) -> Tally:
    """Judge so many mutants of each form. state: a file to continue from."""
    tally, done = Tally(), dict.fromkeys(counts, 0)
    key = (tuple(counts), seed)
    if state is not None and state.exists():
        found, tally, done = pickle.loads(state.read_bytes())
        if found != key:
            raise SystemExit(f"{state} is of other options; remove it to begin again")
    programs_of, mlir = forms(corpus()), Mlir()
    noted = 0.0
    for form, count in counts.items():
        for number in range(done[form], count):
            at = random.Random(f"{seed} {form} {number}")
            program = at.choice(programs_of[form])
            data = bytecode_mutant(program, at) if form == "bytecode" else text_mutant(program, at)
            tally.add(form, data, *judged(data, mlir))
            done[form] = number + 1
            if state is not None and (
                number + 1 == count or time.monotonic() - noted > _NOTE_EVERY
            ):
                noted = time.monotonic()
                beside = state.with_suffix(".part")
                beside.write_bytes(pickle.dumps((key, tally, done)))
                beside.replace(state)
    mlir.close()
    return tally


def table(tally: Tally) -> Iterator[str]:
    """The rows of docs/mlir-refusals.md."""
    yield "| mutants | " + " | ".join(VERDICTS) + " |"
    yield "|---|" + "---|" * len(VERDICTS)
    for form, counts in tally.counts.items():
        yield f"| {form} | " + " | ".join(f"{counts[verdict]:,}" for verdict in VERDICTS) + " |"
    yield ""
    yield "| disagreement | mutants | who is right | why |"
    yield "|---|---|---|---|"
    rows: Counter[tuple[str, str, str]] = Counter()
    for (_, kind), count in tally.kinds.items():
        row = next((row for row in EXPLAINED if re.match(row.pattern, kind)), None)
        rows[(row.what, row.who, row.why) if row else (kind, "?", "?")] += count
    for (what, who, why), count in rows.most_common():
        yield f"| {what} | {count:,} | {who} | {why} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the judges and print where they disagree."""
    parser = argparse.ArgumentParser(description="Compare what we read with what MLIR reads.")
    parser.add_argument("--text", type=int, default=20000, help="mutants of text")
    parser.add_argument("--bytecode", type=int, default=20000, help="mutants of bytecode")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, metavar="FILE", help="continue from this file")
    parser.add_argument("--examples", type=Path, metavar="DIR", help="keep an example of each kind")
    parser.add_argument("--table", action="store_true", help="print the table of the document")
    options = parser.parse_args(arguments)
    counts = {"text": options.text, "bytecode": options.bytecode}
    tally = compare(counts, options.seed, options.state)
    print("\n".join(table(tally) if options.table else tally.lines()))
    if options.examples:
        options.examples.mkdir(exist_ok=True)
        for number, ((_, kind), count) in enumerate(tally.kinds.most_common()):
            head = f"// {count}: {kind}\n".encode()
            (options.examples / f"{number}.mlir").write_bytes(head + tally.examples[kind])
    return 1 if tally.unexplained() else 0


if __name__ == "__main__":
    sys.exit(main())
