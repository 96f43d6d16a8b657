"""`convert`: any format into any other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from tosa_convert.cli.command import Verb
from tosa_convert.cli.option import ReadPath, complete_from
from tosa_convert.cli.shared_options import add_options, negated, option
from tosa_convert.io.options import BYTECODE_VERSION, BYTECODE_VERSIONS, FUNCTION_OPERATIONS, NAMES


def _routes() -> Iterable[str]:
    """Return the names of the other routes."""
    from tosa_convert.frontends.table import ROUTES

    return ROUTES


def _names(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Split names separated by commas.

    An option that is given once for each name may have commas in names.
    """
    if not given:
        return None
    return tuple(given[0].split(",")) if len(given) == 1 else given


@click.command(
    cls=Verb,
    epilog="The input's format is recognised by its content, the output's by its extension or --to. "
    "Without IN, or with -, the input is standard input; without -o the output is standard output. "
    "Options that do not apply to the input or the output are refused. `tosa-flatbuffer --help` lists "
    "the other verbs.",
)
@click.argument("paths", nargs=-1, type=ReadPath(), metavar="[IN]...")
@option("--output", more="For several inputs it is a folder.")
@option("--to", more="Otherwise MLIR becomes tosa, and everything else mlir.")
@option(
    "--export-to-flatbuffer",
    is_flag=True,
    excludes=("--import-from-flatbuffer",),
    help="MLIR in, a flatbuffer out; for pipes.",
)
@option("--import-from-flatbuffer", is_flag=True, help="A flatbuffer in, MLIR out; for pipes.")
@option(
    "--split-input-file",
    is_flag=True,
    help="Convert each part of an MLIR text between lines of // ----- as a module of its own, into "
    "NAME.0.tosa and so on. A part that fails does not stop the others.",
)
@option(
    "--names",
    type=click.Choice(NAMES),
    default="retain",
    help="Keep the names that the module carries and generate the others (retain, the default), or "
    "generate all, as tosa-opt does.",
)
@option(
    "--tosa-version",
    type=click.Choice(["1.0", "1.1"]),
    callback=lambda ctx, param, text: text or "",
    help="Version to stamp; by default the lowest that expresses the function, and for a flatbuffer "
    "the one it has.",
)
@option(
    "--bytecode-version",
    type=click.Choice([*map(str, BYTECODE_VERSIONS)]),
    default=str(BYTECODE_VERSION),
    metavar="N",
    callback=lambda ctx, param, text: int(text),
    help=f"Version of the MLIR bytecode to write, {BYTECODE_VERSIONS[0]} to {BYTECODE_VERSIONS[-1]}. "
    f"Every MLIR reads version {BYTECODE_VERSION}, the default; attributes are properties since "
    "version 5.",
)
@option(
    "--function-op",
    type=click.Choice(FUNCTION_OPERATIONS),
    default=FUNCTION_OPERATIONS[0],
    help="The operation of MLIR that holds the program; func.func unless another is asked for. With "
    "ml_program.func variables are globals of ml_program. A subgraph has no order of operations, and so "
    "no variables.",
)
@option("--generic", is_flag=True, help="Write MLIR text in generic form.")
@option(
    "--no-locations",
    "locations",
    is_flag=True,
    callback=negated,
    help="Write MLIR text without locations.",
)
@option(
    "--elide",
    type=click.IntRange(min=0),
    metavar="N",
    help="Leave constants of more than N elements out of MLIR text, which then cannot be read back.",
)
@option("--full-paths", is_flag=True, help="Keep the folders of file names in locations.")
@option(
    "--input-names",
    multiple=True,
    callback=_names,
    metavar="NAMES",
    help="Names for all arguments, in order: separated by commas, or one for each use of the option.",
)
@option(
    "--output-names",
    multiple=True,
    callback=_names,
    metavar="NAMES",
    help="Names for all results, in the same way.",
)
@option("--for", "consumer", more="The output gets a form that it opens; the rest is refused.")
@option(
    "--via",
    default="",
    metavar="ROUTE",
    shell_complete=complete_from(_routes),
    help="Another route to TOSA than the usual one. Quantised torch programs have integer arithmetic "
    "by way of executorch. extension:NAME is a frontend of another package, for any file.",
)
@option(
    "--exact",
    is_flag=True,
    help="Keep every rounding of the model: no normalisation becomes part of the convolution before it.",
)
@option(
    "--partial",
    is_flag=True,
    help="If operators do not lower, write the rest as several programs, NAME.0.tosa and so on, and "
    "NAME.json, which says how they and the operators belong together.",
)
@option(
    "--check",
    is_flag=True,
    help="Run the model in its framework and the program on the reference model, and compare the "
    "outputs. Exit code 1 if they differ.",
)
@option(
    "--random-weights",
    is_flag=True,
    help="Make a model that is named by its library, such as timm:resnet50, from its configuration, "
    "without its trained weights and without a download.",
)
@option("--input", more="They are for --check.")
@option("--random", more="They are for --check; 0 by default.")
@option("--engine", more="It is for --check.")
@option("--timeout", default=None, more="Half an hour by default.")
@add_options("--verify --no-validate --weights --accept-changed-weights --jobs --python --limit")
@add_options("--func --input-shape --narrow --pass-captured")
@click.version_option(package_name="tosa-convert")
def convert(**given: Any) -> int:
    """Convert programs between formats, and framework models to TOSA.

    The formats are MLIR text, MLIR bytecode, TOSA flatbuffers and their JSON. IN may also be a model of
    TFLite, Keras, TensorFlow, torch, ONNX or JAX, or the name of one: timm:NAME, torchvision:NAME,
    hf:ORG/MODEL, keras:NAME.
    """
    # Imported here so that --help does not wait for what reads and writes.
    from tosa_convert.cli import convert_work

    return convert_work.convert(**given)
