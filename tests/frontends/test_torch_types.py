"""Casts of torch between all types, 64-bit integers that are not narrowed, and exact quotients.

Eager torch says what is right. What is not equal is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tosa_convert as tc

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from frontends.torch_runs import assert_equal  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_INTEGERS: Final = ("uint8", "int8", "int16", "int32", "int64")
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_FP8: Final = ("float8_e4m3fn", "float8_e5m2")
_ABSENT: Final = ("uint16", "uint32", "uint64")

Operator = Callable[..., Any]
#: Operators at the ends of 64 bits; test_matrix.py has the others of all types.
ENDS: Final[dict[str, Operator]] = {
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "relu": lambda x, y: x.relu(),
    "clamp_min": lambda x, y: x.clamp(min=2),
    "maximum": lambda x, y: torch.maximum(x, y),
    "floor_divide": lambda x, y: x // 3,
    "remainder": lambda x, y: x % 3,
    "fmod": lambda x, y: torch.fmod(x, 3),
    "left": lambda x, y: x << 3,
    "right": lambda x, y: x >> 7,
}


def values(name: str) -> Any:
    """Return the ends of a type, what is beside them, halves, infinities and NaN."""
    kind = getattr(torch, name)
    if name == "bool":
        return torch.tensor([True, False, True, True])
    if kind.is_floating_point:
        halves = (0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 3.5, 127.5, 128, 200, 255, 300)
        sizes = (*halves, 32767, 65504, 1e10, 2147483520, 2147483648, float("inf"))
        found = torch.tensor(
            [*sizes, *(-size for size in sizes), float("nan")], dtype=torch.float64
        )
        return (found[found.abs() < 300] if name in _FP8 else found).to(kind)
    low, high = torch.iinfo(kind).min, torch.iinfo(kind).max
    if name == "int64":  # What --narrow keeps.
        low, high = -(2**31), 2**31 - 1
    near = (0, 1, 2, 3, 7, 100, 127, -1, -3, -7, -128, 128, 200, 255, 256, 32768, -32769, 16777217)
    ends = (low, low + 1, low // 2, high, high - 1, high // 2, high // 2 + 1)
    return torch.tensor([*ends, *(one for one in near if low <= one <= high)], dtype=kind)


def others(x: Any) -> Any:
    """Return another operand: no zeros, and no -1, by which torch may not divide the least integer."""
    y = torch.roll(x, 5)
    y = torch.where(y == 0, torch.ones_like(y), y)
    return y if x.dtype.is_floating_point else torch.where(y + 1 == 0, torch.full_like(y, 3), y)


def convertible(x: Any, target: str) -> Any:
    """Return the elements that torch defines in another type."""
    kind = getattr(torch, target)
    if not x.dtype.is_floating_point or kind.is_floating_point or kind is torch.bool:
        return x
    wide, limits = x.double(), torch.iinfo(kind)
    most = min(limits.max, 2**31 - 1)
    return x[(wide.trunc() >= max(limits.min, -(2**31))) & (wide.trunc() <= most)]


def cells(name: str) -> dict[str, tuple[Operator, tuple[Any, Any]]]:
    """Return the casts from a type, with their operands."""
    x = values(name)
    found: dict[str, tuple[Operator, tuple[Any, Any]]] = {}
    for target in ("bool", *_INTEGERS, *_FLOATS, *_FP8):
        if target != name:
            part = convertible(x, target)
            found[f"to_{target}"] = _cast(target), (part, part)
    return found


def _cast(target: str) -> Operator:
    return lambda x, y: x.to(getattr(torch, target))


class Program(torch.nn.Module):
    """Computes several operators, each of operands of its own."""

    def __init__(self, functions: list[Operator]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *operands: Any) -> Any:
        pairs = zip(operands[::2], operands[1::2], strict=True)
        return tuple(f(x, y) for f, (x, y) in zip(self.functions, pairs, strict=True))


def array(tensor: Any) -> Any:
    """Return a tensor of any type as numbers."""
    kind = tensor.dtype
    return tensor.double().numpy() if kind.is_floating_point else tensor.numpy()


def lowered(rows: dict[str, tuple[Operator, tuple[Any, Any]]], narrow: str) -> dict[str, Any]:
    """Lower one program of all rows, and run it; return its results by row."""
    operands = [one for _, pair in rows.values() for one in pair]
    module = Program([function for function, _ in rows.values()])
    graph = tc.frontends.from_torch(module, operands, narrow=narrow)
    assert not tc.validate(graph)
    given = {}
    for name, tensor in zip(graph.main.inputs, operands, strict=True):
        wanted = np.dtype(graph.main.tensors[name].dtype.numpy)
        is_bits = tensor.dtype is torch.uint8
        given[name] = array(tensor).view(wanted) if is_bits else array(tensor).astype(wanted)
    found = tc.run(graph, given, engine="numpy").outputs.values()
    return dict(zip(rows, found, strict=True))


def wrong(name: str, rows: dict[str, tuple[Operator, tuple[Any, Any]]], narrow: str) -> list[str]:
    """Return the rows whose results are not those of eager torch."""
    found, failed = lowered(rows, narrow), []
    for row, (function, pair) in rows.items():
        right, made = function(*pair), found[row]
        if right.dtype is torch.uint8:
            made = made.view(np.uint8)
        expected = array(right)
        if right.dtype is torch.int64:  # Narrowed, only what fits 32 bits is defined.
            keep = np.abs(expected) < 2**31 if narrow else np.ones(expected.shape, bool)
            made, expected = np.asarray(made)[keep], expected[keep]
        if right.dtype is torch.float64:
            expected = expected.astype(np.float32)
        error = {torch.bfloat16: 1e-2, torch.float16: 1e-3}.get(right.dtype, 3e-6)
        exact = not right.dtype.is_floating_point or row.startswith("to_")
        relative, absolute = (0.0, 0.0) if exact else (error, 1e-6)
        pair_of_arrays = made.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            close = np.allclose(*pair_of_arrays, rtol=relative, atol=absolute, equal_nan=True)
        if not close:
            failed.append(f"{name} {row}: {made} for {expected}")
    return failed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bool", *_INTEGERS, *_FLOATS, *_FP8])
def test_casts_equal_those_of_torch(name: str) -> None:
    assert not wrong(name, cells(name), "i64,f64")


#: Operators whose results leave 32 bits.
WIDE: Final[dict[str, Operator]] = {
    "add": lambda x, y: x + y,
    "add_number": lambda x, y: x + 2**40,
    "add_scaled": lambda x, y: torch.add(x, y, alpha=3),
    "add_broadcast": lambda x, y: x[:, None] + y,
    "add_narrow": lambda x, y: x + y.to(torch.int32),
    "add_truth": lambda x, y: x + (y > 2),
    "add_constants": lambda x, y: torch.full([2], 2**31 - 1) + torch.ones(2, dtype=torch.int64),
    "subtract": lambda x, y: x - y,
    "subtract_from": lambda x, y: 3 - x,
    "subtract_scaled": lambda x, y: torch.sub(x, y, alpha=-2),
    "multiply": lambda x, y: x * y,
    "multiply_number": lambda x, y: x * 2**33,
    "add_product": lambda x, y: torch.addcmul(x, x, y, value=2),
    "floor_quotient": lambda x, y: x // y,
    "rest": lambda x, y: x % y,
    "rest_of_number": lambda x, y: x % 3,
    "truncated_rest": lambda x, y: torch.fmod(x, y),
    "cumulate": lambda x, y: x.cumsum(0),
    "in_32_bits": lambda x, y: (x.to(torch.int32) // 2 + 1).to(torch.int64),
}


@pytest.mark.slow
def test_without_narrowing_int64_wraps_and_is_divided_exactly() -> None:
    x = torch.tensor([-(2**63), -(2**63) + 1, 2**63 - 1, 2**62, 0, 1, -7])
    rows = {row: (function, (x, others(x))) for row, function in ENDS.items()}
    assert not wrong("int64", rows, "")


@pytest.mark.slow
def test_without_narrowing_int64_leaves_32_bits() -> None:
    x, y = torch.tensor([-(2**40), 2**31 - 1, -(2**31), 5, -7]), torch.tensor([3, 2, -2, -1, 2**33])
    assert not wrong("int64", {row: (function, (x, y)) for row, function in WIDE.items()}, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", _ABSENT)
def test_unsigned_types_that_tosa_does_not_have_are_refused(name: str) -> None:
    kind = getattr(torch, name)
    for x, function in (
        (torch.tensor([1, 2], dtype=kind), lambda x, y: x.to(torch.int32)),
        (torch.tensor([1, 2]), lambda x, y: x.to(kind).to(torch.int64)),
    ):
        with pytest.raises(tc.TosaConvertError, match=f"TOSA has no {name}") as caught:
            lowered({"cast": (function, (x, x))}, "i64")
        assert caught.value.code == "not-lowered"


@pytest.mark.parametrize("name", ["int16", "int32", "float32"])
def test_quotients_and_remainders_are_exact(name: str) -> None:
    x = values(name)
    x = x[x.isfinite()]

    def divided(x: Any, y: Any) -> Any:
        return torch.remainder(x, y), torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")

    assert_equal(divided, x, others(x), rtol=0, atol=0)
