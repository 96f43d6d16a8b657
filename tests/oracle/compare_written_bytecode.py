"""Compare what MLIR reads from our bytecode files with what it reads from tosa-opt's.

    python tests/oracle/official_suite.py DIR              # makes the suite
    python tests/oracle/compare_written_bytecode.py DIR    # compares all of it; --every 50 for a sample
    python tests/oracle/compare_written_bytecode.py DIR --state FILE     # the same command resumes it

Each program is written by us in each version of the format, and read by tosa-opt, torch-mlir and IREE.
The module that each then has must be the one that tosa-opt makes of the flatbuffer, as bytecode of
version 1 and printed by the same bindings. We write what tosa-opt's own import has: generated names, and
constants that are dense. A second file, with names and with large constants as resources, must be the
same program. Prints a table, then every difference. Exit code 1 on any difference, or if nothing was
compared.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import comparison_main, module_readers
from oracle.judge import show, text_difference, verifier_message
from oracle.module_readers import IREE, PACKAGES, TORCH
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.formats.bindings.modules import read
from tosa_convert.formats.mlir.bytecode.format import HAS_NATIVE_PROPERTIES
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.graph import Graph
from tosa_convert.graph.constant import in_order
from tosa_convert.io.options import BYTECODE_VERSIONS, WriteOptions

TOSA_OPT: Final = "tosa-opt"
READERS: Final = (TOSA_OPT, *PACKAGES)
#: A version that every reader reads.
_COMMON: Final = 1
#: Bindings -> operations whose native properties they define in another way than the others.
_OTHER_PROPERTIES: Final = {IREE: ("tosa.variable",)}


class Kind(Enum):
    """What is compared; the heads of the table's columns."""

    IMPORT = "equal to tosa-opt's import"
    GRAPH = "equal, not imported by tosa-opt"
    RESOURCES = "equal, with resources"


class Outcome(NamedTuple):
    """One program in one version, by one reader.

    difference: "" if the reader has the same program. unread: why it rightly does not read the file.
    """

    reader: str
    version: int
    program: str
    kind: Kind = Kind.IMPORT
    difference: str = ""
    unread: str = ""


def written(graph: Graph, version: int, **options: Any) -> bytes:
    """Our file."""
    return b"".join(
        in_order(encode_module(graph, WriteOptions(bytecode_version=version, **options)).pieces)
    )


class Comparison:
    """Compares programs in one scratch folder."""

    def __init__(self, scratch: Path, versions: Sequence[int] = BYTECODE_VERSIONS) -> None:
        self.versions = versions
        self.file = scratch / "module.mlirbc"
        self.again = scratch / "again.mlirbc"
        self.opt = TosaOpt(scratch)
        self.packages = module_readers.readers()

    def compare(self, tosa: Path) -> Iterator[Outcome]:
        """Iterate over the outcomes of a flatbuffer."""
        graph = tc.load(tosa)
        refused = self.opt.read(tosa, self.file, _COMMON)
        theirs = None if refused else self.file.read_bytes()
        names = "retain" if theirs is None else "generate"
        for version in self.versions:
            dense = written(graph, version, names=names, constants="dense")
            for reader, module in self.readings(dense, version):
                outcome = Outcome(reader, version, str(tosa))
                if isinstance(module, Refused):
                    yield refusal(outcome, graph, refused, module)
                elif theirs is None:
                    difference = str(tc.compare(graph, read(module), names=True) or "")
                    yield outcome._replace(kind=Kind.GRAPH, difference=difference)
                else:
                    difference = text_difference(self.expected(reader, theirs), show(module))
                    yield outcome._replace(difference=difference)
            yield from self.with_resources(tosa, graph, version)

    def expected(self, reader: str, theirs: bytes) -> str:
        """Return the module of tosa-opt's file, as a reader prints it."""
        return show(self.packages.get(reader, self.packages[TORCH]).parse(theirs))

    def with_resources(self, tosa: Path, graph: Graph, version: int) -> Iterator[Outcome]:
        """Iterate over the outcomes of the file that has names, and large constants as resources."""
        data = written(graph, version)
        if written(graph, version, constants="dense") == data:
            return
        ours = tc.load(written(graph, _COMMON))
        for reader, module in self.readings(data, version):
            outcome = Outcome(reader, version, str(tosa), Kind.RESOURCES)
            if isinstance(module, Refused):
                yield refusal(outcome, graph, None, module)
                continue
            difference = tc.compare(ours, read(module), names=True, locations=True)
            yield outcome._replace(difference=str(difference or ""))

    def readings(self, data: bytes, version: int) -> Iterator[tuple[str, Any]]:
        """Iterate over each reader, and the module that it reads or Refused.

        Bindings parse what tosa-opt has read and written again.
        """
        self.file.write_bytes(data)
        refused = self.opt.rewrite(self.file, self.again, _COMMON)
        yield TOSA_OPT, refused or self.packages[TORCH].parse(self.again.read_bytes())
        for name, reader in self.packages.items():
            yield name, reader.parse(data)


def refusal(outcome: Outcome, graph: Graph, imported: Refused | None, found: Refused) -> Outcome:
    """Return the outcome of a file that the reader refuses.

    imported: what tosa-opt says of the flatbuffer.
    """
    used = {operator.spec.mlir for _, block in graph.blocks() for operator in block.operators}
    if any(tensor.variable for _, block in graph.blocks() for tensor in block.tensors.values()):
        used.add("tosa.variable")
    others = used.intersection(_OTHER_PROPERTIES.get(outcome.reader, ()))
    if outcome.version >= HAS_NATIVE_PROPERTIES and others:
        return outcome._replace(unread=f"its properties of {', '.join(others)} are others")
    message = verifier_message(str(found))
    if message and imported is not None and message in str(imported):
        return outcome._replace(unread=f"MLIR's verifier: {message}")
    return outcome._replace(difference=f"refused: {found}")


class Tally:
    """Counts of many outcomes, by reader and version."""

    def __init__(self, versions: Sequence[int] = BYTECODE_VERSIONS) -> None:
        self.versions = versions
        self.equal: Counter[tuple[str, int, Kind]] = Counter()
        self.unread: Counter[tuple[str, int]] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.different: list[Outcome] = []

    def add(self, found: Outcome) -> None:
        """Count one."""
        if found.difference:
            self.different.append(found)
        elif found.unread:
            self.unread[found.reader, found.version] += 1
            self.reasons[found.reader, found.unread] += 1
        else:
            self.equal[found.reader, found.version, found.kind] += 1

    @property
    def passed(self) -> bool:
        """Return whether every reader read every version, and nothing differed."""
        return not self.different and all(
            self.equal[reader, version, Kind.IMPORT]
            for reader in READERS
            for version in self.versions
        )

    def lines(self) -> Iterator[str]:
        """Iterate over the table, to be read."""
        yield " | ".join(["reader        | version", *(kind.value for kind in Kind), "not read"])
        for reader in READERS:
            for version in self.versions:
                cells = [f"{reader:13} | {version:7}"]
                cells += [f"{self.equal[reader, version, kind]:{len(kind.value)}}" for kind in Kind]
                yield " | ".join([*cells, f"{self.unread[reader, version]:8}"])
        for (reader, reason), count in sorted(self.reasons.items()):
            yield f"{count:6} not read by {reader}: {reason}"
        for found in self.different:
            where = f"{found.reader} version {found.version}, {found.kind.name.lower()}"
            yield f"{where}: {found.program}: {found.difference}"


def compare_files(
    files: Sequence[Path], versions: Sequence[int] = BYTECODE_VERSIONS
) -> list[Outcome]:
    """Return the outcomes of some flatbuffers, in this process."""
    with tempfile.TemporaryDirectory() as name:
        comparison = Comparison(Path(name), versions)
        return [found for file in files for found in comparison.compare(file)]


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = comparison_main.parser("Compare what MLIR reads from our bytecode.")
    parser.add_argument("--versions", type=int, nargs="+", default=list(BYTECODE_VERSIONS))
    options = parser.parse_args(arguments)
    compare = partial(compare_files, versions=options.versions)
    return comparison_main.run(options, compare, Tally(options.versions))


if __name__ == "__main__":
    sys.exit(main())
