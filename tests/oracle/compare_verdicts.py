"""Compare the verdicts of `suite --against` with those of the official runner, case by case.

    python tests/oracle/compare_verdicts.py DIR [--every N]

The backend is the reference model. In three of four cases one element of its results is changed, by one
bit or by several, so that there are both verdicts. Prints the cases on which the two disagree, and the
counts; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tosa_convert.golden import model_process
from tosa_convert.golden.qualification import Qualification, qualify_case
from tosa_convert.golden.suite import Answer, find_cases


def run_model(case: Path, folder: Path, *more: str) -> dict[str, Any]:
    """Run the reference model on a case as the official runner does; returns the descriptor."""
    folder.mkdir(parents=True)
    command = [
        str(model_process.locate()),
        f"--test_desc={case / 'desc.json'}",
        f"--output_dir={folder}",
        "--tosa_level=EIGHTK",
    ]
    ended = model_process.run([*command, *more], case, 60.0)
    assert ended.code == 0, ended.stderr
    description: dict[str, Any] = json.loads((case / "desc.json").read_text())
    return description


def change_element(path: Path, bits: int) -> None:
    """Change bits of the element in the middle of an `.npy` file."""
    data = bytearray(path.read_bytes())
    start = 10 + int.from_bytes(data[8:10], "little")
    array = np.load(path)
    if bits and array.size and array.dtype != np.bool_:
        data[start + array.size // 2 * array.dtype.itemsize] ^= bits
        path.write_bytes(bytes(data))


def official_verdict(case: Path, results: Path, reference: Path) -> str:
    """What the official runner says: each output is judged by its program."""
    description = run_model(case, reference, "--precise_mode=1")
    rows = description["meta"]["compliance"]["tensors"]
    group: list[str] = []
    owner = ""
    for name, file in zip(description["ofm_name"], description["ofm_file"], strict=True):
        scale = file.replace(".npy", "_scale.npy")
        group.append(file)
        if "scale_tensor_name" in rows[name]:
            if not (reference / scale).exists():
                owner = name
                continue  # the scales are the next output
            group.append(scale)
        command = [
            str(model_process.locate().with_name("tosa_verify")),
            f"--test_desc={case / 'desc.json'}",
            f"--ofm_name={owner or name}",
            "--imp_result_file=" + ",".join(str(results / f) for f in group),
            "--ref_result_file=" + ",".join(str(reference / f) for f in group),
        ]
        bounds = [reference / f"bounds_{f}" for f in group]
        if description["test_requirements"]["bounds_file_required"]:
            command.append("--bnd_result_file=" + ",".join(str(f) for f in bounds if f.exists()))
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode:
            return "wrong"
        group, owner = [], ""
    return "pass"


def both_verdicts(suite: Path, name: str, work: Path) -> tuple[str, Answer]:
    """The official verdict on a case, and ours. work: gets the results."""
    results = work / "results" / name
    description = run_model(suite / name, results)
    bits = (0, 1, 3, 40)[zlib.crc32(name.encode()) % 4]
    for file in description["ofm_file"]:
        change_element(results / file, bits)
    expected = official_verdict(suite / name, results, work / "reference" / name)
    settings = Qualification(against=str(work / "results"))
    return expected, qualify_case(str(suite), name, settings=settings)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", type=Path)
    parser.add_argument("--every", type=int, default=1, help="compare every N-th case only")
    arguments = parser.parse_args()
    suite: Path = arguments.suite.resolve()
    verdicts: Counter[tuple[str, str]] = Counter()
    for name in find_cases(suite)[:: arguments.every]:
        with tempfile.TemporaryDirectory() as work:
            expected, found = both_verdicts(suite, name, Path(work))
        verdicts[expected, found.status] += 1
        if expected != found.status:
            print(f"{name}: official {expected}, ours {found.status}: {found.message}")
    for (expected, status), count in sorted(verdicts.items()):
        print(f"official {expected}, ours {status}: {count}")
    return int(any(expected != status for expected, status in verdicts))


if __name__ == "__main__":
    sys.exit(main())
