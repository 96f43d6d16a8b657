"""Compares two graphs: whether they are the same program, and if not, their first difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    ShapeValue,
    Tensor,
    element_value,
    operator_path,
    require_graphs,
)
from tosa_convert.graph.opset import AttributeSpec, AttributeValue


class Difference(NamedTuple):
    """The first difference of two graphs.

    path: its place in the left graph.
    left, right: what each graph has there.
    """

    path: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.path}: {self.left} != {self.right}"


class _Differs(Exception):
    """Ends the comparison at the first difference."""

    def __init__(self, path: str, left: object, right: object) -> None:
        super().__init__(path)
        self.difference = Difference(path, _text(left), _text(right))


def compare(
    left: Graph,
    right: Graph,
    *,
    names: bool = True,
    locations: bool = False,
    version: bool = False,
) -> Difference | None:
    """Return the first difference of two programs, or None if they are the same.

    Constants are compared bit for bit, in whatever form their data is. Four things never matter:
    padding; the data of a tensor that is neither a variable nor a result of CONST, since no run uses
    it; whether a constant without elements has data; and the order of the regions that operators run.

    Args:
        left: A graph.
        right: The graph to compare it with.
        names: Compare the names of regions, blocks and values. Otherwise they need only correspond, and
            a region that several operators run equals a copy for each of them.
        locations: Compare the locations of operators.
        version: Compare the TOSA versions.

    Returns:
        The path of the first difference and the two values there; None if there is no difference.

    Example:
        >>> import tosa_convert as tc
        >>> left, right = tc.load("digits_cnn.tosa"), tc.load("digits_cnn.tosa")
        >>> print(tc.compare(left, right))
        None
        >>> right.main.operators[13].attributes["stride"] = (2, 2)
        >>> tc.compare(left, right).path
        'region "digits_cnn" block "main" operator #13 CONV2D attribute stride'
    """
    require_graphs(left, right)
    try:
        _compare_graphs(left, right, _Options(names, locations, version))
    except _Differs as signal:
        return signal.difference
    return None


class _Options(NamedTuple):
    names: bool
    locations: bool
    version: bool


def _same(path: str, left: object, right: object) -> None:
    if left != right:
        raise _Differs(path, left, right)


def _compare_graphs(left: Graph, right: Graph, options: _Options) -> None:
    if options.version:
        _same("version", left.version, right.version)
    if options.names:
        _same("number of regions", len(left.regions), len(right.regions))
    _compare_variables(left, right)
    regions = _Regions(left, right, options)
    regions.compare(left.regions[:1], right.regions[:1])
    regions.compare(left.regions, right.regions)


def _compare_variables(left: Graph, right: Graph) -> None:
    """Compare the variables that the programs declare, in whichever of their blocks."""
    one, other = _declared(left), _declared(right)
    _same("variables", sorted(one), sorted(other))
    for symbol, tensor in one.items():
        path = f'variable "{symbol}"'
        _same(f"{path} dtype", tensor.dtype, other[symbol].dtype)
        _same(f"{path} shape", tensor.shape, other[symbol].shape)
        _compare_data(path, tensor.data, other[symbol].data)


def _declared(graph: Graph) -> dict[str, Tensor]:
    """Return the first tensor of each variable, by symbol."""
    found: dict[str, Tensor] = {}
    for _, block in graph.blocks():
        for tensor in block.tensors.values():
            if tensor.variable:
                found.setdefault(_symbol(tensor), tensor)
    return found


def _symbol(tensor: Tensor) -> str:
    """Return what a run calls a variable; empty for other tensors."""
    return (tensor.variable_name or tensor.name) if tensor.variable else ""


class _Regions:
    """Which regions of two graphs correspond: those that corresponding operators run."""

    def __init__(self, left: Graph, right: Graph, options: _Options) -> None:
        self.options = options
        self.left = {region.name: region for region in left.regions}
        self.right = {region.name: region for region in right.regions}
        #: Pairs that remain to be compared.
        self.pending: deque[tuple[Region, Region]] = deque()
        #: Regions, by side and identity, form trees: regions of one tree are equal.
        self.parents: dict[tuple[int, int], tuple[int, int]] = {}

    def compare(self, left: list[Region], right: list[Region]) -> None:
        """Compare regions that do not correspond to others yet, in their order, and those they run."""
        left = [region for region in left if (0, id(region)) not in self.parents]
        right = [region for region in right if (1, id(region)) not in self.parents]
        _same("number of regions that no operator runs", len(left), len(right))
        for pair in zip(left, right, strict=True):
            self.correspond(*pair)
        while self.pending:
            self.compare_blocks(*self.pending.popleft())

    def compare_blocks(self, left: Region, right: Region) -> None:
        """Compare two regions. Those that their operators run remain to be compared."""
        path = f'region "{left.name}"'
        if self.options.names:
            _same(f"{path} name", left.name, right.name)
        _same(f"{path} number of blocks", len(left.blocks), len(right.blocks))
        for block, other in zip(left.blocks, right.blocks, strict=True):
            if self.options.names:
                _same(f"{path} block name", block.name, other.name)
            _BlockComparison(self, f'{path} block "{block.name}"', block, other).run()

    def correspond(self, left: Region, right: Region) -> None:
        """Compare two regions later, unless others say that they are equal: copies take linear time."""
        one, other = self.root((0, id(left))), self.root((1, id(right)))
        if one != other:
            self.parents[one] = other
            self.pending.append((left, right))

    def root(self, key: tuple[int, int]) -> tuple[int, int]:
        while (parent := self.parents.setdefault(key, key)) != key:
            self.parents[key] = self.parents[parent]
            key = parent
        return key


class _BlockComparison:
    def __init__(self, regions: _Regions, path: str, left: Block, right: Block) -> None:
        self.options = regions.options
        self.regions = regions
        self.path = path
        self.left = left
        self.right = right
        #: Name of a value of the left block -> name of the same value in the right one.
        self.names: dict[str, str] = {}
        #: Names in the left block of the results of CONST and CONST_SHAPE.
        self.constants = {
            name for op in left.operators if not op.spec.operands for name in op.outputs
        }

    def run(self) -> None:
        left, right = self.left, self.right
        self.signature("inputs", left.inputs, right.inputs)
        self.variables()
        for index, (one, other) in enumerate(zip(left.operators, right.operators, strict=False)):
            self.operator(index, one, other)
        _same(f"{self.path} number of operators", len(left.operators), len(right.operators))
        self.signature("outputs", left.outputs, right.outputs)

    def signature(self, side: str, left: Sequence[str], right: Sequence[str]) -> None:
        path = f"{self.path} {side}"
        _same(f"number of {path}", len(left), len(right))
        for one, other in zip(left, right, strict=True):
            self.value(f'{path} "{one}"', one, other)

    def variables(self) -> None:
        """Compare the variables of both blocks. A block may list others that it does not use."""
        left, right = (
            {_symbol(t): t.name for t in block.tensors.values() if t.variable}
            for block in (self.left, self.right)
        )
        for symbol in filter(right.__contains__, left):
            self.value(f'{self.path} variable "{symbol}"', left[symbol], right[symbol])

    def operator(self, index: int, one: Operator, other: Operator) -> None:
        where = operator_path(self.path, index, one)
        _same(f"{where} operator", one.spec.name, other.spec.name)
        _same(f"{where} number of inputs", len(one.inputs), len(other.inputs))
        _same(f"{where} number of outputs", len(one.outputs), len(other.outputs))
        for left, right in zip(one.inputs + one.outputs, other.inputs + other.outputs, strict=True):
            if self.names.get(left) != right:
                self.value(f'{where} "{left}"', left, right)
        for row in one.spec.attributes:
            values = one.attributes.get(row.name), other.attributes.get(row.name)
            # Regions of one name may differ.
            if values[0] != values[1] or row.kind == "region":
                self.attribute(f"{where} attribute {row.name}", row, one, other)
        if self.options.locations:
            _same(f"{where} location", one.location, other.location)

    def attribute(self, path: str, row: AttributeSpec, one: Operator, other: Operator) -> None:
        left, right = one.attributes.get(row.name), other.attributes.get(row.name)
        if row.kind == "region":
            regions = self.regions.left.get(str(left)), self.regions.right.get(str(right))
            if regions[0] is not None and regions[1] is not None:
                self.regions.correspond(regions[0], regions[1])
                if not self.options.names:
                    return
        elif row.kind == "element" and one.inputs:
            operand = self.left.tensors.get(one.inputs[0])
            if operand is not None and isinstance(left, bytes) and isinstance(right, bytes):
                # Further bytes are padding.
                width = operand.dtype.element_bytes
                if left[:width] != right[:width]:
                    raise _Differs(path, *(_number(raw, operand) for raw in (left, right)))
                return
        _same(path, left, right)

    def value(self, path: str, left: str, right: str) -> None:
        """Compare the values of these names, unless they are known to correspond."""
        if self.options.names:
            _same(f"{path} name", left, right)
        if left in self.names:
            _same(f"{path} (by correspondence)", self.names[left], right)
            return
        self.names[left] = right
        one = self.left.tensors.get(left) or self.left.shapes.get(left)
        other = self.right.tensors.get(right) or self.right.shapes.get(right)
        _same(f"{path} kind", _value_kind(one), _value_kind(other))
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            self.tensor(path, one, other, has_value=left in self.constants or one.variable)
        elif isinstance(one, ShapeValue) and isinstance(other, ShapeValue):
            _same(f"{path} rank", one.rank, other.rank)
            if left in self.constants:
                _compare_data(path, one.data, other.data)

    def tensor(self, path: str, one: Tensor, other: Tensor, *, has_value: bool) -> None:
        _same(f"{path} dtype", one.dtype, other.dtype)
        _same(f"{path} shape", one.shape, other.shape)
        _same(f"{path} variable", _symbol(one), _symbol(other))
        if has_value:
            _compare_data(path, one.data, other.data)
        if one.scale is None or other.scale is None:
            _same(f"{path} block scale", one.scale, other.scale)
            return
        _same(f"{path} scale dtype", one.scale.dtype, other.scale.dtype)
        _same(f"{path} block shape", one.scale.shape, other.scale.shape)
        if has_value:
            _compare_data(f"{path} scales", one.scale.data, other.scale.data)


def _compare_data(path: str, one: Constant | None, other: Constant | None) -> None:
    if one is None or other is None:
        # In a file, a constant without elements looks like one without data.
        if any(data is not None and data.count for data in (one, other)):
            _same(f"{path} data", one, other)
    elif not one.same_bits(other):
        raise _Differs(f"{path} data", *_first_unequal(one, other))


def _first_unequal(one: Constant, other: Constant) -> tuple[str, str]:
    if one.count != other.count:
        return f"{one.count} elements", f"{other.count} elements"
    left, right = one.elements(), other.elements()
    index = int((left != right).any(axis=1).argmax())
    return (
        f"element {index} is 0x{left[index][::-1].tobytes().hex()}",
        f"0x{right[index][::-1].tobytes().hex()}",
    )


def _number(raw: AttributeValue, operand: Tensor) -> str:
    """Format the bytes of an element in decimal and in hexadecimal, which distinguishes NaNs."""
    assert isinstance(raw, bytes)
    element = raw[: operand.dtype.element_bytes]
    if len(element) < operand.dtype.element_bytes:
        return f"{len(element)} bytes"
    return f"{element_value(element, operand.dtype)} (0x{element[::-1].hex()})"


def _value_kind(value: Tensor | ShapeValue | None) -> str:
    return "undefined" if value is None else "tensor" if isinstance(value, Tensor) else "shape"


def _text(value: object) -> str:
    # The text of an enum depends on the version of Python, its name does not.
    return value.name if isinstance(value, IntEnum) else str(value)
