"""Programs that read TOSA files, one function each: whether they read a file, by running them.

Nothing here imports our own code. A program that is not installed is None; a script names the ones that
are in environments of their own.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

#: How the message of a program begins that a signal ended.
CRASH: Final = "it crashes: "
#: Seconds after which a program counts as hanging.
PATIENCE: Final = 300

#: Checks the graph, and writes it with numbers for names, and without locations.
EXPLORER: Final = """
import dataclasses, json, re, sys
from tosa_adapter_model_explorer import main
adapter = next(v for v in vars(main).values() if isinstance(v, type) and hasattr(v, "convert")
               and v.__module__ == main.__name__ and "Flatbuffer" in v.__name__)
graphs = adapter().convert(sys.argv[1], {})["graphs"]
assert any(graph.nodes for graph in graphs), "no graph"
for node in (node for graph in graphs for node in graph.nodes if node.label == "CONST"):
    data = [row.value for meta in node.outputsMetadata for row in meta.attrs if row.key == "data"]
    assert str(data) not in ("['None']", "['[]']"), f"no values: {data}"
numbers = {}
PLACES = "id", "namespace", "sourceNodeId", "sourceNodeOutputId", "targetNodeInputId"
def numbered(found, names=PLACES):
    if isinstance(found, list):
        return [numbered(one) for one in found]
    if not isinstance(found, dict):
        return found
    if found.get("key") == "opLocation":
        return None
    if found.get("key") == "data":
        # The number of bytes, of which zeros at the end are padding to 8.
        pattern = r"out of (\\d+) elements"
        found["value"] = re.sub(pattern, lambda m: str(-(-int(m[1]) // 8)), found["value"])
    if found.get("key") == "name":
        names = (*names, "value")
    return {key: numbers.setdefault(value, len(numbers)) if key in names else numbered(value)
            for key, value in found.items()}
with open(sys.argv[2], "w") as file:
    json.dump([numbered(dataclasses.asdict(graph)) for graph in graphs], file)
"""
#: What Vela says of an operator that it refuses: its name, and then a reason.
_VELA_FINDINGS: Final = "Validation error:"
#: In JSON, fields of tensors with weights after the flatbuffer. Constants without data lose them, too.
_APART: Final = ('"offset":', '"scale_offset":')
_TO_LINALG: Final = (
    "builtin.module(func.func(tosa-to-arith,tosa-to-tensor,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true}))"
)
#: An operation of TOSA in MLIR text.
_LEFT: Final = r'(?m)^\s*(?:%[^=\n]*= )?"?(tosa\.\w+)'
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
    """What a program did with a file.

    reads: whether it read it. message: the line of its message that says why not.
    result: a digest of what it made of the file, in which names do not count; "" for nothing.
    """

    reads: bool
    message: str = ""
    result: str = ""


@dataclass(frozen=True)
class Feeds:
    """What a run needs: inputs with their arrays, and the names of outputs. None: it cannot be run."""

    inputs: dict[str, Path]
    outputs: list[str]


Consumer = Callable[[Path, Feeds | None], Outcome | None]


#: Imports what a program needs, and then runs it for each line of input in a copy of the process,
#: which is all that a crash ends.
_SERVER: Final = """
import json, os, signal, sys
setup, work = sys.argv[1:3]
exec(setup)
for line in sys.stdin:
    words, log, patience = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(patience)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = ["program", *words]
        status = 1
        try:
            exec(work)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Prepared:
    """A Python process that has imported a program, and runs it in a copy for each file.

    python: that of its environment. setup: imports the program. work: runs it with `sys.argv`.
    """

    def __init__(self, python: Path, setup: str, work: str) -> None:
        self.words = [str(python), "-c", _SERVER, setup, work]
        self.process: subprocess.Popen[str] | None = None

    def run(self, words: Sequence[str | Path], result: Path | None = None) -> Outcome:
        """Run the program once, as `run` does."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            atexit.register(self.process.kill)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.NamedTemporaryFile() as log:
            request = [list(map(str, words)), log.name, PATIENCE]
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            code = int(self.process.stdout.readline())
            if code == -signal.SIGALRM:
                return Outcome(False, f"no result in {PATIENCE} s")
            return _outcome(code, [Path(log.name).read_bytes()], result)


def run(command: Sequence[str | Path], result: Path | None = None) -> Outcome:
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
    return _outcome(done.returncode, [done.stdout, done.stderr], result)


def _outcome(code: int, outputs: Sequence[bytes], result: Path | None) -> Outcome:
    """Return what a program did, from its exit code, what it printed, and the file that it wrote."""
    lines = [
        line.strip()
        for text in outputs
        for line in text.decode(errors="replace").splitlines()
        if line.strip()
    ]
    if code < 0:
        return Outcome(False, f"{CRASH}{signal.Signals(-code).name}")
    last = lines[-1] if lines else f"exit code {code}"
    if code:
        errors = [line for line in lines if "rror" in line]
        return Outcome(False, _vela_reason(lines) or (errors or [last])[0])
    if result is None:
        return Outcome(True)
    if not (result.exists() and result.stat().st_size):
        return Outcome(False, last)
    return Outcome(True, result=hashlib.sha256(result.read_bytes()).hexdigest())


def _vela_reason(lines: list[str]) -> str:
    """Return each reason for which Vela refuses operators, and these operators; "" in other messages."""
    start = next((at for at, line in enumerate(lines) if line.endswith(_VELA_FINDINGS)), len(lines))
    operators: dict[str, list[str]] = {}
    operator = ""
    for line in lines[start + 1 :]:
        if not line.startswith("- "):
            operator = line.rstrip(":")
        elif not line.startswith("- Invalid argument"):
            operators.setdefault(line.removeprefix("- "), []).append(operator)
    return "; ".join(
        f"{reason}: {', '.join(dict.fromkeys(names))}" for reason, names in operators.items()
    )


def tosa_opt(program: Path) -> Consumer:
    """`tosa-opt` writes the module of a flatbuffer, or the module that it parses."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            empty, module = Path(folder, "empty.mlir"), Path(folder, "module.mlir")
            empty.write_text("module {}\n", encoding="utf-8")
            if file.suffix in (".mlir", ".mlirbc"):
                return run([program, file, "-o", module], module)
            flag = f"--tosa-deserialize=tosa-flatbuffer-filename={file}"
            return run([program, flag, empty, "-o", module], module)

    return read


def vela(program: Path, accelerator: str = "ethos-u85-256") -> Consumer:
    """Vela compiles for an accelerator, into commands and weights without names."""
    prepared = Prepared(program.with_name("python"), "from ethosu.vela import vela", "vela.main()")

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            config = ("--accelerator-config", accelerator, "--output-format", "raw")
            compiled = Path(folder, f"{file.stem}_vela.npz")
            return prepared.run([*config, "--output-dir", folder, file], compiled)

    return read


def model_converter(program: Path, *options: str) -> Consumer:
    """Return the converter writes a VGF file."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "model.vgf")
            return run([program, *options, "--input", file, "--output", result], result)

    return read


def model_explorer(python: Path) -> Consumer:
    """Return the adapter makes a graph of nodes."""
    prepared = Prepared(python, "from tosa_adapter_model_explorer import main", EXPLORER)

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            graph = Path(folder, "graph.json")
            return prepared.run([file, graph], graph)

    return read


def iree_import(program: Path, kind: str = "tosa") -> Consumer:
    """IREE, and what is built on it, turns the module into its own input dialects."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            module = Path(folder, "module.mlir")
            options = (f"--iree-input-type={kind}", "--compile-to=input", "-o", module)
            return run([program, *options, file], module)

    return read


def mlir_opt(program: Path) -> Consumer:
    """`mlir-opt` lowers the module to linalg, as SiliconCompiler has it do for soda-opt."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            module = Path(folder, "module.mlir")
            outcome = run([program, f"--pass-pipeline={_TO_LINALG}", file, "-o", module], module)
            left = re.search(_LEFT, module.read_text(encoding="utf-8")) if outcome.reads else None
            return Outcome(False, f"it leaves {left[1]}") if left else outcome

    return read


def iree_compile(program: Path) -> Consumer:
    """IREE compiles for the processor; what has the same form in its own dialects, only once."""
    known: dict[str, Outcome] = {}

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            module, result = Path(folder, "module.mlir"), Path(folder, "compiled")
            # As text, a module has no locations, in which the file's path would be.
            options = ("--iree-input-type=tosa", "--compile-to=input", "-o", module)
            outcome = run([program, *options, file], module)
            if outcome.reads and outcome.result not in known:
                target = (
                    "--iree-hal-target-backends=llvm-cpu",
                    "--iree-llvmcpu-target-cpu=generic",
                )
                command = (program, *target, "--compile-from=input", "-o", result, module)
                known[outcome.result] = run(command, result)
            return known.get(outcome.result, outcome)

    return read


def bindings(python: Path, package: str) -> Consumer:
    """Python bindings of MLIR parse and verify a module."""
    return lambda file, feeds: run([python, "-c", _BINDINGS.format(package=package), file])


def flatc(program: Path, schema: Path) -> Consumer:
    """`flatc` prints a file as JSON, which has no weights that are after the flatbuffer."""

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        with tempfile.TemporaryDirectory() as folder:
            out = ("--raw-binary", "--strict-json", "-o", folder, schema, "--", file)
            if file.suffix == ".json":
                return run([program, "--binary", "-o", folder, schema, file])
            outcome = run([program, "--json", *out])
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
            return run(
                [program, *(f"--{name}={word}" for name, word in words.items() if str(word))],
                results[0] if results else None,
            )

    return read


def installed() -> dict[str, Consumer]:
    """Return the programs in the environment of this interpreter."""
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
