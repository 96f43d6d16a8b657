"""Command lines of every verb, on mutants of every kind of file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from verb_inputs import FORMS, MODELS, PROGRAMS, Files

from tosa_convert.io.formats import EXTENSIONS
from tosa_convert.io.options import BYTECODE_VERSIONS, WEIGHTS

#: Names of files: most are plain.
_NAMES: Final = (
    *("m",) * 24,
    "e\x1b[31m\x1b]0;x\x07",
    "c\u009b31m",
    "b\u202e\u2066x",
    "n\nerror: forged",
    "u\udcff\udc80",
    "q'\"<&>;$(x) %s {0}",
    "l" * 200,
)
_LIMITS: Final = ("input-bytes=100", "json-depth=2", "text-depth=2", "location-depth=1")
_READERS: Final = ("vela", "reference-model", "model-converter==0.11.0", "flatc", "iree", "nobody")
#: Names of tensors: nearly all programs of the corpus have the first ones.
_TENSORS: Final = (
    *("TosaOutput_0", "layer_0", "TosaInput_0", "layer_1", "TosaOutput_0,TosaInput_0") * 3,
    *("y", "s", "m", "x", "s,m", "nosuch", "\x1b[31m", ""),
)


@dataclass
class Case:
    """A command line, and the files below its folder. forms: the kinds of the files, in order."""

    words: list[str]
    forms: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    standard_input: bytes = b""

    def described(self) -> str:
        """Return the command line, for a report."""
        return json.dumps(self.words)


class Line:
    """Makes a command line and its files."""

    def __init__(self, verb_name: str, files: Files, random: Random) -> None:
        self.sources, self.random = files, random
        self.case = Case([*verb_name.split("-")])
        self.add = self.case.words.extend

    def name(self, extension: str) -> str:
        """Return the name of an input that is not taken."""
        stem = self.random.choice(_NAMES)
        while f"in/{stem}{extension}" in self.case.files:
            stem += "2"
        return f"in/{stem}{extension}"

    def file(self, form: str, name: str = "") -> str:
        """Add a mutant of a form; returns its name."""
        path = name or self.name(FORMS[form].extension)
        self.case.files[path] = self.sources.mutant(form, self.random)
        self.case.forms.append(form)
        return path

    def arrays(self) -> str:
        """Add arrays, or seldom an archive that unpacks to much; returns the name."""
        return self.file("npz-bomb" if self.chance(0.02) else "npz")

    def program(self, *, stdin: bool = False) -> str:
        """Add a program, or seldom something else; returns its name."""
        other = self.random.random()
        if other < 0.02:
            # `convert` would start a converter.
            models = () if self.case.words == ["convert"] else MODELS
            return self.file(self.random.choice([*models, "npz", "npy", "report", "npz-bomb"]))
        if other < 0.1:
            return self.beside_weights()[0]
        form = self.random.choice(PROGRAMS)
        if stdin and self.chance(0.05):
            self.case.forms.append(form)
            self.case.standard_input = self.sources.mutant(form, self.random)
            return "-"
        return self.file(form)

    def beside_weights(self) -> list[str]:
        """Add a program and a folder with its constants; returns their names."""
        path = self.name(".tosa")
        folder = f"{path.removesuffix('.tosa')}.weights"
        self.case.forms.append("weights")
        program, files = self.sources.beside_weights(self.random)
        self.case.files[path] = program
        for name, data in files.items():
            self.case.files[f"{folder}/{name}"] = data
        return [path, folder]

    def maybe(self, *choices: Iterable[str], chance: float = 0.25) -> None:
        """Add each of the options with a chance."""
        for words in choices:
            if self.chance(chance):
                self.add(words)

    def chance(self, chance: float) -> bool:
        """Return true with a chance."""
        return self.random.random() < chance

    def one(self, *choices: str) -> str:
        """Return one of the choices."""
        return self.random.choice(choices)

    def output(self, *extensions: str) -> None:
        """Add an output of one of the extensions."""
        self.add(["-o", f"out/{self.random.choice(_NAMES)}{self.one(*extensions)}"])


_WRITTEN: Final = tuple(EXTENSIONS)


def _convert(line: Line) -> None:
    line.add([line.program(stdin=True)])
    if line.chance(0.9):
        line.output(*_WRITTEN)
    else:
        line.add(["--to", line.one("mlir", "mlirbc", "tosa", "json")])
    line.maybe(
        ["--verify"], ["--no-validate"], ["--narrow", "i64,f64,quant"], ["--pass-captured"],
        ["--names", "generate"], ["--weights", line.one(*WEIGHTS)],
        ["--tosa-version", line.one("1.0", "1.1")], ["--generic"], ["--no-locations"],
        ["--bytecode-version", line.one(*map(str, BYTECODE_VERSIONS))], ["--elide", "2"],
        ["--limit", line.one(*_LIMITS)], ["--for", line.one(*_READERS)], ["--full-paths"],
        ["--input-shape", line.one("x=2x3", "arg0=?x3", "x=", "arg0=9223372036854775808")],
        ["--accept-changed-weights"], ["--func", line.one("main", "\x1b[2J")],
        ["--input-names", line.one("a,b", "\n", "x")],
        chance=0.06,
    )  # fmt: skip


def _show(line: Line) -> None:
    line.add([line.program(stdin=True)])
    if line.chance(0.1):
        line.add([line.program()])
    line.maybe(["--operators"], ["--tensors"], ["--constants"], ["--hex"], ["--json"], chance=0.15)
    line.maybe(["--grep", line.one("x", "(", "ADD|y", "\x1b")], ["-j", "1"], chance=0.05)


def _validate(line: Line) -> None:
    line.add([line.program(stdin=True)])
    if line.chance(0.1):
        line.add([line.program()])
    line.maybe(
        ["--json"], ["--sarif"], ["--least"], ["--level", line.one("8k", "none")],
        ["--profile", line.one("PRO-INT", "PRO-FP,EXT-INT16", "nothing")],
        ["--for", line.one(*_READERS)], ["-j", "1"], ["-o", "out/kept"], chance=0.12,
    )  # fmt: skip


def _diff(line: Line) -> None:
    line.add([line.program(stdin=True), line.program()])
    line.maybe(
        ["--compare-names"], ["--compare-locations"], ["--ignore-order"], ["--stat"], ["--json"],
        ["--all"], ["-U", "3"], chance=0.12,
    )  # fmt: skip


def _doctor(line: Line) -> None:
    line.add([line.program(stdin=True)])
    line.maybe(["--json"], ["--for", line.one(*_READERS)])


def _extract(line: Line) -> None:
    line.add([line.program(), "--outputs", line.one(*_TENSORS)])
    line.maybe(["--inputs", line.one(*_TENSORS)], ["--no-validate"])
    line.output(*_WRITTEN)


def _rewrite(line: Line) -> None:
    line.add([line.program(stdin=True)])
    line.output(*_WRITTEN)
    line.maybe(["--only", line.one("repair", "clean-up", "nothing")], ["--no-validate"])


def _upgrade(line: Line) -> None:
    line.add([line.file("old") if line.chance(0.5) else line.program(stdin=True)])
    line.output(*_WRITTEN)
    line.maybe(["--verify"], ["--no-validate"], ["--narrow", "i64,quant"])


def _weights_export(line: Line) -> None:
    line.add([line.program(), "-o", "out/folder"])
    line.maybe(["--larger-than", "8"])


def _weights_import(line: Line) -> None:
    line.add(line.beside_weights())
    line.output(*_WRITTEN)
    line.maybe(["--accept-changed-weights"], ["--no-validate"], chance=0.5)


def _weights_strip(line: Line) -> None:
    line.add([line.program()])
    line.output(*_WRITTEN)
    line.maybe(["--parameters"])


def _repack(line: Line) -> None:
    line.add([line.beside_weights()[0] if line.chance(0.3) else line.program()])
    line.output(".tosa", ".json")
    line.add(["--weights", line.one("embedded", "offset", "npy", "auto")])
    line.maybe(["--verify"], ["--no-validate"], ["--accept-changed-weights"])


def _report(line: Line) -> None:
    line.add([line.program(stdin=True)])
    kind = line.random.random()
    if kind < 0.5:
        line.output(".dot")
    else:
        line.output(".html", ".svg")
    if line.chance(0.4):
        line.add(["--errors", line.file(line.one("report", "report", "baseline"))])
    line.maybe(["--scopes", line.one("names", "locations", "none")])


def _data(line: Line) -> None:
    line.add([line.arrays() if line.chance(0.4) else line.file(line.one("npy", "npy", "tosa"))])
    if line.chance(0.2):
        line.add(line.beside_weights()[1:])
    line.maybe(["--json"], ["--as", line.one("fp32", "int4", "bf16", "int48", "mxint8")])


def _check(line: Line) -> None:
    """Compare recorded results with recorded results: no process is started."""
    line.add([line.program(), "--random", "1", "--against", line.file("npz")])
    line.add(["--reference", line.file("npz")])
    for option in ("-i", "--variables", "--calibration"):
        if line.chance(0.2):
            line.add([option, line.arrays()])
    line.maybe(["--json"], ["--atol", line.one("1", "y:nan", "-1")])
    line.maybe(["--save", "out/saved"], chance=0.1)


def _run(line: Line) -> None:
    line.add([line.program(), "--timeout", "20"])
    line.add(["-i", line.arrays()] if line.chance(0.7) else ["--random", "1"])
    line.maybe(["--json"], ["-o", "out/o.npz"], chance=0.5)
    if line.chance(0.2):
        line.add(["--variables", line.arrays()])


def _check_run(line: Line) -> None:
    line.add([line.program(), "--random", "1", "--against", line.arrays(), "--timeout", "20"])
    line.maybe(["--json"])


def _bisect(line: Line) -> None:
    program = line.program()
    other = program if line.chance(0.3) else line.program()
    line.add([program, "--random", "1", "--against", other, "--timeout", "20"])
    line.maybe(["--json"], ["--keep", "out/kept"])


def _reduce(line: Line) -> None:
    line.add([line.program(), "--command", "false", "--expect-exit", "1", "--work", "out/work"])
    if line.chance(0.7):
        line.file("state", "out/work/state.json")


def _generate(line: Line) -> None:
    """Take no file; the output is judged."""
    line.add(["--seed", str(line.random.randrange(1 << 20)), "--size", line.one("1", "3")])
    line.maybe(["--only", line.one("ADD", "ADD,CONV2D", "nothing", "\x1b")], ["--count", "2"])
    line.output(*_WRITTEN)


def _frontends(line: Line) -> None:
    """Take names that are no frontends, or the names of several."""
    line.maybe(["--json"], [line.one("tflite", "onnx", "\x1b[31m", "\nerror: forged", "")])


def _explain(line: Line) -> None:
    """Take a code, rules, operators, and names that are none."""
    line.add([line.one("file-error", "add-x", "CONV2D", "[", "\x1b[31m", "\nerror: forged", "")])


def _suite(line: Line) -> None:
    """Run a case of its descriptor, or of the program beside it, or none."""
    for name in ("a", line.one("b", "b\x1b[31m", "b\nx", "b\udcff")):
        if line.chance(0.8):
            line.file("desc", f"in/{name}/desc.json")
        line.case.files[f"in/{name}/m.tosa"] = line.sources.sound("tosa", 4)
        if line.chance(0.8):
            line.file("npy", f"in/{name}/x.npy")
    line.add(["in", "--jobs", "1", "--timeout", "20"])
    if line.chance(0.6):
        line.file("journal", "out/kept/answers.jsonl")
        line.add(["--work", "out/kept"])
    for option, form in (("--baseline", "baseline"), ("--xfail", "xfail")):
        if line.chance(0.4):
            line.add([option, line.file(form)])
    line.maybe(["--junit", "out/j.xml"], ["--json-report", "out/j.json"])


def _convert_model(line: Line) -> None:
    line.add([line.file(line.one(*MODELS)), "--timeout", "20"])
    line.output(".tosa", ".mlir")


#: Verb -> how its command lines are made, and its shares of a campaign's time and of its inputs.
#: `-run` has the command lines that start processes.
LINES: Final[dict[str, tuple[Callable[[Line], None], float, float]]] = {
    "convert": (_convert, 3.0, 200_000),
    "show": (_show, 1.5, 125_000),
    "validate": (_validate, 1.5, 125_000),
    "diff": (_diff, 1.5, 90_000),
    "doctor": (_doctor, 1.0, 70_000),
    "extract": (_extract, 1.0, 60_000),
    "rewrite": (_rewrite, 1.0, 60_000),
    "upgrade": (_upgrade, 1.0, 80_000),
    "weights-export": (_weights_export, 0.5, 25_000),
    "weights-import": (_weights_import, 0.5, 30_000),
    "weights-strip": (_weights_strip, 0.5, 25_000),
    "repack": (_repack, 0.5, 40_000),
    "report": (_report, 0.5, 20_000),
    "data": (_data, 0.5, 20_000),
    "generate": (_generate, 0.1, 2_000),
    "frontends": (_frontends, 0.1, 100),
    "explain": (_explain, 0.1, 100),
    "extensions": (_frontends, 0.1, 100),
    "check": (_check, 0.5, 15_000),
    "run": (_run, 0.3, 5_000),
    "check-run": (_check_run, 0.3, 3_000),
    "bisect": (_bisect, 0.3, 2_000),
    "reduce": (_reduce, 0.5, 1_000),
    "suite": (_suite, 0.5, 1_000),
    "convert-run": (_convert_model, 0.5, 900),
}
