"""One operator with the values of its operands, to be computed, and as a step of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Operator, operator_path
from tosa_convert.graph.opset import OperatorSpec

Array: TypeAlias = npt.NDArray[Any]
#: "own": floating point is rounded to its element type after each operator. "wide": floating-point
#: tensors are FP64 and no operator rounds them. "bounds": they hold the bounds of `reference.bounds`.
Precision = Literal["own", "wide", "bounds"]

#: Elements of FP16 that are worth several steps, and the bits of their exponents.
_LARGE_HALF: Final = 1 << 10
_EXPONENT_HALF: Final = 0x7C00
#: Bits of the widest integers that are computed in INT32.
_NARROW: Final = 16


class Type(NamedTuple):
    """The type of a tensor, or of a shape, which has no element type.

    shape: sizes in elements; of a shape value its rank alone.
    """

    dtype: DType | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An operator to compute.

    operands: an array for each operand, in the numpy type of its element type, or FP64 in precision
        "wide"; a shape is a vector of INT64.
    types: the type of each operand.
    attributes: name -> value; those that hold an element are numbers.
    results: the type of each result.
    outside: the value of elements outside of an image.
    """

    spec: OperatorSpec
    operands: tuple[Array, ...]
    types: tuple[Type, ...]
    attributes: Mapping[str, Any]
    results: tuple[Type, ...]
    precision: Precision = "own"
    outside: float = 0.0

    def has(self, name: str) -> bool:
        """Return whether an optional operand is there."""
        return self._position(name) is not None

    def raw(self, name: str) -> Array:
        position = self._position(name)
        assert position is not None, f"{self.spec.name} has no operand {name}"
        return self.operands[position]

    def type_of(self, name: str) -> Type:
        position = self._position(name)
        assert position is not None, f"{self.spec.name} has no operand {name}"
        return self.types[position]

    def value(self, name: str) -> Array:
        """Return an operand in the type that it is computed in; see `widened`."""
        return self.widened(self.raw(name))

    def widened(self, array: Array) -> Array:
        """Return an array in a type that holds sums and products: INT32, INT64, FP32 or FP64."""
        kind = array.dtype.kind
        if kind == "b":
            return array
        if kind == "f" or is_float(array.dtype):
            if self.precision != "own":
                return array.astype(np.float64, copy=False)
            if array.dtype == np.float16 and array.size >= _LARGE_HALF:
                return _widened_half(array)
            return array.astype(np.float32, copy=False)
        narrow = array.dtype.itemsize * 8 <= _NARROW
        return array.astype(np.int32 if narrow else np.int64, copy=False)

    def number(self, name: str) -> int:
        """Return the only element of an integer operand, such as a zero point."""
        return int(self.raw(name).reshape(-1)[0])

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return the elements of a shape operand, or of a tensor that holds sizes."""
        return tuple(int(size) for size in self.raw(name).reshape(-1).tolist())

    @property
    def is_integer(self) -> bool:
        return not is_float(self.operands[0].dtype)

    @property
    def result(self) -> Type:
        return self.results[0]

    def _position(self, name: str) -> int | None:
        return _positions(self.spec, len(self.operands)).get(name)


@lru_cache(512)
def _positions(spec: OperatorSpec, count: int) -> dict[str, int]:
    """Return where the operands of an operator are that has so many; of several the first one."""
    rows = [spec.operand(index, count).name for index in range(count)]
    return {name: index for index, name in reversed(list(enumerate(rows)))}


# Fast path of `astype`, which takes elements one by one; equal by test
# test_fp16_becomes_fp32_as_numpy_converts_it.
def _widened_half(array: Array) -> Array:
    """Return FP16 in FP32: exponent and fraction move by 13 bits, and the exponent means 2^112 less."""
    codes = array.view(np.int16)
    if (codes & _EXPONENT_HALF).max() == _EXPONENT_HALF:  # infinities and NaN
        return array.astype(np.float32)
    bits = np.asarray(codes.astype(np.int32))
    bits <<= 13
    bits &= ~0x70000000  # copies of the sign
    wide: Array = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide


#: Computes the result of an operator, or a tuple if it has several, in any type that holds the values;
#: `store` converts it.
Operation = Callable[[Call], Any]


@cache
def is_float(kind: np.dtype[Any]) -> bool:
    """Return whether a numpy type, or one of ml_dtypes, has floating-point numbers."""
    return kind.kind == "f" or kind.name.startswith(("float", "bfloat"))


def new_result(target: Type, precision: Precision) -> Array:
    """Return memory for a result in its type; see `store`."""
    assert target.dtype is not None
    kind = np.float64 if _stays_wide(target.dtype, precision) else target.dtype.numpy
    return np.empty(target.shape, kind)


def _stays_wide(element: DType, precision: Precision) -> bool:
    return element.is_float and precision != "own" and element.name != "FP8UE8M0"


def store(result: Array, target: Type, precision: Precision) -> Array:
    """Convert a result to its element type: to nearest even, wrapping; refuse a wrong shape."""
    element = target.dtype
    array = np.asarray(result)
    if array.shape != target.shape:
        raise ValueError(f"the result has the shape {array.shape}, the program says {target.shape}")
    if element is None:
        return array.astype(np.int64, copy=False)
    is_number = element.name == "MXINT8" and array.dtype.kind == "f" and precision != "own"
    if is_number or _stays_wide(element, precision):
        return array.astype(np.float64, copy=False)
    return array.astype(element.numpy, copy=False)


class UndefinedResult(TosaConvertError):
    """Data for which TOSA does not define the result.

    wrong: whether each element is such data, in the shape of what was looked at.
    """

    wrong: Array


def refuse_undefined(call: Call, wrong: Any, what: str) -> None:
    """Refuse data for which TOSA does not define the result."""
    if np.any(wrong):
        message = f"for this data TOSA does not define the result: {what}"
        error = UndefinedResult(Finding("refmodel-refused", call.spec.name, message))
        error.wrong = np.asarray(wrong)
        raise error


def integer_limits(element: DType | None) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    assert element is not None
    half = 1 << (element.bits - 1)
    return -half, half - 1


def describe(operation: Operation, text: str) -> Operation:
    """Return an operation with a docstring."""
    operation.__doc__ = text
    return operation


class Inside(NamedTuple):
    """The runs of regions around an operator, from the outside in; none in the main block.

    prefix: of the names of tensors, such as `y/body[2]/` in the third run of the loop whose first result
        is `y`; `y/then/` and `y/else/` in branches.
    path: such as `operator #4 WHILE_LOOP body[2]`.
    turns: of each loop around it, how many times its body has run.
    """

    prefix: str = ""
    path: str = ""
    turns: tuple[int, ...] = ()

    def enter(self, index: int, operator: Operator, label: str, *turns: int) -> Inside:
        """Return the place inside of a region that an operator at this place runs."""
        name = operator.outputs[0] if operator.outputs else f"{operator.spec.name}#{index}"
        path = operator_path(self.path, index, operator).strip()
        return Inside(f"{self.prefix}{name}/{label}/", f"{path} {label}", (*self.turns, *turns))


@dataclass(slots=True, eq=False)
class Step:
    """An operator that was computed, with the values of its operands and results.

    operator: its `spec.name` is its kind; `attributes` and `location` are those of the program.
    index: of the operator in its block.
    block: has the types of the tensors.
    operands, results: arrays by the names of tensors; the scales of a block-scaled one are under its
        name and "/scale".
    where: the path of the operator, such as `region "main" block "main" operator #3 ADD`.
    inside: the runs of regions around it.
    """

    operator: Operator
    index: int
    block: Block
    operands: dict[str, Array]
    results: dict[str, Array]
    where: str
    inside: Inside
