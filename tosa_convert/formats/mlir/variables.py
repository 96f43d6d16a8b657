"""Variables: a module declares each once, and a graph lists them as tensors in every block."""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.mlir.bytecode.attributes import (
    DenseAttr,
    SymbolAttr,
    TensorType,
    TypeAttr,
)
from tosa_convert.formats.mlir.constants import ConstantReader
from tosa_convert.formats.mlir.locations import LocationReader, Report
from tosa_convert.formats.mlir.names import NAME_ATTRIBUTE, text_of
from tosa_convert.formats.mlir.types import TypeReader
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Tensor, operator_path
from tosa_convert.graph.opset import IDENTITY, VARIABLE

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode
    from tosa_convert.formats.mlir.bytecode.operations import Operation
    from tosa_convert.formats.mlir.read.scope import Narrowing


#: A global of IREE; what no operation writes is a constant.
_IREE_GLOBAL: Final = "util.global"
#: How attributes begin whose data is in another file, or given by the one who runs the program.
_ELSEWHERE: Final = ("#stream.parameter.named", "#flow.parameter.named", "#ml_program.extern")
#: A parameter of IREE: scope, if it has one, and key.
_PARAMETER: Final = re.compile(
    r'#(?:stream|flow)\.parameter\.named<(?:"[^"\\]*"::)?"([^"\\]*)"[^>]*>(?: : .*)?'
)
#: Bytes of a size in a variable's shape.
_INDEX_BYTES: Final = 8
#: Sizes of a variable: more are not of a shape.
_MAX_RANK: Final = 64


def read_variable(
    bytecode: Bytecode, number: int, narrowing: Narrowing, taken: Container[str], *, retain: bool
) -> tuple[Tensor | None, list[Finding]]:
    """Read the tensor of a variable or global, by its number in the module, or None and findings."""
    root = bytecode.root
    attributes = bytecode.dictionary(root.attributes)
    # Up to 2025-09 the symbol was in `name`, and up to 2025-04 the shape in the type.
    symbol = text_of(bytecode, attributes.get("sym_name", attributes.get("name"))) or ""
    report = Report(bytecode.names, LocationReader(bytecode))
    shape = variable_shape(bytecode, attributes.get("var_shape"))
    element = bytecode.attribute(attributes["type"]) if "type" in attributes else None
    if shape is None and isinstance(element, TypeAttr) and isinstance(element.type, TensorType):
        shape, element = element.type.shape, TypeAttr(element.type.element)
    if shape is None or not isinstance(element, TypeAttr):
        where = report.where(root) or f"'{VARIABLE.mlir}'"
        raise fail("malformed-operator", where, f"variable @{symbol} has no shape or no type")
    types = TypeReader(bytecode, narrowing)
    value_type = types.tensor(TensorType(shape, str(element.type)))
    if value_type.problem or value_type.dtype is None:
        message = f"variable @{symbol}: {value_type.problem}"
        report.add(root, value_type.code, message, value_type.hint)
        return None, report.findings.rows
    retained = text_of(bytecode, attributes.get(NAME_ATTRIBUTE)) if retain else None
    name = unused_name(retained or variable_name(number), taken)
    tensor = Tensor(name, value_type.dtype, shape, None, None, True, symbol)
    if value_type.narrowed:
        narrowing.add(value_type.narrowed, tensor.name)
    key = "initial_value" if "initial_value" in attributes else "value"  # of ml_program.global
    if key in attributes and not is_elsewhere(bytecode, attributes[key]):
        constants = ConstantReader(bytecode, types, narrowing, report, pad_resources=retain)
        value = bytecode.attribute(attributes[key])
        if constants.is_of_type(root, key, value, TensorType(shape, str(element.type))):
            tensor.data = constants.constant(root, key, value, value_type, set)
    return tensor, report.findings.rows


def is_elsewhere(bytecode: Bytecode, index: int) -> bool:
    """Return whether an attribute says that the data is outside of the module."""
    text = bytecode.attribute(index)
    return isinstance(text, str) and text.startswith(_ELSEWHERE)


def fixed_globals(declared: Iterable[Bytecode]) -> dict[str, str]:
    """Return the symbols of IREE's unwritten globals, each with its parameter's name or the symbol."""
    found = {}
    for bytecode in declared:
        root = bytecode.root
        if bytecode.written_names[root.name] != _IREE_GLOBAL:
            continue
        attributes = bytecode.dictionary(root.attributes)
        symbol = text_of(bytecode, attributes.get("sym_name")) or ""
        if "is_mutable" not in attributes:
            index = attributes.get("initial_value")
            value = None if index is None else bytecode.attribute(index)
            key = _PARAMETER.fullmatch(value) if isinstance(value, str) else None
            found[symbol] = symbol if key is None else key[1]
    return found


def used_globals(function: Bytecode, declared: list[Operation]) -> list[Operation]:
    """Find the ml_program.global that a function reads or writes; frontends declare others, too."""
    from tosa_convert.formats.mlir.read.operator import OF_GLOBALS
    from tosa_convert.formats.mlir.read.select_function import operations_named

    numbers = {number for number, name in enumerate(function.names) if name in OF_GLOBALS}
    used = set()
    for operation in operations_named(function.root, numbers):
        index = function.dictionary(operation.attributes).get("global")
        symbol = None if index is None else function.attribute(index)
        if isinstance(symbol, SymbolAttr):
            used.add(symbol.name)
    found = []
    for operation in declared:
        index = function.dictionary(operation.attributes).get("sym_name")
        if index is not None and function.attribute(index) in used:
            found.append(operation)
    return found


def variable_name(number: int) -> str:
    """Return the name that the tensor of a module's variable gets if the module has none for it."""
    return f"Variable_{number}"


def variable_shape(bytecode: Bytecode, index: int | None) -> tuple[int, ...] | None:
    """Return the sizes in the attribute var_shape with this index; None if it is not one."""
    sizes = None if index is None else bytecode.attribute(index)
    if not isinstance(sizes, DenseAttr) or not isinstance(sizes.type, TensorType):
        return None
    lengths = sizes.type.shape or (0,)
    rank = lengths[0]
    if len(lengths) != 1 or sizes.type.element not in ("index", "i64") or rank > _MAX_RANK:
        return None
    if len(sizes.data) not in (_INDEX_BYTES, _INDEX_BYTES * rank):
        return None
    # One element may stand for all sizes.
    dimensions = struct.unpack(f"<{len(sizes.data) // _INDEX_BYTES}q", sizes.data)
    dimensions = dimensions * rank if len(dimensions) == 1 else dimensions
    return tuple(size if size >= 0 else DYNAMIC for size in dimensions)


def declared_variables(graph: Graph) -> list[tuple[str, Tensor]]:
    """Return variables by symbol, in the order of names; refuse one that differs between blocks."""
    variables: dict[str, Tensor] = {}
    findings: list[Finding] = []
    for where, block in graph.blocks():
        for tensor in block.tensors.values():
            if not tensor.variable:
                continue
            symbol, place = tensor.variable_name or tensor.name, f'{where} tensor "{tensor.name}"'
            first = variables.setdefault(symbol, tensor)
            if (first.dtype, first.shape) != (tensor.dtype, tensor.shape):
                message = f"variable @{symbol} is {tensor.dtype} {tensor.shape} here and "
                message += f"{first.dtype} {first.shape} elsewhere"
                findings.append(Finding("malformed-tensor", place, message))
            if tensor.shape is None:
                message, hint = f"variable @{symbol} is unranked", "give the variable a rank"
                findings.append(Finding("unsupported-shape", place, message, hint))
        findings += _misused(where, block)
    if findings:
        raise TosaConvertError(findings)
    return sorted(variables.items(), key=lambda item: _natural_order(item[1].name))


def _misused(where: str, block: Block) -> Iterator[Finding]:
    """Find variables used as values, which only operators that read or write them may do."""
    variables = {tensor.name for tensor in block.tensors.values() if tensor.variable}
    variables -= set(block.inputs)
    if not variables:
        return
    hint = "read it into a tensor with VARIABLE_READ"
    for name in block.outputs:
        if name in variables:
            message = f'block output "{name}" is a variable, expected a value'
            yield Finding("malformed-structure", where, message, hint)
    for index, operator in enumerate(block.operators):
        used = [name for name in operator.inputs + operator.outputs if name in variables]
        if len(used) > (operator.spec.encoded_as == IDENTITY.name):
            yield Finding(
                "malformed-operator",
                operator_path(where, index, operator),
                f'"{used[-1]}" is a variable, expected a value',
                hint,
            )


def _natural_order(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)
