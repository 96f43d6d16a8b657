"""Operations of other dialects that reading settles: calls of functions, and equations of shapes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.mlir.bytecode import operations as bytecode_operations
from tosa_convert.formats.mlir.bytecode.attributes import TensorType, Type
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Operation
from tosa_convert.formats.mlir.constants import ARITH_CONSTANT
from tosa_convert.formats.mlir.locations import plain_location
from tosa_convert.formats.mlir.names import RESULT_PREFIX
from tosa_convert.formats.mlir.read.operator import OperatorReader, symbol_of
from tosa_convert.formats.mlir.read.select_function import signature_of
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import DYNAMIC, Graph, Operator, ShapeValue
from tosa_convert.graph.opset import CONST_SHAPE, operator
from tosa_convert.rules.operator_view import shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tosa_convert.formats.mlir.read.scope import Scope
    from tosa_convert.graph.model import Region

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
    """Return operators and regions of a called function; a finding, if not. read: reads one."""
    scope.values.update((operation.first + index, "") for index in range(len(operation.types)))
    attributes = reader.bytecode.dictionary(operation.attributes)
    name = symbol_of(reader.bytecode, attributes.get("callee"))
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


# -- operations around TOSA that only say shapes, as passes of MLIR leave them ---------------------

_CAST: Final = "tensor.cast"
READ: Final = (_CAST, "tensor.collapse_shape", "tensor.expand_shape")
#: Dialects whose operations do nothing but compute their results.
_PURE: Final = frozenset({"arith", "index", "tensor"})
_RESHAPE: Final = operator("RESHAPE")


def dead_operations(bytecode: Bytecode, body: bytecode_operations.Block) -> set[int]:
    """Return the first results of operations, such as `tensor.dim`, that compute nothing of use."""
    names = bytecode.names
    pure = {index for index, name in enumerate(names) if name.partition(".")[0] in _PURE}
    dead: set[int] = set()
    if not pure:
        return dead
    constant = names.index(ARITH_CONSTANT) if ARITH_CONSTANT in names else -1
    of_shapes = {index for index in pure if names[index] in READ}
    used: set[int] = set()
    for fields in reversed(body.operations):
        name, _, _, types, operands, first, regions = fields
        if name in pure and types and used.isdisjoint(range(first, first + len(types))):
            if name != constant or not isinstance(bytecode.type(types[0]), TensorType):
                dead.add(first)
                continue
        # The sizes that `expand_shape` takes are those of its result.
        used.update(operands[:1] if name in of_shapes else operands)
        inner = [block for region in regions for block in region.blocks]
        while inner:
            for below in inner.pop().operations:
                used.update(below[4])
                inner += (block for region in below[6] for block in region.blocks)
    return dead


def equal_values(bytecode: Bytecode, body: bytecode_operations.Block) -> dict[int, int]:
    """Return the result of each `tensor.cast` of a block with the value that it casts."""
    equal: dict[int, int] = {}
    if _CAST in bytecode.names:
        number = bytecode.names.index(_CAST)
        for fields in body.operations:
            if fields[0] == number and len(fields[4]) == 1:
                equal[fields[5]] = equal.get(fields[4][0], fields[4][0])
    return equal


def read(
    reader: OperatorReader,
    scope: Scope,
    operation: Operation,
    source: str,
    location: str,
    generate: Callable[[str], str],
) -> list[Operator]:
    """Return the operators that an operation of `READ` with one result is, and name the result."""
    label = reader.name(operation)
    if label == _CAST:
        scope.values[operation.first] = source
        _refine(reader, scope, operation, source)
        return []
    result = scope.names.get(operation.first)
    result = result or generate(f"{RESULT_PREFIX}{reader.namer.results}")
    reader.namer.results += 1
    scope.values[operation.first] = result
    type_ = reader.types(operation.types[0])
    reader.value(operation, "result 0", result, type_, scope)
    shape = type_.shape
    if shape is None or shape.count(DYNAMIC) > 1:
        message = f"'{label}' has a result {shape_text(shape)}, and RESHAPE infers one size"
        hint = "give the inputs static shapes, and run the pass that infers the others"
        reader.report.add(operation, "unsupported-shape", message, hint)
        return []
    sizes = generate(f"{result}_shape")
    data = Constant(INT64, len(shape), np.array(shape, "<i8").view(np.uint8))
    scope.shapes[sizes] = ShapeValue(sizes, len(shape), data)
    return [
        Operator(CONST_SHAPE, (), (sizes,), {}, location),
        Operator(_RESHAPE, (source, sizes), (result,), {}, location),
    ]


def _refine(reader: OperatorReader, scope: Scope, operation: Operation, source: str) -> None:
    """Give a tensor the sizes that the type of a cast of it knows; both must agree."""
    tensor, wanted = scope.tensors.get(source), reader.types(operation.types[0])
    if tensor is None or wanted.problem:
        return
    known, said = tensor.shape, wanted.shape
    if wanted.dtype is tensor.dtype:
        if known is None or said is None:
            tensor.shape = said if known is None else known
            return
        if len(known) == len(said) and all(
            DYNAMIC in sizes or len(set(sizes)) == 1 for sizes in zip(known, said, strict=True)
        ):
            tensor.shape = tuple(map(max, known, said))
            return
    maker = next((item for item in scope.block.operators if source in item.outputs), None)
    where = plain_location(maker.location) if maker else "the block's argument"
    dtype = "another type" if wanted.dtype is None else wanted.dtype.name
    message = (
        f"'{_CAST}' says {dtype} {shape_text(said)}, and its operand "
        f"is {tensor.dtype.name} {shape_text(known)} by {where or 'its definition'}"
    )
    reader.report.add(operation, "unsupported-shape", message, "make the two types agree")
