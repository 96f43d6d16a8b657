"""Find the number of operators from which columns are faster than one operator after another.

    python benchmarks/few.py [RUNS]

`graph/lazy_numpy.py` has it as `FEW`. Each row converts a chain of n operators twice in turn, as whole
processes: with `FEW = 1`, so that numpy is imported and columns are read, and without columns.
Medians of processor time, in milliseconds.
"""

from __future__ import annotations

import compileall
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

SIZES: Final = (1_000, 2_000, 3_000, 5_000, 7_000, 10_000)
#: The conversions, by the extensions of input and output.
KINDS: Final = (("mlirbc", "tosa"), ("tosa", "mlirbc"), ("mlir", "tosa"))
PACKAGE: Final = Path(__file__).resolve().parents[1] / "tosa_convert"


def with_few(few: int, folder: Path) -> Path:
    """Return a folder with the package in which `FEW` is another number."""
    shutil.copytree(PACKAGE, folder / "tosa_convert", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "tosa_convert" / "graph" / "lazy_numpy.py"
    text, count = re.subn(r"(?m)^FEW: Final = .*$", f"FEW: Final = {few}", file.read_text("utf-8"))
    assert count == 1, "where is FEW?"
    file.write_text(text, encoding="utf-8")
    compileall.compile_dir(folder, quiet=1)
    return folder


def chain(operators: int) -> str:
    """Return the text of a module whose function is a chain of ABS."""
    lines = ["func.func @main(%v0: tensor<4xf32>) -> tensor<4xf32> {"]
    for number in range(operators):
        call = f"tosa.abs %v{number} : (tensor<4xf32>) -> tensor<4xf32>"
        lines.append(f"  %v{number + 1} = {call}")
    return "\n".join([*lines, f"  return %v{operators} : tensor<4xf32>", "}", ""])


def milliseconds(package: Path, source: Path, target: Path) -> float:
    """Return the processor time of one conversion, start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "tosa_convert", "convert", str(source), "-o", str(target)]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=package)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    """Print a table of all sizes and conversions."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(
        "operators", *(f"{source} -> {target} (columns / one by one)" for source, target in KINDS)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = [with_few(few, folder / str(few)) for few in (1, 10**9)]
        for size in SIZES:
            inputs = {kind: folder / f"in.{kind}" for kind in ("mlir", "mlirbc", "tosa")}
            inputs["mlir"].write_text(chain(size), encoding="utf-8")
            for kind in ("mlirbc", "tosa"):
                milliseconds(packages[0], inputs["mlir"], inputs[kind])
            row = []
            for source, target in KINDS:
                times: dict[Path, list[float]] = {package: [] for package in packages}
                for _ in range(runs):
                    for package, measured in times.items():
                        out = folder / f"out.{target}"
                        measured.append(milliseconds(package, inputs[source], out))
                columns, single = map(statistics.median, times.values())
                row.append(f"{columns:.0f} / {single:.0f}")
            print(f"{size:>9,}", *row, sep="  ", flush=True)


if __name__ == "__main__":
    main()
