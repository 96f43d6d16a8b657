"""A program without its weights, to attach to a bug report."""

from __future__ import annotations

from collections.abc import Iterator

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.derived import Part, replace_data
from tosa_convert.graph.model import Block, Graph, Operator, require_graphs


def strip(graph: Graph, *, keep_parameters: bool = True) -> Graph:
    """Return the graph with zeros for its weights.

    Shapes and element types stay, and `graph` is not changed.

    Kept are shape values, and with `keep_parameters` the constants that only serve as a zero point,
    shift, multiplier, row count, slice bound or padding value: readers need their values, and most
    fix them at compile time. Every other constant is replaced, however small: weights, biases,
    tables, scales, and the initial values of variables. Names and locations are not changed; they
    can say something about the model, too.

    The zeros take no memory. In a file they take as much room as the weights did.

    Example:
        >>> import tosa_convert as tc
        >>> graph = strip(tc.load("digits_cnn.tosa"))
        >>> any(data.numpy().any() for _, data in graph.constants())
        False
    """
    require_graphs(graph)
    return replace_data(graph, _zeroed(graph, keep_parameters))


def _zeroed(graph: Graph, keep_parameters: bool) -> Iterator[tuple[Block, str, Part, Constant]]:
    for _, block in graph.blocks():
        kept = _parameters(block) if keep_parameters else frozenset()
        for name, tensor in block.tensors.items():
            if tensor.data is not None and name not in kept:
                yield block, name, "data", _zeros(tensor.data)
            if tensor.scale is not None and tensor.scale.data is not None:
                yield block, name, "scale_data", _zeros(tensor.scale.data)


def compile_time(block: Block) -> frozenset[str]:
    """Return the names of the tensors whose values an operator needs when it is compiled."""
    return frozenset(
        name
        for op in block.operators
        for index, name in enumerate(op.inputs)
        if _is_parameter(op, index)
    )


def _parameters(block: Block) -> frozenset[str]:
    """Return the names of the tensors that operators use as parameters and as nothing else."""
    others = set(block.outputs)
    for op in block.operators:
        others.update(name for index, name in enumerate(op.inputs) if not _is_parameter(op, index))
    return compile_time(block) - others


def _is_parameter(op: Operator, index: int) -> bool:
    count = len(op.inputs)
    fewest, most = op.spec.operand_range()
    if count < fewest or (most is not None and count > most):
        return False
    row = op.spec.operand(index, count)
    return row.is_constant or row.name == "pad_const"


def _zeros(data: Constant) -> Constant:
    zero = bytes(data.dtype.element_bytes)
    return Constant(data.dtype, data.count, zero, splat=True, padding=data.padding)
