"""`convert` of a framework's model."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from tosa_convert.cli.convert_file import (
    FLAGS_OF_DIRECTIONS,
    ConvertOptions,
    applicable,
    file_for,
    for_reader,
    output_format,
    refuse_terminal,
    renamed,
    write_output,
)
from tosa_convert.cli.messages import StageDisplay, note, say
from tosa_convert.errors import TosaConvertError, fail, printable
from tosa_convert.extensions import is_extension
from tosa_convert.formats.write import stamp
from tosa_convert.frontends.lower_model import WANTED, FrontendOptions, lowered, lowered_in_parts
from tosa_convert.frontends.process.request import scale_text
from tosa_convert.frontends.process.run import TIMEOUT
from tosa_convert.frontends.table import Recognised, on_route, recognize
from tosa_convert.io import log
from tosa_convert.io.files import (
    STANDARD,
    create_locked,
    file_error,
    refuse_same_file,
    release,
    replace_file,
    temporary_path,
)
from tosa_convert.io.options import WEIGHT_FORMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tosa_convert.frontends.partial import Parts
    from tosa_convert.frontends.process.request import Interface
    from tosa_convert.graph.model import Graph
    from tosa_convert.io.formats import Format
    from tosa_convert.io.options import WriteOptions


#: Frontend -> the extension of its files, where converters look at it.
_EXTENSIONS: Final = {"torch": "pt2"}


def convert_model_or_raise(
    error: TosaConvertError, source: str, output: str | None, options: ConvertOptions
) -> int:
    """Convert an input as a model of a framework, or raise `error` if it is none."""
    unread = error.code in ("unrecognised-input", "file-error")
    model = recognize(source) if unread else None
    if is_extension(options.via) and os.path.exists(source):
        model = Recognised(options.via, os.path.abspath(source), source)
    if model is None:
        raise error
    return convert_model(model, source, output, options)


def convert_standard_model(
    data: memoryview, kind: str, output: str | None, options: ConvertOptions
) -> int:
    """Convert a framework's model from standard input; converters read files. kind: its frontend."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"stdin.{_EXTENSIONS.get(kind, kind)}")
        replace_file(path, [data])
        return convert_model(Recognised(kind, path, "<stdin>"), STANDARD, output, options)


def convert_model(
    model: Recognised, source: str, output: str | None, options: ConvertOptions
) -> int:
    """Convert a model, as the user named it, into a file; return 1 if --check sees a difference."""
    _refuse_direction(model, source, options)
    _refuse_for_check(options)
    if output == STANDARD:
        output = None
    if options.partial:
        _refuse_with_parts(output, options)
    if output is None:
        file_format: Format = options.to or "tosa"
        refuse_terminal(file_format)
    else:
        named = source if source == STANDARD else os.path.normpath(model.path)
        output = file_for(output, named, options.to or "tosa")
        if not model.library:
            refuse_same_file(model.path, output)
        file_format = output_format(output, options)
    write_options = applicable("model", source, file_format, options)
    wanted = FrontendOptions(
        via=options.via,
        python=options.python,
        timeout=TIMEOUT if options.timeout is None else options.timeout,
        read=options.read,
        options=WANTED if options.check else {},
        random_weights=options.random_weights,
        progress=StageDisplay(os.path.basename(source)),
    )
    if options.partial and output is not None:
        made = lowered_in_parts(model, wanted)
        write_parts(made, source, output, file_format, write_options, options)
        return 0
    route = on_route(model.frontend, options.via)
    machine = None
    if options.check:
        from tosa_convert.cli.convert_check import begin_check, check_model

        machine = begin_check(route.name, route.runtime, options)
    with lowered(model, wanted) as found:
        graph = renamed(stamp(found.graph, options.tosa_version), options)
        exit_code = 0
        if machine is not None:
            graph = for_reader(graph, file_format, options)
            from tosa_convert.graph.verify import refuse_unsound
            from tosa_convert.rules.public import refuse_invalid

            if write_options.validate:  # The reference refuses it too, and names no rule.
                refuse_unsound(graph)
                refuse_invalid(graph)
            with log.timed("checking it"):
                result = check_model(graph, route.name, found, options, machine)
            exit_code = result.exit_code
            # Standard output may be the program.
            say(str(result), err=output is None)
        with _refusal_after_verdict(output, options), log.timed("writing it"):
            write_output(graph, output or STANDARD, file_format, write_options, options)
        _note_interface(graph, found.interface, route.runtime)
    return exit_code


def _note_interface(graph: Graph, interface: Interface, runtime: str) -> None:
    """Say what a user of a TFLite model's program needs to know of scales, which TOSA does not hold."""
    if runtime not in ("tflite", "keras", "tensorflow"):
        return
    main = graph.main
    rows = (("input", main.inputs, interface.inputs), ("output", main.outputs, interface.outputs))
    for role, names, values in rows:
        for name, value in zip(names, values, strict=False):
            if value.scale is not None:
                text = scale_text(value.scale, value.zero_point)
                note(f"{role} {name}: {value.dtype}, {text}; the program does not hold them")
            elif value.dtype.startswith("uint"):
                signed = value.dtype.removeprefix("u")
                note(f"{role} {name}: {value.dtype}; the program has its bits as {signed}")


@contextlib.contextmanager
def _refusal_after_verdict(output: str | None, options: ConvertOptions) -> Iterator[None]:
    """Say on the last line that no file was written: --for may refuse a program after --check passed."""
    try:
        yield
    except TosaConvertError as error:
        if not options.check or error.code != "unsupported-by-reader":
            raise
        stays = output is not None and os.path.exists(output)
        what = "the program" if output is None else printable(output)
        text = f"{what} was not written" + ("; the file there is an older one" if stays else "")
        *others, last = error.findings
        last = replace(last, hint=f"{last.hint}\n{text}" if last.hint else text)
        raise TosaConvertError([*others, last]) from None


def _refuse_for_check(options: ConvertOptions) -> None:
    if not options.check and {"arrays", "random", "engine"} & options.given():
        raise click.UsageError("--input, --random and --engine are for --check")
    if options.check and is_extension(options.via):
        message = f"--check knows no framework that runs models for {options.via}"
        raise fail("option-conflict", "--check", message, "leave it out, and use `check --against`")


def _refuse_direction(model: Recognised, source: str, options: ConvertOptions) -> None:
    if options.direction:
        flag = FLAGS_OF_DIRECTIONS[options.direction]
        message = f"{flag} reads programs, found a model for {model.frontend}"
        hint = "leave the option out to convert between any two formats"
        raise fail("unrecognised-input", source, message, hint)


def _refuse_with_parts(output: str | None, options: ConvertOptions) -> None:
    """Refuse the options that several programs cannot have."""
    if output is None:
        raise click.UsageError("--partial writes several files: name the output with -o FILE")
    for given, flag in (
        (options.check, "--check"),
        (options.input_names is not None, "--input-names"),
        (options.output_names is not None, "--output-names"),
        (options.write.weights in WEIGHT_FORMS, f"--weights {options.write.weights}"),
    ):
        if given:
            message = f"{flag} concerns one program, and the model may become several"
            raise fail("option-conflict", "--partial", message, "leave one of the two out")


# -- `convert --partial`: a model of which some operators do not lower, as several programs --------


def write_parts(
    made: Graph | Parts,
    source: str,
    output: str,
    file_format: Format,
    write_options: WriteOptions,
    options: ConvertOptions,
) -> None:
    """Write programs as NAME.0.tosa, ..., and last NAME.json, which joins them; one as one file."""
    from tosa_convert.graph.model import Graph

    if isinstance(made, Graph):
        graph = stamp(made, options.tosa_version)
        write_output(graph, output, file_format, write_options, options)
        return
    folder = os.path.dirname(output) or "."
    stem, extension = os.path.splitext(os.path.basename(output))
    programs = [f"{stem}.{number}{extension}" for number in range(len(made.programs))]
    constants = [f"{stem}.constants.npz"] if made.constants else []
    interface = f"{stem}.json"
    scratch = temporary_path(os.path.join(folder, stem))
    try:
        _, lock = create_locked(scratch, lambda: os.mkdir(scratch))
    except OSError as error:
        raise file_error(folder, error, "written") from None
    try:
        for name, program in zip(programs, made.programs, strict=True):
            graph = stamp(program, options.tosa_version)
            target = os.path.join(scratch, name)
            write_output(graph, target, file_format, write_options, options)
        for name in constants:
            _save_arrays(os.path.join(scratch, name), made.constants)
        rows = made.interface(programs, constants[0] if constants else None, source)
        text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
        replace_file(os.path.join(scratch, interface), [text.encode()])
        for name in (*programs, *constants, interface):
            _move(os.path.join(scratch, name), os.path.join(folder, name))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        release(lock)
    note("\n".join(map(printable, _report(made, programs, interface))))


def _save_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Write an .npz file. `numpy.savez` does not take every name, and writes the time of day."""
    import numpy as np

    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                    np.save(file, array, allow_pickle=False)
    except OSError as error:
        raise file_error(path, error, "written") from None


def _move(source: str, target: str) -> None:
    try:
        os.replace(source, target)
    except OSError as error:
        raise file_error(target, error, "written") from None


def _report(parts: Parts, programs: list[str], interface: str) -> list[str]:
    """Return what was written, and what was left out, for people."""
    count = len(programs)
    made = f"{count} programs ({', '.join(programs)})" if count > 1 else "".join(programs)
    left = len(parts.operators)
    head = f"{interface}: {made or 'no program'}; "
    head += "1 operator is" if left == 1 else f"{left} operators are"
    return [
        f"{head} left to the caller:",
        *(
            f"  {one.operator} ({one.where})" if one.where else one.operator
            for one in parts.operators
        ),
    ]
