"""Block-scaled operators: blocks of elements that share a scale, and scales as tensors of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Final

from tosa_convert.graph.dtypes import BlockSize
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.checks import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    dashed,
    known,
    merged,
    of_families,
    rank,
    rank_of_at_least,
    says,
    single,
)
from tosa_convert.rules.families.movement import indices_are_rows, row_count
from tosa_convert.rules.families.windows import sizes_of
from tosa_convert.rules.operator_view import OperatorView, Shape, shape_text


def block_size(view: OperatorView) -> int:
    """Return how many elements of the last dimension share a scale."""
    return int(view.attributes["block_size"])


def divides_into_blocks(view: OperatorView) -> Iterator[Violation]:
    """Refuse blocks of one element, of an operator that takes or makes scales."""
    if block_size(view) == BlockSize.BLOCK_SIZE_1:
        yield Violation("block-size", "block_size is 1", str(int(BlockSize.BLOCK_SIZE_32)))


def scales_shape(shape: Shape, block: int) -> Shape:
    """Return the shape of the scales of a tensor of rank 1 or more.

    Example:
        >>> scales_shape((4, 64), 32), scales_shape((4, -1), 32)
        ((4, 2), (4, -1))
    """
    if shape is None:
        return None
    last = shape[-1]
    return (*shape[:-1], last // block if known(last) else DYNAMIC)


def data_shape(shape: Shape, scales: Shape, block: int) -> Shape:
    """Return the shape of data, with the sizes that only the shape of its scales has.

    Example:
        >>> data_shape((-1, -1), (4, 2), 32), data_shape(None, (4, 2), 32)
        ((4, 64), (4, 64))
    """
    if scales is None:
        return shape
    last = scales[-1] * block if known(scales[-1]) else DYNAMIC
    of_scales = (*scales[:-1], last)
    if shape is None:
        return of_scales
    return tuple(
        first if known(first) else second for first, second in zip(shape, of_scales, strict=True)
    )


def whole_blocks(name: str) -> Check:
    @says(f"Check that the last dimension of {name} is a multiple of the block size.")
    def check(view: OperatorView) -> Iterator[Violation]:
        shape, block = view.shape(name), block_size(view)
        if shape and known(shape[-1]) and shape[-1] % block:
            yield Violation(
                f"{dashed(name)}-blocks",
                f"{name} is {view.tensor(name)}, whose last dimension is {shape[-1]}",
                f"a multiple of the block size {block}",
            )

    return check


def one_rank(data: str, scale: str) -> Check:
    @says(f"Check that {scale} has the rank of {data}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        if not view.has(scale):
            return
        expected, found = view.tensor(data), view.tensor(scale)
        if expected.rank is not None and found.rank is not None and expected.rank != found.rank:
            yield Violation(
                f"{dashed(scale)}-rank",
                f"{scale} is {found}, of rank {found.rank}, and {data} is {expected}",
                f"rank {expected.rank}",
            )

    return check


def scales_of(data: str, scale: str) -> Check:
    @says(f"Check that {scale} has one element for each block of {data}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        if not view.has(scale):
            return
        shape, found, block = view.shape(data), view.shape(scale), block_size(view)
        if shape is None or found is None or (known(shape[-1]) and shape[-1] % block):
            return
        expected = scales_shape(shape, block) or ()
        if not all(map(agree, found, expected)):
            yield Violation(
                f"{dashed(scale)}-shape",
                f"{scale} is {view.tensor(scale)}, and {data} is {view.tensor(data)}, "
                f"in blocks of {block}",
                shape_text(expected),
            )

    return check


def _infer_from(view: OperatorView) -> tuple[ResultShape, ...]:
    scales = view.shape("input_scale")
    return (data_shape(view.shape("input_data"), scales, block_size(view)),)


def _infer_to(view: OperatorView) -> tuple[ResultShape, ...]:
    shape = view.shape("input_data")
    return shape, scales_shape(shape, block_size(view))


# -- operators that take a plain tensor, or data and scales --------------------------------------------


def _with_scales(name: str) -> Check:
    @says(f"Check that there is {name} if block_size is not 1, and only then.")
    def check(view: OperatorView) -> Iterator[Violation]:
        block, scaled = block_size(view), view.has(name)
        if scaled != (block > 1):
            found = f"and there is {name}" if scaled else f"without {name}"
            yield Violation(
                "block-size",
                f"block_size is {block}, {found}",
                "32" if scaled else f"1, or an operand {name}",
            )
        expected = 1 + scaled
        if view.outputs and len(view.outputs) != expected:
            yield Violation(
                "results",
                f"the number of results is {len(view.outputs)}, "
                f"{'with' if scaled else 'without'} {name}",
                str(expected),
            )

    return check


def _if_scaled(name: str, check: Check) -> Check:
    """Return the check, restricted to operators that have the operand of scales."""

    @says(check.__doc__ or "")
    def check_scaled(view: OperatorView) -> Iterator[Violation]:
        return check(view) if view.has(name) else iter(())

    return check_scaled


def _with_scales_inferred(
    name: str, infer: Callable[[OperatorView], Shape]
) -> Callable[[OperatorView], tuple[ResultShape, ...]]:
    """Return a function that infers the shape of the result, and of its scales if there are any."""

    def shapes(view: OperatorView) -> tuple[ResultShape, ...]:
        shape = infer(view)
        return (shape, scales_shape(shape, block_size(view))) if view.has(name) else (shape,)

    return shapes


# -- RESHAPE_BLOCK_SCALED ------------------------------------------------------------------------------


def _new_shape(view: OperatorView) -> tuple[int, ...]:
    sizes = view.sizes("new_value_shape")
    return tuple(DYNAMIC if size is None else size for size in sizes)


def _reshaped_input(view: OperatorView) -> Shape:
    shape = view.shape("input")
    if not view.has("input_scale"):
        return shape
    return data_shape(shape, view.shape("input_scale"), block_size(view))


def new_shape_is_positive(view: OperatorView) -> Iterator[Violation]:
    """Check that all sizes of the new shape are at least 1."""
    sizes = view.sizes("new_value_shape")
    if any(size is not None and size < 1 for size in sizes):
        found = ", ".join("?" if size is None else str(size) for size in sizes)
        yield Violation(
            "new-value-shape-below-one", f"new_value_shape is [{found}]", "sizes of at least 1"
        )


def same_count(view: OperatorView) -> Iterator[Violation]:
    """Check that the result has as many elements as the input."""
    sizes, shape = view.sizes("new_value_shape"), _reshaped_input(view)
    if shape is None or not all(map(known, shape)) or any(not size or size < 1 for size in sizes):
        return
    found, expected = prod(_new_shape(view)), prod(shape)
    if found != expected:
        yield Violation(
            "elements",
            f"new_value_shape is {shape_text(sizes)}, of {found} elements, "
            f"and input is {view.tensor('input')}",
            f"{expected} elements",
        )


def new_shape_of_blocks(view: OperatorView) -> Iterator[Violation]:
    """Check that the new shape of a block-scaled tensor has whole blocks."""
    sizes, block = view.sizes("new_value_shape"), block_size(view)
    if not sizes:
        yield Violation(
            "new-value-shape-rank", "new_value_shape has no sizes", "at least one, for the blocks"
        )
    elif (last := sizes[-1]) is not None and last % block:
        yield Violation(
            "new-value-shape-blocks",
            f"new_value_shape is {shape_text(sizes)}, whose last size is {last}",
            f"a multiple of the block size {block}",
        )


# -- ROW_GATHER_BLOCK_SCALED ---------------------------------------------------------------------------


def _values(view: OperatorView) -> tuple[int, ...]:
    shape = view.shape("values")
    if view.has("values_scale"):
        shape = data_shape(shape, view.shape("values_scale"), block_size(view))
    return sizes_of(shape, 3)


def same_batch(view: OperatorView) -> Iterator[Violation]:
    """Check that values and indices have one batch size."""
    expected, found = _values(view)[0], sizes_of(view.shape("indices"), 2)[0]
    if not agree(expected, found):
        yield Violation(
            "batch", f"batch size {found} of indices, and {expected} of values", str(expected)
        )


def _gathered(view: OperatorView) -> Shape:
    batch, _, channels = _values(view)
    indices = sizes_of(view.shape("indices"), 2)
    count = view.splat("row_count")
    rows = indices[1] * int(count) if count is not None and known(indices[1]) else DYNAMIC
    return merged(batch, indices[0]), rows, channels


_OWN: Final[Rules] = {
    "CAST_FROM_BLOCK_SCALED": OperatorRules(
        _infer_from,
        (
            divides_into_blocks,
            rank_of_at_least("input_data", 1),
            one_rank("input_data", "input_scale"),
        ),
        (whole_blocks("input_data"), scales_of("input_data", "input_scale")),
    ),
    "CAST_TO_BLOCK_SCALED": OperatorRules(
        _infer_to,
        (divides_into_blocks, rank_of_at_least("input_data", 1)),
        (whole_blocks("input_data"),),
    ),
    "RESHAPE_BLOCK_SCALED": OperatorRules(
        _with_scales_inferred("input_scale", _new_shape),
        (
            _with_scales("input_scale"),
            _if_scaled("input_scale", rank_of_at_least("input", 1)),
            one_rank("input", "input_scale"),
            _if_scaled("input_scale", new_shape_of_blocks),
        ),
        (
            whole_blocks("input"),
            scales_of("input", "input_scale"),
            new_shape_is_positive,
            same_count,
        ),
    ),
    "ROW_GATHER_BLOCK_SCALED": OperatorRules(
        _with_scales_inferred("values_scale", _gathered),
        (
            _with_scales("values_scale"),
            rank("values", 3),
            rank("indices", 2),
            one_rank("values", "values_scale"),
        ),
        (
            whole_blocks("values"),
            scales_of("values", "values_scale"),
            single("row_count"),
            row_count,
            same_batch,
            indices_are_rows,
        ),
        ("batch", "rows", "channels"),
    ),
}
RULES: Final[Rules] = table_of("shape", _OWN, of_families("block_layout", "block_conversion"))
