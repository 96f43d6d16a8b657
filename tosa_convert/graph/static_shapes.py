"""What becomes known only from the whole graph: empty constants, inferred shapes, and what is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.model import Block, Graph, Operator, ShapeValue, operator_path
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator

_RESHAPE = operator("RESHAPE")
log = logging.getLogger("tosa_convert")


def fill_empty_constants(block: Block) -> None:
    """Give constants of no elements their data: in a file they look like values without any."""
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
    """Replace -1 in the shape of a RESHAPE by the size its result has, where that is known.

    A -1 stands for "what is left", which MLIR accepts and runtimes refuse. Changes the graph.
    """
    for _, block in graph.blocks():
        _settle(block)


def _settle(block: Block) -> None:
    made: dict[tuple[int, ...], str] = {}
    added: list[tuple[int, Operator]] = []
    for index, op in enumerate(block.operators):
        if op.spec is not _RESHAPE:
            continue
        name = op.inputs[1]
        shape, result = block.shapes.get(name), block.tensors.get(op.outputs[0])
        values = shape.values() if shape is not None else None
        if values is None or -1 not in values or result is None or result.element_count() is None:
            continue
        sizes = result.shape or ()
        if sizes not in made:
            fresh = f"{name}_settled"
            number = 0
            while fresh in block.shapes or fresh in block.tensors:
                number += 1
                fresh = f"{name}_settled_{number}"
            data = Constant(INT64, len(sizes), np.array(sizes, "<i8").view(np.uint8))
            block.shapes[fresh] = ShapeValue(fresh, len(sizes), data)
            made[sizes] = fresh
            added.append((index, Operator(CONST_SHAPE, (), (fresh,), {}, op.location)))
        op.inputs = (op.inputs[0], made[sizes])
    for index, op in reversed(added):
        block.operators.insert(index, op)
    used = {name for op in block.operators for name in op.inputs} | set(block.outputs)
    # A shape that only its old users needed is gone with them.
    if added:
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


def dynamic_tensors(graph: Graph) -> Iterator[tuple[str, str]]:
    """Each tensor whose shape is not known, with the reason, in the graph's order."""
    for where, block in graph.blocks():
        for name in block.inputs:
            tensor = block.tensors.get(name)
            if tensor is not None and tensor.element_count() is None:
                yield name, "it is an input of the block and no shape was given for it"
        for index, op in enumerate(block.operators):
            for name in op.outputs:
                tensor = block.tensors.get(name)
                if tensor is None or tensor.element_count() is not None:
                    continue
                reasons = [
                    source
                    for source in op.inputs
                    if source in block.tensors and block.tensors[source].element_count() is None
                ]
                path = operator_path(where, index, op)
                if reasons:
                    yield name, f"{path} has the dynamic input " + ", ".join(reasons)
                else:
                    yield name, f"{path} has static inputs, and MLIR infers no shape from them"


def log_dynamic_tensors(graph: Graph) -> None:
    """Log each tensor whose shape stays unknown, with the reason."""
    for name, reason in dynamic_tensors(graph):
        log.warning('tensor "%s" stays dynamic: %s', name, reason)
