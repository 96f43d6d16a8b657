"""What an operator has where nothing is given."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, Final

from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.graph.opset import AttributeSpec, AttributeValue, OperandSpec, OperatorSpec

#: Attributes with a default that the operator table does not give them: one value for all elements.
_EVERY_ELEMENT: Final = {"pad": 0, "out_pad": 0, "stride": 1, "dilation": 1}
#: The defaults of other attributes. None: it follows from the operands.
_DEFAULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("per_channel", "input_unsigned", "output_unsigned", "inverse"), False),
    **dict.fromkeys(("allow_broadcast", "round"), False),
    "scale32": True,
    "rounding_mode": RoundingMode.SINGLE_ROUND,
    "acc_type": None,
    "block_size": None,
}


def has_default(row: OperandSpec) -> bool:
    """Return whether an operand may be left out."""
    return row.arity == "?" or row.default is not None


def default_of(row: AttributeSpec) -> Any:
    """Return the value of an attribute that is left out; `Parameter.empty` if it must be given."""
    if row.optional:
        return row.default
    if row.name in _EVERY_ELEMENT and row.length > 0:
        return (_EVERY_ELEMENT[row.name],) * row.length
    return _DEFAULTS.get(row.name, Parameter.empty)


def complete_attributes(
    spec: OperatorSpec, given: Mapping[str, AttributeValue]
) -> dict[str, AttributeValue]:
    """Return attributes in the order of the operator's row, with the defaults of those left out."""
    if not spec.attributes and not given:
        return {}
    found = {row.name: given.get(row.name, default_of(row)) for row in spec.attributes}
    known = {name: value for name, value in found.items() if value not in (None, Parameter.empty)}
    return {**known, **given}
