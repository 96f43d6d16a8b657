"""Many programs as one, and a program whose operators each take their operands as inputs.

The reference model then computes hundreds of operators in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tosa_convert.golden.arrays import Array
from tosa_convert.graph.model import Block, Graph, Operator, Region, ShapeValue, Tensor
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE, VARIABLE_WRITE

#: After the name of a tensor that is an input now: its result.
RESULT = "@result"


def prefix_of(index: int) -> str:
    """Return what the names of a program begin with in a merged one."""
    return f"p{index}/"


def merge(graphs: Sequence[Graph]) -> Graph:
    """Return one program that computes all of some programs, each under a prefix."""
    main = Block("main")
    regions: list[Region] = []
    for index, graph in enumerate(graphs):
        prefix = prefix_of(index)
        first, *others = [_renamed(region, prefix) for region in graph.regions]
        block = first.blocks[0]
        main.inputs += block.inputs
        main.outputs += block.outputs
        main.operators += block.operators
        main.tensors |= block.tensors
        main.shapes |= block.shapes
        regions += others
    version = max(graph.version for graph in graphs)
    return Graph(version, [Region("main", [main]), *regions])


def merged_arrays(given: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return the inputs of a merged program."""
    return {
        prefix_of(index) + key: array
        for index, arrays in enumerate(given)
        for key, array in arrays.items()
    }


def _renamed(region: Region, prefix: str) -> Region:
    return Region(prefix + region.name, [_renamed_block(block, prefix) for block in region.blocks])


def _renamed_block(block: Block, prefix: str) -> Block:
    def names(given: Sequence[str]) -> list[str]:
        return [prefix + name for name in given]

    def operator(op: Operator) -> Operator:
        bodies = {row.name: f"{prefix}{op.attributes[row.name]!s}" for row in op.spec.regions}
        return replace(
            op,
            inputs=tuple(names(op.inputs)),
            outputs=tuple(names(op.outputs)),
            attributes={**op.attributes, **bodies},
        )

    def tensor(old: Tensor) -> Tensor:
        symbol = prefix + old.variable_name if old.variable_name else ""
        return replace(old, name=prefix + old.name, variable_name=symbol)

    return Block(
        prefix + block.name,
        names(block.inputs),
        names(block.outputs),
        [operator(op) for op in block.operators],
        {prefix + name: tensor(old) for name, old in block.tensors.items()},
        {prefix + name: _shape(old, prefix + name) for name, old in block.shapes.items()},
    )


def _shape(old: ShapeValue, name: str) -> ShapeValue:
    return replace(old, name=name)


def computed(graph: Graph) -> dict[str, Operator]:
    """Return the tensors and shapes that the operators of the main block compute, with the operator."""
    return {
        name: op
        for op in graph.main.operators
        if op.spec not in (CONST, CONST_SHAPE, VARIABLE, VARIABLE_WRITE)
        for name in op.outputs
    }


def detach(graph: Graph) -> Graph:
    """Return a program in which each operator takes inputs, and no result of another operator.

    A computed tensor is an input, and what computes it gives the tensor of its name and RESULT. Shapes
    cannot be inputs: operators on shapes take results of one another, and have their names.
    """
    block = graph.main
    results = [name for name in computed(graph) if name in block.tensors]
    tensors = dict(block.tensors)
    for name in results:
        tensors[name + RESULT] = replace(tensors[name], name=name + RESULT)
    detached = set(results)
    operators = [
        replace(op, outputs=tuple(n + RESULT if n in detached else n for n in op.outputs))
        for op in block.operators
    ]
    used = {name for op in operators for name in op.inputs}
    taken = [name for name in results if name in used]
    for name in detached - used:
        del tensors[name]
    main = replace(
        block,
        inputs=[*block.inputs, *taken],
        outputs=[name + RESULT for name in results],
        operators=operators,
        tensors=tensors,
    )
    return replace(graph, regions=[Region(graph.regions[0].name, [main]), *graph.regions[1:]])
