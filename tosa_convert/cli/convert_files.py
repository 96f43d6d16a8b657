"""`convert` of many files in parallel, each to its path below an output folder."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from tosa_convert import api
from tosa_convert.cli.convert_file import (
    ConvertOptions,
    convert_one,
    convert_opened,
    default_format,
    file_for,
    open_source,
    output_format,
)
from tosa_convert.cli.files_in_directories import (
    format_of,
    inputs_below,
    is_model,
    outcomes,
    refuse_no_inputs,
    report_failure,
)
from tosa_convert.cli.messages import UsageError, note, say
from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.formats.read import Input
from tosa_convert.io.files import STANDARD, file_error, refuse_same_file
from tosa_convert.io.formats import MLIR_FORMATS, Format, of_path
from tosa_convert.io.option_table import refuse_inapplicable
from tosa_convert.io.source_excerpt import SPLIT_MARKER

#: An input and its output.
Job = tuple[Path, Path]


def convert_many(
    paths: list[str], output: str | None, options: ConvertOptions, processes: int
) -> int:
    """Convert every input into a directory of outputs; one that fails does not stop the others."""
    if output is None or output == STANDARD:
        raise UsageError("several inputs need a directory for the outputs: -o DIR")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {output} is a file; for several inputs give a directory")
    jobs = _jobs(paths, folder, _target_format(options))
    work = functools.partial(_convert, options=options)
    inputs = [source for source, _ in jobs]
    exit_codes: list[int] = []
    unused = set(options.read.input_shapes)
    with contextlib.closing(outcomes(work, jobs, inputs, processes)) as found:
        for source, result in zip(inputs, found, strict=True):
            if isinstance(result, frozenset):
                unused &= result
            else:
                exit_codes.append(report_failure(source, result))
    note(f"{len(jobs) - len(exit_codes)} of {len(jobs)} files converted")
    if unused and len(exit_codes) < len(jobs):
        message = "none of the files that were converted has an input of this name"
        raise TosaConvertError(
            Finding("unknown-argument", f"--input-shape {name}", message) for name in sorted(unused)
        )
    return max(exit_codes, default=0)


def _target_format(options: ConvertOptions) -> Format | None:
    direction: dict[str, Format] = {"export": "tosa", "import": "mlir"}
    return options.to or direction.get(options.direction)


def _convert(job: Job, options: ConvertOptions) -> frozenset[str]:
    """Convert one of many files; return the names of --input-shape that are not inputs of it."""
    shapes = options.read.input_shapes
    left = dict(shapes)
    while True:
        try:
            _convert_with(job, replace(options, read=replace(options.read, input_shapes=left)))
        except TosaConvertError as error:
            unknown = [name for name in left if _is_unknown(name, error)]
            if not unknown or any(row.code != "unknown-argument" for row in error.findings):
                raise
            left = {name: sizes for name, sizes in left.items() if name not in unknown}
        else:
            return frozenset(shapes.keys() - left.keys())


def _is_unknown(name: str, error: TosaConvertError) -> bool:
    """Return whether an error of a reader or converter says that the model has no such input."""
    said = f'no argument is called "{name}"', f"no input is called {name}"
    return any(
        row.where == f"--input-shape {name}" or row.message in said for row in error.findings
    )


def _convert_with(job: Job, options: ConvertOptions) -> None:
    source, target = job
    api.refuse_same_file(source, target)
    try:
        # `mkdir(parents=True)` calls itself for each of them, and they may be a thousand.
        for folder in reversed((target.parent, *target.parent.parents)):
            folder.mkdir(exist_ok=True)
    except OSError as error:
        raise file_error(target.parent, error, "made") from None
    try:
        opened = open_source(str(source), options)
    except TosaConvertError as error:
        from tosa_convert.cli.convert_model import convert_model_or_raise

        convert_model_or_raise(error, str(source), str(target), options)
    else:
        convert_opened(opened, str(target), of_path(target), options)


def _jobs(paths: list[str], folder: Path, to: Format | None) -> list[Job]:
    """Return each input with its output; refuse outputs that clash with one another or with inputs."""
    jobs = [
        (source, folder / stem.with_suffix(f".{to or _other_side(source)}"))
        for given in paths
        for source, stem in inputs_below(given, models=True)
    ]
    clashes = list(_clashes(jobs))
    if clashes:
        raise TosaConvertError(clashes)
    refuse_no_inputs(paths, jobs, models=True)
    return jobs


def _clashes(jobs: list[Job]) -> Iterator[Finding]:
    """Find outputs that are also the output of another input, or an input."""
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
    """Return the output's format: a flatbuffer for MLIR and models, MLIR text for everything else."""
    return "tosa" if is_model(source) or format_of(source) in MLIR_FORMATS else "mlir"


# -- `convert --split-input-file`: each part of an MLIR text is a module ---------------------------

#: What a part without operations consists of.
_EMPTY: Final = re.compile(rb"(?:\s|//[^\n]*)*\Z")


def convert_parts(opened: Input, source: str, output: str | None, options: ConvertOptions) -> int:
    """Convert each part of a text; one that fails does not stop the others. Return the exit code."""
    refuse_inapplicable({"split_input_file"}, opened.where, read_from=opened.format)
    if not SPLIT_MARKER.search(opened.data):
        convert_one(opened, source, output, options)
        return 0
    codes: list[int] = []
    for number, part in parts_of(opened):
        try:
            target, file_format = _target(opened, source, output, number, options)
            if target == STANDARD and codes:
                say("// -----\n")
            convert_opened(part, target, file_format, options)
        except TosaConvertError as error:
            codes.append(report_failure(source, error))
        else:
            codes.append(0)
    note(f"{codes.count(0)} of {len(codes)} parts converted")
    return max(codes, default=0)


def parts_of(opened: Input) -> Iterator[tuple[int, Input]]:
    """Iterate over the non-empty parts of a text, with empty lines before each, which keep locations."""
    data, start = opened.data, 0
    ends = [*SPLIT_MARKER.finditer(data), None]
    for number, marker in enumerate(ends):
        end = len(data) if marker is None else marker.start()
        part = bytes(data[start:end])
        if not _EMPTY.match(part):
            lines = b"\n" * bytes(data[:start]).count(b"\n")
            yield number, opened._replace(data=memoryview(lines + part))
        start = len(data) if marker is None else marker.end()


def _target(
    opened: Input, source: str, output: str | None, number: int, options: ConvertOptions
) -> tuple[str, Format]:
    """Return the file for a part, NAME.0.tosa and so on, and its format."""
    if output is None or output == STANDARD:
        if options.to != "mlir":
            raise UsageError(
                "several parts need files: name them with -o NAME or -o DIR, or --to mlir"
            )
        return STANDARD, "mlir"
    output = file_for(output, source, options.to or default_format(opened.format))
    file_format = output_format(output, options)
    stem, extension = os.path.splitext(output)
    target = f"{stem}.{number}{extension}"
    if opened.path:
        refuse_same_file(opened.path, target)
    return target, file_format
