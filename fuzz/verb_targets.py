"""Targets of a campaign: the verbs of the command line on mutants of every kind of file.

An input is a command line and the files that it names, in a folder of their own. The command runs in
this process, with its output captured, and is judged by what a user would see: the exit code, what it
prints, and the files that it leaves.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

from targets import Row, Target
from verb_inputs import FOLDER, FORMS, Files
from verb_lines import LINES, Case, Line

from tosa_convert.cli.ending import declare_own_process
from tosa_convert.cli.main import run, verb
from tosa_convert.io import log

#: Exit codes of a verb, and those of a verb that judges.
_CODES: Final = (0, 2, 3, 4)
_JUDGES: Final = ("bisect", "check", "diff", "doctor", "frontends", "suite", "validate")
#: What a message must not have.
_TRACE: Final = re.compile(r"Traceback \(most recent call last\)|internal error in tosa-convert")
_CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

#: The kinds of files, and that of a command that takes none.
KINDS: Final = (*FORMS, "weights", "none")


class Verb(Target):
    """A verb: a mutant has the documented exit codes, prints plain text, and leaves what it wrote."""

    #: By kind of file, and by exit code.
    outcomes = tuple(f"{kind} exit {code}" for kind in KINDS for code in (0, 1, 2, 3, 4))
    kinds = KINDS
    hang_after = 10.0

    def __init__(self, name: str, folders: list[Path], scratch: Path) -> None:
        name = name.removeprefix("verb-")
        self.line, self.verb_name = LINES[name][0], name.removesuffix("-run")
        self.files = Files(scratch / "seeds")
        self.name = f"verb-{name}"
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
        return Case(["show", "in/m.tosa"], ["tosa"], {"in/m.tosa": self.files.sound("tosa")})

    def mutant(self, prepared: Any, random: Random) -> Case:
        line = Line(self.verb_name, self.files, random)
        self.line(line)
        return line.case

    def kinds_of(self, data: Case) -> list[str]:
        return data.forms

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
        before = _lay_out(data, self.folder)
        os.chdir(self.folder)
        command, words = verb(data.words[0]), data.words[1:]
        with self._captured(data.standard_input):
            code = run(command, words)
        output, messages = self.output.getvalue(), self.messages.getvalue().decode()
        problems = [*_of_exit(data, code, output, messages), *_of_text(data, output, messages)]
        problems += self._of_files(data, code, before)
        if problems:
            text = output[-2000:].decode(errors="replace")
            raise AssertionError("\n".join([*problems, repr(text), messages[-5000:]]))
        return f"{data.forms[0] if data.forms else 'none'} exit {code}"

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
        after = _tree("")
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
        beside = {*os.listdir(self.folder.parent)} - {"seeds", "case", "temporary"}
        if beside:
            yield f"files outside: {sorted(beside)}"
            for name in beside:
                os.unlink(self.folder.parent / name)
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


def _lay_out(case: Case, folder: Path) -> dict[str, bytes]:
    """Replace the content of a folder; return that of each file by its name."""
    for name in ("in", "out"):
        os.makedirs(folder / name, exist_ok=True)
    _empty(str(folder))
    laid = {}
    for name, data in case.files.items():
        # Only a journal names the folder.
        laid[name] = data.replace(FOLDER, os.fsencode(os.path.realpath(folder)))
        path = f"{folder}/{name}"
        if name.count("/") > 1:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb", buffering=0) as file:
            file.write(laid[name])
    return laid


def _empty(folder: str, *, keep: tuple[str, ...] = ("in", "out")) -> None:
    """Remove what a folder has, but not the folders to keep."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            _empty(entry.path, keep=())
            if entry.name not in keep:
                os.rmdir(entry.path)


def _tree(folder: str) -> dict[str, bytes]:
    """Read the content of each file below a folder."""
    found: dict[str, bytes] = {}
    with os.scandir(folder or ".") as entries:
        for entry in entries:
            name = folder + entry.name
            if entry.is_dir(follow_symlinks=False):
                found |= _tree(f"{name}/")
            else:
                with open(name, "rb", buffering=0) as file:
                    found[name] = file.read()
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


#: Name -> target.
VERB_TARGETS: Final = {f"verb-{name}": Row(Verb, *row[1:]) for name, row in LINES.items()}
