"""A function of a module as a graph: its regions, blocks and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    IDENTITY,
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeValue,
    operator,
)
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.mlir.block_scope import PendingRegion, Scope
from tosa_convert.mlir.bytecode.attributes import TensorType
from tosa_convert.mlir.bytecode.decode import Bytecode
from tosa_convert.mlir.bytecode.operations import Fields, Operation
from tosa_convert.mlir.constants import ARITH_CONSTANT
from tosa_convert.mlir.names import (
    NAME_ATTRIBUTE,
    RESULT_PREFIX,
    names_of,
    signature_names,
    text_of,
)
from tosa_convert.mlir.narrowing import Narrowing
from tosa_convert.mlir.operator_reader import OperatorReader
from tosa_convert.mlir.types import ValueType
from tosa_convert.options import Names

_YIELD: Final = "tosa.yield"
_RETURN: Final = "func.return"
_CAST: Final = operator("CAST")
_CLAMP: Final = operator("CLAMP")
_CONSTANTS: Final = (CONST, CONST_SHAPE)
#: Operators whose operations have attributes besides those of their rows.
_WITH_OWN: Final = frozenset({CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE})


class FunctionReader:
    """Reads one function.

    bytecode: the func.func operation. names: "retain" keeps the names that the module carries.
    full_paths: keep the folders of file names in locations.
    """

    def __init__(
        self, bytecode: Bytecode, names: Names, full_paths: bool, narrowing: Narrowing
    ) -> None:
        self.bytecode = bytecode
        self.retain = names == "retain"
        self.narrowing = narrowing
        self.reader = OperatorReader(bytecode, narrowing, retain=self.retain, full_paths=full_paths)
        self.report = self.reader.report
        self.namer = self.reader.namer
        self.regions: list[Region] = []
        #: Dictionaries that have just the name of a result.
        self.names_only: set[int] = set()
        self.scope: Scope

    @property
    def symbol(self) -> str:
        """The function's name."""
        attributes = self.bytecode.dictionary(self.bytecode.root.attributes)
        return text_of(self.bytecode, attributes.get("sym_name")) or ""

    def graph(self, variables: Iterable[Bytecode]) -> Graph:
        """The graph. variables: the module's tosa.variable operations.

        Raises TosaConvertError with everything that cannot be carried.
        """
        taken: set[str] = set()
        for variable in variables:
            from tosa_convert.mlir.variables import read_variable

            tensor, findings = read_variable(
                variable, len(self.reader.variables), self.narrowing, taken, retain=self.retain
            )
            self.report.findings.extend(findings)
            if tensor is not None:
                taken.add(tensor.name)
                self.reader.variables[tensor.variable_name] = tensor
        # Depth first, in the order of the file. Not recursive: modules may nest deeply.
        pending = [self._main()]
        while pending:
            item = pending.pop()
            self.regions.append(item.region)
            self._block(item)
            pending += reversed(self.scope.pending)
        self.report.findings.raise_if_any()
        if any(name != noted for name, noted in self.reader.noted.items()):
            from tosa_convert.mlir.shared_regions import merge_copies

            self.regions = merge_copies(self.regions, self.reader.noted)
        return Graph(V1_1_DRAFT, self.regions)

    def _main(self) -> PendingRegion:
        """The function's own region."""
        # Readers of files expect the first block to be called main; the region may keep its name.
        name = self.symbol if self.retain else "main"
        self.namer.regions.add(name)
        root = self.bytecode.root
        blocks = root.regions[0].blocks
        if len(blocks) != 1:
            raise fail(
                "malformed-structure",
                self.report.where(root),
                f"function @{self.symbol} has {len(blocks)} blocks, expected 1",
                "lower control flow to tosa.cond_if and tosa.while_loop",
            )
        block = blocks[0]
        pending = PendingRegion(Region(name, [Block("main")]), block, root)
        if self.retain:
            pending.inputs = signature_names(self.bytecode, "arg_attrs", len(block.arguments))
            returned = block.operations[-1][4] if block.operations else []
            pending.outputs = signature_names(self.bytecode, "res_attrs", len(returned))
        return pending

    # -- blocks -------------------------------------------------------------------------------

    def _block(self, item: PendingRegion) -> None:
        """Read a block. The regions of its operators are in `scope.pending` then."""
        body, owner, block = item.body, item.owner, item.region.blocks[0]
        tensors = {tensor.name: tensor for tensor in self.reader.variables.values()}
        scope = self.scope = Scope(owner, body, tensors, set(tensors), item.in_function)
        carried = self._carried_names(body.operations)
        for names in (item.inputs, item.outputs, carried.values()):
            scope.taken.update(name for name in names if name is not None)
        self._arguments(item)
        last = Operation(*body.operations[-1]) if body.operations else None
        terminator = _RETURN if self.reader.name(owner) == "func.func" else _YIELD
        if last is None or self.reader.name(last) != terminator:
            self.report.add(
                last or owner, "malformed-structure", f"the block does not end in {terminator}"
            )
            return
        self._name_results(item, last.operands, carried)
        self._operations(block)
        for value in last.operands:
            name = scope.values.get(value)
            if name is None:
                self.reader.captured(last, value, scope)
            else:
                block.outputs.append(name)
        # The order of tosa-opt: variables, the last declared first, then everything by name.
        variables = {tensor.name: tensor for tensor in self.reader.variables.values()}
        for name in variables:
            tensors.pop(name, None)
        block.tensors = dict(reversed(variables.items()))
        # Sorting the names in the order in which they were numbered is fast: it has long sorted runs.
        block.tensors.update(sorted(tensors.items(), key=itemgetter(0)))
        block.shapes = {name: scope.shapes[name] for name in sorted(scope.shapes)}

    def _arguments(self, item: PendingRegion) -> None:
        """Name a block's arguments and add them to its values."""
        body, block, scope = item.body, item.region.blocks[0], self.scope
        for index, type_index in enumerate(body.arguments):
            carried = item.inputs[index] if index < len(item.inputs) else None
            if carried is None:
                name = self._generate(self.namer.input())
            else:
                name = self._claim(carried, f"argument {index}")
            scope.values[body.first + index] = name
            block.inputs.append(name)
            value_type = self.reader.types(type_index)
            self.reader.value(item.owner, f"argument {index}", name, value_type, scope)

    def _carried_names(self, operations: list[Fields]) -> dict[int, str]:
        """The names that operations carry for their results, by the numbers of values."""
        carried: dict[int, str] = {}
        if not self.retain:
            return carried
        without = {-1}
        bytecode = self.bytecode
        for fields in operations:
            attributes = fields[2]
            if attributes in without:
                continue
            number = bytecode.discardable(attributes)
            text = bytecode.only_text(number, NAME_ATTRIBUTE)
            if text is not None and len(fields[3]) == 1:
                carried[fields[5]] = text
                self.names_only.add(attributes)
                continue
            index = bytecode.dictionary(number).get(NAME_ATTRIBUTE)
            if index is None:
                without.add(attributes)
                continue
            _, _, _, types, _, first, _ = fields
            for number, name in enumerate(names_of(self.bytecode, index)[: len(types)], first):
                if name is not None:
                    carried[number] = name
        return carried

    def _name_results(
        self, item: PendingRegion, returned: list[int], carried: dict[int, str]
    ) -> None:
        """Name the results of operations that are returned, or that carry a name."""
        scope = self.scope
        for index, value in enumerate(returned):
            if value in scope.values or value in scope.names:
                continue
            name = item.outputs[index] if index < len(item.outputs) else None
            if name is None:
                # The signature's names come first, then the operation's, then generated ones.
                name = carried.get(value)
            if name is None:
                scope.names[value] = self._generate(self.namer.output())
            else:
                scope.names[value] = self._claim(name, f"result {index}")
        if not carried:
            return
        for fields in scope.body.operations:
            first = fields[5]
            for value in range(first, first + len(fields[3])):
                if value in carried and value not in scope.names:
                    label = self.bytecode.names[fields[0]]
                    scope.names[value] = self._claim(carried[value], f"the result of '{label}'")

    def _generate(self, name: str) -> str:
        """A generated name, changed if it is taken."""
        name = unused_name(name, self.scope.taken)
        self.scope.taken.add(name)
        return name

    def _claim(self, name: str, what: str) -> str:
        """A name that the module carries for a value; a finding if another value has it."""
        scope = self.scope
        if name in scope.claimed or name in scope.tensors:
            self.report.add(
                scope.owner,
                "duplicate-name",
                f'{what} is called "{name}", and so is another value of the function',
                f"give every value its own {NAME_ATTRIBUTE}, or use names='generate'",
            )
        scope.claimed.add(name)
        return name

    # -- operations ---------------------------------------------------------------------------

    def _operations(self, block: Block) -> None:
        """Read a block's operations except the last."""
        operations = self._live_operations()
        locations = self.reader.location([fields[1] for fields in operations])
        if not self._all_at_once(block, operations, locations):
            self._one_by_one(block, operations, locations)

    def _all_at_once(self, block: Block, operations: list[Fields], locations: list[str]) -> bool:
        """Read operations in columns, one field of all at once; False if they are not that ordinary.

        Ordinary operations are of TOSA, have one result each, and use values of their own block.
        """
        # Fast path of _one_by_one; equal by test test_operations_read_all_at_once_equal_others
        scope, reader = self.scope, self.reader
        body, start, count = scope.body, len(block.inputs), len(operations)
        if self.narrowing or body.first or not count or count != len(body.operations) - 1:
            return False
        names, _, attributes, type_lists, operands, firsts, _ = zip(*operations, strict=True)
        specs = list(map(reader.specs.__getitem__, names))
        if None in specs or set(map(len, type_lists)) != {1}:
            return False
        types = {number: reader.types(number) for number in set(chain.from_iterable(type_lists))}
        if any(value_type.problem for value_type in types.values()):
            return False
        if any(name.startswith(RESULT_PREFIX) for name in scope.taken):
            return False
        if not _are_defined_before(operands, firsts):
            return False
        first = self.namer.results
        results = [f"{RESULT_PREFIX}{number}" for number in range(first, first + count)]
        for number, name in scope.names.items():
            if start <= number < start + count:
                results[number - start] = name
        values = [*block.inputs, *results]
        for number in body.operations[-1][4]:
            if start <= number < start + count:
                scope.values[number] = values[number]
        value_types = [types[number] for number in chain.from_iterable(type_lists)]
        self._add_values(operations, results, value_types)
        inputs = [
            (values[row[0]],)
            if len(row) == 1
            else (values[row[0]], values[row[1]])
            if len(row) == 2
            else tuple([values[number] for number in row])
            for row in operands
        ]
        empty: list[dict[str, AttributeValue]] = [{} for _ in operations]
        block.operators += map(Operator, specs, inputs, zip(results), empty, locations)  # type: ignore[arg-type]
        for made, fields, number, value_type in zip(
            block.operators, operations, attributes, value_types, strict=True
        ):
            if number != -1 or made.spec.attributes:
                self._complete(made, fields, value_type)
        self.namer.results = first + count
        return True

    def _add_values(
        self, operations: list[Fields], results: list[str], value_types: list[ValueType]
    ) -> None:
        """Add the only result of each operation to the block's tensors or shapes."""
        tensors, reader, scope = self.scope.tensors, self.reader, self.scope
        if all(value_type.is_plain for value_type in value_types):
            dtypes = [value_type.dtype for value_type in value_types]
            shapes = [value_type.shape for value_type in value_types]
            made = map(Tensor, results, dtypes, shapes)  # type: ignore[arg-type]
            tensors.update(zip(results, made, strict=True))
            return
        for name, value_type, fields in zip(results, value_types, operations, strict=True):
            if value_type.is_plain:
                tensors[name] = Tensor(name, value_type.dtype, value_type.shape)  # type: ignore[arg-type]
            else:
                reader.value(Operation(*fields), "result 0", name, value_type, scope)

    def _one_by_one(self, block: Block, operations: list[Fields], locations: list[str]) -> None:
        """Read any operations, and report what is wrong with them."""
        scope, reader, specs, types = self.scope, self.reader, self.reader.specs, self.reader.types
        values, tensors, names, taken = scope.values, scope.tensors, scope.names, scope.taken
        narrowing = bool(self.narrowing)
        append, count = block.operators.append, self.namer.results
        # Whether a generated name might already belong to another value.
        may_clash = any(name.startswith(RESULT_PREFIX) for name in taken)
        for fields, location in zip(operations, locations, strict=True):
            name, _, attributes, type_indices, operands, number, _ = fields
            spec = specs[name]
            if spec is None:
                reader.foreign(Operation(*fields))
                # Its results count as defined: their users need no finding.
                values.update((number + index, "") for index in range(len(type_indices)))
                continue
            try:
                inputs = tuple([values[operand] for operand in operands])
            except KeyError:
                inputs = self._captured_inputs(Operation(*fields))
            outputs: tuple[str, ...] = ()
            value_type = None
            for type_index in type_indices:
                output = f"{RESULT_PREFIX}{count}"
                count += 1
                if number in names:
                    output = names[number]
                elif may_clash and output in taken:
                    output = self._generate(output)
                values[number] = output
                number += 1
                value_type = types(type_index)
                if value_type.is_plain:
                    tensors[output] = Tensor(output, value_type.dtype, value_type.shape)  # type: ignore[arg-type]
                else:
                    reader.value(
                        Operation(*fields), f"result {len(outputs)}", output, value_type, scope
                    )
                outputs += (output,)
            operator = Operator(spec, inputs, outputs, {}, location)
            if spec is _CAST and narrowing and self._is_identity(operator):
                operator.spec = IDENTITY
            if attributes != -1 or spec.attributes:
                self._complete(operator, fields, value_type)
            if spec is _CLAMP and value_type is not None and value_type.narrowed == "i64":
                block.operators += self._without_clamp(operator)
                continue
            append(operator)
        self.namer.results = count

    def _complete(self, operator: Operator, fields: Fields, value_type: ValueType | None) -> None:
        """Give an operator what its attributes say. value_type: of its last result."""
        name, _, attributes, types, _, _, _ = fields
        spec, scope, constants = operator.spec, self.scope, self.reader.constants
        if attributes in self.names_only and not spec.attributes and spec not in _WITH_OWN:
            return
        cached = self.reader.cache.get((name, attributes))
        if cached is not None:
            operator.attributes = cached.copy()
            return
        if spec in _CONSTANTS and len(types) == 1 and value_type is not None:
            key = attributes, types[0]
            data = constants.cache.get(key) or constants.plain(key, value_type)
            if data:
                # By the type of the result: a damaged file may not have that of the operator.
                (output,) = operator.outputs
                is_tensor = output in scope.tensors
                (scope.tensors if is_tensor else scope.shapes)[output].data = data
                return
        self.reader.read(operator, Operation(*fields), scope)

    def _without_clamp(self, clamp: Operator) -> list[Operator]:
        """What replaces a CLAMP of INT64, which was narrowed to a type that TOSA has no CLAMP of."""
        from tosa_convert.mlir.narrowed_clamp import as_maximum_and_minimum

        complete = len(clamp.attributes) == len(clamp.spec.attributes)
        if not complete or len(clamp.inputs) != 1 or len(clamp.outputs) != 1:
            return [clamp]  # it has or gets a finding
        if self.scope.tensors[clamp.outputs[0]].shape is None:
            return [clamp]  # operands of MAXIMUM have one rank, and that of the bounds is not known
        self.narrowing.replaced_clamps += 1
        return as_maximum_and_minimum(clamp, self.scope)

    def _live_operations(self) -> list[Fields]:
        """The block's operations except the last, without constants that are unused and not tensors.

        Frontends leave such constants (arith.constant of type index) after folding; `canonicalize` would
        remove them.
        """
        operations = self.scope.body.operations[:-1]
        names = self.bytecode.names
        if ARITH_CONSTANT not in names:
            return operations
        number = names.index(ARITH_CONSTANT)
        return [
            fields
            for fields in operations
            if fields[0] != number
            or not fields[3]
            or isinstance(self.bytecode.type(fields[3][0]), TensorType)
            or self.scope.users(fields[5], names)
        ]

    def _captured_inputs(self, operation: Operation) -> tuple[str, ...]:
        """An operation's inputs if one of them is not a value of this block, which is a finding."""
        values = self.scope.values
        for value in operation.operands:
            if value not in values:
                self.reader.captured(operation, value, self.scope)
        return tuple(values.get(value, "") for value in operation.operands)

    def _is_identity(self, operator: Operator) -> bool:
        """Whether narrowing made a CAST's types equal, which TOSA's CAST does not allow."""
        tensors = self.scope.tensors
        if not operator.inputs or not operator.outputs:
            return False
        source, target = tensors.get(operator.inputs[0]), tensors.get(operator.outputs[0])
        return source is not None and target is not None and source.dtype is target.dtype


def _are_defined_before(operands: Sequence[list[int]], firsts: Sequence[int]) -> bool:
    """Whether each operation uses only values before its first result, which has a number."""
    counts = np.fromiter(map(len, operands), np.int64, len(operands))
    try:
        used = np.fromiter(chain.from_iterable(operands), np.int64)
    except OverflowError:
        return False
    return bool((used < np.repeat(np.array(firsts, np.int64), counts)).all())
