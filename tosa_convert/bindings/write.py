"""Graph -> ir.Module, in the bindings of the context it is given.

The module is written as bytecode, which MLIR parses in one call. MLIR can abort the process on
malformed IR, so nothing is written of a graph that `verify` refuses, and MLIR's own verifier runs
before the module is handed out.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Literal

import numpy as np

from tosa_convert.bindings.diagnostics import diagnostics
from tosa_convert.bindings.packages import Bindings
from tosa_convert.errors import lone_surrogate, refuse_unknown
from tosa_convert.graph.model import Graph, Tensor
from tosa_convert.graph.opset import VARIABLE
from tosa_convert.graph.versions import lowest_version, version_name
from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import HAS_ATTRIBUTES, HAS_REGIONS
from tosa_convert.mlir.function_writer import Body, FunctionWriter
from tosa_convert.mlir.kept import VERSION_ATTRIBUTE
from tosa_convert.mlir.writing.constants import Constants, resource
from tosa_convert.mlir.writing.variables import declared
from tosa_convert.options import DEFAULT_LIMITS, Limits


def write(
    graph: Graph,
    bindings: Bindings,
    context: Any,
    *,
    names: Literal["retain", "generate"] = "retain",
    constants: Constants = "auto",
    limits: Limits = DEFAULT_LIMITS,
) -> Any:
    """The graph as a module with one function: @main, or what the first region is called.

    names: "retain" keeps names that reading would not generate anyway, as discardable attributes
        (tosa.tensor_name, tosa.regions); "generate" keeps those of arguments and results only, as
        tosa-opt does.
    constants: "auto" shares the memory of large constants with the graph's buffers, which then live
        as long as the context; "dense" copies all; "resource" shares all that can be.

    limits: bounds the nesting of locations that become locations of MLIR; deeper ones become names.

    The graph must be sound (`verify`). Raises TosaConvertError with what MLIR's verifier says of it.
    """
    refuse_unknown("names", names, ("retain", "generate"))
    refuse_unknown("constants", constants, ("auto", "dense", "resource"))
    retain = names == "retain"
    try:
        return _module(graph, bindings, context, retain, constants, limits)
    except UnicodeEncodeError as error:
        raise lone_surrogate(error) from None
    except bindings.ir.MLIRError as error:
        refusal = diagnostics(bindings, error, "module")
    if not all(found.where for found in refusal.findings):
        # MLIR names operators by location, and these have none: say it again with their paths.
        try:
            _module(
                graph, bindings, bindings.new_context(), retain, constants, limits, by_path=True
            )
        except bindings.ir.MLIRError as error:
            raise diagnostics(bindings, error, "module") from None
    raise refusal


def _module(
    graph: Graph,
    bindings: Bindings,
    context: Any,
    retain: bool,
    constants: Constants,
    limits: Limits,
    *,
    by_path: bool = False,
) -> Any:
    """The module, in the context. Raises what MLIR raises."""
    # Each operator may have a location, a name and a dictionary.
    encoder = Encoder(4 * sum(len(block.operators) for _, block in graph.blocks()))
    writer = FunctionWriter(
        graph, encoder, retain=retain, constants=constants, by_path=by_path, limits=limits
    )
    variables = [_variable(writer, symbol, tensor) for symbol, tensor in declared(graph)]
    body = writer.function(graph.regions[0])
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
    module = bindings.ir.Module.parse(encoder.finish((*head, *variables, *body.joined())), context)
    if body.needed:
        function = next(islice(module.body.operations, len(variables), None))
        with context, bindings.ir.Location.unknown(context):
            _share(bindings.ir, context, body, function.regions[0].blocks[0])
    return module


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


def _share(ir: Any, context: Any, body: Body, block: Any) -> None:
    """Give the constants that share the graph's memory their data."""
    pending = [(body, block)]
    while pending:
        body, block = pending.pop()
        left = len(body.shared) + sum(child.needed for child in body.children)
        children, inside = iter(body.children), []
        for operator, operation in zip(body.block.operators, block.operations, strict=False):
            if operator in body.shared:
                tensor, kind = body.shared[operator], operation.results[0].type
                operation.attributes["values"] = resource(ir, context, tensor, kind)
                left -= 1
            for number in range(len(operator.spec.regions)):
                child = next(children)
                if child.needed:
                    inside.append((child, operation.regions[number].blocks[0]))
                    left -= 1
            if not left:
                break
        pending += inside[::-1]
