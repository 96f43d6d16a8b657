"""A graph or a module as MLIR's text, as tosa-opt and torch-mlir print it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Block, Fields, Region
from tosa_convert.formats.mlir.bytecode.read_sections import sections_in_pieces
from tosa_convert.formats.mlir.text.print.attributes import (
    LARGE,
    AttributePrinter,
    bare,
    hex_pieces,
)
from tosa_convert.formats.mlir.text.print.names import (
    UNKNOWN,
    BlockNames,
    Counters,
    LocationAliases,
    ValueNamer,
)
from tosa_convert.formats.mlir.text.print.operation_forms import (
    INHERENT,
    Nest,
    OperationForms,
    Values,
)
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.graph.constant import in_order
from tosa_convert.graph.model import Graph
from tosa_convert.graph.verify import NO_COLUMNS
from tosa_convert.io.options import WriteOptions

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns

#: Lines that are joined into one piece.
_LINES: Final = 1 << 10
_INDENT: Final = "  "
#: The operation whose first region has no list of arguments in custom form.
_WHILE_LOOP: Final = "tosa.while_loop"
_WRITE_OPTIONS: Final = WriteOptions()


def write(
    graph: Graph,
    options: WriteOptions = _WRITE_OPTIONS,
    *,
    columns: Mapping[str, BlockColumns] = NO_COLUMNS,
    state: str = "",
) -> Iterator[bytes]:
    """Iterate over the pieces of the text, which do not grow with the constants."""
    pieces = encode_module(graph, options, columns=columns, state=state).pieces
    return module_text(Bytecode(sections_in_pieces(in_order(pieces))), options, older=bool(state))


def module_text(
    bytecode: Bytecode, options: WriteOptions = _WRITE_OPTIONS, *, older: bool = False
) -> Iterator[bytes]:
    return _Printer(bytecode, options, older=older).pieces()


@dataclass(slots=True, eq=False, repr=False)
class _Frame:
    """A block that is being printed.

    operations: those that are left. counters: for the names in the blocks inside.
    outer: the block of the operation whose region this is. nest, regions, after: the text around the
    regions of that operation, those that are left, and what follows it.
    """

    operations: Iterator[Fields]
    values: Values
    counters: Counters
    indent: str
    outer: _Frame | None
    nest: Nest
    regions: Iterator[Region]
    after: str


class _Printer:
    """Prints one module."""

    def __init__(self, bytecode: Bytecode, options: WriteOptions, *, older: bool) -> None:
        generic, locations = options.generic or older, options.locations
        self.bytecode = bytecode
        self.generic = generic
        self.attributes = AttributePrinter(bytecode, options.elide, lists_booleans=older)
        inherent = {} if older else INHERENT
        self.forms = OperationForms(bytecode, self.attributes, generic=generic, inherent=inherent)
        self.namer = ValueNamer(bytecode, generic=generic)
        self.aliases = LocationAliases(bytecode, self._used_locations() if locations else ())
        self.argument_location = " loc(unknown)" if locations else ""
        self.lines: list[str] = []

    def pieces(self) -> Iterator[bytes]:
        yield "".join(self.aliases.before()).encode()
        yield from self._operations()
        yield from _joined(self.aliases.at_end())
        yield from self._resources()
        yield b"\n"

    def _used_locations(self) -> Iterator[int]:
        """Iterate over the locations of operations and of printed arguments, in MLIR's order."""
        pending: list[Iterator[Fields | None]] = [iter((self.bytecode.root,))]
        while pending:
            for fields in pending[-1]:
                if fields is None:
                    yield UNKNOWN
                    continue
                yield fields[1]
                if fields[6]:
                    blocks = [region.blocks[0] for region in fields[6]]
                    hidden = not self.generic and self.bytecode.names[fields[0]] == _WHILE_LOOP
                    inner = [
                        chain(
                            (None,) * (index >= hidden and bool(block.arguments)), block.operations
                        )
                        for index, block in enumerate(blocks)
                    ]
                    pending += inner[::-1]
                    break
            else:
                pending.pop()

    # Long because this is the loop over all operations, and what most of them have is printed in line.
    def _operations(self) -> Iterator[bytes]:
        """Iterate over the printed operations. Not recursive, because modules may nest deeply."""
        forms, lines, large = self.forms, self.lines, self.attributes.large
        signature, after = forms.signature, self.aliases.after
        root, no_values, no_nest = self.bytecode.root, Values([], []), Nest("", "", "")
        frame: _Frame | None
        frame = _Frame(iter((root,)), no_values, Counters(), "", None, no_nest, iter(()), "")
        while frame is not None:
            values, indent = frame.values, frame.indent
            names = values.names
            for fields in frame.operations:
                name, location, attributes, types, operands, first, regions = fields
                result = ""
                if types:
                    result = names[first]
                    if len(types) > 1:
                        result = _results(names[first : first + len(types)])
                    result += " = "
                if regions:
                    frame = self._enter(frame, fields, f"{indent}{result}")
                    break
                form = forms[name]
                if form.special is not None:
                    text = form.special(forms, fields, values)
                else:
                    if len(operands) == 1:
                        used = names[operands[0]]
                    else:
                        used = ", ".join([names[operand] for operand in operands])
                    others = forms.dictionary(form, attributes) if attributes != -1 else ""
                    types_text = signature(operands, types, values)
                    text = f"{form.head}{used}{form.tail}{others} : {types_text}"
                lines.append(f"{indent}{result}{text}{after.get(location, '')}\n")
                if large or len(lines) > _LINES:
                    yield from self._flush()
            else:
                frame = self._leave(frame)
        yield from self._flush()

    def _enter(self, frame: _Frame, fields: Fields, start: str) -> _Frame:
        """Begin with the first region of an operation. start: what precedes the operation."""
        regions = iter(fields[6])
        block = next(regions).blocks[0]
        inner = self.namer(block, frame.counters, frame.values.names)
        nest = self.forms.nest(fields, frame.values, inner, self.argument_location)
        self.lines.append(f"{start}{nest.head}\n")
        after = self.aliases.after.get(fields[1], "")
        return self._open(frame, block, inner, nest, regions, after, shows=not nest.hides_arguments)

    def _leave(self, frame: _Frame) -> _Frame | None:
        """Go on after a block: in the next region of the operation, or after the operation."""
        outer = frame.outer
        if outer is None:
            return None
        region = next(frame.regions, None)
        if region is None:
            self.lines.append(f"{outer.indent}{frame.nest.tail}{frame.after}\n")
            return outer
        self.lines.append(f"{outer.indent}{frame.nest.between}\n")
        block = region.blocks[0]
        inner = self.namer(block, outer.counters, outer.values.names)
        return self._open(outer, block, inner, frame.nest, frame.regions, frame.after, shows=True)

    def _open(
        self,
        outer: _Frame,
        block: Block,
        inner: BlockNames,
        nest: Nest,
        regions: Iterator[Region],
        after: str,
        *,
        shows: bool,
    ) -> _Frame:
        """Return the frame of a block, whose arguments are printed if it `shows` them."""
        types = outer.values.types[: block.first] + block.arguments
        for fields in block.operations:
            types += fields[3]
        if shows and block.arguments:
            arguments = ", ".join(
                f"{name}: {self.forms.type(type_)}{self.argument_location}"
                for name, type_ in zip(inner.arguments, block.arguments, strict=True)
            )
            self.lines.append(f"{outer.indent}^bb0({arguments}):\n")
        values, indent = Values(inner.values, types), outer.indent + _INDENT
        return _Frame(
            iter(block.operations), values, inner.counters, indent, outer, nest, regions, after
        )

    def _flush(self) -> Iterator[bytes]:
        """Iterate over the lines so far, with the large constants in them, and clear them."""
        parts = "".join(self.lines).encode().split(LARGE.encode())
        self.lines.clear()
        for position, part in enumerate(parts):
            if position % 2:
                yield from self.attributes.large.pop(int(part))
            else:
                yield part

    def _resources(self) -> Iterator[bytes]:
        """Iterate over the data of the resources that were printed."""
        separator = b"\n{-#\n  dialect_resources: {\n    builtin: {\n"
        for resource in self.attributes.resources.values():
            if resource.data is None:
                continue
            alignment = resource.alignment.to_bytes(4, "little").hex().upper()
            yield separator + f'      {bare(resource.name)}: "0x{alignment}'.encode()
            yield from hex_pieces(resource.data)
            separator = b'",\n'
        if separator == b'",\n':
            yield b'"\n    }\n  }\n#-}\n'


def _results(names: list[str]) -> str:
    """Format the names of several results: `%0:2`, or each by itself if each has its own name."""
    stem, mark, _ = names[0].partition("#")
    return f"{stem}:{len(names)}" if mark else ", ".join(names)


def _joined(lines: Iterable[str]) -> Iterator[bytes]:
    rows = iter(lines)
    while piece := "".join(islice(rows, _LINES)):
        yield piece.encode()
