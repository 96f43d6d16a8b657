"""`convert` of many files in parallel, each to its path below an output folder."""

from __future__ import annotations

import contextlib
import functools
import os
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import click

from tosa_convert import api
from tosa_convert.child_process import describe_exit
from tosa_convert.cli import supervise
from tosa_convert.cli.command import EXIT_BUG, report_bug
from tosa_convert.cli.convert_file import ConvertOptions, convert_opened, open_source
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.files import STANDARD, file_error, map_file
from tosa_convert.formats import EXTENSIONS, MLIR_FORMATS, Format, of_path, sniff

#: Bytes of inputs that may share an MLIR context.
CONTEXT_BYTES: Final = 64 << 20
#: The number of files above which another process saves time.
FILES_PER_PROCESS: Final = 64
#: Inputs of more bytes than this, taken together, are not converted side by side unless asked for: each
#: process needs the memory of the file it converts.
TOGETHER_BYTES: Final = 1 << 30

#: An input and its output.
Job = tuple[Path, Path]
#: The reason why a file was not converted: an expected failure, or the text of an unexpected one.
Failure = TosaConvertError | str | None


class _SharedContext:
    """An MLIR context for many small files: making one takes longer than converting a file.

    A context keeps every attribute that was parsed in it, so a new one follows after CONTEXT_BYTES.
    """

    def __init__(self, bindings: str) -> None:
        self.bindings = bindings
        self.context: Any = None
        self.given = 0

    def for_bytes(self, count: int) -> Any:
        """A context to parse a file of `count` bytes in."""
        if self.context is None or self.given + count > CONTEXT_BYTES:
            self.context = api.new_context(self.bindings)
            self.given = 0
        self.given += count
        return self.context


_shared_context = functools.cache(_SharedContext)


def convert_many(
    paths: list[str], output: str | None, options: ConvertOptions, processes: int
) -> int:
    """Convert every input into a directory of outputs; one that fails does not stop the others."""
    if output is None or output == STANDARD:
        raise click.UsageError("several inputs need a directory for the outputs: -o DIR")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"-o {output} is a file; for several inputs give a directory")
    jobs = _jobs(paths, folder, _target_format(options))
    exit_codes = [0]
    with contextlib.closing(_outcomes(jobs, options, processes)) as outcomes:
        for (source, _), failure in zip(jobs, outcomes, strict=True):
            if isinstance(failure, TosaConvertError):
                prefix = (
                    "" if any(str(source) in f.where for f in failure.findings) else f"{source}: "
                )
                click.echo(f"{prefix}{failure}", err=True)
                exit_codes.append(failure.exit_code)
            elif failure is not None:
                report_bug(failure, str(source))
                exit_codes.append(EXIT_BUG)
    converted = len(jobs) - len(exit_codes) + 1
    click.echo(f"{converted} of {len(jobs)} files converted", err=True)
    return max(exit_codes)


def _target_format(options: ConvertOptions) -> Format | None:
    """The format of all outputs, if the options name it."""
    direction: dict[str, Format] = {"export": "tosa", "import": "mlir"}
    return options.to or direction.get(options.direction)


def _convert_job(job: Job, options: ConvertOptions) -> Failure:
    """Convert one of many files; returns what went wrong, if something did."""
    source, target = job
    try:
        api.refuse_same_file(source, target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_error(target.parent, error, "made") from None
        opened = open_source(str(source), options)
        context = None
        if opened.format == "mlir" and not options.read.isolate:
            context = _shared_context(options.read.bindings).for_bytes(len(opened.data))
        convert_opened(opened, str(target), of_path(target), options, context)
    except TosaConvertError as error:
        return error
    except Exception:  # a bug of ours, which must not stop the other files
        return traceback.format_exc()
    return None


def _outcomes(
    jobs: list[Job], options: ConvertOptions, processes: int
) -> Generator[Failure, None, None]:
    """Convert the files; yields what went wrong with each, in order."""
    work = functools.partial(_convert_job, options=options)
    processes = processes or _default_processes(jobs)
    if processes == 1 and not supervise.may_fork():
        yield from map(work, jobs)
        return
    from tosa_convert.process_pool import run_jobs

    done: dict[int, Failure] = {}
    following = 0
    results = run_jobs(
        work,
        jobs,
        processes=processes,
        on_death=_crash,
        fork=supervise.may_fork(),
        initialize=supervise.start_worker,
    )
    with contextlib.closing(results):
        for index, failure in results:
            done[index] = failure
            while following in done:
                yield done.pop(following)
                following += 1


def _default_processes(jobs: list[Job]) -> int:
    """The number of processes that is fastest for these files."""
    processes = max(1, min(os.cpu_count() or 1, len(jobs) // FILES_PER_PROCESS))
    if processes > 1 and sum(map(_size, jobs)) > TOGETHER_BYTES:
        return 1
    return processes


def _crash(job: Job, code: int) -> Failure:
    """The failure of a file whose process died."""
    source = str(job[0])
    if _format_of(job[0]) == "mlir":
        return supervise.crash(source, code)
    return f"the process that converted the file ended with {describe_exit(code)}\n"


def _size(job: Job) -> int:
    try:
        return job[0].stat().st_size
    except OSError:
        return 0  # the conversion reports the problem


def _jobs(paths: list[str], folder: Path, to: Format | None) -> list[Job]:
    """Each input with its output; files below a directory keep their relative paths.

    Raises TosaConvertError for outputs that clash with one another or with inputs, and if there are no
    inputs.
    """
    jobs = [
        (source, folder / stem.with_suffix(f".{to or _other_side(source)}"))
        for given in paths
        for source, stem in _sources(given)
    ]
    clashes = list(_clashes(jobs))
    if clashes:
        raise TosaConvertError(clashes)
    if not jobs:
        raise fail(
            "unrecognised-input",
            ", ".join(paths),
            "no file below it has one of the extensions " + ", ".join(EXTENSIONS),
        )
    return jobs


def _sources(given: str) -> list[Job]:
    """The inputs of one argument, each with its path below the directory of outputs."""
    if given == STANDARD:
        raise click.UsageError("standard input cannot be one of several inputs")
    root = Path(given)
    if not root.is_dir():
        return [(root, Path(root.name))]
    files = sorted(path for path in root.rglob("*") if path.suffix in EXTENSIONS and path.is_file())
    return [(file, file.relative_to(root)) for file in files]


def _clashes(jobs: list[Job]) -> Iterator[Finding]:
    """Outputs that are also the output of another input, and outputs that are inputs."""
    source_of: dict[Path, Path] = {}
    for source, target in jobs:
        if target in source_of:
            yield Finding(
                "option-conflict",
                str(source),
                f"its output {target} is also that of {source_of[target]}",
                "convert them into different directories",
            )
        source_of[target] = source
    inputs = {os.path.realpath(source): source for source, _ in jobs}
    for source, target in jobs:
        overwritten = inputs.get(os.path.realpath(target))
        if overwritten is not None:
            yield Finding(
                "would-overwrite-input",
                str(source),
                f"its output {target} is the input {overwritten}",
                "choose another directory for the outputs",
            )


def _other_side(source: Path) -> Format:
    """MLIR becomes a flatbuffer, everything else MLIR text."""
    return "tosa" if _format_of(source) in MLIR_FORMATS else "mlir"


def _format_of(source: Path) -> Format:
    """The format of an input by its content, or by its extension if it cannot be read here."""
    try:
        # A pipe can be read only once, so use only its name.
        return sniff(map_file(source) if source.is_file() else memoryview(b""), str(source))
    except TosaConvertError:
        return EXTENSIONS.get(source.suffix.lower(), "tosa")  # the conversion reports the problem
