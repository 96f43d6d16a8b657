"""Count which type rows of the rules generated programs reach, and how fast programs are made.

    python tests/measure/generator_rows.py --programs 3000 [--branches]

A row has element types that an operator takes together. Programs are asked for the operators that have
rows which no program had yet, one after another. `--branches` needs coverage.py: it also says how much
of `tosa_convert/rules` ran.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tosa_convert.golden.random_graphs import NOT_GENERATED, generate
from tosa_convert.graph import Graph
from tosa_convert.graph.dtypes import V1_0
from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.rules.public import find_violations
from tosa_convert.rules.types import TypeRow, element_text, match, rows
from tosa_convert.rules.values import TypeTable
from tosa_convert.rules.verdict import element_of

#: Operators of a program.
_SIZE: Final = 2


@dataclass(frozen=True, slots=True)
class Reachable:
    """A row of an operator."""

    spec: OperatorSpec
    row: TypeRow

    @property
    def is_plain(self) -> bool:
        """Return whether none of its tensors is block-scaled, with the scales inside of it."""
        return not any(isinstance(one, tuple) for one in (*self.row.operands, *self.row.results))

    @property
    def refused(self) -> bool:
        """Return whether a rule refuses what the table has: scale32 of RESCALE with INT48."""
        is_wide = self.row.attribute == ("scale32", "True")
        return self.spec.name == "RESCALE" and is_wide and str(self.row.operands[0]) == "INT48"

    def __str__(self) -> str:
        operands, results = (
            ", ".join(map(element_text, side)) for side in (self.row.operands, self.row.results)
        )
        attribute = " with {}={}".format(*self.row.attribute) if self.row.attribute else ""
        return f"{self.spec.name} {operands} to {results}{attribute}"


def all_rows() -> set[Reachable]:
    """Return the rows of the operators that are generated, without those that a rule refuses."""
    every = {
        Reachable(spec, row)
        for spec in OPERATORS
        if spec.name not in NOT_GENERATED
        for row in rows(spec)
    }
    return {row for row in every if not row.refused}


def reached(graph: Graph) -> Iterator[Reachable]:
    """Yield the rows that the operators of a program have."""
    for _, block in graph.blocks():
        types = TypeTable().of_block(block)
        for op in block.operators:
            inputs, outputs = (
                [element_of(types[name]) for name in names] for names in (op.inputs, op.outputs)
            )
            row = match(op.spec, inputs, outputs, op.attributes)
            if row is not None:
                yield Reachable(op.spec, row)


def measure(programs: int) -> tuple[set[Reachable], float]:
    """Return the rows that programs reach, and the programs a second of processor time.

    Raises TosaConvertError if a program cannot be made, and AssertionError if one is not valid.
    """
    seen: set[Reachable] = set()
    every = all_rows()
    begin, number = time.process_time(), 0
    for turn in itertools.count():
        missing = sorted({row.spec.name for row in every - seen})
        if not missing or number >= programs:
            break
        for kind in missing:
            graph = generate(turn, _SIZE, kinds=[kind])
            assert not find_violations(graph), f"{kind} {turn}"
            seen.update(reached(graph))
        number += len(missing)
    return seen & every, number / (time.process_time() - begin)


def main() -> None:
    """Measure, and print what was not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--branches", action="store_true")
    options = parser.parse_args()
    if options.branches:
        coverage = importlib.import_module("coverage").Coverage(
            branch=True, source=["tosa_convert.rules"], data_file=None
        )
        with coverage.collect():
            seen, speed = measure(options.programs)
        coverage.report(skip_covered=True, show_missing=True)
    else:
        seen, speed = measure(options.programs)
    parts = defaultdict[str, set[Reachable]](set)
    for row in all_rows():
        name = "TOSA 1.0" if row.row.since <= V1_0 else "further ones of 1.1"
        parts[name if row.is_plain else "with block-scaled tensors"].add(row)
    for name, every in sorted(parts.items()):
        if row_names := sorted(str(row) for row in every - seen):
            print(*row_names[:20], *["..."] * (len(row_names) > 20), sep="\n")
        share = 100 * len(every & seen) / len(every)
        print(f"{name}: {len(every & seen)} of {len(every)} rows ({share:.1f} %)")
    print(f"{speed:.0f} programs a second")


if __name__ == "__main__":
    main()
