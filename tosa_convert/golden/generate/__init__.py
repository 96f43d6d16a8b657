"""Random graphs that are valid: types, shapes, attributes and, for integers, ranges of values.

Each operator's rule says what it takes from the values there are and what it makes of them. Integer
values carry a bound on their size, so that nothing overflows where TOSA leaves the result
unpredictable. The same seed gives the same graph, byte for byte, on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.golden.generate import (
    block_scaled,
    control,
    data_layout,
    elementwise,
    reductions,
    shapes,
    variables,
)
from tosa_convert.golden.generate.builder import RULES, Maker
from tosa_convert.graph.dtypes import V1_0
from tosa_convert.graph.model import Graph, Region
from tosa_convert.graph.opset import operator
from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version

__all__ = ["NOT_GENERATED", "RULES", "generate"]

#: Operators that no rule makes, and why.
NOT_GENERATED: Final = {
    "CONST": "comes with the operator that takes it",
    "CONST_SHAPE": "comes with the operator that takes it",
    "VARIABLE": "is no operator in a file: a tensor declares the variable",
    "CUSTOM": "what it computes is known to its implementation alone",
}
#: The modules whose rules there are.
_MODULES: Final = (block_scaled, control, elementwise, data_layout, shapes, variables, reductions)


def generate(seed: int, operators: int, *, kinds: Sequence[str] | None = None) -> Graph:
    """A random valid graph with this many operators in its main block, constants not counted.

    kinds: only these operators; else every other seed keeps to those of TOSA 1.0.
    Values that nothing uses are the outputs.
    Raises TosaConvertError("option-conflict") if the kinds are unknown or cannot be had.
    """
    chosen = sorted(RULES) if kinds is None else list(dict.fromkeys(kinds))
    unknown = [kind for kind in chosen if kind not in RULES]
    if unknown or not chosen or operators < 1:
        raise fail(
            "option-conflict",
            "generate",
            f"cannot make {', '.join(unknown) or f'{operators} operators'}",
            "operators that can be generated: " + ", ".join(sorted(RULES)),
        )
    if kinds is None and seed % 2:
        chosen = [kind for kind in chosen if operator(kind).since <= V1_0]
    # Seeded with text: the same on every platform and Python.
    maker = Maker(random.Random(f"tosa {seed} {operators}"))
    for _ in range(3):
        maker.input()
    refused = 0
    while maker.operators < operators:
        if maker.attempt(maker.random.choice(chosen)):
            refused = 0
            continue
        refused += 1
        if refused % 20 == 0:
            maker.input()
        if refused > 2000:
            raise fail("option-conflict", "generate", f"{', '.join(chosen)} find no operands")
    block = maker.block
    made = {name for op in block.operators for name in op.outputs}
    unused = [v.name for v in maker.values if v.name in made and v.name not in maker.used]
    # Operators on shapes alone leave no tensor; a program gives one all the same.
    block.outputs = unused or block.inputs[:1]
    graph = Graph(V1_1_DRAFT, [Region("main", [block]), *maker.regions])
    return Graph(lowest_version(graph), graph.regions)
