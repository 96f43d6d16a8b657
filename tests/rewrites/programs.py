"""What tests of rewrites share: programs, and the comparison of a rewritten one with the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tosa_convert import golden
from tosa_convert.builder import Builder, Value, dtype_of
from tosa_convert.graph import (
    Constant,
    Graph,
    Operator,
    ShapeValue,
    Tensor,
    dtype,
    operator,
    verify,
)
from tosa_convert.graph.constant import constant_of
from tosa_convert.rewrites import Report, apply

Arrays = Mapping[str, npt.NDArray[Any]]

#: Floating-point numbers that are treated differently from others.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38)


def special(dtype: npt.DTypeLike = "float32") -> npt.NDArray[Any]:
    """Return the special values as an array of one dimension."""
    with np.errstate(over="ignore"):
        return np.array(SPECIAL).astype(dtype)


def program(build: Callable[[Builder], Value | tuple[Value, ...]]) -> Graph:
    """Return a program whose results are `y0`, `y1`, ..., or `y` if there is one."""
    b = Builder("main")
    made = build(b)
    if isinstance(made, tuple):
        for number, value in enumerate(made):
            b.output(value, name=f"y{number}")
    else:
        b.output(made, name="y")
    return b.graph()


def kinds(graph: Graph) -> list[str]:
    """Return the operators of the main block, without constants."""
    names = [op.spec.name for op in graph.main.operators]
    return [name for name in names if name not in ("CONST", "CONST_SHAPE")]


def rewritten(graph: Graph, *names: str) -> tuple[Graph, Report]:
    """Return the rewritten graph and the report, after checks that hold for every rewrite.

    The given graph does not change, the result is sound and has the same interface, and rewriting it
    again changes nothing.
    """
    before = str(graph), repr([graph.main.tensors[n] for n in graph.main.inputs])
    made, report = apply(graph, *names)
    assert (str(graph), repr([graph.main.tensors[n] for n in graph.main.inputs])) == before
    assert verify(made) == []
    assert interface(made) == interface(graph)
    again, nothing = apply(made, *names)
    assert again is made, str(nothing)
    assert not nothing
    assert bool(report) == (made is not graph)
    return made, report


def interface(graph: Graph) -> list[Any]:
    """Return names and types of inputs, outputs and variables, of regions that still run, too."""
    main = graph.main
    values: dict[str, Tensor | ShapeValue] = {**main.tensors, **main.shapes}
    variables = [t for t in main.tensors.values() if t.variable]
    return [
        [(name, values[name].type_text()) for name in names]
        for names in (main.inputs, main.outputs, [t.name for t in variables])
    ]


def run(graph: Graph, **inputs: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the results of a program on the reference model; the test needs the fixture `refmodel`."""
    return dict(golden.run(graph, inputs).outputs)


def assert_same_bits(actual: Arrays, expected: Arrays) -> None:
    """Two runs gave the same, bit for bit; one NaN is like another."""
    assert actual.keys() == expected.keys()
    for name, array in actual.items():
        other = expected[name]
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        if array.dtype.kind not in "biu":
            # numpy does not compare the NaNs of ml_dtypes.
            array, other = array.astype(np.float32), other.astype(np.float32)
            numbers = ~np.isnan(array)
            assert (np.signbit(array) == np.signbit(other))[numbers].all(), name
        np.testing.assert_array_equal(array, other, err_msg=name)


def single(
    kind: str,
    operands: Sequence[tuple[str, tuple[int, ...]]],
    result: tuple[str, tuple[int, ...]],
    **attributes: Any,
) -> Graph:
    """Return a program of one operator, which TOSA need not allow.

    Inputs `x0`, `x1`, ... and output `y`.

    operands, result: element types and shapes. MUL gets its shift.
    """
    b = Builder("main")
    names = []
    for number, (element, shape) in enumerate(operands):
        names.append(b.input(f"x{number}", dtype_of(element), shape).name)
    b.output(b.input("y", dtype_of(result[0]), result[1]))
    graph = b.graph()
    block = graph.main
    block.inputs.remove("y")
    if kind == "MUL":
        data = Constant(dtype("INT8"), 1, b"\0")
        block.tensors["shift"] = Tensor("shift", data.dtype, (1,), data)
        block.operators.append(Operator(operator("CONST"), (), ("shift",)))
        names.append("shift")
    block.operators.append(
        Operator(operator(kind), tuple(names), ("y",), attributes, 'loc("model.py":1:1)')
    )
    assert verify(graph) == []
    return graph


def with_constants(graph: Graph, arrays: Arrays) -> Graph:
    """Return the program with arrays in place of its inputs, except block-scaled ones."""
    block = graph.main
    tensors = dict(block.tensors)
    made = []
    for name in block.inputs:
        tensor = tensors.get(name)
        if tensor is None or tensor.scale is not None or name not in arrays:
            continue
        tensors[name] = replace(tensor, data=constant_of(arrays[name], tensor.dtype))
        made.append(name)
    inputs = [name for name in block.inputs if name not in made]
    constants = [Operator(operator("CONST"), (), (name,)) for name in made]
    first = replace(block, inputs=inputs, tensors=tensors, operators=[*constants, *block.operators])
    return replace(graph, regions=[replace(graph.regions[0], blocks=[first]), *graph.regions[1:]])
