"""The types of an operator's results, inferred from its operands by the rules of TOSA."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple, NoReturn

from tosa_convert.builder.values import dtype_of
from tosa_convert.errors import Findings, TosaConvertError, fail
from tosa_convert.graph.dtypes import BlockShape, DType
from tosa_convert.graph.model import BlockScale, Operator, ShapeValue, Tensor
from tosa_convert.graph.opset import AttributeValue, OperandSpec, OperatorSpec
from tosa_convert.graph.verify_values import attribute_problem, name_problems
from tosa_convert.rules.families.checks import Violation
from tosa_convert.rules.operator_view import (
    READ_POSITIONS,
    OperatorView,
    ShapeType,
    TypeTable,
    ValueType,
)
from tosa_convert.rules.types import Element, TypeRow, element_text, mismatch, rows, rows_for
from tosa_convert.rules.validate import element_of, finding, judge

#: The type of an operand that is given as numbers, before it is known.
UNKNOWN: Final = "unknown"
#: An element type, or UNKNOWN.
Known = Element | str


def choices_of_operand(
    spec: OperatorSpec,
    operands: Sequence[Known],
    position: int,
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> tuple[DType, ...]:
    """Return the element types that an array can have as an operand, the earliest version's first.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> byte = dtype("INT8")
        >>> operands = [byte, byte, UNKNOWN, UNKNOWN, UNKNOWN]
        >>> choices_of_operand(operator("CONV2D"), operands, 2, {}, ())
        (INT32,)
    """
    found = _rows_with(spec, tuple(operands), _selectors(spec, attributes), tuple(results))
    types = (row.operands[position] for row in sorted(found, key=lambda row: row.since))
    return tuple(dict.fromkeys(type_ for type_ in types if isinstance(type_, DType)))


def result_rows(
    spec: OperatorSpec,
    operands: Sequence[Element],
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> list[TypeRow]:
    """Return the rows that have the types of all operands, and those that are asked for of results."""
    found = rows_for(spec, operands, attributes)
    if not results:
        return found
    count, wanted = len(results), tuple(results)
    exact = [row for row in found if row.results[:count] == wanted]
    return exact or [row for row in found if _starts_with(row.results, wanted)]


def type_violation(
    spec: OperatorSpec,
    operands: Sequence[Element],
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> Violation:
    """Describe what is wrong with types of which no row has all."""
    tensors = [element for element in operands if element is not None]
    likely = [row for row in rows(spec) if len(row.operands) == len(tensors)]
    if not likely:
        likely = list(rows(spec))
    best = max(likely, key=lambda row: _agreement(row, tensors, attributes, results))
    wanted = [*results, *best.results[len(results) :]]
    found = iter(wanted)
    declared = [None if row.is_shape else next(found, None) for row in spec.results]
    known = dict(attributes)
    if best.attribute is not None:
        known.setdefault(*best.attribute)
    wrong = mismatch(spec, operands, declared[: max(len(best.results), 1)], known)
    assert wrong is not None
    return Violation(*wrong)


def plain(element: Element) -> DType | None:
    """Return the element type of a tensor, without that of its scales."""
    return element[0] if isinstance(element, tuple) else element


def _selectors(spec: OperatorSpec, attributes: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the attributes that belong to types, as rows of types have them."""
    names = _selector_names(spec)
    return tuple(
        (name, str(getattr(value, "name", value)))
        for name, value in attributes.items()
        if name in names
    )


@cache
def _selector_names(spec: OperatorSpec) -> frozenset[str]:
    return frozenset(row.attribute[0] for row in rows(spec) if row.attribute is not None)


@lru_cache(maxsize=1024)
def _rows_with(
    spec: OperatorSpec,
    operands: tuple[Known, ...],
    attributes: tuple[tuple[str, str], ...],
    results: tuple[Element, ...],
) -> tuple[TypeRow, ...]:
    known = dict(attributes)
    return tuple(
        row
        for row in _rows_of(spec, operands)
        if (
            row.attribute is None
            or known.get(row.attribute[0], row.attribute[1]) == row.attribute[1]
        )
        and _starts_with(row.results, results)
    )


def _rows_of(spec: OperatorSpec, operands: tuple[Known, ...]) -> Iterator[TypeRow]:
    """Iterate over the rows that have the operands whose types are known."""
    asked = [(place, one) for place, one in enumerate(operands) if one != UNKNOWN]
    for row in rows(spec):
        types = row.operands
        if len(types) == len(operands):
            for place, one in asked:
                if types[place] != one:
                    break
            else:
                yield row


def _starts_with(found: Sequence[Element], wanted: Sequence[Element]) -> bool:
    return len(wanted) <= len(found) and all(
        one in (other, plain(other)) for one, other in zip(wanted, found, strict=False)
    )


def _agreement(
    row: TypeRow,
    operands: Sequence[Element],
    attributes: Mapping[str, object],
    results: Sequence[Element],
) -> tuple[int, bool, bool, tuple[bool, ...]]:
    """Measure how well a row fits: operands, then its attribute, its results, the first ones."""
    name, value = row.attribute or ("", "")
    given = attributes.get(name)
    fits = given is None or str(getattr(given, "name", given)) == value
    same = tuple(one == other for one, other in zip(operands, row.operands, strict=False))
    return sum(same), fits, _starts_with(row.results, results), same


BLOCK: Final = BlockShape.BLOCK_SHAPE_32
#: Makes the path of the operator in question, for messages.
Path = Callable[[Operator], str]


class Inferred(NamedTuple):
    """What follows from an operator's operands. attributes: those that types determine."""

    types: tuple[ValueType, ...]
    attributes: dict[str, AttributeValue]


class Inference:
    """Infers the results of operators. Those of equal types and attributes share the answer."""

    def __init__(self, table: TypeTable, path: Path) -> None:
        self.table = table
        self.path = path
        self._inferred: dict[object, Inferred] = {}

    def results(
        self, draft: Operator, inputs: Sequence[ValueType], dtypes: Sequence[Element] = ()
    ) -> Inferred:
        """Return the types of an operator's results, and the attributes that follow from types."""
        needed, count = READ_POSITIONS.get(draft.spec, ()), len(inputs)
        types = tuple(
            type_ if index - count in needed else self.without_data(type_)
            for index, type_ in enumerate(inputs)
        )
        key = (draft.spec, types, *draft.attributes.items(), *dtypes)
        inferred = self._inferred.get(key)
        if inferred is None:
            inferred = self._inferred[key] = self._infer(draft, types, dtypes)
        return inferred

    def without_data(self, type_: ValueType) -> ValueType:
        """Return the type of an operand whose elements no rule reads."""
        if isinstance(type_, ShapeType) or type_.data is None:
            return type_
        return self.table.tensor(type_.dtype, type_.shape, type_.scale)

    def refuse(self, draft: Operator, violations: Sequence[Violation]) -> NoReturn:
        """Raise the error for an operator that breaks rules."""
        path = self.path(draft)
        raise TosaConvertError([finding(draft, path, violation) for violation in violations])

    def _infer(
        self, draft: Operator, inputs: tuple[ValueType, ...], dtypes: Sequence[Element]
    ) -> Inferred:
        verdict = judge(OperatorView(draft, inputs, ()))
        if verdict.violations or verdict.results is None:
            self.refuse(draft, verdict.violations)
        elements, attributes = self._elements(draft, inputs, dtypes)
        types: list[ValueType] = []
        for element, shape in zip(elements, verdict.results, strict=True):
            if element is None:
                types.append(self.table.shape(shape or ()))
                continue
            sizes = None if shape is None else tuple(-1 if n is None else n for n in shape)
            kind, scale = element if isinstance(element, tuple) else (element, None)
            types.append(self.table.tensor(kind, sizes, None if scale is None else (scale, BLOCK)))
        return Inferred(tuple(types), attributes)

    def _elements(
        self, draft: Operator, inputs: Sequence[ValueType], dtypes: Sequence[Element]
    ) -> tuple[list[Element], dict[str, AttributeValue]]:
        """Return the types of an operator's results, and the `acc_type` that belongs to them."""
        spec, elements = draft.spec, [element_of(type_) for type_ in inputs]
        rows = result_rows(spec, elements, draft.attributes, dtypes)
        if not rows:
            self.refuse(draft, [type_violation(spec, elements, draft.attributes, dtypes)])
        results = list(dict.fromkeys(row.results for row in rows))
        accumulators = list(dict.fromkeys(row.attribute for row in rows))
        if len(results) > 1 or len(accumulators) > 1:
            name, choices, hint = spec.results[0].name, [r[0] for r in results], "dtype"
            if len(results) == 1:
                name, hint = "acc_type", "acc_type"
                choices = [dtype_of(one[1]) for one in accumulators if one is not None]
            refuse_choice(self.path(draft), name, choices, hint)
        (accumulator,) = accumulators
        attributes: dict[str, AttributeValue] = {}
        if accumulator is not None and accumulator[0] not in draft.attributes:
            attributes[accumulator[0]] = dtype_of(accumulator[1])
        found = iter(results[0])
        made = len(results[0]) + sum(row.is_shape for row in spec.results)
        return [None if row.is_shape else next(found) for row in spec.results[:made]], attributes

    def check_form(self, draft: Operator, inputs: Sequence[ValueType]) -> None:
        """Refuse operands and attributes that are not those of the operator's row, as rules expect."""
        spec, path = draft.spec, self.path(draft)
        findings = Findings()
        fewest, most = spec.operand_range()
        if len(inputs) < fewest or (most is not None and len(inputs) > most):
            expected = ", ".join(row.name + row.arity for row in spec.operands) or "none"
            message = f"it has {len(inputs)} operands, expected {expected}"
            raise fail("malformed-operator", path, message)
        for index, type_ in enumerate(inputs):
            row = spec.operand(index, len(inputs))
            if isinstance(type_, ShapeType) is not row.is_shape:
                expected = "a shape: const_shape(), or its sizes" if row.is_shape else "a tensor"
                findings.add(
                    "malformed-operator", path, f"{row.name} is {type_}; expected {expected}"
                )
        for attribute in spec.attributes:
            value = draft.attributes.get(attribute.name)
            problem = "" if value is None else attribute_problem(attribute, value)
            if problem:
                findings.add("malformed-operator", path, f"{attribute.name}: {problem}")
        for message in name_problems(draft):
            if message != 'attribute "acc_type" is missing':
                findings.add("malformed-operator", path, message)
        findings.raise_if_any()


def new_value(name: str, type_: ValueType) -> Tensor | ShapeValue:
    if isinstance(type_, ShapeType):
        return ShapeValue(name, type_.rank)
    scale = None if type_.scale is None else BlockScale(*type_.scale)
    return Tensor(name, type_.dtype, type_.shape, scale=scale)


def refuse_choice(path: str, name: str, choices: Sequence[Element], keyword: str) -> NoReturn:
    """Refuse to choose a type that does not follow from the operands."""
    listed = " or ".join(dict.fromkeys(map(element_text, choices)))
    raise fail(
        "option-conflict",
        path,
        f"its operands leave a choice of types: {name} can be {listed}",
        f"pass {keyword}=",
    )


def element_of_number(
    draft: Operator,
    row: OperandSpec,
    known: Sequence[Known],
    position: int,
    dtypes: Sequence[Element],
    path: Path,
) -> DType:
    """Choose a number's element type, the first tensor's if allowed, unless it decides the result."""
    first = next((one for one in known if one != UNKNOWN), None)
    types = list(known)
    if row.arity == "*":  # the operands of a list have one type
        types = [UNKNOWN if first is None else first]
        position = 0
    choices = choices_of_operand(draft.spec, types, position, draft.attributes, dtypes)
    if row.arity == "*" and isinstance(first, DType):
        return first
    selectors = _selectors(draft.spec, draft.attributes)
    found = _rows_with(draft.spec, tuple(types), selectors, tuple(dtypes))
    unknown = [UNKNOWN] * len(types)
    is_free = choices == choices_of_operand(draft.spec, unknown, position, draft.attributes, dtypes)
    # The zero point of an output has the type of the result, whatever the other operands are.
    decides_result = len({one.results for one in found}) > 1 and (is_free or row.is_constant)
    if len(choices) > 1 and (first is None or decides_result):
        name = draft.spec.results[0].name if decides_result and row.is_constant else row.name
        refuse_choice(path(draft), name, choices, "dtype")
    if choices:
        return first if first in choices and isinstance(first, DType) else choices[0]
    # No row has these types: the finding names the wrong one.
    return first if isinstance(first, DType) else dtype_of("fp32")
