"""What programs that read `.tosa` files accept, by experiment.

A row says which forms of a file a program opens, so that `--for` can choose one or say that there is
none. docs/formats.md tells with which releases the rows were established.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, cast

from tosa_convert.errors import fail

Form = Literal["embedded", "offset", "npy"]


class Consumer(NamedTuple):
    """A program that reads files. `weights`: the forms it opens, the one to prefer first.

    otherwise: what it makes of a file of another form.
    """

    name: str
    weights: tuple[Form, ...]
    otherwise: str


CONSUMERS: Final = {
    row.name: row
    for row in (
        Consumer("reference-model", ("embedded", "offset"), "finds no data"),
        Consumer("tosa-opt", ("embedded", "offset"), "finds no data"),
        Consumer("model-converter", ("embedded", "offset"), "finds no data"),
        Consumer("vela", ("embedded",), "refuses the file: constants are missing"),
        Consumer("model-explorer", ("embedded",), "shows no graph"),
        Consumer("flatc", ("embedded",), "drops the weights without a word"),
    )
}


def weights_for(consumer: str, weights: str) -> str:
    """The form of weights for a program: the one asked for, or for "auto" the one it needs.

    Raises TosaConvertError("option-conflict") if the program does not open the form asked for.
    """
    row = CONSUMERS.get(consumer)
    if row is None:
        raise fail(
            "option-conflict", "for", f"found {consumer!r}, expected one of {', '.join(CONSUMERS)}"
        )
    if weights == "auto":
        # Where only one form will do, "auto" must not choose another for a large file.
        return row.weights[0] if len(row.weights) == 1 else "auto"
    if cast("Form", weights) not in row.weights:
        raise fail(
            "option-conflict",
            "for",
            f'weights="{weights}" for {consumer}: it {row.otherwise}',
            f"use {' or '.join(row.weights)}",
        )
    return weights
