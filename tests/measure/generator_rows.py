"""Count which type rows of the rules generated programs reach, and how fast programs are made.

    python tests/measure/generator_rows.py --seconds 600 --state rows.json [--branches]

A row has element types that an operator takes together. Programs are asked for the operators that have
rows which no program had yet, one after another. The state has the rows that were reached and the number
of the next program, so that the count goes on. `--branches` needs coverage.py: it also says how much of
`tosa_convert/rules` ran.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.random_graphs import NOT_GENERATED, generate
from tosa_convert.graph import Graph
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.rules.public import find_violations
from tosa_convert.rules.types import match, rows
from tosa_convert.rules.values import TypeTable
from tosa_convert.rules.verdict import element_of


def all_rows() -> set[str]:
    """Return a name for each row of the operators that are generated."""
    return {
        f"{spec.name} {number}"
        for spec in OPERATORS
        if spec.name not in NOT_GENERATED
        for number in range(len(rows(spec)))
    }


def reached(graph: Graph) -> Iterator[str]:
    """Yield the rows that the operators of a program have."""
    for _, block in graph.blocks():
        types = TypeTable().of_block(block)
        for op in block.operators:
            inputs, outputs = (
                [element_of(types[name]) for name in names] for names in (op.inputs, op.outputs)
            )
            row = match(op.spec, inputs, outputs, op.attributes)
            if row is not None:
                yield f"{op.spec.name} {rows(op.spec).index(row)}"


def measure(seconds: float, state: Path) -> tuple[set[str], float]:
    """Return the rows that were reached so far, and the programs a second of processor time."""
    seen, number, every = set[str](), 0, all_rows()
    if state.exists():
        kept = json.loads(state.read_text(encoding="utf-8"))
        seen, number = set(kept["rows"]), kept["next"]
    begin, first = time.process_time(), number
    while time.process_time() - begin < seconds:
        missing = sorted({row.split()[0] for row in every - seen})
        for kind in missing:
            with contextlib.suppress(TosaConvertError):
                graph = generate(seed=number, operators=1, kinds=[kind])
                assert not find_violations(graph), f"{kind} {number}"
                seen.update(reached(graph))
            number += 1
        if not missing:
            break
    state.write_text(json.dumps({"rows": sorted(seen), "next": number}), encoding="utf-8")
    return seen, (number - first) / max(time.process_time() - begin, 1e-9)


def main() -> None:
    """Measure, and print what was not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--branches", action="store_true")
    options = parser.parse_args()
    if options.branches:
        coverage = importlib.import_module("coverage").Coverage(
            branch=True, source=["tosa_convert.rules"], data_file=None
        )
        with coverage.collect():
            seen, speed = measure(options.seconds, options.state)
        coverage.report(skip_covered=True)
    else:
        seen, speed = measure(options.seconds, options.state)
    every = all_rows()
    for row in sorted(every - seen):
        print(row)
    share = 100 * len(every & seen) / len(every)
    print(
        f"{len(every & seen)} of {len(every)} rows ({share:.1f} %), {speed:.1f} programs a second"
    )


if __name__ == "__main__":
    main()
