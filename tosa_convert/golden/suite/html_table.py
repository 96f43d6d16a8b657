"""The answers of a suite as one HTML file: a table of what was tested, and every failure.

The file needs nothing else: no script, no other file, and no network.
"""

from __future__ import annotations

import os
import urllib.parse
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from html import escape as escape_html
from pathlib import Path
from typing import Final

from tosa_convert.errors import printable_lines
from tosa_convert.golden.suite.journal import Answer
from tosa_convert.golden.suite.qualification import Qualification, command_for
from tosa_convert.golden.suite.report import FAILED, Verdict

_STATUSES: Final = (
    ("pass", "passed"),
    ("wrong", "wrong result"),
    ("refused", "refused"),
    ("crashed", "crashed or hung"),
    ("not-run", "not run"),
    ("error", "not judged"),
)
_ORDER: Final = (
    *("BOOL", "INT4", "INT8", "INT16", "INT32", "INT48", "INT64", "FP16", "BF16", "FP32"),
    *("FP8E4M3", "FP8E5M2"),
)
#: Characters of a message in the table; the folder of the case has all of it.
_MESSAGE_CHARACTERS: Final = 600
_STYLE: Final = """
:root { color-scheme: light }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #1b1f24; background: #fff }
h1 { font-size: 1.4rem; margin: 0 0 .2rem }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p, details { max-width: 96rem }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums;
  border: solid #d5dae1; border-width: 1px 0 0 1px }
th, td { border: solid #d5dae1; border-width: 0 1px 1px 0; padding: .15rem .4rem; text-align: right;
  white-space: nowrap }
th { background: #f3f5f8; font-weight: 600 } tbody th, .left { text-align: left }
.matrix { font-size: 13px } .matrix td { min-width: 2.4rem }
.matrix thead th { position: sticky; top: 0; z-index: 1; white-space: normal; font-size: 11.5px;
  vertical-align: bottom }
.matrix tbody th, .matrix thead th:first-child { position: sticky; left: 0 }
.matrix thead th:first-child { z-index: 2 }
.matrix .all { border-right: 2px solid #9aa4b2 }
.matrix tbody tr:last-child > * { border-top: 2px solid #9aa4b2 }
td a { color: inherit; text-decoration: none; display: block } td a:hover { text-decoration: underline }
td small { display: block; color: #3b4350; font-size: .72rem; line-height: 1.15 }
td.none { background: #fafbfc } td.skip { background: #f3f5f8; color: #5c6672 }
.legend span { display: inline-block; padding: 0 .5rem; margin-right: .4rem; border: 1px solid #d5dae1 }
details { border: 1px solid #d5dae1; border-radius: 4px; margin: .4rem 0; padding: .3rem .7rem }
summary { cursor: pointer; font-weight: 600 }
.case { border-top: 1px solid #e6e9ee; padding: .4rem 0; scroll-margin-top: 4rem }
.case code { overflow-wrap: anywhere }
pre { background: #f6f8fa; margin: .3rem 0; padding: .4rem .6rem; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: 12px }
.wrong { color: #b3261e } .crashed { color: #7a1fa2 } .refused { color: #8a5a00 }
.error { color: #b3261e } .pass { color: #1a7f37 }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a report.

    head: of the columns. numbers: indices of the columns that are numbers.
    characters: those of the first column that fit a terminal.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: Collection[int] = ()
    characters: int = 1000

    def as_html(self) -> str:
        """Return the table as a part of a page."""

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
    """What a report says besides its answers.

    title: of the page. about: what was run, in a few words.
    rows, columns: what the rows and the columns of the table are; a row is an answer's `operator`, a
        column its `types`.
    links: text and target of the links of a case that did not pass.
    command: runs one case again.
    tables: further tables.
    """

    title: str
    about: str
    rows: str
    columns: str
    links: Callable[[Answer], list[tuple[str, Path]]]
    command: Callable[[Answer], str]
    tables: tuple[Table, ...] = ()


def backend_page(root: Path, settings: Qualification) -> Page:
    """Return the page of a backend. root: the folder of the cases. settings: how they were run."""
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
        columns="element type, that of the first operand",
        links=links,
        command=lambda answer: command_for(folder(answer), settings),
    )


def html_report(run: Verdict, page: Page, target: Path) -> Iterator[bytes]:
    """Iterate over the report in pieces.

    Args:
        run: the answers.
        page: what was run.
        target: the file that is written; links are relative to its folder.
    """
    cells: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in run.answers:
        cells[answer.operator or "(not read)", answer.types or "none"].append(answer)
    operators = sorted({operator for operator, _ in cells})
    types = sorted({kind for _, kind in cells}, key=_type_order)
    yield _head(run, page)
    yield f'<table class="matrix"><thead><tr><th class="left">{escape(page.rows)}</th>'.encode()
    yield b'<th class="all">all</th>'
    yield "".join(f"<th>{escape(kind)}</th>" for kind in types).encode()
    yield b"</tr></thead><tbody>\n"
    for operator in operators:
        row = [cells.get((operator, kind), []) for kind in types]
        text = f"<tr><th>{escape(operator)}</th>" + _cell(
            [a for found in row for a in found], "all"
        )
        for found, kind in zip(row, types, strict=True):
            text += _cell(found, anchor=_anchor(operator, kind))
        yield (text + "</tr>\n").encode()
    columns = [[a for op in operators for a in cells.get((op, kind), [])] for kind in types]
    text = "<tr><th>all</th>" + _cell(list(run.answers), "all") + "".join(map(_cell, columns))
    yield (text + "</tr>\n</tbody></table>\n").encode()
    yield from (table.as_html().encode() for table in page.tables)
    yield b"<h2>Cases that did not pass</h2>\n"
    for operator in operators:
        for kind in types:
            failed = [a for a in cells.get((operator, kind), []) if _is_listed(run, a)]
            if failed:
                yield from _section(run, operator, kind, failed, page, target)
    yield b"</body></html>\n"


def _type_order(kind: str) -> tuple[int, str]:
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), kind)


def _anchor(operator: str, kind: str) -> str:
    return urllib.parse.quote(f"{operator}-{kind}".replace(" ", "-"))


def _is_listed(run: Verdict, answer: Answer) -> bool:
    return answer.status in FAILED or (answer.status == "pass" and answer.case in run.expected)


def _head(run: Verdict, page: Page) -> bytes:
    counts = Counter[str](answer.status for answer in run.answers)
    rows = "".join(
        f'<tr><td class="left {status}">{label}</td><td>{counts[status]}</td></tr>'
        for status, label in _STATUSES
        if counts[status]
    )
    legend = "".join(
        f'<span style="background:{_colour(share)}">{text}</span>'
        for share, text in ((1.0, "all passed"), (0.5, "half"), (0.0, "none"))
    )
    title = escape(page.title)
    more = ""
    if run.expected:
        expected = sum(a.status in FAILED and a.case in run.expected for a in run.answers)
        more = (
            f"<p>{expected} failures were expected; {len(run.unexpected_passes)} cases passed that "
            "were expected to fail.</p>"
        )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        f"<h1>{title}</h1><p>{len(run.answers)} cases; {escape(page.about)}.</p>"
        f"<table><tbody>{rows}</tbody></table>{more}"
        f'<h2>What passed</h2><p class="legend">{legend} of the cases that were run. '
        "Each cell has the cases that passed and those that were run, and of the others w(rong), "
        "r(efused), c(rashed), and ? for those that were not judged. "
        f"Each column is a {escape(page.columns)}.</p>\n"
    ).encode()


def _colour(share: float) -> str:
    """From red over yellow to green."""
    return f"hsl({round(120 * share)} 65% {86 if share < 1 else 82}%)"


def _cell(found: list[Answer], kind: str = "", anchor: str = "") -> str:
    if not found:
        return '<td class="none"></td>'
    counts = Counter[str](answer.status for answer in found)
    ran = sum(counts[status] for status in ("pass", *FAILED))
    if not ran:
        return f'<td class="skip">{len(found)} not run</td>'
    parts = [
        f"{counts[status]} {letter}"
        for status, letter in (("wrong", "w"), ("refused", "r"), ("crashed", "c"), ("error", "?"))
        if counts[status]
    ]
    text = f"{counts['pass']}/{ran}" + (f"<small>{' '.join(parts)}</small>" if parts else "")
    if parts and anchor:
        text = f'<a href="#{anchor}">{text}</a>'
    kind = kind and f' class="{kind}"'
    return f'<td{kind} style="background:{_colour(counts["pass"] / ran)}">{text}</td>'


def _section(
    run: Verdict,
    operator: str,
    kind: str,
    failed: list[Answer],
    page: Page,
    target: Path,
) -> Iterator[bytes]:
    counts = Counter[str](answer.status for answer in failed)
    listed = ", ".join(f"{count} {escape(status)}" for status, count in sorted(counts.items()))
    yield (f"<details><summary>{escape(operator)} {escape(kind)}: {listed}</summary>\n").encode()
    # Inside of the element: browsers then open it for a link to it.
    anchor = f' id="{_anchor(operator, kind)}"'
    for answer in sorted(failed, key=lambda answer: answer.case):
        links = [_link(text, path, target) for text, path in page.links(answer)]
        reason = run.expected.get(answer.case)
        expected = f" (expected: {escape(reason)})" if reason else ""
        message = answer.message or "it passed"
        if len(message) > _MESSAGE_CHARACTERS:
            message = message[:_MESSAGE_CHARACTERS] + " ..."
        yield (
            f'<div class="case"{anchor}><b class="{answer.status}">{answer.status}</b>{expected} '
            f"<code>{escape(answer.case)}</code> {' '.join(links)}"
            f"<pre>{escape(message)}</pre><code>{escape(page.command(answer))}</code></div>\n"
        ).encode()
        anchor = ""
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
