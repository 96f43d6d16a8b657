"""Operators that move, repeat or select elements by position."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from tosa_convert.graph.model import DYNAMIC, MAX_RANK
from tosa_convert.rules.families.core import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    axis_of,
    first_shape,
    known,
    listing,
    merged,
    rank_between,
    single,
)
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.values import Shape, Size, TensorType

# -- sizes that a !tosa.shape holds --------------------------------------------------------------


def lengths(*names: str, factor: int = 1) -> Check:
    """Require a value, or `factor` values, of shape operands for each dimension of input1."""

    def check(view: OperatorView) -> Iterator[Violation]:
        rank = view.tensor("input1").rank
        if rank is None:
            # They agree with one another, and have `factor` values for some number of dimensions.
            rank = min(len(view.sizes(names[0])) // factor, MAX_RANK)
        for name in names:
            found = len(view.sizes(name))
            if found != rank * factor:
                per = "" if factor == 1 else f" of {factor} each"
                yield Violation(
                    f"{name}-length",
                    f"{name} has {found} values, and input1 is {view.tensor('input1')}",
                    f"{rank * factor} values, for {rank} dimensions{per}",
                )

    check.__doc__ = (
        f"Check that {' and '.join(names)} has {'one value' if factor == 1 else f'{factor} values'} "
        "for each dimension of input1."
    )
    return check


def _stays_open(view: OperatorView, dimension: int) -> bool:
    """Return whether a -1 can stand for a size of a dimension that is not known.

    MLIR writes -1 for a value that depends on unknown sizes. Where sizes are known it is an error.
    """
    shapes = [view.shape("input1")]
    shapes += [value.shape for value in view.outputs if isinstance(value, TensorType)]
    return any(
        shape is None or (dimension < len(shape) and shape[dimension] == DYNAMIC)
        for shape in shapes
    )


def at_least(name: str, least: int, *, rule: str, factor: int = 1) -> Check:
    """Require the values of a shape operand to be in range. -1 stands for one that is not known."""

    def check(view: OperatorView) -> Iterator[Violation]:
        sizes = view.sizes(name)
        for index, size in enumerate(sizes):
            if size is None or size >= least:
                continue
            if size == DYNAMIC and _stays_open(view, index // factor):
                continue
            yield Violation(
                rule, f"{name} {index} is {size}, in {_listed(sizes)}", f"at least {least}"
            )
            return

    check.__doc__ = f"Check that the values of {name} are at least {least}."
    return check


def _listed(sizes: tuple[Size, ...]) -> str:
    """Format the values of a shape operand with their signs; "?" for what is not known."""
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def _shape(view: OperatorView, rank: int) -> tuple[int, ...]:
    """Return the shape of input1, or unknown sizes if its rank is unknown."""
    shape = view.shape("input1")
    return (DYNAMIC,) * rank if shape is None else shape


# -- CONCAT ----------------------------------------------------------------------------------------


def concat_ranks(view: OperatorView) -> Iterator[Violation]:
    """Check that there is at least one operand, and all have one rank of at least 1."""
    tensors = view.tensors("input1")
    if not tensors:
        yield Violation("empty", "no operands", "at least one")
    ranks = {tensor.rank for tensor in tensors} - {None}
    if len(ranks) > 1:
        yield Violation("rank", f"operands have different ranks: {listing(view)}", "one rank")
    elif 0 in ranks:
        yield Violation("input1-rank", f"operands have rank 0: {listing(view)}", "rank at least 1")


def concat_sizes(view: OperatorView) -> Iterator[Violation]:
    """Check that sizes agree in each dimension but the axis."""
    shapes = [tensor.shape for tensor in view.tensors("input1") if tensor.shape is not None]
    for dimension, sizes in enumerate(zip(*shapes, strict=True)):
        if dimension != view.attributes["axis"] and not agree(*sizes):
            one, other = sorted({size for size in sizes if known(size)})[:2]
            yield Violation(
                "sizes",
                f"sizes {one} and {other} in dimension {dimension}: {listing(view)}",
                f"equal sizes in all dimensions but {view.attributes['axis']}, the axis",
            )


def _concatenated(view: OperatorView) -> tuple[ResultShape, ...]:
    shapes = [tensor.shape for tensor in view.tensors("input1")]
    ranked = [shape for shape in shapes if shape is not None]
    if not ranked:
        return (None,)
    axis = view.attributes["axis"]
    sizes = [merged(*found) for found in zip(*ranked, strict=True)]
    along = [shape[axis] for shape in ranked]
    sizes[axis] = DYNAMIC if DYNAMIC in along or len(ranked) < len(shapes) else sum(along)
    return (tuple(sizes),)


# -- PAD, TILE and SLICE -----------------------------------------------------------------------------


def _sum(*sizes: Size) -> int:
    """Return the sum of sizes; DYNAMIC if one is not known."""
    return sum(size for size in sizes if size is not None) if all(map(known, sizes)) else DYNAMIC


def _padded(view: OperatorView) -> tuple[ResultShape, ...]:
    padding = view.sizes("padding")
    shape = _shape(view, len(padding) // 2)
    return (tuple(map(_sum, shape, padding[::2], padding[1::2])),)


def _tiled(view: OperatorView) -> tuple[ResultShape, ...]:
    multiples = view.sizes("multiples")
    sizes = zip(_shape(view, len(multiples)), multiples, strict=True)
    return (
        tuple(
            size * multiple if multiple is not None and known(size) and known(multiple) else DYNAMIC
            for size, multiple in sizes
        ),
    )


def slice_bounds(view: OperatorView) -> Iterator[Violation]:
    """Check that a slice ends within the input."""
    starts, sizes = view.sizes("start"), view.sizes("size")
    shape = _shape(view, len(sizes))
    for dimension, (length, start, size) in enumerate(zip(shape, starts, sizes, strict=True)):
        if start is None or start < 0 or not known(length):
            continue
        # A slice of an unknown size has at least one element.
        count = size if size is not None and size > 0 else 1
        if start + count > length:
            yield Violation(
                "bounds",
                f"dimension {dimension} of input1 is {length}, and the slice is "
                f"{start} to {start + count}: input1 {view.tensor('input1')}, "
                f"start {_listed(starts)}, size {_listed(sizes)}",
                f"an end of at most {length}",
            )


def start_of_block(view: OperatorView) -> Iterator[Violation]:
    """Check that a slice begins with a block: scales are not divided."""
    scale, starts = view.tensor("input1").scale, view.sizes("start")
    last = starts[-1] if starts else None
    if scale is not None and last is not None and last > 0 and last % int(scale[1]):
        yield Violation(
            "start-blocks",
            f"start is {_listed(starts)}, whose last value is {last}, "
            f"and input1 is {view.tensor('input1')}",
            f"a multiple of the block size {int(scale[1])}",
        )


def _sliced(view: OperatorView) -> tuple[ResultShape, ...]:
    starts, sizes = view.sizes("start"), view.sizes("size")
    shape = _shape(view, len(sizes))
    return (tuple(map(_slice_size, shape, starts, sizes)),)


def _slice_size(length: int, start: Size, size: Size) -> int:
    if size == DYNAMIC and start is not None and known(length):
        return length - start
    return merged(size)


# -- RESHAPE ---------------------------------------------------------------------------------------


def _count(shape: Shape) -> int | None:
    """Return the number of elements of a shape; None if it is not known."""
    return None if shape is None or DYNAMIC in shape else prod(shape)


def reshape_rank(view: OperatorView) -> Iterator[Violation]:
    """Check that the result has a rank that a tensor can have."""
    found = len(view.sizes("shape"))
    if found > MAX_RANK:
        yield Violation("shape-length", f"shape has {found} values", f"at most {MAX_RANK}")


def reshape_sizes(view: OperatorView) -> Iterator[Violation]:
    """Check that the sizes are those of a shape.

    One -1 stands for what follows from an input of unknown size.
    """
    sizes = view.sizes("shape")
    negative = [size for size in sizes if size is not None and size < 0]
    if not negative:
        return
    found = f"shape is {_listed(sizes)}"
    if negative != [DYNAMIC]:
        yield Violation("size", found, "sizes of at least 1, or a single -1")
    elif _count(view.shape("input1")) is not None:
        yield Violation(
            "size",
            f"{found}, and input1 is {view.tensor('input1')}",
            "sizes of at least 1, since all sizes of input1 are known",
        )


def reshape_count(view: OperatorView) -> Iterator[Violation]:
    """Check that the result has as many elements as the input."""
    count, sizes = _count(view.shape("input1")), view.sizes("shape")
    if count is None or any(size is not None and size < DYNAMIC for size in sizes):
        return
    rest = prod(size for size in sizes if size is not None and size != DYNAMIC)
    is_open = not all(map(known, sizes))
    fits = (count % rest == 0 if rest else count == 0) if is_open else count == rest
    if not fits:
        yield Violation(
            "element-count",
            f"input1 {view.tensor('input1')} has {count} elements, and shape is {_listed(sizes)}",
            f"sizes with a product of {count}",
        )


def _reshaped(view: OperatorView) -> tuple[ResultShape, ...]:
    sizes = [merged(size) for size in view.sizes("shape")]
    count, rest = _count(view.shape("input1")), prod(size for size in sizes if size != DYNAMIC)
    if sizes.count(DYNAMIC) == 1 and count is not None and rest:
        sizes[sizes.index(DYNAMIC)] = count // rest
    return (tuple(sizes),)


# -- TRANSPOSE -------------------------------------------------------------------------------------


def perms_length(view: OperatorView) -> Iterator[Violation]:
    """Check that perms has an index for each dimension."""
    rank, perms = view.tensor("input1").rank, view.attributes["perms"]
    if rank is not None and len(perms) != rank:
        yield Violation(
            "perms-length",
            f"perms {list(perms)} has {len(perms)} indices, and input1 is {view.tensor('input1')}",
            f"{rank} indices",
        )


def perms_are_a_permutation(view: OperatorView) -> Iterator[Violation]:
    """Check that each dimension occurs once in perms."""
    perms = view.attributes["perms"]
    expected = f"each of 0 to {len(perms) - 1} once"
    outside = [index for index in perms if not 0 <= index < len(perms)]
    if outside:
        yield Violation("perms-range", f"perms {list(perms)} has index {outside[0]}", expected)
    twice = [index for index in perms if perms.count(index) > 1]
    if twice:
        message = f"perms {list(perms)} has index {twice[0]} {perms.count(twice[0])} times"
        yield Violation("perms-duplicate", message, expected)


def blocks_stay_last(view: OperatorView) -> Iterator[Violation]:
    """Check that the last dimension of a block-scaled tensor, which has its blocks, stays the last."""
    perms, value = view.attributes["perms"], view.tensor("input1")
    last = len(perms) - 1
    if value.scale is not None and last in perms and perms[-1] != last:
        yield Violation(
            "perms-blocks",
            f"perms {list(perms)} moves the last dimension of input1, and input1 is {value}",
            f"{last} as the last index",
        )


def _transposed(view: OperatorView) -> tuple[ResultShape, ...]:
    perms = view.attributes["perms"]
    shape = _shape(view, len(perms))
    return (tuple(shape[index] for index in perms),)


# -- rows ------------------------------------------------------------------------------------------

_HAS_DIMENSIONS: Final = rank_between("input1", 1)

RULES: Final[Rules] = {
    "CONCAT": OperatorRules(_concatenated, (concat_ranks,), (axis_of("input1"), concat_sizes)),
    "IDENTITY": OperatorRules(first_shape),
    "PAD": OperatorRules(
        _padded,
        (_HAS_DIMENSIONS, lengths("padding", factor=2)),
        (at_least("padding", 0, rule="negative", factor=2), single("pad_const")),
    ),
    "RESHAPE": OperatorRules(_reshaped, (reshape_rank,), (reshape_sizes, reshape_count)),
    "REVERSE": OperatorRules(first_shape, (_HAS_DIMENSIONS,), (axis_of("input1"),)),
    "SLICE": OperatorRules(
        _sliced,
        (_HAS_DIMENSIONS, lengths("start", "size")),
        (
            at_least("start", 0, rule="start"),
            at_least("size", 1, rule="size"),
            slice_bounds,
            start_of_block,
        ),
    ),
    "TILE": OperatorRules(
        _tiled,
        (_HAS_DIMENSIONS, lengths("multiples")),
        (at_least("multiples", 1, rule="multiples"),),
    ),
    "TRANSPOSE": OperatorRules(
        _transposed,
        (_HAS_DIMENSIONS, perms_length),
        (perms_are_a_permutation, blocks_stay_last),
    ),
}
