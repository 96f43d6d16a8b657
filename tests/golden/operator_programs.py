"""A small program for each operator of TOSA, with one operator after it, for backends with a fault.

The operator is called as in the tests of the builder. It has the location "target", and what follows it
the location "after".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from rules.test_builder_operators import CALLS, POOL, Call, boolean, fp

from tosa_convert.builder import Builder, Value
from tosa_convert.builder.builder import Body
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.graph import Graph
from tosa_convert.graph.opset import OPERATORS

TARGET: Final = 'loc("target")'
AFTER: Final = 'loc("after")'
WRITE: Final = 'loc("write")'

_SHAPE: Final = "its result is a shape, which is known before the program runs"
#: Operators without a result that a backend could get wrong, and why.
WITHOUT_FAULTS: Final = {
    **{r.name: _SHAPE for r in OPERATORS if r.name == "DIM" or r.name.endswith("_SHAPE")},
    "CONST": "its result is in the program",
    "CONST_SHAPE": "its result is in the program",
    "VARIABLE": "a declaration, not an operator of a file",
    "CUSTOM": "only its implementation defines what it computes",
    "ASSERT_EQUAL_SHAPE": "has no result",
    "COND_IF": "what its branches compute has the faults",
    "WHILE_LOOP": "what its body computes has the faults",
    "VARIABLE_READ": "the state that is read has the faults",
    "VARIABLE_WRITE": "what is written has the faults",
}
#: Every other operator.
OPERATORS_WITH_FAULTS: Final = [r.name for r in OPERATORS if r.name not in WITHOUT_FAULTS]


def _blocks(b: Builder, *shape: int) -> tuple[Value, Value]:
    """Block-scaled data, in which no two neighbours are equal, and scales."""
    size = int(np.prod(shape))
    data = (np.arange(size) % 7 + 1).reshape(shape) * 0.5
    scales = np.exp2(np.arange(size // 32) % 3).reshape(*shape[:-1], shape[-1] // 32)
    return b.const(data, "fp8e4m3"), b.const(scales, "fp8ue8m0")


def _ramp(*shape: int) -> Array:
    return np.linspace(0.3, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _conv2d_block_scaled(b: Any) -> object:
    operands = [*_blocks(b, 1, 4, 4, 32), *_blocks(b, 2, 1, 1, 32)]
    return b.conv2d_block_scaled(*operands, [0.5, 1], (0,) * 4, (1, 1), (1, 1))


_REDUCTIONS: Final = ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM")


def _reduction(name: str) -> Call:
    return lambda b: getattr(b, name.lower())(fp(b, 2, 3, 4), axis=1)


#: Calls of operators whose example has equal elements only, or integers.
_CALLS: Final[dict[str, Call]] = {
    "AVG_POOL2D": lambda b: b.avg_pool2d(fp(b, 1, 4, 4, 2), **POOL),
    "CAST": lambda b: b.cast(fp(b), dtype="fp16"),
    "CAST_FROM_BLOCK_SCALED": lambda b: b.cast_from_block_scaled(*_blocks(b, 2, 64), dtype="bf16"),
    "CONV2D_BLOCK_SCALED": _conv2d_block_scaled,
    "EQUAL": lambda b: b.equal(b.floor(b.mul(fp(b, 2, 5), 3.0)), 1.0),
    "CEIL": lambda b: b.ceil(b.mul(fp(b), 8.0)),
    "FLOOR": lambda b: b.floor(b.mul(fp(b), 8.0)),
    "FFT2D": lambda b: b.fft2d(fp(b, 1, 2, 4), _ramp(1, 2, 4)),
    "LOGICAL_OR": lambda b: b.logical_or(boolean(b), [[False, True, False]]),
    "MATMUL_T_BLOCK_SCALED": lambda b: b.matmul_t_block_scaled(
        *_blocks(b, 1, 2, 32), *_blocks(b, 1, 4, 32)
    ),
    "REDUCE_ALL": lambda b: b.reduce_all(b.greater(fp(b, 2, 5), 0.4), axis=0),
    "REDUCE_ANY": lambda b: b.reduce_any(b.greater(fp(b, 2, 5), 0.6), axis=0),
    **{name: _reduction(name) for name in _REDUCTIONS},
}


class _Inside:
    """A region's builder for a call that declares an input: the region's argument is used instead."""

    def __init__(self, builder: Builder, arguments: tuple[Value, ...]) -> None:
        self.builder, self.arguments = builder, arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(self.builder, name)

    def input(self, name: str, dtype: str, shape: tuple[int, ...]) -> Value:
        """Return the region's only argument."""
        (argument,) = self.arguments
        return argument


def _called(kind: str, b: Any, location: str = TARGET) -> tuple[Value, ...]:
    """Return the results of the operator."""
    made: Any = _CALLS.get(kind, CALLS[kind.lower()][0][0])(b)
    b._block.operators[-1].location = location
    return made if isinstance(made, tuple) else (made,)


def program(kind: str, *, masked: bool = False) -> Graph:
    """Return the operator, and an operator on each of its results.

    masked: no output depends on the values of the results.
    """
    b = Builder()
    outputs = _after(b, _called(kind, b))
    if masked:
        outputs = [b.select(False, value, b.const(_zero(value), value.dtype)) for value in outputs]
    b.output(*outputs)
    return b.graph()


def _example(kind: str) -> tuple[list[Value], list[Value]]:
    """Return the inputs and the outputs of `program`."""
    b = Builder()
    outputs = _after(b, _called(kind, b))
    tensors = [b._block.tensors[name] for name in b._block.inputs]
    values = [b.input(t.name + "_again", t.dtype, t.shape or ()) for t in tensors]
    return values, outputs


def in_branch(kind: str) -> Graph:
    """Return the operator in the branch that is taken; the other branch computes the same."""
    b = Builder()
    operands = [b.input(f"x{i}", v.dtype, v.shape or ()) for i, v in enumerate(_example(kind)[0])]

    def branch(location: str) -> Body:
        def body(inner: Builder, *given: Value) -> list[Value]:
            return _after(inner, _called(kind, _Inside(inner, given), location), location and AFTER)

        return body

    b.output(*b.cond_if(True, operands, branch(TARGET), branch("")))
    return b.graph()


def in_loop(kind: str) -> Graph:
    """Return the operator in the body of a loop of two iterations."""
    b = Builder()
    given, outputs = _example(kind)
    operands = [b.input(f"x{i}", v.dtype, v.shape or ()) for i, v in enumerate(given)]
    results = [b.const(np.zeros(v.shape or ()), v.dtype) for v in outputs]
    count = b.const([0], "int32")

    def is_not_done(inner: Builder, i: Value, *others: Value) -> Value:
        return inner.greater(inner.const([2], "int32"), i)

    def body(inner: Builder, i: Value, *others: Value) -> list[Value]:
        values = others[: len(operands)]
        found = _after(inner, _called(kind, _Inside(inner, values)))
        return [inner.add(i, inner.const([1], "int32")), *values, *found]

    ended = b.while_loop([count, *operands, *results], is_not_done, body)
    b.output(*ended[1 + len(operands) :])
    return b.graph()


def with_state(kind: str) -> Graph:
    """Make the operator's result, or what follows it, the next state of a variable, not an output."""
    b = Builder()
    results = _called(kind, b)
    # No variable has elements of block-scaled data.
    result = results[0] if results[-1] is results[0] else _after(b, results)[0]
    zeros = np.zeros(result.shape or ())
    variable = b.variable("state", result.dtype, result.shape or (), initial=zeros)
    b.output(b.read(variable))
    b.write(variable, result)
    b._block.operators[-1].location = WRITE
    return b.graph()


def _zero(value: Value) -> Array:
    return np.zeros((1,) * len(value.shape or ()))


def _after(b: Builder, results: tuple[Value, ...], location: str = AFTER) -> list[Value]:
    """Return what is computed from the results."""
    found = []
    if results[-1].dtype.name == "FP8UE8M0":  # the scales of the result before it
        found.append(b.cast_from_block_scaled(*results, dtype="fp32"))
        b._block.operators[-1].location = location
        return found
    for value in results:
        kind = value.dtype.name
        if kind == "BOOL":
            found.append(b.logical_not(value))
        elif kind.startswith("INT"):
            found.append(b.bitwise_not(value))
        else:
            found.append(b.add(value, b.const(np.full(_zero(value).shape, 0.5), value.dtype)))
        b._block.operators[-1].location = location
    return found


def inputs(graph: Graph) -> dict[str, Array]:
    """Return values for its inputs: floating point from 0.25 to 1, where every function is defined."""
    slots = input_slots(graph)
    ranges = [(slot.key, 0.25, 1.0) for slot in slots if slot.dtype.is_float]
    return random_inputs(graph, slots, 1, ranges)
