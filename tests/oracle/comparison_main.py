"""What the scripts that compare whole official suites have in common: options, processes, resumption.

A script compares files in worker processes, a batch at a time, and counts the outcomes in a tally. With
`--state FILE` the tally is saved after each batch, and the same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from oracle import official_suite

#: Files in a batch for a worker.
BATCH: Final = 40
#: Options that do not change what is compared.
_HOW: Final = ("jobs", "state")
#: Seconds between two notes of progress.
_NOTE_EVERY: Final = 10
HERE: Final = Path(__file__).resolve().parent
PACKAGE: Final = HERE.parent.parent / "tosa_convert"

Outcome = TypeVar("Outcome")
Counted = TypeVar("Counted", contravariant=True)


class Tally(Protocol[Counted]):
    """Counts of many outcomes."""

    def add(self, found: Counted, /) -> None:
        """Count one."""

    @property
    def passed(self) -> bool:
        """Whether something was compared and nothing differed."""

    def lines(self) -> Iterator[str]:
        """The result, to be read."""


class Compared(NamedTuple):
    """One program in one cell of a table.

    read: it was read; otherwise it is refused as it should be. difference: "" if it is the same program.
    """

    row: str
    column: object
    program: str
    read: bool
    difference: str


class Table:
    """Counts of programs by row and column, and everything that differs."""

    def __init__(
        self, rows: Mapping[str, Sequence[object]], needed: Collection[str], refused: str
    ) -> None:
        """Begin a table.

        rows: row -> its columns. needed: rows of which each column must have a program that is equal.
        refused: the head of what is refused.
        """
        self.rows, self.needed, self.head = rows, needed, refused
        self.equal: Counter[tuple[str, object]] = Counter()
        self.refused: Counter[tuple[str, object]] = Counter()
        self.different: list[Compared] = []

    def add(self, found: Compared) -> None:
        """Count one."""
        if found.difference:
            self.different.append(found)
        else:
            (self.equal if found.read else self.refused)[found.row, found.column] += 1

    @property
    def passed(self) -> bool:
        """Return whether nothing differed, and what is needed was compared."""
        return not self.different and all(
            self.equal[row, column] for row in self.needed for column in self.rows[row]
        )

    def lines(self) -> Iterator[str]:
        """Iterate over the table, to be read."""
        yield f"{'':30} | {'':22} |  equal | {self.head}"
        for row, columns in self.rows.items():
            for column in columns:
                counts = f"{self.equal[row, column]:6} | {self.refused[row, column]:6}"
                yield f"{row:30} | {column!s:22} | {counts}"
        for found in self.different:
            yield f"{found.row}, {found.column}: {found.program}: {found.difference}"


class StateError(Exception):
    """A state file is of another comparison."""


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the options that all comparisons have."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "directory", type=Path, help="made by official_suite.py, or with .tosa files in it"
    )
    made.add_argument("--jobs", type=int, default=2, metavar="N", help="worker processes")
    made.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th file")
    made.add_argument(
        "--state", type=Path, metavar="FILE", help="save the counts here, and continue from them"
    )
    return made


def run(
    options: argparse.Namespace,
    compare_files: Callable[[Sequence[Path]], list[Outcome]],
    tally: Tally[Outcome],
) -> int:
    """Compare the files of a suite and print the tally; the exit code.

    compare_files: gets a batch of files, in a worker process. tally: an empty one.
    """
    files = [case.tosa for case in official_suite.cases(options.directory)]
    problem = official_suite.missing() if files else ""
    if problem:
        print(problem, file=sys.stderr)
        return 1
    files = (files or sorted(options.directory.rglob("*.tosa")))[:: options.every]
    state = _State(options)
    try:
        done, tally = state.load(tally)
    except StateError as error:
        print(error, file=sys.stderr)
        return 2
    batches = [files[start : start + BATCH] for start in range(done, len(files), BATCH)]
    noted = time.monotonic()
    with ExitStack() as stack:
        results = _results(options.jobs, compare_files, batches, stack)
        for batch in batches:
            try:
                outcomes = next(results)
            except BrokenProcessPool as error:
                print(f"{error}\nin {batch[0]} or a file after it", file=sys.stderr)
                return 1
            for found in outcomes:
                tally.add(found)
            done += len(batch)
            state.save(done, tally)
            if time.monotonic() - noted > _NOTE_EVERY:
                noted = time.monotonic()
                print(f"{done} of {len(files)} files", file=sys.stderr)
    print(f"{len(files)} files")
    print("\n".join(tally.lines()))
    return 0 if tally.passed else 1


def _results(
    jobs: int,
    compare_files: Callable[[Sequence[Path]], list[Outcome]],
    batches: Sequence[Sequence[Path]],
    stack: ExitStack,
) -> Iterator[list[Outcome]]:
    """Return the outcomes of each batch, in order; of one job in this process."""
    if jobs <= 1:
        return map(compare_files, batches)
    # Spawned, because MLIR starts threads, which a fork would not survive.
    pool = stack.enter_context(ProcessPoolExecutor(jobs, mp_context=get_context("spawn")))
    return iter(pool.map(compare_files, batches))


class _State:
    """The state file of a comparison, if it has one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.file: Path | None = options.state
        self.key = _key(options) if self.file else ""

    def load(self, empty: Tally[Outcome]) -> tuple[int, Tally[Outcome]]:
        """Return the number of files that are done, and their tally. Raises StateError."""
        if self.file is None or not self.file.exists():
            return 0, empty
        key, done, tally = pickle.loads(self.file.read_bytes())
        if key != self.key:
            raise StateError(
                f"{self.file} is of other options, another suite or other code; "
                "remove it to begin again"
            )
        return done, tally

    def save(self, done: int, tally: Tally[Any]) -> None:
        """Replace the file."""
        if self.file is not None:
            beside = self.file.with_suffix(".part")
            beside.write_bytes(pickle.dumps((self.key, done, tally)))
            beside.replace(self.file)


def _key(options: argparse.Namespace) -> str:
    """Return a digest of everything that the outcomes depend on: the options, the suite, the code."""
    asked = {name: str(value) for name, value in vars(options).items() if name not in _HOW}
    script = Path(sys.argv[0]).name
    digest = hashlib.sha256(json.dumps([script, asked], sort_keys=True).encode())
    suite = options.directory / "suite.json"
    for file in [suite] if suite.exists() else sorted(options.directory.rglob("*.tosa")):
        digest.update(file.read_bytes())
    return digest.hexdigest() + digest_of(HERE, PACKAGE)


def digest_of(*places: Path) -> str:
    """Return a digest of Python files, and of those in folders."""
    digest = hashlib.sha256()
    for place in places:
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(file.read_bytes())
    return digest.hexdigest()
