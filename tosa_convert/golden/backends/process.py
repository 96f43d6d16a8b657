"""Runs backends in processes of their own, and says how they ended."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from tosa_convert.errors import TosaConvertError, fail, suggest
from tosa_convert.extensions import PREFIX, near_extension
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import read_npy
from tosa_convert.golden.arrays.scratch import file_errors, write_npy, write_scratch
from tosa_convert.golden.backends.kept_workers import KeptWorkers
from tosa_convert.golden.backends.warm_up import READ_FILE
from tosa_convert.golden.running.commands import run_again_if_killed, run_command
from tosa_convert.io import log
from tosa_convert.io.formats import EXTENSIONS
from tosa_convert.process.child import Ended, Used, last_words
from tosa_convert.records import dataclass, field, replace

#: Exit code of `worker.py` if the backend's packages are not installed.
MISSING: Final = 3
#: Exit code of a backend that does not support the program: automake's for a test that was skipped.
REFUSED: Final = 77
#: Signal of a failed assertion in native code.
_SIGABRT: Final = 6
#: Software that runs models -> how to install it.
PACKAGES: Final = {
    "iree": "pip install iree-base-compiler iree-base-runtime",
    "tflite": "pip install ai-edge-litert",
    "torch": "pip install torch",
    "onnxruntime": "pip install onnxruntime",
    "jax": "pip install jax",
}
#: What `worker.py` runs models of Keras and TensorFlow with.
_TENSORFLOW: Final = Path(__file__).with_name("tensorflow_model.py")
#: Frontends whose models `convert --check` alone runs.
_ONLY_CONVERTED: Final = ("keras", "tensorflow")
#: Characters of a line that says why a program was refused.
_REFUSAL_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Machine:
    """Where software runs.

    python: the Python that has it. timeout: seconds for one run.
    kept: the processes that are kept for many runs, if any are. used: gets what each run used.
    read: gets the files that the user's code has read, as far as they are known.
    """

    python: str
    timeout: float
    kept: KeptWorkers | None = None
    used: list[Used] = field(default_factory=list)
    read: set[str] = field(default_factory=set)


def run_worker(
    machine: Machine, software: str, model: str, inputs: list[Array], folder: Path
) -> tuple[list[Callable[..., Array]], list[Callable[..., Array]]]:
    """Run a model by `worker.py`; return its outputs and steps, read from `folder`.

    Raises TosaConvertError("missing-backend") and ("backend-failed").
    """
    given = [folder / f"in{i}.npy" for i in range(len(inputs))]
    for path, array in zip(given, inputs, strict=True):
        write_npy(path, array)
    types = json.dumps([str(array.dtype) for array in inputs])
    write_scratch(folder / "types.json", [types.encode()])
    if software == "tensorflow" and model.endswith(".tflite"):
        software = "tflite"
    if software == "tensorflow":
        write_scratch(folder / _TENSORFLOW.name, [_TENSORFLOW.read_bytes()])
    arguments = [software, os.path.abspath(model), os.getcwd()]
    ended = _run_worker(machine, arguments, folder)
    if software == "tflite" and ended.code == -_SIGABRT:
        reason = last_words(ended)
        log.warning("tflite: reference kernels failed (%s), and the other kernels ran", reason)
        (folder / "other_kernels").touch()
        ended = _run_worker(machine, arguments, folder)
    if ended.code == MISSING and software in PACKAGES:
        hint = f"{PACKAGES[software]}, or --python PROGRAM for a Python that has it"
        raise fail("missing-backend", software, ended.stderr.strip()[-200:], hint)
    # The folder is temporary: a message that names it says nothing.
    stderr = ended.stderr.replace(f"{folder}{os.sep}", "")
    refuse_failure(replace(ended, stderr=stderr), software)
    for path in given:
        path.unlink()
    return numbered(folder, "out"), numbered(folder, "step")


def _run_worker(machine: Machine, arguments: list[str], folder: Path) -> Ended:
    """Run `worker.py` and note what it used. Raises as `run_backend`."""
    ended = _in_kept_process(machine, arguments, folder)
    if ended is None:
        # As text, not by path: the file's folder has modules whose names the software imports, too.
        source = Path(__file__).with_name("worker.py").read_text(encoding="utf-8")
        command = [machine.python, "-c", source, *arguments]
        ended = run_backend(command, machine.timeout, arguments[0], folder)
    machine.used.append(ended.used)
    return ended


def _in_kept_process(machine: Machine, arguments: list[str], folder: Path) -> Ended | None:
    """Run a model in a process that is kept; None if there can be none. Raises as `run_backend`."""
    software, model, _ = arguments
    if machine.kept is None:
        return None
    process = machine.kept.of(machine.python, software, model, machine.timeout)
    if process is None or not process.can_start():
        return None
    ended = run_again_if_killed(
        lambda: process.run(folder, machine.timeout, arguments=arguments, with_stdout=False)
    )
    with contextlib.suppress(OSError, ValueError):  # it did not come that far
        machine.read.update(map(str, json.loads((folder / READ_FILE).read_text("utf-8"))))
    return _in_time(ended, machine.timeout, software)


def numbered(folder: Path, prefix: str) -> list[Callable[..., Array]]:
    """Return readers of the files `<prefix>0.npy`, `<prefix>1.npy`, ... of a folder; see `read_npy`."""
    readers: list[Callable[..., Array]] = []
    while (path := folder / f"{prefix}{len(readers)}.npy").exists():
        readers.append(functools.partial(read_npy, path))
    return readers


def run_backend(command: list[str], timeout: float, name: str, folder: Path | None = None) -> Ended:
    """Run a backend's command. Raises TosaConvertError("backend-failed") after the time limit."""
    return _in_time(run_command(command, timeout=timeout, name=name, folder=folder), timeout, name)


def _in_time(ended: Ended, timeout: float, name: str) -> Ended:
    """Return how a backend ended. Raises TosaConvertError("backend-failed") after the time limit."""
    if ended.timed_out:
        ended_text = last_words(ended).partition("; ")[2]
        text = f"it did not end within {timeout:g} s"
        raise fail("backend-failed", name, f"{text}; {ended_text}" if ended_text else text)
    return ended


def refuse_failure(ended: Ended, name: str) -> None:
    """Raise TosaConvertError("backend-refused") or ("backend-failed") unless it ended well."""
    if ended.code == REFUSED:
        lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        text = " / ".join(line[:_REFUSAL_CHARACTERS] for line in lines[-3:])
        raise fail("backend-refused", name, text or f"it ended with exit code {REFUSED}")
    if ended.code:
        raise fail("backend-failed", name, last_words(ended))


def _irregular(folder: str, names: list[str]) -> list[str]:
    """List the pipes and the like, which cannot be copied."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, path in paths.items() if not path.is_file() and not path.is_dir()]


@contextlib.contextmanager
def failures_kept(name: str, folder: Path, keep: Path | None) -> Iterator[None]:
    """Keep a copy of a backend's folder if the block raises that the backend failed or refused.

    A damaged file is the backend's failure, too.
    """
    try:
        yield
    except TosaConvertError as error:
        finding = error.findings[0]
        if finding.code not in ("backend-failed", "backend-refused", "file-error"):
            raise
        code = "backend-failed" if finding.code == "file-error" else finding.code
        hint = "--keep DIR keeps its model and inputs"
        if keep is not None:
            number = len(list(keep.glob("failed-*"))) if keep.is_dir() else 0
            kept = keep / f"failed-{number}"
            with file_errors(kept):
                shutil.copytree(folder, kept, ignore=_irregular)
            hint = f"its model and inputs are in {kept}"
        raise fail(code, name, finding.message, hint) from None


def unknown_backend(text: str, consumers: Iterable[str]) -> TosaConvertError:
    """Return the error for a text that names no backend. consumers: names that are known."""
    where, name = f"--against {text}", text.partition(":")[0]
    if text.endswith((".py", *EXTENSIONS)):
        return fail("file-error", where, "cannot be read: No such file or directory")
    if name in _ONLY_CONVERTED:
        message = f"models for {name} are run when they are converted"
        hint = "tosa-flatbuffer-convert MODEL -o m.tosa --check, or --against tflite:MODEL.tflite"
        return fail("option-conflict", where, message, hint)
    choices = ("numpy", *PACKAGES, *consumers)
    # There are many passes of MLIR.
    known = ", ".join(name for name in choices if ":" not in name or name.startswith("vela:"))
    message = (
        f"expected {known}, extension:NAME, a .py file, a folder, an .npz file, a model, or a command "
        "on PATH"
    )
    return fail("missing-backend", where, message, meant_backend(text, consumers))


def meant_backend(text: str, consumers: Iterable[str]) -> str:
    """Return the hint that names the backend that a text may mean, or "". consumers: known names."""
    name = os.path.basename(os.path.normpath(text))
    extension = near_extension("backends", name)
    if extension == f"{PREFIX}{name}":
        return f"did you mean {extension}?"
    choices = ("numpy", *PACKAGES, *consumers)
    near = [choice for choice in consumers if choice.endswith((f":{text}", f"-{text}"))]
    hint = f"did you mean {near[0]}?" if near and len(text) > 2 else suggest(text, choices)
    other = f"did you mean {extension}?" if extension else ""
    return hint or suggest(text.partition(":")[0], choices, other)
