"""Every fault of the bench: whether `check` finds it and `bisect` names its operator.

    PYTHONPATH=tests python tests/golden/fault_bench/run.py [KIND ...]
        [--engine ENGINE] [--verify] [--file NAME]

KIND is a part of the titles of the faults to run, and NAME a file of them such as kinds_inputs. ENGINE
computes the reference: `numpy`, or `reference-model`. Prints a row for each kind, every fault that was
missed, and the totals; the exit code is 1 if less than 97 % of the faults are found, or named.
`--verify` also verifies that each row is a fault, and that the same machine without it passes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from golden.fault_bench.fault import Fault, FaultyMachine, Inputs
from golden.fault_bench.known_misses import reason_of
from golden.fault_bench.reality import shows_fault
from golden.fault_bench.rows import all_faults

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.bisection.bisect import bisect
from tosa_convert.golden.bisection.result import Bisection
from tosa_convert.golden.checking.check import check, edge_sets, seeded_inputs
from tosa_convert.golden.running.run_options import Engine
from tosa_convert.graph import Graph

#: The share of the faults that must be found, and named.
REQUIRED: Final = 0.97
SEEDS: Final = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What the verbs said about a fault.

    found: whether `check` failed. named: whether `bisect` named the operator. text: what is wrong.
    """

    fault: Fault
    found: bool
    named: bool
    text: str = ""


def key_of(fault: Fault) -> Hashable:
    """Return what faults with the same program have in common."""
    program = fault.program
    if not isinstance(program, partial):
        return program
    return program.func, program.args, tuple(sorted(program.keywords.items()))


#: The inputs of programs, by their keys.
_inputs: dict[Hashable, dict[str, Inputs]] = {}


def inputs_of(fault: Fault) -> dict[str, Inputs]:
    """Return the inputs that `check --seeds 2` runs, and with `--edges`, by name."""
    key = key_of(fault)
    if key not in _inputs:
        _inputs[key] = _make_inputs(fault.program())
    return _inputs[key]


def _make_inputs(graph: Graph) -> dict[str, Inputs]:
    edges = edge_sets(graph, {}, 0, SEEDS, (), further=True)
    sets = (seeded_inputs(graph, {}, 0, SEEDS, ()), edges)
    return {name: arrays for given in sets for name, arrays in given}


def judge(fault: Fault, engine: Engine = "numpy") -> Answer:
    """Run both verbs on a fault: `bisect` on inputs that fail, until it does more than add up errors."""
    failing: list[tuple[str, Inputs]] = []
    try:
        graph, backend = fault.program(), fault.backend()
        for name, arrays in inputs_of(fault).items():
            if not check(graph, backend, arrays, engine=engine).ok:
                failing.append((name, arrays))
                result = bisect(graph, fault.backend(), arrays, engine=engine)
                if result.first is not None and result.first.kind != "within-rules":
                    break
    except TosaConvertError as error:
        return Answer(fault, bool(failing), False, f"error: {error}")
    if not failing:
        return Answer(fault, False, False, "every check passes")
    text = f"{failing[-1][0]}: {wrongly_named(fault, graph, result)}"
    return Answer(fault, True, text.endswith(": "), text if not text.endswith(": ") else "")


def wrongly_named(fault: Fault, graph: Graph, result: Bisection) -> str:
    """Return why a result does not name the operator of a fault, or "".

    Operators that are wrong only together are named together: the faulty one and what it needs to be
    wrong, but not most of the program.
    """
    if result.first is None:
        return f"nothing is named: {result}"
    allowed = {fault.location} if isinstance(fault.location, str) else set(fault.location or ())
    places = {row[2] for row in result.first.operators}
    if fault.location is None or places <= allowed:
        return ""
    named = [graph.main.operators[row[0]] for row in result.first.operators[:1]]
    if any("is named as a whole" in note for note in result.notes) and named[0].spec.regions:
        # Its regions are right alone: the fault is in what goes from one iteration to the next.
        return ""
    count = sum(bool(op.inputs) for _, block in graph.blocks() for op in block.operators)
    is_small = len(result.first.operators) <= max(3, count // 2)
    if result.first.kind == "in-context" and places & allowed and is_small:
        return ""
    return f"{sorted(places)} are named: {result}"


def unfit(fault: Fault, honest: dict[Any, str]) -> str:
    """Return why a row is not a fault, or "".

    honest: what was found for programs without a fault, which is filled.
    """
    try:
        graph, sets = fault.program(), inputs_of(fault)
    except TosaConvertError as error:
        return str(error)
    key = key_of(fault)
    if key not in honest:
        machine = FaultyMachine()
        wrong = [n for n, a in sets.items() if not check(graph, machine, a, engine="numpy").ok]
        honest[key] = f"without the fault {wrong} fail" if wrong else ""
    if honest[key]:
        return honest[key]
    given = [*sets.values(), *([fault.witness()] if fault.witness else [])]
    return "" if shows_fault(fault, given) else "no inputs show it"


def table(answers: Iterable[Answer], by: str) -> list[str]:
    """Return a row for each value of an attribute: how many faults, found, named."""
    groups: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        groups[getattr(answer.fault, by)].append(answer)
    width = max(map(len, groups), default=0)
    rows = [f"{by:{width}}  faults  found  named"]
    for name, group in groups.items():
        found, named = sum(a.found for a in group), sum(a.named for a in group)
        rows.append(f"{name:{width}}  {len(group):6}  {found:5}  {named:5}")
    return rows


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("numpy", "reference-model"), default="numpy")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("kinds", nargs="*", default=[""])
    given = parser.parse_args()
    faults = [f for f in all_faults(given.file) if any(text in f.title for text in given.kinds)]
    repeated = [title for title, count in Counter(f.title for f in faults).items() if count > 1]
    if repeated:
        parser.error(f"faults with the same title: {repeated}")
    start, answers = time.monotonic(), []
    for fault in faults:
        answers.append(judge(fault, given.engine))
        if answers[-1].text:
            print(f"MISSED {fault.family}: {fault.title}: {answers[-1].text}", flush=True)
            print(f"known: {reason_of(fault.title) or 'no, find out why'}\n", flush=True)
    for by in ("kind", "dtype", "family"):
        print(*table(answers, by), "", sep="\n")
    problems = []
    if given.verify:
        honest: dict[Any, str] = {}
        problems = [f"{f.title}: {text}" for f in faults if (text := unfit(f, honest))]
        print(*problems, f"{len(problems)} rows are not faults", sep="\n")
    total = len(answers)
    found, named = sum(a.found for a in answers), sum(a.named for a in answers)
    kinds = len({fault.kind for fault in faults})
    print(
        f"{kinds} kinds, {total} faults: {found} found ({found / total:.1%}), {named} named "
        f"({named / total:.1%}), {time.monotonic() - start:.0f} s"
    )
    return int(min(found, named) < REQUIRED * total or bool(problems))


if __name__ == "__main__":
    sys.exit(main())
