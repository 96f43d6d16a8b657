"""Graph -> ir.Module, in the bindings of a context.

`mlir.write` encodes the graph as bytecode, which MLIR parses in one call. MLIR can abort the
process on malformed IR, so the graph must be sound. MLIR's own verifier runs before the module is
returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.constants import UNNAMED_RESOURCE, resource_alignment
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.formats.mlir.write.region_body import Body
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Graph, Tensor
from tosa_convert.graph.verify import NO_COLUMNS
from tosa_convert.io.options import DEFAULT_LIMITS, Constants, Limits, Names, WriteOptions

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns


def write(
    graph: Graph,
    bindings: Bindings,
    context: Any,
    *,
    names: Names = "retain",
    constants: Constants = "auto",
    limits: Limits = DEFAULT_LIMITS,
    columns: Mapping[str, BlockColumns] = NO_COLUMNS,
) -> Any:
    """Convert the graph to a module with one function, @main or the name of the first region."""
    options = WriteOptions(names=names, constants=constants, limits=limits)

    def module(context: Any, *, by_path: bool = False) -> Any:
        encoded = encode_module(graph, options, embed=False, by_path=by_path, columns=columns)
        parsed = bindings.ir.Module.parse(b"".join(encoded.pieces), context)
        if encoded.body.needed:
            function = next(islice(parsed.body.operations, encoded.variable_count, None))
            with context, bindings.ir.Location.unknown(context):
                _share(bindings.ir, context, encoded.body, function.regions[0].blocks[0])
        return parsed

    try:
        return module(context)
    except bindings.ir.MLIRError as error:
        from tosa_convert.formats.bindings.diagnostics import diagnostics

        refusal = diagnostics(bindings, error, "module")
    if not all(finding.where for finding in refusal.findings):
        # MLIR identifies operators by location, and these have none: repeat it with their paths.
        try:
            module(bindings.new_context(), by_path=True)
        except bindings.ir.MLIRError as error:
            raise diagnostics(bindings, error, "module") from None
    raise refusal


def _share(ir: Any, context: Any, body: Body, block: Any) -> None:
    """Give the constants that share the graph's memory their data."""
    pending = [(body, block)]
    while pending:
        body, block = pending.pop()
        left = len(body.shared) + sum(child.needed for child in body.children)
        children, inside = iter(body.children), []
        for operator, operation in zip(body.block.operators, block.operations, strict=False):
            if operator in body.shared:
                tensor, type_ = body.shared[operator], operation.results[0].type
                operation.attributes["values"] = _resource(ir, context, tensor, type_)
                left -= 1
            for number in range(len(operator.spec.regions)):
                child = next(children)
                if child.needed:
                    inside.append((child, operation.regions[number].blocks[0]))
                    left -= 1
            if not left:
                break
        pending += inside[::-1]


def _resource(ir: Any, context: Any, tensor: Tensor, type_: Any) -> Any:
    """Return a constant as a resource, which lives as long as the context."""
    data = tensor.data
    assert data is not None
    # Data that is not aligned (in a file it may not be) is copied.
    buffer: Any = data.buffer
    alignment = resource_alignment(data.dtype)
    raw = np.frombuffer(buffer, np.uint8)
    if raw.__array_interface__["data"][0] % alignment:
        buffer = raw.copy()
    return ir.DenseResourceElementsAttr.get_from_buffer(
        buffer,
        tensor.name or UNNAMED_RESOURCE,
        type_,
        alignment=alignment,
        is_mutable=False,
        context=context,
    )
