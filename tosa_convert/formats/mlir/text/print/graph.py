"""A graph as MLIR's text, without MLIR.

The mapping from graphs to MLIR exists once, as bytecode; its sections are printed from memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.file_sections import sections_in_pieces
from tosa_convert.formats.mlir.text.print.module import module_text
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.graph.model import Graph
from tosa_convert.graph.verify import NO_COLUMNS
from tosa_convert.io.options import DEFAULT_LIMITS, Limits, Names

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns


def write(
    graph: Graph,
    *,
    names: Names = "retain",
    generic: bool = False,
    locations: bool = True,
    elide: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    columns: Mapping[str, BlockColumns] = NO_COLUMNS,
    state: str = "",
) -> Iterator[bytes]:
    """Iterate over the pieces of the text, which do not grow with the constants.

    Args:
        graph: a sound graph: `verify` finds nothing in it.
        names: see `mlir.module_writer.encode_module`.
        generic: see `mlir.text.printer.module_text`; so are locations and elide.
        locations: whether operations have their locations.
        elide: constants of more elements than this are left out; None for none.
        limits: `location_depth` is used.
        columns: see `mlir.module_writer.encode_module`.
        state: see there, too; the text for an older MLIR is generic.

    Raises:
        TosaConvertError: MLIR cannot express the graph.
    """
    pieces = encode_module(graph, names=names, limits=limits, columns=columns, state=state).pieces
    bytecode = Bytecode(sections_in_pieces(pieces))
    return module_text(
        bytecode, generic=generic, locations=locations, elide=elide, older=bool(state)
    )
