"""Products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.rules.families.block_scaled import (
    block_size,
    data_shape,
    divides_into_blocks,
    scales_of,
    whole_blocks,
)
from tosa_convert.rules.families.core import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    merged,
    rank,
    zero_point,
)
from tosa_convert.rules.families.window import sizes_of
from tosa_convert.rules.operator_view import OperatorView

_DIMENSIONS: Final = ("batch", "height", "width")


class _Product:
    """How an operator lays out its operands: [N, H, C], and [N, C, W] or the transposed [D, W, C].

    suffix: of the names of both operands. is_transposed: b is transposed, and D is N or 1.
    """

    def __init__(self, suffix: str, *, is_transposed: bool) -> None:
        self.a, self.b = f"a{suffix}", f"b{suffix}"
        self.is_transposed = is_transposed
        self.columns, self.channels = (1, 2) if is_transposed else (2, 1)

    def sizes(self, view: OperatorView, name: str) -> tuple[int, ...]:
        """Return the sizes of an operand, also those that only its scales have."""
        shape = view.shape(name)
        if name.endswith("_data"):
            scales = view.shape(name.replace("_data", "_scale"))
            shape = data_shape(shape, scales, block_size(view))
        return sizes_of(shape, 3)

    def same_batch(self, view: OperatorView) -> Iterator[Violation]:
        """Check that the batch sizes are equal, or that of the transposed operand is 1."""
        expected, found = self.sizes(view, self.a)[0], self.sizes(view, self.b)[0]
        if agree(expected, found) or (self.is_transposed and found == 1):
            return
        yield Violation(
            "batch",
            f"batch size {found} of {self.b}, and {expected} of {self.a}",
            f"{expected} or 1" if self.is_transposed else str(expected),
        )

    def same_channels(self, view: OperatorView) -> Iterator[Violation]:
        """Check that rows of one operand are as long as columns of the other."""
        expected, found = self.sizes(view, self.a)[2], self.sizes(view, self.b)[self.channels]
        if not agree(expected, found):
            yield Violation(
                "channels",
                f"dimension {self.channels} of {self.b} is {found}, "
                f"and dimension 2 of {self.a} is {expected}",
                str(expected),
            )

    def infer(self, view: OperatorView) -> tuple[ResultShape, ...]:
        """Infer the result's shape."""
        batch, height, _ = self.sizes(view, self.a)
        other = self.sizes(view, self.b)
        if not self.is_transposed or other[0] != 1:
            batch = merged(batch, other[0])
        return ((batch, height, other[self.columns]),)

    def rules(self, ranks: tuple[Check, ...] = (), checks: tuple[Check, ...] = ()) -> OperatorRules:
        """Return the row of an operator with these conditions of its further operands."""
        return OperatorRules(
            self.infer,
            (rank(self.a, 3), rank(self.b, 3), *ranks),
            (self.same_batch, self.same_channels, *checks),
            _DIMENSIONS,
        )


_ZERO_POINTS: Final = (zero_point("a_zp"), zero_point("b_zp"))
_SCALES: Final = (
    whole_blocks("a_data"),
    whole_blocks("b_data"),
    scales_of("a_data", "a_scale"),
    scales_of("b_data", "b_scale"),
)

RULES: Final[Rules] = {
    "MATMUL": _Product("", is_transposed=False).rules(checks=_ZERO_POINTS),
    "MATMUL_T": _Product("", is_transposed=True).rules(checks=_ZERO_POINTS),
    "MATMUL_T_BLOCK_SCALED": _Product("_data", is_transposed=True).rules(
        (divides_into_blocks, rank("a_scale", 3), rank("b_scale", 3)), _SCALES
    ),
}
