"""Casts between all types, and arithmetic at the ends of each type, against JAX.

The sign of a zero counts for atan2 only: TOSA does not promise it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import SIGNED, jax

import tosa_convert as tc

jnp, lax = jax.numpy, jax.lax
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
FLOATS = ("float32", "float16", "bfloat16")
PLAIN = ("bool", *INTEGERS, *FLOATS)
FP8 = ("float8_e4m3fn", "float8_e5m2")
_SIZES = (*(0.3, 0.5, 0.7, 1, 1.5, 2.5, 40.7, 127.5, 128.5, 200.7, 255.5, 300, 32767.6, 65504),)
_LARGE = (*(65536.7, 2**24 + 2, 2**31 - 128, 2**31, 3e9, 4294967040.0, 2**32, 5e9, 1e30, np.inf),)
NUMBERS = np.array([0, *_SIZES, *_LARGE, np.nan, *(-x for x in (0.0, *_SIZES, *_LARGE))])
SMALL = np.array([1, 0.5, -3, 7, 2])

UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": jnp.abs,
    "clip": lambda x: jnp.clip(x, 1, 5),
    "clip above": lambda x: jnp.clip(x, max=5),
    "clip below": lambda x: jnp.clip(x, min=1),
    "floor divide": lambda x: x // 3,
    "max": jnp.max,
    "min": jnp.min,
    "neg": lax.neg,
    "relu": jax.nn.relu,
    "rem": lambda x: lax.rem(x, jnp.asarray(3, x.dtype)),
    "round": jnp.round,
    "sign": jnp.sign,
    "sort": jnp.sort,
    "square": jnp.square,
}
SUMS: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda x: jnp.cumsum(x, dtype=x.dtype),
    "dot": lambda x: jnp.dot(x, x),
    "prod": lambda x: x.prod(dtype=x.dtype),
    "sum": lambda x: x.sum(dtype=x.dtype),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lax.add,
    "atan2": lax.atan2,
    "div": lax.div,
    "divmod": jnp.divmod,
    "floor divide": lambda x, y: x // y,
    "ge": lax.ge,
    "lt": lax.lt,
    "max": lax.max,
    "min": lax.min,
    "mod": lambda x, y: x % y,
    "mul": lax.mul,
    "pow": jnp.power,
    "rem": lax.rem,
    "shift left": lax.shift_left,
    "shift right": lax.shift_right_arithmetic,
    "shift right, unsigned": lax.shift_right_logical,
    "sub": lax.sub,
}
OF_INTEGERS = ("shift left", "shift right", "shift right, unsigned")


def ends(name: str) -> Any:
    """Return the numbers at the ends of a type, around 0, and at halves of its range."""
    kind = jnp.dtype(name)
    if name == "bool":
        return np.array([False, True, True])
    if kind.kind not in "iu":
        return NUMBERS.astype(np.float32).astype(kind)
    limits = np.iinfo(kind)
    half = limits.max // 2
    near = [*(limits.min + n for n in range(2)), *(limits.max - n for n in range(2))]
    small = [*range(-3, 8), 100, -100, 127, 128, 200, 255, 46341, half, half + 1, -half, -half - 2]
    return np.array(sorted({n for n in (*near, *small) if limits.min <= n <= limits.max}), kind)


def outcome(function: Callable[..., Any], *args: Any) -> str:
    """Return "equal", "refused: " and why, or what the program computes otherwise."""
    try:
        graph = tc.frontends.from_jax(function, args)
    except tc.TosaConvertError as error:
        return f"refused: {error}"
    flat = [value.view(SIGNED.get(str(value.dtype), value.dtype)) for value in args]
    found = tc.run(graph, dict(zip(graph.main.inputs, flat, strict=True)), engine="numpy").outputs
    for want, made in zip(jax.tree.leaves(jax.jit(function)(*args)), found.values(), strict=True):
        expected = np.asarray(want)
        if expected.dtype.kind in "iub":
            wrong = made.view(expected.dtype) != expected
        else:
            x, y = made.astype(np.float64), expected.astype(np.float64)
            with np.errstate(invalid="ignore"):  # The difference of two infinities.
                distance = np.abs(x - y)
            near = distance <= 4 * float(jnp.finfo(expected.dtype).eps) * np.abs(y) + 2.0**-126
            wrong = ~((x == y) | (np.isnan(x) & np.isnan(y)) | near)
            wrong |= (np.signbit(x) != np.signbit(y)) & (function is lax.atan2) & ~np.isnan(y)
        if wrong.any():
            where = np.argmax(wrong.reshape(-1))
            given = [np.broadcast_to(one, expected.shape).reshape(-1)[where] for one in args]
            values = expected.reshape(-1)[where], made.reshape(-1)[where]
            return f"{wrong.sum()} differ: {given} gives {values[1]}, expected {values[0]}"
    return "equal"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "source", ["bool", *(pytest.param(one, marks=pytest.mark.slow) for one in PLAIN[1:])]
)
def test_casts_round_and_saturate_as_in_jax(source: str) -> None:
    numbers = ends(source)
    found = {
        target: outcome(lambda x, target=target: lax.convert_element_type(x, target), numbers)
        for target in PLAIN
        if target != source
    }
    assert set(found.values()) == {"equal"}, found


@pytest.mark.slow
@pytest.mark.parametrize("small", FP8)
def test_casts_between_fp8_and_other_types_than_floats_are_equal_or_refused(small: str) -> None:
    for other in ("bool", *INTEGERS):
        given, target = ends(other), jnp.dtype(other)
        narrow = np.ones(4, np.float32).astype(jnp.dtype(small))
        for function, data in (
            (lambda x: lax.convert_element_type(x, small), given),
            (lambda x, target=target: lax.convert_element_type(x, target), narrow),
        ):
            found = outcome(function, data)
            assert found == "equal" or found.startswith("refused: "), (other, small, found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("name", UNARY)
def test_a_function_agrees_at_the_ends_of_each_type(name: str, kind: str) -> None:
    assert outcome(UNARY[name], ends(kind)) == "equal"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", ["int32", *(pytest.param(one, marks=pytest.mark.slow) for one in (*INTEGERS, *FLOATS))]
)
def test_sums_and_products_wrap_around_as_in_jax(kind: str) -> None:
    data = ends(kind) if kind in INTEGERS else SMALL.astype(jnp.dtype(kind))
    found = {name: outcome(function, data) for name, function in SUMS.items()}
    assert set(found.values()) == {"equal"}, found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_agrees_at_the_ends_of_each_type(name: str, kind: str) -> None:
    if (name in OF_INTEGERS and kind in FLOATS) or (name in ("atan2", "pow") and kind in INTEGERS):
        return
    numbers = ends(kind)
    pair = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
    assert outcome(BINARY[name], *pair) == "equal"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("divisor", "kind"),
    [
        (0.1, "float32"),
        *(
            pytest.param(number, kind, marks=pytest.mark.slow)
            for kind in FLOATS
            for number in (None, 3, 6.2831855, 1, 0.5, 1e-3, 360, 1e30 if kind != "float16" else 7)
        ),
    ],
)
def test_remainders_are_exact(divisor: float | None, kind: str) -> None:
    """None is for divisors that are computed. The judge is fmod of C, which XLA uses."""
    dtype = jnp.dtype(kind)
    bits = np.random.default_rng(0).integers(0, 2**32, (2, 20_000), dtype=np.uint64)
    unsigned = f"uint{8 * dtype.itemsize}"
    a, b = (bits & (2 ** (8 * dtype.itemsize) - 1)).astype(unsigned).view(dtype)
    a = np.concatenate([a, np.arange(1, 5000, dtype=np.float32).astype(dtype)])
    if divisor is not None:
        b = np.full(a.shape, divisor, np.float32).astype(dtype)
        graph = tc.frontends.from_jax(lambda x: lax.rem(x, b[0]), (a,))
    else:
        b = np.resize(b, a.shape)
        graph = tc.frontends.from_jax(lax.rem, (a, b))
    given = dict(zip(graph.main.inputs, (a, b), strict=False))
    (found,) = tc.run(graph, given, engine="numpy").outputs.values()
    wide = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.fmod(*wide).astype(dtype)
    # XLA takes subnormal numbers of FP32 and BF16 for 0.
    normal = np.ones(a.shape, bool)
    if kind != "float16":
        normal = (np.abs(wide[0]) >= 2.0**-126) & (np.abs(wide[1]) >= 2.0**-126)
    x, y = found.astype(np.float64)[normal], expected.astype(np.float64)[normal]
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("function", "operators"),
    [
        (lambda x, i: x[i], {"BITWISE_OR", "ADD", "GREATER", "SELECT"}),
        (lambda x, i: (i > 0).sum() + jnp.argmax(x), {"ADD"}),
        (lambda x, i: i + 1, {"BITWISE_OR", "ADD", "BITWISE_XOR", "GREATER", "SELECT"}),
        (lambda x, i: lax.fori_loop(0, i[0], lambda n, a: a * n, 1.0), {"ADD"}),
    ],
    ids=["index", "count", "sum", "loop"],
)
def test_sums_that_fit_are_plain_ones(function: Callable[..., Any], operators: set[str]) -> None:
    x, i = np.ones((10, 4), np.float32), np.zeros(3, np.int32)
    graph = tc.frontends.from_jax(function, (x, i))
    names = {op.spec.name for _, block in graph.blocks() for op in block.operators}
    asked = {"ADD", "BITWISE_OR", "BITWISE_XOR", "BITWISE_AND"}
    assert names & asked == operators & asked
