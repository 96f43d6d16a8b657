"""The accuracy rule of each operator, a row each, and of each tensor of a graph.

The rows come from the descriptors of the official tests, which follow the chapter on accuracy of
the TOSA specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tosa_convert.golden.accuracy.tolerance_rules import EXACT, FLOATS, Rule
from tosa_convert.golden.running.variable_states import writes_variables
from tosa_convert.graph.dtypes import DType, RoundingMode
from tosa_convert.graph.extract import extract_region, reachable, touches_variables
from tosa_convert.graph.model import Block, Graph, Operator, Tensor

#: An operator's rule for a floating-point result whose operands are exact; None where TOSA gives none.
RuleOf = Callable[[Block, Operator, Tensor], Rule | None]
#: The number of products in the sum that gives an element of an operator's result.
Length = Callable[[Block, Operator], int]


def _exact(block: Block, operator: Operator, result: Tensor) -> Rule:
    return EXACT


def _none(block: Block, operator: Operator, result: Tensor) -> None:
    return None


def _same(rule: Rule) -> RuleOf:
    """Use the same rule for all element types."""
    return lambda block, operator, result: rule


def _fp32_or(fp32: Rule, others: Rule) -> RuleOf:
    return lambda block, operator, result: fp32 if result.dtype.name == "FP32" else others


def _arithmetic(block: Block, operator: Operator, result: Tensor) -> Rule:
    return Rule("ulp", 1.0 if result.dtype.name == "BF16" else 0.5)


def _sin(block: Block, operator: Operator, result: Tensor) -> Rule:
    least = FLOATS[result.dtype.name][1]
    return Rule("abs-error", base=2.0, divisor=2.0, magnitude=True, floor=math.pi * least)


def _cast_to_blocks(block: Block, operator: Operator, result: Tensor) -> Rule:
    return Rule("ulp", 2.0 if result.dtype.name == "FP8E4M3" else 1.0)


def _cast(block: Block, operator: Operator, result: Tensor) -> Rule:
    if result.scale is not None:
        return _cast_to_blocks(block, operator, result)
    if block.tensors[operator.inputs[0]].scale is not None:
        return Rule("ulp", 1.0)
    return Rule("ulp", 0.5, lower=1.0)


def _resize(block: Block, operator: Operator, result: Tensor) -> Rule:
    return EXACT if result.scale is not None else Rule("max-relative", 20.0, base=0.006)


def _reduce_product(block: Block, operator: Operator, result: Tensor) -> Rule:
    source, axis = block.tensors[operator.inputs[0]], operator.attributes["axis"]
    assert isinstance(axis, int)
    return Rule("reduce-product", float(source.shape[axis]) if source.shape else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumOfProducts:
    """The row of an operator whose results are sums of products.

    length: products in each sum. factors: positions of the operands that are multiplied.
    bias: position of the operand that is added, if one is.
    block_scaled: the operands are data and scales, and sums are accumulated in FP32.
    narrow_units: operands of at most 8 bits may be multiplied by units with fewer bits than FP32.
    wide_bf16: sums of BF16 are accumulated in FP32.
    """

    length: Length
    factors: tuple[int, ...] = (0,)
    bias: int | None = None
    block_scaled: bool = False
    narrow_units: bool = False
    wide_bf16: bool = False

    def __call__(self, block: Block, operator: Operator, result: Tensor) -> Rule:
        """Return the rule for the sum's length, the operands and the accumulator."""
        operands = [block.tensors[operator.inputs[i]] for i in self.factors]
        output = result.dtype.name
        accumulator = self._accumulator(operator, output)
        # Errors of an accumulator with more bits add up as a random walk does: by the root of its
        # excess of bits.
        excess = max(0, FLOATS[accumulator][0] - FLOATS[output][0])
        terms = math.ceil(self.length(block, operator) / math.pow(2.0, excess / 2))
        terms += self._has_bias(block, operator, operands)
        is_narrow = any(t.dtype.bits <= 8 or t.scale is not None for t in operands)
        if self.narrow_units and accumulator == "FP32" and is_narrow:
            return Rule("dot-product", float(min(_NARROW_UNITS * terms, _NARROW_MOST)))
        is_fp32 = output == "FP32" and all(t.dtype.name == "FP32" for t in operands)
        return Rule("dot-product", (6.0 if is_fp32 else 2.0) * terms)

    def _accumulator(self, operator: Operator, output: str) -> str:
        if self.block_scaled:
            return "FP32"
        chosen = operator.attributes.get("acc_type")
        name = chosen.name if isinstance(chosen, DType) else output
        return "FP32" if self.wide_bf16 and name == "BF16" else name

    def _has_bias(self, block: Block, operator: Operator, operands: list[Tensor]) -> bool:
        """Return whether there is one more term: a bias that is not known to be zero."""
        if self.bias is None:
            return False
        if self.block_scaled or any(t.scale is not None for t in operands):
            return True
        data = block.tensors[operator.inputs[self.bias]].data
        return data is None or bool(data.elements().any())


_NARROW_UNITS: Final = 2048
_NARROW_MOST: Final = 131072


def _shape(block: Block, operator: Operator, position: int) -> tuple[int, ...]:
    return block.tensors[operator.inputs[position]].shape or ()


def _kernel(block: Block, operator: Operator) -> int:
    kernel = operator.attributes["kernel"]
    assert isinstance(kernel, tuple)
    return math.prod(kernel)


def _adaptive_kernel(block: Block, operator: Operator) -> int:
    kernel = block.shapes[operator.inputs[3]].values()
    return math.prod(kernel if kernel is not None else _shape(block, operator, 0)[1:3])


def _last_size(block: Block, operator: Operator) -> int:
    return _shape(block, operator, 0)[-1]


def _axis_size(block: Block, operator: Operator) -> int:
    axis = operator.attributes["axis"]
    assert isinstance(axis, int)
    return _shape(block, operator, 0)[axis]


def _weights(position: int) -> Length:
    """Count the weights of one output channel, for weights that are [output, kernel..., input]."""
    return lambda block, operator: math.prod(_shape(block, operator, position)[1:])


def _depthwise_weights(block: Block, operator: Operator) -> int:
    """Count the weights of one output channel, for weights that are [kernel..., channel, multiple]."""
    return math.prod(_shape(block, operator, 1)[:2])


def _plane(values: int) -> Length:
    """Count the values of a plane whose points have `values` values each."""
    return lambda block, operator: values * math.prod(_shape(block, operator, 0)[1:])


_CONV: Final = SumOfProducts(length=_weights(1), factors=(0, 1), bias=2, narrow_units=True)
_MATMUL: Final = SumOfProducts(length=_last_size, factors=(0, 1), narrow_units=True)

#: The rule of each operator for floating-point results.
FLOAT_RULES: Final[Mapping[str, RuleOf]] = {
    "ABS": _exact,
    "ADD": _arithmetic,
    "ADD_SHAPE": _exact,
    "ARGMAX": _exact,
    "ARITHMETIC_RIGHT_SHIFT": _exact,
    "ASSERT_EQUAL_SHAPE": _exact,
    "AVG_POOL2D": SumOfProducts(length=_kernel),
    "AVG_POOL2D_ADAPTIVE": SumOfProducts(length=_adaptive_kernel),
    "BITWISE_AND": _exact,
    "BITWISE_NOT": _exact,
    "BITWISE_OR": _exact,
    "BITWISE_XOR": _exact,
    "CAST": _cast,
    "CAST_FROM_BLOCK_SCALED": _same(Rule("ulp", 1.0)),
    "CAST_TO_BLOCK_SCALED": _cast_to_blocks,
    "CEIL": _same(Rule("ulp", 0.5)),
    "CLAMP": _exact,
    "CLZ": _exact,
    "CONCAT": _exact,
    "CONCAT_SHAPE": _exact,
    "COND_IF": _none,
    "CONST": _exact,
    "CONST_SHAPE": _exact,
    "CONV2D": _CONV,
    "CONV2D_BLOCK_SCALED": SumOfProducts(
        length=_weights(2), factors=(0, 2), bias=4, block_scaled=True, narrow_units=True
    ),
    "CONV3D": _CONV,
    "COS": _same(Rule("abs-error", base=1.0, divisor=2.0, magnitude=True)),
    "CUSTOM": _none,
    "DEPTHWISE_CONV2D": replace(_CONV, length=_depthwise_weights),
    "DIM": _exact,
    "DIV_CEIL_SHAPE": _exact,
    "DIV_FLOOR_SHAPE": _exact,
    "EQUAL": _exact,
    "ERF": _same(Rule("ulp", 5.0)),
    "EXP": _fp32_or(Rule("abs-error", base=3.0), Rule("abs-error", base=1.0)),
    "EXP2_SHAPE": _exact,
    "FFT2D": SumOfProducts(length=_plane(2)),
    "FLOOR": _same(Rule("ulp", 0.5)),
    "GATHER": _exact,
    "GREATER": _exact,
    "GREATER_EQUAL": _exact,
    "IDENTITY": _exact,
    "INTDIV": _exact,
    "LOG": _same(Rule("abs-error", lower=0.5)),
    "LOG2_CEIL_SHAPE": _exact,
    "LOG2_FLOOR_SHAPE": _exact,
    "LOGICAL_AND": _exact,
    "LOGICAL_LEFT_SHIFT": _exact,
    "LOGICAL_NOT": _exact,
    "LOGICAL_OR": _exact,
    "LOGICAL_RIGHT_SHIFT": _exact,
    "LOGICAL_XOR": _exact,
    "MATMUL": _MATMUL,
    "MATMUL_T": _MATMUL,
    "MATMUL_T_BLOCK_SCALED": SumOfProducts(
        length=_last_size, factors=(0, 2), block_scaled=True, narrow_units=True
    ),
    "MAXIMUM": _exact,
    "MAX_POOL2D": _exact,
    "MAX_POOL2D_ADAPTIVE": _exact,
    "MAX_SHAPE": _exact,
    "MINIMUM": _exact,
    "MIN_SHAPE": _exact,
    "MOD_SHAPE": _exact,
    "MUL": _arithmetic,
    "MUL_SHAPE": _exact,
    "NEGATE": _exact,
    "PAD": _exact,
    "POW": _same(Rule("bounds")),
    "RECIPROCAL": _same(Rule("ulp", 1.0)),
    "REDUCE_ALL": _exact,
    "REDUCE_ANY": _exact,
    "REDUCE_MAX": _exact,
    "REDUCE_MIN": _exact,
    "REDUCE_PRODUCT": _reduce_product,
    "REDUCE_SUM": SumOfProducts(length=_axis_size, wide_bf16=True),
    "RESCALE": _exact,
    "RESHAPE": _exact,
    "RESHAPE_BLOCK_SCALED": _exact,
    "RESIZE": _resize,
    "REVERSE": _exact,
    "RFFT2D": SumOfProducts(length=_plane(1)),
    "ROW_GATHER": _exact,
    "ROW_GATHER_BLOCK_SCALED": _exact,
    "RSQRT": _same(Rule("ulp", 2.0)),
    "SCATTER": _exact,
    "SELECT": _exact,
    "SIGMOID": _same(Rule("abs-error")),
    "SIN": _sin,
    "SLICE": _exact,
    "SLICE_SHAPE": _exact,
    "SUB": _arithmetic,
    "SUB_SHAPE": _exact,
    "TABLE": _exact,
    "TANH": _fp32_or(
        Rule("abs-error", lower=0.5, base=12.0), Rule("abs-error", lower=0.5, base=4.0)
    ),
    "TILE": _exact,
    "TRANSPOSE": _exact,
    "TRANSPOSE_CONV2D": _CONV,
    "VARIABLE": _exact,
    "VARIABLE_READ": _exact,
    "VARIABLE_WRITE": _exact,
    "WHILE_LOOP": _none,
}
#: Operators that only move elements: the rule of an operand is that of the result.
MOVES: Final = frozenset(
    [
        "CONCAT",
        "GATHER",
        "IDENTITY",
        "PAD",
        "RESHAPE",
        "REVERSE",
        "ROW_GATHER",
        "SCATTER",
        "SLICE",
        "TILE",
        "TRANSPOSE",
        "VARIABLE_READ",
        "VARIABLE_WRITE",
    ]
)


def rule_of(block: Block, operator: Operator, output: str) -> Rule | None:
    """Return the rule for an output of an operator with exact operands; None where TOSA gives none."""
    result = block.tensors.get(output)
    if result is not None and result.dtype.name in FLOATS:
        return FLOAT_RULES[operator.spec.name](block, operator, result)
    # Of the attributes only RESCALE's can have this value.
    is_inexact = operator.attributes.get("rounding_mode") is RoundingMode.INEXACT_ROUND
    return Rule("steps", 1.0) if is_inexact else EXACT


def _rule_of_regions(graph: Graph, operator: Operator, output: str) -> Rule | None:
    """Return the rule for an output of control flow: that of its region's output.

    If only one of two branches is exact, the rule of the other. The errors of a loop's iterations add
    up, so a loop that is not exact has no rule.
    """
    by_region: list[list[Rule | None]] = []
    for row in operator.spec.regions:
        inner = extract_region(graph, str(operator.attributes[row.name]))
        inner_rules = rules(inner)
        constant = {name for op in inner.main.operators if not op.inputs for name in op.outputs}
        by_region.append(
            [EXACT if name in constant else inner_rules.get(name) for name in inner.main.outputs]
        )
    if operator.spec.name == "WHILE_LOOP":
        return EXACT if all(rule == EXACT for outputs in by_region for rule in outputs) else None
    position = operator.outputs.index(output)
    pair = {outputs[position] if position < len(outputs) else None for outputs in by_region}
    if None in pair or len(pair - {EXACT}) > 1:
        return None
    return next(iter(pair - {EXACT}), EXACT)


def rules(graph: Graph) -> dict[str, Rule]:
    """Return the rule for each tensor of the main block that depends on at most one inexact operator.

    The other tensors inherit errors: no rule of TOSA is about them.
    """
    block = graph.main
    variables = [name for name, tensor in block.tensors.items() if tensor.variable]
    result: dict[str, Rule] = dict.fromkeys((*block.inputs, *variables), EXACT)
    for operator in block.operators:
        operands = [result.get(name) for name in operator.inputs if name in block.tensors]
        uses_states = bool(operator.spec.regions) and touches_variables(graph, operator)
        if uses_states:
            operands += map(result.get, variables)
        for name in operator.outputs:
            rule = _result_rule(graph, operator, name, operands)
            if rule is None:
                result.pop(name, None)  # of a variable: it had one before it was written
            else:
                result[name] = rule
        if uses_states and not _is_exact_inside(graph, operator, operands):
            for name in variables:
                tensor = block.tensors[name]
                if writes_variables(graph, operator, [tensor.variable_name or name]):
                    result.pop(name, None)
    return result


def _result_rule(
    graph: Graph, operator: Operator, name: str, operands: list[Rule | None]
) -> Rule | None:
    """Derive the rule for an output from those of the operands."""
    if None in operands:
        return None
    if all(rule == EXACT for rule in operands):
        if operator.spec.regions:
            return _rule_of_regions(graph, operator, name)
        return rule_of(graph.main, operator, name)
    different = {rule for rule in operands if rule is not None and rule != EXACT}
    return different.pop() if operator.spec.name in MOVES and len(different) == 1 else None


def _is_exact_inside(graph: Graph, operator: Operator, operands: list[Rule | None]) -> bool:
    """Return whether all that an operator's regions compute is exact, and so the states they write."""
    return all(rule == EXACT for rule in operands) and all(
        rule_of(block, op, name) == EXACT
        for region in reachable(graph, [operator])
        for block in region.blocks
        for op in block.operators
        for name in op.outputs
        if not op.spec.regions and name in block.tensors
    )
