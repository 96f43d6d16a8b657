"""Run backends in processes of their own, and say how they ended."""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import hashlib
import importlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import TosaConvertError, fail, suggest
from tosa_convert.extensions import PREFIX, find_extension, is_extension, near_extension
from tosa_convert.golden.arrays import (
    Array,
    file_errors,
    read_npy,
    write_npy,
    write_scratch,
)
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.reference_model_process import (
    command_words,
    run_again_if_killed,
    run_command,
)
from tosa_convert.io import log
from tosa_convert.io.files import PathLike, open_regular
from tosa_convert.io.formats import EXTENSIONS
from tosa_convert.process.child import Ended, Used, last_words, run_child
from tosa_convert.process.workers import (
    MODULES_FILE,
    KeptProcess,
    can_fork,
    command_with_this_package,
    threads_and_files,
)
from tosa_convert.version import __version__

# -- what a process that is kept for many runs of a backend does before the first one --------------
# It runs in the backend's Python, which may have no other package than the backend's.

#: Software -> the modules to import; of several in a row, the first that there is.
_IMPORTED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "iree": (("iree.compiler",), ("iree.runtime",)),
    "onnxruntime": (("onnxruntime",),),
    "python": (),
    "tflite": (("ai_edge_litert.interpreter", "tensorflow.lite.python.interpreter"),),
    "torch": (("torch",), ("torch.export",), ("torch.utils._pytree",)),
}
#: Software whose process can be forked after these imports. JAX starts threads with its first array.
FORKED: Final = frozenset(_IMPORTED)

#: The file of a run's folder that lists the files which the user's code has read.
READ_FILE: Final = "read.json"
_read: set[str] = set()

_PREFIXES: Final = tuple(
    path + os.sep
    for prefix in (sys.prefix, sys.base_prefix)
    for path in (prefix, os.path.realpath(prefix))
)


def record_files() -> None:
    """Keep from now on the names of files that Python code opens to read, except installed ones."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        if arguments[2] & os.O_ACCMODE == os.O_RDONLY:
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not path.startswith((*_PREFIXES, "/dev/", "/proc/", "/sys/")):
                _read.add(path)

    sys.addaudithook(heard)


@contextlib.contextmanager
def run_recorded() -> Iterator[None]:
    """Write into the working folder, which is the run's, what the block reads and imports."""
    _write_files_read()  # what the imports have read, should the run crash
    modules, settings = set(sys.modules), (dict(os.environ), list(sys.path))
    try:
        yield
    finally:
        _write_files_read()
        # A module of the user's may depend on the run, and any on settings that the run has made.
        names = [name for name in sys.modules if name not in modules and _may_be_kept(name)]
        if names and settings == (dict(os.environ), list(sys.path)):
            with open(MODULES_FILE, "w", encoding="utf-8") as file:
                json.dump(names, file)


def _may_be_kept(name: str) -> bool:
    origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
    return isinstance(origin, str) and (
        origin.startswith(_PREFIXES) or name.startswith("tosa_convert.")
    )


def _write_files_read() -> None:
    own = os.getcwd() + os.sep
    names = sorted(name for name in _read.copy() if not name.startswith(own))
    with open(READ_FILE, "w", encoding="utf-8") as file:
        json.dump(names, file)


def prepare(software: str, load_file: Callable[[], object]) -> bool:
    """Import what the runs of some software need, before this process forks for each of them."""
    for names in _IMPORTED[software]:
        _import_first(names)
    if software != "python":
        return True
    before = threads_and_files()
    load_file()
    return threads_and_files() == before


def _import_first(names: tuple[str, ...]) -> None:
    for name in names[:-1]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
            return
    importlib.import_module(names[-1])


# -- fingerprints of all that decides an answer: a kept answer counts only while they stay the same
# They are made of contents and releases: a time or a size says nothing about what a file has.

_PIECE: Final = 1 << 20
#: Prints which packages a Python has, and in which releases.
_INSTALLED: Final = """
import os, sys
names = [n for p in sys.path if os.path.isdir(p) for n in os.listdir(p)]
print(sys.version, sys.prefix, sorted(n for n in names if n.endswith((".dist-info", ".egg-info"))))
"""
_START_SECONDS: Final = 60.0
#: Characters of a text in a Python file that may be the name of a file.
_NAME_CHARACTERS: Final = 1000


def digest(content: Any) -> str:
    """Return the fingerprint of a value that JSON can have."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def of_file(path: PathLike) -> str:
    """Return the fingerprint of a file's content, or why it cannot be read."""
    found = hashlib.sha256()
    try:
        with open_regular(path) as file:
            while piece := file.read(_PIECE):
                found.update(piece)
    except (OSError, TosaConvertError) as error:
        return str(error)
    return found.hexdigest()


def of_file_at_hand(path: str) -> str:
    """Return the fingerprint of a file that many cases read, without reading it for each of them."""
    # The kernel changes the time of the last change with every write; no program can set it.
    try:
        found = os.stat(path)
    except OSError as error:
        return str(error)
    return _of_file_as_of(path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@functools.lru_cache(4096)
def _of_file_as_of(path: str, *state: int) -> str:
    return of_file(path)


def of_files(paths: Iterable[PathLike]) -> dict[str, str]:
    return {os.fspath(path): of_file(path) for path in sorted({os.fspath(path) for path in paths})}


def of_software(python: str = "") -> dict[str, Any]:
    """Describe what computes and judges: this package, the reference model, packages of a Python."""
    try:
        model: Any = of_files([reference_model_process.locate()])
    except TosaConvertError as error:
        model = str(error)
    return {
        "version": __version__,
        "source": _own_source(),
        "model": model,
        "python": [
            _packages(program) for program in {sys.executable: 0, python or sys.executable: 0}
        ],
    }


@functools.cache
def _own_source() -> str:
    """Return the fingerprint of this package: in a checkout its files change, and no release."""
    return digest([of_file(path) for path in sorted(Path(__file__).parents[2].rglob("*.py"))])


def _packages(python: str) -> str:
    try:
        ended = run_child([python, "-c", _INSTALLED], timeout=_START_SECONDS, with_stdout=True)
    except OSError as error:
        return str(error)
    return ended.stderr


#: Environment variables that decide what any program does.
_ALWAYS: Final = ("LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "PYTHONPATH")


def of_environment(text: str) -> dict[str, str]:
    """Return the set environment variables that a backend's Python files or command's words name."""
    names = set(_ALWAYS)
    for path in of_backend(text):
        if path.endswith(".py"):
            names.update(_words_of(path))
    names.update(re.findall(r"\w+", text))
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def _words_of(path: str) -> set[str]:
    """Return the words of a text file, if it can be read."""
    try:
        with open_regular(path) as file:
            return set(re.findall(r"\w+", file.read().decode(errors="replace")))
    except (OSError, TosaConvertError):
        return set()


def of_backend(text: str) -> dict[str, str]:
    """Return the files of a backend of `--against`: a Python file, or those that a command names."""
    if is_extension(text):
        text = str(find_extension("backends", text).source)
    if text.endswith(".py") and os.path.isfile(text):
        return of_files(files_of_python(Path(text)))
    return of_command(text)


def of_command(text: str) -> dict[str, str]:
    """Return the files that a command names, its program, and what Python files of them import."""
    paths: set[Path] = set()
    words = command_words(text)
    program = shutil.which(words[0]) if words else None
    for word in (program or "", *words[1:]):
        for name in (word, word.partition("=")[2]):
            if name and os.path.isfile(name):
                path = Path(os.path.abspath(name))
                paths.update(files_of_python(path) if path.suffix == ".py" else (path,))
    return of_files(paths)


def files_of_python(path: Path) -> set[Path]:
    """Find what a Python file needs: modules beside it that it imports, and files that it names."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        if one.suffix == ".py":
            waiting += _named_by(one, path.parent)
    return found


def _named_by(path: Path, root: Path) -> Iterator[Path]:
    """Yield the files that a Python file imports or names. root: the folder that it imports from."""
    try:
        with open_regular(path) as file:
            tree = ast.parse(file.read())
    except (OSError, TosaConvertError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _module(folder, [*parts, alias.name])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if 0 < len(text) < _NAME_CHARACTERS and "\0" not in text:
                named = path.parent / text
                if os.path.isfile(named):
                    yield named


def _module(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the files below a folder that an import of `a.b.c` runs."""
    for part in parts:
        module = folder / f"{part}.py"
        folder = folder / part
        for candidate in (module, folder / "__init__.py"):
            if os.path.isfile(candidate):
                yield candidate


# -- processes that are kept for the backends of a suite: each has imported what its runs need -----
# Every run is a fork of such a process (Linux), so that a crash, a hang or a changed state costs
# that run only. A backend that cannot be forked, and any backend on other systems, has a process
# for each run.

#: What such a process does. The backend's own imports must not find this package.
_SERVE: Final = """
from tosa_convert.golden.backends.process import prepare, record_files, run_recorded
from tosa_convert.process.workers import serve
for name in [name for name in sys.modules if name.partition(".")[0] == "tosa_convert"]:
    del sys.modules[name]
source, software, model = arguments
worker = {"__name__": "worker"}
exec(compile(source, "worker.py", "exec"), worker)
def work():
    with run_recorded():
        return worker["main"]()
if software == "python":
    record_files()
load_file = lambda: worker["_python_file"](model, "tosa_backend")
raise SystemExit(serve(lambda: prepare(software, load_file), work))
"""


@dataclass(slots=True)
class _Kept:
    """Keep a process, its environment, and the user's files as they were when it started."""

    process: KeptProcess
    environment: dict[str, str]
    files: dict[str, str]


class KeptWorkers(threading.local):
    """Keep the processes of this thread, by Python, software and the user's file, until it ends."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], _Kept] = {}
        self._owner = os.getpid()
        atexit.register(self.close)

    def of(self, python: str, software: str, model: str, timeout: float) -> KeptProcess | None:
        """Return the process for a model's runs; None if each needs its own. timeout: for imports."""
        if software not in FORKED or not can_fork():
            return None
        if self._owner != os.getpid():  # a fork: these are its parent's
            self._kept, self._owner = {}, os.getpid()
        key = python, software, model if software == "python" else ""
        found = self._kept.get(key)
        current = dict(os.environ)
        if found and (found.environment != current or found.files != of_files(found.files)):
            self._kept.pop(key).process.close()
            found = None
        if found is None:
            files = of_files(files_of_python(Path(key[2]))) if key[2] else {}
            source = Path(__file__).with_name("worker.py").read_text(encoding="utf-8")
            command = command_with_this_package(python, _SERVE, [source, *key[1:]])
            process = KeptProcess(command, start_seconds=timeout)
            found = self._kept[key] = _Kept(process, current, files)
        return found.process

    def close(self) -> None:
        while self._kept and self._owner == os.getpid():
            self._kept.popitem()[1].process.close()


#: Exit code of `worker.py` if the backend's packages are not installed.
MISSING: Final = 3
#: Exit code of a backend that does not support the program: automake's for a test that was skipped.
REFUSED: Final = 77
#: ... that cannot reach its device, which says nothing of the program: EX_TEMPFAIL of sysexits.h.
UNREACHABLE: Final = 75
_SIGABRT: Final = 6
#: Software that runs models -> how to install it.
PACKAGES: Final = {
    "iree": "pip install iree-base-compiler iree-base-runtime",
    "tflite": "pip install ai-edge-litert",
    "torch": "pip install torch",
    "onnxruntime": "pip install onnxruntime",
    "jax": "pip install jax",
}
#: Software whose models `convert --check` alone runs, and what `worker.py` runs them with.
_ONLY_CONVERTED: Final = ("keras", "tensorflow")
_TENSORFLOW: Final = Path(__file__).with_name("tensorflow_model.py")
#: Characters of a line that says why a program was refused.
_REFUSAL_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Machine:
    """Say where software runs.

    python: the Python that has it. timeout: seconds for one run. kept: the processes that are kept for
        many runs, if any are. used: gets what each run used.
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
    """Run a model by `worker.py`; return its outputs and steps, read from `folder`."""
    given = [folder / f"in{i}.npy" for i in range(len(inputs))]
    for path, array in zip(given, inputs, strict=True):
        write_npy(path, array)
    types = json.dumps([str(array.dtype) for array in inputs])
    write_scratch(folder / "types.json", [types.encode()])
    if software == "tensorflow" and model.endswith(".tflite"):
        software = "tflite"
    if software in _ONLY_CONVERTED:
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
    if ended.timed_out:
        ended_text = last_words(ended).partition("; ")[2]
        text = f"it did not end within {timeout:g} s"
        raise fail("backend-failed", name, f"{text}; {ended_text}" if ended_text else text)
    return ended


def refuse_failure(ended: Ended, name: str) -> None:
    """Raise a TosaConvertError of the code that says how it ended, unless it ended well."""
    codes = {REFUSED: "backend-refused", UNREACHABLE: "backend-unreachable"}
    if ended.code in codes:
        lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        text = " / ".join(line[:_REFUSAL_CHARACTERS] for line in lines[-3:])
        raise fail(codes[ended.code], name, text or f"it ended with exit code {ended.code}")
    if ended.code:
        raise fail("backend-failed", name, last_words(ended))


def _irregular(folder: str, names: list[str]) -> list[str]:
    """List the pipes and the like, which cannot be copied."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, path in paths.items() if not path.is_file() and not path.is_dir()]


@contextlib.contextmanager
def failures_kept(name: str, folder: Path, keep: Path | None) -> Iterator[None]:
    """Keep a copy of a backend's folder if the block raises that it failed, refused or wrote damage."""
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
