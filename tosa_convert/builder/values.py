"""What the functions of a builder take and return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.errors import fail
from tosa_convert.graph.constant import dtype_of_array
from tosa_convert.graph.dtypes import DTYPES, DType
from tosa_convert.graph.model import Block
from tosa_convert.records import dataclass
from tosa_convert.rules.values import ShapeType, Size, TensorType, ValueType

#: An element type as users give it: "FP32", "fp32", "f32", np.float32, or a `DType`.
DTypeLike = str | DType | np.dtype[Any] | type[Any]
#: One or several numbers.
Data = npt.NDArray[Any] | Sequence[Any] | float

_BY_NAME: Final = {name: row for row in DTYPES for name in (row.name, row.name.lower(), row.mlir)}


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """A tensor or a shape of a program that is being built.

    name: its name in the program. `Builder.output` can set another.
    type: its element type and shape, or the sizes of a shape.
    block: the block that it belongs to.
    """

    name: str
    type: ValueType
    block: Block

    @property
    def is_shape(self) -> bool:
        """Return whether it is a !tosa.shape, not a tensor."""
        return isinstance(self.type, ShapeType)

    @property
    def dtype(self) -> DType:
        """Return the element type of a tensor.

        Raises:
            TypeError: It is a shape.
        """
        if not isinstance(self.type, TensorType):
            raise TypeError(f'"{self.name}" is a shape, not a tensor')
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the sizes of a tensor in elements, -1 where unknown; None if its rank is unknown.

        Raises:
            TypeError: It is a shape.
        """
        if not isinstance(self.type, TensorType):
            raise TypeError(f'"{self.name}" is a shape, not a tensor')
        return self.type.shape

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Return the values of a shape, None where unknown.

        Raises:
            TypeError: It is a tensor.
        """
        if not isinstance(self.type, ShapeType):
            raise TypeError(f'"{self.name}" is a tensor, not a shape')
        return self.type.sizes

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.type})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Variable:
    """A variable: state that outlives a run. `Builder.read` and `Builder.write` use it."""

    name: str
    type: TensorType

    def __repr__(self) -> str:
        return f"Variable({self.name}: {self.type})"


def dtype_of(given: DTypeLike) -> DType:
    """Return the element type that a user names.

    Example:
        >>> dtype_of("fp32"), dtype_of("i8"), dtype_of(np.int32)
        (FP32, INT8, INT32)
    """
    if isinstance(given, DType):
        return given
    element = _BY_NAME.get(given) if isinstance(given, str) else _of_numpy(given)
    if element is None:
        names = ", ".join(row.name for row in DTYPES)
        shown = given if isinstance(given, str) else repr(given)
        raise fail(
            "unsupported-dtype",
            "",
            f"TOSA does not have the element type {shown}",
            f"use one of {names}",
        )
    return element


def _of_numpy(given: np.dtype[Any] | type[Any] | None) -> DType | None:
    """Return the element type of a type of numpy or ml_dtypes; None if there is none."""
    # numpy reads None, float and int as types of 64 bits, and calls them equal to these.
    if given is None or any(given is plain for plain in (float, int, complex)):
        return None
    try:
        return dtype_of_array(np.empty(0, given))
    except TypeError:
        return None


#: An operand as users give it: a value, or the elements of a constant.
Operand = Value | Data
#: A !tosa.shape operand as users give it: a value, or the sizes of a constant.
Sizes = Value | Sequence[int]
