"""Errors of 5 % in one binade of the operand, of each function of FP32: which ones `check` reaches.

    PYTHONPATH=tests python tests/golden/fault_bench/magnitudes.py [--seeds N] [--every N]

A window is a function, a sign and an exponent for which a witness, eight of its values among random
ones, shows the error. Prints the windows of each function that no set of inputs reaches. The exit code
is 1 if less than 95 % are reached with one seed, or less than all with several.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
from golden.fault_bench.fault import Inputs, faulty
from golden.fault_bench.programs import instead, program_of

from tosa_convert.builder import Builder
from tosa_convert.builder import Value as Operand
from tosa_convert.golden.checking.check import check, edge_sets, seeded_inputs
from tosa_convert.graph import Graph
from tosa_convert.reference.call import Array

FUNCTIONS: Final = (
    "log",
    "rsqrt",
    "reciprocal",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "cos",
    "exp",
    "cast",
)
SHAPE: Final = (8, 64)
#: The exponents of FP32's normal numbers.
EXPONENTS: Final = range(-126, 128)
Window = tuple[int, int]


def _apply(b: Builder, x: Operand, function: str) -> Operand:
    return b.cast(x, dtype="int32") if function == "cast" else getattr(b, function)(x)


def program(function: str) -> Graph:
    """Return a function of an input, and an exact operator."""
    return program_of("FP32", SHAPE, partial(_apply, function=function))


def _is_inside(x: Array, window: Window) -> Array:
    sign, exponent = window
    return np.asarray((np.sign(x) == sign) & (np.frexp(np.abs(x))[1] - 1 == exponent))


def is_found(graph: Graph, window: Window, sets: Iterable[Inputs]) -> bool:
    """Return whether inputs show that results are 5 % too large where the operand is in a window."""
    wrong = instead(lambda r, x: np.where(_is_inside(x, window), r * 1.05, r))
    return any(
        _is_inside(arrays["x"].astype(np.float64), window).any()
        and not check(graph, faulty(wrong)(), arrays, engine="numpy").ok
        for arrays in sets
    )


def witness(window: Window) -> Inputs:
    """Return random values with some of a window."""
    sign, exponent = window
    x = np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32)
    x[:, 0] = sign * np.ldexp(np.linspace(1, 2, len(x), endpoint=False), exponent)
    return {"x": x}


def windows(graph: Graph, every: int) -> Iterator[Window]:
    """Iterate over the windows in which the error is one."""
    for window in [(sign, exponent) for sign in (1, -1) for exponent in EXPONENTS][::every]:
        if is_found(graph, window, [witness(window)]):
            yield window


def missed(function: str, seeds: int, every: int = 1) -> tuple[int, list[Window]]:
    """Return how many windows a function has, and those that no set of `check` reaches."""
    graph = program(function)
    sets = chain(
        seeded_inputs(graph, {}, 0, seeds, ()), edge_sets(graph, {}, 0, seeds, (), further=True)
    )
    arrays = [own for _, own in sets]
    found = list(windows(graph, every))
    return len(found), [window for window in found if not is_found(graph, window, arrays)]


def main() -> int:
    """Print the windows that are missed, and the share that is reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th window")
    given = parser.parse_args()
    total = lost = 0
    for function in FUNCTIONS:
        count, rest = missed(function, given.seeds, given.every)
        total, lost = total + count, lost + len(rest)
        names = [f"{'-' if sign < 0 else ''}2^{exponent}" for sign, exponent in rest]
        print(
            f"{function}: {count - len(rest)} of {count} reached; never {', '.join(names) or 'none'}"
        )
    print(f"{total - lost} of {total} windows reached ({1 - lost / total:.1%})")
    return int(lost > (0 if given.seeds > 1 else 0.05 * total))


if __name__ == "__main__":
    sys.exit(main())
