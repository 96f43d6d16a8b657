"""Operators that a converter lowers to something else than they compute, made again.

The operators of one lowering have one location. They are replaced if they have the form that the
converter is known to write; an operator whose lowering has another form is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.frontends.interface import Replacement
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType, RoundingMode, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Block, Graph, Operator, Tensor
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator

_FLOATS: Final = frozenset({"FP32", "FP16", "BF16"})
_BOOL: Final = dtype("BOOL")
_INT8: Final = dtype("INT8")
_RESCALE: Final = operator("RESCALE")
_SINGLE: Final = RoundingMode.SINGLE_ROUND


class _OtherFormError(Exception):
    """The operators do not have the form that is replaced."""


@dataclass(slots=True)
class _Group:
    """The operators of one lowering, without constants.

    result: the only value of them that others use. inputs: values of others that they use, in order;
    constants are not among them.
    """

    operators: list[Operator]
    inputs: list[str]
    result: str

    def the(self, kind: str) -> Operator:
        """The only operator of a kind."""
        found = [one for one in self.operators if one.spec.name == kind]
        if len(found) != 1:
            raise _OtherFormError
        return found[0]

    def making(self, name: str) -> Operator | None:
        """The operator that defines a value."""
        return next((one for one in self.operators if name in one.outputs), None)


class _Writer:
    """Adds operators of one location to a block that is being made."""

    def __init__(self, block: Block, location: str) -> None:
        self.block = block
        self.location = location
        self.operators: list[Operator] = []

    def constant(self, data: Constant, shape: tuple[int, ...]) -> str:
        name = self._name("constant")
        self.block.tensors[name] = Tensor(name, data.dtype, shape, data)
        self.operators.append(Operator(CONST, (), (name,), {}, self.location))
        return name

    def number(self, value: float, like: str) -> str:
        """A number that broadcasts to a value, in the value's type."""
        tensor = self.block.tensors[like]
        return self.constant(
            constant_of(np.array([value]), tensor.dtype), (1,) * len(tensor.shape or ())
        )

    def made(
        self, kind: str, *operands: str, element: DType | None = None, result: str = ""
    ) -> str:
        """The result of a new operator, whose shape is that of the result of a broadcast."""
        if kind == "MUL":
            operands = (*operands, self.constant(Constant(_INT8, 1, b"\0"), (1,)))
        name = result or self._name(kind.lower())
        if not result:
            tensors = [self.block.tensors[one] for one in operands[: 1 if kind == "MUL" else None]]
            shapes = [self.block.tensors[one].shape or () for one in operands[:3]]
            widest = max(shapes, key=lambda shape: (len(shape), math.prod(map(abs, shape))))
            last = tensors[-1] if kind == "SELECT" else tensors[0]
            self.block.tensors[name] = Tensor(name, element or last.dtype, widest)
        self.operators.append(Operator(operator(kind), operands, (name,), {}, self.location))
        return name

    def _name(self, wanted: str) -> str:
        return unused_name(f"made_{wanted}", {*self.block.tensors, *self.block.shapes})


def _exact_gelu(block: Block, group: _Group, row: Replacement, write: _Writer) -> None:
    """x/2 * (1 + erf(x / sqrt 2))."""
    (value,) = group.inputs
    if block.tensors[value].dtype.name not in _FLOATS:
        raise _OtherFormError
    group.the("TANH")
    error = write.made("ERF", write.made("MUL", value, write.number(math.sqrt(0.5), value)))
    factor = write.made("ADD", error, write.number(1, value))
    half = write.made("MUL", value, write.number(0.5, value))
    write.made("MUL", half, factor, result=group.result)


def _exact_gelu_table(block: Block, group: _Group, row: Replacement, write: _Writer) -> None:
    """The same for int8, by the values for all elements."""
    (value,) = group.inputs
    table = group.the("TABLE")
    if len(group.operators) != 1 or block.tensors[table.inputs[1]].shape != (len(row.table),):
        raise _OtherFormError
    values = write.constant(constant_of(np.array(row.table), _INT8), (len(row.table),))
    write.made("TABLE", value, values, result=group.result)


def _floor_mod(block: Block, group: _Group, row: Replacement, write: _Writer) -> None:
    """The rest of x / y that has the sign of y."""
    product = group.making(group.the("FLOOR").inputs[0])
    if product is None or product.spec.name != "MUL":
        raise _OtherFormError
    value, inverse = product.inputs[:2]
    keep = group.making(value)
    if keep is not None:  # A reshape for the broadcast.
        write.operators.append(keep)
    divisor = _divisor(block, group, row, write, inverse)
    if block.tensors[value].dtype.is_float:
        quotient = write.made("MUL", value, write.made("RECIPROCAL", divisor))
        whole = write.made("FLOOR", quotient)
    else:
        whole = write.made("INTDIV", value, divisor)
    rest = write.made("SUB", value, write.made("MUL", whole, divisor))
    zero = write.number(0, rest)
    # Of the other sign: the quotient was rounded up, or towards zero.
    signs = (write.made("GREATER", zero, one, element=_BOOL) for one in (rest, divisor))
    differ = write.made("LOGICAL_XOR", *signs)
    is_rest = write.made("LOGICAL_NOT", write.made("EQUAL", rest, zero, element=_BOOL))
    up = write.made("LOGICAL_AND", differ, is_rest)
    rest = write.made("SELECT", up, write.made("ADD", rest, divisor), rest)
    sizes = [write.made("ABS", one) for one in (rest, divisor)]
    too_large = write.made("GREATER_EQUAL", *sizes, element=_BOOL)
    less = write.made("SUB", rest, divisor)
    write.made("SELECT", too_large, less, rest, result=group.result)


def _divisor(block: Block, group: _Group, row: Replacement, write: _Writer, inverse: str) -> str:
    """The value whose inverse the converter computed, in the shape of that inverse."""
    made = group.making(inverse)
    if made is None:  # It was folded: the divisor is a constant, which the model has.
        shape = block.tensors[inverse].shape or ()
        if len(row.divisor) != math.prod(shape):
            raise _OtherFormError
        values = np.array(row.divisor, np.float64)
        return write.constant(constant_of(values, block.tensors[inverse].dtype), shape)
    if made.spec.name == "RECIPROCAL":
        return made.inputs[0]
    before = group.making(made.inputs[0])
    if made.spec.name != "RESHAPE" or before is None or before.spec.name != "RECIPROCAL":
        raise _OtherFormError
    name = unused_name("made_divisor", {*block.tensors, *block.shapes})
    block.tensors[name] = replace(block.tensors[inverse], name=name)
    write.operators.append(
        replace(made, inputs=(before.inputs[0], made.inputs[1]), outputs=(name,))
    )
    return name


_BY_TANH: Final = "the converter writes the approximation by tanh"
#: The kind of operators whose RESCALE rounds once in the framework, and twice in the converter's output.
#: By experiment: TFLite's reference kernel of FULLY_CONNECTED, unlike those of convolutions.
ROUND_ONCE: Final = "round-once"
_Make = Callable[[Block, _Group, Replacement, _Writer], None]
#: Kind -> the operator, what the converter makes of it, and what makes it again.
KINDS: Final[Mapping[str, tuple[str, str, _Make]]] = {
    "floor-mod": (
        "FLOOR_MOD",
        "the converter writes x/y - floor(x/y), which is not multiplied by y",
        _floor_mod,
    ),
    "exact-gelu": ("GELU", _BY_TANH, _exact_gelu),
    "exact-gelu-table": ("GELU", _BY_TANH, _exact_gelu_table),
}


def replaced(graph: Graph, wanted: Sequence[Replacement], source: str) -> Graph:
    """The graph with these operators made again, wherever they are.

    Raises:
        TosaConvertError: "not-lowered" for those whose lowering does not have the known form.
    """
    if not wanted:
        return graph
    once = {row.name for row in wanted if row.kind == ROUND_ONCE}
    rows = {row.name: row for row in wanted if row.kind != ROUND_ONCE}
    left = dict(rows)
    regions = []
    for region in graph.regions:
        blocks = [_rewritten(_rounding_once(block, once), rows, left) for block in region.blocks]
        regions.append(replace(region, blocks=blocks))
    findings = [
        Finding(
            "not-lowered",
            f'{source}: the operator that makes "{row.name}"',
            f"{KINDS[row.kind][0]} would be lowered wrongly: {KINDS[row.kind][1]}",
            "write it with other operators",
        )
        for row in left.values()
    ]
    if findings:
        raise TosaConvertError(findings)
    return replace(graph, regions=regions)


def _rounding_once(block: Block, names: Collection[str]) -> Block:
    """The block whose RESCALE operators with one of these names in their location round once."""
    return replace(
        block,
        operators=[
            replace(one, attributes={**one.attributes, "rounding_mode": _SINGLE})
            if one.spec is _RESCALE and name_of(one.location) in names
            else one
            for one in block.operators
        ],
    )


def _rewritten(
    block: Block, rows: Mapping[str, Replacement], left: dict[str, Replacement]
) -> Block:
    """The block with its operators made again, which are removed from `left`."""
    members: dict[str, list[Operator]] = {}
    for one in block.operators:
        name = name_of(one.location)
        if name in rows and one.spec not in (CONST, CONST_SHAPE):
            members.setdefault(name, []).append(one)
    if not members:
        return block
    made = replace(block, operators=[], tensors=dict(block.tensors))
    instead: dict[int, list[Operator]] = {}
    gone: set[int] = set()
    for name, operators in members.items():
        write = _Writer(made, operators[-1].location)
        try:
            group = _group(block, operators)
            KINDS[rows[name].kind][2](made, group, rows[name], write)
        except _OtherFormError:
            continue
        left.pop(name, None)
        instead[id(operators[-1])] = write.operators
        gone |= {id(one) for one in operators}
    for one in block.operators:
        if id(one) not in gone:
            made.operators.append(one)
        made.operators += instead.get(id(one), [])
    defined = {name for one in made.operators for name in one.outputs}
    for one in block.operators:
        for name in one.outputs:
            if name not in defined:
                made.tensors.pop(name, None)
    return made


def _group(block: Block, operators: list[Operator]) -> _Group:
    defined = {name for one in operators for name in one.outputs}
    inside = {id(one) for one in operators}
    used = {
        *block.outputs,
        *(name for one in block.operators if id(one) not in inside for name in one.inputs),
    }
    results = [name for name in defined if name in used]
    if len(results) != 1:
        raise _OtherFormError
    inputs = _unique(
        name
        for one in operators
        for name in one.inputs
        if name not in defined and name in block.tensors and block.tensors[name].data is None
    )
    return _Group(operators, inputs, results[0])


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def name_of(location: str) -> str:
    """The name in a location such as `loc("x"("model.tflite":0:0))`; of several, the first."""
    start, quote, rest = location.partition('"')
    return rest.partition('"(')[0] if start in ("loc(", "loc(fused[") and quote else ""
