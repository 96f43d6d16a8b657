"""The folder of the benchmarks, the programs that they run, and the machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import stat
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXAMPLE = ROOT / "examples" / "digits_cnn.mlirbc"


def scratch() -> tuple[Path, str]:
    """Return a folder for this run, in memory if possible, and a note about it."""
    shared = Path("/dev/shm")
    if shared.is_dir() and os.access(shared, os.W_OK) and _is_tmpfs(shared):
        return Path(tempfile.mkdtemp(prefix="tosa-convert-bench-", dir=shared)), "tmpfs /dev/shm"
    folder = Path(tempfile.mkdtemp(prefix="tosa-convert-bench-"))
    kind = "tmpfs" if _is_tmpfs(folder.parent) else "NOT a tmpfs, so the disk is measured, too"
    return folder, f"{folder.parent} ({kind})"


def _is_tmpfs(folder: Path) -> bool:
    try:
        rows = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return False
    return any(row[1] == str(folder) and row[2] == "tmpfs" for row in rows)


def ours() -> list[str]:
    """Return the installed command, or the same run through the interpreter."""
    script = _script("tosa-flatbuffer-convert")
    return [script] if script else [sys.executable, "-m", "tosa_convert", "convert"]


def pip_tosa_opt() -> str | None:
    """Return the `tosa-opt` that pip put among the commands: a Python shim."""
    return _script("tosa-opt")


def _script(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def native_tosa_opt(folder: Path) -> str | None:
    """Return the native `tosa-opt` of tosa-tools; a runnable copy if the wheel's lacks the run bit."""
    try:
        found = importlib.metadata.distribution("tosa-tools").locate_file("bin/tosa-opt")
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(found))
    if not path.is_file():
        return None
    if not os.access(path, os.X_OK):
        copy = folder / "tosa-opt"
        shutil.copy(path, copy)
        copy.chmod(copy.stat().st_mode | stat.S_IXUSR)
        path = copy
    return str(path)


def has(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def versions() -> dict[str, str]:
    """Return the distributions that are measured."""
    found = {"python": platform.python_version()}
    for name in ("tosa-convert", "tosa-tools", "torch-mlir", "iree-base-compiler", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


def sources() -> str:
    """Return the fingerprint of the files whose changes make measured times old."""
    found = hashlib.sha256()
    for folder in ("formats", "graph"):
        for path in sorted((ROOT / "tosa_convert" / folder).rglob("*.py")):
            found.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def machine() -> dict[str, object]:
    """Return the properties of the machine that affect the numbers most."""
    model = platform.processor()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": _meminfo("MemTotal") >> 20,
        "load_at_start": os.getloadavg()[0],
    }


def free_memory() -> int:
    """Return bytes that are available without swapping."""
    return _meminfo("MemAvailable")


def _meminfo(key: str) -> int:
    for line in _lines("/proc/meminfo"):
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
