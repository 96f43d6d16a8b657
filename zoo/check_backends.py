"""Checks the networks of the zoo on a real backend, on random and on edge inputs of one seed.

python zoo/check_backends.py PROGRAMS BACKEND RESULTS.json [NAME ...] [--models FOLDER]

PROGRAMS is what `write_programs.py` wrote. `torch`, `jax` and `onnxruntime` run the model from which a
program was made, the last one the ONNX files in `--models`; `iree` and what else `--against` takes run
the program. RESULTS.json keeps what each run came to: the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from networks import FOLDER, PREFIX

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.quantisation_parameters import steps_of_outputs
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES
from tosa_convert.golden.backends.process import KeptWorkers, Machine
from tosa_convert.golden.backends.runners import Backend, backend_on
from tosa_convert.golden.checking.check import Reference
from tosa_convert.golden.edges.edge_inputs import chosen_inputs
from tosa_convert.golden.models.compare_model import STEPS
from tosa_convert.golden.running.run_options import RunOptions

#: Backend that runs functions of Python files -> the files with networks.
_FILES: Final = {"torch": "[!jk]*.py", "jax": "jax_*.py"}
_EXITS: Final = {0: "ok", 1: "FAIL", 5: "weak"}
_KEPT: Final = KeptWorkers()
#: What runs a program, which it may have compiled.
_OPENED: Final[dict[tuple[Path, str], Backend]] = {}


class Late(BaseException):
    """A check takes longer than it may."""


def originals(backend: str, models: Path) -> dict[str, str]:
    """Return for each network what `--against` takes to run its model."""
    if backend == "onnxruntime":
        paths = {path.relative_to(models).with_suffix(""): path for path in models.rglob("*.onnx")}
        return {f"onnx/{name.as_posix()}": f"{backend}:{path}" for name, path in paths.items()}
    return {
        f"{backend}/{name}": f"{backend}:{file}:{PREFIX}{name}"
        for file in FOLDER.glob(_FILES.get(backend, "none"))
        for name in re.findall(rf"^def {PREFIX}(\w+)\(", file.read_text("utf-8"), re.MULTILINE)
    }


def verdict(
    program: Path, text: str, limit: float, *, edges: bool, is_model: bool = False
) -> dict[str, Any]:
    """Return what a check of a program came to: a word, and why it is not ok.

    is_model: what runs is the model, which rounds quantised sums in floating point: its outputs may also
        be some steps off, as for `convert --check`.
    """

    def stop(*_: Any) -> None:
        raise Late

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    start = time.monotonic()
    try:
        graph = tc.load(program)
        arrays = chosen_inputs(graph, None, 0, edges=edges)
        if is_model or (program, text) not in _OPENED:
            _OPENED.clear()
            machine = Machine(sys.executable, limit, _KEPT)
            _OPENED[program, text] = backend_on(machine, text, graph, arrays)
        backend = _OPENED[program, text]
        options = RunOptions(engine="numpy")
        result = Reference(graph, arrays, options).check(backend)
        if is_model and not result.ok and (sizes := steps_of_outputs(graph)):
            steps = tuple((key, STEPS * size) for key, size in sizes.items())
            near = Reference(graph, arrays, options, replace(NO_TOLERANCES, atol=steps))
            result = again if (again := near.check(backend)).ok else result
        found = {"status": _EXITS[result.exit_code], "why": "" if result.ok else str(result)}
    except Late:
        _KEPT.close()
        found = {"status": "late", "why": f"more than {limit:g} s"}
    except TosaConvertError as error:
        found = {"status": error.code, "why": str(error)[:4000]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {**found, "seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("programs", type=Path)
    parser.add_argument("backend")
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*", help="such as torch/unet; by default all")
    parser.add_argument("--models", type=Path, default=Path())
    parser.add_argument("--kinds", default="edges,random", help="inputs")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one check")
    given = parser.parse_args()
    found = json.loads(given.results.read_text("utf-8")) if given.results.exists() else {}
    own = originals(given.backend, given.models)
    paths = {
        path.relative_to(given.programs).with_suffix("").as_posix(): path
        for path in sorted(given.programs.rglob("*.tosa"))
    }
    for name, kind in itertools.product(paths, given.kinds.split(",")):
        key = f"{name} {kind}"
        if key in found or (own and name not in own) or (given.names and name not in given.names):
            continue
        text = own.get(name, given.backend)
        found[key] = verdict(
            paths[name], text, given.limit, edges=kind == "edges", is_model=bool(own)
        )
        given.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(key, found[key]["status"], found[key]["seconds"], flush=True)
    counts = Counter((key.rpartition(" ")[2], row["status"]) for key, row in found.items())
    for (kind, status), count in sorted(counts.items()):
        print(f"{given.backend}, {kind} inputs: {count} {status}")


if __name__ == "__main__":
    main()
