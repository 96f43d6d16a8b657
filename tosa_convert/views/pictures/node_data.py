"""Node data for Model Explorer: values and colours that it lays over its own picture of the program.

The format is that of `node_data_builder.py` of ai-edge-model-explorer. A file whose top level is the
data of one graph is laid over the graph on screen, so that no identifier of the graph is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tosa_convert.rules.amounts import multiply_accumulates

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph
    from tosa_convert.views.pictures.diagram import Diagram
    from tosa_convert.views.pictures.errors_overlay import Overlay

_GREEN, _YELLOW, _RED = "#c8e6c9", "#fff59d", "#ef9a9a"
#: Up to this share of what is allowed the colour is the first one, and so on.
_THRESHOLDS: Final = ((0.1, _GREEN), (1.0, _YELLOW), (1e9, _RED))


def error_node_data(diagram: Diagram, overlay: Overlay) -> dict[str, Any]:
    """Return the errors of an overlay: shares of what is allowed, by the names of tensors."""
    results: dict[str, Any] = {}
    for row in overlay.rows:
        for _, value in diagram.nodes[row.node].outputs:
            results[diagram.values[value].name] = {"value": row.size}
    rows = [{"value": value, "bgColor": color} for value, color in _THRESHOLDS]
    name = "power" if overlay.source == "power" else f"error ({overlay.source})"
    return {"name": name, "results": results, "thresholds": rows}


def work_node_data(graph: Graph) -> dict[str, Any]:
    """Return the multiply-accumulates of each operator that has any, by the names of its results."""
    results: dict[str, Any] = {}
    for _, block in graph.blocks():
        for operator in block.operators:
            work = multiply_accumulates(operator, block)
            if work is not None:
                for name in operator.outputs:
                    results[name] = {"value": work.value}
    gradient = [{"stop": 0, "bgColor": _GREEN}, {"stop": 1, "bgColor": _RED}]
    return {"name": "multiply-accumulates", "results": results, "gradient": gradient}
