"""What the rows of the bench have in common: small programs, and ways to make an operator wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from golden.fault_bench.fault import (
    TARGET,
    At,
    Change,
    Fault,
    FaultyMachine,
    Inputs,
    Value,
    at_target,
    faulty,
)

from tosa_convert.builder import Builder, DTypeName, dtype_of
from tosa_convert.builder import Value as Operand
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.graph import Graph
from tosa_convert.reference.call import Array, is_float

FLOATS: Final[tuple[DTypeName, ...]] = ("FP32", "FP16", "BF16")
INTEGERS: Final[tuple[DTypeName, ...]] = ("INT8", "INT16", "INT32")
#: Adds the operator that is to be wrong.
Make = Callable[[Builder, Operand], Operand]
#: Numbers that the first elements of an input get.
Numbers = Sequence[float]


def program_of(dtype: str, shape: tuple[int, ...], make: Make, before: str = "") -> Graph:
    """Return x -> exact operators -> the operator -> an exact operator.

    before: "behind" puts an inexact operator, or another input for integers, before it.
    """
    b = Builder("program")
    x = b.input("x", dtype_of(dtype), shape)
    if before == "behind" and x.dtype.is_float:
        x = b.mul(x, 0.75)
    elif before == "behind":
        x = b.bitwise_xor(x, b.input("z", x.dtype, shape))
    with at_target(b):
        y = make(b, x)
    b.output(finished(b, y), name="y")
    return b.graph()


def finished(b: Builder, y: Operand) -> Operand:
    """Return the value after an operator that changes every element exactly."""
    kind = y.dtype.name
    if kind == "BOOL":
        return b.logical_not(y)
    if kind in INTEGERS:
        return b.bitwise_not(y)
    return b.negate(y) if kind in FLOATS else b.identity(y)


def rows(
    kind: str,
    family: str,
    make: Make,
    change: Change,
    dtypes: Iterable[str],
    *,
    shape: tuple[int, ...] = (4, 8),
    befores: Sequence[str] = ("",),
    values: Numbers | None = None,
    variant: str = "",
    target: str = "",
) -> Iterator[Fault]:
    """Iterate over the faults of a kind: one for each element type.

    values: the first elements of x that show the fault, if random ones do not.
    target: the element type that the fault is about, if it is not that of x.
    """
    for dtype in dtypes:
        for before in befores:
            program = partial(program_of, dtype, shape, make, before)
            yield Fault(
                kind=kind,
                family=family,
                dtype=target or dtype,
                program=program,
                backend=faulty(change),
                witness=None if values is None else partial(with_values, program, tuple(values)),
                variant=" ".join(filter(None, (variant, f"of {dtype}" if target else "", before))),
            )


def with_values(program: Callable[[], Graph], values: Numbers, name: str = "x") -> Inputs:
    """Return random inputs of which one begins with these numbers."""
    graph = program()
    arrays = random_inputs(graph, input_slots(graph), 0)
    flat = arrays[name].reshape(-1)
    with np.errstate(over="ignore"):
        flat[: len(values)] = np.array(values).astype(flat.dtype)[: flat.size]
    return arrays | ({"z": np.zeros_like(arrays["z"])} if "z" in arrays else {})


def wide(value: Any) -> Array:
    """Return an array in FP64 or INT64."""
    array = np.asarray(value)
    kind = np.float64 if is_float(array.dtype) else np.int64
    return array.astype(np.int8).astype(kind) if array.dtype.name == "int4" else array.astype(kind)


def instead(compute: Callable[..., Any]) -> Change:
    """Return a change to what is computed of the right result and the operands, in FP64 or INT64."""

    def change(at: At, results: list[Value]) -> list[Value]:
        right = np.asarray(results[0])
        with np.errstate(all="ignore"):
            found = np.asarray(compute(wide(right), *map(wide, at.operands)))
            return [found.astype(right.dtype).reshape(right.shape), *results[1:]]

    return change


def of_operands(change_them: Callable[..., Sequence[Any]], **attributes: Any) -> Change:
    """Return a change to what the operator gives for other operands and attributes."""

    def change(at: At, results: list[Value]) -> list[Value]:
        with np.errstate(all="ignore"):
            return at.again(list(change_them(*at.operands)), **attributes)

    return change


def with_attributes(**attributes: Any) -> Change:
    """Return a change to what the operator gives with other attributes."""
    return of_operands(lambda *operands: operands, **attributes)


def fused(change: Change, *places: str) -> Callable[[], FaultyMachine]:
    """Return a backend whose last place is wrong if the same run computes the places before it."""

    def only_fused(at: At, results: list[Value]) -> Sequence[Value]:
        found, seen = [at], {at.op.location}
        while found:
            one = found.pop()
            for position in range(len(one.op.inputs)):
                producer = one.producer(position)
                if producer is not None and producer.op.location not in seen:
                    seen.add(producer.op.location)
                    found.append(producer)
        return change(at, results) if seen >= set(places) else results

    return faulty(only_fused, places[-1])


def place(name: str) -> str:
    """Return a location."""
    return f'loc("{name}")'


def in_type(array: Any, dtype: str) -> Array:
    """Return numbers rounded to an element type, in FP64."""
    from tosa_convert.graph import dtype as row

    return np.asarray(array).astype(np.float32).astype(row(dtype).numpy).astype(np.float64)


__all__ = [
    "FLOATS",
    "INTEGERS",
    "TARGET",
    "at_target",
    "finished",
    "fused",
    "in_type",
    "instead",
    "of_operands",
    "place",
    "program_of",
    "rows",
    "wide",
    "with_attributes",
    "with_values",
]
