"""A writer of the operators that replace those of a lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64, NanPropagationMode, RoundingMode, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block, Operator, ShapeValue, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, AttributeValue
from tosa_convert.graph.opset import operator as operator_spec

_INT8: Final = dtype("INT8")


class Writer:
    """Adds operators of one location to a block."""

    def __init__(self, block: Block, location: str) -> None:
        self.block = block
        self.location = location
        self.operators: list[Operator] = []

    def constant(self, data: Constant, shape: tuple[int, ...]) -> str:
        name = self.fresh_name("constant")
        self.block.tensors[name] = Tensor(name, data.dtype, shape, data)
        self.operators.append(Operator(CONST, (), (name,), {}, self.location))
        return name

    def values(self, numbers: Sequence[float], element: str, shape: tuple[int, ...] = ()) -> str:
        """Add a constant of an element type, which by default is a list; return its name."""
        data = constant_of(np.array(numbers), dtype(element))
        return self.constant(data, shape or (len(numbers),))

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
        element: str = "",
        result: str = "",
        attributes: dict[str, AttributeValue] | None = None,
    ) -> str:
        """Add an operator, whose shape is that of the result of a broadcast; return its result."""
        if kind == "MUL":
            operands = (*operands, self.constant(Constant(_INT8, 1, b"\0"), (1,)))
        name = result or self.fresh_name(kind.lower())
        if not result:
            tensors = [self.block.tensors[one] for one in operands[: 1 if kind == "MUL" else None]]
            ranked = operands[:1] if kind in ("NEGATE", "TABLE") else operands[:3]
            shapes = [self.block.tensors[one].shape or () for one in ranked]
            last = tensors[-1] if kind == "SELECT" else tensors[0]
            self.block.tensors[name] = Tensor(
                name, dtype(element) if element else last.dtype, _broadcast(shapes)
            )
        self.operators.append(
            Operator(operator_spec(kind), operands, (name,), attributes or {}, self.location)
        )
        return name

    def rounding(
        self, rescale: Operator, mode: str, inputs: Sequence[str], **attributes: bool
    ) -> Operator:
        """Return a RESCALE with another way of rounding, and other operands and attributes."""
        changed = {**rescale.attributes, "rounding_mode": RoundingMode[mode], **attributes}
        return replace(rescale, inputs=tuple(inputs), attributes=changed)

    def between(self, value: str, low: float, high: float) -> str:
        """Add bounds to a value; return the result."""
        mode: dict[str, AttributeValue] = {"nan_mode": NanPropagationMode.PROPAGATE}
        least, most = self.number(low, value), self.number(high, value)
        above = self.operator("MAXIMUM", value, least, attributes=dict(mode))
        return self.operator("MINIMUM", above, most, attributes=dict(mode))

    def like(self, name: str, element: str = "") -> str:
        """Add a tensor of the type and the shape of another, or of another type; return its name."""
        tensor = self.block.tensors[name]
        new = self.fresh_name("value")
        own = dtype(element) if element else tensor.dtype
        self.block.tensors[new] = Tensor(new, own, tensor.shape)
        return new

    def sizes(self, numbers: Sequence[int]) -> str:
        """Add a constant shape; return its name."""
        name = self.fresh_name("sizes")
        data = constant_of(np.array(numbers, np.int64), INT64)
        self.block.shapes[name] = ShapeValue(name, len(numbers), data)
        self.operators.append(Operator(CONST_SHAPE, (), (name,), {}, self.location))
        return name

    def fresh_name(self, wanted: str) -> str:
        return unused_name(f"corrected_{wanted}", {*self.block.tensors, *self.block.shapes})


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that shapes of one rank have together; -1 is dynamic."""
    rank = max(map(len, shapes))
    return tuple(
        next((size for size in sizes if size != 1), 1)
        for sizes in zip(*(shape for shape in shapes if len(shape) == rank), strict=True)
    )
