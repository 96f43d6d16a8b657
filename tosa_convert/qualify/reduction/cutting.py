"""Cut a failing program to few operators, and its inputs to few elements that are not zero.

A candidate for a graph is a sub-graph: some values are its outputs, some became its inputs. Both ends
move: first the outputs towards the inputs, then the inputs towards the outputs, then single operands
become inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import SCALE_SUFFIX, Array, Arrays
from tosa_convert.graph.derived import computed_tensors, extract
from tosa_convert.graph.model import Graph

#: Names of outputs and of values that became inputs.
Cut = tuple[tuple[str, ...], tuple[str, ...]]

#: Operators of a part that `bisect` leaves out one by one.
MOST_IN_TURN: Final = 32


def size(graph: Graph) -> int:
    """Count the operators that are not constants."""
    return len({index for index, _ in computed_tensors(graph)})


class Shrinker:
    """Shrink one graph.

    fails: whether a candidate still fails; it is asked once for each. most: operators of a part that are
        left out one by one; those of a larger part are not.
    """

    def __init__(
        self, graph: Graph, fails: Callable[[Cut], bool], most: int = MOST_IN_TURN
    ) -> None:
        self.graph, self._fails, self.most = graph, fails, most
        self.computed = computed_tensors(graph)
        self._answers: dict[Cut, bool] = {}

    def fails(self, cut: Cut) -> bool:
        if cut not in self._answers:
            self._answers[cut] = self._fails(cut)
        return self._answers[cut]

    def shrink(self, best: Cut) -> Cut:
        changed = True
        while changed:
            before = best
            best = self.with_fewer_outputs(best)
            best = self.with_earlier_output(best)
            best = self.with_later_inputs(best)
            best = self.with_fewest_operators(best)
            changed = best != before
        return best

    def with_fewer_outputs(self, best: Cut) -> Cut:
        """Leave out outputs, one at a time, and the inputs that only they needed."""
        outputs, cuts = best
        for name in outputs if len(outputs) > 1 else ():
            rest = tuple(other for other in best[0] if other != name)
            if rest and self.fails(candidate := self.without_unneeded_inputs((rest, cuts))):
                best = candidate
        return best

    def with_earlier_output(self, best: Cut) -> Cut:
        """Take one computed value as the only output: by bisection first, then one by one."""
        names = self._computed(best)
        low, high = 0, len(names) - 1
        while low < high:
            middle = (low + high) // 2
            candidate = self.without_unneeded_inputs(((names[middle],), best[1]))
            if self.fails(candidate):
                best, high = candidate, middle
            else:
                low = middle + 1
        if len(best[0]) > 1:
            for name in names:
                if self.fails(candidate := self.without_unneeded_inputs(((name,), best[1]))):
                    return candidate
        return best

    def with_later_inputs(self, best: Cut) -> Cut:
        """Make computed values inputs: by bisection along the order first, then one by one."""
        names = [name for name in self._computed(best) if name not in best[0]]
        low, high = 0, len(names)
        while low < high:
            middle = (low + high + 1) // 2
            candidate = self.without_unneeded_inputs((best[0], (*best[1], *names[:middle])))
            if self.fails(candidate):
                best, low = candidate, middle
            else:
                high = middle - 1
        for name in reversed(names[low:]):
            candidate = self.without_unneeded_inputs((best[0], (*best[1], name)))
            if size(self.extract(candidate)) < size(self.extract(best)) and self.fails(candidate):
                best = candidate
        return best

    def with_fewest_operators(self, best: Cut) -> Cut:
        """Leave out operators anywhere: halves of them first, then smaller parts, then each one.

        What an operator that is left out gives to others becomes an input. What it takes becomes an
        output, unless the operator that computes it is needed for another one.
        """
        kept = self._indices(best)
        size = len(kept) // 2 if len(kept) <= self.most else 0
        while size:
            for start in range(0, len(kept), size):
                rest = kept[:start] + kept[start + size :]
                candidate = self._of_operators(rest, best) if rest else None
                if candidate is None or len(self._indices(candidate)) >= len(kept):
                    continue
                if self.fails(candidate):
                    best, kept = candidate, self._indices(candidate)
                    size = min(size, max(len(kept) // 2, 1)) if len(kept) > 1 else 0
                    break
            else:
                size //= 2
        return best

    def _indices(self, cut: Cut) -> list[int]:
        names = set(self._computed(cut))
        return sorted({index for index, name in self.computed if name in names})

    def _of_operators(self, indices: list[int], best: Cut) -> Cut | None:
        """Return the candidate with these operators; None if there is none."""
        operators, tensors = self.graph.main.operators, {name for _, name in self.computed}
        used = {name for index in indices for name in operators[index].inputs}
        outputs = []
        for index in indices:
            own = [name for name in operators[index].outputs if name in tensors]
            wanted = [name for name in own if name in best[0]]
            if not wanted and not used.intersection(own):
                taken = {n for i in self._indices(best) for n in operators[i].inputs}
                wanted = [name for name in own if name in taken] or own
            outputs += wanted
        computed = {name for index in indices for name in operators[index].outputs}
        cuts = [name for name in [*best[1], *sorted(used & tensors)] if name not in computed]
        try:
            return self.without_unneeded_inputs((tuple(outputs), tuple(cuts)))
        except TosaConvertError:
            return None

    def _computed(self, cut: Cut) -> list[str]:
        """List the tensors of the graph that a candidate computes.

        A result that became an input, of an operator that remains for another result, has a new name.
        """
        names = [name for _, name in computed_tensors(self.extract(cut))]
        return [name for name in names if name in self.graph.main.tensors]

    def without_unneeded_inputs(self, cut: Cut) -> Cut:
        """Return the same sub-graph without inputs that no output depends on."""
        outputs, cuts = cut
        wanted = [name for name in dict.fromkeys(cuts) if name not in outputs]
        while True:
            try:
                extract(self.graph, outputs, wanted)
                return outputs, tuple(wanted)
            except TosaConvertError as error:
                if error.code != "option-conflict":
                    raise
                unneeded = {
                    finding.message.partition('"')[2].rpartition('"')[0]
                    for finding in error.findings
                }
                if not unneeded & set(wanted):
                    raise
                wanted = [name for name in wanted if name not in unneeded]

    def extract(self, cut: Cut) -> Graph:
        return extract(self.graph, cut[0], cut[1])


_SHRINKING_RUNS: Final = 60


def reduce_data(inputs: Arrays, is_failing: Callable[[dict[str, Array]], bool]) -> dict[str, Array]:
    """Set elements of the inputs to zero as long as the case still fails.

    Halves of these elements are tried first, then smaller parts, until no single element can be zero
    or the runs are used up. Scales of block-scaled inputs stay as they are.

    Example:
        >>> given = {"x": np.arange(1, 65)}
        >>> found = reduce_data(given, lambda arrays: arrays["x"][37] != 0)
        >>> int(np.count_nonzero(found["x"])), int(found["x"][37])
        (1, 38)
    """
    places = [
        (key, index)
        for key, array in inputs.items()
        if not key.endswith(SCALE_SUFFIX)
        for index in np.flatnonzero(array.reshape(-1) != np.zeros((), array.dtype))
    ]
    parts, runs = 2, _SHRINKING_RUNS
    while runs > 0 and places:
        size = -(-len(places) // parts)
        for start in range(0, len(places), size):
            if runs == 0:
                break
            fewer = places[:start] + places[start + size :]
            runs -= 1
            if is_failing(_only(inputs, fewer)):
                places, parts = fewer, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(places))
    return _only(inputs, places)


def _only(inputs: Arrays, places: list[tuple[str, int]]) -> dict[str, Array]:
    """Return the arrays with zeros everywhere but in these places; scales as they are."""
    result = {}
    for key, array in inputs.items():
        if key.endswith(SCALE_SUFFIX):
            result[key] = array
            continue
        flat = np.zeros(array.size, array.dtype)
        indices = [index for name, index in places if name == key]
        flat[indices] = array.reshape(-1)[indices]
        result[key] = flat.reshape(array.shape)
    return result


def nonzero_elements(inputs: Arrays) -> tuple[int, int]:
    """Count the elements of the arrays that are not zero, and all elements; without scales."""
    arrays = [array for key, array in inputs.items() if not key.endswith(SCALE_SUFFIX)]
    count = sum(int(np.count_nonzero(a != np.zeros((), a.dtype))) for a in arrays)
    return count, sum(array.size for array in arrays)
