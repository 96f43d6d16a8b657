"""Memory and time of weights in files of their own, for each form.

    python benchmarks/weight_files.py [--mebibytes 2048] [--folder /dev/shm]

Makes a program whose weights have so many bytes, exports them in each form, imports them again, and
compares the file. Anonymous memory is what the system cannot reclaim; mapped files are not part of it.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import run

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.io.options import WEIGHT_FORMS

_ROWS = 16


def make(path: Path, mebibytes: int) -> None:
    """Write a program with constants of so many bytes in total, of values that differ."""
    builder = Builder("main")
    count = (mebibytes << 20) // 4 // _ROWS
    values = np.arange(count, dtype=np.float32)
    total = builder.input("x", "FP32", (1,))
    for number in range(_ROWS):
        total = builder.add(total, builder.const(values + np.float32(number)))
    builder.output(total, name="y")
    tc.save(builder.graph(), path, validate=False)


def main() -> int:
    """Measure, and print a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=2048)
    parser.add_argument("--folder", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        source = folder / "m.tosa"
        make(source, given.mebibytes)
        tool = [sys.executable, "-m", "tosa_convert", "weights"]
        for form in WEIGHT_FORMS:
            weights, target = folder / f"w.{form}", folder / "back.tosa"
            written = run([*tool, "export", source, "--form", form, "-o", weights], sample=True)
            read = run(
                [*tool, "import", source, weights, "--no-validate", "-o", target], sample=True
            )
            same = filecmp.cmp(source, target, shallow=False)
            wrong += not same
            print(
                f"{form}: export {written.wall:.1f} s, {(written.anonymous or 0) >> 20} MiB; "
                f"import {read.wall:.1f} s, {(read.anonymous or 0) >> 20} MiB; "
                f"the program is {'the same' if same else 'another'}"
            )
            target.unlink()
            run(["/bin/rm", "-r", weights])
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
