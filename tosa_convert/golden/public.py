"""The names that `tosa_convert.golden` offers.

No module of this package has the name of a function: importing it would replace the function.
"""

from tosa_convert.golden.accuracy.comparison import Comparison, TensorComparison, compare
from tosa_convert.golden.accuracy.criteria import Tolerances
from tosa_convert.golden.backends.runners import Backend, Record, Runner, open_backend
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.edges.coverage import EdgeCoverage, OperatorEdges, edge_coverage
from tosa_convert.golden.edges.edge_inputs import edge_inputs
from tosa_convert.golden.running.intermediates import Intermediate, iterate_tensors
from tosa_convert.golden.running.programs import input_arrays
from tosa_convert.golden.running.run import run, steps
from tosa_convert.golden.running.run_graph import Result
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.result import Bisection, Case, Divergence, save_case
from tosa_convert.qualify.detection.power import ChangePower, Power, TensorPower, Threshold, power
from tosa_convert.qualify.random_graphs.generate import generate
from tosa_convert.qualify.reduction.reduce import Failure, Reduction, reduce
from tosa_convert.reference.call import Step

__all__ = [
    "Backend",
    "Bisection",
    "Case",
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
    "bisect",
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
]
