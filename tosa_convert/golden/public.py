"""The names that `tosa_convert.golden` offers.

No module of this package has the name of a function: importing it would replace the function.
"""

from tosa_convert.golden.backends import Backend, Record, Runner, open_backend
from tosa_convert.golden.bisection import Bisection, bisect
from tosa_convert.golden.cases import Case, Divergence, save_case
from tosa_convert.golden.checking import check
from tosa_convert.golden.comparison import Comparison, TensorComparison, compare
from tosa_convert.golden.intermediates import Intermediate, iterate_tensors
from tosa_convert.golden.programs import input_arrays
from tosa_convert.golden.random_graphs import generate
from tosa_convert.golden.reduction import Failure, Reduction, reduce
from tosa_convert.golden.reference_model import Result, RunOptions
from tosa_convert.golden.running import run
from tosa_convert.golden.tolerances import Tolerances

__all__ = [
    "Backend",
    "Bisection",
    "Case",
    "Comparison",
    "Divergence",
    "Failure",
    "Intermediate",
    "Record",
    "Reduction",
    "Result",
    "RunOptions",
    "Runner",
    "TensorComparison",
    "Tolerances",
    "bisect",
    "check",
    "compare",
    "generate",
    "input_arrays",
    "iterate_tensors",
    "open_backend",
    "reduce",
    "run",
    "save_case",
]
