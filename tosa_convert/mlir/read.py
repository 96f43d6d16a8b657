"""ir.Module -> Graph, with the Python bindings the module came from."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64
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
    VARIABLE,
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeValue,
    OperatorSpec,
)
from tosa_convert.graph.verify import attribute_problem
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.mlir import constants
from tosa_convert.mlir.attributes import AttributeReader, BadAttribute
from tosa_convert.mlir.bindings import Bindings, bindings_of, diagnostics, plain_location
from tosa_convert.mlir.locations import LocationReader
from tosa_convert.mlir.naming import Namer, unused
from tosa_convert.mlir.types import TypeReader, ValueType

Names = Literal["retain", "generate"]

#: Where the dialect keeps the name of an argument, a result, or (ours) an operation's results.
NAME_ATTRIBUTE: Final = "tosa.tensor_name"

#: Data from a dense attribute is padded with zeros to a multiple of this, in bytes, in a file.
PADDING: Final = 8
#: ... except data of these, which are written as long as they are.
_UNPADDED: Final = frozenset({"FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"})

_YIELD: Final = "tosa.yield"
_RETURN: Final = "func.return"
_ARITH_CONSTANT: Final = "arith.constant"

#: Attributes an operation has besides those of its row.
_OWN_ATTRIBUTES: Final = {
    "CONST": {"values"},
    "CONST_SHAPE": {"values"},
    "VARIABLE_READ": {"name"},
    "VARIABLE_WRITE": {"name"},
}

#: Attributes of other dialect versions that change what an operator computes when true.
_MEANINGFUL_WHEN_TRUE: Final = {("CAST", "input_unsigned")}

log = logging.getLogger("tosa_convert")


def read(
    module_or_func: Any,
    *,
    func: str | None = None,
    names: Names = "retain",
    full_paths: bool = False,
) -> Graph:
    """The graph of one function of a module.

    module_or_func: a module, a func.func, or the operation of either, of any MLIR bindings.
    func: the function's name, needed where the module has several with a body.
    names: "retain" keeps the names the module carries (tosa.tensor_name); "generate" ignores them.
    full_paths: keep the folders of file names in locations.

    The graph's constants are views of memory that the module's context owns.
    Raises TosaConvertError with every finding that could be told: operators, types, attributes.
    """
    bindings = bindings_of(module_or_func)
    operation = _operation(bindings, module_or_func)
    try:
        operation.verify()
    except bindings.ir.MLIRError as error:
        raise diagnostics(bindings, error, "module") from None
    functions, variables, findings = _select(operation, func)
    for function in functions:
        try:
            graph = _Reader(bindings, names, full_paths).graph(function, variables)
        except TosaConvertError as error:
            findings += error.findings
    if findings:
        raise TosaConvertError(findings)
    return graph


def _operation(bindings: Bindings, thing: Any) -> Any:
    """The ir.Operation of a module, an operation view or an operation."""
    operation = getattr(thing, "operation", thing)
    if not isinstance(operation, bindings.ir.Operation):
        raise fail(
            "not-an-mlir-object",
            "",
            f"found a {type(thing).__name__} of {bindings}, expected a module or a function",
            "give an ir.Module, a func.FuncOp or the ir.Operation of one",
        )
    return operation


def _body(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation


def _symbol(operation: Any) -> str:
    return str(operation.attributes["sym_name"].value)


def _select(operation: Any, func: str | None) -> tuple[list[Any], list[Any], list[Finding]]:
    """The function to export, the variables it may use, and no findings.

    Where there is no choice between several: all of them, and a finding for each, so that what else
    is wrong with them can be told at once.
    """
    if operation.name == "func.func":
        parent = operation.parent
        module = getattr(parent, "operation", parent)
        siblings = list(_body(module)) if module is not None else []
        functions = [operation]
    elif operation.name == "builtin.module":
        siblings = list(_body(operation))
        functions = [found for found in siblings if found.name == "func.func"]
    else:
        raise fail(
            "not-an-mlir-object",
            plain_location(str(operation.location)),
            f"found the operation '{operation.name}', expected a builtin.module or a func.func",
        )
    variables = [found for found in siblings if found.name == VARIABLE.mlir]
    bodies = [found for found in functions if any(len(r.blocks) for r in found.regions)]
    listing = ", ".join(f"@{_symbol(found)}" for found in bodies)
    if func is not None:
        chosen = [found for found in bodies if _symbol(found) == func.removeprefix("@")]
        if not chosen:
            raise fail(
                "unknown-function",
                "",
                f"no function @{func.removeprefix('@')} with a body; "
                f"found {listing or 'no function with a body'}",
            )
        return chosen[:1], variables, []
    if not bodies:
        declared = ", ".join(f"@{_symbol(found)}" for found in functions)
        raise fail(
            "no-function",
            plain_location(str(operation.location)),
            f"found {'only declarations: ' + declared if declared else 'no func.func'}"
            ", expected a function with a body at the top of the module",
        )
    findings = []
    if len(bodies) > 1:
        findings = [
            Finding(
                "ambiguous-function",
                plain_location(str(found.location)),
                f"function @{_symbol(found)} is one of {len(bodies)} with a body: {listing}",
                f"choose one: --func {_symbol(found)}, or func={_symbol(found)!r}",
            )
            for found in bodies
        ]
    return bodies, variables, findings


@dataclass(slots=True)
class _Pending:
    """A region whose name is known and whose block is still to be read."""

    region: Region
    body: Any
    owner: Any


class _Reader:
    def __init__(self, bindings: Bindings, names: Names, full_paths: bool) -> None:
        self.bindings = bindings
        self.ir = bindings.ir
        self.retain = names == "retain"
        self.types = TypeReader(bindings)
        self.attributes = AttributeReader(bindings)
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
        main = Region("main", [Block("main")])
        self.namer.regions.add("main")
        self.regions.append(main)
        body = function.regions[0]
        if len(body.blocks) != 1:
            raise fail(
                "malformed-structure",
                plain_location(str(function.location)),
                f"function @{_symbol(function)} has {len(body.blocks)} blocks, expected 1",
                "lower control flow to tosa.cond_if and tosa.while_loop",
            )
        arguments = self.given_names(function, "arg_attrs")
        results = self.given_names(function, "res_attrs")
        self.block(main.blocks[0], body.blocks[0], function, arguments, results)
        if self.findings:
            raise TosaConvertError(self.findings)
        return Graph(V1_1_DRAFT, self.regions)

    def given_names(self, function: Any, which: str) -> list[str | None]:
        """The names that a function's arguments or results carry; None for those that have none."""
        attributes = function.attributes
        if not self.retain or which not in attributes:
            return []
        names: list[str | None] = []
        for entry in attributes[which]:
            name = entry[NAME_ATTRIBUTE] if NAME_ATTRIBUTE in entry else None
            names.append(self.given_name(name))
        return names

    def given_name(self, attribute: Any) -> str | None:
        if not isinstance(attribute, self.ir.StringAttr):
            return None
        try:
            return str(attribute.value_bytes, "utf-8")
        except UnicodeDecodeError:
            return None

    def declare(self, operation: Any) -> None:
        """A tosa.variable."""
        attributes = operation.attributes
        symbol = _symbol(operation)
        sizes = [int(size) for size in attributes["var_shape"]]
        shape = tuple(DYNAMIC if size < 0 else size for size in sizes)
        element = self.types(
            self.ir.RankedTensorType.get([], attributes["type"].value, None, operation.location)
        )
        if element.problem or element.dtype is None:
            self.say(
                operation, element.code, f"variable @{symbol}: {element.problem}", element.hint
            )
            return
        name = f"Variable_{len(self.variables)}"
        tensor = Tensor(name, element.dtype, shape, None, None, True, symbol)
        if "initial_value" in attributes:
            kind = ValueType(element.dtype, shape)
            tensor.data = self.constant(operation, "initial_value", kind)
        self.variables[symbol] = tensor

    # -- blocks -------------------------------------------------------------------------------

    def block(
        self,
        block: Block,
        body: Any,
        owner: Any,
        argument_names: list[str | None],
        result_names: list[str | None],
    ) -> None:
        """Read a block, then the regions of its control flow, in the order of the file."""
        operations = [view.operation for view in body.operations]
        values: dict[Any, str] = {}
        tensors: dict[str, Tensor] = {tensor.name: tensor for tensor in self.variables.values()}
        shapes: dict[str, Shape] = {}
        taken = set(tensors)
        taken.update(name for name in (*argument_names, *result_names) if name is not None)
        if self.retain:
            taken.update(self.inner_names(operations))
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
            return
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
            block, operations, values, returned, taken, tensors, shapes, claim
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
        for item in pending:
            self.regions.append(item.region)
            self.block(item.region.blocks[0], item.body, item.owner, [], [])

    def inner_names(self, operations: list[Any]) -> Iterator[str]:
        for operation in operations:
            attributes = operation.attributes
            if NAME_ATTRIBUTE in attributes:
                yield from filter(None, self.result_names(attributes[NAME_ATTRIBUTE]))

    def result_names(self, attribute: Any) -> list[str | None]:
        """The names an operation gives its results: a string, or an array of strings."""
        if isinstance(attribute, self.ir.ArrayAttr):
            return [self.given_name(entry) for entry in attribute]
        return [self.given_name(attribute)]

    def operations(
        self,
        block: Block,
        operations: list[Any],
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
        for operation in operations:
            name = operation.name
            spec = BY_MLIR.get(name)
            if spec is None:
                if name != _ARITH_CONSTANT:
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
            attributes = operation.attributes
            given: list[str | None] = []
            if self.retain and NAME_ATTRIBUTE in attributes:
                given = self.result_names(attributes[NAME_ATTRIBUTE])
            outputs = []
            results = operation.results
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
                    scale = None if kind.scale is None else BlockScale(*kind.scale)
                    tensors[output] = Tensor(output, kind.dtype, kind.shape, None, scale)
                else:
                    shapes[output] = Shape(output, kind.rank)
            operator = Operator(
                spec, tuple(inputs), tuple(outputs), {}, location(operation.location)
            )
            if spec.attributes or len(attributes):
                self.operator(operator, operation, attributes, tensors, shapes, pending)
            append(operator)
        return pending

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
            self.fill(operator, operation, tensors, shapes)
        elif spec.regions:
            self.control_flow(operator, operation, pending)
        elif spec is VARIABLE_READ or spec is VARIABLE_WRITE:
            symbol = self.given_name(attributes["name"])
            variable = self.variables.get(symbol or "")
            if variable is None:
                self.say(
                    operation,
                    "undefined-name",
                    f"'{operation.name}' names variable @{symbol}, which is not declared",
                )
            elif spec is VARIABLE_READ:
                operator.inputs = (variable.name,)
            else:
                operator.outputs = (variable.name,)
        if len(attributes) > found:
            self.other_attributes(spec, operation, attributes)

    def other_attributes(self, spec: OperatorSpec, operation: Any, attributes: Any) -> None:
        """Attributes without a field: discardable by MLIR's definition, unless they mean something."""
        known = {row.name for row in spec.attributes} | {NAME_ATTRIBUTE, "value"}
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
        kinds = {
            "then_graph": "then",
            "else_graph": "else",
            "cond_graph": "cond",
            "body_graph": "body",
        }
        for row, body in zip(operator.spec.regions, operation.regions, strict=True):
            name = self.namer.region(stem, f"{kinds[row.name]}_region")
            operator.attributes[row.name] = name
            if len(body.blocks) != 1:
                self.say(
                    operation,
                    "malformed-structure",
                    f"'{operation.name}' {row.name} has {len(body.blocks)} blocks, expected 1",
                    "an empty else region must yield its inputs" if not len(body.blocks) else "",
                )
                continue
            region = Region(name, [Block(f"{name}_bb0")])
            pending.append(_Pending(region, body.blocks[0], operation))

    # -- constants ----------------------------------------------------------------------------

    def fill(
        self,
        operator: Operator,
        operation: Any,
        tensors: dict[str, Tensor],
        shapes: dict[str, Shape],
    ) -> None:
        """Attach the data of a constant to the value it produces."""
        name = operator.outputs[0]
        attribute = "value" if operation.name == _ARITH_CONSTANT else "values"
        tensor = tensors.get(name)
        if tensor is not None:
            scale = None if tensor.scale is None else (tensor.scale.dtype, tensor.scale.shape)
            kind = ValueType(tensor.dtype, tensor.shape, scale)
            if scale is None:
                tensor.data = self.constant(operation, attribute, kind)
            else:
                self.block_scaled(operation, attribute, tensor)
        elif name in shapes:
            try:
                value = operation.attributes[attribute]
                shapes[name].data = constants.dense(
                    self.bindings, operation, value, INT64, shapes[name].rank
                )
            except (constants.Unreadable, ValueError, AttributeError) as error:
                self.say(operation, "constant-form", f"'{operation.name}': {error}")

    def constant(self, operation: Any, name: str, kind: ValueType) -> Constant | None:
        """The data of the attribute `name`, or None and a finding."""
        ir, dtype = self.ir, kind.dtype
        assert dtype is not None
        count = Tensor("", dtype, kind.shape).element_count()
        attribute = operation.attributes[name]
        if count is None:
            self.say(
                operation,
                "unsupported-shape",
                f"'{operation.name}' has data for a dynamic shape: {attribute.type}",
                "a constant needs a static shape",
            )
            return None
        try:
            if isinstance(attribute, ir.DenseElementsAttr):
                data = constants.dense(self.bindings, operation, attribute, dtype, count)
                data.padding = _padding(data)
                return data
            text = str(attribute)
            if text.startswith("dense_resource<"):
                data = constants.resource(self.bindings, operation, dtype, count)
                if self.retain:
                    data.padding = _padding(data)
                return data
            if text.startswith("dense<"):
                data = constants.strings(attribute, dtype, count)
                data.padding = _padding(data)
                return data
            raise constants.Unreadable("it is neither dense nor a dense_resource")
        except constants.Unreadable as problem:
            self.say(
                operation,
                "constant-form",
                f"'{operation.name}' attribute {name}: {problem}",
                "print or save the module with its resources (no elision) and export again",
            )
            return None

    def block_scaled(self, operation: Any, name: str, tensor: Tensor) -> None:
        count = tensor.element_count()
        assert count is not None
        assert tensor.scale is not None
        try:
            tensor.data, tensor.scale.data = constants.block_scaled(
                self.bindings, operation, name, tensor.dtype, count, int(tensor.scale.shape)
            )
        except constants.Unreadable as problem:
            self.say(operation, "constant-form", f"'{operation.name}' attribute {name}: {problem}")


def _padding(data: Constant) -> int:
    return 0 if data.dtype.name in _UNPADDED else -data.nbytes % PADDING


def _short(value: Any) -> str:
    """A value's name as MLIR prints it."""
    try:
        return str(value.get_name())
    except (AttributeError, TypeError):
        return "a value"
