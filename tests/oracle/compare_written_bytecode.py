"""Compare what MLIR reads from our bytecode files with what it reads from tosa-opt's.

    python tests/oracle/official_suite.py DIR              # makes the suite
    python tests/oracle/compare_written_bytecode.py DIR    # compares all of it; --every 50 for a sample

Each program is written by us in each version of the format, and read by tosa-opt, torch-mlir and IREE.
The module that each then has must be the one that tosa-opt makes of the flatbuffer, as bytecode of
version 1 and printed by the same bindings. We write what tosa-opt's own import has: generated names, and
constants that are dense. A second file, with names and with large constants as resources, must be the
same program. Prints a table, then every difference. Exit code 1 on any difference, or if nothing was
compared.
"""

from __future__ import annotations

import argparse
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
from oracle.judge import show, text_difference
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.bindings.packages import Bindings, default_bindings
from tosa_convert.bindings.read import read
from tosa_convert.graph import Graph
from tosa_convert.mlir.bytecode.format import HAS_NATIVE_PROPERTIES
from tosa_convert.mlir.module_writer import encode_module
from tosa_convert.options import BYTECODE_VERSIONS

TOSA_OPT: Final = "tosa-opt"
PACKAGES: Final = ("torch_mlir", "iree.compiler")
READERS: Final = (TOSA_OPT, *PACKAGES)
#: A version that every reader reads.
_COMMON: Final = 1
#: Bindings -> operations whose native properties they define in another way than the others.
_OTHER_PROPERTIES: Final = {"iree.compiler": ("tosa.variable",)}
#: Files in a batch for a worker.
_BATCH: Final = 20


class Outcome(NamedTuple):
    """One program in one version, by one reader.

    resources: the file has constants as resources. difference: "" if the reader has the same program.
    excused: the reader defines the properties of an operation in another way.
    """

    reader: str
    version: int
    program: str
    resources: bool = False
    difference: str = ""
    excused: bool = False


def written(graph: Graph, version: int, **options: Any) -> bytes:
    """Our file."""
    return b"".join(encode_module(graph, version=version, **options).pieces)


class Comparison:
    """Compares programs in one scratch folder."""

    def __init__(self, scratch: Path, versions: Sequence[int] = BYTECODE_VERSIONS) -> None:
        self.versions = versions
        self.file = scratch / "module.mlirbc"
        self.again = scratch / "again.mlirbc"
        self.opt = TosaOpt(scratch)
        self.bindings = [default_bindings(package) for package in PACKAGES]

    def compare(self, tosa: Path) -> Iterator[Outcome]:
        """The outcomes of a flatbuffer; none if tosa-opt refuses it."""
        if self.opt.read(tosa, self.file, _COMMON) is not None:
            return
        theirs = self.file.read_bytes()
        graph = tc.load(tosa)
        expected = {}
        for bindings in self.bindings:
            expected[bindings.package] = printed(bindings, theirs)
        expected[TOSA_OPT] = expected["torch_mlir"]
        for version in self.versions:
            dense = written(graph, version, names="generate", constants="dense")
            for reader, bindings, data in self.readings(dense, version):
                outcome = Outcome(reader, version, str(tosa))
                if isinstance(data, Refused):
                    yield refusal(outcome, theirs, data)
                else:
                    found = printed(bindings, data)
                    yield outcome._replace(difference=text_difference(expected[reader], found))
            yield from self.with_resources(tosa, graph, version)

    def with_resources(self, tosa: Path, graph: Graph, version: int) -> Iterator[Outcome]:
        """The outcomes of the file that has names, and large constants as resources."""
        data = written(graph, version)
        if written(graph, version, constants="dense") == data:
            return
        ours = tc.load(written(graph, _COMMON))
        for reader, bindings, found in self.readings(data, version):
            outcome = Outcome(reader, version, str(tosa), resources=True)
            if isinstance(found, Refused):
                yield refusal(outcome, data, found)
                continue
            module = bindings.ir.Module.parse(found, bindings.new_context())
            difference = tc.compare(ours, read(module), names=True, locations=True)
            yield outcome._replace(difference=str(difference or ""))

    def readings(
        self, data: bytes, version: int
    ) -> Iterator[tuple[str, Bindings, bytes | Refused]]:
        """Each reader, the bindings that parse what it has read, and that: tosa-opt writes it again."""
        self.file.write_bytes(data)
        refused = self.opt.rewrite(self.file, self.again, _COMMON)
        yield TOSA_OPT, self.bindings[0], refused or self.again.read_bytes()
        for bindings in self.bindings:
            try:
                bindings.ir.Module.parse(data, bindings.new_context())
            except bindings.ir.MLIRError as error:
                yield bindings.package, bindings, Refused(str(error))
            else:
                yield bindings.package, bindings, data


def printed(bindings: Bindings, data: bytes) -> str:
    """The module of a file, as these bindings print it."""
    return show(bindings.ir.Module.parse(data, bindings.new_context()))


def refusal(outcome: Outcome, program: bytes, refused: Refused) -> Outcome:
    """The outcome of a file that the reader refuses."""
    others = _OTHER_PROPERTIES.get(outcome.reader, ())
    graph = tc.load(program)
    used = {operator.spec.mlir for _, block in graph.blocks() for operator in block.operators}
    if any(tensor.variable for _, block in graph.blocks() for tensor in block.tensors.values()):
        used.add("tosa.variable")
    if outcome.version >= HAS_NATIVE_PROPERTIES and used & set(others):
        return outcome._replace(excused=True)
    return outcome._replace(difference=f"refused: {refused}")


class Tally:
    """Counts of many outcomes, by reader and version."""

    def __init__(self, versions: Sequence[int] = BYTECODE_VERSIONS) -> None:
        self.versions = versions
        self.equal: Counter[tuple[str, int, bool]] = Counter()
        self.excused: Counter[tuple[str, int]] = Counter()
        self.different: list[Outcome] = []

    def add(self, found: Outcome) -> None:
        """Count one."""
        if found.difference:
            self.different.append(found)
        elif found.excused:
            self.excused[found.reader, found.version] += 1
        else:
            self.equal[found.reader, found.version, found.resources] += 1

    @property
    def passed(self) -> bool:
        """Whether every reader read every version, and nothing differed."""
        return not self.different and all(
            self.equal[reader, version, False] for reader in READERS for version in self.versions
        )

    def lines(self) -> Iterator[str]:
        """The table, to be read."""
        yield "reader        | version |  equal | equal, with resources | other properties"
        for reader in READERS:
            for version in self.versions:
                dense, resources = (self.equal[reader, version, which] for which in (False, True))
                excused = self.excused[reader, version]
                yield f"{reader:13} | {version:7} | {dense:6} | {resources:21} | {excused:6}"
        for found in self.different:
            kind = "resources" if found.resources else "dense"
            yield f"{found.reader} version {found.version}, {kind}: {found.program}: {found.difference}"


def compare_files(
    files: Sequence[Path], versions: Sequence[int] = BYTECODE_VERSIONS
) -> list[Outcome]:
    """The outcomes of some flatbuffers, in this process."""
    with tempfile.TemporaryDirectory() as name:
        comparison = Comparison(Path(name), versions)
        return [found for file in files for found in comparison.compare(file)]


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = argparse.ArgumentParser(description="Compare what MLIR reads from our bytecode.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every N-th file")
    parser.add_argument("--versions", type=int, nargs="+", default=list(BYTECODE_VERSIONS))
    options = parser.parse_args(arguments)
    problem = official_suite.missing()
    if problem:
        print(f"compare_written_bytecode: {problem}", file=sys.stderr)
        return 1
    files = [case.tosa for case in official_suite.cases(options.directory)][:: options.every]
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    tally = Tally(options.versions)
    # Spawned, because MLIR starts threads, which a fork would not survive.
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for outcomes in pool.map(compare_files, batches, repeat(options.versions)):
            for found in outcomes:
                tally.add(found)
    print(f"{len(files)} files")
    print("\n".join(tally.lines()))
    return 0 if tally.passed else 1


if __name__ == "__main__":
    sys.exit(main())
