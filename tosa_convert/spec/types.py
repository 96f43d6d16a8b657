"""The element types that each operator takes together, and what each combination needs.

The table is in `type_rows.py`. Of a tensor it has the element type, of a block-scaled tensor also the
type of its scales.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from tosa_convert.graph.dtypes import BLOCK_SCALE, V1_0, V1_1, DType, dtype
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.spec.type_rows import SETS, TABLE

#: A tensor's element type, that of a block-scaled tensor with the type of its scales; None is a
#: !tosa.shape.
Element = DType | tuple[DType, DType] | None

#: What a type needs by itself.
_EXTENSIONS: Final = {
    "BF16": "BF16",
    "FP8E4M3": "FP8E4M3",
    "FP8E5M2": "FP8E5M2",
    "INT4": "INT4",
    "INT48": "INT16",
    "INT64": "INT64",
    "FP8UE8M0": "MX-COMMON",
}
#: Stands for a result whose type is not known.
_ANY: Final = dtype("BOOL")
#: How many operands a message lists.
_LISTED: Final = 8


class Need(NamedTuple):
    """One way to satisfy a row. names: a profile and extensions, such as "PRO-FP" and "EXT-BF16".

    since: the TOSA version that allows the types with these.
    """

    names: frozenset[str]
    since: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class TypeRow:
    """Element types that an operator takes together.

    operands, results: the types of its tensors in order, without those of !tosa.shape. A list such as
        the operands of CONCAT has its common type once; values of any type are not mentioned.
    attribute: the name and value of the attribute that belongs to the types, such as
        ("acc_type", "FP32"), or None.
    needs: the alternatives, of which a target must have one.
    """

    operands: tuple[Element, ...]
    results: tuple[Element, ...]
    attribute: tuple[str, str] | None
    needs: tuple[Need, ...]

    @property
    def since(self) -> tuple[int, int]:
        """The lowest TOSA version that allows these types."""
        return min(need.since for need in self.needs)


class TypeMismatch(NamedTuple):
    """Why no row of an operator has its types.

    rule: what is wrong: "input1-type" of an operand, "output-type" of a result, "acc-type" of an
        attribute, "input-list" of operands that differ or are too many.
    message: what was found. expected: what would be right.
    """

    rule: str
    message: str
    expected: str


Key = tuple[Element | str, ...]


class _Slot(NamedTuple):
    """A place in a key. kind: "operand", "result" or "attribute"."""

    kind: str
    name: str


class _Form:
    """The rows of an operator that have their tensors in the same places.

    inputs, outputs: what stands for the types of its tensors. attribute: the name of an attribute and
    what stands for its value. any_inputs, any_outputs: further values may have any type.
    """

    def __init__(self, spec: OperatorSpec, header: str) -> None:
        self.spec = spec
        left, _, right = header.partition("->")
        words, self.outputs = left.split(), right.split()
        self.any_inputs, self.any_outputs = "..." in words, "..." in self.outputs
        self.outputs = [word for word in self.outputs if word != "..."]
        self.inputs = [word for word in words if word != "..." and "=" not in word]
        self.attribute, self.value = "", ""
        for word in words:
            if "=" in word:
                self.attribute, _, self.value = word.partition("=")
        #: The attribute's value selects the form, and is not part of the key.
        self.selects = bool(self.attribute) and len(self.value) > 1
        self.is_list = any(row.arity == "*" for row in spec.operands) and not self.any_inputs
        self.rows: dict[Key, TypeRow] = {}

    def accepts(self, attributes: Mapping[str, object]) -> bool:
        """Whether the attribute selects this form."""
        return not self.selects or _attribute(attributes, self.attribute) == self.value

    def key(
        self,
        inputs: Sequence[Element],
        outputs: Sequence[Element],
        attributes: Mapping[str, object],
    ) -> Key | None:
        """The key of the types, or None if their number is not that of this form."""
        operands = self.operands(inputs)
        results = [element for element in outputs if element is not None]
        if self.any_outputs:
            del results[len(self.outputs) :]
        if len(operands) != len(self.inputs) or len(results) != len(self.outputs):
            return None
        if self.attribute and not self.selects:
            return (*operands, _attribute(attributes, self.attribute), *results)
        return (*operands, *results)

    def rows_for(
        self, inputs: Sequence[Element], attributes: Mapping[str, object]
    ) -> list[TypeRow]:
        """The rows that have the types of the operands, and the attribute if it is known."""
        key = self.key(inputs, [_ANY] * len(self.outputs), attributes)
        if key is None:
            return []
        count = len(key) - len(self.outputs)
        if self.attribute and not self.selects and self.attribute not in attributes:
            count -= 1
        return [row for other, row in self.rows.items() if other[:count] == key[:count]]

    def operands(self, inputs: Sequence[Element]) -> list[Element]:
        """The types of the operands that belong to a key."""
        operands: list[Element] = [element for element in inputs if element is not None]
        if self.is_list and operands and operands.count(operands[0]) == len(operands):
            del operands[1:]
        if self.any_inputs:
            del operands[len(self.inputs) :]
        return operands

    def has_operands(self, inputs: Sequence[Element]) -> bool:
        """Whether the number of operands is that of this form."""
        return len(self.operands(inputs)) == len(self.inputs)

    def slots(self, inputs: Sequence[Element], outputs: Sequence[Element]) -> list[_Slot]:
        """What the parts of a key belong to."""
        tensors = [index for index, element in enumerate(inputs) if element is not None]
        results = [index for index, element in enumerate(outputs) if element is not None]
        spec = self.spec
        slots = [
            _Slot("operand", spec.operand(index, len(inputs)).name)
            for index in tensors[: len(self.inputs)]
        ]
        if self.attribute and not self.selects:
            slots.append(_Slot("attribute", self.attribute))
        slots += [
            _Slot("result", spec.result(index, len(outputs)).name)
            for index in results[: len(self.outputs)]
        ]
        return slots

    def add(self, version: str, requirement: str, cells: str) -> None:
        """The rows of a line of the table."""
        parts = [*self.inputs, *([] if self.selects else [self.value] * bool(self.attribute))]
        variables = list(
            dict.fromkeys(
                word for word in (*parts, *self.outputs) if word.isupper() and len(word) == 1
            )
        )
        for cell in cells.split() or [""]:
            choices = [_elements(part) for part in cell.split(":")] if cell else []
            for combination in product(*choices):
                self._add_row(dict(zip(variables, combination, strict=True)), version, requirement)

    def _add_row(self, bound: dict[str, tuple[Element, str]], version: str, needed: str) -> None:
        def element(word: str) -> Element:
            if word in bound:
                return bound[word][0]
            if word.startswith("Z("):
                data = bound[word[2]][0]
                return dtype("FP32") if isinstance(data, tuple) else data
            return dtype(SETS[word])

        operands = tuple(map(element, self.inputs))
        results = tuple(map(element, self.outputs))
        key: Key = (*operands, *results)
        attribute = (self.attribute, self.value) if self.selects else None
        if self.attribute and not self.selects:
            value = str(bound[self.value][0])
            attribute = (self.attribute, value)
            key = (*operands, value, *results)
        extensions = {name for _, names in bound.values() for name in names.split()}
        since = max(
            self.spec.since,
            V1_1 if version else V1_0,
            *(part.since for value, _ in bound.values() for part in _dtypes(value)),
        )
        profiles, *further = needed.split("+")
        for profile in profiles.split("/"):
            names = {f"PRO-{profile}", *(f"EXT-{name}" for name in (*further, *extensions))}
            self._add_need(
                key, TypeRow(operands, results, attribute, ()), Need(frozenset(names), since)
            )

    def _add_need(self, key: Key, row: TypeRow, need: Need) -> None:
        needs = self.rows.get(key, row).needs
        if not any(other.names <= need.names and other.since <= need.since for other in needs):
            self.rows[key] = TypeRow(row.operands, row.results, row.attribute, (*needs, need))


def _attribute(attributes: Mapping[str, object], name: str) -> str:
    value = attributes.get(name)
    return str(getattr(value, "name", value))


def _dtypes(element: Element) -> tuple[DType, ...]:
    if element is None:
        return ()
    return element if isinstance(element, tuple) else (element,)


def _elements(cell: str) -> list[tuple[Element, str]]:
    """The types of a part of a cell, each with the extensions that it needs by itself."""
    found: list[tuple[Element, str]] = []
    for abbreviation in cell.split(","):
        for word in SETS[abbreviation].split():
            kind, _, name = word.rpartition(":")
            element = dtype(name)
            if not kind:
                found.append((element, _EXTENSIONS.get(name, "")))
                continue
            extension = f"MX-COMMON MX-{name.removeprefix('MX')}"
            found.append(((element, BLOCK_SCALE) if kind == "mx" else element, extension))
    return found


@cache
def _lines() -> dict[str, list[tuple[str, list[str]]]]:
    """Operator -> its forms, each with the lines of its rows."""
    operators: dict[str, list[tuple[str, list[str]]]] = {}
    lines: list[str] = []
    for line in TABLE.strip().splitlines():
        if line.startswith(" "):
            lines.append(line)
            continue
        names, _, header = line.partition("|")
        lines = []
        for name in names.split():
            operators.setdefault(name, []).append((header.strip(), lines))
    return operators


@cache
def _forms(spec: OperatorSpec) -> tuple[_Form, ...]:
    forms: dict[str, _Form] = {}
    for header, lines in _lines()[spec.name]:
        form = forms.setdefault(header, _Form(spec, header))
        for line in lines:
            left, _, cells = line.partition("|")
            *version, requirement = left.split()
            form.add("".join(version), requirement, cells)
    return tuple(forms.values())


def rows(spec: OperatorSpec) -> tuple[TypeRow, ...]:
    """All rows of an operator.

    Example:
        >>> from tosa_convert.graph.opset import operator
        >>> for row in rows(operator("TABLE")):
        ...     print(row.operands, row.results, sorted(row.needs[0].names))
        (INT8, INT8) (INT8,) ['PRO-INT']
        (INT16, INT16) (INT32,) ['EXT-INT16', 'PRO-INT']
    """
    return tuple(row for form in _forms(spec) for row in form.rows.values())


def match(
    spec: OperatorSpec,
    inputs: Sequence[Element],
    outputs: Sequence[Element],
    attributes: Mapping[str, object],
) -> TypeRow | None:
    """The row that has the types of an operator.

    Args:
        spec: Its row in the operator table.
        inputs: The types of its operands, in order.
        outputs: The types of its results, in order.
        attributes: Its attributes.

    Returns:
        The row, or None if TOSA does not allow these types together; `mismatch` says why.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> half, full = dtype("FP16"), dtype("FP32")
        >>> match(operator("ADD"), (half, half), (half,), {}).since
        (1, 0)
        >>> match(operator("ADD"), (half, full), (half,), {}) is None
        True
    """
    for form in _forms(spec):
        if form.accepts(attributes):
            key = form.key(inputs, outputs, attributes)
            row = None if key is None else form.rows.get(key)
            if row is not None:
                return row
    return None


def rows_for(
    spec: OperatorSpec, inputs: Sequence[Element], attributes: Mapping[str, object]
) -> list[TypeRow]:
    """The rows that have the types of an operator's operands, whatever its results are.

    attributes: those that are known; one that is missing may have any value.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> half = dtype("FP16")
        >>> [row.results for row in rows_for(operator("MATMUL"), (half,) * 4, {})]
        [(FP16,), (FP32,)]
    """
    return [
        row
        for form in _forms(spec)
        if form.accepts(attributes)
        for row in form.rows_for(inputs, attributes)
    ]


def mismatch(
    spec: OperatorSpec,
    inputs: Sequence[Element],
    outputs: Sequence[Element],
    attributes: Mapping[str, object],
) -> TypeMismatch | None:
    """Why `match` finds no row, or None if it finds one.

    If the operands have types that the operator takes, what is wrong is an attribute or a result;
    else it is an operand.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> byte, full = dtype("INT8"), dtype("FP32")
        >>> found = mismatch(operator("ADD"), (byte, full), (full,), {})
        >>> found.rule, found.message, found.expected
        ('input1-type', 'input1 is INT8 with input2 FP32 and output FP32', 'FP32')
    """
    if match(spec, inputs, outputs, attributes) is not None:
        return None
    forms = [form for form in _forms(spec) if form.accepts(attributes)]
    for form in forms:
        key = form.key(inputs, outputs, attributes)
        if key is not None:
            return _wrong_slot(form, form.slots(inputs, outputs), key)
    if any(form.has_operands(inputs) for form in forms):
        found = ", ".join(map(_text, outputs[:_LISTED])) or "missing"
        name = spec.results[0].name if spec.results else "output"
        return TypeMismatch(f"{_dashed(name)}-list", f"the results are {found}", "other results")
    return _wrong_list(spec, inputs)


def _wrong_list(spec: OperatorSpec, inputs: Sequence[Element]) -> TypeMismatch:
    """Operands of a list that differ, or a number of operands that no row has."""
    tensors = [element for element in inputs if element is not None]
    expected = "equal types" if tensors else "at least one tensor"
    if not any(row.arity == "*" for row in spec.operands):
        expected = "other operands"
    found = f"the operands are {', '.join(map(_text, inputs[:_LISTED]))}"
    if not inputs:
        found = "there are no operands"
    name = spec.operands[0].name if spec.operands else "input"
    return TypeMismatch(f"{_dashed(name)}-list", found, expected)


def _wrong_slot(form: _Form, slots: list[_Slot], key: Key) -> TypeMismatch:
    """The part of a key that fits least to the others."""
    operands = [index for index, slot in enumerate(slots) if slot.kind == "operand"]
    others = [index for index, slot in enumerate(slots) if slot.kind != "operand"]
    keys = list(form.rows)
    with_operands = _having(keys, key, operands)
    if with_operands:
        index, expected = _first_repair(with_operands, key, others)
    else:
        index, expected = _first_repair(keys, key, operands, fixed=others)
    slot = slots[index]
    values = _listed(expected)
    context = " and ".join(
        f"{other.name} {_text(key[position])}"
        for position, other in enumerate(slots)
        if position != index
    )
    message = f"{slot.name} is {_text(key[index])}" + (f" with {context}" if context else "")
    return TypeMismatch(f"{_dashed(slot.name).removesuffix('-type')}-type", message, values)


def _having(keys: Iterable[Key], key: Key, positions: Iterable[int]) -> list[Key]:
    """The keys that have the same types in some positions."""
    places = list(positions)
    return [row for row in keys if all(row[place] == key[place] for place in places)]


def _first_repair(
    keys: list[Key], key: Key, positions: list[int], fixed: list[int] | None = None
) -> tuple[int, set[Element | str]]:
    """The position to change, and the types that it may have instead.

    The first position whose change alone makes a row; else the first at which no row has the same
    beginning.
    """
    for position in positions:
        rest = [other for other in (*positions, *(fixed or ())) if other != position]
        found = _having(keys, key, rest)
        if found:
            return position, {row[position] for row in found}
    for count, position in enumerate(positions):
        beginning = _having(keys, key, positions[:count])
        if not _having(beginning, key, [position]):
            return position, {row[position] for row in beginning}
    return positions[0], {row[positions[0]] for row in keys}


def _text(element: Element | str) -> str:
    if element is None:
        return "!tosa.shape"
    return f"block-scaled {element[0]}" if isinstance(element, tuple) else str(element)


def _listed(elements: Iterable[Element | str]) -> str:
    return " or ".join(sorted({_text(element) for element in elements}, key=_order))


def _order(text: str) -> tuple[bool, int, str]:
    name = text.rpartition(" ")[2]
    return " " in text, dtype(name).code, text


def _dashed(name: str) -> str:
    return name.lower().replace("_", "-")
