"""What `show` prints of a file: for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.cli.text_columns import (
    STATISTICS_HEADER,
    STATISTICS_NUMBERS,
    aligned,
    one_line,
    size_text,
    statistics_cells,
)
from tosa_convert.errors import Finding, grouped, printable
from tosa_convert.formats.read import Storage
from tosa_convert.graph.model import UNLOCATED, SoftwareVersion, Target, Version, counted
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, WEIGHT_FILES, Format
from tosa_convert.rules.costs import Amount
from tosa_convert.version import STAMP
from tosa_convert.views.inspection.listing import (
    OperatorRow,
    TensorRow,
    Wanted,
    constant_rows,
    operator_rows,
    operator_rows_of,
    tensor_rows,
)
from tosa_convert.views.inspection.summary import (
    OperatorSummary,
    RegionSummary,
    Summary,
    TypeSummary,
    ValueSummary,
)
from tosa_convert.views.inspection.value_statistics import Statistics

if TYPE_CHECKING:
    from tosa_convert.frontends.header import ModelValue
    from tosa_convert.frontends.model_summary import ModelSummary
    from tosa_convert.graph.model import Graph


# -- what `show` found of a file -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """A program and what is in it.

    size: the bytes of its file, without weights that are beside it.
    function: its name, in a file that has several programs.
    """

    name: str
    format: Format
    size: int
    storage: tuple[Storage, ...]
    summary: Summary
    function: str = ""


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A model of a framework and what its file says."""

    name: str
    summary: ModelSummary


#: Most rows of each list on the screen of a program.
_MOST_ROWS: Final = 12
#: Most lines of findings on the screen.
_MOST_FINDINGS: Final = 8
#: Most levels by which regions are indented.
_MOST_DEPTH: Final = 16
_PLACES: Final = {
    "embedded": "in the file",
    "offset": "after the flatbuffer",
    **{form: f"{row.where} beside it" for form, row in WEIGHT_FILES.items()},
}

# -- the screen ------------------------------------------------------------------------------------


def screen(shown: Shown) -> Iterator[str]:
    summary = shown.summary
    yield f"{printable(shown.name)}: {FORMATS[shown.format]}, {size_text(shown.size)}"
    sections: list[tuple[str, Sequence[str]]] = [("version", [f"TOSA {summary.version}"])]
    if shown.format not in MLIR_FORMATS:
        sections.append(("producer", [str(summary.producer or "not in the file")]))
    if summary.target is not None:
        sections.append(("target", [str(summary.target)]))
    sections += [
        ("needs", [_needs(summary)]),
        ("inputs", _values(summary.inputs)),
        ("outputs", _values(summary.outputs)),
    ]
    if summary.variables:
        sections.append(("variables", _values(summary.variables)))
    if len(summary.regions) > 1:
        sections.append(("regions", _regions(summary.regions)))
    sections += [
        ("operators", list(_operators(summary))),
        ("types", list(_types(summary))),
        ("constants", list(_constants(shown))),
        ("work", list(_work(summary))),
        ("memory", [_peak(summary.peak_activations)]),
        ("findings", list(_findings(summary))),
    ]
    yield from _sections(sections)


def _sections(sections: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    for title, lines in sections:
        for index, line in enumerate(lines or ["none"]):
            yield f"  {title if index == 0 else '':<12}{line}"


def programs_screen(programs: Sequence[Shown], others: Sequence[str]) -> Iterator[str]:
    """Iterate over the lines of one screen on a file that has several programs, and what else."""
    first = programs[0]
    yield f"{printable(first.name)}: {FORMATS[first.format]}, {size_text(first.size)}"
    rows = [
        (
            one_line(row.function),
            counted(row.summary.operator_count, "operator"),
            f"{_signature(row.summary.inputs)} -> {_signature(row.summary.outputs)}",
        )
        for row in programs
    ]
    title = f"{counted(len(programs), 'program')}; choose one with --func"
    sections = [("programs", [title, *aligned(rows, right=[1])])]
    if others:
        sections.append(("also", [one_line(text, 200) for text in others]))
    yield from _sections(sections)


def _signature(values: Sequence[ValueSummary]) -> str:
    hidden = _hidden(len(values), "value")
    return ", ".join([*map(_value, values[:_MOST_ROWS]), *hidden])


def model_screen(shown: ShownModel) -> Iterator[str]:
    from tosa_convert.frontends.model_summary import KINDS

    summary = shown.summary
    yield f"{printable(shown.name)}: {KINDS[summary.frontend]}, {size_text(summary.size)}"
    kinds = summary.operators
    operators = [f"{sum(kinds.values()):,} of {counted(len(kinds), 'kind')}"] if kinds else []
    sections = [
        ("inputs", _values(summary.inputs)),
        ("outputs", _values(summary.outputs)),
        ("operators", [*operators, *_counts(kinds)]),
    ]
    sections.append(("not lowered", list(_counts(summary.not_lowered)) or ["none known"]))
    yield from _sections(sections)


def _counts(kinds: Mapping[str, int]) -> Iterator[str]:
    rows = [(one_line(name), f"{count:,}") for name, count in kinds.items()]
    yield from aligned(rows[:_MOST_ROWS], right=[1])
    if rest := rows[_MOST_ROWS:]:
        yield "also " + ", ".join(map(" ".join, rest))


def _needs(summary: Summary) -> str:
    needs = summary.needs
    if needs is None:
        return "no target: TOSA forbids the program" if summary.findings else "no target has it"
    level = f"level {needs.level}" if needs.level else "no level"
    return ", ".join((f"TOSA {needs.version}", *needs.profiles, *needs.extensions, level))


def _values(values: Sequence[ValueSummary | ModelValue]) -> list[str]:
    rows = [(one_line(value.name), str(value)) for value in values[:_MOST_ROWS]]
    return [*aligned(rows), *_hidden(len(values), "value")]


def _regions(regions: Sequence[RegionSummary]) -> list[str]:
    rows = [
        (
            one_line(row.name),
            counted(row.operators, "operator"),
            f"{row.work} MACs" if row.work.value or not row.work.exact else "",
        )
        for row in regions[:_MOST_ROWS]
    ]
    return [*aligned(rows, right=[1, 2]), *_hidden(len(regions), "region")]


def _hidden(total: int, noun: str) -> list[str]:
    hidden = total - _MOST_ROWS
    return [f"... {counted(hidden, f'more {noun}')}"] if hidden > 0 else []


def _operators(summary: Summary) -> Iterator[str]:
    if not summary.operators:
        return
    kinds = summary.operators
    regions = f", in {len(summary.regions)} regions" if len(summary.regions) > 1 else ""
    yield f"{summary.operator_count:,} of {counted(len(kinds), 'kind')}{regions}"
    rows = [
        (row.name, f"{row.count:,}", "" if row.work is None else f"{row.work} MACs")
        for row in kinds[:_MOST_ROWS]
    ]
    yield from aligned(rows, right=[1, 2])
    rest = kinds[_MOST_ROWS:]
    if rest:
        yield "also " + ", ".join(f"{row.name} {row.count:,}" for row in rest)


def _types(summary: Summary) -> Iterator[str]:
    rows = []
    for row in summary.types:
        constants = f"{counted(row.constants, 'constant')}, {size_text(row.constant_bytes)}"
        rows.append((row.name, counted(row.tensors, "tensor"), constants if row.constants else ""))
    yield from aligned(rows, right=[1])


def _constants(shown: Shown) -> Iterator[str]:
    summary = shown.summary
    if summary.constants:
        yield f"{summary.constants:,}, {size_text(summary.constant_bytes)}" + (
            f", {_PLACES[shown.storage[0].form]}" if len(shown.storage) == 1 else ""
        )
    if len(shown.storage) > 1:
        for row in shown.storage:
            yield f"{row.constants:,}, {size_text(row.nbytes)}, {_PLACES[row.form]}"
    if summary.without_data:
        yield f"{summary.without_data:,} without data"


def _work(summary: Summary) -> Iterator[str]:
    once = ", each region counted once" if len(summary.regions) > 1 else ""
    sizes = "" if summary.work.exact else "; some sizes are unknown"
    yield f"{summary.work} multiply-accumulates (MACs){once}{sizes}"
    for name, why in summary.not_counted:
        yield f"not counted: {name}, {why}"


def _peak(peak: Amount) -> str:
    text = f"{'' if peak.exact else 'at least '}{size_text(peak.value)}"
    return f"{text} of activations in use at a time"


def _findings(summary: Summary) -> Iterator[str]:
    lines = list(grouped(summary.findings))
    yield from (one_line(line, 400) for line in lines[:_MOST_FINDINGS])
    if len(lines) > _MOST_FINDINGS:
        total = counted(len(summary.findings), "finding")
        yield f"... {total} in all: tosa-flatbuffer validate lists them"


# -- several files ---------------------------------------------------------------------------------


def table(files: Sequence[Shown | ShownModel]) -> Iterator[str]:
    header = ("file", "format", "size", "TOSA", "operators", "constants", "MACs", "findings")
    rows = [header]
    for shown in files:
        if isinstance(shown, ShownModel):
            model = shown.summary
            size, operators = size_text(model.size), f"{sum(model.operators.values()):,}"
            rows.append(
                (printable(shown.name), model.frontend, size, "-", operators, "-", "-", "-")
            )
            continue
        summary = shown.summary
        rows.append(
            (
                printable(shown.name),
                shown.format,
                size_text(shown.size),
                str(summary.version),
                f"{summary.operator_count:,}",
                size_text(summary.constant_bytes) if summary.constants else "-",
                str(summary.work) if summary.work.value else "-",
                f"{len(summary.findings):,}" if summary.findings else "-",
            )
        )
    yield from aligned(rows, right=[2, 4, 5, 6, 7])


# -- listings --------------------------------------------------------------------------------------


def operator_lines(graph: Graph, wanted: Wanted) -> Iterator[str]:
    """Iterate over a line for each operator; those of a region are indented below what runs it."""
    left = {number: number for number in range(len(graph.regions))}
    numbers = {region.name: index for index, region in reversed(list(enumerate(graph.regions)))}

    def lines(number: int, depth: int) -> Iterator[str | tuple[int, int]]:
        """Iterate over the lines of a region; in between, the index and depth of each region it runs."""
        region = graph.regions[number]
        margin = "  " * min(depth, _MOST_DEPTH)
        for block in region.blocks:
            titled = False
            for row in operator_rows_of(region, block):
                if wanted(row.texts()):
                    if not titled:
                        yield f"{margin}region {one_line(region.name)}"
                        titled = True
                    yield f"{margin}  {_operator_line(row)}"
                for inner in row.regions:
                    if inner in numbers:
                        yield numbers[inner], depth + 2

    # A stack and no recursion: the regions of a damaged program can be nested very deep.
    while left:
        opened = [lines(left.pop(next(iter(left))), 0)]
        while opened:
            line = next(opened[-1], None)
            if line is None:
                opened.pop()
            elif isinstance(line, str):
                yield line
            elif line[0] in left:
                opened.append(lines(left.pop(line[0]), line[1]))


def _operator_line(row: OperatorRow) -> str:
    inputs = ", ".join(map(_value, row.inputs))
    outputs = ", ".join(map(_value, row.outputs))
    attributes = ", ".join(f"{one_line(name)} = {value}" for name, value in row.attributes)
    parts = [f"#{row.index:<4} {row.name}", f"({inputs})"]
    parts += [f"-> {outputs}"] if outputs else []
    parts += [f"{{{attributes}}}"] if attributes else []
    parts += [f"{row.work} MACs"] if row.work is not None else []
    if row.location not in UNLOCATED:
        parts.append(one_line(row.location, 160))
    return " ".join(parts)


def _value(value: ValueSummary) -> str:
    return f"{one_line(value.name)}: {value}"


def tensor_lines(graph: Graph, wanted: Wanted) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("tensor", "type", "bytes", "kind", "computed by", "read by")]
    several = len(graph.regions) > 1
    for row in tensor_rows(graph, wanted):
        rows.append(
            (
                _name_of(row, row.value, several),
                str(row.value),
                "" if row.size is None else str(row.size),
                row.kind,
                f"#{row.producer_index} {row.producer}" if row.producer else "",
                _users(row.users),
            )
        )
    yield from aligned(rows, right=[2])


def _users(users: Sequence[str]) -> str:
    """Return how many readers there are, and which operators they are."""
    if not users:
        return "nothing"
    names = list(dict.fromkeys(users))
    more = f", ... {len(names) - 3} more" if len(names) > 3 else ""
    return f"{len(users):,}: {', '.join(names[:3])}{more}"


def _name_of(row: TensorRow, value: ValueSummary, several: bool) -> str:
    name = one_line(value.name)
    return f"{one_line(row.region)}/{name}" if several else name


def constant_lines(graph: Graph, wanted: Wanted) -> Iterator[str]:
    several = len(graph.regions) > 1
    rows: list[tuple[str, ...]] = [("constant", "type", "bytes", *STATISTICS_HEADER)]
    for row in constant_rows(graph, wanted):
        name = _name_of(row.tensor, row.value, several)
        cells = statistics_cells(row.statistics)
        rows.append((name, str(row.value), f"{row.nbytes:,}", *cells))
    yield from aligned(rows, right=[2, *(3 + index for index in STATISTICS_NUMBERS)])


# -- what `show --json` prints: the same rows, with stable names (docs/show.md) --------------------

#: Increases when a member gets another name or meaning; new members do not increase it.
SCHEMA: int = 1
#: What is an object -> its members, and the attributes that they are where the names differ.
_MEMBERS: Final[Mapping[type, str]] = {
    Amount: "value exact",
    Finding: "code rule where message hint",
    OperatorRow: "region block index name inputs outputs attributes=values regions location macs=work",
    OperatorSummary: "name count macs=work",
    RegionSummary: "name inputs outputs operator_count=operators macs=work "
    "peak_activation_bytes=peak_activations",
    Statistics: "count least greatest mean zeros nans infinities values histogram",
    Summary: "version producer target needs inputs outputs variables regions operator_count "
    "operator_kinds=operators element_types=types constants constant_bytes "
    "constants_without_data=without_data macs=work macs_not_counted=not_counted "
    "peak_activation_bytes=peak_activations findings",
    TypeSummary: "name tensors constants constant_bytes",
}


def document(files: Sequence[dict[str, Any]]) -> str:
    import json  # the screen is printed without it

    content = {**STAMP, "schema": SCHEMA, "files": list(files)}
    return json.dumps(as_json(content), indent=1, allow_nan=False) + "\n"


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: NaN and infinities become texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, ValueSummary):
        row = {"name": value.name, "type": value.type, "shape": as_json(value.shape)}
        # Most values have neither.
        row |= {"block": value.block} if value.block else {}
        return row | ({} if value.sizes is None else {"sizes": list(value.sizes)})
    if members := _MEMBERS.get(type(value)):
        pairs = (member.partition("=")[::2] for member in members.split())
        return {name: as_json(getattr(value, other or name)) for name, other in pairs}
    if isinstance(value, (Version, SoftwareVersion, Target)):
        return str(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    return list(map(as_json, value)) if isinstance(value, (list, tuple)) else value


def unreadable(name: str, findings: Sequence[Finding]) -> dict[str, Any]:
    return {"file": name, "readable": False, "findings": as_json(findings)}


def model_row(shown: ShownModel) -> dict[str, Any]:
    summary = shown.summary
    return {
        "file": shown.name,
        "readable": True,
        "format": summary.frontend,
        "bytes": summary.size,
        "inputs": list(map(_model_value, summary.inputs)),
        "outputs": list(map(_model_value, summary.outputs)),
        "operator_count": sum(summary.operators.values()),
        "operator_kinds": _kinds(summary.operators),
        "not_lowered": _kinds(summary.not_lowered),
    }


def _kinds(kinds: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in kinds.items()]


def _model_value(value: ModelValue) -> dict[str, Any]:
    row: dict[str, Any] = {"name": value.name, "type": value.dtype, "shape": as_json(value.shape)}
    if value.scale is not None:
        row |= {"scale": value.scale, "zero_point": value.zero_point}
    return row


def file_row(shown: Shown) -> dict[str, Any]:
    content = as_json(shown.summary)
    findings = content.pop("findings")
    content["macs_not_counted"] = dict(content["macs_not_counted"])
    return {
        "file": shown.name,
        "readable": True,
        "format": shown.format,
        **({"function": shown.function} if shown.function else {}),
        "bytes": shown.size,
        **content,
        "storage": as_json(shown.storage),
        "findings": findings,
    }


def operators(graph: Graph, wanted: Wanted) -> Iterator[dict[str, Any]]:
    for row in operator_rows(graph, wanted):
        yield {**as_json(row), "attributes": as_json(dict(row.values))}


def tensors(graph: Graph, wanted: Wanted) -> Iterator[dict[str, Any]]:
    for row in tensor_rows(graph, wanted):
        yield {
            "region": row.region,
            "block": row.block,
            **as_json(row.value),
            "kind": row.kind,
            "bytes": as_json(row.size),
            "producer": row.producer or None,
            "producer_index": None if row.producer_index < 0 else row.producer_index,
            "users": list(row.users),
        }


def constants(graph: Graph, wanted: Wanted) -> Iterator[dict[str, Any]]:
    for row in constant_rows(graph, wanted):
        yield {
            "region": row.tensor.region,
            "block": row.tensor.block,
            **as_json(row.value),
            "bytes": row.nbytes,
            **statistics_row(row.statistics),
        }


def statistics_row(found: Statistics) -> dict[str, Any]:
    values = [{"value": as_json(value), "count": count} for value, count in found.values]
    return {**as_json(found), "values": values}
