"""The operators of a block with its old operations expressed as today's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from tosa_convert.eras.editor import Editor, OldOperation, Refused, Upgrade
from tosa_convert.eras.rules.elementwise import maximum_and_minimum
from tosa_convert.eras.table import RULES
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32, INT64, V1_0
from tosa_convert.graph.model import DYNAMIC, Block, Operator, Tensor
from tosa_convert.graph.opset import CONST

# -- what operators of an unchanged form were allowed to mean before TOSA 1.0 ----------------------

#: Operators of other families whose result does not depend on whether elements are signed.
_SIGN_FREE: Final = ("RESCALE", "SELECT", "EQUAL")
#: Families of operators whose result does not depend on it, as far as they are in TOSA 1.0.
_SIGN_FREE_FAMILIES: Final = ("layout", "gather", "control", "constant")


def as_today(editor: Editor, operator: Operator) -> None:
    """Add an operator to the editor's, changed or with others so that it means today what it meant."""
    spec, is_old = operator.spec, editor.upgrade.is_old
    if not spec.takes(len(operator.inputs), len(operator.outputs)):
        editor.add(operator)  # the rules of graphs refuse it
        return
    if editor.unsigned:
        _refuse_unsigned(editor, operator)
    axis = operator.attributes.get("axis")
    if isinstance(axis, int) and axis < 0 and operator.inputs:
        _count_axis_from_front(editor, operator, axis)
    if is_old and spec.elementwise > 1:
        _equal_ranks(editor, operator, spec.elementwise)
    elif is_old and (paddings := [row.length for row in spec.attributes if row.name == "pad"]):
        _divide(editor, operator, paddings[0] // 2)
    elif is_old and spec.name in _REPLACED:
        _REPLACED[spec.name](editor, operator)
        return
    editor.add(operator)


def _refuse_unsigned(editor: Editor, operator: Operator) -> None:
    spec = operator.spec
    if spec.name in _SIGN_FREE or (spec.since == V1_0 and spec.family in _SIGN_FREE_FAMILIES):
        return
    unsigned = editor.unsigned.intersection((*operator.inputs, *operator.outputs))
    if unsigned:
        raise Refused(
            "an operand or result has an unsigned type, which only RESCALE computes with",
            "convert the values with a tosa.rescale",
        )


def _count_axis_from_front(editor: Editor, operator: Operator, axis: int) -> None:
    shape = editor.rank(editor.tensor(operator.inputs[0]))
    if -axis <= len(shape):
        operator.attributes["axis"] = axis + len(shape)
        editor.note("a negative axis is counted from the front")


def _equal_ranks(editor: Editor, operator: Operator, count: int) -> None:
    """Give operands of lower rank leading dimensions of size 1."""
    tensors = [editor.tensors.get(name) for name in operator.inputs[:count]]
    shapes = [tensor.shape for tensor in tensors if tensor is not None]
    if len({None if shape is None else len(shape) for shape in shapes}) < 2:
        return
    if None in shapes:
        raise Refused(
            "the rank of an operand is not known, and operands must have the same rank",
            "give the tensors of the program static shapes before exporting",
        )
    rank = max(len(shape) for shape in shapes if shape is not None)
    inputs = list(operator.inputs)
    for index, tensor in enumerate(tensors):
        if tensor is not None and tensor.shape is not None and len(tensor.shape) < rank:
            inputs[index] = _with_rank(editor, tensor, tensor.shape, rank)
    operator.inputs = tuple(inputs)
    editor.note("operands of lower rank have leading dimensions of 1")


def _with_rank(editor: Editor, tensor: Tensor, shape: tuple[int, ...], rank: int) -> str:
    """Return a tensor with more dimensions: a constant of another shape, or a RESHAPE."""
    wider = (1,) * (rank - len(shape)) + shape
    key = tensor.name, rank
    name = editor.reshaped.get(key)
    if name is None:
        stem = f"{tensor.name}_rank{rank}"
        if isinstance(tensor.data, Constant) and not tensor.variable:
            editor.consumed.add(tensor.name)
            name = editor.constant_of(tensor.data, wider, name=stem)
        else:
            name = editor.reshape(tensor.name, wider, wanted=stem)
        editor.reshaped[key] = name
    return name


def _narrow_indices(editor: Editor, operator: Operator) -> None:
    """Cast an INT64 result of ARGMAX from INT32, which ARGMAX gives."""
    result = editor.tensor(operator.outputs[0]) if operator.outputs else None
    if result is not None and result.dtype is INT64:
        name = editor.new_tensor(f"{result.name}_int32", INT32, result.shape)
        operator.outputs = (name,)
        editor.add(operator)
        editor.emit("CAST", [name], results=[result.name])
        editor.note("its result is INT32, which is cast to INT64")
        return
    editor.add(operator)


def _widen_clamp(editor: Editor, operator: Operator) -> None:
    """Replace CLAMP of wide integers, which was accepted and which TOSA does not have."""
    image = editor.tensor(operator.inputs[0])
    bounds = operator.attributes.get("min_val"), operator.attributes.get("max_val")
    if image.dtype.is_float or image.dtype.name in ("INT8", "INT16"):
        editor.add(operator)
        return
    low, high = (
        bound[: image.dtype.element_bytes] if isinstance(bound, bytes) else b"" for bound in bounds
    )
    if len(low) != image.dtype.element_bytes or len(high) != len(low):
        raise Refused("a bound is not an element of its input")
    maximum_and_minimum(editor, operator.inputs[0], operator.outputs[0], (low, high))


#: Operators that others replace.
_REPLACED: Final[dict[str, Callable[[Editor, Operator], None]]] = {
    "ARGMAX": _narrow_indices,
    "CLAMP": _widen_clamp,
}

# -- windows ----------------------------------------------------------------------------------------


def _divide(editor: Editor, operator: Operator, dimensions: int) -> None:
    """Take off what no window reaches, so that the strides divide what is left."""
    image = editor.tensor(operator.inputs[0])
    kernel = _kernel(editor, operator, dimensions)
    shape, attributes = image.shape, operator.attributes
    if shape is None or kernel is None or len(shape) != dimensions + 2:
        return
    pad, stride = attributes.get("pad"), attributes.get("stride")
    dilation = attributes.get("dilation", (1,) * dimensions)
    if not (isinstance(pad, tuple) and isinstance(stride, tuple) and isinstance(dilation, tuple)):
        return
    if len(pad) != 2 * dimensions or not len(stride) == len(dilation) == dimensions:
        return
    after, sizes = list(pad), list(shape)
    for axis in range(dimensions):
        size = shape[axis + 1]
        if size == DYNAMIC or kernel[axis] == DYNAMIC or stride[axis] <= 0:
            continue
        reach = size + pad[2 * axis] + pad[2 * axis + 1] - (kernel[axis] - 1) * dilation[axis] - 1
        rest = reach % stride[axis] if reach > 0 else 0
        from_pad = min(rest, max(after[2 * axis + 1], 0))
        after[2 * axis + 1] -= from_pad
        sizes[axis + 1] -= rest - from_pad
    if tuple(after) != pad:
        attributes["pad"] = tuple(after)
        editor.note("padding that no window reaches is removed")
    if tuple(sizes) != shape:
        _slice(editor, operator, image, tuple(sizes))


def _kernel(editor: Editor, operator: Operator, dimensions: int) -> tuple[int, ...] | None:
    """Return the sizes of the window; None if they are not known."""
    kernel = operator.attributes.get("kernel")
    if isinstance(kernel, tuple):
        return kernel if len(kernel) == dimensions else None
    if operator.spec.family != "convolution":
        return None
    weight = editor.tensor(operator.inputs[1]).shape
    if weight is None or len(weight) != dimensions + 2:
        return None
    first = operator.spec.kernel_dimension
    return weight[first : first + dimensions]


def _slice(editor: Editor, operator: Operator, image: Tensor, sizes: tuple[int, ...]) -> None:
    """Slice off the last rows and columns, which no window reaches."""
    if DYNAMIC in sizes:
        raise Refused("its stride does not divide, and the size of its input is not known")
    stem = f"{operator.outputs[0]}_input"
    name = editor.new_tensor(stem, image.dtype, sizes)
    start = editor.const_shape((0,) * len(sizes), name=f"{stem}_start")
    size = editor.const_shape(sizes, name=f"{stem}_size")
    editor.emit("SLICE", [image.name, start, size], results=[name])
    operator.inputs = (name, *operator.inputs[1:])
    editor.note("rows and columns of the input that no window reaches are sliced off")


#: Reports an operation that cannot be upgraded: the operation, the reason, and a hint.
Refuse = Callable[[Operator | OldOperation, str, str], None]


def upgrade_block(
    block: Block,
    items: Sequence[Operator | OldOperation],
    unsigned: Collection[str],
    upgrade: Upgrade,
    refuse: Refuse,
) -> None:
    """Give a block the operators of today that its operators are, and their new values."""
    editor = Editor(block, unsigned, upgrade)
    for item in items:
        done, editor.operators = editor.operators, []
        if isinstance(item, Operator):
            editor.add(item)
        else:
            _apply(editor, item, refuse)
        upgraded_operators, editor.operators, start = editor.operators, done, len(done)
        for operator in upgraded_operators:
            editor.begin_operation(operator.spec.name.lower(), operator.location)
            editor.infer_open_results(operator)
            try:
                as_today(editor, operator)
            except Refused as problem:
                if str(problem):
                    refuse(operator, str(problem), problem.hint)
        # What follows may need ranks that the old form left open.
        for operator in editor.operators[start:]:
            editor.infer_open_results(operator)
    block.operators = _without_unused(editor)
    block.tensors, block.shapes = editor.tensors, editor.shapes


def _apply(editor: Editor, item: OldOperation, refuse: Refuse) -> None:
    """Add the operators that an old operation is, or report why there are none."""
    rule = RULES[item.name]
    editor.begin_operation(item.label, item.location)
    try:
        if rule.operands and len(item.inputs) not in rule.operands:
            expected = " or ".join(map(str, rule.operands))
            raise Refused(f"it has {len(item.inputs)} operands, expected {expected}")
        rule.apply(editor, item)
    except Refused as problem:
        if str(problem):
            refuse(item, str(problem), problem.hint)
    else:
        editor.note(rule.what)


def _without_unused(editor: Editor) -> list[Operator]:
    """Return the operators without constants that rules have read and nothing uses any more."""
    if not editor.consumed:
        return editor.operators
    used = set(editor.source.outputs)
    used.update(name for operator in editor.operators for name in operator.inputs)
    unused = editor.consumed - used
    for name in unused:
        editor.tensors.pop(name, None)
    return [
        operator
        for operator in editor.operators
        if operator.spec is not CONST or operator.outputs[0] not in unused
    ]
