"""Takes operators that do not lower out of a function of the torch dialect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from torch_mlir import ir
from torch_mlir.dialects import func as func_dialect

from tosa_convert.frontends.process.request import Cut, CutOperator, Interface, Operand, Value
from tosa_convert.frontends.torch.dialect import (
    TENSOR,
    NotLoweredError,
    Unlowered,
    is_part,
    lower_or_list,
    run_passes,
    unlowered_operations,
)
from tosa_convert.frontends.torch.unlowered_report import place
from tosa_convert.frontends.unlowered import advice
from tosa_convert.records import dataclass, field

#: Times that operators are cut out of one module: without some, others come to light.
_ROUNDS: Final = 4
_LISTS: Final = "torch.prim.ListConstruct"
_NO_LITERAL: Final = "it takes something else than tensors, numbers, texts and lists of these"
_NO_RESULT: Final = "it gives something else than tensors"
#: Attributes of an imported ONNX operator begin with this.
_OF_ONNX: Final = "torch.onnx."


@dataclass
class Cutter:
    """Cuts operators out of the only function of a module.

    module: set before anything is cut.
    shown: the row for a message, which may name the operator of another framework.
    operators: those that were cut out so far.
    """

    module: Any = None
    shown: Callable[[Unlowered], Unlowered] = lambda row: row
    operators: list[CutOperator] = field(default_factory=list)

    @property
    def function(self) -> Any:
        return self.module.body.operations[0].operation

    def lower(self, pipeline: str) -> None:
        """Run a pipeline that converts operators, without those that it does not convert."""
        for _ in range(_ROUNDS):
            try:
                lower_or_list(self.module, pipeline)
            except NotLoweredError as error:
                found = unlowered_operations(self.module, pipeline)
                if not found:
                    raise NotLoweredError(error.found) from None
                self.cut([(operation, self.shown(row)) for operation, row in found])
            else:
                return
        lower_or_list(self.module, pipeline)

    def run(self, pipeline: str, unknown: Callable[[Any], list[tuple[Any, Unlowered]]]) -> None:
        """Run a pipeline; if it fails, without the operations of the module that are `unknown`."""
        try:
            run_passes(self.module, pipeline)
        except ir.MLIRError:
            found = unknown(self.module)
            if not found:
                raise
            self.cut(found)
            run_passes(self.module, pipeline)

    def cut(self, found: list[tuple[Any, Unlowered]]) -> None:
        """Cut out operations. Raises NotLoweredError with those for which it is not possible."""
        stuck = [
            Unlowered(row.operator, row.location, f"{row.reason}; it cannot be cut out: {why}")
            for operation, row in found
            if (why := _why_stuck(operation))
        ]
        if stuck:
            raise NotLoweredError(Counter(stuck))
        block = self.function.regions[0].blocks[0]
        returned = list(_terminator(block).operands)
        for operation, row in found:
            results = range(len(block.arguments), len(block.arguments) + len(operation.results))
            operands = tuple(_operand(value, returned) for value in operation.operands)
            self.operators.append(
                CutOperator(
                    operator=row.operator,
                    where=place(row.location),
                    operands=operands,
                    results=tuple(results),
                    attributes=_attributes(operation),
                    reason=row.reason,
                    hint=advice("torch", row.operator),
                )
            )
            for result in list(operation.results):
                argument = block.add_argument(result.type, operation.location)
                result.replace_all_uses_with(argument)
                returned = [argument if value == result else value for value in returned]
        last = _terminator(block)
        with last.location, ir.InsertionPoint(last):
            func_dialect.ReturnOp(returned)
        last.erase()
        for operation, _ in reversed(found):
            operation.erase()
        types = [value.type for value in block.arguments], [value.type for value in returned]
        with self.module.context:
            kind = ir.FunctionType.get(*types)
            self.function.attributes["function_type"] = ir.TypeAttr.get(kind)

    def add_to(self, interface: Interface) -> None:
        """Say in the interface of the function what was cut out of it."""
        if not self.operators:
            return
        inputs, outputs = len(interface.inputs), len(interface.outputs)
        for number, one in enumerate(self.operators):
            label = f"{one.operator}.{number}"
            count = len(one.results)
            names = [label] if count == 1 else [f"{label}.{n}" for n in range(count)]
            interface.inputs += [Value(name=name) for name in names]
        block = self.function.regions[0].blocks[0]
        states = sum(state.result is not None for state in interface.states)
        more = len(_terminator(block).operands) - outputs - states
        interface.outputs += [Value(name=f"operand.{number}") for number in range(more)]
        interface.cut = Cut(
            inputs=inputs, outputs=tuple(range(outputs)), operators=tuple(self.operators)
        )


def _terminator(block: Any) -> Any:
    return block.operations[len(block.operations) - 1].operation


def _why_stuck(operation: Any) -> str:
    """Return why an operation cannot be cut out, or ""."""
    if len(operation.regions):
        return "it is control flow"
    if any(not str(result.type).startswith(TENSOR) for result in operation.results):
        return _NO_RESULT
    return "" if all(map(_is_understood, operation.operands)) else _NO_LITERAL


def _is_understood(value: Any) -> bool:
    if str(value.type).startswith(TENSOR):
        return True
    if isinstance(value.owner, ir.Block) or not is_part(value.owner.operation):
        return False
    owner = value.owner.operation
    if owner.name == _LISTS:
        return all(map(_is_understood, owner.operands))
    return owner.name == "torch.constant.none" or "value" in owner.attributes


def _operand(value: Any, returned: list[Any]) -> Operand:
    """Describe what an operation takes; make the function return its tensors."""
    if str(value.type).startswith(TENSOR):
        if value not in returned:
            returned.append(value)
        return Operand(place=returned.index(value))
    owner = value.owner.operation
    if owner.name == _LISTS:
        return Operand(items=tuple(_operand(one, returned) for one in owner.operands))
    if owner.name == "torch.constant.none":
        return Operand()
    return Operand(literal=_plain(owner.attributes["value"]))


def _attributes(operation: Any) -> dict[str, Any]:
    """Return the attributes that an ONNX operator has in its model."""
    return {
        name.removeprefix(_OF_ONNX): _plain(operation.attributes[name])
        for name in (getattr(one, "name", one) for one in operation.attributes)
        if name.startswith(_OF_ONNX)
    }


def _plain(attribute: Any) -> Any:
    """Return an attribute as a number, a text, or a list of these; others as MLIR's text."""
    if isinstance(attribute, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return attribute.value
    if isinstance(attribute, ir.ArrayAttr):
        return [_plain(one) for one in attribute]
    return str(attribute)
