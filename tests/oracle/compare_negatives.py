"""Judge official negative tests: each is refused, and by a rule that matches the name of the test.

    python tests/oracle/compare_negatives.py DIR --seeds 1 2 3 --each 6

makes the tests that are not in DIR yet (`official_negatives.py`) and judges all of DIR. Prints which
rules answer each condition, then the tests that are not refused, or by other rules than those of
`tests/rules/error_if_rules.py`. Exit code 1 if there are any, or if a condition has no test.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

# Tests import one another by their folders' names; as a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import official_negatives, official_suite
from oracle.official_negatives import Negative
from oracle.outside_tools import TOOLS_VERSION
from rules.error_if_rules import NEVER_MADE, RULES

import tosa_convert as tc
from tosa_convert.graph.model import DYNAMIC


def answers(file: Path) -> list[str]:
    """Return what refuses a file: rules such as "add-rank", and codes such as "code:undefined-name".

    Ranks above 6 exceed a limit of level 8K, which official tests are made for.
    """
    try:
        findings = tc.validate(tc.load(file), level="8k", spec_version=TOOLS_VERSION)
    except tc.TosaConvertError as error:
        findings = list(error.findings)
    return [finding.rule or f"code:{finding.code}" for finding in findings]


def has_unknown_size(file: Path) -> bool:
    """Return whether a program has a size that is not known.

    That of no valid official test is unknown.
    """
    return any(
        DYNAMIC in (tensor.shape or ())
        for _, block in tc.load(file).blocks()
        for tensor in block.tensors.values()
    )


def matches(condition: str, found: Iterable[str]) -> list[str]:
    """Return the answers that match a condition's row in the table."""
    patterns = RULES.get(condition, ())
    return [
        answer
        for answer in found
        if any(fnmatch.fnmatchcase(answer, pattern) for pattern in patterns)
    ]


class Tally:
    """What answers each condition."""

    def __init__(self) -> None:
        self.files = 0
        self.tests: Counter[str] = Counter()
        #: Condition -> the answers that match it, with the number of tests.
        self.rules: dict[str, Counter[str]] = defaultdict(Counter)
        #: Condition -> further answers.
        self.others: dict[str, Counter[str]] = defaultdict(Counter)
        self.accepted: list[Negative] = []
        #: Tests that are not refused because the wrong size is -1, which is an unknown one.
        self.unknown: list[Negative] = []
        self.otherwise: list[tuple[Negative, list[str]]] = []

    def add(self, test: Negative) -> None:
        """Judge a test. A failure that is a bug of ours is an answer that matches nothing."""
        try:
            found = answers(test.file)
        except Exception as error:
            found = [f"failed: {error!r}"]
        self.files += 1
        self.tests[test.condition] += 1
        matching = set(matches(test.condition, found))
        self.rules[test.condition].update(matching)
        self.others[test.condition].update(set(found) - matching)
        if not found:
            (self.unknown if has_unknown_size(test.file) else self.accepted).append(test)
        elif not matching or any(answer.startswith("failed") for answer in found):
            self.otherwise.append((test, found))

    @property
    def missing(self) -> set[str]:
        """Return the conditions without a test."""
        return official_negatives.conditions() - self.tests.keys() - NEVER_MADE

    @property
    def passed(self) -> bool:
        """Return whether every condition is tested, and every test refused for the right reason."""
        return not (self.accepted or self.otherwise or self.missing)

    def lines(self) -> Iterator[str]:
        """Iterate over the table as text."""
        for condition in sorted(self.tests):
            yield f"{self.tests[condition]:6} {condition}: {_counted(self.rules[condition])}"
            if self.others[condition]:
                yield f"{'':13} and: {_counted(self.others[condition])}"
        yield f"{self.files:6} tests of {len(self.tests)} conditions"
        yield f"{len(self.missing):6} conditions without a test: {' '.join(sorted(self.missing))}"
        yield f"{len(self.unknown):6} tests whose wrong size is -1, an unknown size"
        yield f"{len(self.accepted):6} tests that are not refused"
        yield from (f"{'':7}{test.file}" for test in self.accepted)
        yield f"{len(self.otherwise):6} tests that other rules refuse"
        for test, found in self.otherwise:
            yield f"{'':7}{test.file}: {' '.join(found)}"


def _counted(rules: Counter[str]) -> str:
    return ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the tests of a directory and print the table."""
    parser = argparse.ArgumentParser(description="Judge official negative TOSA tests.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--each", type=int, default=6, help="tests for each combination")
    options = parser.parse_args(arguments)
    problem = official_suite.missing()
    if problem:
        print(f"compare_negatives: {problem}", file=sys.stderr)
        return 1
    started = time.monotonic()
    for seed in options.seeds:
        official_negatives.generate(options.directory, seed, options.each)
    tally = Tally()
    for test in official_negatives.cases(options.directory):
        tally.add(test)
    for line in tally.lines():
        print(line)
    print(f"{time.monotonic() - started:6.0f} s")
    return 0 if tally.passed else 1


if __name__ == "__main__":
    sys.exit(main())
