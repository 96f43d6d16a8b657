"""A module of MLIR text as bytecode, without MLIR."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tosa_convert.errors import MAX_FINDINGS
from tosa_convert.formats.mlir.bytecode.encode import Data, Encoder
from tosa_convert.formats.mlir.text.parse.attributes import AttributeParser
from tosa_convert.formats.mlir.text.parse.cursor import Aliases, TextCursor
from tosa_convert.formats.mlir.text.parse.custom_forms import CustomForms
from tosa_convert.formats.mlir.text.parse.elements import Resources, TypeParser
from tosa_convert.formats.mlir.text.parse.operations import (
    LineParser,
    OperationParser,
    ParsedOperation,
    ParsedRegion,
    ResultNames,
    Steps,
)
from tosa_convert.graph.constant import in_order
from tosa_convert.io.options import DEFAULT_LIMITS, Limits

_MAX_REGIONS: Final = 1000
#: Names of operations in other releases or in a shorter form -> today's.
_RENAMED: Final = {
    "module": "builtin.module",
    "func": "func.func",
    "builtin.func": "func.func",
    "return": "func.return",
    "std.return": "func.return",
    "call": "func.call",
    "std.call": "func.call",
    "constant": "arith.constant",
    "std.constant": "arith.constant",
    "yield": "tosa.yield",
    "ml_program.func": "func.func",
    "ml_program.subgraph": "func.func",
    "ml_program.return": "func.return",
    "ml_program.output": "func.return",
}
#: Dialects of which some operations are read.
_READ: Final = ("builtin", "func", "ml_program", "tosa", "util")
#: Operations of TOSA with two regions, which are read like the function's own.
_FLOWS: Final = ("tosa.cond_if", "tosa.while_loop")
#: How the regions of operations end.
_TERMINATORS: Final = {"func.func": "func.return"} | dict.fromkeys(_FLOWS, "tosa.yield")
#: Up to April 2022 a function had the attribute `type`.
_FUNCTION_TYPE: Final = ("type", "function_type")

_VALUE: Final = re.compile(rb"%[\w$.-]+(?:#[0-9]+)?")
_LINE_OR_BRACKET: Final = re.compile(
    rb'\n|(?<![\w.$%#@-])loc\(|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|->|[()\[\]{}<>]'
)
_OPERATION_START: Final = re.compile(
    rb'(?:%[\w$.-]+[ \t]*[=,:]|"[\w.$-]+"[ \t]*\(|[a-z_]\w*\.[a-z_]|return\b|\}|\^|\{-#'
    rb"|[#!][\w$.-]+[ \t]*=|\Z)"
)
_CLOSING: Final = {b"loc(": b")", b"(": b")", b"[": b"]", b"{": b"}", b"<": b">"}


def parse(
    data: memoryview,
    path: str = "",
    limits: Limits = DEFAULT_LIMITS,
    *,
    packed_bools: bool | None = None,
    function: str | None = "",
    pass_captured: bool = False,
) -> list[Data]:
    """Parse a text into bytecode, in pieces; large constants are pieces of their own."""
    cursor = TextCursor(data, path, limits.text_depth, limits.text_parts)
    # Each line may have an operation and a location.
    encoder = Encoder()
    resources = Resources(cursor, encoder)
    aliases = Aliases(cursor)
    types = TypeParser(cursor, encoder, aliases)
    attributes = AttributeParser(cursor, encoder, aliases, types, resources)
    attributes.elements.packed_bools = packed_bools
    parser = _ModuleParser(OperationParser(cursor, attributes), resources, function)
    parser.counts_captured = not pass_captured
    module = parser.module()
    return list(in_order(encoder.finish([bytes(piece) for piece in module])))


class _Open(NamedTuple):
    """An operation whose regions are being parsed.

    names: of its results. outer: the region that it is in. start, at: where it and its name begin.
    """

    steps: Steps
    operation: ParsedOperation
    names: ResultNames
    outer: ParsedRegion
    start: int
    at: int


class _ModuleParser:
    """Parses the operations of one text. Not recursive, because modules may nest deeply."""

    def __init__(
        self, operations: OperationParser, resources: Resources, function: str | None
    ) -> None:
        self.operations = operations
        self.cursor = operations.cursor
        self.attributes = operations.attributes
        self.forms = CustomForms(operations)
        self.lines = LineParser(operations)
        self.end = resources.begin
        #: Operations whose regions are being parsed, each with the region around it.
        self.stack: list[_Open] = []
        #: The name of the operation that was added last.
        self.last = ""
        self.function = (
            function
            if function is None
            else (function.removeprefix("@").encode("utf-8", "surrogatepass"))
        )
        #: Findings in the function that is being parsed, and functions that could be read.
        self.findings = self.candidates = 0
        self.counts_captured = True
        #: Operations in modules.
        self.in_modules = 0

    def module(self) -> Iterable[bytes | bytearray]:
        """Return the encoding of the only module at the top, or of one around what is at the top."""
        top, encoder = self.operations.region, self.operations.encoder
        while self._more():
            if self.stack and self.stack[-1].operation.name != "builtin.module" and self.lines():
                self.last = ""
            else:
                self._operation()
        self._close()
        if top.count == 1 and self.last == "builtin.module":
            return top.rows
        top.close(encoder)
        around = ParsedRegion(None, top.room)
        module = ParsedOperation("builtin.module", encoder.unknown, {}, [], [], [top])
        around.append(module, encoder)
        return around.rows

    def _more(self) -> bool:
        """Return whether another operation is to be parsed. Takes what is between operations."""
        cursor, operations = self.cursor, self.operations
        while max(self.findings, self.candidates - 1) < MAX_FINDINGS:
            cursor.skip()
            if self.stack:
                if cursor.accept(b"}"):
                    self._resume()
                    continue
                if operations.label(operations.region):
                    continue
                if not operations.region.blocks:
                    operations.begin_block(operations.region)
                if cursor.at >= self.end:
                    message = "the text ends inside a region: '}' is missing"
                    cursor.refuse(message, hint="the text is cut off, or a brace was lost")
                return True
            if cursor.at >= self.end:
                return False
            if self.attributes.locations.skip_aliases():
                continue
            name = self.attributes.aliases.next_definition()
            if not name:
                return True
            self._alias(name)
        return False

    def _alias(self, name: bytes) -> None:
        aliases, cursor, attributes = self.attributes.aliases, self.cursor, self.attributes
        is_type = name.startswith(b"!")
        aliases.resolve(name, cursor.at, attributes.types.alias if is_type else attributes)
        cursor.at = aliases.end(name)

    # -- operations ---------------------------------------------------------------------------

    def _operation(self) -> None:
        """Parse an operation, up to its first region if it has one."""
        cursor, operations = self.cursor, self.operations
        if not self.stack or self.stack[-1].operation.name == "builtin.module":
            self.in_modules += 1
            cursor.bound(self.in_modules, "operations in modules")
        cursor.skip()
        start = cursor.at
        names = operations.result_names()
        cursor.skip()
        at = cursor.at
        quoted = cursor.string()
        word = quoted if quoted is not None else cursor.word()
        if not word:
            raise cursor.unexpected("an operation")
        name = word.decode("utf-8", "replace")
        name = _RENAMED.get(name, name)
        operation = ParsedOperation(name, b"", {}, [], [])
        steps: Steps | None = None
        if quoted is not None:
            steps = operations.generic(operation, at)
        else:
            form = self.forms.form(name)
            if form is None:
                self._foreign(operation, sum(count for _, count in names), at)
            else:
                steps = form(self.forms, operation)
        if steps is None:
            self._finish(operation, names, start, at)
        else:
            self._advance(_Open(steps, operation, names, operations.region, start, at))

    def _advance(self, opened: _Open) -> None:
        """Go on with an operation that may have regions."""
        operations = self.operations
        region = next(opened.steps, None)
        if region is None:
            operations.region = opened.outer
            self._finish(opened.operation, opened.names, opened.start, opened.at)
            return
        if not opened.operation.location:
            opened.operation.location = operations.attributes.locations.here(opened.at)
        if len(self.stack) >= _MAX_REGIONS:
            message = f"regions are nested more than {_MAX_REGIONS} deep"
            raise self.cursor.coded("too-large", message)
        self.stack.append(opened)
        operations.region = region

    def _resume(self) -> None:
        """Go on with the operation whose region has ended."""
        opened = self.stack.pop()
        self.operations.region.close(self.operations.encoder)
        self.operations.region = opened.outer
        self._advance(opened)

    def _finish(self, operation: ParsedOperation, names: ResultNames, start: int, at: int) -> None:
        """Take the location of an operation, whose name is at an offset, and add it to its block."""
        operations = self.operations
        locations = operations.attributes.locations
        is_new_line = self.lines.ends()
        location = locations.optional()
        if location is not None:
            operation.location = location
        elif not operation.location:
            operation.location = locations.here(at)
        if operation.name == "func.func" and _FUNCTION_TYPE[0] in operation.attributes:
            operation.attributes[_FUNCTION_TYPE[1]] = operation.attributes.pop(_FUNCTION_TYPE[0])
        if operation.regions and _is_foreign(operation.name):
            operation.regions.clear()  # the operation is a finding, whatever is in it
        operations.define(names, operation.types, start)
        operations.region.append(operation, operations.encoder)
        if is_new_line:
            self.lines.remember(operation)
        self.last = operation.name
        if self.function != b"":
            self._count(operation)

    def _count(self, operation: ParsedOperation) -> None:
        """Count the findings that an operation causes, whatever follows it in the text."""
        region = self.operations.region
        is_function = operation.name == "func.func"
        count = int(is_function or _is_foreign(operation.name))
        if not count and region.parent is not None and self.counts_captured:
            count = sum(value < region.first for value in operation.operands)
        if not count:
            return
        around = [opened.operation for opened in self.stack]
        while around and around[-1].name in _FLOWS:
            around.pop()
        owner = operation if is_function else around.pop() if around else None
        if owner is None or owner.name != "func.func" or len(around) > 1:
            return
        if around and (around[0].name != "builtin.module" or self.stack[0].outer.count):
            return
        if is_function:
            self.findings = 0
            is_choice = self.function is None and any(r.blocks for r in operation.regions)
            self.candidates += is_choice and self._is_read(operation)
        elif self._is_read(owner):
            self.findings += count

    def _is_read(self, function: ParsedOperation) -> bool:
        encoder, attributes = self.operations.encoder, function.attributes
        if self.function is not None:
            return attributes.get("sym_name") == encoder.string_attribute(self.function)
        # In generic form the attributes may follow the body.
        visibility = attributes.get("sym_visibility", b"")
        return "sym_name" in attributes and visibility in (b"", encoder.string_attribute("public"))

    def _close(self) -> None:
        """End what is open in a text that is not parsed to its end."""
        operations = self.operations
        encoder = operations.encoder
        while self.stack:
            opened = self.stack.pop()
            attributes = opened.operation.attributes
            if "function_type" in attributes:
                attributes["function_type"] = self.forms.signature()
                attributes.pop("res_attrs", None)
            terminator = _TERMINATORS.get(opened.operation.name, "")
            end = ParsedOperation(terminator, encoder.unknown, {}, [], [])
            if terminator and not (operations.region.count and self.last == terminator):
                operations.region.append(end, encoder)
            operations.region.close(encoder)
            operations.region = opened.outer
            while opened.operation.name in _FLOWS and len(opened.operation.regions) < 2:
                region = operations.new_region(opened.operation.name)
                opened.operation.regions.append(region)
                operations.begin_block(region)
                region.append(end, encoder)
                region.close(encoder)
            operations.region.append(opened.operation, encoder)
            self.last = opened.operation.name

    def _foreign(self, operation: ParsedOperation, results: int, at: int) -> None:
        """Skip an operation whose form is not known, which is reported when it is read."""
        cursor = self.cursor
        if "." not in operation.name:
            cursor.at = at
            raise cursor.unexpected("an operation")
        operation.types = [self.operations.unknown_type] * results
        closing = bytearray()
        location = -1
        while True:
            found = _LINE_OR_BRACKET.search(cursor.data, cursor.at)
            if found is None or found.start() >= self.end:
                cursor.at = self.end
                break
            token = found[0]
            cursor.at = found.end()
            if not closing and token == b"\n":
                cursor.skip()
                if _OPERATION_START.match(cursor.data, cursor.at):
                    break
                continue
            if not closing and token == b"}":
                cursor.at = found.start()
                break
            if token == b"loc(" and not closing:
                location = found.start()
            if token in _CLOSING:
                closing += _CLOSING[token]
                if len(closing) > _MAX_REGIONS:
                    raise cursor.coded("too-large", f"nested more than {_MAX_REGIONS} deep", at)
            elif closing and token[0] == closing[-1]:
                closing.pop()
        if location >= 0:
            cursor.at = location
        # What it uses is not dead, wherever its form has the values.
        names = dict.fromkeys(_VALUE.findall(cursor.data, at, cursor.at))
        values = map(self.operations.region.find, names)
        operation.operands = [value for value in values if value is not None]


def _is_foreign(name: str) -> bool:
    """Return whether a function that has an operation of this name is refused."""
    return name.partition(".")[0] not in (*_READ, "arith", "tensor")
