"""Operators that select elements by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.constant import BLOCK
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.families.core import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    known,
    listing,
    merged,
    outside,
    rank,
    single,
)
from tosa_convert.rules.operator_view import OperatorView

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
    def check(view: OperatorView) -> Iterator[Violation]:
        for name, (rule, text) in _COMMON.items():
            found = _sizes(view, layout, name)
            if not agree(*(size for _, size in found)):
                sizes = [f"{size} in {operand}" for operand, size in found if known(size)]
                message = f"{text} is {' and '.join(sizes)}: {listing(view, layout)}"
                yield Violation(rule, message, "equal sizes")

    check.__doc__ = f"Check that sizes of the same name agree: {_layouts(layout)}."
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


def indices_are_rows(view: OperatorView) -> Iterator[Violation]:
    """Check that every index is that of a row. So are the further rows that ROW_GATHER copies."""
    name = view.spec.operands[0].name
    shape = view.shape(name)
    rows = DYNAMIC if shape is None else shape[1]
    copied = (
        view.splat("row_count") if any(row.name == "row_count" for row, _ in view.operands()) else 1
    )
    most = rows - int(copied or 1) if known(rows) else None
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
    count, rows = view.splat("row_count"), _size(view, _GATHER, "K")
    if count is None:
        return
    if count < 1 or (known(rows) and count > rows):
        expected = f"1 to {rows}, the rows of values" if known(rows) else "at least 1"
        yield Violation("row-count", f"row_count is {count}", expected)


def _gathered(view: OperatorView) -> tuple[ResultShape, ...]:
    return (tuple(_size(view, _GATHER, name) for name in "NWC"),)


def _gathered_rows(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, indices, channels = (_size(view, _GATHER, name) for name in "NWC")
    count = view.splat("row_count")
    rows = indices * int(count) if known(indices) and count is not None else DYNAMIC
    return ((batch, rows, channels),)


def _scattered(view: OperatorView) -> tuple[ResultShape, ...]:
    return (tuple(_size(view, _SCATTER, name) for name in "NKC"),)


_GATHER_RANKS: Final = (rank("values", 3), rank("indices", 2))

RULES: Final[Rules] = {
    "GATHER": OperatorRules(
        _gathered,
        _GATHER_RANKS,
        (_sizes_agree(_GATHER), indices_are_rows),
        ("batch", "indices", "channels"),
    ),
    "ROW_GATHER": OperatorRules(
        _gathered_rows,
        _GATHER_RANKS,
        (_sizes_agree(_GATHER), single("row_count"), row_count, indices_are_rows),
        ("batch", "rows", "channels"),
    ),
    "SCATTER": OperatorRules(
        _scattered,
        (rank("values_in", 3), rank("indices", 2), rank("input", 3)),
        (_sizes_agree(_SCATTER), rows_for_indices, indices_are_rows, indices_occur_once),
        ("batch", "rows", "channels"),
    ),
}
