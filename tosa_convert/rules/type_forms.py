"""The element types that an operator takes, made of the text in its row when needed; see `Row`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import product
from typing import Final

from tosa_convert.graph.dtypes import BLOCK_SCALE, V1_0, V1_1, DType, dtype
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.records import NamedTuple

#: A tensor's element type, that of a block-scaled tensor with the type of its scales; None is a
#: !tosa.shape.
Element = DType | tuple[DType, DType] | None

#: Abbreviation in the rows of operators -> types. `mx:` is a block-scaled tensor, `in:` a tensor of
#: elements whose scales are another tensor.
_SETS: Final = {
    "b": "BOOL",
    "i4": "INT4",
    "i8": "INT8",
    "i16": "INT16",
    "i32": "INT32",
    "i48": "INT48",
    "i64": "INT64",
    "f32": "FP32",
    "f16": "FP16",
    "bf16": "BF16",
    "e4m3": "FP8E4M3",
    "e5m2": "FP8E5M2",
    "e8m0": "FP8UE8M0",
    "f8": "FP8E4M3 FP8E5M2",
    "float": "FP32 FP16 BF16",
    "mx": "mx:FP8E4M3 mx:FP8E5M2 mx:FP6E2M3 mx:FP6E3M2 mx:FP4E2M1 mx:MXINT8",
    "in": "in:FP8E4M3 in:FP8E5M2 in:FP6E2M3 in:FP6E3M2 in:FP4E2M1 in:MXINT8",
    "inf": "in:FP8E4M3 in:FP8E5M2 in:FP6E2M3 in:FP6E3M2 in:FP4E2M1",
}
#: Elements whose scales are another tensor.
_DATA: Final = ("in", "inf")
#: What a type needs by itself.
EXTENSIONS_OF_TYPES: Final = {
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
        """Return whether there is a row of this key.

        Fast for a program that uses few of an operator's hundreds of rows: they are not made.
        """
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
        """Return whether the attribute selects this form."""
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
        """Return the rows that have the types of the operands, and the attribute if it is known."""
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
        """Return whether the number of operands is that of this form."""
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
        """Add the rows of a line of the table."""
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
