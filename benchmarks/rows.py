"""The rows of the benchmark: the job, its subjects and its input."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import places
from measure import Failed, Result, Run, run, run_each

#: Inputs of at least this many bytes are made when needed and deleted after their last row.
LARGE = 512 << 20
#: Peak memory of `tosa-opt` for each byte of weights, beyond which a row is skipped.
PEER_MEMORY = 9
#: `tosa-opt` takes quadratic time: 100,000 operators take most of a minute, 1,000,000 over an hour.
PEER_MOST_OPERATORS = 100_000
#: The pip-installed command is timed on this many of the small files; the rest costs as much again.
SHIM_SAMPLE = 100

#: Operators of the model of the row `model/tflite`.
MODEL_OPERATORS = 10
_CONVERTER_ALONE = """
import sys, tosa_converter_for_tflite as converter
with open(sys.argv[2], "wb") as file:
    form, debug = converter.TosaConverterOutputFormat, converter.TosaConverterDebugInfo
    converter.tflite_flatbuffer_to_tosa_mlir(sys.argv[1], file, form.Bytecode, debug.Enable)
"""

#: Models by their row: what they are, the framework, the package that has them, and the words that
#: name them.
MODELS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "onnx": ("a CNN of 10 nodes", "onnx", "onnx", ()),
    "torch": ("a GPT of 2 blocks", "torch", "torch", (f"{places.ROOT}/zoo/attention.py:make_gpt",)),
    "jax": ("a GPT of 2 blocks", "jax", "jax", (f"{places.ROOT}/zoo/jax_attention.py:make_gpt",)),
    "keras": ("ResNet-50", "keras", "keras", ("keras:ResNet50", "--random-weights")),
    "resnet50": ("ResNet-50", "torch", "timm", ("timm:resnet50", "--random-weights")),
    "vit-b": ("ViT-B/16", "torch", "timm", ("timm:vit_base_patch16_224", "--random-weights")),
    **{
        name: (title, "torch", "transformers", (f"{places.HERE}/models.py:{function}",))
        for name, title, function in (
            ("gpt-2", "GPT-2, 124 M", "make_gpt2"),
            ("decoder-300m", "a decoder of 310 M", "make_decoder_300m"),
            ("decoder-1b", "a decoder of 1,056 M", "make_decoder_1b"),
        )
    },
}

#: Framework -> the job that lowers its models with torch-mlir.
PEER_JOBS = {"torch": "torch-mlir", "onnx": "torch-mlir-onnx"}
#: What our command says with --verbose of the time that a step took.
TOOK = re.compile(r"^INFO: (.+) took ([\d.]+) s$", re.MULTILINE)

#: Flags that prevent `tosa-opt` from printing the module, which is not measured.
PEER_FLAGS = {
    "print elided": [
        "--mlir-elide-elementsattrs-if-larger=16",
        "--mlir-elide-resource-strings-if-larger=16",
    ],
    "bytecode": ["--emit-bytecode", "--elide-resource-data-from-bytecode"],
}
PEER_FLAGS |= {
    f"{name}, one thread": [*flags, "--mlir-disable-threading"]
    for name, flags in list(PEER_FLAGS.items())
}


@dataclass(frozen=True)
class Sizes:
    """The extent of a run: sizes and repetitions."""

    operators: tuple[int, ...]
    mib: tuple[int, ...]
    kinds: tuple[tuple[str, str], ...]
    files: int
    builder: tuple[int, ...]
    sparse_gib: int
    shown_gib: int = 3
    looked_at: int = 10_000
    models: tuple[str, ...] = ("onnx", "torch", "jax")


_KINDS = (("f32", "dense"), ("i8", "dense"), ("bf16", "dense"), ("f32", "resource"))
QUICK = Sizes((200, 1000), (1, 4), (("f32", "dense"), ("i8", "resource")), 12, (1000,), 1, 1, 1000)
NORMAL = Sizes((1000, 10_000, 100_000), (64, 512), _KINDS, 2400, (1000, 10_000, 100_000), 8)
FULL = Sizes(
    (1000, 10_000, 100_000, 1_000_000),
    (64, 512, 4096),
    _KINDS,
    2400,
    (1000, 10_000, 100_000),
    8,
    models=tuple(MODELS),
)

Subject = Callable[[bool], Run]


@dataclass
class Row:
    """One line of work. The first subject is ours; ratios are against `peer`.

    size: operators, bytes of weights, files, or models, by `unit`.
    """

    id: str
    title: str
    unit: str
    size: int
    subjects: dict[str, Subject]
    peer: str = ""
    extra: Callable[[], dict[str, object]] | None = None
    #: Results, filled in when it has run.
    results: dict[str, Result] = field(default_factory=dict)
    found: dict[str, object] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def ratio(self, subject: str, peer: str = "") -> float | None:
        """Return the speed of a subject relative to the peer, in this run."""
        other = self.results.get(peer or self.peer)
        one = self.results.get(subject)
        if one is None or other is None or not one.runs or not other.runs:
            return None
        return other.wall / one.wall


class Rows:
    """Makes the rows of one run, and their inputs in its folder."""

    def __init__(self, folder: Path, sizes: Sizes, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.sizes = sizes
        self.say = say
        self.native = places.native_tosa_opt(folder)
        self.shim = places.pip_tosa_opt()
        self.builder = places.has("tosa_serializer")
        self.empty = folder / "empty.mlir"
        self.empty.write_text("module {}\n")
        #: Sort of input -> the fastest flags for tosa-opt, found by measurement.
        self.flags: dict[str, str] = {}
        self.made: dict[str, Path] = {}

    # -- inputs -------------------------------------------------------------------------------

    def make(self, name: str, *parameters: object) -> Path:
        """Return the input with these parameters; made once."""
        if name not in self.made:
            path = self.folder / name
            self.say(f"making {name}")
            run([sys.executable, places.HERE / "inputs.py", *map(str, parameters), path])
            self.made[name] = path
        return self.made[name]

    def graph(self, kind: str, count: int) -> Path:
        return self.make(f"{kind}-{count}.mlirbc", kind, count)

    def weights(self, mib: int, dtype: str, form: str) -> Path:
        return self.make(f"weights-{mib}-{dtype}-{form}.mlirbc", "weights", mib, dtype, form)

    def tosa(self, module: Path) -> Path:
        return self.make(f"{module.stem}.tosa", "tosa", module)

    def drop(self, *names: str) -> None:
        """Delete what starts with one of these names: large inputs, and outputs."""
        for path in self.folder.iterdir():
            if path.name.startswith(names):
                self.made.pop(path.name, None)
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    # -- subjects -----------------------------------------------------------------------------

    def job(self, *words: object) -> Subject:
        """Return a job of ours through the Python functions, in a process of its own."""
        return self.command(sys.executable, places.HERE / "jobs.py", *words)

    def command(self, *words: object, expected: int = 0) -> Subject:
        text = [str(word) for word in words]
        return lambda sample: run(text, sample=sample, expected=expected)

    def verb(self, *words: object, expected: int = 0) -> Subject:
        """Return a verb of our command. expected: its exit code."""
        return self.command(sys.executable, "-m", "tosa_convert", *words, expected=expected)

    def peer_flags(self, sort: str, export: bool, sample: Path) -> list[str]:
        """Return the fastest of PEER_FLAGS for a sort of input, measured on a small one."""
        if sort not in self.flags:
            assert self.native
            times = {
                name: min(run(self.opt(self.native, export, sample, flags)).wall for _ in range(3))
                for name, flags in PEER_FLAGS.items()
            }
            self.flags[sort] = min(times, key=lambda name: times[name])
            self.say(f"tosa-opt on {sort}: fastest with {self.flags[sort]}")
        return PEER_FLAGS[self.flags[sort]]

    def opt(self, program: str, export: bool, source: Path, flags: list[str]) -> list[str]:
        """Return a call of tosa-opt; an import builds the module in memory, as ours does."""
        target = self.folder / "peer.tosa"
        if export:
            what = [f"--tosa-serialize=tosa-flatbuffer-filename={target}", str(source)]
        else:
            what = [f"--tosa-deserialize=tosa-flatbuffer-filename={source}", str(self.empty)]
        return [program, *what, *flags, "-o", "/dev/null"]

    def peers(
        self, row: Row, sort: str, export: bool, source: Path, sample: Path, *, shim: bool = False
    ) -> None:
        """Add tosa-opt to a row, if it is there and can do it."""
        row.peer = "tosa-opt"
        if self.native is None:
            row.skipped.append("tosa-opt: tosa-tools is not installed")
            return
        need = PEER_MEMORY * source.stat().st_size
        if need > places.free_memory():
            row.skipped.append(f"tosa-opt: would need about {need >> 20} MiB of memory")
            return
        if row.unit == "operators" and row.size > PEER_MOST_OPERATORS:
            row.skipped.append("tosa-opt: takes quadratic time, over an hour here")
            return
        flags = self.peer_flags(sort, export, sample)
        row.subjects["tosa-opt"] = self.command(*self.opt(self.native, export, source, flags))
        if shim and self.shim:
            words = self.opt(self.shim, export, source, flags)
            row.subjects["tosa-opt (pip command)"] = self.command(*words)

    # -- rows ---------------------------------------------------------------------------------

    def all(self) -> Iterator[tuple[str, Callable[[], Row]]]:
        """Yield every row by its id, created on demand."""
        yield "one/export", partial(self.one, True)
        yield "one/import", partial(self.one, False)
        yield "model/tflite", self.model
        for name in self.sizes.models:
            yield f"model/{name}", partial(self.framework_model, name)
        yield f"many/export/{self.sizes.files}", self.many
        for kind in ("chain", "branch"):
            for count in self.sizes.operators:
                for export in (True, False):
                    yield (
                        f"{'export' if export else 'import'}/{kind}/{count}",
                        partial(self.operators, kind, count, export),
                    )
        for count in self.sizes.builder:
            yield f"build/chain/{count}", partial(self.build, count)
        for mib in self.sizes.mib:
            for dtype, form in self.sizes.kinds:
                for export in (True, False):
                    # Both forms give the same .tosa file.
                    if export or form == "dense":
                        yield (
                            f"{'export' if export else 'import'}/weights/{mib}/{dtype}"
                            + (f"/{form}" if export else ""),
                            partial(self.weight_row, mib, dtype, form, export),
                        )
        mib = self.sizes.mib[-1] if len(self.sizes.mib) < 3 else self.sizes.mib[1]
        yield f"progress/{mib}", partial(self.progress, mib)
        gib = self.sizes.sparse_gib
        yield f"import/sparse/{gib << 10}", lambda: self.sparse(gib)
        yield f"show/sparse/{self.sizes.shown_gib << 10}", self.show
        count = self.sizes.looked_at
        for verb in ("show", "doctor", "diff", "report"):
            yield f"{verb}/branch/{count}", partial(self.look, verb, count)

    def one(self, export: bool) -> Row:
        source = self.folder / "digits_cnn.mlirbc"
        shutil.copy(places.EXAMPLE, source)
        target = self.folder / "ours.tosa"
        if not export:
            source, target = self.tosa(source), self.folder / "ours.mlirbc"
        verb = "export" if export else "import"
        row = Row(
            f"one/{verb}",
            f"{verb} one small file (digits_cnn)",
            "files",
            1,
            {
                "ours (command)": self.command(*places.ours(), source, "-o", target),
                "ours (Python)": self.job(verb, source, *([target] if export else [])),
                "Python and MLIR's bindings alone": self.command(
                    sys.executable, "-c", "import torch_mlir.ir"
                ),
            },
        )
        self.peers(row, f"{verb} small", export, source, source, shim=True)
        return row

    def model(self) -> Row:
        """Return a small model against its converter alone, whose bytecode has other operators."""
        source = self.make("model.tflite", "tflite", MODEL_OPERATORS)
        row = Row(
            "model/tflite",
            f"convert a TFLite model of {MODEL_OPERATORS} operators",
            "operators",
            MODEL_OPERATORS,
            {
                "ours (command)": self.command(
                    *places.ours(), source, "-o", self.folder / "ours.tosa"
                ),
                "Python and numpy alone": self.command(sys.executable, "-c", "import numpy"),
            },
            peer="the converter",
        )
        if places.has("tosa_converter_for_tflite"):
            target = self.folder / "peer.mlirbc"
            words = [sys.executable, "-c", _CONVERTER_ALONE, source, target]
            row.subjects[row.peer] = self.command(*words)
        else:
            row.subjects.clear()
            row.skipped.append("tosa-converter-for-tflite is not installed")
        return row

    def framework_model(self, name: str) -> Row:
        """Return a model with a check and without, and what importing its framework takes."""
        title, framework, package, words = MODELS[name]
        row = Row(f"model/{name}", f"{framework}: {title}", "models", 1, {})
        if not places.has(package):
            row.skipped.append(f"{package} is not installed")
            return row
        words = words or (str(self.make("model.onnx", "onnx")),)
        convert = (*places.ours(), *words, "-o", self.folder / "ours.tosa")
        row.subjects["ours (command)"] = self.command(*convert, "-q")
        row.subjects["with --check"] = self.command(*convert, "-q", "--check")
        alone = self.command(sys.executable, "-c", f"import {framework}")
        row.subjects["the framework's import"] = alone
        if framework in PEER_JOBS and places.has("torch_mlir") and not name.startswith("decoder"):
            row.peer = "torch-mlir"
            row.subjects[row.peer] = self.job(
                PEER_JOBS[framework], *words, self.folder / "peer.mlir"
            )
        verbose = [*map(str, convert), "-v", "--check"]
        row.extra = lambda: {"spent": self.spent(verbose)}
        return row

    def spent(self, words: Sequence[str]) -> dict[str, float]:
        """Return the seconds of each step of a conversion, as our command says them."""
        said = run(words, listen="stderr").output
        return {what: float(taken) for what, taken in TOOK.findall(said)}

    def many(self) -> Row:
        count = self.sizes.files
        source = self.make(f"small-{count}", "small", count)
        files = sorted(source.iterdir())
        row = Row(
            f"many/export/{count}",
            f"export {count} small files in one call",
            "files",
            count,
            {
                "ours (command)": self.many_ours(
                    [*places.ours(), source, "-o", self.folder / "out-many"]
                ),
                "ours (Python)": self.many_ours(
                    [
                        sys.executable,
                        places.HERE / "jobs.py",
                        "export-many",
                        source,
                        self.folder / "out-many",
                    ]
                ),
            },
            peer="tosa-opt",
        )
        if self.native is None:
            row.skipped.append("tosa-opt: tosa-tools is not installed")
            return row
        flags = self.peer_flags("export small", True, files[0])
        native, shim = self.native, self.shim
        calls = [self.opt(native, True, path, flags) for path in files]
        row.subjects["tosa-opt"] = lambda _: run_each(calls)
        if shim is not None:
            sample = [self.opt(shim, True, path, flags) for path in files[:SHIM_SAMPLE]]

            def shims(_: bool) -> Run:
                found = run_each(sample)
                found.wall *= count / len(sample)
                found.cpu *= count / len(sample)
                return found

            row.subjects["tosa-opt (pip command)"] = shims
            if count > SHIM_SAMPLE:
                row.found["note"] = (
                    f"pip command: {SHIM_SAMPLE} files, times {count / SHIM_SAMPLE:g}"
                )
        return row

    def many_ours(self, words: list[object]) -> Subject:
        def subject(sample: bool) -> Run:
            self.drop("out-many")
            return run([str(word) for word in words], sample=sample)

        return subject

    def operators(self, kind: str, count: int, export: bool) -> Row:
        verb = "export" if export else "import"
        source = self.graph(kind, count)
        sample = self.graph(kind, self.sizes.operators[0])
        if not export:
            source, sample = self.tosa(source), self.tosa(sample)
        row = Row(
            f"{verb}/{kind}/{count}",
            f"{verb} {kind} of {count:,} operators",
            "operators",
            count,
            {},
        )
        self.own(row, export, source)
        self.peers(row, f"{verb} {kind}", export, source, sample)
        return row

    def own(self, row: Row, export: bool, source: Path) -> None:
        """Our subjects, and the measurements inside the process."""
        target = self.folder / "ours.tosa"
        if export:
            row.subjects["ours (Python)"] = self.job("export", source, target)
            row.subjects["ours (ir.Module)"] = self.job("export-module", source, target)
            row.subjects["ours (command)"] = self.command(*places.ours(), source, "-o", target)
            row.extra = lambda: {
                "phases": self.measured("export-phases", source, target),
                "memory": self.measured("export-memory", source, target),
                "same": self.same(target, self.folder / "peer.tosa", row),
            }
        else:
            module = self.folder / "ours.mlirbc"
            row.subjects["ours (Python)"] = self.job("import", source)
            row.subjects["ours (command)"] = self.command(*places.ours(), source, "-o", module)
            row.extra = lambda: {
                "phases": self.measured("import-phases", source),
                "memory": self.measured("import-memory", source),
            }

    def measured(self, *words: object) -> object:
        """Return the figures that a job measured itself."""
        output = self.job(*words)(False).output
        return json.loads(output)

    def same(self, one: Path, other: Path, row: Row) -> str:
        """Return whether the peer wrote the same program, so that the times compare like with like."""
        if "tosa-opt" not in row.results or not row.results["tosa-opt"].runs:
            return "not compared"
        try:
            found = json.loads(self.job("same", one, other)(False).output)
        except Failed as failure:
            return str(failure)
        return found["difference"] or "same program"

    def build(self, count: int) -> Row:
        row = Row(
            f"build/chain/{count}",
            f"build a graph of {count:,} operators in Python and write it",
            "operators",
            count,
            {"ours (Python)": self.job("build-ours", count, self.folder / "ours.tosa")},
            peer="tosa_serializer",
        )
        if self.builder:
            target = self.folder / "peer.tosa"
            row.subjects["tosa_serializer"] = self.job("build-peer", count, target)
            row.extra = lambda: {"same": self.same_built(target)}
        else:
            row.skipped.append("tosa_serializer: tosa-tools is not installed")
        return row

    def same_built(self, peer: Path) -> str:
        found = json.loads(self.job("same", self.folder / "ours.tosa", peer)(False).output)
        return found["difference"] or "same program"

    def weight_row(self, mib: int, dtype: str, form: str, export: bool) -> Row:
        verb = "export" if export else "import"
        smallest = self.sizes.mib[0]
        sample, source = self.weights(smallest, dtype, form), self.weights(mib, dtype, form)
        if not export:
            sample, source = self.tosa(sample), self.tosa(source)
        name = f"{verb}/weights/{mib}/{dtype}" + (f"/{form}" if export else "")
        title = f"{verb} {mib} MiB of {dtype} weights" + (f", {form}" if export else "")
        row = Row(name, title, "bytes", mib << 20, {})
        self.own(row, export, source)
        self.peers(row, f"{verb} {dtype} {form if export else 'weights'}", export, source, sample)
        return row

    def progress(self, mib: int) -> Row:
        """Write weights with a bar on a terminal, and measure the bar's share of the time."""
        source = self.tosa(self.weights(mib, "f32", "dense"))
        name = f"write {mib} MiB eight times"
        row = Row(f"progress/{mib}", name, "bytes", mib << 20, {})
        row.extra = lambda: {
            "progress": self.measured("progress", source, self.folder / "ours.tosa")
        }
        return row

    def sparse(self, gib: int) -> Row:
        """Import a file whose weights are a hole, so that only the mapping costs memory."""
        source = self.make(f"sparse-{gib}.tosa", "sparse", gib)
        row = Row(
            f"import/sparse/{gib << 10}",
            f"import {gib} GiB of weights (sparse)",
            "bytes",
            gib << 30,
            {},
        )
        row.subjects["ours (Python)"] = self.job("import", source)
        row.extra = lambda: {"memory": self.measured("import-memory", source)}
        return row

    def show(self) -> Row:
        """Show a file whose weights are a hole."""
        gib = self.sizes.shown_gib
        source = self.make(f"sparse-{gib}.tosa", "sparse", gib)
        name = f"show/sparse/{gib << 10}"
        subjects = {"ours (command)": self.verb("show", source)}
        return Row(name, f"show a file of {gib} GiB (sparse)", "bytes", gib << 30, subjects)

    def look(self, verb: str, count: int) -> Row:
        """Return a verb that says something about a program and converts nothing."""
        source = self.tosa(self.graph("branch", count))
        title, words = f"{verb} of {count:,} operators", [verb, source]
        if verb == "diff":
            title = f"diff of two files of {count:,} operators, with other names and one change"
            words.append(self.make(f"renamed-{count}.tosa", "renamed", source))
        elif verb == "report":
            words += ["-o", self.folder / "report.html"]
        # It finds a difference.
        expected = int(verb == "diff")
        subjects = {"ours (command)": self.verb(*words, expected=expected)}
        return Row(f"{verb}/branch/{count}", title, "operators", count, subjects)
