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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import comparison_main, module_readers
from oracle.compare_bytecode import graph_of
from oracle.compare_text import STYLES, Style, printed, with_locations
from oracle.comparison_main import Compared, Table
from oracle.module_readers import PACKAGES, TORCH
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.graph import Graph

TOSA_OPT: Final = "tosa-opt"
WRITERS: Final = (TOSA_OPT, *PACKAGES)


def compare_programs(
    files: Sequence[Path], opt: TosaOpt, styles: Sequence[Style] = STYLES
) -> Iterator[Compared]:
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
) -> Compared:
    """Return whether our reading of a text is the expected one."""
    made = Compared(writer, style, str(program), False, "")
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


def table() -> Table:
    """Return an empty table."""
    return Table(dict.fromkeys(WRITERS, STYLES), WRITERS, "refused as the module is")


def compare_files(files: Sequence[Path]) -> list[Compared]:
    """Return the outcomes of some flatbuffers, in this process."""
    with tempfile.TemporaryDirectory() as name:
        return list(compare_programs(files, TosaOpt(Path(name))))


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = comparison_main.parser("Compare what we read from MLIR text with the writer's module.")
    return comparison_main.run(parser.parse_args(arguments), compare_files, table())


if __name__ == "__main__":
    sys.exit(main())
