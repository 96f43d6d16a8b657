"""Every fault of the bench: whether `check` finds it and `bisect` names its operator.

    PYTHONPATH=tests python tests/golden/fault_bench/run.py [KIND ...] [--state DIR] [--jobs N]
        [--every N] [--engine ENGINE] [--verify] [--file NAME]

KIND is a part of the titles of the faults to run, and NAME a file of them such as kinds_inputs. ENGINE
computes the reference: `numpy`, or `reference-model`. With `--state`, a run that was stopped continues.
Prints a row for each kind, every fault that was missed with the reason, and the totals. The exit code is
1 if less than 97 % of the faults are found, or named, or if a fault is missed without a known reason.
`--verify` also verifies that each row is a fault, and that the same machine without it passes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from golden.fault_bench.fault import Fault, FaultyMachine, Inputs
from golden.fault_bench.known_misses import KNOWN_MISSES
from golden.fault_bench.reality import shows_fault
from golden.fault_bench.rows import all_faults
from oracle.comparison_main import PACKAGE, digest_of

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.checking.check import check, edge_sets, seeded_inputs
from tosa_convert.golden.running.run_options import Engine
from tosa_convert.graph import Graph
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import Bisection

#: The share of the faults that must be found, and named.
REQUIRED: Final = 0.97
SEEDS: Final = 2
#: Seconds between two notes of progress.
_NOTE_EVERY: Final = 30


@dataclass(frozen=True, slots=True)
class Answer:
    """What the verbs said about a fault.

    found: whether `check` failed. named: whether `bisect` named the operator. text: what is wrong.
    unfit: why the row is not a fault, if that was verified.
    """

    title: str
    found: bool
    named: bool
    text: str = ""
    unfit: str = ""


def key_of(fault: Fault) -> Hashable:
    """Return what faults with the same program have in common."""
    program = fault.program
    if not isinstance(program, partial):
        return program
    return program.func, program.args, tuple(sorted(program.keywords.items()))


#: By the keys of programs: the inputs that were made, and those that are made when they are needed.
_inputs: dict[Hashable, tuple[list[tuple[str, Inputs]], Iterator[tuple[str, Inputs]]]] = {}


def inputs_of(fault: Fault) -> Iterator[tuple[str, Inputs]]:
    """Iterate over the inputs that `check --seeds 2` runs, and with `--edges`, with their names."""
    key = key_of(fault)
    if key not in _inputs:
        graph = fault.program()
        seeds = seeded_inputs(graph, {}, 0, SEEDS, ())
        _inputs[key] = [], chain(seeds, edge_sets(graph, {}, 0, SEEDS, (), further=True))
    made, further = _inputs[key]
    yield from made
    for row in further:
        made.append(row)
        yield row


def judge(fault: Fault, engine: Engine = "numpy") -> Answer:
    """Run both verbs on a fault: `bisect` on inputs that fail, until it does more than add up errors."""
    failing: list[tuple[str, Inputs]] = []
    try:
        graph, backend = fault.program(), fault.backend()
        for name, arrays in inputs_of(fault):
            if not check(graph, backend, arrays, engine=engine).ok:
                failing.append((name, arrays))
                result = bisect(graph, fault.backend(), arrays, engine=engine)
                if result.first is not None and result.first.kind != "within-rules":
                    break
    except TosaConvertError as error:
        return Answer(fault.title, bool(failing), False, f"error: {error}")
    if not failing:
        return Answer(fault.title, False, False, "every check passes")
    problem = wrongly_named(fault, graph, result)
    return Answer(fault.title, True, not problem, problem and f"{failing[-1][0]}: {problem}")


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


def unfit(fault: Fault, correct: dict[Any, str]) -> str:
    """Return why a row is not a fault, or "".

    correct: what was found for programs without a fault, which is filled.
    """
    try:
        graph, sets = fault.program(), dict(inputs_of(fault))
    except TosaConvertError as error:
        return str(error)
    key = key_of(fault)
    if key not in correct:
        machine = FaultyMachine()
        wrong = [n for n, a in sets.items() if not check(graph, machine, a, engine="numpy").ok]
        correct[key] = f"without the fault {wrong} fail" if wrong else ""
    if correct[key]:
        return correct[key]
    given = [*sets.values(), *([fault.witness()] if fault.witness else [])]
    return "" if shows_fault(fault, given) else "no inputs show it"


def judge_program(titles: Sequence[str], engine: Engine, *, verify: bool) -> list[Answer]:
    """Judge faults of one program, in a worker: machines cannot be sent to it, so titles are."""
    answers: list[Answer] = []
    correct: dict[Any, str] = {}
    for title in titles:
        fault = _by_title()[title]
        answer = judge(fault, engine)
        answers.append(replace(answer, unfit=unfit(fault, correct) if verify else ""))
    _inputs.clear()
    return answers


@cache
def _by_title() -> dict[str, Fault]:
    return {fault.title: fault for fault in all_faults()}


def judge_all(
    faults: Sequence[Fault], engine: Engine, jobs: int, *, verify: bool
) -> Iterator[list[Answer]]:
    """Iterate over the answers for faults, those of one program at a time."""
    programs: dict[Hashable, list[str]] = defaultdict(list)
    for fault in faults:
        programs[key_of(fault)].append(fault.title)
    work = partial(judge_program, engine=engine, verify=verify)
    if jobs == 1:
        yield from map(work, programs.values())
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, programs.values())


class State:
    """The answers of a run so far, in a file for each engine."""

    def __init__(self, folder: Path | None, engine: Engine, *, verify: bool) -> None:
        self.file = folder and folder / f"{engine}{'-verified' * verify}.jsonl"
        self.answers: dict[str, Answer] = {}
        if self.file is None:
            return
        bench = sorted(Path(__file__).parent.glob("*.py"))
        # What is known of a miss changes no answer.
        code = digest_of(PACKAGE, *(file for file in bench if file.name != "known_misses.py"))
        if self.file.exists():
            first, *rows = self.file.read_text("utf-8").splitlines()
            if first != code:
                sys.exit(f"{self.file} is of other code; remove it to begin again")
            found = [Answer(**json.loads(row)) for row in rows]
            self.answers = {answer.title: answer for answer in found}
        else:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(f"{code}\n", "utf-8")

    def add(self, answers: Iterable[Answer]) -> None:
        """Keep answers."""
        self.answers |= {answer.title: answer for answer in answers}
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(answer)) + "\n" for answer in answers)


def table(faults: Iterable[Fault], answers: Mapping[str, Answer], by: str) -> list[str]:
    """Return a row for each value of an attribute: how many faults, found, named."""
    groups: dict[str, list[Answer]] = defaultdict(list)
    for fault in faults:
        groups[getattr(fault, by)].append(answers[fault.title])
    width = max(map(len, [by, *groups]))
    rows = [f"{by:{width}}  faults  found  named"]
    for name, group in groups.items():
        found, named = sum(a.found for a in group), sum(a.named for a in group)
        rows.append(f"{name:{width}}  {len(group):6}  {found:5}  {named:5}")
    return rows


def report(faults: Sequence[Fault], answers: Mapping[str, Answer]) -> bool:
    """Print the tables, what is missed, and the totals. Return whether the bench passes."""
    for by in ("kind", "dtype", "family"):
        print(*table(faults, answers, by), "", sep="\n")
    missed = {f.title: text for f in faults if (text := answers[f.title].text)}
    for title, text in missed.items():
        print(f"MISSED {title}: {text}\nknown: {KNOWN_MISSES.get(title, 'no, find out why')}\n")
    seen = [t for t in KNOWN_MISSES if t in answers and t not in missed]
    print(*(f"listed as missed, and found now: {title}" for title in seen), sep="\n")
    unexplained = sum(title not in KNOWN_MISSES for title in missed)
    rows = [answers[fault.title] for fault in faults]
    problems = [f"NO FAULT {row.title}: {row.unfit}" for row in rows if row.unfit]
    print(*problems, f"{len(problems)} rows are not faults", sep="\n")
    total, found, named = len(rows), sum(a.found for a in rows), sum(a.named for a in rows)
    print(
        f"{len({fault.kind for fault in faults})} kinds, {total} faults: {found} found "
        f"({found / total:.1%}), {named} named ({named / total:.1%}), {len(missed)} missed, "
        f"{unexplained} of them without a known reason"
    )
    return min(found, named) >= REQUIRED * total and not problems and not unexplained


def main() -> int:
    """Judge the faults and print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("numpy", "reference-model"), default="numpy")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th fault")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--state", type=Path, metavar="DIR", help="continue the run of this folder")
    parser.add_argument("kinds", nargs="*", default=[""])
    given = parser.parse_args()
    faults = [f for f in all_faults(given.file) if any(text in f.title for text in given.kinds)]
    faults = faults[:: given.every]
    if not faults:
        parser.error("no fault has such a title")
    state = State(given.state, given.engine, verify=given.verify)
    rest = [fault for fault in faults if fault.title not in state.answers]
    start = noted = time.monotonic()
    done = len(faults) - len(rest)
    for answers in judge_all(rest, given.engine, given.jobs, verify=given.verify):
        state.add(answers)
        done += len(answers)
        if time.monotonic() - noted > _NOTE_EVERY:
            noted = time.monotonic()
            missed = sum(bool(answer.text) for answer in state.answers.values())
            print(f"{done} of {len(faults)}, {missed} missed", file=sys.stderr, flush=True)
    passed = report(faults, state.answers)
    print(f"{len(rest)} judged now, in {time.monotonic() - start:.0f} s")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
