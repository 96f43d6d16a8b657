"""The official tool and ours on the same damaged files: `python fuzz/peer.py --inputs 10000`.

Runs `tosa-opt` of tosa-tools and our own reader on the inputs that a campaign with that seed has for the
target "tosa", and prints one table. Each input is a flatbuffer; both read it and make MLIR of it.
"""

from __future__ import annotations

import argparse
import collections
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

import targets
from oracle import official_suite

from tosa_convert import api
from tosa_convert.errors import TosaConvertError

#: Seconds after which a program counts as hanging.
PATIENCE: Final = 5.0
#: Address space of tosa-opt, so that it does not exhaust the machine's memory.
ADDRESS_SPACE: Final = 8 << 30


def theirs(program: Path, tosa: Path, empty: Path) -> str:
    """Return the outcome of `tosa-opt` on a flatbuffer: accepted, refused, a signal, or hung."""
    option = f"--tosa-deserialize=tosa-flatbuffer-filename={tosa}"
    process = subprocess.Popen(
        [program, option, empty, "--emit-bytecode", "-o", os.devnull],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
    )
    resource.prlimit(process.pid, resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "hung"
    if code < 0:
        return signal.Signals(-code).name
    return "refused" if code else "accepted"


def ours(data: bytes) -> str:
    """Return the outcome of our reader on the same file, in this process."""
    began = time.process_time()
    try:
        targets.drain(api.render(api.load(data), "mlirbc"))
        found = "accepted"
    except TosaConvertError:
        found = "refused"
    except Exception as error:  # a defect
        found = f"foreign {type(error).__name__}"
    return "hung" if time.process_time() - began > PATIENCE else found


def main() -> int:
    """Run the command; return 1 if our reader did anything but accept or refuse."""
    logging.getLogger("tosa_convert").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    options = parser.parse_args()
    program = official_suite.native("tosa-opt")
    counts: dict[str, collections.Counter[str]] = {
        "tosa-opt": collections.Counter(),
        "tosa-convert": collections.Counter(),
    }
    both: collections.Counter[tuple[str, str]] = collections.Counter()
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="peer-", dir=scratch) as folder:
        target = targets.make("tosa", [targets.CORPUS], Path(folder) / "scratch")
        tosa, empty = Path(folder, "m.tosa"), Path(folder, "empty.mlir")
        empty.write_text("module {}\n")
        for index in range(options.first, options.first + options.inputs):
            data = target.input(options.seed, index)
            tosa.write_bytes(data)
            they, we = theirs(program, tosa, empty), ours(data)
            counts["tosa-opt"][they] += 1
            counts["tosa-convert"][we] += 1
            both[they, we] += 1
    print(f"{options.inputs} mutated flatbuffers, seed {options.seed}, from input {options.first}")
    print("program | accepted | refused | crashed | hung | foreign exceptions")
    for name, found in counts.items():
        foreign = sum(n for how, n in found.items() if how.startswith("foreign"))
        signals = {how: n for how, n in found.items() if how.startswith("SIG")}
        crashed = ", ".join(f"{how} {n}" for how, n in sorted(signals.items()))
        cells = [found["accepted"], found["refused"], sum(signals.values()), found["hung"], foreign]
        print(f"{name} |", " | ".join(map(str, cells)), f"({crashed})" if crashed else "")
    for (they, we), count in both.most_common():
        print(f"    {count:6} tosa-opt {they}, tosa-convert {we}")
    return 1 if counts["tosa-convert"].keys() - {"accepted", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
