"""The operations whose form has changed, one row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tosa_convert.eras.dialect_states import OPERANDS, OPERATOR_NAMES, SHAPES
from tosa_convert.eras.editor import DowngradeEditor, Editor, OldOperation
from tosa_convert.eras.rules import convolution, data_layout, elementwise
from tosa_convert.graph.model import Operator, Tensor
from tosa_convert.graph.opset import BY_MLIR, table_of

#: Writes an operator of today in an older form.
Downgrade = Callable[[DowngradeEditor, Operator], None]


class Rule(NamedTuple):
    """How an old operation becomes operators of today.

    apply: makes them. what: says so in a report.
    operands: how many the old form has; () for any number.
    keys: attributes of which each shows the old form, if the number of operands does not.
    is_old: tells it by the operands.
    downgrade: makes the old form of a current operator; None if there is no current operator.
    since: the state of the dialect from which the form is that of today.
    """

    apply: Callable[[Editor, OldOperation], None]
    what: str
    operands: tuple[int, ...] = (1,)
    keys: frozenset[str] = frozenset()
    is_old: Callable[[OldOperation, Mapping[str, Tensor]], bool] | None = None
    downgrade: Downgrade | None = None
    since: str = OPERANDS


_ZERO_POINTS: Final = "zero points are operands"
_SHAPES: Final = "sizes are operands"


def _is_old_pad(old: OldOperation, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether the padding is a tensor, or the constant one of rank 0."""
    if len(old.inputs) != 3:
        return True
    constant = tensors.get(old.inputs[2])
    return old.inputs[1] in tensors or (constant is not None and constant.shape == ())


_CONVOLUTION: Final = Rule(
    convolution.convolution, _ZERO_POINTS, (3,), downgrade=convolution.downgrade_convolution
)

#: Operations of MLIR -> their rules. `.tosa` files of version 0.80 have the same forms.
RULES: Final = {
    "tosa.avg_pool2d": Rule(
        convolution.avg_pool2d,
        _ZERO_POINTS,
        downgrade=convolution.downgrade_avg_pool2d,
    ),
    "tosa.clamp": Rule(
        elementwise.clamp,
        "bounds have the type of the elements",
        keys=frozenset({"min_int", "max_int", "min_fp", "max_fp"}),
        downgrade=elementwise.downgrade_clamp,
    ),
    "tosa.conv2d": _CONVOLUTION,
    "tosa.conv3d": _CONVOLUTION,
    "tosa.custom": Rule(
        elementwise.custom,
        "operator_name and domain_name",
        operands=(),
        keys=frozenset({"identifier"}),
        downgrade=elementwise.downgrade_custom,
        since=OPERATOR_NAMES,
    ),
    "tosa.depthwise_conv2d": _CONVOLUTION,
    "tosa.fully_connected": Rule(
        convolution.fully_connected,
        "a CONV2D of images of one pixel replaces it",
        operands=(3,),
    ),
    "tosa.matmul": Rule(
        convolution.matmul,
        _ZERO_POINTS,
        operands=(2,),
        downgrade=convolution.downgrade_matmul,
    ),
    "tosa.mul": Rule(
        elementwise.mul,
        "the shift is an operand",
        operands=(2,),
        downgrade=elementwise.downgrade_mul,
        since=SHAPES,
    ),
    "tosa.negate": Rule(convolution.negate, _ZERO_POINTS, downgrade=convolution.downgrade_negate),
    "tosa.pad": Rule(
        data_layout.pad,
        "the padding is a shape, its value one element",
        operands=(1, 2, 3),
        is_old=_is_old_pad,
        downgrade=data_layout.downgrade_pad,
    ),
    "tosa.reluN": Rule(elementwise.relu_n, "a CLAMP from 0 replaces it"),
    "tosa.rescale": Rule(
        elementwise.rescale,
        "multipliers, shifts and zero points are operands",
        downgrade=elementwise.downgrade_rescale,
    ),
    "tosa.reshape": Rule(data_layout.reshape, _SHAPES, downgrade=data_layout.downgrade_reshape),
    "tosa.resize": Rule(
        data_layout.resize,
        "scale, offset and border are operands",
        downgrade=data_layout.downgrade_resize,
    ),
    "tosa.slice": Rule(data_layout.slice_, _SHAPES, downgrade=data_layout.downgrade_slice),
    "tosa.table": Rule(elementwise.table, "the table is an operand"),
    "tosa.tile": Rule(
        data_layout.tile,
        _SHAPES,
        downgrade=data_layout.downgrade_tile,
        since=SHAPES,
    ),
    "tosa.transpose": Rule(
        data_layout.transpose,
        "the permutation is an attribute",
        operands=(2,),
        downgrade=data_layout.downgrade_transpose,
    ),
    "tosa.transpose_conv2d": Rule(
        convolution.transpose_conv2d,
        "zero points are operands, the result has the size",
        operands=(3,),
        downgrade=convolution.downgrade_transpose_conv2d,
    ),
}


def is_old(old: OldOperation, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether an operation has the form of an older release, which a rule can upgrade."""
    rule, spec = RULES.get(old.name), BY_MLIR.get(old.name)
    if rule is None:
        return False
    if spec is None:
        return True
    fewest, most = spec.operand_range()
    if not fewest <= len(old.inputs) <= (len(old.inputs) if most is None else most):
        return True
    if rule.is_old is not None and rule.is_old(old, tensors):
        return True
    return not rule.keys.isdisjoint(old.attributes)


#: Operators whose form has changed -> the state with that of today, and what makes the one before.
DOWNGRADES: Final = table_of(
    "older_form",
    {
        BY_MLIR[name].name: (rule.since, rule.downgrade)
        for name, rule in RULES.items()
        if rule.downgrade is not None
    },
)
