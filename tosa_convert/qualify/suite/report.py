"""Reports about the cases of a suite: a summary, JUnit XML, and what changed since another run."""

from __future__ import annotations

import fnmatch
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import quoteattr

from tosa_convert.errors import Finding, TosaConvertError, fail, printable, printable_lines
from tosa_convert.io.files import file_error, open_regular, read_json
from tosa_convert.qualify.suite.journal import Answer, is_number, is_status

#: Statuses of a case that neither passed nor was left out.
FAILED: Final = ("fail", "error", "wrong", "refused", "crashed")
#: Those of them that do not fail a run, unless asked: the backend does not support the program.
SKIPPED: Final = frozenset({"refused"})

#: The statuses that only a backend's run has.
BACKEND_STATUSES: Final = ("wrong", "refused", "crashed", "not-run")


#: Times the baseline's time or memory, from which on a case is reported.
FACTOR: Final = 2.0
#: Fields of an answer in the JSON, and differences below which they count as equal.
_USED: Final = ("backend_seconds", "backend_memory")
_LEAST_SECONDS: Final = 0.1
_LEAST_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Expected:
    """A failure that is expected: cases whose name matches a pattern, and why."""

    pattern: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run: its answers, and which of them are expected.

    expected: by case, the reason of the failure that was expected.
    unused: patterns that no case matches.
    skipped: statuses that count as those of cases that are not run.
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
        """Return the cases that passed and were expected to fail."""
        return [a for a in self.answers if a.status == "pass" and a.case in self.expected]

    @property
    def ok(self) -> bool:
        """Return whether a case passed or failed as expected, and no other failed or passed."""
        ran = not all(map(self.is_skipped, self.answers))
        return ran and not self.failures and not self.unexpected_passes


def read_expected(path: Path) -> list[Expected]:
    """Read expected failures: a pattern and a reason on each line; `#` begins a comment."""
    try:
        with open_regular(path) as file:
            lines = file.read().decode().splitlines()
    except OSError as error:
        raise file_error(path, error, "read") from None
    except UnicodeDecodeError as error:
        raise fail("file-error", str(path), f"not a text in UTF-8: {error}") from None
    rows, findings = [], []
    for number, line in enumerate(lines, 1):
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
    answers: Iterable[Answer],
    expected: Sequence[Expected] = (),
    skipped: frozenset[str] = SKIPPED,
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
    """What changed since another run, by the names of cases."""

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
    """An earlier run: by case, its status, and what its backend used, if that is known."""

    statuses: Mapping[str, str]
    seconds: Mapping[str, float]
    memory: Mapping[str, float]


def read_baseline(path: Path) -> Baseline:
    """Read a report that `--json-report` wrote.

    Raises TosaConvertError("file-error").
    """
    expected = "a report that suite --json-report wrote"
    report = read_json(path, expected)
    rows = report.get("answers") if isinstance(report, dict) else None
    if not isinstance(rows, list):
        raise fail("file-error", str(path), f"not {expected}: it has no list of answers")
    found = Baseline({}, seconds={}, memory={})
    for number, row in enumerate(rows):
        name, status = (
            (row.get("case"), row.get("status")) if isinstance(row, dict) else (None, None)
        )
        used = [row.get(key) for key in _USED] if isinstance(row, dict) else []
        if (
            not isinstance(name, str)
            or not is_status(status)
            or not all(value is None or is_number(value) for value in used)
        ):
            message = f"not {expected}: answers[{number}] has the case {name!r:.80}, {status!r:.80}"
            raise fail("file-error", str(path), message)
        assert isinstance(found.statuses, dict)
        found.statuses[name] = str(status)
        for values, value in zip((found.seconds, found.memory), used, strict=True):
            assert isinstance(values, dict)
            if value is not None:
                values[name] = value
    return found


@dataclass(frozen=True, slots=True)
class Slowdown:
    """How the backend's use of one thing changed since another run.

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
    """Return the counts and every case that did not pass, to be written as JSON.

    earlier: how many answers are those of an earlier run.
    """
    rows = sorted(run.answers, key=lambda answer: answer.case)
    counts = Counter(answer.status for answer in rows)
    return {
        "cases": len(rows),
        "passed": counts["pass"],
        "failed": counts["fail"],
        "errors": counts["error"],
        **{name.replace("-", "_"): counts[name] for name in BACKEND_STATUSES},
        "skipped": sum(map(run.is_skipped, rows)),
        "expected_failures": sum(
            1 for row in rows if row.status in FAILED and row.case in run.expected
        ),
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
