"""Leaves nodes that do not lower to the caller: what they give becomes arguments of the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import helper

from tosa_convert.builder.values import Value as ProgramValue
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, carrier
from tosa_convert.frontends.onnx.node import Item
from tosa_convert.frontends.process.request import Cut, CutOperator, Interface, Operand, Value
from tosa_convert.records import replace

_NO_TENSOR: Final = "it takes something else than tensors"
_NO_SIZES: Final = "the sizes of what it gives are not known"


def cutter_of(model: Any) -> Cutter:
    """Return what cuts nodes out of a model whose types onnx inferred."""
    types = {}
    for info in (*model.graph.value_info, *model.graph.output):
        tensor = info.type.tensor_type
        sizes = tuple(dim.dim_value for dim in tensor.shape.dim)
        is_known = tensor.HasField("shape") and all(sizes)
        if is_known and tensor.elem_type != onnx.TensorProto.STRING:
            types[info.name] = helper.tensor_dtype_to_np_dtype(tensor.elem_type), sizes
    return Cutter(types)


class Cutter:
    """Cuts nodes out of the main graph of a model.

    types: value of the model -> its element type and its sizes, where these are known.
    """

    def __init__(self, types: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
        self.types = types
        self.operators: list[CutOperator] = []
        self._given: list[Sequence[Item | None]] = []
        self._count = 0

    def cut(
        self, scope: Scope, node: Any, given: Sequence[Item | None], row: CutOperator
    ) -> list[Array]:
        """Return stand-ins for the results of a node. row: what is known of it.

        Raises NotLowered if that is not possible.
        """
        if any(item is not None and not isinstance(item, Array) for item in given):
            raise NotLowered(_NO_TENSOR)
        names = [name for name in node.output if name]
        if any(name not in self.types for name in names):
            raise NotLowered(_NO_SIZES)
        made = []
        for number, name in enumerate(names):
            dtype, shape = self.types[name]
            label = f"{row.operator}.{len(self.operators)}"
            label = label if len(names) == 1 else f"{label}.{number}"
            made.append(
                Array(dtype, shape, None, scope.builder.input(label, carrier(dtype), shape))
            )
        self.operators.append(row)
        self._given.append(given)
        return made

    def results(
        self, scope: Scope, outputs: Sequence[ProgramValue], inputs: int
    ) -> list[ProgramValue]:
        """Return what the program returns: the outputs of the model, and what is cut out takes.

        inputs: how many inputs the model has.
        """
        returned = list(outputs)
        first = inputs
        for number, (row, given) in enumerate(zip(self.operators, self._given, strict=True)):
            operands = []
            for item in given:
                if not isinstance(item, Array):
                    operands.append(Operand())
                    continue
                value = scope.whole(item)
                if all(value is not other for other in returned):
                    returned.append(value)
                at = next(k for k, other in enumerate(returned) if other is value)
                operands.append(Operand(place=at))
            count = len(row.results)
            results = tuple(range(first, first + count))
            first += count
            self.operators[number] = replace(row, operands=tuple(operands), results=results)
        self._count = len(returned)
        return returned

    def add_to(self, interface: Interface) -> None:
        """Say in the interface of the program what was cut out of it."""
        if not self.operators:
            return
        inputs, outputs = len(interface.inputs), len(interface.outputs)
        for number, one in enumerate(self.operators):
            label = f"{one.operator}.{number}"
            count = len(one.results)
            names = [label] if count == 1 else [f"{label}.{n}" for n in range(count)]
            interface.inputs += [Value(name=name) for name in names]
        interface.outputs += [
            Value(name=f"operand.{number}") for number in range(self._count - outputs)
        ]
        interface.cut = Cut(
            inputs=inputs, outputs=tuple(range(outputs)), operators=tuple(self.operators)
        )
