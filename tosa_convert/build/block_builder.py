"""A block that is being built: its values, and operators added by their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from tosa_convert.build.values import Data, DTypeLike, Value, dtype_of
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.graph.dtypes import BLOCK_SCALE, INT64, BlockShape, DType, dtype
from tosa_convert.graph.from_numpy import constant_of, dtype_of_array
from tosa_convert.graph.model import (
    Block,
    BlockScale,
    Operator,
    ShapeValue,
    Tensor,
    block_path,
    operator_path,
    quoted,
)
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, AttributeValue, OperatorSpec
from tosa_convert.spec.operator_view import OperatorView
from tosa_convert.spec.rules.core import Violation
from tosa_convert.spec.types import Element, TypeRow, mismatch, rows_for
from tosa_convert.spec.validate import finding
from tosa_convert.spec.values import ShapeType, TypeTable, ValueType
from tosa_convert.spec.verdict import element_of, judge

_BOOL: Final = dtype("BOOL")


class BlockBuilder:
    """Adds values and operators to a block."""

    def __init__(self, name: str, table: TypeTable | None = None) -> None:
        self._block = Block(name)
        self._table = table or TypeTable()
        #: The last number tried for each name.
        self._numbers: dict[str, int] = {}
        self._zeros: dict[DType, Value] = {}
        self._shapes: dict[tuple[int, ...], Value] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._block!r})"

    # -- values ----------------------------------------------------------------------------------

    def input(
        self, name: str, dtype: DTypeLike, shape: Sequence[int] | None, *, scaled: bool = False
    ) -> Value:
        """A new input of the program.

        Args:
            name: Its name.
            dtype: Its element type.
            shape: Its sizes in elements, -1 where unknown; None for an unknown rank.
            scaled: Whether it is block-scaled: blocks of 32 elements share a scale.

        Raises:
            TosaConvertError: "duplicate-name", "unsupported-dtype".
        """
        self._refuse_taken(name)
        sizes = None if shape is None else tuple(map(int, shape))
        value = self._tensor(name, Tensor(name, dtype_of(dtype), sizes, scale=_scale(scaled)))
        self._block.inputs.append(name)
        return value

    def const(
        self,
        data: Data,
        dtype: DTypeLike | None = None,
        *,
        scales: npt.NDArray[Any] | None = None,
        name: str = "",
    ) -> Value:
        """A constant tensor.

        Args:
            data: Its elements, in its shape.
            dtype: Its element type; by default that of the array.
            scales: The scales of a block-scaled tensor: one for 32 elements of the last dimension.
            name: Its name; by default a name that is not taken.

        Raises:
            TosaConvertError: "unsupported-dtype" for an array whose type TOSA does not have,
                "value-out-of-range" for elements that do not fit.
        """
        array = np.asarray(data)
        element = dtype_of_array(array) if dtype is None else dtype_of(dtype)
        if element is None:
            raise fail(
                "unsupported-dtype",
                self._where(),
                f"the data has the element type {array.dtype}, which TOSA does not have",
                "pass dtype=, such as dtype='fp32'",
            )
        tensor = Tensor("", element, array.shape, self._constant(array, element))
        if scales is not None:
            data_ = self._constant(np.asarray(scales), BLOCK_SCALE)
            tensor.scale = BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32, data_)
        tensor.name = self._name(name, "const")
        value = self._tensor(tensor.name, tensor)
        self._block.operators.append(Operator(CONST, (), (tensor.name,)))
        return value

    def const_shape(self, sizes: Sequence[int], *, name: str = "") -> Value:
        """A constant of type !tosa.shape. Equal shapes without a name of their own are one value."""
        key = tuple(map(int, sizes))
        if not name and key in self._shapes:
            return self._shapes[key]
        chosen = self._name(name, "shape")
        data = constant_of(np.array(key, np.int64), INT64)
        self._block.shapes[chosen] = ShapeValue(chosen, len(key), data)
        self._block.operators.append(Operator(CONST_SHAPE, (), (chosen,)))
        value = Value(chosen, self._table.shape(key), self._block)
        if not name:
            self._shapes[key] = value
        return value

    def output(self, *values: Value, name: str | Sequence[str] = "") -> None:
        """Add results of the program, in order. name: their names, if they get new ones."""
        names = (name,) if isinstance(name, str) else tuple(name)
        for value, wanted in zip(values, names if any(names) else ("",) * len(values), strict=True):
            self._refuse_foreign(value)
            if wanted and wanted != value.name:
                self._refuse_taken(wanted)
                self._rename(value, wanted)
            self._block.outputs.append(value.name)

    # -- operators -------------------------------------------------------------------------------

    def apply(
        self,
        spec: OperatorSpec,
        operands: Sequence[Value],
        attributes: dict[str, AttributeValue],
        dtypes: Sequence[DType] = (),
        names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Add an operator by its row.

        Args:
            spec: The operator's row.
            operands: Its operands, in the order of the row.
            attributes: All of its attributes.
            dtypes: The element types of its results, where its operands leave a choice.
            names: The names of its results; by default names that are not taken.

        Returns:
            Its results.

        Raises:
            TosaConvertError: "invalid-operator" with a finding for each rule that is broken.
        """
        for value in operands:
            self._refuse_foreign(value)
        inputs = tuple(value.type for value in operands)
        draft = Operator(spec, tuple(value.name for value in operands), (), attributes)
        verdict = judge(OperatorView(draft, inputs, ()))
        if verdict.violations or verdict.results is None:
            self._refuse(draft, verdict.violations)
        elements = self._result_elements(draft, inputs, dtypes, len(verdict.results))
        types: list[ValueType] = []
        for element, shape in zip(elements, verdict.results, strict=True):
            if element is None:
                types.append(self._table.shape(shape or ()))
            else:
                sizes = None if shape is None else tuple(-1 if n is None else n for n in shape)
                kind, scale = element if isinstance(element, tuple) else (element, None)
                block = None if scale is None else (scale, BlockShape.BLOCK_SHAPE_32)
                types.append(self._table.tensor(kind, sizes, block))
        return self._add(draft, types, names)

    # -- inside ----------------------------------------------------------------------------------

    def _tensor(self, name: str, tensor: Tensor) -> Value:
        self._block.tensors[name] = tensor
        return Value(name, self._table.of_tensor(tensor, with_data=True), self._block)

    def _constant(self, array: npt.NDArray[Any], element: DType) -> Any:
        try:
            return constant_of(array, element)
        except ValueError as error:
            raise fail("value-out-of-range", self._where(), str(error)) from None

    def _operand(self, given: Value | Data, element: DType | None, rank: int | None) -> Value:
        """A tensor operand. element, rank: of the constant that numbers become."""
        if isinstance(given, Value):
            return given
        if isinstance(given, np.ndarray):
            return self.const(given)
        array = np.asarray(given)
        return self.const(array.reshape(array.shape or (1,) * (rank or 0)), element)

    def zero(self, element: DType) -> Value:
        """A constant of one element, 0."""
        value = self._zeros.get(element)
        if value is None:
            value = self._zeros[element] = self.const([0], element, name=self._name("", "zero"))
        return value

    def _result_elements(
        self, draft: Operator, inputs: Sequence[ValueType], dtypes: Sequence[DType], count: int
    ) -> list[Element]:
        """The types of an operator's results; completes its `acc_type`."""
        spec, elements = draft.spec, [element_of(type_) for type_ in inputs]
        rows = rows_for(spec, elements, draft.attributes)
        tensors = [i for i in range(count) if not spec.result(i, count).is_shape]
        if dtypes:
            wanted = tuple(dtypes)
            rows = [row for row in rows if tuple(map(_plain, row.results)) == wanted]
        if not rows:
            results: list[Element] = [None] * count
            likely = [_plain(element) or _BOOL for element in elements if element is not None]
            for index, kind in zip(tensors, dtypes or likely[:1] * len(tensors), strict=False):
                results[index] = kind
            wrong = mismatch(spec, elements, results, draft.attributes)
            assert wrong is not None
            self._refuse(draft, [Violation(wrong.rule, wrong.message, wrong.expected)])
        choices = {(row.results, row.attribute) for row in rows}
        if len(choices) > 1:
            self._refuse_choice(draft, rows)
        row = rows[0]
        if row.attribute is not None and row.attribute[0] not in draft.attributes:
            draft.attributes[row.attribute[0]] = dtype_of(row.attribute[1])
        found = iter(row.results)
        return [next(found) if index in tensors else None for index in range(count)]

    def _refuse_choice(self, draft: Operator, rows: Sequence[TypeRow]) -> None:
        results = " or ".join(dict.fromkeys(", ".join(map(str, row.results)) for row in rows))
        attributes = {row.attribute for row in rows if row.attribute is not None}
        hint = "pass dtype="
        if len({row.results for row in rows}) == 1:
            hint = f"pass {next(iter(attributes))[0]}=" if attributes else hint
        raise fail(
            "option-conflict",
            self._path(draft),
            f"its operands leave a choice of types: the result can be {results}",
            hint,
        )

    def _add(
        self, draft: Operator, types: Sequence[ValueType], names: Sequence[str]
    ) -> tuple[Value, ...]:
        """Add an operator with results of these types."""
        block = self._block
        wanted = tuple(names) or ("",) * len(types)
        values = []
        for type_, name in zip(types, wanted, strict=True):
            chosen = self._name(name, draft.spec.name.lower())
            if isinstance(type_, ShapeType):
                block.shapes[chosen] = ShapeValue(chosen, type_.rank)
                values.append(Value(chosen, type_, block))
            else:
                scale = None if type_.scale is None else BlockScale(*type_.scale)
                values.append(
                    self._tensor(chosen, Tensor(chosen, type_.dtype, type_.shape, scale=scale))
                )
        outputs = tuple(value.name for value in values)
        block.operators.append(replace(draft, outputs=outputs))
        return tuple(values)

    def forget_from(self, count: int) -> None:
        """Remove all operators but the first `count`, and their results."""
        block = self._block
        removed = {name for made in block.operators[count:] for name in made.outputs}
        del block.operators[count:]
        for name in removed:
            block.tensors.pop(name, None)
            block.shapes.pop(name, None)
        self._zeros = {key: v for key, v in self._zeros.items() if v.name not in removed}
        self._shapes = {key: v for key, v in self._shapes.items() if v.name not in removed}

    @property
    def count(self) -> int:
        """The number of operators so far."""
        return len(self._block.operators)

    # -- names and errors ------------------------------------------------------------------------

    def _name(self, wanted: str, kind: str) -> str:
        """The wanted name, or one for a kind of value that is not taken."""
        if wanted:
            self._refuse_taken(wanted)
            return wanted
        taken = _Names(self._block)
        return unused_name(kind, taken, numbers=self._numbers)

    def _refuse_taken(self, name: str) -> None:
        if name in _Names(self._block):
            raise fail("duplicate-name", self._where(), f"there is a value {quoted(name)} already")

    def _rename(self, value: Value, name: str) -> None:
        """Give a value another name, wherever it is used."""
        block, old = self._block, value.name

        def renamed(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(name if other == old else other for other in names)

        for index, made in enumerate(block.operators):
            if old in made.inputs or old in made.outputs:
                block.operators[index] = replace(
                    made, inputs=renamed(made.inputs), outputs=renamed(made.outputs)
                )
        block.inputs[:], block.outputs[:] = renamed(block.inputs), renamed(block.outputs)
        for values in (block.tensors, block.shapes):
            if old in values:
                values[name] = replace(values.pop(old), name=name)  # type: ignore[assignment]
        value.name = name

    def _where(self) -> str:
        return block_path(self._block.name, self._block.name)

    def _path(self, draft: Operator) -> str:
        return operator_path(self._where(), len(self._block.operators), draft)

    def _refuse_foreign(self, value: Value) -> None:
        if value.block is not self._block:
            raise fail(
                "captured-value",
                self._where(),
                f"{value} belongs to another block",
                "a region uses only its arguments: pass the value as an operand",
            )

    def _refuse(self, draft: Operator, violations: Sequence[Violation]) -> NoReturn:
        path = self._path(draft)
        raise TosaConvertError([finding(draft, path, violation) for violation in violations])


class _Names:
    """The names that a block's values have."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def __contains__(self, name: object) -> bool:
        return name in self.block.tensors or name in self.block.shapes


def names_of(name: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(name, str):
        return (name,) if name else ()
    return tuple(name)


def _scale(scaled: bool) -> BlockScale | None:
    return BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32) if scaled else None


def _plain(element: Element) -> DType | None:
    return element[0] if isinstance(element, tuple) else element
