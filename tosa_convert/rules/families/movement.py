"""Operators that move, repeat or select elements, by position or by index."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from tosa_convert.graph.constant import BLOCK
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import DYNAMIC, MAX_RANK
from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.checks import (
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
    of_families,
    outside,
    rank,
    rank_of_at_least,
    says,
    single,
)
from tosa_convert.rules.operator_view import OperatorView, Shape, Size, TensorType

# -- sizes that a !tosa.shape holds --------------------------------------------------------------


def lengths(*names: str, factor: int = 1) -> Check:
    """Require a value, or `factor` values, of shape operands for each dimension of input1."""

    @says(
        f"Check that {' and '.join(names)} has {'one value' if factor == 1 else f'{factor} values'} "
        "for each dimension of input1."
    )
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

    return check


def _stays_open(view: OperatorView, dimension: int) -> bool:
    """Return whether -1 can stand for a size, as MLIR writes it where sizes are not known."""
    shapes = [view.shape("input1")]
    shapes += [value.shape for value in view.outputs if isinstance(value, TensorType)]
    return any(
        shape is None or (dimension < len(shape) and shape[dimension] == DYNAMIC)
        for shape in shapes
    )


def at_least(name: str, least: int, *, rule: str, factor: int = 1) -> Check:
    @says(f"Check that the values of {name} are at least {least}.")
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
    """Check that the sizes are those of a shape. One -1 stands for what is unknown."""
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

_HAS_DIMENSIONS: Final = rank_of_at_least("input1", 1)

_BY_POSITION: Final[Rules] = {
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


# -- operators that select elements by index -------------------------------------------------------

#: The names of the dimensions of each operand. Sizes of one name are equal.
_GATHER: Final = {"values": "NKC", "indices": "NW"}
_SCATTER: Final = {"values_in": "NKC", "indices": "NW", "input": "NWC"}
#: A dimension that several operands have -> the name of the rule about it, and its name in messages.
_COMMON: Final = {
    "N": ("batch", "the batch size"),
    "W": ("indices", "the number of indices"),
    "C": ("channels", "the number of channels"),
}


def _sizes(view: OperatorView, layout: dict[str, str], name: str) -> list[tuple[str, int]]:
    """Return the sizes of a dimension with the operands that have it, where they have a rank."""
    return [
        (operand, shape[dimensions.index(name)])
        for operand, dimensions in layout.items()
        if name in dimensions and (shape := view.shape(operand)) is not None
    ]


def _size(view: OperatorView, layout: dict[str, str], name: str) -> int:
    return merged(*(size for _, size in _sizes(view, layout, name)))


def _layouts(layout: dict[str, str]) -> str:
    return ", ".join(f"{name} [{', '.join(sizes)}]" for name, sizes in layout.items())


def _sizes_agree(layout: dict[str, str]) -> Check:
    @says(f"Check that sizes of the same name agree: {_layouts(layout)}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        for name, (rule, text) in _COMMON.items():
            found = _sizes(view, layout, name)
            if not agree(*(size for _, size in found)):
                sizes = [f"{size} in {operand}" for operand, size in found if known(size)]
                message = f"{text} is {' and '.join(sizes)}: {listing(view, layout)}"
                yield Violation(rule, message, "equal sizes")

    return check


def rows_for_indices(view: OperatorView) -> Iterator[Violation]:
    """Check that there is a row for each index, since an index occurs at most once."""
    rows, indices = (_size(view, _SCATTER, name) for name in "KW")
    if known(rows) and known(indices) and indices > rows:
        yield Violation(
            "indices-count",
            f"{indices} indices for {rows} rows of values_in",
            f"at most {rows} indices, since each row is written at most once",
        )


def _copied(view: OperatorView) -> int | float | None:
    """Return how many rows are copied for each index; None if unknown."""
    return view.splat("row_count") if view.has("row_count") else 1


def indices_are_rows(view: OperatorView) -> Iterator[Violation]:
    """Check that every index is that of a row. So are the further rows that row_count adds."""
    name = view.spec.operands[0].name
    shape = view.shape(name)
    rows = DYNAMIC if shape is None else shape[1]
    most = rows - int(_copied(view) or 1) if known(rows) else None
    if most is not None and most < 0:
        return  # another rule says so
    expected = "at least 0" if most is None else f"0 to {most}, since {name} has {rows} rows"
    yield from outside(view, "indices", 0, most, "indices-range", expected)


def indices_occur_once(view: OperatorView) -> Iterator[Violation]:
    """Check that an index occurs at most once in a batch: each row is written once."""
    indices = view.tensor("indices")
    if indices.data is None or indices.shape is None or min(indices.shape) < 1:
        return
    batches, count = indices.shape
    # Of a splat, two indices say it all.
    if indices.data.splat:
        batches, count = 1, min(count, 2)
        numbers = np.repeat(next(indices.data.blocks())[:1], count)
    else:
        numbers = indices.data.numpy()
    rows = numbers.reshape(batches, count)
    step = max(1, BLOCK // count)
    for first in range(0, batches, step):
        ordered = np.sort(rows[first : first + step], axis=1)
        again = ordered[:, 1:] == ordered[:, :-1]
        if again.any():
            row, column = np.unravel_index(int(again.argmax()), again.shape)
            yield Violation(
                "indices-once",
                f"indices has {ordered[row, column]} more than once in batch {first + row}",
                "different indices, since each row is written at most once",
            )
            return


def row_count(view: OperatorView) -> Iterator[Violation]:
    """Check that row_count is at least 1, and not more than the rows of values."""
    count, rows = _copied(view), _size(view, _GATHER, "K")
    if count is None:
        return
    if count < 1 or (known(rows) and count > rows):
        expected = f"1 to {rows}, the rows of values" if known(rows) else "at least 1"
        yield Violation("row-count", f"row_count is {count}", expected)


def _gathered_rows(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, indices, channels = (_size(view, _GATHER, name) for name in "NWC")
    count = _copied(view)
    rows = indices * int(count) if known(indices) and count is not None else DYNAMIC
    return ((batch, rows, channels),)


def _scattered(view: OperatorView) -> tuple[ResultShape, ...]:
    return (tuple(_size(view, _SCATTER, name) for name in "NKC"),)


_ROW_COUNT: Final = (single("row_count"), row_count)
_GATHER_RANKS: Final = (rank("values", 3), rank("indices", 2))

_BY_INDEX: Final[Rules] = {
    "GATHER": OperatorRules(
        _gathered_rows,
        _GATHER_RANKS,
        (_sizes_agree(_GATHER), *_ROW_COUNT, indices_are_rows),
        ("batch", "indices", "channels"),
    ),
    "ROW_GATHER": OperatorRules(
        _gathered_rows,
        _GATHER_RANKS,
        (_sizes_agree(_GATHER), *_ROW_COUNT, indices_are_rows),
        ("batch", "rows", "channels"),
    ),
    "SCATTER": OperatorRules(
        _scattered,
        (rank("values_in", 3), rank("indices", 2), rank("input", 3)),
        (_sizes_agree(_SCATTER), rows_for_indices, indices_are_rows, indices_occur_once),
        ("batch", "rows", "channels"),
    ),
}


RULES: Final[Rules] = table_of(
    "shape", {**_BY_POSITION, **_BY_INDEX}, of_families("layout", "gather")
)
