"""What a correction is: a fault of the converter, and what replaces the operators of such a lowering.

The operators of one lowering have one location. They are replaced if they have the form that the
converter is known to write; an operator whose lowering has another form is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile

if TYPE_CHECKING:
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Block, Operator

Facts = TypeVar("Facts")


class OtherFormError(Exception):
    """The operators do not have the form that is replaced."""


@dataclass(slots=True)
class Group:
    """The operators of one lowering, without constants.

    result: the only value of them that others use. inputs: values of others that they use, in order;
    constants are not among them.
    """

    operators: list[Operator]
    inputs: list[str]
    result: str

    def the(self, kind: str) -> Operator:
        """Return the only operator of a kind; raise OtherFormError if there is not exactly one."""
        found = [one for one in self.operators if one.spec.name == kind]
        if len(found) != 1:
            raise OtherFormError
        return found[0]

    def making(self, name: str) -> Operator | None:
        """Return the operator that defines a value, or None."""
        return next((one for one in self.operators if name in one.outputs), None)

    def returning(self, name: str) -> list[Operator]:
        """Return the operators with another name for their result."""
        return [
            replace(one, outputs=tuple(name if out == self.result else out for out in one.outputs))
            for one in self.operators
        ]


@dataclass(frozen=True, slots=True)
class Correction(Generic[Facts]):
    """Both halves of the correction of a lowering that computes other numbers than TFLite.

    operator: what messages call it. fault: what is wrong with its lowering.
    find: returns the facts of an operator in a model, or True; None or False if its lowering is right.
    lower: adds the corrected operators of a lowering with the writer. It raises OtherFormError, or
        ValueError for a number that does not fit its type.
    change: returns an operator of the lowering as it is to be, in its place; used without `lower`.
    seen_in: the release of tosa-converter-for-tflite in which the fault was seen last.
    """

    operator: str
    fault: str
    find: Callable[[TfliteFile, TfliteOperator], Facts | None]
    lower: Callable[[Group, Facts, Writer], None] | None = None
    change: Callable[[Operator], Operator] | None = None
    seen_in: str = "2026.2.0"


def group_of(block: Block, operators: list[Operator]) -> Group:
    """Return the operators of a lowering with what they take and give.

    Raises OtherFormError if others use several of their results.
    """
    defined = {name for one in operators for name in one.outputs}
    inside = {id(one) for one in operators}
    used = {
        *block.outputs,
        *(name for one in block.operators if id(one) not in inside for name in one.inputs),
    }
    results = [name for name in defined if name in used]
    if len(results) != 1:
        raise OtherFormError
    inputs = dict.fromkeys(
        name
        for one in operators
        for name in one.inputs
        if name not in defined and name in block.tensors and block.tensors[name].data is None
    )
    return Group(operators, list(inputs), results[0])
