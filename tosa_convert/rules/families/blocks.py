"""Blocks of elements that share a scale: data, and scales as a tensor of their own."""

from __future__ import annotations

from collections.abc import Iterator

from tosa_convert.graph.dtypes import BlockSize
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.families.core import Check, Violation, agree, dashed, known
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.values import Shape, shape_text


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
    """Require the last dimension of the operand to be a multiple of the block size."""

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
    """Require that data and scales have one rank."""

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
    """Require one scale for each block of the data."""

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
