"""The ordinary operations of a block as operators, one field of all of them at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tosa_convert.formats.mlir.bytecode.operation_columns import OperationColumns
from tosa_convert.formats.mlir.bytecode.operations import Operation, operations_of
from tosa_convert.formats.mlir.names import RESULT_PREFIX
from tosa_convert.formats.mlir.read.operator import SAME_NUMBER, OperatorReader
from tosa_convert.formats.mlir.read.scope import Scope
from tosa_convert.formats.mlir.types import ValueType
from tosa_convert.graph.columns import tuples_of
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Block, Operator, ShapeValue, Tensor
from tosa_convert.graph.opset import AttributeValue, OperatorSpec, operator

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.operation_columns import Numbers

_PAD: Final = operator("PAD")
#: So many operations become operators at once: there may be so many findings in the first that the
#: others are not read.
_AT_ONCE: Final = 1 << 12


def read_all_at_once(reader: OperatorReader, scope: Scope, block: Block) -> bool:
    """Read a block but the last operation; False unless all are TOSA's, local, of one result."""
    # Fast path of _one_by_one; equal by test test_operations_read_all_at_once_equal_others
    columns = scope.item.body.columns
    if columns is None or reader.narrowing or scope.item.body.first or len(columns.names) < 2:
        return False
    read = _ColumnReader(reader, scope, columns)
    if not read.is_ordinary():
        return False
    read.fill(block)
    return True


class _ColumnReader:
    """Reads the operations of one block. count: how many there are, without the last."""

    def __init__(self, reader: OperatorReader, scope: Scope, columns: OperationColumns) -> None:
        self.reader = reader
        self.scope = scope
        self.columns = columns
        self.count = len(columns.names) - 1
        self.names = columns.names[:-1].tolist()
        self.type_numbers = columns.types[:-1]
        self.operand_counts = columns.operand_counts[:-1]
        self.operands = columns.operands[: int(self.operand_counts.sum())]
        self.types: dict[int, ValueType] = {}

    def is_ordinary(self) -> bool:
        """Return whether the operations can be read all at once."""
        columns, reader = self.columns, self.reader
        for name in dict.fromkeys(self.names):
            spec = reader.specs[name]
            if spec is None or spec.regions:
                return False
        if self.may_have_old():
            return False
        if int(self.type_numbers.min()) < 0:
            return False
        self.types = {
            number: reader.types(number) for number in dict.fromkeys(self.type_numbers.tolist())
        }
        if any(value_type.problem for value_type in self.types.values()):
            return False
        if any(name.startswith(RESULT_PREFIX) for name in self.scope.taken):
            return False
        # Each operation uses only values before its first result.
        return bool((self.operands < np.repeat(columns.firsts[:-1], self.operand_counts)).all())

    def may_have_old(self) -> bool:
        """Return whether an operation may have the form of an older release."""
        columns, reader = self.columns, self.reader
        names = columns.names[:-1]
        expected = np.array(reader.operand_counts, np.int64)[names]
        if ((expected >= 0) & (expected != self.operand_counts)).any():
            return True
        for name in np.unique(names[expected == SAME_NUMBER]).tolist():
            chosen = np.flatnonzero(names == name)
            if reader.specs[name] is _PAD:
                if self.has_old_padding(chosen):
                    return True
            elif reader.may_have_old(name, np.unique(columns.attributes[chosen]).tolist()):
                return True
        return False

    def has_old_padding(self, pads: Numbers) -> bool:
        """Return whether the padding of one of these PADs is a tensor, or a constant of rank 0."""
        if (self.operand_counts[pads] != len(_PAD.operands)).any():
            return True
        first = np.cumsum(self.operand_counts)[pads] - len(_PAD.operands)
        arguments = np.array(self.scope.item.body.arguments, np.int64)
        types = np.concatenate((arguments, self.type_numbers))
        operands = self.operands[np.concatenate((first + 1, first + 2))]
        if (operands >= len(types)).any():
            return True
        paddings, constants = (
            map(self.reader.types, found) for found in types[operands].reshape(2, -1).tolist()
        )
        return any(found.dtype is not None for found in paddings) or any(
            found.shape == () for found in constants
        )

    def fill(self, block: Block) -> None:
        """Add the operators and their results to the block and to its scope."""
        columns, reader, scope = self.columns, self.reader, self.scope
        rows = reader.specs
        results = self.result_names(len(block.inputs))
        values = [*block.inputs, *results]
        scope.values = dict(enumerate(values))
        ends = np.concatenate(([0], np.cumsum(self.operand_counts)))
        for first in range(0, self.count, _AT_ONCE):
            some = slice(first, min(first + _AT_ONCE, self.count))
            specs: list[OperatorSpec] = [rows[name] for name in self.names[some]]
            self.add_values(results[some], some)
            operands = self.operands[ends[some.start] : ends[some.stop]]
            used = list(map(values.__getitem__, operands.tolist()))
            inputs = tuples_of(used, self.operand_counts[some])
            empty: list[dict[str, AttributeValue]] = [{} for _ in specs]
            locations = reader.location.together(columns.locations[some])
            made = list(map(Operator, specs, inputs, zip(results[some]), empty, locations))
            self.complete(made, some)
            block.operators += made

    def result_names(self, first: int) -> list[str]:
        namer, count = self.reader.namer, self.count
        names = [f"{RESULT_PREFIX}{n}" for n in range(namer.results, namer.results + count)]
        namer.results += count
        for number, name in self.scope.names.items():
            if first <= number < first + count:
                names[number - first] = name
        return names

    def add_values(self, names: list[str], some: slice) -> None:
        """Add the results of some operations to the block's tensors or shapes."""
        scope, types = self.scope, self.types
        numbers = self.type_numbers[some].tolist()
        if not all(value_type.is_plain for value_type in types.values()):
            is_plain = {number: value_type.is_plain for number, value_type in types.items()}
            plain = np.fromiter(map(is_plain.__getitem__, numbers), bool, len(numbers))
            for index in np.flatnonzero(~plain).tolist():
                self.add_value(some.start + index, names[index], types[numbers[index]])
            chosen = np.flatnonzero(plain).tolist()
            names = list(map(names.__getitem__, chosen))
            numbers = list(map(numbers.__getitem__, chosen))
        dtypes = map({n: value_type.dtype for n, value_type in types.items()}.__getitem__, numbers)
        shapes = map({n: value_type.shape for n, value_type in types.items()}.__getitem__, numbers)
        scope.tensors.update(zip(names, map(Tensor, names, dtypes, shapes), strict=True))  # type: ignore[arg-type]

    def add_value(self, index: int, name: str, value_type: ValueType) -> None:
        """Add the result of one operation, which is not an ordinary tensor."""
        if value_type.dtype is None:
            self.scope.shapes[name] = ShapeValue(name, value_type.rank)
        else:
            self.reader.value(self.operation(index), "result 0", name, value_type, self.scope)

    def complete(self, operators: list[Operator], some: slice) -> None:
        columns, reader, scope = self.columns, self.reader, self.scope
        attributes, names = columns.attributes[some], columns.names[some]
        chosen = np.flatnonzero((attributes != -1) | np.array(reader.has_attributes)[names])
        fields = chosen, names[chosen], attributes[chosen], self.type_numbers[some][chosen]
        for index, name, dictionary, number in zip(*(f.tolist() for f in fields), strict=True):
            if not reader.is_completed(
                operators[index], name, dictionary, number, self.types[number], scope
            ):
                reader.read(operators[index], self.operation(some.start + index), scope)

    def operation(self, index: int) -> Operation:
        return Operation(*next(operations_of(self.columns.only(index))))
