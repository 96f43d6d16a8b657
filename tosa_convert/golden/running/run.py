"""The public functions `run` and `steps`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.running.intermediates import iterate_tensors
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    as_graph,
    input_arrays,
    load_program,
    reading,
    with_variables,
)
from tosa_convert.golden.running.run_graph import Result, compute_steps, run_program
from tosa_convert.golden.running.run_options import DEFAULT_RUN, TIMEOUT, Engine, Level, RunOptions
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack
from tosa_convert.reference.call import Step


@takes_keywords(ReadKeywords)
def run(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULT_RUN,
    *,
    variables: Mapping[str, Any] | None = None,
    intermediates: str | Sequence[str] | None = None,
    random: int | None = None,
    precise: bool = False,
    bounds: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    read: ReadOptions = AS_IT_IS,
    **reading_options: Unpack[ReadKeywords],
) -> Result:
    """Run a program on the TOSA reference model, or on numpy.

    Further keywords are those of `tosa_convert.load`: how a file or module is read, such as
    `func="main"`, or `input_shapes={"x": (1, 4)}` for arguments with dynamic dimensions.

    Args:
        program: a Graph, a module of any MLIR bindings, bytes, or a path to anything that
            `tosa_convert.load` reads.
        inputs: an array for each input, by name, in exactly its element type and shape. A
            block-scaled input `x` takes two arrays, `x` and `x/scale`.
        options: the options of the run as a value, in place of the following five keywords.
        variables: initial states by name; the others start as the program says.
        intermediates: a pattern such as `"*"`, or several such as `["layer_1*"]`, for tensors of
            the main block that the result holds as well.
        random: a seed, 0 or more, for inputs that are not given.
        precise: compute floating point in FP64.
        bounds: compute the tensors that TOSA's accuracy rules are made from, too.
        level: "none" or "8k", the limits on sizes that are checked.
        timeout: seconds for one run.
        engine: what computes the answer: "reference-model", "numpy", or "auto", as the options say, and
            otherwise the reference model if it is installed, else numpy.
        read: how to read a file or module, as a value.

    Returns:
        The outputs, the state of variables, and what else the options ask for, as numpy arrays.

    Raises:
        TosaConvertError: `input-mismatch` before anything runs, `unsupported-shape` for a shape
            that is not static, `refmodel-refused` naming the operator, the rule and the shapes,
            `refmodel-failed`, `refmodel-timeout`, `missing-refmodel`, `undefined-name` for a
            pattern that nothing matches, `option-conflict` for an engine other than that of the
            options, `file-error` if the temporary folder cannot be written.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> result = golden.run(graph, random=1)
        >>> sorted(result.outputs) == sorted(graph.main.outputs)
        True
    """
    flat = {"precise": precise, "bounds": bounds, "level": level, "timeout": timeout}
    options = options.with_keywords(engine=engine, **flat)
    loaded = load_program(program, reading(read, reading_options))
    arrays = input_arrays(loaded.graph, inputs, random)
    collected: dict[str, Array] = {}
    if intermediates is not None:
        patterns = [intermediates] if isinstance(intermediates, str) else list(intermediates)
        graph = with_variables(loaded.graph, variables or {})
        for tensor in iterate_tensors(graph, arrays, patterns, options):
            collected.update(tensor.arrays)
    result = run_program(loaded, arrays, options, variables)
    return replace(result, intermediates=collected)


@takes_keywords(ReadKeywords)
def steps(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULT_RUN,
    *,
    variables: Mapping[str, Any] | None = None,
    random: int | None = None,
    precise: bool = False,
    level: Level = "none",
    timeout: float = TIMEOUT,
    read: ReadOptions = AS_IT_IS,
    **reading_options: Unpack[ReadKeywords],
) -> Iterator[Step]:
    """Run a program on numpy, and stop after each operator, also inside of regions.

    The operators are those that run, in their order: the branch that is taken, every iteration of a
    loop. Constants are not among them. A value is dropped after its last use, so keep the arrays that
    you need, not the steps.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        inputs: an array for each input, by name, in exactly its element type and shape.
        options: `precise`, `level`, `timeout` and `progress` apply; time between steps does not count.
        variables: initial states by name; the others start as the program says.
        random: a seed, 0 or more, for inputs that are not given.
        precise: compute floating point in FP64.
        level: "none" or "8k", the limits on sizes that are checked.
        timeout: seconds for the run.
        read: how to read a file or module, as a value.

    Returns:
        An iterator. Each step has the `operator`, and its `operands` and `results` as arrays by name.

    Raises:
        TosaConvertError: as `golden.run`; `option-conflict` for the engine "reference-model".

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> for step in golden.steps(graph, random=1):
        ...     (result,) = step.results.values()
        ...     print(step.operator.spec.name, len(step.operands), bool((result >= 0).all()))
        ABS 1 True
        ABS 1 True
        ABS 1 True
    """
    options = options.with_keywords(precise=precise, level=level, timeout=timeout)
    if options.engine == "reference-model":
        raise fail("option-conflict", "engine", "the reference model does not stop at operators")
    graph = with_variables(as_graph(program, read, reading_options), variables or {})
    arrays = input_arrays(graph, inputs, random)
    for step in compute_steps(graph, arrays, options):
        if step.operator.spec not in (CONST, CONST_SHAPE):
            yield step
