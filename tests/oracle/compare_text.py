"""Compare the MLIR text that we print with what MLIR prints, and with what it reads from our text.

    python tests/oracle/official_suite.py DIR            # makes the suite
    python tests/oracle/compare_text.py DIR              # compares all of it; --every 100 for a sample
    python tests/oracle/compare_text.py DIR --state FILE     # the same command resumes it

Each program is printed in custom and in generic form, with locations and without. tosa-opt prints our
bytecode of it in generic form with locations, and that text in the other styles, and each must be our
text, byte for byte. tosa-opt, torch-mlir and IREE parse our text and print it again, which must give the
same text; IREE parses custom form only where it agrees with the others. The graph of the module that
they parsed must be the program's. What tosa-opt serializes must be the program, or what it serializes
after its own import. Prints a table, then every difference. Exit code 1 on any difference, or if nothing
was compared.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import comparison_main, module_readers
from oracle.comparison_main import Compared, Table
from oracle.module_readers import IREE, TORCH, ModuleReader
from oracle.outside_tools import Refused, TosaOpt

import tosa_convert as tc
from tosa_convert.formats.bindings.modules import read
from tosa_convert.graph import Graph

PRINTED: Final = "tosa-opt prints our bytecode"
PARSED: Final = "tosa-opt parses our text"
SERIALIZED: Final = "tosa-opt serializes our text"
ROWS: Final = (PRINTED, PARSED, SERIALIZED, TORCH, IREE)


class Style(NamedTuple):
    """One of the four ways to print a module."""

    generic: bool
    locations: bool

    def __str__(self) -> str:
        form = "generic" if self.generic else "custom"
        return form if self.locations else f"{form}, no locations"

    @property
    def flags(self) -> list[str]:
        """Return the options of tosa-opt that choose it."""
        flags = ["--mlir-print-op-generic"] * self.generic
        return flags + ["--mlir-print-debuginfo"] * self.locations


STYLES: Final = tuple(
    Style(generic, locations) for generic in (False, True) for locations in (True, False)
)

#: The style that prints everything, in the same way for all operations.
WHOLE: Final = Style(generic=True, locations=True)


#: Locations of every kind; official programs have none. `{}` is the number of an operator.
_LOCATIONS: Final = (
    'loc("model.py":{}:7)',
    'loc("a \\22name\\22"("model.py":{}:7))',
    'loc(callsite("f"("model.py":{}:7) at callsite("model.py":1:1 at "main")))',
    'loc(fused["model.py":{}:1, "x", "model.py":{}:2 to 9:4])',
    "loc(unknown)",
)


def with_locations(graph: Graph) -> Graph:
    """Return the graph, in which operators have locations of every kind."""
    for _, block in graph.blocks():
        for number, operator in enumerate(block.operators):
            location = _LOCATIONS[number % len(_LOCATIONS)]
            operator.location = location.replace("{}", str(number // 2))
    return graph


class Program(NamedTuple):
    """A program with a name for messages."""

    name: str
    graph: Graph


def compare_programs(
    programs: Sequence[Program], opt: TosaOpt, scratch: Path, styles: Sequence[Style] = STYLES
) -> Iterator[Compared]:
    """Iterate over programs in some styles, without their serialization."""
    readers = module_readers.readers()
    whole = [print_bytecode(program, opt, scratch) for program in programs]
    known = [text for text in whole if not isinstance(text, Refused)]
    for style in styles:
        texts = [text_of(program.graph, style) for program in programs]
        styled = iter(known if style == WHOLE else opt.print_all(known, style.flags))
        parsed = opt.print_all(texts, style.flags)
        for program, text, own, ours in zip(programs, texts, whole, parsed, strict=True):
            theirs = own if isinstance(own, Refused) else next(styled)
            yield compare_printed(PRINTED, style, program, text, theirs)
            yield compare_printed(PARSED, style, program, text, ours)
            for reader in readers.values():
                yield compare_parsed(reader, program, text, style)


def print_bytecode(program: Program, opt: TosaOpt, scratch: Path) -> bytes | Refused:
    """Our bytecode of a program, as tosa-opt prints it."""
    bytecode = scratch / "ours.mlirbc"
    bytecode.write_bytes(tc.dumps(program.graph, "mlirbc", validate=False))
    return opt.print(bytecode, WHOLE.flags)


def text_of(graph: Graph, style: Style) -> bytes:
    """Our text of a program."""
    return tc.dumps(graph, "mlir", generic=style.generic, locations=style.locations, validate=False)


def compare_printed(
    row: str, style: Style, program: Program, text: bytes, found: bytes | Refused
) -> Compared:
    """Our text of a program, and what tosa-opt prints."""
    if isinstance(found, Refused):
        return Compared(row, style, program.name, False, str(found))
    return Compared(row, style, program.name, True, first_difference(text, found))


def compare_parsed(reader: ModuleReader, program: Program, text: bytes, style: Style) -> Compared:
    """Our text of a program, parsed and printed by a package of bindings."""
    # The custom form of IREE's dialect is another one.
    foreign = reader.package == IREE and not style.generic
    outcome = Compared(reader.package, style, program.name, False, "")
    module = reader.parse(text)
    if isinstance(module, Refused):
        return outcome if foreign else outcome._replace(difference=str(module))
    difference = "" if foreign else first_difference(text, printed(module, style))
    if not difference:
        difference = str(tc.compare(program.graph, read(module), names=True) or "")
    return outcome._replace(read=True, difference=difference)


def printed(module: Any, style: Style) -> bytes:
    """Return the text that a module's bindings print."""
    sink = io.BytesIO()
    module.operation.print(
        file=sink,
        binary=True,
        print_generic_op_form=style.generic,
        enable_debug_info=style.locations,
    )
    return sink.getvalue() + b"\n"


def compare_serialized(tosa: Path, opt: TosaOpt, scratch: Path) -> Compared:
    """Return what tosa-opt serializes of our text, and of its own import or else the program."""
    program = tc.load(tosa)
    file, again = scratch / "ours.mlir", scratch / "again.tosa"
    outcome = Compared(SERIALIZED, STYLES[0], str(tosa), True, "")
    file.write_bytes(text_of(program, STYLES[0]))
    refused = opt.write_again(tosa, again)
    own = None if refused else tc.load(again.read_bytes())
    if own is None and any(
        tensor.scale for _, block in program.blocks() for tensor in block.tensors.values()
    ):
        # It writes 8 bytes for an element of 8 bits, so its file cannot be the program.
        return outcome._replace(read=False)
    unwritten = opt.write(file, again)
    if unwritten:
        return outcome._replace(read=False, difference=str(unwritten))
    ours = tc.load(again.read_bytes())
    # It gives values names of its own. Of a NaN in a dense constant, as its import has, it loses the
    # payload, but not of one in a resource, as our text has.
    difference = tc.compare(program, ours, names=False)
    if own is not None and difference is not None:
        difference = tc.compare(own, ours, names=True, version=True)
    return outcome._replace(difference=str(difference or ""))


def first_difference(ours: bytes, theirs: bytes) -> str:
    """Return the first line in which two texts differ, or ""."""
    if ours == theirs:
        return ""
    lines = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    for number, (one, other) in enumerate(lines, 1):
        if one != other:
            at = next(
                (i for i, pair in enumerate(zip(one, other, strict=False)) if len({*pair}) > 1), 0
            )
            window = slice(max(0, at - 40), at + 60)
            return f"line {number}: ours {one[window]!r}, theirs {other[window]!r}"
    return f"ours has {len(ours)} bytes, theirs has {len(theirs)}"


def table(styles: Sequence[Style] = STYLES) -> Table:
    """Return an empty table."""
    rows = {row: STYLES[:1] if row == SERIALIZED else styles for row in ROWS}
    return Table(rows, (PRINTED, PARSED, TORCH), "not read")


def compare_files(files: Sequence[Path], styles: Sequence[Style] = STYLES) -> list[Compared]:
    """Return the outcomes of some flatbuffers, in this process."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        opt = TosaOpt(scratch)
        programs = [Program(str(file), with_locations(tc.load(file))) for file in files]
        found = list(compare_programs(programs, opt, scratch, styles))
        return found + [compare_serialized(file, opt, scratch) for file in files]


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the table."""
    parser = comparison_main.parser("Compare MLIR text with what MLIR prints and reads.")
    parser.add_argument(
        "--located", action="store_true", help="only the two forms with locations, in half the time"
    )
    options = parser.parse_args(arguments)
    styles = [style for style in STYLES if style.locations or not options.located]
    return comparison_main.run(options, partial(compare_files, styles=styles), table(styles))


if __name__ == "__main__":
    sys.exit(main())
