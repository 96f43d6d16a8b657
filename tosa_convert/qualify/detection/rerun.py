"""A run of a program that goes on from any of its tensors with other values."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays.by_name import Array, write_scratch
from tosa_convert.golden.running.programs import STATE_PREFIX, variables_of, with_final_states
from tosa_convert.graph.derived import touches_variables
from tosa_convert.graph.model import Graph, Operator, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.reference.block_scaled import SCALE_SUFFIX, Scaled, Value, by_key, plain
from tosa_convert.reference.evaluate import Machine

#: Codes of errors of data for which TOSA defines no result.
_UNDEFINED: Final = ("input-mismatch", "refmodel-refused")


class Rerun:
    """Runs a program once, in numpy, and then parts of it again.

    The results of all operators of the main block are in files: memory holds those that differ, and the
    outputs that changes of the latest tensor led to.
    """

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], folder: Path, timeout: float
    ) -> None:
        """Raise TosaConvertError as `golden.run` does on numpy."""
        self.graph, self.states = with_final_states(graph)
        self.block = self.graph.main
        self.timeout = timeout
        self.producers = {n: i for i, op in enumerate(self.block.operators) for n in op.outputs}
        self._last_use = {n: i for i, op in enumerate(self.block.operators) for n in op.inputs}
        self._keys = {name: name for name in self.block.outputs}
        self._keys |= {name: STATE_PREFIX + state for state, name in self.states.items()}
        has_variables = bool(variables_of(self.graph))
        self._stateful = {
            i for i, op in enumerate(self.block.operators) if has_variables and self._uses_state(op)
        }
        #: The states of variables after each operator, if there are any.
        self._after: dict[int, dict[str, Array]] = {}
        self._files: dict[str, tuple[Path, np.dtype[np.generic], tuple[int, ...]]] = {}
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
                    self._store(folder, key, array)
        self._machine = Machine(self.graph)

    def _uses_state(self, operator: Operator) -> bool:
        if operator.spec is VARIABLE_READ or operator.spec is VARIABLE_WRITE:
            return True
        return bool(operator.spec.regions) and touches_variables(self.graph, operator)

    def _refuse_late(self, where: str, start: float) -> None:
        if self.timeout and time.monotonic() - start > self.timeout:
            message = f"the run in numpy took longer than {self.timeout:g} s"
            raise fail("refmodel-timeout", where, message, "allow more time, or use smaller inputs")

    def _store(self, folder: Path, key: str, array: Array) -> None:
        path = folder / str(len(self._files))
        write_scratch(path, [_bits(array).data])
        self._files[key] = path, array.dtype, array.shape

    def array(self, key: str) -> Array:
        """Return an array of the first run: of an input, or of an operator's result."""
        if key in self._given:
            return self._given[key]
        path, kind, shape = self._files[key]
        return np.fromfile(path, np.uint8).view(kind).reshape(shape)

    def value(self, name: str) -> Value:
        """Return the value of a tensor or shape in the first run."""
        if name in self._files or name in self._given:
            scale = name + SCALE_SUFFIX
            data = self.array(name)
            is_scaled = scale in self._files or scale in self._given
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

        Operators run again only if an operand differs; what comes out as before ends there. So does
        what an earlier change of this tensor also came to: many sizes become one step of a RESCALE.
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
        """Compute an operator of the main block, with changed operands where there are any."""
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


#: An operator, and a digest of what differs behind it, by name.
_State = tuple[int, frozenset[tuple[str, bytes]]]


def _state(index: int, changed: Mapping[str, Value]) -> _State | None:
    """Return what differs behind an operator; None of wide types, which two changes rarely share."""
    arrays = {n: value for n, value in changed.items() if not isinstance(value, Scaled)}
    if len(arrays) < len(changed) or any(a.itemsize > 1 for a in arrays.values()):
        return None
    return index, frozenset((n, blake2b(_bits(a).data).digest()) for n, a in arrays.items())
