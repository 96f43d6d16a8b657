"""Calls of functions: the operators of the called function take their place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.mlir.bytecode.attributes import SymbolAttr, TensorType, Type
from tosa_convert.formats.mlir.bytecode.operations import Operation
from tosa_convert.formats.mlir.read.select_function import signature_of
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import Operator
from tosa_convert.records import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tosa_convert.formats.mlir.read.operator import OperatorReader
    from tosa_convert.formats.mlir.read.scope import Scope
    from tosa_convert.graph.model import Graph, Region

CALL: Final = "func.call"
#: The deepest nesting of calls, and how many calls a module may have and operators they may become.
_DEEPEST, _MOST_CALLS, _MOST_OPERATORS = 64, 1 << 12, 1 << 20
_BY_PASS: Final = "run MLIR's pass `inline` before exporting"


@dataclass(slots=True, eq=False, repr=False)
class Calls:
    """The calls that are being inlined.

    functions: those of the module with a body, by their names. active: those that are being read.
    number: of calls so far. operators: how many they have become. numbers: behind the names of values.
    """

    functions: dict[str, Operation]
    active: list[str] = field(default_factory=list)
    number: int = 0
    operators: int = 0
    numbers: dict[str, int] = field(default_factory=dict)


def inlined(
    calls: Calls,
    reader: OperatorReader,
    scope: Scope,
    operation: Operation,
    operands: list[str],
    read: Callable[[Operation], Graph],
) -> tuple[list[Operator], list[Region]]:
    """Return the operators of the function that a call names, and the regions that they run.

    The call's results get their names. A call that cannot be inlined is a finding, and its results count
    as defined.

    operands: the names of the call's. read: reads a function; its values get names of their own.
    """
    scope.values.update((operation.first + index, "") for index in range(len(operation.types)))
    attribute = reader.bytecode.dictionary(operation.attributes).get("callee", -1)
    symbol = reader.bytecode.attribute(attribute) if attribute >= 0 else None
    name = symbol.name.decode("utf-8", "replace") if isinstance(symbol, SymbolAttr) else ""
    problem = _problem(calls, reader, scope, operation, operands, name)
    if problem:
        reader.report.add(
            operation, "foreign-operator", f"'{CALL}' of @{name}: {problem}", _BY_PASS
        )
        return [], []
    calls.active.append(name)
    try:
        graph = read(calls.functions[name])
    except TosaConvertError as error:
        reader.report.findings.extend(error.findings)
        return [], []
    finally:
        calls.active.pop()
    return _spliced(calls, reader, scope, operation, operands, graph), graph.regions[1:]


def _problem(
    calls: Calls,
    reader: OperatorReader,
    scope: Scope,
    operation: Operation,
    operands: list[str],
    name: str,
) -> str:
    """Return why a call cannot be inlined, or ""."""
    function = calls.functions.get(name)
    if function is None:
        return "the module has no function of this name with a body"
    if name in calls.active:
        return "it calls itself"
    calls.number += 1
    if (
        len(calls.active) >= _DEEPEST
        or calls.number > _MOST_CALLS
        or calls.operators > _MOST_OPERATORS
    ):
        return f"calls are nested more than {_DEEPEST} deep, or become too many operators"
    blocks = len(function.regions[0].blocks)
    if blocks != 1:
        return f"it has {blocks} blocks, expected 1"
    bytecode = reader.bytecode
    signature = signature_of(bytecode, function)
    given = tuple(map(bytecode.type, operation.types))
    if (
        signature is None
        or signature.results != given
        or len(signature.inputs) != len(operands)
        or not all(
            map(partial(_fits, reader, scope), signature.inputs, operation.operands, operands)
        )
    ):
        return "its type is not that of the call"
    return ""


def _fits(reader: OperatorReader, scope: Scope, wanted: Type, value: int, name: str) -> bool:
    """Return whether an operand has the type of an argument, or from outside the block its elements."""
    (number,) = scope.item.body.types_of([value])
    if number >= 0:
        return reader.bytecode.type(number) == wanted
    tensor = scope.tensors.get(name)
    if tensor is None or not isinstance(wanted, TensorType):
        return not name
    return reader.types.tensor(wanted).dtype is tensor.dtype


def _spliced(
    calls: Calls,
    reader: OperatorReader,
    scope: Scope,
    operation: Operation,
    operands: list[str],
    graph: Graph,
) -> list[Operator]:
    """Add the values of a called function to the block that calls it, and return its operators."""
    block = graph.main
    variables = {tensor.name for tensor in reader.variables.values()}
    new = dict(zip(block.inputs, operands, strict=True)) | {name: name for name in variables}
    for index, name in enumerate(block.outputs, operation.first):
        if name not in new and index in scope.names:
            new[name] = scope.names[index]
    taken = scope.taken.union(scope.tensors, scope.shapes)
    for name in (*block.tensors, *block.shapes):
        if name not in new:
            new[name] = unused_name(name, taken, numbers=calls.numbers)
            scope.taken.add(new[name])
    given = variables.union(block.inputs)
    for name, tensor in block.tensors.items():
        if name not in given:
            scope.tensors[new[name]] = replace(tensor, name=new[name])
    for name, shape in block.shapes.items():
        scope.shapes[new[name]] = replace(shape, name=new[name])
    for index, name in enumerate(block.outputs):
        scope.values[operation.first + index] = new[name]
        if reader.types(operation.types[index]).unsigned:
            scope.unsigned.add(new[name])
    calls.operators += len(block.operators)
    return [
        replace(
            op,
            inputs=tuple(new[name] for name in op.inputs),
            outputs=tuple(new[name] for name in op.outputs),
        )
        for op in block.operators
    ]
