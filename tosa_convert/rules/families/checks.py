"""What the rules of an operator are made of, and what several families of operators share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT8
from tosa_convert.graph.lazy_numpy import FEW
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.rules.operator_view import OperatorView, Shape, Size, TensorType, shape_text


class Violation(NamedTuple):
    """A condition of an operator that does not hold.

    rule: the condition's name without the operator's, such as "broadcast" or "output-height".
    message: what was found. expected: what would be right. hint: what to do about it, or "".
    """

    rule: str
    message: str
    expected: str
    hint: str = ""


#: The most operands that a message lists.
_MOST_LISTED: Final = 8
#: The shape of a result that is a tensor, or the sizes of one that is a !tosa.shape.
ResultShape = Shape | tuple[Size, ...]
#: The shapes of all results, by operands and attributes; what is not known is DYNAMIC or None. It is
#: called only if ranks and checks found no violation. `view.outputs` may be empty.
Infer = Callable[[OperatorView], tuple[ResultShape, ...]]
#: The violations of one condition. What is not known violates nothing.
Check = Callable[[OperatorView], Iterator[Violation]]


class OperatorRules(NamedTuple):
    """The row of an operator.

    infer: the shapes of its results.
    ranks: conditions of the ranks of its operands. If one does not hold, no check is called.
    checks: further conditions of its operands and attributes; each is independent of the others.
    dimensions: what the dimensions of its first result are called in the names of rules, such as
        ("batch", "height", "width", "channels"); () if they are only the "shape".
    """

    infer: Infer
    ranks: tuple[Check, ...] = ()
    checks: tuple[Check, ...] = ()
    dimensions: tuple[str, ...] = ()


#: A family's rows, by the operators' names.
Rules = dict[str, OperatorRules]


def of_families(*families: str) -> list[OperatorSpec]:
    """Return the operators of families."""
    return [row for row in OPERATORS if row.family in families]


# -- sizes that may be unknown -------------------------------------------------------------------


def known(size: Size) -> bool:
    """Return whether a size of a tensor or of a !tosa.shape is known."""
    return size is not None and size != DYNAMIC


def agree(*sizes: Size) -> bool:
    """Return whether sizes can be equal: those that are known are.

    Example:
        >>> agree(2, DYNAMIC, 2), agree(2, 3)
        (True, False)
    """
    return len({size for size in sizes if size is not None and size != DYNAMIC}) <= 1


def merged(*sizes: Size) -> int:
    """Return the size that equal sizes have: the first one known, else DYNAMIC.

    Example:
        >>> merged(DYNAMIC, 3), merged(None, DYNAMIC)
        (3, -1)
    """
    for size in sizes:
        if size is not None and size != DYNAMIC:
            return size
    return DYNAMIC


def common_shape(one: Shape, other: Shape) -> Shape:
    """Return the sizes that two shapes share.

    Example:
        >>> common_shape((2, 3), (2, 4)), common_shape((2,), (2, 3))
        ((2, -1), None)
    """
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else DYNAMIC for a, b in zip(one, other, strict=True))


def says(text: str) -> Callable[[Check], Check]:
    """Give a check that a function makes the docstring that documents show."""

    def described(check: Check) -> Check:
        check.__doc__ = text
        return check

    return described


# -- conditions that many operators have ---------------------------------------------------------


def rank(name: str, *ranks: int) -> Check:
    expected = " or ".join(map(str, ranks))

    @says(f"Check that {name} has rank {expected}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        for tensor in view.tensors(name):
            if tensor.rank is not None and tensor.rank not in ranks:
                yield Violation(
                    f"{dashed(name)}-rank",
                    f"{name} is {tensor}, of rank {tensor.rank}",
                    f"rank {expected}",
                )

    return check


def rank_of_at_least(name: str, fewest: int) -> Check:
    @says(f"Check that {name} has rank at least {fewest}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        for tensor in view.tensors(name):
            if tensor.rank is not None and tensor.rank < fewest:
                yield Violation(
                    f"{dashed(name)}-rank",
                    f"{name} is {tensor}, of rank {tensor.rank}",
                    f"rank at least {fewest}",
                )

    return check


def single(name: str) -> Check:
    @says(f"Check that {name} has the shape [1].")
    def check(view: OperatorView) -> Iterator[Violation]:
        for tensor in view.tensors(name):
            shape = tensor.shape
            if shape is not None and (len(shape) != 1 or not agree(shape[0], 1)):
                yield Violation(f"{dashed(name)}-shape", f"{name} is {tensor}", "shape [1]")

    return check


def axis_of(name: str) -> Check:
    """Require the attribute "axis" to be a dimension of the tensor operands of this name."""

    @says(f"Check that axis is a dimension of {name}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        axis = view.attributes["axis"]
        for tensor in view.tensors(name):
            if axis < 0 or (tensor.rank is not None and axis >= tensor.rank):
                last = "" if tensor.rank is None else f" to {tensor.rank - 1}"
                yield Violation(
                    "axis", f"axis is {axis}, and {name} is {tensor}", f"0{last or ' or more'}"
                )
                return

    return check


def dashed(name: str) -> str:
    """Return a name of an operand, attribute or operator, as rules have it.

    Example:
        >>> dashed("input1_zp"), dashed("MAX_POOL2D")
        ('input1-zp', 'max-pool2d')
    """
    return name.lower().replace("_", "-")


# -- results ---------------------------------------------------------------------------------------


def result_violations(
    view: OperatorView, shapes: Iterable[ResultShape], dimensions: tuple[str, ...]
) -> Iterator[Violation]:
    """Report where declared results contradict implied shapes. dimensions: see `OperatorRules`."""
    for index, ((row, declared), shape) in enumerate(zip(view.results(), shapes, strict=True)):
        found = declared.shape if isinstance(declared, TensorType) else declared.sizes
        if found is None or shape is None:
            continue
        name = dashed(row.name)
        if len(found) != len(shape):
            yield Violation(
                f"{name}-rank",
                f"{row.name} is {declared}, of rank {len(found)}",
                f"rank {len(shape)}: {shape_text(shape)}",
            )
            continue
        names = dimensions if index == 0 and len(dimensions) == len(shape) else ()
        wrong = [
            position
            for position, sizes in enumerate(zip(found, shape, strict=True))
            if not agree(*sizes)
        ]
        rules = {names[position] if names else "shape" for position in wrong}
        for rule in sorted(rules):
            yield Violation(f"{name}-{rule}", f"{row.name} is {declared}", shape_text(shape))


def listing(view: OperatorView, names: Iterable[str] = ()) -> str:
    """List the first operands with their types, or those of some names, for messages."""
    wanted = frozenset(names)
    operands = [
        (row.name, value) for row, value in view.operands() if not wanted or row.name in wanted
    ]
    shown = [f"{name} {value}" for name, value in operands[:_MOST_LISTED]]
    if len(operands) > _MOST_LISTED:
        shown.append(f"... {len(operands)} operands")
    return ", ".join(shown)


def first_shape(view: OperatorView) -> tuple[ResultShape, ...]:
    """Return the shape of the first operand as that of the result."""
    value = view.inputs[0]
    return (value.shape if isinstance(value, TensorType) else value.sizes,)


def first_outside(data: Constant, least: int, most: int | None) -> tuple[int, int] | None:
    """Return position and value of the first element outside of a range; most: None for no end."""
    if data.splat:
        data = data.first(1)  # the other elements are the same
    if data.count < FEW:
        top = math.inf if most is None else most
        for index, value in enumerate(data.values()):
            if value < least or value > top:
                return index, int(value)
        return None
    # Fast path of the values one by one; equal by test test_a_value_outside_is_found_among_few_and_many
    start = 0
    for block in data.blocks():
        wrong = block < least if most is None else (block < least) | (block > most)
        if wrong.any():
            index = int(wrong.argmax())
            return start + index, int(block[index])
        start += len(block)
    return None


def outside(
    view: OperatorView, name: str, least: int, most: int | None, rule: str, expected: str
) -> Iterator[Violation]:
    """Report the first element of a constant operand outside of a range."""
    tensor = view.tensor(name)
    found = None if tensor.data is None else first_outside(tensor.data, least, most)
    if found is not None:
        position, value = found
        where = place(tensor.shape, position)
        yield Violation(rule, f"{name} {where} is {value}", expected)


def place(shape: tuple[int, ...] | None, position: int) -> str:
    """Return the place of an element in a tensor of a known shape, for messages.

    Example:
        >>> place((2, 3), 4), place((5,), 4), place((), 0), place(None, 4)
        ('[1, 1]', '[4]', '[]', '4')
    """
    if shape is None or min(shape, default=0) < 0:
        return str(position)
    indices: list[int] = []
    for size in reversed(shape):
        position, index = divmod(position, size)
        indices.insert(0, index)
    return str(indices)


def zero_point(name: str) -> Check:
    is_single = single(name)

    @says(f"Check that {name} has the shape [1], and is 0 unless it is of INT8.")
    def check(view: OperatorView) -> Iterator[Violation]:
        wrong_shape = [*is_single(view)]
        yield from wrong_shape
        tensor = view.tensor(name)
        if wrong_shape or tensor.data is None or tensor.dtype is INT8 or is_zero(tensor.data):
            return
        yield Violation(
            f"{dashed(name)}-not-zero",
            f"{name} is {tensor.data.numpy()[0]} of {tensor.dtype}",
            "0, as for all dtypes but INT8",
        )

    return check


def is_zero(data: Constant) -> bool:
    """Return whether all elements are 0, or all are -0.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> is_zero(Constant(dtype("BF16"), 1, bytes([0, 0x80])))
        True
        >>> is_zero(Constant(dtype("INT8"), 2, bytes([0, 1])))
        False
    """
    # By bits, since numpy does not have most floating-point types.
    element = data.uniform()
    bits = -1 if element is None else int.from_bytes(element, "little")
    return bits == 0 or (data.dtype.is_float and bits == 1 << (data.dtype.bits - 1))
