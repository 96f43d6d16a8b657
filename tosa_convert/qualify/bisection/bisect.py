"""The public function `bisect`: explain why a program is wrong on a backend.

The program runs as it is first, and is judged as `check` judges it. Then each operator is judged by
itself, by its operator's own rule, on operands that are not in doubt (`single_operators`). If all of
them are right and the program is wrong, `whole_program` finds out why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES, Tolerances
from tosa_convert.golden.arrays.by_name import Array, scratch_folder
from tosa_convert.golden.backends.isolated import refuse_reader
from tosa_convert.golden.backends.runners import Backend, Record, as_backend
from tosa_convert.golden.checking.check import Reference, with_initial_states
from tosa_convert.golden.edges.edge_inputs import chosen_inputs
from tosa_convert.golden.running.intermediates import BATCH_BYTES
from tosa_convert.golden.running.programs import AS_IT_IS, STATE_PREFIX, as_graph, with_final_states
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, Progress, RunOptions
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.qualify.bisection.search import Bisection, Operators, RecordSearch
from tosa_convert.qualify.bisection.search_runner import RunnerSearch

if TYPE_CHECKING:
    from typing_extensions import Unpack
from dataclasses import replace


@takes_keywords(ReadKeywords)
def bisect(
    program: Any,
    against: str | Mapping[str, Array] | Backend,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    edges: bool = False,
    variables: Mapping[str, Any] | None = None,
    tolerances: Tolerances = NO_TOLERANCES,
    find_all: bool = False,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    batch_bytes: int = BATCH_BYTES,
    progress: Progress | None = None,
    read: ReadOptions = AS_IT_IS,
    **options: Unpack[ReadKeywords],
) -> Bisection:
    """Explain what `check` finds: name the operators at which a backend goes wrong, and how.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        against: a backend from `golden.open_backend`, the text that names one, or arrays by tensor.
        inputs: an array for each input, by name, in exactly its element type and shape.
        random: a seed, 0 or more, for inputs that are not given.
        edges: take `golden.edge_inputs` of that seed instead of random ones.
        variables: initial states by name, for both sides; the others start as the program says.
        tolerances: for tensors by name, instead of the rules.
        find_all: go on after the first operator that is wrong by itself, and name all of them.
        timeout: seconds for one run of either.
        engine: what computes the reference; see `RunOptions`.
        batch_bytes: bytes of tensors that one run computes. They are stored in files: only the
            inputs, one tensor of each side, and a wrong operator's values are in memory.
        progress: called with what is done, and all that there is: of each run of the whole program, and
            then of the operators.
        read: how to read a file or module, as a value.

    Returns:
        The verdict on the outputs, and the divergence that was found first, if there is one.

    Raises:
        TosaConvertError: as `golden.check`; `option-conflict` if recorded results have no tensor of
            the model.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> right = golden.run(graph, random=1, intermediates="*").intermediates
        >>> golden.bisect(graph, right, random=1).ok
        True
        >>> name = graph.main.operators[1].outputs[0]
        >>> wrong = {**right, name: right[name] + 1}
        >>> golden.bisect(graph, wrong, random=1).first.operators[0][1]
        'operator #1 ABS'
    """
    graph = as_graph(program, read, options)
    arrays = chosen_inputs(graph, inputs, random, edges=edges, variables=variables)
    backend = as_backend(against, graph, arrays, timeout)
    graph, backend = with_initial_states(graph, backend, variables or {})
    run_options = RunOptions(timeout=timeout, engine=engine)
    operators = Operators(graph, arrays, tolerances, run_options, batch_bytes)
    states = [STATE_PREFIX + name for name in with_final_states(graph)[1]]
    tolerances.refuse_unmatched([*operators.keys(operators.computed), *states])
    here = tolerances.restricted_to([*graph.main.outputs, *states])
    reference = Reference(graph, arrays, replace(run_options, progress=progress), here)
    search: RecordSearch | RunnerSearch
    if isinstance(backend, Record):
        search = RecordSearch(operators, find_all, progress)
        recorded = search.recorded(backend)
        search.result.outputs = reference.check(backend)
        search.search(recorded)
    else:
        with scratch_folder() as folder:
            first, outputs = reference.run(backend, folder)
            refuse_reader(backend)
            search = RunnerSearch(operators, find_all, progress, first)
            search.result.outputs = outputs
            search.search(backend)
    search.result.largest_batch = operators.largest_batch
    return search.result
