"""A program in the form of an earlier state of the dialect, or of TOSA 0.80: undo an upgrade."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from math import prod
from typing import Final

from tosa_convert.builder.edit import BlockEditor, rewrite
from tosa_convert.eras.dialect_states import (
    BLOCK_SCALES,
    DENSE_ARRAYS,
    ENUMS,
    FUNC_DIALECT,
    INT4_OPERANDS,
    OPERANDS,
    OPERATORS,
    STATES,
    TYPES,
    VARIABLE_SYMBOLS,
)
from tosa_convert.eras.editor import (
    DowngradeEditor,
    Integer,
    Integers,
    OlderOperator,
    Refused,
    WrittenValue,
)
from tosa_convert.eras.table import DOWNGRADES, Downgrade
from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.graph.dtypes import FLOATS, INT8, DType, dtype
from tosa_convert.graph.model import (
    DYNAMIC,
    Block,
    Graph,
    Operator,
    Region,
    block_path,
    located,
    operator_path,
    quoted,
)
from tosa_convert.graph.opset import CONST, CONST_SHAPE, VARIABLE
from tosa_convert.graph.versions import newer_than

_CODE = "unsupported-by-reader"


class Form:
    """An older form of programs: what it has, and what writes an operator in it.

    state: that of the dialect whose operators it has, see `dialect_states`. who: reads it, for messages.
    downgrades: operators whose form was another one -> the state since which it is the current one, and
        what makes the older one.
    """

    def __init__(
        self, state: str, who: str, downgrades: Mapping[str, tuple[str, Downgrade]] = DOWNGRADES
    ) -> None:
        self.state = state
        self.who = who
        self.downgrades = downgrades

    def editor(self, block: Block) -> DowngradeEditor:
        return DowngradeEditor(block, self.state)

    def has_operator(self, block: Block, operator: Operator) -> bool:
        # Of variables there are findings, and constant shapes can become attributes.
        spec = operator.spec
        return (
            not any(newer_than(block, operator, self.state))
            or spec is CONST_SHAPE
            or spec.encoded_as != spec.name
        )

    def has_type(self, dtype: DType) -> bool:
        return TYPES.get(dtype.name, "") <= self.state


def dialect_form(state: str, reader: str = "") -> Form:
    """Return the form of a state of the dialect. reader: who is to read it, for messages."""
    return Form(state, reader or f"the dialect of {state}")


def downgrade_graph(graph: Graph, form: Form) -> Graph:
    """Return a program for writers, whose operators are all `OlderOperator`, in an older form."""
    findings = list(missing(graph, form))
    regions = []
    for region in graph.regions:
        blocks = []
        for block in region.blocks:
            where = block_path(region.name, block.name)
            blocks.append(_block(block, where, form, findings))
        regions.append(Region(region.name, blocks))
    if findings:
        raise TosaConvertError(findings)
    return replace(graph, regions=regions)


def missing(graph: Graph, form: Form) -> Iterator[Finding]:
    """Report the operators and element types that a form does not have."""
    for where, block in graph.blocks():
        yield from _type_findings(block, where, form)
        for index, operator in enumerate(block.operators):
            if not form.has_operator(block, operator):
                place = located(operator_path(where, index, operator), operator)
                lacks, _ = newer_than(block, operator, form.state)
                yield Finding(_CODE, place, f"{form.who} has no {lacks or operator.spec.name}")
            elif form.state < INT4_OPERANDS and (row := _new_operand(block, operator, form)):
                place = located(operator_path(where, index, operator), operator)
                yield Finding(_CODE, place, f"{form.who} has no {operator.spec.name} of {row}")


def _new_operand(block: Block, operator: Operator, form: Form) -> DType | None:
    """Return the integers below 8 bits of an operator, if only constants and convolutions took them."""
    if operator.spec is CONST or "CONV" in operator.spec.name:
        return None
    tensors = (block.tensors.get(name) for name in (*operator.inputs, *operator.outputs))
    kinds = [tensor.dtype for tensor in tensors if tensor is not None]
    return next((row for row in kinds if row.is_in_bytes and form.has_type(row)), None)


def older_findings(graph: Graph, form: Form) -> list[Finding]:
    """Return why a program cannot be written in an older form; see `downgrade_graph`."""
    try:
        downgrade_graph(graph, form)
    except TosaConvertError as error:
        return list(error.findings)
    return []


def has_form_of(graph: Graph, state: str) -> bool:
    """Return whether the current form of a program, which has one in a state, is that of it, too."""
    if state < FUNC_DIALECT:
        return False
    older, today = (downgrade_graph(graph, dialect_form(name)) for name in (state, STATES[-1]))
    return all(
        len(block.operators) == len(other.operators)
        and all(map(partial(_same, state), block.operators, other.operators))
        and (state >= VARIABLE_SYMBOLS or not any(row.variable for row in block.tensors.values()))
        for (_, block), (_, other) in zip(older.blocks(), today.blocks(), strict=True)
    )


def _same(state: str, older: Operator, today: Operator) -> bool:
    """Return whether an operator is written for a state as in the current form."""
    assert isinstance(older, OlderOperator)
    assert isinstance(today, OlderOperator)
    if (older.mlir, older.inputs, older.own) != (today.mlir, today.inputs, today.own):
        return False
    if older.spec in (CONST, CONST_SHAPE):
        return state >= OPERANDS
    return not any(
        (isinstance(value, IntEnum) and state < ENUMS)
        or (isinstance(value, Integers) and state < DENSE_ARRAYS)
        for value in older.own.values()
    )


def _type_findings(block: Block, where: str, form: Form) -> Iterator[Finding]:
    for tensor in block.tensors.values():
        place = f"{where} tensor {quoted(tensor.name)}"
        if tensor.variable and form.state < OPERATORS[VARIABLE.name]:
            yield Finding(_CODE, place, f"{form.who} has no variables")
        if tensor.scale is not None and form.state < BLOCK_SCALES:
            yield Finding(_CODE, place, f"{form.who} has no tensors with scales")
        elif not form.has_type(tensor.dtype):
            yield Finding(_CODE, place, f"{form.who} has no element type {tensor.dtype}")


def _block(block: Block, where: str, form: Form, findings: list[Finding]) -> Block:
    editor = form.editor(block)
    for index, operator in enumerate(block.operators):
        spec = operator.spec
        editor.location = operator.location
        place = located(operator_path(where, index, operator), operator)
        since, downgrade = form.downgrades.get(spec.name, ("", None))
        if not form.has_operator(block, operator):
            continue
        try:
            if downgrade is not None and form.state < since:
                downgrade(editor, operator)
            else:
                editor.downgrade(operator, editor.attributes(operator))
        except Refused as problem:
            message = f"{form.who} has no form for this {spec.name}: {problem}"
            findings.append(Finding(_CODE, place, message, problem.hint))
    operators = _without_unused(editor, block)
    if form.state < OPERATORS[CONST_SHAPE.name] and not findings:
        shapes = {name for op in operators for name in op.inputs if name in block.shapes}
        shapes.update(name for name in (*block.inputs, *block.outputs) if name in block.shapes)
        for name in sorted(shapes):
            place = f"{where} shape {quoted(name)}"
            findings.append(Finding(_CODE, place, f"{form.who} has no values of shapes"))
    return replace(block, operators=operators, tensors=editor.tensors, shapes=editor.shapes)


def _without_unused(editor: DowngradeEditor, block: Block) -> list[Operator]:
    """Return the operators without constants that became attributes and nothing uses any more."""
    used = {name for op in editor.operators for name in op.inputs} | set(block.outputs)
    has_shapes = editor.state >= OPERATORS[CONST_SHAPE.name]
    unused = editor.read - used
    for name in unused:
        editor.tensors.pop(name, None)
    return [
        op
        for op in editor.operators
        if not (
            (op.spec is CONST and op.outputs[0] in unused)
            or (
                op.spec is CONST_SHAPE
                and op.outputs[0] not in used
                and (not has_shapes or op.outputs[0] in unused)
            )
        )
    ]


#: The state of the dialect whose operators have the attributes of 0.80.
_STATE_080: Final = "2025-01"
#: Operators and element types that MLIR had in that state, and 0.80 did not.
_NEWER_OPERATORS: Final = frozenset({"SIN", "COS"})
_NEWER_TYPES: Final = frozenset({"FP8E4M3", "FP8E5M2", "INT64"})
#: Lists of 16-bit integers; all other integers have 32 bits.
_SHORT_LISTS: Final = frozenset({"scale", "offset", "border", "table"})


class _Form080(Form):
    """The form of files. who: reads it, for messages."""

    def __init__(self, who: str) -> None:
        super().__init__(_STATE_080, who, _DOWNGRADES_080)

    def editor(self, block: Block) -> DowngradeEditor:
        return _Editor080(block, self.state)

    def has_operator(self, block: Block, operator: Operator) -> bool:
        name = operator.spec.name
        return name == "DIM" or (
            super().has_operator(block, operator) and name not in _NEWER_OPERATORS
        )

    def has_type(self, dtype: DType) -> bool:
        return super().has_type(dtype) and dtype.name not in _NEWER_TYPES


def form_080(reader: str = "") -> Form:
    """Return the form of `.tosa` files of TOSA 0.80. reader: who is to read it, for messages."""
    return _Form080(reader or "TOSA 0.80")


class _Editor080(DowngradeEditor):
    largest_bound = 2.0**31 - 1

    def since(self, state: str) -> str:
        return "TOSA 1.1" if state >= BLOCK_SCALES else "TOSA 1.0"

    def downgrade(
        self, op: Operator, own: dict[str, WrittenValue], inputs: Sequence[str] | None = None
    ) -> None:
        """Add an operator as for MLIR; refuse integers that do not fit into the field of a file."""
        for name, value in own.items():
            bits = 16 if name in _SHORT_LISTS else 32
            numbers = value.values if isinstance(value, Integers) else ()
            if isinstance(value, Integer):
                numbers = (value.value,)
            for number in numbers:
                if not -(1 << bits - 1) <= number < 1 << bits - 1:
                    raise Refused(f"{name} has the value {number}, expected {bits} bits")
        super().downgrade(op, own, inputs)


def _pad(edit: DowngradeEditor, op: Operator) -> None:
    """Turn the padding and its value into attributes."""
    image, padding, value = op.inputs
    number = edit.only_number(value, "pad_const")
    is_float = edit.tensors[image].dtype.is_float
    own: dict[str, WrittenValue] = {
        "padding": Integers(edit.sizes(padding, "padding"), 32),
        "pad_const_int": Integer(0 if is_float else int(number), 32),
        "pad_const_fp": number if is_float else 0.0,
    }
    edit.downgrade(op, own, (image,))


def _table(edit: DowngradeEditor, op: Operator) -> None:
    """Turn the table into an attribute."""
    values = edit.numbers(op.inputs[1], "table")
    edit.downgrade(op, {"table": Integers(values, 16)}, op.inputs[:1])


def _dim(edit: DowngradeEditor, op: Operator) -> None:
    raise Refused("its result would be a tensor of the type SHAPE, which is not written")


#: Operators whose form was another one; a permutation is an attribute, as it is today.
_DOWNGRADES_080: Final[dict[str, tuple[str, Downgrade]]] = {
    name: row for name, row in DOWNGRADES.items() if name != "TRANSPOSE"
} | {
    "DIM": (OPERATORS["DIM"], _dim),
    "PAD": (OPERANDS, _pad),
    "TABLE": (OPERANDS, _table),
}


# -- operators and types that TOSA 1.1 added, in the forms of 1.0 that compute the same ------------

_BOOL: Final = dtype("BOOL")
_INT48: Final = dtype("INT48")


def in_forms_of_1_0(graph: Graph) -> tuple[Graph, str]:
    """Return a sound program with forms of 1.0 where there are some, and what changed, by operator."""
    changed: Counter[str] = Counter()

    def rule(op: Operator, edit: BlockEditor) -> None:
        function = _FORMS.get(op.spec.name)
        if function is not None and function(op, edit):
            changed[op.spec.name] += 1

    result = rewrite(graph, rule)
    return result, ", ".join(f"{name} {count}" for name, count in sorted(changed.items()))


def _cast(op: Operator, edit: BlockEditor) -> bool:
    """Write a CAST to BOOL as a comparison with 0, so that NaN is true, and from BOOL by way of INT8."""
    (operand,), (result,) = op.inputs, op.outputs
    source, target = edit.tensors[operand], edit.tensors[result]
    if source.dtype is _BOOL and target.dtype in FLOATS:
        number = edit.emit("CAST", [operand], like=operand, dtype=INT8)
        edit.emit("CAST", [number], results=op.outputs)
        return True
    if source.dtype not in FLOATS or target.dtype is not _BOOL or source.shape is None:
        return False
    zero = edit.number(0, like=operand, name=f"{result}_zero")
    equal = edit.emit("EQUAL", [operand, zero], like=operand, dtype=_BOOL)
    edit.emit("LOGICAL_NOT", [equal], results=op.outputs)
    return True


def _rows(op: Operator, edit: BlockEditor) -> bool:
    """Write a GATHER or SCATTER of BOOL by way of INT8."""
    (result,) = op.outputs
    if edit.tensors[result].dtype is not _BOOL:
        return False
    inputs = [
        edit.emit("CAST", [name], like=name, dtype=INT8)
        if edit.tensors[name].dtype is _BOOL
        else name
        for name in op.inputs
    ]
    number = edit.emit(op.spec, inputs, op.attributes, like=result, dtype=INT8)
    edit.emit("CAST", [number], results=op.outputs)
    return True


def _product(op: Operator, edit: BlockEditor) -> bool:
    """Write a product of matrices as MATMUL of one batch, which TILE repeats, and of a TRANSPOSE."""
    a, b, *zero_points = op.inputs
    result = edit.tensors[op.outputs[0]].shape
    shapes = edit.tensors[a].shape, edit.tensors[b].shape
    if any(edit.tensors[name].scale for name in (a, b)) or None in (*shapes, result):
        return False
    one, other = (shape or () for shape in shapes)
    batches, element = (result or ())[:-2], edit.tensors[op.outputs[0]].dtype
    is_of_batches = len(one) == len(other) == 3
    is_one_batch = is_of_batches and one[0] == other[0]
    sizes = (one[0], other[0], *batches) if is_of_batches else (*one, *other, *(result or ()))
    if not is_one_batch and DYNAMIC in sizes:
        return False
    if len(batches) != 1 and element is _INT48:
        return False  # TOSA does not reshape INT48.
    if not is_one_batch:
        a, b = (_in_one_batch(edit, name, batches) for name in (a, b))
    elif op.spec.name == "MATMUL":
        return False
    if op.spec.name == "MATMUL_T":
        b = edit.emit("TRANSPOSE", [b], {"perms": (0, 2, 1)})
    if len(batches) == 1:
        edit.emit("MATMUL", [a, b, *zero_points], results=op.outputs)
        return True
    product = edit.emit("MATMUL", [a, b, *zero_points], dtype=element)
    edit.emit("RESHAPE", [product, edit.const_shape(result or ())], results=op.outputs)
    return True


def _in_one_batch(edit: BlockEditor, name: str, batches: tuple[int, ...]) -> str:
    """Return the matrices of an operand for each of some batches, in three dimensions."""
    shape = edit.tensors[name].shape or ()
    own = (1,) * (len(batches) + 2 - len(shape)) + shape[:-2]
    if own != batches:
        if len(shape) != len(batches) + 2:
            name = edit.emit("RESHAPE", [name, edit.const_shape((*own, *shape[-2:]))])
        times = tuple(size // one for size, one in zip(batches, own, strict=True))
        name = edit.emit("TILE", [name, edit.const_shape((*times, 1, 1))])
    if len(batches) == 1:
        return name
    return edit.emit("RESHAPE", [name, edit.const_shape((prod(batches), *shape[-2:]))])


_FORMS: Final = {
    "CAST": _cast,
    "GATHER": _rows,
    "MATMUL": _product,
    "MATMUL_T": _product,
    "SCATTER": _rows,
}
