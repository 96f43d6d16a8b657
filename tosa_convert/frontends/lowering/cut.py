"""Leaves operators that do not lower to the caller: what they give becomes arguments of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tosa_convert.builder.values import Value as ProgramValue
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import carrier, refuse_empty
from tosa_convert.frontends.process.request import Cut, CutOperator, Interface, Operand, Value


class Cutter:
    """Cuts operators out of the main block of a program."""

    def __init__(self) -> None:
        self.operators: list[CutOperator] = []
        self._given: list[Sequence[Any]] = []
        self._names: list[tuple[Sequence[str], Sequence[str]]] = []
        self._operands: list[str] = []

    def cut(
        self,
        scope: Scope,
        given: Sequence[Any],
        row: CutOperator,
        types: Sequence[tuple[Any, tuple[int, ...]]],
        names: tuple[Sequence[str], Sequence[str]] = ((), ()),
    ) -> list[Array]:
        """Return stand-ins for the results of an operator; raise NotLowered if it cannot be left out.

        given: its operands: arrays, None, numbers, texts, and lists of these.
        names: of its operands and of its results, if the model has some.
        """
        _refuse_others(given)
        made = []
        labels = _labels(row.operator, len(self.operators), len(types))
        for label, (dtype, shape) in zip(labels, types, strict=True):
            refuse_empty(shape)
            made.append(
                Array(dtype, shape, None, scope.builder.input(label, carrier(dtype), shape))
            )
        self.operators.append(row)
        self._given.append(given)
        self._names.append(names)
        return made

    def results(
        self, scope: Scope, outputs: Sequence[ProgramValue], inputs: int
    ) -> list[ProgramValue]:
        """Return the outputs of the model, and what is cut out takes. inputs: how many the model has."""
        returned = list(outputs)
        first = inputs
        for number, (row, given) in enumerate(zip(self.operators, self._given, strict=True)):
            named = self._names[number][0] or [""] * len(given)
            pairs = zip(given, named, strict=True)
            operands = [self._operand(scope, item, name, returned) for item, name in pairs]
            count = len(row.results)
            results = tuple(range(first, first + count))
            first += count
            self.operators[number] = replace(row, operands=tuple(operands), results=results)
        return returned

    def _operand(self, scope: Scope, item: Any, name: str, returned: list[ProgramValue]) -> Operand:
        """Describe an operand, which is among what the program returns if it is an array."""
        if isinstance(item, (tuple, list)):
            return Operand(items=tuple(self._operand(scope, one, "", returned) for one in item))
        if not isinstance(item, Array):
            return Operand() if item is None else Operand(literal=item)
        value = scope.whole(item)
        if all(value is not other for other in returned):
            returned.append(value)
            self._operands.append(name or f"operand.{len(self._operands)}")
        return Operand(place=next(k for k, other in enumerate(returned) if other is value))

    def add_to(self, interface: Interface) -> None:
        """Say in the interface of the program what was cut out of it."""
        if not self.operators:
            return
        inputs, outputs = len(interface.inputs), len(interface.outputs)
        for number, one in enumerate(self.operators):
            labels = _labels(one.operator, number, len(one.results))
            names = self._names[number][1] or labels
            interface.inputs += [Value(name=name) for name in names]
        interface.outputs += [Value(name=name) for name in self._operands]
        interface.cut = Cut(
            inputs=inputs, outputs=tuple(range(outputs)), operators=tuple(self.operators)
        )


def _refuse_others(given: Sequence[Any]) -> None:
    for item in given:
        if isinstance(item, Array):
            carrier(item.dtype)
        elif isinstance(item, (tuple, list)):
            _refuse_others(item)
        elif item is not None and not isinstance(item, (bool, int, float, str)):
            reason = "it takes something else than tensors, numbers, texts and lists of these"
            raise NotLowered(reason)


def _labels(operator: str, number: int, count: int) -> list[str]:
    label = f"{operator}.{number}"
    return [label] if count == 1 else [f"{label}.{n}" for n in range(count)]
