"""Faults of operators that decide behind inexact ones: indices, comparisons, casts and conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from golden.fault_bench.fault import Change, Fault, FaultyMachine, at_target, faulty
from golden.fault_bench.programs import FLOATS, in_type, instead, of_operands

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import Graph, Operator

#: Adds what decides, and operators after it.
Decide = Callable[[Builder, Any], Any]
SUMS: Final[dict[str, DTypeName]] = {"FP16": "fp16"}


def _weights(size: int, columns: int) -> Array:
    numbers: Array = (np.arange(size * columns) * 61 % 127 / 63.5 - 1).reshape(1, size, columns)
    return numbers


def behind_product(
    dtype: DTypeName, decide: Decide, columns: int = 12, scale: float = 1.0
) -> Graph:
    """Return x -> a product of matrices -> an operator that decides."""
    b = Builder("behind_product")
    x = b.input("x", dtype, (1, 16, 8))
    weight = b.const(_weights(8, columns) * scale, dtype)
    y = b.matmul(x, weight, dtype=SUMS.get(dtype))
    if y.dtype.name != dtype and dtype in FLOATS:
        y = b.cast(y, dtype=dtype)
    b.output(decide(b, y), name="y")
    return b.graph()


def behind_softmax(dtype: DTypeName, decide: Decide) -> Graph:
    """Return x -> a softmax -> an operator that decides."""
    b = Builder("behind_softmax")
    x = b.mul(b.input("x", dtype, (1, 16, 12)), 3.0)
    x = b.exp(b.sub(x, b.reduce_max(x, axis=2)))
    x = b.mul(x, b.reciprocal(b.reduce_sum(x, axis=2)))
    b.output(decide(b, x), name="y")
    return b.graph()


def of_each(
    kind: str,
    decide: Decide,
    change: Change | Callable[[], FaultyMachine],
    dtypes: tuple[DTypeName, ...] = FLOATS,
    *,
    softmax: bool = False,
    **sizes: Any,
) -> Iterator[Fault]:
    """Iterate over the faults of a kind: behind a product, and behind a softmax."""
    is_backend = isinstance(change, partial)
    for dtype in dtypes:
        programs = {"behind MATMUL": partial(behind_product, dtype, decide, **sizes)}
        if softmax:
            programs["behind softmax"] = partial(behind_softmax, dtype, decide)
        for variant, program in programs.items():
            yield Fault(
                kind=kind,
                family="discrete",
                dtype=dtype,
                program=program,
                backend=change if is_backend else faulty(change),  # type: ignore[arg-type]
                variant=variant,
            )


# -- indices ----------------------------------------------------------------------------------------


def argmax(b: Builder, x: Any) -> Any:
    """Return the index of the greatest element of each row."""
    with at_target(b):
        y = b.argmax(x, axis=2, dtype="int32")
    return b.bitwise_not(y)


def gather(b: Builder, x: Any) -> Any:
    """Return rows of a table, by the index of the greatest element."""
    index = b.argmax(x, axis=2, dtype="int32")
    table = b.const(np.arange(40).reshape(1, 20, 2), "int32")
    with at_target(b):
        y = b.gather(table, index)
    return b.bitwise_not(y)


def scatter(b: Builder, x: Any) -> Any:
    """Return rows that are written where the greatest element of the only row is."""
    index = b.argmax(b.slice(x, (0, 0, 0), (1, 1, int(x.shape[2]))), axis=2, dtype="int32")
    with at_target(b):
        y = b.scatter(np.zeros((1, 20, 2), np.int32), index, np.ones((1, 1, 2), np.int32))
    return b.bitwise_not(y)


def _second(r: Array, x: Array) -> Any:
    return np.argsort(-x, axis=2, kind="stable")[:, :, 1]


def _in_chunks(r: Array, x: Array) -> Any:
    return np.where(x.max(axis=2) > 0, r % 8, r)


def _in_short_type(dtype: str) -> Callable[..., Any]:
    return lambda r, x: in_type(x, dtype).argmax(axis=2)


def _tree(r: Array, x: Array) -> Any:
    """Return the greatest of each half, but of the halves that whose first element is greater."""
    half = x.shape[2] // 2
    first, second = x[:, :, :half], x[:, :, half:]
    is_first = first[:, :, 0] >= second[:, :, 0]
    return np.where(is_first, first.argmax(axis=2), half + second.argmax(axis=2))


def indices() -> Iterator[Fault]:
    """Indices that are computed from inexact numbers."""
    for kind, change in (
        ("argmax is the second greatest", _second),
        ("argmax loses the number of the chunk", _in_chunks),
        ("argmax is the least element", lambda r, x: x.argmin(axis=2)),
        ("argmax compares the first elements of halves", _tree),
        ("argmax counts from 1", lambda r, x: np.minimum(r + 1, x.shape[2] - 1)),
        ("argmax compares absolute values", lambda r, x: np.abs(x - 0.2).argmax(axis=2)),
    ):
        is_common = kind.startswith(("argmax loses", "argmax is the second"))
        yield from of_each(kind, argmax, instead(change), softmax=is_common)
    yield from of_each(
        "argmax compares in a shorter type",
        argmax,
        instead(_in_short_type("FP8E4M3")),
        ("FP32", "FP16"),
        columns=24,
    )
    yield from of_each(
        "gather by a computed index is one row off",
        gather,
        of_operands(lambda table, index: [table, index + 1]),
        softmax=True,
    )
    yield from of_each(
        "gather by a computed index reads columns",
        gather,
        instead(lambda r, table, index: table.reshape(1, 2, 20).transpose(0, 2, 1)[0, index]),
    )
    yield from of_each(
        "scatter by a computed index is one row off",
        scatter,
        of_operands(lambda values, index, new: [values, index + 1, new]),
    )


# -- comparisons ------------------------------------------------------------------------------------


def compare(name: str, threshold: float, b: Builder, x: Any) -> Any:
    """Return a comparison with a number."""
    with at_target(b):
        y = getattr(b, name)(x, threshold)
    return b.logical_not(y)


def choose(b: Builder, x: Any) -> Any:
    """Return x, or a number where x is not positive."""
    is_positive = b.greater(x, 0.0)
    with at_target(b):
        y = b.select(is_positive, x, -7.0)
    return b.negate(y)


def any_of(b: Builder, x: Any) -> Any:
    """Return whether an element of a row is large."""
    large = b.greater(x, 0.25)
    with at_target(b):
        y = b.reduce_any(large, axis=2)
    return b.logical_not(y)


def all_of(b: Builder, x: Any) -> Any:
    """Return whether all elements of a row are small."""
    small = b.greater(0.25, x)
    with at_target(b):
        y = b.reduce_all(small, axis=2)
    return b.logical_not(y)


def _as_integers(r: Array, x: Array, y: Array) -> Any:
    """Return the numbers are compared as if their bits were those of integers."""
    one, other = ((a.astype(np.float32)).view(np.int32) for a in (x, y))
    return one > other


def comparisons() -> Iterator[Fault]:
    """Comparisons of inexact numbers."""
    greater = partial(compare, "greater", 0.25)
    negative = partial(compare, "greater", -0.5)
    for kind, decide, change in (
        ("comparison is the other way round", greater, lambda r, x, y: x < y),
        ("comparison takes absolute values", negative, lambda r, x, y: np.abs(x) > y),
        ("comparison of the bits as integers", negative, _as_integers),
        ("comparison in FP8", greater, lambda r, x, y: in_type(x, "FP8E5M2") > y),
        ("comparison with a number of the wrong sign", greater, lambda r, x, y: x > -y),
        ("comparison loses the fraction", greater, lambda r, x, y: np.trunc(x) > np.trunc(y)),
    ):
        yield from of_each(kind, decide, instead(change))
    for kind, reduced, wrong in (
        ("any ignores the last element", any_of, lambda r, x: x[:, :, :-1].any(2, keepdims=True)),
        ("all ignores the last element", all_of, lambda r, x: x[:, :, :-1].all(2, keepdims=True)),
    ):
        yield from of_each(kind, reduced, instead(wrong), columns=2)
    yield from of_each(
        "selection takes the other operand", choose, instead(lambda r, c, x, y: np.where(c, y, x))
    )
    yield from of_each(
        "comparison of probabilities takes a rounded threshold",
        partial(compare, "greater", 0.0735),
        instead(lambda r, x, y: x > 0.0625),
        softmax=True,
    )


# -- casts ------------------------------------------------------------------------------------------


def quantize(dtype: DTypeName, b: Builder, x: Any) -> Any:
    """Return a cast to integers."""
    with at_target(b):
        y = b.cast(x, dtype=dtype)
    return b.bitwise_not(y)


def to_bool(b: Builder, x: Any) -> Any:
    """Return a cast to BOOL."""
    with at_target(b):
        y = b.cast(x, dtype="bool")
    return b.logical_not(y)


def look_up(b: Builder, x: Any) -> Any:
    """Return entries of a table, by numbers that were rounded."""
    x = b.cast(x, dtype="int8")
    with at_target(b):
        y = b.table(x, list(range(127, -129, -1)))
    return b.bitwise_not(y)


def round_off(name: str, b: Builder, x: Any) -> Any:
    """Return FLOOR or CEIL."""
    with at_target(b):
        y = getattr(b, name)(x)
    return b.negate(y)


def casts() -> Iterator[Fault]:
    """Casts of inexact numbers."""
    byte = partial(quantize, "int8")
    for kind, change in (
        ("quantization truncates", lambda r, x: np.clip(np.trunc(x), -128, 127)),
        ("quantization rounds down", lambda r, x: np.clip(np.floor(x), -128, 127)),
        ("quantization wraps around", lambda r, x: (np.rint(x) + 128) % 256 - 128),
        ("quantization saturates at -127", lambda r, x: np.maximum(r, -127)),
        ("quantization is unsigned", lambda r, x: np.clip(np.rint(x), 0, 127)),
        ("quantization is one step off", lambda r, x: np.minimum(r + 1, 127)),
        ("quantization rounds away from zero", lambda r, x: np.clip(x + np.sign(x), -128, 127)),
    ):
        yield from of_each(kind, byte, instead(change), scale=100.0)
    yield from of_each(
        "quantization to INT16 saturates at 8 bits",
        partial(quantize, "int16"),
        instead(lambda r, x: np.clip(r, -128, 127)),
        scale=100.0,
    )
    yield from of_each(
        "cast to BOOL goes through an integer",
        to_bool,
        instead(lambda r, x: np.trunc(x) != 0),
        ("FP32",),
    )
    yield from of_each(
        "table is read one entry off",
        look_up,
        of_operands(lambda x, table: [x, np.roll(table, 1)]),
        scale=30.0,
    )
    for kind, name, change in (
        ("floor of negative numbers is cut off", "floor", lambda r, x: np.trunc(x)),
        ("ceil of negative numbers is one less", "ceil", lambda r, x: np.where(x < 0, r - 1, r)),
        ("floor rounds to nearest", "floor", lambda r, x: np.rint(x)),
    ):
        yield from of_each(kind, partial(round_off, name), instead(change), scale=3.0)


# -- conditions -------------------------------------------------------------------------------------


class WrongBranch(FaultyMachine):
    """Takes the other branch, or runs a loop once more."""

    def __init__(self, truth: Callable[[bool, int], bool]) -> None:
        super().__init__()
        self.truth = truth

    def condition(self, op: Operator, is_true: bool, turn: int) -> bool:
        """See `FaultyMachine`."""
        return self.truth(is_true, turn)


def branch(b: Builder, x: Any) -> Any:
    """Return one of two branches, by the greatest of inexact numbers."""
    most = b.reduce_max(b.reduce_max(x, axis=1), axis=2)
    is_large = b.reshape(b.greater(most, 0.125), ())

    def then(inner: Builder, v: Any) -> Any:
        inner.location = ""
        return inner.negate(v)

    def other(inner: Builder, v: Any) -> Any:
        inner.location = ""
        return inner.abs(v)

    with at_target(b):
        (y,) = b.cond_if(is_large, [x], then, other)
    return b.negate(y)


def loop(b: Builder, x: Any) -> Any:
    """Return numbers that are doubled until the greatest is large."""

    def is_small(inner: Builder, v: Any) -> Any:
        inner.location = ""
        most = inner.reduce_max(inner.reduce_max(v, axis=1), axis=2)
        return inner.reshape(inner.greater(50.0, most), ())

    def body(inner: Builder, v: Any) -> Any:
        inner.location = ""
        return inner.add(v, v)

    with at_target(b):
        (y,) = b.while_loop([x], is_small, body)
    return b.negate(y)


def conditions() -> Iterator[Fault]:
    """Branches and loops that depend on inexact numbers."""
    for kind, decide, truth in (
        ("the other branch of an inexact condition runs", branch, lambda t, turn: not t),
        ("a loop with an inexact condition runs once more", loop, lambda t, turn: t or turn == 5),
        ("a loop with an inexact condition ends early", loop, lambda t, turn: t and turn < 3),
    ):
        yield from of_each(kind, decide, partial(WrongBranch, truth))


def faults() -> Iterator[Fault]:
    """Iterate over the faults of this file."""
    for group in (indices, comparisons, casts, conditions):
        yield from group()
