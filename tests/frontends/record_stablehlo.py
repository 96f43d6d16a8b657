"""Have StableHLO's interpreter judge the module of each operation: `python record_stablehlo.py`.

It needs the extra `jax`. Each module is converted, and its program and the interpreter of jaxlib get the
same edge values. Writes stablehlo_judges.json, of which docs/stablehlo.md shows a table: run
`python tests/docs/regenerate.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "zoo"))

from frontends.stablehlo_operations import CASES, FORMULAS, JUDGES, Case

Array = npt.NDArray[Any]
#: Sets of arguments of a module.
SETS: Final = 24
#: Numbers of FP32 whose sums and products are in its range, and what is not finite.
_STEADY: Final[tuple[float, ...]] = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 1e-3, 100.0, -104.0, np.pi),
    *(np.inf, -np.inf, np.nan),
)
#: The limits of FP32.
_LIMITS: Final = (3.4028235e38, -3.4028235e38, 1.1754944e-38, 1e10, -1e10, 88.0)
_SUBNORMAL: Final = (1e-45, -1e-40)
#: Operations that sum or multiply: an order of theirs overflows and another does not. FP32 has no digits
#: for the remainder of a large quotient.
_SUMS: Final = frozenset(
    (
        *("convolution", "dot_general", "dynamic_conv", "reduce", "reduce_window", "scatter"),
        *("all_reduce", "reduce_scatter", "remainder", "while"),
    )
)
#: Operations that divide: TOSA may take a subnormal divisor for 0.
_DIVISIONS: Final = frozenset(("atan2", "divide", "power", "remainder"))
#: Operations whose order has no place for NaN.
_ORDERED: Final = frozenset(("select_and_scatter", "sort"))
#: Operations that TOSA does not define where an integer overflows.
_OVERFLOWS: Final = frozenset(("add", "dynamic_slice", "negate", "select_and_scatter", "subtract"))
#: Operations that are run among devices, of which there is one.
_PARALLEL: Final = frozenset(
    (
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "partition_id"),
        *("reduce_scatter", "replica_id"),
    )
)
#: Operation -> why the interpreter does not judge it.
NOT_INTERPRETED: Final = {
    **dict.fromkeys(
        ("batch_norm_grad", "batch_norm_inference", "batch_norm_training", "cholesky"),
        "has no code for it",
    ),
    "collective_permute": "waits for another device",
    "custom_call": "knows no call",
    "fft": "mixes types of complex numbers, and ends",
    "triangular_solve": "has no code for it",
    **dict.fromkeys(
        ("uniform_dequantize", "uniform_quantize"), "gets no quantised types from jaxlib's parser"
    ),
}


def edge_values(name: str, element: str) -> Array:
    """Return the values that an argument of an operation is drawn from."""
    if element == "f32":
        values = _STEADY
        values += () if name in _SUMS else _LIMITS
        values += () if name in _SUMS | _DIVISIONS else _SUBNORMAL
        if name in _ORDERED:
            values = tuple(value for value in values if not np.isnan(value))
        if name == "atan2":  # TOSA does not promise the sign of a zero.
            values = tuple(value for value in values if value or not np.signbit(value))
        return np.array(values, np.float32)
    if element == "i1":
        return np.array([False, True])
    kind = np.dtype(element.replace("i", "int"))
    limits = np.iinfo(kind)
    rows = [
        0,
        1,
        2,
        3,
        5,
        7,
        limits.bits - 1,
        limits.bits,
        limits.max // 4,
        -1,
        -2,
        -3,
        -limits.bits,
    ]
    if name not in _OVERFLOWS:
        rows += [limits.max, limits.max - 1, limits.min, limits.min + 1]
    return np.array(rows, kind)


def arguments(name: str, case: Case, random: np.random.Generator) -> list[Array]:
    """Draw arguments of a module."""
    found: list[Array] = []
    for kind in case.kinds():
        *sizes, element = kind.split("x")
        values = edge_values(name, element)
        found.append(np.asarray(random.choice(values, tuple(map(int, sizes))), values.dtype))
    if name in ("divide", "remainder") and found[1].dtype.kind == "i":
        # StableHLO does not define a division by 0, nor that of the least number by -1.
        found[1] = np.where(found[1] == 0, 1, np.abs(np.maximum(found[1], -100))).astype(np.int32)
    if name == "select_and_scatter":  # The interpreter adds the initial value once more than XLA.
        found[2:] = [np.zeros_like(array) for array in found[2:]]
    if name == "while":  # The number of turns.
        found[0] = np.asarray(random.integers(-3, 9), np.int32)
    return found


def interpreted_text(name: str, case: Case) -> str:
    """Return a module whose @main the interpreter evaluates."""
    text = case.text()
    if name not in _PARALLEL:
        return text
    kinds = case.kinds()
    given = ", ".join(f"%a{i}: tensor<{kind}>" for i, kind in enumerate(kinds))
    values = ", ".join(f"%a{i}" for i in range(len(kinds)))
    types = ", ".join(f"tensor<{kind}>" for kind in kinds)
    made = f"tensor<{case.results}>"
    return (
        f"{text.replace('@main(', '@one(')}\nfunc.func @main({given}) -> {made} {{\n"
        f'%r = "interpreter.run_parallel"({values}) {{programs = [[@one]]}} : ({types}) -> {made}\n'
        f"return %r : {made}\n}}\n"
    )


def interpret(text: str, sets: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Evaluate a module on several sets of arguments; may end the process."""
    from jax.extend.mlir import ir

    from tosa_convert.frontends.stablehlo.run_module import evaluate

    return [evaluate(lambda context: ir.Module.parse(text, context), arrays) for arrays in sets]


class Interpreter:
    """Evaluates modules in a process of its own, which it ends at an operation that it does not know."""

    def __init__(self) -> None:
        # Spawned, because JAX has threads.
        self.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def evaluate(self, text: str, sets: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return the results of a module for each set of arguments."""
        return self.pool.submit(interpret, text, sets).result()

    def is_unable(self, text: str, arrays: Sequence[Array]) -> bool:
        """Return whether it does not evaluate a module."""
        try:
            self.evaluate(text, [arrays])
        except BrokenProcessPool:
            self.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            return True
        return False

    def close(self) -> None:
        """End the process."""
        self.pool.shutdown()


def judge(
    name: str, interpreter: Interpreter, compare: Callable[[str, list[Array], list[Array]], None]
) -> dict[str, Any]:
    """Have the modules of an operation judged; return the row of stablehlo_judges.json.

    compare: asserts that the program of a module's text returns what is expected for arguments.
    """
    other = "formula" if name in FORMULAS else "XLA"
    if name in NOT_INTERPRETED:
        return {"judges": [other], "values": 0, "why": NOT_INTERPRETED[name]}
    values = 0
    for number, case in enumerate(CASES[name]):
        random = np.random.default_rng(number)
        sets = [arguments(name, case, random) for _ in range(SETS if case.kinds() else 1)]
        # The interpreter takes a total order, in which NaN has a place, for the one that has none.
        if "TOTALORDER" in case.body:
            continue
        found = interpreter.evaluate(interpreted_text(name, case), sets)
        for arrays, expected in zip(sets, found, strict=True):
            compare(case.text(), arrays, expected)
            values += sum(array.size for array in expected)
    return {"judges": ["interpreter", other], "values": values}


def main() -> None:
    from frontends.test_jax_stablehlo import Lowered

    interpreter, programs = Interpreter(), Lowered()
    rows: dict[str, Any] = {}
    wrong: list[str] = []
    for name in sorted(CASES):
        try:
            rows[name] = judge(name, interpreter, programs.compare)
            print(name, rows[name], flush=True)
        except AssertionError as error:
            wrong.append(name)
            print(name, error, flush=True)
    interpreter.close()
    if wrong:
        raise SystemExit(f"not equal: {', '.join(wrong)}")
    found = {
        "jaxlib": metadata.version("jaxlib"),
        "values": sum(row["values"] for row in rows.values()),
        "operations": rows,
    }
    JUDGES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
