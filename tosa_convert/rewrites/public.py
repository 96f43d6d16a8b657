"""The public function of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from tosa_convert.errors import refuse_unknown
from tosa_convert.graph.model import Graph, require_graphs
from tosa_convert.rewrites.operator_pass import OperatorPass, OperatorRewrite
from tosa_convert.rewrites.report import Recorder, Report
from tosa_convert.rewrites.table import GROUPS, REWRITES, GraphRewrite, Rewrite


class Rewritten(NamedTuple):
    """A rewritten graph, and what was changed."""

    graph: Graph
    report: Report


def apply(graph: Graph, *names: str) -> Rewritten:
    """Return the graph with repairs and clean-up, and a report of every change.

    The names, types and order of inputs and outputs, the variables, and the locations of operators
    survive. A rewritten graph that is rewritten again does not change.

    Args:
        graph: A program that `verify` finds sound. It does not change; the result shares operators,
            tensors and constants with it.
        names: Names of rewrites, or of groups of them: "repair" and "clean-up". By default all
            rewrites. They run in the order of `REWRITES`, whatever their order here.

    Returns:
        The rewritten graph, which is the same object if nothing was changed, and the changes, counted
        and grouped.

    Raises:
        TosaConvertError: "option-conflict" for a rewrite that does not exist.

    Example:
        >>> import tosa_convert as tc
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> x = b.input("x", "fp32", (2, 3))
        >>> b.output(b.pow(x, 2.0), name="y")
        >>> graph, report = tc.rewrites.apply(b.graph(), "repair")
        >>> print(report.changes[0].what)
        POW by 2 became x * x
        >>> print(graph.main.operators[-1])
        Operator(y = MUL(x, x, mul_shift))
    """
    require_graphs(graph)
    chosen = _chosen(names)
    recorder = Recorder(tuple(row.name for row in REWRITES))
    passes = _passes(chosen, recorder)
    before = None
    # Removing one operator can show another rewrite what to do.
    while graph is not before:
        before = graph
        for run in passes:
            graph = run(graph)
    return Rewritten(graph, recorder.report())


def names_of(*names: str) -> tuple[str, ...]:
    """Return the names of the rewrites that `apply` runs when given these names, in their order.

    Raises:
        TosaConvertError: "option-conflict" for a rewrite that does not exist.

    Example:
        >>> names_of("unused-operators", "pow-by-constant")
        ('pow-by-constant', 'unused-operators')
    """
    return tuple(row.name for row in _chosen(names))


def _chosen(names: Sequence[str]) -> list[Rewrite]:
    known = (*(row.name for row in REWRITES), *GROUPS)
    for name in names:
        refuse_unknown("rewrite", name, known)
    return [row for row in REWRITES if not names or row.name in names or row.group in names]


def _passes(rows: Sequence[Rewrite], recorder: Recorder) -> list[Callable[[Graph], Graph]]:
    """Return what runs one after the other. Neighbouring rewrites of single operators run together."""
    passes: list[Callable[[Graph], Graph]] = []
    for is_of_operators, group in groupby(rows, lambda row: isinstance(row, OperatorRewrite)):
        if is_of_operators:
            rules = [row for row in group if isinstance(row, OperatorRewrite)]
            passes.append(OperatorPass(rules, recorder).rewritten)
        else:
            passes += [_recording(row, recorder) for row in group if isinstance(row, GraphRewrite)]
    return passes


def _recording(row: GraphRewrite, recorder: Recorder) -> Callable[[Graph], Graph]:
    return lambda graph: row.function(graph, recorder)
