"""Clean-up: operators that change nothing, that are computed twice, or that nothing uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from tosa_convert.builder.edit import BlockEditor, change_blocks, constant_key
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.derived import touches_variables, unrun_regions
from tosa_convert.graph.dtypes import FLOATS, INT8, INT16, INT32, INT64, DType, RoundingMode
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    IDENTITY,
    OPERATORS,
    VARIABLE_READ,
    VARIABLE_WRITE,
    operator,
)
from tosa_convert.rewrites.operator_pass import Recorder, replace_by_value

_AND: Final = operator("LOGICAL_AND")
#: Which operand the result is; None if it is another value.
_Find = Callable[[Operator, BlockEditor], str | None]


def _first(op: Operator, edit: BlockEditor) -> str | None:
    return op.inputs[0]


def _of_equal_shape(op: Operator, edit: BlockEditor) -> str | None:
    """Return the operand if its shape is known and that of the result, else None."""
    shape = edit.tensors[op.inputs[0]].shape
    is_known = shape is not None and DYNAMIC not in shape
    return op.inputs[0] if is_known and shape == edit.tensors[op.outputs[0]].shape else None


def _cast(op: Operator, edit: BlockEditor) -> str | None:
    """Return what is cast to its own type, or to a type that holds all its integers, and back."""
    (value,), (result,) = op.inputs, op.outputs
    first = edit.producers.get(value)
    if _type(value, edit) != _type(result, edit) and first is not None and first.spec is op.spec:
        held, given = edit.tensors[value].dtype, edit.tensors[first.inputs[0]].dtype
        is_held = not (held.is_float or given.is_float) and _bits(held) > _bits(given)
        return first.inputs[0] if is_held else None
    return value


def _bits(element: DType) -> int:
    return 1 if element.name == "BOOL" else element.bits


def _gather(op: Operator, edit: BlockEditor) -> str | None:
    """Return the table whose rows are all taken, in their order."""
    shape, data = edit.tensors[op.inputs[0]].shape, edit.data_of(op.inputs[1])
    if shape is None or data is None or data.dtype.is_float:
        return None
    if len(shape) != 3 or edit.tensors[op.inputs[1]].shape != shape[:2]:
        return None
    rows = data.numpy().reshape(shape[:2])
    return op.inputs[0] if bool((rows == np.arange(shape[1])).all()) else None


def _logical(op: Operator, edit: BlockEditor) -> str | None:
    """Return the operand that is combined with the truth value that has no effect."""
    for number, value in (op.inputs[::-1], op.inputs):
        if edit.number_of(number) == (op.spec is _AND):
            return value
    return None


def _type(name: str, edit: BlockEditor) -> object:
    tensor = edit.tensors[name]
    return tensor.dtype, tensor.shape


def _transpose(op: Operator, edit: BlockEditor) -> str | None:
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    return op.inputs[0] if perms == tuple(range(len(perms))) else None


def _concat(op: Operator, edit: BlockEditor) -> str | None:
    return op.inputs[0] if len(op.inputs) == 1 else None


def _add(op: Operator, edit: BlockEditor) -> str | None:
    for number, value in (op.inputs[::-1], op.inputs):
        bits = edit.bits_of(number)
        if bits is not None and bits in _NEGATIVE_ZEROS[edit.tensors[number].dtype.is_float]:
            return value
    return None


def _sub(op: Operator, edit: BlockEditor) -> str | None:
    return op.inputs[0] if edit.bits_of(op.inputs[1]) in _ZEROS else None


def _mul(op: Operator, edit: BlockEditor) -> str | None:
    for number, value in (op.inputs[1::-1], op.inputs[:2]):
        bits = edit.bits_of(number)
        if bits is not None and bits == _ones().get(edit.tensors[number].dtype):
            return value if edit.bits_of(op.inputs[2]) in _ZEROS else None
    return None


#: Bits of a number that is 0, of each width.
_ZEROS: Final = frozenset(bytes(width) for width in (1, 2, 4, 8))
#: Whether a type has floating-point numbers -> bits of the number whose sum with another is that.
_NEGATIVE_ZEROS: Final = {
    False: _ZEROS,
    True: frozenset(bytes(width - 1) + b"\x80" for width in (2, 4)),
}


@cache
def _ones() -> dict[DType, bytes]:
    """Return the bits of the number 1 of types that MUL has."""
    types = (INT32, INT64, *FLOATS)
    return {row: bytes(constant_of(np.ones(1), row).buffer) for row in types}


def _select(op: Operator, edit: BlockEditor) -> str | None:
    condition, one, other = op.inputs
    chosen = edit.number_of(condition)
    if chosen is None:
        return one if one == other else None
    return one if chosen else other


_RULES: Final[dict[str, _Find]] = {
    "IDENTITY": _first,
    "RESHAPE": _of_equal_shape,
    "SLICE": _of_equal_shape,
    "PAD": _of_equal_shape,
    "TILE": _of_equal_shape,
    "TRANSPOSE": _transpose,
    "CONCAT": _concat,
    "CAST": _cast,
    "GATHER": _gather,
    "LOGICAL_AND": _logical,
    "LOGICAL_OR": _logical,
    "LOGICAL_XOR": _logical,
    "ADD": _add,
    "SUB": _sub,
    "MUL": _mul,
    "SELECT": _select,
}

NO_OPERATIONS: Final = tuple(map(operator, _RULES))


def remove_no_operation(op: Operator, edit: BlockEditor) -> str | None:
    """Return the operand that an operator returns, if its type is that of the result, else None."""
    value = _RULES[op.spec.name](op, edit)
    if value is None or _type(value, edit) != _type(op.outputs[0], edit):
        return None
    effect = "" if op.spec is IDENTITY else " without an effect"
    return replace_by_value(edit, op, value, f"{op.spec}{effect} became its operand")


# -- equal constants of a block become one ---------------------------------------------------------
# Small constants are equal if their bits are, large ones only if they share memory, so that
# weights are not read. A constant that is a result of the block keeps its name. Shapes stay apart
# beside an assertion: the reference model aborts if a shape that it asserts has another use.

EQUAL_CONSTANTS: Final = (CONST, CONST_SHAPE)

_ASSERT: Final = operator("ASSERT_EQUAL_SHAPE")


def merge_equal_constants(op: Operator, edit: BlockEditor) -> str | None:
    """Return an earlier constant with the same type and elements, or None."""
    (name,) = op.outputs
    if name in edit.shapes:
        if _ASSERT in edit.kinds:
            return None
        key: object = edit.shapes[name].values()
    else:
        tensor = edit.tensors[name]
        if tensor.data is None or tensor.scale is not None:
            return None
        key = constant_key(tensor)
    earlier = edit.constants.setdefault(key, name)
    if earlier == name or not edit.can_stand_for(earlier, name):
        return None
    edit.substitute(earlier, name)
    return f"{op.spec} equal to an earlier one"


# -- operators that compute the same from the same operands become one -----------------------------
# Operators with regions, variables or effects stay, and so do those that another program defines.

#: Those whose results are functions of their operands.
EQUAL_OPERATORS: Final = tuple(
    spec
    for spec in OPERATORS
    if spec.family not in ("control", "constant", "shape") and len(spec.results) == 1
)


def merge_equal_operators(op: Operator, edit: BlockEditor) -> str | None:
    """Return an earlier operator that computes the same, or None."""
    (name,) = op.outputs
    value = edit.tensors.get(name) or edit.shapes.get(name)
    if value is None:
        return None
    key = op.spec, op.inputs, tuple(sorted(op.attributes.items())), value.type_text()
    earlier = edit.constants.setdefault(key, name)
    if earlier == name or earlier not in edit.producers:
        edit.constants[key] = name
        return None
    return replace_by_value(edit, op, earlier, f"{op.spec} equal to an earlier one")


# -- operators whose results nothing uses are removed ----------------------------------------------
# Frontends leave constants and computations behind that no operator uses any more. What has an
# effect stays: writes of variables, control flow that touches variables, CUSTOM and
# ASSERT_EQUAL_SHAPE. One read of a variable that nothing writes stays, too: TOSA has no variable
# that no operator uses.

UNUSED_OPERATORS: Final = "unused-operators"
_WITH_EFFECT: Final = frozenset(
    (VARIABLE_WRITE, operator("CUSTOM"), *(row for row in OPERATORS if not row.results))
)


def remove_unused(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph without the operators that no result depends on, nor any effect."""
    made = change_blocks(graph, lambda where, block: _used_part(graph, where, block, recorder))
    if made is graph:
        return graph
    # A region that only removed operators ran has no purpose; others that nothing runs are not ours.
    unrun = {region.name for region in unrun_regions(graph)}
    removed = {region.name for region in unrun_regions(made)} - unrun
    return replace(made, regions=[row for row in made.regions if row.name not in removed])


def _used_part(graph: Graph, where: str, block: Block, recorder: Recorder) -> Block:
    """Return the block without unused operators; the same object if it has none."""
    used = set(block.outputs)
    update, isdisjoint = used.update, used.isdisjoint
    unused: list[int] = []
    operators = block.operators
    reads = _only_reads(graph, block)
    for index in range(len(operators) - 1, -1, -1):
        op = operators[index]
        is_last_use = index in reads and reads[index] not in used
        if isdisjoint(op.outputs) and not _has_effect(graph, op) and not is_last_use:
            unused.append(index)
        else:
            update(op.inputs)
    if not unused:
        return block
    for index in reversed(unused):
        op = operators[index]
        recorder.add(UNUSED_OPERATORS, f"removed {op.spec.name}", where, index, op)
    gone = {name for index in unused for name in operators[index].outputs}
    dropped = set(unused)
    return replace(
        block,
        operators=[op for index, op in enumerate(operators) if index not in dropped],
        tensors={name: value for name, value in block.tensors.items() if name not in gone},
        shapes={name: value for name, value in block.shapes.items() if name not in gone},
    )


def _only_reads(graph: Graph, block: Block) -> dict[int, str]:
    """Return the first reads of variables that no operator writes: their numbers, and the variables."""
    reads = {
        op.inputs[0]: index
        for index, op in reversed(list(enumerate(block.operators)))
        if op.spec is VARIABLE_READ
    }
    if not reads:
        return {}
    written = {
        _symbol(own, op.outputs[0])
        for _, own in graph.blocks()
        for op in own.operators
        if op.spec is VARIABLE_WRITE
    }
    return {index: name for name, index in reads.items() if _symbol(block, name) not in written}


def _symbol(block: Block, name: str) -> str:
    return block.tensors[name].variable_name or name


def _has_effect(graph: Graph, op: Operator) -> bool:
    if op.spec in _WITH_EFFECT:
        return True
    return bool(op.spec.regions) and touches_variables(graph, op)


# -- replace the reciprocal of a reciprocal of RSQRT by that RSQRT ---------------------------------
# Frontends write a square root as the reciprocal of RSQRT, and divide by it. No RSQRT of a number
# is so large or so small that its reciprocal would overflow or lose digits.

_RECIPROCAL: Final = operator("RECIPROCAL")
_RSQRT: Final = operator("RSQRT")
RECIPROCALS: Final = (_RECIPROCAL,)


def merge_reciprocals(op: Operator, edit: BlockEditor) -> str | None:
    """Use the RSQRT of which this is the reciprocal of the reciprocal, or return None."""
    root = edit.producers.get(op.inputs[0])
    if root is None or root.spec is not _RECIPROCAL:
        return None
    inverse = edit.producers.get(root.inputs[0])
    if inverse is None or inverse.spec is not _RSQRT:
        return None
    return replace_by_value(
        edit, op, inverse.outputs[0], "RECIPROCAL of a square root became RSQRT"
    )


# -- zeros around an image become the padding of the convolution that reads it ---------------------
# Weights that are not finite would make NaN of the zeros, and nothing of padding.

PADDING: Final = "fold-padding"
PADDED: Final = tuple(map(operator, ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D")))
_PAD: Final = operator("PAD")
#: Operator -> the first axis of the weights along which the window has a size.
_WINDOW: Final = {"CONV2D": 1, "CONV3D": 1, "DEPTHWISE_CONV2D": 0}


def fold_padding(op: Operator, edit: BlockEditor) -> str | None:
    """Add a PAD of images to the padding of a convolution, which is its only use, or return None."""
    image, weight, _, point, *_ = op.inputs
    pad = edit.producers.get(image)
    if pad is None or pad.spec is not _PAD or edit.uses[image] != 1:
        return None
    sizes, data, shape = (
        edit.sizes_of(pad.inputs[1]),
        edit.data_of(weight),
        edit.tensors[weight].shape,
    )
    number = edit.bits_of(pad.inputs[2])
    if sizes is None or data is None or shape is None or number is None:
        return None
    is_float = edit.tensors[image].dtype.is_float
    if number != edit.bits_of(point) or (is_float and number not in _ZEROS):
        return None
    own, dilation = op.attributes["pad"], op.attributes["dilation"]
    assert isinstance(own, tuple)
    assert isinstance(dilation, tuple)
    spatial = sizes[2:-2]
    if len(spatial) != len(own) or any(sizes[:2]) or any(sizes[-2:]) or min(spatial) < 0:
        return None
    total = tuple(before + more for before, more in zip(own, spatial, strict=True))
    first = _WINDOW[op.spec.name]
    window = zip(shape[first : first + len(dilation)], dilation, strict=True)
    most = [(size - 1) * step for size, step in window for _ in range(2)]
    if any(size > limit for size, limit in zip(total, most, strict=True)):
        return None
    if is_float and not np.isfinite(data.numpy()).all():
        return None
    attributes = {**op.attributes, "pad": total}
    edit.emit(op.spec, [pad.inputs[0], *op.inputs[1:]], attributes, results=op.outputs)
    return f"PAD of zeros joined {op.spec.name}"


# -- reduce integers to their maximum or minimum before they are rescaled --------------------------
# RESCALE by a multiplier of 0 or more keeps the order of integers, so that the result is the
# same, bit for bit. A softmax of int8 from TFLite finds its maximum in INT32, which not all
# hardware has.

REDUCTIONS: Final = "reduce-before-rescale"
RESCALED_REDUCTIONS: Final = (operator("REDUCE_MAX"), operator("REDUCE_MIN"))
_RESCALE: Final = operator("RESCALE")
#: Roundings that keep the order. An inexact one may be any of them at each element.
_ROUNDINGS: Final = (RoundingMode.SINGLE_ROUND, RoundingMode.DOUBLE_ROUND)


def reduce_before_rescale(op: Operator, edit: BlockEditor) -> str | None:
    """Reduce the operand of the RESCALE before a reduction, and rescale that."""
    rescale = edit.producers.get(op.inputs[0])
    if rescale is None or rescale.spec is not _RESCALE or not _keeps_order(rescale, edit):
        return None
    given = edit.tensors[rescale.inputs[0]]
    if given.dtype not in (INT8, INT16) or edit.tensors[op.outputs[0]].dtype is not INT32:
        return None
    reduced = edit.emit(op.spec, [rescale.inputs[0]], op.attributes)
    edit.emit(_RESCALE, [reduced, *rescale.inputs[1:]], rescale.attributes, results=op.outputs)
    return f"{op.spec} of INT32 became one of {given.dtype} before the RESCALE"


def _keeps_order(rescale: Operator, edit: BlockEditor) -> bool:
    """Return whether a RESCALE has one multiplier, of 0 or more, and signed integers."""
    flags = ("per_channel", "input_unsigned", "output_unsigned")
    if any(rescale.attributes[name] for name in flags):
        return False
    if rescale.attributes["rounding_mode"] not in _ROUNDINGS:
        return False
    multiplier = edit.tensors[rescale.inputs[1]]
    if multiplier.data is None or multiplier.variable:
        return False
    return min(multiplier.data.numpy().reshape(-1).tolist(), default=-1) >= 0
