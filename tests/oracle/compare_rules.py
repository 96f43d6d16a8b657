"""Compare the verdict of each official rule with that of the official verifier's library.

    python tests/oracle/compare_rules.py DIR [--every N] [--changes N] [--journal FILE]

DIR is a folder of official tests. Each output of each case is judged as it is expected to be, and
with changes: elements near the expected ones, near the limits of the rule, subnormal numbers,
infinities, NaN, zeros of both signs and numbers that overflow; of integers, one element one more or
less. Both judge the same arrays. What the library does not judge (data in blocks with scales) is
counted as left out. Continues where an earlier run with the same journal stopped; the exit code is 1 if
any two verdicts differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.drawn_elements import changed
from golden.official_verifier import OfficialVerifier, find_library

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.error_bounds import FLOATS
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.running import run_graph
from tosa_convert.golden.running.programs import output_slots
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.qualify.suite.official_case import (
    OfficialCase,
    case_inputs,
    read_case,
    run_reference,
)
from tosa_convert.qualify.suite.run_cases import find_cases

#: Elements of a tensor of which some change, at most; the others stay as they are.
MOST = 64


def changes_of(
    row: dict[str, Any],
    reference: Array,
    bounds: Array | None,
    expected: Array,
    count: int,
    seed: int,
) -> Iterator[Array]:
    """Iterate over the expected array, and changed ones."""
    yield expected
    random = np.random.default_rng(seed)
    flat, wide = expected.reshape(-1), reference.reshape(-1)
    if not flat.size:
        return
    for number in range(count):
        found = flat.copy()
        places = random.integers(0, flat.size, 1 if number % 2 else min(MOST, flat.size))
        if row["data_type"] in FLOATS and row["data_type"] != "MXINT8":
            some = np.ones(len(places)) if bounds is None else bounds.reshape(-1)[places]
            found[places] = changed(row, wide[places].astype(np.float64), some, random)
        elif row["data_type"] == "BOOL":
            found[places] = ~found[places]
        else:
            step = 1 if number % 2 else -1
            moved = found[places].astype(np.float64 if "FP8" in row["data_type"] else np.int64)
            found[places] = (moved + step).astype(found.dtype)
        yield found.reshape(expected.shape)


def compare_case(
    case: OfficialCase, verifier: OfficialVerifier, count: int, seed: int
) -> tuple[Counter[str], list[str]]:
    """Return the verdicts of a case by mode and type, and those that differ."""
    compared: Counter[str] = Counter()
    different = []
    with_bounds = bool(case.description.get("test_requirements", {}).get("bounds_file_required"))
    options = RunOptions(precise=True, bounds=with_bounds, engine="numpy", timeout=120.0)
    inputs = case_inputs(case)
    if any(row["mode"] == "FROM_BLOCK" for row in case.rules.values()):
        # The bounds of this mode are scales, which are not those of our bounds mode for a CAST.
        with tempfile.TemporaryDirectory() as folder:
            run: Any = run_reference(case, inputs, Path(folder), "none", RunOptions(timeout=120.0))
        outputs, all_bounds = run.arrays, run.bounds
    else:
        run = run_graph.compute(case.graph, inputs, options)
        outputs, all_bounds = run.outputs, run.bounds
    scales = {row.get("scale_tensor_name") for row in case.rules.values()}
    for slot in output_slots(case.graph):
        row = case.rules.get(slot.tensor)
        kind = "" if row is None else str(row["data_type"])
        is_scaled = row is not None and "scale_tensor_name" in row
        is_scaled |= slot.key != slot.tensor or slot.tensor in scales or kind == "MXINT8"
        if row is None or is_scaled:
            compared["left out"] += 1
            continue
        reference, bounds = outputs[slot.key], all_bounds.get(slot.key)
        rule = case.rule(slot.tensor)
        if rule.dtype.is_float:
            reference = reference.astype(np.float64)
        with np.errstate(all="ignore"):
            expected = reference.astype(rule.dtype.numpy)
        arrays = changes_of(row, reference, bounds, expected, count, seed)
        for number, found in enumerate(arrays):
            problem = rule.problem(reference, bounds, found)
            compared[f"{row['mode']} {kind}"] += 1
            if (problem == "") != verifier.accepts(row, reference, bounds, found):
                verdict = problem or "accepted"
                different.append(f"{case.folder.name} {slot.key} change {number}: {verdict}")
    return compared, different


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Compare verdicts of the official rules.")
    parser.add_argument("suite", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--changes", type=int, default=6)
    parser.add_argument("--journal", type=Path)
    options = parser.parse_args()
    library = find_library()
    if library is None:
        print("the library of the official verifier is not installed", file=sys.stderr)
        return 2
    verifier = OfficialVerifier(library)
    journal: Path | None = options.journal
    lines = journal.read_text().splitlines() if journal and journal.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {row["case"]: row for row in rows}
    compared: Counter[str] = Counter()
    different = 0
    for name in find_cases(options.suite)[:: options.every]:
        if name not in done:
            row = {"case": name, "compared": {}, "different": [], "problem": ""}
            try:
                case = read_case(options.suite / name)
                if not case.is_expected_to_fail:
                    found = compare_case(case, verifier, options.changes, zlib.crc32(name.encode()))
                    row |= {"compared": found[0], "different": found[1]}
            except TosaConvertError as error:
                row["problem"] = str(error)
            done[name] = row
            if journal:
                with journal.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            for line in row["different"]:
                print(f"{name}: {line}", flush=True)
        compared.update(done[name]["compared"])
        compared["cases that do not run"] += bool(done[name]["problem"])
        different += len(done[name]["different"])
    for text, count in sorted(compared.items()):
        print(f"{count:8} {text}")
    apart = compared["left out"] + compared["cases that do not run"]
    print(f"{compared.total() - apart} verdicts compared, {different} differ")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
