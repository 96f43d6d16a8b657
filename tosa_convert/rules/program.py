"""What TOSA demands of a program as a whole.

Sources: what LLVM's TOSA dialect demands of functions and variables. It also refuses a !tosa.shape as
a result, which official tests return.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Finding
from tosa_convert.graph.model import block_path, located, operator_path, quoted
from tosa_convert.rules.values import TensorType, TypeTable

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Graph, Operator

_CODE: Final = "invalid-operator"


def program_findings(graph: Graph) -> Iterator[Finding]:
    """Report the findings that belong to no single operator, or that need several regions.

    graph: `verify` finds nothing in it.
    """
    yield from _inputs(graph)
    for where, name, type_ in unjudged_inputs(graph):
        if type_.shape is not None and 0 in type_.shape:
            message = f"input {quoted(name)} is {type_}; expected sizes of 1 or more"
            yield Finding(_CODE, where, message, rule="program-input-size")
    yield from _variables(graph)
    yield from _missing_results(graph)


def unused_values(graph: Graph) -> Iterator[Finding]:
    """Yield a finding for each tensor or shape that no operator of its block makes or uses.

    A variable counts in all blocks together. Source: the reference model refuses such a program. Its
    writers do not, because a file keeps the value and MLIR leaves it out.
    """
    used = {where: _used(block) for where, block in graph.blocks()}
    variables = {
        tensor.variable_name or name
        for where, block in graph.blocks()
        for name, tensor in block.tensors.items()
        if tensor.variable and name in used[where]
    }
    for where, block in graph.blocks():
        for kind, names in (("tensor", block.tensors), ("shape", block.shapes)):
            for name in names:
                tensor = block.tensors.get(name)
                if tensor is not None and tensor.variable:
                    is_used = (tensor.variable_name or name) in variables
                else:
                    is_used = name in used[where]
                if not is_used:
                    place = f"{where} {kind} {quoted(name)}"
                    message = (
                        f"no operator makes or uses it; expected a program without this {kind}"
                    )
                    yield Finding(_CODE, place, message, rule="program-unused-value")


def _used(block: Block) -> set[str]:
    """Return the values that operators of a block make or use, or that it takes."""
    used = {name for operator in block.operators for name in (*operator.inputs, *operator.outputs)}
    return used.union(block.inputs)


def unjudged_inputs(graph: Graph) -> Iterator[tuple[str, str, TensorType]]:
    """Yield the tensors that blocks take and no operator uses, whose types no other rule judges.

    Each has the path of its block, its name and its type.
    """
    table = TypeTable()
    for where, block in graph.blocks():
        unused = dict.fromkeys(name for name in block.inputs if name in block.tensors)
        for operator in block.operators:
            if not unused:
                break
            for name in operator.inputs:
                unused.pop(name, None)
        for name in unused:
            yield where, name, table.of_tensor(block.tensors[name], with_data=False)


def _inputs(graph: Graph) -> Iterator[Finding]:
    """Check that a program takes tensors: operators need sizes that are known before it runs."""
    main = graph.main
    where = block_path(graph.regions[0].name, main.name)
    for name in main.inputs:
        if name in main.shapes:
            expected = "a tensor; sizes come from CONST_SHAPE or DIM"
            message = f"input {quoted(name)} is a !tosa.shape; expected {expected}"
            yield Finding(_CODE, where, message, rule="program-input")


def _variables(graph: Graph) -> Iterator[Finding]:
    """Check that a variable has one type, in all regions that declare it."""
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
    """Check that an operator without results runs regions that return nothing.

    Its other rules need results.
    """
    blocks = {region.name: region.blocks[0] for region in graph.regions}
    for where, block in graph.blocks():
        for index, operator in enumerate(block.operators):
            if operator.spec.regions and not operator.outputs:
                path = located(operator_path(where, index, operator), operator)
                yield from _returned(blocks, operator, path)


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
