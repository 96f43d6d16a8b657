"""Operations around TOSA that only say shapes, as passes of MLIR leave them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from tosa_convert.formats.mlir.bytecode import operations as bytecode_operations
from tosa_convert.formats.mlir.bytecode.attributes import TensorType
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Operation
from tosa_convert.formats.mlir.constants import ARITH_CONSTANT
from tosa_convert.formats.mlir.locations import plain_location
from tosa_convert.formats.mlir.names import RESULT_PREFIX
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import DYNAMIC, Graph, Operator, ShapeValue
from tosa_convert.graph.opset import CONST_SHAPE, operator
from tosa_convert.rules.values import shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tosa_convert.formats.mlir.read.operator import OperatorReader
    from tosa_convert.formats.mlir.read.scope import Scope
    from tosa_convert.formats.mlir.types import TypeReader

_CAST: Final = "tensor.cast"
#: Operations that are read.
READ: Final = (_CAST, "tensor.collapse_shape", "tensor.expand_shape")
#: Dialects whose operations do nothing but compute their results.
_PURE: Final = frozenset({"arith", "index", "tensor"})
_RESHAPE: Final = operator("RESHAPE")
#: The size "what remains" in the bytes of a constant shape.
_MINUS_ONE: Final = b"\xff" * 8


def dead_operations(bytecode: Bytecode, body: bytecode_operations.Block) -> set[int]:
    """Return the first results of operations that compute nothing for the program.

    Frontends and passes leave them: `tensor.dim`, `tensor.empty`, indices. Tensor constants stay.
    """
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
    """Return the operators that an operation of `READ` with one result is, and name the result.

    source: the name of its operand. generate: makes a name that is not taken.
    """
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


def leaves_sizes_open(graph: Graph, types: TypeReader) -> bool:
    """Return whether a type that was read, or a constant shape, leaves a size to be found."""
    read = [row for row in types.cache.values() if row.dtype is not None]
    if any(row.shape is None or DYNAMIC in row.shape for row in read):
        return True
    shapes = chain.from_iterable(block.shapes.values() for _, block in graph.blocks())
    data = {id(shape.data): shape.data for shape in shapes}
    return any(_MINUS_ONE in bytes(row.buffer) for row in data.values() if row is not None)
