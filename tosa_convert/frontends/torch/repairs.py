"""Replaces operations of the torch dialect that torch-mlir lowers to other numbers, or inefficiently.

It writes a CLAMP with the largest finite number where a bound is open, negates the least integer, which
TOSA leaves undefined or saturates, and lowers `index_select` to a GATHER of single elements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from torch_mlir import ir

_NUMBERS: Final = ("torch.constant.int", "torch.constant.float")
_NONE: Final = "torch.constant.none"
#: The type of a tensor of known sizes whose elements GATHER takes: `!torch.vtensor<[2,3],f32>`.
_SIZES: Final = re.compile(r"^!torch\.vtensor<\[([\d,]+)\],((?:f|bf|si)\d+)>$")
#: The type of a tensor: what comes before that of its elements, and this.
_ELEMENT: Final = re.compile(r"^(!torch\.vtensor<.*,)((?:f|bf|si)\d+)>$")


def repair(module: Any) -> None:
    """Replace operations of a module of the torch dialect, in place."""
    with module.context:
        for function in module.body.operations:
            for block in (
                block for region in function.operation.regions for block in region.blocks
            ):
                for operation in [view.operation for view in block.operations]:
                    if operation.name in _REPAIRS:
                        with operation.location, ir.InsertionPoint(operation):
                            new = _REPAIRS[operation.name](operation)
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
