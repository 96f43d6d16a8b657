"""Whether a block keeps every rule of `verify`, answered by array operations; never what is wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain, compress, count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import MAX_RANK, Block, Operator, ShapeValue, Tensor, element_count
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    OPERATORS,
    VARIABLE,
    VARIABLE_READ,
    VARIABLE_WRITE,
)
from tosa_convert.graph.verify_values import attribute_problems, shape_problems, tensor_problems

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]

#: Positions at which operators can have operands of different kinds; the last one stands for all others.
_POSITIONS: Final = 9


@dataclass(frozen=True, slots=True, eq=False)
class BlockColumns:
    """A block all of whose names are known. Its values are numbered: its tensors, then its shapes.

    tensors, shapes, operators: those of the block, in order.
    codes: the code of each operator.
    inputs, outputs: the values of all operators, one operator after the other.
    input_counts, output_counts: how many of these each operator has.
    types: the number of each tensor's type. examples: the first tensor of each type. Tensors have the
        same type if they share dtype and shape, both are variables or not, and both are `others` or not.
    others: the positions of tensors that have data, scales or the name of a variable.
    attributes: the number of each operator's attributes, 0 if it has none.
    attribute_examples: an operator with the attributes of each number; None for 0.
    """

    tensors: list[Tensor]
    shapes: list[ShapeValue]
    operators: list[Operator]
    codes: Numbers
    inputs: Numbers
    outputs: Numbers
    input_counts: Numbers
    output_counts: Numbers
    types: Numbers
    examples: list[Tensor]
    others: list[int]
    attributes: Numbers
    attribute_examples: list[Operator | None]


def columns_of(block: Block) -> BlockColumns | None:
    """Return the columns of a block; None if it mentions a name that is unknown or ambiguous."""
    operators, tensors = block.operators, list(block.tensors.values())
    if not block.tensors.keys().isdisjoint(block.shapes):
        return None
    codes = np.array([operator.spec.code for operator in operators], np.int64)
    inputs = [operator.inputs for operator in operators]
    outputs = [operator.outputs for operator in operators]
    are_plain = [
        tensor.data is None and tensor.scale is None and not tensor.variable_name
        for tensor in tensors
    ]
    keys = zip(
        [tensor.dtype for tensor in tensors],
        [tensor.shape for tensor in tensors],
        [tensor.variable for tensor in tensors],
        are_plain,
        strict=True,
    )
    type_numbers: dict[tuple[Hashable, ...], int] = defaultdict(count().__next__)
    try:
        input_values, output_values = _value_numbers(
            [*block.tensors, *block.shapes], inputs, outputs
        )
        types = _numbers(map(type_numbers.__getitem__, keys))
        attributes, attribute_examples = _attributes(operators)
    except (KeyError, TypeError):
        # A name is unknown, or something is not of the type that it should have.
        return None
    examples = [tensors[index] for index in _firsts(types, len(type_numbers))]
    return BlockColumns(
        tensors=tensors,
        shapes=list(block.shapes.values()),
        operators=operators,
        codes=codes,
        inputs=input_values,
        outputs=output_values,
        input_counts=_numbers(map(len, inputs)),
        output_counts=_numbers(map(len, outputs)),
        types=types,
        examples=examples,
        others=np.flatnonzero(~np.array(are_plain, bool)).tolist(),
        attributes=attributes,
        attribute_examples=attribute_examples,
    )


def tuples_of(items: list[Any], counts: Numbers) -> list[tuple[Any, ...]]:
    """Return consecutive items of a list as tuples of these lengths."""
    if not counts.any():
        return [()] * len(counts)
    if (counts == counts[0]).all():
        each = iter(items)
        return list(zip(*[each] * int(counts[0]), strict=True))
    starts = np.cumsum(counts) - counts
    tuples: list[tuple[Any, ...]] = [()] * len(counts)
    for length in range(1, int(counts.max()) + 1):
        chosen = np.flatnonzero(counts == length)
        columns = [map(items.__getitem__, (starts[chosen] + i).tolist()) for i in range(length)]
        for index, made in zip(chosen.tolist(), zip(*columns, strict=True), strict=True):
            tuples[index] = made
    return tuples


def _value_numbers(names: list[str], *lists: list[tuple[str, ...]]) -> list[Numbers]:
    """Return the indices of the values whose names are in each of the lists. names: of all values."""
    # Fast path of _numbers_by_name; equal by test test_values_are_found_by_object_as_by_name
    # Readers use one object for a name. Objects are compared without looking at their characters, which
    # are all over the memory.
    objects = _numbers(map(id, names))
    order = np.argsort(objects, kind="stable")
    objects = objects[order]
    found = []
    for values in lists:
        wanted = _numbers(map(id, chain.from_iterable(values)))
        at = np.searchsorted(objects, wanted)
        at[at == len(objects)] = 0
        if len(wanted) and not (len(objects) and (objects[at] == wanted).all()):
            return _numbers_by_name(names, *lists)
        found.append(order[at])
    return found


def _numbers_by_name(names: list[str], *lists: list[tuple[str, ...]]) -> list[Numbers]:
    number: dict[str, int] = dict(zip(names, count(), strict=False))
    return [_numbers(map(number.__getitem__, chain.from_iterable(values))) for values in lists]


def _numbers(values: Iterable[int]) -> Numbers:
    return np.fromiter(values, np.int64)


def _firsts(numbers: Numbers, limit: int) -> list[int]:
    """Return the first position of each integer below the limit."""
    firsts = np.zeros(limit, np.int64)
    # The last assignment to an element remains.
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    positions: list[int] = firsts.tolist()
    return positions


def _attributes(operators: list[Operator]) -> tuple[Numbers, list[Operator | None]]:
    """Return an index for each operator's attributes, and an operator for each index."""
    counts = _numbers(map(len, [operator.attributes for operator in operators]))
    chosen = np.flatnonzero(counts).tolist()
    keys: list[Hashable] = []
    for index in chosen:
        operator = operators[index]
        values = (*operator.attributes.values(),)
        if any(type(value) is tuple and len(value) > MAX_RANK for value in values):
            raise TypeError("no attribute has that many values")
        # True equals 1 and members of an enum equal integers, but the rules tell them apart.
        kinds = [tuple(map(type, v)) if type(v) is tuple else type(v) for v in values]
        keys.append((operator.spec, *operator.attributes, *values, *kinds))
    found: dict[Hashable, int] = defaultdict(count(1).__next__)
    numbers = np.zeros(len(operators), np.int64)
    numbers[chosen] = list(map(found.__getitem__, keys))
    examples: list[Operator | None] = [None]
    examples += [operators[index] for index in _firsts(numbers, len(found) + 1)[1:]]
    return numbers, examples


# -- the rules ----------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """What the operators' rows say, by code.

    known: whether operators with this code can be checked in columns.
    counts: the fewest and the most operands, the fewest and the most results.
    is_shape: whether operands, and results, are shapes at each position.
    attributes: how many there are. needs_element: whether one has the type of the first operand.
    """

    known: npt.NDArray[np.bool_]
    counts: Numbers
    is_shape: npt.NDArray[np.bool_]
    attributes: Numbers
    needs_element: npt.NDArray[np.bool_]


@cache
def _rows() -> _Rows:
    size = max(spec.code for spec in OPERATORS) + 1
    rows = _Rows(
        np.zeros(size, bool),
        np.zeros((4, size), np.int64),
        np.zeros((2, size, _POSITIONS), bool),
        np.zeros(size, np.int64),
        np.zeros(size, bool),
    )
    for spec in OPERATORS:
        code = spec.code
        sides = (spec.operands, spec.operand_range()), (spec.results, spec.result_range())
        rows.known[code] = (
            spec not in (VARIABLE, VARIABLE_READ, VARIABLE_WRITE) and not spec.regions
        )
        for side, (operands, (fewest, most)) in enumerate(sides):
            rows.counts[2 * side : 2 * side + 2, code] = fewest, 2**62 if most is None else most
            kinds = [operand.is_shape for operand in operands]
            if len(set(kinds)) == 1:
                rows.is_shape[side, code] = kinds[0]
            elif any(operand.arity for operand in operands):
                rows.known[code] = False
            else:
                rows.is_shape[side, code, : len(kinds)] = kinds
        rows.attributes[code] = len(spec.attributes)
        rows.needs_element[code] = any(row.kind == "element" for row in spec.attributes)
    return rows


def keeps_rules(block: Block, columns: BlockColumns) -> bool:
    """Return whether `verify` surely finds nothing in a block."""
    # Fast path of verify; equal by test test_blocks_that_keep_the_rules_in_columns_have_no_findings
    if not _rows().known[columns.codes].all():
        return False
    return (
        _values_keep_rules(block, columns)
        and _names_are_defined(block, columns)
        and _arities_keep_rules(columns)
        and _attributes_keep_rules(columns)
        and _constants_have_data(columns)
    )


def _values_keep_rules(block: Block, columns: BlockColumns) -> bool:
    tensors = columns.tensors
    if [tensor.name for tensor in tensors] != list(block.tensors):
        return False
    for tensor in columns.examples:
        # Everything but the data, which is the same for all tensors of the type.
        plain = Tensor(tensor.name, tensor.dtype, tensor.shape, variable=tensor.variable)
        if any(True for _ in tensor_problems(tensor.name, plain)):
            return False
    counts = [element_count(tensor.shape) for tensor in columns.examples]
    types = columns.types[columns.others].tolist()
    for index, type_number in zip(columns.others, types, strict=True):
        tensor = tensors[index]
        data = tensor.data
        if (
            data is None
            or tensor.scale is not None
            or tensor.variable_name
            or data.count != counts[type_number]
            or data.dtype is not tensor.dtype
            or data.dtype.is_in_bytes
        ):
            if any(True for _ in tensor_problems(tensor.name, tensor)):
                return False
    shapes = block.shapes.items()
    return not any(True for name, shape in shapes for _ in shape_problems(name, shape))


def _names_are_defined(block: Block, columns: BlockColumns) -> bool:
    """Return whether each value is defined once, and before its first use."""
    tensors, shapes, inputs = block.tensors, block.shapes, block.inputs
    if not all(name in tensors or name in shapes for name in (*inputs, *block.outputs)):
        return False
    operator_count = len(columns.operators)
    given = {*inputs, *(tensor.name for tensor in columns.tensors if tensor.variable)}
    is_given = _numbers(map(given.__contains__, chain(tensors, shapes))).astype(bool)
    times = np.bincount(columns.outputs, minlength=len(is_given)) + is_given
    if len(set(inputs)) != len(inputs) or int(times.max(initial=0)) > 1:
        return False
    numbers = np.arange(operator_count)
    defined_by = np.where(is_given, -1, operator_count)
    defined_by[columns.outputs] = np.repeat(numbers, columns.output_counts)
    users = np.repeat(numbers, columns.input_counts)
    if not (defined_by[columns.inputs] < users).all():
        return False
    returned = set(block.outputs)
    is_returned = _numbers(map(returned.__contains__, chain(tensors, shapes))).astype(bool)
    return bool((defined_by[is_returned] < operator_count).all())


def _arities_keep_rules(columns: BlockColumns) -> bool:
    """Return whether operators have as many operands and results, tensors and shapes, as they should."""
    rows, codes = _rows(), columns.codes
    sides = (columns.inputs, columns.input_counts), (columns.outputs, columns.output_counts)
    for side, (values, counts) in enumerate(sides):
        fewest, most = rows.counts[2 * side][codes], rows.counts[2 * side + 1][codes]
        if (counts < fewest).any() or (counts > most).any():
            return False
        within = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
        expected = rows.is_shape[side][np.repeat(codes, counts), np.minimum(within, _POSITIONS - 1)]
        if ((values >= len(columns.tensors)) != expected).any():
            return False
    return True


def _attributes_keep_rules(columns: BlockColumns) -> bool:
    rows, codes, numbers = _rows(), columns.codes, columns.attributes
    operators = columns.operators
    if ((rows.attributes[codes] > 0) != (numbers > 0)).any():
        return False
    for operator in columns.attribute_examples[1:]:
        assert operator is not None
        spec = operator.spec
        if operator.attributes.keys() != {row.name for row in spec.attributes}:
            return False
        if any(True for _ in attribute_problems(operator, None)):
            return False
    # Elements also depend on the type of the first operand.
    chosen = np.flatnonzero(rows.needs_element[codes])
    first = columns.inputs[(np.cumsum(columns.input_counts) - columns.input_counts)[chosen]]
    is_tensor = first < len(columns.tensors)
    chosen, first = chosen[is_tensor], first[is_tensor]
    keys = numbers[chosen] * (len(columns.examples) + 1) + columns.types[first]
    pairs = zip(chosen.tolist(), first.tolist(), strict=True)
    for index, value in dict(zip(keys.tolist(), pairs, strict=True)).values():
        if any(True for _ in attribute_problems(operators[index], columns.tensors[value])):
            return False
    return True


def _constants_have_data(columns: BlockColumns) -> bool:
    is_constant = (columns.codes == CONST.code) | (columns.codes == CONST_SHAPE.code)
    for value in compress(columns.outputs.tolist(), np.repeat(is_constant, columns.output_counts)):
        if value >= len(columns.tensors):
            if columns.shapes[value - len(columns.tensors)].data is None:
                return False
            continue
        tensor = columns.tensors[value]
        if tensor.data is None or (tensor.scale is not None and tensor.scale.data is None):
            return False
    return True
