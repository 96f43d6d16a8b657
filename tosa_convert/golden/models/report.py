"""What a suite of models says: a table, and the operators that do not lower."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from tosa_convert.golden.models.run_case import ModelAnswer

#: The heads of the table's columns, and those that are numbers.
TABLE_HEAD: Final = (
    *("case or operator", "frontend", "cases", "lowered", "exported", "equal"),
    *("largest error", "seconds"),
)
TABLE_NUMBERS: Final = range(2, 8)
#: The same for operators that do not lower.
OPERATORS_HEAD: Final = ("does not lower", "cases", "times", "frontends")
OPERATORS_NUMBERS: Final = (1, 2)
#: The same for cases whose program and model could not be compared.
NOT_JUDGED_HEAD: Final = ("not judged", "why")


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


@dataclass(frozen=True, slots=True)
class Unlowered:
    """An operator that does not lower: in how many cases, and how often in all of them."""

    operator: str
    cases: int
    times: int
    frontends: tuple[str, ...]


def unlowered(answers: Iterable[ModelAnswer]) -> list[Unlowered]:
    """Return the operators that do not lower, those of most cases first."""
    cases: Counter[str] = Counter()
    times: Counter[str] = Counter()
    frontends: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for operator, count in answer.not_lowered.items():
            cases[operator] += 1
            times[operator] += count
            frontends[operator].add(answer.types)
    rows = [
        Unlowered(name, count, times[name], tuple(sorted(frontends[name])))
        for name, count in cases.items()
    ]
    return sorted(rows, key=lambda row: (-row.cases, -row.times, row.operator))


def unlowered_rows(found: Iterable[Unlowered]) -> Iterator[tuple[str, ...]]:
    """Iterate over the operators as rows under OPERATORS_HEAD."""
    for row in found:
        yield row.operator, str(row.cases), str(row.times), ", ".join(row.frontends)


def not_judged_rows(answers: Iterable[ModelAnswer]) -> Iterator[tuple[str, str]]:
    """Iterate over the cases that were not judged, and why.

    The reason is the last line of a traceback, or the first of a message.
    """
    for answer in answers:
        if answer.status == "error":
            lines = answer.message.strip().splitlines() or [""]
            yield answer.case, lines[-1 if lines[0].startswith("Traceback") else 0]


def html_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int]
) -> str:
    """Return a table of a report."""
    numbers = set(right)

    def cells(row: Sequence[str]) -> str:
        return "".join(
            f"<td>{escape(text)}</td>"
            if index in numbers
            else f'<td class="left">{escape(text)}</td>'
            for index, text in enumerate(row)
        )

    names = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(f"<tr>{cells(row)}</tr>\n" for row in rows)
    return (
        f"<h2>{escape(title)}</h2>\n<table><thead><tr>{names}</tr></thead><tbody>\n"
        f"{body}</tbody></table>\n"
    )


def json_row(answer: ModelAnswer) -> dict[str, Any]:
    """Return what the JSON says of a case besides what it says of every suite's."""
    return {
        "lowered": answer.lowered,
        "exported": answer.exported,
        "equal": answer.equal,
        "operators": answer.operators,
        "largest_error": answer.largest_error,
        "not_lowered": dict(answer.not_lowered),
        "constants": answer.constants,
    }
