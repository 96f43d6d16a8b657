"""The operators of one lowering, and a writer of those that replace them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64, DType, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block, Operator, ShapeValue, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, AttributeValue
from tosa_convert.graph.opset import operator as operator_spec

_INT8: Final = dtype("INT8")


class OtherFormError(Exception):
    """The operators do not have the form that is replaced."""


@dataclass(slots=True)
class Group:
    """The operators of one lowering, without constants.

    result: the only value of them that others use. inputs: values of others that they use, in order;
    constants are not among them.
    """

    operators: list[Operator]
    inputs: list[str]
    result: str

    def the(self, kind: str) -> Operator:
        """Return the only operator of a kind; raise OtherFormError if there is not exactly one."""
        found = [one for one in self.operators if one.spec.name == kind]
        if len(found) != 1:
            raise OtherFormError
        return found[0]

    def making(self, name: str) -> Operator | None:
        """Return the operator that defines a value, or None."""
        return next((one for one in self.operators if name in one.outputs), None)


class Writer:
    """Adds operators of one location to a block."""

    def __init__(self, block: Block, location: str) -> None:
        self.block = block
        self.location = location
        self.operators: list[Operator] = []

    def constant(self, data: Constant, shape: tuple[int, ...]) -> str:
        name = self._name("constant")
        self.block.tensors[name] = Tensor(name, data.dtype, shape, data)
        self.operators.append(Operator(CONST, (), (name,), {}, self.location))
        return name

    def number(self, value: float, like: str) -> str:
        """Add a constant in a value's type that broadcasts to the value; return its name."""
        tensor = self.block.tensors[like]
        return self.constant(
            constant_of(np.array([value]), tensor.dtype), (1,) * len(tensor.shape or ())
        )

    def operator(
        self,
        kind: str,
        *operands: str,
        element: DType | None = None,
        result: str = "",
        attributes: dict[str, AttributeValue] | None = None,
    ) -> str:
        """Add an operator, whose shape is that of the result of a broadcast; return its result."""
        if kind == "MUL":
            operands = (*operands, self.constant(Constant(_INT8, 1, b"\0"), (1,)))
        name = result or self._name(kind.lower())
        if not result:
            tensors = [self.block.tensors[one] for one in operands[: 1 if kind == "MUL" else None]]
            ranked = operands[:1] if kind in ("NEGATE", "TABLE") else operands[:3]
            shapes = [self.block.tensors[one].shape or () for one in ranked]
            last = tensors[-1] if kind == "SELECT" else tensors[0]
            self.block.tensors[name] = Tensor(name, element or last.dtype, _broadcast(shapes))
        self.operators.append(
            Operator(operator_spec(kind), operands, (name,), attributes or {}, self.location)
        )
        return name

    def like(self, name: str) -> str:
        """Add a tensor of the type and the shape of another; return its name."""
        tensor = self.block.tensors[name]
        new = self._name("value")
        self.block.tensors[new] = Tensor(new, tensor.dtype, tensor.shape)
        return new

    def sizes(self, numbers: Sequence[int]) -> str:
        """Add a constant shape; return its name."""
        name = self._name("sizes")
        data = constant_of(np.array(numbers, np.int64), INT64)
        self.block.shapes[name] = ShapeValue(name, len(numbers), data)
        self.operators.append(Operator(CONST_SHAPE, (), (name,), {}, self.location))
        return name

    def _name(self, wanted: str) -> str:
        return unused_name(f"corrected_{wanted}", {*self.block.tensors, *self.block.shapes})


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that shapes of one rank have together; -1 is dynamic."""
    rank = max(map(len, shapes))
    return tuple(
        next((size for size in sizes if size != 1), 1)
        for sizes in zip(*(shape for shape in shapes if len(shape) == rank), strict=True)
    )


def group_of(block: Block, operators: list[Operator]) -> Group:
    defined = {name for one in operators for name in one.outputs}
    inside = {id(one) for one in operators}
    used = {
        *block.outputs,
        *(name for one in block.operators if id(one) not in inside for name in one.inputs),
    }
    results = [name for name in defined if name in used]
    if len(results) != 1:
        raise OtherFormError
    inputs = _unique(
        name
        for one in operators
        for name in one.inputs
        if name not in defined and name in block.tensors and block.tensors[name].data is None
    )
    return Group(operators, inputs, results[0])


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
