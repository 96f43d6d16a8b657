"""The instructions of the extended set TOSA.001000.1: their operators, and the order of attributes.

Facts of the set's grammar: an instruction has the number of its operator in the schema less one, and its
operands are the operator's attributes, and then the operator's operands. Of the attributes only the
accumulator has another place: before `local_bound`.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.records import NamedTuple

SET: Final = "TOSA.001000.1"
#: ARGMAX is the first instruction and RESCALE the last.
_COUNT: Final = 66


class Instruction(NamedTuple):
    """An instruction: its operator, and the names of its attributes in their order."""

    spec: OperatorSpec
    attributes: tuple[str, ...]


def _attributes(spec: OperatorSpec) -> tuple[str, ...]:
    names = [row.name for row in spec.attributes]
    if "acc_type" in names and "local_bound" in names:
        names.remove("local_bound")
        names.insert(names.index("acc_type") + 1, "local_bound")
    return tuple(names)


_BY_CODE: Final = {spec.code: spec for spec in OPERATORS if spec.encoded_as in ("", spec.name)}
#: By number.
INSTRUCTIONS: Final = tuple(
    Instruction(spec, _attributes(spec)) for spec in (_BY_CODE[1 + n] for n in range(_COUNT))
)
