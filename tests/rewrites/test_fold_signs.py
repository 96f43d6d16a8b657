"""fold-signs: the signs of parts of a row become signs of constants, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from rewrites.programs import assert_same_bits, kinds, program, rewritten, run, special

from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.graph import dtype

NAME = "fold-signs"
SINES = np.stack([special()[:4], special()[4:8], special()[8:]]).reshape(1, 3, 4)


def rotated(b: Builder, x: Value) -> Value:
    """Join the halves of rows of four the other way round, the second one negated."""
    one, other = (b.slice(x, [0, 0, start], [2, 3, 2]) for start in (0, 2))
    return b.concat([b.negate(other), one], axis=2)


def rotary(b: Builder, element: DTypeName) -> Value:
    x = b.input("x", element, (2, 3, 4))
    sines = b.const(SINES.astype(dtype(element.upper()).numpy), element)
    return b.add(b.mul(x, 0.5), b.mul(sines, rotated(b, x)))


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("element", ["fp32", "fp16", "bf16"])
def test_a_rotary_embedding_has_no_negation(element: DTypeName) -> None:
    with np.errstate(over="ignore"):
        graph = program(lambda b: rotary(b, element))
        made, report = rewritten(graph, "clean-up")
        x = np.resize(special(), (2, 3, 4)).astype(graph.main.tensors["x"].dtype.numpy)
    assert report.count(NAME) == 1
    assert kinds(made) == ["MUL", "SLICE", "SLICE", "CONCAT", "MUL", "ADD"]
    assert_same_bits(run(made, x=x), run(graph, x=x))


def test_rows_share_the_constants_with_signs() -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        sines = b.const(np.arange(1, 3000 * 4 + 1, dtype=np.float32).reshape(1, 3000, 4))
        rows = [b.input(name, "fp32", (2, 3000, 4)) for name in "qk"]
        halves = [(b.slice(x, [0] * 3, [2, 3000, 2]), x) for x in rows]
        return tuple(
            b.mul(b.concat([b.negate(half), b.slice(x, [0, 0, 2], [2, 3000, 2])], axis=2), sines)
            for half, x in halves
        )

    made, _ = rewritten(program(build), NAME, "unused-operators")
    large = [t for t in made.main.tensors.values() if t.data is not None and t.data.count > 9]
    assert len(large) == 1
    assert "NEGATE" not in kinds(made)


def _used_twice(b: Builder) -> tuple[Value, Value]:
    row = rotated(b, b.input("x", "fp32", (2, 3, 4)))
    return b.mul(row, SINES), row


def _negated_for_two(b: Builder) -> tuple[Value, Value]:
    half = b.negate(b.input("x", "fp32", (2, 3, 2)))
    return b.mul(b.concat([half, half], axis=2), SINES), b.abs(half)


def _one_number(b: Builder) -> Value:
    return b.mul(rotated(b, b.input("x", "fp32", (2, 3, 4))), 0.5)


def _computed(b: Builder) -> Value:
    x = b.input("x", "fp32", (2, 3, 4))
    return b.mul(rotated(b, x), x)


def _integers(b: Builder) -> Value:
    x = b.input("x", "int32", (1, 2))
    return b.mul(b.concat([b.negate(x), x], axis=1), np.arange(4, dtype=np.int32).reshape(1, 4))


def _large(b: Builder) -> Value:
    x = b.input("x", "fp32", (1, 1 << 18))
    sines = np.arange(1 << 19, dtype=np.float32).reshape(1, -1)
    return b.mul(b.concat([b.negate(x), x], axis=1), sines)


@pytest.mark.parametrize(
    "build", [_used_twice, _negated_for_two, _one_number, _computed, _integers, _large]
)
def test_others_stay(build: Callable[[Builder], Value | tuple[Value, ...]]) -> None:
    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph
