"""`convert`: any format into any other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import click

from tosa_convert.cli.command import Verb, complete_file_name, option
from tosa_convert.cli.import_numpy import import_numpy
from tosa_convert.cli.input_shapes import input_shape_option, parsed
from tosa_convert.cli.shared_options import (
    consumer_option,
    func_option,
    jobs_option,
    limit_option,
    narrow_option,
    no_validate_option,
)
from tosa_convert.errors import TosaConvertError
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, is_saved_model, model_kind
from tosa_convert.io.options import (
    BYTECODE_VERSION,
    BYTECODE_VERSIONS,
    NAMES,
    WEIGHTS,
)

if TYPE_CHECKING:
    from tosa_convert.cli.convert_file import ConvertOptions


@click.command(
    cls=Verb,
    epilog="The input's format is recognised by its content, the output's by its extension or --to. "
    "Without IN, or with -, the input is standard input; without -o the output is standard output. "
    "Options that do not apply to the input or the output are refused.",
)
@click.argument("inputs", nargs=-1, type=click.Path(), metavar="[IN]...")
@option(
    "-o",
    "--output",
    type=click.Path(),
    help="A file or a directory; for several inputs a directory.",
)
@option(
    "--to",
    type=click.Choice(list(FORMATS)),
    help="Format of the output: "
    + ", ".join(f"{name} ({what})" for name, what in FORMATS.items())
    + ". By default what the extension says, else the other side: MLIR becomes tosa, "
    "everything else mlir.",
)
@option(
    "--export-to-flatbuffer",
    is_flag=True,
    excludes=("--import-from-flatbuffer",),
    help="MLIR in, a flatbuffer out; for pipes.",
)
@option("--import-from-flatbuffer", is_flag=True, help="A flatbuffer in, MLIR out; for pipes.")
@func_option
@option(
    "--names",
    section="Names and shapes",
    type=click.Choice(NAMES),
    default="retain",
    show_default=True,
    help="Keep the names that the module carries and generate the others, or generate all, as tosa-opt "
    "does.",
)
@option(
    "--tosa-version",
    type=click.Choice(["1.0", "1.1"]),
    help="Version to stamp; by default the lowest that expresses the function, and for a "
    "flatbuffer the one it has.",
)
@option(
    "--weights",
    section="Weights",
    type=click.Choice(list(WEIGHTS)),
    default="auto",
    show_default=True,
    help="Where constants are stored. embedded: in the flatbuffer; offset: appended after it; npy: .npy "
    "files beside it; auto: embedded up to 2 GiB.",
)
@option(
    "--bytecode-version",
    section="MLIR",
    type=click.Choice([*map(str, BYTECODE_VERSIONS)]),
    default=str(BYTECODE_VERSION),
    show_default=True,
    help="Version of the MLIR bytecode to write. Every MLIR reads version 1; attributes are properties "
    "since version 5.",
)
@option("--generic", section="MLIR", is_flag=True, help="Write MLIR text in generic form.")
@option("--no-locations", section="MLIR", is_flag=True, help="Write MLIR text without locations.")
@option(
    "--elide",
    section="MLIR",
    type=click.IntRange(min=0),
    metavar="N",
    help="Leave constants of more than N elements out of MLIR text, which then cannot be read back.",
)
@consumer_option
@narrow_option
@option(
    "--pass-captured",
    is_flag=True,
    help="Pass values that a region of MLIR uses from outside as operands of its control-flow "
    "operator, and copy constants into the region. Both are reported.",
)
@input_shape_option
@option(
    "--input-names",
    section="Names and shapes",
    multiple=True,
    metavar="NAME,...",
    help="Names for all arguments, in order: separated by commas, or one for each use of the option.",
)
@option(
    "--output-names",
    section="Names and shapes",
    multiple=True,
    metavar="NAME,...",
    help="Names for all results, in the same way.",
)
@option("--verify", is_flag=True, help="Read the result back and compare it bit for bit.")
@no_validate_option
@option(
    "--accept-changed-weights",
    section="Weights",
    is_flag=True,
    help="Accept .npy weights whose checksum is not the one in their manifest.",
)
@option(
    "--via",
    section="Framework models",
    default="",
    metavar="ROUTE",
    help="For a framework's model: another route to TOSA than the usual one. Quantised torch programs "
    "have integer arithmetic by way of executorch or litert-torch; litert-converter has a few functions "
    "of JAX that are refused otherwise.",
)
@option(
    "--python",
    section="Framework models",
    default="",
    metavar="PROGRAM",
    shell_complete=complete_file_name,
    help="For a framework's model: the Python that has the framework's packages; by default this one.",
)
@option(
    "--timeout",
    section="Framework models",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For a framework's model: the time that one run of its converter may take; half an hour by "
    "default.",
)
@option(
    "--partial",
    section="Framework models",
    is_flag=True,
    help="For a framework's model: if operators do not lower, write the rest as several programs, "
    "NAME.0.tosa and so on, and NAME.json, which says how they and the operators belong together.",
)
@option(
    "--check",
    section="Framework models",
    is_flag=True,
    help="For a framework's model: run it in the framework, run the program on the reference model, and "
    "compare the outputs. Exit code 1 if they differ.",
)
@option(
    "-i",
    "--input",
    "arrays",
    section="Framework models",
    multiple=True,
    metavar="[NAME=]FILE",
    shell_complete=complete_file_name,
    help="Inputs of --check: an .npz file with an array for each name, or NAME=FILE.npy. May be "
    "repeated.",
)
@option(
    "--random",
    section="Framework models",
    type=click.IntRange(0),
    metavar="SEED",
    help="The seed of the other inputs of --check; 0 by default.",
)
@jobs_option
@option(
    "--full-paths",
    section="MLIR",
    is_flag=True,
    help="Keep the folders of file names in locations.",
)
@limit_option
@click.version_option(package_name="tosa-convert")
def convert(inputs: tuple[str, ...], output: str | None, jobs: int, **given: Any) -> int:
    """Convert TOSA programs between MLIR text, MLIR bytecode, flatbuffers and JSON, and models to TOSA.

    IN may also be a model of TFLite, Keras, TensorFlow, torch, ONNX or JAX.
    """
    # Imported here so that --help does not wait for what reads and writes.
    from tosa_convert.io.files import STANDARD

    options = _options(given)
    paths = list(inputs) or [STANDARD]
    if len(paths) > 1 or (os.path.isdir(paths[0]) and not is_saved_model(paths[0])):
        if options.check or options.partial:
            flag = "--check" if options.check else "--partial"
            raise click.UsageError(f"{flag} is for one model; several inputs are given")
        import_numpy()
        from tosa_convert.cli.convert_files import convert_many

        return convert_many(paths, output, options, jobs)
    from tosa_convert.cli.convert_file import convert_one, open_source
    from tosa_convert.cli.load_graph import standard_data

    data = standard_data(options.read) if paths[0] == STANDARD else None
    if data is not None and (kind := model_kind(data)):
        from tosa_convert.cli.convert_model import convert_standard_model

        return convert_standard_model(data, kind, output, options)
    try:
        opened = open_source(paths[0], options, data)
    except TosaConvertError as error:
        from tosa_convert.cli.convert_model import convert_model_or_raise

        return convert_model_or_raise(error, paths[0], output, options)
    import_numpy()
    convert_one(opened, paths[0], output, options)
    return 0


def _options(given: dict[str, Any]) -> ConvertOptions:
    """Return the options as one value."""
    from tosa_convert.cli.convert_file import ConvertOptions
    from tosa_convert.io.options import (
        ReadOptions,
        WriteOptions,
        narrow_types,
    )

    limits = given["limits"]
    direction = _direction(given)
    names = given["names"]
    return ConvertOptions(
        read=ReadOptions(
            func=given["func"],
            names=names,
            full_paths=given["full_paths"],
            narrow=narrow_types(given["narrow"]),
            pass_captured=given["pass_captured"],
            input_shapes=parsed(given["input_shapes"]),
            accept_changed_weights=given["accept_changed_weights"],
            limits=limits,
        ),
        write=WriteOptions(
            weights=given["weights"],
            names=names,
            bytecode_version=int(given["bytecode_version"]),
            generic=given["generic"],
            locations=not given["no_locations"],
            elide=given["elide"],
            verify=given["verify"],
            validate=not given["no_validate"],
            limits=limits,
        ),
        to=given["to"],
        direction=direction,
        tosa_version=given["tosa_version"] or "",
        consumer=given["consumer"],
        input_names=_names(given["input_names"]),
        output_names=_names(given["output_names"]),
        via=given["via"],
        python=given["python"],
        timeout=given["timeout"],
        check=given["check"],
        partial=given["partial"],
        arrays=given["arrays"],
        random=given["random"],
    )


def _names(given: tuple[str, ...]) -> tuple[str, ...] | None:
    """Split names separated by commas.

    An option that is given once for each name may have commas in names.
    """
    if not given:
        return None
    return tuple(given[0].split(",")) if len(given) == 1 else given


def _direction(given: dict[str, Any]) -> Literal["", "export", "import"]:
    """Return the requested direction, which --to must not contradict."""
    to = given["to"]
    exports, imports = given["export_to_flatbuffer"], given["import_from_flatbuffer"]
    if exports and to in MLIR_FORMATS:
        raise click.UsageError(f"--export-to-flatbuffer does not write {FORMATS[to]}")
    if imports and to is not None and to not in MLIR_FORMATS:
        raise click.UsageError(f"--import-from-flatbuffer does not write {FORMATS[to]}")
    return "export" if exports else "import" if imports else ""
