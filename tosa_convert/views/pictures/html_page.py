"""The report: one HTML file with the viewer and its data, which needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import UNLOCATED
from tosa_convert.rules.costs import Amount, multiply_accumulates
from tosa_convert.views.inspection.value_statistics import statistics
from tosa_convert.views.pictures.colors import family_of
from tosa_convert.views.pictures.diagram import box_size, group_lines, group_size
from tosa_convert.views.pictures.placement import METRICS

if TYPE_CHECKING:
    from tosa_convert.errors import Finding
    from tosa_convert.graph.constant import Constant
    from tosa_convert.graph.model import Block, Graph
    from tosa_convert.views.inspection.summary import Summary
    from tosa_convert.views.pictures.diagram import Diagram, Node, Value
    from tosa_convert.views.pictures.errors_overlay import Overlay
    from tosa_convert.views.pictures.placement import Rows

#: Constants of at most so many elements are listed; of larger ones the report has statistics.
_LISTED: Final = 64
#: Most characters of a name or a location. A damaged file can have megabytes.
_CHARACTERS: Final = 2000

Json = dict[str, Any]


def page_data(
    title: str,
    graph: Graph,
    summary: Summary,
    diagram: Diagram,
    rows: Sequence[Rows],
    overlay: Overlay | None,
) -> Json:
    blocks = {region.name: region.blocks[0] for region in graph.regions if region.blocks}
    findings = _by_operator(summary.findings)
    return {
        "title": title,
        "metrics": METRICS,
        "facts": _facts(summary),
        "nodes": [_node(node, blocks[node.region], findings) for node in diagram.nodes],
        "values": [_value(value) for value in diagram.values],
        "groups": [_group(diagram, number, rows[number]) for number in range(len(diagram.groups))],
        "findings": [_finding(row) for row in summary.findings],
        "errors": None if overlay is None else _errors(overlay),
    }


def escaped_json(data: Json) -> str:
    """Return JSON for a script element: no character of it ends the element or a line."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(summary: Summary) -> list[tuple[str, str]]:
    facts = [
        ("TOSA version", str(summary.version)),
        ("producer", str(summary.producer or "unknown")),
        ("operators", f"{summary.operator_count:,}"),
        ("constants", f"{summary.constants:,}, {summary.constant_bytes:,} bytes"),
        ("multiply-accumulates", str(summary.work)),
        ("peak of activations", f"{summary.peak_activations} bytes"),
    ]
    if summary.needs is not None:
        names = ", ".join((*summary.needs.profiles, *summary.needs.extensions)) or "no profile"
        facts.append(("needs", f"TOSA {summary.needs.version}, {names}"))
    facts += [("input", f"{_short(row.name)}: {row}") for row in summary.inputs]
    facts += [("output", f"{_short(row.name)}: {row}") for row in summary.outputs]
    facts += [("variable", f"{_short(row.name)}: {row}") for row in summary.variables]
    return facts


def _node(node: Node, block: Block, findings: dict[str, list[int]]) -> Json:
    width, height = box_size([node.title, *node.lines])
    data: Json = {
        "kind": node.kind,
        "title": _short(node.title),
        "lines": node.lines,
        "family": node.kind if node.operator is None else family_of(node.title),
        "width": width,
        "height": height,
        "group": node.group,
        "inputs": [(slot, value) for slot, value in node.inputs],
        "outputs": [(slot, value) for slot, value in node.outputs],
    }
    if node.operator is not None:
        data["number"] = node.number
        data["attributes"] = [(name, _short(text)) for name, text in node.attributes]
        if node.operator.location not in UNLOCATED:
            data["location"] = _short(node.operator.location)
        work = multiply_accumulates(node.operator, block)
        if isinstance(work, Amount):
            data["work"] = str(work)
        if node.own_group is not None:
            data["ownGroup"] = node.own_group
        found = findings.get(f"{node.path} operator #{node.number} {node.title}")
        if found:
            data["findings"] = found
    return data


def _by_operator(findings: Sequence[Finding]) -> dict[str, list[int]]:
    """Map operators' paths to the numbers of their findings; a location can be before the path."""
    found: dict[str, list[int]] = {}
    for number, finding in enumerate(findings):
        start = finding.where.find("region ")
        if start >= 0:
            found.setdefault(finding.where[start:], []).append(number)
    return found


def _finding(finding: Finding) -> Json:
    names = ("code", "where", "message", "hint", "rule")
    return {name: getattr(finding, name) for name in names}


def _value(value: Value) -> Json:
    data: Json = {"name": _short(value.name), "type": value.type, "label": value.label}
    if value.producer is not None:
        data["producer"] = value.producer
    if value.users:
        data["users"] = value.users
    if value.data is not None:
        data["constant"] = _constant(value.data)
    if value.scales is not None:
        data["scales"] = _constant(value.scales)
    return data


def _constant(constant: Constant) -> Json:
    """Return a small constant's elements, or a large one's statistics, which is read in blocks."""
    data: Json = {"dtype": str(constant.dtype), "count": constant.count, "bytes": constant.nbytes}
    if constant.count <= _LISTED:
        data["elements"] = [_number_text(number) for number in _numbers(constant)]
        return data
    found = statistics(constant)
    data["least"], data["greatest"] = _number_text(found.least), _number_text(found.greatest)
    data["mean"] = _number_text(found.mean)
    data["zeros"], data["nans"], data["infinities"] = found.zeros, found.nans, found.infinities
    if found.histogram:
        data["histogram"] = found.histogram
    if found.values:
        data["few"] = [(_number_text(number), times) for number, times in found.values]
    return data


def _numbers(constant: Constant) -> list[Any]:
    array = constant.numpy()
    if constant.dtype.is_float or constant.dtype is _SCALE:
        array = array.astype("float64")
    numbers: list[Any] = array.astype(object if array.dtype.kind == "V" else array.dtype).tolist()
    return numbers


_SCALE: Final = dtype("FP8UE8M0")


def _number_text(number: Any) -> str:
    if isinstance(number, float):
        return f"{number:.7g}" if math.isfinite(number) else str(number)
    return "none" if number is None else str(number)


def _group(diagram: Diagram, number: int, rows: Rows) -> Json:
    group = diagram.groups[number]
    lines = group_lines(group)
    width, height = group_size(group)
    data: Json = {
        "kind": group.kind,
        "label": _short(group.label),
        "lines": lines,
        "parent": group.parent,
        "width": width,
        "height": height,
        "isOpen": group.is_open,
        # In columns, because a group can have 100,000 of them.
        "items": [place.item for place in rows.places],
        "rows": [place.row for place in rows.places],
        "x": [place.x for place in rows.places],
        "above": [place.above for place in rows.places],
        "routes": [[route.values, route.path, int(route.is_cut)] for route in rows.routes],
    }
    if group.node is not None:
        data["node"] = group.node
    return data


def _errors(overlay: Overlay) -> Json:
    rows = [
        {
            "node": row.node,
            "ok": row.ok,
            "size": row.size,
            "text": _short(row.text),
            **({"inherits": True} if row.inherits else {}),
        }
        for row in overlay.rows
    ]
    unmatched = [_short(name) for name in overlay.unmatched[:100]]
    return {"source": overlay.source, "rows": rows, "unmatched": unmatched}


def _short(text: str) -> str:
    half = _CHARACTERS // 2
    return text if len(text) <= _CHARACTERS else f"{text[:half]} ... {text[-half:]}"


#: The viewer's scripts, in their order: each uses what those before it define.
SCRIPTS: Final = ("model", "placement", "drawing", "overlay", "view", "panel", "search", "main")


def html_page(data: Json) -> str:
    """Return the report of data, whose policy allows its own script and style and nothing else."""
    script = "".join(asset(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    style = asset("viewer.css")
    replacements = {
        "{{policy}}": (
            f"default-src 'none'; script-src '{_checksum(script)}'; style-src '{_checksum(style)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        "{{title}}": escape(data["title"]),
        "{{style}}": style,
        "{{data}}": escaped_json(data),
        "{{script}}": script,
    }
    page = asset("page.html")
    parts = []
    for mark, text in replacements.items():  # in the order of the page, so that no text is searched
        before, _, page = page.partition(mark)
        parts += [before, text]
    return "".join([*parts, page])


def asset(name: str) -> str:
    return (files(__package__) / "viewer" / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
