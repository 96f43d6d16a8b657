"""Operators that compute shapes of values for which TOSA does not define the result.

TOSA's shapes have no negative sizes; MLIR calls the quotient of one undefined, and programs differ in
what they compute.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.errors import Finding
from tosa_convert.graph.model import Graph
from tosa_convert.graph.verify import verify
from tosa_convert.rules.families.core import Violation, listing
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.validate import Validator
from tosa_convert.rules.verdict import Verdict, judge

_DIVISIONS: Final = frozenset({"DIV_CEIL_SHAPE", "DIV_FLOOR_SHAPE", "MOD_SHAPE"})
_LOGARITHMS: Final = frozenset({"LOG2_CEIL_SHAPE", "LOG2_FLOOR_SHAPE"})
_RULE: Final = "undefined"


def undefined_shapes(graph: Graph) -> list[Finding]:
    """Return a finding for each division of a negative value, in a program that `verify` accepts."""
    if not _has(graph, _DIVISIONS):
        return []
    found = Validator(graph, _judge).findings()
    return [row for row in found if row.rule.endswith(f"-{_RULE}")]


def endless_logarithms(graph: Graph) -> list[Finding]:
    """Return why a logarithm of a sound program has no value: runtimes may search for it without end."""
    if not _has(graph, _LOGARITHMS) or verify(graph):
        return []
    rules = {f"{name.lower().replace('_', '-')}-value" for name in _LOGARITHMS}
    found = [row for row in Validator(graph).findings() if row.rule in rules]
    return found or undefined_shapes(graph)


def _has(graph: Graph, names: frozenset[str]) -> bool:
    return any(op.spec.name in names for _, block in graph.blocks() for op in block.operators)


def _judge(view: OperatorView) -> Verdict:
    verdict = judge(view)
    if view.spec.name not in _DIVISIONS or verdict.violations:
        return verdict
    sizes = (*view.sizes("input1"), *view.sizes("input2"))
    if not any(size is not None and size < 0 for size in sizes):
        return verdict
    message = f"TOSA does not define it for negative values: {listing(view)}"
    return Verdict((Violation(_RULE, message, "values of 0 or more"),), verdict.results)
