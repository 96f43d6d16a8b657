"""The names of values in a module's text, such as %arg0, %7 and %output_real, as MLIR gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.formats.mlir.bytecode.operations import Block, Operation
from tosa_convert.graph.opset import OPERATORS

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode

#: Operations whose results have names in custom form: those that always have several. Source: their
#: `getAsmResultNames`.
NAMED_RESULTS: Final = {
    row.mlir: tuple(result.name for result in row.results)
    for row in OPERATORS
    if len(row.results) > 1 and not any(result.arity for result in row.results)
}


class Counters(NamedTuple):
    """The numbers of the next value, of the next argument, and of the next name that is taken.

    taken: names that the blocks around have.
    """

    values: int = 0
    arguments: int = 0
    conflicts: int = 0
    taken: frozenset[str] = frozenset()


class Names(NamedTuple):
    """The names of a block's values.

    values: by the numbers of values, those of the blocks around included. arguments: of the block.
    counters: for the blocks inside.
    """

    values: list[str]
    arguments: list[str]
    counters: Counters


class ValueNamer:
    """Names the values of one module.

    In custom form blocks side by side use the same names, in generic form no two blocks do.
    """

    def __init__(self, bytecode: Bytecode, *, generic: bool) -> None:
        self.named: dict[int, tuple[str, ...]] = {}
        #: Generic form: the counters of each block, by its identity.
        self.starts: dict[int, Counters] | None = None
        if generic:
            self.starts = _distinct(bytecode.root)
        else:
            self.named = {
                number: NAMED_RESULTS[name]
                for number, name in enumerate(bytecode.names)
                if name in NAMED_RESULTS
            }

    def __call__(self, block: Block, counters: Counters, outer: list[str]) -> Names:
        """Return the names of a block's values.

        Args:
            block: the block, the only one of its region.
            counters: those of the block around.
            outer: the names of the values of the blocks around.
        """
        if self.starts is not None:
            counters = self.starts[id(block)]
        number, argument, _, _ = counters
        arguments = [f"%arg{argument + index}" for index in range(len(block.arguments))]
        names = outer[: block.first] + arguments
        named = self.named
        clashes = _Clashes(counters)
        for fields in block.operations:
            count = len(fields[3])
            if not count:
                continue
            if named and fields[0] in named and count == len(named[fields[0]]):
                names += map(clashes.unused, named[fields[0]])
            elif count == 1:
                names.append(f"%{number}")
                number += 1
            else:
                names += [f"%{number}#{index}" for index in range(count)]
                number += 1
        inner = Counters(
            number, argument + len(arguments), clashes.conflicts, frozenset(clashes.taken)
        )
        return Names(names, arguments, inner)


class _Clashes:
    """Finds unused names."""

    def __init__(self, counters: Counters) -> None:
        self.conflicts = counters.conflicts
        self.taken = set(counters.taken)

    def unused(self, name: str) -> str:
        found = name
        while found in self.taken:
            found = f"{name}_{self.conflicts}"
            self.conflicts += 1
        self.taken.add(found)
        return f"%{found}"


def _distinct(root: Operation) -> dict[int, Counters]:
    """Counters with which no two blocks have a name in common; MLIR takes the last region first."""
    starts: dict[int, Counters] = {}
    counters = Counters()
    pending = [block for region in root.regions for block in region.blocks]
    while pending:
        block = pending.pop()
        starts[id(block)] = counters
        counters = Counters(
            counters.values + sum(1 for fields in block.operations if fields[3]),
            counters.arguments + len(block.arguments),
        )
        for fields in block.operations:
            for region in fields[6]:
                pending += region.blocks
    return starts
