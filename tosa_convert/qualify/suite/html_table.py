"""Show the answers of a suite in one HTML file, which needs no other file, script or network."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from html import escape as escape_html
from importlib.resources import files
from pathlib import Path
from typing import Final

from tosa_convert.errors import printable_lines
from tosa_convert.graph.dtypes import DTYPES, FLOATS, FP8
from tosa_convert.graph.model import counted
from tosa_convert.qualify.suite.answers import FAILED, Answer, Verdict, nearby
from tosa_convert.qualify.suite.run_cases import Qualification

_STATUSES: Final = (
    ("pass", "passed"),
    ("wrong", "wrong result"),
    ("refused", "refused"),
    ("crashed", "crashed or hung"),
    ("not-run", "not run"),
    ("error", "not judged"),
)
_INTEGERS: Final = [row for row in DTYPES if row.kind in ("bool", "integer")]
_ORDER: Final = [
    *(row.name for row in sorted(_INTEGERS, key=lambda row: (row.kind, row.bits))),
    *(row.name for row in (*sorted(FLOATS, key=lambda row: row.bits), *FP8)),
]
_WHAT_COUNTS: Final = "A case that is refused is skipped, and does not count. "
_NETWORKS: Final = (
    "A program of several operators that passes counts in the cells of all of them; one that does "
    "not, in those of the operators that are wrong, or as a network if these are not known."
)
#: Characters of a message in the table; the folder of the case has all of it.
_MESSAGE_CHARACTERS: Final = 600
_SLOWEST: Final = 50
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Hold a table of a report.

    head: of the columns. numbers: indices of the columns that are numbers. characters: those of the
        first column that fit a terminal.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: Collection[int] = ()
    characters: int = 1000

    def as_html(self) -> str:
        def cells(row: tuple[str, ...]) -> str:
            return "".join(
                f"<td>{escape(text)}</td>"
                if index in self.numbers
                else f'<td class="left">{escape(text)}</td>'
                for index, text in enumerate(row)
            )

        names = "".join(f"<th>{escape(text)}</th>" for text in self.head)
        body = "".join(f"<tr>{cells(row)}</tr>\n" for row in self.rows)
        return (
            f"<h2>{escape(self.title)}</h2>\n<table><thead><tr>{names}</tr></thead><tbody>\n"
            f"{body}</tbody></table>\n"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Hold what a report says besides its answers.

    title: of the page. about: what was run, in a few words.
    rows, columns: what the rows and the columns of the table are; a row is an answer's `operator`, a
        column its `types`, or those that it covers.
    links: text and target of the links of a case that did not pass. command: runs one case again.
        tables: further tables. folders: places whose absolute paths in messages are shown from the
        working folder.
    """

    title: str
    about: str
    rows: str
    columns: str
    links: Callable[[Answer], list[tuple[str, Path]]]
    command: Callable[[Answer], str]
    tables: tuple[Table, ...] = ()
    folders: tuple[Path, ...] = ()

    def shown(self, text: str) -> str:
        """Return a text from outside for the page, without the paths of this machine."""
        folders = sorted({*map(str, self.folders), os.getcwd()}, key=len, reverse=True)
        shorter = {folder: nearby(folder) + os.sep for folder in folders}
        for folder, shown in (shorter | {sys.prefix: "", tempfile.gettempdir(): ""}).items():
            # Not where it is the end of a path from the working folder.
            absolute = r"(?<![\w.])" + re.escape(folder + os.sep)
            text = shown.join(re.split(absolute, text))
        return escape(text)


def backend_page(root: Path, settings: Qualification) -> Page:
    claims = "all profiles and extensions"
    if settings.claims is not None:
        claims = ", ".join(sorted(settings.claims))

    def folder(answer: Answer) -> Path:
        return root if answer.case == "." else root / answer.case

    def links(answer: Answer) -> list[tuple[str, Path]]:
        found = [("case", folder(answer))]
        if settings.keep is not None and answer.status != "pass":
            found.append(("kept files", settings.keep / answer.case))
        return found

    return Page(
        title=f"TOSA test suite on {Path(settings.against).name}",
        about=f"{claims}; level {settings.level}",
        rows="operator",
        columns="an element type, that of the first operand",
        links=links,
        command=lambda answer: settings.command_for(folder(answer)),
        folders=(root, Path(os.path.dirname(settings.against)), *filter(None, [settings.keep])),
    )


def html_report(run: Verdict, page: Page, target: Path) -> Iterator[bytes]:
    cells: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in run.answers:
        for pair in answer.counts_at:
            cells[pair].append(answer)
    operators = sorted({operator for operator, _ in cells})
    types = sorted({kind for _, kind in cells}, key=_type_order)
    yield _head(run, page)
    yield b'<div class="wide"><table class="matrix"><thead><tr>'
    yield f'<th class="left">{escape(page.rows)}</th><th class="all">all</th>'.encode()
    yield "".join(f"<th>{escape(kind)}</th>" for kind in types).encode()
    yield b"</tr></thead><tbody>\n"
    for operator in operators:
        row = [cells.get((operator, kind), []) for kind in types]
        text = f"<tr><th>{escape(operator)}</th>" + _cell(run, _each_once(row), "all")
        for found, kind in zip(row, types, strict=True):
            text += _cell(run, found, anchor=_anchor(operator, kind))
        yield (text + "</tr>\n").encode()
    columns = [_each_once(cells.get((op, kind), []) for op in operators) for kind in types]
    text = "<tr><th>all</th>" + _cell(run, list(run.answers), "all")
    text += "".join(_cell(run, column) for column in columns)
    yield (text + "</tr>\n</tbody></table></div>\n").encode()
    yield from (
        table.as_html().encode() for table in (*page.tables, *_imprecise(run), *_slowest(run))
    )
    yield b"<h2>Cases that did not pass</h2>\n"
    described: dict[str, str] = {}
    for operator in operators:
        for kind in types:
            failed = [a for a in cells.get((operator, kind), []) if _is_listed(run, a)]
            if failed:
                yield from _section(run, operator, kind, failed, page, target, described)
    yield b"</body></html>\n"


def _each_once(groups: Iterable[list[Answer]]) -> list[Answer]:
    return list({answer.case: answer for group in groups for answer in group}.values())


def _imprecise(run: Verdict) -> Iterator[Table]:
    """Yield the table of the cases of low precision, if there are any."""
    rows = [answer for answer in run.answers if answer.low_precision]
    if rows:
        yield Table(
            title=f"Low precision: {counted(len(rows), 'case')} in which smaller faults are not seen",
            head=("case", "verdict", "output"),
            rows=tuple((answer.case, answer.status, answer.low_precision) for answer in rows),
        )


def _slowest(run: Verdict) -> Iterator[Table]:
    """Yield the table of the cases that took the backend longest, if times are known."""
    rows = [answer for answer in run.answers if answer.backend_seconds is not None]
    if not rows:
        return
    rows.sort(key=lambda answer: (-(answer.backend_seconds or 0.0), answer.case))
    total = sum(answer.backend_seconds or 0.0 for answer in rows)
    shown = rows[:_SLOWEST]
    yield Table(
        title=f"Slowest on the backend: {len(shown)} of {len(rows)} cases, {total:.1f} s in all",
        head=("case", "verdict", "seconds", "of processors", "peak MiB"),
        rows=tuple(
            (
                answer.case,
                answer.status,
                f"{answer.backend_seconds or 0.0:.3f}",
                f"{answer.backend_processor_seconds or 0.0:.3f}",
                "" if answer.backend_memory is None else f"{answer.backend_memory / _MIB:.0f}",
            )
            for answer in shown
        ),
        numbers=(2, 3, 4),
    )


def _type_order(kind: str) -> tuple[int, str]:
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), kind)


def _anchor(operator: str, kind: str) -> str:
    return urllib.parse.quote(f"{operator}-{kind}".replace(" ", "-"))


def _is_listed(run: Verdict, answer: Answer) -> bool:
    return answer.status in FAILED or (answer.status == "pass" and answer.case in run.expected)


def _head(run: Verdict, page: Page) -> bytes:
    counts = Counter[str](answer.status for answer in run.answers)

    def skipped(status: str) -> str:
        return ", skipped" if status in run.skipped else ""

    rows = "".join(
        f'<tr><td class="left {status}">{label}{skipped(status)}</td><td>{counts[status]}</td></tr>'
        for status, label in _STATUSES
        if counts[status]
    )
    legend = "".join(
        f'<span class="share" style="{_colour(share)}">{text}</span>'
        for share, text in ((1.0, "all passed"), (0.5, "half"), (0.0, "none"))
    )
    title, style = escape(page.title), (files(__package__) / "table.css").read_text("utf-8")
    more = ""
    if run.expected:
        expected = sum(a.status in FAILED and a.case in run.expected for a in run.answers)
        more = (
            f"<p>{expected} failures were expected; {len(run.unexpected_passes)} cases passed that "
            "were expected to fail.</p>"
        )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style></head><body>\n'
        f"<h1>{title}</h1><p>{len(run.answers)} cases; {escape(page.about)}.</p>"
        f"<table><tbody>{rows}</tbody></table>{more}"
        f'<h2>What passed</h2><p class="legend">{legend} of the cases that count. '
        "Each cell has the cases that passed and those that count, and of the others w(rong), "
        "r(efused), c(rashed), and ? for those that were not judged. "
        f"{_WHAT_COUNTS if 'refused' in run.skipped else ''}"
        f"Each column is {escape(page.columns)}. "
        f"{_NETWORKS if any(answer.covers for answer in run.answers) else ''}</p>\n"
    ).encode()


def _colour(share: float) -> str:
    """Return the style of a share: from red over yellow to green."""
    return f"--hue:{round(120 * share)}"


def _cell(run: Verdict, found: list[Answer], kind: str = "", anchor: str = "") -> str:
    if not found:
        return '<td class="none"></td>'
    counts = Counter[str](answer.status for answer in found)
    ran = sum(not run.is_skipped(answer) for answer in found)
    parts = [
        f"{counts[status]} {letter}"
        for status, letter in (("wrong", "w"), ("refused", "r"), ("crashed", "c"), ("error", "?"))
        if counts[status]
    ]
    text = f"{counts['pass']}/{ran}" if ran else f"{counts['not-run'] or ''}"
    text += " not run" if not ran and counts["not-run"] else ""
    text += f"<small>{' '.join(parts)}</small>" if parts else ""
    if parts and anchor:
        text = f'<a href="#{anchor}">{text}</a>'
    if not ran:
        return f'<td class="skip {kind}">{text}</td>'
    return f'<td class="share {kind}" style="{_colour(counts["pass"] / ran)}">{text}</td>'


def _section(
    run: Verdict,
    operator: str,
    kind: str,
    failed: list[Answer],
    page: Page,
    target: Path,
    described: dict[str, str],
) -> Iterator[bytes]:
    """Yield the failures of a cell. described: the anchors of those that have been described before."""
    counts = Counter[str](answer.status for answer in failed)
    listed = ", ".join(f"{count} {escape(status)}" for status, count in sorted(counts.items()))
    yield f"<details><summary>{escape(operator)} {escape(kind)}: {listed}</summary>\n".encode()
    # Inside of the element: browsers then open it for a link to it.
    yield f'<span id="{_anchor(operator, kind)}"></span>'.encode()
    for answer in sorted(failed, key=lambda answer: answer.case):
        head = f'<b class="{answer.status}">{answer.status}</b>'
        name = f"<code>{escape(answer.case)}</code>"
        if answer.case in described:
            link = f'<a href="#{described[answer.case]}">{name}</a>'
            yield f'<div class="case">{head} {link}</div>\n'.encode()
            continue
        described[answer.case] = anchor = f"case-{len(described)}"
        links = [_link(text, path, target) for text, path in page.links(answer)]
        reason = run.expected.get(answer.case)
        expected = f" (expected: {escape(reason)})" if reason else ""
        message = answer.message or "it passed"
        if len(message) > _MESSAGE_CHARACTERS:
            message = message[:_MESSAGE_CHARACTERS] + " ..."
        yield (
            f'<div class="case" id="{anchor}">{head}{expected} {name} {" ".join(links)}'
            f"<pre>{page.shown(message)}</pre>"
            f"<code>{page.shown(page.command(answer))}</code></div>\n"
        ).encode()
    yield b"</details>\n"


def _link(text: str, place: Path, target: Path) -> str:
    base = os.path.abspath(os.path.dirname(target) or ".")
    try:
        path = os.path.relpath(place, base)
    except ValueError:  # another drive
        path = str(place)
    path = urllib.parse.quote(path.replace(os.sep, "/")) + "/" * place.is_dir()
    return f'<a href="{escape(path)}">{escape(text)}</a>'


def escape(text: str) -> str:
    """Return a text from outside as HTML shows it."""
    return escape_html(printable_lines(text))
