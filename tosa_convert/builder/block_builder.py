"""Adds values and operators to a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tosa_convert.builder import arguments
from tosa_convert.builder.block_state import BlockState, all_or_nothing
from tosa_convert.builder.values import Data, DTypeLike, Value, dtype_of
from tosa_convert.errors import fail
from tosa_convert.graph.dtypes import BLOCK_SCALE, INT64, BlockShape, DType
from tosa_convert.graph.model import BlockScale, Operator, ShapeValue, Tensor, quoted
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
from tosa_convert.rules.types import Element

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
        """Return a constant of one element, 0."""
        value = self._zeros.get(element)
        if value is None:
            name = self._name("", "zero")
            value = self._zeros[element] = self.const([0], element, name=name)
        return value

    def _check_scales(self, tensor: Tensor, scales: tuple[int, ...]) -> None:
        """Refuse scales of a wrong shape for a block-scaled constant.

        `verify` looks only at their number.
        """
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
