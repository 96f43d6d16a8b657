"""Are two graphs the same program, and if not, where do they first differ?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import Block, Graph, Operator, ShapeValue, Tensor, operator_path
from tosa_convert.graph.opset import AttributeValue


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two graphs differ: a path, and what stands there in each."""

    path: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.path}: {self.left} != {self.right}"


class _Found(Exception):
    def __init__(self, path: str, left: object, right: object) -> None:
        super().__init__(path)
        self.difference = Difference(path, _said(left), _said(right))


def compare(
    left: Graph,
    right: Graph,
    *,
    names: bool = True,
    locations: bool = False,
    version: bool = False,
) -> Difference | None:
    """None if both are the same program, else the first difference.

    Constants are compared bit for bit, whatever form their data has; padding never matters, nor does
    data of a tensor that is neither a variable nor produced by a CONST: no run ever sees it. Data of no
    elements is the same as none.
    names: also the names of regions, blocks and values; otherwise they need only correspond.
    locations: also where operators came from. version: also the TOSA version.
    """
    try:
        _Comparison(names, locations).graph(left, right, version)
    except _Found as found:
        return found.difference
    return None


class _Comparison:
    def __init__(self, names: bool, locations: bool) -> None:
        self.names = names
        self.locations = locations
        self.regions: dict[str, str] = {}
        #: Names in the current block of the left graph that constants produce.
        self.constants: set[str] = set()

    def same(self, path: str, left: object, right: object) -> None:
        if left != right:
            raise _Found(path, left, right)

    def graph(self, left: Graph, right: Graph, version: bool) -> None:
        if version:
            self.same("version", left.version, right.version)
        self.same("number of regions", len(left.regions), len(right.regions))
        for one, other in zip(left.regions, right.regions, strict=True):
            # Regions correspond by position, so that references to them can be followed.
            self.regions[one.name] = other.name
        for one, other in zip(left.regions, right.regions, strict=True):
            path = f'region "{one.name}"'
            if self.names:
                self.same(f"{path} name", one.name, other.name)
            self.same(f"{path} number of blocks", len(one.blocks), len(other.blocks))
            for block, other_block in zip(one.blocks, other.blocks, strict=True):
                if self.names:
                    self.same(f"{path} block name", block.name, other_block.name)
                self.block(f'{path} block "{block.name}"', block, other_block)

    def block(self, path: str, left: Block, right: Block) -> None:
        values: dict[str, str] = {}
        self.constants = {
            name for op in left.operators if not op.spec.operands for name in op.outputs
        }
        self.signature(f"{path} inputs", left.inputs, right.inputs, left, right, values)
        self.variables(path, left, right, values)
        count = (len(left.operators), len(right.operators))
        for index, (one, other) in enumerate(zip(left.operators, right.operators, strict=False)):
            self.operator(path, index, one, other, left, right, values)
        self.same(f"{path} number of operators", *count)
        self.signature(f"{path} outputs", left.outputs, right.outputs, left, right, values)

    def variables(self, path: str, left: Block, right: Block, values: dict[str, str]) -> None:
        """Variables correspond by their symbol: it, not the tensor's name, is what a run keeps."""
        sides = [
            {t.variable_name or t.name: t.name for t in block.tensors.values() if t.variable}
            for block in (left, right)
        ]
        self.same(f"{path} variables", sorted(sides[0]), sorted(sides[1]))
        for symbol in sides[0]:
            self.value(
                f'{path} variable "{symbol}"',
                sides[0][symbol],
                sides[1][symbol],
                left,
                right,
                values,
            )

    def signature(
        self,
        path: str,
        one: list[str],
        other: list[str],
        left: Block,
        right: Block,
        values: dict[str, str],
    ) -> None:
        self.same(f"number of {path}", len(one), len(other))
        for a, b in zip(one, other, strict=True):
            self.value(f'{path} "{a}"', a, b, left, right, values)

    def operator(
        self,
        path: str,
        index: int,
        one: Operator,
        other: Operator,
        left: Block,
        right: Block,
        values: dict[str, str],
    ) -> None:
        where = operator_path(path, index, one)
        self.same(f"{where} operator", one.spec.name, other.spec.name)
        self.same(f"{where} number of inputs", len(one.inputs), len(other.inputs))
        self.same(f"{where} number of outputs", len(one.outputs), len(other.outputs))
        for a, b in zip(one.inputs + one.outputs, other.inputs + other.outputs, strict=True):
            if values.get(a) != b:
                self.value(f'{where} "{a}"', a, b, left, right, values)
        for row in one.spec.attributes:
            a_value, b_value = one.attributes.get(row.name), other.attributes.get(row.name)
            if row.kind == "element" and one.inputs:
                tensor = left.tensors.get(one.inputs[0])
                width = tensor.dtype.element_bytes if tensor else None
                a_value, b_value = _element(a_value, width), _element(b_value, width)
            elif row.kind == "region":
                a_value = self.regions.get(str(a_value), str(a_value))
            self.same(f"{where} attribute {row.name}", a_value, b_value)
        if self.locations:
            self.same(f"{where} location", one.location, other.location)

    def value(
        self, path: str, a: str, b: str, left: Block, right: Block, values: dict[str, str]
    ) -> None:
        """Check that name `a` of the left block and `b` of the right one are the same value."""
        if self.names:
            self.same(f"{path} name", a, b)
        if a in values:
            self.same(f"{path} (by correspondence)", values[a], b)
            return
        values[a] = b
        one: Tensor | ShapeValue | None = left.tensors.get(a) or left.shapes.get(a)
        other: Tensor | ShapeValue | None = right.tensors.get(b) or right.shapes.get(b)
        self.same(f"{path} kind", _value_kind(one), _value_kind(other))
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            self.same(f"{path} dtype", one.dtype, other.dtype)
            self.same(f"{path} shape", one.shape, other.shape)
            self.same(f"{path} variable", one.variable, other.variable)
            seen = a in self.constants or one.variable
            if seen:
                self.data(path, one.data, other.data)
            if one.scale is None or other.scale is None:
                self.same(f"{path} block scale", one.scale, other.scale)
            else:
                self.same(f"{path} scale dtype", one.scale.dtype, other.scale.dtype)
                self.same(f"{path} block shape", one.scale.shape, other.scale.shape)
                if seen:
                    self.data(f"{path} scales", one.scale.data, other.scale.data)
        elif isinstance(one, ShapeValue) and isinstance(other, ShapeValue):
            self.same(f"{path} rank", one.rank, other.rank)
            if a in self.constants:
                self.data(path, one.data, other.data)

    def data(self, path: str, one: Constant | None, other: Constant | None) -> None:
        if one is None or other is None:
            # Of no elements, files cannot tell data from none.
            if any(data is not None and data.count for data in (one, other)):
                self.same(f"{path} data", one, other)
        elif not one.same_bits(other):
            raise _Found(f"{path} data", *_first_unequal(one, other))


def _value_kind(value: Tensor | ShapeValue | None) -> str:
    return "undefined" if value is None else "tensor" if isinstance(value, Tensor) else "shape"


def _said(value: object) -> str:
    # By its name: what str() makes of it depends on the version of Python.
    return value.name if isinstance(value, IntEnum) else str(value)


def _first_unequal(one: Constant, other: Constant) -> tuple[str, str]:
    if one.count != other.count:
        return f"{one.count} elements", f"{other.count} elements"
    left, right = one.elements(), other.elements()
    index = int((left != right).any(axis=1).argmax())
    return (
        f"element {index} is 0x{left[index][::-1].tobytes().hex()}",
        f"0x{right[index][::-1].tobytes().hex()}",
    )


def _element(value: AttributeValue | None, width: int | None) -> AttributeValue | None:
    """The bytes of a value that count; what stands behind them is padding."""
    return value[:width] if isinstance(value, bytes) else value
