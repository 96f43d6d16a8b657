"""Converts every format to every other: a table of 49 cells.

    python tests/oracle/official_suite.py DIR --subset sample     # makes a suite
    python tests/contract/table.py DIR --every 5                  # fills the table with its files

Each file is written in the form of the row, read, written in the form of the column, and read. The
cell counts the file if `compare` finds the original program, including names, locations and version,
and if the bytes of the column are the same for all rows. Prints the count of each
cell, the files that MLIR's own verifier refuses (they are in no cell of MLIR), and every difference.
Exit code 1 on any difference, or if nothing was compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import tosa_convert as tc
from tosa_convert.formats.bindings.modules import write
from tosa_convert.formats.bindings.packages import default_bindings
from tosa_convert.graph import Graph, lowest_version

#: The fastest file system for temporary files.
_MEMORY: Final = Path("/dev/shm")
#: The location in a module of an operator that has none in the file.
UNKNOWN: Final = "loc(unknown)"


@dataclass(frozen=True)
class Form:
    """A way to store a program: a format, and where its weights are stored."""

    name: str
    extension: str
    weights: str = "auto"

    @property
    def is_mlir(self) -> bool:
        """Return whether reading it is an export: constants then get tosa-opt's padding and order."""
        return self.extension in (".mlir", ".mlirbc")

    def write(self, graph: Graph, folder: Path) -> Path:
        """Write the program into a folder of its own; return the file."""
        folder.mkdir(exist_ok=True)
        path = folder / f"m{self.extension}"
        # MLIR's verifier judges the programs here; JSON never has to be valid.
        validate = self.extension == ".json"
        tc.save(graph, path, weights=self.weights, validate=validate)  # type: ignore[arg-type]
        return path


FORMS: Final = (
    Form("MLIR text", ".mlir"),
    Form("bytecode", ".mlirbc"),
    Form(".tosa", ".tosa", "embedded"),
    Form(".tosa offset", ".tosa", "offset"),
    Form(".tosa+npy", ".tosa", "npy"),
    Form("JSON", ".json", "embedded"),
    Form("JSON+npy", ".json", "npy"),
)
_MLIR: Final = frozenset(form.name for form in FORMS if form.is_mlir)
CELLS: Final = tuple((row.name, column.name) for row in FORMS for column in FORMS)

Cell = tuple[str, str]


@dataclass
class Table:
    """The result: the number of equal programs in each cell, the operators, and every difference."""

    files: int = 0
    operators: set[str] = field(default_factory=set)
    counts: Counter[Cell] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    differences: list[tuple[Cell, str, str]] = field(default_factory=list)

    def expected(self, cell: Cell) -> int:
        """Return the expected count of the cell."""
        return self.files - (len(self.refused) if set(cell) & _MLIR else 0)

    @property
    def passed(self) -> bool:
        """Return whether every cell has its expected count, and at least one file was compared."""
        return all(self.counts[cell] == self.expected(cell) > 0 for cell in CELLS)

    def lines(self) -> Iterator[str]:
        """Iterate over the counts as text."""
        width = max(len(form.name) for form in FORMS)
        yield " " * width + "".join(f"  {form.name:>{width}}" for form in FORMS)
        for row in FORMS:
            counts = (self.counts[row.name, column.name] for column in FORMS)
            yield f"{row.name:<{width}}" + "".join(f"  {count:>{width}}" for count in counts)
        yield f"{self.files} files, {len(self.operators)} operators, {len(CELLS)} cells"
        yield f"{len(self.refused)} files that MLIR's verifier refuses"
        for file, text in self.refused.items():
            yield f"{file}: {text}"
        yield f"{len(self.differences)} differences"
        for (source, target), file, text in self.differences:
            yield f"{source} -> {target}: {file}: {text}"


def bytes_below(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, by its path in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def original(source: Path) -> Graph:
    """Return the program that every form of it should give when it is read.

    No location is loc(unknown) in MLIR, and a version that lacks one of the program's operators (the
    official generator stamps some such files) is the lowest that has them.
    """
    graph = tc.load(source)
    graph.version = max(graph.version, lowest_version(graph))
    for _, block in graph.blocks():
        for operator in block.operators:
            operator.location = operator.location or UNKNOWN
    return graph


def difference(expected: Graph, path: Path, reference: dict[str, bytes]) -> str:
    """Return the first difference between the program and the file at `path`; "" if there is none."""
    found = tc.compare(expected, tc.load(path), locations=True, version=True)
    if found is not None:
        return str(found)
    written = bytes_below(path.parent)
    unequal = sorted(
        name
        for name in written.keys() | reference.keys()
        if written.get(name) != reference.get(name)
    )
    return f"other bytes than from another row: {', '.join(unequal)}" if unequal else ""


def build(graph: Graph) -> None:
    """Build the program in MLIR; raises the verifier's error."""
    bindings = default_bindings()
    write(graph, bindings, bindings.new_context())


def fill(table: Table, source: Path, scratch: Path) -> None:
    """Take one program through every cell."""
    graph = original(source)
    table.files += 1
    for _, block in graph.blocks():
        table.operators.update(operator.spec.name for operator in block.operators)
    forms: tuple[Form, ...] = FORMS
    try:
        build(graph)
    except tc.TosaConvertError as error:
        if error.code != "malformed-mlir":
            raise
        table.refused[str(source)] = error.findings[0].message
        forms = tuple(form for form in FORMS if not form.is_mlir)
    paths = {form.name: form.write(graph, scratch / form.name) for form in forms}
    # The bytes of each column, for rows that are MLIR and for the other rows.
    bytes_of = {(False, form.name): bytes_below(paths[form.name].parent) for form in forms}
    for row in forms:
        middle = tc.load(paths[row.name])
        for column in forms:
            path = column.write(middle, scratch / f"{row.name} to {column.name}")
            reference = bytes_of.setdefault((row.is_mlir, column.name), bytes_below(path.parent))
            said = difference(graph, path, reference)
            cell = row.name, column.name
            if said:
                table.differences.append((cell, str(source), said))
            else:
                table.counts[cell] += 1


def run(sources: Iterable[Path]) -> Table:
    """Return the table of these programs, in any format that can be read."""
    table = Table()
    parent = _MEMORY if _MEMORY.is_dir() else None
    for source in sources:
        with tempfile.TemporaryDirectory(prefix="table-", dir=parent) as scratch:
            fill(table, source, Path(scratch))
    return table


def main(arguments: list[str] | None = None) -> int:
    """Fill the table with the files below a directory and print it."""
    parser = argparse.ArgumentParser(description="Convert every format into every other.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--every", type=int, default=1, help="only every N-th file")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    table = run(sorted(options.directory.rglob("*.tosa"))[:: options.every])
    print("\n".join(table.lines()))
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if table.passed else 1


if __name__ == "__main__":
    sys.exit(main())
