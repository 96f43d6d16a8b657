"""Many files, each read on its own: those below directories, and the processes that read them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from tosa_convert.cli.ending import is_out_of_memory, out_of_memory
from tosa_convert.cli.messages import UsageError, report_bug, say
from tosa_convert.errors import Finding, TosaConvertError, fail, printable
from tosa_convert.exit_codes import EXIT_BUG
from tosa_convert.formats.read import Input
from tosa_convert.io.files import STANDARD, map_file, walk
from tosa_convert.io.formats import (
    EXTENSIONS,
    MODEL_EXTENSIONS,
    Format,
    is_saved_model,
    model_kind,
    sniff,
)
from tosa_convert.io.option_table import refuse_inapplicable
from tosa_convert.io.options import ReadOptions, given_options

if TYPE_CHECKING:
    from pathlib import Path

#: The number of files above which another process saves time.
FILES_PER_PROCESS: Final = 64
#: Inputs of more bytes than this, taken together, are not read side by side unless asked for: each
#: process needs the memory of the file it reads.
TOGETHER_BYTES: Final = 1 << 30

Job = TypeVar("Job")
Result = TypeVar("Result")

#: The reason why a file was not done: an expected failure, or the traceback of an unexpected one.
FileFailure = TosaConvertError | str


def attempt(work: Callable[[Job], Result], job: Job) -> Result | FileFailure:
    """Do the work on one of many files; return the reason why it failed instead of raising it."""
    try:
        return work(job)
    except TosaConvertError as error:
        return error
    except Exception as error:  # a bug of ours, which must not stop the other files
        if is_out_of_memory(error):
            return out_of_memory()
        import traceback

        return traceback.format_exc()


def findings_of(failure: FileFailure) -> tuple[tuple[Finding, ...], str]:
    return (failure.findings, "") if isinstance(failure, TosaConvertError) else ((), failure)


def report_failure(source: object, failure: FileFailure) -> int:
    """Print why one of many files failed, with its name; return the exit code."""
    if not isinstance(failure, TosaConvertError):
        report_bug(failure, str(source))
        return EXIT_BUG
    is_named = any(str(source) in finding.where for finding in failure.findings)
    say(f"{'' if is_named else f'{printable(str(source))}: '}{failure}", err=True)
    return failure.exit_code


def inputs_below(given: str, *, models: bool = False) -> list[tuple[Path, Path]]:
    """Find the inputs of one argument, each with its path below the directory that it names."""
    if given == STANDARD:
        raise UsageError("standard input cannot be one of several inputs")
    from pathlib import Path

    root = Path(given)
    if not root.is_dir() or is_saved_model(root):
        return [(root, Path(root.name))]
    files = sorted(
        path
        for folder, names in walk(root)
        for path in (Path(folder, name) for name in names)
        if path.suffix in _extensions(models=models) and not _is_manifest(path) and path.is_file()
    )
    return [(file, file.relative_to(root)) for file in files]


def _extensions(*, models: bool) -> tuple[str, ...]:
    return (*EXTENSIONS, *MODEL_EXTENSIONS) if models else tuple(EXTENSIONS)


def _is_manifest(path: Path) -> bool:
    """Return whether it lists the weights of a program that is beside their folder."""
    return path.name == "manifest.json" and path.parent.suffix == ".weights"


def read_one_of_many(opened: Input, options: ReadOptions, read: Callable[..., Result]) -> Result:
    """Read an input with a function like `reading.read`; refuse options without effect on its format."""
    refuse_inapplicable(given_options(options), opened.where, read_from=opened.format)
    return read(opened, options)


def refuse_no_inputs(
    paths: Sequence[str], inputs: Sequence[object], *, models: bool = False
) -> None:
    """Raise TosaConvertError("unrecognised-input") if there are no inputs below the paths."""
    if not inputs:
        raise fail(
            "unrecognised-input",
            ", ".join(paths),
            "no file below it has one of the extensions " + ", ".join(_extensions(models=models)),
        )


def outcomes(
    work: Callable[[Job], Result], jobs: Sequence[Job], sources: Sequence[Path], processes: int
) -> Generator[Result | FileFailure, None, None]:
    """Do the jobs; yields the result of each, in order, or the reason why it failed."""
    processes = processes or _default_processes(sources)
    attempted = functools.partial(attempt, work)
    if processes == 1:
        yield from map(attempted, jobs)
        return
    from tosa_convert.cli.ending import may_fork
    from tosa_convert.process.workers import run_jobs

    done: dict[int, Result | FileFailure] = {}
    following = 0
    results = run_jobs(attempted, jobs, processes=processes, on_death=_death, fork=may_fork())
    with contextlib.closing(results):
        for index, result in results:
            done[index] = result
            while following in done:
                yield done.pop(following)
                following += 1


def _default_processes(sources: Sequence[Path]) -> int:
    processes = max(1, min(os.cpu_count() or 1, len(sources) // FILES_PER_PROCESS))
    if processes > 1 and sum(map(_size, sources)) > TOGETHER_BYTES:
        return 1
    return processes


def _size(source: Path) -> int:
    try:
        return source.stat().st_size
    except OSError:
        return 0  # the work reports the problem


def _death(job: object, code: int) -> FileFailure:
    from tosa_convert.process.child import describe_exit

    return f"the process that read the file ended with {describe_exit(code)}\n"


def is_model(source: Path) -> bool:
    """Return whether an input is a model of a framework: a file, a folder, or FILE.py:NAME."""
    if not source.is_file():
        return is_saved_model(source) or source.name.rpartition(":")[0].endswith(".py")
    return source.suffix.lower() not in EXTENSIONS and bool(model_kind(map_file(source)))


def format_of(source: Path) -> Format:
    """Return an input's format by its content, or by its extension if it cannot be read here."""
    try:
        # A pipe can be read only once, so use only its name.
        return sniff(map_file(source) if source.is_file() else memoryview(b""), str(source))
    except TosaConvertError:
        return EXTENSIONS.get(source.suffix.lower(), "tosa")  # the work reports the problem
