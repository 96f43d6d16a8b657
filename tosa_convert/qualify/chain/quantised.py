"""Judge a quantised model of a framework beside the one before it, by the scales of its integers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tosa_convert.golden.backends.recorded_tensors import (
    Recorded,
    Source,
    relative_error,
    root_mean_square,
)
from tosa_convert.qualify.chain.matched import Table

#: How many times the error that is explained a tensor may have.
TIMES: Final = 4.0
#: The noise of arithmetic in FP32, as a share of a tensor's values.
_NOISE: Final = 2.0**-18
#: How many times as much may be cut off: values in error leave the range that was measured without it.
_RANGE: Final = 2.0
#: The share that the error of a right tensor has at most; most have a quarter.
_USUAL: Final = 0.5
#: Names of operators whose results change as much as their operands do, whatever the values.
_STEEP: Final = re.compile(r"(?<![a-z])(exp|softmax|sin|cos)(?![a-z])", re.I)
#: How many tensors that follow one another may be other ones.
_OTHERS: Final = 3


class Wrong(NamedTuple):
    """Hold the first tensor with an error that nothing explains, and why."""

    tensor: str
    reason: str


def judge_models(
    table: Table, before: Source, after: Source
) -> tuple[dict[str, float | None], float, Wrong | None]:
    """Return a model's errors as shares of what is explained, the largest, and the first wrong one.

    The largest is a share of a tensor's values. A tensor may have the errors of the nearest tensors
    before it, and the noise of what was quantised since then. Tensors that turn out to be other ones get
    rows of their own.
    """
    steps = _Steps(after.tensors)
    sizes, moved, wrong = table.errors_of(before, after), set[str](), set[str]()
    while True:
        shares = steps.shares(sizes)
        limits = {key: _USUAL if key not in moved else 1.0 for key in shares if key not in wrong}
        name = next((k for k in steps.names if k in limits and shares[k] > limits[k]), "")
        if not name:
            break
        if name not in moved:
            moved.add(name)
            changed = table.rematch(before, after, name)
            sizes = {key: size for key, size in sizes.items() if key not in changed}
            sizes |= table.errors_of(before, after, changed) if changed else {}
        elif others := steps.others(name, sizes):
            table.part(after, others)
            sizes = {key: size for key, size in sizes.items() if key not in others}
        else:
            wrong.add(name)
    cut_off = steps.shares(sizes, steps.cut_off)
    for row in after.tensors:
        if cut_off.get(row.name, 0.0) > 1:
            # An activation may be part of the quantisation: then the model before has its result.
            error, _ = table.nearest(before, row)
            cut_off |= steps.shares(sizes, {row.name: min(error, steps.cut_off[row.name])})
    largest = max(sizes.values(), default=0.0)
    for name in steps.names:
        share = max(shares.get(name, 0.0), cut_off.get(name, 0.0))
        if share > 1:
            reason = (
                f"{TIMES * share:.3g} times what the tensors and the quantisation before it explain"
            )
            if share == cut_off.get(name):
                reason += ": its integers cut values off"
            return {**shares}, largest, Wrong(name, reason)
    return {**shares}, largest, None


class _Steps:
    """Explain the errors of a model's tensors, in order. Sizes are shares of the values of a tensor."""

    def __init__(self, tensors: Sequence[Recorded]) -> None:
        self._tensors = tensors
        self.names = [row.name for row in tensors]
        #: Squares of the errors of rounding to integers.
        self._noise: dict[str, float] = {}
        #: Of integers, beside the values that they stand for.
        self.cut_off: dict[str, float] = {}
        #: By tensor and operand, how much of the tensor depends on the operand.
        self._influence: dict[tuple[str, str], float] = {}
        rows = {row.name: row for row in tensors}
        for row in tensors:
            operands = [rows[k] for k in row.operands if k in rows and rows[k].has_numbers]
            if row.has_numbers:
                self._note_influence(row, operands)
            if row.scale is None or not (size := root_mean_square(row.numbers())):
                continue
            # Of the activations, and of the weights that they meet.
            self._noise[row.name] = 2 * (row.scale[0] / math.sqrt(12) / size) ** 2
            if operands:
                error = relative_error(row.numbers(), operands[0].numbers())
                self.cut_off[row.name] = error / _RANGE

    def _note_influence(self, row: Recorded, operands: Sequence[Recorded]) -> None:
        """Note where an operand's errors come in smaller or larger, as shares of the values.

        Of a result near to an operand, such as `x - mean`, the others change little. The exponential of
        x + 0.1 is 10 % larger, also where 0.1 is 1 % of x. Part of a tensor may have its small values.
        """
        numbers = row.numbers()
        for near in operands:
            given, key = near.numbers(), (row.name, near.name)
            if _STEEP.search(row.name):
                self._influence[key] = max(1.0, root_mean_square(given))
            elif len(operands) > 1 and near.shape == row.shape:
                size = min(1.0, relative_error(numbers, given))
                others = (other.name for other in operands if other is not near)
                self._influence.update({(row.name, other): size for other in others})
            elif numbers.size < given.size and np.isin(numbers, given).all():
                sizes = root_mean_square(given), root_mean_square(numbers)
                self._influence[key] = max(1.0, sizes[0] / (sizes[1] or 1.0))

    def shares(
        self, sizes: Mapping[str, float], of: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Return errors, by default those of the tensors compared, as shares of what is explained."""
        squares = {**self._noise, **{key: size**2 for key, size in sizes.items()}}
        sources: dict[str, dict[str, float]] = {}
        explained = {}
        for row in self._tensors:
            names: dict[str, float] = {}
            for key in row.operands:
                influence = self._influence.get((row.name, key), 1.0)
                for source, share in sources.get(key, {}).items():
                    names[source] = max(names.get(source, 0.0), share * influence)
            square = sum(squares[k] * share**2 for k, share in names.items())
            square += self._noise.get(row.name, 0.0)
            explained[row.name] = TIMES * math.sqrt(_NOISE**2 + square)
            names = {} if row.name in sizes else names
            sources[row.name] = names | {row.name: 1.0} if row.name in squares else names
        return {key: error / explained[key] for key, error in (sizes if of is None else of).items()}

    def others(self, name: str, sizes: Mapping[str, float]) -> set[str]:
        """Return a tensor and next ones, without which those after them are what they are if right."""
        found = {name}
        while len(found) <= _OTHERS:
            shares = self.shares({key: size for key, size in sizes.items() if key not in found})
            reached, after = set(found), set[str]()
            for row in self._tensors:
                if not reached.isdisjoint(row.operands):
                    (after if row.name in shares else reached).add(row.name)
            wrong = {key for key in after if shares[key] > _USUAL}
            if not wrong:
                return found if after else set()
            found |= wrong
        return set()
