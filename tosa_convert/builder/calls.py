"""The functions of operators, made from the rows of the operator table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature
from typing import Any, Final, NoReturn

import numpy as np

from tosa_convert.builder import values
from tosa_convert.builder.block_builder import BlockBuilder, all_or_nothing
from tosa_convert.builder.infer_results import UNKNOWN, Known, element_of_number
from tosa_convert.builder.values import DTypeLike, Value, default_of, dtype_of, has_default
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.graph.constant import ELEMENT_BYTES
from tosa_convert.graph.dtypes import BLOCK_SCALE, BlockSize, DType
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import (
    OPERATORS,
    AttributeValue,
    OperandSpec,
    OperatorSpec,
)
from tosa_convert.graph.verify_values import attribute_problem
from tosa_convert.rules.operator_view import ShapeType, TensorType
from tosa_convert.rules.types import Element
from tosa_convert.rules.validate import element_of

#: Operators that have methods of their own, or none: values and regions are not operands.
APART: Final = frozenset(row.name for row in OPERATORS if row.family in ("constant", "control"))
#: Operands of which a single number is a tensor of one element, whatever the rank of the others.
_RANK_1: Final = frozenset({"pad_const", "bias"})


def parameters(spec: OperatorSpec) -> Iterator[Parameter]:
    """Iterate over the parameters of an operator's function, in order, without the builder."""
    rows = spec.operands
    last_required = max(
        (index for index, row in enumerate(rows) if not has_default(row)), default=-1
    )
    keyword = []
    for index, row in enumerate(rows):
        if not has_default(row):
            yield Parameter(row.name, Parameter.POSITIONAL_OR_KEYWORD)
        elif index > last_required:
            yield Parameter(row.name, Parameter.POSITIONAL_OR_KEYWORD, default=None)
        else:
            keyword.append(Parameter(row.name, Parameter.KEYWORD_ONLY, default=None))
    yield from keyword
    for attribute in spec.attributes:
        default = default_of(attribute)
        yield Parameter(attribute.name, Parameter.KEYWORD_ONLY, default=default)
    if any(not row.is_shape for row in spec.results):
        yield Parameter("dtype", Parameter.KEYWORD_ONLY, default=None)
    if spec.name == "CAST":
        yield Parameter("scaled", Parameter.KEYWORD_ONLY, default=False)
    if spec.results:
        yield Parameter("name", Parameter.KEYWORD_ONLY, default="")


def function_of(spec: OperatorSpec) -> Callable[..., Any]:
    """Make the function of an operator, for a class of builders."""
    signature = Signature(list(parameters(spec)))
    name = spec.name.lower()
    names = frozenset(signature.parameters)
    positional = [p.name for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY]
    defaults = {
        p.name: p.default for p in signature.parameters.values() if p.default is not p.empty
    }

    @all_or_nothing
    def function(self: BlockBuilder, *args: Any, **kwargs: Any) -> Any:
        # Fast path of Signature.bind; equal by test test_arguments_are_bound_as_python_binds_them.
        given = {**defaults, **dict(zip(positional, args, strict=False)), **kwargs}
        is_bound = given.keys() == names and len(args) <= len(positional)
        if not (is_bound and kwargs.keys().isdisjoint(positional[: len(args)])):
            _refuse_arguments(name, signature, args, kwargs)
        return _Call(self, spec, given).made()

    function.__name__ = name
    function.__qualname__ = f"Builder.{name}"
    function.__doc__ = _doc(spec)
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    function.__signature__ = Signature([own, *signature.parameters.values()])  # type: ignore[attr-defined]
    return function


def _refuse_arguments(
    name: str, signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]
) -> NoReturn:
    """Raise the error for arguments that the function does not take."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        known = ", ".join(signature.parameters)
        raise TypeError(f"{name}() {error}; its arguments are {known}") from None
    raise AssertionError(name)


def _doc(spec: OperatorSpec) -> str:
    results = ", ".join(row.name for row in spec.results) or "nothing"
    return f"Add the operator {spec.name}, which returns {results}."


#: Name -> function of each operator that has one.
FUNCTIONS: Final = {
    spec.name.lower(): function_of(spec) for spec in OPERATORS if spec.name not in APART
}


class _Call:
    """One call: the arguments become operands and attributes."""

    def __init__(self, builder: BlockBuilder, spec: OperatorSpec, given: dict[str, Any]) -> None:
        self.builder = builder
        self.spec = spec
        self.given = given
        self.name = spec.name.lower()
        self.dtypes = self.asked_dtypes()

    def made(self) -> Value | tuple[Value, ...] | None:
        """Add the operator; return its results, one without a tuple."""
        attributes = self.attributes()
        operands = self.operands(attributes)
        self.finish(attributes, operands)
        names = values.names(self.label("name"), self.given.get("name", ""))
        results = self.builder._apply(self.spec, operands, attributes, self.dtypes, names)
        if not results:
            return None
        return results[0] if len(results) == 1 else results

    def label(self, argument: str) -> str:
        """Return an argument as messages name it."""
        return f"{self.name}() argument {argument}"

    def path(self) -> str:
        return self.builder._path(Operator(self.spec, (), ()))

    def asked_dtypes(self) -> tuple[Element, ...]:
        """Return the element types that the caller wants results to have."""
        given: DTypeLike | Sequence[DTypeLike] | None = self.given.get("dtype")
        if given is None:
            found: tuple[DType, ...] = ()
        elif isinstance(given, (list, tuple)):
            found = tuple(map(dtype_of, given))
        else:
            found = (dtype_of(given),)  # type: ignore[arg-type]
        most = sum(not row.is_shape for row in self.spec.results)
        if len(found) > most:
            raise values.wrong(self.label("dtype"), given, f"at most {most} element types")
        if self.given.get("scaled"):
            if not found:
                raise values.wrong(self.label("dtype"), given, "the type of block-scaled elements")
            return ((found[0], BLOCK_SCALE),)
        return found

    # -- attributes ------------------------------------------------------------------------------

    def attributes(self) -> dict[str, AttributeValue]:
        """Return the attributes but those that follow from operands."""
        found: dict[str, AttributeValue] = {}
        for row in self.spec.attributes:
            given = self.given[row.name]
            if row.kind != "element" and (given is not None or default_of(row) is not None):
                value = values.attribute(self.label(row.name), row, given)
                problem = attribute_problem(row, value)
                if problem:
                    raise fail("malformed-operator", self.path(), f"{row.name}: {problem}")
                found[row.name] = value
        return found

    def finish(self, attributes: dict[str, AttributeValue], operands: Sequence[Value]) -> None:
        """Set the attributes that follow from operands, in the order of the operator table."""
        for row in self.spec.attributes:
            if row.kind == "element":
                attributes[row.name] = self.element_bytes(row.name, operands[0])
            elif row.name == "block_size" and row.name not in attributes:
                scaled = [row.name for row in self.spec.operands if row.arity == "?"]
                plain = scaled and all(self.given[name] is None for name in scaled)
                size = BlockSize.BLOCK_SIZE_1 if plain else BlockSize.BLOCK_SIZE_32
                attributes[row.name] = size
        order = [row.name for row in self.spec.attributes if row.name in attributes]
        ordered = {name: attributes[name] for name in order}
        attributes.clear()
        attributes.update(ordered)

    def element_bytes(self, name: str, operand: Value) -> bytes:
        """Return the bytes of an element of an operand's type, such as `min_val` of CLAMP."""
        array = values.array(self.label(name), self.given[name])
        if array.size != 1:
            raise values.wrong(self.label(name), self.given[name], "one number")
        data = self.constant(name, array, operand.dtype).elements().tobytes()
        return bytes(data).ljust(ELEMENT_BYTES, b"\0")

    def constant(self, name: str, array: Any, element: DType) -> Any:
        """Convert the data of an argument to its element type."""
        try:
            return self.builder._constant(array, element)
        except TosaConvertError as error:
            message = f"{name}: {error.findings[0].message}"
            raise fail(error.code, self.path(), message) from None

    # -- operands --------------------------------------------------------------------------------

    def operands(self, attributes: dict[str, AttributeValue]) -> list[Value]:
        rows: list[OperandSpec] = []
        items: list[Any] = []
        for row in self.spec.operands:
            given = self.given[row.name]
            if row.arity == "*":
                found = self.listed(row, given)
            elif given is None and row.arity == "?":
                continue
            else:
                found = [self.item(row, given)]
            rows += [row] * len(found)
            items += found
        self.resolve(rows, items, attributes)
        return items

    def listed(self, row: OperandSpec, given: Any) -> list[Any]:
        if isinstance(given, (str, Value, np.ndarray)) or not isinstance(given, Sequence):
            raise values.wrong(self.label(row.name), given, "a sequence of operands")
        return [self.item(row, item) for item in given]

    def item(self, row: OperandSpec, given: Any) -> Any:
        """Return an operand as a value; as an array if its element type is not known yet."""
        if isinstance(given, Value):
            if isinstance(given.type, ShapeType) is row.is_shape:
                return given
            expected = "a shape: sizes, or a value of const_shape()" if row.is_shape else "a tensor"
            raise values.wrong(self.label(row.name), given, expected)
        if row.is_shape:
            return self.builder.const_shape(values.integers(self.label(row.name), given))
        if given is None:
            if row.default is None:
                raise values.wrong(self.label(row.name), given, "a value, an array or numbers")
            return np.array([row.default], np.int8)
        array = values.array(self.label(row.name), given)
        if isinstance(given, np.ndarray) and not row.is_constant:
            return self.of_array(row, given)
        return array

    def of_array(self, row: OperandSpec, array: Any) -> Value:
        """Make a value of an array of a type that TOSA has."""
        try:
            return self.builder.const(array)
        except TosaConvertError as error:
            found = error.findings[0]
            hint = "convert it, as in array.astype(np.float32)"
            raise fail(found.code, self.path(), f"{row.name}: {found.message}", hint) from None

    def resolve(
        self,
        rows: Sequence[OperandSpec],
        items: list[Any],
        attributes: dict[str, AttributeValue],
    ) -> None:
        """Make constants of numbers, with the types that the other operands leave them."""
        tensors = [index for index, row in enumerate(rows) if not row.is_shape]
        known: list[Known] = [
            element_of(items[index].type) if isinstance(items[index], Value) else UNKNOWN
            for index in tensors
        ]
        rank = self.common_rank(items)
        draft = Operator(self.spec, (), (), attributes)
        for position, index in enumerate(tensors):
            if known[position] != UNKNOWN:
                continue
            row, array = rows[index], items[index]
            element = element_of_number(
                draft, row, known, position, self.dtypes, self.builder._path
            )
            known[position] = element
            if not array.shape:
                array = array.reshape((1,) * self.rank_of_number(row, rank))
            if row.is_constant and array.size == 1 and not array.any():
                items[index] = self.builder._zero(element)
                continue
            if attributes.get(row.name.replace("_zp", "_unsigned")) is True:
                array = _signed(array, element)
            self.constant(row.name, array, element)
            items[index] = self.builder.const(array, element)

    def common_rank(self, items: Sequence[Any]) -> int:
        """Return the highest rank of the operands that are values."""
        ranks = [
            item.type.rank
            for item in items
            if isinstance(item, Value) and isinstance(item.type, TensorType)
        ]
        return max((rank for rank in ranks if rank is not None), default=0)

    def rank_of_number(self, row: OperandSpec, rank: int) -> int:
        return 1 if row.is_constant or row.name in _RANK_1 else rank


def _signed(array: Any, element: DType) -> Any:
    """Return unsigned zero points as the signed numbers of the same bits, which the program has."""
    half = 1 << element.bits - 1
    if array.dtype.kind in "iu" and array.dtype.itemsize < 8:
        array = array.astype(np.int64)  # `half` may not fit its own type
    return np.where((array >= half) & (array < 2 * half), array - 2 * half, array)
