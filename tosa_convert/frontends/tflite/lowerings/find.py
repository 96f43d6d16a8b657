"""The table of our lowerings, and the operators of a model to which its rows apply.

Nothing here needs numpy: most models have no such operators. Which lowerings are corrected was found by
experiment, with the programs of tests/frontends/tflite_operators. TFLite's numbers are those of its
reference kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.frontends.process.request import Cut, CutOperator, NotLowered, Operand
from tosa_convert.frontends.tflite.edit_bytes import reached
from tosa_convert.frontends.tflite.lowerings import (
    activations,
    conversions,
    division,
    elementwise,
    functions,
    lstm,
    movement,
    normalization,
    products,
    recurrent,
    reductions,
    resize,
    variables,
)
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Refused,
    is_found,
)
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, expected_form, operator_name
from tosa_convert.frontends.unlowered import place_text
from tosa_convert.records import NamedTuple

_OPEN: Final = "it cannot be replaced because sizes are not fixed"
_FIX_SIZES: Final = "make the model with fixed sizes"
_INSIDE: Final = "it cannot be replaced inside of a loop or a branch"
#: Operators that move elements, or are lowered by us, whatever the elements mean.
_KEEP_BITS: Final = frozenset(
    [
        "BITWISE_XOR",
        "BROADCAST_TO",
        "CAST",
        "CONCATENATION",
        "DYNAMIC_UPDATE_SLICE",
        "EXPAND_DIMS",
        "GATHER",
        "GATHER_ND",
        "IF",
        "PACK",
        "RESHAPE",
        "REVERSE_V2",
        "RIGHT_SHIFT",
        "SELECT",
        "SELECT_V2",
        "SHAPE",
        "SLICE",
        "SPLIT",
        "SPLIT_V",
        "SQUEEZE",
        "STRIDED_SLICE",
        "TILE",
        "TRANSPOSE",
        "UNPACK",
        "WHILE",
    ]
)
#: Operator that the converter does not lower in every form -> how it is decomposed.
DECOMPOSITIONS: Final[Mapping[str, Decomposition[Any]]] = {
    **activations.DECOMPOSITIONS,
    **division.DECOMPOSITIONS,
    **elementwise.DECOMPOSITIONS,
    **lstm.DECOMPOSITIONS,
    **movement.DECOMPOSITIONS,
    **normalization.DECOMPOSITIONS,
    **products.DECOMPOSITIONS,
    **recurrent.DECOMPOSITIONS,
    **reductions.DECOMPOSITIONS,
    **variables.DECOMPOSITIONS,
}
_ROWS: Final[tuple[Correction[Any], ...]] = (
    *conversions.CORRECTIONS,
    *elementwise.CORRECTIONS,
    *functions.CORRECTIONS,
    *movement.CORRECTIONS,
    *normalization.CORRECTIONS,
    *products.CORRECTIONS,
    *reductions.CORRECTIONS,
    *activations.CORRECTIONS,
    *resize.CORRECTIONS,
)
#: Operator that the converter lowers to other numbers in some form -> how that is corrected, in order.
CORRECTIONS: Final = {
    name: tuple(row for row in _ROWS if name in row.applies_to())
    for one in _ROWS
    for name in one.applies_to()
}


def cut_out(model: TfliteFile, chosen: Sequence[tuple[int, str]]) -> tuple[TfliteFile, Cut]:
    """Cut some operators out of a model; return the facts of the rest, and what was cut out."""
    names = dict(chosen)
    gone = [operator for operator in model.operators if operator.index in names]
    made = {operator.index: _values(model, operator) for operator in gone}
    results = [tensor for operator in gone for tensor in made[operator.index]]
    inputs = [*model.inputs, *results]
    outputs: list[int] = []
    output_names: list[str] = []
    places: list[int] = []
    for tensor, name in zip(model.outputs, model.output_names, strict=True):
        if tensor in results and -1 - inputs.index(tensor) not in places:
            places.append(-1 - inputs.index(tensor))
            continue
        places.append(len(outputs))
        outputs.append(tensor)
        output_names.append(name)

    def place(tensor: int) -> int:
        if tensor in inputs:
            return -1 - inputs.index(tensor)
        if tensor not in outputs:
            outputs.append(tensor)
            output_names.append(model.tensors[tensor].name)
        return outputs.index(tensor)

    def cut(operator: Operator) -> CutOperator:
        taken = model.takes(operator)
        return CutOperator(
            operator=names[operator.index],
            where=_where(model, operator),
            operands=tuple(
                Operand(place=place(taken[at]) if at in taken else None)
                for at in range(len(operator.inputs))
            ),
            results=tuple(inputs.index(tensor) for tensor in made[operator.index]),
            attributes={"index": operator.index},
        )

    found = Cut(
        inputs=len(model.inputs),
        operators=tuple(map(cut, gone)),
        outputs=tuple(places),
    )
    rest = [operator for operator in model.operators if operator.index not in names]
    names_of_inputs = {tensor: model.output_name(tensor) for tensor in results}
    names_of_inputs |= model.input_signature
    left = TfliteFile(model.tensors, inputs, outputs, rest, names_of_inputs, output_names)
    left.read_subgraph = model.read_subgraph
    return left, found


def _values(model: TfliteFile, operator: Operator) -> list[int]:
    """Return the results of an operator, but handles of variables."""
    return [tensor for tensor in operator.outputs if not model.tensors[tensor].is_state]


def _where(model: TfliteFile, operator: Operator) -> str:
    return place_text(operator.index, *(model.tensors[one].name for one in operator.outputs))


class Decomposed(NamedTuple):
    """The operators of a model that are decomposed.

    model: the whole model. cut: where the operators were. facts: those of each, by its index.
    """

    model: TfliteFile
    cut: Cut
    facts: Mapping[int, Any]


class Wanted(NamedTuple):
    """A lowering that is to be corrected.

    name: the name in the locations of its operators. facts: as `row.find` returned them.
    """

    name: str
    row: Correction[Any]
    facts: Any


def without_decomposed(model: TfliteFile) -> tuple[TfliteFile, Decomposed | None]:
    """Cut out the operators that are decomposed.

    Return the facts of the model without them, and these; None if there are none.
    """
    found = ((one.index, _facts(model, one)) for one in model.operators)
    facts = {index: one for index, one in found if is_found(one)}
    if not facts:
        return model, None
    by_index = {one.index: one for one in model.operators}
    chosen = [(index, operator_name(by_index[index].code)) for index in facts]
    rest, cut = cut_out(model, chosen)
    return rest, Decomposed(model, cut, facts)


def _facts(model: TfliteFile, operator: Operator, *, can_cut: bool = True) -> Any:
    """Find what the decomposition of an operator needs; None if it has none.

    can_cut: whether the operator can be cut out of its subgraph.
    """
    row = DECOMPOSITIONS.get(operator_name(operator.code))
    if row is None:
        return None
    try:
        facts = row.find(model, operator)
    except (IndexError, ValueError, ZeroDivisionError):
        # It has other operands than its kind: the converter says what is wrong with it.
        return None
    numbers = (*operator.inputs, *operator.outputs)
    tensors = [model.tensors[one] for one in numbers if one >= 0]
    is_fixed = all(size >= 0 for tensor in tensors for size in tensor.shape)
    if is_found(facts) and not (can_cut and is_fixed):
        why, hint = (_OPEN, _FIX_SIZES) if can_cut else (_INSIDE, "")
        return Refused(f"{row.fault}; {why}", hint) if row.fault else None
    # Of nothing there is nothing to compute.
    has_elements = all(0 not in tensor.shape for tensor in tensors if not tensor.is_empty_constant)
    return facts if has_elements or isinstance(facts, Refused) else None


def find_refused(model: TfliteFile) -> Iterator[NotLowered]:
    """Find the operators that no row decomposes, for a reason that the user is told."""
    for number, part in reached(model).items():
        is_main = number == model.subgraph
        for operator in (model if is_main else part).operators:
            facts = _facts(part, operator, can_cut=is_main) or _wide_unsigned(part, operator)
            if isinstance(facts, Refused):
                yield NotLowered(
                    operator=operator_name(operator.code),
                    where=_where(part, operator),
                    reason=facts.reason,
                    hint=facts.hint,
                    index=operator.index if is_main else None,
                )


def _wide_unsigned(model: TfliteFile, operator: Operator) -> Refused | None:
    """Find operators that would take UINT16 and UINT32 for signed integers."""
    numbers = (*operator.inputs, *operator.outputs)
    types = {model.tensors[one].dtype for one in numbers if one >= 0} & {"uint16", "uint32"}
    if not types or operator_name(operator.code) in _KEEP_BITS:
        return None
    return Refused(f"its integers of {types.pop()} would be taken for signed ones")


def find_corrections(model: TfliteFile) -> Iterator[Wanted]:
    """Find what the converter lowers wrongly of a model and of subgraphs that it calls."""
    found: dict[str, list[Wanted]] = {}
    for number, part in reached(model).items():
        graph = model if number == model.subgraph else part
        for operator in graph.operators:
            if operator.outputs:
                name = graph.result(operator).name
                wanted = list(_corrections_of(graph, operator))
                if found.setdefault(name, wanted) != wanted:
                    message = (
                        f'operators of several subgraphs make "{name}", and one is lowered wrongly'
                    )
                    hint = "convert the model again, or rename the tensors"
                    raise fail("not-lowered", _where(graph, operator), message, hint)
    for rows in found.values():
        yield from rows


def _corrections_of(model: TfliteFile, operator: Operator) -> Iterator[Wanted]:
    name = operator_name(operator.code)
    with expected_form(model, operator.index, name):
        for row in CORRECTIONS.get(name, ()):
            facts = row.find(model, operator)
            if is_found(facts):
                yield Wanted(model.result(operator).name, row, facts)
