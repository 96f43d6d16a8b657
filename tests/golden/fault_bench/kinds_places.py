"""Faults of structure: where elements are, and attentions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from golden.fault_bench.fault import Fault, at_target, faulty
from golden.fault_bench.programs import FLOATS, instead, of_operands, place, with_attributes
from golden.fault_bench.programs import rows as _rows

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import Graph

rows = partial(_rows, family="structure")
BOTH: Final = ("", "behind")
SOME: Final[tuple[DTypeName, ...]] = ("FP32", "FP16", "BF16", "INT32")
MOVED: Final[tuple[DTypeName, ...]] = ("FP32", "FP16", "BF16", "INT8", "INT16", "INT32")


def _first_batch(x: Any, w: Any, *zp: Any) -> list[Any]:
    return [x, np.broadcast_to(w[:1], w.shape).copy(), *zp]


def _without_tail(r: Array, *operands: Array) -> Array:
    changed = r.copy()
    flat = changed.reshape(-1)
    flat[flat.size // 8 * 8 :] = 0
    return changed


def _by_multiplier(x: Any, w: Any, *more: Any) -> list[Any]:
    rows_, columns, channels, count = w.shape
    moved = np.swapaxes(w, 2, 3).reshape(rows_, columns, channels, count)
    return [x, moved, *more]


def movement() -> Iterator[Fault]:
    """Elements in wrong places."""
    moved = partial(rows, dtypes=MOVED)
    yield from moved(
        "reverse along another axis",
        make=lambda b, x: b.reverse(x, axis=1),
        change=with_attributes(axis=0),
    )
    yield from moved(
        "transpose by the inverse permutation",
        make=lambda b, x: b.transpose(x, perms=(1, 2, 0)),
        change=instead(lambda r, x: x.transpose(2, 0, 1)),
        shape=(3, 3, 3),
    )
    yield from moved(
        "slice begins one element early",
        make=lambda b, x: b.slice(x, (1, 2), (2, 4)),
        change=instead(lambda r, x, *shape: x[1:3, 1:5]),
    )
    yield from moved(
        "padding is on the other side",
        make=lambda b, x: b.pad(x, (0, 1, 2, 0), 1),
        change=instead(lambda r, x, *more: np.pad(x, ((1, 0), (0, 2)), constant_values=1)),
    )
    yield from moved(
        "tile repeats each element",
        make=lambda b, x: b.tile(x, (1, 3)),
        change=instead(lambda r, x, *shape: np.repeat(x, 3, axis=1)),
    )
    yield from moved(
        "concatenation in the other order",
        make=lambda b, x: b.concat([x, b.const(np.ones((4, 2)), x.dtype.name.lower())], axis=1),
        change=instead(lambda r, x, y: np.concatenate([y, x], axis=1)),
    )
    yield from moved(
        "last elements are not written if their number is odd",
        make=lambda b, x: b.identity(x),
        change=instead(_without_tail),
        shape=(3, 5),
    )
    yield from rows(
        "operands of a difference are exchanged",
        make=lambda b, x: b.sub(x, 2),
        change=of_operands(lambda x, y: [y, x]),
        dtypes=SOME,
        befores=("",),
    )
    yield from rows(
        "broadcast along the wrong axis",
        make=lambda b, x: b.add(x, b.const([[1, 2, 3, 4]], x.dtype)),
        change=instead(lambda r, x, y: x + y.T),
        dtypes=SOME,
        shape=(4, 4),
    )


def products() -> Iterator[Fault]:
    """Sums of products of elements in wrong places."""
    for dtype in (*FLOATS, "INT8"):
        one = partial(rows, dtypes=(dtype,), befores=BOTH if dtype == "FP32" else ("",))
        yield from one(
            "all batches take the weights of the first",
            make=_batched,
            change=of_operands(_first_batch),
            shape=(2, 4, 4),
        )
        yield from one(
            "channels of a depthwise convolution are in another order",
            make=_depthwise,
            change=of_operands(_by_multiplier),
            shape=(1, 4, 4, 3),
        )
        yield from one(
            "padding of a convolution is at the other edge",
            make=_padded,
            change=with_attributes(pad=(1, 0, 1, 0)),
            shape=(1, 4, 4, 2),
        )
        yield from one(
            "weights are turned round",
            make=_padded,
            change=of_operands(lambda x, w, *more: [x, w[:, ::-1, ::-1].copy(), *more]),
            shape=(1, 4, 4, 2),
        )
    yield from rows(
        "zero point of the padding is 0",
        make=lambda b, x: b.conv2d(
            x, np.full((2, 3, 3, 2), 3, np.int8), [1, 2], 9, pad=(1, 1, 1, 1)
        ),
        change=instead(_padded_with_zero),
        dtypes=("INT8",),
        shape=(1, 4, 4, 2),
        befores=BOTH,
    )


def _values(dtype: str, *shape: int) -> Array:
    found = (np.arange(int(np.prod(shape))) * 37 % 23 - 11).reshape(shape)
    return found if dtype.startswith("INT") else found / 8


def _const(b: Any, x: Any, *shape: int) -> Any:
    return b.const(_values(x.dtype.name, *shape), x.dtype.name.lower())


def _batched(b: Any, x: Any) -> Any:
    kind = {"FP16": "fp16"}.get(x.dtype.name)
    return b.matmul(x, _const(b, x, 2, 4, 3), dtype=kind)


def _accumulator(x: Any) -> str | None:
    return "fp32" if x.dtype.is_float else None


def _depthwise(b: Any, x: Any) -> Any:
    return b.depthwise_conv2d(x, _const(b, x, 2, 2, 3, 2), 0, acc_type=_accumulator(x))


def _padded(b: Any, x: Any) -> Any:
    weight = _const(b, x, 3, 2, 2, 2)
    kind = x.dtype if x.dtype.is_float else None
    return b.conv2d(x, weight, 1, pad=(0, 1, 0, 1), acc_type=_accumulator(x), dtype=kind)


def _padded_with_zero(r: Array, x: Array, w: Array, *more: Array) -> Any:
    result = r.copy()
    image = np.pad(x - 9, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-9)
    for row in range(4):
        for column in range(4):
            part = image[:, row : row + 3, column : column + 3]
            result[:, row, column] = (part[:, None] * w).sum(axis=(2, 3, 4))
    return result + np.array([1, 2])


def attention(dtype: DTypeName) -> Graph:
    """Return an attention with a causal mask: 2 heads, 6 queries and keys of 4 elements."""
    b = Builder("attention")
    q, k, v = (b.input(name, dtype, (2, 6, 4)) for name in "qkv")
    kind: DTypeName | None = "fp16" if dtype == "FP16" else None

    def at(name: str, value: Callable[[], Any]) -> Any:
        with at_target(b, place(name)):
            return value()

    keys = at("keys", lambda: b.transpose(k, perms=(0, 2, 1)))
    scores = at("scores", lambda: b.matmul(q, keys, dtype=kind))
    if dtype == "BF16":
        scores = b.cast(scores, dtype="bf16")
    scores = at("scale", lambda: b.mul(scores, 0.5))
    mask = np.where(np.tril(np.ones((6, 6))), 0.0, -10000.0)[None]
    scores = at("mask", lambda: b.add(scores, b.const(mask, dtype)))
    most = at("most", lambda: b.reduce_max(scores, axis=2))
    shares = at("exp", lambda: b.exp(b.sub(scores, most)))
    total = at("total", lambda: b.reduce_sum(shares, axis=2))
    shares = at("share", lambda: b.mul(shares, b.reciprocal(total)))
    b.output(at("values", lambda: b.matmul(shares, v, dtype=kind)), name="y")
    return b.graph()


def _of_last_key(x: Any, number: float) -> Any:
    changed = x.copy()
    changed[..., -1] = number
    return changed


def attentions() -> Iterator[Fault]:
    """Faults of an attention: each changes one operator of it."""
    changes: dict[str, tuple[str, Any]] = {
        "attention drops the last key": (
            "values",
            of_operands(lambda s, v, *zp: [_of_last_key(s, 0), v, *zp]),
        ),
        "attention counts a key that is masked": (
            "mask",
            of_operands(lambda s, m: [s, np.roll(m, 1, axis=2)]),
        ),
        "attention does not scale": ("scale", instead(lambda r, s, f, *shift: s)),
        "attention adds up all keys but the last": (
            "total",
            of_operands(lambda s: [_of_last_key(s, 0)]),
        ),
        "attention takes the values of another head": (
            "values",
            of_operands(lambda s, v, *zp: [s, v[::-1].copy(), *zp]),
        ),
        "attention takes the greatest of the masked scores too": (
            "most",
            instead(lambda r, s: np.full_like(r, 20.0)),
        ),
    }
    for kind, (name, change) in changes.items():
        for dtype in FLOATS:
            where = place(name)
            backend = faulty(change, where)
            program = partial(attention, dtype)
            yield Fault(
                kind=kind,
                family="structure",
                dtype=dtype,
                program=program,
                backend=backend,
                location=where,
            )


def faults() -> Iterator[Fault]:
    """Iterate over the faults of this file."""
    yield from movement()
    yield from products()
    yield from attentions()
