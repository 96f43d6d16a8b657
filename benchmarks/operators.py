"""Compare the speed of our definitions of operators with that of the TOSA reference model.

    python benchmarks/operators.py [--only TEXT]... [--pairs N] [--markdown FILE] [--list]

Both use one thread, and processor time is measured, so that other work on the machine counts little.
The time of the reference model is that of the operator alone: a program computes it once, another one
several times, and the difference of the two processes is divided by the difference of the counts. Start,
reading and writing cancel out. Ours is the time of a whole run in this process: the operator, its
checks, and the memory of its result. Inputs are in memory. Both are measured in turns, so that a busy
machine slows both down, and of the runs of each the fastest one counts.

Exit code 1 if a ratio is below its limit.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import places
from operator_rows import Row, rows

from tosa_convert.builder import Builder, dtype_of
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.running.programs import Program, input_arrays
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph import Graph
from tosa_convert.reference.call import Array
from tosa_convert.reference.evaluate import Machine

#: The environment of one thread, which libraries read when they are loaded.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: Seconds that the repeated operators of the reference model are to take.
LONG_ENOUGH = 0.4
#: Most repetitions of the operator in the second program.
MOST = 32
#: Seconds that our runs of a row are to take in each pair, and the fewest of them.
OURS, FEWEST = 0.3, 3


@dataclass
class Measured:
    """Hold the seconds of one operator, ours and of the reference model."""

    row: Row
    ours: float
    model: float

    @property
    def ratio(self) -> float:
        """Return how many times as fast ours is."""
        return self.model / self.ours

    @property
    def is_met(self) -> bool:
        """Return whether the row has no limit, or reaches it."""
        return self.row.limit is None or self.ratio >= self.row.limit


def build(row: Row, count: int) -> Graph:
    """Return a program that computes the operator `count` times, and gives the last result."""
    b = Builder("main")
    values = [b.input(f"x{i}", dtype_of(kind), shape) for i, (kind, shape) in enumerate(row.inputs)]
    found: Any = None
    for _ in range(count):
        found = row.make(b, *values)
    b.output(found, name="y")
    return b.graph()


def of_children(work: Callable[[], object]) -> float:
    """Return the processor time of the processes that some work starts, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(row: Row, pairs: int) -> Measured:
    """Return the seconds of one operator, ours and the reference model's, measured in turns."""
    options = RunOptions(engine="reference-model", level="none", timeout=600)
    graph = build(row, 1)
    inputs = input_arrays(graph, None, 1)

    def seconds(count: int) -> float:
        program = Program(build(row, count))
        return of_children(lambda: run_program(program, inputs, options))

    guess = max(seconds(2) - seconds(1), 1e-6)
    count = 1 + max(1, min(MOST, round(LONG_ENOUGH / guess)))
    Machine(graph).run(inputs)
    ours, once, often = [], [], []
    for _ in range(pairs):
        ours.append(of_ours(graph, inputs))
        once.append(seconds(1))
        often.append(seconds(count))
    return Measured(row, min(ours), max(min(often) - min(once), 1e-6) / (count - 1))


def of_ours(graph: Graph, inputs: Mapping[str, Array]) -> float:
    """Return the least processor time of a run of ours, in seconds."""
    found: list[float] = []
    while len(found) < FEWEST or sum(found) < OURS:
        start = time.process_time()
        Machine(graph).run(inputs)
        found.append(time.process_time() - start)
    return min(found)


def describe(seconds: float) -> str:
    """Return a time in milliseconds."""
    return f"{seconds * 1e3:.3g} ms"


def markdown(found: Sequence[Measured]) -> str:
    """Return a table with a row for each case."""
    lines = ["| operator | elements | reference model | ours | ratio |", "|---|---|---|---|---|"]
    for one in found:
        times = f"{describe(one.model)} | {describe(one.ours)}"
        ratio = f"{one.ratio:.1f}x" if one.is_met else f"**{one.ratio:.1f}x**"
        lines.append(f"| {one.row.operator} | {one.row.about} | {times} | {ratio} |")
    return "\n".join(lines) + "\n"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description="Compare our definitions of operators with the reference model."
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="rows whose name contains TEXT; several times: one of the texts",
    )
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="pairs of runs (3)")
    parser.add_argument("--list", action="store_true", help="print the rows' names")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    options = parser.parse_args(words)
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    return options


def main(words: list[str] | None = None) -> int:
    """Measure every row; 1 if one is slower than its limit, or fails."""
    options = arguments(words)
    texts = options.only or [""]
    chosen = [row for row in rows() if any(text in row.name for text in texts)]
    if options.list or not chosen:
        print(
            "\n".join(row.name for row in chosen) or f"no row has {' or '.join(texts)} in its name"
        )
        return 0 if chosen else 2
    if not ONE_THREAD.items() <= os.environ.items():
        os.execve(
            sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ONE_THREAD}
        )
    print(f"load {os.getloadavg()[0]:.1f}; {places.machine()['processor']}; {places.versions()}")
    found, failed = [], False
    for row in chosen:
        try:
            one = measure(row, options.pairs)
        except TosaConvertError as error:
            failed = True
            print(f"{row.name:40} failed: {error.findings[0]}", flush=True)
            continue
        found.append(one)
        verdict = "" if one.is_met else f"  BELOW {row.limit:g}"
        times = f"{describe(one.model):>10} {describe(one.ours):>10}"
        print(f"{row.name:40} {times} {one.ratio:8.1f}{verdict}", flush=True)
    if options.markdown:
        options.markdown.write_text(markdown(found), encoding="utf-8")
    return 1 if failed or not all(one.is_met for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
