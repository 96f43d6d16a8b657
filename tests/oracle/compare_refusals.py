"""Change valid MLIR text and bytecode, and compare what we read with what MLIR reads.

    python tests/oracle/compare_refusals.py [--text N] [--bytecode N] [--seed N] [--state FILE]

Two releases of MLIR judge each mutant of `module_mutants.py`: torch-mlir, in a child process that parses
and verifies all of them, and tosa-opt, in a process for each. Where all accept, our graph of the mutant
must be our graph of the modules that they have read.

Prints each kind of disagreement with its count, who is right and why (`refusal_kinds.py`). Exit code 1
if a kind has no explanation. `--publish` notes the counts in tests/oracle/refusals.json, from which
docs/conformance.md has its tables.
"""

from __future__ import annotations

import argparse
import atexit
import json
import pickle
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle.comparison_main import BATCH, HERE, PACKAGE, digest_of
from oracle.mlir_child import Mlir, Read
from oracle.module_mutants import bytecode_mutant, programs, text_mutant
from oracle.outside_tools import TOOLS_VERSION, Refused, TosaOpt
from oracle.refusal_kinds import explanation

import tosa_convert as tc
from tosa_convert.errors import CODES, Category

#: What the last run that was published found.
RESULTS: Final = Path(__file__).with_name("refusals.json")
#: The judges, and the packages that have them.
JUDGES: Final = {"torch-mlir": "torch-mlir", "tosa-opt": "tosa-tools"}
#: Larger modules are not changed.
_MAX_BYTES: Final = 3000
#: Mutants that one process judges: their form, the seed, and their numbers.
Batch = tuple[str, int, range]
#: Seconds after which a judge hangs: MLIR never returns from some damaged bytecode.
_PATIENCE: Final = 5


class Judges:
    """Two releases of MLIR."""

    def __init__(self) -> None:
        self.torch = Mlir()
        self.scratch = TemporaryDirectory()
        self.opt = TosaOpt(Path(self.scratch.name))

    def __call__(self, data: bytes) -> dict[str, Read]:
        """Return what each of `JUDGES` says of a module."""
        found = self.opt.bytecode(data, _PATIENCE)
        if isinstance(found, Refused):
            opt = Read("MLIR ends the process" if found.crashed else found.message)
        else:
            opt = Read("", found)
        return {"torch-mlir": self.torch(data), "tosa-opt": opt}

    def close(self) -> None:
        """End the process, and remove the files."""
        self.torch.close()
        self.scratch.cleanup()


class Ours(NamedTuple):
    """What we say: the code of the refusal and its message, or a graph."""

    code: str
    message: str = ""
    graph: tc.Graph | None = None


def ours(data: bytes) -> Ours:
    """Return what we say of a module."""
    try:
        graph = tc.load(data)
        found = tc.validate(graph, spec_version=TOOLS_VERSION)
    except tc.TosaConvertError as error:
        first = error.findings[0]
        return Ours(first.code, first.message)
    if found:
        return Ours("rule", found[0].rule or found[0].code)
    return Ours("", "", graph)


_NAMES: Final = re.compile(
    r"%[\w#.$-]+|@[\w.$-]+|-?\b\d+(?:\.\d+)?(?:e[+-]\d+)?\b|tensor<[^>]*>+|0x\w+"
)


def _plain(message: str) -> str:
    """Return a message without what differs from module to module."""
    line = next((part for part in message.split("\n") if "error: " in part), message)
    text = re.sub(r"^.*?error: (?:\S+:\d+:\d+: )?", "", line)
    return _NAMES.sub("_", text)[:150]


def judged(data: bytes, judges: Judges) -> tuple[str, str]:
    """Return how the judges agree, and the kind of their disagreement; "" for none."""
    found, reads = ours(data), judges(data)
    refusing = [name for name, read in reads.items() if read.refusal]
    if refusing:
        message = _plain(reads[refusing[0]].refusal)
        who = refusing[0] if len(refusing) < len(reads) else "MLIR"
        if not found.code:
            return "only MLIR refuses", f"{who} refuses: {message}"
        if who == "MLIR":
            return "all refuse", ""
        return "one MLIR refuses, and we", f"we and {who} refuse: {message}"
    if found.code == "rule":
        return "a rule of TOSA refuses", ""
    if found.code:
        if CODES[found.code][0] is Category.UNSUPPORTED:
            return "valid, but no file can hold it", ""
        return "only we refuse", f"we refuse: {found.code}: {_plain(found.message)}"
    for name, read in reads.items():
        again = ours(read.module)
        if again.graph is None or found.graph is None:
            problem = f"its module is refused: {again.code} {again.message}"
            return "other numbers", f"{name} differs: {_plain(problem)}"
        difference = tc.compare(found.graph, again.graph)
        if difference:
            return "other numbers", f"{name} differs: {_plain(str(difference))}"
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
        """Iterate over the counts and the kinds of disagreement."""
        for form, counts in self.counts.items():
            yield f"{sum(counts.values())} mutants of {form}: " + ", ".join(
                f"{verdict} {count}" for verdict, count in counts.most_common()
            )
        for (form, kind), count in self.kinds.most_common():
            row = explanation(kind)
            yield f"{count:6} {form}: {kind}"
            yield f"       {row.who}: {row.why}" if row else "       NOT EXPLAINED"

    def published(self) -> dict[str, Any]:
        """Return the counts from which the document has its tables."""
        rows: dict[str, Counter[str]] = {}
        for (form, kind), count in self.kinds.items():
            row = explanation(kind)
            rows.setdefault(row.what if row else kind, Counter())[form] += count
        return {
            "releases": {name: f"{package} {version(package)}" for name, package in JUDGES.items()},
            "mutants": self.counts,
            "disagreements": dict(sorted(rows.items())),
        }


def corpus() -> list[str]:
    """Return the programs to change: small, and read by both MLIR and by us."""
    judges = Judges()
    found = []
    for text in programs():
        data = text.encode()
        if text and len(data) <= _MAX_BYTES and not ours(data).code:
            if not any(read.refusal for read in judges(data).values()):
                found.append(text)
    judges.close()
    return found


def forms(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the programs as text, and as bytecode of the versions that we and MLIR write."""
    mlir = Mlir()
    binary = []
    for text in texts:
        binary.append(tc.dumps(tc.load(text.encode()), "mlirbc"))
        binary.append(mlir(text.encode()).module)
    mlir.close()
    return {"text": list(texts), "bytecode": binary}


class _Worker:
    """What a process judges mutants with: the programs by form, and the judges."""

    programs: ClassVar[dict[str, list[Any]]] = {}
    judges: ClassVar[Judges]


def _begin(programs_of: dict[str, list[Any]]) -> None:
    _Worker.programs, _Worker.judges = programs_of, Judges()
    atexit.register(_Worker.judges.close)


def _judge(batch: Batch) -> list[tuple[bytes, str, str]]:
    """Judge the mutants of a batch: each of them, how the judges agree, and their disagreement."""
    form, seed, numbers = batch
    found = []
    for number in numbers:
        at = random.Random(f"{seed} {form} {number}")
        program = at.choice(_Worker.programs[form])
        data = bytecode_mutant(program, at) if form == "bytecode" else text_mutant(program, at)
        found.append((data, *judged(data, _Worker.judges)))
    return found


def compare(counts: dict[str, int], seed: int, jobs: int = 1, state: Path | None = None) -> Tally:
    """Judge so many mutants of each form. jobs: processes. state: a file to continue from."""
    batches = [
        (form, seed, range(start, min(start + BATCH, count)))
        for form, count in counts.items()
        for start in range(0, count, BATCH)
    ]
    key = counts, seed, digest_of(PACKAGE, HERE / "module_mutants.py", Path(__file__))
    tally, done = Tally(), 0
    if state is not None and state.exists():
        found, tally, done = pickle.loads(state.read_bytes())
        if found != key:
            raise SystemExit(f"{state} is of other options or other code; remove it to begin again")
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (forms(corpus()),)) as pool:
        for batch, outcomes in zip(batches[done:], pool.map(_judge, batches[done:]), strict=True):
            for outcome in outcomes:
                tally.add(batch[0], *outcome)
            done += 1
            if state is not None:
                beside = state.with_suffix(".part")
                beside.write_bytes(pickle.dumps((key, tally, done)))
                beside.replace(state)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the judges and print where they disagree."""
    parser = argparse.ArgumentParser(description="Compare what we read with what MLIR reads.")
    parser.add_argument("--text", type=int, default=20000, help="mutants of text")
    parser.add_argument("--bytecode", type=int, default=20000, help="mutants of bytecode")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--state", type=Path, metavar="FILE", help="continue from this file")
    parser.add_argument("--examples", type=Path, metavar="DIR", help="keep an example of each kind")
    parser.add_argument("--publish", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    counts = {"text": options.text, "bytecode": options.bytecode}
    tally = compare(counts, options.seed, options.jobs, options.state)
    print("\n".join(tally.lines()))
    if options.publish and not tally.unexplained():
        RESULTS.write_text(json.dumps(tally.published(), indent=1) + "\n", encoding="utf-8")
    if options.examples:
        options.examples.mkdir(exist_ok=True)
        for number, ((_, kind), count) in enumerate(tally.kinds.most_common()):
            head = f"// {count}: {kind}\n".encode()
            (options.examples / f"{number}.mlir").write_bytes(head + tally.examples[kind])
    return 1 if tally.unexplained() else 0


if __name__ == "__main__":
    sys.exit(main())
