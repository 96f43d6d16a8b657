"""Golden answers: run programs on a reference, and compare what others compute with it.

The public functions are `run`, `check`, `bisect`, `power`, `reduce`, `generate` and `compare`. They
read and write programs through `tosa_convert.load` and `tosa_convert.save`. The reference is TOSA's
reference model, which runs in a child process and is installed by the extra `refmodel`, or our engine in
numpy (`engine="numpy"`), which takes its place where it is not installed.

Importing this package is cheap: the modules are imported when a function is first used.

Example:
    >>> from tosa_convert import golden
    >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
    >>> answer = golden.run(graph, random=1)
    >>> golden.check(graph, answer.outputs, random=1).ok
    True
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tosa_convert.golden.accuracy.comparison import Comparison, TensorComparison, compare
    from tosa_convert.golden.accuracy.criteria import Tolerances
    from tosa_convert.golden.backends.runners import Backend, Record, Runner, open_backend
    from tosa_convert.golden.checking.check import check
    from tosa_convert.golden.edges.coverage import EdgeCoverage, OperatorEdges, edge_coverage
    from tosa_convert.golden.edges.edge_inputs import edge_inputs
    from tosa_convert.golden.models.assert_close import Bound, assert_close, tolerance
    from tosa_convert.golden.running.programs import input_arrays
    from tosa_convert.golden.running.run import Intermediate, iterate_tensors, run, steps
    from tosa_convert.golden.running.run_graph import Result
    from tosa_convert.golden.running.run_options import RunOptions
    from tosa_convert.qualify.bisection.bisect import bisect
    from tosa_convert.qualify.bisection.judge_operators import (
        Bisection,
        Case,
        Divergence,
        save_case,
    )
    from tosa_convert.qualify.chain.chain import Chain, chain
    from tosa_convert.qualify.detection.power import (
        ChangePower,
        Power,
        TensorPower,
        Threshold,
        power,
    )
    from tosa_convert.qualify.random_graphs.generate import generate
    from tosa_convert.qualify.reduction.reduce import Failure, Reduction, reduce
    from tosa_convert.reference.call import Step

__all__ = [
    "Backend",
    "Bisection",
    "Bound",
    "Case",
    "Chain",
    "ChangePower",
    "Comparison",
    "Divergence",
    "EdgeCoverage",
    "Failure",
    "Intermediate",
    "OperatorEdges",
    "Power",
    "Record",
    "Reduction",
    "Result",
    "RunOptions",
    "Runner",
    "Step",
    "TensorComparison",
    "TensorPower",
    "Threshold",
    "Tolerances",
    "assert_close",
    "bisect",
    "chain",
    "check",
    "compare",
    "edge_coverage",
    "edge_inputs",
    "generate",
    "input_arrays",
    "iterate_tensors",
    "open_backend",
    "power",
    "reduce",
    "run",
    "save_case",
    "steps",
    "tolerance",
]

#: Module -> the public names that it defines. Those of `qualify` are imported from above this package.
_PUBLIC = {
    "tosa_convert.golden.accuracy.comparison": "Comparison TensorComparison compare",
    "tosa_convert.golden.accuracy.criteria": "Tolerances",
    "tosa_convert.golden.backends.runners": "Backend Record Runner open_backend",
    "tosa_convert.golden.checking.check": "check",
    "tosa_convert.golden.edges.coverage": "EdgeCoverage OperatorEdges edge_coverage",
    "tosa_convert.golden.edges.edge_inputs": "edge_inputs",
    "tosa_convert.golden.models.assert_close": "Bound assert_close tolerance",
    "tosa_convert.golden.running.programs": "input_arrays",
    "tosa_convert.golden.running.run": "Intermediate iterate_tensors run steps",
    "tosa_convert.golden.running.run_graph": "Result",
    "tosa_convert.golden.running.run_options": "RunOptions",
    "tosa_convert.qualify.bisection.bisect": "bisect",
    "tosa_convert.qualify.bisection.judge_operators": "Bisection Case Divergence save_case",
    "tosa_convert.qualify.chain.chain": "Chain chain",
    "tosa_convert.qualify.detection.power": "ChangePower Power TensorPower Threshold power",
    "tosa_convert.qualify.random_graphs.generate": "generate",
    "tosa_convert.qualify.reduction.reduce": "Failure Reduction reduce",
    "tosa_convert.reference.call": "Step",
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
