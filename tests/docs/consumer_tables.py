"""Tables about programs that read files, made from zoo/consumers.json and tests/oracle/readers.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from docs.zoo_tables import ZOO

from tosa_convert.consumers.readers import reader_named

CONSUMERS = ZOO / "consumers.json"
READERS = ZOO.parent / "tests" / "oracle" / "readers.json"
OURS, THEIRS = "ours", "tosa-opt"
#: Program -> how the tables call it.
SHOWN = {
    "vela": "Vela",
    "model-converter": "ML SDK model converter",
    "model-explorer": "Model Explorer's adapter",
    "iree": "IREE",
}


class Column(NamedTuple):
    """A program and a format that it is given."""

    program: str
    form: str


def measured() -> dict[str, Any]:
    """Return what was measured last."""
    found: dict[str, Any] = json.loads(CONSUMERS.read_text(encoding="utf-8"))
    return found


def columns() -> list[Column]:
    """Return all programs and formats, in the order of the file."""
    networks = list(measured()["networks"].values())
    return [
        Column(program, form)
        for program, forms in networks[0]["programs"].items()
        for form in forms
    ]


def rows_of(column: Column) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each network, and what became of its files in a column."""
    for name, network in measured()["networks"].items():
        yield name, network["programs"][column.program][column.form]


def count_table() -> str:
    """Return how many networks each program reads from us and from tosa-opt."""
    lines = [
        "| program | file | networks | reads ours | reads that of `tosa-opt` | result equal "
        "| reads ours of `--for` | `doctor` right |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for column in columns():
        rows = [row for _, row in rows_of(column)]
        both = [row for row in rows if "equal" in row]
        asked = [row["for"]["reads"] for row in rows if "for" in row]
        cells = [
            SHOWN[column.program],
            f"`.{column.form}`",
            len(rows),
            sum(row["reads"][OURS] for row in rows),
            sum(row["reads"][THEIRS] for row in rows),
            f"{sum(row['equal'] for row in both)} of {len(both)}",
            f"{sum(asked)} of {len(asked)}" if asked else "",
            f"{sum(sum(row['doctor'].values()) for row in rows)} "
            f"of {sum(len(row['doctor']) for row in rows)}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def network_table() -> str:
    """For each network and program whether it reads our file, and that of tosa-opt."""
    heads = [f"{SHOWN[program]} `.{form}`" for program, form in columns()]
    lines = [f"| network | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for name, network in measured()["networks"].items():
        rows = [network["programs"][program][form] for program, form in columns()]
        lines.append(f"| `{name}` | {' | '.join(map(cell, rows))} |")
    return "\n".join(lines) + "\n"


def cell(row: dict[str, Any]) -> str:
    """Return whether a program reads our file, and that of tosa-opt; what it makes of both is equal."""
    if not row.get("equal", True):
        return "**differs**"
    shown = " / ".join("yes" if row["reads"][writer] else "no" for writer in (OURS, THEIRS))
    if row["reads"][THEIRS] and not row["reads"][OURS]:
        return f"**{shown}**"
    return f"{shown}, `--for`: yes" if row.get("for", {}).get("reads") else shown


def reasons(program: str, text: str) -> list[str]:
    """Return the reasons in a message. Vela names its operators after each of several."""
    failure = text.removeprefix("RuntimeError: ")
    if program != "vela" or failure != text:
        return [failure]
    return [part.partition(": ")[0] for part in text.split("; ")]


def reason_table() -> str:
    """Why programs do not read files, and how many networks have a file that is refused so."""
    found: dict[tuple[Column, str], dict[str, set[str]]] = {}
    for column in columns():
        for name, row in rows_of(column):
            for writer, text in row["reason"].items():
                for reason in reasons(column.program, text):
                    found.setdefault((column, reason), {}).setdefault(writer, set()).add(name)
    lines = ["| program | file | reason | ours | that of `tosa-opt` |", "|---|---|---|---|---|"]
    for (column, reason), writers in found.items():
        counts = [len(writers.get(writer, ())) for writer in (OURS, THEIRS)]
        shown = reason.replace("|", "\\|").replace("`", "'")
        lines.append(
            f"| {SHOWN[column.program]} | `.{column.form}` | `{shown}` | {counts[0]} | {counts[1]} |"
        )
    return "\n".join(lines) + "\n"


def release_table() -> str:
    """Return the releases that were run."""
    lines = ["| package | release |", "|---|---|"]
    for release in measured()["releases"].values():
        package, _, version = release.partition(" ")
        lines.append(f"| {package} | {version} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "consumer-counts": count_table,
    "consumers": network_table,
    "refusals": reason_table,
    "consumer-releases": release_table,
}


def reader_table() -> str:
    """Return what each program did with the files of compare_doctor.py, and what doctor says."""
    found = json.loads(READERS.read_text(encoding="utf-8"))
    lines = [
        "| `--for` | release | files | reads | refuses | crashes | `doctor` agrees | only `doctor` says "
        "yes | only `doctor` says no |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for index, (reader, release) in enumerate(found["releases"].items()):
        pairs = [(did[index], said[index]) for _, did, said in found["files"].values()]
        asked = [(did, said) for did, said in pairs if did != "-"]
        options = reader_named(reader).options
        counts = [len(asked), *(sum(did == letter for did, _ in asked) for letter in "ync")]
        agree = sum((did == "y") == (said == "y") for did, said in asked)
        wrong = [sum(did != "y" and said == "y" for did, said in asked)]
        wrong.append(sum(did == "y" and said != "y" for did, said in asked))
        shown = f"{release} `{options}`" if options else release
        cells = " | ".join(map(str, (*counts, agree, *wrong)))
        lines.append(f"| `{reader}` | {shown} | {cells} |")
    return "\n".join(lines) + "\n"


#: Those of docs/doctor.md.
READER_TABLES: dict[str, Callable[[], str]] = {"readers": reader_table}
