"""Whole-graph clean-up: data for empty constants, open sizes, and those of RESHAPE and SLICE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator, ShapeValue, Tensor
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator

#: Operator -> the position of the operand in which MLIR accepts -1 as "what remains".
PLACEHOLDERS: Final = {operator("RESHAPE"): 1, operator("SLICE"): 2}


def is_open(tensor: Tensor) -> bool:
    """Return whether a size or the rank of a tensor is unknown."""
    return tensor.shape is None or DYNAMIC in tensor.shape


def has_open_sizes(graph: Graph) -> bool:
    """Return whether a tensor has unknown sizes, which TOSA 1.0 does not have."""
    return any(is_open(tensor) for _, block in graph.blocks() for tensor in block.tensors.values())


def open_inputs(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield each input that has unknown sizes, with its sizes: `image` and `?x3x32x32`."""
    for name in graph.main.inputs:
        tensor = graph.main.tensors.get(name)
        if tensor is not None and is_open(tensor):
            sizes = tensor.shape or (DYNAMIC,)
            yield name, "x".join("?" if size == DYNAMIC else str(size) for size in sizes)


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


def make_placeholders_static(graph: Graph) -> None:
    """Replace -1 in sizes of RESHAPE and SLICE, which runtimes refuse, by what is known; in place."""
    for _, block in graph.blocks():
        _make_placeholders_static(block)


def _make_placeholders_static(block: Block) -> None:
    #: Sizes -> the new shape value that holds them.
    static_shapes: dict[tuple[int, ...], str] = {}
    added: list[tuple[int, Operator]] = []
    for index, op in enumerate(block.operators):
        sizes = _settled_sizes(block, op)
        if sizes is None:
            continue
        position = PLACEHOLDERS[op.spec]
        if sizes not in static_shapes:
            name = unused_name(
                f"{op.inputs[position]}_settled", block.shapes.keys() | block.tensors.keys()
            )
            data = Constant(INT64, len(sizes), np.array(sizes, "<i8").view(np.uint8))
            block.shapes[name] = ShapeValue(name, len(sizes), data)
            static_shapes[sizes] = name
            added.append((index, Operator(CONST_SHAPE, (), (name,), {}, op.location)))
        op.inputs = (*op.inputs[:position], static_shapes[sizes], *op.inputs[position + 1 :])
    if added:
        for index, op in reversed(added):
            block.operators.insert(index, op)
        _remove_unused_inferring_shapes(block)


def _settled_sizes(block: Block, op: Operator) -> tuple[int, ...] | None:
    """Return the sizes of an operator with those of its result for each -1; None if none is known."""
    if op.spec not in PLACEHOLDERS:
        return None
    shape, result = (
        block.shapes.get(op.inputs[PLACEHOLDERS[op.spec]]),
        block.tensors.get(op.outputs[0]),
    )
    sizes = () if shape is None else shape.values() or ()
    if -1 not in sizes or result is None or len(result.shape or ()) != len(sizes):
        return None
    settled = tuple(
        found if size == -1 else size for size, found in zip(sizes, result.shape or (), strict=True)
    )
    return None if settled == sizes else settled


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
