"""The functions of operators, made from the rows of the operator table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature
from typing import Any, Final

import numpy as np

from tosa_convert.build.block_builder import BlockBuilder, names_of
from tosa_convert.build.values import DTypeLike, Value, dtype_of
from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, AttributeValue, OperandSpec, OperatorSpec
from tosa_convert.spec.values import TensorType

#: Operators that have functions of their own, or none: values and regions are not operands.
APART: Final = frozenset(
    {"CONST", "CONST_SHAPE", "COND_IF", "WHILE_LOOP", "CUSTOM"}
    | {"VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE"}
)
#: Attributes with a default that the operator table does not give them: one value for all elements.
_EVERY_ELEMENT: Final = {"pad": 0, "out_pad": 0, "stride": 1, "dilation": 1}
_FALSE: Final = frozenset({"per_channel", "input_unsigned", "output_unsigned", "inverse", "allow_broadcast"})
#: Compile-time constants whose element type is the same for all programs.
_FIXED_TYPES: Final = {"shift": "INT8", "row_count": "INT32", "start": "INT32", "size": "INT32"}
#: Operands that are 0 unless they are given.
_ZERO_UNLESS_GIVEN: Final = frozenset({"pad_const"})


def has_default(spec: OperatorSpec, row: OperandSpec) -> bool:
    """Whether an operand may be left out."""
    if row.arity == "?" or row.name in _ZERO_UNLESS_GIVEN or row.name.endswith("_zp"):
        return True
    return spec.name == "MUL" and row.name == "shift"


def default_of(row: AttributeSpec) -> Any:
    """The value of an attribute that is left out; `Parameter.empty` if it must be given."""
    if row.optional:
        return row.default
    if row.kind == "dtype":
        return None
    if row.name in _EVERY_ELEMENT and row.length > 0:
        return (_EVERY_ELEMENT[row.name],) * row.length
    return False if row.name in _FALSE else Parameter.empty


def parameters(spec: OperatorSpec) -> Iterator[Parameter]:
    """The parameters of an operator's function, in order, without the builder."""
    rows = spec.operands
    last_required = max(
        (index for index, row in enumerate(rows) if not has_default(spec, row)), default=-1
    )
    keyword = []
    for index, row in enumerate(rows):
        if not has_default(spec, row):
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
    if spec.results:
        yield Parameter("name", Parameter.KEYWORD_ONLY, default="")


def function_of(spec: OperatorSpec) -> Callable[..., Any]:
    """The function of an operator, for a class of builders."""
    signature = Signature(list(parameters(spec)))

    def function(self: BlockBuilder, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        count = self.count
        try:
            return _Call(self, spec, bound.arguments).made()
        except BaseException:
            # Without the constants that were made of its operands.
            self.forget_from(count)
            raise

    function.__name__ = function.__qualname__ = spec.name.lower()
    function.__doc__ = _doc(spec)
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    function.__signature__ = Signature([own, *signature.parameters.values()])  # type: ignore[attr-defined]
    return function


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
        self.dtypes = _dtypes(given.get("dtype"))
        self.values: dict[str, Value] = {}

    def made(self) -> Value | tuple[Value, ...] | None:
        """Add the operator; returns its results, one without a tuple."""
        operands = self.operands()
        attributes = {
            row.name: self.attribute(row, self.given[row.name])
            for row in self.spec.attributes
            if self.given[row.name] is not None
        }
        names = names_of(self.given.get("name", ""))
        results = self.builder.apply(self.spec, operands, attributes, self.dtypes, names)
        if not results:
            return None
        return results[0] if len(results) == 1 else results

    def operands(self) -> list[Value]:
        """The operands, in the order of the row. Values come first: others take their types."""
        found: dict[str, list[Value]] = {}
        rows = sorted(self.spec.operands, key=lambda row: not isinstance(self.given[row.name], Value))
        for row in rows:
            given = self.given[row.name]
            if row.arity == "*":
                found[row.name] = [self.operand(row, item) for item in given]
            elif given is not None or (has_default(self.spec, row) and row.arity != "?"):
                found[row.name] = [self.operand(row, given)]
            else:
                found[row.name] = []
            if found[row.name]:
                self.values[row.name] = found[row.name][0]
        return [value for row in self.spec.operands for value in found[row.name]]

    def operand(self, row: OperandSpec, given: Any) -> Value:
        """One operand as a value."""
        if isinstance(given, Value):
            return given
        if row.is_shape:
            return self.builder.const_shape(given)
        element = self.element(row)
        if given is None or (row.is_constant and isinstance(given, int) and given == 0):
            if element is None:
                raise self.refused(row)
            return self.builder.zero(element)
        if isinstance(given, np.ndarray) and element is None:
            return self.builder.const(given)
        if element is None:
            raise self.refused(row)
        array = np.asarray(given)
        if not array.shape:
            array = array.reshape((1,) * (1 if row.is_constant else self.rank()))
        own = isinstance(given, np.ndarray) and not row.is_constant
        return self.builder.const(array) if own else self.builder.const(array, element)

    def refused(self, row: OperandSpec) -> Exception:
        """The error for numbers whose element type is not known."""
        return fail(
            "option-conflict",
            self.spec.name.lower(),
            f"the element type of {row.name} does not follow from the other operands",
            "pass dtype=, or pass a numpy array or a constant",
        )

    def element(self, row: OperandSpec) -> DType | None:
        """The element type of a constant that is given as numbers; None if it does not follow."""
        name = row.name
        if name in _FIXED_TYPES:
            return dtype(_FIXED_TYPES[name])
        if name == "multiplier":
            return dtype("INT32" if self.given["scale32"] else "INT16")
        if name == "output_zp" and self.dtypes:
            return self.dtypes[0]
        if name == "output_zp" and self.spec.name == "RESCALE":
            return None
        of = self.values.get(name.removesuffix("_zp")) or next(iter(self.values.values()), None)
        if of is None or not isinstance(of.type, TensorType):
            return None
        # The zero point of block-scaled data is FP32.
        return of.dtype if of.type.scale is None or not row.is_constant else dtype("FP32")

    def rank(self) -> int:
        """The rank of a number that is broadcast: that of the other operands."""
        ranks = [value.type.rank for value in self.values.values()]
        return max((rank for rank in ranks if rank is not None), default=0)

    def attribute(self, row: AttributeSpec, given: Any) -> AttributeValue:
        """The value of an attribute."""
        if row.kind == "dtype":
            return dtype_of(given)
        if row.kind == "i32s":
            return tuple(map(int, given))
        if row.enum is not None and isinstance(given, str):
            refuse_unknown(row.name, given, [member.name for member in row.enum])
            return row.enum[given]
        if row.enum is not None:
            return row.enum(given)
        if row.kind == "element":
            element = self.builder_element()
            return bytes(constant_of(np.asarray([given]), element).elements().tobytes())
        return bool(given) if row.kind == "bool" else int(given)

    def builder_element(self) -> DType:
        """The element type of the first operand."""
        return next(iter(self.values.values())).dtype


def _dtypes(given: DTypeLike | Sequence[DTypeLike] | None) -> tuple[DType, ...]:
    if given is None:
        return ()
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(map(dtype_of, given))
    return (dtype_of(given),)
