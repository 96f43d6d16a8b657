"""Measure the spread of a tensor: how far its values in several runs are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.criteria import ONE_SIDED, TRUNCATED, Spread, leanings
from tosa_convert.golden.accuracy.erring_runs import (
    COHERENT,
    RUNS,
    rounded,
    subnormal_numbers,
    undefined_integers,
    whole_sums,
)
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    FLOATS,
    axis_of,
    is_exact_inside,
    is_subnormal,
    kinds_of,
    parts_of,
    rule_of,
    same_values,
)
from tosa_convert.golden.arrays import Array, Arrays
from tosa_convert.graph.derived import extract, touches_variables
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Graph, Operator, operator_path
from tosa_convert.graph.opset import CONST
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.call import is_float
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of

# -- which elements of a tensor the errors of implementations reach --------------------------------
# What operators only move, beside results that err, stays exact: an operand of CONCAT, the border
# of PAD, the other side of SELECT, the branch of COND_IF that computes nothing inexact. So do
# results that jump, such as those of CEIL and GREATER, where the operand is far from the jump.

#: Whether errors reach all elements of a tensor, none, or which of them.
Reached = bool | Array
#: Responses of operators whose results have elements of several operands.
_MIXING: Final = ("mixed", "choice")


@dataclass(slots=True)
class ReachedElements:
    """Follow through a main block which elements errors reach, one operator after another."""

    graph: Graph
    by_name: dict[str, Reached] = field(default_factory=dict)

    def of(self, name: str) -> Reached:
        """Return which elements of a tensor are reached; none of one that no operator computed."""
        return self.by_name.get(name, False)

    def start(self, values: Mapping[str, Value]) -> None:
        """Add inputs or constants: their subnormal numbers may be read as zeros."""
        self.by_name.update(subnormal_numbers(self.graph.main, values))

    def add(
        self, operator: Operator, operands: Sequence[Value], results: Mapping[str, Value]
    ) -> None:
        """Add the results of an operator, whose values have no errors here."""
        if operator.spec.regions:
            self._add_control_flow(operator, operands)
            return
        for name in operator.outputs:
            self.by_name[name] = self._result(operator, operands, name, results.get(name))

    def keep_those_that_jump(
        self, operator: Operator, runs: Sequence[Mapping[str, Value]], possible: Array | None
    ) -> None:
        """Keep the elements that jump in a run whose operands were moved as far as they may err."""
        for name in operator.outputs:
            exact, *others = (plain(own[name]) for own in runs)
            jumps = np.zeros(exact.shape, np.bool_)
            for other in others:
                jumps |= ~same_values(other, exact)
            if possible is not None:
                jumps |= possible.sum(axis=-1) > 1
            self.by_name[name] = _in_short(jumps & self.of(name))

    def _add_control_flow(self, operator: Operator, operands: Sequence[Value]) -> None:
        run = [row.name for row in operator.spec.regions]
        if "then_graph" in run:
            run = ["then_graph" if plain(operands[0]).reshape(-1)[0] else "else_graph"]
        states: list[str] = []
        if touches_variables(self.graph, operator):
            states = [name for name, tensor in self.graph.main.tensors.items() if tensor.variable]
        errs = any(self.of(name) is not False for name in (*operator.inputs, *states))
        errs = errs or not is_exact_inside(self.graph, operator, run)
        for name in (*operator.outputs, *(states if errs else ())):
            self.by_name[name] = errs

    def _result(
        self, operator: Operator, operands: Sequence[Value], name: str, result: Value | None
    ) -> Reached:
        block, spec = self.graph.main, operator.spec
        reached = [self.of(operand) for operand in operator.inputs]
        if rule_of(block, operator, name) != EXACT:
            row = block.tensors[name].dtype
            is_rounded = not spec.is_inexact or spec.traits.response == "product"
            if spec.traits.response == "sum" and reached[0] is False:
                is_whole = whole_sums(block, operator, [operands], None)
                return _in_short(np.broadcast_to(~is_whole, block.tensors[name].shape or ()))
            if not is_rounded or not spec.elementwise or row.bits <= 8 or result is None:
                return True
            # What needs no rounding has no error of its own, unless it may become zero.
            value = plain(result)
            with np.errstate(all="ignore"):
                errs = ~same_values(value, rounded(value, row)) | is_subnormal(value, row)
            reached.insert(0, _in_short(errs))
            return _any_of(reached, spec.elementwise + 1)
        undefined = undefined_integers(block, operator, operands)
        if undefined is not None:
            reached[0] = undefined | reached[0]
        if all(own is False for own in reached):
            return False
        if spec.family == "control":  # a variable, which is read or written as it is
            return reached[0]
        if any(isinstance(value, Scaled) for value in operands):
            return True
        if spec.accuracy == "operand" or spec.traits.response == "choice":
            return self._moved(operator, operands, reached)
        return _any_of(reached, spec.elementwise)

    def _moved(
        self, operator: Operator, operands: Sequence[Value], reached: Sequence[Reached]
    ) -> Reached:
        """Return where an operator moves the elements that are reached."""
        spec, arrays = operator.spec, list(operands)
        unsure: Reached = False
        for position, own in enumerate(reached):
            row = spec.operand(position, len(operands))
            if row.domain == "index" and own is not False:
                if spec.name != "GATHER":
                    return True
                unsure = np.broadcast_to(own, plain(operands[position]).shape)[..., None]
            if spec.traits.response == "choice" and position == 0:
                unsure = own
            elif row.domain != "index" and not row.is_shape:
                shape = plain(operands[position]).shape
                arrays[position] = np.broadcast_to(np.asarray(own, np.uint8), shape)
        call = call_of(self.graph.main, operator, operands, "wide")
        found = OPERATIONS[spec.name](replace(call, operands=tuple(map(plain, arrays))))
        return _in_short(np.asarray(found).astype(np.bool_) | unsure)


def _any_of(reached: Sequence[Reached], count: int) -> Reached:
    """Return where one of the first operands is reached, if these alone are."""
    if not count or any(own is not False for own in reached[count:]):
        return True
    return _in_short(np.logical_or.reduce(np.broadcast_arrays(*reached[:count])))


def _in_short(reached: Array) -> Reached:
    """Return a bool in place of an array whose elements are all the same."""
    if reached.all():
        return True
    return reached if reached.any() else False


def exact_elements(graph: Graph, inputs: Arrays, names: Iterable[str]) -> dict[str, Array]:
    """Return which elements of tensors no error reaches, of those that have some beside others."""
    block = graph.main
    makers = {name: op for op in block.operators for name in op.outputs}
    wanted = [name for name in names if _may_mix(graph, makers, name)]
    if not wanted:
        return {}
    part = extract(graph, wanted)
    machine, reached = Machine(part, "wide"), ReachedElements(part)
    try:
        values = {name: machine.argument(part.main, name, inputs) for name in part.main.inputs}
        reached.start(values)
        for index, op in enumerate(part.main.operators):
            operands = [machine.value(part.main, values, name) for name in op.inputs]
            if op.spec.regions:
                results = machine.control_flow(index, op, operands)
            else:
                results = machine.compute(part.main, op, operands, operator_path("main", index, op))
            reached.add(op, operands, results)
            if op.spec is CONST:
                reached.start(results)
            values |= results
    except TosaConvertError:
        return {}
    return {
        name: np.broadcast_to(np.logical_not(own), block.tensors[name].shape or ())
        for name in wanted
        if (own := reached.of(name)) is not True
    }


def _may_mix(graph: Graph, makers: Mapping[str, Operator], name: str) -> bool:
    """Return whether a tensor may have exact elements beside others."""
    pending, seen = [name], {name}
    while pending:
        current = pending.pop()
        op = makers.get(current)
        if op is None:
            continue
        if op.spec.traits.response in _MIXING:
            return True
        if op.spec.regions or rule_of(graph.main, op, current) == EXACT:
            pending += [own for own in op.inputs if own not in seen]
            seen.update(op.inputs)
    return False


#: The weight of an element's neighbours in its spread: its own has few runs.
_NEIGHBOURS: Final = 0.25
#: How many times the lower quartile of its neighbours' squares counts.
_OUTLIERS: Final = 16.0
#: How many times the square of an element that errs is raised at most. By chance six runs are all within
#: a hundredth of their spread once in 10^11.
_MOST_RAISED: Final = 1e4
#: Of several measurements, the least share of the largest spread that counts. The spread of six runs is
#: at least sqrt((1 - _NEIGHBOURS) / 6) of their largest error. What a run computes is accepted: it is
#: within six times this share.
_OF_LARGEST: Final = 0.4715
#: Responses of operators whose result differs wherever one of their operands has an error.
_INJECTIVE: Final = ("linear", "product")


@np.errstate(all="ignore")
def spread_of(
    block: Block,
    name: str,
    values: Sequence[Value],
    possible: Array | None = None,
    known: Array | None = None,
    reached: Reached = True,
) -> Spread:
    """Return the spread of a tensor of its values in all runs, the first of which is exact.

    known: the spread of finite numbers, if it is not left to chance. reached: the elements that errors
        reach; others have no part in the spread of their neighbours.
    """
    arrays = [plain(value) for value in values]
    exact = arrays[0]
    kind = block.tensors[name].dtype.name
    if kind not in FLOATS:
        wide = [array.astype(np.float64) if is_float(array.dtype) else array for array in arrays]
        low, high = reduce(np.minimum, wide), reduce(np.maximum, wide)
        return Spread(wide[0], low=low, high=high, possible=possible)
    exact = exact.astype(np.float64, copy=False)
    own, counts, kinds = _squares_of_errors(exact, arrays)
    most = FLOATS[kind][2]
    squares = own
    fits: Array | None = None
    if not np.abs(exact).max(initial=0.0) <= most:
        # What overflows says nothing about its neighbours.
        fits = np.abs(exact) <= most
        squares = np.where(fits, squares, 0.0)
    if not own.max(initial=0.0) <= most**2:
        squares = np.minimum(squares, most**2)
    sigma = _with_neighbours(squares)
    makers = [op for op in block.operators if name in op.outputs]
    if any(op.spec.traits.response in _INJECTIVE for op in makers):
        # Where no run differs there is nothing to differ: all before it is exact.
        sigma[squares == 0] = 0.0
    if reached is not True:
        sigma[np.logical_not(reached) & (squares == 0)] = 0.0
    if fits is not None:
        sigma = np.where(fits | ~np.isfinite(exact), sigma, own)
    sigma = np.sqrt(sigma)
    if known is not None:
        sigma = known if counts is None else np.where(counts == len(arrays) - 1, known, sigma)
    if counts is not None:
        # Where no run has a number, nothing says how far it may be off.
        sigma = np.where((counts == 0) & np.isfinite(exact), np.inf, sigma)
    inside = np.where(np.isfinite(sigma) & (np.abs(exact) <= most), sigma, 0.0)
    with np.errstate(all="ignore"):
        leaning = [leanings(array - exact, exact, inside) for array in arrays[1:]]
    means = [np.square(np.stack(rows)).mean(axis=0) for rows in zip(*leaning, strict=True)]
    one_sided = TRUNCATED if _may_be_truncated(block) else ONE_SIDED
    return Spread(exact, sigma=sigma, kinds=kinds, leaning=means or None, one_sided=one_sided)


def _may_be_truncated(block: Block) -> bool:
    """Return whether a sum is stored in the shortest type of a block: TOSA lets it be truncated."""
    rows = [tensor.dtype for tensor in block.tensors.values() if tensor.dtype.name in FLOATS]
    least = min((row.bits for row in rows), default=0)
    sums = [op for op in block.operators if op.spec.accuracy == "dot-product"]
    types = [block.tensors[name].dtype for op in sums for name in op.outputs]
    types += [row for op in sums if isinstance(row := op.attributes.get("acc_type"), DType)]
    return any(row.is_float and row.bits <= least for row in types)


def _squares_of_errors(
    exact: Array, arrays: Sequence[Array]
) -> tuple[Array, Array | None, Array | None]:
    """Return the mean of the squares of the errors of each element in all runs but the exact first.

    With it come, if not all errors are finite, how many are, and the kinds of the others.
    """
    others = [array for array in arrays[1:] if array is not arrays[0]]
    squares = np.zeros(exact.shape)
    counts: Array | None = None
    kinds: Array | None = None
    for where in parts_of(exact.shape):
        center, total = exact[where], squares[where]
        for other in others:
            error = other[where] - center
            error *= error
            total += error
        if np.isfinite(total.max(initial=0.0)):
            total /= max(1, len(arrays) - 1)
            continue
        if counts is None or kinds is None:
            counts = np.full(exact.shape, len(arrays) - 1, np.int32)
            kinds = np.zeros(exact.shape, np.uint8)
        total[...] = 0.0
        for other in others:
            values = other[where]
            error = values - center
            is_number = np.isfinite(error)
            differs = ~is_number & ~same_values(values, center)
            kinds[where] |= np.where(differs, kinds_of(values), np.uint8(0))
            counts[where] -= ~is_number
            total += np.square(np.where(is_number, error, 0.0))
        total /= np.maximum(counts[where], 1)
    return squares, counts, kinds


def spread_of_scales(values: Sequence[Value]) -> Spread:
    scales = [value.scale.astype(np.float64) for value in values if isinstance(value, Scaled)]
    return Spread(scales[0], low=reduce(np.fmin, scales), high=reduce(np.fmax, scales))


def merged(spreads: Sequence[Spread]) -> Spread:
    """Return the spread of all runs of several measurements of one tensor."""
    first = spreads[0]

    def all_of(name: str) -> list[Array]:
        return [array for spread in spreads if (array := getattr(spread, name)) is not None]

    if first.sigma is None:
        low, high = reduce(np.fmin, all_of("low")), reduce(np.fmax, all_of("high"))
        possible = reduce(np.logical_or, all_of("possible")) if first.possible is not None else None
        return Spread(first.exact, low=low, high=high, possible=possible)
    sigmas = np.stack(all_of("sigma"))
    is_known = np.isfinite(sigmas)
    squares = np.square(np.where(is_known, sigmas, 0.0)).sum(axis=0)
    counts = is_known.sum(axis=0)
    largest = np.where(is_known, sigmas, 0.0).max(axis=0)
    mean = np.maximum(np.sqrt(squares / np.maximum(counts, 1)), _OF_LARGEST * largest)
    sigma = np.where(counts > 0, mean, np.inf)
    kinds = all_of("kinds")
    leaning = [own.leaning for own in spreads if own.leaning is not None]
    return replace(
        first,
        sigma=sigma,
        kinds=reduce(np.bitwise_or, kinds) if kinds else None,
        alone=_outweighing(np.square(np.where(is_known.any(axis=0), sigma, 0.0))),
        leaning=[np.mean(own, axis=0) for own in zip(*leaning, strict=True)] or None,
    )


def _outweighing(squares: Array) -> Array:
    """Return which elements of a row, of a channel or of all outweigh all smaller ones together."""
    if squares.ndim == 0 or not squares.size:
        return np.ones(squares.shape, np.bool_)
    table = squares.reshape(-1, squares.shape[-1])
    found = np.zeros(table.shape, np.bool_)
    for lines, axis in ((table, 1), (table, 0), (table.reshape(1, -1), 1)):
        order = np.argsort(lines, axis=axis)
        ascending = np.take_along_axis(lines, order, axis=axis)
        smaller = np.cumsum(ascending, axis=axis) - ascending
        outweighs = np.zeros(lines.shape, np.bool_)
        np.put_along_axis(outweighs, order, ascending > smaller, axis=axis)
        found |= outweighs.reshape(table.shape)
    return found.reshape(squares.shape)


def _with_neighbours(squares: Array) -> Array:
    """Return the squares moved towards the mean of the row or of the channel, whichever is less.

    A mean is limited by the lower quartile, so that a few large errors hide no small one.
    """
    if squares.ndim == 0 or not squares.size:
        return squares
    table = squares.reshape(-1, squares.shape[-1])
    near = _near(table, 1)
    if len(table) > 1:
        near = np.minimum(near, _near(table, 0))
    near = np.where(table > 0, np.minimum(near, _MOST_RAISED * table), near)
    return np.asarray((table + _NEIGHBOURS * (near - table)).reshape(squares.shape))


def _near(table: Array, axis: int) -> Array:
    """Return the mean along an axis, limited by the lower quartile of what is not zero."""
    mean = table.mean(axis=axis, keepdims=True)
    small, zeros = (
        np.count_nonzero(found, axis=axis, keepdims=True)
        for found in (table * _OUTLIERS < mean, table == 0)
    )
    quarter = (table.shape[axis] - zeros) // 4
    # Where the mean is less, the quartile need not be known.
    lines = np.flatnonzero(small - zeros > quarter)
    if lines.size:
        part = np.take(table, lines, axis=1 - axis)
        ordered = np.sort(np.where(part > 0, part, np.inf), axis=axis)
        place = np.take(quarter, lines, axis=1 - axis)
        quartile = np.take_along_axis(ordered, place, axis=axis)
        limited = np.minimum(np.take(mean, lines, axis=1 - axis), _OUTLIERS * quartile)
        np.put_along_axis(mean, lines.reshape(limited.shape), limited, axis=1 - axis)
    return np.asarray(mean)


# -- error amplification at discontinuities and kinks, which a few runs alone may miss -------------

#: How many times their spread the operands of an operator that decides are moved.
_MOVED_BY: Final = 6.0
#: How many times their spread the operands of a function are moved, to see whether its result jumps or
#: has a kink there; and how many times that of the runs its change is then.
_PROBED_AT: Final = 4.0
_KINKS: Final = 5.0
#: Responses of operators on single elements that follow their operands in a straight line.
_STRAIGHT: Final = ("linear", "choice")


def decides(block: Block, operator: Operator) -> bool:
    """Return whether the result jumps: it is discrete, or a number that does not follow its operand."""
    operands, results = (
        [block.tensors[name].dtype for name in names if name in block.tensors]
        for names in (operator.inputs, operator.outputs)
    )
    is_discrete = any(row.is_float for row in operands) and not all(row.is_float for row in results)
    return is_discrete or operator.spec.traits.response == "step"


def moved_operands(
    block: Block,
    operator: Operator,
    operands: list[list[Value]],
    random: np.random.Generator,
    reached: ReachedElements,
) -> tuple[list[list[Value]], Array | None]:
    """Return the operands of each run, moved by several times their spread where the result can jump.

    The first two runs move the first operand down and up, and the others the other way; an operand that
    is given twice is the same number in each place. Also return the indices that are possible, if the
    result is the index of the largest element.
    """
    moved = [list(own) for own in operands]
    response = operator.spec.traits.response
    if response == "table":
        _move_to_ends_of_table(moved)
    if not decides(block, operator):
        return moved, None
    possible = None
    sign = -1.0
    sizes: dict[str, Array] = {}
    for position, name in enumerate(operator.inputs):
        exact = operands[0][position]
        tensor = block.tensors.get(name)
        # Scales of blocks have no spread.
        if tensor is None or isinstance(exact, Scaled) or tensor.dtype.name not in FLOATS:
            continue
        if name in sizes:
            for own in moved[1:]:
                own[position] = own[operator.inputs.index(name)]
            continue
        size = np.zeros(exact.shape)
        if any(own[position] is not exact for own in operands):
            runs = [own[position] for own in operands]
            sigma = spread_of(block, name, runs, reached=reached.of(name)).sigma
            assert sigma is not None
            size = _MOVED_BY * sigma
            is_whole = _are_whole(runs) if response in _ROUNDING else np.False_
            for number, own in enumerate(moved[1:], 1):
                step: Array | float = sign if number % 2 else -sign
                if number > COHERENT:
                    step = random.uniform(-1, 1, size.shape)
                moves = np.isfinite(exact) & np.isfinite(own[position]) & ~is_whole
                own[position] = np.where(moves, exact + step * size, own[position])
            sign = -sign
            if response == "position":
                axis = axis_of(operator)
                towards = -exact if operator.spec.traits.extreme == "least" else exact
                least = np.max(towards - size, axis=axis, keepdims=True)
                possible = np.moveaxis(towards + size >= least, axis, -1)
        sizes[name] = size
    if response == "equality" and len(sizes) == len(operator.inputs):
        # Numbers that are moved at random are never equal: in run 1 none is, in the last one all are.
        one, other = (plain(value) for value in operands[0])
        with np.errstate(invalid="ignore"):
            may_be_equal = np.abs(one - other) <= sum(sizes.values())
        for number, own in enumerate(moved[2:], 2):
            is_equal = may_be_equal & (random.random(may_be_equal.shape) < number / RUNS)
            own[0], own[1] = (np.where(is_equal, other, plain(value)) for value in own)
    return moved, possible


#: Responses of operators that leave whole numbers as they are. Errors have moved what became whole
#: before.
_ROUNDING: Final = ("cast", "step")


def _are_whole(runs: Sequence[Value]) -> Array:
    found = np.ones((), np.bool_)
    for run in map(plain, runs):
        found = found & (run == np.rint(run))
    return np.asarray(found)


def _move_to_ends_of_table(moved: list[list[Value]]) -> None:
    """Move unsure indices of a TABLE, in runs 1 and 2, to the least and the greatest entry in reach.

    The entries between two indices may be any numbers: the results at the indices of the runs are no
    limits. A table of INT16 has an entry for each 128th index, and straight lines between them.
    """
    runs = [plain(own[0]) for own in moved]
    low, high = np.minimum.reduce(runs), np.maximum.reduce(runs)
    is_unsure = low < high
    if not is_unsure.any():
        return
    entries = plain(moved[0][1]).astype(np.int64)
    step = 1 if low.dtype == np.int8 else 128
    first = int(np.iinfo(low.dtype).min)
    least, most = (end[is_unsure].astype(np.int64) - first for end in (low, high))

    def at(index: Array) -> Array:
        """Return the results at indices, times the step."""
        entry, more = np.divmod(index, step)
        following = entries[np.minimum(entry + 1, len(entries) - 1)]
        return np.asarray(entries[entry] * (step - more) + following * more)

    between = (least + step - 1) // step * step
    lowest = np.where(at(least) <= at(most), least, most)
    highest = np.where(at(least) >= at(most), least, most)
    while (is_inside := between < most).any():
        lowest = np.where(is_inside & (at(between) < at(lowest)), between, lowest)
        highest = np.where(is_inside & (at(between) > at(highest)), between, highest)
        between = np.where(is_inside, between + step, between)
    for run, own, index in zip(runs[1:], moved[1:], (lowest, highest), strict=False):
        changed = run.copy()
        changed[is_unsure] = index + first
        own[0] = changed


def may_have_kinks(block: Block, operator: Operator) -> bool:
    """Return whether a small change of an operand may change the result much more, or not at all."""
    results = [block.tensors.get(name) for name in operator.outputs]
    if not all(row is not None and row.dtype.name in FLOATS for row in results):
        return False
    families = ("elementwise", "activation", "conversion")
    return operator.spec.family in families and operator.spec.traits.response not in _STRAIGHT


def align_errors(
    operands: Sequence[Sequence[Value]],
    exact: Mapping[str, Value],
    found: Sequence[dict[str, Value]],
) -> None:
    """Move two results by the errors of all terms of a Fourier transform: random ones cancel out."""
    total = np.zeros(1)
    with np.errstate(all="ignore"):
        for runs in zip(*operands, strict=True):
            center, *others = map(plain, runs)
            squares = np.mean([np.square(other - center) for other in others], axis=0)
            total = total + np.sqrt(squares).sum(axis=(1, 2), keepdims=True)
    total[~np.isfinite(total)] = 0.0
    # Two of six runs at half of it: six times their spread is more than all of it.
    for share, result in zip((0.5, -0.5), found, strict=False):
        result.update({name: plain(result[name]) + share * total for name in exact})


def add_kinks(
    machine: Machine,
    index: int,
    operands: list[list[Value]],
    exact: Mapping[str, Value],
    found: list[dict[str, Value]],
    reached: ReachedElements,
) -> None:
    """Change elements of the first three runs where the others say too little about the result.

    Beside a kink or a pole, such as those of CLAMP and RECIPROCAL, all runs may be on one side of it.
    In one, operands that may be 0 are 0, at which LOG is infinite.
    """
    block = machine.graph.main
    operator = block.operators[index]
    (name,) = operator.outputs
    if _is_straight(operator, operands):
        return
    probes = _probes(block, operator, operands, reached)
    where = operator_path("main", index, operator)
    try:
        tried = [plain(Machine.compute(machine, block, operator, p, where)[name]) for p in probes]
    except TosaConvertError:
        return
    if isinstance(exact[name], Scaled):
        return
    center = plain(exact[name])
    runs_found = [plain(own[name]) for own in found]
    for part in parts_of(center.shape):
        here = center[part]
        probed = [probe[part] for probe in tried]
        kinks = _kinks(here, [run[part] for run in runs_found], probed)
        if not kinks.any():
            continue
        for number, (result, probe) in enumerate(zip(found, probed, strict=False)):
            if result[name] is runs_found[number]:
                # What runs share stays as it is.
                result[name] = runs_found[number].copy()
            mine = plain(result[name])[part]
            # Two of six runs at half the change: their spread is that of the operand.
            with np.errstate(all="ignore"):
                middle = (probe + here) / 2
                half = np.where(np.isfinite(probe) & np.isfinite(here), middle, probe)
                # What this run has already may be further away, or an infinity.
                is_less = np.isfinite(mine) & ~(np.abs(mine - here) > np.abs(half - here))
            is_less |= np.isnan(mine) & np.isnan(here)
            np.copyto(mine, half, where=kinks & is_less)


@np.errstate(all="ignore")
def _kinks(center: Array, runs: list[Array], probes: list[Array]) -> Array:
    """Return where a probe is much further from the exact result than the runs, or of another kind."""
    squares = sum(np.square(run - center) for run in runs)
    changes = np.abs(probes[0] - center)
    for probe in probes[1:]:
        changes = np.maximum(changes, np.abs(probe - center))
    if np.isfinite(squares.max() + changes.max()):
        return np.asarray(changes > _KINKS * np.sqrt(squares / len(runs)))
    errors = [np.nan_to_num(np.abs(run - center), posinf=0.0) for run in runs]
    sigma = np.sqrt(sum(np.square(error) for error in errors) / len(errors))
    all_changes = [np.nan_to_num(np.abs(probe - center), posinf=0.0) for probe in probes]
    kinds = kinds_of(center)
    for run in runs:
        kinds = kinds | kinds_of(run)
    kinks = np.asarray(np.max(all_changes, axis=0) > _KINKS * sigma)
    for probe in probes:
        kinks |= (kinds_of(probe) & ~kinds) != 0
    return kinks


def _is_straight(operator: Operator, operands: list[list[Value]]) -> bool:
    """Return whether the runs have one finite factor of a product, which is a straight line then."""
    if operator.spec.traits.response != "product":
        return False
    return any(
        all(own[position] is value for own in operands) and bool(np.isfinite(plain(value)).all())
        for position, value in enumerate(operands[0][:2])
    )


@np.errstate(all="ignore")
def _probes(
    block: Block, operator: Operator, operands: list[list[Value]], reached: ReachedElements
) -> list[list[Value]]:
    """Return operands moved one way and the other by their spread, and at 0 where they may be 0."""
    probes: list[list[Value]] = [list(operands[0]) for _ in range(3)]
    sign = 1.0
    for position, operand in enumerate(operator.inputs):
        value = operands[0][position]
        tensor = block.tensors.get(operand)
        if tensor is None or isinstance(value, Scaled) or not tensor.dtype.is_float:
            continue
        if operand in operator.inputs[:position]:
            for own in probes:
                own[position] = own[operator.inputs.index(operand)]
            continue
        runs = [own[position] for own in operands]
        if all(run is value for run in runs):
            continue
        sigma = spread_of(block, operand, runs, reached=reached.of(operand)).sigma
        assert sigma is not None
        places = [np.empty(value.shape) for _ in probes]
        for part in parts_of(value.shape):
            here, size = value[part], _PROBED_AT * sigma[part]
            down, up, nearest = (place[part] for place in places)
            np.subtract(here, sign * size, out=down)
            np.add(here, sign * size, out=up)
            nearest[...] = here
            nearest[np.abs(here) <= size] = 0.0
            if not np.isfinite(here.sum()):
                for place in (down, up, nearest):
                    np.copyto(place, here, where=~np.isfinite(here))
        for own, place in zip(probes, places, strict=True):
            own[position] = place
        sign = -sign
    return probes
