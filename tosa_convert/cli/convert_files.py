"""`convert` of many files: side by side, each into its place below a folder."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from tosa_convert import api
from tosa_convert.cli.convert_file import Options, read_graph, save, set_limits
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.files import STANDARD, file_error, map_file
from tosa_convert.formats import EXTENSIONS, MLIR_FORMATS, Format, of_path, sniff

#: Inputs of this many bytes may share an MLIR context.
CONTEXT_BYTES: Final = 64 << 20
#: Files that a further process must have to be worth its start.
FILES_PER_PROCESS: Final = 64
#: Inputs of more bytes than this are not converted side by side unless asked for: each process
#: needs the memory of the file it converts.
TOGETHER_BYTES: Final = 1 << 30


class _SharedContext:
    """An MLIR context for many small files: making one takes longer than converting a file.

    Made anew once it was given CONTEXT_BYTES, since it keeps all attributes it ever saw.
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


def convert_many(paths: list[str], output: str | None, to: Format | None, options: Options) -> int:
    """Every input into a directory of outputs; one that fails does not stop the others."""
    if output is None or output == STANDARD:
        raise click.UsageError("several inputs need a directory for the outputs: -o DIR")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"-o {output} is a file; for several inputs give a directory")
    jobs = _jobs(paths, folder, to)
    failures: list[TosaConvertError] = []
    work = functools.partial(_convert_job, options=options)
    for (source, _), error in zip(jobs, _each(work, jobs, options["jobs"]), strict=True):
        if error is not None:
            prefix = "" if any(str(source) in f.where for f in error.findings) else f"{source}: "
            click.echo(f"{prefix}{error}", err=True)
            failures.append(error)
    click.echo(f"{len(jobs) - len(failures)} of {len(jobs)} files converted", err=True)
    return max((failure.exit_code for failure in failures), default=0)


def _convert_job(job: tuple[Path, Path], options: Options) -> TosaConvertError | None:
    """One of many; what is wrong with it, if something is."""
    source, target = job
    set_limits(options["limits"])  # the process may be a new one
    try:
        api.refuse_same_file(source, target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_error(target.parent, error, "made") from None
        kind = of_path(target)
        context = _shared_context(options["bindings"])
        found = read_graph(str(source), kind, options, context.for_bytes)[1]
        save(found, target, kind, options)
    except TosaConvertError as error:
        return error
    return None


def _each(
    work: Callable[[tuple[Path, Path]], TosaConvertError | None],
    jobs: list[tuple[Path, Path]],
    processes: int,
) -> Iterator[TosaConvertError | None]:
    """The outcome of each job, in order; by as many processes as asked for, 0 for as many as pay."""
    if not processes:
        processes = max(1, min(os.cpu_count() or 1, len(jobs) // FILES_PER_PROCESS))
        if processes > 1 and sum(map(_size, jobs)) > TOGETHER_BYTES:
            processes = 1
    from tosa_convert.cli import supervise

    if supervise.possible():
        yield from supervise.each(work, jobs, processes, lambda job, error: error)
        return
    if processes == 1:
        yield from map(work, jobs)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(work, jobs, chunksize=FILES_PER_PROCESS // 4)


def _size(job: tuple[Path, Path]) -> int:
    try:
        return job[0].stat().st_size
    except OSError:
        return 0  # whoever converts it tells what is wrong with it


def _jobs(paths: list[str], folder: Path, to: Format | None) -> list[tuple[Path, Path]]:
    """Each input with its output. Inputs below a directory keep their place in it."""
    jobs: list[tuple[Path, Path]] = []
    taken: dict[Path, Path] = {}
    clashes: list[Finding] = []
    for given in paths:
        if given == STANDARD:
            raise click.UsageError("standard input cannot be one of several inputs")
        root = Path(given)
        if root.is_dir():
            sources = sorted(p for p in root.rglob("*") if p.is_file() and p.suffix in EXTENSIONS)
            stems = [source.relative_to(root) for source in sources]
        else:
            sources, stems = [root], [Path(root.name)]
        for source, stem in zip(sources, stems, strict=True):
            kind = to or _other_side(source)
            target = folder / stem.with_suffix(f".{kind}")
            if target in taken:
                clashes.append(
                    Finding(
                        "option-conflict",
                        str(source),
                        f"its output {target} is also that of {taken[target]}",
                        "convert them into different directories",
                    )
                )
            taken[target] = source
            jobs.append((source, target))
    inputs = {os.path.realpath(source): source for source, _ in jobs}
    for source, target in jobs:
        overwritten = inputs.get(os.path.realpath(target))
        if overwritten is not None:
            clashes.append(
                Finding(
                    "would-overwrite-input",
                    str(source),
                    f"its output {target} is the input {overwritten}",
                    "choose another directory for the outputs",
                )
            )
    if clashes:
        raise TosaConvertError(clashes)
    if not jobs:
        raise fail(
            "unrecognised-input",
            ", ".join(paths),
            "no file below it has one of the extensions " + ", ".join(EXTENSIONS),
        )
    return jobs


def _other_side(source: Path) -> Format:
    """MLIR becomes a flatbuffer, everything else MLIR text."""
    try:
        # What is no regular file can be read only once: its name has to do.
        found = sniff(map_file(source) if source.is_file() else memoryview(b""), str(source))
    except TosaConvertError:
        # Whoever converts it tells what is wrong with it.
        found = EXTENSIONS.get(source.suffix.lower(), "tosa")
    return "tosa" if found in MLIR_FORMATS else "mlir"
