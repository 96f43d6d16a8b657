"""Results of a program become values of their own, so that each can have the framework's name.

Converters return an argument, or one value twice, where a framework has several outputs with one value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from tosa_convert.graph.model import Graph, Operator, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import IDENTITY

_NOTHING: Final[frozenset[int]] = frozenset()


def with_own_outputs(graph: Graph, kept: Collection[int] = _NOTHING) -> Graph:
    """Add an IDENTITY for each result that is an argument or an earlier result.

    Args:
        graph: the program, which is not changed.
        kept: positions of results that stay what they are.

    Example:
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> x = b.input("x", "fp32", (4,))
        >>> b.output(x)
        >>> print(with_own_outputs(b.graph()).main)
        block "main": (x: FP32 [4]) -> (x_output: FP32 [4])
          x_output = IDENTITY(x) : FP32 [4]
    """
    main = graph.main
    taken = set(main.inputs)
    outputs: list[str] = []
    copies: list[Operator] = []
    tensors = dict(main.tensors)
    places = {name: one.location for one in main.operators for name in one.outputs}
    for position, name in enumerate(main.outputs):
        if name in taken and position not in kept and name in tensors:
            copy = unused_name(f"{name}_output", {*tensors, *main.shapes})
            tensors[copy] = Tensor(copy, tensors[name].dtype, tensors[name].shape)
            copies.append(Operator(IDENTITY, (name,), (copy,), {}, places.get(name, "")))
            name = copy
        taken.add(name)
        outputs.append(name)
    if not copies:
        return graph
    block = replace(main, outputs=outputs, operators=[*main.operators, *copies], tensors=tensors)
    first, *others = graph.regions
    return replace(graph, regions=[replace(first, blocks=[block, *first.blocks[1:]]), *others])
