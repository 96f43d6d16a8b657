"""The public function `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.running.intermediates import iterate_tensors
from tosa_convert.golden.running.programs import AS_IT_IS, input_arrays, load_program
from tosa_convert.golden.running.run_graph import Result, run_program
from tosa_convert.golden.running.run_options import DEFAULT_RUN, RunOptions
from tosa_convert.golden.running.variable_states import with_variables
from tosa_convert.io.options import ReadOptions


def run(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULT_RUN,
    *,
    variables: Mapping[str, Any] | None = None,
    intermediates: str | Sequence[str] | None = None,
    random: int | None = None,
    read: ReadOptions = AS_IT_IS,
) -> Result:
    """Run a program on the TOSA reference model.

    Args:
        program: a Graph, a module of any MLIR bindings, bytes, or a path to anything that
            `tosa_convert.load` reads.
        inputs: an array for each input, by name, in exactly its element type and shape. A
            block-scaled input `x` takes two arrays, `x` and `x/scale`.
        options: precision, limits and time of the run.
        variables: initial states by name; the others start as the program says.
        intermediates: a pattern such as `"*"`, or several such as `["layer_1*"]`, for tensors of
            the main block that the result holds as well.
        random: a seed, 0 or more, for inputs that are not given.
        read: how to read a file or module, such as `ReadOptions(func="main")`, or
            `ReadOptions(input_shapes={"x": (1, 4)})` for arguments with dynamic dimensions.

    Returns:
        The outputs, the state of variables, and what else the options ask for, as numpy arrays.

    Raises:
        TosaConvertError: `input-mismatch` before anything runs, `unsupported-shape` for a shape
            that is not static, `refmodel-refused` naming the operator, the rule and the shapes,
            `refmodel-failed`, `refmodel-timeout`, `missing-refmodel`, `undefined-name` for a
            pattern that nothing matches, `file-error` if the temporary folder cannot be written.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> result = golden.run(graph, random=1)
        >>> sorted(result.outputs) == sorted(graph.main.outputs)
        True
    """
    loaded = load_program(program, read)
    arrays = input_arrays(loaded.graph, inputs, random)
    collected: dict[str, Array] = {}
    if intermediates is not None:
        patterns = [intermediates] if isinstance(intermediates, str) else list(intermediates)
        graph = with_variables(loaded.graph, variables or {})
        for tensor in iterate_tensors(graph, arrays, patterns, options):
            collected.update(tensor.arrays)
    result = run_program(loaded, arrays, options, variables)
    return replace(result, intermediates=collected)
