"""A test double for the Python of a framework: it answers as the converter and as the runtime.

Run as a converter, it finds the program in `NAME.tosa` beside the model `NAME.*`, if there is one, and
does what the text of `NAME.does` says, else writes that program. Run as a runtime, it gives the sum of
its inputs, or what `NAME.gives` says. Inputs and outputs in `NAME.scales` are quantised.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

#: Commands of a model's `.does` file.
CRASH, HANG, REFUSE, UNLOWERED = "crash", "hang", "refuse", "unlowered"


def main() -> None:
    words = sys.argv[1:]
    if words[:1] != ["-c"]:
        raise SystemExit(f"expected -c, found {words}")
    if len(words) == 4 and Path(words[3]).is_dir():
        convert(Path(words[3]))
    else:
        compute(Path(words[3].rpartition(":")[0] or words[3]))


def convert(folder: Path) -> None:
    request_file = folder / "request.json"
    if not request_file.exists():
        names = {
            "jax": "jax",
            "tflite": "numpy",
            "executorch": "executorch",
            "keras": "keras",
            "tensorflow": "tensorflow",
            "torch": "torch",
            "onnx": "onnx",
        }
        rows = [{"frontend": name, "versions": {row: "1"}} for name, row in names.items()]
        (folder / "installed.json").write_text(json.dumps(rows))
        return
    request = json.loads(request_file.read_text())
    source = Path(request["source"])
    stem = request["member"].removeprefix("make_") or source.stem
    does = source.with_name(f"{stem}.does")
    command = does.read_text().strip() if does.exists() else ""
    if command == CRASH:
        os.kill(os.getpid(), signal.SIGSEGV)
    if command == HANG:
        time.sleep(60)
    interface: dict[str, Any] = {"whole": None} | {
        key: [] for key in ("inputs", "outputs", "states", "not_lowered", "findings")
    }
    interface["cut"] = None
    if command == REFUSE:
        row = {"code": "unknown-argument", "where": "x", "message": "no", "hint": "", "rule": ""}
        interface["findings"] = [row]
    elif command == UNLOWERED:
        interface["not_lowered"] = [
            {"operator": "FFT", "where": "line 1", "count": 2, "reason": "", "hint": ""},
            {"operator": "SORT", "where": "line 2", "count": 1, "reason": "", "hint": ""},
        ]
    else:
        write_program(source.with_name(f"{stem}.tosa"), folder, interface, request)
    (folder / "interface.json").write_text(json.dumps(interface))


def write_program(
    program: Path, folder: Path, interface: dict[str, Any], request: dict[str, Any]
) -> None:
    import tosa_convert as tc

    graph = tc.load(program)
    tc.save(graph, folder / "program.mlirbc", validate=False)
    beside = program.with_suffix(".scales")
    scales = json.loads(beside.read_text()) if beside.exists() else {}
    for key, names in (("inputs", graph.main.inputs), ("outputs", graph.main.outputs)):
        interface[key] = [
            {"name": name, "dtype": "", "shape": None, **scales.get(name, {})} for name in names
        ]
    examples = program.with_suffix(".npz")
    if request["options"].get("examples") and examples.exists():
        (folder / "examples.npz").write_bytes(examples.read_bytes())


def compute(model: Path) -> None:
    given = [np.load(path) for path in sorted(Path().glob("in*.npy"))]
    off = model.with_suffix(".off")
    error = float(off.read_text()) if off.exists() else 0.0
    total = sum(given[1:], start=given[0])
    np.save("out0.npy", total + np.asarray(error, total.dtype))


if __name__ == "__main__":
    main()
