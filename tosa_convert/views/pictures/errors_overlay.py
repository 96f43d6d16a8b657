"""Errors along the graph: the JSON result of `check`, `bisect`, `chain` and others on the nodes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import fail
from tosa_convert.graph.model import counted
from tosa_convert.io.files import JSON_BYTES, PathLike, map_file, parse_json

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Diagram

_RESULT: Final = "a result that check, bisect, chain, suite or power wrote as JSON"
#: Statuses of a case of `suite` in which the backend gave no right result.
_WRONG: Final = ("wrong", "fail", "crashed", "error", "refused")
#: The share of the bound that stands for a wrong result that has no bound.
_NO_BOUND: Final = 1e6
#: The share of a tensor's largest number that a change may be to have the colour of what is right.
_SMALL: Final = 1e-5


@dataclass(frozen=True, slots=True)
class NodeError:
    """What a result says about a node.

    node: its number. ok: whether the result accepts it.
    size: the error as a share of what is allowed, more than 1 if it is wrong; for a result of `suite`
        the share of wrong cases; for one of `power` how large a change is seen, from 0 for one of _SMALL
        to 1 for one as large as the tensor's largest number. text: the same in words.
    inherits: it is wrong because of what is before it, and right by itself.
    """

    node: int
    ok: bool
    size: float
    text: str
    inherits: bool = False


@dataclass(slots=True)
class Overlay:
    """All that a result says. source: the verb. unmatched: names that the program does not have.

    rows: one for each node, the worst first.
    """

    source: str
    rows: list[NodeError] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


def read_result(path: PathLike) -> Any:
    """Read a file that `--json` of a verb, or `suite --json-report`, wrote."""
    return parse_json(map_file(path, limit=JSON_BYTES), os.fspath(path), _RESULT)


def overlay(diagram: Diagram, result: Any, where: str = "") -> Overlay:
    try:
        found = _rows(diagram, result)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _not_a_result(where, f"{type(error).__name__}: {error}") from None
    if found is None:
        raise _not_a_result(
            where, "none of the fields `tensors`, `runs`, `first`, `answers`, `power` and `chain`"
        )
    if not found.rows:
        names = ", ".join(found.unmatched[:4]) or "none"
        message = f"the result of {found.source} is about nothing in the program; it has {names}"
        hint = "give the result of the same program, with the same names"
        raise fail("option-conflict", where, message, hint)
    return found


def _not_a_result(where: str, reason: str) -> Exception:
    return fail("file-error", where, f"not {_RESULT} ({reason})")


def _rows(diagram: Diagram, result: Any) -> Overlay | None:
    if not isinstance(result, dict):
        return None
    if "answers" in result:
        return _of_suite(diagram, result["answers"])
    if "power" in result:
        return _of_power(diagram, result["power"])
    if "chain" in result:
        return _of_chain(diagram, result)
    if "runs" in result:
        rows = [row for run in result["runs"] for row in run["tensors"]]
        return _of_tensors(diagram, "check", rows)
    if "first" in result:
        return _of_bisect(diagram, result)
    if "tensors" in result:
        return _of_tensors(diagram, "check", result["tensors"])
    return None


def _of_tensors(diagram: Diagram, source: str, rows: Iterable[Mapping[str, Any]]) -> Overlay:
    found = Overlay(source)
    producers = _producers(diagram)
    for row in rows:
        name = str(row["name"])
        if name not in producers:
            found.unmatched.append(name)
            continue
        found.rows.append(_tensor_error(producers[name], row))
    return _worst_first(found)


def _tensor_error(node: int, row: Mapping[str, Any]) -> NodeError:
    ok = row["ok"] is True
    differing, elements = int(row["differing"]), int(row["elements"])
    margin = row.get("margin")
    if row["problem"]:
        text, size = str(row["problem"]), _NO_BOUND
    elif not differing:
        text, size = f"all {elements} elements equal", 0.0
    else:
        share = f", {float(margin):.3g} of the bound" if margin is not None else ""
        counts = f"{differing} of {elements} elements differ, {row['failing']} too much"
        text = (f"all {elements} elements within the rule" if ok else counts) + share
        size = float(margin) if margin is not None else 0.0 if ok else _NO_BOUND
    size = _finite(size)
    if row.get("low_precision") and not row["problem"]:
        text += f"; {row['low_precision']}"
    return NodeError(node, ok, min(size, 1.0) if ok else max(size, 1.001), f"{row['rule']}: {text}")


def _finite(size: float) -> float:
    return _NO_BOUND if not math.isfinite(size) else min(max(size, 0.0), _NO_BOUND)


def _of_bisect(diagram: Diagram, result: Mapping[str, Any]) -> Overlay:
    """Return the outputs, and over them the operators that are wrong by themselves."""
    outputs = result["outputs"]
    found = _of_tensors(diagram, "bisect", [] if outputs is None else outputs["tensors"])
    main = {n.number: k for k, n in enumerate(diagram.nodes) if n.path == diagram.nodes[0].path}
    producers = _producers(diagram)
    named: list[NodeError] = []
    for divergence in (result["first"], *result["others"]):
        if divergence is None:
            continue
        tensors = divergence["comparison"]["tensors"]
        worst = max((_tensor_error(0, row).size for row in tensors), default=1.001)
        computed = [producers[row["name"]] for row in tensors if row["name"] in producers]
        for row in divergence["operators"]:
            name = str(row["operator"])
            node = main.get(int(row["index"]))
            # The number is that in a region's block if the operator is in a region.
            if node is None or diagram.nodes[node].title != name.rpartition(" ")[2]:
                node = computed[0] if computed else None
            if node is None:
                found.unmatched.append(name)
            else:
                text = f"{divergence['kind']}: {name}"
                named.append(NodeError(node, False, max(worst, 1.001), text))
    by_path = {
        f"operator #{diagram.nodes[k].number} {diagram.nodes[k].title}": k for k in main.values()
    }
    for path in result.get("suspects", ()):
        if path in by_path:
            text = f"wrong in the same run, and not examined: {path}"
            named.append(NodeError(by_path[path], False, 1.001, text))
    guilty = {row.node for row in named}
    found.rows = [row for row in found.rows if row.ok or row.node not in guilty]
    if guilty:
        found.rows = [row if row.ok else _inheriting(row) for row in found.rows]
    found.rows += named
    return _worst_first(found)


def _inheriting(row: NodeError) -> NodeError:
    text = f"wrong because of what is before it; {row.text}"
    return replace(row, text=text, inherits=True)


def _of_suite(diagram: Diagram, answers: Iterable[Mapping[str, Any]]) -> Overlay:
    """Return how many cases of each operator are wrong, on all operators of that kind."""
    wrong: dict[str, list[str]] = {}
    ran: dict[str, int] = {}
    for row in answers:
        status = str(row["status"])
        # A network that passes says it of all its operators, a wrong one of those at fault.
        named = row.get("at_fault" if status in _WRONG else "covers") or [str(row["operator"])]
        for operator in {str(text).partition(" ")[0].upper() for text in named if text}:
            if status == "not-run":
                continue
            ran[operator] = ran.get(operator, 0) + 1
            if status in _WRONG:
                wrong.setdefault(operator, []).append(f"{row['case']}: {status}")
    found = Overlay("suite")
    seen = set()
    for number, node in enumerate(diagram.nodes):
        if node.kind == "operator" and node.title in ran:
            seen.add(node.title)
            bad = wrong.get(node.title, [])
            text = f"{len(bad)} of {counted(ran[node.title], 'case')} wrong"
            text += f", such as {bad[0]}" if bad else ""
            size = len(bad) / ran[node.title]
            found.rows.append(NodeError(number, not bad, 1 + 1000 * size if bad else 0.0, text))
    found.unmatched = sorted(ran.keys() - seen)
    return _worst_first(found)


def _of_power(diagram: Diagram, rows: Iterable[Mapping[str, Any]]) -> Overlay:
    """Return how large a change of an element is when `check` reports it, on each changed tensor."""
    found = Overlay("power")
    producers = _producers(diagram)
    for row in rows:
        name, seen_at = str(row["name"]), row["seen_at"]
        if name not in producers:
            found.unmatched.append(name)
            continue
        share = _NO_BOUND if seen_at is None else _finite(float(seen_at))
        size = max(0.0, 1 - math.log(max(share, _SMALL)) / math.log(_SMALL))
        text = "check never reports the median element"
        if seen_at is not None:
            text = f"check reports the median element from {share:.2g} of the largest number on"
        ratios = {verb: _ratio_text(row["worst_ratio"][verb]) for verb in ("check", "bisect")}
        text += "".join(f"; {verb}: {ratio}" for verb, ratio in ratios.items())
        found.rows.append(
            NodeError(producers[name], share <= 1, size if share <= 1 else share, text)
        )
    return _worst_first(found)


def _of_chain(diagram: Diagram, result: Mapping[str, Any]) -> Overlay:
    """Return the worst error of each tensor, and the first one of each link that is wrong."""
    found = Overlay("chain")
    producers = _producers(diagram)
    wrong = {str(link["tensor"]): link for link in result["links"] if not link["ok"]}
    for row in result["chain"]:
        name = str(row["name"])
        cells = {source: cell for source, cell in row["cells"].items() if cell is not None}
        if name not in producers or not cells:
            found.unmatched.append(name)
            continue
        text = "; ".join(
            f"{source}: {float(cell['before']):.3g} off" for source, cell in cells.items()
        )
        share = max(float(cell["share"] or 0) for cell in cells.values())
        if link := wrong.get(name):
            text = f"{link['before']} -> {link['after']}: {link['reason']}; {text}"
        size = max(_finite(share), 1.001) if link else min(_finite(share), 1.0)
        found.rows.append(NodeError(producers[name], not link, size, text))
    return _worst_first(found)


def _ratio_text(ratio: Any) -> str:
    """Return how far what a verb reports is above the noise."""
    if ratio is None:
        return "no effect"
    return "all above the noise" if ratio == 1 else f"from {float(ratio):.3g} times the noise on"


def _producers(diagram: Diagram) -> dict[str, int]:
    """Map tensors to the nodes that compute them; the outermost one of several with that name."""
    found: dict[str, int] = {}
    for value in diagram.values:
        if value.producer is not None:
            found.setdefault(value.name, value.producer)
    return found


def _worst_first(found: Overlay) -> Overlay:
    worst: dict[int, NodeError] = {}
    for row in found.rows:
        if row.node not in worst or row.size >= worst[row.node].size:
            worst[row.node] = row
    found.rows = sorted(worst.values(), key=lambda row: (row.ok, row.inherits, -row.size, row.node))
    return found
