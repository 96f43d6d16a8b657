"""Whole-graph clean-up: data for empty constants, static shapes of RESHAPE."""

from __future__ import annotations

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Block, Graph, Operator, ShapeValue
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator

_RESHAPE = operator("RESHAPE")


def fill_empty_constants(block: Block) -> None:
    """Give each constant without elements empty data. A file cannot tell it from missing data."""
    for op in block.operators:
        if op.spec in (CONST, CONST_SHAPE):
            for name in op.outputs:
                tensor = block.tensors.get(name)
                if tensor is not None and tensor.data is None and tensor.element_count() == 0:
                    tensor.data = Constant(tensor.dtype, 0, b"")
                shape = block.shapes.get(name)
                if shape is not None and shape.data is None and shape.rank == 0:
                    shape.data = Constant(INT64, 0, b"")


def make_reshapes_static(graph: Graph) -> None:
    """Replace -1 in the shape operand of each RESHAPE by the size of its result, where it is known.

    MLIR accepts -1 as "the remaining elements"; runtimes do not. Changes the graph.
    """
    for _, block in graph.blocks():
        _make_reshapes_static(block)


def _make_reshapes_static(block: Block) -> None:
    #: Sizes -> the new shape value that holds them.
    static_shapes: dict[tuple[int, ...], str] = {}
    added: list[tuple[int, Operator]] = []
    for index, op in enumerate(block.operators):
        sizes = _inferred_sizes(block, op)
        if sizes is None:
            continue
        if sizes not in static_shapes:
            name = unused_name(
                f"{op.inputs[1]}_settled", block.shapes.keys() | block.tensors.keys()
            )
            data = Constant(INT64, len(sizes), np.array(sizes, "<i8").view(np.uint8))
            block.shapes[name] = ShapeValue(name, len(sizes), data)
            static_shapes[sizes] = name
            added.append((index, Operator(CONST_SHAPE, (), (name,), {}, op.location)))
        op.inputs = (op.inputs[0], static_shapes[sizes])
    if added:
        for index, op in reversed(added):
            block.operators.insert(index, op)
        _remove_unused_inferring_shapes(block)


def _inferred_sizes(block: Block, op: Operator) -> tuple[int, ...] | None:
    """Return the sizes of the result of a RESHAPE whose shape operand has a -1; else None."""
    if op.spec is not _RESHAPE:
        return None
    shape, result = block.shapes.get(op.inputs[1]), block.tensors.get(op.outputs[0])
    if shape is None or -1 not in (shape.values() or ()):
        return None
    return None if result is None or result.element_count() is None else result.shape


def _remove_unused_inferring_shapes(block: Block) -> None:
    """Remove shape constants with a -1 that no operator uses any more."""
    used = {name for op in block.operators for name in op.inputs} | set(block.outputs)
    unused = {
        op.outputs[0]
        for op in block.operators
        if op.spec is CONST_SHAPE
        and op.outputs[0] not in used
        and -1 in (block.shapes[op.outputs[0]].values() or ())
    }
    block.operators = [op for op in block.operators if not unused & set(op.outputs)]
    for name in unused:
        del block.shapes[name]
