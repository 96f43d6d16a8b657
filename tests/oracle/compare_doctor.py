"""Compare what `doctor` says of files with what the programs that it names do with them.

    python tests/oracle/compare_doctor.py [DIR] [--every 50] [--vela PROGRAM] [--model-converter PROGRAM]
        [--model-explorer PYTHON] [--netron PYTHON]

Small programs, and those of an official suite in DIR (tests/oracle/official_suite.py makes it), are
written in the formats that the installed programs read, one of them in all formats and forms of weights,
and the programs read the files. Prints a table,
then every difference with the program's message. Exit code 1 if nothing was compared, or for a
difference that is not in `KNOWN`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from oracle import consumers
from oracle.consumers import Consumer, Feeds
from oracle.netron_viewer import netron
from oracle.small_programs import programs

import tosa_convert as tc
from tosa_convert.cli.doctor import stored_program
from tosa_convert.doctor import diagnose
from tosa_convert.file_consumers import READERS
from tosa_convert.graph import Graph
from tosa_convert.options import Weights
from tosa_convert.reading import open_input, read_with_storage

#: Differences that are known, by program and by a part of the reason, and why they stay.
KNOWN: Final = {
    ("flatc", "in .npy files"): "it prints what is in the file, constants without data",
    ("iree", "only in generic form"): "it reads the custom form of some operators",
    ("netron", "does not read MATMUL_T"): "in MLIR it shows any operator",
    ("vela", "of unknown sizes"): "it takes an unknown size for 4294967295, and compiles that",
    ("vela", ""): "it refuses operators, types and sizes that its facts do not list",
    ("model-converter", ""): "it refuses operators that its facts do not list",
}

#: Element types of which the reference model takes plain arrays.
_PLAIN: Final = frozenset(("BOOL", "INT8", "INT16", "INT32", "FP32", "FP16"))


class Row(NamedTuple):
    """One file and one program: what doctor says, and what the program did."""

    reader: str
    file: str
    predicted: bool
    reads: bool
    reason: str


def written(graph: Graph, name: str, folder: Path) -> Iterator[Path]:
    """The program in every format and form of weights that can express it."""
    weights: tuple[Weights, ...] = ("embedded", "offset", "npy")
    for form in weights:
        path = folder / f"{name}-{form}.tosa"
        if form == "embedded" or any(data.count for _, data in graph.constants()):
            tc.save(graph, path, weights=form, validate=False)
            yield path
    tc.save(graph, folder / f"{name}.json")
    tc.save(graph, folder / f"{name}-1.mlirbc", validate=False)
    tc.save(graph, folder / f"{name}-6.mlirbc", validate=False, bytecode_version=6)
    tc.save(graph, folder / f"{name}.mlir", validate=False)
    tc.save(graph, folder / f"{name}-generic.mlir", validate=False, generic=True)
    for suffix in (".json", "-1.mlirbc", "-6.mlirbc", ".mlir", "-generic.mlir"):
        yield folder / f"{name}{suffix}"


def feeds_of(graph: Graph, folder: Path) -> Feeds | None:
    """Arrays of zeros for the inputs; None where a type or shape has no plain array."""
    inputs: dict[str, Path] = {}
    for index, name in enumerate(graph.main.inputs):
        tensor = graph.main.tensors.get(name)
        if tensor is None or tensor.dtype.name not in _PLAIN or tensor.element_count() is None:
            return None
        assert tensor.shape is not None
        path = folder / f"input{index}.npy"
        np.save(path, np.zeros(tensor.shape, tensor.dtype.numpy))
        inputs[name] = path
    names = [*inputs, *graph.main.outputs]
    # Without inputs the reference model needs another kind of command line.
    if (
        not inputs
        or not graph.main.outputs
        or any("," in name or not name.isprintable() for name in names)
    ):
        return None
    return Feeds(inputs, list(dict.fromkeys(graph.main.outputs)))


def compare(
    graph: Graph, name: str, tools: dict[str, Consumer], folder: Path, every_form: bool
) -> Iterator[Row]:
    """Each file of a program with each reader that is installed.

    every_form: also files in formats and forms of weights that a reader does not read.
    """
    feeds = feeds_of(graph, folder)
    for path in written(graph, name, folder):
        opened = open_input(str(path))
        read, storage = read_with_storage(opened)
        stored = stored_program(str(path), opened, storage)
        for row in diagnose(read, stored, sorted(tools)):
            other_form = opened.format not in row.reader.formats or (
                opened.format == "tosa" and stored.weights != {"embedded"} and stored.weights
            )
            if other_form and not every_form:
                continue
            outcome = tools[row.reader.name](path, feeds)
            if outcome is None:
                continue
            reason = outcome.message or "; ".join(finding.message for finding in row.findings)
            yield Row(row.reader.name, path.name, row.reads, outcome.reads, reason)


def explanation(row: Row) -> str:
    """Why a difference is known, or ""."""
    for (reader, part), text in KNOWN.items():
        if reader == row.reader and part in row.reason and (part or row.predicted):
            return text
    return ""


def table(rows: list[Row]) -> Iterator[str]:
    """The counts of each program, then the differences."""
    yield f"{'program':16} {'release':32} {'files':>6} {'agree':>6} {'known':>6} {'differ':>6}"
    for name in READERS:
        of_reader = [row for row in rows if row.reader == name]
        if not of_reader:
            yield f"{name:16} {READERS[name].release:32} not installed, not compared"
            continue
        differ = [row for row in of_reader if row.predicted != row.reads]
        known = [row for row in differ if explanation(row)]
        counts = len(of_reader), len(of_reader) - len(differ), len(known), len(differ) - len(known)
        numbers = " ".join(f"{count:6}" for count in counts)
        yield f"{name:16} {READERS[name].release:32} {numbers}"
    for row in rows:
        if row.predicted != row.reads:
            says = "reads" if row.predicted else "does not read"
            why = f" [{text}]" if (text := explanation(row)) else ""
            yield f"{row.reader}: doctor says that it {says} {row.file}: {row.reason[:160]}{why}"


def main(words: list[str] | None = None) -> int:
    """Compare, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", nargs="?", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--vela", type=Path)
    parser.add_argument("--model-converter", type=Path)
    parser.add_argument("--model-explorer", type=Path)
    parser.add_argument("--netron", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="READER")
    options = parser.parse_args(words)
    tools = consumers.installed()
    for name, make in (
        ("vela", consumers.vela),
        ("model-converter", consumers.model_converter),
        ("model-explorer", consumers.model_explorer),
        ("netron", netron),
    ):
        program = getattr(options, name.replace("-", "_"))
        if program is not None:
            tools[name] = make(program)
    tools = {name: tool for name, tool in tools.items() if not options.only or name in options.only}
    rows: list[Row] = []
    found = dict(programs())
    if options.suite is not None:
        paths = sorted(options.suite.rglob("*.tosa"))[:: options.every]
        found |= {f"{path.parent.name}-{path.stem}": tc.load(path) for path in paths}
    for name, graph in found.items():
        with tempfile.TemporaryDirectory() as folder:
            rows += compare(graph, name, tools, Path(folder), name == "convolution")
        print(f"\r{name:60}", end="", file=sys.stderr)
    print("\n".join(table(rows)))
    unknown = [row for row in rows if row.predicted != row.reads and not explanation(row)]
    return 1 if unknown or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
