"""Values that an operator's result is to have, propagated back to its operands.

An operator on elements is inverted by bisection, with the other operands as a run had them. One that
moves elements is computed on the numbers of the elements. Of a sum, few terms change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.edges.operator_edges import Demand, EdgeTarget
from tosa_convert.golden.edges.trace import Elements, has_elements, moved_ids, moves
from tosa_convert.golden.edges.values import INFINITE, NAN, codes_of, elements_of, limits_of
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Operator
from tosa_convert.graph.opset import table_of
from tosa_convert.reference.call import Call

# -- the terms of which sums, means and greatest elements are made, and changes of few of them -----

#: Elements of a result that one run changes.
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
    return operator.spec.name in _TERMS


def terms_demand(
    call: Call,
    result: Array,
    demand: Demand,
    positions: Sequence[int],
    generator: np.random.Generator,
) -> list[tuple[int, Demand]]:
    """Return demands on operands that make elements of a result what is wanted; see `back_propagate`.

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
        for terms in _TERMS[call.spec.name](call, index, positions):
            own = used.setdefault(terms.position, set())
            if not own.isdisjoint(terms.ids.tolist()):
                break
            if call.spec.traits.extreme != "none":
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
    is_least = call.spec.traits.extreme == "least"
    beyond = codes < low if is_least else codes > high
    found = [(int(one), low) for one in terms.ids[beyond]]
    if not found:
        found = [(int(terms.ids[generator.integers(len(terms.ids))]), low)]
    return found


# -- terms of each operator --------------------------------------------------------------------------


def _matmul(call: Call, index: tuple[int, ...], positions: Sequence[int]) -> Iterator[Terms]:
    *batch, i, j = index
    is_turned = call.spec.name == "MATMUL_T"
    left, right = call.operands[:2]
    depth = left.shape[-1]
    own = _matrix(right, batch)
    points = [_point(call, name) for name in ("a_zp", "b_zp")]
    k = np.arange(depth)
    columns = (own * right.shape[-2] + j) * depth + k
    if not is_turned:
        columns = (own * depth + k) * right.shape[-1] + j
    rows = (_matrix(left, batch) * left.shape[-2] + i) * depth + k
    if 0 in positions:
        yield Terms(0, rows, right.reshape(-1)[columns].astype(np.float64) - points[1])
    if 1 in positions:
        yield Terms(1, columns, left.reshape(-1)[rows].astype(np.float64) - points[0])


def _matrix(operand: Array, batch: Sequence[int]) -> int:
    """Return which matrix of an operand a batch of the result is computed from."""
    sizes = operand.shape[:-2]
    places = batch[len(batch) - len(sizes) :]
    own = [place if size > 1 else 0 for place, size in zip(places, sizes, strict=True)]
    return int(np.ravel_multi_index(own, sizes)) if sizes else 0


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
_TERMS: Final[dict[str, _MakeTerms]] = table_of(
    "terms",
    {"axis": _axis, "convolution": _convolution, "matmul": _matmul, "window": _window},
)


#: Edges of a product of integers: the sign of a sum that is as large as any of its sums can be.
_EXTREMES: Final = (("greatest sum", 1), ("least sum", -1))


def has_extremes(call: Call) -> bool:
    """Return whether an operator is a product of integers, whose sums have limits."""
    row = call.types[0].dtype
    is_product = call.spec.traits.terms in ("convolution", "matmul")
    return is_product and row is not None and call.is_integer and call.result.shape != ()


def _weights(call: Call) -> Array:
    """Return the second operand of a product of integers without its zero point."""
    point = _point(call, "weight_zp" if call.has("weight_zp") else "b_zp")
    return np.asarray(call.operands[1].astype(np.int64) - point)


def _summed(call: Call, weights: Array) -> Array:
    """Return sums of what belongs to one result each; the last dimension is that of the result."""
    name = call.spec.name
    if name == "DEPTHWISE_CONV2D":
        return np.asarray(weights.sum(axis=(0, 1)).reshape(-1))
    if name in ("MATMUL", "MATMUL_T"):
        return np.asarray(weights.sum(axis=-2 if name == "MATMUL" else -1))
    return np.asarray(weights.sum(axis=tuple(range(1, weights.ndim))))


def extreme_targets(
    call: Call, positions: Sequence[int], generator: np.random.Generator
) -> Iterator[EdgeTarget]:
    """Iterate over operands for which one sum of an accumulator is the greatest, and the least."""
    if not has_extremes(call) or 0 not in positions or not math.prod(call.result.shape):
        return
    row = call.types[0].dtype
    assert row is not None
    limits, shape = limits_of(row), call.result.shape
    # The result whose weights have the largest sum of sizes: away from borders, which lack some.
    sizes = _summed(call, np.abs(_weights(call)))
    best = np.unravel_index(int(sizes.argmax()), sizes.shape)
    last = int(generator.integers(shape[-1])) if 1 in positions else int(best[-1])
    place = (*(size // 2 for size in shape[:-1]), last)
    if len(best) > 1 and 1 not in positions:
        # Batches of matrices, but for those that are broadcast.
        own = place[-len(best) - 1 : -2]
        own = tuple(
            int(at) if size > 1 else middle
            for at, size, middle in zip(best, sizes.shape, own, strict=False)
        )
        place = (*place[: -len(best) - 1], *own, *place[-2:])
    terms = next(_TERMS[call.spec.name](call, place, [0]), None)
    if terms is None:
        return
    for label, sign in _EXTREMES:
        codes = np.where(sign * terms.weights > 0, limits[1], limits[0])
        if 1 in positions:
            *_, other = _TERMS[call.spec.name](call, place, [1])
            # The greatest product is that of two least numbers.
            codes = np.full(len(terms.ids), limits[0])
            others = np.full(len(other.ids), limits[0] if sign > 0 else limits[1])
            yield EdgeTarget(label, 1, Demand.of(other.ids, others), is_whole=True)
        yield EdgeTarget(label, 0, Demand.of(terms.ids, codes), is_whole=True)


def extreme_masks(
    call: Call, result: Array, positions: Collection[int]
) -> Iterator[tuple[str, Array]]:
    """Iterate over the edges of a product of integers, each with the sums that are there."""
    if not has_extremes(call) or 0 not in positions:
        return
    row = call.types[0].dtype
    assert row is not None
    point = _point(call, "input_zp" if call.has("input_zp") else "a_zp")
    ends = [limit - point for limit in limits_of(row)]
    if 1 in positions:
        depth = call.operands[0].shape[-1]
        sums = [depth * ends[0] * ends[1], depth * max(ends[0] ** 2, ends[1] ** 2)]
    else:
        pair = [_weights(call) * end for end in ends]
        sums = [
            _summed(call, np.minimum(*pair)).min(),
            _summed(call, np.maximum(*pair)).max(),
        ]
    found = result.astype(np.int64)
    if call.has("bias"):
        found = found - call.raw("bias").astype(np.int64)
    yield _EXTREMES[0][0], found >= sums[1]
    yield _EXTREMES[1][0], found <= sums[0]


#: Codes that are tried where bisection finds nothing; those of infinity and NaN are added.
_POINTS: Final = (0, -1, 1)
#: Results are below or above all others where TOSA defines none.
_UNDEFINED: Final = np.int64(1) << 62


def back_propagate(
    block: Block,
    operator: Operator,
    call: Call,
    result: Array,
    demand: Demand,
    positions: Sequence[int],
    generator: np.random.Generator,
) -> list[tuple[int, Demand]]:
    """Return demands on operands that make elements of the result what is wanted, as far as possible."""
    if not positions or not len(demand.ids):
        return []
    if moves(operator):
        position, local = moved_ids(block, operator, call.operands)
        found = []
        for own in positions:
            chosen = np.flatnonzero(position[demand.ids] == own)
            if len(chosen):
                part = demand.at(chosen)
                found.append((own, _unique(part._replace(ids=local[part.ids]))))
        return found
    if has_elements(operator):
        own = positions[int(generator.integers(len(positions)))]
        return [(own, _through_elements(Elements(call), own, demand, generator))]
    if has_terms(operator):
        return terms_demand(call, result, demand, positions, generator)
    return []


def _unique(demand: Demand) -> Demand:
    _, first = np.unique(demand.ids, return_index=True)
    return demand.at(first)


def _through_elements(
    elements: Elements, position: int, demand: Demand, generator: np.random.Generator
) -> Demand:
    call = elements.call
    row, target = call.types[position].dtype, call.result.dtype
    own = elements.operand_ids(position, demand.ids)
    empty = Demand(own[:0], own[:0], own[:0])
    if row is None or target is None or "FP8UE8M0" in (row.name, target.name):
        return empty
    search = _Search(elements, position, row, target)
    low, high, found = search.every(demand, generator) if row.bits <= 8 else search.bisect(demand)
    missing = np.flatnonzero(~found)
    if len(missing):
        code, is_found = search.points(demand.at(missing))
        low[missing], high[missing], found[missing] = code, code, is_found
    return _unique(Demand(own[found], low[found], high[found]))


class _Search:
    """Searches codes of one operand for which results have wanted codes."""

    def __init__(self, elements: Elements, position: int, row: DType, target: DType) -> None:
        self.elements, self.position, self.row, self.target = elements, position, row, target

    def results(self, ids: Array, codes: Array) -> Array:
        """Return the codes of results; _UNDEFINED where there are none."""
        values = elements_of(codes, self.row)
        kept, result = self.elements.compute_defined(ids, {self.position: values})
        found = np.full(len(ids), _UNDEFINED)
        found[kept] = codes_of(result, self.target)
        return found

    def _fitting(self, demand: Demand, codes: Array) -> tuple[Array, Array]:
        """Try the same codes for each element; return [element, code] whether it fits."""
        table = np.broadcast_to(codes, (len(demand.ids), len(codes)))
        found = self.results(np.repeat(demand.ids, len(codes)), table.reshape(-1))
        found = found.reshape(table.shape)
        return table, (found >= demand.low[:, None]) & (found <= demand.high[:, None])

    def every(self, demand: Demand, generator: np.random.Generator) -> tuple[Array, Array, Array]:
        """Try all codes; return one that fits for each element, twice, and whether there is one."""
        low, high = limits_of(self.row)
        codes = np.arange(low, high + 1)
        special = (INFINITE.get(self.row.name), NAN.get(self.row.name))
        codes = np.concatenate([codes, [code for code in special if code is not None]])
        table, fits = self._fitting(demand, codes.astype(np.int64))
        rank = np.where(fits, generator.random(fits.shape), -1.0)
        best = rank.argmax(axis=1)
        code = table[np.arange(len(best)), best]
        return code, code.copy(), fits.any(axis=1)

    def points(self, demand: Demand) -> tuple[Array, Array]:
        """Try few codes, such as that of NaN; return one for each element, and whether it fits."""
        named = [table.get(self.row.name) for table in (NAN, INFINITE)]
        codes = [code for code in named if code is not None]
        codes += [-code - 1 for code in codes[1:]]
        table, fits = self._fitting(demand, np.array([*codes, *_POINTS], np.int64))
        best = fits.argmax(axis=1)
        return table[np.arange(len(best)), best], fits.any(axis=1)

    def bisect(self, demand: Demand) -> tuple[Array, Array, Array]:
        """Return the first and the last code that fit on one side of 0, and whether there are any.

        The result is monotone on each side of 0, for most operators.
        """
        count = len(demand.ids)
        least, most = limits_of(self.row)
        if self.row.name in INFINITE:
            least, most = least - 1, most + 1
        # From 0 upwards, and from -1 downwards.
        start = np.repeat(np.array([0, -1]), count)
        sign = np.repeat(np.array([1, -1]), count)
        size = np.repeat(np.array([most, -least - 1]), count)
        ids = np.tile(demand.ids, 2)
        low, high = np.tile(demand.low, 2), np.tile(demand.high, 2)

        def at(steps: Array) -> Array:
            return self.results(ids, start + sign * steps)

        first = at(np.zeros_like(size))
        start = np.where(first == _UNDEFINED, start + sign, start)
        size = np.where(first == _UNDEFINED, size - 1, size)
        last = at(size)
        if (last == _UNDEFINED).any():
            beyond = _first_true(lambda steps: at(steps) == _UNDEFINED, size)
            size = np.where(last == _UNDEFINED, np.maximum(beyond - 1, 0), size)
            last = at(size)
        first = at(np.zeros_like(size))
        rises = last >= first

        def reaches(steps: Array) -> Array:
            found = at(steps)
            return np.where(rises, found >= low, found <= high)

        def passes(steps: Array) -> Array:
            found = at(steps)
            return np.where(rises, found > high, found < low)

        begin, end = _first_true(reaches, size), _first_true(passes, size)
        end = np.where(passes(size), end - 1, size)
        found = at(np.minimum(begin, size))
        fits = (found >= low) & (found <= high) & (end >= begin)
        ends = np.stack([start + sign * begin, start + sign * end])
        ends = np.sort(ends, axis=0).reshape(2, 2, count)
        fits = fits.reshape(2, count)
        side = np.where(fits[0] & fits[1], np.arange(count) % 2, fits[1].astype(np.int64))
        places = np.arange(count)
        return ends[0, side, places], ends[1, side, places], fits.any(axis=0)


def _first_true(condition: Callable[[Array], Array], size: Array) -> Array:
    """Return the least number of steps for which a condition holds; `size` if only there or nowhere."""
    low, high = np.zeros_like(size), size.copy()
    for _ in range(int(size.max(initial=1)).bit_length()):
        middle = low + (high - low) // 2
        holds = condition(middle)
        high = np.where(holds, middle, high)
        low = np.where(holds, low, np.minimum(middle + 1, size))
    return high
