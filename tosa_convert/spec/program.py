"""What TOSA demands of a program as a whole.

Sources: what LLVM's TOSA dialect demands of functions and variables. It also refuses a !tosa.shape as
a result, which official tests return.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Finding
from tosa_convert.graph.model import block_path, operator_path, quoted
from tosa_convert.spec.values import TypeTable

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Graph, Operator

_CODE: Final = "invalid-operator"


def program_findings(graph: Graph) -> Iterator[Finding]:
    """The findings that belong to no single operator, or that need several regions.

    graph: `verify` finds nothing in it.
    """
    yield from _inputs(graph)
    yield from _variables(graph)
    yield from _missing_results(graph)


def _inputs(graph: Graph) -> Iterator[Finding]:
    """A program takes tensors: operators need sizes that are known before it runs."""
    main = graph.main
    where = block_path(graph.regions[0].name, main.name)
    for name in main.inputs:
        if name in main.shapes:
            expected = "a tensor; sizes come from CONST_SHAPE or DIM"
            message = f"input {quoted(name)} is a !tosa.shape; expected {expected}"
            yield Finding(_CODE, where, message, rule="program-input")


def _variables(graph: Graph) -> Iterator[Finding]:
    """A variable has one type, in all regions that declare it."""
    table = TypeTable()
    declared: dict[str, tuple[object, str]] = {}
    for where, block in graph.blocks():
        for tensor in block.tensors.values():
            if not tensor.variable:
                continue
            type_ = table.of_tensor(tensor, with_data=False)
            name = tensor.variable_name or tensor.name
            known, first = declared.setdefault(name, (type_, where))
            if known is not type_:
                message = f"variable {quoted(name)} is {type_}; expected {known}, as in {first}"
                place = f"{where} tensor {quoted(tensor.name)}"
                yield Finding(_CODE, place, message, rule="program-variable")


def _missing_results(graph: Graph) -> Iterator[Finding]:
    """An operator without results runs regions that return nothing. Its other rules need results."""
    blocks = {region.name: region.blocks[0] for region in graph.regions}
    for where, block in graph.blocks():
        for index, operator in enumerate(block.operators):
            if operator.spec.regions and not operator.outputs:
                yield from _returned(blocks, operator, operator_path(where, index, operator))


def _returned(blocks: dict[str, Block], operator: Operator, path: str) -> Iterator[Finding]:
    for row in operator.spec.regions:
        if row.name == "cond_graph":
            continue
        name = str(operator.attributes[row.name])
        count = len(blocks[name].outputs)
        if count:
            message = (
                f"region {quoted(name)} returns {count} values; expected none, as the results are"
            )
            yield Finding(_CODE, path, message, rule="program-results")
