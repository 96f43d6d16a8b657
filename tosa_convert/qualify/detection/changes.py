"""Changes a tensor as a fault would, and runs the rest of the program from there."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.accuracy.criteria import half_units
from tosa_convert.golden.accuracy.error_bounds import FLOATS
from tosa_convert.golden.arrays import Array, Arrays, StoredArrays
from tosa_convert.golden.running.programs import STATE_PREFIX, variables_of, with_final_states
from tosa_convert.graph.derived import touches_variables
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Graph, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.reference.block_scaled import SCALE_SUFFIX, Scaled, Value, by_key, plain
from tosa_convert.reference.evaluate import Machine

#: What a change is about: one element, all elements with one last index, or all of them.
Kind = Literal["element", "channel", "all"]
KINDS: Final[tuple[Kind, ...]] = ("element", "channel", "all")
#: Elements and channels that are drawn of a tensor.
_DRAWN: Final[dict[Kind, int]] = {"element": 5, "channel": 3}
#: Sizes between two powers of two.
STEPS: Final = 8
#: The least size of a change of several numbers, in steps from the unit: a quarter of it, because some
#: of them are smaller than others.
_LEAST: Final = -2 * STEPS


@dataclass(frozen=True, slots=True)
class Place:
    """Say what is changed, an element of the flattened tensor, a channel or all, and which way."""

    kind: Kind
    index: int | None
    sign: int

    def position(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the index of the element in a tensor of this shape, or that of the channel."""
        if self.index is None:
            return ()
        found = np.unravel_index(self.index, shape) if self.kind == "element" else (self.index,)
        return tuple(map(int, found))

    def of(self, array: Array) -> Array:
        """Return the part of a contiguous array that is changed, as a view."""
        flat = array.reshape(-1)
        if self.kind == "element":
            assert self.index is not None
            return flat[self.index : self.index + 1]
        if self.kind == "channel":
            return flat[self.index :: array.shape[-1]]
        return flat


def has_sizes(row: DType) -> bool:
    """Return whether tensors of an element type can be changed: the scales of blocks are not."""
    return row.name in FLOATS or row.numpy.kind in "biu" or row.name.startswith("INT")


def places(shape: tuple[int, ...], seed: int) -> Iterator[Place]:
    """Draw what is changed in a tensor: the same for the same shape and seed, signs in turn."""
    random = np.random.default_rng(seed)
    counts: dict[Kind, int] = {"element": math.prod(shape)}
    if len(shape) > 1 and 1 < shape[-1] < counts["element"]:
        counts["channel"] = shape[-1]
    for kind, count in counts.items():
        drawn = random.choice(count, min(count, _DRAWN[kind]), replace=False)
        for number, index in enumerate(drawn):
            yield Place(kind, int(index), -1 if number % 2 else 1)
    if counts["element"] > 1:
        yield Place("all", None, 1)
        yield Place("all", None, -1)


class Change:
    """Change a tensor by sizes that grow by the STEPS-th root of two with each number.

    place: what is changed; in the other direction if an integer is at the limit of its type.
    unit: what sizes are multiples of: the unit in the last place of what is changed, in the root of the
        mean square, and of the whole tensor where that is zero; 1 for integers.
    low, high: the numbers of the smallest and the largest size.
    """

    def __init__(self, array: Array, row: DType, place: Place) -> None:
        self.array, self.row, self.place = np.ascontiguousarray(array), row, place
        part = place.of(self.array)
        self.is_float = row.name in FLOATS and row.name != "MXINT8"
        self.unit = 1.0
        if self.is_float:
            size = rms(part) or rms(self.array)
            self.unit = 2 * float(half_units(np.array(size), row))
            most = FLOATS[row.name][2]
            self.low = 0 if part.size == 1 else _LEAST
            self.high = math.ceil(STEPS * math.log2(2 * most / self.unit))
            return
        self.limits = (0, 1) if row.name == "BOOL" else row.limits
        wide = part.astype(np.int64)
        room = {1: self.limits[1] - int(wide.min()), -1: int(wide.max()) - self.limits[0]}
        if not room[place.sign]:
            self.place = replace(place, sign=-place.sign)
        self.low = 0
        self.high = math.ceil(STEPS * math.log2(max(room[self.place.sign], 1)))

    def size(self, number: int) -> float:
        """Return a size: in the tensor's numbers, and whole for integers."""
        size = 2.0 ** (number / STEPS)
        return self.unit * size if self.is_float else float(round(size))

    def number(self, size: float) -> int:
        """Return the number of the size that is nearest to a given one."""
        return round(STEPS * math.log2(size / self.unit)) if size > 0 else self.low

    def applied(self, number: int) -> Array:
        """Return the tensor with a change of this size; what does not fit the type is its limit."""
        result = self.array.copy()
        part = self.place.of(result)
        part[:] = self._moved(part, number)
        return result

    def _moved(self, part: Array, number: int) -> Array:
        size, sign = self.size(number), self.place.sign
        if self.row.name == "BOOL":
            return ~part
        if self.is_float:
            most = FLOATS[self.row.name][2]
            wide = part.astype(np.float64)
            moved = np.where(np.isfinite(wide), np.clip(wide + sign * size, -most, most), wide)
            return moved.astype(part.dtype)
        low, high = self.limits
        step, old = min(int(size), high), part.astype(np.int64)
        # Nothing overflows: INT64 has no wider type.
        with np.errstate(over="ignore"):
            moved = (
                np.where(old > high - step, high, old + step)
                if sign > 0
                else np.where(old < low + step, low, old - step)
            )
        return moved.astype(part.dtype)


def rms(array: Array) -> float:
    wide = array.astype(np.float64)
    wide = wide[np.isfinite(wide)]
    largest = float(np.abs(wide).max(initial=0.0))
    if largest == 0:
        return 0.0
    return largest * float(np.sqrt(np.mean(np.square(wide / largest))))


# -- A run of a program that goes on from any of its tensors with other values ---------------------

#: Codes of errors of data for which TOSA defines no result.
_UNDEFINED: Final = ("input-mismatch", "refmodel-refused")


class Rerun:
    """Run a program once, in numpy, and then parts of it again.

    The results of all operators of the main block are in files: memory holds those that differ, and the
    outputs that changes of the latest tensor led to. Raise TosaConvertError as `golden.run` does on
    numpy.
    """

    def __init__(self, graph: Graph, inputs: Arrays, folder: Path, timeout: float) -> None:
        self.graph, self.states = with_final_states(graph)
        self.block = self.graph.main
        self.timeout = timeout
        self.producers = {n: i for i, op in enumerate(self.block.operators) for n in op.outputs}
        self._last_use = {n: i for i, op in enumerate(self.block.operators) for n in op.inputs}
        self._keys = {name: name for name in self.block.outputs}
        self._keys |= {name: STATE_PREFIX + state for state, name in self.states.items()}
        has_variables = bool(variables_of(self.graph))
        self._stateful = {
            i
            for i, op in enumerate(self.block.operators)
            if op.spec in (VARIABLE_READ, VARIABLE_WRITE) or touches_variables(self.graph, op)
        }
        #: The states of variables after each operator, if there are any.
        self._after: dict[int, dict[str, Array]] = {}
        self._stored = StoredArrays(folder)
        self._given = dict(inputs)
        #: Of the tensor that was changed last: what differs on the way -> the outputs that differ.
        self._latest = ""
        self._seen: dict[_State, dict[str, Array] | None] = {}
        machine = Machine(self.graph)
        start = time.monotonic()
        for step in machine.steps(inputs, {}):
            self._refuse_late(step.where, start)
            if step.inside.path:
                continue
            if has_variables:
                self._after[step.index] = dict(machine.variables)
            if step.operator.spec not in (CONST, CONST_SHAPE):
                for key, array in step.results.items():
                    self._stored.store(key, array)
        self._machine = Machine(self.graph)

    def _refuse_late(self, where: str, start: float) -> None:
        if self.timeout and time.monotonic() - start > self.timeout:
            message = f"the run in numpy took longer than {self.timeout:g} s"
            raise fail("refmodel-timeout", where, message, "allow more time, or use smaller inputs")

    def array(self, key: str) -> Array:
        return self._given[key] if key in self._given else self._stored[key]

    def value(self, name: str) -> Value:
        if name in self._stored or name in self._given:
            scale = name + SCALE_SUFFIX
            data = self.array(name)
            is_scaled = scale in self._stored or scale in self._given
            return Scaled(data, self.array(scale)) if is_scaled else data
        return self._machine.value(self.block, {}, name)

    def results(self) -> dict[str, Array]:
        """Return the outputs and the states of variables of the first run, by key."""
        found: dict[str, Array] = {}
        for name, key in self._keys.items():
            found |= by_key(key, self.value(name))
        return found

    def changed_results(self, name: str, data: Array) -> dict[str, Array] | None:
        """Return the outputs and states that differ if a tensor has other data.

        Operators run again only if an operand differs; what comes out as before ends there. So does what
        an earlier change of this tensor also came to: many sizes become one step of a RESCALE.
        """
        if name != self._latest:
            self._latest, self._seen = name, {}
        passed: list[_State] = []
        results = self._run_on(name, data, passed)
        self._seen.update(dict.fromkeys(passed, results))
        return results

    def _run_on(self, name: str, data: Array, passed: list[_State]) -> dict[str, Array] | None:
        """Return what `changed_results` does; add what differed on the way to `passed`."""
        old = self.value(name)
        changed: dict[str, Value] = {
            name: Scaled(data, old.scale) if isinstance(old, Scaled) else data
        }
        first = self.producers[name]
        machine = Machine(self.graph, variables=dict(self._after.get(first, {})))
        start = time.monotonic()
        for index in range(first + 1, len(self.block.operators)):
            operator = self.block.operators[index]
            if index not in self._stateful and not any(n in changed for n in operator.inputs):
                continue
            path = operator_path("main", index, operator)
            self._refuse_late(path, start)
            try:
                results = self._computed(machine, index, changed, path)
            except TosaConvertError as error:
                if error.code not in _UNDEFINED:
                    raise
                return None
            for result, found in results.items():
                if not _same(found, self.value(result)):
                    changed[result] = found
            for used in {*operator.inputs, *operator.outputs}:
                if self._last_use.get(used, -1) <= index and used not in self._keys:
                    changed.pop(used, None)
            state = None if self._stateful else _state(index, changed)
            if state in self._seen:
                return self._seen[state]
            if state is not None:
                passed.append(state)
        arrays: dict[str, Array] = {}
        for result, key in self._keys.items():
            if result in changed:
                arrays |= by_key(key, changed[result])
        return arrays

    def _computed(
        self, machine: Machine, index: int, changed: Mapping[str, Value], path: str
    ) -> dict[str, Value]:
        operator = self.block.operators[index]
        operands = []
        for name in operator.inputs:
            tensor = self.block.tensors.get(name)
            if name in changed:
                operands.append(changed[name])
            elif tensor is not None and tensor.variable:
                operands.append(machine.value(self.block, {}, name))
            else:
                operands.append(self.value(name))
        if operator.spec.regions:
            return machine.control_flow(index, operator, operands)
        return machine.compute(self.block, operator, operands, path)


def _same(one: Value, other: Value) -> bool:
    """Return whether two values are equal bit for bit."""
    if isinstance(one, Scaled) and isinstance(other, Scaled):
        return _same(one.data, other.data) and _same(one.scale, other.scale)
    return np.array_equal(_bits(plain(one)), _bits(plain(other)))


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


#: The index of an operator, and the digests of the changed tensors that later operators use.
_State = tuple[int, frozenset[tuple[str, bytes]]]


def _state(index: int, changed: Mapping[str, Value]) -> _State | None:
    """Return what differs behind an operator; None of wide types, which two changes rarely share."""
    arrays = {n: value for n, value in changed.items() if not isinstance(value, Scaled)}
    if len(arrays) < len(changed) or any(a.itemsize > 1 for a in arrays.values()):
        return None
    return index, frozenset((n, blake2b(_bits(a).data).digest()) for n, a in arrays.items())
