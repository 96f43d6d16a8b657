"""Operators of a TFLite model that are known not to lower, without lowering them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.frontends.process.request import NotLowered
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, operator_name
from tosa_convert.frontends.unlowered import place_text

#: The operator that Vela puts in the place of those that it has compiled for an Ethos-U.
_COMPILED: Final = "ethos-u"
_GIVE_ORIGINAL: Final = "convert the model from which Vela made this one"
#: Built-in operators of which no form lowers, and how others begin. Of the rest, some forms do not.
_NEVER: Final = """
HASHTABLE_LOOKUP LSH_PROJECTION CONCAT_EMBEDDINGS SKIP_GRAM EMBEDDING_LOOKUP_SPARSE DELEGATE UNIQUE
WHERE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 PLACEHOLDER_FOR_GREATER_OP_CODES HASHTABLE
HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL DILATE
REDUCE_WINDOW
"""
NEVER_LOWERED: Final = frozenset(_NEVER.split())
_STABLEHLO: Final = "STABLEHLO_"


def known_unlowered(model: TfliteFile) -> Iterator[NotLowered]:
    """Find the operators that do not lower, as far as that is known without converting."""
    yield from with_unmade_operands(model)
    for operator in model.operators:
        name = operator_name(operator.code)
        is_never = name in NEVER_LOWERED or name.startswith(_STABLEHLO)
        if not operator.custom and is_never:
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
            reason, hint = refusal_of_unmade(operator, unmade[0])
            made_names = (model.tensors[one].name for one in operator.outputs)
            where = place_text(operator.index, *made_names)
            yield NotLowered(operator=operator.custom, where=where, reason=reason, hint=hint)


def refusal_of_unmade(operator: Operator, name: str) -> tuple[str, str]:
    """Return why a custom operator with such a tensor is refused, and what would help."""
    reason = f'it takes "{name}", which has no data and which nothing makes'
    return reason, _GIVE_ORIGINAL if operator.custom == _COMPILED else ""
