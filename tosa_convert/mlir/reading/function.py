"""A function of a module, region by region and operation by operation."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.model import (
    DYNAMIC,
    Block,
    BlockScale,
    Graph,
    Operator,
    Region,
    Shape,
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
from tosa_convert.graph.verify import attribute_problem
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.diagnostics import plain_location
from tosa_convert.mlir.kept import NAME_ATTRIBUTE, REGIONS_ATTRIBUTE
from tosa_convert.mlir.naming import Namer, unused
from tosa_convert.mlir.reading.attributes import AttributeReader, BadAttribute
from tosa_convert.mlir.reading.filling import ARITH_CONSTANT, ConstantReader
from tosa_convert.mlir.reading.locations import LocationReader
from tosa_convert.mlir.reading.narrowing import WIDTH_MATTERS, Narrowing
from tosa_convert.mlir.reading.select import (
    children,
    names_of,
    signature_names,
    symbol,
    text_of,
)
from tosa_convert.mlir.reading.types import TypeReader, ValueType

Names = Literal["retain", "generate"]

_YIELD: Final = "tosa.yield"
_RETURN: Final = "func.return"
_CAST: Final = operator("CAST")

#: Operations with one result, always.
_ONE_RESULT: Final = {
    spec.mlir
    for spec in BY_MLIR.values()
    if [value.arity for value in spec.results] == [""] and spec is not VARIABLE_WRITE
}

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


@dataclass(slots=True)
class _Pending:
    """A region whose name is known and whose block is still to be read."""

    region: Region
    body: Any
    owner: Any
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)


@dataclass(slots=True)
class _KeptRegion:
    """Names that an import noted for a region; None where it noted none."""

    name: str | None = None
    block: str | None = None
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)


class FunctionReader:
    """Reads one function. `retain`: keep the names that the module carries."""

    def __init__(
        self, bindings: Bindings, names: Names, full_paths: bool, narrowing: Narrowing
    ) -> None:
        self.bindings = bindings
        self.ir = bindings.ir
        self.retain = names == "retain"
        self.narrowing = narrowing
        self.types = TypeReader(bindings, narrowing)
        self.attributes = AttributeReader(bindings, narrowing)
        self.constants = ConstantReader(
            bindings, self.types, narrowing, self.say, pad_resources=self.retain
        )
        self.location = LocationReader(bindings, full_paths=full_paths)
        self.namer = Namer()
        self.findings: list[Finding] = []
        self.variables: dict[str, Tensor] = {}
        self.regions: list[Region] = []
        self.block_names: set[str] = set()

    def say(self, operation: Any, code: str, message: str, hint: str = "") -> None:
        where = plain_location(str(operation.location)) or f"'{operation.name}'"
        self.findings.append(Finding(code, where, message, hint))

    # -- the function -------------------------------------------------------------------------

    def graph(self, function: Any, variables: list[Any]) -> Graph:
        for variable in variables:
            self.declare(variable)
        # Readers want the first block to be called main; the region may keep the function's name.
        name = symbol(function) if self.retain else "main"
        main = Region(name, [Block("main")])
        self.namer.regions.add(name)
        body = function.regions[0]
        if len(body.blocks) != 1:
            raise fail(
                "malformed-structure",
                plain_location(str(function.location)),
                f"function @{symbol(function)} has {len(body.blocks)} blocks, expected 1",
                "lower control flow to tosa.cond_if and tosa.while_loop",
            )
        block = body.blocks[0]
        arguments: list[str | None] = []
        results: list[str | None] = []
        if self.retain:
            arguments = signature_names(function, "arg_attrs", len(block.arguments))
            returned = block.operations[len(block.operations) - 1].operands
            results = signature_names(function, "res_attrs", len(returned))
        # Depth first, in the order of the file. Not recursive: modules may nest deeply.
        pending = [_Pending(main, block, function, arguments, results)]
        while pending:
            item = pending.pop()
            self.regions.append(item.region)
            inner = self.block(
                item.region.blocks[0], item.body, item.owner, item.inputs, item.outputs
            )
            pending += reversed(inner)
        if self.findings:
            raise TosaConvertError(self.findings)
        return Graph(V1_1_DRAFT, self.regions)

    def declare(self, operation: Any) -> None:
        """A tosa.variable."""
        attributes = operation.attributes
        label = symbol(operation)
        # The elements are of type index, whose -1 the bindings give as an unsigned number.
        shape = tuple(
            size if 0 <= size < 1 << 63 else DYNAMIC for size in map(int, attributes["var_shape"])
        )
        element = self.types(
            self.ir.RankedTensorType.get([], attributes["type"].value, None, operation.location)
        )
        if element.problem or element.dtype is None:
            self.say(operation, element.code, f"variable @{label}: {element.problem}", element.hint)
            return
        tensor = Tensor(
            f"Variable_{len(self.variables)}", element.dtype, shape, None, None, True, label
        )
        if element.narrowed:
            self.narrowing.touch(element.narrowed, tensor.name)
        if "initial_value" in attributes:
            kind = ValueType(element.dtype, shape, narrowed=element.narrowed)
            tensor.data = self.constants.constant(operation, "initial_value", kind)
        self.variables[label] = tensor

    # -- blocks -------------------------------------------------------------------------------

    def block(
        self,
        block: Block,
        body: Any,
        owner: Any,
        argument_names: list[str | None],
        result_names: list[str | None],
    ) -> list[_Pending]:
        """Read a block; returns the regions of its control flow, which are still to be read."""
        if len(owner.regions) == 1:
            operations = children(self.bindings, owner)
        else:
            operations = [view.operation for view in body.operations]
        values: dict[Any, str] = {}
        tensors: dict[str, Tensor] = {tensor.name: tensor for tensor in self.variables.values()}
        shapes: dict[str, Shape] = {}
        taken = set(tensors)
        taken.update(name for name in (*argument_names, *result_names) if name is not None)
        # Most have none, which is worth knowing: the bindings make a new object of them every time.
        attributes = [
            found if len(found := operation.attributes) else None for operation in operations
        ]
        inner: dict[int, list[str | None]] = {}
        if self.retain:
            for index, found in enumerate(attributes):
                if found is not None and NAME_ATTRIBUTE in found:
                    inner[index] = names_of(found[NAME_ATTRIBUTE])
                    taken.update(name for name in inner[index] if name is not None)
        claimed: set[str] = set()

        def claim(name: str, what: str) -> str:
            if name in claimed or name in tensors:
                self.say(
                    owner,
                    "duplicate-name",
                    f'{what} is called "{name}", and so is another value of the function',
                    f"give every value a {NAME_ATTRIBUTE} of its own, or use names='generate'",
                )
            claimed.add(name)
            return name

        for index, argument in enumerate(body.arguments):
            given = argument_names[index] if index < len(argument_names) else None
            if given is None:
                name = unused(self.namer.input(), taken)
                taken.add(name)
            else:
                name = claim(given, f"argument {index}")
            values[argument] = name
            block.inputs.append(name)
            self.value(owner, f"argument {index}", name, self.types(argument.type), tensors, shapes)

        last = operations.pop() if operations else None
        terminator = _RETURN if owner.name == "func.func" else _YIELD
        if last is None or last.name != terminator:
            self.say(
                last or owner, "malformed-structure", f"the block does not end in {terminator}"
            )
            return []
        returned: dict[Any, str] = {}
        for index, value in enumerate(last.operands):
            if value in values or value in returned:
                continue
            given = result_names[index] if index < len(result_names) else None
            if given is None:
                name = unused(self.namer.output(), taken)
                taken.add(name)
            else:
                name = claim(given, f"result {index}")
            returned[value] = name

        pending = self.operations(
            block, operations, attributes, inner, values, returned, taken, tensors, shapes, claim
        )

        for value in last.operands:
            found = values.get(value)
            if found is None:
                self.captured(last, value)
            else:
                block.outputs.append(found)
        # tosa-opt's order: variables, the last declared first, then everything by name.
        variables = {tensor.name for tensor in self.variables.values()}
        ordered = sorted(variables, key=lambda name: -int(name.partition("_")[2]))
        ordered += sorted(tensors.keys() - variables)
        block.tensors = {name: tensors[name] for name in ordered}
        block.shapes = {name: shapes[name] for name in sorted(shapes)}
        return pending

    def operations(
        self,
        block: Block,
        operations: list[Any],
        all_attributes: list[Any],
        inner: dict[int, list[str | None]],
        values: dict[Any, str],
        returned: dict[Any, str],
        taken: set[str],
        tensors: dict[str, Tensor],
        shapes: dict[str, Shape],
        claim: Any,
    ) -> list[_Pending]:
        """Read a block's operations; the longest loop of all."""
        pending: list[_Pending] = []
        types, location, namer = self.types, self.location, self.namer
        append = block.operators.append
        none_given: list[str | None] = []
        for number, operation in enumerate(operations):
            name = operation.name
            spec = BY_MLIR.get(name)
            if spec is None:
                if name != ARITH_CONSTANT:
                    self.foreign(operation)
                    # Its results are spoken for: whoever uses them is not to blame as well.
                    values.update((result, "") for result in operation.results)
                    continue
                spec = CONST
            inputs = []
            # Indexing is cheaper than iterating: the bindings' iterators end in an exception.
            operands = operation.operands
            for index in range(len(operands)):
                operand = operands[index]
                found = values.get(operand)
                if found is None:
                    self.captured(operation, operand)
                    found = ""
                inputs.append(found)
            attributes = all_attributes[number]
            given = inner.get(number, none_given) if inner else none_given
            outputs = []
            results = (operation.result,) if name in _ONE_RESULT else operation.results
            for index in range(len(results)):
                result = results[index]
                output = returned.get(result)
                if output is not None:
                    namer.count()
                elif index < len(given) and given[index] is not None:
                    namer.count()
                    output = claim(given[index], f"the result of '{name}'")
                else:
                    output = namer.result()
                    if output in taken:
                        output = unused(output, taken)
                        taken.add(output)
                values[result] = output
                outputs.append(output)
                kind = types(result.type)
                if kind.problem:
                    self.say(
                        operation, kind.code, f"'{name}' result {index}: {kind.problem}", kind.hint
                    )
                elif kind.dtype is not None:
                    if kind.narrowed:
                        self.narrowing.touch(kind.narrowed, output)
                        if kind.narrowed == "i64" and spec.name in WIDTH_MATTERS:
                            self.say(
                                operation,
                                "value-out-of-range",
                                f"'{name}' depends on the bits that narrowing i64 would take away",
                                "compute it in i32 where the model is made",
                            )
                    scale = None if kind.scale is None else BlockScale(*kind.scale)
                    tensors[output] = Tensor(output, kind.dtype, kind.shape, None, scale)
                else:
                    shapes[output] = Shape(output, kind.rank)
            operator = Operator(
                spec, tuple(inputs), tuple(outputs), {}, location(operation.location)
            )
            if spec is _CAST and self.narrowing and self.is_identity(operator, tensors):
                operator.spec = IDENTITY
            if attributes is not None or spec.attributes:
                self.operator(operator, operation, attributes or {}, tensors, shapes, pending)
            append(operator)
        return pending

    @staticmethod
    def is_identity(operator: Operator, tensors: dict[str, Tensor]) -> bool:
        """Whether narrowing left a CAST with nothing to do, which TOSA has no CAST for."""
        source, target = tensors.get(operator.inputs[0]), tensors.get(operator.outputs[0])
        return source is not None and target is not None and source.dtype is target.dtype

    def value(
        self,
        owner: Any,
        what: str,
        name: str,
        kind: ValueType,
        tensors: dict[str, Tensor],
        shapes: dict[str, Shape],
    ) -> None:
        if kind.problem:
            self.say(owner, kind.code, f"{what}: {kind.problem}", kind.hint)
        elif kind.dtype is None:
            shapes[name] = Shape(name, kind.rank)
        else:
            if kind.narrowed:
                self.narrowing.touch(kind.narrowed, name)
            scale = None if kind.scale is None else BlockScale(*kind.scale)
            tensors[name] = Tensor(name, kind.dtype, kind.shape, None, scale)

    def foreign(self, operation: Any) -> None:
        name = operation.name
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
                "lower it to TOSA before exporting",
            )

    def captured(self, operation: Any, value: Any) -> None:
        self.say(
            operation,
            "captured-value",
            f"'{operation.name}' uses {_short(value)} from outside its region",
            "pass it in as an operand of the control-flow operator; a TOSA region sees only its inputs",
        )

    # -- one operator -------------------------------------------------------------------------

    def operator(
        self,
        operator: Operator,
        operation: Any,
        attributes: Any,
        tensors: dict[str, Tensor],
        shapes: dict[str, Shape],
        pending: list[_Pending],
    ) -> None:
        """Everything of an operator that most operators do not have."""
        spec = operator.spec
        found = 0
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
                        f"'{operation.name}' attribute {row.name}: {error}",
                    )
                    continue
                problem = attribute_problem(row, value)
                if problem:
                    self.say(
                        operation,
                        "value-out-of-range",
                        f"'{operation.name}' attribute {row.name}: {problem}",
                    )
                operator.attributes[row.name] = value
            elif row.optional:
                operator.attributes[row.name] = row.default
            else:
                self.say(
                    operation,
                    "malformed-operator",
                    f"'{operation.name}' has no attribute {row.name}",
                )
        if spec is CONST or spec is CONST_SHAPE:
            self.constants.fill(operator, operation, tensors, shapes)
        elif spec.regions:
            self.control_flow(operator, operation, pending)
        elif spec is VARIABLE_READ or spec is VARIABLE_WRITE:
            label = text_of(attributes["name"])
            variable = self.variables.get(label or "")
            if variable is None:
                self.say(
                    operation,
                    "undefined-name",
                    f"'{operation.name}' names variable @{label}, which is not declared",
                )
            elif spec is VARIABLE_READ:
                operator.inputs = (variable.name,)
            else:
                operator.outputs = (variable.name,)
        if len(attributes) > found:
            self.other_attributes(spec, operation, attributes)

    def other_attributes(self, spec: OperatorSpec, operation: Any, attributes: Any) -> None:
        """Attributes without a field: discardable by MLIR's definition, unless they mean something."""
        known = {row.name for row in spec.attributes} | {NAME_ATTRIBUTE, REGIONS_ATTRIBUTE}
        known |= _OWN_ATTRIBUTES.get(spec.name, set())
        for entry in attributes:
            name = entry if isinstance(entry, str) else entry.name
            if name in known:
                continue
            if (spec.name, name) in _MEANINGFUL_WHEN_TRUE:
                if str(attributes[name]) != "false":
                    self.say(
                        operation,
                        "unsupported-attribute",
                        f"'{operation.name}' attribute {name} = {attributes[name]} has no field",
                        "express it with other operators, such as a RESCALE",
                    )
                continue
            log.debug("%s: '%s' attribute %s is not carried", operation.location, spec.mlir, name)

    def control_flow(self, operator: Operator, operation: Any, pending: list[_Pending]) -> None:
        stem = self.namer.stem(operation.location, operation.name)
        kept = self.kept_regions(operation) if self.retain else []
        for index, row in enumerate(operator.spec.regions):
            body = operation.regions[index]
            kind = row.name.partition("_")[0]
            given = kept[index] if index < len(kept) else _KeptRegion()
            name = self.namer.region(stem, f"{kind}_region", given.name)
            operator.attributes[row.name] = name
            if len(body.blocks) != 1:
                self.say(
                    operation,
                    "malformed-structure",
                    f"'{operation.name}' {row.name} has {len(body.blocks)} blocks, expected 1",
                    "an empty region must yield its inputs" if not len(body.blocks) else "",
                )
                continue
            region = Region(name, [Block(given.block or f"{name}_bb0")])
            pending.append(_Pending(region, body.blocks[0], operation, given.inputs, given.outputs))

    def kept_regions(self, operation: Any) -> list[_KeptRegion]:
        """What an earlier import noted of the file's names for the regions."""
        attributes = operation.attributes
        if REGIONS_ATTRIBUTE not in attributes:
            return []
        noted = attributes[REGIONS_ATTRIBUTE]
        kept = []
        for entry in noted if isinstance(noted, self.ir.ArrayAttr) else ():
            found = _KeptRegion()
            if isinstance(entry, self.ir.DictAttr):
                found.name = text_of(entry["name"]) if "name" in entry else None
                found.block = text_of(entry["block"]) if "block" in entry else None
                found.inputs = names_of(entry["inputs"]) if "inputs" in entry else []
                found.outputs = names_of(entry["outputs"]) if "outputs" in entry else []
            kept.append(found)
        return kept


def _short(value: Any) -> str:
    """A value's name as MLIR prints it."""
    try:
        return str(value.get_name())
    except (AttributeError, TypeError):
        return "a value"
