"""Programs of which some operators do not lower: as several programs, and joined into one."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.read import open_input, read
from tosa_convert.frontends.process.request import (
    CONSTANTS_FILE,
    Cut,
    CutOperator,
    Operand,
    Part,
    Value,
    Whole,
)
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.derived import extract_from, unused_name
from tosa_convert.graph.dtypes import DTYPES, DType, dtype
from tosa_convert.graph.model import Block, Graph, Operator, Region, ShapeValue, Tensor, Version
from tosa_convert.graph.opset import CONST
from tosa_convert.io.options import ReadOptions

#: The version of the JSON that `Parts.interface` makes.
INTERFACE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Argument:
    """What an operator takes: a value by its name, a list of these, or something fixed."""

    value: str = ""
    items: tuple[Argument, ...] | None = None
    literal: Any = None

    def as_json(self, constants: Container[str]) -> dict[str, Any]:
        """Return the argument for the interface. constants: the values that the model fixes."""
        if self.value:
            return {"constant" if self.value in constants else "value": self.value}
        if self.items is not None:
            return {"list": [item.as_json(constants) for item in self.items]}
        return {"literal": self.literal}


@dataclass(frozen=True, slots=True, eq=False)
class ProgramStep:
    """A program. Its inputs and outputs are called what the values between the steps are called."""

    graph: Graph


@dataclass(frozen=True, slots=True)
class OperatorStep:
    """An operator that does not lower: `arguments` in its order, and the names of its results."""

    operator: str
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    where: str
    attributes: dict[str, Any]
    reason: str
    hint: str


Step = ProgramStep | OperatorStep


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A model in parts.

    inputs, outputs: the names of the model's inputs and outputs.
    values: every value that is an input or an output of a step: its type.
    constants: operands of operators that the model fixes, by name.
    steps: in an order in which they can be run.
    """

    inputs: list[str]
    outputs: list[str]
    values: dict[str, Tensor]
    constants: dict[str, npt.NDArray[Any]]
    steps: list[Step]

    @property
    def programs(self) -> list[Graph]:
        return [step.graph for step in self.steps if isinstance(step, ProgramStep)]

    @property
    def operators(self) -> list[OperatorStep]:
        return [step for step in self.steps if isinstance(step, OperatorStep)]

    def interface(self, files: Sequence[str], constants: str | None, source: str) -> dict[str, Any]:
        """Return what has to be known to run the parts, for a JSON file."""
        names = iter(files)
        steps = [
            {
                "program": next(names),
                "inputs": list(step.graph.main.inputs),
                "outputs": list(step.graph.main.outputs),
            }
            if isinstance(step, ProgramStep)
            else {
                "operator": step.operator,
                "arguments": [argument.as_json(self.constants) for argument in step.arguments],
                "results": list(step.results),
                "attributes": step.attributes,
                "where": step.where,
                "reason": step.reason,
                "hint": step.hint,
            }
            for step in self.steps
        ]
        values = {
            name: {"dtype": tensor.dtype.name, "shape": list(tensor.shape or ())}
            for name, tensor in self.values.items()
        }
        return {
            "version": INTERFACE_VERSION,
            "model": source,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "constants": constants,
            "values": values,
            "steps": steps,
        }


def parts_of(graph: Graph, cut: Cut, source: str) -> Parts:
    """Return the parts of a program; values are computed early, so that there are few programs."""
    _refuse_states(graph, cut, source)
    return _Partition(graph, cut).parts()


def _refuse_states(graph: Graph, cut: Cut, source: str) -> None:
    states = [t.variable_name for t in graph.main.tensors.values() if t.variable]
    if states:
        raise TosaConvertError(
            [
                Finding(
                    "not-lowered",
                    f"{source}: {one.where}" if one.where else source,
                    f"{one.operator} cannot be cut out: the program has the states"
                    f" {', '.join(states)}, which several programs cannot share",
                    one.hint,
                )
                for one in cut.operators
            ]
        )


class _Partition:
    """Finds the stage of each operator, and makes a program of each stage.

    A cut operator of stage n runs after the program n and before the program n + 1.
    """

    def __init__(self, graph: Graph, cut: Cut) -> None:
        main = graph.main
        self.graph = graph
        self.given = main.inputs[: cut.inputs]
        self.outputs = list(map(self._value, cut.outputs))
        self.constants = {one.outputs[0] for one in main.operators if one.spec is CONST}
        #: Tensor -> the first stage whose program can use it.
        self.ready = dict.fromkeys(self.given, 0)
        #: Tensor -> the stage whose program computes it.
        self.made: dict[str, int] = {}
        #: The cut operators with their stages, in an order in which they can run.
        self.cut: list[tuple[int, OperatorStep]] = []
        self._find_stages([self._step(one) for one in cut.operators])

    def _step(self, one: CutOperator) -> OperatorStep:
        return OperatorStep(
            one.operator,
            tuple(map(self._argument, one.operands)),
            tuple(self.graph.main.inputs[place] for place in one.results),
            one.where,
            dict(one.attributes),
            one.reason,
            one.hint,
        )

    def _argument(self, operand: Operand) -> Argument:
        if operand.items is not None:
            return Argument(items=tuple(map(self._argument, operand.items)))
        if operand.place is None:
            return Argument(literal=operand.literal)
        return Argument(self._value(operand.place))

    def _value(self, place: int) -> str:
        main = self.graph.main
        return main.inputs[-1 - place] if place < 0 else main.outputs[place]

    def _find_stages(self, waiting: list[OperatorStep]) -> None:
        pending = list(self.graph.main.operators)
        while pending or waiting:
            rest = []
            for operator in pending:
                if self._is_open(operator.inputs):
                    rest.append(operator)
                    continue
                known = [self.ready[name] for name in operator.inputs if name in self.ready]
                self.made.update(dict.fromkeys(operator.outputs, max(known, default=0)))
                self.ready.update(dict.fromkeys(operator.outputs, max(known, default=0)))
            next_ones = [one for one in waiting if not self._is_open(_names(one))]
            for one in next_ones:
                # What another cut operator gives is known before the next program.
                known = [self.made.get(name, self.ready[name] - 1) for name in _names(one)]
                stage = max((0, *known))
                self.cut.append((stage, one))
                self.ready.update(dict.fromkeys(one.results, stage + 1))
            assert next_ones or len(rest) < len(pending), "an operator depends on itself"
            waiting = [one for one in waiting if one not in next_ones]
            pending = rest
        self.cut.sort(key=lambda pair: pair[0])  # Stable: the order within a stage stays.

    def _is_open(self, names: Iterable[str]) -> bool:
        """Return whether one of the names is a tensor that nothing has computed yet."""
        tensors = self.graph.main.tensors
        return any(name in tensors and name not in self.ready for name in names)

    def parts(self) -> Parts:
        taken = {name for _, one in self.cut for name in _names(one)}
        fixed = taken & self.constants - set(self.outputs)
        programs = self._programs({*self.outputs, *taken} - fixed)
        steps: list[Step] = []
        for stage in range(max((0, *self.ready.values())) + 1):
            if stage in programs:
                steps.append(ProgramStep(programs[stage]))
            steps += [one for at, one in self.cut if at == stage]
        tensors = self.graph.main.tensors
        names = dict.fromkeys((*self.given, *self.outputs, *_between(steps)))
        return Parts(
            self.given,
            self.outputs,
            {name: replace(tensors[name], data=None) for name in names if name not in fixed},
            {name: _array(tensors[name]) for name in names if name in fixed},
            steps,
        )

    def _programs(self, wanted: set[str]) -> dict[int, Graph]:
        """Map a stage to its program, which computes what is wanted and what later programs take."""
        programs: dict[int, Graph] = {}
        for stage in range(max((0, *self.made.values())), -1, -1):
            outputs = [n for n, at in self.made.items() if at == stage and n in wanted]
            if not outputs:
                continue
            known = [
                name
                for name, at in self.ready.items()
                if self.made.get(name, -1) < stage and at <= stage and name not in self.constants
            ]
            programs[stage] = extract_from(self.graph, outputs, known)
            wanted.update(programs[stage].main.inputs)
        return programs


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    assert tensor.data is not None
    return tensor.data.numpy().reshape(tensor.shape or ())


def _between(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, ProgramStep):
            yield from (*step.graph.main.inputs, *step.graph.main.outputs)
        else:
            yield from (*_names(step), *step.results)


def _names(step: OperatorStep) -> list[str]:
    found: list[str] = []
    pending = list(reversed(step.arguments))
    while pending:
        argument = pending.pop()
        pending += reversed(argument.items or ())
        if argument.value:
            found.append(argument.value)
    return found


_MAIN: Final = "main"
#: Element types of frameworks that TOSA has without a sign, or that several of its types are in numpy.
_ELEMENTS: Final[Mapping[str, str]] = {
    **{f"uint{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    "int64": "INT64",
}


def joined(whole: Whole, folder: Path, options: ReadOptions, frontend: str) -> Graph:
    graphs = [
        read(open_input(folder / part.file, options, where=part.file), options)
        for part in whole.parts
    ]
    if len(graphs) > 1 and any(len(graph.regions) > 1 for graph in graphs):
        message = "one of several parts has control flow, and its regions cannot be joined"
        raise fail("frontend-failed", frontend, message, "convert the model without --partial")
    joining = _Joining(whole, frontend)
    joining.add_constants(folder)
    for part, graph in zip(whole.parts, graphs, strict=True):
        joining.add(part, graph.main)
    others = [region for graph in graphs for region in graph.regions[1:]]
    version = max((graph.version for graph in graphs), default=Version(1, 0))
    return Graph(version, [Region(_MAIN, [joining.block()]), *others])


class _Joining:
    """Build the main block of the whole: parts are added in their order."""

    def __init__(self, whole: Whole, frontend: str) -> None:
        self.whole, self.frontend = whole, frontend
        self.types = {value.name: value for value in whole.values}
        #: Value of the whole -> the tensor that it is.
        self.tensor_of: dict[str, str] = {}
        self.tensors: dict[str, Tensor] = {}
        self.shapes: dict[str, ShapeValue] = {}
        self.operators: list[Operator] = []
        for name in whole.inputs:
            self._give(name, self._argument(self.types[name]))

    def add_constants(self, folder: Path) -> None:
        """Add what the operators that stay in the framework take and the model fixes."""
        if not self.whole.constants:
            return
        with np.load(folder / CONSTANTS_FILE, allow_pickle=False) as stored:
            for name, key in self.whole.constants.items():
                array: Any = stored[key]
                element = self._element(self.types[name])
                if array.dtype.kind == "V" and array.dtype.itemsize == element.numpy.itemsize:
                    array = array.view(element.numpy)
                data = _constant(array, element)
                self._give(name, Tensor(name, element, array.shape, data))
                self.operators.append(Operator(CONST, (), (self.tensor_of[name],), {}))

    def add(self, part: Part, block: Block) -> None:
        for what, given, found in (
            ("inputs", part.inputs, block.inputs),
            ("outputs", part.outputs, block.outputs),
        ):
            if len(given) != len(found):
                message = f"{part.file} has {len(found)} {what}, expected {len(given)}"
                raise fail("frontend-failed", self.frontend, message, "please report it")
        renamed = {}
        for name, value in zip(block.inputs, part.inputs, strict=True):
            self._refuse_other_type(part, value, block.tensors[name])
            renamed[name] = self.tensor_of[value]
        taken = {*self.types, *self.tensors, *self.shapes}
        for name, value in zip(block.outputs, part.outputs, strict=True):
            if name not in renamed:
                renamed[name] = value
            self.tensor_of[value] = renamed[name]
        for name in (*block.tensors, *block.shapes):
            if name not in renamed:
                renamed[name] = unused_name(name, taken)
                taken.add(renamed[name])
        inputs = set(block.inputs)
        for name, tensor in block.tensors.items():
            if name not in inputs:
                self.tensors[renamed[name]] = replace(tensor, name=renamed[name])
        for name, shape in block.shapes.items():
            self.shapes[renamed[name]] = replace(shape, name=renamed[name])
        self.operators += [
            replace(
                one,
                inputs=tuple(renamed.get(name, name) for name in one.inputs),
                outputs=tuple(renamed.get(name, name) for name in one.outputs),
            )
            for one in block.operators
        ]

    def block(self) -> Block:
        return Block(
            name=_MAIN,
            inputs=[self.tensor_of[name] for name in self.whole.inputs],
            outputs=[self.tensor_of[name] for name in self.whole.outputs],
            operators=self.operators,
            tensors=self.tensors,
            shapes=self.shapes,
        )

    def _give(self, value: str, tensor: Tensor) -> None:
        self.tensor_of[value] = tensor.name
        self.tensors[tensor.name] = tensor

    def _argument(self, value: Value) -> Tensor:
        return Tensor(value.name, self._element(value), value.shape)

    def _element(self, value: Value) -> DType:
        by_numpy = (row for row in DTYPES if row.numpy_name == value.dtype)
        name = _ELEMENTS.get(value.dtype)
        found = dtype(name) if name else next(by_numpy, None)
        if found is None:
            message = f"{value.name} has the type {value.dtype}, which TOSA does not have"
            raise fail("unsupported-dtype", value.name, message, "convert it before the program")
        return found

    def _refuse_other_type(self, part: Part, value: str, found: Tensor) -> None:
        """Refuse a part that takes a value as something else than what it is."""
        given = self.tensors[self.tensor_of[value]]
        if (given.dtype, given.shape) != (found.dtype, found.shape):
            message = f"{part.file} takes {value} as {found.type_text()}, it is {given.type_text()}"
            hint = "give example arguments in the usual layout of memory (contiguous)"
            raise fail("frontend-failed", self.frontend, message, hint)


def _constant(array: Any, element: DType) -> Constant:
    if array.dtype.kind == "u":
        array = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}")
    return constant_of(array, element)
