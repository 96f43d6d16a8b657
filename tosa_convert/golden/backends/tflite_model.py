"""Write a program as a TFLite model, for consumers that take nothing else.

Only operators that TFLite has in the same form: a converter has to give back an equal program.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tosa_convert.errors import Findings, fail
from tosa_convert.frontends.tflite.read import DamagedError, TfliteFile, read_tflite
from tosa_convert.golden.accuracy.error_bounds import axis_of
from tosa_convert.golden.arrays import Slot, slots
from tosa_convert.golden.running.programs import input_slots, output_slots
from tosa_convert.graph.dtypes import DTYPES, FLOATS
from tosa_convert.graph.model import Block, Graph, Operator, name_in_location, quoted
from tosa_convert.graph.opset import table_of
from tosa_convert.io.files import map_file

#: Element types -> their codes in TFLite's schema.
_TYPES: Final = {"FP32": 0, "INT32": 2, "INT64": 4, "BOOL": 6, "INT16": 7, "INT8": 9}
#: ... of results of operators that compute: tensors of fewer bits would be quantised.
_COMPUTED: Final = ("FP32", "INT32", "BOOL")
_NO_ACTIVATION: Final = ("b", 0)
_SAME_SIZE: Final = ("b", 0)
_VALID: Final = ("b", 1)
_TRUE: Final = ("?", 1)


@dataclass(frozen=True, slots=True)
class Table:
    """Hold the fields of a flatbuffer's table by position.

    A field is (form of struct, number), a table, a list of tables, a text, or an array.
    """

    fields: Mapping[int, Any]


def packed(root: Table, identifier: bytes) -> bytes:
    """Return the bytes of a flatbuffer. What a field refers to comes after it.

    Example:
        >>> packed(Table({0: ("i", 7)}), b"TEST").hex()
        '100000005445535400000600080004000600000007000000'
    """
    out = bytearray(4) + identifier
    open_fields: list[tuple[int, Any]] = [(0, root)]
    for place, item in open_fields:  # grows
        at, inner = _append(out, item)
        struct.pack_into("<I", out, place, at - place)
        open_fields += inner
    return bytes(out)


def _append(out: bytearray, item: Any) -> tuple[int, list[tuple[int, Any]]]:
    """Append what a field refers to; returns where it is, and its own fields that refer to others."""
    if isinstance(item, Table):
        return _append_table(out, item)
    if isinstance(item, list):
        _align(out, 4)
        at = len(out)
        out += struct.pack("<I", len(item)) + bytes(4 * len(item))
        return at, [(at + 4 + 4 * index, one) for index, one in enumerate(item)]
    data = item.encode() if isinstance(item, str) else item.tobytes()
    _align(out, 16, 4)  # elements of constants are aligned
    at = len(out)
    count = len(data) if isinstance(item, str) else item.size
    out += struct.pack("<I", count) + data + b"\0" * isinstance(item, str)
    return at, []


def _append_table(out: bytearray, table: Table) -> tuple[int, list[tuple[int, Any]]]:
    size = 4
    offsets, parts = {}, []
    for position, value in sorted(table.fields.items()):
        form, number = value if isinstance(value, tuple) else ("I", 0)
        width = struct.calcsize(form)
        size += -size % width
        offsets[position] = size
        parts.append((size, form, number, None if isinstance(value, tuple) else value))
        size += width
    count = max(table.fields, default=-1) + 1
    slots = [offsets.get(position, 0) for position in range(count)]
    vtable = struct.pack(f"<HH{count}H", 4 + 2 * count, size, *slots)
    _align(out, 4, len(vtable))
    start = len(out) + len(vtable)
    out += vtable + struct.pack("<i", len(vtable)) + bytes(size - 4)
    inner = []
    for offset, form, number, item in parts:
        struct.pack_into(f"<{form}", out, start + offset, number)
        if item is not None:
            inner.append((start + offset, item))
    return start, inner


def _align(out: bytearray, width: int, ahead: int = 0) -> None:
    out += bytes(-(len(out) + ahead) % width)


# -- operators -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """Describe an operator of TFLite.

    code: in its schema. inputs: names of tensors, or constants. union: the number of its options; 0
        without. options: their fields.
    """

    code: int
    inputs: Sequence[Any]
    union: int = 0
    options: Mapping[int, Any] = field(default_factory=dict)


Rule = Callable[[Block, Operator], Row]
#: By the forms that rows of operators say; `_rule` adds those that take more than a row.
_FORMS: Final[dict[str, Rule]] = {
    "ARGMAX": lambda _, op: Row(
        56, (op.inputs[0], np.array(axis_of(op), np.int32)), 40, {0: ("b", _TYPES["INT32"])}
    ),
    "CONCAT": lambda _, op: Row(2, op.inputs, 10, {0: ("i", axis_of(op)), 1: _NO_ACTIVATION}),
    "GATHER": lambda _, op: Row(36, op.inputs, 23, {0: ("i", 1), 1: ("i", 1)}),
    "MATMUL": lambda _, op: Row(126, op.inputs[:2], 101),
    "NEGATE": lambda _, op: Row(59, op.inputs[:1], 42),
    "REVERSE": lambda _, op: Row(105, (op.inputs[0], _integers([axis_of(op)])), 81),
    "SLICE": lambda block, op: Row(
        65, (op.inputs[0], *(_sizes(block, name) for name in op.inputs[1:])), 48
    ),
    "TILE": lambda block, op: Row(69, (op.inputs[0], _sizes(block, op.inputs[1])), 51),
    "TRANSPOSE": lambda _, op: Row(39, (op.inputs[0], _integers(_listed(op, "perms"))), 26),
}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _FORMS.update(dict.fromkeys(names, function))
        return function

    return register


def _require(fits: bool, why: str) -> None:
    """Raise TosaConvertError("backend-refused") for what TFLite has not, or has in another form."""
    if not fits:
        raise fail("backend-refused", "a TFLite model", f"there is none with {why}")


def _numbers(op: Operator) -> tuple[int, int]:
    """Return the numbers of an operator and of its options in TFLite's schema."""
    _, code, options = op.spec.traits.tflite.split(":")
    return int(code), int(options)


@_rule("same")
def _same(block: Block, op: Operator) -> Row:
    code, union = _numbers(op)
    return Row(code, op.inputs, union)


@_rule("fused")
def _fused(block: Block, op: Operator) -> Row:
    code, union = _numbers(op)
    return Row(code, op.inputs, union, {0: _NO_ACTIVATION})


@_rule("MUL")
def _mul(block: Block, op: Operator) -> Row:
    _require(not np.any(_constant(block, op.inputs[2])), "MUL with a shift")
    given, result = (block.tensors[name].dtype for name in (op.inputs[0], op.outputs[0]))
    _require(given is result, "MUL with a wider result")
    return Row(18, op.inputs[:2], 21, {0: _NO_ACTIVATION})


@_rule("IDENTITY", "RESHAPE")
def _reshaped(block: Block, op: Operator) -> Row:
    shape = _integers(block.tensors[op.outputs[0]].shape or ())
    return Row(22, (op.inputs[0], shape), 17, {0: shape})


@_rule("PAD")
def _pad(block: Block, op: Operator) -> Row:
    filler = _constant(block, op.inputs[2]).reshape(())
    return Row(60, (op.inputs[0], _sizes(block, op.inputs[1]).reshape(-1, 2), filler), 43)


@_rule("axis")
def _reduce(block: Block, op: Operator) -> Row:
    code, union = _numbers(op)
    return Row(code, (op.inputs[0], _integers([axis_of(op)])), union, {0: _TRUE})


@_rule("CONV2D")
def _conv2d(block: Block, op: Operator) -> Row:
    channels, *kernel, _ = block.tensors[op.inputs[1]].shape or ()
    (height, width), (far, wide) = _listed(op, "stride"), _listed(op, "dilation")
    fields = {1: ("i", width), 2: ("i", height), 3: _NO_ACTIVATION, 4: ("i", wide), 5: ("i", far)}
    taken = *op.inputs[:2], _bias(block, op, channels)
    return Row(3, taken, 1, _window(block, op, kernel, fields))


@_rule("DEPTHWISE_CONV2D")
def _depthwise(block: Block, op: Operator) -> Row:
    weights = _constant(block, op.inputs[1])
    high, broad, channels, each = weights.shape
    (height, width), (far, wide) = _listed(op, "stride"), _listed(op, "dilation")
    fields = {1: ("i", width), 2: ("i", height), 3: ("i", each), 4: _NO_ACTIVATION}
    fields |= {5: ("i", wide), 6: ("i", far)}
    flat = weights.reshape(1, high, broad, channels * each)
    taken = op.inputs[0], flat, _bias(block, op, channels * each)
    return Row(4, taken, 2, _window(block, op, (high, broad), fields))


def _bias(block: Block, op: Operator, channels: int) -> Any:
    name = op.inputs[2]
    if block.tensors[name].shape == (channels,):
        return name
    return np.broadcast_to(_constant(block, name), (channels,))


@_rule("AVG_POOL2D", "MAX_POOL2D")
def _pool(block: Block, op: Operator) -> Row:
    (height, width), (high, wide) = _listed(op, "stride"), _listed(op, "kernel")
    fields = {1: ("i", width), 2: ("i", height), 3: ("i", wide), 4: ("i", high), 5: _NO_ACTIVATION}
    code = 1 if op.spec.name == "AVG_POOL2D" else 17
    return Row(code, op.inputs[:1], 5, _window(block, op, (high, wide), fields))


def _window(
    block: Block, op: Operator, kernel: Sequence[int], fields: Mapping[int, Any]
) -> Mapping[int, Any]:
    """Add the padding to options: none, or what TFLite calls SAME."""
    sizes, stride = (block.tensors[op.inputs[0]].shape or ())[1:3], _listed(op, "stride")
    dilation = _listed(op, "dilation") if "dilation" in op.attributes else (1, 1)
    same: list[int] = []
    for size, step, width, wide in zip(sizes, stride, kernel, dilation, strict=True):
        count = max((-(-size // step) - 1) * step + (width - 1) * wide + 1 - size, 0)
        same += [count // 2, count - count // 2]
    is_padded = any(_listed(op, "pad"))
    _require(not is_padded or same == [*_listed(op, "pad")], "a padding that is not SAME")
    return {0: _SAME_SIZE if is_padded else _VALID, **fields}


@_rule("CAST")
def _cast(block: Block, op: Operator) -> Row:
    taken, made = (block.tensors[name].dtype.name for name in (op.inputs[0], op.outputs[0]))
    # Others are rounded otherwise, or saturate.
    _require((taken, made) in (("INT32", "FP32"), ("BOOL", "INT32")), f"CAST {taken} to {made}")
    return Row(53, op.inputs, 37, {0: ("b", _TYPES[taken]), 1: ("b", _TYPES[made])})


_RULES: Final = table_of("tflite", _FORMS)


def _listed(op: Operator, name: str) -> tuple[int, ...]:
    found = op.attributes[name]
    assert isinstance(found, tuple)
    return found


def _constant(block: Block, name: str) -> Any:
    tensor = block.tensors[name]
    _require(tensor.data is not None, "an operand that is not a constant")
    assert tensor.data is not None
    return np.asarray(tensor.data.numpy()).reshape(tensor.shape or ())


def _sizes(block: Block, name: str) -> Any:
    values = block.shapes[name].values()
    _require(values is not None, "a shape that is computed")
    return _integers(values or ())


def _integers(values: Sequence[int]) -> Any:
    return np.array(values, np.int32)


# -- models ----------------------------------------------------------------------------------------


def tflite_model(graph: Graph) -> bytes:
    """Return a program as a TFLite model; refuse what TFLite has not, or not in the same form."""
    _require(len(graph.regions) == 1, "regions")
    block = graph.main
    numbers: dict[str, int] = {}
    tensors: list[Table] = []
    buffers = [Table({})]
    codes: list[int] = []
    operators = []

    def number_of(given: Any) -> int:
        """Return the number of a tensor, which a constant gets now."""
        if isinstance(given, str) and given in numbers:
            return numbers[given]
        number, buffer = len(tensors), 0
        if isinstance(given, str):
            numbers[given] = number
            tensor = block.tensors[given]
            kind, shape = tensor.dtype.name, tensor.shape
            _require(kind in _TYPES and tensor.scale is None, f"tensors of {kind}")
            _require(shape is not None and min(shape, default=1) > 0, "unknown sizes")
            data = None if tensor.data is None else _constant(block, given)
        else:
            kind = {"f": "FP32", "b": "BOOL"}.get(given.dtype.kind, f"INT{8 * given.itemsize}")
            shape, data = given.shape, given
        if data is not None:
            buffer = len(buffers)
            buffers.append(Table({0: np.frombuffer(data.tobytes(), np.uint8)}))
        fields = {0: _integers(shape or ()), 1: ("b", _TYPES[kind]), 2: ("I", buffer)}
        tensors.append(Table({**fields, 3: f"t{number}", 8: _TRUE}))
        return number

    inputs = [number_of(name) for name in block.inputs]
    for op in block.operators:
        if not op.inputs and op.spec.name in ("CONST", "CONST_SHAPE"):
            continue
        name = op.spec.name
        _require(name in _RULES, name)
        made = block.tensors[op.outputs[0]].dtype.name
        _require(name in _MOVED or made in _COMPUTED, f"{name} of {made}")
        spread = op.attributes.get("nan_mode", "PROPAGATE")
        _require(getattr(spread, "name", spread) == "PROPAGATE", "IGNORE of NaN")
        row = _RULES[name](block, op)
        if row.code not in codes:
            codes.append(row.code)
        taken = _integers([number_of(one) for one in row.inputs])
        results = _integers([number_of(one) for one in op.outputs])
        fields = {0: ("I", codes.index(row.code)), 1: taken, 2: results}
        if row.union:
            fields |= {3: ("B", row.union), 4: Table(row.options)}
        operators.append(Table(fields))
    outputs = [number_of(name) for name in block.outputs]
    subgraph = {0: tensors, 1: _integers(inputs), 2: _integers(outputs), 3: operators, 4: "main"}
    # All kernels have version 1.
    of_codes = [Table({0: ("b", min(code, 127)), 2: ("i", 1), 3: ("i", code)}) for code in codes]
    fields = {0: ("I", 3), 1: of_codes, 2: [Table(subgraph)], 3: "tosa-convert", 4: buffers}
    return packed(Table(fields), b"TFL3")


#: Operators that compute nothing, and take elements of any type.
_MOVED: Final = frozenset(
    ("CONCAT", "GATHER", "IDENTITY", "PAD", "RESHAPE", "REVERSE", "SLICE", "TILE", "TRANSPOSE")
)

# -- find the tensors of a TFLite model that the inputs and outputs of a program are ---------------
# A tensor of the same name is taken first, also one between the model's operators; then the one
# that the location of an output's operator names; and what is left corresponds by position.

#: Element type of TFLite -> those that a program may have for it.
_TENSOR_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    **{row.numpy_name: (row.name,) for row in DTYPES if row.is_native or row.is_in_bytes},
    **{row.numpy_name: (row.name,) for row in FLOATS},
    "float64": ("FP32",),
    **{f"uint{bits}": (f"INT{bits}",) for bits in (8, 16, 32)},
    **{f"{sign}int64": ("INT64", "INT32") for sign in ("", "u")},
}
_NOT_ITS_MODEL: Final = "it is not the model of this program"
_CUT: Final = "give the program's own model; of a part, an output that a tensor of TFLite is"


@dataclass(frozen=True, slots=True)
class TflitePairs:
    """Pair a program's inputs and outputs with tensors of a TFLite model.

    inputs: for each input of the model, the key of the program's. outputs: for each output of the
        program, the number of the model's tensor. notes: how pairs with different names were found.
    """

    inputs: tuple[str, ...]
    outputs: tuple[int, ...]
    notes: tuple[str, ...]


def pair_with_tflite(graph: Graph, path: str) -> TflitePairs:
    """Pair the inputs and outputs of a program with tensors of the TFLite model of which it was made."""
    try:
        model = read_tflite(map_file(path))
    except DamagedError as error:
        raise fail(
            "unrecognised-input", f"tflite:{path}", f"expected a TFLite model: {error}"
        ) from None
    notes: list[str] = []
    where = f"--against tflite:{path}"
    inputs = _inputs(graph, model, where, notes)
    return TflitePairs(tuple(inputs), tuple(_outputs(graph, model, where, notes)), tuple(notes))


def _inputs(graph: Graph, model: TfliteFile, where: str, notes: list[str]) -> list[str]:
    wanted = {slot.key: slot for slot in input_slots(graph)}
    left = dict(wanted)
    chosen: dict[int, Slot] = {}
    for tensor in model.inputs:
        names = model.input_name(tensor), model.tensors[tensor].name
        name = next((name for name in names if name in left), None)
        if name is not None:
            chosen[tensor] = left.pop(name)
    others = [tensor for tensor in model.inputs if tensor not in chosen]
    pairs = list(zip(others, left.values(), strict=False))
    if len(others) != len(left) or not all(_may_be(model, *pair) for pair in pairs):
        found = ", ".join(_described(model, tensor) for tensor in model.inputs) or "none"
        expected = ", ".join(map(str, wanted.values())) or "none"
        message = f"{_NOT_ITS_MODEL}: its inputs are {found}; those of the program are {expected}"
        raise fail("option-conflict", where, message)
    for tensor, slot in pairs:
        chosen[tensor] = slot
        if slot.key != f"arg{model.inputs.index(tensor)}":
            notes.append(_note("input", slot, model, tensor, "by position"))
    return [chosen[tensor].key for tensor in model.inputs]


def _outputs(graph: Graph, model: TfliteFile, where: str, notes: list[str]) -> list[int]:
    # A program may return a tensor twice.
    wanted = [slot for output in graph.main.outputs for slot in slots(graph.main, output)]
    if len(wanted) != len(model.outputs):
        wanted = output_slots(graph)
    found = _same_names(model, wanted)
    located = _located(graph, model)
    findings = Findings()
    for index, slot in enumerate(wanted):
        if found[index] is not None:
            continue
        how = "which its location names: it may be a step on the way to it"
        tensor = located.get(slot.tensor)
        if tensor is None or not _may_be(model, tensor, slot):
            how, tensor = "by position", None
            if len(wanted) == len(model.outputs) and model.outputs[index] not in found:
                tensor = model.outputs[index]
        elif tensor in model.outputs:
            how = "which its location names"
        if tensor is None or not _may_be(model, tensor, slot):
            outputs = ", ".join(_described(model, tensor) for tensor in model.outputs)
            message = (
                f"the program's output {slot} is none of its tensors; its outputs are {outputs}"
            )
            findings.add("option-conflict", where, message, _CUT)
            continue
        found[index] = tensor
        notes.append(_note("output", slot, model, tensor, how))
    findings.raise_if_any()
    return [tensor for tensor in found if tensor is not None]


def _same_names(model: TfliteFile, wanted: Sequence[Slot]) -> list[int | None]:
    """Return the tensor of the name of each output, if there is one: at first one that is returned."""
    left = list(enumerate(model.outputs))
    inner = _made(model)
    found: list[int | None] = []
    for index, slot in enumerate(wanted):
        rows = [
            row
            for row in left
            if slot.key in (model.output_names[row[0]], model.tensors[row[1]].name)
        ]
        chosen = next((row for row in rows if row[0] == index), rows[0] if rows else None)
        if chosen is None:
            found.append(inner.get(slot.key))
        else:
            left.remove(chosen)
            found.append(chosen[1])
    return found


def _made(model: TfliteFile, *, alone: bool = False) -> dict[str, int]:
    """Return the tensors of operators, by unique names; `alone`: of operators with one result."""
    counts = Counter(tensor.name for tensor in model.tensors)
    return {
        model.tensors[tensor].name: tensor
        for operator in model.operators
        if not alone or len(operator.outputs) == 1
        for tensor in operator.outputs
        if counts[model.tensors[tensor].name] == 1
    }


def _located(graph: Graph, model: TfliteFile) -> dict[str, int]:
    """Return the tensors that one output's location names, by the results of operators."""
    made = _made(model, alone=True)
    outputs = set(graph.main.outputs)
    rows = {
        name: made[place]
        for operator in graph.main.operators
        for name in operator.outputs
        if name in outputs and (place := name_in_location(operator.location)) in made
    }
    counts = Counter(rows.values())
    return {name: tensor for name, tensor in rows.items() if counts[tensor] == 1}


def _may_be(model: TfliteFile, tensor: int, slot: Slot) -> bool:
    """Return whether a tensor has the type and the shape of a slot, as far as the file says them."""
    row = model.tensors[tensor]
    if slot.dtype.name not in _TENSOR_TYPES.get(row.dtype, ()):
        return False
    # Without sizes it is a scalar, or of unknown rank.
    return not row.shape or (
        len(row.shape) == len(slot.shape)
        and all(size in (-1, given) for size, given in zip(row.shape, slot.shape, strict=True))
    )


def _described(model: TfliteFile, tensor: int) -> str:
    row = model.tensors[tensor]
    return f"{quoted(row.name)} {row.dtype}{list(row.shape)}"


def _note(role: str, slot: Slot, model: TfliteFile, tensor: int, how: str) -> str:
    return (
        f"the {role} {quoted(slot.key)} is taken for {_described(model, tensor)} of TFLite, {how}"
    )
