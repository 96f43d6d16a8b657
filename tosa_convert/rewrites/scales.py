"""Constant factors and signs move to where they cost nothing; a weight is stored once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from math import prod, sqrt
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, proxy

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.edit import BlockEditor, change_blocks
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator, Tensor
from tosa_convert.graph.opset import CONST, operator
from tosa_convert.rewrites.move_layouts import is_order, order_of
from tosa_convert.rewrites.operator_pass import Recorder

# -- store a weight once that a block also has transposed ------------------------------------------
# A decoder looks tokens up in the table with which its last product computes their scores.
# Frontends transpose it for the product, so that a file has it twice. With its operands exchanged
# the product takes the table itself, and what is transposed is the other operand and the result.

TIED_WEIGHTS: Final = "tied-weights"
#: Smaller weights stay twice: the operators in place of the second take up to a kilobyte.
LEAST_BYTES: Final = 1 << 12

_INT48: Final = dtype("INT48")
_MATMUL: Final = operator("MATMUL")
_TRANSPOSE: Final = operator("TRANSPOSE")
#: Exchanges the two dimensions of matrices.
_EXCHANGED: Final = (0, 2, 1)
#: Bytes that are compared at a time.
_PART: Final = 1 << 22


def tie_weights(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph without the second of two weights; the same object if there is none."""
    return change_blocks(graph, lambda where, block: _with_one(where, block, recorder))


def _with_one(where: str, block: Block, recorder: Recorder) -> Block:
    if not any(op.spec is _MATMUL for op in block.operators):
        return block
    edit = BlockEditor(block, where)
    tables = Tables(edit)
    uses = Counter([name for op in block.operators for name in op.inputs])
    for index, op in enumerate(edit.visit()):
        if op.spec is not _MATMUL or edit.tensors[op.outputs[0]].dtype is _INT48:
            continue  # TOSA does not transpose INT48.
        if len(edit.tensors[op.inputs[0]].shape or ()) != len(_EXCHANGED):
            continue
        table = next((name for name in tables.of(op.inputs[1]) if uses[name]), None)
        if table is not None:
            uses.subtract(op.inputs[1:2])
            _exchange(op, table, edit)
            recorder.add(
                TIED_WEIGHTS, "MATMUL of a weight that is also there transposed", where, index, op
            )
    return edit.finish()


def _exchange(op: Operator, table: str, edit: BlockEditor) -> None:
    """Put the product of a table and the transposed first operand in place of a MATMUL."""
    given, _, *zero_points = op.inputs
    turned = edit.emit(_TRANSPOSE, [given], {"perms": _EXCHANGED})
    element = edit.tensors[op.outputs[0]].dtype
    product = edit.emit(_MATMUL, [table, turned, *reversed(zero_points)], dtype=element)
    edit.emit(_TRANSPOSE, [product], {"perms": _EXCHANGED}, results=op.outputs)


class Tables:
    """Find the large matrices among the constants of a block by how their transposes begin."""

    def __init__(self, edit: BlockEditor) -> None:
        self.edit = edit
        self.by_start: dict[object, list[str]] = {}
        self._read = 0

    def _read_new(self) -> None:
        """Read the constants that the block got since the last time."""
        operators = self.edit.operators
        for op in islice(operators, self._read, None):
            tensor = self.edit.tensors[op.outputs[0]] if op.spec is CONST else None
            rows = None if tensor is None else _rows(tensor)
            if tensor is not None and rows is not None:
                key = tensor.dtype, rows.shape, rows[0].tobytes()
                self.by_start.setdefault(key, []).append(tensor.name)
        self._read = len(operators)

    def of(self, name: str) -> list[str]:
        """Return the constants before an operator that a weight of it is equal to, if transposed."""
        producer = self.edit.producers.get(name)
        if producer is not None and producer.spec is _TRANSPOSE:
            is_exchange = producer.attributes["perms"] == _EXCHANGED
            return [*producer.inputs] if is_exchange and self._is_table(producer.inputs[0]) else []
        tensor = self.edit.tensors[name]
        rows = _rows(tensor)
        if rows is None or producer is None:
            return []
        self._read_new()
        columns = rows.T
        key = tensor.dtype, columns.shape, columns[0].tobytes()
        return [
            other
            for other in self.by_start.get(key, ())
            if other != name
            and self._is_table(other)
            and _are_equal(columns, _rows(self.edit.tensors[other]))
        ]

    def _is_table(self, name: str) -> bool:
        return name in self.edit.producers and _rows(self.edit.tensors[name]) is not None


def _rows(tensor: Tensor) -> npt.NDArray[Any] | None:
    """Return the elements of a large constant that is one matrix, as bits; else None."""
    data, shape = tensor.data, tensor.shape or ()
    if data is None or not data.is_unit or data.nbytes < LEAST_BYTES or tensor.scale is not None:
        return None
    if len(shape) != 3 or shape[0] != 1 or min(shape) < 1 or 1 in shape[1:]:
        return None
    width = data.dtype.element_bytes
    return np.frombuffer(data.buffer, f"V{width}").reshape(shape[1:])


def _are_equal(one: npt.NDArray[Any], other: npt.NDArray[Any] | None) -> bool:
    assert other is not None
    step = max(1, _PART // other[0].nbytes)
    return all(
        one[start : start + step].tobytes() == other[start : start + step].tobytes()
        for start in range(0, len(one), step)
    )


Array = npt.NDArray[Any]

_ADD: Final = operator("ADD")
_SUB: Final = operator("SUB")
_MUL: Final = operator("MUL")
SCALED: Final = (_ADD, _SUB, _MUL)
_FP32: Final = dtype("FP32")
_DEPTHWISE: Final = operator("DEPTHWISE_CONV2D")
_RESHAPE: Final = operator("RESHAPE")
_REDUCE_SUM: Final = operator("REDUCE_SUM")
_SLICE: Final = operator("SLICE")
#: Operator that sums products -> the axes of its weights that are output channels.
_CHANNELS: Final = {
    operator("CONV2D"): (0,),
    operator("CONV3D"): (0,),
    operator("TRANSPOSE_CONV2D"): (0,),
    _DEPTHWISE: (2, 3),
    _MATMUL: (-1,),
}


_TABLES: Final[WeakKeyDictionary[BlockEditor, Tables]] = WeakKeyDictionary()
#: What an operator with constants does to the bias of the sums before it.
_OF_BIAS: Final = {_ADD: np.add, _SUB: np.subtract, _MUL: np.multiply}


#: The largest weights that are scaled by one number for all channels, behind what splits these, and
#: the largest ones that something else uses, too.
_MOST_BYTES: Final = 1 << 22
FEW_BYTES: Final = 1 << 10


class _Link(NamedTuple):
    """Hold an operator between the sums and their scale; axis: of its channels, None if split."""

    op: Operator
    axis: int | None


def fold_scale(op: Operator, edit: BlockEditor) -> str | None:
    """Put a convolution with other weights in place of it and of what follows it, or return None."""
    found = _chain_and_numbers(op, edit)
    if found is None:
        return None
    chain, numbers = found
    sums, name = chain[0].op, op.outputs[0]
    added = _adds(chain)
    given = _array(sums.inputs[1], edit)
    shift = None
    if sums.spec is not _MATMUL:
        shift = _array(sums.inputs[2], edit)
    elif added:
        shift = _array(added[0].op.inputs[1], edit)
    if given is None or (shift is None and not (sums.spec is _MATMUL and op.spec is _MUL)):
        return None
    if sums.spec is _DEPTHWISE and len(chain) > 2 and chain[2].op.spec is _REDUCE_SUM:
        numbers = _of_each_channel(op, numbers, chain[2].op, edit)
    weights = sums.inputs[1]
    # The sum of many products has a larger error than any one of these roundings.
    with np.errstate(all="ignore"):
        if op.spec is _MUL:
            axes = [axis % given.ndim for axis in _CHANNELS[sums.spec]]
            sizes = [size if axis in axes else 1 for axis, size in enumerate(given.shape)]
            if prod(sizes) != numbers.size:
                return None  # The program is not valid.
            scales = numbers.reshape(sizes)
            if sums.spec is _MATMUL and _tables(edit).of(weights):
                return None  # Scaled, it would not be stored once.
            scaled = given * scales
            if not is_safe(scaled, given, scales):
                return None
            weights = _constant(scaled, f"{name}_weight", edit)
        if shift is not None:
            if added:
                assert added[0].axis is not None
                numbers = _along(numbers, added[0].axis, shift.ndim)
            shift = _OF_BIAS[op.spec](shift, numbers)
            if not np.isfinite(shift).all():
                return None
    bias = _constant(shift, f"{name}_bias", edit) if shift is not None else ""
    value = ""
    for link in chain:
        operands = [value, *link.op.inputs[1:]]
        if link.op is sums:
            operands = [sums.inputs[0], weights, *sums.inputs[2:]]
            if sums.spec is not _MATMUL:
                operands[2] = bias
        elif link in added:
            operands = [value, bias]
        results, like = (op.outputs, "") if link is chain[-1] else (None, link.op.outputs[0])
        value = edit.emit(link.op.spec, operands, link.op.attributes, results=results, like=like)
    return f"{op.spec} with constants became part of the {sums.spec} before it"


def _tables(edit: BlockEditor) -> Tables:
    """Return what knows the large matrices of a block, which is read once."""
    if edit not in _TABLES:
        _TABLES[edit] = Tables(proxy(edit))  # It goes with the editor.
    return _TABLES[edit]


def _chain_and_numbers(op: Operator, edit: BlockEditor) -> tuple[list[_Link], Array] | None:
    """Return the operators from the sums that only this operator uses, and the constants of channels."""
    made = edit.tensors[op.outputs[0]].shape
    pairs = [op.inputs[:2]] if op.spec is _SUB else [op.inputs[:2], op.inputs[1::-1]]
    for value, constant in pairs:
        numbers = _array(constant, edit)
        if numbers is None or made is None or made != edit.tensors[value].shape:
            continue
        for axis in reversed(range(len(made))):
            is_of_axis = numbers.size in (1, made[axis]) and numbers.shape[axis] == numbers.size
            if is_of_axis and made[axis] != DYNAMIC:
                chain = _chain(value, axis, edit)
                if chain and (chain[0].op.spec is not _MATMUL or op.spec is _MUL or _adds(chain)):
                    return chain, np.broadcast_to(numbers.reshape(-1), made[axis])
        if op.spec is _MUL and numbers.size == 1 and (chain := _chain(value, None, edit)):
            sums = chain[0].op
            data = edit.data_of(sums.inputs[1])
            *_, channels = edit.tensors[sums.outputs[0]].shape or (DYNAMIC,)
            # A file would have weights of many uses several times.
            most = _MOST_BYTES if edit.uses[sums.inputs[1]] == 1 else FEW_BYTES
            if data is not None and data.nbytes <= most and channels != DYNAMIC:
                return chain, np.broadcast_to(numbers.reshape(-1), channels)
    return None


def _chain(value: str, axis: int | None, edit: BlockEditor) -> list[_Link]:
    """Return the operators from the sums to a value, each of which has one use; none if one has more.

    Between them may be what moves whole channels, the sum over those of each group behind a convolution
    of single channels, and the bias of a MATMUL. axis: that of the channels; None if all are treated
    alike, so that they may be split.
    """
    chain: list[_Link] = []
    while True:
        op, shape = edit.producers.get(value), edit.tensors[value].shape
        if op is None or shape is None or not op.inputs or edit.uses[value] != 1:
            return []
        if axis is None and (op.spec is _ADD or op.spec in _CHANNELS):
            axis = len(shape) - 1
        if op.spec is _ADD:
            assert axis is not None
            op = None if _adds(chain) else _with_bias(op, axis, edit)
            if op is None:
                return []
        chain.insert(0, _Link(op, axis))
        if op.spec in _CHANNELS:
            is_sum = axis == len(shape) - 1 and (op.spec is _MATMUL or not _adds(chain))
            return chain if is_sum else []
        value = op.inputs[0]
        given = edit.tensors[value].shape
        if given is None:
            return []
        if axis is None:
            if op.spec not in (_RESHAPE, _SLICE, _TRANSPOSE) or _sums_of_groups(op, edit):
                return []
        elif op.spec is _TRANSPOSE:
            perms = order_of(op)
            if not is_order(perms, len(given)):
                return []
            axis = perms[axis]
        elif op.spec is _RESHAPE:
            groups = _sums_of_groups(op, edit)
            if groups:
                is_last = axis == len(shape) - 1 and not _adds(chain)
                return [_Link(one, -1) for one in groups] + chain if is_last else []
            same = [
                place
                for place, size in enumerate(given)
                if (size, prod(given[:place])) == (shape[axis], prod(shape[:axis]))
            ]
            if not same:
                return []
            axis = same[-1]
        elif op.spec is not _ADD and (op.spec is not _SLICE or given[axis] != shape[axis]):
            return []


def _with_bias(op: Operator, axis: int, edit: BlockEditor) -> Operator | None:
    """Return an ADD with the constant of each channel as its second operand, or None."""
    made = edit.tensors[op.outputs[0]].shape
    for value, constant in (op.inputs[:2], op.inputs[1::-1]):
        numbers = _array(constant, edit)
        if numbers is not None and made == edit.tensors[value].shape:
            is_of_channels = numbers.size == numbers.shape[axis]
            return replace(op, inputs=(value, constant)) if is_of_channels else None
    return None


def _adds(chain: list[_Link]) -> list[_Link]:
    return [link for link in chain if link.op.spec is _ADD]


def _sums_of_groups(last: Operator, edit: BlockEditor) -> list[Operator]:
    """Return what sums the channels of each group before a RESHAPE; none if that does not."""
    chain: list[Operator] = []
    value = last.inputs[0]
    for spec in (_REDUCE_SUM, _RESHAPE, _DEPTHWISE):
        op = edit.producers.get(value)
        if op is None or op.spec is not spec or edit.uses[value] != 1:
            return []
        chain.insert(0, op)
        value = op.inputs[0]
    convolution, wider, summed = chain
    wide = edit.tensors[wider.outputs[0]].shape
    given = edit.tensors[convolution.outputs[0]].shape
    kept = edit.tensors[last.outputs[0]].shape
    is_of_groups = (
        summed.attributes["axis"] == 2
        and wide is not None
        and given is not None
        and kept is not None
        and (len(wide), prod(wide[1:]), wide[1] * wide[-1]) == (4, given[-1], kept[-1])
    )
    return chain if is_of_groups else []


def _along(numbers: Array, axis: int, rank: int) -> Array:
    sizes = [1] * rank
    sizes[axis] = numbers.size
    return numbers.reshape(sizes)


def _of_each_channel(op: Operator, numbers: Array, summed: Operator, edit: BlockEditor) -> Array:
    """Return the numbers of single channels: products for each of a group, sums for the first."""
    _, groups, size, each = edit.tensors[summed.inputs[0]].shape or ()
    wide = np.zeros((groups, size, each), np.float32)
    wide[:, : size if op.spec is _MUL else 1] = numbers.reshape(groups, 1, each)
    return wide.reshape(-1)


def _array(name: str, edit: BlockEditor) -> Array | None:
    """Return the elements of a constant of FP32, or None."""
    data = edit.data_of(name)
    if data is None or data.dtype is not _FP32:
        return None
    return data.numpy().reshape(edit.tensors[name].shape or ())


def _constant(array: Array, name: str, edit: BlockEditor) -> str:
    return edit.constant_of(constant_of(array.astype(np.float32), _FP32), array.shape, name=name)


def is_safe(scaled: Array, weights: Array, scales: npt.ArrayLike) -> bool:
    """Return whether no weight left the range of normal numbers, in which products round once."""
    size = np.abs(scaled)
    least = np.finfo(np.float32).tiny
    return bool(
        (np.isfinite(scaled) & ((size >= least) | (weights == 0) | (np.asarray(scales) == 0))).all()
    )


# -- products with one number move to where another product takes them in --------------------------
# Attention scales both operands of its first product of matrices: one is enough. A normalisation
# divides a sum of squares by their number, takes the root, and scales each channel: the root of c
# * (s + e / c) is that of s + e / c, scaled with the channels.

MOVED: Final = (_MATMUL, _MUL)
_RSQRT: Final = operator("RSQRT")
_MOVERS: Final = tuple(map(operator, ("RESHAPE", "SLICE", "TRANSPOSE")))
#: The largest number that scales, and the largest that is added; the reciprocals are the least. So
#: products stay far from the ends of the range of FP32.
_MOST_SCALE: Final = 1e6
_MOST_ADDED: Final = 1e18


class _Scaled(NamedTuple):
    """Describes a value as another one, times a number, moved by some operators.

    value: the other one. number: the number. movers: what moves the product, in order.
    """

    value: str
    number: float
    movers: list[Operator]


def move_scale(op: Operator, edit: BlockEditor) -> str | None:
    """Scale one operand of a product of matrices in place of both, or channels in place of a mean."""
    return _of_matrices(op, edit) if op.spec is _MATMUL else _of_norm(op, edit)


def _of_matrices(op: Operator, edit: BlockEditor) -> str | None:
    one, other = (_scaled(name, edit) for name in op.inputs[:2])
    if one is None or other is None:
        return None
    number = edit.number(one.number * other.number, like=one.value)
    value = edit.emit(_MUL, [one.value, number], like=one.value)
    operands = [_moved(value, one.movers, edit), _moved(other.value, other.movers, edit)]
    edit.emit(_MATMUL, [*operands, *op.inputs[2:]], op.attributes, results=op.outputs)
    return "MATMUL of two scaled operands became one of which one is scaled"


def _scaled(name: str, edit: BlockEditor) -> _Scaled | None:
    """Return what an operand is, if it is scaled by a number and nothing else uses it; else None."""
    movers: list[Operator] = []
    while (op := edit.producers.get(name)) and edit.uses[name] == 1:
        if op.spec is _MUL:
            found = _with_number(op, edit, _MOST_SCALE)
            return None if found is None else _Scaled(*found, movers)
        if op.spec not in _MOVERS:
            break
        movers.insert(0, op)
        name = op.inputs[0]
    return None


def _with_number(op: Operator, edit: BlockEditor, most: float) -> tuple[str, float] | None:
    """Return value and number of an FP32 product or sum, 1 / most to most, of equal shape; or None."""
    shape = edit.tensors[op.outputs[0]].shape
    for value, constant in (op.inputs[:2], op.inputs[1::-1]):
        number, given = edit.number_of(constant), edit.tensors[value]
        if number is None or shape is None or (given.dtype, given.shape) != (_FP32, shape):
            continue
        sizes = edit.tensors[constant].shape or ()
        # Where a size is not known, a constant of more elements could decide it.
        if DYNAMIC not in shape or set(sizes) <= {1}:
            return (value, float(number)) if 1 / most <= number <= most else None
    return None


def _moved(value: str, movers: list[Operator], edit: BlockEditor) -> str:
    for op in movers:
        value = edit.emit(op.spec, [value, *op.inputs[1:]], op.attributes, like=op.outputs[0])
    return value


def _of_norm(op: Operator, edit: BlockEditor) -> str | None:
    """Compute x * rsqrt(c * s + e) * w as x * rsqrt(s + e / c) * (w / sqrt(c)), or return None."""
    for product, weights in (op.inputs[:2], op.inputs[1::-1]):
        data = edit.data_of(weights)
        scaled = _only(product, _MUL, edit)
        if data is None or data.dtype is not _FP32 or scaled is None:
            continue
        if data.nbytes > FEW_BYTES and edit.uses[weights] > 1:
            continue  # A file would have them twice.
        for value, root in (scaled.inputs[:2], scaled.inputs[1::-1]):
            found = _mean_in(root, edit)
            if found is None:
                continue
            total, share, added = found
            array = data.numpy().reshape(edit.tensors[weights].shape or ())
            scales = np.float32(1 / sqrt(share))
            with np.errstate(all="ignore"):
                wider_weights = array * scales
            if not is_safe(wider_weights, array, scales):
                return None
            wider = edit.emit(_ADD, [total, edit.number(added / share, like=total)], like=total)
            normal = edit.emit(_MUL, [value, edit.emit(_RSQRT, [wider], like=root)], like=product)
            made = constant_of(wider_weights, _FP32)
            new = edit.constant_of(made, array.shape, name=f"{op.outputs[0]}_weight")
            edit.emit(_MUL, [normal, new], results=op.outputs)
            return "MUL of a mean became part of the weights of a normalisation"
    return None


def _mean_in(root: str, edit: BlockEditor) -> tuple[str, float, float] | None:
    """Return s, c and e of a value rsqrt(c * s + e) that nothing else uses, or None."""
    rsqrt = _only(root, _RSQRT, edit)
    total = None if rsqrt is None else _only(rsqrt.inputs[0], _ADD, edit)
    if total is None:
        return None
    added = _with_number(total, edit, _MOST_ADDED)
    mean = None if added is None else _only(added[0], _MUL, edit)
    found = None if mean is None else _with_number(mean, edit, _MOST_SCALE)
    return None if added is None or found is None else (*found, added[1])


def _only(name: str, spec: object, edit: BlockEditor) -> Operator | None:
    """Return the operator of a kind that computes a value of FP32 with one use, or None."""
    op = edit.producers.get(name)
    if op is None or op.spec is not spec or edit.uses[name] != 1:
        return None
    return op if edit.tensors[name].dtype is _FP32 else None


# -- move the signs of parts of a row into the constants that multiply the row ---------------------
# A rotary embedding negates one half of each row, joins the halves the other way round, and
# multiplies with the sines, which are constants.

_CONCAT: Final = operator("CONCAT")
_NEGATE: Final = operator("NEGATE")
SIGNED: Final = (_MUL,)
#: The largest constant that gets other signs, in bytes: something else may need it as it was.
_MOST_SIGN_BYTES: Final = 1 << 20


def fold_sign(op: Operator, edit: BlockEditor) -> str | None:
    """Multiply a CONCAT without the NEGATEs of its operands with other constants, or return None."""
    for value, constant in (op.inputs[:2], op.inputs[1::-1]):
        found = _without_signs(value, edit)
        data, shape = edit.data_of(constant), edit.tensors[constant].shape or ()
        if (
            found is None
            or data is None
            or not data.dtype.is_float
            or data.nbytes > _MOST_SIGN_BYTES
        ):
            continue
        joined, operands, signs = found
        axis = joined.attributes["axis"]
        assert isinstance(axis, int)
        if len(shape) <= axis or shape[axis] != signs.size:
            continue
        key = constant, axis, signs.tobytes()
        if key not in edit.constants:
            sizes = [-1 if index == axis else 1 for index in range(len(shape))]
            array = data.numpy().reshape(shape)
            array = np.where(signs.reshape(sizes), np.negative(array), array)
            made = constant_of(array, data.dtype)
            edit.constants[key] = edit.constant_of(made, shape, name=f"{constant}_signed")
        row = edit.emit(_CONCAT, operands, joined.attributes)
        edit.emit(_MUL, [row, edit.constants[key]], results=op.outputs)
        return "NEGATE of a part of a row became signs of the constants that multiply it"
    return None


def _without_signs(
    value: str, edit: BlockEditor
) -> tuple[Operator, list[str], np.ndarray[tuple[int], np.dtype[np.bool_]]] | None:
    """Return a CONCAT of its own, its operands before they are negated, and which those are; or None."""
    joined = edit.producers.get(value)
    if joined is None or joined.spec is not _CONCAT or edit.uses[value] != 1:
        return None
    axis = joined.attributes["axis"]
    assert isinstance(axis, int)
    operands, signs = [], []
    for name in joined.inputs:
        negated = edit.producers.get(name)
        is_negated = negated is not None and negated.spec is _NEGATE and edit.uses[name] == 1
        operands.append(negated.inputs[0] if negated is not None and is_negated else name)
        size = (edit.tensors[name].shape or ())[axis : axis + 1]
        if not size or size[0] < 0:
            return None
        signs.append(np.full(size, is_negated))
    row = np.concatenate(signs)
    return (joined, operands, row) if row.any() else None
