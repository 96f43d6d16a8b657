"""The outside tools: `tosa-opt`, `flatc` and the reference model, one function each.

Nothing here imports our own code, so that it cannot judge itself.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from oracle import official_suite

Json = Any

#: Seconds after which an outside program counts as hanging.
PATIENCE = 120
#: The version of TOSA that the newest tools have, as `validate` takes it.
TOOLS_VERSION: Final = "1.1-2026-08"
#: Separates modules in one text.
_BETWEEN: Final = "\n// ----- the next of several modules -----\n"


class ToolError(RuntimeError):
    """An outside tool failed on something that it must accept."""


@dataclass(frozen=True)
class Refused:
    """An outside tool refused: its message, and whether it crashed."""

    message: str
    crashed: bool = False

    def __str__(self) -> str:
        return f"{'crash: ' if self.crashed else ''}{self.message}"


def _call(
    command: Sequence[str | Path], patience: float = PATIENCE
) -> subprocess.CompletedProcess[bytes]:
    # The reference model attaches a debugger to its caller if it finds one on the path.
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        check=False,
        timeout=patience,
        env={**os.environ, "PATH": ""},
    )


def _refused(done: subprocess.CompletedProcess[bytes]) -> Refused:
    text = done.stderr.decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return Refused(lines[0] if lines else f"exit code {done.returncode}", done.returncode < 0)


class TosaOpt:
    """`tosa-opt` in a scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self.empty = scratch / "empty.mlir"
        self.empty.write_text("module {}\n", encoding="utf-8")
        self.program = official_suite.native("tosa-opt")

    def _run(
        self, *options: str | Path, patience: float = PATIENCE
    ) -> subprocess.CompletedProcess[bytes]:
        # Starting threads takes half of the time that a small module takes.
        return _call([self.program, "--mlir-disable-threading", *options], patience)

    def read(self, tosa: Path, module: Path, version: int | None = None) -> Refused | None:
        """Deserialise `tosa` into MLIR bytecode, which unlike text keeps every bit of a NaN.

        version: of the bytecode; by default the newest.
        """
        module.unlink(missing_ok=True)
        done = self._run(
            f"--tosa-deserialize=tosa-flatbuffer-filename={tosa}",
            self.empty,
            "--emit-bytecode",
            *([] if version is None else [f"--emit-bytecode-version={version}"]),
            "-o",
            module,
        )
        return _refused(done) if done.returncode or not module.exists() else None

    def rewrite(self, module: Path, target: Path, version: int | None = None) -> Refused | None:
        """Read a module, text or bytecode, and write it as bytecode.

        version: of the bytecode; by default the newest.
        """
        target.unlink(missing_ok=True)
        options = [] if version is None else [f"--emit-bytecode-version={version}"]
        done = self._run(module, "--emit-bytecode", *options, "-o", target)
        return _refused(done) if done.returncode or not target.exists() else None

    def bytecode(self, module: bytes, patience: float) -> bytes | Refused:
        """Return a module, text or bytecode, as bytecode.

        patience: seconds after which `tosa-opt` hangs.
        """
        # What is read from standard input has locations in a file "-", as in torch-mlir.
        file = self.empty.with_name("-")
        file.write_bytes(module)
        try:
            done = self._run(file, "--emit-bytecode", patience=patience)
        except subprocess.TimeoutExpired:
            return Refused("no answer", crashed=True)
        return _refused(done) if done.returncode else done.stdout

    def print(self, module: Path, flags: Sequence[str]) -> bytes | Refused:
        """Return a module, text or bytecode, as text."""
        printed = self.empty.with_name("printed.mlir")
        done = self._run(module, *flags, "-o", printed)
        return _refused(done) if done.returncode else printed.read_bytes()

    def print_bytes(self, module: bytes, flags: Sequence[str]) -> bytes | Refused:
        """Return a module, text or bytecode, as text."""
        file = self.empty.with_name("module.mlirbc")
        file.write_bytes(module)
        return self.print(file, flags)

    def print_all(self, modules: Sequence[bytes], flags: Sequence[str]) -> list[bytes | Refused]:
        """Modules in text, each as `print` prints it, by one process.

        A location that a text does not have is a line of the text of all modules.
        """
        file = self.empty.with_name("modules.mlir")
        file.write_bytes(_BETWEEN.encode().join(modules))
        marker = _BETWEEN.strip()
        splitting = [f"--split-input-file={marker}", f"--output-split-marker={marker}"]
        found = self.print(file, [*splitting, *flags])
        if not isinstance(found, Refused):
            printed = found.split(f"{marker}\n".encode())
            if len(printed) == len(modules):
                return [*printed]
        # One of them is refused or crashes. Alone, it has its own message.
        alone = []
        for module in modules:
            file.write_bytes(module)
            alone.append(self.print(file, flags))
        return alone

    def write(self, module: Path, tosa: Path) -> Refused | None:
        """Serialise a module, text or bytecode, into `tosa`."""
        tosa.unlink(missing_ok=True)
        option = f"--tosa-serialize=tosa-flatbuffer-filename={tosa}"
        done = self._run(option, module, "-o", os.devnull)
        return _refused(done) if done.returncode or not tosa.exists() else None

    def write_again(self, tosa: Path, target: Path) -> Refused | None:
        """Deserialise `tosa` and serialise the module into `target`."""
        target.unlink(missing_ok=True)
        done = self._run(
            f"--tosa-deserialize=tosa-flatbuffer-filename={tosa}",
            f"--tosa-serialize=tosa-flatbuffer-filename={target}",
            self.empty,
            "-o",
            os.devnull,
        )
        return _refused(done) if done.returncode or not target.exists() else None


def flatc_json(folder: Path, *files: Path) -> list[Json]:
    """Return the output of `flatc --json` for each file, by way of `folder`. Raises ToolError.

    The files' stems must differ.
    """
    options: list[str | Path] = ["--json", "--strict-json", "--raw-binary", "-o", folder]
    done = _call([official_suite.native("flatc"), *options, official_suite.schema(), "--", *files])
    if done.returncode:
        raise ToolError(f"flatc: {(done.stderr.strip() or done.stdout.strip()).decode()}")
    targets = [folder / f"{file.stem}.json" for file in files]
    found = [json.loads(target.read_bytes()) for target in targets]
    for target in targets:
        target.unlink()
    return found


def reference_run(tosa: Path, test: Path, folder: Path) -> dict[str, bytes] | Refused:
    """Return the outputs of the reference model for `tosa` on the inputs of an official test.

    Returns the bytes of each output file, or why there are none.
    """
    folder.mkdir(exist_ok=True)
    description = json.loads((test / "desc.json").read_text(encoding="utf-8"))
    done = _call(
        [
            official_suite.native("tosa_reference_model"),
            f"--test_desc={test / 'desc.json'}",
            f"--flatbuffer_dir={test}",
            f"--tosa_file={tosa}",
            f"--output_dir={folder}",
        ]
    )
    outputs = {}
    for name in description["ofm_file"]:
        if (folder / name).exists():
            outputs[name] = (folder / name).read_bytes()
            (folder / name).unlink()
    if done.returncode:
        return _refused(done)
    if len(outputs) != len(description["ofm_file"]):
        return Refused(f"{len(outputs)} of {len(description['ofm_file'])} outputs")
    return outputs
