"""Operators that run regions, variables, and operators of other domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import index as as_index
from typing import Final

from tosa_convert.graph.model import DYNAMIC, Block
from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.checks import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    common_shape,
    first_shape,
    known,
    of_families,
    says,
)
from tosa_convert.rules.operator_view import (
    OperatorView,
    ShapeType,
    TensorType,
    TypeTable,
    ValueType,
)

#: What checks a region of an operator.
RegionCheck = Callable[[OperatorView, tuple[str, Block]], Iterator[Violation]]

# -- what is compared --------------------------------------------------------------------------------


def _region(view: OperatorView, attribute: str) -> tuple[str, Block] | None:
    """Return the name and the block of a region; None if it is not known yet."""
    name = str(view.attributes[attribute])
    block = None if view.regions is None else view.regions.get(name)
    return None if block is None else (name, block)


def _types(block: Block, names: Sequence[str]) -> list[ValueType]:
    table = TypeTable()
    return [
        table.of_tensor(block.tensors[name], with_data=False)
        if name in block.tensors
        else table.of_shape(block.shapes[name])
        for name in names
    ]


def _fits(one: ValueType, other: ValueType) -> bool:
    """Return whether two values can have one type. Sizes and ranks that are unknown fit any."""
    if isinstance(one, ShapeType) or isinstance(other, ShapeType):
        return type(one) is type(other) and one.rank == other.rank
    if one.shape is None or other.shape is None:
        sizes_fit = True
    else:
        sizes_fit = len(one.shape) == len(other.shape) and all(map(agree, one.shape, other.shape))
    return one.dtype is other.dtype and one.scale == other.scale and sizes_fit


def _differences(
    rule: str, what: str, found: Sequence[ValueType], whose: str, wanted: Sequence[ValueType]
) -> Iterator[Violation]:
    """Report where two lists of types of one length differ."""
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not _fits(one, other):
            yield Violation(rule, f"{what}: value {index} is {one}", f"{other}, as {whose} are")


def _region_differences(
    rule: str, region: tuple[str, Block], is_input: bool, whose: str, wanted: Sequence[ValueType]
) -> Iterator[Violation]:
    """Report where what a region takes or returns differs from the types that it must have."""
    name, block = region
    names = block.inputs if is_input else block.outputs
    what = f'{"inputs" if is_input else "outputs"} of region "{name}"'
    if len(names) == len(wanted):
        yield from _differences(rule, what, _types(block, names), whose, wanted)
    else:
        yield Violation(rule, f"{what}: {len(names)} values", f"{len(wanted)}, as {whose} are")


def _passed(view: OperatorView) -> list[ValueType]:
    """Return the operands that regions take."""
    return view.all("input_list")


def _of_region(attribute: str, check: RegionCheck) -> Check:
    """Make a check of a region, which waits until the region is known."""

    @says(check.__doc__ or "")
    def checked(view: OperatorView) -> Iterator[Violation]:
        if region := _region(view, attribute):
            yield from check(view, region)

    return checked


def _takes_operands(attribute: str) -> Check:
    """Require that the region takes what the operator passes."""
    rule = f"{attribute.partition('_')[0]}-inputs"

    def check(view: OperatorView, region: tuple[str, Block]) -> Iterator[Violation]:
        return _region_differences(rule, region, True, "the operands", _passed(view))

    check.__doc__ = f"Check that {attribute} takes the types of the operands."
    return _of_region(attribute, check)


def _returns_results(attribute: str) -> Check:
    """Require that the region returns what the operator declares as its results."""
    rule = f"{attribute.partition('_')[0]}-outputs"

    def check(view: OperatorView, region: tuple[str, Block]) -> Iterator[Violation]:
        if view.outputs:
            yield from _region_differences(rule, region, False, "the results", view.outputs)

    check.__doc__ = f"Check that {attribute} returns the types of the results."
    return _of_region(attribute, check)


def _common(some: Sequence[ValueType], others: Sequence[ValueType]) -> tuple[ResultShape, ...]:
    """Return the sizes that the values of two lists share."""
    return tuple(
        common_shape(one.shape, other.shape)
        if isinstance(one, TensorType) and isinstance(other, TensorType)
        else None
        for one, other in zip(some, others, strict=True)
    )


def _one_element(what: str, value: TensorType) -> Iterator[Violation]:
    if value.shape is not None and any(known(size) and size != 1 for size in value.shape):
        yield Violation("condition-shape", f"{what} is {value}", "one element")


# -- COND_IF -----------------------------------------------------------------------------------------


def _condition_is_one_element(view: OperatorView) -> Iterator[Violation]:
    """Check that a condition has one element, of any rank."""
    yield from _one_element("condition", view.tensor("condition"))


def _branches_agree(view: OperatorView) -> Iterator[Violation]:
    """Check that both regions return the same types."""
    one, other = _region(view, "then_graph"), _region(view, "else_graph")
    if one and other and not view.outputs:
        wanted = _types(one[1], one[1].outputs)
        yield from _region_differences("else-outputs", other, False, f'those of "{one[0]}"', wanted)


def _infer_branches(view: OperatorView) -> tuple[ResultShape, ...]:
    one, other = _region(view, "then_graph"), _region(view, "else_graph")
    if not (one and other):
        return (None,) * len(view.outputs)
    return _common(_types(one[1], one[1].outputs), _types(other[1], other[1].outputs))


# -- WHILE_LOOP --------------------------------------------------------------------------------------


def _results_are_operands(view: OperatorView) -> Iterator[Violation]:
    """Check that the state after the loop has the types of the state before it."""
    before = _passed(view)
    if not view.outputs:
        return
    if len(view.outputs) == len(before):
        yield from _differences("output-list", "results", view.outputs, "the operands", before)
    else:
        yield Violation("output-list", f"{len(view.outputs)} results", f"{len(before)} results")


def _body_returns_state(view: OperatorView, region: tuple[str, Block]) -> Iterator[Violation]:
    """Check that what the body returns is what the next iteration takes."""
    return _region_differences("body-outputs", region, False, "the operands", _passed(view))


def _region_returns_condition(view: OperatorView, region: tuple[str, Block]) -> Iterator[Violation]:
    """Check that the region returns one BOOL of one element."""
    name, block = region
    if len(block.outputs) != 1:
        yield Violation(
            "condition-count", f'region "{name}" returns {len(block.outputs)} values', "one BOOL"
        )
        return
    (output,) = _types(block, block.outputs)
    what = f'the output of region "{name}"'
    if isinstance(output, ShapeType) or output.dtype.name != "BOOL":
        yield Violation("condition-type", f"{what} is {output}", "BOOL")
    else:
        yield from _one_element(what, output)


def _infer_state(view: OperatorView) -> tuple[ResultShape, ...]:
    """Infer the sizes that the loop keeps: those that its body returns, too."""
    before, region = _passed(view), _region(view, "body_graph")
    if not region:
        return (None,) * len(before)
    return _common(before, _types(region[1], region[1].outputs))


def _unknown_results(view: OperatorView) -> tuple[ResultShape, ...]:
    """Return results whose shapes do not follow from operands."""
    return (None,) * len(view.operator.outputs)


# -- CUSTOM ------------------------------------------------------------------------------------------


def _meant_results(view: OperatorView) -> tuple[ResultShape, ...]:
    """Return the shapes that a CUSTOM operator's meaning says, if all operands are known."""
    meaning = view.spec.meaning
    shapes = [value.shape if isinstance(value, TensorType) else None for value in view.inputs]
    if meaning is None or meaning.shape is None or any(s is None or DYNAMIC in s for s in shapes):
        return _unknown_results(view)
    found = meaning.shape(view.attributes["implementation_attrs"], *shapes)
    return tuple(tuple(map(as_index, one)) for one in found)


def _fits_meaning(view: OperatorView) -> Iterator[Violation]:
    """Check that a CUSTOM operator has the operands and results that its meaning says."""
    try:
        count = len(_meant_results(view))
    except (ValueError, TypeError) as error:
        operands = ", ".join(map(str, view.inputs)) or "none"
        yield Violation("operands", f"the operands are {operands}", f"other ones: {error}")
        return
    if count != len(view.operator.outputs or range(count)):
        yield Violation("results", f"{len(view.operator.outputs)} results", f"{count}")


_OWN: Final[Rules] = {
    "CUSTOM": OperatorRules(_meant_results, (), (_fits_meaning,)),
    # A variable is declared by its tensor: `verify` refuses this operator in a graph.
    "VARIABLE": OperatorRules(_unknown_results),
    "VARIABLE_READ": OperatorRules(first_shape),
    "VARIABLE_WRITE": OperatorRules(first_shape),
    "COND_IF": OperatorRules(
        _infer_branches,
        (),
        (
            _condition_is_one_element,
            _takes_operands("then_graph"),
            _takes_operands("else_graph"),
            _returns_results("then_graph"),
            _returns_results("else_graph"),
            _branches_agree,
        ),
    ),
    "WHILE_LOOP": OperatorRules(
        _infer_state,
        (),
        (
            _results_are_operands,
            _takes_operands("cond_graph"),
            _takes_operands("body_graph"),
            _of_region("body_graph", _body_returns_state),
            _of_region("cond_graph", _region_returns_condition),
        ),
    ),
}
RULES: Final[Rules] = table_of("shape", _OWN, of_families("control"))
