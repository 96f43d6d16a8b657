"""Compare what we read from MLIR text of every writer with the module that the writer printed.

    python tests/oracle/official_suite.py DIR            # makes the suite
    python tests/oracle/compare_read_text.py DIR         # compares all of it; --every 100 for a sample
    python tests/oracle/compare_read_text.py DIR --state FILE    # the same command resumes it

tosa-opt, torch-mlir and IREE print each program in custom and in generic form, with locations and
without. Our graph of the text must equal the graph of the module that they have in memory. Prints a
table, then every difference. Exit code 1 on any difference, or if nothing was compared.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import comparison_main, module_readers
from oracle.compare_bytecode import graph_of
from oracle.compare_text import STYLES, Style, printed, with_locations
from oracle.module_readers import PACKAGES, TORCH
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.graph import Graph

TOSA_OPT: Final = "tosa-opt"
WRITERS: Final = (TOSA_OPT, *PACKAGES)


class Outcome(NamedTuple):
    """One program as a writer prints it. difference: "" if our graph is that of the writer's module.

    read: we read it; otherwise we refuse it with the codes with which the module is refused.
    """

    writer: str
    style: Style
    program: str
    read: bool
    difference: str


def compare_programs(
    files: Sequence[Path], opt: TosaOpt, styles: Sequence[Style] = STYLES
) -> Iterator[Outcome]:
    """Iterate over programs, of which every writer reads our bytecode."""
    readers = module_readers.readers()
    for file in files:
        data = tc.dumps(with_locations(tc.load(file)), "mlirbc", validate=False)
        modules = {package: reader.parse(data) for package, reader in readers.items()}
        graphs = {
            package: module if isinstance(module, Refused) else graph_of(module)
            for package, module in modules.items()
        }
        for style in styles:
            # torch-mlir has the dialect of tosa-opt.
            text = opt.print_bytes(data, style.flags)
            yield outcome(TOSA_OPT, style, file, text, graphs[TORCH])
            for package, module in modules.items():
                text = module if isinstance(module, Refused) else printed(module, style)
                yield outcome(package, style, file, text, graphs[package])


def outcome(
    writer: str,
    style: Style,
    program: Path,
    text: bytes | Refused,
    expected: Graph | tuple[str, ...] | Refused,
) -> Outcome:
    """Return whether our reading of a text is the expected one."""
    made = Outcome(writer, style, str(program), False, "")
    if isinstance(text, Refused):
        return made._replace(difference=f"not printed: {text}")
    if isinstance(expected, Refused):
        return made._replace(difference=f"not parsed: {expected}")
    try:
        found = tc.load(text)
    except tc.TosaConvertError as error:
        codes = tuple(finding.code for finding in error.findings)
        return made if codes == expected else made._replace(difference=f"refused: {error}")
    if isinstance(expected, tuple):
        return made._replace(difference=f"the module is refused: {expected}")
    difference = tc.compare(expected, found, names=True, locations=style.locations, version=True)
    return made._replace(read=True, difference=str(difference or ""))


class Tally:
    """Counts of many outcomes, by writer and style."""

    def __init__(self) -> None:
        self.equal: Counter[tuple[str, Style]] = Counter()
        self.refused: Counter[tuple[str, Style]] = Counter()
        self.different: list[Outcome] = []

    def add(self, found: Outcome) -> None:
        """Count one."""
        if found.difference:
            self.different.append(found)
        else:
            (self.equal if found.read else self.refused)[found.writer, found.style] += 1

    @property
    def passed(self) -> bool:
        """Return whether every writer printed every style, and nothing differed."""
        return not self.different and all(
            self.equal[writer, style] for writer in WRITERS for style in STYLES
        )

    def lines(self) -> Iterator[str]:
        """Iterate over the table, to be read."""
        yield f"{'writer':13} | {'style':22} |  equal | refused as the module is"
        for writer in WRITERS:
            for style in STYLES:
                counts = f"{self.equal[writer, style]:6} | {self.refused[writer, style]:6}"
                yield f"{writer:13} | {style!s:22} | {counts}"
        for found in self.different:
            yield f"{found.writer}, {found.style}: {found.program}: {found.difference}"


def compare_files(files: Sequence[Path]) -> list[Outcome]:
    """Return the outcomes of some flatbuffers, in this process."""
    with tempfile.TemporaryDirectory() as name:
        return list(compare_programs(files, TosaOpt(Path(name))))


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = comparison_main.parser("Compare what we read from MLIR text with the writer's module.")
    return comparison_main.run(parser.parse_args(arguments), compare_files, Tally())


if __name__ == "__main__":
    sys.exit(main())
