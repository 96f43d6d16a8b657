"""Compare the profiles, extensions and versions that we find with those of the official descriptors.

    python tests/oracle/official_suite.py DIR        # makes the suite
    python tests/oracle/compare_profiles.py DIR

Prints, for each reason of a difference, how many tests have it, and an example. Exit code 1 on a
difference without a known reason, or if nothing was compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tosa_convert as tc
from tosa_convert.graph.model import Graph, Version
from tosa_convert.graph.versions import lowest_version
from tosa_convert.rules.profiles import (
    CAPABILITIES,
    Requirement,
    least,
    requirements,
    suitable_profiles,
)

#: Reason -> what it is.
REASONS = {
    "no-shape": "the descriptors do not list EXT-SHAPE for operators on shapes",
    "gather-fp": "LLVM's table allows the integers and BOOL of 1.1's gather and scatter with PRO-FP",
    "control-flow": "the descriptors of control flow on integers list PRO-INT alone; PRO-FP has it",
    "loop-compares": "a loop on floats compares INT32; the descriptors do not list PRO-INT for it",
    "no-operator": "the program has no operator, only a tensor",
    "resize-dynamic": "the descriptor lists EXT-DYNAMIC, and all operands that it means are constants",
}


class Difference(NamedTuple):
    """What differs in a test, and the known reasons for it."""

    test: str
    reason: str
    found: str
    expected: str


def official(descriptor: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the profiles that a descriptor lists, and the extensions."""
    wanted = descriptor["test_requirements"]
    profiles, extensions = (
        {name.upper().removeprefix("TOSA-") for name in wanted.get(key, ())}
        for key in ("profiles_supported", "extensions_required")
    )
    assert profiles | extensions <= CAPABILITIES.keys()
    return profiles, extensions


def without_rows(graph: Graph) -> Iterator[str]:
    """Iterate over the operators whose types have no row."""
    known = {id(row.operator) for row in requirements(graph)}
    for _, block in graph.blocks():
        for operator in block.operators:
            if id(operator) not in known:
                yield operator.spec.name


def compare(test: Path) -> Iterator[Difference]:
    """Iterate over the differences of the test in a folder."""
    descriptor = json.loads((test / "desc.json").read_text())
    graph = tc.load(test / descriptor["tosa_file"])
    name = f"{test.parent.name}/{test.name}"
    for operator in without_rows(graph):
        yield Difference(name, "", f"{operator} has no row", "a row")
    needed = list(requirements(graph))
    profiles, extensions = official(descriptor)
    found = set(suitable_profiles(needed))
    names = least(needed)
    if names is None:
        yield Difference(name, "", "nothing suffices", " ".join(sorted(profiles | extensions)))
        return
    if found != profiles:
        yield Difference(
            name, profile_reason(needed, found, profiles), str(sorted(found)), str(sorted(profiles))
        )
    ours = {row for row in names if row.startswith("EXT-")}
    if ours != extensions:
        reason = extension_reason(needed, ours, extensions)
        yield Difference(name, reason, str(sorted(ours)), str(sorted(extensions)))
    yield from compare_version(name, graph, needed)


def compare_version(name: str, graph: Graph, needed: list[Requirement]) -> Iterator[Difference]:
    """Yield whether the rows and `graph.versions` find the same version."""
    version = max((min(need.since for need in row.needs) for row in needed), default=(1, 0))
    found, expected = Version(*version, 0, version > (1, 0)), lowest_version(graph)
    if found != expected:
        reason = "" if needed else "no-operator"
        rows = f"version {found} by the rows"
        yield Difference(name, reason, rows, f"{expected} by graph.versions")


def profile_reason(needed: list[Requirement], found: set[str], expected: set[str]) -> str:
    """Why the profiles differ, or ""."""
    gathers = {"GATHER", "SCATTER", "ROW_GATHER", "ROW_GATHER_BLOCK_SCALED"}
    if found - expected == {"PRO-FP"} and any(row.operator.spec.name in gathers for row in needed):
        return "gather-fp"
    names = {row.operator.spec.name for row in needed}
    if found - expected == {"PRO-FP"} and names & {"COND_IF", "WHILE_LOOP"}:
        return "control-flow"
    if expected - found == {"PRO-FP"} and not found and names >= {"WHILE_LOOP", "GREATER"}:
        return "loop-compares"
    if not needed:
        return "no-operator"
    return ""


def extension_reason(needed: list[Requirement], found: set[str], expected: set[str]) -> str:
    """Why the extensions differ, or ""."""
    if not needed:
        return "no-operator"
    names = {row.operator.spec.name for row in needed}
    if found - expected == {"EXT-SHAPE"} and not expected - found:
        return "no-shape"
    if expected - found == {"EXT-DYNAMIC"} and not found - expected and "RESIZE" in names:
        return "resize-dynamic"
    return ""


def main() -> int:
    """Compare all tests of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", type=Path)
    suite = parser.parse_args().suite
    tests = sorted(path.parent for path in suite.glob("*/*/desc.json"))
    differences = [difference for test in tests for difference in compare(test)]
    counts = Counter(difference.reason for difference in differences)
    print(f"{len(tests)} tests, {len({row.test for row in differences})} of which differ")
    for reason, count in counts.items():
        example = next(row for row in differences if row.reason == reason)
        print(f"{count:6} {REASONS.get(reason, 'NO KNOWN REASON')}")
        print(f"       {example.test}: found {example.found}, expected {example.expected}")
    for row in [row for row in differences if not row.reason][:40]:
        print(f"{row.test}: found {row.found}, expected {row.expected}")
    return 0 if tests and not counts[""] else 1


if __name__ == "__main__":
    sys.exit(main())
