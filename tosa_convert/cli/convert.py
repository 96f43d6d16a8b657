"""`convert`: any format into any other."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from tosa_convert import api
from tosa_convert.cli.input_shapes import input_shape_option, parsed
from tosa_convert.cli.progress import WriteProgress
from tosa_convert.consumers import CONSUMERS, weights_for
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.files import (
    STANDARD,
    file_error,
    map_file,
    read_standard_input,
    standard_input,
    standard_output,
    write_standard_output,
)
from tosa_convert.formats import EXTENSIONS, FORMATS, MLIR_FORMATS, Format, of_path, sniff
from tosa_convert.limits import LIMITS, set_limit

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

Options = dict[str, Any]

#: Inputs of this many bytes may share an MLIR context.
CONTEXT_BYTES: Final = 64 << 20
#: Files that a further process must have to be worth its start.
FILES_PER_PROCESS: Final = 64
#: Inputs of more bytes than this are not converted side by side unless asked for: each process
#: needs the memory of the file it converts.
TOGETHER_BYTES: Final = 1 << 30


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The input is recognised by its content, the output by its extension or --to. "
    "- and no argument mean standard input, no -o means standard output.",
)
@click.argument("inputs", nargs=-1, type=click.Path(), metavar="[IN]...")
@click.option("-o", "--output", type=click.Path(), help="A file; for several inputs a directory.")
@click.option(
    "--to",
    type=click.Choice(list(FORMATS)),
    help="Format of the output: "
    + ", ".join(f"{name} ({what})" for name, what in FORMATS.items())
    + ". By default what the extension says, else the other side: MLIR becomes tosa, "
    "everything else mlir.",
)
@click.option("--export-to-flatbuffer", is_flag=True, help="MLIR in, a flatbuffer out; for pipes.")
@click.option(
    "--import-from-flatbuffer", is_flag=True, help="A flatbuffer in, MLIR out; for pipes."
)
@click.option("--func", metavar="NAME", help="The function to export, where there are several.")
@click.option(
    "--names",
    type=click.Choice(["retain", "generate"]),
    default="retain",
    show_default=True,
    help="Keep the names the module carries and generate the others, or generate all as tosa-opt does.",
)
@click.option(
    "--tosa-version",
    type=click.Choice(["1.0", "1.1"]),
    help="Version to stamp; by default the lowest that expresses the function, and for a "
    "flatbuffer the one it has.",
)
@click.option(
    "--weights",
    type=click.Choice(list(api.WEIGHTS)),
    default="auto",
    show_default=True,
    help="Where constants go: inside the flatbuffer, behind it, or inside unless it would pass 2 GiB.",
)
@click.option(
    "--for",
    "consumer",
    type=click.Choice(list(CONSUMERS)),
    help="A program that is to read the output; a form it does not open is refused.",
)
@click.option(
    "--narrow",
    metavar="TYPES",
    default="",
    help="Element types to convert, separated by commas: i64 to i32, f64 to f32. Each tensor it "
    "touches is reported.",
)
@input_shape_option
@click.option("--verify", is_flag=True, help="Read the result back and compare it bit for bit.")
@click.option(
    "--accept-changed-weights",
    is_flag=True,
    help="Take .npy weights whose checksum is not the one in their manifest.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Processes that convert several inputs side by side; by default as many as there are cores "
    "for many small files, else one.",
)
@click.option("--full-paths", is_flag=True, help="Keep the folders of file names in locations.")
@click.option(
    "--isolate",
    is_flag=True,
    help="Parse MLIR in a process of its own: its parser can crash on damaged bytecode.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=N",
    multiple=True,
    help="What an input may ask for: " + ", ".join(LIMITS) + ". May be repeated.",
)
@click.option("--bindings", metavar="PACKAGE", default="", help="MLIR bindings to use.")
@click.version_option(package_name="tosa-convert")
def convert(inputs: tuple[str, ...], output: str | None, **options: Any) -> int:
    """Convert TOSA programs between MLIR text, MLIR bytecode, flatbuffers and JSON."""
    to = _target(options)
    _set_limits(options["limits"])
    options["input_shapes"] = parsed(options["input_shapes"])
    if options["consumer"] is not None:
        options["weights"] = weights_for(options["consumer"], options["weights"])
    paths = list(inputs) or [STANDARD]
    if len(paths) > 1 or os.path.isdir(paths[0]):
        return _convert_many(paths, output, to, options)
    _convert_one(paths[0], output, to, options)
    return 0


def _target(options: Options) -> Format | None:
    """The output's format, as far as the options tell."""
    to = cast("Format | None", options["to"])
    exports, imports = options["export_to_flatbuffer"], options["import_from_flatbuffer"]
    if exports and imports:
        raise click.UsageError(
            "--export-to-flatbuffer and --import-from-flatbuffer exclude each other"
        )
    if exports:
        if to in MLIR_FORMATS:
            raise click.UsageError(f"--export-to-flatbuffer does not write {FORMATS[to]}")
        return to or "tosa"
    if imports:
        if to is not None and to not in MLIR_FORMATS:
            raise click.UsageError(f"--import-from-flatbuffer does not write {FORMATS[to]}")
        return to or "mlir"
    return to


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


def _graph(
    source: str, to: Format | None, options: Options, shared: _SharedContext | None = None
) -> tuple[Format, Graph]:
    """What the input holds, and the format it is to have."""
    standard = source == STANDARD
    if standard and standard_input().isatty():
        raise click.UsageError("no input: give a file, or pipe one in (--help tells more)")
    data = read_standard_input() if standard else map_file(source)
    where = "<stdin>" if standard else source
    found = sniff(data, where)
    _check_direction(found, where, options)
    to = to or ("tosa" if found in MLIR_FORMATS else "mlir")
    # What is no regular file, such as a pipe, can be read only once.
    graph = api.load(
        data if standard or not os.path.isfile(source) else source,
        func=options["func"],
        names=options["names"],
        bindings=options["bindings"],
        full_paths=options["full_paths"],
        narrow=[kind.strip() for kind in options["narrow"].split(",") if kind.strip()],
        input_shapes=options["input_shapes"],
        accept_changed_weights=options["accept_changed_weights"],
        isolate=options["isolate"],
        context=shared.for_bytes(len(data)) if shared and found in MLIR_FORMATS else None,
    )
    if found in MLIR_FORMATS or options["tosa_version"]:
        graph = api.stamp(graph, options["tosa_version"] or "")
    # A flatbuffer keeps the version it has, whatever it holds.
    return to, graph


def _set_limits(given: tuple[str, ...]) -> None:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value.isdecimal():
            raise click.UsageError(f"--limit {text}: expected NAME=N, a whole number")
        set_limit(name, int(value))


def _check_direction(found: Format, where: str, options: Options) -> None:
    is_mlir = found in MLIR_FORMATS
    if options["export_to_flatbuffer"] and not is_mlir:
        raise fail(
            "unrecognised-input",
            where,
            f"--export-to-flatbuffer reads MLIR, found {FORMATS[found]}",
            "leave the option out to convert anything to anything",
        )
    if options["import_from_flatbuffer"] and is_mlir:
        raise fail(
            "unrecognised-input",
            where,
            f"--import-from-flatbuffer reads flatbuffers and their JSON, found {FORMATS[found]}",
            "leave the option out to convert anything to anything",
        )


def _convert_one(source: str, output: str | None, to: Format | None, options: Options) -> None:
    if output is not None and output != STANDARD:
        if os.path.isdir(output):
            raise click.UsageError(f"-o {output} is a directory; for one input give a file")
        to = to or of_path(output)
        if source != STANDARD:
            api.refuse_same_file(source, output)
        _save(_graph(source, to, options)[1], output, to, options)
        return
    kind, graph = _graph(source, to, options)
    if kind in ("tosa", "mlirbc") and standard_output().isatty():
        raise click.UsageError(f"{FORMATS[kind]} does not go to a terminal; use -o FILE or a pipe")
    pieces = api.render(
        graph,
        kind,
        weights=options["weights"],
        names=options["names"],
        bindings=options["bindings"],
    )
    write_standard_output(pieces)


def _save(graph: Graph, output: str | Path, to: Format, options: Options) -> None:
    with WriteProgress(str(output), sum(data.nbytes for _, data in graph.constants())) as progress:
        api.save(
            graph,
            output,
            to=to,
            weights=options["weights"],
            names=options["names"],
            bindings=options["bindings"],
            verify=options["verify"],
            progress=progress,
        )


def _convert_many(paths: list[str], output: str | None, to: Format | None, options: Options) -> int:
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
    _set_limits(options["limits"])  # the process may be a new one
    try:
        api.refuse_same_file(source, target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_error(target.parent, error, "made") from None
        kind = of_path(target)
        graph = _graph(str(source), kind, options, _shared_context(options["bindings"]))[1]
        _save(graph, target, kind, options)
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
