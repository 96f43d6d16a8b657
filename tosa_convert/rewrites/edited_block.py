"""A block while operator rewrites go through it: what is known of its values, and new ones."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64, DType, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block, Operator, ShapeValue, Tensor, element_value
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, AttributeValue, OperatorSpec, operator

_INT8: Final = dtype("INT8")


#: The largest buffer that is read to compare elements, in bytes.
_MOST_COMPARED: Final = 1 << 16
#: Larger constants are equal only if they share memory.
_SMALL_BYTES: Final = 1 << 8


@dataclass(slots=True)
class Replacement:
    """What a rule puts in the place of an operator.

    what: what the rule did, for the report.
    operators: the operators in its place; they define its results, except those in `same`.
    same: its results that are equal to values that the block has already.
    """

    what: str
    operators: list[Operator] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)


class EditedBlock:
    """A block whose operators are visited in order.

    block: the block as it was given; it does not change. kinds: the operators that it has.
    tensors, shapes: its values and the new ones.
    operators: those that were visited, or that replaced visited ones.
    producers: name of a value -> the operator among `operators` that defines it.
    """

    def __init__(self, block: Block, kinds: frozenset[OperatorSpec]) -> None:
        self.block = block
        self.kinds = kinds
        self.tensors = dict(block.tensors)
        self.shapes = dict(block.shapes)
        self.operators: list[Operator] = []
        self.producers: dict[str, Operator] = {}
        self.results = frozenset(block.outputs)
        #: A value that operators no longer use -> the equal value that they use instead.
        self.same: dict[str, str] = {}
        #: A value -> the result of the block that is equal to it, whose name it takes in the end.
        self.renamed: dict[str, str] = {}
        #: `constant_key` of a constant, or the sizes of a constant shape -> the first one that has it.
        self.constants: dict[object, str] = {}
        self._uniform: dict[str, bytes | None] = {}
        self._taken = ChainMap[str, Any](self.tensors, self.shapes)
        self._numbers: dict[str, int] = {}

    # -- what is known ---------------------------------------------------------------------------

    def constant(self, name: str) -> Constant | None:
        """Return the data of a tensor that a CONST defines; None for any other tensor."""
        producer = self.producers.get(name)
        if producer is None or producer.spec is not CONST:
            return None
        tensor = self.tensors[name]
        return tensor.data if tensor.scale is None else None

    def uniform_bits(self, name: str) -> bytes | None:
        """Return the bytes of each element of a constant.

        None if they differ or are too many to read.
        """
        if name not in self._uniform:
            data = self.constant(name)
            self._uniform[name] = None if data is None else _uniform_bits(data)
        return self._uniform[name]

    def uniform(self, name: str) -> bool | int | float | None:
        """Return the value that all elements of a constant have; None as for `uniform_bits`."""
        bits = self.uniform_bits(name)
        if bits is None:
            return None
        return element_value(bits, self.tensors[name].dtype)

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """Return the sizes of a shape that a CONST_SHAPE defines; None for any other shape."""
        producer = self.producers.get(name)
        if producer is None or producer.spec is not CONST_SHAPE:
            return None
        return self.shapes[name].values()

    # -- new values ------------------------------------------------------------------------------

    def new_tensor(self, wanted: str, element: DType, shape: tuple[int, ...] | None) -> str:
        """Add a tensor and return its name, `wanted` or a similar one. An operator has to define it."""
        name = unused_name(wanted, self._taken, numbers=self._numbers)
        self.tensors[name] = Tensor(name, element, shape)
        return name

    def new_constant(
        self, wanted: str, data: Constant, shape: tuple[int, ...], location: str = ""
    ) -> str:
        """Return the name of an equal constant, or of a new one before the operator that is visited."""
        key = constant_key(Tensor("", data.dtype, shape, data))
        if key not in self.constants:
            name = self.constants[key] = self.new_tensor(wanted, data.dtype, shape)
            self.tensors[name].data = data
            self.add(Operator(CONST, (), (name,), {}, location))
        return self.constants[key]

    def new_number(
        self, wanted: str, number: float, element: DType, rank: int, location: str = ""
    ) -> str:
        """Return the name of a constant of one element, which broadcasts to any shape of a rank."""
        data = constant_of(np.array([number]), element)
        return self.new_constant(wanted, data, (1,) * rank, location)

    def new_shape(self, wanted: str, sizes: Sequence[int], location: str = "") -> str:
        """Return the name of a constant shape: an equal one, or a new one."""
        key = tuple(sizes)
        if key not in self.constants:
            name = unused_name(wanted, self._taken, numbers=self._numbers)
            data = constant_of(np.array(sizes, np.int64), INT64)
            self.shapes[name] = ShapeValue(name, len(sizes), data)
            self.add(Operator(CONST_SHAPE, (), (name,), {}, location))
            self.constants[key] = name
        return self.constants[key]

    def zero_shift(self) -> str:
        """Return the name of the constant shift 0 that MUL takes."""
        return self.new_constant("mul_shift", Constant(_INT8, 1, b"\0"), (1,))

    def unary(self, op: Operator, kind: str, operand: str, result: str = "") -> Operator:
        """Make an operator of one operand with the location of `op`; see `made`."""
        return self.made(op, kind, (operand,), result)

    def made(
        self,
        op: Operator,
        kind: str,
        operands: tuple[str, ...],
        result: str = "",
        *,
        element: DType | None = None,
        shape: tuple[int, ...] | None = None,
        attributes: dict[str, AttributeValue] | None = None,
    ) -> Operator:
        """Make an operator that computes a part of what `op` computes, with its location.

        Args:
            op: the operator that is replaced.
            kind: the name of the new one.
            operands: its operands.
            result: the name of its result; by default a new tensor, named after the result of `op`.
            element: the type of a new tensor; by default that of the first operand.
            shape: the shape of a new tensor; by default that of the first operand.
            attributes: its attributes.
        """
        if not result:
            first = self.tensors[operands[0]]
            result = self.new_tensor(
                f"{op.outputs[0]}_{kind.lower()}",
                first.dtype if element is None else element,
                first.shape if shape is None else shape,
            )
        return Operator(operator(kind), operands, (result,), attributes or {}, op.location)

    def as_constant(self, op: Operator, data: Constant) -> Operator:
        """Return the CONST or CONST_SHAPE that gives the only result of an operator this value."""
        (name,) = op.outputs
        if name in self.shapes:
            self.shapes[name] = replace(self.shapes[name], data=data)
            return Operator(CONST_SHAPE, (), (name,), {}, op.location)
        self.tensors[name] = replace(self.tensors[name], data=data)
        return Operator(CONST, (), (name,), {}, op.location)

    # -- editing ---------------------------------------------------------------------------------

    def add(self, op: Operator) -> None:
        """Add an operator after those that were added."""
        self.operators.append(op)
        for name in op.outputs:
            self.producers[name] = op

    def current(self, op: Operator) -> Operator:
        """Return the operator with the values that replace its operands."""
        same = self.same
        if not same or same.keys().isdisjoint(op.inputs):
            return op
        return replace(op, inputs=tuple([same.get(name, name) for name in op.inputs]))

    def can_stand_for(self, value: str, result: str) -> bool:
        """Return whether `value` can be used instead of `result`, and all results keep their names."""
        if value in self.shapes:
            return result not in self.results
        one, other = self.tensors[value], self.tensors[result]
        if one.dtype is not other.dtype or one.shape != other.shape or one.scale or other.scale:
            return False
        if one.variable or other.variable:
            return False
        if result not in self.results:
            return True
        return value in self.producers and value not in self.results and value not in self.renamed

    def replace_by(self, value: str, result: str) -> None:
        """Use `value` instead of `result` from now on; `can_stand_for` allows it."""
        self.same[result] = value
        if result in self.results:
            self.renamed[value] = result

    def finished(self) -> Block:
        """Return the block with what was changed."""
        operators = self.operators
        if self.renamed:
            operators = [_renamed(op, self.renamed) for op in operators]
            for old, new in self.renamed.items():
                value = self.tensors.pop(old)
                self.tensors[new] = replace(value, name=new)
        self._forget_undefined(operators)
        return replace(self.block, operators=operators, tensors=self.tensors, shapes=self.shapes)

    def _forget_undefined(self, operators: list[Operator]) -> None:
        """Remove the values of the block's operators, and new ones, that no operator defines now."""
        defined = {name for op in operators for name in op.outputs}
        gone = [name for op in self.block.operators for name in op.outputs if name not in defined]
        # What one rule makes, the next one may replace.
        gone += self.tensors.keys() - self.block.tensors.keys() - defined
        gone += self.shapes.keys() - self.block.shapes.keys() - defined
        for name in gone:
            self.tensors.pop(name, None)
            self.shapes.pop(name, None)


def _renamed(op: Operator, names: dict[str, str]) -> Operator:
    if names.keys().isdisjoint(op.inputs) and names.keys().isdisjoint(op.outputs):
        return op
    return replace(
        op,
        inputs=tuple([names.get(name, name) for name in op.inputs]),
        outputs=tuple([names.get(name, name) for name in op.outputs]),
    )


def as_array(data: Constant, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the elements of a constant in its shape."""
    return data.numpy().reshape(shape)


def _uniform_bits(data: Constant) -> bytes | None:
    width = data.dtype.element_bytes
    buffer = data.buffer
    if data.splat or data.count == 1:
        element = data.uniform()
        return None if element is None else bytes(element)
    if len(buffer) > _MOST_COMPARED:
        return None
    if data.dtype.is_packed:
        element = data.uniform()
        return None if element is None else bytes(element)
    raw = bytes(buffer)
    first = raw[:width]
    return (
        first if first and raw[width : 2 * width] == first and raw == first * data.count else None
    )


def constant_key(tensor: Tensor) -> object:
    """Return what equal constants have in common.

    Large ones are not read: they have their memory in common.
    """
    data = tensor.data
    assert data is not None
    is_small = len(data.buffer) <= _SMALL_BYTES
    bits = bytes(data.buffer) if is_small else data.address
    return tensor.dtype, tensor.shape, data.splat, data.unpacked, bits
