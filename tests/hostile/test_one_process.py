"""Thousands of conversions in one process, several threads, and processes that a process starts.

`python tests/hostile/test_one_process.py 10000` loads and saves each format so often.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder

FORMS = ("tosa", "json", "mlir", "mlirbc")
#: Cycles after which a process has all that it keeps.
WARM = 300
#: MiB that a process may grow by in any number of cycles.
GROWTH = 5.0
_PROC = Path("/proc/self")


def program() -> tc.Graph:
    """Make a program with a constant, a location and operators with and without attributes."""
    builder = Builder()
    x = builder.input("x", "FP32", [2, 3])
    weight = builder.const([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "FP32")
    builder.output(builder.reduce_sum(builder.add(x, weight), axis=0), name="y")
    return builder.graph()


def cycle(path: str) -> bytes:
    """Load a file, save it under another name, and return the bytes."""
    beside = Path(f"{path}.{os.getpid()}{Path(path).suffix}")
    tc.save(tc.load(path), beside)
    return beside.read_bytes()


def memory() -> float:
    """Return the MiB that this process has in memory."""
    gc.collect()
    pages = int((_PROC / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def descriptors() -> int:
    return len(os.listdir(_PROC / "fd"))


def growth(path: str, count: int) -> tuple[float, int]:
    """Load and save a file so often; return the MiB and the descriptors that remain."""
    for _ in range(WARM):
        cycle(path)
    before, opened = memory(), descriptors()
    for _ in range(count):
        cycle(path)
    return memory() - before, descriptors() - opened


@pytest.fixture(params=FORMS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a program in each format."""
    file = tmp_path / f"m.{request.param}"
    tc.save(program(), file)
    return str(file)


@pytest.mark.skipif(not _PROC.is_dir(), reason="memory and descriptors come from /proc")
@pytest.mark.long
def test_memory_and_descriptors_stay_flat_over_many_cycles() -> None:
    done = subprocess.run([sys.executable, __file__, "2000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row.split(":")[0] for row in done.stdout.splitlines()] == [*FORMS]


def test_eight_threads_at_once_give_the_bytes_of_one(path: str, tmp_path: Path) -> None:
    alone = cycle(path)
    copies = [tmp_path / f"{number}{Path(path).suffix}" for number in range(8)]
    for copy in copies:
        copy.write_bytes(Path(path).read_bytes())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(cycle, [str(copy) for copy in copies] * 5))
    assert set(found) == {alone}


@pytest.mark.parametrize(
    "method", sorted({"spawn", "fork"} & {*multiprocessing.get_all_start_methods()})
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_children_load_and_save(method: str, path: str) -> None:
    copy = Path(path).with_stem("copy")
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(tc.save, pool.submit(tc.load, path).result(), copy).result()
    assert copy.read_bytes() == cycle(path)


def main() -> int:
    """Print what each format leaves; the exit code."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    code = 0
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            path = f"{folder}/m.{form}"
            tc.save(program(), path)
            grown, opened = growth(path, count)
            code |= grown >= GROWTH or opened != 0
            print(f"{form}: {count} cycles, {grown:+.1f} MiB, {opened:+d} descriptors", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
