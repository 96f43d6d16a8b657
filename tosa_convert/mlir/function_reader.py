"""A function of a module, region by region and operation by operation."""

from __future__ import annotations

import logging
from typing import Any, Final, Literal

from tosa_convert.bindings.packages import Bindings
from tosa_convert.bindings.print_asm import spell
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.graph.attribute_rules import attribute_problem
from tosa_convert.graph.model import (
    Block,
    BlockScale,
    Graph,
    Operator,
    Region,
    ShapeValue,
    Tensor,
)
from tosa_convert.graph.opset import (
    BY_MLIR,
    CONST,
    CONST_SHAPE,
    IDENTITY,
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeValue,
    OperatorSpec,
    operator,
)
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.mlir.block_scope import KeptRegion, Pending, Scope
from tosa_convert.mlir.bytecode.decode import Bytecode
from tosa_convert.mlir.bytecode.detached import NO_DETACHED_WEIGHTS, DetachedWeights
from tosa_convert.mlir.bytecode.operations import Fields, Operation
from tosa_convert.mlir.kept import NAME_ATTRIBUTE, REGIONS_ATTRIBUTE
from tosa_convert.mlir.lowering_hints import lowering_hint
from tosa_convert.mlir.naming import RESULT, Namer, unused
from tosa_convert.mlir.narrowing import WIDTH_MATTERS, Narrowing
from tosa_convert.mlir.reading.attributes import AttributeReader, BadAttribute
from tosa_convert.mlir.reading.filling import ARITH_CONSTANT, ConstantReader
from tosa_convert.mlir.reading.given import names_of, signature_names, text_of
from tosa_convert.mlir.reading.locations import LocationReader
from tosa_convert.mlir.reading.types import TypeReader, ValueType
from tosa_convert.mlir.reading.variables import declare
from tosa_convert.mlir.report import Report

Names = Literal["retain", "generate"]

_YIELD: Final = "tosa.yield"
_RETURN: Final = "func.return"
_CAST: Final = operator("CAST")
_CONSTANTS: Final = (CONST, CONST_SHAPE)

#: Attributes an operation has besides those of its row.
_OWN_ATTRIBUTES: Final = {
    "CONST": {"values", "value"},
    "CONST_SHAPE": {"values"},
    "VARIABLE_READ": {"name"},
    "VARIABLE_WRITE": {"name"},
}

#: Attributes of other dialect versions that change what an operator computes when true.
_MEANINGFUL_WHEN_TRUE: Final = {("CAST", "input_unsigned")}

log = logging.getLogger("tosa_convert")


class FunctionReader:
    """Reads one function. `retain`: keep the names that the module carries."""

    def __init__(
        self,
        bindings: Bindings,
        function: Any,
        names: Names,
        full_paths: bool,
        narrowing: Narrowing,
        weights: DetachedWeights = NO_DETACHED_WEIGHTS,
    ) -> None:
        self.bindings = bindings
        self.weights = weights
        self.bytecode = Bytecode(bindings, function, weights)
        self.retain = names == "retain"
        self.narrowing = narrowing
        self.types = TypeReader(self.bytecode, narrowing)
        self.attributes = AttributeReader(self.bytecode, narrowing)
        self.location = LocationReader(self.bytecode, full_paths=full_paths)
        self.report = Report(self.bytecode.names, self.location)
        self.say = self.report.say
        self.constants = ConstantReader(
            self.bytecode, self.types, narrowing, self.report, pad_resources=self.retain
        )
        self.namer = Namer()
        self.variables: dict[str, Tensor] = {}
        self.regions: list[Region] = []
        #: Rows by the numbers of operations' names.
        self.specs = [
            CONST if name == ARITH_CONSTANT else BY_MLIR.get(name) for name in self.bytecode.names
        ]
        #: Attributes that were read, by the operation's name and the number of the dictionary.
        self.known: dict[tuple[int, int], dict[str, AttributeValue]] = {}
        self.scope: Scope

    def name(self, operation: Operation) -> str:
        """What MLIR calls the operation."""
        return self.bytecode.names[operation.name]

    @property
    def symbol(self) -> str:
        """What the function is called."""
        attributes = self.bytecode.dictionary(self.bytecode.root.attributes)
        return text_of(self.bytecode, attributes.get("sym_name")) or ""

    # -- the function -------------------------------------------------------------------------

    def graph(self, variables: list[Any]) -> Graph:
        """The graph. variables: the module's tosa.variable operations."""
        for operation in variables:
            tensor, findings = declare(
                Bytecode(self.bindings, operation, self.weights),
                operation,
                len(self.variables),
                self.narrowing,
                pad_resources=self.retain,
            )
            self.report.findings += findings
            if tensor is not None:
                self.variables[tensor.variable_name] = tensor
        # Readers want the first block to be called main; the region may keep the function's name.
        name = self.symbol if self.retain else "main"
        main = Region(name, [Block("main")])
        self.namer.regions.add(name)
        root = self.bytecode.root
        blocks = root.regions[0].blocks
        if len(blocks) != 1:
            raise fail(
                "malformed-structure",
                self.report.place(root),
                f"function @{self.symbol} has {len(blocks)} blocks, expected 1",
                "lower control flow to tosa.cond_if and tosa.while_loop",
            )
        block = blocks[0]
        arguments: list[str | None] = []
        results: list[str | None] = []
        if self.retain:
            arguments = signature_names(self.bytecode, "arg_attrs", len(block.arguments))
            returned = Operation(*block.operations[-1]).operands
            results = signature_names(self.bytecode, "res_attrs", len(returned))
        # Depth first, in the order of the file. Not recursive: modules may nest deeply.
        pending = [Pending(main, block, root, arguments, results)]
        while pending:
            item = pending.pop()
            self.regions.append(item.region)
            self.block(item)
            pending += reversed(self.scope.pending)
        if self.report.findings:
            raise TosaConvertError(self.report.findings)
        return Graph(V1_1_DRAFT, self.regions)

    # -- blocks -------------------------------------------------------------------------------

    def block(self, item: Pending) -> None:
        """Read a block; the regions of its control flow are pending then."""
        body, owner, block = item.body, item.owner, item.region.blocks[0]
        tensors = {tensor.name: tensor for tensor in self.variables.values()}
        scope = self.scope = Scope(owner, body, tensors, set(tensors), item.in_function)
        scope.taken.update(name for name in (*item.inputs, *item.outputs) if name is not None)
        given = self.given_names(body.operations)
        for names in given.values():
            scope.taken.update(name for name in names if name is not None)

        for index, kind in enumerate(body.arguments):
            name = item.inputs[index] if index < len(item.inputs) else None
            if name is None:
                name = unused(self.namer.input(), scope.taken)
                scope.taken.add(name)
            else:
                name = self.claim(name, f"argument {index}")
            scope.values[body.first + index] = name
            block.inputs.append(name)
            self.value(owner, f"argument {index}", name, self.types(kind))

        last = Operation(*body.operations[-1]) if body.operations else None
        terminator = _RETURN if self.name(owner) == "func.func" else _YIELD
        if last is None or self.name(last) != terminator:
            self.say(
                last or owner, "malformed-structure", f"the block does not end in {terminator}"
            )
            return
        for index, value in enumerate(last.operands):
            if value in scope.values or value in scope.returned:
                continue
            name = item.outputs[index] if index < len(item.outputs) else None
            if name is None:
                name = unused(self.namer.output(), scope.taken)
                scope.taken.add(name)
            else:
                name = self.claim(name, f"result {index}")
            scope.returned[value] = name

        self.operations(block, given)

        for value in last.operands:
            name = scope.values.get(value)
            if name is None:
                self.captured(last, value)
            else:
                block.outputs.append(name)
        # tosa-opt's order: variables, the last declared first, then everything by name.
        variables = {tensor.name for tensor in self.variables.values()}
        ordered = sorted(variables, key=lambda name: -int(name.partition("_")[2]))
        # In the order in which they were numbered, because that has long runs that are sorted.
        ordered += sorted([name for name in tensors if name not in variables])
        block.tensors = {name: tensors[name] for name in ordered}
        block.shapes = {name: scope.shapes[name] for name in sorted(scope.shapes)}

    def given_names(self, operations: list[Fields]) -> dict[int, list[str | None]]:
        """The names that operations carry for their results, by the operations' places."""
        given: dict[int, list[str | None]] = {}
        if not self.retain:
            return given
        without = {-1}
        for index, fields in enumerate(operations):
            attributes = fields[2]
            if attributes not in without:
                found = self.bytecode.dictionary(attributes).get(NAME_ATTRIBUTE)
                if found is None:
                    without.add(attributes)
                else:
                    given[index] = names_of(self.bytecode, found)
        return given

    def claim(self, name: str, what: str) -> str:
        """A name that the module gives to a value; a finding if another value has it."""
        scope = self.scope
        if name in scope.claimed or name in scope.tensors:
            self.say(
                scope.owner,
                "duplicate-name",
                f'{what} is called "{name}", and so is another value of the function',
                f"give every value a {NAME_ATTRIBUTE} of its own, or use names='generate'",
            )
        scope.claimed.add(name)
        return name

    def operations(self, block: Block, given: dict[int, list[str | None]]) -> None:
        """Read a block's operations but the last; the longest loop of all."""
        scope, specs, types = self.scope, self.specs, self.types
        values, tensors, returned, taken = (
            scope.values,
            scope.tensors,
            scope.returned,
            scope.taken,
        )
        known, known_types, narrowing = self.known, types.known, bool(self.narrowing)
        constants = self.constants.known
        append, count = block.operators.append, self.namer.results
        # Whether a name that is generated here might be another value's already.
        may_clash = any(name.startswith(RESULT) for name in taken)

        def given_to(place: int, index: int) -> str | None:
            names = given.get(place, ())
            return names[index] if index < len(names) else None

        operations = scope.body.operations[:-1]
        locations = self.location([fields[1] for fields in operations])
        for place, fields in enumerate(operations):
            name, _, attributes, kinds, operands, number, _ = fields
            spec = specs[name]
            if spec is None:
                self.foreign(Operation(*fields))
                # Its results are spoken for: whoever uses them is not to blame as well.
                values.update((number + index, "") for index in range(len(kinds)))
                continue
            count_of = len(operands)
            try:
                if count_of == 1:
                    inputs: tuple[str, ...] = (values[operands[0]],)
                elif count_of == 2:
                    inputs = (values[operands[0]], values[operands[1]])
                else:
                    inputs = tuple([values[operand] for operand in operands])
            except KeyError:
                inputs = self.inputs(Operation(*fields))
            outputs: tuple[str, ...] = ()
            for kind_number in kinds:
                output = f"{RESULT}{count}"
                count += 1
                if number in returned:
                    output = returned[number]
                elif given and (claimed := given_to(place, len(outputs))) is not None:
                    output = self.claim(claimed, f"the result of '{spec.mlir}'")
                elif may_clash and output in taken:
                    output = unused(output, taken)
                    taken.add(output)
                values[number] = output
                number += 1
                kind = (
                    known_types[kind_number] if kind_number in known_types else types(kind_number)
                )
                if kind.is_plain:
                    tensors[output] = Tensor(output, kind.dtype, kind.shape)  # type: ignore[arg-type]
                else:
                    self.value(Operation(*fields), f"result {len(outputs)}", output, kind)
                outputs += (output,)
            operator = Operator(spec, inputs, outputs, {}, locations[place])
            if spec is _CAST and narrowing and self.is_identity(operator, tensors):
                operator.spec = IDENTITY
            if attributes >= 0 or spec.attributes:
                found = known.get((name, attributes))
                if found is not None:
                    operator.attributes = found.copy()
                elif spec in _CONSTANTS and (
                    data := constants.get((attributes, kinds[0]))
                    or self.constants.plain((attributes, kinds[0]), kind)
                ):
                    (scope.shapes if spec is CONST_SHAPE else tensors)[outputs[0]].data = data
                else:
                    self.operator(operator, Operation(*fields))
            append(operator)
        self.namer.results = count

    def inputs(self, operation: Operation) -> tuple[str, ...]:
        """An operation's inputs where one of them is of no value that is visible in the file."""
        values = self.scope.values
        for value in operation.operands:
            if value not in values:
                self.captured(operation, value)
        return tuple(values.get(value, "") for value in operation.operands)

    @staticmethod
    def is_identity(operator: Operator, tensors: dict[str, Tensor]) -> bool:
        """Whether narrowing left a CAST with nothing to do, which TOSA has no CAST for."""
        source, target = tensors.get(operator.inputs[0]), tensors.get(operator.outputs[0])
        return source is not None and target is not None and source.dtype is target.dtype

    def value(self, operation: Operation, what: str, name: str, kind: ValueType) -> None:
        """A block's argument or an operation's result."""
        label = self.name(operation)
        what = what if operation is self.scope.owner else f"'{label}' {what}"
        if kind.problem:
            self.say(operation, kind.code, f"{what}: {kind.problem}", kind.hint)
        elif kind.dtype is None:
            self.scope.shapes[name] = ShapeValue(name, kind.rank)
        else:
            if kind.narrowed:
                self.narrowing.touch(kind.narrowed, name)
                spec = self.specs[operation.name]
                if kind.narrowed == "i64" and spec is not None and spec.name in WIDTH_MATTERS:
                    self.say(
                        operation,
                        "value-out-of-range",
                        f"'{label}' depends on the bits that narrowing i64 would take away",
                        "compute it in i32 where the model is made",
                    )
            scale = None if kind.scale is None else BlockScale(*kind.scale)
            self.scope.tensors[name] = Tensor(name, kind.dtype, kind.shape, None, scale)

    def foreign(self, operation: Operation) -> None:
        name = self.name(operation)
        if name.startswith("tosa."):
            self.say(
                operation,
                "unsupported-operator",
                f"'{name}' is in the dialect but not in the file format",
                "lower or decompose it before exporting",
            )
        else:
            self.say(
                operation,
                "foreign-operator",
                f"'{name}' is not a TOSA operator",
                lowering_hint(name),
            )

    def captured(self, operation: Operation, value: int) -> None:
        self.say(
            operation,
            "captured-value",
            f"'{self.name(operation)}' uses {self.printed(value)} from outside its region",
            "pass it in as an operand of the control-flow operator; a TOSA region sees only its inputs",
        )

    def printed(self, value: int) -> str:
        """What MLIR's text calls a value of the function's own block."""
        block = self.bytecode.root.regions[0].blocks[0]
        if not self.scope.in_function:
            return "a value"
        if value < len(block.arguments):
            return f"%arg{value}"
        number = 0
        for fields in block.operations:
            operation = Operation(*fields)
            count = len(operation.types)
            if operation.first <= value < operation.first + count:
                return f"%{number}" + (f"#{value - operation.first}" if count > 1 else "")
            number += count > 0
        return "a value"

    # -- one operator -------------------------------------------------------------------------

    def operator(self, operator: Operator, operation: Operation) -> None:
        """Everything of an operator that most operators do not have."""
        spec, scope, label = operator.spec, self.scope, self.name(operation)
        attributes = self.bytecode.dictionary(operation.attributes)
        before, found = len(self.report.findings), 0
        for row in spec.attributes:
            if row.kind == "region":
                continue
            if row.name in attributes:
                found += 1
                try:
                    value: AttributeValue = self.attributes(row, attributes[row.name])
                except BadAttribute as error:
                    self.say(
                        operation,
                        "unsupported-attribute",
                        f"'{label}' attribute {row.name}: {error}",
                    )
                    continue
                problem = attribute_problem(row, value)
                if problem:
                    self.say(
                        operation,
                        "value-out-of-range",
                        f"'{label}' attribute {row.name}: {problem}",
                    )
                operator.attributes[row.name] = value
            elif row.optional:
                operator.attributes[row.name] = row.default
            else:
                self.say(operation, "malformed-operator", f"'{label}' has no attribute {row.name}")
        if spec is CONST or spec is CONST_SHAPE:
            self.constants.fill(operator, operation, scope)
            found += 1
        elif spec.regions:
            self.control_flow(operator, operation)
        elif spec is VARIABLE_READ or spec is VARIABLE_WRITE:
            self.variable(operator, operation)
        elif len(attributes) == found and len(self.report.findings) == before:
            self.known[operation.name, operation.attributes] = operator.attributes.copy()
        if len(attributes) > found:
            self.other_attributes(spec, operation, attributes)

    def variable(self, operator: Operator, operation: Operation) -> None:
        """Reading or writing a variable, which the dialect names instead of taking it as a value."""
        label = text_of(self.bytecode, self.bytecode.dictionary(operation.attributes).get("name"))
        variable = self.variables.get(label or "")
        if variable is None:
            self.say(
                operation,
                "undefined-name",
                f"'{self.name(operation)}' names variable @{label}, which is not declared",
            )
        elif operator.spec is VARIABLE_READ:
            operator.inputs = (variable.name,)
        else:
            operator.outputs = (variable.name,)

    def other_attributes(
        self, spec: OperatorSpec, operation: Operation, attributes: dict[str, int]
    ) -> None:
        """Attributes without a field: discardable by MLIR's definition, unless they mean something."""
        known = {row.name for row in spec.attributes} | {NAME_ATTRIBUTE, REGIONS_ATTRIBUTE}
        known |= _OWN_ATTRIBUTES.get(spec.name, set())
        for name, index in attributes.items():
            if name in known:
                continue
            if (spec.name, name) in _MEANINGFUL_WHEN_TRUE:
                text = spell(self.bytecode, attribute=index)
                if text != "false":
                    self.say(
                        operation,
                        "unsupported-attribute",
                        f"'{self.name(operation)}' attribute {name} = {text} has no field",
                        "express it with other operators, such as a RESCALE",
                    )
                continue
            if log.isEnabledFor(logging.DEBUG):
                where = self.location.full(operation.location)
                log.debug("%s: '%s' attribute %s is not carried", where, spec.mlir, name)

    def control_flow(self, operator: Operator, operation: Operation) -> None:
        label = self.name(operation)
        stem = self.namer.stem(self.location.full(operation.location), label)
        kept = self.kept_regions(operation) if self.retain else []
        for index, row in enumerate(operator.spec.regions):
            blocks = operation.regions[index].blocks
            kind = row.name.partition("_")[0]
            given = kept[index] if index < len(kept) else KeptRegion()
            name = self.namer.region(stem, f"{kind}_region", given.name)
            operator.attributes[row.name] = name
            if len(blocks) != 1:
                self.say(
                    operation,
                    "malformed-structure",
                    f"'{label}' {row.name} has {len(blocks)} blocks, expected 1",
                    "" if blocks else "an empty region must yield its inputs",
                )
                continue
            region = Region(name, [Block(given.block or f"{name}_bb0")])
            self.scope.pending.append(
                Pending(
                    region,
                    blocks[0],
                    operation,
                    given.inputs,
                    given.outputs,
                    self.scope.in_function and not operation.regions[index].is_isolated,
                )
            )

    def kept_regions(self, operation: Operation) -> list[KeptRegion]:
        """What an earlier import noted of the file's names for the regions."""
        noted = self.bytecode.dictionary(operation.attributes).get(REGIONS_ATTRIBUTE)
        entries = None if noted is None else self.bytecode.attribute(noted)
        kept = []
        for index in entries if isinstance(entries, list) else ():
            entry = self.bytecode.attribute(index)
            found = KeptRegion()
            if isinstance(entry, dict):
                found.name = text_of(self.bytecode, entry.get("name"))
                found.block = text_of(self.bytecode, entry.get("block"))
                found.inputs = names_of(self.bytecode, entry.get("inputs"))
                found.outputs = names_of(self.bytecode, entry.get("outputs"))
            kept.append(found)
        return kept
