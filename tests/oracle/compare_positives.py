"""Judge valid programs: they have no findings, and each shape is derived as it is declared.

    python tests/oracle/compare_positives.py DIRS... --graphs 500

DIRS have .tosa, .mlir, .mlirbc or .json files, such as an official suite (`official_suite.py`) or
converted models; --graphs also judges as many random graphs. Prints every finding, and how many shapes
are derived in full, by operator. Exit code 1 on a finding, or if nothing was judged.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.graph import Block, Graph
from tosa_convert.rules.families.checks import ResultShape, known
from tosa_convert.rules.operator_view import OperatorView, ShapeType, TensorType, ValueType
from tosa_convert.rules.validate import Validator, judge

_SUFFIXES: Final = frozenset({".tosa", ".mlir", ".mlirbc", ".json"})
#: Part of the name of an official test, and the rule that it breaks. The reference model refuses it too:
#: the generator makes two shapes of which one has a 1, and may take the other one for a RESHAPE.
WRONG_TESTS: Final = (("assert_equal_shape", "reshape-element-count"),)
#: Findings that are printed for one program.
_PRINTED: Final = 5
#: Operators whose results have any shape: of a constant and a CUSTOM, only the result says it.
UNDERIVED: Final = frozenset({"CONST", "CUSTOM"})


class Tally:
    """What many programs have."""

    def __init__(self) -> None:
        self.programs = 0
        self.findings: list[str] = []
        #: Official tests that are wrong.
        self.wrong: list[str] = []
        #: Operator -> its results whose shapes are derived in full.
        self.derived: Counter[str] = Counter()
        #: Operator -> its results of which declarations say more than what is derived.
        self.partly: Counter[str] = Counter()

    def add(self, name: str, graph: Graph) -> None:
        """Judge a program. A failure that is a bug of ours counts as a finding."""
        self.programs += 1
        try:
            unsound = tc.verify(graph)
            found = unsound or list(islice(Validator(graph).findings(), _PRINTED))
            if not unsound:
                for _, block in graph.blocks():
                    self._derive(graph, block)
        except Exception as error:
            self.findings.append(f"{name}: failed: {error!r}")
            return
        for finding in found:
            is_wrong = any(part in name and finding.rule == rule for part, rule in WRONG_TESTS)
            (self.wrong if is_wrong else self.findings).append(f"{name}: {finding}")

    def _derive(self, graph: Graph, block: Block) -> None:
        validator = Validator(graph)
        types = validator.table.of_block(block)
        for operator in block.operators:
            if operator.spec.name in UNDERIVED:
                continue
            outputs = tuple(types[name] for name in operator.outputs)
            inputs = tuple(types[name] for name in operator.inputs)
            verdict = judge(OperatorView(operator, inputs, outputs, validator.regions))
            for declared, shape in zip(
                outputs, verdict.results or (), strict=bool(verdict.results)
            ):
                found = self.derived if _is_derived(declared, shape) else self.partly
                found[operator.spec.name] += 1
            if outputs and isinstance(outputs[0], ShapeType):
                validator.compute_shape(operator, types, verdict)

    @property
    def passed(self) -> bool:
        """Return whether there were programs and no finding."""
        return bool(self.programs) and not self.findings

    def lines(self) -> Iterator[str]:
        """Iterate over the counts as text."""
        for name in sorted(self.derived | self.partly):
            partly = f", {self.partly[name]} in part" if self.partly[name] else ""
            yield f"{self.derived[name]:7} {name}{partly}"
        yield f"{self.programs:7} programs"
        yield f"{sum(self.derived.values()):7} shapes derived as they are declared"
        yield f"{sum(self.partly.values()):7} of which less is derived than is declared"
        yield f"{len(self.wrong):7} official tests that are wrong"
        yield from self.wrong
        yield f"{len(self.findings):7} findings"
        yield from self.findings


def _is_derived(declared: ValueType, shape: ResultShape) -> bool:
    """Return whether a declared shape says no more than the derived one."""
    sizes = declared.shape if isinstance(declared, TensorType) else declared.sizes
    if sizes is None:
        return True
    return shape is not None and all(
        known(size) or not known(other) for size, other in zip(shape, sizes, strict=True)
    )


def files(directory: Path) -> list[Path]:
    """Return the programs below a directory, sorted. Descriptors of tests are left out."""
    return sorted(
        path
        for path in directory.rglob("*")
        if path.suffix in _SUFFIXES and path.name not in {"desc.json", "suite.json"}
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge programs and print the counts."""
    parser = argparse.ArgumentParser(description="Judge valid TOSA programs.")
    parser.add_argument("directories", type=Path, nargs="*")
    parser.add_argument("--graphs", type=int, default=0, help="random graphs")
    parser.add_argument("--every", type=int, default=1, help="only every K-th file")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    tally = Tally()
    for directory in options.directories:
        for path in files(directory)[:: options.every]:
            tally.add(str(path), tc.load(path))
    for seed in range(options.graphs):
        tally.add(f"random graph {seed}", golden.generate(seed, 20))
    for line in tally.lines():
        print(line)
    print(f"{time.monotonic() - started:7.0f} s")
    return 0 if tally.passed else 1


if __name__ == "__main__":
    sys.exit(main())
