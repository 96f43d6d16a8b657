"""What a suite of models says: a table, and the operators that do not lower."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tosa_convert.golden.models.run_case import ModelAnswer
from tosa_convert.golden.suite.html_table import Table


def tables(answers: Sequence[ModelAnswer]) -> tuple[Table, ...]:
    """Return the tables of a report."""
    return (
        Table(
            title="How far each came",
            head=(
                *("case or operator", "frontend", "cases", "lowered", "exported", "equal"),
                *("largest error", "seconds"),
            ),
            rows=tuple(table_rows(answers)),
            numbers=range(2, 8),
        ),
        Table(
            title="What does not lower",
            head=("does not lower", "cases", "times", "frontends"),
            rows=tuple(unlowered_rows(answers)),
            numbers=(1, 2),
            characters=60,
        ),
        Table(
            title="Not judged",
            head=("not judged", "why"),
            rows=tuple(not_judged_rows(answers)),
        ),
    )


def table_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, ...]]:
    """Iterate over the rows of cases or operators by frontend. Cases that were not run count nowhere."""
    groups: dict[tuple[str, str], list[ModelAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.status != "not-run":
            groups[answer.operator, answer.types].append(answer)
    for (group, kind), rows in sorted(groups.items()):
        errors = [row.largest_error for row in rows if row.largest_error is not None]
        yield (
            group,
            kind,
            str(len(rows)),
            str(sum(row.lowered for row in rows)),
            str(sum(row.exported for row in rows)),
            str(sum(row.equal for row in rows)),
            f"{max(errors):.2g}" if errors else "",
            f"{sum(row.seconds for row in rows):.1f}",
        )


def unlowered_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, ...]]:
    """Iterate over the operators that do not lower, those of most cases first.

    In how many cases, how often in all of them, and in which frontends.
    """
    cases: Counter[str] = Counter()
    times: Counter[str] = Counter()
    frontends: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for operator, count in answer.not_lowered.items():
            cases[operator] += 1
            times[operator] += count
            frontends[operator].add(answer.types)
    for name in sorted(cases, key=lambda name: (-cases[name], -times[name], name)):
        yield name, str(cases[name]), str(times[name]), ", ".join(sorted(frontends[name]))


def not_judged_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, str]]:
    """Iterate over the cases that were not judged, and why.

    The reason is the last line of a traceback, or the first of a message.
    """
    for answer in answers:
        if answer.status == "error":
            lines = answer.message.strip().splitlines() or [""]
            yield answer.case, lines[-1 if lines[0].startswith("Traceback") else 0]
