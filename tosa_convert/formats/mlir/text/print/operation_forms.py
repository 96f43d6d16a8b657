"""The text of operations, in custom and generic form, checked against tosa-opt on each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.formats.mlir.bytecode.attributes import (
    LAYOUTS,
    FunctionType,
    TensorType,
    TypeAttr,
)
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Fields, Operation
from tosa_convert.formats.mlir.text.print.attributes import AttributePrinter, dictionary, symbol
from tosa_convert.formats.mlir.text.print.names import BlockNames
from tosa_convert.formats.mlir.variables import variable_shape
from tosa_convert.graph.model import counted
from tosa_convert.graph.opset import OPERATORS

#: An enum of the dialect, whose member is printed alone in custom form.
_ENUM: Final = re.compile(r"#tosa\.\w+<(\w+)>\Z")
#: Operations that have no custom form, or print their enums in full.
_GENERIC: Final = frozenset({"tosa.const", "util.global", "util.global.load"})
_FULL_ENUMS: Final = frozenset({"tosa.reshape_block_scaled", "tosa.row_gather_block_scaled"})
#: Operation and attribute -> the value that custom form omits.
_DEFAULTS: Final = {
    (spec.mlir, row.name): row.default.name
    if isinstance(row.default, IntEnum)
    else str(row.default).lower()
    for spec in OPERATORS
    for row in spec.attributes
    if row.optional
}
#: Attributes that belong to an operation by its definition; all others are discardable.
INHERENT: Final = {
    name: frozenset(slot.name for slot in chain.from_iterable(layouts))
    for name, layouts in LAYOUTS.items()
}
_OF_GLOBAL: Final = frozenset({"global"})
_NO_NAMES: Final[frozenset[str]] = frozenset()
#: What is not among the attributes of a function in its custom form.
_SIGNATURE: Final = frozenset(
    {"sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"}
)


class Values(NamedTuple):
    """The values that the operations of a block may use: names and types, by their numbers."""

    names: list[str]
    types: list[int]


class Nest(NamedTuple):
    """An operation with regions.

    head: what precedes the first region. between: what precedes each of the others. tail: what follows
    the last one. hides_arguments: the arguments of the first region are in `head`.
    """

    head: str
    between: str
    tail: str
    hides_arguments: bool = False


class Form(NamedTuple):
    """How the operations of one name are printed.

    head, tail: what precedes and follows the operands. is_generic: its own attributes are apart from the
    others. special: prints all of an operation whose form is another.
    """

    name: str
    head: str
    tail: str
    is_generic: bool
    special: Callable[[OperationForms, Fields, Values], str] | None = None


class OperationForms:
    """The forms of the operations of one module. Texts of types and dictionaries are remembered.

    inherent: the names of operations -> attributes that generic form has apart from the others.
    """

    def __init__(
        self,
        bytecode: Bytecode,
        attributes: AttributePrinter,
        *,
        generic: bool,
        inherent: Mapping[str, frozenset[str]],
    ) -> None:
        self.bytecode = bytecode
        self.attributes = attributes
        self.generic = generic
        self._inherent = inherent
        self._forms: dict[int, Form] = {}
        self._types: dict[int, str] = {}
        self._signatures: dict[tuple[int, ...], str] = {}
        self._dictionaries: dict[tuple[str, int], str] = {}

    def __getitem__(self, number: int) -> Form:
        form = self._forms.get(number)
        if form is None:
            name = self.bytecode.names[number]
            form = Form(name, f"{name} ", "", is_generic=False, special=_SPECIAL.get(name))
            if self.generic or name in _GENERIC:
                form = Form(name, f'"{name}"(', ")", is_generic=True)
            self._forms[number] = form
        return form

    # -- parts of operations ------------------------------------------------------------------

    def type(self, index: int) -> str:
        text = self._types.get(index)
        if text is None:
            text = self._types[index] = self.attributes.type(self.bytecode.type(index))
        return text

    def types(self, indices: Sequence[int]) -> str:
        return ", ".join(map(self.type, indices))

    def signature(self, operands: list[int], results: list[int], values: Values) -> str:
        """Format the types of operands and results: `(t, t) -> t`."""
        types = values.types
        if len(operands) == 1:
            key = (types[operands[0]], -1, *results)
        else:
            key = (*[types[operand] for operand in operands], -1, *results)
        text = self._signatures.get(key)
        if text is None:
            inputs = key[: len(operands)]
            text = f"({self.types(inputs)}) -> {self.results(results)}"
            self._signatures[key] = text
        return text

    def results(self, types: list[int]) -> str:
        texts = self.types(types)
        if len(types) == 1 and not isinstance(self.bytecode.type(types[0]), FunctionType):
            return texts
        return f"({texts})"

    def dictionary(self, form: Form, index: int) -> str:
        """Format the attributes of an operation after a space, or nothing if there are none."""
        if form.is_generic:
            return self._split(form.name, index)
        return self.merged(form.name, index)

    def merged(self, name: str, index: int, without: frozenset[str] = _NO_NAMES) -> str:
        """Format a dictionary in custom form: enums by their members, and no defaults."""
        text = self._dictionaries.get((name, index))
        if text is None:
            large = len(self.attributes.large)
            shown = {}
            for key, value in self.bytecode.dictionary(index).items():
                if key in without:
                    continue
                text = self.attributes(value)
                if text[0] == "#" and name not in _FULL_ENUMS:
                    enum = _ENUM.match(text)
                    text = text if enum is None else enum[1]
                if _DEFAULTS.get((name, key)) != text:
                    shown[key] = text
            text = f" {dictionary(shown)}" if shown else ""
            if len(self.attributes.large) == large:
                self._dictionaries[name, index] = text
        return text

    def _split(self, name: str, index: int) -> str:
        """Format a dictionary in generic form: an operation's own attributes, and then the others."""
        key = name, index
        text = self._dictionaries.get(key)
        if text is None:
            large = len(self.attributes.large)
            text = self.properties(name, index) + self.discardable(name, index)
            if len(self.attributes.large) == large:
                self._dictionaries[key] = text
        return text

    def properties(self, name: str, index: int) -> str:
        shown = self._shown(name, index, are_own=True)
        return f" <{dictionary(shown)}>" if shown else ""

    def discardable(self, name: str, index: int) -> str:
        shown = self._shown(name, index, are_own=False)
        return f" {dictionary(shown)}" if shown else ""

    def _shown(self, name: str, index: int, *, are_own: bool) -> dict[str, str]:
        own = self._inherent.get(name, _NO_NAMES)
        pairs = self.bytecode.dictionary(index).items()
        return {key: self.attributes(value) for key, value in pairs if (key in own) is are_own}

    def name(self, dictionary: int, key: str) -> str:
        """Format the symbol that an operation's attribute names."""
        return symbol(self.bytecode.string(self.bytecode.dictionary(dictionary)[key]))

    # -- operations without regions that have a form of their own -----------------------------

    def _yield(self, fields: Fields, values: Values) -> str:
        _, _, attributes, _, operands, _, _ = fields
        if not operands:
            # MLIR does not parse what it prints here, `tosa.yield  : `.
            return f'"tosa.yield"(){self._split("tosa.yield", attributes)} : () -> ()'
        names = ", ".join([values.names[operand] for operand in operands])
        types = self.types([values.types[operand] for operand in operands])
        return f"tosa.yield {names}{self.merged('tosa.yield', attributes)} : {types}"

    def _return(self, fields: Fields, values: Values) -> str:
        number, _, attributes, _, operands, _, _ = fields
        name = self.bytecode.names[number]
        head = f"{name.removeprefix('func.')}{self.merged(name, attributes)}"
        if not operands:
            return head
        names = ", ".join([values.names[operand] for operand in operands])
        return f"{head} {names} : {self.types([values.types[operand] for operand in operands])}"

    def _variable(self, fields: Fields, values: Values) -> str:
        index = fields[2]
        pairs = self.bytecode.dictionary(index)
        head = f"tosa.variable {self.name(index, 'sym_name')}"
        head += self.merged("tosa.variable", index, INHERENT["tosa.variable"])
        if "initial_value" in pairs:
            return f"{head} = {self.attributes(pairs['initial_value'])}"
        element = self.bytecode.attribute(pairs["type"])
        assert isinstance(element, TypeAttr)
        shape = variable_shape(self.bytecode, pairs["var_shape"])
        return f"{head} : {TensorType(shape, str(element.type))}"

    def _variable_read(self, fields: Fields, values: Values) -> str:
        index = fields[2]
        others = self.merged("tosa.variable_read", index, INHERENT["tosa.variable_read"])
        types = self.types(fields[3])
        return f"tosa.variable_read {self.name(index, 'name')}{others} : {types}"

    def _variable_write(self, fields: Fields, values: Values) -> str:
        index, operand = fields[2], fields[4][0]
        others = self.merged("tosa.variable_write", index, INHERENT["tosa.variable_write"])
        head = f"tosa.variable_write {self.name(index, 'name')}{others}"
        return f"{head}, {values.names[operand]} : {self.type(values.types[operand])}"

    def _global(self, fields: Fields, values: Values) -> str:
        index = fields[2]
        pairs = self.bytecode.dictionary(index)
        visibility = self.bytecode.string(pairs["sym_visibility"]).decode()
        head = f"ml_program.global {visibility} {'mutable ' if 'is_mutable' in pairs else ''}"
        head += self.name(index, "sym_name")
        if "value" in pairs:
            head += f"({self.attributes(pairs['value'])})"
        others = self.merged("ml_program.global", index, INHERENT["ml_program.global"])
        kind = self.bytecode.attribute(pairs["type"])
        assert isinstance(kind, TypeAttr)
        return f"{head} : {kind.type}{others}"

    def _global_load(self, fields: Fields, values: Values) -> str:
        others = self.merged("ml_program.global_load", fields[2], _OF_GLOBAL)
        return f"ml_program.global_load {self._symbol(fields[2])} : {self.types(fields[3])}{others}"

    def _global_store(self, fields: Fields, values: Values) -> str:
        others = self.merged("ml_program.global_store", fields[2], _OF_GLOBAL)
        operand = fields[4][0]
        head = f"ml_program.global_store {self._symbol(fields[2])} = {values.names[operand]}"
        return f"{head} : {self.type(values.types[operand])}{others}"

    def _symbol(self, index: int) -> str:
        return self.attributes(self.bytecode.dictionary(index)["global"])

    # -- operations with regions --------------------------------------------------------------

    def nest(self, fields: Fields, values: Values, inner: BlockNames, location: str) -> Nest:
        """Return the text around regions. inner: values of the first one. location: of its arguments."""
        form = self[fields[0]]
        name = self.bytecode.names[fields[0]]
        operation = Operation(*fields)
        if not self.generic and name in _NESTS:
            return _NESTS[name](self, operation, values, inner, location)
        operands = ", ".join([values.names[operand] for operand in operation.operands])
        signature = self.signature(operation.operands, operation.types, values)
        head = f"{form.head}{operands}{form.tail}{self.properties(name, operation.attributes)} ({{"
        tail = f"}}){self.discardable(name, operation.attributes)} : {signature}"
        return Nest(head, "}, {", tail)

    def _module(
        self, operation: Operation, values: Values, inner: BlockNames, location: str
    ) -> Nest:
        others = self.merged("builtin.module", operation.attributes)
        return Nest(f"module{f' attributes{others}' if others else ''} {{", "", "}")

    def _function(
        self, operation: Operation, values: Values, inner: BlockNames, location: str
    ) -> Nest:
        index = operation.attributes
        pairs = self.bytecode.dictionary(index)
        signature = self.bytecode.attribute(pairs["function_type"])
        assert isinstance(signature, TypeAttr)
        assert isinstance(signature.type, FunctionType)
        inputs, results = signature.type
        arguments = [
            f"{name}: {self.attributes.type(type_)}{attributes}{location}"
            for name, type_, attributes in zip(
                inner.values, inputs, self._listed(pairs, "arg_attrs", len(inputs)), strict=False
            )
        ]
        name = self.bytecode.names[operation.name]
        head = f"{name} "
        if "sym_visibility" in pairs:
            head += f"{self.bytecode.string(pairs['sym_visibility']).decode()} "
        head += f"{self.name(index, 'sym_name')}({', '.join(arguments)})"
        attributes = self._listed(pairs, "res_attrs", len(results))
        texts = [
            f"{self.attributes.type(type_)}{others}"
            for type_, others in zip(results, attributes, strict=True)
        ]
        if len(results) == 1 and not attributes[0] and not isinstance(results[0], FunctionType):
            head += f" -> {texts[0]}"
        elif results:
            head += f" -> ({', '.join(texts)})"
        others = self.merged(name, index, _SIGNATURE)
        return Nest(
            f"{head}{f' attributes{others}' if others else ''} {{", "", "}", hides_arguments=True
        )

    def _listed(self, pairs: dict[str, int], key: str, count: int) -> list[str]:
        listed = self.bytecode.attribute(pairs[key]) if key in pairs else [-1] * count
        assert isinstance(listed, list)
        return [self.merged("", index) for index in listed]

    def _cond_if(
        self, operation: Operation, values: Values, inner: BlockNames, location: str
    ) -> Nest:
        condition, *inputs = operation.operands
        head = f"tosa.cond_if {values.names[condition]}{self._bound(inputs, values, inner)} : "
        head += self.type(values.types[condition])
        if inputs:
            head += f" ({self.types([values.types[operand] for operand in inputs])})"
        head += f" -> {self.results(operation.types)} {{"
        return Nest(head, "} else {", f"}}{self.merged('tosa.cond_if', operation.attributes)}")

    def _while_loop(
        self, operation: Operation, values: Values, inner: BlockNames, loc: str
    ) -> Nest:
        head = f"tosa.while_loop{self._bound(operation.operands, values, inner)} : "
        head += f"{self.signature(operation.operands, operation.types, values)} {{"
        others = self.merged("tosa.while_loop", operation.attributes)
        return Nest(head, "} do {", f"}}{f' attributes{others}' if others else ''}", True)

    def _bound(self, operands: list[int], values: Values, inner: BlockNames) -> str:
        """Print arguments of the first region with the operands that they take: ` (%arg2 = %1)`."""
        if len(inner.arguments) != len(operands):
            raise fail(
                "malformed-operator",
                "",
                f"an operator passes {counted(len(operands), 'value')} to its region, "
                f"which has {counted(len(inner.arguments), 'argument')}",
                "MLIR's own form cannot say that; --generic can",
            )
        pairs = [
            f"{name} = {values.names[operand]}"
            for name, operand in zip(inner.arguments, operands, strict=True)
        ]
        return f" ({', '.join(pairs)})" if pairs else ""


_SPECIAL: Final[dict[str, Callable[[OperationForms, Fields, Values], str]]] = {
    "tosa.yield": OperationForms._yield,
    **dict.fromkeys(
        ("func.return", "ml_program.return", "ml_program.output"), OperationForms._return
    ),
    "tosa.variable": OperationForms._variable,
    "tosa.variable_read": OperationForms._variable_read,
    "tosa.variable_write": OperationForms._variable_write,
    "ml_program.global": OperationForms._global,
    "ml_program.global_load": OperationForms._global_load,
    "ml_program.global_store": OperationForms._global_store,
}
_NESTS: Final[dict[str, Callable[[OperationForms, Operation, Values, BlockNames, str], Nest]]] = {
    "builtin.module": OperationForms._module,
    **dict.fromkeys(
        ("func.func", "ml_program.func", "ml_program.subgraph"), OperationForms._function
    ),
    "tosa.cond_if": OperationForms._cond_if,
    "tosa.while_loop": OperationForms._while_loop,
}
