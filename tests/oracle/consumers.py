"""Programs that read TOSA files, one function each: whether they read a file, by running them.

Nothing here imports our own code. A program that is not installed is None; a script names the ones that
are in environments of their own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

#: Seconds after which a program counts as hanging.
PATIENCE: Final = 300

_EXPLORER: Final = """
import sys
from tosa_adapter_model_explorer import main
adapter = next(v for v in vars(main).values() if isinstance(v, type) and hasattr(v, "convert")
               and v.__module__ == main.__name__ and "Flatbuffer" in v.__name__)
graphs = adapter().convert(sys.argv[1], {})["graphs"]
assert any(graph.nodes for graph in graphs), "no graph"
for node in (node for graph in graphs for node in graph.nodes if node.label == "CONST"):
    data = [row.value for meta in node.outputsMetadata for row in meta.attrs if row.key == "data"]
    assert str(data) not in ("['None']", "['[]']"), f"no values: {data}"
"""
#: In JSON, fields of tensors with weights after the flatbuffer. Constants without data lose them, too.
_APART: Final = ('"offset":', '"scale_offset":')
_BINDINGS: Final = """
import sys
from {package} import ir
from {package}.dialects import func, tosa
context = ir.Context()
module = ir.Module.parse(open(sys.argv[1], "rb").read(), context)
module.operation.verify()
"""


@dataclass(frozen=True)
class Outcome:
    """What a program did with a file: whether it read it, and the last line of its message if not."""

    reads: bool
    message: str = ""


@dataclass(frozen=True)
class Feeds:
    """What a run needs: inputs with their arrays, and the names of outputs. None: it cannot be run."""

    inputs: dict[str, Path]
    outputs: list[str]


Consumer = Callable[[Path, Feeds | None], Outcome | None]


def _run(command: Sequence[str | Path], result: Path | None = None) -> Outcome:
    """Run a program; it read the file if it ended well and wrote its result."""
    try:
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            check=False,
            timeout=PATIENCE,
            # The reference model attaches a debugger to its caller if it finds one on the path.
            env={**os.environ, "PATH": "", "PYTHONPATH": ""},
        )
    except subprocess.TimeoutExpired:
        return Outcome(False, f"no result in {PATIENCE} s")
    lines = [
        line.strip()
        for text in (done.stdout, done.stderr)
        for line in text.decode(errors="replace").splitlines()
        if line.strip()
    ]
    last = lines[-1] if lines else f"exit code {done.returncode}"
    if done.returncode:
        errors = [line for line in lines if "rror" in line]
        return Outcome(False, (errors or [last])[0])
    if result is not None and not (result.exists() and result.stat().st_size):
        return Outcome(False, last)
    return Outcome(True)


def tosa_opt(program: Path) -> Consumer:
    """`tosa-opt` writes the module of a flatbuffer, or the module that it parses."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            empty, module = Path(folder, "empty.mlir"), Path(folder, "module.mlir")
            empty.write_text("module {}\n", encoding="utf-8")
            if file.suffix in (".mlir", ".mlirbc"):
                return _run([program, file, "-o", module], module)
            flag = f"--tosa-deserialize=tosa-flatbuffer-filename={file}"
            return _run([program, flag, empty, "-o", module], module)

    return read


def vela(program: Path) -> Consumer:
    """Vela compiles for an Ethos-U85."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            config = ("--accelerator-config", "ethos-u85-256", "--output-dir", folder)
            outcome = _run([program, *config, file])
            written = Path(folder, f"{file.stem}_vela.tflite").exists()
            return outcome if written or not outcome.reads else Outcome(False, "wrote nothing")

    return read


def model_converter(program: Path) -> Consumer:
    """The converter writes a VGF file."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "model.vgf")
            return _run([program, "--input", file, "--output", result], result)

    return read


def model_explorer(python: Path) -> Consumer:
    """The adapter makes a graph of nodes."""
    return lambda file, feeds: _run([python, "-c", _EXPLORER, file])


def bindings(python: Path, package: str) -> Consumer:
    """Python bindings of MLIR parse and verify a module."""
    return lambda file, feeds: _run([python, "-c", _BINDINGS.format(package=package), file])


def flatc(program: Path, schema: Path) -> Consumer:
    """`flatc` prints a file as JSON, which has no weights that are after the flatbuffer."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            out = ("--raw-binary", "--strict-json", "-o", folder, schema, "--", file)
            if file.suffix == ".json":
                return _run([program, "--binary", "-o", folder, schema, file])
            outcome = _run([program, "--json", *out])
            text = Path(folder, f"{file.stem}.json")
            if not outcome.reads or not text.exists():
                return Outcome(False, outcome.message)
            apart = any(word in text.read_text(encoding="utf-8") for word in _APART)
            return Outcome(False, "drops data") if apart else Outcome(True)

    return read


def reference_model(program: Path, schema: Path) -> Consumer:
    """The reference model runs the program."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        if feeds is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            results = [Path(folder, f"{index}.npy") for index in range(len(feeds.outputs))]
            words = {
                "operator_fbs": schema,
                "flatbuffer_dir": file.parent,
                "tosa_file": file.name,
                "ifm_name": ",".join(feeds.inputs),
                "ifm_file": ",".join(map(str, feeds.inputs.values())),
                "ofm_name": ",".join(feeds.outputs),
                "ofm_file": ",".join(map(str, results)),
            }
            return _run(
                [program, *(f"--{name}={word}" for name, word in words.items() if str(word))],
                results[0] if results else None,
            )

    return read


def installed() -> dict[str, Consumer]:
    """The programs in the environment of this interpreter."""
    found: dict[str, Consumer] = {}
    python = Path(sys.executable)
    for name, package in (("torch-mlir", "torch_mlir"), ("iree", "iree.compiler")):
        done = subprocess.run(
            [python, "-c", f"import {package}.ir"], capture_output=True, check=False
        )
        if done.returncode == 0:
            found[name] = bindings(python, package)
    with contextlib.suppress(metadata.PackageNotFoundError):
        tools = Path(str(metadata.distribution("tosa-tools").locate_file("bin")))
        schema = tools / "tosa.fbs"
        found["tosa-opt"] = tosa_opt(tools / "tosa-opt")
        found["flatc"] = flatc(tools / "flatc", schema)
        found["reference-model"] = reference_model(tools / "tosa_reference_model", schema)
    return found
