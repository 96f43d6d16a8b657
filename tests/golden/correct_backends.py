"""Backends that compute every operator correctly, each with an arithmetic of its own.

They run on `tosa_convert.reference`, whose operators they call with parts of the operands: a sum is
split into its terms, which are added in the backend's own order and accumulator.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from tosa_convert.golden.accuracy.erring_runs import function_errors
from tosa_convert.golden.accuracy.error_bounds import FLOATS, has_narrow_units, may_flush, rule_of
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.backends.isolated import part_of
from tosa_convert.golden.running.programs import STATE_PREFIX
from tosa_convert.graph import Block, Graph, Operator
from tosa_convert.graph.dtypes import FP16, DType
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.call import Inside, Precision, Step, is_float
from tosa_convert.reference.evaluate import Machine

Order = Literal["forwards", "backwards", "pairs", "random"]
#: More terms than this are added in groups, whose sums are exact.
MOST_PARTS: Final = 64
#: Operator -> the operand whose elements are the terms of a sum, and the axes that it adds along.
TERMS: Final[Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]]] = {
    "CONV2D": (("weight",), (1, 2, 3)),
    "CONV2D_BLOCK_SCALED": (("weight_data",), (1, 2, 3)),
    "CONV3D": (("weight",), (1, 2, 3, 4)),
    "DEPTHWISE_CONV2D": (("weight",), (0, 1)),
    "FFT2D": (("input_real", "input_imag"), (1, 2)),
    "MATMUL": (("b",), (-2,)),
    "MATMUL_T": (("b",), (-1,)),
    "MATMUL_T_BLOCK_SCALED": (("b_data",), (2,)),
    "RFFT2D": (("input_real",), (1, 2)),
    "TRANSPOSE_CONV2D": (("weight",), (1, 2, 3)),
}
#: Functions that TOSA allows more than the rounding of their results.
FUNCTIONS: Final = frozenset(
    ("COS", "ERF", "EXP", "LOG", "POW", "RECIPROCAL", "RSQRT", "SIGMOID", "SIN", "TANH")
)
#: Types that no implementation computes in: a number that is stored in one is rounded.
NARROW: Final = 8


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a backend computes floating point.

    order, tile: how the terms of a sum are added, and how many of them at a time; no order: as the
        reference does. accumulator: the type that they are added in; by default FP32, or FP16 where
        `acc_type` says so. fma: whether a product is added without being rounded.
    stored: the type of tensors of floating point between operators, if it has more bits than their own.
    unrounded: operators whose results are not rounded between operators.
    flushes: whether subnormal "operands" and "results" become zero.
    allowed: where between the limits that TOSA allows a function's result is, within the range of the
        function: -1 for the lowest, 1 for the highest one; 2: alternately; 3: by the tensor's name.
    relative: error of SIN and COS.
    narrow: whether sums in FP32 of products of at most 8 bits are added in 14 bits.
    """

    order: Order | None = None
    tile: int = 1
    accumulator: Any = None
    fma: bool = False
    stored: Any = None
    unrounded: tuple[str, ...] = ()
    flushes: tuple[str, ...] = ()
    allowed: int = 0
    relative: float = 0.0
    narrow: bool = False

    @property
    def is_wide(self) -> bool:
        """Return whether values between operators may have more bits than their types."""
        return self.stored is not None or bool(self.unrounded)


#: Returns the results of an operator of a block as a backend gives them, from its operands by name and
#: the results that are right. The last argument is the states of variables.
Change = Callable[
    [Block, Operator, Mapping[str, Value], dict[str, Value], dict[str, Array]], dict[str, Value]
]


@dataclass(slots=True)
class CorrectMachine(Machine):
    """Runs a program with an arithmetic. changed: for backends with faults."""

    arithmetic: Arithmetic = field(default_factory=Arithmetic)
    changed: Change = lambda block, operator, operands, results, states: results

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        how = self.arithmetic
        if "operands" in how.flushes:
            rows = [block.tensors.get(name) for name in operator.inputs]
            operands = [
                value if row is None else flushed(value, row.dtype)
                for value, row in zip(operands, rows, strict=True)
            ]
        results = self._computed(block, operator, operands, where)
        for name, value in results.items():
            tensor = block.tensors.get(name)
            if tensor is None or isinstance(value, Scaled) or not tensor.dtype.is_float:
                continue
            if "results" in how.flushes:
                value = flushed(value, tensor.dtype)
            if how.is_wide and operator.spec.name not in how.unrounded:
                is_own = how.stored is None or tensor.dtype.bits <= NARROW
                row = tensor.dtype.numpy if is_own else how.stored
                with np.errstate(all="ignore"):
                    value = plain(value).astype(row).astype(np.float64)
            results[name] = value
        given = dict(zip(operator.inputs, operands, strict=True)) if operands else {}
        return self.changed(block, operator, given, results, self.variables)

    def _control_flow(
        self,
        operator: Operator,
        operands: Sequence[Value],
        results: dict[str, Value],
        enter: Callable[..., Inside],
    ) -> Iterator[Step]:
        yield from Machine._control_flow(self, operator, operands, results, enter)
        blocks = (block for _, block in self.graph.blocks())
        (block,) = (one for one in blocks if any(op is operator for op in one.operators))
        given = dict(zip(operator.inputs, operands, strict=True))
        results.update(self.changed(block, operator, given, dict(results), self.variables))

    def _computed(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        how = self.arithmetic
        own = Machine.compute(self, block, operator, operands, where)
        kind = operator.spec.name
        is_finite = all(
            not is_float(plain(value).dtype)
            or bool(np.isfinite(plain(value).astype(np.float64)).all())
            for value in operands
        )
        with np.errstate(all="ignore"):
            if how.order is not None and is_finite and (terms := self._terms(block, operator)):
                return self._added(block, operator, operands, own, terms, where)
            if kind in FUNCTIONS and (how.allowed or (how.relative and kind in ("SIN", "COS"))):
                return self._with_errors(block, operator, operands, own, where)
        return own

    # -- sums --------------------------------------------------------------------------------------

    def _terms(
        self, block: Block, operator: Operator
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the operands that are split, and the axes of their terms."""
        kind = operator.spec.name
        count = len(operator.inputs)
        rows = [operator.spec.operand(i, count).name for i in range(count)]
        if kind == "REDUCE_SUM":
            axis = operator.attributes["axis"]
            assert isinstance(axis, int)
            return (0,), (axis,)
        if kind == "AVG_POOL2D" and block.tensors[operator.outputs[0]].dtype.is_float:
            return (0,), ()
        if kind not in TERMS:
            return None
        names, axes = TERMS[kind]
        return tuple(rows.index(name) for name in names), axes

    def _added(
        self,
        block: Block,
        operator: Operator,
        operands: Sequence[Value],
        own: dict[str, Value],
        terms: tuple[tuple[int, ...], tuple[int, ...]],
        where: str,
    ) -> dict[str, Value]:
        """Return the results as sums of the results for a few of the terms each."""
        positions, axes = terms
        name = operator.outputs[0]
        is_number = block.tensors[name].dtype.is_float
        machine = Machine(self.graph, "wide" if is_number else "own")
        count = len(operator.inputs)
        rows = [operator.spec.operand(i, count).name for i in range(count)]
        given = [_wide(value) for value in operands] if is_number else list(operands)
        masks = (
            list(_masks(plain(operands[positions[0]]).shape, axes, self.arithmetic.tile))
            if axes
            else list(_window_masks(plain(operands[0]).shape, operator))
        )
        split = set(positions)
        sums: dict[str, list[Array]] = {name: [] for name in operator.outputs}
        if "bias" in rows:
            # The products are 0: the result is the bias.
            bias = rows.index("bias")
            nothing = [
                _masked(value, False, _zero(rows, given, i)) if i in split else value
                for i, value in enumerate(given)
            ]
            found = machine.compute(block, operator, nothing, where)
            sums[name].append(plain(found[name]))
            given[bias] = _masked(given[bias], False, 0)
        for mask in masks:
            part = [
                _masked(value, mask, _zero(rows, given, i)) if i in split else value
                for i, value in enumerate(given)
            ]
            found = machine.compute(block, operator, part, where)
            for key, array in found.items():
                sums[key].append(plain(array))
        kind = self._accumulator(operator, is_number)
        result = dict(own)
        for key, arrays in sums.items():
            is_narrow = self.arithmetic.narrow and has_narrow_units(
                block, operator, block.tensors[key].dtype.name
            )
            total = self._sum(arrays, kind, is_narrow=is_narrow)
            stored = own[key]
            result[key] = total.astype(plain(stored).dtype)
        return result

    def _accumulator(self, operator: Operator, is_number: bool) -> Any:
        if not is_number:
            return None
        if self.arithmetic.accumulator is not None:
            return self.arithmetic.accumulator
        chosen = operator.attributes.get("acc_type")
        if chosen is FP16 and operator.spec.name != "AVG_POOL2D":
            return np.float16
        return np.float32

    def _sum(self, terms: list[Array], kind: Any, *, is_narrow: bool) -> Array:
        """Return the terms added in this backend's order and accumulator; integers as they are."""
        how = self.arithmetic

        def rounded(value: Array) -> Array:
            if is_narrow:
                return _in_14_bits(value)
            return value if kind is None else value.astype(kind).astype(np.float64)

        def pairs(some: list[Array]) -> Array:
            if len(some) == 1:
                return some[0]
            middle = len(some) // 2
            return rounded(pairs(some[:middle]) + pairs(some[middle:]))

        if not how.fma:
            terms = [rounded(term) for term in terms]
        if how.order == "pairs":
            return rounded(pairs(terms))
        order = list(range(len(terms)))
        if how.order == "backwards":
            order.reverse()
        elif how.order == "random":
            np.random.default_rng(len(terms)).shuffle(order)
        total = rounded(terms[order[0]])
        for index in order[1:]:
            total = rounded(total + terms[index])
        return total

    # -- functions ---------------------------------------------------------------------------------

    def _with_errors(
        self,
        block: Block,
        operator: Operator,
        operands: Sequence[Value],
        own: dict[str, Value],
        where: str,
    ) -> dict[str, Value]:
        """Return the result of a function with an error that TOSA allows."""
        (name,) = operator.outputs
        row = block.tensors[name].dtype
        rule = rule_of(block, operator, name)
        if rule is None or row.name not in FLOATS:
            return own
        how = self.arithmetic
        given = [_wide(value) for value in operands]
        exact = plain(Machine(self.graph, "wide").compute(block, operator, given, where)[name])
        if how.relative:
            wanted = exact * (1 + how.relative)
            return {name: wanted.astype(plain(own[name]).dtype)}
        bounds = plain(Machine(self.graph, "bounds").compute(block, operator, given, where)[name])
        down, up = function_errors(operator, rule, exact, bounds, row)
        lowest, highest = inside(exact - down, exact, row), inside(exact + up, exact, row)
        found = lowest if how.allowed < 0 else highest
        if how.allowed == 2:
            turn = np.arange(exact.size).reshape(exact.shape) % 2
            found = np.where(turn == 1, lowest, highest)
        if how.allowed == 3:
            found = lowest if zlib.crc32(name.encode()) % 2 else highest
        stored = plain(own[name])
        # What overflows or is not finite stays as it is.
        is_good = np.isfinite(found) & np.isfinite(exact) & np.isfinite(stored.astype(np.float64))
        return {name: np.where(is_good, found, stored.astype(np.float64)).astype(stored.dtype)}


#: Of backends that are not asked for another: sums are those that most implementations have.
ARITHMETIC: Final = Arithmetic(order="forwards")


class CorrectBackend:
    """Computes whole programs and parts of them with an arithmetic; see `Runner`."""

    def __init__(self, arithmetic: Arithmetic = ARITHMETIC) -> None:
        self.arithmetic = arithmetic
        self.name = self.text = str(arithmetic)

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        part = part_of(graph, names, cuts)
        precision: Precision = "wide" if self.arithmetic.is_wide else "own"
        machine = CorrectMachine(part, precision, arithmetic=self.arithmetic, changed=self.changed)
        found = machine.run({key: inputs[key] for key in inputs})
        answer = {key: _in_type(part, key, array) for key, array in found.items()}
        if part is graph:
            for tensor in graph.main.tensors.values():
                name = tensor.variable_name or tensor.name
                if tensor.variable and name in machine.variables:
                    array = machine.variables[name]
                    answer[STATE_PREFIX + name] = _in_type(part, tensor.name, array)
        return answer

    def changed(
        self,
        block: Block,
        operator: Operator,
        operands: Mapping[str, Value],
        results: dict[str, Value],
        states: dict[str, Array],
    ) -> dict[str, Value]:
        """Return the results of an operator, which backends with a fault change; see `Change`."""
        return results

    def inside(self, output: str, attribute: str) -> CorrectBackend:
        """See Runner."""
        return self


def flushed(value: Value, row: DType) -> Value:
    """Return a value without subnormal numbers."""
    if isinstance(value, Scaled) or not may_flush(row):
        return value
    size = np.abs(value.astype(np.float64))
    zero = np.copysign(np.zeros_like(value), value)
    return np.where(size < FLOATS[row.name][1], zero, value)


def inside(limit: Array, exact: Array, row: DType) -> Array:
    """Return the number of an element type nearest to a limit, on the side of the exact result."""
    element: Any = row.numpy
    with np.errstate(all="ignore"):
        near = limit.astype(element)
        value = near.astype(np.float64)
        is_outside = np.where(limit > exact, value > limit, value < limit)
        moved = np.nextafter(near, exact.astype(element)).astype(np.float64)
    return np.where(is_outside, moved, value)


def _in_type(graph: Graph, key: str, array: Array) -> Array:
    tensor = graph.main.tensors.get(key)
    if tensor is None or array.dtype == tensor.dtype.numpy:
        return array
    with np.errstate(all="ignore"):
        if tensor.dtype.name == "MXINT8":
            array = np.clip(np.rint(array * 64), -128, 127)
        return array.astype(tensor.dtype.numpy)


def _wide(value: Value) -> Value:
    if isinstance(value, Scaled):
        return value
    return value.astype(np.float64) if is_float(value.dtype) else value


def _zero(rows: Sequence[str], given: Sequence[Value], position: int) -> Any:
    """Return the value of an operand that adds nothing to a sum: its zero point."""
    name = f"{rows[position]}_zp"
    if name in rows and not is_float(plain(given[position]).dtype):
        return plain(given[rows.index(name)]).reshape(-1)[0]
    return 0


def _masked(value: Value, mask: Any, zero: Any) -> Value:
    """Return the value where the mask is true, and a zero elsewhere."""
    data = plain(value)
    found = np.where(mask, data, np.asarray(zero).astype(data.dtype))
    return value._replace(data=found) if isinstance(value, Scaled) else found


def _masks(shape: tuple[int, ...], axes: tuple[int, ...], tile: int) -> Iterator[Array]:
    """Masks that share out the indices along axes, `tile` at a time, in their order."""
    axes = tuple(axis % len(shape) for axis in axes)
    sizes = [shape[axis] for axis in axes]
    places = list(itertools.product(*map(range, sizes)))
    step = max(tile, -(-len(places) // MOST_PARTS))
    for start in range(0, len(places), step):
        mask = np.zeros([size if axis in axes else 1 for axis, size in enumerate(shape)], bool)
        for place in places[start : start + step]:
            index: list[Any] = [0] * len(shape)
            for axis, value in zip(axes, place, strict=True):
                index[axis] = value
            mask[tuple(index)] = True
        yield mask


def _window_masks(shape: tuple[int, ...], operator: Operator) -> Iterator[Array]:
    """Masks with one element of each window of a pooling."""
    kernel, pad = operator.attributes["kernel"], operator.attributes["pad"]
    assert isinstance(kernel, tuple)
    assert isinstance(pad, tuple)
    rows = (np.arange(shape[1]) + int(pad[0])) % int(kernel[0])
    columns = (np.arange(shape[2]) + int(pad[2])) % int(kernel[1])
    for row, column in itertools.product(range(int(kernel[0])), range(int(kernel[1]))):
        yield ((rows == row)[:, None] & (columns == column))[None, :, :, None]


def _in_14_bits(value: Array) -> Array:
    """Return numbers cut off after 14 bits, as in units for FP8."""
    fraction, exponent = np.frexp(value)
    return np.asarray(np.ldexp(np.trunc(fraction * 2.0**14), exponent - 14))


def _named(**changes: Any) -> CorrectBackend:
    return CorrectBackend(replace(Arithmetic(), **changes))


#: Every backend by what it does.
CORRECT: Final[dict[str, CorrectBackend]] = {
    "terms forwards": _named(order="forwards"),
    "terms backwards": _named(order="backwards"),
    "terms in pairs": _named(order="pairs"),
    "terms in random order": _named(order="random"),
    "tiles of 4": _named(order="forwards", tile=4),
    "tiles of 8": _named(order="backwards", tile=8),
    "tiles of 16": _named(order="pairs", tile=16),
    "tiles of 32": _named(order="forwards", tile=32),
    "FMA forwards": _named(order="forwards", fma=True),
    "FMA in random order": _named(order="random", fma=True),
    "sums in FP64": _named(order="forwards", fma=True, accumulator=np.float64),
    "14 bits for FP8": _named(order="forwards", tile=16, narrow=True),
    "stored in FP32": _named(stored=np.float32),
    "stored in FP64": _named(stored=np.float64),
    "products not rounded": _named(unrounded=("MUL",)),
    "operands flushed": _named(flushes=("operands",)),
    "results flushed": _named(flushes=("results",)),
    "all flushed": _named(flushes=("operands", "results")),
    "flushed, terms forwards": _named(flushes=("operands", "results"), order="forwards"),
    "SIN and COS 1e-5 more": _named(relative=1e-5),
    "SIN and COS 1e-5 less": _named(relative=-1e-5),
    "functions as high as allowed": _named(allowed=1),
    "functions as low as allowed": _named(allowed=-1),
    "functions high and low": _named(allowed=2),
    "functions high or low": _named(allowed=3),
}
