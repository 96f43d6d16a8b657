"""What existing programs read, found by experiment.

`--for PROGRAM` chooses a form that the program reads, or reports that the requested one does not
work. docs/formats.md names the releases that were tried.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.formats import Format
from tosa_convert.options import Weights

Form = Literal["embedded", "offset", "npy"]


class Consumer(NamedTuple):
    """A program that reads TOSA programs.

    release: the package and its release that the facts were proved with.
    formats: the formats that it reads (`formats.Format`), the preferred one first.
    weights: the forms of weights in a `.tosa` file that it reads, the preferred one first.
    otherwise: what it does with a file of another form.
    types: element types that it does not read. operators: operators that it does not read.
    newest: the TOSA version of the newest operators that it reads.
    constants: of the operands that must be constants unless a target has EXT-DYNAMIC, those that must be
        constants in a `.tosa` file: "all" of them, only "zero points", or none.
    further_constants: operands that must be constants, too, such as "PAD pad_const".
    static: it reads only tensors of known rank and sizes. ranked: only tensors of known rank.
    max_rank: the most dimensions of a tensor that it reads.
    computed: an output must not be an input.
    lenient: it reads programs that TOSA forbids, too.
    generic_text: it reads MLIR text with attributes only in generic form.
    old_variables: it reads bytecode with variables only up to version 4.
    """

    name: str
    weights: tuple[Form, ...]
    otherwise: str
    release: str
    formats: tuple[Format, ...] = ("tosa",)
    types: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    newest: tuple[int, int] = (1, 1)
    constants: Literal["", "zero points", "all"] = ""
    further_constants: frozenset[str] = frozenset()
    static: bool = False
    ranked: bool = False
    max_rank: int = 64
    computed: bool = False
    lenient: bool = False
    generic_text: bool = False
    old_variables: bool = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONSUMERS: Final = {
    row.name: row
    for row in (
        Consumer(
            "reference-model",
            ("embedded", "offset"),
            "finds no data",
            "tosa-tools 2026.8.0",
            formats=("tosa", "json"),
            static=True,
            max_rank=6,
        ),
        Consumer(
            "tosa-opt",
            ("embedded", "offset"),
            "finds no data",
            "tosa-tools 2026.8.0",
            formats=("tosa", "mlirbc", "mlir"),
            constants="zero points",
        ),
        Consumer(
            "model-converter",
            ("embedded", "offset"),
            "finds no data",
            "ai-ml-sdk-model-converter 0.11.0",
            formats=("tosa", "mlirbc", "mlir"),
            types=_names("FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8"),
            operators=_names(
                "COND_IF WHILE_LOOP VARIABLE_READ VARIABLE_WRITE ASSERT_EQUAL_SHAPE MATMUL_T "
                "CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED CONV2D_BLOCK_SCALED "
                "MATMUL_T_BLOCK_SCALED RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED"
            ),
            constants="all",
            ranked=True,
            max_rank=6,
        ),
        Consumer(
            "vela",
            ("embedded",),
            "refuses the file: constants are missing",
            "ethos-u-vela 5.2.0",
            types=_names(
                "FP32 FP16 BF16 FP8E4M3 FP8E5M2 FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8 INT64"
            ),
            operators=_names("COND_IF WHILE_LOOP"),
            newest=(1, 0),
            constants="all",
            further_constants=frozenset({"PAD pad_const"}),
            ranked=True,
            max_rank=6,
            computed=True,
        ),
        Consumer(
            "model-explorer",
            ("embedded",),
            "shows the graph without the values of constants",
            "tosa-adapter-model-explorer 0.1.0",
            lenient=True,
        ),
        Consumer(
            "flatc",
            ("embedded",),
            "silently drops the weights",
            "tosa-tools 2026.8.0",
            formats=("tosa", "json"),
            lenient=True,
        ),
    )
}

#: Further programs, for which there is no form of a `.tosa` file to choose.
OTHER_CONSUMERS: Final = {
    row.name: row
    for row in (
        Consumer("torch-mlir", (), "", "torch-mlir 20261001", formats=("mlirbc", "mlir")),
        Consumer(
            "iree",
            (),
            "",
            "iree-base-compiler 3.13.0",
            formats=("mlirbc", "mlir"),
            generic_text=True,
            old_variables=True,
        ),
        Consumer(
            "netron",
            ("embedded", "offset", "npy"),
            "",
            "netron 9.3.3",
            types=_names("FP4E2M1 FP6E2M3 FP6E3M2 FP8UE8M0 MXINT8"),
            formats=("tosa", "json", "mlirbc", "mlir"),
            newest=(1, 0),
            lenient=True,
        ),
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
