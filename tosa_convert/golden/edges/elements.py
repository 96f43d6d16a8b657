"""Single elements of an operator: of which elements of its operands, and for other values of these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.model import Block, Operator
from tosa_convert.reference.call import Call, Type, store
from tosa_convert.reference.evaluate import OPERATIONS, call_of, operation_of

#: Operators that move elements, whose tensors are broadcast in no other way.
_NOT_MOVING: Final = frozenset(("VARIABLE_READ", "VARIABLE_WRITE", "CUSTOM"))
#: Calls after which the search for elements without a result ends.
_MOST_CALLS: Final = 2000


def has_elements(operator: Operator) -> bool:
    """Return whether each element of the result is made of one element of each operand."""
    spec = operator.spec
    return spec.elementwise > 0 or spec.name == "RESCALE"


def moves(operator: Operator) -> bool:
    """Return whether the elements of the result are elements of the operands."""
    spec = operator.spec
    return spec.accuracy == "operand" and spec.name in OPERATIONS and spec.name not in _NOT_MOVING


@dataclass(slots=True)
class Elements:
    """The elements of an operator that computes each one by itself.

    call: the operator with its operands.
    """

    call: Call
    count: int = field(init=False)
    _calls: int = 0

    def __post_init__(self) -> None:
        self.count = max(self.call.spec.elementwise, 1)

    @property
    def size(self) -> int:
        """Return the number of elements of the result."""
        return math.prod(self.call.result.shape)

    def operand_ids(self, position: int, ids: Array) -> Array:
        """Return the elements of an operand that elements of the result are made of."""
        shape, own = self.call.result.shape, self.call.operands[position].shape
        if shape == own:
            return ids
        places = np.unravel_index(ids, shape) if shape else ()
        kept = [
            np.where(np.int64(size) == 1, 0, place)
            for place, size in zip(places[len(shape) - len(own) :], own, strict=True)
        ]
        if not kept:
            return np.zeros(len(ids), np.int64)
        return np.asarray(np.ravel_multi_index(kept, own), np.int64)

    def values(self, position: int, ids: Array) -> Array:
        """Return the elements of an operand that elements of the result are made of."""
        found: Array = self.call.operands[position].reshape(-1)[self.operand_ids(position, ids)]
        return found

    def compute(self, ids: Array, replaced: Mapping[int, Array]) -> Array:
        """Return elements of the result for other values of operands.

        ids: the elements. replaced: position of an operand -> its value for each of them.

        Raises TosaConvertError if TOSA does not define one of them.
        """
        call = self.call
        operands = [
            replaced[position] if position in replaced else self.values(position, ids)
            for position in range(self.count)
        ] + list(call.operands[self.count :])
        if call.spec.name == "RESCALE" and call.attributes["per_channel"]:
            channel = ids % call.result.shape[-1]
            for position in (1, 2):
                operands[position] = operands[position].reshape(-1)[channel]
        kind = Type(call.result.dtype, (len(ids),))
        part = replace(call, operands=tuple(operands), results=(kind,))
        with np.errstate(all="ignore"):
            return store(operation_of(part)(part), kind, "own")

    def undefined(self) -> Array:
        """Return the elements of the result that TOSA does not define for these operands."""
        found: list[Array] = []
        waiting = [np.arange(self.size)]
        calls = 0
        while waiting:
            ids = waiting.pop()
            calls += 1
            if calls > _MOST_CALLS:
                found.append(ids)
                continue
            try:
                self.compute(ids, {})
            except TosaConvertError:
                half = len(ids) // 2
                if not half:
                    found.append(ids)
                else:
                    waiting += [ids[:half], ids[half:]]
        return np.concatenate(found) if found else np.zeros(0, np.int64)


def moved_ids(block: Block, operator: Operator, operands: Sequence[Array]) -> tuple[Array, Array]:
    """Return for each element of the result of an operator that moves elements where it is from.

    Returns:
        The position of the operand, -1 for none; and the element of the operand.
    """
    spec = operator.spec
    count = len(operands)
    offset = 0
    starts = []
    given = []
    for position, array in enumerate(operands):
        row = spec.operand(position, count)
        if row.is_shape or row.is_constant or row.domain:
            given.append(np.full_like(array, -1) if row.name == "pad_const" else array)
            starts.append(-1)
            continue
        given.append(np.arange(offset, offset + array.size, dtype=np.int64).reshape(array.shape))
        starts.append(offset)
        offset += array.size
    call = call_of(block, operator, given, "own")
    ids = np.asarray(OPERATIONS[spec.name](call)).reshape(-1)
    positions = np.full(ids.shape, -1)
    local = np.zeros(ids.shape, np.int64)
    for position, start in enumerate(starts):
        if start >= 0:
            inside = (ids >= start) & (ids < start + operands[position].size)
            positions[inside] = position
            local[inside] = ids[inside] - start
    return positions, local
