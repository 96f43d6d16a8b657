"""What `show --json` prints. docs/show.md describes the members; names and meanings are stable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tosa_convert.errors import Finding
from tosa_convert.rules.amounts import Amount
from tosa_convert.version import __version__
from tosa_convert.views.inspection.listing import (
    ConstantRow,
    OperatorRow,
    TensorRow,
    Wanted,
    constant_rows,
    operator_rows,
    tensor_rows,
)

if TYPE_CHECKING:
    from tosa_convert.cli.shown import Shown, ShownModel
    from tosa_convert.frontends.model_summary import ModelValue
    from tosa_convert.graph.model import Graph
    from tosa_convert.views.inspection.statistics import Statistics
    from tosa_convert.views.inspection.summary import RegionSummary, Summary, ValueSummary

#: Increases when a member gets another name or meaning; new members do not increase it.
SCHEMA: int = 1


def document(files: Sequence[dict[str, Any]]) -> str:
    """Return the whole output."""
    import json  # the screen is printed without it

    content = {"tool": f"tosa-convert {__version__}", "schema": SCHEMA, "files": list(files)}
    return json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Return values that JSON has: NaN and infinities become texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def unreadable(name: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the object of a file that cannot be read."""
    return {"file": name, "readable": False, "findings": list(map(finding_row, findings))}


def finding_row(finding: Finding) -> dict[str, str]:
    """Return a finding, as `validate --json` has it."""
    names = ("code", "rule", "where", "message", "hint")
    return {name: getattr(finding, name) for name in names}


def model_row(shown: ShownModel) -> dict[str, Any]:
    """Return the object of a model of a framework."""
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
    shape = None if value.shape is None else list(value.shape)
    row: dict[str, Any] = {"name": value.name, "type": value.dtype, "shape": shape}
    if value.scale is not None:
        row |= {"scale": value.scale, "zero_point": value.zero_point}
    return row


def file_row(shown: Shown) -> dict[str, Any]:
    """Return the object of a file, without its listings."""
    summary = shown.summary
    return {
        "file": shown.name,
        "readable": True,
        "format": shown.format,
        **({"function": shown.function} if shown.function else {}),
        "bytes": shown.size,
        "version": str(summary.version),
        "producer": None if summary.producer is None else str(summary.producer),
        "target": None if summary.target is None else str(summary.target),
        "needs": None if summary.needs is None else summary.needs._asdict(),
        "inputs": list(map(_value, summary.inputs)),
        "outputs": list(map(_value, summary.outputs)),
        "variables": list(map(_value, summary.variables)),
        "regions": list(map(_region, summary.regions)),
        **_counts(summary),
        "storage": [row._asdict() for row in shown.storage],
        "findings": list(map(finding_row, summary.findings)),
    }


def _counts(summary: Summary) -> dict[str, Any]:
    return {
        "operator_count": summary.operator_count,
        "operator_kinds": [
            {"name": row.name, "count": row.count, "macs": _amount(row.work)}
            for row in summary.operators
        ],
        "element_types": [
            {
                "name": row.name,
                "tensors": row.tensors,
                "constants": row.constants,
                "constant_bytes": row.constant_bytes,
            }
            for row in summary.types
        ],
        "constants": summary.constants,
        "constant_bytes": summary.constant_bytes,
        "constants_without_data": summary.without_data,
        "macs": _amount(summary.work),
        "macs_not_counted": dict(summary.not_counted),
        "peak_activation_bytes": _amount(summary.peak_activations),
    }


def _amount(amount: Amount | None) -> dict[str, Any] | None:
    return None if amount is None else {"value": amount.value, "exact": amount.exact}


def _value(value: ValueSummary) -> dict[str, Any]:
    shape = None if value.shape is None else list(value.shape)
    row: dict[str, Any] = {"name": value.name, "type": value.type, "shape": shape}
    # Most values have neither.
    if value.block:
        row["block"] = value.block
    if value.sizes is not None:
        row["sizes"] = list(value.sizes)
    return row


def _region(region: RegionSummary) -> dict[str, Any]:
    return {
        "name": region.name,
        "inputs": list(map(_value, region.inputs)),
        "outputs": list(map(_value, region.outputs)),
        "operator_count": region.operators,
        "macs": _amount(region.work),
        "peak_activation_bytes": _amount(region.peak_activations),
    }


# -- listings --------------------------------------------------------------------------------------


def operators(graph: Graph, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Iterate over an object for each operator."""
    return map(_operator, operator_rows(graph, wanted))


def _operator(row: OperatorRow) -> dict[str, Any]:
    return {
        "region": row.region,
        "block": row.block,
        "index": row.index,
        "name": row.name,
        "inputs": list(map(_value, row.inputs)),
        "outputs": list(map(_value, row.outputs)),
        "attributes": dict(row.values),
        "regions": list(row.regions),
        "location": row.location,
        "macs": _amount(row.work),
    }


def tensors(graph: Graph, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Iterate over an object for each tensor and shape."""
    return map(_tensor, tensor_rows(graph, wanted))


def _tensor(row: TensorRow) -> dict[str, Any]:
    return {
        "region": row.region,
        "block": row.block,
        **_value(row.value),
        "kind": row.kind,
        "bytes": _amount(row.size),
        "producer": row.producer or None,
        "producer_index": None if row.producer_index < 0 else row.producer_index,
        "users": list(row.users),
    }


def constants(graph: Graph, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Iterate over an object for each constant."""
    return map(_constant, constant_rows(graph, wanted))


def _constant(row: ConstantRow) -> dict[str, Any]:
    return {
        "region": row.tensor.region,
        "block": row.tensor.block,
        **_value(row.value),
        "bytes": row.nbytes,
        **statistics_row(row.statistics),
    }


def statistics_row(found: Statistics) -> dict[str, Any]:
    """Return the statistics of a constant or an array."""
    return {
        "count": found.count,
        "least": found.least,
        "greatest": found.greatest,
        "mean": found.mean,
        "zeros": found.zeros,
        "nans": found.nans,
        "infinities": found.infinities,
        "values": [{"value": value, "count": count} for value, count in found.values],
        "histogram": list(found.histogram),
    }
