"""Programs of every operator, from the tests that have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oracle.small_programs import programs
from oracle.written_cases import cases
from rules.test_builder_operators import CALLS, program

import tosa_convert as tc
from tosa_convert.graph import Graph

OLD_PROGRAMS = Path(__file__).parents[1] / "old_programs"


def examples() -> Iterator[tuple[str, Graph]]:
    """Iterate over the programs, each with a name of its own."""
    for case in cases():
        yield case.name, tc.load(case.text.encode(), pass_captured=True)
    for name, calls in CALLS.items():
        for index, (call, _) in enumerate(calls):
            yield f"{name}-{index}", program(call)
    yield from programs()
    for path in sorted(OLD_PROGRAMS.glob("*.mlir")):
        text = path.read_text(encoding="utf-8").partition("// Today:\n")[2]
        yield path.stem, tc.load(text.encode())
    for path in sorted(OLD_PROGRAMS.glob("*.tosa")):
        yield path.stem, tc.load(path)
