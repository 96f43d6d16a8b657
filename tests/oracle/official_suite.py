"""The official TOSA tests, made by the generator that PyPI's `tosa-tools` installs.

`generate()` fills a directory with one folder a test (`<operator>/<test>/`: `test.tosa`,
`desc.json`, the tensors as `.npy`), `cases()` lists them, and `native()` and `schema()` find the
programs and the schema of the same wheel. `missing()` says why it cannot be made. The same
request twice returns at once. A suite is built in a temporary folder and then renamed, so that it is
never seen half built.

    python tests/oracle/official_suite.py DIR --subset full --seed 42 --jobs 2
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import filecmp
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

Subset = Literal["full", "sample"]
Stamp = dict[str, Any]

_STAMP = "suite.json"
_LOG = "generator.log"
_WHEEL = "tosa-tools"
_TOOL = "tosa_verif_build_tests"
_LIBRARY = "tosa_reference_model/libtosa_reference_generate_lib.so"
_SCHEMA = "bin/tosa.fbs"

# The tool as its command runs it, with one change: it spends 96% of its time checking, once for each
# tensor, that its own JSON schemas are valid. Here each schema is checked once. What the tool
# writes is validated all the same.
_LAUNCHER = f"""
import runpy
from jsonschema import Draft202012Validator as validator
check, seen = validator.check_schema, {{}}
def once(schema, *args, **kwargs):
    if id(schema) not in seen:
        check(schema, *args, **kwargs)
        seen[id(schema)] = schema
validator.check_schema = staticmethod(once)
runpy.run_module("generator.{_TOOL}", run_name="__main__", alter_sys=True)
"""


class SuiteError(RuntimeError):
    """The suite cannot be made; the message says why."""


@dataclass(frozen=True)
class Pass:
    """One sweep of the generator."""

    name: str
    operators: str  # a regular expression for whole names
    options: str
    each: str  # keep `limit` tests for every combination of these properties: "rank type"
    limit: int
    parts: int = 1  # processes that share it: a suite must not depend on the number of jobs
    salt: int = 0  # added to the seed


@dataclass(frozen=True, order=True)
class Case:
    """One test of a suite."""

    folder: Path
    operator: str  # as in the schema, in lower case

    @property
    def tosa(self) -> Path:
        """Return the flatbuffer."""
        return self.folder / "test.tosa"

    @property
    def desc(self) -> Path:
        """Return the descriptor of the test: its inputs, outputs and expected results."""
        return self.folder / "desc.json"


# The generator drops tests of fewer than 1,000 dot products, so these need larger tensors.
_CONV = r"(depthwise_|transpose_)?conv[23]d(_block_scaled)?"
_DOT = r"avg_pool2d(_adaptive)?|matmul(_t|_t_block_scaled)?|reduce_sum"
_FFT = r"r?fft2d"
_REST = rf"(?!({_CONV}|{_DOT}|{_FFT})$)\w+"
_CAST = r"cast|cast_from_block_scaled|cast_to_block_scaled|rescale"
_DATA = rf"(?!while_loop$){_REST}"  # with constant inputs the generator fails on while_loop
_WIDE = r"conv2d|matmul_t"  # these mix every two types: hundreds of combinations

_FEW = "--no-special-tests --num-rand-permutations 1"
_UNIT = "--max-conv-stride 1 --max-conv-dilation 1"
_LOW = "--target-rank 0 1 2 3 4"
_MIX = "--random-const-inputs --num-const-inputs-concat 2"
_INT = "--target-dtype int4 int8 int16"
_DIM = "--tensor-dim-range"
_SOME = f"{_FEW} {_UNIT} --conv-kernel 2,2 1,2,2 {_DIM} 10,13"

_PASSES: dict[Subset, tuple[Pass, ...]] = {
    "sample": (
        Pass("conv", rf"(?!conv2d$){_CONV}", _SOME, "type", 2),
        Pass("wide", _WIDE, _SOME, "", 30),
        Pass("int", _WIDE, f"{_SOME} {_INT}", "type", 2),
        Pass("dot", rf"(?!matmul_t$)({_DOT})", f"{_SOME} --target-rank 3 4", "type", 2),
        Pass("fft", _FFT, f"{_FEW} {_DIM} 32,40", "", 3),
        Pass("small", _REST, f"{_FEW} {_LOW} {_DIM} 1,8", "type", 1),
        Pass("cast", _CAST, f"{_FEW} {_DIM} 1,8", "type", 6),
        Pass("data", _DATA, f"{_FEW} {_MIX} {_DIM} 1,8", "", 2, salt=1),
    ),
    "full": (
        Pass("conv", _CONV, f"{_DIM} 8,20", "type", 1, parts=5),
        Pass("small", _REST, f"{_LOW} {_DIM} 1,8", "rank type", 4, parts=4),
        Pass("data", _DATA, f"{_FEW} {_LOW} {_MIX} {_DIM} 1,12", "rank type", 3, parts=4, salt=1),
        Pass("large", _REST, f"{_FEW} {_DIM} 1,64", "type", 1, parts=2, salt=2),
        Pass("deep", _REST, f"{_FEW} {_DIM} 1,5 --target-rank 5 6", "rank type", 2, parts=2),
        Pass("v1.0", r"\w+", f"{_FEW} {_UNIT} {_DIM} 4,16 --tosa-version 1.0", "type", 1, parts=2),
        Pass("dot", _DOT, f"{_DIM} 10,20 --target-rank 3 4 5", "type", 2),
        Pass("mx", r"\w+_block_scaled", f"{_FEW} {_UNIT} {_DIM} 12,20", "type", 8, salt=3),
        Pass("fft", _FFT, f"{_DIM} 32,64", "", 12),
    ),
}


def missing() -> str:
    """Return the reason why this interpreter cannot make the suite; empty if it can."""
    try:
        find_tool()
    except SuiteError as error:
        return str(error)
    return ""


def find_tool() -> Path:
    """Find the generator's command in this interpreter's own environment."""
    _wheel_file(_LIBRARY)
    _wheel_file(_SCHEMA)
    folders = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent))
    found = shutil.which(_TOOL, path=os.pathsep.join(folders))
    if found is None:
        raise SuiteError(f"{_WHEEL} is installed without its command {_TOOL}")
    return Path(found)


def generator_command(before: str = "") -> list[str]:
    """Return the generator's command, without options. before: Python code that runs first."""
    library = str(_wheel_file(_LIBRARY))
    return [sys.executable, "-c", before + _LAUNCHER, "--generate-lib-path", library]


@functools.cache
def native(name: str) -> Path:
    """Find a native program of the wheel ("tosa-opt", "flatc", ...) and make it executable."""
    program = _wheel_file(f"bin/{name}.exe" if sys.platform == "win32" else f"bin/{name}")
    if not os.access(program, os.X_OK):
        try:
            program.chmod(program.stat().st_mode | 0o111)
        except OSError:  # a read-only environment: run a copy, for as long as this process lives
            folder = tempfile.mkdtemp(prefix=f"{_WHEEL}-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            program = Path(shutil.copy(program, folder))
            program.chmod(0o755)
    return program


def schema() -> Path:
    """Find the schema that the wheel's programs were built with."""
    return _wheel_file(_SCHEMA)


@functools.cache
def operators() -> tuple[str, ...]:
    """Name every operator of that schema, in lower case and in its order."""
    found = re.search(r"\benum\s+Op\b[^{]*\{([^}]*)\}", schema().read_text(encoding="utf-8"))
    names = re.findall(r"^\s*(\w+)", found[1] if found else "", re.MULTILINE)
    return tuple(name.lower() for name in names if name != "UNKNOWN")


def cases(directory: Path) -> list[Case]:
    """List the tests of a suite, sorted."""
    files = directory.glob("*/*/test.tosa")
    return sorted(Case(file.parent, operator_of(file.parent.parent.name)) for file in files)


def generate(directory: Path, seed: int = 42, jobs: int = 2, subset: Subset = "full") -> Stamp:
    """Put the suite into `directory`, unless it is there already; return its stamp."""
    find_tool()
    directory = directory.absolute()
    key = _key(seed, subset)
    stamp = _read_stamp(directory)
    if stamp.get("key") == key:
        return stamp
    if not stamp and directory.exists() and any(directory.iterdir()):
        raise SuiteError(f"{directory} is not empty and holds no suite: it is left alone")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as name:
        scratch = Path(name)
        stamp = _build(scratch, key, jobs)
        try:
            if directory.exists():
                directory.rename(scratch / "old")
            (scratch / "suite").rename(directory)
        except OSError:  # unless another process has put the same suite there meanwhile
            if _read_stamp(directory).get("key") != key:
                raise
    return stamp


def sample(config: Any, scratch: Path) -> Path:
    """Find the sample that tests use: where $TOSA_SUITE_DIR says, else made once in pytest's cache.

    config: pytest's. scratch: where to make it if pytest keeps no cache. Tests that run side by side
    make it once: the others wait.
    """
    given = os.environ.get("TOSA_SUITE_DIR")
    if given:
        if not cases(Path(given)):
            raise SuiteError(f"TOSA_SUITE_DIR={given} holds no official test")
        return Path(given)
    cache = getattr(config, "cache", None)
    if cache is None and hasattr(config, "workerinput"):
        scratch = scratch.parent.parent  # what the workers of pytest-xdist share
    folder = (Path(cache.mkdir("official-suite")) if cache else scratch) / "sample"
    with only_one_process(folder.with_suffix(".lock")):
        generate(folder, jobs=os.cpu_count() or 1, subset="sample")
    return folder


@contextlib.contextmanager
def only_one_process(lock: Path) -> Iterator[None]:
    """Wait until no other process is in here with the same lock file."""
    with open(lock, "ab") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:  # it waits ten seconds, then fails
                    continue
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file unlocks it


def _build(scratch: Path, key: Stamp, jobs: int) -> Stamp:
    """Run all passes of a subset, gather their tests in `scratch / "suite"`, and stamp it."""
    started = time.monotonic()
    runs: list[tuple[Pass, list[str], Path]] = []
    for sweep in _PASSES[key["subset"]]:
        names = [name for name in operators() if re.fullmatch(sweep.operators, name)]
        for part in range(sweep.parts):
            runs.append((sweep, names[part :: sweep.parts], scratch / f"{sweep.name}-{part}"))
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        logs = list(pool.map(lambda run: _run(*run, seed=key["seed"]), runs))
    suite = scratch / "suite"
    suite.mkdir()
    for sweep, _, folder in runs:
        _gather(folder / "tests", suite, sweep.name)
    counts = Counter(case.operator for case in cases(suite))
    log = "".join(logs)
    stamp = {
        "key": key,
        "tests": sum(counts.values()),
        "operators": dict(sorted(counts.items())),
        "never": [name for name in operators() if name not in counts],
        "complaints": len(re.findall(r"^(?:ERROR|WARNING|CRITICAL)\b", log, re.MULTILINE)),
        "seconds": round(time.monotonic() - started, 1),
    }
    (suite / _LOG).write_text(log, encoding="utf-8")
    (suite / _STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
    return stamp


def _run(sweep: Pass, names: list[str], folder: Path, *, seed: int) -> str:
    """Run the generator once; return its output without the counts."""
    folder.mkdir()
    selection = folder / "selection.json"
    keep = {"permutes": sweep.each.split(), "maximum": sweep.limit, "groups": []}
    selection.write_text(json.dumps({name: {"selection": {"suite": keep}} for name in names}))
    command = generator_command()
    command += ["-o", str(folder / "tests"), "--seed", str(seed + sweep.salt)]
    command += ["--filter", f"(?:{'|'.join(names)})$", "--dump-const-tensors"]
    command += ["--profile", "all", "--extension", "all", "--test-type", "positive"]
    command += ["--test-selection-config", str(selection), "--test-selection-criteria", "suite"]
    done = subprocess.run(
        command + sweep.options.split(),
        cwd=folder,  # `python -c` looks for modules there first
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stderr + done.stdout
    if done.returncode:
        raise SuiteError(f"{_TOOL} failed on {folder.name}:\n{output[-3000:]}")
    routine = re.compile(r"\d+ matching positive tests|Done creating \d+ tests|")
    return "".join(f"{line}\n" for line in output.splitlines() if not routine.fullmatch(line))


def _gather(tests: Path, suite: Path, suffix: str) -> None:
    """Move `operator/test` folders into the suite; tell different tests of one name apart."""
    for folder in sorted(tests.glob("*/*")):
        target = suite / folder.parent.name / folder.name
        if target.exists():
            if filecmp.cmp(folder / "test.tosa", target / "test.tosa", shallow=False):
                continue
            target = target.with_name(f"{folder.name}-{suffix}")
        target.parent.mkdir(exist_ok=True)
        folder.rename(target)


def _key(seed: int, subset: Subset) -> Stamp:
    """Name everything that a suite depends on."""
    recipe = json.dumps([_LAUNCHER, *map(asdict, _PASSES[subset])])
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    return {"seed": seed, "subset": subset, _WHEEL: metadata.version(_WHEEL), "recipe": digest}


def _read_stamp(directory: Path) -> Stamp:
    try:
        stamp = json.loads((directory / _STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def operator_of(folder: str) -> str:
    """Name the operator of a folder such as `conv2d_3x3`, `cond_if_binary` or `matmul_t`."""
    fits = [name for name in operators() if f"{folder}_".startswith(f"{name}_")]
    return max(fits, key=len, default=folder)


def _wheel_file(path: str) -> Path:
    """Find a file of the installed wheel by its path in site-packages."""
    try:
        file = Path(str(metadata.distribution(_WHEEL).locate_file(path)))
    except metadata.PackageNotFoundError:
        raise SuiteError(f"{_WHEEL} is not installed (pip install {_WHEEL})") from None
    if not file.is_file():
        raise SuiteError(f"{_WHEEL} is installed without {path}")
    return file


def main(arguments: list[str] | None = None) -> int:
    """Generate a suite and print its counts."""
    parser = argparse.ArgumentParser(description="Generate the official TOSA tests.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--subset", choices=("full", "sample"), default="full")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    try:
        stamp = generate(options.directory, options.seed, options.jobs, options.subset)
    except SuiteError as error:
        print(f"official_suite: {error}", file=sys.stderr)
        return 1
    for name, count in stamp["operators"].items():
        print(f"{count:6} {name}")
    print(f"{stamp['tests']:6} tests of {len(stamp['operators'])} operators, ", end="")
    print(f"{stamp['complaints']} complaints of the generator, {stamp['seconds']} s to build")
    print(f"never: {' '.join(stamp['never']) or '-'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
