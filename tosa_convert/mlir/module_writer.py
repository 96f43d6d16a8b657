"""A graph as the bytecode of an MLIR module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tosa_convert.graph.model import Graph, Tensor
from tosa_convert.graph.opset import VARIABLE
from tosa_convert.graph.versions import lowest_version, version_name
from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import HAS_ATTRIBUTES, HAS_REGIONS
from tosa_convert.mlir.function_writer import Body, FunctionWriter
from tosa_convert.mlir.names import VERSION_ATTRIBUTE
from tosa_convert.mlir.variables import declared_variables
from tosa_convert.options import DEFAULT_LIMITS, Constants, Limits, Names


@dataclass(frozen=True, slots=True)
class EncodedModule:
    """A module as bytecode.

    body: the function's region; its `shared` constants are resources without data in the bytecode.
    variable_count: operations of the module before the function.
    """

    bytecode: bytes
    body: Body
    variable_count: int


def encode_module(
    graph: Graph,
    *,
    names: Names = "retain",
    constants: Constants = "auto",
    by_path: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> EncodedModule:
    """The graph as a module with one function. It must be sound: `graph.verify` finds nothing.

    by_path: locate operators by their path in the graph, for messages, instead of their location.

    Raises TosaConvertError for what MLIR cannot express, and UnicodeEncodeError for text that is not
    Unicode. See `bindings.write.write` for the other arguments.
    """
    retain = names == "retain"
    # Each operator may have a location, a name and a dictionary.
    encoder = Encoder(4 * sum(len(block.operators) for _, block in graph.blocks()))
    writer = FunctionWriter(
        graph,
        encoder,
        retain=retain,
        constants=constants,
        by_path=by_path,
        limits=limits,
    )
    variables = [_variable(writer, symbol, tensor) for symbol, tensor in declared_variables(graph)]
    body = writer.function()
    numbers, string = encoder.numbers, encoder.string_attribute
    version = graph.version
    stamp = f"{version.major}.{version.minor}.{version.patch}{'d' if version.draft else ''}"
    attributes = {
        "tosa.description": string("TOSA FBS Converted"),
        "tosa.fbs_version": string(stamp),
    }
    if retain and version > lowest_version(graph):
        attributes[VERSION_ATTRIBUTE] = string(version_name(version))
    head = (
        encoder.operation("builtin.module"),
        bytes((HAS_ATTRIBUTES | HAS_REGIONS,)),
        encoder.unknown,
        encoder.dictionary(attributes.items()),
        numbers[1 << 1 | 1],
        # One region with one block, which has neither values nor arguments.
        numbers[1],
        numbers[0],
        numbers[(len(variables) + 1) << 1],
    )
    bytecode = encoder.finish((*head, *variables, *body.joined()))
    return EncodedModule(bytecode, body, len(variables))


def _variable(writer: FunctionWriter, symbol: str, tensor: Tensor) -> bytes:
    """The operation that declares a variable."""
    encoder = writer.encoder
    sizes = [size if size > 0 else -1 for size in tensor.shape or ()]
    attributes = {
        "sym_name": encoder.string_attribute(symbol),
        "var_shape": writer.constants.sizes(np.array(sizes, "<i8").tobytes()),
        "type": writer.attributes.type(writer.types.element(tensor.dtype)),
    }
    if tensor.data is not None:
        attributes["initial_value"] = writer.constants.dense(tensor)
    head = encoder.operation(VARIABLE.mlir) + bytes((HAS_ATTRIBUTES,)) + encoder.unknown
    return head + encoder.dictionary(attributes.items())
