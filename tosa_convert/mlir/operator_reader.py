"""One operation of a module as an operator of the graph: attributes, data, regions, and findings."""

from __future__ import annotations

from typing import Final

from tosa_convert import log
from tosa_convert.graph.attribute_rules import attribute_problem
from tosa_convert.graph.model import Block, BlockScale, Operator, Region, ShapeValue, Tensor
from tosa_convert.graph.opset import (
    BY_MLIR,
    CONST,
    CONST_SHAPE,
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeValue,
    OperatorSpec,
)
from tosa_convert.mlir.attributes import AttributeReader, BadAttribute
from tosa_convert.mlir.block_scope import PendingRegion, RegionNames, Scope
from tosa_convert.mlir.bytecode.decode import Bytecode
from tosa_convert.mlir.bytecode.operations import Operation
from tosa_convert.mlir.constants import ARITH_CONSTANT, ConstantReader
from tosa_convert.mlir.locations import LocationReader
from tosa_convert.mlir.names import NAME_ATTRIBUTE, REGIONS_ATTRIBUTE, Namer, names_of, text_of
from tosa_convert.mlir.narrowing import WIDTH_MATTERS, Narrowing
from tosa_convert.mlir.report import Report
from tosa_convert.mlir.types import TypeReader, ValueType

#: Attributes of an operation besides those of its row.
_OWN_ATTRIBUTES: Final = {
    "CONST": {"values", "value"},
    "CONST_SHAPE": {"values"},
    "VARIABLE_READ": {"name"},
    "VARIABLE_WRITE": {"name"},
}

#: Attributes of other versions of the dialect that change what an operator computes if they are true.
_MEANINGFUL_WHEN_TRUE: Final = {("CAST", "input_unsigned")}


class OperatorReader:
    """Reads the operations of one function. retain: keep the names that the module carries."""

    def __init__(
        self, bytecode: Bytecode, narrowing: Narrowing, *, retain: bool, full_paths: bool
    ) -> None:
        self.bytecode = bytecode
        self.retain = retain
        self.narrowing = narrowing
        self.types = TypeReader(bytecode, narrowing)
        self.attributes = AttributeReader(bytecode, narrowing)
        self.location = LocationReader(bytecode, full_paths=full_paths)
        self.report = Report(bytecode.names, self.location)
        self.constants = ConstantReader(
            bytecode, self.types, narrowing, self.report, pad_resources=retain
        )
        self.namer = Namer()
        #: The names that an earlier import noted for regions, by the names that they have now.
        self.noted: dict[str, str] = {}
        #: The module's variables by their symbols.
        self.variables: dict[str, Tensor] = {}
        #: Rows by the numbers of operations' names.
        self.specs = [
            CONST if name == ARITH_CONSTANT else BY_MLIR.get(name) for name in bytecode.names
        ]
        #: Attributes that were read, by the number of the operation's name and of the dictionary.
        self.cache: dict[tuple[int, int], dict[str, AttributeValue]] = {}
        #: The names of the function's values in text, once a message needs one.
        self.value_names: list[str] | None = None

    def name(self, operation: Operation) -> str:
        """The operation's full name."""
        return self.bytecode.names[operation.name]

    def read(self, operator: Operator, operation: Operation, scope: Scope) -> None:
        """Complete an operator: attributes, data of a constant, regions, variables."""
        spec = operator.spec
        attributes = self.bytecode.dictionary(operation.attributes)
        findings_before = len(self.report.findings)
        used = self._attributes(operator, operation, attributes)
        if spec is CONST or spec is CONST_SHAPE:
            self.constants.fill(operator, operation, scope)
            used += 1
        elif spec.regions:
            self._regions(operator, operation, scope)
        elif spec is VARIABLE_READ or spec is VARIABLE_WRITE:
            self._variable(operator, operation)
        elif len(attributes) == used and len(self.report.findings) == findings_before:
            self.cache[operation.name, operation.attributes] = operator.attributes.copy()
        if len(attributes) > used:
            self._other_attributes(spec, operation, attributes)

    def value(
        self, operation: Operation, what: str, name: str, value_type: ValueType, scope: Scope
    ) -> None:
        """Add a block's argument or an operation's result to the block's tensors or shapes."""
        label = self.name(operation)
        what = what if operation is scope.owner else f"'{label}' {what}"
        if value_type.problem:
            self.report.add(
                operation, value_type.code, f"{what}: {value_type.problem}", value_type.hint
            )
        elif value_type.dtype is None:
            scope.shapes[name] = ShapeValue(name, value_type.rank)
        else:
            if value_type.narrowed:
                self.narrowing.add(value_type.narrowed, name)
                spec = self.specs[operation.name]
                if value_type.narrowed == "i64" and spec and spec.name in WIDTH_MATTERS:
                    self.report.add(
                        operation,
                        "value-out-of-range",
                        f"'{label}' depends on the upper bits that narrowing i64 removes",
                        "compute it in i32 in the model",
                    )
            scale = None if value_type.scale is None else BlockScale(*value_type.scale)
            scope.tensors[name] = Tensor(name, value_type.dtype, value_type.shape, None, scale)

    # -- findings -----------------------------------------------------------------------------

    def foreign(self, operation: Operation) -> None:
        """Report an operation that has no row."""
        name = self.name(operation)
        if name.startswith("tosa."):
            self.report.add(
                operation,
                "unsupported-operator",
                f"'{name}' is in the dialect but not in the file format",
                "lower or decompose it before exporting",
            )
        else:
            from tosa_convert.mlir.lowering_hints import lowering_hint

            self.report.add(
                operation,
                "foreign-operator",
                f"'{name}' is not a TOSA operator",
                lowering_hint(name),
            )

    def captured(self, operation: Operation, value: int, scope: Scope) -> None:
        """Report an operand that is not defined in the operation's block."""
        self.report.add(
            operation,
            "captured-value",
            f"'{self.name(operation)}' uses {self._printed(value, scope)} from outside its region",
            "pass it in as an operand of the control-flow operator; a TOSA region sees only its inputs",
        )

    def _printed(self, value: int, scope: Scope) -> str:
        """The name that MLIR prints for a value of the function's own block."""
        if self.value_names is None:
            from tosa_convert.mlir.text.value_names import Counters, ValueNamer

            block = self.bytecode.root.regions[0].blocks[0]
            namer = ValueNamer(self.bytecode, generic=False)
            self.value_names = namer(block, Counters(), []).values
        if scope.in_function and value < len(self.value_names):
            return self.value_names[value]
        return "a value"

    # -- attributes ---------------------------------------------------------------------------

    def _attributes(
        self, operator: Operator, operation: Operation, attributes: dict[str, int]
    ) -> int:
        """Read the attributes of the operator's row; returns how many the operation has."""
        label, used = self.name(operation), 0
        for row in operator.spec.attributes:
            if row.kind == "region":
                continue
            if row.name in attributes:
                used += 1
                try:
                    value = self.attributes(row, attributes[row.name])
                except BadAttribute as error:
                    self.report.add(
                        operation,
                        "unsupported-attribute",
                        f"'{label}' attribute {row.name}: {error}",
                    )
                    continue
                problem = attribute_problem(row, value)
                if problem:
                    self.report.add(
                        operation,
                        "value-out-of-range",
                        f"'{label}' attribute {row.name}: {problem}",
                    )
                operator.attributes[row.name] = value
            elif row.optional:
                operator.attributes[row.name] = row.default
            else:
                self.report.add(
                    operation, "malformed-operator", f"'{label}' has no attribute {row.name}"
                )
        return used

    def _other_attributes(
        self, spec: OperatorSpec, operation: Operation, attributes: dict[str, int]
    ) -> None:
        """Attributes without a field: discardable by MLIR's definition, unless they mean something."""
        expected = {row.name for row in spec.attributes} | {NAME_ATTRIBUTE, REGIONS_ATTRIBUTE}
        expected |= _OWN_ATTRIBUTES.get(spec.name, set())
        for name, index in attributes.items():
            if name in expected:
                continue
            if (spec.name, name) in _MEANINGFUL_WHEN_TRUE:
                from tosa_convert.mlir.text.attributes import short_text

                text = short_text(self.bytecode, index)
                if text != "false":
                    self.report.add(
                        operation,
                        "unsupported-attribute",
                        f"'{self.name(operation)}' attribute {name} = {text} has no field",
                        "express it with other operators, such as a RESCALE",
                    )
                continue
            if log.shows_debug():
                where = self.location.full(operation.location)
                log.debug("%s: '%s' attribute %s is not carried", where, spec.mlir, name)

    def _variable(self, operator: Operator, operation: Operation) -> None:
        """Read or write a variable, which the dialect names instead of taking it as a value."""
        attributes = self.bytecode.dictionary(operation.attributes)
        symbol = text_of(self.bytecode, attributes.get("name"))
        variable = self.variables.get(symbol or "")
        if variable is None:
            self.report.add(
                operation,
                "undefined-name",
                f"'{self.name(operation)}' names variable @{symbol}, which is not declared",
            )
        elif operator.spec is VARIABLE_READ:
            operator.inputs = (variable.name,)
        else:
            operator.outputs = (variable.name,)

    # -- regions ------------------------------------------------------------------------------

    def _regions(self, operator: Operator, operation: Operation, scope: Scope) -> None:
        """Name an operator's regions, and note that they remain to be read."""
        label = self.name(operation)
        stem = self.namer.stem(self.location.full(operation.location), label)
        noted = self._region_names(operation) if self.retain else []
        if len(operation.regions) != len(operator.spec.regions):
            expected = ", ".join(row.name for row in operator.spec.regions)
            message = f"'{label}' has {len(operation.regions)} regions, expected {expected}"
            self.report.add(operation, "malformed-operator", message)
            return
        for index, row in enumerate(operator.spec.regions):
            blocks = operation.regions[index].blocks
            role = row.name.partition("_")[0]
            given = noted[index] if index < len(noted) else RegionNames()
            name = self.namer.region(stem, f"{role}_region", given.name)
            operator.attributes[row.name] = name
            if given.name:
                self.noted[name] = given.name
            if len(blocks) != 1:
                self.report.add(
                    operation,
                    "malformed-structure",
                    f"'{label}' {row.name} has {len(blocks)} blocks, expected 1",
                    "" if blocks else "an empty region must yield its inputs",
                )
                continue
            scope.pending.append(
                PendingRegion(
                    Region(name, [Block(given.block or f"{name}_bb0")]),
                    blocks[0],
                    operation,
                    given.inputs,
                    given.outputs,
                    scope.in_function and not operation.regions[index].is_isolated,
                )
            )

    def _region_names(self, operation: Operation) -> list[RegionNames]:
        """The names that an earlier import noted for the regions."""
        noted = self.bytecode.dictionary(operation.attributes).get(REGIONS_ATTRIBUTE)
        entries = None if noted is None else self.bytecode.attribute(noted)
        regions = []
        for index in entries if isinstance(entries, list) else ():
            entry = self.bytecode.attribute(index)
            names = RegionNames()
            if isinstance(entry, dict):
                names.name = text_of(self.bytecode, entry.get("name"))
                names.block = text_of(self.bytecode, entry.get("block"))
                names.inputs = names_of(self.bytecode, entry.get("inputs"))
                names.outputs = names_of(self.bytecode, entry.get("outputs"))
            regions.append(names)
        return regions
