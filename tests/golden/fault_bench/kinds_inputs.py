"""Faults that only some inputs show: ties, limits, NaN, infinities, overflow, subnormals, indices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from golden.fault_bench.fault import Fault, at_target, faulty
from golden.fault_bench.programs import (
    FLOATS,
    INTEGERS,
    finished,
    instead,
    of_operands,
    with_attributes,
    with_values,
)
from golden.fault_bench.programs import rows as _rows

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.graph.dtypes import NanPropagationMode, RoundingMode
from tosa_convert.reference.call import Array

rows = partial(_rows, family="inputs")
NAN, INF = np.nan, np.inf
BOTH: Final = ("", "behind")
LEAST: Final = {"INT8": -128, "INT16": -(2**15), "INT32": -(2**31)}


def _last_of_equals(r: Array, x: Array) -> Any:
    return x.shape[1] - 1 - x[:, ::-1].argmax(axis=1)


def _last_if_nan(r: Array, x: Array) -> Any:
    return np.where(np.isnan(x).any(axis=1), x.shape[1] - 1, r)


def _by_bits(r: Array, x: Array) -> Any:
    return np.where((x == 0) & np.signbit(x), -5e-324, x).argmax(axis=1)


def _largest_finite(dtype: str) -> float:
    return {"FP32": 3.4028234e38, "FP16": 65504.0, "BF16": 3.3895314e38}[dtype]


def comparisons() -> Iterator[Fault]:
    """NaN, zeros with signs and equal numbers."""
    yield from rows(
        "clamp loses NaN",
        make=lambda b, x: b.clamp(x, min_val=-0.5, max_val=0.5),
        change=instead(lambda r, x: np.where(np.isnan(x), -0.5, r)),
        dtypes=FLOATS,
        values=[NAN],
        befores=BOTH,
    )
    yield from rows(
        "maximum is the second operand unless the first is greater",
        make=lambda b, x: b.maximum(x, 0.25),
        change=instead(lambda r, x, z: np.where(x > z, x, z)),
        dtypes=FLOATS,
        values=[NAN],
    )
    yield from rows(
        "max pooling passes over NaN",
        make=lambda b, x: b.max_pool2d(x, kernel=(2, 2), stride=(2, 2)),
        change=with_attributes(nan_mode=NanPropagationMode.IGNORE),
        dtypes=FLOATS,
        shape=(1, 4, 4, 2),
        values=[NAN],
    )
    yield from rows(
        "greatest element of a row is at least 0",
        make=lambda b, x: b.reduce_max(x, axis=1),
        change=instead(lambda r, x: np.maximum(r, 0)),
        dtypes=(*FLOATS, *INTEGERS),
        values=[-1] * 8,
    )
    yield from rows(
        "greatest element of minus infinities is finite",
        make=lambda b, x: b.reduce_max(x, axis=1),
        change=instead(lambda r, x: np.where(r == -INF, -60000.0, r)),
        dtypes=FLOATS,
        values=[-INF] * 8,
    )


def wide_integers() -> Iterator[Fault]:
    """INT64 on a machine of 32 bits."""
    yield from rows(
        "INT64 is computed in 32 bits",
        make=lambda b, x: b.add(x, b.const([[5]], "int64")),
        change=instead(lambda r, x, y: (x.astype(np.int32) + y).astype(np.int32)),
        dtypes=("INT64",),
        values=[2**40 + 1],
    )
    yield from rows(
        "comparisons of INT64 see 32 bits",
        make=lambda b, x: b.greater(x, b.const([[7]], "int64")),
        change=instead(lambda r, x, y: x.astype(np.int32) > y),
        dtypes=("INT64",),
        values=[2**40],
    )


def argmaxes() -> Iterator[Fault]:
    """Indices of greatest elements."""
    for kind, change, values in (
        ("argmax takes the last of equal elements", _last_of_equals, [2.0] * 8),
        ("argmax passes over NaN", None, [1, NAN, 0]),
        ("argmax of a row with NaN is the last index", _last_if_nan, [1, NAN, 0]),
        ("argmax takes 0 for greater than -0", _by_bits, [-0.0, 0.0] + [-1] * 6),
    ):
        is_exact = change is _last_of_equals
        ignore = with_attributes(nan_mode=NanPropagationMode.IGNORE)
        yield from rows(
            kind,
            make=lambda b, x: b.argmax(x, axis=1, dtype="int32"),
            change=instead(change) if change else ignore,
            dtypes=(*FLOATS, "INT8", "INT16") if is_exact else FLOATS,
            values=values,
            befores=BOTH if is_exact else ("",),
        )


def relations() -> Iterator[Fault]:
    """Comparisons of two operands."""
    yield from rows(
        "greater-equal is not less, also for NaN",
        make=lambda b, x: b.greater_equal(x, 0.25),
        change=instead(lambda r, x, z: ~(x < z)),
        dtypes=FLOATS,
        values=[NAN],
        befores=BOTH,
    )
    yield from rows(
        "equality compares bits",
        make=lambda b, x: b.equal(x, 0.0),
        change=instead(lambda r, x, z: (x == z) & ~np.signbit(x)),
        dtypes=FLOATS,
        values=[-0.0],
    )


def casts() -> Iterator[Fault]:
    """From floating point to integers, and to shorter types."""
    for target, bits in (("int8", 8), ("int16", 16)):
        half = 2 ** (bits - 1)
        yield from rows(
            "cast to integers wraps around",
            make=lambda b, x, t=target: b.cast(x, dtype=t),  # type: ignore[misc]
            change=instead(
                lambda r, x, h=half: np.where(
                    np.isfinite(x), (np.rint(np.nan_to_num(x)) + h) % (2 * h) - h, r
                )
            ),
            dtypes=FLOATS,
            values=[40000.0, -40000.0, 200.0, -200.0],
            variant=f"to {target}",
            befores=BOTH if bits == 8 else ("",),
        )
    for target in ("int8", "int32"):
        yield from rows(
            "cast to integers rounds ties away from zero",
            make=lambda b, x, t=target: b.cast(x, dtype=t),  # type: ignore[misc]
            change=instead(
                lambda r, x: np.where(np.abs(x % 1) == 0.5, np.trunc(x + np.copysign(0.5, x)), r)
            ),
            dtypes=FLOATS,
            values=[0.5, 2.5, -4.5],
            variant=f"to {target}",
        )
    yield from rows(
        "cast to integers truncates",
        make=lambda b, x: b.cast(x, dtype="int8"),
        change=instead(lambda r, x: np.where(np.abs(x) < 100, np.trunc(np.nan_to_num(x)), r)),
        dtypes=FLOATS,
    )


def short_casts() -> Iterator[Fault]:
    """Casts to FP8 and FP16."""
    for target, most, least in (("FP8E4M3", 448.0, 2.0**-6), ("FP8E5M2", 57344.0, 2.0**-14)):
        cast = partial(_cast_to, target)
        yield from rows(
            "cast to FP8 saturates",
            make=cast,
            change=instead(
                lambda r, x, m=most: np.where(~np.isfinite(r) & ~np.isnan(x), np.copysign(m, x), r)
            ),
            dtypes=("FP32", "BF16") if most > 448 else FLOATS,
            values=[1e5, -1e5, 500],
            target=target,
        )
        yield from rows(
            "cast to FP8 flushes subnormal numbers",
            make=cast,
            change=instead(lambda r, x, n=least: np.where(np.abs(r) < n, 0.0, r)),
            dtypes=FLOATS,
            values=[2.0**-8, 2.0**-15],
            target=target,
        )
    yield from rows(
        "cast to FP8 loses the numbers of the greatest exponent",
        make=partial(_cast_to, "FP8E4M3"),
        change=instead(lambda r, x: np.where(np.abs(r) >= 256, np.copysign(448.0, r), r)),
        dtypes=FLOATS,
        values=[300.0],
        target="FP8E4M3",
    )
    yield from rows(
        "cast to FP16 saturates",
        make=partial(_cast_to, "FP16"),
        change=instead(lambda r, x: np.clip(r, -65504.0, 65504.0)),
        dtypes=("FP32",),
        values=[1e6],
        target="FP16",
    )


def _cast_to(dtype: str, b: Any, x: Any) -> Any:
    return b.cast(x, dtype=dtype.lower())


def _scaled(v: Array, m: Array, s: Array) -> Any:
    return v * m.reshape(-1)[0] / 2.0 ** s.reshape(-1)[0]


def rescales() -> Iterator[Fault]:
    """Integers to integers of another scale."""
    for target, multiplier, shift, zero in (
        ("int8", 1518500250, 38, -5),
        ("int16", 1 << 30, 33, 0),
    ):
        make = partial(_rescale, target, multiplier, shift, zero)
        most = 127 if target == "int8" else 32767
        some = [n * s for n in (1, 3, 4, 12, 60, 500, 20000, 30000) for s in (1, -1)]
        here = partial(rows, make=make, dtypes=("INT32",), target=target.upper(), values=some)
        yield from here(
            "rescale rounds once instead of twice",
            change=with_attributes(rounding_mode=RoundingMode.SINGLE_ROUND),
        )
        yield from here(
            "rescale wraps around",
            change=instead(
                lambda r, v, m, s, i, o, n=most + 1: (
                    (np.rint(_scaled(v, m, s)) + o + n) % (2 * n) - n
                )
            ),
        )
        yield from here(
            "rescale truncates",
            change=instead(
                lambda r, v, m, s, i, o, n=most: np.clip(np.trunc(_scaled(v, m, s)) + o, -n - 1, n)
            ),
        )
    yield from rows(
        "rescale saturates before the zero point is added",
        make=partial(_rescale, "int8", 1518500250, 38, -5),
        change=instead(
            lambda r, v, m, s, i, o: np.clip(
                np.clip(np.floor(_scaled(v, m, s) + 0.5), -128, 127) + o, -128, 127
            )
        ),
        dtypes=("INT32",),
        target="INT8",
        values=[32000],
    )


def _rescale(target: str, multiplier: int, shift: int, zero: int, b: Any, x: Any) -> Any:
    return b.rescale(x, multiplier, shift, 0, zero, rounding_mode="double_round", dtype=target)


def integers() -> Iterator[Fault]:
    """Limits of integers, signs and shifts."""
    yield from rows(
        "negation of the least integer wraps around",
        make=lambda b, x: b.negate(x),
        change=instead(lambda r, x, *zp: -x),
        dtypes=("INT8", "INT16"),
        values=[-128, -32768],
        befores=BOTH,
    )
    yield from rows(
        "arithmetic shift does not round",
        make=lambda b, x: b.arithmetic_right_shift(x, 3, round=True),
        change=with_attributes(round=False),
        dtypes=INTEGERS,
    )
    yield from rows(
        "arithmetic shift rounds negative ties away",
        make=lambda b, x: b.arithmetic_right_shift(x, 3, round=True),
        change=instead(lambda r, x, s: np.trunc(x / 8 + np.copysign(0.5, x))),
        dtypes=INTEGERS,
        values=[-4, -12, -20],
    )
    yield from rows(
        "logical shift copies the sign",
        make=lambda b, x: b.logical_right_shift(x, 3),
        change=instead(lambda r, x, s: x >> 3),
        dtypes=INTEGERS,
    )
    yield from rows(
        "leading zeros of 0 are 31",
        make=lambda b, x: b.clz(x),
        change=instead(lambda r, x: np.minimum(r, 31)),
        dtypes=("INT32",),
        values=[0],
        befores=BOTH,
    )
    yield from rows(
        "integer division rounds down",
        make=lambda b, x: b.intdiv(x, 7),
        change=instead(lambda r, x, d: x // d),
        dtypes=("INT32",),
        befores=BOTH,
    )
    yield from rows(
        "product with a shift is not rounded",
        make=lambda b, x: b.mul(x, 77, 5),
        change=instead(lambda r, x, y, s: (x * y) >> 5),
        dtypes=("INT32",),
    )


def tables() -> Iterator[Fault]:
    """Iterate over pairs of products, and tables."""
    pairs = partial(rows, shape=(1, 4, 16), dtypes=("INT8",), values=[127] * 16)
    yield from pairs(
        "sums of two products saturate at 16 bits",
        make=lambda b, x: b.matmul(x, _weights(), -128),
        change=instead(_saturating_pairs),
    )
    for dtype in ("INT8", "INT16"):
        most = 127 if dtype == "INT8" else 32767
        yield from rows(
            "last entry of a table is not used",
            make=_table,
            change=of_operands(
                lambda x, t, m=most: [np.minimum(x, m - (m + 1) // 128).astype(x.dtype), t]
            ),
            dtypes=(dtype,),
            values=[most],
            befores=BOTH,
        )


def _weights() -> Any:
    return (np.arange(64).reshape(1, 16, 4) % 3 * 60 + 7).astype(np.int8)


def _saturating_pairs(r: Array, x: Array, w: Array, *zp: Array) -> Any:
    terms = (x + 128)[:, :, None, :] * w.transpose(0, 2, 1)[:, None, :, :]
    pairs = terms.reshape(*terms.shape[:-1], -1, 2).sum(axis=-1)
    return np.clip(pairs, -32768, 32767).sum(axis=-1)


def _table(b: Any, x: Any) -> Any:
    if x.dtype.name == "INT8":
        return b.table(x, list(range(127, -129, -1)))
    return b.table(x, [60 * n - 15000 for n in range(513)])


def functions() -> Iterator[Fault]:
    """Limits of functions."""
    for dtype in FLOATS:
        most = _largest_finite(dtype)
        one = partial(rows, dtypes=(dtype,))
        yield from one(
            "reciprocal of 0 is finite",
            make=lambda b, x: b.reciprocal(x),
            change=instead(lambda r, x, m=most: np.where(np.isinf(r), np.copysign(m, r), r)),
            values=[0.0],
        )
        yield from one(
            "tanh of large numbers is NaN",
            make=lambda b, x: b.tanh(x),
            change=instead(lambda r, x, m=most: np.where(np.abs(2 * x) > np.log(m), NAN, r)),
            values=[200.0],
            befores=BOTH,
        )
        yield from one(
            "sigmoid of large numbers is NaN",
            make=lambda b, x: b.sigmoid(x),
            change=instead(lambda r, x, m=most: np.where(x > np.log(m), NAN, r)),
            values=[200.0],
        )


def special_functions() -> Iterator[Fault]:
    """Iterate over numbers for which functions are infinite or NaN, and whole numbers."""
    yield from rows(
        "exp overflows to the largest finite number",
        make=lambda b, x: b.exp(x),
        change=instead(lambda r, x: np.where(r == INF, 65504.0, r)),
        dtypes=("FP32", "FP16"),
        values=[150.0],
        befores=BOTH,
    )
    yield from rows(
        "reciprocal of infinity is NaN",
        make=lambda b, x: b.reciprocal(x),
        change=instead(lambda r, x: np.where(np.isinf(x), NAN, r)),
        dtypes=FLOATS,
        values=[INF, -INF],
    )
    yield from rows(
        "logarithm takes the absolute value",
        make=lambda b, x: b.log(x),
        change=instead(lambda r, x: np.log(np.abs(x))),
        dtypes=FLOATS,
        values=[-1.0],
    )
    yield from rows(
        "ceil adds 1 to integers",
        make=lambda b, x: b.ceil(x),
        change=instead(lambda r, x: np.where((x == np.trunc(x)) & (x > 0), x + 1, r)),
        dtypes=FLOATS,
        values=[1.0, 3.0],
    )
    yield from rows(
        "floor truncates",
        make=lambda b, x: b.floor(x),
        change=instead(lambda r, x: np.trunc(x)),
        dtypes=FLOATS,
    )
    yield from rows(
        "sine does not reduce its argument",
        make=lambda b, x: b.sin(x),
        change=instead(
            lambda r, x: np.where(
                np.abs(x) < 4, r, np.clip(x - x**3 / 6 + x**5 / 120 - x**7 / 5040, -1e3, 1e3)
            )
        ),
        dtypes=FLOATS,
        values=[6.0, -7.0, 30.0],
    )


def indices() -> Iterator[Fault]:
    """Indices at their limits."""
    for dtype in ("FP32", "BF16", "INT8", "INT32"):
        program = partial(gathered, dtype, 6)
        yield Fault(
            kind="gather never reads the last row",
            family="inputs",
            dtype=dtype,
            program=program,
            backend=_faulty_gather(lambda i: np.minimum(i, 4)),
            witness=partial(with_values, program, (5,), "i"),
        )
        program = partial(gathered, dtype, 300)
        yield Fault(
            kind="gather has indices of 8 bits",
            family="inputs",
            dtype=dtype,
            program=program,
            backend=_faulty_gather(lambda i: i % 256),
            witness=partial(with_values, program, (299,), "i"),
        )


def gathered(dtype: DTypeName, rows_: int) -> Any:
    """Return a program that gathers rows."""
    b = Builder("gathered")
    x, i = b.input("x", dtype, (2, rows_, 3)), b.input("i", "int32", (2, 5))
    with at_target(b):
        y = b.gather(x, i)
    b.output(finished(b, y), name="y")
    return b.graph()


def _faulty_gather(change: Any) -> Any:
    return faulty(of_operands(lambda x, i: [x, change(i).astype(i.dtype)]))


def faults() -> Iterator[Fault]:
    """Iterate over the faults of this file."""
    for group in (
        comparisons,
        wide_integers,
        argmaxes,
        relations,
        casts,
        short_casts,
        rescales,
        integers,
        tables,
        functions,
        special_functions,
        indices,
    ):
        yield from group()
