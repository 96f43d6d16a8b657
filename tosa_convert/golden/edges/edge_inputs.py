"""Edge inputs: values at which implementations err, for which TOSA defines what a program computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import match
from tosa_convert.golden.edges.aim import Aim
from tosa_convert.golden.edges.coverage import EdgeCoverage
from tosa_convert.golden.edges.draft import Draft
from tosa_convert.golden.edges.forward import KEPT_BYTES, kept_bytes
from tosa_convert.golden.running.programs import AS_IT_IS, as_graph, input_arrays, input_slots
from tosa_convert.golden.running.random_inputs import (
    Ranges,
    limits_of_inputs,
    requested_ranges,
)
from tosa_convert.golden.running.variable_states import with_variables
from tosa_convert.graph.model import Graph
from tosa_convert.io.options import ReadKeywords, ReadOptions, takes_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack
from tosa_convert.records import dataclass

#: How often values are sent back, and how often in a small program. Each costs a run on numpy, or two.
_ROUNDS: Final = 3
_ROUNDS_IF_SMALL: Final = 9
#: The tensors of a small program have at most so many bytes together.
_SMALL_BYTES: Final = 1 << 20
#: A program whose tensors have at most so many bytes together gets several sets of edge inputs for each
#: seed, because one does not hold every edge.
_SEVERAL_SETS_BYTES: Final = 1 << 16
_SETS: Final = 4
#: How far apart the seeds of these sets are: as many seeds have their sets next to one another.
_NEXT_SET: Final = 1000
#: Domains of operands outside of which TOSA defines no result, whatever the other operands are.
_HARD: Final = ("index", "shift")


@dataclass(slots=True)
class EdgeInputs:
    """Inputs of a program at the edges of what its operators compute.

    arrays: by the names of inputs.
    repairs: what was changed, until TOSA defined what the program computes.
    coverage: which edges of the operators they meet.
    """

    arrays: dict[str, Array]
    repairs: list[str]
    coverage: EdgeCoverage


#: What inputs are if nothing says which, as those of `convert --check`.
DEFAULT_SEED: Final = 0
DEFAULT_INPUTS: Final = f"the inputs are random, of seed {DEFAULT_SEED}: none were given"


@takes_keywords(ReadKeywords)
def edge_inputs(
    program: Any,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
    *,
    ranges: Ranges = (),
    variables: Mapping[str, Any] | None = None,
    read: ReadOptions = AS_IT_IS,
    **options: Unpack[ReadKeywords],
) -> dict[str, Array]:
    """Return inputs at the edges of what a program's operators compute.

    Zeros of both signs, ties, the limits of each type, subnormal and huge numbers, NaN and infinities,
    the first and the last index, negative divisors; among random values, so that the rest stays a test.
    The program was run with them: TOSA defines its results.

    Args:
        program: anything that `golden.run` takes.
        seed: 0 or more; the same seed gives the same inputs.
        inputs: arrays by name that stay as they are.
        ranges: (pattern of names, lowest, highest) for the other inputs.
        variables: initial states by name; the others start as the program says.
        read: how to read a file or module, as a value.
        options: how to read it, as keywords: those of `tosa_convert.load`.

    Returns:
        An array for each input, by name.

    Raises:
        TosaConvertError: as `golden.input_arrays`; "refmodel-refused" if TOSA does not define what the
            program computes of random inputs either, "unsupported-operator" for a CUSTOM operator.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> arrays = golden.edge_inputs(graph, seed=1)
        >>> golden.run(graph, arrays).outputs.keys() == set(graph.main.outputs)
        True
    """
    graph = with_variables(as_graph(program, read, options), variables or {})
    return find_edge_inputs(graph, seed, inputs or {}, ranges).arrays


def chosen_inputs(
    graph: Graph,
    inputs: Mapping[str, Any] | None,
    random: int | None,
    *,
    edges: bool,
    variables: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """Return the inputs of one run: those that are given, and edge inputs or random ones.

    Raises TosaConvertError as `input_arrays`; "option-conflict" for edges without a seed.
    """
    if not edges:
        return input_arrays(graph, inputs, random)
    if random is None:
        raise fail("option-conflict", "edges", "edge inputs need a seed", "random=SEED")
    return find_edge_inputs(with_variables(graph, variables or {}), random, inputs or {}).arrays


def seeds_of_sets(graph: Graph, seed: int) -> range:
    """Return the seeds of the sets of edge inputs that belong to a seed: several for a small program.

    No set belongs to two seeds.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> list(seeds_of_sets(graph, 7))
        [7, 1007, 2007, 3007]
    """
    if kept_bytes(graph) > _SEVERAL_SETS_BYTES:
        return range(seed, seed + 1)
    first = seed + seed // _NEXT_SET * (_SETS - 1) * _NEXT_SET
    return range(first, first + _SETS * _NEXT_SET, _NEXT_SET)


def find_edge_inputs(
    graph: Graph, seed: int, given: Mapping[str, Any], ranges: Ranges = ()
) -> EdgeInputs:
    """Return edge inputs of a graph, and how they were repaired; see `edge_inputs`."""
    if seed < 0:
        raise fail("option-conflict", "edges", f"found the seed {seed}, expected 0 or more")
    wanted = input_slots(graph)
    own = match(wanted, dict(given), complete=False)
    slots = [slot for slot in wanted if slot.key not in own]
    limits = limits_of_inputs(graph.main, _HARD) | requested_ranges(slots, ranges)
    draft = Draft(graph, seed, slots, own, limits, limits_of_inputs(graph.main))
    run, watch = draft.settle()
    if run.error is not None:
        raise run.error
    aimed = Aim(graph, seed, slots, limits, draft.ranks, draft.calm, draft.arrays(), run, watch)
    size = kept_bytes(graph)
    if size <= KEPT_BYTES:
        for _ in range(_ROUNDS if size > _SMALL_BYTES else _ROUNDS_IF_SMALL):
            aimed.improve()
    return EdgeInputs(aimed.arrays, draft.repairs, aimed.watch.coverage())
