"""Operators of a TFLite model that are known not to lower, without its converter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.frontends.process.request import NotLowered
from tosa_convert.frontends.tflite.read import TfliteFile, operator_name
from tosa_convert.frontends.unlowered import place_text

#: The operator that Vela puts in the place of those that it has compiled for an Ethos-U.
COMPILED: Final = "ethos-u"
GIVE_ORIGINAL: Final = "convert the model from which Vela made this one"
#: Built-in operators of which no form lowers. Of others, some forms do not; the converter names them.
_NEVER: Final = """
BITCAST IF RFFT2D SEGMENT_SUM UNIQUE WHERE
"""
NEVER_LOWERED: Final = frozenset(_NEVER.split())


def known_unlowered(model: TfliteFile) -> Iterator[NotLowered]:
    """Find the operators that do not lower, as far as that is known without converting."""
    yield from with_unmade_operands(model)
    for operator in model.operators:
        name = operator_name(operator.code)
        if not operator.custom and name in NEVER_LOWERED:
            made = (model.tensors[one].name for one in operator.outputs)
            yield NotLowered(operator=name, where=place_text(operator.index, *made))


def with_unmade_operands(model: TfliteFile) -> Iterator[NotLowered]:
    """Find custom operators that take a tensor without data that nothing makes, such as scratch."""
    made = {*model.inputs, *(tensor for row in model.operators for tensor in row.outputs)}
    for operator in model.operators:
        unmade = [
            model.tensors[number].name
            for number in operator.inputs
            if number >= 0 and number not in made and not len(model.tensors[number].data)
        ]
        if operator.custom and unmade:
            yield NotLowered(
                operator=operator.custom,
                where=place_text(
                    operator.index, *(model.tensors[one].name for one in operator.outputs)
                ),
                reason=f'it takes "{unmade[0]}", which has no data and which nothing makes',
                hint=GIVE_ORIGINAL if operator.custom == COMPILED else "",
            )
