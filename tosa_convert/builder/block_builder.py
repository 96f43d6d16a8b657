"""Adds values and operators to a block."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tosa_convert.builder import values as arguments
from tosa_convert.builder.infer_results import Inference, new_value
from tosa_convert.builder.values import Data, DTypeLike, Value, dtype_of
from tosa_convert.errors import Findings, fail
from tosa_convert.graph.constant import Constant, constant_of, dtype_of_array
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import BLOCK_SCALE, INT64, BlockShape, DType
from tosa_convert.graph.model import (
    UNKNOWN_LOCATION,
    Block,
    BlockScale,
    Operator,
    Region,
    ShapeValue,
    Tensor,
    block_path,
    operator_path,
    quoted,
)
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    VARIABLE,
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeValue,
    OperatorSpec,
    operator,
)
from tosa_convert.graph.verify_values import tensor_problems
from tosa_convert.rules.operator_view import TypeTable, ValueType
from tosa_convert.rules.types import Element

# -- the state of a block that is being built: its values, their names, and errors about them ------

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
        value = new_value(name, type_)
        if isinstance(value, Tensor):
            self._block.tensors[name] = value
        else:
            self._block.shapes[name] = value
        return Value(name, type_, self._block)

    def _add(
        self, draft: Operator, types: Sequence[ValueType], names: Sequence[str]
    ) -> tuple[Value, ...]:
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
        """Return the wanted name, or one for a kind of value that is not taken."""
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


_SHAPE_32: Final = BlockShape.BLOCK_SHAPE_32
#: Operators that `apply` does not add -> the method that does.
_METHODS: Final = {
    CONST: "const",
    CONST_SHAPE: "const_shape",
    VARIABLE: "variable",
    VARIABLE_READ: "read",
    VARIABLE_WRITE: "write",
    operator("COND_IF"): "cond_if",
    operator("WHILE_LOOP"): "while_loop",
    operator("CUSTOM"): "custom",
}


class BlockBuilder(BlockState):
    """Adds values and operators to a block."""

    # -- values ----------------------------------------------------------------------------------

    @all_or_nothing
    def input(
        self, name: str, dtype: DTypeLike, shape: Sequence[int] | None, *, scaled: bool = False
    ) -> Value:
        """Add an input to the program.

        Args:
            name: Its name.
            dtype: Its element type.
            shape: Its sizes in elements, -1 where unknown; None for an unknown rank.
            scaled: Whether it is block-scaled: blocks of 32 elements share a scale.

        Raises:
            TosaConvertError: "duplicate-name", "unsupported-dtype", "unsupported-shape";
                "malformed-tensor" for a block-scaled tensor that is not a whole number of blocks.

        Example:
            >>> from tosa_convert.builder import Builder
            >>> Builder().input("image", "int8", (1, 28, 28, 1))
            Value(image: INT8 [1, 28, 28, 1])
        """
        if not arguments.text("input() argument name", name):
            raise arguments.wrong("input() argument name", name, "a name of at least one character")
        self._refuse_taken(name)
        sizes = arguments.shape("input() argument shape", shape)
        value = self._declare(Tensor(name, dtype_of(dtype), sizes, scale=_scale(scaled)))
        self._block.inputs.append(name)
        return value

    @all_or_nothing
    def const(
        self,
        data: Data,
        dtype: DTypeLike | None = None,
        *,
        scales: Data | None = None,
        name: str = "",
    ) -> Value:
        """Add a constant tensor.

        Args:
            data: Its elements, in its shape; codes from -128 to 127 for MXINT8. Floating-point numbers
                are rounded. A read-only array is not copied.
            dtype: Its element type; by default that of the array.
            scales: The scales of a block-scaled tensor: one for 32 elements of the last dimension.
            name: Its name; by default a name that is not taken.

        Raises:
            TosaConvertError: "unsupported-dtype" for numbers, or an array, whose type is not one of
                TOSA's; "value-out-of-range" for elements that do not fit; "duplicate-name";
                "data-length" for a wrong number of scales.

        Example:
            >>> import numpy as np
            >>> from tosa_convert.builder import Builder
            >>> b = Builder()
            >>> b.const(np.ones((2, 3), np.float32)), b.const([[0.5, 1]], "bf16", name="half")
            (Value(const: FP32 [2, 3]), Value(half: BF16 [1, 2]))
        """
        array = arguments.array("const() argument data", data)
        element = dtype_of(dtype) if dtype is not None else self._own_type(data, array)
        if array is data and array.flags.writeable and array.dtype == element.numpy:
            array = array.copy()
        tensor = Tensor("", element, array.shape, self._constant(array, element))
        if scales is not None:
            numbers = arguments.array("const() argument scales", scales)
            own = self._constant(numbers, BLOCK_SCALE)
            # A reader counts the bytes of scales: `tosa-opt` refuses padded ones.
            own.padding = 0
            tensor.scale = BlockScale(BLOCK_SCALE, _SHAPE_32, own)
        tensor.name = self._name(arguments.text("const() argument name", name), "const")
        value = self._declare(tensor)
        if scales is not None:
            self._check_scales(tensor, numbers.shape)
        self._append(Operator(CONST, (), (tensor.name,)))
        return value

    def const_shape(self, sizes: Sequence[int], *, name: str = "") -> Value:
        """Return a constant of type !tosa.shape. Equal shapes without a name of their own are one value.

        Args:
            sizes: Its values.
            name: Its name; by default a name that is not taken.

        Raises:
            TosaConvertError: "duplicate-name".

        Example:
            >>> from tosa_convert.builder import Builder
            >>> b = Builder()
            >>> b.const_shape((2, 3)), b.const_shape((2, 3)).name
            (Value(shape: shape [2, 3]), 'shape')
        """
        key = arguments.integers("const_shape() argument sizes", sizes)
        if not name and key in self._shapes:
            return self._shapes[key]
        chosen = self._name(arguments.text("const_shape() argument name", name), "shape")
        data = self._constant(np.array(key or (), object), INT64)
        self._block.shapes[chosen] = ShapeValue(chosen, len(key), data)
        self._append(Operator(CONST_SHAPE, (), (chosen,)))
        value = Value(chosen, self._inference.table.shape(key), self._block)
        if not name:
            self._shapes[key] = value
        return value

    def output(self, *values: Value, name: str | Sequence[str] = "") -> None:
        """Add results of the program, in order.

        Args:
            values: What the program returns.
            name: Their names, if they get new ones. An input keeps its name.

        Raises:
            TosaConvertError: "duplicate-name"; "captured-value" for a value of another block.

        Example:
            >>> from tosa_convert.builder import Builder
            >>> b = Builder()
            >>> x = b.input("x", "fp32", (4,))
            >>> b.output(b.exp(x), b.abs(x), name=("y", "z"))
            >>> b.graph()
            Graph(TOSA 1.0.0, 1 region, 2 operators, (x: FP32 [4]) -> (y: FP32 [4], z: FP32 [4]))
        """
        wanted = arguments.names("output() argument name", name) or ("",) * len(values)
        if len(wanted) != len(values):
            raise TypeError(f"output(): found {len(wanted)} names, expected {len(values)}")
        renamed: dict[str, str] = {}
        for value, new in zip(values, wanted, strict=True):
            self._refuse_foreign(arguments.value("output() argument", value))
            if not new or new == value.name:
                continue
            if new in renamed.values():
                raise fail(
                    "duplicate-name", self._where(), f"two outputs have the name {quoted(new)}"
                )
            self._refuse_taken(new)
            if value.name in (*self._block.inputs, *self._block.outputs, *renamed):
                raise fail(
                    "duplicate-name",
                    self._where(),
                    f"{quoted(value.name)} is an input or an output already, and keeps its name",
                    f"return a copy: output(identity(value), name={new!r})",
                )
            renamed[value.name] = new
        if renamed:
            self._rename(renamed)
        for value in values:
            value.name = renamed.get(value.name, value.name)
            self._block.outputs.append(value.name)

    # -- operators -------------------------------------------------------------------------------

    def apply(
        self,
        spec: OperatorSpec,
        operands: Sequence[Value],
        attributes: dict[str, AttributeValue],
        dtypes: Sequence[Element] = (),
        names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Add an operator by its row, for programs that choose operators by their names.

        Args:
            spec: The operator's row; not one that has regions, or a constant or variable.
            operands: Its operands, in the order of the row.
            attributes: All of its attributes. `acc_type` can be left out if types determine it.
            dtypes: The element types of its first results, where its operands leave a choice; those of
                a block-scaled result with FP8UE8M0, as (FP8E4M3, FP8UE8M0).
            names: The names of its results; by default names that are not taken.

        Returns:
            Its results.

        Raises:
            TosaConvertError: "invalid-operator" with a finding for each rule that is broken;
                "malformed-operator" for a wrong number of operands or a wrong attribute.

        Example:
            >>> from tosa_convert.builder import Builder
            >>> from tosa_convert.graph import operator
            >>> b = Builder()
            >>> x = b.input("x", "fp32", (2, 3))
            >>> b.apply(operator("REDUCE_SUM"), [x], {"axis": 1})
            (Value(reduce_sum: FP32 [2, 1]),)
        """
        if spec in _METHODS:
            raise TypeError(f"apply() does not add {spec.name}: use {_METHODS[spec]}()")
        for value in operands:
            self._refuse_foreign(arguments.value("apply() argument operands", value))
        draft = Operator(spec, tuple(value.name for value in operands), (), attributes)
        self._inference.check_form(draft, [value.type for value in operands])
        return self._apply(spec, operands, attributes, dtypes, names)

    # -- inside ----------------------------------------------------------------------------------

    def _apply(
        self,
        spec: OperatorSpec,
        operands: Sequence[Value],
        attributes: dict[str, AttributeValue],
        dtypes: Sequence[Element] = (),
        names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """See `apply`. The operands and attributes are those of the row."""
        for value in operands:
            self._refuse_foreign(value)
        draft = Operator(spec, tuple(value.name for value in operands), (), dict(attributes))
        inferred = self._inference.results(draft, [value.type for value in operands], dtypes)
        draft.attributes.update(inferred.attributes)
        return self._add(draft, inferred.types, names)

    def _zero(self, element: DType) -> Value:
        value = self._zeros.get(element)
        if value is None:
            name = self._name("", "zero")
            value = self._zeros[element] = self.const([0], element, name=name)
        return value

    def _check_scales(self, tensor: Tensor, scales: tuple[int, ...]) -> None:
        """Refuse scales of a wrong shape, of which `verify` checks only the number."""
        shape = tensor.shape or ()
        expected = (*shape[:-1], shape[-1] // int(_SHAPE_32)) if shape else ()
        if scales != expected:
            raise fail(
                "data-length",
                self._where(),
                f"the scales have the shape {list(scales)}, expected {list(expected)}",
                f"one scale for {int(_SHAPE_32)} elements of the last dimension",
            )


def _scale(scaled: bool) -> BlockScale | None:
    return BlockScale(BLOCK_SCALE, _SHAPE_32) if scaled else None
