"""Find the reference model's program and run it isolated from this process and its terminal.

It aborts on some inputs, and an abort starts a debugger on itself whose session reaches its caller's
terminal. So it runs under limits in a new session (`process.child`), is told to leave the debugger out,
and has no search path to find one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays import temporary_file_errors, write_scratch
from tosa_convert.graph.model import Block, Graph
from tosa_convert.installation import install_command
from tosa_convert.process.child import Ended, run_child

# -- commands that users give as text: backends of `check`, and the command of `reduce` ------------


def command_words(text: str) -> list[str]:
    """Split a command line into words. Return [] if it does not start with a program that exists."""
    if not isinstance(text, str):
        raise TypeError(f"found {type(text).__name__}, expected the text of a command line")
    try:
        words = shlex.split(text)
    except ValueError:  # an unclosed quote
        return []
    return words if words and shutil.which(words[0]) is not None else []


def program_path(name: str, python: str) -> str | None:
    """Return where a program is: beside a Python, as pip installs it, or on PATH. None if nowhere."""
    return shutil.which(name, path=os.path.dirname(python)) or shutil.which(name)


def with_paths(
    words: Sequence[str], paths: Mapping[str, str], *, appended: Sequence[str]
) -> list[str]:
    """Return the words of a command with files in place of marks such as `{model}`.

    appended: the marks that are appended if the words have none.

    Example:
        >>> with_paths(["run", "--model={model}"], {"{model}": "m.tosa"}, appended=["{model}"])
        ['run', '--model=m.tosa']
        >>> with_paths(["run"], {"{model}": "m.tosa"}, appended=["{model}"])
        ['run', 'm.tosa']
    """
    result = list(words)
    if not any(mark in word for word in words for mark in paths):
        result += appended
    for mark, path in paths.items():
        result = [word.replace(mark, path) for word in result]
    return result


def run_again_if_killed(run: Callable[[], Ended]) -> Ended:
    """Run a child process, and once more if SIGKILL ended it before its time was over.

    No program sends itself this signal: a user did, or the system, which had no memory left.
    """
    ended = run()
    is_killed = ended.code == -getattr(signal, "SIGKILL", 0) and ended.code and not ended.timed_out
    return run() if is_killed else ended


def run_command(
    words: list[str],
    *,
    timeout: float,
    name: str,
    folder: str | os.PathLike[str] | None = None,
    with_stdout: bool = False,
) -> Ended:
    """Run a backend's command to its end, again if it was killed; see `run_child`."""
    with temporary_file_errors():
        try:
            return run_again_if_killed(
                lambda: run_child(words, timeout=timeout, folder=folder, with_stdout=with_stdout)
            )
        except OSError as error:
            if error.filename != words[0]:
                raise
            raise fail("missing-backend", name, f"{words[0]}: {error.strerror}") from None


#: The environment variable that names the program, for a reference model that you built.
ENVIRONMENT: Final = "TOSA_REFERENCE_MODEL"
_WHEEL: Final = "tosa-tools"
_NAME: Final = "tosa_reference_model"


def locate() -> Path:
    """Find the reference model: that of $TOSA_REFERENCE_MODEL, of tosa-tools, or one on PATH."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        if os.path.isfile(named) and os.access(named, os.X_OK):
            return Path(named)
        raise fail(
            "missing-refmodel", named, f"${ENVIRONMENT} does not name a program that can be run"
        )
    return _installed(os.environ.get("PATH", ""))


def is_installed() -> bool:
    try:
        locate()
    except TosaConvertError as error:
        if os.environ.get(ENVIRONMENT):
            raise
        return error.code != "missing-refmodel"
    return True


@functools.lru_cache(4)
def _installed(path: str) -> Path:
    suffix = ".exe" if sys.platform == "win32" else ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        program = Path(str(metadata.distribution(_WHEEL).locate_file(f"bin/{_NAME}{suffix}")))
        if program.is_file() and os.access(program, os.X_OK):
            return program
    on_path = shutil.which(_NAME, path=path)
    if on_path is None:
        raise fail(
            "missing-refmodel",
            "",
            f"the reference model ({_NAME}) is not installed",
            f"{install_command('refmodel')}, or name the program in ${ENVIRONMENT}",
        )
    return Path(on_path)


_LEVELS: Final = {"none": "NONE", "8k": "EIGHTK"}
#: The operator that the model refuses to run without a level.
_NEEDS_LEVEL: Final = "EXP2_SHAPE"


def write_description(
    folder: Path, block: Block, ins: list[str], outs: list[str], *, with_bounds: bool = False
) -> None:
    """Write the file that names the program and the files of its inputs and outputs."""
    description: dict[str, Any] = {
        "tosa_file": "model.tosa",
        "ifm_name": block.inputs,
        "ifm_file": ins,
        "ofm_name": block.outputs,
        "ofm_file": outs,
        "expected_failure": False,
    }
    if with_bounds:
        description["test_requirements"] = {"bounds_file_required": True}
    write_scratch(folder / "desc.json", [json.dumps(description).encode()])


def command_of(graph: Graph, level: str, *, is_precise: bool) -> list[str]:
    """Return the words that run a program by its description."""
    # Without a level the reference model refuses EXP2_SHAPE.
    has_limit = any(op.spec.name == _NEEDS_LEVEL for _, b in graph.blocks() for op in b.operators)
    return [
        str(locate()),
        "--test_desc=desc.json",
        "--flatbuffer_dir=.",
        "--output_dir=.",
        f"--tosa_level={_LEVELS['8k' if has_limit else level]}",
        f"--precise_mode={int(is_precise)}",
    ]


def run(command: list[str], folder: Path, timeout: float) -> Ended:
    """Run the reference model in a folder; whatever it started ends with it."""
    environment = _environment(command[0])
    ended = run_again_if_killed(
        lambda: run_child(command, timeout=timeout, folder=folder, environment=environment)
    )
    if ended.timed_out:
        raise fail(
            "refmodel-timeout",
            "",
            f"the reference model did not end within {timeout:g} s",
            "raise the limit with --timeout, or cut the model with extract",
        )
    return ended


def _environment(program: str) -> dict[str, str]:
    environment = {
        "TOSA_MODEL_NO_BACKTRACE": "1",
        "PATH": "",
        "LC_ALL": "C",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "HOME", "TMPDIR"):
        if name in os.environ:
            environment[name] = os.environ[name]
    with open(program, "rb") as file:
        is_script = file.read(2) == b"#!"
    if is_script:
        environment["PATH"] = os.environ.get("PATH", "")  # a launcher script needs its interpreter
    return environment
