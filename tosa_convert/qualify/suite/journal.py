"""The answers of a suite, in a file of JSON lines, to which each is added as it comes.

So an interrupted run goes on where it was, and a case that ran twice counts once. An answer is kept with
the fingerprint of all that decided it, and counts only for that.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays.by_name import Array, OutputFolder
from tosa_convert.golden.arrays.npz import npz_pieces
from tosa_convert.io.files import file_error, open_regular, parse_json, replace_file
from tosa_convert.process.child import Used
from tosa_convert.qualify.reduction.reduce import nonzero_elements, reduce_data

Status = Literal["pass", "fail", "error", "wrong", "refused", "crashed", "not-run"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

#: No time and no error of an answer is larger; JSON can have larger numbers, and an infinity.
_LARGEST: Final = 1e300
_EXPECTED: Final = "an answer that suite wrote"
_HINT: Final = "remove the file, and the cases run again"


class Outcome(NamedTuple):
    """What became of a case; the fields are those of `Answer`."""

    status: Status
    message: str = ""
    outputs: int = 0
    low_precision: str = ""
    at_fault: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a case.

    status: "pass"; "fail" if the outputs differ from the original's; "error" if there are none. On a
        backend the others occur, too; see `qualify_case`.
    seconds: how long the case took. outputs: the number of tensors that were compared.
    low_precision: which outputs may differ so much that faults are not seen, or "".
    operator, types: what the case tests, and the element type of its first operand.
    covers: of a program of several operators, each with its element type, such as "CONV2D INT8".
    at_fault: of these the ones that `bisect` names if the result is wrong.
    key: the fingerprint of what decided it, as far as that is known before the run.
    read: the fingerprints of further files that the backend has read, by path.
    backend_seconds, backend_processor_seconds: how long the backend ran, by the clock and on processors.
    backend_memory: the most bytes that it had at a time. Each is None if it is not known.
    """

    case: str
    status: Status
    message: str = ""
    seconds: float = 0.0
    outputs: int = 0
    operator: str = ""
    types: str = ""
    key: str = ""
    backend_seconds: float | None = None
    backend_processor_seconds: float | None = None
    backend_memory: int | None = None
    low_precision: str = ""
    covers: Sequence[str] = ()
    at_fault: Sequence[str] = ()
    read: Mapping[str, str] = field(default_factory=dict)

    def further(self) -> dict[str, Any]:
        """Return what the JSON says of a case besides what it says of every suite's."""
        lists = {"covers": list(self.covers), "at_fault": list(self.at_fault)}
        return {name: row for name, row in lists.items() if row}

    @property
    def counts_at(self) -> list[tuple[str, str]]:
        """Return the operators and types that the case says something about.

        A network that passes says it of all that it covers. One that fails says it of those at fault, or
        of no operator.
        """
        rows = self.covers if self.status in ("pass", "not-run") else self.at_fault
        if not rows:
            return [(self.operator or "(not read)", self.types or "none")]
        found = (text.partition(" ") for text in rows)
        return [(operator, kind or "none") for operator, _, kind in found]


def used_by(runs: Sequence[Used]) -> dict[str, Any]:
    """Return the fields of an answer for what the runs of a backend used: the first one, if several.

    Further runs are on the inputs that `--reduce` tries.

    Example:
        >>> used_by([Used(0.25, 0.2)])["backend_seconds"]
        0.25
    """
    if not runs:
        return {}
    first = runs[0]
    return {
        "backend_seconds": first.seconds,
        "backend_processor_seconds": first.processor_seconds,
        "backend_memory": first.memory or None,
    }


def is_number(value: object) -> bool:
    """Return whether a value of JSON is a number that a report can have."""
    return type(value) in (int, float) and abs(cast("float", value)) < _LARGEST


#: The annotation of a field -> whether a value of JSON is one.
_HOLDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "str": lambda value: isinstance(value, str),
    "Status": lambda value: isinstance(value, str) and value in STATUSES,
    "int": lambda value: type(value) is int,
    "bool": lambda value: type(value) is bool,
    "float": is_number,
    "Sequence[str]": lambda value: (
        isinstance(value, list) and all(isinstance(text, str) for text in value)
    ),
    "int | None": lambda value: value is None or type(value) is int,
    "float | None": lambda value: value is None or is_number(value),
    "Mapping[str, str]": lambda value: (
        isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    ),
    "Mapping[str, int]": lambda value: (
        isinstance(value, dict) and all(type(count) is int for count in value.values())
    ),
}


def is_status(value: object) -> bool:
    """Return whether a value of JSON is the status of a case."""
    return _HOLDS["Status"](value)


def _parsed(line: str, kind: type[Answer], where: str) -> Answer:
    row = parse_json(line, where, _EXPECTED)
    rows = {one.name: one for one in fields(kind)}
    if not isinstance(row, dict) or not {"case", "status"} <= row.keys() <= rows.keys():
        raise fail("file-error", where, f"not {_EXPECTED}: its fields differ", _HINT)
    for name, value in row.items():
        if not _HOLDS[str(rows[name].type)](value):
            raise fail("file-error", where, f"not {_EXPECTED}: {name} is {value!r:.80}", _HINT)
    return kind(**row)


class Journal:
    """The answers by case: those of an earlier run that still count, and those that are added.

    header: identifies the run. A file with another header is refused ("option-conflict").
    kind: the class of the answers.
    kept: chooses those that still count from all earlier ones.
    A file that cannot be read or written, or has other content, is a "file-error".
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        kind: type[Answer] = Answer,
        kept: Callable[[dict[str, Answer]], Iterable[Answer]] = lambda earlier: earlier.values(),
    ) -> None:
        self.path, self.kind = path, kind
        self.answers = {answer.case: answer for answer in kept(self._read(header))}
        rows = [dict(header), *map(asdict, self.answers.values())]
        replace_file(path, [(json.dumps(row) + "\n").encode() for row in rows])
        with self._file_errors():
            self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def _read(self, header: Mapping[str, Any]) -> dict[str, Answer]:
        if not self.path.exists():
            return {}
        try:
            with open_regular(self.path) as file:
                text = file.read().decode()
        except OSError as error:
            raise file_error(self.path, error, "read") from None
        except UnicodeDecodeError as error:
            raise fail("file-error", str(self.path), f"not a text in UTF-8: {error}") from None
        *lines, unfinished = text.split("\n")
        if not text:
            return {}
        try:
            other = parse_json(lines[0] if lines else unfinished, str(self.path), _EXPECTED)
        except TosaConvertError:
            other = None
        if other != json.loads(json.dumps(header)):
            raise fail(
                "option-conflict",
                str(self.path),
                f"it belongs to another run: {other!r:.400}, now {header}",
                "choose another --work, or remove the file",
            )
        # The last line of a run that was killed may be a part of one.
        found = (
            _parsed(line, self.kind, f"{self.path}:{number}")
            for number, line in enumerate(lines[1:], 2)
        )
        return {answer.case: answer for answer in found}

    def add(self, answer: Answer) -> bool:
        """Record an answer; False if the case has one already."""
        if answer.case in self.answers:
            return False
        self.answers[answer.case] = answer
        with self._file_errors():
            self.file.write(json.dumps(asdict(answer)) + "\n")
            self.file.flush()
        return True

    def close(self) -> None:
        with self._file_errors():
            self.file.close()

    @contextlib.contextmanager
    def _file_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise file_error(self.path, error, "written") from None


# -- what is kept of a case that does not pass, and inputs that are reduced for it -----------------

_LOG: Final = "log.txt"
#: The files that are kept of a case.
_KEPT: Final = ("model.tosa", "inputs.npz", "reference.npz", "found.npz", _LOG)
#: What the command that runs a case again begins with.
_COMMAND: Final = "tosa-flatbuffer suite"


@dataclass(frozen=True, slots=True)
class Failed:
    """A case, and where it is kept if it does not pass.

    name: its name. source: its program. folder: where it is kept, None for nowhere.
    command: runs it again.
    """

    name: str
    source: Path
    folder: Path | None
    command: str

    def keep(
        self,
        inputs: Mapping[str, Array],
        message: str,
        reference: Mapping[str, Array] | None = None,
        found: Mapping[str, Array] | None = None,
    ) -> None:
        """Keep what shows the failure: the program, the inputs, the results, and what was said.

        reference, found: the results of the reference and of the backend, if there are any.
        Raises TosaConvertError("file-error").
        """
        if self.folder is None:
            return
        with OutputFolder(self.folder) as target:
            target.write("model.tosa", [self.source.read_bytes()])
            target.write("inputs.npz", npz_pieces(dict(inputs)))
            if reference is not None:
                target.write("reference.npz", npz_pieces(dict(reference)))
            if found is not None:
                target.write("found.npz", npz_pieces(dict(found)))
            text = f"{self.name}\n{message}\n\n{self.command}\n"
            target.write(_LOG, [text.encode()])


def remove_kept(keep: Path, name: str, case_folder: Path) -> None:
    """Remove what an earlier run kept of a case, which runs again: it may pass now.

    keep: the folder of what is kept. Nothing else is removed, nor the case itself if it is there.
    """
    folder = keep / name
    try:
        text = (folder / _LOG).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return
    is_ours = text.startswith(f"{name}\n") and f"\n\n{_COMMAND} " in text
    if not is_ours or folder.resolve() == case_folder.resolve():
        return
    for file in _KEPT:
        (folder / file).unlink(missing_ok=True)
    for path in folder.glob("failed-*"):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # something else is there
        while folder != keep:
            folder.rmdir()
            folder = folder.parent


def reduced(
    inputs: dict[str, Array], wrong_on: Callable[[dict[str, Array]], str]
) -> tuple[dict[str, Array], str]:
    """Return inputs with as many zeros as possible on which a case is still wrong, and a text.

    wrong_on: says what is wrong on other inputs; "" if nothing is.
    """
    smallest = reduce_data(inputs, lambda arrays: bool(wrong_on(arrays)))
    count, total = nonzero_elements(smallest)
    said = "\n".join(f"  {line}" for line in wrong_on(smallest).splitlines())
    return smallest, f"\nreduced: {count} of {total} input elements are not zero\n{said}"


def nearby(path: str) -> str:
    """Return a path from the working folder; the path itself on another drive."""
    try:
        return os.path.relpath(path)
    except ValueError:
        return path
