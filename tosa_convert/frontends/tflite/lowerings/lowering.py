"""What a row of the table of lowerings is: a decomposition or a correction, and steps of several.

The operators of a lowering that is corrected have one location. They are replaced if they have the form
that the converter is known to write; an operator whose lowering has another form is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import TfliteFile
from tosa_convert.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Block, Operator


Facts = TypeVar("Facts")


class Given(NamedTuple):
    """What an operator is decomposed from.

    operands: its operands, without states and those that it leaves out. constants: their elements; None
    for an operand that is not constant. dtypes: their types in TFLite.
    shape, dtype: those of the first result, if there is one.

    Unsigned integers are signed ones with the same bits.
    """

    operands: Sequence[Value]
    constants: Sequence[Any]
    dtypes: Sequence[str]
    shape: tuple[int, ...]
    dtype: str


class Refused(NamedTuple):
    """Why an operator has a form that is not decomposed. hint: what to do instead."""

    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Decomposition(Generic[Facts]):
    """Both halves of the decomposition of an operator that the converter does not lower.

    find: returns the facts of an operator in a model; True if operands and results say everything;
        None or False for one that the converter lowers; `Refused` for one that nothing lowers. It may
        raise IndexError, ValueError or ZeroDivisionError for operands that TFLite does not take.
    lower: returns the results, computed by operators of TOSA.
    fault: what is wrong with the converter's lowering, if it writes one. The operator is refused where
        that cannot be replaced.
    """

    find: Callable[[TfliteFile, TfliteOperator], Facts | Refused | None]
    lower: Callable[[Builder, Given, Facts], list[Value]]
    fault: str = ""


def is_found(facts: Any) -> bool:
    """Return whether `find` of a row found an operator that the row is for."""
    return facts is not None and facts is not False and not isinstance(facts, Refused)


def sizes_of(value: Value) -> tuple[int, ...]:
    return tuple(value.shape or ())


def ranked(b: Builder, value: Value, rank: int) -> Value:
    """Put sizes of 1 in front of those of the value, for a broadcast."""
    shape = sizes_of(value)
    return value if len(shape) == rank else b.reshape(value, (1,) * (rank - len(shape)) + shape)


def broadcast(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    """Repeat the value to a shape."""
    value = ranked(b, value, len(shape))
    times = [size // own for size, own in zip(shape, sizes_of(value), strict=True)]
    return value if max(times, default=1) == 1 else b.tile(value, times)


def around(value: Value, axis: int) -> tuple[int, int, int]:
    """Count the elements before an axis, along it, and after it."""
    shape = sizes_of(value)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def between(b: Builder, value: Value, bounds: Sequence[float | None]) -> Value:
    """Clamp the value to a lower and an upper bound; None means no bound."""
    low, high = bounds
    if low is not None:
        value = b.maximum(value, low)
    return value if high is None else b.minimum(value, high)


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

    def only_input(self, *kinds: str) -> str:
        """Return the only value that it takes; raise OtherFormError without one of these operators."""
        found = {one.spec.name for one in self.operators}
        if len(self.inputs) != 1 or not found.intersection(kinds):
            raise OtherFormError
        return self.inputs[0]

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
    names: the operators of TFLite that it is for; by default `operator`.
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
    names: tuple[str, ...] = ()

    def applies_to(self) -> tuple[str, ...]:
        """Return the operators of TFLite that it is for."""
        return self.names or (self.operator,)


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
