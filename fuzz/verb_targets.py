"""Targets of a campaign: the verbs of the command line on mutants of every kind of file.

An input is a command line and the files that it names, in a folder of their own. The command runs in
this process, with its output captured, and is judged by what a user would see: the exit code, what it
prints, and the files that it leaves.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from targets import Row, Target
from verb_inputs import FOLDER, FORMS, MODELS, PROGRAMS, Files

from tosa_convert.cli.command import declare_own_process
from tosa_convert.cli.main import run, verb
from tosa_convert.io import log
from tosa_convert.io.formats import EXTENSIONS
from tosa_convert.io.options import BYTECODE_VERSIONS

#: Exit codes of a verb, and those of a verb that judges.
_CODES: Final = (0, 2, 3, 4)
_JUDGES: Final = ("bisect", "check", "diff", "doctor", "suite", "validate")
#: What a message must not have.
_TRACE: Final = re.compile(r"Traceback \(most recent call last\)|internal error in tosa-convert")
_CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
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
_TENSORS: Final = ("y", "s", "m", "x", "s,m", "nosuch", "\x1b[31m", "")


@dataclass
class Case:
    """A command line, and the files below its folder. form: the kind of its first file."""

    words: list[str]
    form: str = ""
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
        self.case.form = self.case.form or form
        return path

    def arrays(self) -> str:
        """Add arrays, or seldom an archive that unpacks to much; returns the name."""
        return self.file("npz-bomb" if self.random.random() < 0.04 else "npz")

    def program(self, *, stdin: bool = False) -> str:
        """Add a program, or seldom something else; returns its name."""
        other = self.random.random()
        if other < 0.03:
            # `convert` would start a converter.
            models = () if self.case.words == ["convert"] else MODELS
            return self.file(self.random.choice([*models, "npz", "npy", "report", "npz-bomb"]))
        if other < 0.1:
            return self.beside_weights()[0]
        form = self.random.choice(PROGRAMS)
        if stdin and self.random.random() < 0.05:
            self.case.form = self.case.form or form
            self.case.standard_input = self.sources.mutant(form, self.random)
            return "-"
        return self.file(form)

    def beside_weights(self) -> list[str]:
        """Add a program and a folder with its constants; returns their names."""
        path = self.name(".tosa")
        folder = f"{path.removesuffix('.tosa')}.weights"
        self.case.form = self.case.form or "weights"
        program, files = self.sources.beside_weights(self.random)
        self.case.files[path] = program
        for name, data in files.items():
            self.case.files[f"{folder}/{name}"] = data
        return [path, folder]

    def maybe(self, *choices: Iterable[str], chance: float = 0.25) -> None:
        """Add each of the options with a chance."""
        for words in choices:
            if self.random.random() < chance:
                self.add(words)

    def one(self, *choices: str) -> str:
        """Return one of the choices."""
        return self.random.choice(choices)

    def output(self, *extensions: str) -> None:
        """Add an output of one of the extensions."""
        self.add(["-o", f"out/{self.random.choice(_NAMES)}{self.one(*extensions)}"])


_WRITTEN: Final = tuple(EXTENSIONS)


def _convert(line: Line) -> None:
    line.add([line.program(stdin=True)])
    if line.random.random() < 0.9:
        line.output(*_WRITTEN)
    else:
        line.add(["--to", line.one("mlir", "mlirbc", "tosa", "json")])
    line.maybe(
        ["--verify"], ["--no-validate"], ["--narrow", "i64,f64,quant"], ["--pass-captured"],
        ["--names", "generate"], ["--weights", line.one("embedded", "offset", "npy")],
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
    line.maybe([line.program()], chance=0.1)
    line.maybe(["--operators"], ["--tensors"], ["--constants"], ["--hex"], ["--json"], chance=0.15)
    line.maybe(["--grep", line.one("x", "(", "ADD|y", "\x1b")], ["-j", "1"], chance=0.05)


def _validate(line: Line) -> None:
    line.add([line.program(stdin=True)])
    line.maybe([line.program()], chance=0.1)
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
    line.add([line.file("old") if line.random.random() < 0.5 else line.program(stdin=True)])
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
    line.add([line.beside_weights()[0] if line.random.random() < 0.3 else line.program()])
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
    line.maybe(["--errors", line.file("report")], chance=0.4)
    line.maybe(["--scopes", line.one("names", "locations", "none")])


def _data(line: Line) -> None:
    line.add(
        [line.arrays() if line.random.random() < 0.4 else line.file(line.one("npy", "npy", "tosa"))]
    )
    if line.random.random() < 0.2:
        line.add(line.beside_weights()[1:])
    line.maybe(["--json"], ["--as", line.one("fp32", "int4", "bf16", "int48", "mxint8")])


def _check(line: Line) -> None:
    """Compare recorded results with recorded results: no process is started."""
    line.add([line.program(), "--random", "1", "--against", line.file("npz")])
    line.add(["--reference", line.file("npz")])
    line.maybe(["-i", line.arrays()], ["--json"], ["--atol", line.one("1", "y:nan", "-1")])
    line.maybe(["--save", "out/saved"], chance=0.1)


def _run(line: Line) -> None:
    line.add([line.program(), "-i", line.arrays(), "--timeout", "20"])
    line.maybe(["--random", "1"], ["--json"], ["-o", "out/o.npz"], chance=0.5)


def _check_run(line: Line) -> None:
    line.add([line.program(), "--random", "1", "--against", line.arrays(), "--timeout", "20"])
    line.maybe(["--json"])


def _bisect(line: Line) -> None:
    line.add([line.program(), "--random", "1", "--against", line.program(), "--timeout", "20"])
    line.maybe(["--json"], ["--keep", "out/kept"])


def _reduce(line: Line) -> None:
    line.add([line.program(), "--command", "false", "--expect-exit", "1", "--work", "out/work"])
    if line.random.random() < 0.5:
        line.file("state", "out/work/state.json")


def _suite(line: Line) -> None:
    """Run a case of its descriptor, or of the program beside it, or none."""
    for name in ("a", line.one("b", "b\x1b[31m", "b\nx", "b\udcff")):
        if line.random.random() < 0.8:
            line.file("desc", f"in/{name}/desc.json")
        line.case.files[f"in/{name}/m.tosa"] = line.sources.sound("tosa", 4)
        if line.random.random() < 0.8:
            line.file("npy", f"in/{name}/x.npy")
    line.add(["in", "--jobs", "1", "--timeout", "20"])
    if line.random.random() < 0.5:
        line.file("journal", "out/kept/answers.jsonl")
        line.add(["--work", "out/kept"])
    line.maybe(["--baseline", line.file("report")], ["--xfail", line.file("xfail")])
    line.maybe(["--junit", "out/j.xml"], ["--json-report", "out/j.json"])


def _convert_model(line: Line) -> None:
    line.add([line.file(line.one(*MODELS)), "--timeout", "20"])
    line.output(".tosa", ".mlir")


class Verb(Target):
    """A verb: a mutant has the documented exit codes, prints plain text, and leaves what it wrote."""

    #: By kind of file, and by exit code.
    outcomes = tuple(
        f"{form} exit {code}" for form in (*FORMS, "weights", "none") for code in (0, 1, 2, 3, 4)
    )
    hang_after = 10.0

    def __init__(self, name: str, folders: list[Path], scratch: Path) -> None:
        self.line, self.verb_name = LINES[name], name.removeprefix("verb-").removesuffix("-run")
        self.files = Files(scratch / "seeds")
        self.name = name
        self.seeds = [name]
        self.prepared = {}
        self.folder = scratch / "case"
        self.temporary = scratch / "temporary"
        self.temporary.mkdir(parents=True)
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.temporary)
        # As `main` does for the command's own process.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        declare_own_process()
        log.print_for_command_line()
        self.output, self.messages = io.BytesIO(), io.BytesIO()

    def prepare(self, seed: Any) -> Any:
        return seed

    def sound(self) -> Case:
        return Case(["show", "in/m.tosa"], "tosa", {"in/m.tosa": self.files.sound("tosa")})

    def mutant(self, prepared: Any, random: Random) -> Case:
        line = Line(self.verb_name, self.files, random)
        self.line(line)
        return line.case

    def size(self, data: Case) -> int:
        return sum(map(len, data.files.values())) + len(data.standard_input)

    def save(self, data: Case, path: Path) -> None:
        _lay_out(data, path)
        (path / "words.json").write_text(data.described())
        (path / "stdin").write_bytes(data.standard_input)

    def run(self, data: Case) -> str:
        """Run the command line; return the form and the exit code.

        Raises AssertionError for what a command must not do.
        """
        _lay_out(data, self.folder)
        os.chdir(self.folder)
        before = _tree(Path())
        command, words = verb(data.words[0]), data.words[1:]
        with self._captured(data.standard_input):
            code = run(command, words)
        output, messages = self.output.getvalue(), self.messages.getvalue().decode()
        problems = [*_of_exit(data, code, output, messages), *_of_text(data, output, messages)]
        problems += self._of_files(data, code, before)
        if problems:
            text = output[-2000:].decode(errors="replace")
            raise AssertionError("\n".join([*problems, repr(text), messages[-5000:]]))
        return f"{data.form or 'none'} exit {code}"

    @contextlib.contextmanager
    def _captured(self, standard_input: bytes) -> Any:
        """Replace the standard streams, which have the encodings of a command's own."""
        streams = sys.stdin, sys.stdout, sys.stderr
        for stream in (self.output, self.messages):
            stream.seek(0)
            stream.truncate()
        if not hasattr(self, "_writers"):
            # Logging keeps the stream that it met first.
            self._writers = (
                io.TextIOWrapper(self.output, "utf-8", write_through=True),
                io.TextIOWrapper(self.messages, "utf-8", "backslashreplace", write_through=True),
            )
        sys.stdin = io.TextIOWrapper(io.BytesIO(standard_input), "utf-8")
        sys.stdout, sys.stderr = self._writers
        try:
            yield
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams

    def _of_files(self, case: Case, code: int, before: dict[str, bytes]) -> Iterable[str]:
        """List the files that should not be there, or have other content."""
        after = _tree(Path())
        kept = ("out/work", "out/kept", "out/saved")
        changed = [
            name
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name)
            and not name.startswith(kept)
            and (not name.startswith("out/") or code > 1)
        ]
        if changed:
            yield f"files changed: {sorted(changed)}"
        partial = [name for name in after if "/." in name or name.endswith(".part")]
        if partial:
            yield f"partial files: {partial}"
        left = os.listdir(self.temporary)
        if left:
            yield f"temporary files: {left}"
            shutil.rmtree(self.temporary)
            self.temporary.mkdir()


def _of_exit(case: Case, code: int, output: bytes, messages: str) -> Iterable[str]:
    if code not in _CODES and (code != 1 or case.words[0] not in _JUDGES):
        yield f"exit code {code}"
    if code > 1 and not messages and not output and "out/kept" not in case.words:
        yield f"exit code {code} without a message"
    if _TRACE.search(messages):
        yield "a traceback"


def _of_text(case: Case, output: bytes, messages: str) -> Iterable[str]:
    """Find printed characters that a terminal takes for a command."""
    texts = {"standard error": messages}
    # A program, a page or JSON is data; it has the escapes of its format.
    is_data = case.words[0] in ("convert", "report") or {"--json", "--sarif"} & set(case.words)
    if not is_data:
        texts["standard output"] = output.decode()
    for name, text in texts.items():
        # Python escapes what is not UTF-8 on standard error.
        found = {c for c in text if not c.isprintable() and unicodedata.category(c) in _CONTROLS}
        if found - {"\n"}:
            yield f"control characters on {name}: {sorted(found - {chr(10)})!r}"
    if "\nerror: forged" in messages:
        yield "a line that a file name has forged"


def _lay_out(case: Case, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("in", "out"):
        (folder / name).mkdir(parents=True)
    for name, data in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only a journal names the folder.
        path.write_bytes(data.replace(FOLDER, os.fsencode(os.path.realpath(folder))))


def _tree(folder: Path) -> dict[str, bytes]:
    """Read the content of each file below a folder."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            whole = os.path.join(path, name)
            with open(whole, "rb") as file:
                found[os.path.relpath(whole, folder)] = file.read()
    return found


def print_counts(outcomes: dict[str, Counter[str]]) -> None:
    """Print how many commands of each verb and kind of file ended with each exit code."""
    codes = ("0", "1", "2", "3", "4")
    print(" | ".join(["verb", "file", "commands", *(f"exit {code}" for code in codes)]))
    for name, counts in outcomes.items():
        rows: dict[str, Counter[str]] = {}
        for outcome, count in counts.items():
            form, _, code = outcome.rpartition(" exit ")
            rows.setdefault(form, Counter())[code] += count
        for form, row in sorted(rows.items()):
            cells = [name.removeprefix("verb-"), form, row.total(), *(row[c] for c in codes)]
            print(" | ".join(map(str, cells)))


#: Target -> how its command lines are made, and its shares of a campaign's time and of its inputs.
_ROWS: Final[dict[str, tuple[Callable[[Line], None], float, float]]] = {
    "convert": (_convert, 3.0, 300_000),
    "show": (_show, 1.5, 130_000),
    "validate": (_validate, 1.0, 120_000),
    "diff": (_diff, 1.5, 100_000),
    "doctor": (_doctor, 1.0, 60_000),
    "extract": (_extract, 1.0, 50_000),
    "rewrite": (_rewrite, 1.0, 50_000),
    "upgrade": (_upgrade, 1.0, 50_000),
    "weights-export": (_weights_export, 0.5, 20_000),
    "weights-import": (_weights_import, 0.5, 20_000),
    "weights-strip": (_weights_strip, 0.5, 20_000),
    "repack": (_repack, 0.5, 30_000),
    "report": (_report, 0.5, 20_000),
    "data": (_data, 0.5, 20_000),
    "check": (_check, 0.5, 10_000),
    # These start processes.
    "run": (_run, 0.3, 600),
    "check-run": (_check_run, 0.3, 300),
    "bisect": (_bisect, 0.3, 300),
    # A command of these takes seconds.
    "reduce": (_reduce, 1.5, 300),
    "suite": (_suite, 3.0, 300),
    "convert-run": (_convert_model, 1.5, 300),
}
LINES: Final = {f"verb-{name}": row[0] for name, row in _ROWS.items()}
#: Name -> target.
VERB_TARGETS: Final = {f"verb-{name}": Row(Verb, *row[1:]) for name, row in _ROWS.items()}
