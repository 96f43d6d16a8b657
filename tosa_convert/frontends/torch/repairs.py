"""Replaces operations of the torch dialect that torch-mlir lowers to other numbers, or inefficiently.

It writes a CLAMP with the largest finite number where a bound is open, negates the least integer, which
TOSA leaves undefined or saturates, lowers `index_select` to a GATHER of single elements, and adds and
subtracts integers of 64 bits in 32, for which TOSA 1.1 has ADD and SUB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import func as func_dialect

_NUMBERS: Final = ("torch.constant.int", "torch.constant.float")
_NONE: Final = "torch.constant.none"
#: The type of a tensor of known sizes whose elements GATHER takes: `!torch.vtensor<[2,3],f32>`.
_SIZES: Final = re.compile(r"^!torch\.vtensor<\[([\d,]+)\],((?:f|bf|si)\d+)>$")
#: The type of a tensor: what comes before that of its elements, and this.
_ELEMENT: Final = re.compile(r"^(!torch\.vtensor<.*,)((?:f|bf|si)\d+)>$")
#: The type of a tensor of integers: its sizes, and the type of its elements.
_INTEGERS: Final = re.compile(r"^!torch\.vtensor<\[([\d,?]*)\],((?:si|ui|i)\d+)>$")
#: How the names of the functions begin that stand for ADD and SUB of INT64 while torch-mlir lowers.
_WIDE: Final = "tosa_convert_wide_"
#: The least and greatest integer that a value can have; those of the unknown; those of 32 bits.
_Range: TypeAlias = tuple[float, float]
_Ranges: TypeAlias = dict[Any, _Range]
_ANY: Final[_Range] = (-math.inf, math.inf)
_NARROW: Final[_Range] = (-(1 << 31), (1 << 31) - 1)


def repair(module: Any) -> None:
    """Replace operations of a module of the torch dialect, in place."""
    with module.context:
        for function in module.body.operations:
            for block in (
                block for region in function.operation.regions for block in region.blocks
            ):
                _repair_block(block)


def _repair_block(block: Any) -> None:
    ranges: _Ranges = {}
    for operation in [view.operation for view in block.operations]:
        new = None
        with operation.location, ir.InsertionPoint(operation):
            if operation.name in _REPAIRS:
                new = _REPAIRS[operation.name](operation)
            elif operation.name in _WITH_POSITIONS:
                ranges[operation.results[1]] = _range_of_position(operation)
            elif len(operation.results) == 1:
                found = _range_of_result(operation, ranges)
                if operation.name in _SUMS:
                    new = _wide_sum(operation, found)
                if new is None and found != _ANY:
                    ranges[operation.results[0]] = found
        if new is not None:
            operation.results[0].replace_all_uses_with(new)
            operation.erase()


def _closed_clamp(operation: Any) -> Any:
    """Return a CLAMP with infinite bounds for open ones; where the bounds cross, the upper counts."""
    x, *bounds = operation.operands
    kind = _ELEMENT.match(str(x.type))
    values = [_bound(one) for one in bounds] if bounds else [0, None]
    if kind is None or str(x.type) != str(operation.results[0].type) or math.nan in values:
        return None
    low, high = values
    if low is not None and high is not None:
        if low <= high:
            return None
        low = high
    elif not kind[2].startswith("si"):
        low = -math.inf if low is None else float(low)
        high = math.inf if high is None else float(high)
    elif bounds:
        return None
    return _make("torch.aten.clamp", str(x.type), x, *map(_scalar, (low, high)))


def _bound(value: Any) -> Any:
    """Return the number of a bound, None if it is open, NaN itself if it is computed."""
    operation = getattr(value.owner, "operation", None)
    if operation is None or operation.name not in (*_NUMBERS, _NONE):
        return math.nan
    return None if operation.name == _NONE else operation.attributes["value"].value


def restore_sums(module: Any) -> None:
    """Replace the calls that stand for sums of INT64 in a lowered module, in place."""
    declared = {
        ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
        for view in module.body.operations
        if "sym_name" in view.operation.attributes
    }
    kept = {name: found for name, found in declared.items() if name.startswith(_WIDE)}
    blocks = [
        block for found in declared.values() for region in found.regions for block in region.blocks
    ]
    for call in [view.operation for block in blocks for view in block.operations if kept]:
        if call.name != "func.call" or _callee(call) not in kept:
            continue
        name = f"tosa.{_callee(call).removeprefix(_WIDE).split('_')[0]}"
        with call.location, ir.InsertionPoint(call):
            kind = str(call.results[0].type)
            call.results[0].replace_all_uses_with(_make(name, kind, *call.operands))
        call.erase()
    for found in kept.values():
        found.erase()


def has_sums(module: Any) -> bool:
    """Return whether calls stand for sums of INT64 in a module."""
    names = (view.operation.attributes for view in module.body.operations)
    return any(str(row["sym_name"]).startswith(f'"{_WIDE}') for row in names if "sym_name" in row)


def _callee(call: Any) -> str:
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def _wide_sum(operation: Any, found: _Range) -> Any:
    """Return a call in place of a sum or difference of INT64 that may leave 32 bits."""
    x, y, alpha = operation.operands
    kind = _INTEGERS.match(str(operation.results[0].type))
    if kind is None or kind[2] != "si64":
        return None
    if _NARROW[0] <= found[0] and found[1] <= _NARROW[1]:
        return None
    factor = _bound(alpha)
    rank = len(_sizes(kind))
    left, right = _wide_operand(x, rank), _wide_operand(y, rank)
    if left is None or right is None or not isinstance(factor, int):
        return None
    if factor != 1:
        right = _make("torch.aten.mul.Scalar", str(right.type), right, alpha)
    name = f"{_WIDE}{operation.name.split('.')[2]}"
    return _called(name, [left, right], operation.results[0].type)


def _wide_operand(value: Any, rank: int) -> Any:
    """Return an operand as a tensor of INT64 of this rank, None if it is a number that is computed."""
    if str(value.type) == "!torch.int":
        number = _bound(value)
        if not isinstance(number, int):
            return None
        text = f"dense<{number}> : tensor<{'1x' * rank}si64>"
        kind = f"!torch.vtensor<[{','.join('1' * rank)}],si64>"
        return _make("torch.vtensor.literal", kind, value=ir.Attribute.parse(text))
    found = _INTEGERS.match(str(value.type))
    if found is None:
        return None
    sizes = _sizes(found)
    if found[2] != "si64":
        no = _make("torch.constant.bool", "!torch.bool", value=ir.BoolAttr.get(False))
        kind = f"!torch.vtensor<[{found[1]}],si64>"
        none = _make(_NONE, "!torch.none")
        value = _make("torch.aten.to.dtype", kind, value, _scalar(4), no, no, none)
    while len(sizes) < rank:
        sizes = ["1", *sizes]
        kind = f"!torch.vtensor<[{','.join(sizes)}],si64>"
        value = _make("torch.aten.unsqueeze", kind, value, _scalar(0))
    return value


def _sizes(kind: re.Match[str]) -> list[str]:
    return kind[1].split(",") if kind[1] else []


def _called(name: str, operands: Sequence[Any], result: Any) -> Any:
    """Call a function without a body, which the passes leave as it is; equal types have one function."""
    function = ir.InsertionPoint.current.block.owner
    body = function.operation.parent.regions[0].blocks[0]
    kind = ir.FunctionType.get([value.type for value in operands], [result])
    known = {
        str(view.operation.attributes["sym_name"]): view.operation.attributes["function_type"]
        for view in body.operations
        if "sym_name" in view.operation.attributes
    }
    count = 0
    while known.get(f'"{name}_{count}"', ir.TypeAttr.get(kind)) != ir.TypeAttr.get(kind):
        count += 1
    name = f"{name}_{count}"
    if f'"{name}"' not in known:
        with ir.InsertionPoint(body):
            func_dialect.FuncOp(name, kind, visibility="private")
    callee = ir.FlatSymbolRefAttr.get(name)
    return ir.Operation.create(
        "func.call", results=[result], operands=list(operands), attributes={"callee": callee}
    ).result


def _range_of_result(operation: Any, ranges: _Ranges) -> _Range:
    """Return the least and the greatest integer that a result can have, infinite if it is unknown."""
    kind = str(operation.results[0].type)
    own = _range_of_type(kind)
    if operation.name not in _RANGES or not (_INTEGERS.match(kind) or kind == "!torch.int"):
        return own
    low, high = _RANGES[operation.name](
        operation, *(ranges.get(one, _range_of_type(str(one.type))) for one in operation.operands)
    )
    # What leaves the type of its elements wraps.
    return (low, high) if own[0] <= low and high <= own[1] else own


def _range_of_type(kind: str) -> _Range:
    found = _INTEGERS.match(kind)
    if found is None or found[2] == "si64":
        return _ANY
    bits = int(found[2].lstrip("sui"))
    if found[2].startswith("si"):
        return -(1 << bits - 1), (1 << bits - 1) - 1
    return 0, (1 << bits) - 1


def _range_of_number(operation: Any) -> _Range:
    number = operation.attributes["value"].value
    return number, number


def _range_of_literal(operation: Any) -> _Range:
    value = operation.attributes["value"]
    if not isinstance(value, ir.DenseElementsAttr):
        return _ANY
    array = np.array(value)
    return (int(array.min()), int(array.max())) if array.size and array.dtype.kind == "i" else _ANY


def _range_of_moved(_: Any, x: _Range, *others: _Range) -> _Range:
    return x


def _range_of_position(operation: Any, *_: _Range) -> _Range:
    """Return the positions in what ARGMAX takes."""
    found = _TENSOR_SIZES.match(str(operation.operands[0].type))
    if found is None or "?" in found[1]:
        return _ANY
    return 0, max(math.prod(map(int, filter(None, found[1].split(",")))) - 1, 0)


def _range_of_steps(_: Any, start: _Range, end: _Range, *others: _Range) -> _Range:
    return min(start[0], end[0]), max(start[1], end[1])


def _range_of_combination(operation: Any, x: _Range, y: _Range, *alpha: _Range) -> _Range:
    """Return the range of a sum, a difference or a product."""
    name = operation.name.split(".")[2]
    if name == "mul":
        return _product(x, y)
    low, high = _product(y, alpha[0])
    return (x[0] + low, x[1] + high) if name == "add" else (x[0] - high, x[1] - low)


def _product(x: _Range, y: _Range) -> _Range:
    if _ANY in (x, y):
        return _ANY
    ends = [a * b for a in x for b in y]
    return min(ends), max(ends)


_TENSOR_SIZES: Final = re.compile(r"^!torch\.vtensor<\[([\d,?]*)\],")
_MOVES: Final = (
    "view reshape unsqueeze squeeze squeeze.dim expand broadcast_to permute transpose.int slice.Tensor"
    " select.int flatten.using_ints repeat flip clone contiguous index_select gather to.dtype"
)
_SUMS: Final = frozenset(
    f"torch.aten.{name}.{other}" for name in ("add", "sub") for other in ("Tensor", "Scalar")
)
_WITH_POSITIONS: Final = ("torch.aten.max.dim", "torch.aten.min.dim")
#: Operation -> the range of its result, from it and the ranges of its operands.
_RANGES: Final[Mapping[str, Callable[..., _Range]]] = {
    **{f"torch.aten.{name}": _range_of_moved for name in _MOVES.split()},
    "torch.prims.convert_element_type": _range_of_moved,
    _NUMBERS[0]: _range_of_number,
    "torch.vtensor.literal": _range_of_literal,
    "torch.aten.argmax": _range_of_position,
    "torch.aten.argmin": _range_of_position,
    "torch.aten.arange.start_step": _range_of_steps,
    **dict.fromkeys(
        (*_SUMS, "torch.aten.mul.Tensor", "torch.aten.mul.Scalar"), _range_of_combination
    ),
}


def _negated(operation: Any) -> Any:
    """Return a product, which wraps: the least integer is its own negative, as it is in torch."""
    (x,) = operation.operands
    kind = _ELEMENT.match(str(x.type))
    if kind is None or kind[2] not in ("si8", "si16", "si32", "si64"):
        return None
    if kind[2] != "si16":
        return _make("torch.aten.mul.Scalar", str(x.type), x, _scalar(-1))
    inverted = _make(
        "torch.aten.bitwise_not", str(x.type), x
    )  # torch-mlir has no product of these.
    return _make("torch.aten.add.Scalar", str(x.type), inverted, _scalar(1), _scalar(1))


def _magnitude(operation: Any) -> Any:
    """Return the product with the sign, which wraps; narrower integers are computed in 32 bits."""
    (x,) = operation.operands
    kind = _ELEMENT.match(str(x.type))
    if kind is None or kind[2] not in ("si32", "si64"):
        return None
    is_negative = _make("torch.aten.lt.Scalar", f"{kind[1]}i1>", x, _scalar(0))
    negative = _make("torch.aten.mul.Scalar", str(x.type), x, _scalar(-1))
    return _make("torch.aten.where.self", str(x.type), is_negative, negative, x)


def _one_extreme(operation: Any) -> Any:
    """Return MAXIMUM or MINIMUM in place of a clamp by one tensor."""
    x, low, high = operation.operands
    opened = [_bound(one) is None for one in (low, high)]
    if opened.count(True) != 1 or str(x.type) != str(operation.results[0].type):
        return None
    bound, name = (high, "minimum") if opened[0] else (low, "maximum")
    kind, other = _ELEMENT.match(str(x.type)), _ELEMENT.match(str(bound.type))
    if kind is None or other is None or kind[2] != other[2]:
        return None
    return _make(f"torch.aten.{name}", str(x.type), x, bound)


def _gathered_rows(operation: Any) -> Any:
    """Return an `embedding` in place of an `index_select` of rows.

    What selects in a dimension behind one that is larger than 1 stays as it is.
    """
    x, dim, index = operation.operands
    found, result = (_SIZES.match(str(value.type)) for value in (x, operation.results[0]))
    picked = _SIZES.match(str(index.type))
    number = getattr(dim.owner, "opview", dim.owner)
    if found is None or result is None or picked is None or number.operation.name != _NUMBERS[0]:
        return None
    sizes = [int(size) for size in found[1].split(",")]
    axis = ir.IntegerAttr(number.operation.attributes["value"]).value % len(sizes)
    rows, columns = sizes[axis], math.prod(sizes[axis + 1 :])
    if math.prod(sizes[:axis]) != 1 or "," in picked[1] or not columns:
        return None
    off = _make("torch.constant.bool", "!torch.bool", value=ir.BoolAttr.get(False))
    matrix = _view(x, sizes, [rows, columns], found[2])
    taken = [int(picked[1]), columns]
    operands = [matrix, index, _scalar(-1), off, off]
    kind = f"!torch.vtensor<[{taken[0]},{columns}],{found[2]}>"
    new = _make("torch.aten.embedding", kind, *operands)
    return _view(new, taken, [int(size) for size in result[1].split(",")], found[2])


def _view(x: Any, sizes: Sequence[int], wanted: Sequence[int], element: str) -> Any:
    if list(sizes) == list(wanted):
        return x
    numbers = [_scalar(size) for size in wanted]
    listed = _make("torch.prim.ListConstruct", "!torch.list<int>", *numbers)
    kind = f"!torch.vtensor<[{','.join(map(str, wanted))}],{element}>"
    return _make("torch.aten.view", kind, x, listed)


def _scalar(value: float | None) -> Any:
    if value is None:
        return _make(_NONE, "!torch.none")
    if isinstance(value, int):
        signless = ir.IntegerType.get_signless(64)
        return _make(_NUMBERS[0], "!torch.int", value=ir.IntegerAttr.get(signless, value))
    return _make(_NUMBERS[1], "!torch.float", value=ir.FloatAttr.get(ir.F64Type.get(), value))


def _make(name: str, kind: str, *operands: Any, **attributes: Any) -> Any:
    results = [ir.Type.parse(kind)]
    return ir.Operation.create(
        name, results=results, operands=list(operands), attributes=attributes
    ).result


#: Operation -> what replaces it: a value, or None to leave it.
_REPAIRS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "torch.aten.index_select": _gathered_rows,
    "torch.aten.relu": _closed_clamp,
    "torch.aten.clamp": _closed_clamp,
    "torch.aten.clamp.Tensor": _one_extreme,
    "torch.aten.neg": _negated,
    "torch.aten.abs": _magnitude,
}
