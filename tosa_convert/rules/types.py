"""The element types that each operator takes together, and what each combination needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import product
from typing import Final, NamedTuple

from tosa_convert.graph.dtypes import (
    BLOCK_SCALE,
    BLOCK_SCALED,
    DTYPES,
    FLOATS,
    FP8,
    V1_0,
    V1_1,
    DType,
    dtype,
)
from tosa_convert.graph.opset import OperatorSpec

__all__ = [
    "Element",
    "Need",
    "TypeMismatch",
    "TypeRow",
    "match",
    "mismatch",
    "rows",
    "rows_for",
]


# -- element types that an operator takes, made of the text in its row; see `Row` ------------------

#: A tensor's element type, that of a block-scaled tensor with the type of its scales; None is a
#: !tosa.shape.
Element = DType | tuple[DType, DType] | None

#: Abbreviation in the rows of operators -> types. `mx:` is a block-scaled tensor, `in:` a tensor of
#: elements whose scales are another tensor.
_SETS: Final = {
    **{row.mlir: row.name for row in DTYPES},
    **{row.name[-4:].lower(): row.name for row in (*FP8, BLOCK_SCALE)},
    "b": "BOOL",
    "f8": " ".join(row.name for row in FP8),
    "float": " ".join(row.name for row in FLOATS),
    "mx": " ".join(f"mx:{row}" for row in BLOCK_SCALED),
    "in": " ".join(f"in:{row}" for row in BLOCK_SCALED),
    "inf": " ".join(f"in:{row}" for row in BLOCK_SCALED if row.is_float),
}
#: Elements whose scales are another tensor.
_DATA: Final = ("in", "inf")
#: What a type needs by itself.
EXTENSIONS_OF_TYPES: Final = {row.name: row.extension for row in DTYPES if row.extension}
#: Stands for a result whose type is not known.
_ANY: Final = dtype("BOOL")


class Need(NamedTuple):
    """One way to satisfy a row. names: a profile and extensions, such as "PRO-FP" and "EXT-BF16".

    since: the TOSA version that allows the types with these.
    """

    names: frozenset[str]
    since: tuple[int, int]


class TypeRow:
    """Element types that an operator takes together.

    operands, results: the types of its tensors in order, without those of !tosa.shape. A list such as
        the operands of CONCAT has its common type once; values of any type are not mentioned.
    attribute: the name and value of the attribute that belongs to the types, such as
        ("acc_type", "FP32"), or None.
    needs: the alternatives, of which a target must have one.
    """

    __slots__ = ("attribute", "needs", "operands", "results")

    def __init__(
        self,
        operands: tuple[Element, ...],
        results: tuple[Element, ...],
        attribute: tuple[str, str] | None,
        needs: tuple[Need, ...],
    ) -> None:
        self.operands = operands
        self.results = results
        self.attribute = attribute
        self.needs = needs

    @property
    def since(self) -> tuple[int, int]:
        """Return the lowest TOSA version that allows these types."""
        return min(need.since for need in self.needs)


Key = tuple[Element | str, ...]


class Slot(NamedTuple):
    """A place in a key. kind: "operand", "result" or "attribute"."""

    kind: str
    name: str


class Form:
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
        #: What stands for each part of a key.
        self.words = [*self.inputs, *self.outputs]
        if self.attribute and not self.selects:
            self.words.insert(len(self.inputs), self.value)
        self.variables = list(
            dict.fromkeys(word for word in self.words if word.isupper() and len(word) == 1)
        )
        #: The lines of the table: version, requirement, cells.
        self.lines: list[tuple[str, str, str]] = []

    @cached_property
    def rows(self) -> dict[Key, TypeRow]:
        rows: dict[Key, TypeRow] = {}
        for line in self.lines:
            self._add_line(rows, *line)
        return rows

    def has(self, key: Key) -> bool:
        """Return whether there is a row of this key, without making the hundreds that there may be."""
        # Fast path of rows; equal by test test_a_key_is_found_without_making_the_rows
        return any(
            self._fits(key, cell) for _, _, cells in self.lines for cell in cells.split() or [""]
        )

    def _fits(self, key: Key, cell: str) -> bool:
        choices = dict(zip(self.variables, cell.split(":"), strict=True)) if cell else {}
        bound: dict[str, Element | str] = {}
        for word, found in zip(self.words, key, strict=True):
            if word in choices and word not in bound:
                if str(found) not in _type_texts(choices[word]):
                    return False
                bound[word] = found
                continue
            if word.startswith("Z("):
                data = bound[word[2]]
                expected: Element | str = dtype("FP32") if isinstance(data, tuple) else data
            else:
                expected = bound[word] if word in bound else dtype(_SETS[word])
            if str(expected) != str(found):
                return False
        return True

    def accepts(self, attributes: Mapping[str, object]) -> bool:
        return not self.selects or _attribute(attributes, self.attribute) == self.value

    def key(
        self,
        inputs: Sequence[Element],
        outputs: Sequence[Element],
        attributes: Mapping[str, object],
    ) -> Key | None:
        """Return the key of the types, or None if their number is not that of this form."""
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
        key = self.key(inputs, [_ANY] * len(self.outputs), attributes)
        if key is None:
            return []
        count = len(key) - len(self.outputs)
        if self.attribute and not self.selects and self.attribute not in attributes:
            count -= 1
        return [row for other, row in self.rows.items() if other[:count] == key[:count]]

    def operands(self, inputs: Sequence[Element]) -> list[Element]:
        """Return the types of the operands that belong to a key."""
        operands: list[Element] = [element for element in inputs if element is not None]
        if self.is_list and operands and operands.count(operands[0]) == len(operands):
            del operands[1:]
        if self.any_inputs:
            del operands[len(self.inputs) :]
        return operands

    def has_operands(self, inputs: Sequence[Element]) -> bool:
        return len(self.operands(inputs)) == len(self.inputs)

    def slots(self, inputs: Sequence[Element], outputs: Sequence[Element]) -> list[Slot]:
        """Return what the parts of a key belong to."""
        tensors = [index for index, element in enumerate(inputs) if element is not None]
        results = [index for index, element in enumerate(outputs) if element is not None]
        spec = self.spec
        slots = [
            Slot("operand", spec.operand(index, len(inputs)).name)
            for index in tensors[: len(self.inputs)]
        ]
        if self.attribute and not self.selects:
            slots.append(Slot("attribute", self.attribute))
        slots += [
            Slot("result", spec.result(index, len(outputs)).name)
            for index in results[: len(self.outputs)]
        ]
        return slots

    def _add_line(
        self, rows: dict[Key, TypeRow], version: str, requirement: str, cells: str
    ) -> None:
        for cell in cells.split() or [""]:
            choices = [_elements(part) for part in cell.split(":")] if cell else []
            for combination in product(*choices):
                bound = dict(zip(self.variables, combination, strict=True))
                self._add_row(rows, bound, version, requirement)

    def _add_row(
        self,
        rows: dict[Key, TypeRow],
        bound: dict[str, tuple[Element, str]],
        version: str,
        needed: str,
    ) -> None:
        def element(word: str) -> Element:
            if word in bound:
                return bound[word][0]
            if word.startswith("Z("):
                data = bound[word[2]][0]
                return dtype("FP32") if isinstance(data, tuple) else data
            return dtype(_SETS[word])

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
            row = rows.get(key) or TypeRow(operands, results, attribute, ())
            need = Need(frozenset(names), since)
            if not any(
                other.names <= need.names and other.since <= need.since for other in row.needs
            ):
                rows[key] = TypeRow(operands, results, attribute, (*row.needs, need))


def _attribute(attributes: Mapping[str, object], name: str) -> str:
    value = attributes.get(name)
    return str(getattr(value, "name", value))


def _dtypes(element: Element) -> tuple[DType, ...]:
    assert element is not None, "a letter of a row stands for dtypes, not for a shape"
    return element if isinstance(element, tuple) else (element,)


def _elements(cell: str) -> list[tuple[Element, str]]:
    """Return the types of a part of a cell, each with the extensions that it needs by itself."""
    found: list[tuple[Element, str]] = []
    for abbreviation in cell.split(","):
        for word in _SETS[abbreviation].split():
            kind, _, name = word.rpartition(":")
            element = dtype(name)
            if not kind:
                found.append((element, EXTENSIONS_OF_TYPES.get(name, "")))
                continue
            extension = f"MX-COMMON MX-{name.removeprefix('MX')}"
            found.append(((element, BLOCK_SCALE) if kind == "mx" else element, extension))
    return found


def types_of(cell: str) -> str:
    """Return the types of a part of a cell for readers.

    Example:
        >>> types_of("f16,f8"), types_of("mx")
        ('FP16, FP8E4M3 or FP8E5M2', 'block-scaled')
    """
    names: list[str] = []
    for word in cell.split(","):
        kind = "block-scaled" if word == "mx" else "data of block-scaled" if word in _DATA else ""
        names += [kind] if kind else _SETS[word].split()
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@cache
def _type_texts(cell: str) -> frozenset[str]:
    """Return the types of a part of a cell as texts, since an attribute's value is one."""
    return frozenset(str(element) for element, _ in _elements(cell))


@cache
def forms(spec: OperatorSpec) -> tuple[Form, ...]:
    found: dict[str, Form] = {}
    form: Form
    for part in spec.types.split(";"):
        if "->" in part:
            form = found.setdefault(part, Form(spec, part))
            continue
        left, _, cells = part.partition("|")
        *version, requirement = left.split()
        form.lines.append(("".join(version), requirement, cells))
    return tuple(found.values())


#: How many operands a message lists.
_LISTED: Final = 8


class TypeMismatch(NamedTuple):
    """Why no row of an operator has its types.

    rule: what is wrong: "input1-type" of an operand, "output-type" of a result, "acc-type" of an
        attribute, "input-list" of operands that differ or are too many.
    message: what was found. expected: what would be right.
    """

    rule: str
    message: str
    expected: str


@cache
def rows(spec: OperatorSpec) -> tuple[TypeRow, ...]:
    """Return all rows of an operator."""
    return tuple(row for form in forms(spec) for row in form.rows.values())


def match(
    spec: OperatorSpec,
    inputs: Sequence[Element],
    outputs: Sequence[Element],
    attributes: Mapping[str, object],
) -> TypeRow | None:
    """Return the row that has the types of an operator.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> from tosa_convert.graph.opset import operator
        >>> half, full = dtype("FP16"), dtype("FP32")
        >>> match(operator("ADD"), (half, half), (half,), {}).since
        (1, 0)
        >>> match(operator("ADD"), (half, full), (half,), {}) is None
        True
    """
    for form in forms(spec):
        if form.accepts(attributes):
            key = form.key(inputs, outputs, attributes)
            row = None if key is None else form.rows.get(key)
            if row is not None:
                return row
    return None


def rows_for(
    spec: OperatorSpec, inputs: Sequence[Element], attributes: Mapping[str, object]
) -> list[TypeRow]:
    """Return the rows that have the types of an operator's operands, whatever its results are.

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
        for form in forms(spec)
        if form.accepts(attributes)
        for row in form.rows_for(inputs, attributes)
    ]


def mismatch(
    spec: OperatorSpec,
    inputs: Sequence[Element],
    outputs: Sequence[Element],
    attributes: Mapping[str, object],
) -> TypeMismatch | None:
    """Return why `match` finds no row, or None: an operand first, else an attribute or result."""
    matching = [form for form in forms(spec) if form.accepts(attributes)]
    keys = [(form, form.key(inputs, outputs, attributes)) for form in matching]
    if any(key is not None and form.has(key) for form, key in keys):
        return None
    for form, key in keys:
        if key is not None:
            return _wrong_slot(form, form.slots(inputs, outputs), key)
    if any(form.has_operands(inputs) for form in matching):
        found = ", ".join(map(element_text, outputs[:_LISTED])) or "missing"
        name = spec.results[0].name if spec.results else "output"
        return TypeMismatch(f"{_dashed(name)}-list", f"the results are {found}", "other results")
    return _wrong_list(spec, inputs)


def _wrong_list(spec: OperatorSpec, inputs: Sequence[Element]) -> TypeMismatch:
    """Find operands of a list that differ, or a number of operands that no row has."""
    tensors = [element for element in inputs if element is not None]
    expected = "equal types" if tensors else "at least one tensor"
    if not any(row.arity == "*" for row in spec.operands):
        expected = "other operands"
    found = f"the operands are {', '.join(map(element_text, inputs[:_LISTED]))}"
    if not inputs:
        found = "there are no operands"
    name = spec.operands[0].name if spec.operands else "input"
    return TypeMismatch(f"{_dashed(name)}-list", found, expected)


def _wrong_slot(form: Form, slots: list[Slot], key: Key) -> TypeMismatch:
    """Find the part of a key that fits least to the others."""
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
        f"{other.name} {element_text(key[position])}"
        for position, other in enumerate(slots)
        if position != index
    )
    message = f"{slot.name} is {element_text(key[index])}" + (f" with {context}" if context else "")
    return TypeMismatch(f"{_dashed(slot.name).removesuffix('-type')}-type", message, values)


def _having(keys: Iterable[Key], key: Key, positions: Iterable[int]) -> list[Key]:
    """Return the keys that have the same types in some positions."""
    places = list(positions)
    return [row for row in keys if all(row[place] == key[place] for place in places)]


def _first_repair(
    keys: list[Key], key: Key, positions: list[int], fixed: list[int] | None = None
) -> tuple[int, set[Element | str]]:
    """Find the first position whose change alone makes a row, or that begins none, and its types."""
    for position in positions:
        rest = [other for other in (*positions, *(fixed or ())) if other != position]
        found = _having(keys, key, rest)
        if found:
            return position, {row[position] for row in found}
    for count, position in enumerate(positions):
        beginning = _having(keys, key, positions[:count])
        if not _having(beginning, key, [position]):
            return position, {row[position] for row in beginning}
    raise AssertionError("a key of which each beginning is a row's is a row")


def element_text(element: Element | str) -> str:
    """Return an element type as messages show it."""
    if element is None:
        return "!tosa.shape"
    return f"block-scaled {element[0]}" if isinstance(element, tuple) else str(element)


def _listed(elements: Iterable[Element | str]) -> str:
    return " or ".join(sorted({element_text(element) for element in elements}, key=_order))


def _order(text: str) -> tuple[bool, int, str]:
    name = text.rpartition(" ")[2]
    return " " in text, dtype(name).code, text


def _dashed(name: str) -> str:
    return name.lower().replace("_", "-")
