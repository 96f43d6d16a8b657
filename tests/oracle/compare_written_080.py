"""Compare `.tosa` files of TOSA 0.80, as they are written here, with what other programs make of them.

    python tests/oracle/compare_written_080.py [DIR ...] [--flatc PROGRAM --schema FILE] [--vela PROGRAM]

A program of every operator, and each `.tosa` file below the folders (official suites, or files of 0.80
of other writers), is written as 0.80 and read back, upgraded: it must be the same program. With --flatc
and the schema of 0.80, flatc converts the programs of every operator to JSON and back, and the result
must be the same, too. With --vela, a release up to 4.3.0, Vela compiles each file that is of 0.80
already, as it is and as it is written here, and must do the same with both. Prints the counts, the
reasons of what is refused, and what differs. Exit code 1 for a difference, or if nothing was compared.
"""

from __future__ import annotations

import argparse
import logging
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from oracle.compare_eras import program
from oracle.every_operator import examples

import tosa_convert as tc
from tosa_convert.formats.read import open_input, read_as_stored, read_upgraded
from tosa_convert.io.options import ReadOptions


def old_form(graph: tc.Graph, reasons: Counter[str]) -> bytes | None:
    """Return the bytes of a file of 0.80, or None; why not is counted."""
    try:
        return tc.dumps(graph, dialect="0.80", validate=False)
    except tc.TosaConvertError as error:
        if {row.code for row in error.findings} != {"unsupported-by-reader"}:
            raise
        reasons[re.sub(r"-?\d+", "N", error.findings[0].message.removeprefix("TOSA 0.80 "))] += 1
        return None


def files(folders: list[Path]) -> Iterator[tuple[str, tc.Graph]]:
    """Iterate over the programs of files that can be read."""
    for folder in folders:
        for path in sorted(folder.rglob("*.tosa")):
            try:
                yield str(path), tc.load(path)
            except tc.TosaConvertError:
                continue  # the official tests of errors


def through_flatc(flatc: Path, schema: Path, data: bytes) -> bytes:
    """Return a file as JSON and back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "m.tosa").write_bytes(data)
        for step in (("--json", "--strict-json", schema, "--", "m.tosa"), ("-b", schema, "m.json")):
            subprocess.run([flatc, *step], cwd=folder, check=True, capture_output=True)
        return (folder / "m.tosa").read_bytes()


def compiled(vela: Path, data: bytes) -> tuple[int, dict[str, Any]]:
    """Vela's exit code, and the arrays that it writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "m.tosa").write_bytes(data)
        command: list[str | Path] = [
            vela,
            "m.tosa",
            "--output-dir",
            "out",
            "--output-format",
            "raw",
        ]
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True)
        arrays: dict[str, Any] = {}
        for path in sorted(folder.rglob("*.npz")):
            with np.load(path, allow_pickle=True) as found:
                arrays |= {key: repr(found[key].tolist()) for key in found.files}
        return done.returncode, arrays


def compare_in_vela(vela: Path, folders: list[Path], counts: Counter[str]) -> Iterator[str]:
    """Iterate over the files that Vela does something else with."""
    for folder in folders:
        for path in sorted(folder.rglob("*.tosa")):
            graph, _, is_old = read_as_stored(open_input(path))
            if not is_old:
                continue
            before = compiled(vela, path.read_bytes())
            after = compiled(vela, tc.dumps(graph, dialect="0.80"))
            counts["Vela: same"] += before == after
            counts["Vela: compiled"] += bool(before[1]) and before == after
            if before != after:
                yield f"{path}: Vela does something else with it"


def main(arguments: argparse.Namespace) -> int:
    """Compare everything; returns the exit code."""
    logging.disable(logging.WARNING)
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    seen: set[str] = set()
    notes = []
    own = dict(examples())
    for name, graph in (*own.items(), *files(arguments.folders)):
        data = old_form(graph, reasons)
        if data is None:
            counts["refused by name"] += 1
            continue
        key = program(graph)
        if program(read_upgraded(open_input(data), ReadOptions())[0]) != key:
            notes.append(f"{name}: differs when it is upgraded")
            continue
        counts["same when upgraded"] += 1
        seen.update(op.spec.encoded_as for _, block in graph.blocks() for op in block.operators)
        if arguments.flatc is not None and name in own:
            schema = arguments.schema.resolve()
            again = through_flatc(arguments.flatc, schema, data)
            if program(read_upgraded(open_input(again), ReadOptions())[0]) == key:
                counts["same through flatc"] += 1
            else:
                notes.append(f"{name}: differs after flatc")
    if arguments.vela is not None:
        notes += compare_in_vela(arguments.vela.absolute(), arguments.folders, counts)
    for what, count in (*counts.items(), ("operators", len(seen))):
        print(f"{count:8} {what}")
    for reason, count in reasons.most_common():
        print(f"{count:8} refused: {reason}")
    print(*notes, sep="\n")
    return int(bool(notes) or not counts["same when upgraded"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--flatc", type=Path, metavar="PROGRAM")
    parser.add_argument("--schema", type=Path, metavar="FILE", help="of TOSA 0.80")
    parser.add_argument("--vela", type=Path, metavar="PROGRAM")
    sys.exit(main(parser.parse_args()))
