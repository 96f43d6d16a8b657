"""The work of `convert` and `repack`: what their parameters ask for."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any, Literal

from tosa_convert.cli.convert_file import (
    ConvertOptions,
    convert_one,
    convert_opened,
    open_source,
    output_format,
)
from tosa_convert.cli.messages import UsageError, standard_data
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.io.files import STANDARD, refuse_same_file
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, is_saved_model, model_kind
from tosa_convert.io.options import ReadOptions, WriteOptions


def convert(*, paths: tuple[str, ...], output: str | None, jobs: int, **given: Any) -> int:
    """Do the work of `convert`; the arguments are its parameters. Returns the exit code."""
    options = _options(given)
    sources = list(paths) or [STANDARD]
    if options.split_input_file:
        from tosa_convert.cli.convert_files import convert_parts

        if len(sources) > 1 or options.check or options.partial:
            raise UsageError(
                "--split-input-file is for one MLIR text, without --check and --partial"
            )
        data = standard_data(options.read) if sources[0] == STANDARD else None
        return convert_parts(open_source(sources[0], options, data), sources[0], output, options)
    if len(sources) > 1 or (os.path.isdir(sources[0]) and not is_saved_model(sources[0])):
        if options.check or options.partial:
            flag = "--check" if options.check else "--partial"
            hint = "; `suite DIR --frontends tflite` checks many" if options.check else ""
            raise UsageError(f"{flag} is for one model; several inputs are given{hint}")
        from tosa_convert.cli.convert_files import convert_many
        from tosa_convert.graph.lazy_numpy import import_numpy

        import_numpy()

        return convert_many(sources, output, options, jobs)
    data = standard_data(options.read) if sources[0] == STANDARD else None
    if data is not None and (kind := model_kind(data)):
        from tosa_convert.cli.convert_model import convert_standard_model

        return convert_standard_model(data, kind, output, options)
    try:
        opened = open_source(sources[0], options, data)
    except TosaConvertError as error:
        from tosa_convert.cli.convert_model import convert_model_or_raise

        return convert_model_or_raise(error, sources[0], output, options)
    convert_one(opened, sources[0], output, options)
    return 0


def _options(given: dict[str, Any]) -> ConvertOptions:
    names = [row.name for row in fields(ConvertOptions)]
    return ConvertOptions(
        read=ReadOptions.of(given),
        write=WriteOptions.of(given),
        direction=_direction(given),
        **{name: given[name] for name in names if given.get(name) is not None},
    )


def _direction(given: dict[str, Any]) -> Literal["", "export", "import"]:
    """Return the requested direction, which --to must not contradict."""
    to = given["to"]
    exports, imports = given["export_to_flatbuffer"], given["import_from_flatbuffer"]
    if exports and to in MLIR_FORMATS:
        raise UsageError(f"--export-to-flatbuffer does not write {FORMATS[to]}")
    if imports and to is not None and to not in MLIR_FORMATS:
        raise UsageError(f"--import-from-flatbuffer does not write {FORMATS[to]}")
    return "export" if exports else "import" if imports else ""


def repack(*, source: str, output: str, consumer: str | None, **given: Any) -> None:
    """Do the work of `repack`; the arguments are its parameters."""
    options = ConvertOptions(
        read=ReadOptions.of(given), write=WriteOptions.of(given), to=given["to"], consumer=consumer
    )
    opened = open_source(source, options)
    file_format = output_format(output, options, opened.format)
    if opened.is_mlir or file_format in MLIR_FORMATS:
        message = (
            "repack is for flatbuffers and their JSON, "
            f"found {FORMATS[opened.format]} -> {FORMATS[file_format]}"
        )
        raise fail("option-conflict", source, message, "use convert")
    refuse_same_file(source, output)
    convert_opened(opened, output, file_format, options)
