"""Compare what we make of each file of an official suite with what the outside tools make of it.

    python tests/oracle/official_suite.py DIR            # makes the suite
    python tests/oracle/compare_suite.py DIR --jobs 2    # compares all of it

Prints counts, then every difference. Exit code 1 on any difference, or if nothing was compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import official_suite
from oracle.judge import Judge, Verdict

#: Files in a batch for a worker.
_BATCH = 40


def judge_files(files: Sequence[Path]) -> list[Verdict]:
    """Judge some files in this process. A failure at a file, even a bug, counts as its difference."""
    verdicts = []
    with Judge() as judge:
        for file in files:
            try:
                verdicts.append(judge.file(file))
            except Exception as error:
                verdicts.append(Verdict(str(file), differences=[f"failed: {error!r}"]))
    return verdicts


def judge_all(
    files: Sequence[Path],
    jobs: int,
    work: Callable[[Sequence[Path]], list[Verdict]] = judge_files,
) -> Iterator[Verdict]:
    """Judge all files in `jobs` processes, in no particular order; `work` judges a batch.

    The processes are spawned: MLIR starts threads, which a fork would not survive. A worker that dies
    counts as a difference of each file in its batch.
    """
    batches = [files[start : start + _BATCH] for start in range(0, len(files), _BATCH)]
    if jobs <= 1:
        for batch in batches:
            yield from work(batch)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(work, batch): batch for batch in batches}
        for future in as_completed(futures):
            try:
                yield from future.result()
            except BrokenProcessPool as error:
                for file in futures[future]:
                    yield Verdict(str(file), differences=[f"the process died: {error}"])


class Tally:
    """Totals of many verdicts."""

    def __init__(self) -> None:
        self.files = 0
        self.operators: set[str] = set()
        self.yes: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.different: list[Verdict] = []

    def add(self, verdict: Verdict) -> None:
        """Count one."""
        self.files += 1
        self.operators |= verdict.operators
        for what in ("exported", "imported", "returned", "ran"):
            found = getattr(verdict, what)
            self.judged[what] += found is not None
            self.yes[what] += bool(found)
        if verdict.reason:
            self.reasons[verdict.reason] += 1
        if verdict.differences:
            self.different.append(verdict)

    @property
    def passed(self) -> bool:
        """Return whether files were compared in both directions and none differed."""
        compared = self.yes["exported"] and self.yes["imported"] and self.yes["returned"]
        return bool(compared) and not self.different

    def lines(self) -> Iterator[str]:
        """Iterate over the counts as text."""
        known = official_suite.operators()
        absent = [name for name in known if name not in self.operators]
        yield f"{self.files:7} files"
        yield f"{len(self.operators):7} of {len(known)} operators; absent: {' '.join(absent) or '-'}"
        for what, text in (
            ("exported", "equal exports: the JSON of our file is that of tosa-opt's file"),
            ("imported", "equal imports: our module is tosa-opt's module"),
            ("returned", "equal round trips: import and export give the official file's program"),
            ("ran", "equal outputs of the reference model, where tosa-opt is not the judge"),
        ):
            yield f"{self.yes[what]:7} of {self.judged[what]} {text}"
        yield f"{sum(self.reasons.values()):7} files of which tosa-opt does not judge all:"
        for reason, count in self.reasons.most_common():
            yield f"{count:11} {reason}"
        yield f"{len(self.different):7} files with differences"
        for verdict in sorted(self.different, key=lambda found: found.file):
            yield verdict.file
            for difference in verdict.differences:
                yield f"        {difference}"


def main(arguments: list[str] | None = None) -> int:
    """Compare a suite and print the counts."""
    parser = argparse.ArgumentParser(description="Compare the official TOSA tests.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every K-th file")
    options = parser.parse_args(arguments)
    problem = official_suite.missing()
    if problem:
        print(f"compare_suite: {problem}", file=sys.stderr)
        return 1
    started = told = time.monotonic()
    files = [case.tosa for case in official_suite.cases(options.directory)][:: options.every]
    tally = Tally()
    for verdict in judge_all(files, options.jobs):
        tally.add(verdict)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{tally.files} of {len(files)} files", file=sys.stderr)
    for line in tally.lines():
        print(line)
    print(f"{time.monotonic() - started:7.0f} s")
    return 0 if tally.passed else 1


if __name__ == "__main__":
    sys.exit(main())
