"""One operation of a module as an operator of the graph: attributes, data, regions, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tosa_convert.errors import suggest
from tosa_convert.formats.mlir.bytecode import operations as bytecode_operations
from tosa_convert.formats.mlir.bytecode.attributes import SymbolAttr
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Fields, Operation
from tosa_convert.formats.mlir.constants import ARITH_CONSTANT, ConstantReader
from tosa_convert.formats.mlir.locations import LocationReader, Report
from tosa_convert.formats.mlir.names import (
    NAME_ATTRIBUTE,
    REGIONS_ATTRIBUTE,
    Namer,
    names_of,
    text_of,
)
from tosa_convert.formats.mlir.read.scope import (
    WIDTH_MATTERS,
    CapturedValues,
    Narrowing,
    PendingRegion,
    RegionNames,
    Scope,
)
from tosa_convert.formats.mlir.types import AttributeReader, BadAttribute, TypeReader, ValueType
from tosa_convert.graph.model import Block, BlockScale, Operator, Region, ShapeValue, Tensor
from tosa_convert.graph.opset import (
    BY_MLIR,
    CONST,
    CONST_SHAPE,
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeValue,
    OperatorSpec,
    operator,
)
from tosa_convert.graph.verify_values import attribute_problem
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions

#: Attributes of an operation besides those of its row.
_OWN_ATTRIBUTES: Final = {
    "CONST": {"values", "value"},
    "CONST_SHAPE": {"values", "value"},
    "VARIABLE_READ": {"name", "global"},
    "VARIABLE_WRITE": {"name", "global"},
}

#: Operators whose operations have attributes besides those of their rows.
_WITH_OWN: Final = frozenset({CONST, CONST_SHAPE, VARIABLE_READ, VARIABLE_WRITE})
#: The operator whose attributes have the element type of its result.
_CLAMP: Final = operator("CLAMP")
#: Operations that have another name today.
RENAMED: Final = {old: row.mlir for row in BY_MLIR.values() for old, _ in row.old_names}
#: Operations of another dialect that read and write variables.
_GLOBAL_LOAD: Final = "ml_program.global_load"
OF_GLOBALS: Final = {
    _GLOBAL_LOAD: VARIABLE_READ.mlir,
    "ml_program.global_store": VARIABLE_WRITE.mlir,
}
_NAMES_OF_TODAY: Final = RENAMED | OF_GLOBALS
#: Operations that the dialect does not have any more, but `upgrade` knows.
_REMOVED: Final = frozenset({"tosa.fully_connected", "tosa.reluN"})
#: Operations of the dialect that files do not have: helpers, and one that only IREE has.
_WITHOUT_FIELD: Final = frozenset({"tosa.apply_scale", "tosa.yield", "tosa.argmin", *_REMOVED})
#: Characters of a name for which a similar one is looked for.
_LONGEST_NAME: Final = 40
#: Operations whose number of operands does not always show the form of an older release -> an
#: attribute that they have today.
_SAME_COUNT: Final = {"tosa.clamp": "min_val", "tosa.custom": "operator_name", "tosa.pad": ""}
ANY_NUMBER: Final = -1
SAME_NUMBER: Final = -2

#: Attributes of other versions of the dialect that change what an operator computes if they are true.
_MEANINGFUL_WHEN_TRUE: Final = {("CAST", "input_unsigned")}


class OperatorReader:
    """Reads the operations of one function.

    captures: passes in what regions capture; else None. retain: keep the names that the module has.
    """

    def __init__(
        self,
        bytecode: Bytecode,
        options: ReadOptions,
        narrowing: Narrowing,
        captures: CapturedValues | None,
    ) -> None:
        self.bytecode = bytecode
        self.captures = captures
        self.retain = options.names == "retain"
        self.narrowing = narrowing
        self.types = TypeReader(bytecode, narrowing)
        self.attributes = AttributeReader(bytecode, narrowing)
        self.location = LocationReader(bytecode, full_paths=options.full_paths)
        self.report = Report(bytecode.names, self.location)
        self.constants = ConstantReader(
            bytecode, self.types, narrowing, self.report, pad_resources=self.retain
        )
        self.namer = Namer()
        #: The names that an earlier import noted for regions, by the names that they have now.
        self.noted: dict[str, str] = {}
        #: The module's variables by their symbols.
        self.variables: dict[str, Tensor] = {}
        #: Globals that no operation writes: by their symbols, the names of their tensors, and these.
        self.fixed: dict[str, tuple[str, Tensor]] = {}
        #: Rows by the numbers of operations' names.
        self.specs = [
            CONST if name == ARITH_CONSTANT else BY_MLIR.get(_NAMES_OF_TODAY.get(name, name))
            for name in bytecode.names
        ]
        #: By the numbers of names: whether the operation has attributes besides a name.
        self.has_attributes = [
            spec is not None and (bool(spec.attributes) or spec in _WITH_OWN) for spec in self.specs
        ]
        #: By the numbers of names: how many operands the operation has today, ANY_NUMBER, or
        #: SAME_NUMBER if one of an older release may have as many.
        self.operand_counts = list(map(_operand_count, bytecode.names, self.specs))
        #: The names of operations that have another name today, one for each operation.
        self.renamed: list[str] = []
        #: Attributes that were read, by the numbers of the operation's name and of the dictionary, and
        #: of the result's type where attributes are of its element type; else -1.
        self.cache: dict[tuple[int, int, int], dict[str, AttributeValue]] = {}
        #: Dictionaries that have just the name of a result.
        self.names_only: set[int] = set()
        #: The names of the function's values in text, once a message needs one.
        self.value_names: list[str] | None = None

    def name(self, operation: Operation) -> str:
        return self.bytecode.names[operation.name]

    def is_completed(
        self,
        operator: Operator,
        name: int,
        attributes: int,
        type_index: int,
        value_type: ValueType | None,
        scope: Scope,
    ) -> bool:
        """Return whether an operator was completed from what is known; if not, `read` does it."""
        spec = operator.spec
        if attributes in self.names_only and not self.has_attributes[name]:
            return True
        cached = self.cache.get((name, attributes, type_index if spec is _CLAMP else -1))
        if cached is not None:
            operator.attributes = cached.copy()
            return True
        if (spec is CONST or spec is CONST_SHAPE) and value_type is not None:
            key = attributes, type_index
            data = self.constants.cache.get(key) or self.constants.plain(key, value_type)
            if data:
                # By the type of the result: a damaged file may not have that of the operator.
                (output,) = operator.outputs
                is_tensor = output in scope.tensors
                (scope.tensors if is_tensor else scope.shapes)[output].data = data
                return True
        return False

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
            self._variable(operator, operation, scope)
        elif len(attributes) == used and len(self.report.findings) == findings_before:
            type_index = operation.types[0] if spec is _CLAMP and operation.types else -1
            key = operation.name, operation.attributes, type_index
            self.cache[key] = operator.attributes.copy()
        if len(attributes) > used:
            self._other_attributes(spec, operation, attributes)

    def may_have_old(self, name: int, attributes: Iterable[int]) -> bool:
        """Return whether operations of a name, not a PAD's, may be old by their attributes."""
        key = _SAME_COUNT.get(self.bytecode.names[name])
        return not key or any(key not in self.bytecode.dictionary(number) for number in attributes)

    def is_other_form(self, fields: Fields, inputs: Sequence[str], scope: Scope) -> bool:
        """Return whether an operation may be old: its operand count is not current, or does not tell."""
        name, attributes = fields[0], fields[2]
        if self.operand_counts[name] != SAME_NUMBER:
            return True
        label = self.bytecode.names[name]
        if label in RENAMED:
            self.renamed.append(label)
            return False
        key = _SAME_COUNT.get(label)
        if key:
            return key not in self.bytecode.dictionary(attributes)
        if key is None or len(inputs) != 3:
            return True
        constant = scope.tensors.get(inputs[2])
        return inputs[1] in scope.tensors or (constant is not None and constant.shape == ())

    def value(
        self, operation: Operation, what: str, name: str, value_type: ValueType, scope: Scope
    ) -> None:
        """Add a block's argument or an operation's result to the block's tensors or shapes."""
        label = self.name(operation)
        what = what if operation is scope.item.owner else f"'{label}' {what}"
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
                    message = f"'{label}' depends on the upper bits that narrowing i64 removes"
                    hint = "compute it in i32 in the model"
                    self.report.add(operation, "value-out-of-range", message, hint)
            if value_type.unsigned:
                scope.unsigned.add(name)
            scale = None if value_type.scale is None else BlockScale(*value_type.scale)
            scope.tensors[name] = Tensor(name, value_type.dtype, value_type.shape, None, scale)

    # -- findings -----------------------------------------------------------------------------

    def foreign(self, operation: Operation) -> None:
        """Report an operation that has no row."""
        name = self.name(operation)
        if name in _WITHOUT_FIELD:
            message = f"'{name}' is in the dialect but not in the file format"
            hint = "lower or decompose it before exporting"
            self.report.add(operation, "unsupported-operator", message, hint)
        elif name.startswith("tosa."):
            self.report.add(
                operation,
                "unsupported-operator",
                f"'{name}' is not an operator of TOSA",
                suggest(name, BY_MLIR) if len(name) <= _LONGEST_NAME else "",
            )
        else:
            from tosa_convert.formats.mlir.read.select_function import lowering_hint

            message = f"'{name}' is not a TOSA operator"
            self.report.add(operation, "foreign-operator", message, lowering_hint(name))

    def captured(self, operation: Operation, value: int, scope: Scope) -> str:
        """Return the name of an operand not defined in the operation's block; "" with a finding."""
        name = None if self.captures is None else self.captures.local(value, scope)
        if name is not None:
            return name
        label, printed = self.name(operation), self._printed(value, scope)
        hint = "" if self.captures is None else "only tensors and constant shapes can be passed in"
        message = f"'{label}' uses {printed} from outside its region"
        self.report.add(operation, "captured-value", message, hint)
        return ""

    def _printed(self, value: int, scope: Scope) -> str:
        """Return the name that MLIR prints for a value of the function's own block."""
        if self.value_names is None:
            from tosa_convert.formats.mlir.text.print.names import Counters, ValueNamer

            block = self.bytecode.root.regions[0].blocks[0]
            namer = ValueNamer(self.bytecode, generic=False)
            self.value_names = namer(block, Counters(), []).values
        if scope.item.in_function and value < len(self.value_names):
            return self.value_names[value]
        return "a value"

    # -- attributes ---------------------------------------------------------------------------

    def _attributes(
        self, operator: Operator, operation: Operation, attributes: dict[str, int]
    ) -> int:
        """Read the attributes of the operator's row; returns how many the operation has."""
        label, used = self.name(operation), 0
        result = self.bytecode.type(operation.types[0]) if operation.types else ""
        for row in operator.spec.attributes:
            if row.kind == "region":
                continue
            if row.name in attributes:
                used += 1
                try:
                    value = self.attributes(row, attributes[row.name], result)
                except BadAttribute as error:
                    message = f"'{label}' attribute {row.name}: {error}"
                    self.report.add(operation, "unsupported-attribute", message)
                    continue
                problem = attribute_problem(row, value)
                if problem:
                    message = f"'{label}' attribute {row.name}: {problem}"
                    self.report.add(operation, "value-out-of-range", message)
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
        """Keep attributes without a field, which MLIR may discard, unless they mean something."""
        expected = {row.name for row in spec.attributes} | {NAME_ATTRIBUTE, REGIONS_ATTRIBUTE}
        expected |= _OWN_ATTRIBUTES.get(spec.name, set())
        for name, index in attributes.items():
            if name in expected:
                continue
            if (spec.name, name) in _MEANINGFUL_WHEN_TRUE:
                from tosa_convert.formats.mlir.text.print.attributes import short_text

                text = short_text(self.bytecode, index)
                if text != "false":
                    message = f"'{self.name(operation)}' attribute {name} = {text} has no field"
                    hint = "express it with other operators, such as a RESCALE"
                    self.report.add(operation, "unsupported-attribute", message, hint)
                continue
            if log.shows_debug():
                where = self.location.full(operation.location)
                log.debug("%s: '%s' attribute %s is not carried", where, spec.mlir, name)

    def loaded(self, body: bytecode_operations.Block) -> Iterator[tuple[int, tuple[str, int]]]:
        """Iterate over the first loads of constant globals, with the names of their values."""
        seen = set()
        for fields in body.operations:
            operation = Operation(*fields)
            if self.name(operation) == _GLOBAL_LOAD and len(operation.types) == 1:
                attributes = self.bytecode.dictionary(operation.attributes)
                name = symbol_of(self.bytecode, attributes.get("global"))
                if name in self.fixed and name not in seen:
                    seen.add(name)
                    yield operation.first, (self.fixed[name][0], operation.name)

    def _variable(self, operator: Operator, operation: Operation, scope: Scope) -> None:
        """Read or write a variable, which the dialect names instead of taking it as a value."""
        attributes = self.bytecode.dictionary(operation.attributes)
        symbol = text_of(self.bytecode, attributes.get("name"))
        if self.name(operation) in OF_GLOBALS and "global" in attributes:
            symbol = symbol_of(self.bytecode, attributes["global"])
        variable = self.variables.get(symbol or "")
        fixed = self.fixed.get(symbol or "")
        if fixed is not None and operator.spec is VARIABLE_READ and operator.outputs:
            operator.spec = CONST
            scope.tensors[operator.outputs[0]].data = fixed[1].data
        elif symbol is None:
            message = f"'{self.name(operation)}' does not name a variable"
            self.report.add(operation, "malformed-operator", message)
        elif variable is None:
            message = f"'{self.name(operation)}' names variable @{symbol}, which is not declared"
            self.report.add(operation, "undefined-name", message)
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
            is_open = not operation.regions[index].is_isolated
            scope.pending.append(
                PendingRegion(
                    Region(name, [Block(given.block or f"{name}_bb0")]),
                    blocks[0],
                    operation,
                    given.inputs,
                    given.outputs,
                    scope.item.in_function and is_open,
                    operator,
                    scope if self.captures is not None and is_open else None,
                )
            )

    def _region_names(self, operation: Operation) -> list[RegionNames]:
        """Return the names that an earlier import noted for the regions."""
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


def symbol_of(bytecode: Bytecode, index: int | None) -> str:
    """Return the name in the symbol attribute with this index; "" if it is not one."""
    symbol = None if index is None else bytecode.attribute(index)
    return symbol.name.decode("utf-8", "replace") if isinstance(symbol, SymbolAttr) else ""


def _operand_count(name: str, spec: OperatorSpec | None) -> int:
    if name in _REMOVED or name in _SAME_COUNT or name in RENAMED:
        return SAME_NUMBER
    if spec is None:
        return ANY_NUMBER
    fewest, most = spec.operand_range()
    return fewest if fewest == most else ANY_NUMBER
