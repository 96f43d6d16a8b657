"""Selects rows of a matrix where torch-mlir would select single elements.

torch-mlir lowers `index_select` to a GATHER of elements, whose indices it computes from those of rows.
`embedding` takes rows, and is one GATHER.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from torch_mlir import ir

_SELECT: Final = "torch.aten.index_select"
_CONSTANT: Final = "torch.constant.int"
#: The type of a tensor of known sizes whose elements GATHER takes: `!torch.vtensor<[2,3],f32>`.
_SIZES: Final = re.compile(r"^!torch\.vtensor<\[([\d,]+)\],((?:f|bf|si)\d+)>$")


def gather_rows(module: Any) -> None:
    """Replace `index_select` of rows by `embedding` in a module of the torch dialect.

    What selects in a dimension behind one that is larger than 1 stays as it is.
    """
    with module.context:
        for function in module.body.operations:
            for block in (
                block for region in function.operation.regions for block in region.blocks
            ):
                for view in list(block.operations):
                    if view.operation.name == _SELECT:
                        _replace(view.operation)


def _replace(operation: Any) -> None:
    x, dim, index = operation.operands
    found, result = (_SIZES.match(str(value.type)) for value in (x, operation.results[0]))
    picked = _SIZES.match(str(index.type))
    number = getattr(dim.owner, "opview", dim.owner)
    if found is None or result is None or picked is None or number.operation.name != _CONSTANT:
        return
    sizes = [int(size) for size in found[1].split(",")]
    axis = ir.IntegerAttr(number.operation.attributes["value"]).value % len(sizes)
    rows, columns = sizes[axis], math.prod(sizes[axis + 1 :])
    if math.prod(sizes[:axis]) != 1 or "," in picked[1] or not columns:
        return
    with operation.location, ir.InsertionPoint(operation):
        off = _make("torch.constant.bool", "!torch.bool", value=ir.BoolAttr.get(False))
        matrix = _view(x, sizes, [rows, columns], found[2])
        taken = [int(picked[1]), columns]
        operands = [matrix, index, _integer(-1), off, off]
        kind = f"!torch.vtensor<[{taken[0]},{columns}],{found[2]}>"
        new = _make("torch.aten.embedding", kind, *operands)
        new = _view(new, taken, [int(size) for size in result[1].split(",")], found[2])
    operation.results[0].replace_all_uses_with(new)
    operation.erase()


def _view(x: Any, sizes: Sequence[int], wanted: Sequence[int], element: str) -> Any:
    if list(sizes) == list(wanted):
        return x
    numbers = [_integer(size) for size in wanted]
    listed = _make("torch.prim.ListConstruct", "!torch.list<int>", *numbers)
    kind = f"!torch.vtensor<[{','.join(map(str, wanted))}],{element}>"
    return _make("torch.aten.view", kind, x, listed)


def _integer(value: int) -> Any:
    signless = ir.IntegerType.get_signless(64)
    return _make(_CONSTANT, "!torch.int", value=ir.IntegerAttr.get(signless, value))


def _make(name: str, kind: str, *operands: Any, **attributes: Any) -> Any:
    results = [ir.Type.parse(kind)]
    return ir.Operation.create(
        name, results=results, operands=list(operands), attributes=attributes
    ).result
