"""The terms of which sums, means and greatest elements are made, and changes of few of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.edges.codes import INFINITE, NAN, codes_of, elements_of, limits_of
from tosa_convert.golden.edges.wishes import Demand
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Operator
from tosa_convert.records import NamedTuple
from tosa_convert.reference.call import Call

#: Elements of a result that are aimed at in one run.
_MOST: Final = 48
#: Terms of a sum of integers that change for one element.
_MOST_TERMS: Final = 24


class Terms(NamedTuple):
    """What an element of a result is computed from.

    position: of the operand. ids: its elements. weights: their factors in a sum.
    """

    position: int
    ids: Array
    weights: Array


def has_terms(operator: Operator) -> bool:
    """Return whether `terms_demand` knows the operator."""
    return operator.spec.name in _TERMS or operator.spec.name in _GREATEST


def terms_demand(
    call: Call,
    result: Array,
    demand: Demand,
    positions: Sequence[int],
    generator: np.random.Generator,
) -> list[tuple[int, Demand]]:
    """Return demands on operands that make elements of a result what is wanted; see `send_back`.

    An element of an operand changes for one element of the result only.
    """
    target = call.result.dtype
    assert target is not None
    used: dict[int, set[int]] = {}
    rows: dict[int, list[tuple[int, int]]] = {}
    order = generator.permutation(len(demand.ids))[:_MOST]
    for number in order:
        out = int(demand.ids[number])
        low, high = int(demand.low[number]), int(demand.high[number])
        places = np.unravel_index(out, call.result.shape)
        index = tuple(int(place) for place in places)
        is_greatest = call.spec.name in _GREATEST
        make = (_GREATEST if is_greatest else _TERMS)[call.spec.name]
        for terms in make(call, index, positions):
            own = used.setdefault(terms.position, set())
            if not own.isdisjoint(terms.ids.tolist()):
                break
            if is_greatest:
                changes = _greatest(call, terms, low, high, generator)
            else:
                now = result.reshape(-1)[out]
                changes = _changed(call, terms, now, low, high, target, generator)
            if changes:
                own.update(terms.ids.tolist())
                rows.setdefault(terms.position, []).extend(changes)
                break
    return [
        (position, Demand.of(np.array([i for i, _ in found]), np.array([c for _, c in found])))
        for position, found in rows.items()
    ]


def _changed(
    call: Call,
    terms: Terms,
    now: Any,
    low: int,
    high: int,
    target: DType,
    generator: np.random.Generator,
) -> list[tuple[int, int]]:
    """Return elements of an operand with codes that bring a sum from `now` into a range of codes."""
    row = call.types[terms.position].dtype
    assert row is not None
    given = call.operands[terms.position].reshape(-1)[terms.ids]
    # Weights of NaN or infinity move nothing to where it is wanted.
    usable = np.flatnonzero(np.isfinite(terms.weights) & (terms.weights != 0))
    if not len(usable):
        return []
    if row.is_float:
        special = {code for code in (NAN.get(target.name), INFINITE.get(target.name)) if code}
        special |= {-code - 1 for code in special}
        sizes = np.abs(terms.weights[usable])
        usable = usable[sizes >= 0.25 * sizes.max()]
        one = int(usable[generator.integers(len(usable))])
        if low in special:
            # Also NaN stays NaN, and infinity times the sign of the weight.
            table = NAN if low == NAN.get(target.name) else INFINITE
            code = table.get(row.name)
            if code is None:
                return []
            is_negative = (low < 0) != (terms.weights[one] < 0) and table is INFINITE
            return [(int(terms.ids[one]), -code - 1 if is_negative else code)]
        ends = elements_of(np.array([low, high]), target).astype(np.float64)
        wanted = float(ends.mean()) if np.isfinite(ends).all() else float(ends[0])
        old, before = float(given[one]), float(now)
        if not np.isfinite(old) or not np.isfinite(before):
            return []
        with np.errstate(all="ignore"):
            new = np.array([old + (wanted - before) / terms.weights[one]]).astype(row.numpy)
        return [(int(terms.ids[one]), int(codes_of(new, row)[0]))]
    return _changed_integers(terms, given, float(now), low, high, row, generator)


def _changed_integers(
    terms: Terms,
    given: Array,
    now: float,
    low: int,
    high: int,
    row: DType,
    generator: np.random.Generator,
) -> list[tuple[int, int]]:
    """Change the terms with the greatest weights first; the last ones meet the rest."""
    # A mean is rounded.
    margin = 0.4 if np.abs(terms.weights).max() < 1 else 0.0
    if low <= now <= high:
        return []
    rest = (low - margin if now < low else high + margin) - now
    slack = high - low + 2 * margin
    least, most = limits_of(row)
    codes = codes_of(given, row).astype(np.float64)
    new = codes.copy()
    order = np.argsort(-np.abs(terms.weights), kind="stable")
    if abs(rest) < np.abs(terms.weights).sum() * 8:
        # A few terms are enough: any of them.
        some = generator.permutation(len(order))[:_MOST_TERMS]
        order = some[np.argsort(-np.abs(terms.weights[some]), kind="stable")]
    sign = np.sign(rest)
    for one in order:
        weight = float(terms.weights[one])
        if not weight:
            continue
        # Towards the range, and not beyond its other end.
        step = np.trunc(rest / weight)
        if sign * (rest - step * weight) > 0 and abs(rest - step * weight) <= abs(weight):
            over = step + np.sign(rest / weight)
            if sign * (over * weight - rest) <= slack:
                step = over
        step = float(np.clip(step, least - new[one], most - new[one]))
        new[one] += step
        rest -= step * weight
        if -slack <= sign * rest <= 0:
            break
    if not -slack <= sign * rest <= 0:
        return []
    changed = np.flatnonzero(new != codes)
    return [(int(terms.ids[one]), int(new[one])) for one in changed]


def _greatest(
    call: Call, terms: Terms, low: int, high: int, generator: np.random.Generator
) -> list[tuple[int, int]]:
    """Return elements with codes that make the greatest, or least, of all one in a range."""
    row = call.types[terms.position].dtype
    assert row is not None
    codes = codes_of(call.operands[terms.position].reshape(-1)[terms.ids], row)
    is_least = call.spec.name == "REDUCE_MIN"
    beyond = codes < low if is_least else codes > high
    found = [(int(one), low) for one in terms.ids[beyond]]
    if not found:
        found = [(int(terms.ids[generator.integers(len(terms.ids))]), low)]
    return found


# -- terms of each operator --------------------------------------------------------------------------


def _matmul(call: Call, index: tuple[int, ...], positions: Sequence[int]) -> Iterator[Terms]:
    batch, i, j = index
    is_turned = call.spec.name == "MATMUL_T"
    left, right = call.operands[:2]
    depth = left.shape[-1]
    own = batch if len(right) > 1 else 0
    points = [_point(call, name) for name in ("a_zp", "b_zp")]
    k = np.arange(depth)
    columns = (own * right.shape[1] + j) * depth + k
    if not is_turned:
        columns = (own * depth + k) * right.shape[2] + j
    rows = (batch * left.shape[1] + i) * depth + k
    if 0 in positions:
        yield Terms(0, rows, right.reshape(-1)[columns].astype(np.float64) - points[1])
    if 1 in positions:
        yield Terms(1, columns, left.reshape(-1)[rows].astype(np.float64) - points[0])


def _point(call: Call, name: str) -> int:
    return call.number(name) if call.is_integer and call.has(name) else 0


def _convolution(call: Call, index: tuple[int, ...], positions: Sequence[int]) -> Iterator[Terms]:
    if 0 not in positions:
        return
    image, weight = call.operands[:2]
    is_depthwise = call.spec.name == "DEPTHWISE_CONV2D"
    kernel = weight.shape[:2] if is_depthwise else weight.shape[1:-1]
    pad, stride, dilation = (call.attributes[name] for name in ("pad", "stride", "dilation"))
    batch, *place, channel = index
    factors = weight.astype(np.float64) - _point(call, "weight_zp")
    ids, weights = [], []
    for offsets in itertools.product(*map(range, kernel)):
        at = [
            p * s - pad[2 * axis] + o * d
            for axis, (p, s, o, d) in enumerate(zip(place, stride, offsets, dilation, strict=True))
        ]
        if any(a < 0 or a >= size for a, size in zip(at, image.shape[1:-1], strict=True)):
            continue
        first = int(np.ravel_multi_index((batch, *at, 0), image.shape))
        if is_depthwise:
            multiplier = weight.shape[-1]
            one = channel // multiplier
            ids.append(np.array([first + one]))
            weights.append(factors[(*offsets, one, channel % multiplier)].reshape(1))
        else:
            ids.append(first + np.arange(image.shape[-1]))
            weights.append(factors[(channel, *offsets)])
    if ids:
        yield Terms(0, np.concatenate(ids), np.concatenate(weights))


def _window(call: Call, index: tuple[int, ...], positions: Sequence[int]) -> Iterator[Terms]:
    image = call.operands[0]
    if 0 not in positions:
        return
    names = ("kernel", "stride", "pad")
    if call.has("kernel"):
        kernel, stride, pad = (call.sizes(name) for name in names)
    else:
        kernel, stride, pad = (tuple(call.attributes[name]) for name in names)
    batch, y, x, channel = index
    rows, columns = (
        np.arange(max(0, p * s - before), min(size, p * s - before + k))
        for p, s, before, k, size in zip(
            (y, x), stride, pad[::2], kernel, image.shape[1:3], strict=True
        )
    )
    ids = (batch * image.shape[1] + rows[:, None]) * image.shape[2] + columns[None, :]
    ids = (ids * image.shape[3] + channel).reshape(-1)
    yield Terms(0, ids, np.full(len(ids), 1 / max(len(ids), 1)))


def _axis(call: Call, index: tuple[int, ...], positions: Sequence[int]) -> Iterator[Terms]:
    if 0 not in positions:
        return
    shape, axis = call.operands[0].shape, call.attributes["axis"]
    places = [np.full(shape[axis], place) for place in index]
    places[axis] = np.arange(shape[axis])
    ids = np.ravel_multi_index(places, shape)
    yield Terms(0, np.asarray(ids), np.ones(len(ids)))


#: Yields the terms of an element of the result, for each operand that can change.
_MakeTerms = Callable[[Call, tuple[int, ...], Sequence[int]], Iterator[Terms]]
_TERMS: Final[dict[str, _MakeTerms]] = {
    "AVG_POOL2D": _window,
    "AVG_POOL2D_ADAPTIVE": _window,
    "CONV2D": _convolution,
    "CONV3D": _convolution,
    "DEPTHWISE_CONV2D": _convolution,
    "MATMUL": _matmul,
    "MATMUL_T": _matmul,
    "REDUCE_SUM": _axis,
}
_GREATEST: Final[dict[str, _MakeTerms]] = {
    "MAX_POOL2D": _window,
    "MAX_POOL2D_ADAPTIVE": _window,
    "REDUCE_MAX": _axis,
    "REDUCE_MIN": _axis,
}
