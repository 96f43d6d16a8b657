"""One program of those that a converter wrote in files of their own, as ExecuTorch's delegates are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.formats.read import open_input, read
from tosa_convert.frontends.process.request import CONSTANTS_FILE, Part, Value, Whole
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import DTYPES, DType, dtype
from tosa_convert.graph.model import Block, Graph, Operator, Region, ShapeValue, Tensor, Version
from tosa_convert.graph.opset import CONST
from tosa_convert.io.options import ReadOptions

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
    """The main block of the whole, to which parts are added in their order."""

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
