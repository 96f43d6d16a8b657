"""Keep the answers of a suite in a file as they come, judge them, and report on them.

The file has JSON lines, so an interrupted run goes on where it was, and a case that ran twice counts
once. An answer is kept with the fingerprint of all that decided it, and counts only for that.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, cast, get_args
from xml.sax.saxutils import quoteattr

from tosa_convert.errors import Finding, TosaConvertError, fail, printable, printable_lines
from tosa_convert.golden.arrays import Array, Arrays, OutputFolder, npz_pieces
from tosa_convert.io.files import file_error, open_regular, parse_json, read_json, replace_file
from tosa_convert.process.child import Used
from tosa_convert.qualify.reduction.cutting import nonzero_elements, reduce_data

Status = Literal["pass", "fail", "error", "wrong", "refused", "crashed", "not-run"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)

#: No time and no error of an answer is larger; JSON can have larger numbers, and an infinity.
_LARGEST: Final = 1e300
_EXPECTED: Final = "an answer that suite wrote"
_HINT: Final = "remove the file, and the cases run again"


class Outcome(NamedTuple):
    """Hold what became of a case, in fields of `Answer`."""

    status: Status
    message: str = ""
    outputs: int = 0
    low_precision: str = ""
    at_fault: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the outcome of a case.

    status: "pass"; "fail" if the outputs differ from the original's; "error" if there are none. On a
        backend the others occur, too; see `qualify_case`.
    outputs: the number of tensors that were compared. low_precision: which outputs may differ so much
        that faults are not seen, or "".
    operator, types: what the case tests, and the element type of its first operand. covers: of a program
        of several operators, each with its element type, such as "CONV2D INT8". at_fault: of these the
        ones that `bisect` names if the result is wrong.
    key: the fingerprint of what decided it, as far as that is known before the run. read: the
        fingerprints of further files that the backend has read, by path.
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
        lists = {"covers": list(self.covers), "at_fault": list(self.at_fault)}
        return {name: row for name, row in lists.items() if row}

    @property
    def counts_at(self) -> list[tuple[str, str]]:
        """Return what the case tests; of a network what it covers if it passes, else those at fault."""
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


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read().decode()
    except OSError as error:
        raise file_error(path, error, "read") from None
    except UnicodeDecodeError as error:
        raise fail("file-error", str(path), f"not a text in UTF-8: {error}") from None


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
    """Keep the answers by case: those of an earlier run that still count, and those that are added.

    header: identifies the run. A file with another header is refused ("option-conflict"). kept: chooses
        those that still count from all earlier ones. A file that cannot be read or written, or has other
        content, is a "file-error".
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
        text = _text(self.path) if self.path.exists() else ""
        if not text:
            return {}
        *lines, unfinished = text.split("\n")
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
_KEPT: Final = ("model.tosa", "inputs.npz", "reference.npz", "found.npz", _LOG)
#: What the command that runs a case again begins with.
_COMMAND: Final = "tosa-flatbuffer suite"


@dataclass(frozen=True, slots=True)
class Failed:
    """Hold a case, the folder where it is kept if it fails, and the command that runs it again."""

    name: str
    source: Path
    folder: Path | None
    command: str

    def keep(
        self,
        inputs: Arrays,
        message: str,
        reference: Arrays = MappingProxyType({}),
        found: Arrays = MappingProxyType({}),
    ) -> None:
        """Keep what shows the failure: the program, the inputs, the message, and any results."""
        if self.folder is None:
            return
        with OutputFolder(self.folder) as target:
            target.write("model.tosa", [self.source.read_bytes()])
            target.write("inputs.npz", npz_pieces(dict(inputs)))
            if reference:
                target.write("reference.npz", npz_pieces(dict(reference)))
                shown = {key: found[key] for key in reference if key in found}
                target.write("found.npz", npz_pieces(shown))
            target.write(_LOG, [f"{self.name}\n{message}\n\n{self.command}\n".encode()])


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
    """Return inputs with as many zeros as possible on which a case is still wrong, and a text."""
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


# -- what became of a run: a verdict, a summary, JUnit XML, what changed since another run ---------

#: Statuses of a case that neither passed nor was left out.
FAILED: Final = ("fail", "error", "wrong", "refused", "crashed")
#: Those of them that do not fail a run, unless asked: the backend does not support the program.
SKIPPED: Final = frozenset({"refused"})

BACKEND_STATUSES: Final = ("wrong", "refused", "crashed", "not-run")

#: Times the baseline's time or memory, from which on a case is reported.
FACTOR: Final = 2.0
#: Fields of an answer in the JSON, and differences below which they count as equal.
_USED: Final = ("backend_seconds", "backend_memory")
_LEAST_SECONDS: Final = 0.1
_LEAST_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Expected:
    """Hold a failure that is expected: cases whose name matches a pattern, and why."""

    pattern: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Hold the answers of a run, and which of them are expected.

    expected: by case, the reason of the failure that was expected. unused: patterns that no case
        matches. skipped: statuses that count as those of cases that are not run.
    """

    answers: tuple[Answer, ...]
    expected: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    skipped: frozenset[str] = SKIPPED

    def is_skipped(self, answer: Answer) -> bool:
        """Return whether a case was left out, by us or by the backend."""
        return answer.status == "not-run" or answer.status in self.skipped

    @property
    def failures(self) -> list[Answer]:
        """Return the cases that failed and were not expected to."""
        return [
            a
            for a in self.answers
            if a.status in FAILED and not self.is_skipped(a) and a.case not in self.expected
        ]

    @property
    def unexpected_passes(self) -> list[Answer]:
        return [a for a in self.answers if a.status == "pass" and a.case in self.expected]

    @property
    def ok(self) -> bool:
        """Return whether a case passed or failed as expected, and no other failed or passed."""
        ran = not all(map(self.is_skipped, self.answers))
        return ran and not self.failures and not self.unexpected_passes


def read_expected(path: Path) -> list[Expected]:
    """Read expected failures: a pattern and a reason on each line; `#` begins a comment."""
    rows, findings = [], []
    for number, line in enumerate(_text(path).splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        pattern, _, reason = text.partition(" ")
        if reason.strip():
            rows.append(Expected(pattern, reason.strip()))
        else:
            where, message = f"{path}:{number}", f"{pattern} has no reason"
            findings.append(
                Finding("option-conflict", where, message, "write PATTERN REASON in a line")
            )
    if findings:
        raise TosaConvertError(findings)
    return rows


def verdict(
    answers: Iterable[Answer], expected: Sequence[Expected] = (), skipped: frozenset[str] = SKIPPED
) -> Verdict:
    """Judge a run with expected failures; the first pattern that matches a case counts.

    Example:
        >>> rows = [Answer("add/a", "wrong"), Answer("add/b", "pass")]
        >>> verdict(rows).ok, verdict(rows, [Expected("add/a", "rounds twice")]).ok
        (False, True)
    """
    rows = tuple(answers)
    used: set[str] = set()
    reasons: dict[str, str] = {}
    for answer in rows:
        for row in expected:
            if fnmatch.fnmatchcase(answer.case, row.pattern):
                used.add(row.pattern)
                reasons.setdefault(answer.case, row.reason)
    unused = tuple(row.pattern for row in expected if row.pattern not in used)
    return Verdict(rows, reasons, unused, skipped)


@dataclass(frozen=True, slots=True)
class Changes:
    """Hold what changed since another run, by the names of cases."""

    failing: tuple[str, ...]
    passing: tuple[str, ...]
    other: tuple[str, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def changes(answers: Iterable[Answer], baseline: Mapping[str, str]) -> Changes:
    """Return what changed since a run with these statuses by case.

    A case that was not run on either side has not changed.

    Example:
        >>> changes([Answer("a", "wrong"), Answer("b", "pass")], {"a": "pass", "b": "crashed"})
        Changes(failing=('a',), passing=('b',), other=(), new=(), gone=())
    """
    rows = {answer.case: answer.status for answer in answers}
    both = [name for name in sorted(rows) if name in baseline and rows[name] != baseline[name]]
    ran = [name for name in both if "not-run" not in (rows[name], baseline[name])]
    failing = tuple(name for name in ran if baseline[name] == "pass")
    passing = tuple(name for name in ran if rows[name] == "pass")
    changed = {*failing, *passing}
    return Changes(
        failing,
        passing,
        tuple(name for name in both if name not in changed),
        tuple(sorted(rows.keys() - baseline.keys())),
        tuple(sorted(baseline.keys() - rows.keys())),
    )


@dataclass(frozen=True, slots=True)
class Baseline:
    """Hold an earlier run: by case, its status, and what its backend used, if that is known."""

    statuses: Mapping[str, str]
    seconds: Mapping[str, float]
    memory: Mapping[str, float]


def read_baseline(path: Path) -> Baseline:
    """Read a report that `--json-report` wrote."""
    expected = "a report that suite --json-report wrote"
    report = read_json(path, expected)
    rows = report.get("answers") if isinstance(report, dict) else None
    if not isinstance(rows, list):
        raise fail("file-error", str(path), f"not {expected}: it has no list of answers")
    statuses: dict[str, str] = {}
    uses: tuple[dict[str, float], dict[str, float]] = {}, {}
    for number, row in enumerate(rows):
        row = row if isinstance(row, dict) else {}
        name, status, *used = (row.get(key) for key in ("case", "status", *_USED))
        if (
            not isinstance(name, str)
            or not _HOLDS["Status"](status)
            or not all(value is None or is_number(value) for value in used)
        ):
            message = f"not {expected}: answers[{number}] has the case {name!r:.80}, {status!r:.80}"
            raise fail("file-error", str(path), message)
        statuses[name] = str(status)
        for values, value in zip(uses, used, strict=True):
            if value is not None:
                values[name] = value
    return Baseline(statuses, *uses)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Hold how the backend's use of one thing changed since another run.

    what: "time" or "memory". median: of all cases that have both numbers, the factor in the middle.
        cases: by name, before and after, of those that use much more; the largest factor first.
    """

    what: str
    median: float
    cases: Mapping[str, tuple[float, float]]


def slowdowns(
    answers: Iterable[Answer], baseline: Baseline, factor: float = FACTOR
) -> list[Slowdown]:
    """Return how time and memory changed; empty for what neither run knows.

    A difference that noise explains does not count: below 0.1 s or 16 MiB.

    Example:
        >>> before = Baseline({"a": "pass"}, {"a": 1.0}, {})
        >>> slowdowns([Answer("a", "pass", backend_seconds=3.0)], before)
        [Slowdown(what='time', median=3.0, cases={'a': (1.0, 3.0)})]
    """
    rows = sorted(answers, key=lambda answer: answer.case)
    result = []
    for what, key, before, least in (
        ("time", "backend_seconds", baseline.seconds, _LEAST_SECONDS),
        ("memory", "backend_memory", baseline.memory, _LEAST_BYTES),
    ):
        both = {
            answer.case: (before[answer.case], float(getattr(answer, key)))
            for answer in rows
            if before.get(answer.case) and getattr(answer, key) is not None
        }
        if not both:
            continue
        factors = {case: after / earlier for case, (earlier, after) in both.items()}
        slower = [
            case
            for case, (earlier, after) in both.items()
            if factors[case] > factor and after - earlier > least
        ]
        slower.sort(key=lambda case: -factors[case])
        median = statistics.median(factors.values())
        result.append(Slowdown(what, round(median, 3), {case: both[case] for case in slower}))
    return result


def summary(run: Verdict, seconds: float, earlier: int = 0) -> dict[str, Any]:
    """Return the counts and every case that did not pass, to be written as JSON."""
    rows = sorted(run.answers, key=lambda answer: answer.case)
    counts = Counter(answer.status for answer in rows)
    return {
        "cases": len(rows),
        "passed": counts["pass"],
        "failed": counts["fail"],
        "errors": counts["error"],
        **{name.replace("-", "_"): counts[name] for name in BACKEND_STATUSES},
        "skipped": sum(map(run.is_skipped, rows)),
        "expected_failures": sum(row.status in FAILED and row.case in run.expected for row in rows),
        "unexpected_passes": [row.case for row in run.unexpected_passes],
        "ok": run.ok,
        "low_precision": sum(bool(answer.low_precision) for answer in rows),
        "outputs": sum(answer.outputs for answer in rows),
        "backend_seconds": round(sum(answer.backend_seconds or 0.0 for answer in rows), 2),
        "run_now": len(rows) - earlier,
        "from_earlier": earlier,
        "seconds": round(seconds, 2),
        "cases_per_second": round((len(rows) - earlier) / seconds, 2) if seconds else None,
        "not_passed": [asdict(answer) for answer in rows if answer.status in FAILED],
    }


#: The class in JUnit XML of a case that is not in a folder of cases.
_TOP_GROUP: Final = "cases"


def junit(run: Verdict, seconds: float) -> Iterator[bytes]:
    """Write the answers as JUnit XML, in pieces: what is not run or expected to fail is skipped."""
    rows = sorted(run.answers, key=lambda answer: answer.case)
    tags = Counter(_tag(run, answer)[0] for answer in rows)
    head = (
        f'<testsuite name="tosa-flatbuffer suite" tests="{len(rows)}" '
        f'failures="{tags["failure"]}" errors="{tags["error"]}" skipped="{tags["skipped"]}" '
        f'time="{seconds:.3f}">'
    )
    yield f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>{head}\n'.encode()
    for answer in rows:
        group, _, name = answer.case.rpartition("/")
        # Readers of reports drop a case without a class.
        group = group or _TOP_GROUP
        tag, message = _tag(run, answer)
        inner = f"<{tag} message={quoteattr(printable_lines(message))}/>" if tag else ""
        yield (
            f"<testcase classname={quoteattr(printable(group))} name={quoteattr(printable(name))} "
            f'time="{answer.seconds:.4f}">{_properties(answer)}{inner}</testcase>\n'
        ).encode()
    yield b"</testsuite></testsuites>\n"


def _properties(answer: Answer) -> str:
    """Return what is wrong, what the backend used and what is of low precision, for JUnit XML."""
    rows = (
        ("backend_seconds", answer.backend_seconds),
        ("backend_processor_seconds", answer.backend_processor_seconds),
        ("backend_memory_bytes", answer.backend_memory),
    )
    inner = "".join(
        f'<property name="{name}" value="{value}"/>' for name, value in rows if value is not None
    )
    for operator, types in answer.counts_at if answer.status == "wrong" else ():
        text = quoteattr(printable_lines(f"{operator} {types}"))
        inner += f'<property name="operator" value={text}/>'
    if answer.low_precision:
        text = quoteattr(printable_lines(answer.low_precision))
        inner += f'<property name="low_precision" value={text}/>'
    return f"<properties>{inner}</properties>" if inner else ""


def _tag(run: Verdict, answer: Answer) -> tuple[str, str]:
    """Return the element of JUnit XML for an answer and its message."""
    reason = run.expected.get(answer.case)
    if answer.status == "not-run":
        return "skipped", answer.message
    if reason is None and run.is_skipped(answer):
        return "skipped", f"{answer.status}: {answer.message}"
    if answer.status == "pass":
        return ("", "") if reason is None else ("failure", f"it was expected to fail: {reason}")
    if reason is not None:
        return "skipped", f"expected ({answer.status}): {reason}"
    tag = "failure" if answer.status in ("fail", "wrong", "refused") else "error"
    prefix = f"{answer.status}: " if answer.status in BACKEND_STATUSES else ""
    return tag, prefix + answer.message
