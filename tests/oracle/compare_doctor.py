"""Compare what `doctor` says of files with what the programs that it names do with them.

    python tests/oracle/compare_doctor.py STATE [--suite DIR] [--models DIR] [--environment FOLDER ...]

Small programs of every operator, random ones, every second one of an official suite in DIR
(official_suite.py makes it) and TFLite models are written as `.tosa`, as MLIR bytecode, and some in all
formats and forms of weights. Each program that is installed here or in an environment reads each file.
STATE keeps what it did, so that the same command continues where it was stopped. The results go to
tests/oracle/readers.json, from which docs/doctor.md has its table. Exit code 1 if nothing was compared,
or for a difference that is not in `KNOWN`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import consumers
from oracle.consumers import CRASH, Consumer
from oracle.every_operator import examples
from oracle.official_suite import cases

import tosa_convert as tc
from tosa_convert.cli.doctor import stored_program
from tosa_convert.consumers.doctor import Diagnosis, diagnose
from tosa_convert.consumers.readers import reader_named
from tosa_convert.formats.read import open_input, read_as_stored
from tosa_convert.golden import generate
from tosa_convert.graph import Graph
from tosa_convert.graph.versions import V1_0, lowest_version
from tosa_convert.io.options import Weights

RESULTS: Final = Path(__file__).with_name("readers.json")
#: Differences that are known, by program and by a part of the reason, and why they stay.
KNOWN: Final = {
    ("", "the weights are"): "it reads the file without the data",
    ("", "TOSA forbids"): "it does not check the rule of TOSA",
    ("vela:ethos-u85", "of unknown sizes"): "it takes an unknown size for 4294967295",
    ("model-converter", "in generic form"): "it reads the custom form of some operators",
    ("torq", "does not read WHILE_LOOP"): "it reads control flow with conditions of rank 0",
    ("torq", "SIGABRT"): "it crashes on some shapes",
    ("torq", "linalg.generic"): "its own lowering is not valid",
    ("torq", "captured values"): "its own lowering is not valid",
    ("torq", "of unknown sizes"): "it reads operators that change nothing",
    ("soda-opt", "an older TOSA"): "it is not what is written of the program again",
}
#: Reader -> its program in an environment, and what runs it.
_TOOLS: Final[dict[str, tuple[str, Any]]] = {
    **{
        f"vela:{name}": ("vela", partial(consumers.vela, accelerator=f"{name}-256"))
        for name in ("ethos-u55", "ethos-u65", "ethos-u85")
    },
    "model-converter": ("model-converter", consumers.model_converter),
    "model-converter:require-static-shape": (
        "model-converter",
        lambda program: consumers.model_converter(program, "--require-static-shape"),
    ),
    "model-explorer": (
        "model-explorer",
        lambda it: consumers.model_explorer(it.with_name("python")),
    ),
    "iree": ("iree-compile", consumers.iree_import),
    "tosa-opt": ("tosa-opt", lambda program: consumers.installed()["tosa-opt"]),
    "flatc": ("tosa-opt", lambda program: consumers.installed()["flatc"]),
    "torq": ("torq-compile", partial(consumers.iree_import, kind="tosa-torq")),
    "soda-opt": ("mlir-opt", consumers.mlir_opt),
}
READERS: Final = tuple(_TOOLS)
#: How the names of files begin that are written for one reader.
_FOR: Final = "for-"
#: Programs that are written in every format and form of weights.
_EVERY_FORM: Final = ("convolution", "variable", "elementwise-0-floats")
#: Operators of random programs of integers.
_INTEGER: Final = (
    "ADD SUB MUL ABS CLZ CLAMP MAXIMUM MINIMUM NEGATE CONV2D DEPTHWISE_CONV2D MATMUL RESCALE TABLE PAD "
    "SLICE CONCAT RESHAPE REVERSE TRANSPOSE REDUCE_SUM REDUCE_MAX REDUCE_MIN MAX_POOL2D AVG_POOL2D "
    "ARGMAX CAST TILE IDENTITY RESIZE"
)


class Row(NamedTuple):
    """What programs did with a file, and what doctor says: a letter for each of `READERS`.

    y: it reads the file; n: it refuses it; c: it crashes; -: it was not given the file.
    """

    digest: str
    did: str
    doctor: str


def written(graph: Graph, name: str, folder: Path) -> Iterator[Path]:
    """Iterate over the program in every format and form of weights that can express it."""
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


def saved(graph: Graph, path: Path) -> Path:
    """Write a program, also one that TOSA forbids."""
    tc.save(graph, path, validate=False)
    return path


def example_files(folder: Path) -> Iterator[Path]:
    """Iterate over programs of every operator as .tosa files, some of them in every form."""
    for name, graph in examples():
        if name in _EVERY_FORM:
            yield from written(graph, f"every-{name}", folder)
        else:
            yield saved(graph, folder / f"every-{name}.tosa")


def random_programs(count: int) -> Iterator[tuple[str, Graph]]:
    """Iterate over random programs of all operators, and as many of integers."""
    for seed in range(count):
        yield f"random-{seed}", generate(seed, 1 + seed % 20)
        yield f"random-int-{seed}", generate(seed, 1 + seed % 9, kinds=_INTEGER.split())


def older_forms(folder: Path) -> Iterator[Path]:
    """Iterate over programs of TOSA 1.0 in the form of each reader with an older dialect."""
    for reader in READERS:
        row = reader_named(reader)
        # One that reads every form is given the examples in that of today.
        chosen = () if row.every_form else examples()
        for name, graph in (*chosen, *random_programs(150)) if row.dialect else ():
            path = folder / f"{_FOR}{reader}-{name}.mlirbc"
            if lowest_version(graph) == V1_0:
                # What has no form there, or TOSA forbids, is not written.
                with contextlib.suppress(tc.TosaConvertError):
                    tc.save(graph, path, dialect=row.dialect)
                    yield path


def files(folder: Path, suite: Path | None, models: Path | None) -> Iterator[Path]:
    """Iterate over all files that are compared. Each is written anew, except those of the suite."""
    yield from example_files(folder)
    for name, graph in examples():
        if name not in _EVERY_FORM:
            yield saved(graph, folder / f"every-{name}.mlirbc")
    for name, graph in random_programs(60):
        yield saved(graph, folder / f"{name}.tosa")
    for case in cases(suite)[::2] if suite else ():
        path = folder / f"suite-{case.tosa.parent.name}.tosa"
        path.write_bytes(case.tosa.read_bytes())
        yield path
    for model in sorted(models.glob("*.tflite")) if models else ():
        graph = tc.frontends.from_tflite(model)
        yield saved(graph, folder / f"tflite-{model.stem}.tosa")
        yield saved(graph, folder / f"tflite-{model.stem}.mlirbc")
    yield from older_forms(folder)
    digits = Path(__file__).parents[2] / "examples" / "digits_cnn.mlirbc"
    yield from written(tc.load(digits), "digits_cnn", folder)


def is_given(reader: str, path: Path) -> bool:
    """Return whether a program is given a file: what only reads the other kind is not asked."""
    if path.name.startswith(_FOR):
        return path.name.startswith(f"{_FOR}{reader}-")
    is_mlir = path.suffix in (".mlir", ".mlirbc")
    return any((form in ("mlir", "mlirbc")) == is_mlir for form in reader_named(reader).formats)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def predicted(path: Path) -> list[Diagnosis]:
    """Return what doctor says of a file, for each of `READERS`."""
    opened = open_input(str(path))
    graph, storage, is_old = read_as_stored(opened)
    stored = stored_program(str(path), opened, storage, graph, is_old=is_old)
    return diagnose(graph, stored, list(READERS))


class Measured:
    """What programs did with files, kept as lines of [file, digest, reader, reads, message]."""

    def __init__(self, state: Path, environments: list[Path]) -> None:
        self.state = state
        self.programs = {
            reader: program
            for reader, (name, _) in _TOOLS.items()
            for folder in environments
            if (program := folder / "bin" / name).exists()
        }
        lines = state.read_text(encoding="utf-8").splitlines() if state.exists() else []
        self.known = {tuple(row[:3]): (row[3], row[4]) for row in map(json.loads, lines)}
        self.lock = threading.Lock()
        self.local = threading.local()

    def read(self, path: Path) -> None:
        """Have each program read a file, unless it is known what it did."""
        tools: dict[str, Consumer] = self.local.__dict__.setdefault("tools", {})
        for reader, program in self.programs.items():
            key = (path.name, digest_of(path), reader)
            if key in self.known or not is_given(reader, path):
                continue
            if reader not in tools:
                tools[reader] = _TOOLS[reader][1](program)
            outcome = tools[reader](path, None)
            assert outcome is not None
            with self.lock, self.state.open("a", encoding="utf-8") as stream:
                self.known[key] = outcome.reads, outcome.message
                stream.write(json.dumps([*key, *self.known[key]]) + "\n")


def compare(paths: list[Path], measured: Measured) -> tuple[dict[str, Row], list[str]]:
    """Return the row of each file, and every difference in words; a known one says why in brackets."""
    rows, differences = {}, []
    for path in paths:
        digest, did, said = digest_of(path), "", ""
        for reader, found in zip(READERS, predicted(path), strict=True):
            reads, message = measured.known.get((path.name, digest, reader), (None, ""))
            said += "-" if reads is None else "y" if found.reads else "n"
            did += "-" if reads is None else "y" if reads else "c" if CRASH in message else "n"
            if reads in (None, found.reads):
                continue
            reason = message or found.findings[0].message
            known = [
                text for (name, part), text in KNOWN.items() if name in reader and part in reason
            ]
            words = "reads" if found.reads else "does not read"
            why = f" [{known[0]}]" if known else ""
            differences.append(f"{reader}: doctor says that it {words} {path.name}: {reason}{why}")
        rows[path.name] = Row(digest, did, said)
    return rows, differences


def main(words: list[str] | None = None) -> int:
    """Compare, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("state", type=Path)
    parser.add_argument("--suite", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--environment", type=Path, action="append", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(words)
    folder = given.state / "files"
    folder.mkdir(parents=True, exist_ok=True)
    measured = Measured(given.state / "outcomes.jsonl", [Path(sys.prefix), *given.environment])
    paths = list(files(folder, given.suite, given.models))
    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(measured.read, paths))
    rows, differences = compare(paths, measured)
    print(f"{len(rows)} files", *differences, sep="\n")
    missing = [reader for reader in READERS if reader not in measured.programs]
    if missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 1
    releases = {reader: reader_named(reader).release for reader in READERS}
    text = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    RESULTS.write_text(
        f'{{"releases": {json.dumps(releases)},\n"files": {{\n{text}\n}}}}\n', encoding="utf-8"
    )
    return 1 if not rows or any(not line.endswith("]") for line in differences) else 0


if __name__ == "__main__":
    sys.exit(main())
