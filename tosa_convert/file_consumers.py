"""The forms of a `.tosa` file that existing programs read, found by experiment.

`--for PROGRAM` chooses a form that the program reads, or reports that the requested one does not
work. docs/formats.md names the releases that were tried.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.options import Weights

Form = Literal["embedded", "offset", "npy"]


class Consumer(NamedTuple):
    """A program that reads `.tosa` files.

    weights: the forms that it reads, the preferred one first.
    otherwise: what it does with a file of another form.
    types: element types that it does not read. operators: operators that it does not read.
    newest: the TOSA version of the newest operators that it reads.
    constants: operands that must be constants unless a target has EXT-DYNAMIC must be constants.
    """

    name: str
    weights: tuple[Form, ...]
    otherwise: str
    types: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    newest: tuple[int, int] = (1, 1)
    constants: bool = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONSUMERS: Final = {
    row.name: row
    for row in (
        Consumer("reference-model", ("embedded", "offset"), "finds no data"),
        Consumer("tosa-opt", ("embedded", "offset"), "finds no data"),
        Consumer(
            "model-converter",
            ("embedded", "offset"),
            "finds no data",
            types=_names("FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8"),
            operators=_names(
                "COND_IF WHILE_LOOP VARIABLE_READ VARIABLE_WRITE ASSERT_EQUAL_SHAPE MATMUL_T "
                "CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED CONV2D_BLOCK_SCALED "
                "MATMUL_T_BLOCK_SCALED RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED"
            ),
            constants=True,
        ),
        Consumer(
            "vela",
            ("embedded",),
            "refuses the file: constants are missing",
            types=_names(
                "FP32 FP16 BF16 FP8E4M3 FP8E5M2 FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8 INT64"
            ),
            newest=(1, 0),
            constants=True,
        ),
        Consumer("model-explorer", ("embedded",), "shows no graph"),
        Consumer("flatc", ("embedded",), "silently drops the weights"),
    )
}


def weights_for(consumer: str, weights: Weights) -> Weights:
    """The form of the weights for a program.

    Args:
        consumer: A name of `CONSUMERS`.
        weights: The requested form, or "auto".

    Returns:
        The requested form; for "auto" the only form that the program reads, or "auto" if it reads
        several.

    Raises:
        TosaConvertError: "option-conflict" if the program does not read the requested form, or is
            not in `CONSUMERS`.

    Example:
        >>> weights_for("vela", "auto"), weights_for("tosa-opt", "auto")
        ('embedded', 'auto')
    """
    refuse_unknown("for", consumer, CONSUMERS)
    row = CONSUMERS[consumer]
    if weights == "auto":
        # "auto" could choose another form for a large file, so the only form is requested by name.
        return row.weights[0] if len(row.weights) == 1 else "auto"
    if weights not in row.weights:
        raise fail(
            "option-conflict",
            "for",
            f'weights="{weights}" for {consumer}: it {row.otherwise}',
            f"use {' or '.join(row.weights)}",
        )
    return weights
