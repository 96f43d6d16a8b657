"""The public function of this package."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.errors import TosaConvertError, refuse_unknown
from tosa_convert.extensions import broken, failed, find_extension, is_extension
from tosa_convert.graph.model import Graph, Operator, require_graphs
from tosa_convert.graph.opset import operator
from tosa_convert.graph.verify import verify
from tosa_convert.io.garbage_collection import garbage_collection_paused
from tosa_convert.rewrites.operator_pass import OperatorPass, OperatorRewrite, Recorder, Report
from tosa_convert.rewrites.table import GROUPS, READER, REWRITES, GraphRewrite, Rewrite

# -- rewrites of other packages --------------------------------------------------------------------

#: The group that lists of rewrites show.
GROUP: Final = "added"
#: Times in a row that it may replace what makes one value.
_MOST: Final = 100


def extension_rewrite(name: str) -> OperatorRewrite:
    """Return the rewrite of an extension, whose module is imported."""
    extension = find_extension("rewrites", name)
    try:
        module = importlib.import_module(extension.module)
        operators = tuple(operator(one) for one in module.OPERATORS)
    except (Exception, SystemExit) as error:
        raise failed(extension, f"{extension.module} was not loaded", error) from error

    last: tuple[str, ...] = ()
    times = 0

    def rewrite(op: Operator, edit: BlockEditor) -> str | None:
        nonlocal last, times
        try:
            what: str | None = module.rewrite(op, edit)
        except TosaConvertError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(extension, f"it failed on {op}", error) from error
        if what is not None:
            times = times + 1 if op.outputs == last else 1
            last = op.outputs
            if times > _MOST:
                raise broken(name, f"it replaced {op} {_MOST} times, and still does")
        return what

    reason = str(getattr(module, "REASON", f"a rewrite of {extension.module}"))
    return OperatorRewrite(name, GROUP, reason, rewrite, operators)


#: Rounds in which a rewrite of another package has to come to its end.
_ROUNDS: Final = 100


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
        names: Names of rewrites, or of groups of them: "repair", "clean-up", "rounding" and "reader". By
            default all of this package but those of "reader"; `extension:NAME` is a rewrite of another
            package. They run in the order of `REWRITES`, whatever their order here, and those of other
            packages after them.

    Returns:
        The rewritten graph, which is the same object if nothing was changed, and the changes, counted
        and grouped.

    Raises:
        TosaConvertError: "option-conflict" for a rewrite that does not exist, and for one of another
            package that fails, or whose result is not sound.

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
    chosen = rows_of(names)
    added = [row.name for row in chosen if is_extension(row.name)]
    recorder = Recorder((*(row.name for row in REWRITES), *added))
    passes = _passes(chosen, recorder)
    before = None
    #: By pass, the graph in which it last found nothing to change.
    settled: list[Graph | None] = [None] * len(passes)
    # Removing one operator can show another rewrite what to do.
    rounds = 0
    with garbage_collection_paused():
        while graph is not before:
            before = graph
            for number, run in enumerate(passes):
                if settled[number] is not graph:
                    given, graph = graph, run(graph)
                    settled[number] = graph if graph is given else None
            rounds += 1
            if added and rounds == _ROUNDS:
                raise broken(added[0], f"the program still changes after {_ROUNDS} rounds")
    if added and (findings := verify(graph)):
        message = f"the rewritten program is not sound: {findings[0]}"
        raise broken(", ".join(added), message)
    return Rewritten(graph, recorder.report())


def names_of(*names: str) -> tuple[str, ...]:
    """Return the names of the rewrites that `apply` runs when given these names, in their order.

    Raises:
        TosaConvertError: "option-conflict" for a rewrite that does not exist.

    Example:
        >>> names_of("unused-operators", "pow-by-constant")
        ('pow-by-constant', 'unused-operators')
    """
    return tuple(row.name for row in rows_of(names))


def rows_of(names: Sequence[str]) -> list[Rewrite]:
    """Return the rewrites of these names in the order in which they run, extensions last."""
    known = (*(row.name for row in REWRITES), *GROUPS)
    for name in names:
        if not isinstance(name, str) or not is_extension(name):
            refuse_unknown("rewrite", name, known)
    own = [name for name in names if not is_extension(name)]
    rows = [
        row
        for row in REWRITES
        if (row.name in own or row.group in own if names else row.group != READER)
    ]
    return rows + [extension_rewrite(name) for name in dict.fromkeys(names) if is_extension(name)]


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
