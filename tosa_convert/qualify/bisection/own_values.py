"""The intermediate results that a backend gives when it runs the whole program.

They are asked for as further outputs. A backend that refuses some of them is asked for the others.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array, LazyArrays, subfolder
from tosa_convert.golden.backends.runners import Runner
from tosa_convert.qualify.bisection.single_operators import REFUSED, Operators

#: Runs of the whole program that may be refused before no more results are asked for.
REFUSALS: Final = 24


def own_values(
    operators: Operators,
    backend: Runner,
    wanted: Container[str],
    first: Mapping[str, Array],
    folder: Path,
) -> LazyArrays:
    """Run a program with its intermediate results as further outputs."""
    outputs = list(dict.fromkeys(operators.graph.main.outputs))
    names = [name for _, name in operators.order if name in wanted and name not in outputs]
    pending = list(operators.split(names)) or [[]]
    found: dict[str, Mapping[str, Array]] = {}
    runs = refusals = 0
    while pending and refusals < REFUSALS:
        asked, runs = pending.pop(0), runs + 1
        own = subfolder(folder, f"own{runs}")
        try:
            answer = operators.of_whole(backend, [*outputs, *asked], own)
        except TosaConvertError as error:
            if error.code not in (REFUSED, "backend-failed"):
                raise
            refusals += 1
            middle = len(asked) // 2
            if middle:
                pending += asked[:middle], asked[middle:]
            continue
        for key in operators.keys(n for n in (*outputs, *asked) if n in operators.computed):
            if key in answer:
                found.setdefault(key, answer)
    if not found:
        keys = operators.keys(name for name in outputs if name in operators.computed)
        found = {key: first for key in keys if key in first}
    return LazyArrays(found, lambda key: found[key][key])
