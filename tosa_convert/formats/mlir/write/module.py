"""A graph as the bytecode of an MLIR module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.errors import fail, lone_surrogate
from tosa_convert.formats.mlir.bytecode.attributes import TensorType
from tosa_convert.formats.mlir.bytecode.encode import Encoder, Piece
from tosa_convert.formats.mlir.bytecode.format import HAS_REGIONS
from tosa_convert.formats.mlir.names import NAME_ATTRIBUTE, VERSION_ATTRIBUTE, quote
from tosa_convert.formats.mlir.types import TARGET_ENV, text_of
from tosa_convert.formats.mlir.variables import declared_variables, variable_name
from tosa_convert.formats.mlir.write.function import GLOBAL, SUBGRAPH, FunctionWriter
from tosa_convert.formats.mlir.write.region_body import Body
from tosa_convert.graph.model import Graph, Tensor
from tosa_convert.graph.opset import VARIABLE
from tosa_convert.graph.verify import NO_COLUMNS
from tosa_convert.graph.versions import lowest_version, version_name
from tosa_convert.io import log
from tosa_convert.io.options import WriteOptions

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns

#: The scope of parameters, which IREE's tools take as `--parameters=model=FILE`.
PARAMETER_SCOPE: Final = "model"
_WRITE_OPTIONS: Final = WriteOptions()


class EncodedModule(NamedTuple):
    """A module as bytecode.

    pieces: the bytes of the file, in order; `in_order` makes data of them. Large data is a view of the
        graph's memory.
    body: the function's region; its `shared` constants are resources without data in the bytecode.
    variable_count: operations of the module before the function.
    """

    pieces: list[Piece]
    body: Body
    variable_count: int


def encode_module(
    graph: Graph,
    options: WriteOptions = _WRITE_OPTIONS,
    *,
    embed: bool = True,
    by_path: bool = False,
    columns: Mapping[str, BlockColumns] = NO_COLUMNS,
    state: str = "",
) -> EncodedModule:
    """Encode the graph as a module with one function. It must be sound: `graph.verify` finds nothing."""
    encoder = Encoder(options.bytecode_version)
    make: Callable[..., FunctionWriter] = FunctionWriter
    if state:
        from tosa_convert.formats.mlir.write.older_function import OlderFunctionWriter

        options, columns = replace(options, constants="dense"), NO_COLUMNS
        make = partial(OlderFunctionWriter, state=state)
    try:
        writer = make(graph, encoder, options, embed=embed, by_path=by_path, columns=columns)
        variables = [
            _variable(writer, number, symbol, tensor)
            for number, (symbol, tensor) in enumerate(declared_variables(graph))
        ]
        if variables and options.function_op == SUBGRAPH:
            message = f"{SUBGRAPH} has no order of operations, and the program has variables"
            raise fail("option-conflict", "function_op", message, "write ml_program.func")
        body = writer.function()
        variables += [
            _parameter(writer, number, name) for number, name in enumerate(writer.parameters)
        ]
        module = _module(writer, [*variables, *body.encoding()], len(variables) + 1, state)
        return EncodedModule(encoder.finish(module), body, len(variables))
    except UnicodeEncodeError as error:
        raise lone_surrogate(error) from None


def _module(writer: FunctionWriter, operations: list[bytes], count: int, state: str) -> list[bytes]:
    graph, encoder = writer.graph, writer.encoder
    numbers, string = encoder.numbers, encoder.string_attribute
    version = graph.version
    stamp = f"{version.major}.{version.minor}.{version.patch}{'d' if version.draft else ''}"
    attributes = {
        "tosa.description": string("TOSA FBS Converted"),
        "tosa.fbs_version": string(stamp),
    }
    if writer.retain and version > lowest_version(graph):
        attributes[VERSION_ATTRIBUTE] = string(version_name(version))
    if graph.target is not None and state:
        log.warning("the target %s is not written: an older MLIR does not have it", graph.target)
    elif graph.target is not None:
        text = text_of(graph.target, version)
        if text is None:
            log.warning(
                "the target %s is not written: MLIR cannot read one without extensions",
                graph.target,
            )
        else:
            attributes[TARGET_ENV] = encoder.attributes.text(text)
    # One region with one block, which has neither values nor arguments.
    region = [numbers[1], numbers[0], numbers[count << 1], *operations]
    name = encoder.operation("builtin.module")
    has, encoded = encoder.attributes_of("builtin.module", (), tuple(attributes.items()))
    regions = encoder.isolated_regions(1, sum(map(len, region)))
    return [name, bytes((has | HAS_REGIONS,)), encoder.unknown, encoded, regions, *region]


def _parameter(writer: FunctionWriter, number: int, name: str) -> bytes:
    """Encode a global of IREE, whose data is the parameter that has the name of a tensor."""
    encoder = writer.encoder
    tensor = next(
        block.tensors[name]
        for _, block in writer.graph.blocks()
        if name in block.tensors and block.tensors[name].data is None
    )
    attributes = {
        "sym_name": encoder.string_attribute(f"parameter_{number}"),
        "sym_visibility": encoder.string_attribute("private"),
        "type": writer.attributes.type(writer.types.tensor(tensor)),
        "initial_value": encoder.attributes.text(
            f'#stream.parameter.named<"{PARAMETER_SCOPE}"::{quote(name.encode())}>'
            f" : {TensorType(tensor.shape, tensor.dtype.mlir)}"
        ),
    }
    has, encoded = encoder.attributes_of("util.global", tuple(attributes.items()))
    return encoder.operation("util.global") + bytes((has,)) + encoder.unknown + encoded


def _variable(writer: FunctionWriter, number: int, symbol: str, tensor: Tensor) -> bytes:
    encoder = writer.encoder
    attributes = writer.variable_attributes(symbol, tensor)
    names: tuple[tuple[str, bytes], ...] = ()
    if writer.retain and tensor.name != variable_name(number):
        names = ((NAME_ATTRIBUTE, encoder.string_attribute(tensor.name)),)
    name = GLOBAL if writer.has_globals else VARIABLE.mlir
    has, encoded = encoder.attributes_of(name, tuple(attributes.items()), names)
    return encoder.operation(name) + bytes((has,)) + encoder.unknown + encoded
