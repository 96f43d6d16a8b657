"""Compare what we read from bytecode files of every writer and version with what MLIR reads.

    python tests/oracle/official_suite.py DIR            # makes the suite
    python tests/oracle/compare_bytecode.py DIR          # compares all of it; --every 50 for a sample
    python tests/oracle/compare_bytecode.py DIR --state FILE     # the same command resumes it

Each program is written by tosa-opt, torch-mlir and IREE in each version of the format. Our graph of
the file must equal the graph of the module that MLIR has in memory. Prints a table, then every
difference. Exit code 1 on any difference, or if nothing was compared.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import comparison_main, module_readers
from oracle.comparison_main import Compared, Table
from oracle.module_readers import PACKAGES, ModuleReader
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.formats.bindings.modules import read
from tosa_convert.formats.bindings.packages import Bindings, default_bindings
from tosa_convert.formats.mlir.bytecode.format import NEWEST_VERSION
from tosa_convert.graph import Graph

VERSIONS: Final = range(NEWEST_VERSION + 1)
TOSA_OPT: Final = "tosa-opt"


def compare_text(text: str, name: str, package: str) -> Iterator[Compared]:
    """Yield a module as one package of bindings writes it."""
    bindings = default_bindings(package)
    yield from compare_module(
        bindings, bindings.ir.Module.parse(text, bindings.new_context()), name
    )


def compare_module(bindings: Bindings, module: Any, name: str) -> Iterator[Compared]:
    """Yield a module in memory, as its bindings write it."""
    expected = graph_of(module)
    for version in VERSIONS:
        sink = io.BytesIO()
        module.operation.write_bytecode(sink, version)
        yield outcome(bindings.package, version, name, sink.getvalue(), expected)


def compare_file(
    tosa: Path, opt: TosaOpt, scratch: Path, readers: dict[str, ModuleReader]
) -> Iterator[Compared]:
    """Yield a flatbuffer: tosa-opt makes the module, and it and the bindings write it.

    Where tosa-opt refuses the flatbuffer, it reads the module from our bytecode.
    """
    source, file = scratch / "source.mlirbc", scratch / "module.mlirbc"
    refused = opt.read(tosa, source)
    if refused is not None:
        source.write_bytes(tc.dumps(tc.load(tosa), "mlirbc", validate=False))
    expected: Graph | tuple[str, ...] | None = None
    for reader in readers.values():
        module = reader.parse(source.read_bytes())
        if isinstance(module, Refused):
            continue  # bindings of another version do not read what tosa-opt wrote
        if expected is None:
            expected = graph_of(module)
        yield from compare_module(reader.bindings, module, str(tosa))
    for version in VERSIONS:
        if refused is None:
            unwritten = opt.read(tosa, file, version)
        else:
            unwritten = opt.rewrite(source, file, version)
        if expected is not None and unwritten is None:
            yield outcome(TOSA_OPT, version, str(tosa), file.read_bytes(), expected)


def graph_of(module: Any) -> Graph | tuple[str, ...]:
    """Return the graph of a module in memory, or the codes with which it is refused."""
    try:
        return read(module)
    except tc.TosaConvertError as error:
        return tuple(finding.code for finding in error.findings)


def outcome(
    writer: str, version: int, name: str, data: bytes, expected: Graph | tuple[str, ...]
) -> Compared:
    """Return whether our reading of a file is the expected one."""
    if data[4] != version << 1 | 1:
        return Compared(writer, version, name, False, f"the file has version {data[4] >> 1}")
    try:
        found = tc.load(data)
    except tc.TosaConvertError as error:
        codes = tuple(finding.code for finding in error.findings)
        difference = "" if codes == expected else f"refused: {error}"
        return Compared(writer, version, name, False, difference)
    if isinstance(expected, tuple):
        return Compared(writer, version, name, True, f"MLIR's module is refused: {expected}")
    difference = str(tc.compare(expected, found, names=True, locations=True, version=True) or "")
    return Compared(writer, version, name, True, difference)


def table() -> Table:
    """Return an empty table."""
    writers = (TOSA_OPT, *PACKAGES)
    return Table(dict.fromkeys(writers, VERSIONS), writers, "refused as MLIR's module is")


def compare_files(files: Sequence[Path]) -> list[Compared]:
    """Return the outcomes of some flatbuffers, in this process."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        opt, readers = TosaOpt(scratch), module_readers.readers()
        return [found for file in files for found in compare_file(file, opt, scratch, readers)]


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = comparison_main.parser("Compare bytecode of every writer and version.")
    return comparison_main.run(parser.parse_args(arguments), compare_files, table())


if __name__ == "__main__":
    sys.exit(main())
