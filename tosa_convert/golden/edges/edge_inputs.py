"""Edge inputs: values at which implementations err, for which TOSA defines what a program computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import Slot, match
from tosa_convert.golden.edges.forward import Run, run_forward
from tosa_convert.golden.edges.trace import inputs_of, sources, undefined_elements
from tosa_convert.golden.edges.values import (
    RANDOM,
    RANK_TEXTS,
    SMALL,
    SPECIAL,
    edge_array,
    edge_codes,
)
from tosa_convert.golden.running.programs import AS_IT_IS, as_graph, input_arrays, input_slots
from tosa_convert.golden.running.random_inputs import (
    Ranges,
    limits_of_inputs,
    random_array,
    requested_ranges,
)
from tosa_convert.golden.running.variable_states import with_variables
from tosa_convert.graph.model import Graph, counted, quoted
from tosa_convert.io.options import ReadOptions

#: Of an output, the least share of elements that are finite: fewer leave little to compare.
_LEAST_FINITE: Final = 0.5
#: Domains of operands outside of which TOSA defines no result, whatever the other operands are.
_HARD: Final = ("index", "shift")


@dataclass(slots=True)
class EdgeInputs:
    """Inputs of a program at the edges of what its operators compute.

    arrays: by the names of inputs.
    repairs: what was changed, until TOSA defined what the program computes.
    """

    arrays: dict[str, Array]
    repairs: list[str] = field(default_factory=list)


def edge_inputs(
    program: Any,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
    *,
    ranges: Ranges = (),
    variables: Mapping[str, Any] | None = None,
    read: ReadOptions = AS_IT_IS,
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
        read: how to read a file or module.

    Returns:
        An array for each input, by name.

    Raises:
        TosaConvertError: as `golden.input_arrays`.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> arrays = golden.edge_inputs(graph, seed=1)
        >>> golden.run(graph, arrays).outputs.keys() == set(graph.main.outputs)
        True
    """
    graph = with_variables(as_graph(program, read), variables or {})
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


def find_edge_inputs(
    graph: Graph, seed: int, given: Mapping[str, Any], ranges: Ranges = ()
) -> EdgeInputs:
    """Return edge inputs of a graph, and how they were repaired; see `edge_inputs`."""
    if seed < 0:
        raise fail("option-conflict", "edges", f"found the seed {seed}, expected 0 or more")
    wanted = input_slots(graph)
    own = match([slot for slot in wanted if slot.key in given], dict(given))
    slots = [slot for slot in wanted if slot.key not in own]
    limits = limits_of_inputs(graph.main, _HARD) | requested_ranges(slots, ranges)
    draft = _Draft(graph, seed, slots, own, limits, limits_of_inputs(graph.main))
    draft.settle()
    return EdgeInputs(draft.arrays(), draft.repairs)


@dataclass(slots=True)
class _Draft:
    """Inputs on the way.

    limits, usual: the ranges of all values, and of random ones, by input.
    ranks: the highest rank of the values of an input. plain: its elements with random values.
    """

    graph: Graph
    seed: int
    slots: list[Slot]
    given: dict[str, Array]
    limits: dict[str, tuple[float, float]]
    usual: dict[str, tuple[float, float]]
    ranks: dict[str, int] = field(default_factory=dict)
    plain: dict[str, Array] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)

    def arrays(self) -> dict[str, Array]:
        """Return the array of each input, in the order of the graph."""
        made = {slot.key: self._array(slot) for slot in self.slots}
        return {slot.key: {**made, **self.given}[slot.key] for slot in input_slots(self.graph)}

    def _array(self, slot: Slot) -> Array:
        limit, usual = self.limits.get(slot.key), self.usual.get(slot.key)
        array = edge_array(slot, self.seed, self.ranks.get(slot.tensor, SPECIAL), limit, usual)
        if (ids := self.plain.get(slot.key)) is not None:
            plain = random_array(slot, self.seed, limit or usual)
            array.reshape(-1)[ids] = plain.reshape(-1)[ids]
        return array

    def settle(self) -> None:
        """Lower ranks until the program runs, and leaves something to compare."""
        while True:
            arrays = self.arrays()
            run = run_forward(self.graph, arrays)
            block = self.graph.main
            if run.error is not None:
                reason = run.error.findings[0].message
                names = inputs_of(block, block.operators[run.operator].inputs)
                is_lower = self._make_random(run, reason) or self._lower(names, RANDOM, reason)
            else:
                names = inputs_of(block, self._spoiled(run))
                is_lower = self._lower(names, SMALL, "too little of the outputs is a number")
            if not is_lower:
                return

    def _make_random(self, run: Run, reason: str) -> bool:
        """Give the elements that an undefined result is made of random values."""
        ids = undefined_elements(self.graph, run.operator, run.values)
        found = None if ids is None else sources(self.graph, run.operator, ids, run.values)
        changed = False
        own = {slot.key for slot in self.slots}
        for name, elements in (found or {}).items():
            before = self.plain.get(name, elements[:0])
            after = np.union1d(before, elements)
            if name in own and len(after) > len(before):
                self.plain[name] = after
                count = counted(len(after) - len(before), "element")
                self.repairs.append(f"{count} of {quoted(name)} got random values: {reason}")
                changed = True
        return changed

    def _spoiled(self, run: Run) -> list[str]:
        """Return the outputs most of whose elements are infinite or NaN."""
        found = []
        for name in dict.fromkeys(self.graph.main.outputs):
            tensor = self.graph.main.tensors.get(name)
            if tensor is not None and tensor.dtype.is_float and run.values[name].size:
                finite = np.isfinite(run.values[name].astype(np.float32))
                if finite.mean() < _LEAST_FINITE:
                    found.append(name)
        return found

    def _lower(self, names: list[str], least: int, reason: str) -> bool:
        """Lower the highest ranks of some inputs by one that changes them; not below the least."""
        own = {slot.tensor: slot for slot in self.slots}
        ranks = {name: self._rank_below(own[name], least) for name in names if name in own}
        changed = [name for name, rank in ranks.items() if rank is not None]
        if not changed:
            return False
        top = max(self.ranks.get(name, SPECIAL) for name in changed)
        for name in changed:
            rank = ranks[name]
            if rank is not None and self.ranks.get(name, SPECIAL) == top:
                self.ranks[name] = rank
                self.repairs.append(f"{quoted(name)} has {RANK_TEXTS[rank]}: {reason}")
        return True

    def _rank_below(self, slot: Slot, least: int) -> int | None:
        """Return the next rank below that gives an input other values."""
        rank = self.ranks.get(slot.tensor, SPECIAL)
        codes = edge_codes(slot.dtype, rank)
        for lower in range(rank - 1, least - 1, -1):
            if lower == RANDOM or edge_codes(slot.dtype, lower) != codes:
                return lower
        return None
