"""What becomes of small errors where a result jumps or bends: a few runs alone do not show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.erring_runs import COHERENT, RUNS
from tosa_convert.golden.accuracy.error_bounds import FLOATS, kinds_of, parts_of
from tosa_convert.golden.accuracy.reached_elements import ReachedElements
from tosa_convert.golden.accuracy.spreads import spread_of
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.model import Block, Operator, operator_path
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.evaluate import Machine

#: How many times their spread the operands of an operator that decides are moved.
_MOVED_BY: Final = 6.0
#: How many times their spread the operands of a function are moved, to see whether its result jumps or
#: bends there; and how many times that of the runs its change is then.
_PROBED_AT: Final = 4.0
_BENDS: Final = 5.0
#: Operators on single elements whose results follow their operands in a straight line.
_STRAIGHT: Final = frozenset(("ADD", "NEGATE", "SELECT", "SUB"))


def decides(block: Block, operator: Operator) -> bool:
    """Return whether the result jumps: it is discrete, or a number that does not follow its operand."""
    operands, results = (
        [block.tensors[name].dtype for name in names if name in block.tensors]
        for names in (operator.inputs, operator.outputs)
    )
    is_discrete = any(row.is_float for row in operands) and not all(row.is_float for row in results)
    return is_discrete or operator.spec.is_step


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
    if operator.spec.name == "TABLE":
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
            for number, own in enumerate(moved[1:], 1):
                step: Array | float = sign if number % 2 else -sign
                if number > COHERENT:
                    step = random.uniform(-1, 1, size.shape)
                moves = np.isfinite(exact) & np.isfinite(own[position])
                own[position] = np.where(moves, exact + step * size, own[position])
            sign = -sign
            if operator.spec.name == "ARGMAX":
                axis = operator.attributes["axis"]
                assert isinstance(axis, int)
                least = np.max(exact - size, axis=axis, keepdims=True)
                possible = np.moveaxis(exact + size >= least, axis, -1)
        sizes[name] = size
    if operator.spec.name == "EQUAL" and len(sizes) == len(operator.inputs):
        # Numbers that are moved at random are never equal: in run 1 none is, in the last one all are.
        one, other = (plain(value) for value in operands[0])
        with np.errstate(invalid="ignore"):
            may_be_equal = np.abs(one - other) <= sum(sizes.values())
        for number, own in enumerate(moved[2:], 2):
            is_equal = may_be_equal & (random.random(may_be_equal.shape) < number / RUNS)
            own[0], own[1] = (np.where(is_equal, other, plain(value)) for value in own)
    return moved, possible


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


def may_bend(block: Block, operator: Operator) -> bool:
    """Return whether a small change of an operand may change the result much more, or not at all."""
    results = [block.tensors.get(name) for name in operator.outputs]
    is_float = all(row is not None and row.dtype.name in FLOATS for row in results)
    families = ("elementwise", "activation", "conversion")
    return is_float and operator.spec.family in families and operator.spec.name not in _STRAIGHT


def align_errors(
    operands: Sequence[Sequence[Value]],
    exact: Mapping[str, Value],
    found: Sequence[dict[str, Value]],
) -> None:
    """Move the results of two runs by the errors of all terms of a Fourier transform together.

    Its terms have every pattern of signs, and errors of a function may have the same one. In runs with
    random errors they nearly cancel out.
    """
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


def add_bends(
    machine: Machine,
    index: int,
    operands: list[list[Value]],
    exact: Mapping[str, Value],
    found: list[dict[str, Value]],
    reached: ReachedElements,
) -> None:
    """Change elements of the first three runs where the others say too little about the result.

    Beside a bend or a pole, such as those of CLAMP and RECIPROCAL, all runs may be on one side of it.
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
        bends = _bends(here, [run[part] for run in runs_found], probed)
        if not bends.any():
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
            np.copyto(mine, half, where=bends & is_less)


@np.errstate(all="ignore")
def _bends(center: Array, runs: list[Array], probes: list[Array]) -> Array:
    """Return where a probe is much further from the exact result than the runs, or of another kind."""
    squares = sum(np.square(run - center) for run in runs)
    changes = np.abs(probes[0] - center)
    for probe in probes[1:]:
        changes = np.maximum(changes, np.abs(probe - center))
    if np.isfinite(squares.max() + changes.max()):
        return np.asarray(changes > _BENDS * np.sqrt(squares / len(runs)))
    errors = [np.nan_to_num(np.abs(run - center), posinf=0.0) for run in runs]
    sigma = np.sqrt(sum(np.square(error) for error in errors) / len(errors))
    all_changes = [np.nan_to_num(np.abs(probe - center), posinf=0.0) for probe in probes]
    kinds = kinds_of(center)
    for run in runs:
        kinds = kinds | kinds_of(run)
    bends = np.asarray(np.max(all_changes, axis=0) > _BENDS * sigma)
    for probe in probes:
        bends |= (kinds_of(probe) & ~kinds) != 0
    return bends


def _is_straight(operator: Operator, operands: list[list[Value]]) -> bool:
    """Return whether the runs have one finite factor of a product, which is a straight line then."""
    if operator.spec.name != "MUL":
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
