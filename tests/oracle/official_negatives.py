"""The official negative tests: programs that break one rule each, made by the official generator.

The name of a test has the condition that it breaks, such as `add_ERRORIF_RankMismatch_...`. There are
about 90 conditions in 500 combinations with operators, and 100,000 tests; each combination is made a
few times here, for several seeds.

    python tests/oracle/official_negatives.py DIR --each 6 --seeds 1 2 3

`generate()` makes them below a directory, in a folder for each seed, and `cases()` lists them. Tests are
made with their data: those that are made without it (`--lazy-data-generation`) have constants that are
inputs as well, so that they are damaged in two ways.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

# As a script, only its own folder is on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import official_suite
from oracle.official_suite import SuiteError

_MARK = "_ERRORIF_"
_STAMP = "negatives.json"
#: Small tensors, and kernels that still break every rule of a convolution or a pool.
_OPTIONS = (
    "--no-special-tests --num-rand-permutations 1 --max-conv-dilation 1 --conv-kernel 2,2 1,2,2 "
    "--max-pooling-kernel 2 --tensor-dim-range 1,8"
)
#: The generator ends at a test that it cannot make, such as one with an input of no elements. Here it
#: makes the others.
_SKIP_FAILURES = """
from generator.tosa_test_gen import TosaTestGen
make = TosaTestGen.serializeTest
def attempt(self, test):
    try:
        return make(self, test)
    except Exception:
        return False
TosaTestGen.serializeTest = attempt
"""


@dataclass(frozen=True, order=True)
class Negative:
    """A test. condition: what it breaks, as the generator calls it. operator: in lower case."""

    file: Path
    condition: str
    operator: str


def cases(directory: Path) -> list[Negative]:
    """Return all tests below a directory, sorted."""
    found = []
    for file in directory.glob("**/test.tosa"):
        _, mark, rest = file.parent.name.partition(_MARK)
        if mark:
            operator = official_suite.operator_of(file.parent.parent.name)
            found.append(Negative(file, rest.partition("_")[0], operator))
    return sorted(found)


def conditions() -> set[str]:
    """Return the names that the generator has for conditions, without those that it makes no test of.

    The latter are the validators that raise an error, because later versions allow more types.
    """
    source = Path(
        str(metadata.distribution("tosa-tools").locate_file("generator/tosa_error_if.py"))
    )
    text = source.read_text(encoding="utf-8")
    names = set(re.findall(r"^    (\w+) = (?:\"|\()", text, re.MULTILINE))
    return names - set(re.findall(r"RuntimeError\(\"(\w+) is not supported\"\)", text))


def generate(directory: Path, seed: int = 1, each: int = 1) -> Path:
    """Make the tests of a seed, unless they are there already; returns their folder.

    each: how many tests for each combination of an operator and a condition.
    """
    official_suite.find_tool()
    folder = directory.absolute() / f"seed-{seed}"
    key = _key(seed, each)
    stamp = folder / _STAMP
    if stamp.is_file() and json.loads(stamp.read_text(encoding="utf-8")) == key:
        return folder
    if folder.exists():
        raise SuiteError(f"{folder} has other tests: it is left alone")
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".negatives-", dir=directory) as name:
        scratch = Path(name)
        _run(scratch, seed, each)
        tests = scratch / "tests"
        for data in tests.glob("**/*.npy"):
            data.unlink()
        (tests / _STAMP).write_text(json.dumps(key), encoding="utf-8")
        try:
            tests.rename(folder)
        except OSError:  # unless another process has made them meanwhile
            if not folder.is_dir():
                raise
    return folder


def sample(config: Any, scratch: Path) -> Path:
    """Return one test for each combination, made once in pytest's cache; see `official_suite.sample`."""
    cache = getattr(config, "cache", None)
    if cache is None and hasattr(config, "workerinput"):
        scratch = scratch.parent.parent  # what the workers of pytest-xdist share
    folder = Path(cache.mkdir("official-negatives")) if cache else scratch / "official-negatives"
    folder = folder / _digest(_key(1, 1))
    folder.mkdir(parents=True, exist_ok=True)
    with official_suite.only_one_process(folder / "lock"):
        return generate(folder)


def _run(scratch: Path, seed: int, each: int) -> None:
    selection = scratch / "selection.json"
    keep = {"permutes": [], "maximum": 0, "groups": [], "num_errorifs": each}
    rows = {name: {"selection": {"few": keep}} for name in official_suite.operators()}
    selection.write_text(json.dumps(rows), encoding="utf-8")
    command = official_suite.generator_command(_SKIP_FAILURES)
    command += ["-o", str(scratch / "tests"), "--seed", str(seed), "--test-type", "negative"]
    command += ["--profile", "all", "--extension", "all"]
    command += ["--test-selection-config", str(selection), "--test-selection-criteria", "few"]
    done = subprocess.run(
        command + _OPTIONS.split(),
        cwd=scratch,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    # It makes all tests, then fails if some did not break what they were meant to break.
    if done.returncode and "Exception: Failed to create" not in done.stderr:
        raise SuiteError(f"the generator failed:\n{(done.stderr + done.stdout)[-3000:]}")


def _key(seed: int, each: int) -> dict[str, Any]:
    """Everything that the tests depend on."""
    return {
        "seed": seed,
        "each": each,
        "options": _OPTIONS,
        "tosa-tools": metadata.version("tosa-tools"),
    }


def _digest(key: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make tests and print how many there are."""
    parser = argparse.ArgumentParser(description="Generate official negative TOSA tests.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--each", type=int, default=1, help="tests for each combination")
    options = parser.parse_args(arguments)
    try:
        for seed in options.seeds:
            folder = generate(options.directory, seed, options.each)
            print(f"{len(cases(folder)):6} {folder}")
    except SuiteError as error:
        print(f"official_negatives: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
