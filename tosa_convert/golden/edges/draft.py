"""Inputs at the edges of their own types, made tamer until TOSA defines what the program computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import Slot
from tosa_convert.golden.edges.coverage import CoverageWatch
from tosa_convert.golden.edges.forward import Run, run_forward
from tosa_convert.golden.edges.steady import (
    fragile_sources,
    spoiled_outputs,
    undefined_sources,
    unsteady_operators,
)
from tosa_convert.golden.edges.trace import inputs_of
from tosa_convert.golden.edges.values import (
    ALL,
    LARGE,
    RANDOM,
    RANK_TEXTS,
    SMALL,
    edge_array,
    edge_codes,
    special_codes,
)
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_array
from tosa_convert.graph.model import Graph, counted, quoted
from tosa_convert.records import dataclass, field

_FRAGILE: Final = "correct implementations may differ much"
_TOO_LITTLE: Final = "too little of the outputs is a number"


@dataclass(slots=True)
class Draft:
    """Inputs on the way.

    limits, usual: the ranges of all values, and of random ones, by input.
    ranks: the highest rank of the numbers of an input. calm: inputs without infinities and NaN.
    plain: elements with random values.
    """

    graph: Graph
    seed: int
    slots: list[Slot]
    given: dict[str, Array]
    limits: dict[str, tuple[float, float]]
    usual: dict[str, tuple[float, float]]
    ranks: dict[str, int] = field(default_factory=dict)
    calm: set[str] = field(default_factory=set)
    plain: dict[str, Array] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Implementations differ in blocks whose scale is near the greatest one.
        self._limit("block_conversion", LARGE)
        # TOSA's bounds of a transform are far less than what the angles of correct ones err, unless its
        # elements are about as large as each other.
        self._limit("fft", RANDOM)

    def _limit(self, family: str, rank: int) -> None:
        block = self.graph.main
        operators = [op for op in block.operators if op.spec.family == family]
        names = inputs_of(block, [name for op in operators for name in op.inputs])
        self.ranks |= dict.fromkeys(names, rank)

    def arrays(self) -> dict[str, Array]:
        """Return the array of each input, in the order of the graph."""
        made = {slot.key: self._array(slot) for slot in self.slots}
        return {slot.key: {**made, **self.given}[slot.key] for slot in input_slots(self.graph)}

    def _array(self, slot: Slot) -> Array:
        limit, usual = self.limits.get(slot.key), self.usual.get(slot.key)
        rank, special = self.ranks.get(slot.tensor, ALL), slot.tensor not in self.calm
        array = edge_array(slot, self.seed, rank, limit, usual, special=special)
        if (ids := self.plain.get(slot.key)) is not None:
            plain = random_array(slot, self.seed, limit or usual)
            array.reshape(-1)[ids] = plain.reshape(-1)[ids]
        return array

    def settle(self) -> tuple[Run, CoverageWatch]:
        """Lower ranks until the program runs, and leaves something to compare; return the last run."""
        block = self.graph.main
        while True:
            watch = CoverageWatch()
            run = run_forward(self.graph, self.arrays(), watch)
            if run.error is not None:
                reason = run.error.findings[0].message
                names = inputs_of(block, block.operators[run.operator].inputs)
                is_lower = self._make_random(run, reason) or self._make_tame(names, RANDOM, reason)
            elif open_sums := unsteady_operators(self.graph, run):
                operator = block.operators[open_sums[0]]
                reason = f"the order in which {operator.spec.name} adds or multiplies decides"
                is_lower = self._lower(inputs_of(block, operator.inputs), SMALL, reason)
                if not is_lower:
                    names = inputs_of(block, spoiled_outputs(self.graph, run))
                    is_lower = self._make_tame(names, SMALL, _TOO_LITTLE)
            else:
                names = inputs_of(block, spoiled_outputs(self.graph, run))
                is_lower = self._make_tame(names, SMALL, _TOO_LITTLE)
            if not is_lower:
                is_lower = self._make_plain(fragile_sources(self.graph, run), _FRAGILE)
            if not is_lower:
                return run, watch

    def _make_random(self, run: Run, reason: str) -> bool:
        """Give the elements that an undefined result is made of random values."""
        return self._make_plain(undefined_sources(self.graph, run), reason)

    def _make_plain(self, found: Mapping[str, Array], reason: str) -> bool:
        changed = False
        own = {slot.key for slot in self.slots}
        for name, elements in found.items():
            before = self.plain.get(name, elements[:0])
            after = np.union1d(before, elements)
            if name in own and len(after) > len(before):
                self.plain[name] = after
                count = counted(len(after) - len(before), "element")
                self.repairs.append(f"{count} of {quoted(name)} got random values: {reason}")
                changed = True
        return changed

    def _make_tame(self, names: list[str], least: int, reason: str) -> bool:
        """Leave out infinities and NaN of inputs, or else the largest numbers."""
        own = {slot.tensor: slot for slot in self.slots}
        special = [
            n for n in names if n in own and n not in self.calm and special_codes(own[n].dtype)
        ]
        if not special:
            return self._lower(names, least, reason)
        self.calm.update(special)
        listed = ", ".join(map(quoted, special))
        self.repairs.append(f"no infinities and no NaN in {listed}: {reason}")
        return True

    def _lower(self, names: list[str], least: int, reason: str) -> bool:
        """Lower the highest ranks of some inputs by one that changes them; not below the least."""
        own = {slot.tensor: slot for slot in self.slots}
        ranks = {name: self._rank_below(own[name], least) for name in names if name in own}
        changed = [name for name, rank in ranks.items() if rank is not None]
        if not changed:
            return False
        top = max(self.ranks.get(name, ALL) for name in changed)
        for name in changed:
            rank = ranks[name]
            if rank is not None and self.ranks.get(name, ALL) == top:
                self.ranks[name] = rank
                self.repairs.append(f"{quoted(name)} has {RANK_TEXTS[rank]}: {reason}")
        return True

    def _rank_below(self, slot: Slot, least: int) -> int | None:
        """Return the next rank below that gives an input other values."""
        rank = self.ranks.get(slot.tensor, ALL)
        if rank == RANDOM:
            return None
        codes = edge_codes(slot.dtype, rank)
        for lower in range(rank - 1, least - 1, -1):
            if lower == RANDOM or edge_codes(slot.dtype, lower) != codes:
                return lower
        return None
