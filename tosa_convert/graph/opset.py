"""Operators as objects, made of the rows of `operator_table.py`, and tables of what is known of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from tosa_convert.errors import fail
from tosa_convert.graph.dtypes import (
    DTYPES,
    TOOLS_STATE,
    V1_0,
    V1_1,
    BlockSize,
    DType,
    NanPropagationMode,
    ResizeMode,
    RoundingMode,
)
from tosa_convert.graph.operator_table import ROWS_1_0, ROWS_1_1, WORDS, Row, Traits

#: The value of an attribute in a Graph.
AttributeValue = int | bool | str | bytes | tuple[int, ...] | IntEnum | DType


class AttributeSpec(NamedTuple):
    """An attribute of an operator.

    name: the name in the schema and in the dialect.
    kind: `i32`, `i32s` (a tuple), `bool`, `dtype` (an accumulator), `enum`, `element` (the
        little-endian bytes of one element), `string`, `bytes`, or `region` (the name of a region).
    length: the number of values of an `i32s`, or -1 for any number.
    enum: the class of an `enum`.
    optional: MLIR can omit the attribute, which means `default`.
    choices: the values of a `dtype` that readers accept.
    """

    name: str
    kind: str
    length: int = -1
    enum: type[IntEnum] | None = None
    optional: bool = False
    default: AttributeValue = 0
    choices: tuple[DType, ...] = ()


class OperandSpec(NamedTuple):
    """An operand or result.

    is_shape: it is a !tosa.shape, not a tensor.
    arity: "" for exactly one, "?" for at most one, "*" for any number. At most one of an operator's
        operands is "*", and then none of the others is "?".
    is_constant: a tensor whose elements verifiers and compilers read at compile time: a zero point, a
        shift, a multiplier, a row count.
    domain: the numbers that it is to hold: "index" of a row, "shift" by less than its bits, "divisor",
        "positive", or "" for any.
    default: the number that stands for an operand that is left out; None if it must be given.
    state: the state of the dialect that added it to the operator; "" if the operator always had it.
    """

    name: str
    is_shape: bool = False
    arity: str = ""
    is_constant: bool = False
    domain: str = ""
    default: int | None = None
    state: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Custom:
    """The meaning of a CUSTOM operator.

    Each function gets the operator's `implementation_attrs` as bytes first.

    Args:
        domain: its `domain_name`.
        name: its `operator_name`.
        value: computes the result of arrays, or a tuple of results. Integers of up to 16 bits come as
            INT32 and others as INT64, floating point as FP32, or as FP64 for the exact result; the
            result is rounded to its element type.
        shape: returns a shape for each result, of the operands' shapes; it raises ValueError for those
            that the operator does not take. Without it results have the shapes that the program says.
        accuracy: how a backend may differ, if operands are exact: "exact"; "ulp N", so many units in the
            last place of the exact result; or "none": as the error is that the program's other operators
            make. Integers are always exact.

    Raises:
        TosaConvertError: "option-conflict" for another accuracy.

    Example:
        >>> import numpy as np
        >>> Custom("acme", "SQUARE", value=lambda attributes, x: x * x, accuracy="ulp 1").name
        'SQUARE'
    """

    domain: str
    name: str
    value: Callable[..., Any]
    shape: Callable[..., Sequence[Sequence[int]]] | None = None
    accuracy: str = "none"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"exact|none|ulp \d+(\.\d+)?", self.accuracy):
            message = f"found the accuracy {self.accuracy!r}, expected exact, none or ulp N"
            raise fail("option-conflict", f"{self.domain} {self.name}", message)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorSpec:
    """The row of an operator. There is one object for each operator: compare with `is`.

    name: the name in TOSA, such as "CONV2D".
    code: its number in enum Op of the schema.
    operands, results, attributes: in the order of the dialect and of the schema.
    since: the TOSA version that added it, (major, minor).
    encoded_as: the operator whose code a file has; different attribute tables tell the two apart.
    mlir: the name of the operation in MLIR.
    regions: those attributes that name regions.
    traits, family: see `Traits`.
    types, commutes: see `Row`.
    accuracy, is_inexact: how floating-point results may differ from exact ones, see `Row`; whether
        implementations round them differently.
    multiply_accumulates: the result and the operands that are multiplied -> their dimensions, each a
        letter, two for a product, "." for what does not count, or "*" for any number of batches.
    uncounted: why the number of its multiply-accumulates is not known.
    elementwise: how many operands, from the first one on, are broadcast to the shape of the result.
    state: the state of the dialect that added it; "" for the first one.
    removed, replaced_by: the month in which it left the draft, and what replaces it; "" if it did not.
    old_names: names of the operation in older states, oldest first, each with the state that ended it.
    meaning: of CUSTOM, what it computes; None if that is not known.

    Example:
        >>> conv = operator("CONV2D")
        >>> conv.mlir, [row.name for row in conv.operands]
        ('tosa.conv2d', ['input', 'weight', 'bias', 'input_zp', 'weight_zp'])
        >>> operator("CONCAT").operand_range()
        (0, None)
    """

    name: str
    code: int
    operands: tuple[OperandSpec, ...]
    results: tuple[OperandSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    since: tuple[int, int]
    encoded_as: str
    mlir: str
    regions: tuple[AttributeSpec, ...]
    traits: Traits
    family: str
    types: str
    accuracy: str
    is_inexact: bool
    multiply_accumulates: Mapping[str, tuple[str, ...]]
    uncounted: str
    elementwise: int
    commutes: bool
    state: str
    removed: str
    replaced_by: str
    old_names: tuple[tuple[str, str], ...]
    meaning: Custom | None = None

    @property
    def kernel_dimension(self) -> int:
        """Return the first dimension of the kernel in the weight of a convolution."""
        _, weight, _ = self.multiply_accumulates.values()
        return weight.index("K")

    @property
    def is_in_tools(self) -> bool:
        """Return whether the newest tosa-tools have it, and what is built with their state of MLIR."""
        return self.state <= TOOLS_STATE

    @property
    def range(self) -> tuple[float, float]:
        """Return the least and the greatest result."""
        low, _, high = self.traits.range.partition(":")
        return float(low), float(high)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[object]]:
        return (with_meaning, (self.meaning,)) if self.meaning else (operator, (self.name,))

    def operand_range(self) -> tuple[int, int | None]:
        """Return the lowest and highest number of operands; None for no upper bound."""
        return _range(self.operands)

    def result_range(self) -> tuple[int, int | None]:
        """Return the lowest and highest number of results; None for no upper bound."""
        return _range(self.results)

    def takes(self, operands: int, results: int) -> bool:
        """Return whether an operator may have so many operands and results."""
        ranges = ((operands, self.operand_range()), (results, self.result_range()))
        return all(low <= n and (high is None or n <= high) for n, (low, high) in ranges)

    def newer_than(self, state: str, count: int) -> tuple[str, str]:
        """Return what a state lacks of it with that many operands, and what added it; both may be ""."""
        since = max(self.state, *(row.state for row in self.operands[:count]), "")
        if since <= state:
            return "", ""
        return self.name if since == self.state else f"{self.name} with {count} operands", since

    def operand(self, index: int, count: int) -> OperandSpec:
        """Return the row of operand `index` of an operator with `count` operands."""
        return _at(self.operands, index, count)

    def result(self, index: int, count: int) -> OperandSpec:
        """Return the row of result `index` of an operator with `count` results."""
        return _at(self.results, index, count)


def _range(rows: tuple[OperandSpec, ...]) -> tuple[int, int | None]:
    fewest = sum(row.arity == "" for row in rows)
    return fewest, None if any(row.arity == "*" for row in rows) else len(rows)


def _at(rows: tuple[OperandSpec, ...], index: int, count: int) -> OperandSpec:
    """Return the row of operand `index` of `count`. Takes the same time for any number of operands."""
    missing = len(rows) - count
    present: list[OperandSpec] = []
    for row in rows:
        if row.arity == "*":
            last = len(present) - missing
            if len(present) <= index <= last:
                return row
            # The rows after it stand for the last operands.
            index += missing if index > last else 0
            present.append(row)
        elif row.arity == "?" and missing > 0:
            missing -= 1
        else:
            present.append(row)
    return present[index]


def _operands(text: str) -> tuple[OperandSpec, ...]:
    """Parse operands or results, such as "input1 scale? shape:shape zp:const=0"."""
    rows = []
    for word in text.split():
        left, _, default = word.partition("=")
        name, kind, state = (*left.split(":"), "", "")[:3]
        rows.append(
            OperandSpec(
                name.rstrip("?*"),
                kind == "shape",
                name[-1] if name[-1] in "?*" else "",
                kind == "const",
                kind if kind not in ("shape", "const") else "",
                int(default) if default else None,
                state,
            )
        )
    return tuple(rows)


def _of_kind(kind: str, names: str) -> list[AttributeSpec]:
    return [AttributeSpec(name, kind) for name in names.split()]


_NAN: Final = NanPropagationMode.PROPAGATE
_ACC: Final = tuple(row for row in DTYPES if row.sums_since is not None)
#: The attributes by their names; all operators that have one mean the same by it.
_ATTRIBUTES: Final = {
    row.name: row
    for row in (
        *_of_kind("i32", "axis"),
        *_of_kind("i32s", "dilation kernel out_pad pad perms stride"),
        *_of_kind("bool", "allow_broadcast input_unsigned inverse output_unsigned per_channel"),
        *_of_kind("bool", "round scale32"),
        *_of_kind("element", "max_val min_val"),
        *_of_kind("string", "domain_name operator_name"),
        *_of_kind("bytes", "implementation_attrs"),
        *_of_kind("region", "body_graph cond_graph else_graph then_graph"),
        AttributeSpec("acc_type", "dtype", choices=_ACC),
        AttributeSpec("block_size", "enum", enum=BlockSize),
        AttributeSpec("mode", "enum", enum=ResizeMode),
        AttributeSpec("rounding_mode", "enum", enum=RoundingMode),
        AttributeSpec("local_bound", "bool", optional=True, default=False),
        AttributeSpec("nan_mode", "enum", enum=type(_NAN), optional=True, default=_NAN),
    )
}


def _attributes(text: str) -> tuple[AttributeSpec, ...]:
    """Parse attributes, such as "stride:2 acc_type"."""
    rows = []
    for word in text.split():
        name, _, length = word.partition(":")
        row = _ATTRIBUTES[name]
        rows.append(row._replace(length=int(length)) if length else row)
    return tuple(rows)


def _products(text: str) -> dict[str, tuple[str, ...]]:
    """Parse the dimensions of operands, such as "output=NPQ(CM) weight=KLCM"."""
    words = [word.split("=") for word in text.split()]
    return {
        name: tuple(part.strip("()") for part in re.findall(r"\(\w+\)|.", dimensions))
        for name, dimensions in words
    }


_WORDS: Final = {name: words.split() for name, words in WORDS.items()}


@cache
def _traits(text: str) -> Traits:
    return Traits(**dict([word.split("=") for word in text.split()]))


def _refuse_incomplete(code: int, row: Row, traits: Traits) -> None:
    """Raise LookupError for a row that does not say what its traits promise, or says it twice."""
    for name, text in (("accuracy", row.accuracy), ("products", row.multiply_accumulates)):
        if (getattr(traits, name) == "own") != bool(text):
            raise LookupError(f"{row.name}: {name} is {getattr(traits, name)!r}, and {text!r}")
    for name, words in _WORDS.items():
        if getattr(traits, name) not in words:
            raise LookupError(f"{row.name}: {name} is {getattr(traits, name)!r}, one of {words}")
    if (code > len(ROWS_1_0)) != row.since.startswith("1.1 2"):
        raise LookupError(f"{row.name}: found since={row.since!r}, expected a version and a month")


def _spec(code: int, row: Row) -> OperatorSpec:
    traits = _traits(row.traits)
    _refuse_incomplete(code, row, traits)
    inputs, arrow, outputs = row.operands.partition("->")
    attributes = _attributes(row.attributes)
    version, _, state = row.since.partition(" ")
    removed, _, replaced_by = row.removed.partition(" ")
    old_names = [word.partition(":") for word in row.old_names.split()]
    is_counted = not row.multiply_accumulates.startswith("?")
    accuracy = row.accuracy or traits.accuracy
    return OperatorSpec(
        row.name,
        code,
        _operands(inputs),
        _operands(outputs if arrow else "output"),
        attributes,
        {"": V1_0, "1.0": V1_0, "1.1": V1_1}[version],
        row.encoded_as or row.name,
        f"tosa.{row.name.lower()}",
        tuple(attribute for attribute in attributes if attribute.kind == "region"),
        traits,
        traits.family,
        row.types,
        accuracy.removeprefix(_INEXACT),
        accuracy.startswith(_INEXACT),
        _products(row.multiply_accumulates) if is_counted else {},
        "" if is_counted else row.multiply_accumulates.removeprefix("? "),
        int(traits.elementwise),
        row.commutes,
        state,
        removed,
        replaced_by,
        tuple((f"tosa.{name}", until) for name, _, until in old_names),
    )


_INEXACT: Final = "inexact: "
#: The operators, by their codes.
OPERATORS: Final = [_spec(code, row) for code, row in enumerate((*ROWS_1_0, *ROWS_1_1), 1)]
_BY_NAME: Final = {row.name: row for row in OPERATORS}
BY_CODE: Final = {row.code: row for row in OPERATORS}
BY_MLIR: Final = {row.mlir: row for row in OPERATORS}


def operator(name: str) -> OperatorSpec:
    """Return the row of the operator of this name.

    Raises:
        KeyError: TOSA does not have it.

    Example:
        >>> operator("MATMUL").code
        7
    """
    return _BY_NAME[name]


def with_meaning(meaning: Custom) -> OperatorSpec:
    """Return the row of a CUSTOM operator whose meaning is known."""
    is_inexact = meaning.accuracy.startswith("ulp")
    return replace(
        operator("CUSTOM"), accuracy=meaning.accuracy, is_inexact=is_inexact, meaning=meaning
    )


_Entry = TypeVar("_Entry")


def table_of(
    trait: str, entries: Mapping[str, _Entry], rows: Iterable[OperatorSpec] = OPERATORS
) -> dict[str, _Entry]:
    """Map operators to the entries that a trait names; LookupError if one has none, or it none."""
    words = {row.name: getattr(row.traits, trait).partition(":")[0] for row in rows}
    keys = {name: name if word == "own" else word for name, word in words.items() if word != "none"}
    missing = [name for name, key in keys.items() if key not in entries]
    unused = entries.keys() - keys.values()
    if missing or unused:
        found = [f"{name} has no entry {keys[name]!r}" for name in missing]
        found += [f"no operator has the entry {key!r}" for key in sorted(unused)]
        raise LookupError(f"{trait}: {', '.join(found)}")
    return {name: entries[key] for name, key in keys.items()}


CONST: Final = operator("CONST")
CONST_SHAPE: Final = operator("CONST_SHAPE")
IDENTITY: Final = operator("IDENTITY")
VARIABLE: Final = operator("VARIABLE")
VARIABLE_READ: Final = operator("VARIABLE_READ")
VARIABLE_WRITE: Final = operator("VARIABLE_WRITE")
