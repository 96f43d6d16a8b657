"""Say how a program is run for a golden answer."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from tosa_convert.errors import Finding, fail, refuse_unknown
from tosa_convert.golden.running import reference_model_process
from tosa_convert.graph.derived import reachable
from tosa_convert.graph.dtypes import TOOLS_STATE
from tosa_convert.graph.model import Block, Graph, Operator, located, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.graph.versions import newer_than
from tosa_convert.io.options import refuse_time_limit
from tosa_convert.rules.costs import multiply_accumulates

# -- how long a program runs on the reference model, as an estimate, and how much of a run is done -

#: Is told how much of a run is done, and how much there is, in any unit.
Progress = Callable[[float, float], None]

#: Multiply-accumulates that the reference model computes in a second, and elements of other operators.
_MULTIPLY_ACCUMULATES: Final = 3.5e8
_ELEMENTS: Final = 2.5e7
#: Seconds between two reports of a run that is not watched operator by operator.
_INTERVAL: Final = 0.5
#: The share of the estimated time after which such a run may still take any time.
_NEARLY: Final = 0.99


def estimate_seconds(graph: Graph) -> float:
    """Return the seconds that the reference model takes; bodies of loops are counted once."""
    return sum(_seconds(graph, op) for op in graph.main.operators)


def _seconds(graph: Graph, operator: Operator) -> float:
    """Return the seconds of an operator of the main block, with the regions that it runs."""
    inner = [block for region in reachable(graph, [operator]) for block in region.blocks]
    rows = [(block, op) for block in inner for op in block.operators]
    return sum(_own_seconds(block, op) for block, op in [(graph.main, operator), *rows])


def _own_seconds(block: Block, operator: Operator) -> float:
    amount = multiply_accumulates(operator, block)
    if amount is not None:
        return amount.value / _MULTIPLY_ACCUMULATES
    if operator.spec in (CONST, CONST_SHAPE) or operator.spec.regions:
        return 0.0
    tensors = [block.tensors.get(name) for name in (*operator.inputs, *operator.outputs)]
    shapes = [tensor.shape for tensor in tensors if tensor is not None and tensor.shape is not None]
    return max((max(0, math.prod(shape)) for shape in shapes), default=0) / _ELEMENTS


class Work:
    """Report how much of the work of a run is done."""

    def __init__(self, graph: Graph, progress: Progress | None) -> None:
        self.progress = progress
        self.totals = [0.0]
        if progress is not None:
            seconds = (_seconds(graph, op) for op in graph.main.operators)
            self.totals += itertools.accumulate(seconds)

    def report(self, count: int) -> None:
        """Report that this many operators of the main block are done."""
        if self.progress is not None:
            self.progress(self.totals[count], self.totals[-1])

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Report the time that passes in the `with` block, as the estimate of what is done."""
        if self.progress is None:
            yield
            return
        start, ended, total = time.monotonic(), threading.Event(), self.totals[-1]

        def tell(report: Progress) -> None:
            while not ended.wait(_INTERVAL):
                report(min(time.monotonic() - start, _NEARLY * total), total)

        thread = threading.Thread(target=tell, args=(self.progress,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


Level = Literal["none", "8k"]
#: "auto": the reference model if it is installed, else numpy.
Engine = Literal["auto", "numpy", "reference-model"]

#: Seconds a run may take unless the caller says otherwise.
TIMEOUT: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run of the reference model.

    precise: compute floating point in FP64. bounds: also compute the tensors that TOSA's accuracy
        rules are made from (implies precise).
    level: "none" or "8k", the limits on sizes that the model checks.
    timeout: seconds for one run.
    engine: what runs the program: "reference-model", "numpy" (`tosa_convert.reference`), or "auto", the
        reference model if it is installed and has all operators, else numpy.
    progress: called during each run with the amount of work that is done, and all that there is; for the
        reference model it is an estimate by time. A program may take several runs.
    Raises TosaConvertError("option-conflict") for an unknown level or engine, and for a timeout that no
    timer has.

    Example:
        >>> from tosa_convert import golden
        >>> golden.RunOptions(precise=True, timeout=10).level
        'none'
    """

    precise: bool = False
    bounds: bool = False
    level: Level = "none"
    timeout: float = TIMEOUT
    engine: Engine = "auto"
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_unknown("level", self.level, get_args(Level))
        refuse_unknown("engine", self.engine, get_args(Engine))
        refuse_time_limit(self.timeout)

    @property
    def uses_numpy(self) -> bool:
        """Return whether programs run on numpy."""
        return chosen_engine(self.engine) == "numpy"

    def runs_on_numpy(self, graph: Graph) -> bool:
        """Return whether a program runs on numpy."""
        return chosen_engine(self.engine, graph) == "numpy"

    def with_keywords(self, **given: Any) -> RunOptions:
        """Return these options with those that were given as keywords beside them, besides defaults.

        Raises TosaConvertError("option-conflict") for an unknown value, or if both name another one.
        """
        chosen = {}
        for name, value in given.items():
            default, own = getattr(DEFAULT_RUN, name), getattr(self, name)
            if value in (default, own):
                continue
            if own != default:
                message = f"{name}={value!r}, and the options have {name}={own!r}"
                raise fail("option-conflict", name, message, "give one of them")
            chosen[name] = value
        return replace(self, **chosen) if chosen else self


def chosen_engine(engine: Engine, graph: Graph | None = None) -> Engine:
    """Return what "auto" selects here: numpy if the reference model lacks an operator of a graph."""
    if engine != "auto":
        return engine
    if graph is not None and next(lacking_findings(graph), None) is not None:
        return "numpy"
    return "reference-model" if reference_model_process.is_installed() else "numpy"


def lacking_findings(graph: Graph) -> Iterator[Finding]:
    """Report the operators of a program that the newest reference model lacks."""
    for where, block in graph.blocks():
        for index, op in enumerate(block.operators):
            lacks, state = newer_than(block, op, TOOLS_STATE)
            if lacks or op.spec.meaning:
                place = located(operator_path(where, index, op), op)
                what = f"{lacks}, which TOSA has since {state}" if lacks else op.spec.name
                message = f"the reference model has no {what}"
                yield Finding("refmodel-refused", place, message, "numpy has it: --engine numpy")


DEFAULT_RUN: Final = RunOptions()
