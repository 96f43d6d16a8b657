"""Honest backends in this process, written with numpy.

They compute the operators of floating point that implementations round differently, and control flow
and variables; the reference model computes the other operators, one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import slots
from tosa_convert.golden.backends.other_model import part_of
from tosa_convert.golden.running.run_graph import run_graph
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.golden.running.variable_states import STATE_PREFIX
from tosa_convert.graph import Block, Graph, Operator
from tosa_convert.graph.extract import extract, extract_region

#: It computes what the backends do not, whatever the engine that they are compared with.
REFERENCE_MODEL = RunOptions(engine="reference-model")
FLOATS = frozenset(("FP32", "FP16", "BF16"))
Values = dict[str, Array]


def add_in_order(terms: Array) -> Array:
    """Return the sum over the last axis, one term after another, rounded each time."""
    total = terms[..., 0]
    for index in range(1, terms.shape[-1]):
        total = total + terms[..., index]
    return np.asarray(total)


def add_backwards(terms: Array) -> Array:
    """Return the same in the other order."""
    return add_in_order(terms[..., ::-1])


def add_in_pairs(terms: Array) -> Array:
    """Return the sum as numpy adds, in pairs of halves."""
    return np.asarray(terms.sum(axis=-1, dtype=terms.dtype))


_erf = np.vectorize(math.erf, otypes=[np.float64])

UNARY: dict[str, Callable[[Array], Any]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": np.cos,
    "ERF": lambda x: _erf(x).astype(x.dtype),
    "EXP": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "RECIPROCAL": lambda x: x.dtype.type(1) / x,
    "RSQRT": lambda x: x.dtype.type(1) / np.sqrt(x),
    "SIGMOID": lambda x: x.dtype.type(1) / (x.dtype.type(1) + np.exp(-x)),
    "SIN": np.sin,
    "TANH": np.tanh,
}
BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "SUB": np.subtract,
}


class NumpyBackend:
    """Computes in FP32, or in FP64 with one rounding of the results.

    wide: compute floating point in FP64; results are rounded when they leave the backend.
    fma: round the sum of a product once, not the product first.
    add: adds the terms of a sum.
    """

    name = text = "numpy"

    def __init__(
        self,
        *,
        wide: bool = False,
        fma: bool = False,
        add: Callable[[Array], Array] = add_in_order,
    ) -> None:
        self.wide, self.fma, self.add = wide, fma, add

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        part = part_of(graph, names, cuts)
        wanted = {slot.key for name in part.main.inputs for slot in slots(part.main, name)}
        values, states = self.run(part, {key: inputs[key] for key in wanted}, None)
        answer = {
            slot.key: self.rounded(part.main, slot.key, values[slot.key])
            for name in names
            for slot in slots(part.main, name)
        }
        if part is graph:
            answer |= {STATE_PREFIX + name: array for name, array in states.items()}
        return answer

    def inside(self, output: str, attribute: str) -> NumpyBackend:
        """See Runner."""
        return self

    def rounded(self, block: Block, key: str, array: Array) -> Array:
        """Return an array in its tensor's type."""
        tensor = block.tensors.get(key)
        if tensor is None or array.dtype == tensor.dtype.numpy:
            return array
        with np.errstate(all="ignore"):
            return array.astype(tensor.dtype.numpy)

    def run(self, graph: Graph, inputs: Values, states: Values | None) -> tuple[Values, Values]:
        """Return every value of the main block, and the states of variables."""
        block = graph.main
        values = dict(inputs)
        if states is None:
            states = {
                tensor.variable_name or tensor.name: _constant(block, tensor.name)
                for tensor in block.tensors.values()
                if tensor.variable and tensor.data is not None
            }
        for index, op in enumerate(block.operators):
            results = self.operator(graph, index, op, values, states)
            values |= results
        return values, states

    def operator(
        self, graph: Graph, index: int, op: Operator, values: Values, states: Values
    ) -> Values:
        """Return the results of one operator."""
        block, kind = graph.main, op.spec.name
        if not op.outputs:
            return {}  # ASSERT_EQUAL_SHAPE
        if kind == "CONST":
            return {op.outputs[0]: _constant(block, op.outputs[0])}
        if kind == "VARIABLE_READ":
            return {op.outputs[0]: states[_variable(block, op.inputs[0])]}
        if kind == "VARIABLE_WRITE":
            states[_variable(block, op.outputs[0])] = values[op.inputs[0]]
            return {}
        if op.spec.regions:
            return self.control_flow(graph, op, values, states)
        if op.outputs[0] in block.shapes or kind == "CONST_SHAPE":
            return {}
        result = self.floating_point(block, op, values)
        if result is not None:
            return {op.outputs[0]: result}
        return self.by_reference(graph, op, values)

    def control_flow(self, graph: Graph, op: Operator, values: Values, states: Values) -> Values:
        """Return the branch that is taken, or the iterations of a loop."""

        def region(attribute: str, operands: list[Array]) -> list[Array]:
            inner = extract_region(graph, str(op.attributes[attribute]))
            given = dict(zip(inner.main.inputs, operands, strict=True))
            found, _ = self.run(inner, given, states)
            return [found[name] for name in inner.main.outputs]

        operands = [values[name] for name in op.inputs]
        if op.spec.name == "COND_IF":
            taken = "then_graph" if operands[0].reshape(-1)[0] else "else_graph"
            state = region(taken, operands[1:])
        else:
            state = operands
            while region("cond_graph", state)[0].reshape(-1)[0]:
                state = region("body_graph", state)
        return dict(zip(op.outputs, state, strict=True))

    def floating_point(self, block: Block, op: Operator, values: Values) -> Array | None:
        """Return the result of an operator that is computed here, or None."""
        result = block.tensors[op.outputs[0]]
        kind = op.spec.name
        if result.dtype.name not in FLOATS or result.scale is not None:
            return None
        wide: Any = np.float64 if self.wide else np.float32
        names = [name for name in op.inputs if name in values]
        if any(block.tensors[n].dtype.name not in (*FLOATS, "INT8") for n in names):
            return None
        with np.errstate(all="ignore"):
            if kind in UNARY:
                found = UNARY[kind](values[op.inputs[0]].astype(wide))
            elif kind in BINARY:
                one, other = (values[name].astype(wide) for name in op.inputs[:2])
                found = BINARY[kind](one, other)
                if self.fma and kind == "ADD":
                    found = self.contracted(block, op, values, found)
            elif kind == "REDUCE_SUM":
                axis = op.attributes["axis"]
                assert isinstance(axis, int)
                terms = np.moveaxis(values[op.inputs[0]].astype(wide), axis, -1)
                found = np.expand_dims(self.add(terms), axis)
            elif kind == "MATMUL" and names[:2] == list(op.inputs[:2]):
                one, other = (values[name].astype(wide) for name in op.inputs[:2])
                terms = one[:, :, None, :] * other.transpose(0, 2, 1)[:, None, :, :]
                found = self.add(terms)
            elif kind == "CONV2D" and block.tensors[op.inputs[0]].dtype.name == result.dtype.name:
                found = self.conv2d(op, *(values[name].astype(wide) for name in op.inputs[:3]))
            else:
                return None
            found = np.asarray(found)
            return found if self.wide else found.astype(result.dtype.numpy)

    def contracted(self, block: Block, op: Operator, values: Values, found: Any) -> Any:
        """Return a sum whose first operand is a product, with the product not rounded."""
        for other in block.operators:
            if other.spec.name == "MUL" and other.outputs == op.inputs[:1]:
                if any(name not in values for name in (*other.inputs[:2], op.inputs[1])):
                    continue
                one, two = (values[name].astype(np.float64) for name in other.inputs[:2])
                return one * two + values[op.inputs[1]].astype(np.float64)
        return found

    def conv2d(self, op: Operator, x: Array, weight: Array, bias: Array) -> Array:
        """Return a convolution with zero points of 0."""
        pad, stride, dilation = (op.attributes[n] for n in ("pad", "stride", "dilation"))
        assert isinstance(pad, tuple)
        assert isinstance(stride, tuple)
        assert isinstance(dilation, tuple)
        top, bottom, left, right = map(int, pad)
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        _, rows, columns, _ = weight.shape
        height = (x.shape[1] - (rows - 1) * int(dilation[0]) - 1) // int(stride[0]) + 1
        width = (x.shape[2] - (columns - 1) * int(dilation[1]) - 1) // int(stride[1]) + 1
        terms = []
        for row in range(rows):
            for column in range(columns):
                y, z = row * int(dilation[0]), column * int(dilation[1])
                part = x[:, y : y + height * int(stride[0]) : int(stride[0])]
                part = part[:, :, z : z + width * int(stride[1]) : int(stride[1])]
                part = part[:, :height, :width, None, :]
                terms.append(part * weight[None, None, None, :, row, column, :])
        return np.asarray(self.add(np.concatenate(terms, axis=-1)) + bias)

    def by_reference(self, graph: Graph, op: Operator, values: Values) -> Values:
        """Return the results that the reference model computes."""
        names = [name for name in op.outputs if name in graph.main.tensors]
        cuts = [n for n in dict.fromkeys(op.inputs) if n in graph.main.tensors and n in values]
        constant = {n for o in graph.main.operators if not o.inputs for n in o.outputs}
        cuts = [name for name in cuts if name not in constant]
        part = extract(graph, names, cuts)
        given = {}
        for name in part.main.inputs:
            for slot in slots(part.main, name):
                given[slot.key] = self.rounded(part.main, slot.key, values[slot.key])
        return run_graph(part, given, REFERENCE_MODEL)


def _variable(block: Block, name: str) -> str:
    return block.tensors[name].variable_name or name


def _constant(block: Block, name: str) -> Array:
    tensor = block.tensors[name]
    assert tensor.data is not None
    assert tensor.shape is not None
    return np.asarray(tensor.data.numpy().reshape(tensor.shape))
