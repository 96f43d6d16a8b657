"""Decompositions: operators that a converter does not lower, as operators of TOSA in its program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tosa_convert.build import Builder
from tosa_convert.build.values import Value
from tosa_convert.errors import fail
from tosa_convert.frontends.cut import Cut, CutOperator
from tosa_convert.graph.model import Block, Graph, Operator, Tensor
from tosa_convert.graph.names import unused_name

#: The results of an operator, from its operands, those of them that are constants, and its facts.
_Decompose = Callable[[Builder, Sequence[Value], Sequence[Any], Mapping[str, Any]], list[Value]]


def with_decompositions(graph: Graph, cut: Cut) -> Graph:
    """The graph with the decompositions of the operators that were cut out.

    Args:
        graph: the program, with the arguments and results that `cut` says; it is not changed.
        cut: the operators, with the facts that a converter gives as attributes.

    Raises:
        TosaConvertError: "frontend-failed" if the converter names an operator without a decomposition.
    """
    main = graph.main

    def value(place: int) -> str:
        return main.inputs[-1 - place] if place < 0 else main.outputs[place]

    block = replace(
        main,
        inputs=main.inputs[: cut.inputs],
        outputs=[value(place) for place in cut.outputs],
        operators=list(main.operators),
        tensors=dict(main.tensors),
        shapes=dict(main.shapes),
    )
    for one in cut.operators:
        operands = [value(part.place) for part in one.operands if part.place is not None]
        _decompose(block, one, operands, [main.inputs[place] for place in one.results])
    block.operators = _in_order(block)
    first, *others = graph.regions
    return replace(graph, regions=[replace(first, blocks=[block, *first.blocks[1:]]), *others])


def _decompose(block: Block, one: CutOperator, operands: list[str], results: list[str]) -> None:
    """Add the decomposition of an operator to a block."""
    if one.operator not in _KINDS:
        raise fail(
            "frontend-failed", one.where, f"{one.operator} has no decomposition", "please report it"
        )
    b = Builder()
    given = [_input(b, f"operand_{index}", block.tensors[n]) for index, n in enumerate(operands)]
    known = [block.tensors[name] for name in operands]
    constants = [None if t.data is None else t.data.numpy().reshape(t.shape or ()) for t in known]
    found = _KINDS[one.operator](b, given, constants, one.attributes)
    b.output(*found)
    made = b.graph().main
    names = dict(zip(made.inputs, operands, strict=True))
    names.update(zip(made.outputs, results, strict=True))
    for inner in (*made.tensors, *made.shapes):
        if inner not in names:
            names[inner] = unused_name(
                f"{results[0]}_{inner}", {*block.tensors, *block.shapes, *names.values()}
            )
    inputs = set(made.inputs)
    block.tensors.update(
        {names[n]: replace(t, name=names[n]) for n, t in made.tensors.items() if n not in inputs}
    )
    block.shapes.update({names[n]: replace(s, name=names[n]) for n, s in made.shapes.items()})
    for operator in made.operators:
        block.operators.append(
            replace(
                operator,
                inputs=tuple(names[name] for name in operator.inputs),
                outputs=tuple(names[name] for name in operator.outputs),
                location=str(one.attributes.get("location", "")),
            )
        )


def _input(b: Builder, name: str, tensor: Tensor) -> Value:
    return b.input(name, tensor.dtype.name.lower(), tensor.shape or ())


def _in_order(block: Block) -> list[Operator]:
    """The operators of a block, each after those that make its operands."""
    makers = {name: one for one in block.operators for name in one.outputs}
    done: set[int] = set()
    found: list[Operator] = []
    for last in block.operators:
        pending = [last]
        while pending:
            one = pending[-1]
            before = [makers[n] for n in one.inputs if n in makers and id(makers[n]) not in done]
            if before:
                pending += before
                continue
            pending.pop()
            if id(one) not in done:
                done.add(id(one))
                found.append(one)
    return found


def _cumulative_sum(
    b: Builder, operands: Sequence[Value], constants: Sequence[Any], facts: Mapping[str, Any]
) -> list[Value]:
    """In each of log2(n) steps, sums over twice as many elements: infinities stay where they are."""
    x, axis = operands[0], int(facts["axis"])
    shape = tuple(x.shape or ())

    def moved(value: Value, by: int) -> Value:
        pads = np.zeros((len(shape), 2), np.int64)
        pads[axis, int(facts["reverse"])] = by
        start = [by if k == axis and facts["reverse"] else 0 for k in range(len(shape))]
        return b.slice(b.pad(value, pads.reshape(-1).tolist()), start, shape)

    if facts["exclusive"]:
        x = moved(x, 1)
    step = 1
    while step < shape[axis]:
        x = b.add(x, moved(x, step))
        step *= 2
    # The result is a value of its own, also if there is nothing to add.
    return [b.identity(x) if shape[axis] == 1 and not facts["exclusive"] else x]


def _largest(
    b: Builder, operands: Sequence[Value], constants: Sequence[Any], facts: Mapping[str, Any]
) -> list[Value]:
    """The place of an element is the number of those that are larger, or equal and before it."""
    x, count = operands[0], int(facts["count"])
    *outer, size = x.shape or ()
    rows = math.prod(outer)
    number = x if str(x.dtype) in ("FP32", "INT32") else b.cast(x, dtype="int32")
    others, each = b.reshape(number, (rows, 1, size)), b.reshape(number, (rows, size, 1))
    earlier = b.const(np.tri(size, size, -1, dtype=bool).reshape(1, size, size))
    is_first = b.logical_and(b.equal(others, each), earlier)
    before = b.cast(b.logical_or(b.greater(others, each), is_first), dtype="int32")
    places = b.reshape(b.reduce_sum(before, axis=2), (rows, size))
    positions = np.broadcast_to(np.arange(size, dtype=np.int32), (rows, size))
    found = []
    for part in (b.reshape(x, (rows, size, 1)), b.const(positions.reshape(rows, size, 1))):
        empty = b.const(np.zeros((rows, size, 1)), dtype=part.dtype)
        ordered = b.scatter(empty, places, part)
        found.append(b.reshape(b.slice(ordered, (0, 0, 0), (rows, count, 1)), (*outer, count)))
    return found


def _transposed_convolution(
    b: Builder, operands: Sequence[Value], constants: Sequence[Any], facts: Mapping[str, Any]
) -> list[Value]:
    """CONV3D of the elements with zeros between them, with the kernel reversed."""
    sizes, weights, x = constants[0], constants[1], operands[2]
    kernel = weights[::-1, ::-1, ::-1].transpose(3, 0, 1, 2, 4)
    pads: list[int] = []
    for axis, (stride, before) in enumerate(zip(facts["strides"], facts["before"], strict=True), 1):
        x = _spread(b, x, axis, stride)
        reach, given = kernel.shape[axis] - 1, (x.shape or ())[axis]
        pads += [reach - before, int(sizes[axis]) + before - given]
    outside = np.zeros((5, 2), np.int64)
    outside[1:4] = np.array(pads).reshape(3, 2)
    # CONV3D has no negative padding, and limits it to the kernel.
    x = b.pad(x, np.maximum(outside, 0).reshape(-1).tolist())
    if np.any(outside < 0):
        start = np.maximum(-outside[:, 0], 0)
        end = np.array(x.shape or ()) - np.maximum(-outside[:, 1], 0)
        x = b.slice(x, start.tolist(), (end - start).tolist())
    bias = operands[3] if len(operands) > 3 else b.const(np.zeros(kernel.shape[0], np.float32))
    weight = b.const(np.ascontiguousarray(kernel))
    y = b.conv3d(x, weight, bias, pad=[0] * 6, stride=[1] * 3, dilation=[1] * 3)
    if facts["clamp"]:
        low, high = facts["clamp"]
        y = b.clamp(
            y, min_val=low, max_val=float(np.finfo(np.float32).max) if high is None else high
        )
    return [y]


def _spread(b: Builder, x: Value, axis: int, stride: int) -> Value:
    """The value with zeros between the elements of an axis."""
    shape = tuple(x.shape or ())
    size = shape[axis]
    if stride == 1:
        return x
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    x = b.reshape(x, (before, size, 1, after))
    x = b.pad(x, [0, 0, 0, 0, 0, stride - 1, 0, 0])
    x = b.reshape(x, (before, size * stride, after))
    wanted = (size - 1) * stride + 1
    x = b.slice(x, (0, 0, 0), (before, wanted, after))
    return b.reshape(x, (*shape[:axis], wanted, *shape[axis + 1 :]))


_KINDS: Final[Mapping[str, _Decompose]] = {
    "CUMSUM": _cumulative_sum,
    "TOPK_V2": _largest,
    "CONV_3D_TRANSPOSE": _transposed_convolution,
}
