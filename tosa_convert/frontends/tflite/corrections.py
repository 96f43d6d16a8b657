"""Corrects lowerings of a converter that compute other numbers than the framework.

The operators of one lowering have one location. They are replaced if they have the form that the
converter is known to write; an operator whose lowering has another form is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.frontends.process.interface import Correction
from tosa_convert.frontends.tflite import corrected_functions as functions
from tosa_convert.frontends.tflite import corrected_lowerings as lowerings
from tosa_convert.frontends.tflite import corrected_sigmoid
from tosa_convert.frontends.tflite.lowering_group import Group, OtherFormError, Writer, group_of
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator

_RESCALE: Final = operator("RESCALE")
_SINGLE: Final = RoundingMode.SINGLE_ROUND


_BY_TANH: Final = "the converter writes the approximation by tanh"
#: The kind of operators whose RESCALE rounds once in the framework, and twice in the converter's output.
#: By experiment: TFLite's reference kernel of FULLY_CONNECTED, unlike those of convolutions.
ROUND_ONCE: Final = "round-once"
_Correct = Callable[[Block, Group, Correction, Writer], None]
#: Kind -> the operator, what is wrong with its lowering, and the corrected one.
KINDS: Final[Mapping[str, tuple[str, str, _Correct]]] = {
    "floor-mod": (
        "FLOOR_MOD",
        "the converter writes x/y - floor(x/y), which is not multiplied by y",
        functions.floor_mod,
    ),
    "exact-gelu": ("GELU", _BY_TANH, functions.exact_gelu),
    "exact-gelu-table": ("GELU", _BY_TANH, functions.table_of_int8),
    "abs-table": (
        "ABS of int8",
        "the converter fails with it, so the model has a placeholder for it",
        functions.table_of_int8,
    ),
    "activation": (
        "the activation of the operator",
        "the converter rounds its bounds otherwise",
        lowerings.activation,
    ),
    "pool": (
        "the pooling operator",
        "the converter leaves its activation out, and rounds averages of unsigned numbers otherwise",
        lowerings.pool,
    ),
    "truncated": ("CAST", "the converter rounds to the nearest", lowerings.truncated),
    "saturated": ("QUANTIZE", "numbers out of the range wrap around", lowerings.saturated),
    "unsigned-bits": (
        "BITWISE_XOR",
        "the highest bit of unsigned numbers is inverted, and 16 bits saturate",
        lowerings.unsigned_bits,
    ),
    "unsigned-zeros": ("SCATTER_ND", "unsigned numbers get 128 for 0", lowerings.unsigned_zeros),
    "resized": (
        "the resizing operator",
        "the converter rounds positions to the nearest, and interpolates more exactly than TFLite",
        lowerings.resized,
    ),
    "saturated-difference": (
        "SOFTMAX of int16",
        "the distance to the largest element wraps around",
        lowerings.saturated_difference,
    ),
    "table-int16": (
        "the function of int16",
        "the converter's TABLE has a result of 16 bits, without the bits that are interpolated",
        functions.table_of_int16,
    ),
    "logistic-int16": (
        "LOGISTIC of int16",
        "the converter interpolates in other numbers",
        corrected_sigmoid.logistic,
    ),
    "tanh-int16": (
        "TANH of int16",
        "the converter interpolates in other numbers",
        corrected_sigmoid.tanh,
    ),
    "rescaled": (
        "RELU",
        "the converter divides the scales in another precision",
        lowerings.rescaled,
    ),
    "rescaled-twice": (
        "LEAKY_RELU",
        "the converter's multipliers come from another precision, and it rounds once more",
        lowerings.rescaled_twice,
    ),
    "accumulated": (
        "FULLY_CONNECTED of int16",
        "the converter's multiplier has 16 bits",
        lowerings.accumulated,
    ),
}


def with_corrections(graph: Graph, wanted: Sequence[Correction], source: str) -> Graph:
    """Return the graph with these lowerings corrected, wherever they are.

    Raises:
        TosaConvertError: "not-lowered" for those whose lowering does not have the known form.
    """
    once = {row.name for row in wanted if row.kind == ROUND_ONCE}
    graph = _with_blocks(graph, lambda block: _rounding_once(block, once))
    left: list[Correction] = []
    others = [row for row in wanted if row.kind != ROUND_ONCE]
    while others:  # Of several rows for one operator one at a time.
        rows = {row.name: row for row in reversed(others)}
        graph = _with_rows(graph, rows, left)
        others = [row for row in others if rows[row.name] is not row]
    findings = [
        Finding(
            "not-lowered",
            f'{source}: the operator that makes "{row.name}"',
            f"{KINDS[row.kind][0]} would be lowered wrongly: {KINDS[row.kind][1]}",
            "write it with other operators",
        )
        for row in left
    ]
    if findings:
        raise TosaConvertError(findings)
    return graph


def _with_rows(graph: Graph, rows: Mapping[str, Correction], left: list[Correction]) -> Graph:
    """Correct one row for each name in the graph; add those of another form to `left`."""
    unknown = dict(rows)
    graph = _with_blocks(graph, lambda block: _rewritten(block, rows, unknown))
    left += unknown.values()
    return graph


def _with_blocks(graph: Graph, change: Callable[[Block], Block]) -> Graph:
    regions = [
        replace(region, blocks=[change(block) for block in region.blocks])
        for region in graph.regions
    ]
    return replace(graph, regions=regions)


def _rounding_once(block: Block, names: Collection[str]) -> Block:
    """Make RESCALE operators with one of these names in their location round once."""
    return replace(
        block,
        operators=[
            replace(one, attributes={**one.attributes, "rounding_mode": _SINGLE})
            if one.spec is _RESCALE and name_of(one.location) in names
            else one
            for one in block.operators
        ],
    )


def _rewritten(block: Block, rows: Mapping[str, Correction], left: dict[str, Correction]) -> Block:
    """Correct the lowerings of the block; remove them from `left`."""
    members: dict[str, list[Operator]] = {}
    for one in block.operators:
        name = name_of(one.location)
        if name in rows and one.spec not in (CONST, CONST_SHAPE):
            members.setdefault(name, []).append(one)
    if not members:
        return block
    made = replace(block, operators=[], tensors=dict(block.tensors), shapes=dict(block.shapes))
    instead: dict[int, list[Operator]] = {}
    gone: set[int] = set()
    for name, operators in members.items():
        write = Writer(made, operators[-1].location)
        try:
            group = group_of(block, operators)
            KINDS[rows[name].kind][2](made, group, rows[name], write)
        except (OtherFormError, ValueError):  # A number may not fit its type.
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


def name_of(location: str) -> str:
    """Return the name in a location such as `loc("x"("model.tflite":0:0))`; of several, the first."""
    start, quote, rest = location.partition('"')
    return rest.partition('"(')[0] if start in ("loc(", "loc(fused[") and quote else ""
