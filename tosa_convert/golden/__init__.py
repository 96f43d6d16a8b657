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

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tosa_convert.golden.public import (
        Backend,
        Bisection,
        Case,
        ChangePower,
        Comparison,
        Divergence,
        EdgeCoverage,
        Failure,
        Intermediate,
        OperatorEdges,
        Power,
        Record,
        Reduction,
        Result,
        Runner,
        RunOptions,
        Step,
        TensorComparison,
        TensorPower,
        Threshold,
        Tolerances,
        bisect,
        check,
        compare,
        edge_coverage,
        edge_inputs,
        generate,
        input_arrays,
        iterate_tensors,
        open_backend,
        power,
        reduce,
        run,
        save_case,
        steps,
    )

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tosa_convert.golden import public

    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
