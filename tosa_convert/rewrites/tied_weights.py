"""Store a weight once that a block also has transposed.

A decoder looks tokens up in the table with which its last product computes their scores. Frontends
transpose it for the product, so that a file has it twice. With its operands exchanged the product takes
the table itself, and what is transposed is the other operand and the result.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import change_blocks
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import Block, Graph, Operator, Tensor
from tosa_convert.graph.opset import CONST, operator
from tosa_convert.rewrites.report import Recorder

NAME: Final = "tied-weights"
#: Smaller weights stay twice: the operators in place of the second take up to a kilobyte.
LEAST_BYTES: Final = 1 << 12

_INT48: Final = dtype("INT48")
_MATMUL: Final = operator("MATMUL")
_TRANSPOSE: Final = operator("TRANSPOSE")
#: Exchanges the two dimensions of matrices.
_EXCHANGED: Final = (0, 2, 1)
#: Bytes that are compared at a time.
_PART: Final = 1 << 22


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph without the second of two weights; the same object if there is none."""
    return change_blocks(graph, lambda where, block: _with_one(where, block, recorder))


def _with_one(where: str, block: Block, recorder: Recorder) -> Block:
    if not any(op.spec is _MATMUL for op in block.operators):
        return block
    edit = BlockEditor(block, where)
    tables = Tables(edit)
    uses = Counter([name for op in block.operators for name in op.inputs])
    for index, op in enumerate(edit.visit()):
        if op.spec is not _MATMUL or edit.tensors[op.outputs[0]].dtype is _INT48:
            continue  # TOSA does not transpose INT48.
        table = next((name for name in tables.of(op.inputs[1]) if uses[name]), None)
        if table is not None:
            uses.subtract(op.inputs[1:2])
            _exchange(op, table, edit)
            recorder.add(NAME, "MATMUL of a weight that is also there transposed", where, index, op)
    return edit.finish()


def _exchange(op: Operator, table: str, edit: BlockEditor) -> None:
    """Put the product of a table and the transposed first operand in place of a MATMUL."""
    given, _, *zero_points = op.inputs
    turned = edit.emit(_TRANSPOSE, [given], {"perms": _EXCHANGED})
    element = edit.tensors[op.outputs[0]].dtype
    product = edit.emit(_MATMUL, [table, turned, *reversed(zero_points)], dtype=element)
    edit.emit(_TRANSPOSE, [product], {"perms": _EXCHANGED}, results=op.outputs)


class Tables:
    """Find the large matrices among the constants of a block by how their transposes begin."""

    def __init__(self, edit: BlockEditor) -> None:
        self.edit = edit
        self.by_start: dict[object, list[str]] = {}
        self._read = 0

    def _read_new(self) -> None:
        """Read the constants that the block got since the last time."""
        operators = self.edit.operators
        for op in islice(operators, self._read, None):
            tensor = self.edit.tensors[op.outputs[0]] if op.spec is CONST else None
            rows = None if tensor is None else _rows(tensor)
            if tensor is not None and rows is not None:
                key = tensor.dtype, rows.shape, rows[0].tobytes()
                self.by_start.setdefault(key, []).append(tensor.name)
        self._read = len(operators)

    def of(self, name: str) -> list[str]:
        """Return the constants before an operator that a weight of it is equal to, if transposed."""
        producer = self.edit.producers.get(name)
        if producer is not None and producer.spec is _TRANSPOSE:
            is_exchange = producer.attributes["perms"] == _EXCHANGED
            return [*producer.inputs] if is_exchange and self._is_table(producer.inputs[0]) else []
        tensor = self.edit.tensors[name]
        rows = _rows(tensor)
        if rows is None or producer is None:
            return []
        self._read_new()
        columns = rows.T
        key = tensor.dtype, columns.shape, columns[0].tobytes()
        return [
            other
            for other in self.by_start.get(key, ())
            if other != name
            and self._is_table(other)
            and _are_equal(columns, _rows(self.edit.tensors[other]))
        ]

    def _is_table(self, name: str) -> bool:
        return name in self.edit.producers and _rows(self.edit.tensors[name]) is not None


def _rows(tensor: Tensor) -> npt.NDArray[Any] | None:
    """Return the elements of a large constant that is one matrix, as bits; else None."""
    data, shape = tensor.data, tensor.shape or ()
    if data is None or not data.is_unit or data.nbytes < LEAST_BYTES or tensor.scale is not None:
        return None
    if len(shape) != 3 or shape[0] != 1 or min(shape) < 1 or 1 in shape[1:]:
        return None
    width = data.dtype.element_bytes
    return np.frombuffer(data.buffer, f"V{width}").reshape(shape[1:])


def _are_equal(one: npt.NDArray[Any], other: npt.NDArray[Any] | None) -> bool:
    assert other is not None
    step = max(1, _PART // other[0].nbytes)
    return all(
        one[start : start + step].tobytes() == other[start : start + step].tobytes()
        for start in range(0, len(one), step)
    )
