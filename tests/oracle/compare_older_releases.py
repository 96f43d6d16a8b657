"""Let older releases of MLIR read what is written for them.

    python tests/oracle/compare_older_releases.py [--keep DIR] RELEASE=PATH ...

RELEASE is one that `--for` takes, such as iree==3.2.0 or tosa-opt==2026.2.0. PATH is a Python that has
the package; for tosa-opt the program; and for IREE up to 20230209, whose bindings need an older Python,
the library libIREECompilerAggregateCAPI.so or libIREECompiler.so of the wheel. A program of every
operator is written for the release, as text and as bytecode if it has a form there. The release parses
and verifies each file, and prints it in generic form. Both files, upgraded, must be the same program
again. Prints a table, then every file that a release does not read or that differs. Exit code 1 if there
is one that is not in `KNOWN`, or if nothing was compared.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle.compare_eras import program
from oracle.every_operator import examples

import tosa_convert as tc
from tosa_convert.consumers.readers import Consumer, reader_named
from tosa_convert.eras.dialect_states import BYTECODE, state_of
from tosa_convert.formats.read import open_input, read_upgraded
from tosa_convert.io.formats import Format
from tosa_convert.io.options import ReadOptions

_WORKER: Final = Path(__file__).with_name("older_mlir.py")
#: Programs that have more operators after the way there and back, and why.
KNOWN: Final = {
    "operand-padding": "a value of PAD that is computed is reshaped to rank 0, and back",
}
_HEADS: Final = ("programs", "refused", "written", "read", "equal", "equal as printed")


def parsed(
    path: Path, reader: Consumer, names: list[str], source: Path, target: Path
) -> Iterator[tuple[str, str]]:
    """Iterate over each file with the error of the release, or "". A crash is the error of one file."""
    if reader.name == "tosa-opt":
        for name in names:
            options = ["--mlir-print-op-generic", "-o", str(target / name)]
            done = subprocess.run(
                [path, source / name, *options], capture_output=True, text=True, check=False
            )
            yield name, " ".join(done.stderr.split()) if done.returncode else ""
        return
    command: list[str | Path] = [path, _WORKER, source, target]
    if path.suffix == ".so":
        command = [sys.executable, _WORKER, source, target, path]
    left = list(names)
    while left:
        done = subprocess.run(
            command, input="\n".join(left) + "\n", capture_output=True, text=True, check=False
        )
        rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
        yield from ((name, problem) for name, problem in rows)
        left = left[len(rows) :]
        if left:
            yield left.pop(0), f"exit code {done.returncode} {' '.join(done.stderr.split())[-200:]}"


def again(data: bytes, month: str) -> object:
    """Return what a file computes, upgraded."""
    return program(read_upgraded(open_input(data), ReadOptions(dialect=month))[0])


def compare(
    reader: Consumer, path: Path, graphs: dict[str, tc.Graph], form: Format, folder: Path
) -> tuple[Counter[str], list[str]]:
    """Compare all programs in one form."""
    source, target = folder / "written", folder / "printed"
    for each in (source, target):
        each.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter(programs=len(graphs))
    notes = []
    for name, graph in graphs.items():
        try:
            data = tc.dumps(graph, form, dialect=reader.dialect, validate=False)
        except tc.TosaConvertError as error:
            if {row.code for row in error.findings} != {"unsupported-by-reader"}:
                raise
            counts["refused"] += 1
            continue
        (source / name).write_bytes(data)
        counts["written"] += 1
    written = sorted(each.name for each in source.iterdir())
    for name, problem in parsed(path, reader, written, source, target):
        where, expected = f"{reader.release} {form} {name}", program(graphs[name])
        if name in KNOWN and not problem:
            counts["read"] += 1
            continue
        if again((source / name).read_bytes(), reader.dialect) == expected:
            counts["equal"] += 1
        else:
            notes.append(f"{where}: differs when it is upgraded")
        if problem:
            notes.append(f"{where}: {problem[:300]}")
            continue
        counts["read"] += 1
        try:
            same = again((target / name).read_bytes(), reader.dialect) == expected
            said = "differs as the release prints it"
        except tc.TosaConvertError as error:
            same, said = False, f"as printed: {error}"
        if same:
            counts["equal as printed"] += 1
        else:
            notes.append(f"{where}: {said}")
    return counts, notes


def main(rows: list[str], keep: Path) -> int:
    """Compare for all releases; returns the exit code."""
    logging.disable(logging.WARNING)
    graphs = dict(examples())
    notes: list[str] = []
    total: Counter[str] = Counter()
    print(f"{'release':32} {'form':8}", *(f"{head:>16}" for head in _HEADS))
    for row in rows:
        release, _, path = row.rpartition("=")
        reader = reader_named(release)
        forms: tuple[Format, ...] = ("mlir", "mlirbc")
        if state_of(reader.dialect) < BYTECODE:
            forms = ("mlir",)
        for form in forms:
            folder = keep / release / form
            counts, found = compare(reader, Path(path), graphs, form, folder)
            notes += found
            total += counts
            print(
                f"{reader.release:32} {form:8}",
                *(f"{counts[head]:16}" for head in _HEADS),
                flush=True,
            )
    print(*notes, sep="\n")
    return int(bool(notes) or not total["equal as printed"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("releases", nargs="+", metavar="RELEASE=PATH")
    parser.add_argument("--keep", type=Path, help="a folder for the files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(arguments.releases, arguments.keep or Path(temporary)))
