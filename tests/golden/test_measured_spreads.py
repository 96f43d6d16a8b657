"""Pin how far measured runs are apart: a change of it changes what `check` accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.golden.accuracy.error_bounds import FLOATS
from tosa_convert.golden.accuracy.spreads import exact_elements
from tosa_convert.golden.accuracy.verdict import measure

#: A program, and its inputs.
Case = Callable[[Builder], tuple[Any, dict[str, Any]]]
GRID = np.linspace(-4, 4, 96).reshape(8, 12)


def draw(shape: tuple[int, ...], seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def of(kind: DTypeName, *steps: Callable[[Builder, Any], Any], values: Any = GRID) -> Case:
    """Return operators one after another."""

    def make(b: Builder) -> tuple[Any, dict[str, Any]]:
        x = np.asarray(values)
        value = b.input("x", kind, x.shape)
        for step in steps:
            value = step(b, value)
        return value, {"x": x}

    return make


def unary(name: str, **options: Any) -> Callable[[Builder, Any], Any]:
    return lambda b, x: getattr(b, name)(x, **options)


EXP, ABS = unary("exp"), unary("abs")
POSITIVE = np.abs(GRID) + 0.1


def matmul(kind: DTypeName, acc: DTypeName = "FP32") -> Case:
    def make(b: Builder) -> tuple[Any, dict[str, Any]]:
        x = draw((1, 8, 40))
        weight = b.const(draw((1, 40, 12), 2), kind)
        first = b.matmul(b.input("x", kind, x.shape), weight, 0, 0, dtype=acc)
        return first, {"x": x}

    return make


def convolved(kind: DTypeName) -> Case:
    def make(b: Builder) -> tuple[Any, dict[str, Any]]:
        x = draw((1, 6, 6, 4))
        weight, bias = b.const(draw((8, 3, 3, 4), 2), kind), b.const(draw((8,), 3), kind)
        return b.conv2d(b.exp(b.input("x", kind, x.shape)), weight, bias, acc_type="FP32"), {"x": x}

    return make


def softmax(kind: DTypeName) -> Case:
    def make(b: Builder) -> tuple[Any, dict[str, Any]]:
        x = b.input("x", kind, GRID.shape)
        e = b.exp(b.sub(x, b.reduce_max(x, axis=1)))
        return b.mul(e, b.reciprocal(b.reduce_sum(e, axis=1))), {"x": GRID}

    return make


def compared(name: str) -> Case:
    def make(b: Builder) -> tuple[Any, dict[str, Any]]:
        x = b.input("x", "FP16", GRID.shape)
        return getattr(b, name)(b.log(b.exp(x)), x), {"x": GRID}

    return make


def chosen(b: Builder) -> tuple[Any, dict[str, Any]]:
    x = b.input("x", "FP16", GRID.shape)
    e = b.exp(x)
    return b.select(b.greater(b.log(e), x), e, b.negate(e)), {"x": GRID}


CASES: dict[str, Case] = {
    **{
        f"{kind} {name}": of(kind, unary(name))
        for kind in ("FP32", "FP16")
        for name in ("exp", "tanh", "sigmoid", "sin", "cos", "erf", "reciprocal")
    },
    "BF16 exp": of("BF16", EXP),
    **{f"FP32 {name}": of("FP32", unary(name), values=POSITIVE) for name in ("log", "rsqrt")},
    "FP16 log of exp": of("FP16", EXP, unary("log")),
    "FP16 exp of exp": of("FP16", EXP, EXP),
    "FP32 exp, large": of("FP32", EXP, values=22.3 * GRID),
    "FP16 subnormal": of("FP16", ABS, unary("exp"), unary("negate"), values=3 * GRID - 4),
    "FP16 subnormal input": of(
        "FP16", lambda b, x: b.mul(x, b.const([[100.0]], "FP16")), values=1e-5 * GRID
    ),
    "FP32 subnormal constant": of(
        "FP32", EXP, lambda b, x: b.mul(x, b.const([[1e-39]], "FP32")), values=30 + GRID
    ),
    "FP16 clamp of exp": of("FP16", EXP, unary("clamp", min_val=0.5, max_val=2.0)),
    "FP16 reciprocal of sin": of("FP16", unary("sin"), unary("reciprocal")),
    "FP16 log of sin": of("FP16", unary("sin"), unary("log")),
    "FP16 ceil of exp": of("FP16", EXP, unary("ceil")),
    "FP16 cast to INT8": of("FP16", EXP, unary("cast", dtype="INT8")),
    "FP16 cast to FP8": of("FP16", EXP, unary("cast", dtype="FP8E4M3")),
    "FP32 cast to FP16": of("FP32", EXP, unary("cast", dtype="FP16")),
    "FP16 cast to FP32": of("FP16", EXP, unary("cast", dtype="FP32")),
    "FP16 argmax": of(
        "FP16", EXP, unary("argmax", axis=1, dtype="INT32"), values=GRID.round(1) % 0.5
    ),
    **{f"FP16 {name}": compared(name) for name in ("greater", "equal", "greater_equal")},
    "FP16 select": chosen,
    "FP16 pow": of("FP16", lambda b, x: b.pow(x, b.const([[1.5]], "FP16")), values=POSITIVE),
    "FP32 square": of("FP32", lambda b, x: b.mul(x, x)),
    "FP32 square of exp": of("FP32", EXP, lambda b, x: b.mul(x, x)),
    "FP16 sum of two": of("FP16", EXP, lambda b, x: b.add(x, b.sin(x))),
    "FP16 difference to itself": of("FP16", EXP, lambda b, x: b.sub(x, x)),
    **{
        f"FP16 {name}": of("FP16", unary(name, axis=1))
        for name in ("reduce_sum", "reduce_max", "reduce_product")
    },
    "BF16 reduce_sum": of("BF16", unary("reduce_sum", axis=0)),
    "FP32 reduce_sum of exp": of("FP32", EXP, unary("reduce_sum", axis=1)),
    "FP32 matmul": matmul("FP32"),
    "FP16 matmul": matmul("FP16"),
    "FP16 matmul in FP16": matmul("FP16", "FP16"),
    "FP8 matmul": matmul("FP8E4M3"),
    "FP32 conv2d": convolved("FP32"),
    "FP16 conv2d": convolved("FP16"),
    "FP32 softmax": softmax("FP32"),
    "FP16 softmax": softmax("FP16"),
    "FP32 rfft2d": of("FP32", EXP, lambda b, x: b.rfft2d(x)[0], values=draw((1, 4, 8))),
    "FP32 avg_pool2d": of(
        "FP32", EXP, unary("avg_pool2d", kernel=(2, 2), stride=(2, 2)), values=draw((1, 4, 4, 3))
    ),
    "FP32 resize": of(
        "FP32",
        EXP,
        lambda b, x: b.resize(x, (4, 2, 4, 2), (0, 0), (2, 2), mode="BILINEAR", dtype="FP32"),
        values=draw((1, 4, 4, 3)),
    ),
    "FP16 reverse": of("FP16", EXP, unary("reverse", axis=1)),
}


def described(name: str) -> tuple[float, ...]:
    """Return the root mean square of a spread over the largest number, and the count of infinities.

    Of integers: the sum of their ranges, and how many indices are possible.
    """
    b = Builder("main")
    value, inputs = CASES[name](b)
    b.output(value, name="y")
    graph = b.graph()
    given = {
        key: array.astype(graph.main.tensors[key].dtype.numpy) for key, array in inputs.items()
    }
    found = measure(graph, given, ["y"])["y"]
    kinds = 0.0 if found.kinds is None else float(found.kinds.sum())
    if found.sigma is None:
        assert found.low is not None
        assert found.high is not None
        width = found.high.astype(np.float64) - found.low.astype(np.float64)
        possible = 0 if found.possible is None else int(found.possible.sum())
        return float(width.sum()), float(np.count_nonzero(width)), float(possible)
    is_known = np.isfinite(found.sigma)
    fits = np.isfinite(found.exact)
    unit = (
        float(np.abs(found.exact[fits]).max())
        * 2.0 ** -FLOATS[graph.main.tensors["y"].dtype.name][0]
    )
    size = float(np.sqrt(np.mean(np.square(found.sigma[is_known])))) / (unit or 1.0)
    return (
        size,
        float(np.count_nonzero(found.sigma)),
        float(np.count_nonzero(~is_known)) + kinds / 1000,
    )


#: As `described` returns them.
PINNED: dict[str, tuple[float, float, float]] = {
    "FP32 exp": (1.8104, 96, 0),
    "FP32 tanh": (21.368, 96, 0),
    "FP32 sigmoid": (3.1077, 96, 0),
    "FP32 sin": (10137, 96, 0),
    "FP32 cos": (7085.6, 96, 0),
    "FP32 erf": (1.766, 96, 0),
    "FP32 reciprocal": (0.067741, 96, 0),
    "FP16 exp": (1.4543, 96, 0),
    "FP16 tanh": (12.573, 96, 0),
    "FP16 sigmoid": (3.1078, 96, 0),
    "FP16 sin": (108.8, 96, 0),
    "FP16 cos": (72.285, 96, 0),
    "FP16 erf": (1.5424, 96, 0),
    "FP16 reciprocal": (0.067758, 96, 0),
    "BF16 exp": (1.4557, 96, 0),
    "FP32 log": (1.8498, 96, 0),
    "FP32 rsqrt": (0.40516, 96, 0),
    "FP16 log of exp": (2.7381, 96, 0),
    "FP16 exp of exp": (90.789, 96, 0.04),
    "FP32 exp, large": (15.768, 96, 0.002),
    "FP16 subnormal": (4.1178, 96, 0.08),
    "FP16 subnormal input": (328.39, 96, 0),
    "FP32 subnormal constant": (1.0878e06, 96, 0),
    "FP16 clamp of exp": (0.30197, 24, 0),
    "FP16 reciprocal of sin": (787.23, 96, 0.062),
    "FP16 log of sin": (106.77, 60, 0.263),
    "FP16 ceil of exp": (7.3467, 28, 0),
    "FP16 cast to INT8": (35, 19, 0),
    "FP16 cast to FP8": (0.043544, 60, 0),
    "FP32 cast to FP16": (0.04507, 96, 0),
    "FP16 cast to FP32": (12484, 96, 0),
    "FP16 argmax": (49, 8, 19),
    "FP16 greater": (96, 96, 0),
    "FP16 equal": (96, 96, 0),
    "FP16 greater_equal": (96, 96, 0),
    "FP16 select": (310.32, 96, 0),
    "FP16 pow": (5.2407, 96, 0),
    "FP32 square": (0.043256, 94, 0),
    "FP32 square of exp": (2.9714, 96, 0),
    "FP16 sum of two": (7.1836, 96, 0),
    "FP16 difference to itself": (0, 0, 0),
    "FP16 reduce_sum": (0.77352, 8, 0),
    "FP16 reduce_max": (0, 0, 0),
    "FP16 reduce_product": (2.5859, 8, 0.004),
    "BF16 reduce_sum": (0.11971, 12, 0),
    "FP32 reduce_sum of exp": (1.8112, 8, 0),
    "FP32 matmul": (0.88192, 96, 0),
    "FP16 matmul": (0.88177, 96, 0),
    "FP16 matmul in FP16": (0.89713, 96, 0),
    "FP8 matmul": (1061.2, 96, 0),
    "FP32 conv2d": (1.9289, 128, 0),
    "FP16 conv2d": (1.2714, 128, 0),
    "FP32 softmax": (1.7375, 96, 0),
    "FP16 softmax": (1.1247, 96, 0),
    "FP32 rfft2d": (1.6208, 20, 0),
    "FP32 avg_pool2d": (1.29, 12, 0),
    "FP32 resize": (39613, 192, 0),
    "FP16 reverse": (1.5239, 96, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_runs_are_as_far_apart_as_they_were(name: str) -> None:
    """Look at the figures of docs/golden.md about correct and faulty backends before one is changed."""
    assert described(name) == pytest.approx(PINNED[name], rel=2e-3)


def exp_and_x(b: Builder, x: Any) -> Any:
    return b.concat([x, b.exp(x)], axis=0)


#: What is computed of x, 1 to 4, and which of its elements no error reaches.
MIXED: dict[str, tuple[Callable[[Builder, Any], Any], list[int]]] = {
    "beside": (exp_and_x, [1, 1, 1, 1, 0, 0, 0, 0]),
    "reversed": (lambda b, x: b.reverse(exp_and_x(b, x), axis=0), [0, 0, 0, 0, 1, 1, 1, 1]),
    "negated": (lambda b, x: b.negate(exp_and_x(b, x)), [1, 1, 1, 1, 0, 0, 0, 0]),
    "part": (lambda b, x: b.slice(exp_and_x(b, x), (3,), (2,)), [1, 0]),
    "padded": (lambda b, x: b.pad(b.exp(x), (1, 2), b.const([0.0], "FP16")), [1, 0, 0, 0, 0, 1, 1]),
    "chosen": (
        lambda b, x: b.select(b.greater(x, b.const([2.0], "FP16")), b.exp(x), x),
        [1, 1, 0, 0],
    ),
    "chosen by an error": (
        lambda b, x: b.select(b.greater(b.exp(x), b.const([2.0], "FP16")), x, x),
        [0, 0, 0, 0],
    ),
    "compared": (
        lambda b, x: b.maximum(exp_and_x(b, x), b.const([0.0], "FP16")),
        [1] * 4 + [0] * 4,
    ),
    # A tenth has all bits of FP16: three of it are rounded, and two or four are not.
    "rounded": (
        lambda b, x: b.concat(
            [b.add(x, b.const([1.0], "FP16")), b.mul(x, b.const([0.1], "FP16"))], axis=0
        ),
        [1, 1, 1, 1, 1, 1, 0, 1],
    ),
    "summed": (
        lambda b, x: b.concat(
            [b.reduce_max(x, axis=0), b.reduce_sum(b.mul(x, b.const([0.001], "FP16")), axis=0)],
            axis=0,
        ),
        [1, 0],
    ),
    # No order of these terms rounds a sum.
    "counted": (
        lambda b, x: b.concat([b.exp(x), b.reduce_sum(b.mul(x, x), axis=0)], axis=0),
        [0, 0, 0, 0, 1],
    ),
}


def test_the_branch_that_runs_decides_what_errors_reach() -> None:
    for is_then, expected in ((True, [1, 1]), (False, [0, 0])):
        b = Builder("main")
        condition, x = b.input("c", "BOOL", (1,)), b.input("x", "FP16", (2,))
        branches = lambda i, v: [i.negate(v)], lambda i, v: [i.exp(v)]
        (y,) = b.cond_if(condition, [x], *branches)
        b.output(y, name="y")
        given = {"c": np.array([is_then]), "x": np.array([1, 0], np.float16)}
        found = exact_elements(b.graph(), given, ["y"])
        assert found.get("y", np.zeros(2)).astype(int).tolist() == expected


@pytest.mark.parametrize("name", MIXED)
def test_elements_that_no_error_reaches_are_known(name: str) -> None:
    make, expected = MIXED[name]
    b = Builder("main")
    b.output(make(b, b.input("x", "FP16", (4,))), name="y")
    graph = b.graph()
    given = {"x": np.array([1, 2, 3, 4], np.float16)}
    found = exact_elements(graph, given, ["y"])
    assert found.get("y", np.zeros(len(expected))).astype(int).tolist() == expected
