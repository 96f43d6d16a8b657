"""Every operator of TOSA with every fault: whether `check` and `bisect` find it and name the operator.

    PYTHONPATH=tests python tests/golden/operator_faults.py [--engine ENGINE] [OPERATOR ...]

ENGINE computes the reference: `reference-model`, or `numpy`. Prints a row for each operator; the exit
code is 1 if a fault was not found or not named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from golden.faulty_backends import (
    Change,
    Faulty,
    changing,
    moved,
    offset,
    one_element,
    one_nan,
    rolled,
)
from golden.operator_programs import (
    AFTER,
    OPERATORS_WITH_FAULTS,
    TARGET,
    in_branch,
    in_loop,
    inputs,
    program,
    with_state,
)

from tosa_convert.golden.accuracy.criteria import Tolerances
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running.run_options import Engine
from tosa_convert.graph import Graph
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import Bisection

#: For an operator and an engine "" if the fault is found and named, else what is wrong; None if the
#: operator cannot have it.
Judge = Callable[[str, Engine], str | None]

#: The smallest power of two by which the rule refuses a result that is too large, in units in the last
#: place of its element type; 2 for results that must be exact or correctly rounded.
UNITS: Final = {
    "AVG_POOL2D": 16,
    "CONV2D": 128,
    "CONV2D_BLOCK_SCALED": 65536,
    "CONV3D": 8,
    "COS": 4096,
    "DEPTHWISE_CONV2D": 32,
    "ERF": 4,
    "EXP": 4,
    "FFT2D": 128,
    "LOG": 8,
    "MATMUL": 16,
    "MATMUL_T": 16,
    "MATMUL_T_BLOCK_SCALED": 65536,
    "POW": 8,
    "REDUCE_SUM": 16,
    "RFFT2D": 64,
    "SIGMOID": 4,
    "SIN": 8192,
    "TANH": 32,
    "TRANSPOSE_CONV2D": 64,
}
_FRACTION_BITS: Final = {"FP32": 23, "FP16": 10, "BF16": 7}


def _type_of_result(kind: str) -> str:
    graph = program(kind)
    (name,) = [op.outputs[0] for op in graph.main.operators if op.location == TARGET]
    return graph.main.tensors[name].dtype.name


def scaled(kind: str, share: float = 1.0) -> Change | None:
    """Return results that are too large by a share of the units of UNITS; None for integers."""
    bits = _FRACTION_BITS.get(_type_of_result(kind))
    return None if bits is None else moved(1 + share * UNITS.get(kind, 2) * 2.0**-bits)


def _nan(kind: str) -> Change | None:
    return one_nan if _type_of_result(kind) in _FRACTION_BITS else None


def _found(
    graph: Graph, backend: Faulty, expected: str, operators: list[str], engine: Engine
) -> str:
    """Run both verbs; "" if they agree and name the operators, else what they say."""
    given, find_all = inputs(graph), len(backend.places) > 1
    outputs = check(graph, replace(backend), given, engine=engine)
    result = bisect(graph, replace(backend), given, find_all=find_all, engine=engine)
    if result.outputs is None or result.outputs.ok != outputs.ok:
        return f"check and bisect do not agree: {outputs} / {result}"
    if result.first is None or result.first.kind != expected:
        return f"expected {expected}: {result}"
    return "" if _named(result) == operators else f"expected {operators}: {result}"


def _named(result: Bisection) -> list[str]:
    assert result.first is not None
    return [row[2] for part in (result.first, *result.others) for row in part.operators]


def _by_itself(change_of: Callable[[str], Change | None]) -> Judge:
    def judge(kind: str, engine: Engine) -> str | None:
        change = change_of(kind)
        if change is None:
            return None
        return _found(program(kind), Faulty(change=change), "by-itself", [TARGET], engine)

    return judge


def _nondeterministic(kind: str, engine: Engine) -> str:
    backend = Faulty(change=changing)
    return _found(program(kind), backend, "nondeterministic", [TARGET], engine)


def _fused(kind: str, engine: Engine) -> str:
    backend = Faulty(change=one_element, fused_with=AFTER)
    return _found(program(kind), backend, "in-context", [TARGET, AFTER], engine)


def _masked(kind: str, engine: Engine) -> str:
    graph, backend = program(kind, masked=True), Faulty(change=one_element)
    if not check(graph, replace(backend), inputs(graph), engine=engine).ok:
        return "the fault is not masked"
    return _found(graph, backend, "by-itself", [TARGET], engine)


def _two(kind: str, engine: Engine) -> str:
    graph, backend = program(kind), Faulty(change=one_element, places=(TARGET, AFTER))
    after = [op.location for op in graph.main.operators if op.location == AFTER]
    return _found(graph, backend, "by-itself", [TARGET, *after], engine)


def _in(made: Callable[[str], Graph]) -> Judge:
    return lambda kind, engine: _found(
        made(kind), Faulty(change=one_element), "by-itself", [TARGET], engine
    )


#: The faults.
FAULTS: Final[dict[str, Judge]] = {
    "scaled beyond its rule": _by_itself(scaled),
    "offset": _by_itself(lambda kind: offset(0.125)),
    "one NaN": _by_itself(_nan),
    "one element": _by_itself(lambda kind: one_element),
    "wrong broadcast": _by_itself(lambda kind: rolled),
    "only when fused": _fused,
    "nondeterministic": _nondeterministic,
    "masked later": _masked,
    "two faults": _two,
    "in a branch": _in(in_branch),
    "in a loop": _in(in_loop),
    "in a state": _in(with_state),
}


def accepts_what_the_rule_allows(kind: str, engine: Engine) -> bool:
    """Return whether an error of a quarter of the units is not the operator's.

    The fault "scaled" is slight.
    """
    change = scaled(kind, 0.25)
    if change is None or kind not in UNITS:
        return True
    graph = program(kind)
    given: dict[str, Array] = inputs(graph)
    by_rule = Tolerances(official=True)
    backend = Faulty(change=change)
    first = bisect(graph, backend, given, tolerances=by_rule, engine=engine).first
    # The bound of a network can be smaller than what one of its operators may err.
    return first is None or first.kind == "within-rules"


def judged(kind: str, engine: Engine) -> dict[str, str | None]:
    """Return what is wrong with each fault of an operator; see FAULTS."""
    return {fault: judge(kind, engine) for fault, judge in FAULTS.items()}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("reference-model", "numpy"), default="reference-model")
    parser.add_argument("operators", nargs="*", default=OPERATORS_WITH_FAULTS)
    given = parser.parse_args()
    kinds, engine = given.operators, given.engine
    wrong, total = [], 0
    print(f"{'operator':26}" + " ".join(f"{fault.split()[-1]:>10}" for fault in FAULTS))
    for kind in kinds:
        answers = judged(kind, engine)
        row = ["-" if said is None else "WRONG" if said else "named" for said in answers.values()]
        print(f"{kind:26}" + " ".join(f"{cell:>10}" for cell in row), flush=True)
        total += len(row) - row.count("-")
        wrong += [f"{kind}, {fault}: {said}" for fault, said in answers.items() if said]
        if not accepts_what_the_rule_allows(kind, engine):
            print(f"{kind}: an error that its rule allows is reported")
            return 1
    print(*wrong, sep="\n")
    named = total - len(wrong)
    print(f"{engine}: {total} faults in {len(kinds)} operators: {named} named, {len(wrong)} not")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
