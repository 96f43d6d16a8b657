"""Propagate values that an operator's result is to have back to its operands.

An operator on elements is inverted by bisection, with the other operands as a run had them; one that
moves elements is computed on the numbers of the elements; of a sum, few terms change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.golden.arrays import Array
from tosa_convert.golden.edges.operator_edges import Demand, EdgeTarget
from tosa_convert.golden.edges.values import (
    INFINITE,
    NAN,
    Elements,
    codes_of,
    elements_of,
    has_elements,
    limits_of,
    moved_ids,
    moves,
    type_of,
)
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
    """Hold what each element of a result is computed from: a row of elements, or -1, and factors."""

    position: int
    ids: Array
    weights: Array


def terms_demand(
    call: Call,
    result: Array,
    demand: Demand,
    positions: Sequence[int],
    generator: np.random.Generator,
) -> list[tuple[int, Demand]]:
    """Return demands on operands, each element for one of the result only; see `back_propagate`."""
    target = call.result.dtype
    assert target is not None
    wanted = demand.at(generator.permutation(len(demand.ids))[:_MOST])
    index = np.unravel_index(wanted.ids, call.result.shape)
    is_open = np.ones(len(wanted.ids), np.bool_)
    found = []
    for terms in _TERMS[call.spec.name](call, index, positions):
        row, own = type_of(call, terms.position), np.flatnonzero(is_open)
        own = own[_without_others(terms.ids[own], call.operands[terms.position].size)]
        part, rest = Terms(terms.position, terms.ids[own], terms.weights[own]), wanted.at(own)
        given = call.operands[terms.position].reshape(-1)[part.ids]
        if call.spec.traits.extreme != "none":
            numbers, ids, codes = _greatest(call, part, codes_of(given, row), rest, generator)
        else:
            now = result.reshape(-1)[rest.ids].astype(np.float64)
            change = _changed if row.is_float else _changed_integers
            numbers, ids, codes = change(part, given, now, rest, row, target, generator)
        found.append((terms.position, Demand.of(ids, codes)))
        is_open[own[numbers]] = False
    return [(position, changes) for position, changes in found if len(changes.ids)]


def _without_others(ids: Array, size: int) -> Array:
    """Return for each row whether none of its elements is in one of the rows before that are kept."""
    used = np.zeros(size + 1, np.bool_)
    kept = np.zeros(len(ids), np.bool_)
    for number, row in enumerate(ids):
        if not used[row].any():
            kept[number] = used[row] = True
            used[-1] = False
    return kept


#: The numbers of rows, elements of an operand, and their codes.
_Changes = tuple[Array, Array, Array]


def _one_of_each(allowed: Array, generator: np.random.Generator) -> Array:
    """Return a place in each row for which something is allowed."""
    return np.asarray(np.where(allowed, generator.random(allowed.shape), -1.0).argmax(axis=1))


def _changed(
    terms: Terms,
    given: Array,
    now: Array,
    demand: Demand,
    row: DType,
    target: DType,
    generator: np.random.Generator,
) -> _Changes:
    """Change one large term of each sum of floating point so that it comes from `now` into a range."""
    # Weights of NaN or infinity move nothing to where it is wanted.
    sizes = np.where(np.isfinite(terms.weights) & (terms.ids >= 0), np.abs(terms.weights), 0.0)
    usable = (sizes > 0) & (sizes >= 0.25 * sizes.max(axis=1, keepdims=True))
    one, every = _one_of_each(usable, generator), np.arange(len(usable))
    weight, old = terms.weights[every, one], given[every, one].astype(np.float64)
    ends = elements_of(np.stack([demand.low, demand.high]), target).astype(np.float64)
    is_wide = np.isfinite(ends).all(axis=0)
    wanted = np.where(is_wide, np.where(is_wide, ends, 0).mean(axis=0), ends[0])
    with np.errstate(all="ignore"):
        codes = codes_of((old + (wanted - now) / weight).astype(row.numpy), row)
    fits = usable.any(axis=1) & np.isfinite(old) & np.isfinite(now)
    for table in (NAN, INFINITE):
        # Also NaN stays NaN, and infinity times the sign of the weight.
        code, own = table.get(target.name), table.get(row.name)
        if code is None:
            continue
        is_special = (demand.low == code) | (demand.low == -code - 1)
        if own is None:
            fits &= ~is_special
            continue
        is_negative = ((demand.low < 0) != (weight < 0)) & (table is INFINITE)
        codes = np.where(is_special, np.where(is_negative, -own - 1, own), codes)
        fits |= is_special & usable.any(axis=1)
    numbers = np.flatnonzero(fits)
    return numbers, terms.ids[every, one][numbers], codes[numbers]


def _changed_integers(
    terms: Terms,
    given: Array,
    now: Array,
    demand: Demand,
    row: DType,
    target: DType,
    generator: np.random.Generator,
) -> _Changes:
    """Change the terms with the greatest weights first; the last ones meet the rest."""
    weights = np.where(terms.ids >= 0, terms.weights, 0.0)
    # A mean is rounded.
    margin = 0.4 if np.abs(weights).max(initial=0) < 1 else 0.0
    sign = np.where(now < demand.low, 1.0, np.where(now > demand.high, -1.0, 0.0))
    rest = np.where(sign > 0, demand.low - margin, demand.high + margin) - now
    slack = demand.high - demand.low + 2 * margin
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")
    # A few terms are often enough: any of them.
    is_small = np.abs(rest) < np.abs(weights).sum(axis=1) * 8
    rank = np.where(weights != 0, generator.random(weights.shape), 2.0)
    some = np.argsort(rank, axis=1)[:, :_MOST_TERMS]
    places = np.argsort(-np.abs(np.take_along_axis(weights, some, 1)), axis=1, kind="stable")
    found = []
    for chosen, own in ((is_small, np.take_along_axis(some, places, 1)), (~is_small, order)):
        rows = np.flatnonzero(chosen & (sign != 0))
        if not len(rows):
            continue
        pair = [np.take_along_axis(x[rows], own[rows], 1) for x in (weights, terms.ids, given)]
        codes = codes_of(pair[2], row).astype(np.float64)
        new, is_met = _stepped(pair[0], codes, sign[rows], rest[rows], slack[rows], limits_of(row))
        number, place = np.nonzero((new != codes) & is_met[:, None])
        found.append((rows[number], pair[1][number, place], new[number, place].astype(np.int64)))
    none = np.zeros(0, np.int64)
    numbers, ids, changed = (np.concatenate([none, *(own[n] for own in found)]) for n in range(3))
    return np.unique(numbers), ids, changed


def _stepped(
    weights: Array, codes: Array, sign: Array, rest: Array, slack: Array, limits: tuple[int, int]
) -> tuple[Array, Array]:
    """Change the codes of the terms of each row in turn until its sum has changed by `rest`.

    Returns the codes, and for which rows they do.
    """
    new = codes.copy()
    is_met = np.zeros(len(codes), np.bool_)
    for term in range(codes.shape[1]):
        weight = weights[:, term]
        is_used = (weight != 0) & ~is_met
        weight = np.where(is_used, weight, 1.0)
        # Towards the range, and not beyond its other end.
        step = np.trunc(rest / weight)
        left = sign * (rest - step * weight)
        over = step + np.sign(rest / weight)
        is_near = (left > 0) & (left <= np.abs(weight))
        step = np.where(is_near & (sign * (over * weight - rest) <= slack), over, step)
        step = np.clip(step, limits[0] - new[:, term], limits[1] - new[:, term])
        step = np.where(is_used, step, 0.0)
        new[:, term] += step
        rest = rest - step * weight
        is_met |= (-slack <= sign * rest) & (sign * rest <= 0)
        if is_met.all():
            break
    return new, is_met


def _greatest(
    call: Call, terms: Terms, codes: Array, demand: Demand, generator: np.random.Generator
) -> _Changes:
    """Return elements with codes that make the greatest, or least, of all one in a range."""
    is_least = call.spec.traits.extreme == "least"
    is_term = terms.ids >= 0
    beyond = codes < demand.low[:, None] if is_least else codes > demand.high[:, None]
    beyond &= is_term
    one = _one_of_each(is_term, generator)
    lone = np.flatnonzero(~beyond.any(axis=1) & is_term.any(axis=1))
    beyond[lone, one[lone]] = True
    numbers, places = np.nonzero(beyond)
    return np.unique(numbers), terms.ids[numbers, places], demand.low[numbers]


# -- terms of each operator --------------------------------------------------------------------------


def _matmul(call: Call, index: Sequence[Array], positions: Sequence[int]) -> Iterator[Terms]:
    *batch, i, j = (place[:, None] for place in index)
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


def _matrix(operand: Array, batch: Sequence[Array]) -> Any:
    """Return which matrix of an operand batches of the result are computed from."""
    sizes = operand.shape[:-2]
    places = batch[len(batch) - len(sizes) :]
    own = [
        np.where(np.int64(size) > 1, place, 0) for place, size in zip(places, sizes, strict=True)
    ]
    return np.ravel_multi_index(own, sizes) if sizes else 0


def _point(call: Call, name: str) -> int:
    return call.number(name) if call.is_integer and call.has(name) else 0


def _in_windows(shape: Sequence[int], batch: Array, places: Sequence[Array]) -> tuple[Array, Array]:
    """Return the first elements of pixels of an image, and which of these are inside of it."""
    inside = np.ones(places[0].shape, np.bool_)
    first = batch
    for place, size in zip(places, shape[1:-1], strict=True):
        inside = inside & (place >= 0) & (place < size)
        first = first * size + place
    return first * shape[-1], inside


def _convolution(call: Call, index: Sequence[Array], positions: Sequence[int]) -> Iterator[Terms]:
    if 0 not in positions:
        return
    image, weight = call.operands[:2]
    is_depthwise = call.spec.name == "DEPTHWISE_CONV2D"
    kernel = weight.shape[:2] if is_depthwise else weight.shape[1:-1]
    pad, stride, dilation = (call.attributes[name] for name in ("pad", "stride", "dilation"))
    batch, *place, channel = index
    factors = weight.astype(np.float64) - _point(call, "weight_zp")
    offsets = np.indices(kernel).reshape(len(kernel), -1)
    at = [
        p[:, None] * s - pad[2 * axis] + o * d
        for axis, (p, s, o, d) in enumerate(zip(place, stride, offsets, dilation, strict=True))
    ]
    first, inside = _in_windows(image.shape, batch[:, None], at)
    if is_depthwise:
        one, other = np.divmod(channel, weight.shape[-1])
        ids, weights = first + one[:, None], factors.reshape(-1, *weight.shape[2:])[:, one, other].T
    else:
        channels = np.arange(image.shape[-1])
        ids = (first[..., None] + channels).reshape(len(channel), -1)
        inside = np.repeat(inside, len(channels), axis=1)
        weights = factors.reshape(len(weight), -1)[channel]
    yield Terms(0, np.where(inside, ids, -1), weights)


def _window(call: Call, index: Sequence[Array], positions: Sequence[int]) -> Iterator[Terms]:
    if 0 not in positions:
        return
    image = call.operands[0]
    names = ("kernel", "stride", "pad")
    if call.has("kernel"):
        kernel, stride, pad = (call.sizes(name) for name in names)
    else:
        kernel, stride, pad = (tuple(call.attributes[name]) for name in names)
    batch, y, x, channel = (place[:, None] for place in index)
    row, column = np.indices(kernel[:2]).reshape(2, -1)
    at = y * stride[0] - pad[0] + row, x * stride[1] - pad[2] + column
    first, inside = _in_windows(image.shape, batch, at)
    count = np.maximum(inside.sum(axis=1, keepdims=True), 1)
    yield Terms(0, np.where(inside, first + channel, -1), np.broadcast_to(1 / count, first.shape))


def _axis(call: Call, index: Sequence[Array], positions: Sequence[int]) -> Iterator[Terms]:
    if 0 not in positions:
        return
    shape, axis = call.operands[0].shape, call.attributes["axis"]
    places = [place[:, None] for place in index]
    places[axis] = np.arange(shape[axis])[None, :]
    ids = np.ravel_multi_index(np.broadcast_arrays(*places), shape)
    yield Terms(0, np.asarray(ids), np.ones(ids.shape))


#: Yields the terms of elements of the result, given by axis, for each operand that can change.
_MakeTerms = Callable[[Call, Sequence[Array], Sequence[int]], Iterator[Terms]]
_TERMS: Final[dict[str, _MakeTerms]] = table_of(
    "terms", {"axis": _axis, "convolution": _convolution, "matmul": _matmul, "window": _window}
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
    if not extreme_labels(call, positions):
        return
    limits, shape = limits_of(type_of(call)), call.result.shape
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
    index = [np.array([at]) for at in place]
    (terms,) = _TERMS[call.spec.name](call, index, [0])
    inside = terms.ids >= 0
    ids, weights = terms.ids[inside], terms.weights[inside]
    for label, sign in _EXTREMES:
        codes = np.where(sign * weights > 0, limits[1], limits[0])
        if 1 in positions:
            *_, other = _TERMS[call.spec.name](call, index, [1])
            # The greatest product is that of two least numbers.
            codes = np.full(len(ids), limits[0])
            others = np.full(other.ids.size, limits[0] if sign > 0 else limits[1])
            yield EdgeTarget(label, 1, Demand.of(other.ids[0], others), is_whole=True)
        yield EdgeTarget(label, 0, Demand.of(ids, codes), is_whole=True)


def extreme_labels(call: Call, positions: Collection[int]) -> list[str]:
    if not has_extremes(call) or 0 not in positions or 0 in call.result.shape:
        return []
    return [label for label, _ in _EXTREMES]


def extreme_limits(call: Call, positions: Collection[int]) -> tuple[int, ...]:
    """Return the least and the greatest sum that a product of integers can have; none of another."""
    if not extreme_labels(call, positions):
        return ()
    point = _point(call, "input_zp" if call.has("input_zp") else "a_zp")
    ends = [limit - point for limit in limits_of(type_of(call))]
    if 1 in positions:
        depth = call.operands[0].shape[-1]
        return depth * ends[0] * ends[1], depth * max(ends[0] ** 2, ends[1] ** 2)
    weights = _weights(call)
    above = _summed(call, np.maximum(weights, 0))
    below = _summed(call, weights) - above
    # Zero is among the numbers of the first operand.
    return tuple(
        int(pick(above * ends[n] + below * ends[1 - n])) for n, pick in enumerate((np.min, np.max))
    )


def extreme_counts(call: Call, result: Array, limits: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Iterate over the edges of a product of integers, each with how many sums are there."""
    bias = call.raw("bias").astype(np.int64) if call.has("bias") else np.zeros(1, np.int64)
    for (label, sign), limit in zip(_EXTREMES, limits[::-1], strict=True):
        ends = result.max(initial=limits[0]) if sign > 0 else result.min(initial=limits[1])
        if (sign * (int(ends) - bias) >= sign * limit).any():
            found = sign * (result.astype(np.int64) - bias) >= sign * limit
            yield label, int(np.count_nonzero(found))


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
    if operator.spec.name in _TERMS:
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
    if target.name == "BOOL" and row.is_float:
        # What decides is not to be decided by how operators before it round.
        margin = (high - low) // 4
        low, high = low + margin, high - margin
    missing = np.flatnonzero(~found)
    if len(missing):
        code, is_found = search.points(demand.at(missing))
        low[missing], high[missing], found[missing] = code, code, is_found
    return _unique(Demand(own[found], low[found], high[found]))


class _Search:
    """Search codes of one operand for which results have wanted codes."""

    def __init__(self, elements: Elements, position: int, row: DType, target: DType) -> None:
        self.elements, self.position, self.row, self.target = elements, position, row, target

    def results(self, ids: Array, codes: Array) -> Array:
        """Return the codes of results, [element, code]; _UNDEFINED where there are none."""
        values = elements_of(codes.reshape(-1), self.row)
        every = np.repeat(ids, codes.shape[1])
        kept, result = self.elements.compute_defined(every, {self.position: values})
        found = np.full(codes.size, _UNDEFINED)
        found[kept] = codes_of(result, self.target)
        return found.reshape(codes.shape)

    def _fitting(self, demand: Demand, codes: Array) -> tuple[Array, Array]:
        """Try the same codes for each element; return [element, code] whether it fits."""
        table = np.broadcast_to(codes, (len(demand.ids), len(codes)))
        found = self.results(demand.ids, table)
        return table, (found >= demand.low[:, None]) & (found <= demand.high[:, None])

    def every(self, demand: Demand, generator: np.random.Generator) -> tuple[Array, Array, Array]:
        """Try all codes; return one that fits for each element, twice, and whether there is one."""
        low, high = limits_of(self.row)
        codes = np.arange(low, high + 1)
        special = (INFINITE.get(self.row.name), NAN.get(self.row.name))
        codes = np.concatenate([codes, [code for code in special if code is not None]])
        table, fits = self._fitting(demand, codes.astype(np.int64))
        best = _one_of_each(fits, generator)
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
        low, high = (np.tile(end, 2)[:, None] for end in (demand.low, demand.high))

        def at(steps: Array) -> Array:
            return self.results(ids, start[:, None] + sign[:, None] * steps)

        ends = at(np.stack([np.zeros_like(size), size], axis=1)) == _UNDEFINED
        start = np.where(ends[:, 0], start + sign, start)
        size = np.where(ends[:, 0], size - 1, size)
        if ends[:, 1].any():
            beyond = _first_true(lambda steps: at(steps) == _UNDEFINED, size)
            size = np.where(ends[:, 1], np.maximum(beyond - 1, 0), size)
        first, last = at(np.stack([np.zeros_like(size), size], axis=1)).T
        rises = (last >= first)[:, None]

        def reaches(steps: Array) -> Array:
            found = at(steps)
            return np.where(rises, found >= low, found <= high)

        def passes(steps: Array) -> Array:
            found = at(steps)
            return np.where(rises, found > high, found < low)

        begin, end = _first_true(reaches, size), _first_true(passes, size)
        end = np.where(passes(size[:, None])[:, 0], end - 1, size)
        found = at(np.minimum(begin, size)[:, None])
        fits = ((found >= low) & (found <= high))[:, 0] & (end >= begin)
        codes = np.sort(np.stack([start + sign * begin, start + sign * end]), axis=0)
        codes, fits = codes.reshape(2, 2, count), fits.reshape(2, count)
        side = np.where(fits[0] & fits[1], np.arange(count) % 2, fits[1].astype(np.int64))
        places = np.arange(count)
        return codes[0, side, places], codes[1, side, places], fits.any(axis=0)


#: Values that a search tries at once, of all its elements together: a call of numpy costs as much.
_AT_ONCE: Final = 2048


def _first_true(condition: Callable[[Array], Array], size: Array) -> Array:
    """Return the least number of steps for which a condition of [element, steps] holds; else `size`."""
    low, high = np.zeros_like(size), size.copy()
    ways = max(1, _AT_ONCE // max(1, len(size)))
    while (low < high).any():
        width = high - low
        each = np.maximum(width // (ways + 1), 1)
        steps = low[:, None] + np.minimum(each[:, None] * np.arange(1, ways + 1), width[:, None])
        steps = np.maximum(steps - 1, low[:, None])
        holds = condition(steps)
        first = holds.argmax(axis=1)
        is_any = holds.any(axis=1)
        every = np.arange(len(size))
        before = np.where(is_any & (first > 0), steps[every, first - 1] + 1, low)
        low = np.where(is_any, before, np.minimum(steps[:, -1] + 1, high))
        high = np.where(is_any, steps[every, first], high)
    return high
