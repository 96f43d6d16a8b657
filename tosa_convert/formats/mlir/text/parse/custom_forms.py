"""The custom forms of operations in MLIR text, of all releases; docs/formats.md lists them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from tosa_convert.formats.mlir.bytecode.attributes import FunctionType, TensorType, Type
from tosa_convert.formats.mlir.text.parse.attributes import AttributeParser, Dictionary
from tosa_convert.formats.mlir.text.parse.elements import Parsed
from tosa_convert.formats.mlir.text.parse.operations import (
    OperationParser,
    ParsedOperation,
    ParsedRegion,
    Steps,
)
from tosa_convert.formats.mlir.types import I32_ARRAYS, MNEMONICS
from tosa_convert.graph.opset import BY_MLIR, OPERATORS

_MEMBER: Final = re.compile(rb"[A-Za-z_]\w*")
_INTEGER: Final = re.compile(rb"-?[0-9]{1,10}(?=\s*\))")
_CLAUSE: Final = re.compile(rb"([a-z]\w*)(?=[(<])")
#: Attributes that are enums -> the attribute of MLIR.
_ENUMS: Final = {
    row.name: f"tosa.{MNEMONICS[row.enum.__name__]}"
    for spec in OPERATORS
    for row in spec.attributes
    if row.enum is not None
}


_LOSSY: Final = (
    "releases from October 2023 to July 2025 print tosa.cond_if without its operands; "
    "print the module in generic form (--mlir-print-op-generic) or as bytecode"
)


class CustomForms:
    """Parses operations in custom form, after their names."""

    def __init__(self, operations: OperationParser) -> None:
        self.operations = operations
        self.cursor = operations.cursor
        self.attributes: AttributeParser = operations.attributes
        self.types = operations.types
        #: The types of the arguments of the last function.
        self.inputs: tuple[Type, ...] = ()

    def form(self, name: str) -> Callable[[CustomForms, ParsedOperation], Steps | None] | None:
        return _FORMS.get(name, CustomForms.tosa if name.startswith("tosa.") else None)

    # -- attributes ---------------------------------------------------------------------------

    def bare(self, name: str) -> bytes | None:
        """Parse an enum as custom forms print it, by its member; None if the attribute is no enum."""
        enum = _ENUMS.get(name)
        member = self.cursor.match(_MEMBER) if enum else None
        return None if member is None else self.attributes.text(f"#{enum}<{member[0].decode()}>")

    def dictionary(self) -> Dictionary:
        return self.attributes.optional_dictionary(self.bare)

    def clauses(self, operation: ParsedOperation) -> None:
        """Parse attributes as IREE prints them since October 2026: `axis(1) nan_mode<IGNORE>`."""
        cursor = self.cursor
        spec = BY_MLIR.get(operation.name)
        rows = {row.name: row for row in spec.attributes} if spec is not None else {}
        while True:
            clause = cursor.match(_CLAUSE)
            if clause is None:
                return
            name = clause[1].decode()
            if name in operation.attributes:
                cursor.refuse(f"the attribute {name} is there twice", clause.start())
            row = rows.get(name)
            if cursor.accept(b"<"):
                value = self.bare(name)
                if value is None:
                    cursor.refuse(f"'{operation.name}' has no attribute {name}", clause.start())
                operation.attributes[name] = value
                cursor.expect(b">")
                continue
            cursor.expect(b"(")
            integer = cursor.match(_INTEGER) if row is not None and row.kind == "i32" else None
            if integer is not None:
                operation.attributes[name] = self.attributes.writer.integer(int(integer[0]), 32)
            elif row is not None and row.kind == "i32s":
                bits = 32 if (BY_MLIR[operation.name].name, name) in I32_ARRAYS else 64
                operation.attributes[name] = self.attributes.list_of_integers(bits)
            else:
                operation.attributes[name] = self.attributes(name, self.bare)
            cursor.expect(b")")

    # -- TOSA ---------------------------------------------------------------------------------

    def tosa(self, operation: ParsedOperation) -> None:
        """Parse what most operators are printed like: `%a, %b {axis = 1 : i32} : (T, T) -> T`."""
        operation.operands = self.operations.operands()
        self.clauses(operation)
        self._more_attributes(operation)
        operation.types = self.operations.signature(operation.operands)

    def _more_attributes(self, operation: ParsedOperation) -> None:
        self.cursor.skip()
        at = self.cursor.at
        for name, value in self.dictionary().items():
            if name in operation.attributes:
                self.cursor.refuse(f"the attribute {name} is there twice", at)
            operation.attributes[name] = value

    def _values_and_types(self, operation: ParsedOperation) -> None:
        """Parse `%a, %b : T, T`, or nothing."""
        self.cursor.skip()
        at = self.cursor.at
        operation.operands = self.operations.operands()
        self._more_attributes(operation)
        types = []
        if operation.operands:
            self.cursor.expect(b":", "':' and the types of the operands")
            types = [parsed.number for parsed in self.types.row()]
        elif self.cursor.accept(b":"):
            return  # MLIR prints it after no operands, too.
        self.operations.check_types(operation.operands, types, at)

    def variable(self, operation: ParsedOperation) -> None:
        """Parse `@v = dense<1> : tensor<2xi8>` or `@v : tensor<2xi8>`."""
        cursor, attributes = self.cursor, operation.attributes
        self._visibility(attributes)
        attributes["sym_name"] = self._symbol()
        attributes.update(self.dictionary())
        cursor.skip()
        at = cursor.at
        if cursor.accept(b"="):
            type_, attributes["initial_value"] = self._typed_value()
        else:
            cursor.expect(b":", "':' and the type, or '=' and the initial value")
            type_ = self.types()
        if not isinstance(type_.type, TensorType) or type_.type.shape is None:
            cursor.refuse(f"found a variable of type {type_.type}, expected a ranked tensor", at)
        shape = type_.type.shape
        element = self.types.number(type_.type.element)
        attributes["type"] = self.attributes.writer.type(element)
        attributes["var_shape"] = self.attributes.sizes(shape)

    def _typed_value(self) -> tuple[Parsed, bytes]:
        cursor = self.cursor
        word = cursor.word()
        if word == b"dense":
            value, type_ = self.attributes.elements.dense()
            return type_, value
        if word == b"dense_resource":
            return self.attributes.resource()
        raise cursor.unexpected("a constant: dense<...> or dense_resource<...>")

    def _visibility(self, attributes: Dictionary) -> None:
        word = self.cursor.peek_word()
        if word in (b"private", b"public", b"nested"):
            self.cursor.at += len(word)
            attributes["sym_visibility"] = self.attributes.encoder.string_attribute(word)

    def _symbol(self) -> bytes:
        return self.attributes.encoder.string_attribute(self.attributes.symbol())

    def variable_read(self, operation: ParsedOperation) -> None:
        """Parse `@v : T`."""
        operation.attributes["name"] = self._symbol()
        self._more_attributes(operation)
        self.cursor.expect(b":", "':' and the type of the variable")
        operation.types = [self.types().number]

    def variable_write(self, operation: ParsedOperation) -> None:
        """Parse `@v, %a : T`."""
        cursor = self.cursor
        operation.attributes["name"] = self._symbol()
        self._more_attributes(operation)
        cursor.expect(b",", "',' and the value")
        cursor.skip()
        at = cursor.at
        operation.operands = [self.operations.value()]
        cursor.expect(b":", "':' and the type of the value")
        self.operations.check_types(operation.operands, [self.types().number], at)

    def shape_operation(self, operation: ParsedOperation) -> None:
        """Parse `%a : T to U`, or `%a [[0, 1], [2]] output_shape [2, %d, 3] : T into U`."""
        cursor = self.cursor
        cursor.skip()
        at = cursor.at
        operation.operands = [self.operations.value()]
        while cursor.accept_word(b"output_shape") or cursor.peek(b"["):
            cursor.skip_balanced(b"[", "'['")
        self._more_attributes(operation)
        cursor.expect(b":", "':' and the types of the operand and the result")
        self.operations.check_types(operation.operands, [self.types().number], at)
        if not (cursor.accept_word(b"to") or cursor.accept_word(b"into")):
            raise cursor.unexpected("'to' or 'into', and the type of the result")
        operation.types = [self.types().number]

    def call(self, operation: ParsedOperation) -> None:
        """Parse `@f(%a, %b) : (T, U) -> V`."""
        cursor = self.cursor
        operation.attributes["callee"] = self.attributes()
        cursor.expect(b"(")
        operation.operands = self.operations.operands()
        cursor.expect(b")")
        self._more_attributes(operation)
        operation.types = self.operations.signature(operation.operands)

    # -- control flow -------------------------------------------------------------------------

    def _bound(self) -> tuple[list[tuple[bytes, int]], list[int]]:
        """Parse `(%x = %a, %y = %b)`: names of arguments with their offsets, and their values."""
        cursor = self.cursor
        names: list[tuple[bytes, int]] = []
        values: list[int] = []
        if not cursor.accept(b"("):
            return names, values
        while not cursor.accept(b")"):
            if names:
                cursor.expect(b",", "',' or ')'")
            found = cursor.match(re.compile(rb"%[\w$.-]+"))
            if found is None:
                raise cursor.unexpected("the name of an argument")
            names.append((found[0], found.start()))
            cursor.expect(b"=")
            values.append(self.operations.value())
        return names, values

    def _region(
        self,
        operation: ParsedOperation,
        names: list[tuple[bytes, int]],
        types: list[bytes],
        hint: str = "",
    ) -> ParsedRegion:
        """Begin a region after its brace. Its arguments are those of its label, or have these names."""
        region = self.operations.new_region(operation.name)
        region.hint = hint
        operation.regions.append(region)
        if not self.cursor.peek(b"^") and names:
            unknown = self.operations.encoder.unknown
            self.operations.begin_block(
                region,
                [
                    (name, type_, unknown, at)
                    for (name, at), type_ in zip(names, types, strict=True)
                ],
            )
        return region

    def cond_if(self, operation: ParsedOperation) -> Steps:
        """Parse `%c (%x = %a) : tensor<i1> (T) -> T {...} else {...}`, or `%c -> (T) {...}` of 2025."""
        cursor, operations = self.cursor, self.operations
        operation.operands = [operations.value()]
        names, values = self._bound()
        operation.operands += values
        types: list[bytes] = []
        if cursor.accept(b":"):
            cursor.skip()
            at = cursor.at
            types = [self.types().number]
            if cursor.peek(b"("):
                types += [parsed.number for parsed in self.types.in_parentheses()]
            operations.check_types(operation.operands, types, at)
        elif names:
            raise cursor.unexpected("':' and the types of the condition and the operands")
        if cursor.accept(b"->"):
            operation.types = [parsed.number for parsed in self.types.results()]
        cursor.expect(b"{")
        # The form of 2023 to mid 2025 has neither types nor operands, whatever the operation has.
        hint = "" if types else _LOSSY
        yield self._region(operation, names, types[1:], hint)
        if cursor.accept_word(b"else"):
            cursor.expect(b"{")
            yield self._region(operation, names, types[1:], hint)
        self._more_attributes(operation)

    def while_loop(self, operation: ParsedOperation) -> Steps:
        """Parse `(%x = %a) : (T) -> T {...} do {...} attributes {...}`."""
        cursor, operations = self.cursor, self.operations
        names, operation.operands = self._bound()
        operation.types = operations.signature(operation.operands)
        cursor.expect(b"{")
        types = operations.region.types_of(operation.operands)
        yield self._region(operation, names, types)
        if not cursor.accept_word(b"do"):
            raise cursor.unexpected("'do'")
        cursor.expect(b"{")
        yield self._region(operation, [], [])
        if cursor.accept_word(b"attributes"):
            self._more_attributes(operation)

    # -- functions and modules ----------------------------------------------------------------

    def module(self, operation: ParsedOperation) -> Steps:
        """Parse `@name attributes {...} {...}`."""
        if self.cursor.peek(b"@"):
            operation.attributes["sym_name"] = self._symbol()
        if self.cursor.accept_word(b"attributes"):
            self._more_attributes(operation)
        self.cursor.expect(b"{")
        region = self.operations.new_region(operation.name)
        operation.regions.append(region)
        yield region

    def function(self, operation: ParsedOperation) -> Steps:
        """Parse `private @f(%a: T {...}) -> (T {...}) attributes {...} {...}`."""
        cursor, encoder = self.cursor, self.operations.encoder
        attributes = operation.attributes
        self._visibility(attributes)
        attributes["sym_name"] = self._symbol()
        arguments = self.operations.arguments()
        results: list[tuple[Parsed, Dictionary]] = []
        if cursor.accept(b"->"):
            results = self._results()
        self.inputs = tuple(type_.type for _, type_, _, _, _ in arguments)
        attributes["function_type"] = self.signature(tuple(type_.type for type_, _ in results))
        for key, dictionaries in (
            ("arg_attrs", [others for _, _, others, _, _ in arguments]),
            ("res_attrs", [others for _, others in results]),
        ):
            if any(dictionaries):
                attributes[key] = encoder.array(
                    [encoder.dictionary(others.items()) for others in dictionaries]
                )
        if cursor.accept_word(b"attributes"):
            self._more_attributes(operation)
        region = self.operations.new_region(operation.name)
        operation.regions.append(region)
        if cursor.accept(b"{"):
            if not cursor.peek(b"^"):
                self.operations.begin_block(
                    region, [(name, type_.number, loc, at) for name, type_, _, loc, at in arguments]
                )
            yield region

    def signature(self, results: tuple[Type, ...] = ()) -> bytes:
        """Encode the type of the last function, with results of these types."""
        number = self.types.number(FunctionType(self.inputs, results))
        return self.attributes.writer.type(number)

    def _results(self) -> list[tuple[Parsed, Dictionary]]:
        cursor = self.cursor
        if not cursor.accept(b"("):
            return [(self.types(), {})]
        results: list[tuple[Parsed, Dictionary]] = []
        while not cursor.accept(b")"):
            if results:
                cursor.expect(b",", "',' or ')'")
            results.append((self.types(), self.attributes.optional_dictionary()))
        return results

    def func_return(self, operation: ParsedOperation) -> None:
        """Parse `{...} %a : T`, or nothing."""
        self._more_attributes(operation)
        self._values_and_types(operation)

    # -- dialects around TOSA -----------------------------------------------------------------

    def constant(self, operation: ParsedOperation) -> None:
        """Parse `arith.constant {...} dense<1> : tensor<2xi8>`; the type is that of the result."""
        cursor = self.cursor
        self._more_attributes(operation)
        if cursor.peek_word() in (b"dense", b"dense_resource"):
            type_, value = self._typed_value()
        else:
            cursor.skip()
            start = cursor.at
            value = self.attributes()
            type_ = self._type_of_scalar(start)
        operation.attributes["value"] = value
        operation.types = [type_.number]

    def _type_of_scalar(self, start: int) -> Parsed:
        text = bytes(self.cursor.data[start : self.cursor.at])
        _, colon, name = text.rpartition(b":")
        element = name.strip().decode("utf-8", "replace") if colon else ""
        if not colon:
            element = "i1" if text[:1] in (b"t", b"f") else "f64" if b"." in text else "i64"
        return self.types.parsed(element)

    def global_variable(self, operation: ParsedOperation) -> None:
        """Parse `ml_program.global private mutable @g(dense<1> : T) : T`."""
        cursor, attributes = self.cursor, operation.attributes
        self._visibility(attributes)
        if cursor.accept_word(b"mutable"):
            attributes["is_mutable"] = self.attributes.unit()
        attributes["sym_name"] = self._symbol()
        if cursor.accept(b"("):
            attributes["value"] = self.attributes()
            cursor.expect(b")")
        cursor.expect(b":", "':' and the type of the global")
        attributes["type"] = self.attributes.writer.type(self.types().number)
        self._more_attributes(operation)

    def global_load(self, operation: ParsedOperation) -> None:
        """Parse `ml_program.global_load @g : T {...}`; IREE has the attributes before the type."""
        operation.attributes["global"] = self.attributes()
        self._more_attributes(operation)
        self.cursor.expect(b":", "':' and the type of the global")
        operation.types = [self.types().number]
        self._more_attributes(operation)

    def global_store(self, operation: ParsedOperation) -> None:
        """Parse `ml_program.global_store @g = %a : T {...}`."""
        operation.attributes["global"] = self.attributes()
        self.cursor.expect(b"=", "'=' and the value")
        self._values_and_types(operation)
        self._more_attributes(operation)

    def iree_global(self, operation: ParsedOperation) -> None:
        """Parse `util.global private mutable @g {...} = dense<1> : T`, or `#...` for a constant."""
        cursor, attributes = self.cursor, operation.attributes
        self._visibility(attributes)
        if cursor.accept_word(b"mutable"):
            attributes["is_mutable"] = self.attributes.unit()
        attributes["sym_name"] = self._symbol()
        self._more_attributes(operation)
        if cursor.accept(b"="):
            if cursor.peek_word() in (b"dense", b"dense_resource"):
                type_, attributes["initial_value"] = self._typed_value()
            else:
                attributes["initial_value"] = self.attributes.untyped()
                cursor.expect(b":", "':' and the type of the global")
                type_ = self.types()
        else:
            cursor.expect(b":", "':' and the type of the global")
            type_ = self.types()
        attributes["type"] = self.attributes.writer.type(type_.number)

    def iree_load(self, operation: ParsedOperation) -> None:
        """Parse `util.global.load immutable @g : T`."""
        self.cursor.accept_word(b"immutable")
        self.global_load(operation)

    def iree_store(self, operation: ParsedOperation) -> None:
        """Parse `util.global.store %a, @g : T`."""
        cursor = self.cursor
        cursor.skip()
        at = cursor.at
        operation.operands = [self.operations.value()]
        cursor.expect(b",", "',' and the global")
        operation.attributes["global"] = self.attributes()
        self._more_attributes(operation)
        cursor.expect(b":", "':' and the type of the value")
        self.operations.check_types(operation.operands, [self.types().number], at)


#: The forms of operations that are not printed as most of TOSA's are.
_FORMS: Final[
    dict[str, Callable[[CustomForms, ParsedOperation], Iterator[ParsedRegion] | None]]
] = {
    "tosa.yield": CustomForms._values_and_types,
    "tosa.variable": CustomForms.variable,
    "tosa.variable_read": CustomForms.variable_read,
    "tosa.variable_write": CustomForms.variable_write,
    "tosa.variable.read": CustomForms.variable_read,
    "tosa.variable.write": CustomForms.variable_write,
    "tosa.cond_if": CustomForms.cond_if,
    "tosa.while_loop": CustomForms.while_loop,
    "builtin.module": CustomForms.module,
    "func.func": CustomForms.function,
    "func.return": CustomForms.func_return,
    "func.call": CustomForms.call,
    "arith.constant": CustomForms.constant,
    **dict.fromkeys(
        ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape"), CustomForms.shape_operation
    ),
    "util.global": CustomForms.iree_global,
    "util.global.load": CustomForms.iree_load,
    "util.global.store": CustomForms.iree_store,
    "ml_program.global": CustomForms.global_variable,
    "ml_program.global_load": CustomForms.global_load,
    "ml_program.global_load_const": CustomForms.global_load,
    "ml_program.global_store": CustomForms.global_store,
}
