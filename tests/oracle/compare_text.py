"""Compare the MLIR text that we print with what MLIR prints, and with what it reads from our text.

    python tests/oracle/official_suite.py DIR            # makes the suite
    python tests/oracle/compare_text.py DIR              # compares all of it; --every 100 for a sample

Each program is printed in custom and in generic form, with locations and without. tosa-opt prints our
bytecode of it, and that text must be ours, byte for byte. tosa-opt, torch-mlir and IREE parse our text
and print it again, which must give the same text; IREE parses custom form only where it agrees with the
others. The graph of the module that they parsed must be the program's, and what tosa-opt serializes
must be what it serializes after its own import. Prints a table, then every difference. Exit code 1 on
any difference, or if nothing was compared.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import official_suite
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.bindings.packages import Bindings, default_bindings
from tosa_convert.bindings.read import read
from tosa_convert.graph import Graph

PRINTED: Final = "tosa-opt prints our bytecode"
PARSED: Final = "tosa-opt parses our text"
SERIALIZED: Final = "tosa-opt serializes our text"
TORCH: Final = "torch_mlir"
IREE: Final = "iree.compiler"
ROWS: Final = (PRINTED, PARSED, SERIALIZED, TORCH, IREE)
#: Files in a batch for a worker.
_BATCH: Final = 20


class Style(NamedTuple):
    """One of the four ways to print a module."""

    generic: bool
    locations: bool

    def __str__(self) -> str:
        form = "generic" if self.generic else "custom"
        return form if self.locations else f"{form}, no locations"

    @property
    def flags(self) -> list[str]:
        """The options of tosa-opt that choose it."""
        flags = ["--mlir-print-op-generic"] * self.generic
        return flags + ["--mlir-print-debuginfo"] * self.locations


STYLES: Final = tuple(
    Style(generic, locations) for generic in (False, True) for locations in (True, False)
)


class Outcome(NamedTuple):
    """One program in one style. difference: "" if the row's promise holds. accepted: by the reader."""

    row: str
    style: Style
    program: str
    accepted: bool
    difference: str


#: Locations of every kind; official programs have none. `{}` is the number of an operator.
_LOCATIONS: Final = (
    'loc("model.py":{}:7)',
    'loc("a \\22name\\22"("model.py":{}:7))',
    'loc(callsite("f"("model.py":{}:7) at callsite("model.py":1:1 at "main")))',
    'loc(fused["model.py":{}:1, "x", "model.py":{}:2 to 9:4])',
    "loc(unknown)",
)


def with_locations(graph: Graph) -> Graph:
    """The graph, in which operators have locations of every kind."""
    for _, block in graph.blocks():
        for number, operator in enumerate(block.operators):
            location = _LOCATIONS[number % len(_LOCATIONS)]
            operator.location = location.replace("{}", str(number // 2))
    return graph


def compare_graph(
    graph: Graph, name: str, opt: TosaOpt, scratch: Path, styles: Sequence[Style] = STYLES
) -> Iterator[Outcome]:
    """A program in some styles, without its serialization."""
    bytecode, file = scratch / "ours.mlirbc", scratch / "ours.mlir"
    tc.save(graph, bytecode, validate=False)
    for style in styles:
        text = tc.dumps(
            graph, "mlir", generic=style.generic, locations=style.locations, validate=False
        )
        file.write_bytes(text)
        for row, source in ((PRINTED, bytecode), (PARSED, file)):
            found = opt.print(source, style.flags)
            if isinstance(found, Refused):
                yield Outcome(row, style, name, False, str(found))
            else:
                yield Outcome(row, style, name, True, first_difference(text, found))
        for package in (TORCH, IREE):
            yield compare_parsed(default_bindings(package), graph, text, style, name)


def compare_parsed(
    bindings: Bindings, graph: Graph, text: bytes, style: Style, name: str
) -> Outcome:
    """Our text of a program, parsed and printed by a package of bindings."""
    row = bindings.package
    try:
        module = bindings.ir.Module.parse(text, bindings.new_context())
    except bindings.ir.MLIRError as error:
        # The custom form of IREE's dialect is another one.
        foreign = row == IREE and not style.generic
        return Outcome(row, style, name, False, "" if foreign else str(error))
    other = (
        "" if row == IREE and not style.generic else first_difference(text, printed(module, style))
    )
    if not other:
        other = str(tc.compare(graph, read(module), names=True) or "")
    return Outcome(row, style, name, True, other)


def printed(module: Any, style: Style) -> bytes:
    """The text that a module's bindings print."""
    sink = io.BytesIO()
    module.operation.print(
        file=sink,
        binary=True,
        print_generic_op_form=style.generic,
        enable_debug_info=style.locations,
    )
    return sink.getvalue() + b"\n"


def compare_serialized(tosa: Path, opt: TosaOpt, scratch: Path) -> Outcome:
    """What tosa-opt serializes of our text, and of its own import."""
    style, file = STYLES[0], scratch / "ours.mlir"
    tc.save(tc.load(tosa), file, validate=False)
    results = []
    for source in (scratch / "own.mlirbc", file):
        refused = opt.read(tosa, source) if source is not file else None
        refused = refused or opt.write(source, scratch / "again.tosa")
        results.append(refused or tc.load((scratch / "again.tosa").read_bytes()))
    own, ours = results
    if isinstance(own, Refused):
        return Outcome(SERIALIZED, style, str(tosa), False, "")
    if isinstance(ours, Refused):
        return Outcome(SERIALIZED, style, str(tosa), False, str(ours))
    difference = str(tc.compare(own, ours, names=True, version=True) or "")
    return Outcome(SERIALIZED, style, str(tosa), True, difference)


def first_difference(ours: bytes, theirs: bytes) -> str:
    """The first line in which two texts differ, or ""."""
    if ours == theirs:
        return ""
    lines = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    for number, (one, other) in enumerate(lines, 1):
        if one != other:
            at = next(
                (i for i, pair in enumerate(zip(one, other, strict=False)) if len({*pair}) > 1), 0
            )
            window = slice(max(0, at - 40), at + 60)
            return f"line {number}: ours {one[window]!r}, theirs {other[window]!r}"
    return f"ours has {len(ours)} bytes, theirs has {len(theirs)}"


class Tally:
    """Counts of many outcomes, by row and style."""

    def __init__(self, styles: Sequence[Style] = STYLES) -> None:
        self.styles = styles
        self.equal: Counter[tuple[str, Style]] = Counter()
        self.refused: Counter[tuple[str, Style]] = Counter()
        self.different: list[Outcome] = []

    def add(self, found: Outcome) -> None:
        """Count one."""
        if found.difference:
            self.different.append(found)
        else:
            (self.equal if found.accepted else self.refused)[found.row, found.style] += 1

    @property
    def passed(self) -> bool:
        """Whether nothing differed, and every row has something that is equal."""
        rows = {
            (row, style) for row in ROWS for style in self.styles if row not in (SERIALIZED, IREE)
        }
        return not self.different and all(self.equal[key] for key in rows)

    def lines(self) -> Iterator[str]:
        """The table, to be read."""
        yield f"{'':30} | {'style':22} |  equal | not read"
        for row in ROWS:
            for style in STYLES[:1] if row == SERIALIZED else self.styles:
                counts = f"{self.equal[row, style]:6} | {self.refused[row, style]:6}"
                yield f"{row:30} | {style!s:22} | {counts}"
        for found in self.different:
            yield f"{found.row}, {found.style}: {found.program}: {found.difference}"


def compare_files(files: Sequence[Path], styles: Sequence[Style] = STYLES) -> list[Outcome]:
    """The outcomes of some flatbuffers, in this process."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        opt = TosaOpt(scratch)
        found: list[Outcome] = []
        for file in files:
            found += compare_graph(with_locations(tc.load(file)), str(file), opt, scratch, styles)
            found.append(compare_serialized(file, opt, scratch))
        return found


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = argparse.ArgumentParser(
        description="Compare MLIR text with what MLIR prints and reads."
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every N-th file")
    parser.add_argument(
        "--located", action="store_true", help="only the two forms with locations, in half the time"
    )
    options = parser.parse_args(arguments)
    styles = [style for style in STYLES if style.locations or not options.located]
    problem = official_suite.missing()
    if problem:
        print(f"compare_text: {problem}", file=sys.stderr)
        return 1
    files = [case.tosa for case in official_suite.cases(options.directory)][:: options.every]
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    tally = Tally(styles)
    # Spawned, because MLIR starts threads, which a fork would not survive.
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for outcomes in pool.map(compare_files, batches, repeat(styles)):
            for found in outcomes:
                tally.add(found)
    print(f"{len(files)} files")
    print("\n".join(tally.lines()))
    return 0 if tally.passed else 1


if __name__ == "__main__":
    sys.exit(main())
