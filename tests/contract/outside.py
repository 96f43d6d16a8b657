"""Runs outside programs on a file, one function for each call: tosa-opt, flatc, the reference model.

Nothing here knows our own code. A program that refuses raises Refused with what it said.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from oracle import official_suite

#: Seconds after which an outside program counts as hanging.
PATIENCE = 120


class Refused(Exception):
    """An outside program ended with an error; the message is its output."""


def call(program: str, *arguments: str | Path) -> str:
    """Run a native program of tosa-tools and return its output. Raises Refused."""
    command: Sequence[str] = [str(official_suite.native(program)), *map(str, arguments)]
    # The reference model attaches a debugger to its caller if it finds one on the path.
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "PATH": ""},
    )
    if done.returncode:
        raise Refused(done.stderr.strip() or f"{program}: exit code {done.returncode}")
    return done.stdout


def tosa_opt_reading(path: Path, scratch: Path) -> str:
    """Return the module that tosa-opt reads from a `.tosa` or JSON file, as generic text."""
    empty = scratch / "empty.mlir"
    empty.write_text("module {}\n", encoding="utf-8")
    if path.suffix == ".json":
        option = (
            f"--tosa-deserialize-json=tosa-flatbuffer-filename={path} "
            f"tosa-flatbuffer-schema={official_suite.schema()}"
        )
    else:
        option = f"--tosa-deserialize=tosa-flatbuffer-filename={path}"
    text = call("tosa-opt", option, empty, "--mlir-print-op-generic")
    # The description names the format that was read; make it the same for both.
    return text.replace("TOSA JSON Converted", "TOSA FBS Converted")


def reference_run(path: Path, test: Path, folder: Path) -> dict[str, bytes]:
    """Return the outputs of the reference model for a file on the inputs of an official test."""
    folder.mkdir(parents=True, exist_ok=True)
    description = json.loads((test / "desc.json").read_text(encoding="utf-8"))
    call(
        "tosa_reference_model",
        f"--test_desc={test / 'desc.json'}",
        f"--flatbuffer_dir={test}",
        f"--tosa_file={path}",
        f"--operator_fbs={official_suite.schema()}",
        f"--output_dir={folder}",
    )
    return {name: (folder / name).read_bytes() for name in description["ofm_file"]}
