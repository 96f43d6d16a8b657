"""Goes through the subgraphs of a TFLite model, operator by operator, and lowers each by its rule."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.lowering.cut import Cutter
from tosa_convert.frontends.lowering.open_sizes import Decision
from tosa_convert.frontends.lowering.scope import Array, Data, NotLowered, Scope, whole_data
from tosa_convert.frontends.process.request import CutOperator
from tosa_convert.frontends.process.request import NotLowered as Left
from tosa_convert.frontends.tflite.node import (
    Node,
    Stop,
    argument,
    as_held,
    element_of,
    is_shifted,
    plain_of,
    raw_of,
)
from tosa_convert.frontends.tflite.read import (
    DamagedError,
    Operator,
    Tensor,
    TfliteFile,
    operator_name,
)
from tosa_convert.frontends.tflite.table import DECIDING, OF_SPECTRA, RULES, custom
from tosa_convert.frontends.tflite.unlowered import refusal_of_unmade
from tosa_convert.frontends.unlowered import advice, place_text
from tosa_convert.graph.constant import sign_extend, unpack
from tosa_convert.io.flatbuffer_tables import FlatbufferError

#: Calls of subgraphs inside of one another; TFLite models have few.
_DEEPEST: Final = 32
_REPORT: Final = "if TFLite runs the model, please report it"
_PARTS: Final = "take the real and imaginary parts"
_INSIDE: Final = "it is inside a loop or a branch, out of which nothing can be cut"


class Walk:
    """Lowers subgraphs, and collects what does not lower.

    file: the name that locations have. cutter: takes operators of the main subgraph out of it.
    damage: of operators that have other operands than those of TFLite.
    """

    def __init__(self, file: str, cutter: Cutter | None = None) -> None:
        self.file = file
        self.cutter = cutter
        self.problems: list[Left] = []
        self.damage: list[str] = []
        self.decisions: list[Decision] = []
        self.variables: dict[str, Any] = {}
        self.padded: list[tuple[Array, Array, list[tuple[int, int]]]] = []
        self._place = ""
        self._depth = 0
        self._constants: dict[int, Array] = {}

    def graph(self, scope: Scope, part: TfliteFile, given: Sequence[Array]) -> list[Array]:
        """Return the results of a subgraph; those that did not lower are arrays without a value."""
        if self._depth >= _DEEPEST:
            raise NotLowered("its subgraphs call one another")
        values: dict[int, Array] = dict(zip(part.inputs, given, strict=True))
        self._depth += 1
        try:
            for operator in part.operators:
                self._operator(scope, part, operator, values)
        finally:
            self._depth -= 1
        return [
            self._read(part, one, values) or _unknown(part.tensors[one]) for one in part.outputs
        ]

    def _read(self, part: TfliteFile, number: int, values: Mapping[int, Array]) -> Array | None:
        """Return the value of a tensor; None if it was not lowered."""
        if number in values:
            return values[number]
        tensor = part.tensors[number]
        if tensor.is_state or not (len(tensor.data) or 0 in tensor.shape):
            return None
        key = id(tensor)
        if key not in self._constants:
            self._constants[key] = constant_of(tensor)
        return self._constants[key]

    def _operator(
        self, scope: Scope, part: TfliteFile, operator: Operator, values: dict[int, Array]
    ) -> None:
        made = [part.tensors[one] for one in operator.outputs]
        kind = operator.custom or operator_name(operator.code)
        self._place = place_text(operator.index, *(one.name for one in made))
        named = next((part.tensors[one].name for one in (*operator.outputs, *operator.inputs)), "")
        scope.builder.location = location(named, self.file)
        try:
            found = self._lowered(scope, part, operator, kind, values)
        except FlatbufferError:
            raise
        except Stop:
            found = []
        except NotLowered as problem:
            found = self._left(scope, part, operator, values, problem.reason, problem.advice)
        except TosaConvertError as error:
            first = error.findings[0]
            what = f"it would become what TOSA forbids: {first.message}"
            found = self._left(scope, part, operator, values, what, first.hint)
        except (
            *(LookupError, ValueError, TypeError, ArithmeticError, AssertionError),
            *(struct.error, MemoryError),
        ):
            tensors = (part.tensors[one] for one in operator.inputs if one >= 0)
            types = ", ".join(dict.fromkeys(one.dtype for one in tensors)) or "nothing"
            what = f"{kind} of {types} does not have the operands or options that it has in TFLite"
            self.damage.append(f"{self._place}: {what}; {_REPORT}")
            found = []
        values.update(zip(operator.outputs, found, strict=False))

    def _lowered(
        self,
        scope: Scope,
        part: TfliteFile,
        operator: Operator,
        kind: str,
        values: Mapping[int, Array],
    ) -> Sequence[Array]:
        rule = custom if operator.custom else RULES.get(kind)
        given: list[Array | None] = []
        for number in operator.inputs:
            if number < 0 or part.tensors[number].is_state:
                given.append(None)
                continue
            value = self._read(part, number, values)
            if value is None:
                maker = _maker(part, number)
                if maker is None:
                    _refuse_unmade(operator, part.tensors[number])
                elif maker.index >= operator.index:
                    what = f'{kind} takes "{part.tensors[number].name}", which is made after it'
                    raise DamagedError(f"{self._place}: {what}; the model is damaged")
                if rule is None:
                    break  # It is named, too.
                return []
            given.append(value)
        if rule is None:
            raise NotLowered("")
        if kind not in OF_SPECTRA and any(a is not None and a.parts for a in given):
            raise NotLowered("TOSA does not have complex numbers", _PARTS)
        node = Node(
            scope,
            kind,
            operator,
            part,
            [part.tensors[one] if one >= 0 else None for one in operator.inputs],
            given,
            [part.tensors[one] for one in operator.outputs],
            self,
        )
        if kind in DECIDING and all(a.is_constant for a in node.arrays):
            # Where these numbers differ, so may the program.
            operands = b"".join(whole_data(a).tobytes() for a in node.arrays)
            self.decisions.append(Decision(kind, self._place, operands))
        found = rule(node)
        if found is None:
            return []
        results = [found] if isinstance(found, Array) else list(found)
        return [
            self._fitting(scope, one, tensor)
            for one, tensor in zip(results, node.results, strict=True)
        ]

    def _fitting(self, scope: Scope, made: Array, tensor: Tensor) -> Array:
        made = as_held(scope, made, tensor)
        if made.dtype != element_of(tensor):
            raise ValueError(f'it makes {made.dtype}, and "{tensor.name}" is {tensor.dtype}')
        return made

    def _left(
        self,
        scope: Scope,
        part: TfliteFile,
        operator: Operator,
        values: Mapping[int, Array],
        reason: str,
        hint: str,
    ) -> Sequence[Array]:
        """Note an operator that does not lower, or cut it out; return what stands for its results."""
        kind = operator.custom or operator_name(operator.code)
        is_main = self._depth == 1
        left = Left(
            operator=kind,
            where=self._place,
            reason=reason,
            hint=hint,
            index=operator.index if is_main else None,
        )
        if self.cutter is not None:
            try:
                if not is_main:
                    raise NotLowered(_INSIDE)
                return self._cut(scope, part, operator, values, left)
            except NotLowered as problem:
                words = f"it cannot be cut out: {problem.reason}"
                left = replace(left, reason=f"{reason}; {words}" if reason else words)
        self.problems.append(left)
        return self._stand_ins(scope, part, operator) if is_main else []

    def _stand_ins(self, scope: Scope, part: TfliteFile, operator: Operator) -> list[Array]:
        """Return arguments for the results of an operator, so that what follows it is tried, too."""
        made = []
        with suppress(NotLowered, TosaConvertError):
            for place, number in enumerate(operator.outputs):
                tensor = part.tensors[number]
                _refuse_open(tensor)
                name = f"unlowered.{operator.index}.{place}"
                made.append(argument(scope, name, tensor, tensor.shape))
        return made

    def _cut(
        self,
        scope: Scope,
        part: TfliteFile,
        operator: Operator,
        values: Mapping[int, Array],
        left: Left,
    ) -> list[Array]:
        assert self.cutter is not None
        given = []
        for number in operator.inputs:
            tensor = None if number < 0 else part.tensors[number]
            if tensor is not None and tensor.is_state:
                raise NotLowered("it has a state")
            value = None if tensor is None else self._read(part, number, values)
            if tensor is not None and value is None:
                raise NotLowered(f'nothing makes "{tensor.name}"')
            given.append(value)
        results = [part.tensors[one] for one in operator.outputs if not part.tensors[one].is_state]
        for one in results:
            _refuse_open(one)
        types = [(raw_of(one), one.shape) for one in results]
        row = CutOperator(
            operator=left.operator,
            where=left.where,
            results=tuple(range(len(results))),
            attributes={"index": operator.index},
            reason=left.reason,
            hint=left.hint or advice("tflite", left.operator),
        )
        raw = [
            None if a is None else plain_of(scope, a, part.tensors[number])
            for a, number in zip(given, operator.inputs, strict=True)
        ]
        named = (
            [part.tensors[one].name if one >= 0 else "" for one in operator.inputs],
            [part.output_name(one) for one in operator.outputs if not part.tensors[one].is_state],
        )
        made = self.cutter.cut(scope, raw, row, types, named)
        return [as_held(scope, a, one) for a, one in zip(made, results, strict=True)]


def location(name: str, file: str) -> str:
    is_plain = name.isprintable() and not {'"', "\\"} & set(name)
    return f'loc("{name}"("{file}":0:0))' if is_plain else ""


def constant_of(tensor: Tensor) -> Array:
    """Return the elements of a constant as they are held: views of the file where they can be."""
    dtype = element_of(tensor)
    if tensor.is_sparse:
        raise NotLowered(f'the constant "{tensor.name}" is stored as a sparse one', "densify it")
    count = math.prod(tensor.shape)
    if tensor.dtype == "int4":
        data: Data = sign_extend(unpack(np.frombuffer(tensor.data, np.uint8), 4, count), 4)
    else:
        data = np.frombuffer(tensor.data, raw_of(tensor))
    if is_shifted(tensor):
        data = (data.astype(np.int16) - 128).astype(np.int8)
    return Array(dtype, tensor.shape, data.reshape(tensor.shape))


def _refuse_open(tensor: Tensor) -> None:
    if min(tensor.shape, default=0) < 0:
        raise NotLowered(f'the model leaves the sizes of "{tensor.name}" open')


def _unknown(tensor: Tensor) -> Array:
    return Array(np.dtype(np.float32), tensor.shape)


def _maker(part: TfliteFile, number: int) -> Operator | None:
    return next((one for one in part.operators if number in one.outputs), None)


def _refuse_unmade(operator: Operator, tensor: Tensor) -> None:
    """Refuse a tensor without data that nothing makes, such as scratch of custom operators."""
    if not operator.custom:
        raise ValueError("an operand is made by nothing")
    raise NotLowered(*refusal_of_unmade(operator, tensor.name))
