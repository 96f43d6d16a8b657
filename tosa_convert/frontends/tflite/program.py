"""A TFLite model as a TOSA program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value as ProgramValue
from tosa_convert.frontends.lowering.cut import Cutter
from tosa_convert.frontends.lowering.open_sizes import (
    Decision,
    lowered_openly,
    open_dimensions,
    refuse_other_decisions,
    trial_sizes,
)
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope
from tosa_convert.frontends.lowering.types import BOOL, carrier, refuse_empty
from tosa_convert.frontends.process.request import NotLowered as Left
from tosa_convert.frontends.process.request import options_for
from tosa_convert.frontends.read_result import with_own_outputs
from tosa_convert.frontends.tflite.node import argument, plain_of
from tosa_convert.frontends.tflite.read import DamagedError, Tensor, TfliteFile
from tosa_convert.frontends.tflite.walk import Walk
from tosa_convert.frontends.unlowered import THE_MODEL
from tosa_convert.graph.model import Graph


@dataclass(frozen=True)
class Lowered:
    """Hold the result of lowering. graph: None if an operator does not lower."""

    graph: Graph | None
    problems: Sequence[Left]
    decisions: Sequence[Decision] = ()


def lower_model(
    model: TfliteFile,
    file: str,
    shapes: Mapping[int, tuple[int, ...]],
    *,
    narrow: Collection[str] = (),
    cutter: Cutter | None = None,
) -> Lowered:
    """Lower a model; sizes of inputs that are not fixed stay open. file: the name in locations."""
    sizes: dict[int, list[Any]] = {
        number: [
            None if size < 0 else size for size in shapes.get(number, model.tensors[number].shape)
        ]
        for number in model.inputs
    }
    numbers = list(sizes)
    found = list(open_dimensions([sizes[number] for number in numbers]))
    if not found:
        return _lower(model, file, sizes, narrow, cutter)
    made = Lowered(None, [])
    try:
        # TFLite does not say which open sizes are the same: those of one axis are.
        trials = trial_sizes([(axis, is_first) for _, axis, _, is_first in found])

        def lower(trial: int) -> Graph | None:
            nonlocal made
            for position, axis, _, _ in found:
                sizes[numbers[position]][axis] = trials[axis][trial]
            before, made = made.decisions, _lower(model, file, sizes, narrow)
            if trial:
                refuse_other_decisions(before, made.decisions, "compares")
            return made.graph

        graph = lowered_openly(lower)
    except NotLowered as problem:
        named = (
            (model.input_name(one), shapes.get(one, model.tensors[one].shape))
            for one in model.inputs
        )
        hint = f"set them: {options_for(named)}"
        return Lowered(None, [Left(operator=THE_MODEL, reason=problem.reason, hint=hint)])
    return made if graph is None else Lowered(graph, [])


def _lower(
    model: TfliteFile,
    file: str,
    sizes: Mapping[int, Sequence[int]],
    narrow: Collection[str],
    cutter: Cutter | None = None,
) -> Lowered:
    builder = Builder("main")
    scope = Scope(builder, "i64" in narrow)
    walk = Walk(file, cutter)
    problems: list[Left] = []
    given: list[Array] = []
    for number in model.inputs:
        tensor = model.tensors[number]
        try:
            if tensor.is_state:
                given.append(Array(BOOL, ()))  # What takes it is refused by its name.
                continue
            given.append(argument(scope, tensor.name, tensor, tuple(sizes[number])))
        except NotLowered as problem:
            problems.append(_left("an input", model.input_name(number), problem))
    if not model.outputs:
        raise DamagedError("the TFLite file has no outputs")
    if problems:
        return Lowered(None, problems)
    try:
        results = walk.graph(scope, model, given)
    except NotLowered as problem:
        walk.problems.append(Left(operator=THE_MODEL, reason=problem.reason))
        results = []
    if walk.damage:
        raise DamagedError(walk.damage[0])
    if walk.problems:
        return Lowered(None, walk.problems)
    values = []
    for number, a in zip(model.outputs, results, strict=True):
        tensor = model.tensors[number]
        try:
            values.append(_returned(scope, a, tensor))
        except NotLowered as problem:
            problems.append(_left("a result", tensor.name, problem))
    if problems:
        return Lowered(None, problems)
    if cutter is not None:
        values = cutter.results(scope, values, len(model.inputs))
        builder.output(*values)
        return Lowered(builder.graph(), [])
    builder.output(*values)
    return Lowered(with_own_outputs(builder.graph()), [], walk.decisions)


def _left(operator: str, where: str, problem: NotLowered) -> Left:
    return Left(operator=operator, where=where, reason=problem.reason, hint=problem.advice)


def _returned(scope: Scope, a: Array, tensor: Tensor) -> ProgramValue:
    if not a.is_lowered:
        raise DamagedError(f'nothing makes the output "{tensor.name}"')
    if a.parts is not None:
        carrier(np.complex64)
    refuse_empty(a.shape)
    return scope.whole(plain_of(scope, a, tensor))
