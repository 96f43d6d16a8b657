"""Whether TOSA allows the operators of a large block, from its columns.

Most operators of a program have the types and attributes of another one. In columns these are found by
array operations, and one operator of each kind is judged. What is wrong, and with which operator, is
said by `spec.validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Block
from tosa_convert.graph.opset import CONST_SHAPE, OPERATORS
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.values import READ_POSITIONS, ShapeType, TypeTable, ValueType
from tosa_convert.rules.verdict import Verdict

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns, Numbers

#: The codes of operators that compute a !tosa.shape: the types of the operators after them follow.
_COMPUTE_SHAPES: Final = [
    spec.code
    for spec in OPERATORS
    if spec is not CONST_SHAPE and any(row.is_shape for row in spec.results)
]
#: Kinds of operators are numbers below this.
_LIMIT: Final = 2**62


def is_valid(
    block: Block,
    columns: BlockColumns,
    table: TypeTable,
    judge: Callable[[OperatorView], Verdict],
) -> bool:
    """Return whether no operator of a block breaks a rule.

    False is no more than a reason to judge each one.

    columns: those of the block; `graph.columns.keeps_rules` holds, so no operator runs regions.
    table: of the types of the program. judge: makes the verdict on an operator.
    """
    # Fast path of Validator.block; equal by test test_blocks_that_are_valid_in_columns_have_no_findings
    if np.isin(columns.codes, _COMPUTE_SHAPES).any():
        return False
    types, numbers = _types(columns, table)
    input_starts = np.cumsum(columns.input_counts) - columns.input_counts
    output_starts = np.cumsum(columns.output_counts) - columns.output_counts
    for index in _representatives(columns, numbers, len(types)):
        sides = (
            columns.inputs[input_starts[index] :][: columns.input_counts[index]],
            columns.outputs[output_starts[index] :][: columns.output_counts[index]],
        )
        inputs, outputs = (tuple(types[n] for n in numbers[side].tolist()) for side in sides)
        if judge(OperatorView(columns.operators[index], inputs, outputs, {})).violations:
            return False
    return True


def _types(columns: BlockColumns, table: TypeTable) -> tuple[list[ValueType], Numbers]:
    """Return the types of a block's values, and for each value the index of its type."""
    tensors = columns.tensors
    types: list[ValueType] = [table.tensor(t.dtype, t.shape) for t in columns.examples]
    numbers = np.empty(len(tensors) + len(columns.shapes), np.int64)
    numbers[: len(tensors)] = columns.types
    known: dict[ValueType, int] = {}

    def number(type_: ValueType) -> int:
        if type_ not in known:
            known[type_] = len(types)
            types.append(type_)
        return known[type_]

    needed = _read_by_rules(columns)
    for index in columns.others:
        tensor = tensors[index]
        if tensor.scale is not None or index in needed:
            numbers[index] = number(table.of_tensor(tensor, with_data=index in needed))
    sizes: dict[object, ShapeType] = {}
    for position, shape in enumerate(columns.shapes, len(tensors)):
        key = (shape.rank, _content(shape.data))
        shape_type = sizes.get(key)
        if shape_type is None:
            shape_type = sizes[key] = table.of_shape(shape)
        numbers[position] = number(shape_type)
    return types, numbers


def _content(data: Constant | None) -> object:
    return None if data is None else (data.splat, data.count, bytes(data.buffer))


def _read_by_rules(columns: BlockColumns) -> set[int]:
    """Return the values whose elements the rules of an operator read."""
    ends = np.cumsum(columns.input_counts)
    needed: set[int] = set()
    for spec, positions in READ_POSITIONS.items():
        chosen = ends[columns.codes == spec.code]
        for position in positions if len(chosen) else ():
            needed.update(columns.inputs[chosen + position].tolist())
    return needed


def _representatives(columns: BlockColumns, numbers: Numbers, type_count: int) -> list[int]:
    """Return one operator of each kind. Those with equal codes, attributes and types are of one kind."""
    kinds, limit = columns.codes, int(columns.codes.max()) + 1
    for column, size in _fields(columns, numbers, type_count):
        if limit > _LIMIT // size:
            kinds = np.unique(kinds, return_inverse=True)[1]
            limit = len(kinds)
        kinds, limit = kinds * size + column, limit * size
    return list(dict(zip(kinds.tolist(), range(len(kinds)), strict=True)).values())


def _fields(
    columns: BlockColumns, numbers: Numbers, type_count: int
) -> Iterator[tuple[Numbers, int]]:
    """Iterate over what an operator is judged by, as columns of integers, each with a limit.

    All values of a column stay below its limit.
    """
    yield columns.attributes, int(columns.attributes.max()) + 1
    for values, counts in (
        (columns.inputs, columns.input_counts),
        (columns.outputs, columns.output_counts),
    ):
        most = int(counts.max())
        yield counts, most + 1
        starts = np.cumsum(counts) - counts
        types = numbers[values] + 1
        for position in range(most):
            has = counts > position
            column = np.zeros(len(counts), np.int64)
            column[has] = types[starts[has] + position]
            yield column, type_count + 1
