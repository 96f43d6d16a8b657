"""The state of a block that is being built: its values, their names, and errors about them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tosa_convert.builder import arguments
from tosa_convert.builder.infer_results import Inference, new_value
from tosa_convert.builder.values import Data, Value
from tosa_convert.errors import Findings, fail
from tosa_convert.graph.constant import Constant, constant_of, dtype_of_array
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import (
    UNKNOWN_LOCATION,
    Block,
    Operator,
    Region,
    Tensor,
    block_path,
    operator_path,
    quoted,
)
from tosa_convert.graph.value_rules import tensor_problems
from tosa_convert.records import NamedTuple, replace
from tosa_convert.rules.values import TypeTable, ValueType

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound="BlockState")


class Checkpoint(NamedTuple):
    """How much a builder has. `BlockState.checkpoint` makes it."""

    counts: tuple[int, ...]
    numbers: dict[str, int]


def all_or_nothing(
    method: Callable[Concatenate[_S, _P], _R],
) -> Callable[Concatenate[_S, _P], _R]:
    """Make a method of a builder add nothing if it raises."""

    @wraps(method)
    def checked(self: _S, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        checkpoint = self.checkpoint()
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.rollback(checkpoint)
            raise

    return cast("Callable[Concatenate[_S, _P], _R]", checked)


class BlockState:
    """The values and operators of a block, and those of the program that regions share.

    location: the text of an MLIR location, such as `loc("net.py":3:1)`, that operators get from now on.
    """

    def __init__(self, name: str) -> None:
        self.location = ""
        # The names of blocks are those that programs read from MLIR have.
        self._block = Block("main")
        self._inference = Inference(TypeTable(), self._path)
        self._regions = [Region(arguments.text("Builder() argument name", name), [self._block])]
        self._region = name
        #: Whether the function that builds this region has returned.
        self._is_finished = False
        self._variables: dict[str, Tensor] = {}
        #: Variable -> the tensor that stands for it in this block.
        self._tensor_of: dict[str, str] = {}
        #: The last number tried for each name.
        self._numbers: dict[str, int] = {}
        self._zeros: dict[DType, Value] = {}
        self._shapes: dict[tuple[int, ...], Value] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._block!r})"

    # -- adding ----------------------------------------------------------------------------------

    def _append(self, operator: Operator) -> None:
        """Add an operator whose results are declared."""
        if self._is_finished:
            raise fail(
                "malformed-structure",
                self._where(),
                "the region is finished: its function has returned",
                "use the builder of a region only inside of the function that gets it",
            )
        operator.location = self.location or UNKNOWN_LOCATION
        self._block.operators.append(operator)

    def _declare(self, tensor: Tensor) -> Value:
        """Add a tensor that a user describes. Its type must be sound."""
        findings, where = Findings(), f"{self._where()} tensor {quoted(tensor.name)}"
        for code, message, hint in tensor_problems(tensor.name, tensor):
            findings.add(code, where, message, hint)
        if 0 in (tensor.shape or ()):
            message = f"its shape is {list(tensor.shape or ())}: no tensor is empty"
            findings.add("unsupported-shape", where, message, "sizes are 1 or more")
        findings.raise_if_any()
        self._block.tensors[tensor.name] = tensor
        return Value(
            tensor.name, self._inference.table.of_tensor(tensor, with_data=True), self._block
        )

    def _value(self, name: str, type_: ValueType) -> Value:
        """Add a value of a type without data."""
        value = new_value(name, type_)
        if isinstance(value, Tensor):
            self._block.tensors[name] = value
        else:
            self._block.shapes[name] = value
        return Value(name, type_, self._block)

    def _add(
        self, draft: Operator, types: Sequence[ValueType], names: Sequence[str]
    ) -> tuple[Value, ...]:
        """Add an operator with results of these types."""
        kind = draft.spec.name.lower()
        if names and len(names) != len(types):
            raise TypeError(f"{kind}(): found {len(names)} names, expected {len(types)}")
        chosen: list[str] = []
        for name in names or [""] * len(types):
            chosen.append(self._name(name, kind, chosen))
        self._append(replace(draft, outputs=tuple(chosen)))
        return tuple(map(self._value, chosen, types))

    def _constant(self, array: npt.NDArray[Any], element: DType) -> Constant:
        try:
            return constant_of(array, element)
        except ValueError as error:
            raise fail("value-out-of-range", self._where(), str(error)) from None

    def _own_type(self, data: Data, array: npt.NDArray[Any]) -> DType:
        """Return the element type of data that comes without one."""
        element = dtype_of_array(array)
        is_array = isinstance(data, (np.ndarray, np.generic))
        if element is not None and (is_array or array.dtype == np.bool_):
            return element
        found = f"the data has the element type {array.dtype}, which TOSA does not have"
        raise fail(
            "unsupported-dtype",
            self._where(),
            found if is_array else "numbers do not say their element type",
            "pass dtype=, as in const(data, dtype='fp32')",
        )

    @property
    def block(self) -> Block:
        """Return the block as far as it is built, to be looked at."""
        return self._block

    @property
    def last_operator(self) -> Operator:
        """Return the operator that was added last, constants included.

        Raises:
            IndexError: There is none.
        """
        return self._block.operators[-1]

    # -- undoing ---------------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        """Return a point to go back to with `rollback`."""
        return Checkpoint(tuple(map(len, self._growing())), dict(self._numbers))

    def _growing(self) -> tuple[list[Any] | dict[str, Any], ...]:
        """Return what methods add to, at the end."""
        block = self._block
        lists = block.operators, block.inputs, block.outputs, self._regions
        return (*lists, block.tensors, block.shapes, self._variables)

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Remove what was added since a checkpoint was made. Values that are gone are not used again.

        Example:
            >>> from tosa_convert.builder import Builder
            >>> b = Builder()
            >>> x = b.input("x", "fp32", (4,))
            >>> before = b.checkpoint()
            >>> b.abs(b.exp(x))
            Value(abs: FP32 [4])
            >>> b.rollback(before)
            >>> b
            Builder(Block("main", 0 operators, (x: FP32 [4]) -> ()))
        """
        block = self._block
        for values, count in zip(self._growing(), checkpoint.counts, strict=True):
            if isinstance(values, list):
                del values[count:]
                continue
            while len(values) > count:
                values.popitem()
        self._numbers = dict(checkpoint.numbers)
        self._zeros = {key: v for key, v in self._zeros.items() if v.name in block.tensors}
        self._shapes = {key: v for key, v in self._shapes.items() if v.name in block.shapes}
        self._tensor_of = {key: v for key, v in self._tensor_of.items() if v in block.tensors}

    # -- names and errors ------------------------------------------------------------------------

    def _name(self, wanted: str, kind: str, reserved: Sequence[str] = ()) -> str:
        """Return the wanted name, or one for a kind of value that is not taken.

        reserved: names to avoid.
        """
        if wanted:
            self._refuse_taken(wanted, reserved)
            return wanted
        return unused_name(kind, _Names(self._block, reserved), numbers=self._numbers)

    def _refuse_taken(self, name: str, reserved: Sequence[str] = ()) -> None:
        if name in _Names(self._block, reserved):
            raise fail(
                "duplicate-name",
                self._where(),
                f"there is a value {quoted(name)} already",
                "pass another name",
            )

    def _rename(self, names: Mapping[str, str]) -> None:
        """Give values other names, wherever they are used."""
        block = self._block

        def renamed(given: Sequence[str]) -> tuple[str, ...]:
            return tuple(names.get(name, name) for name in given)

        for position, made in enumerate(block.operators):
            if not names.keys().isdisjoint((*made.inputs, *made.outputs)):
                block.operators[position] = replace(
                    made, inputs=renamed(made.inputs), outputs=renamed(made.outputs)
                )
        for values in (block.tensors, block.shapes):
            if not names.keys().isdisjoint(values):
                same_order: dict[str, Any] = {
                    names.get(name, name): replace(value, name=names[name])
                    if name in names
                    else value
                    for name, value in values.items()
                }
                values.clear()
                values.update(same_order)

    def _where(self) -> str:
        return block_path(self._region, self._block.name)

    def _path(self, draft: Operator) -> str:
        return operator_path(self._where(), len(self._block.operators), draft)

    def _refuse_foreign(self, value: Value) -> None:
        block = self._block
        if value.block is block:
            if value.name in block.tensors or value.name in block.shapes:
                return
            raise fail(
                "undefined-name",
                self._where(),
                f"{value} is not in the program: rollback() or an error has removed it",
                "make it again",
            )
        raise fail(
            "captured-value",
            self._where(),
            f"{value} belongs to another block",
            "a region uses only its arguments and values of its own builder: pass the value "
            "as an operand",
        )


class _Names(Container[str]):
    """The names that a block's values have, and some more."""

    def __init__(self, block: Block, reserved: Sequence[str]) -> None:
        self.block = block
        self.reserved = reserved

    def __contains__(self, name: object) -> bool:
        block = self.block
        return name in block.tensors or name in block.shapes or name in self.reserved
