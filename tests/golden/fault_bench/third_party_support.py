"""Rows of faults for operators of a name, and inputs that prove that each is a fault.

A fault is proven by inputs for which an output is further from the right one than any of several correct
implementations, whose errors are at least those that TOSA permits, by a factor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
from golden.fault_bench.fault import At, Change, Fault, FaultyMachine, Inputs, Value, faulty
from golden.fault_bench.third_party_float_programs import place

from tosa_convert.builder import DTypeName
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Block, Graph, Operator
from tosa_convert.reference.call import is_float
from tosa_convert.reference.evaluate import Machine

Array: TypeAlias = npt.NDArray[Any]
#: A program, as the function that builds it and its arguments.
Program = tuple[Callable[..., Graph], tuple[str, ...]]
Results = list[Array]

FLOATS: Final[tuple[DTypeName, ...]] = ("FP32", "FP16", "BF16")
QUANTISED: Final = ("INT8", "INT16")
#: How often inputs of each style are tried for a witness.
_TRIES: Final = 20
#: How much further off than correct implementations an output of a witness is.
_CLEAR: Final = 4.0


def of(build: Callable[..., Graph], *types: str) -> list[Program]:
    """Return a program for each element type."""
    return [(build, (name,)) for name in types]


def rows(
    kind: str,
    family: str,
    change: Change | Callable[..., FaultyMachine],
    names: str | Sequence[str],
    programs: Sequence[Program],
    *styles: str,
    dtype: str = "",
    is_located: bool = True,
) -> Iterator[Fault]:
    """Make a fault of each program.

    Args:
        kind: see `Fault`.
        family: see `Fault`.
        change: what the operators of these names do wrong, or a class of backends.
        names: of the operators of the program that are faulty.
        programs: the programs that have the fault.
        styles: of the inputs among which a witness is; see `STYLES`.
        dtype: that the fault is about, if not the program's own.
        is_located: whether one of these operators is to blame, rather than what reads their memory.
    """
    operators = (names,) if isinstance(names, str) else tuple(names)
    places = tuple(place(name) for name in operators)
    backend = _backend(change, places)
    for build, arguments in programs:
        program = partial(build, *arguments)
        yield Fault(
            kind=kind,
            family=family,
            dtype=dtype or _element(arguments),
            program=program,
            backend=backend,
            location=places if is_located else None,
            witness=partial(find_witness, program, backend, styles or ("plain",)),
            variant=" ".join((build.__name__, *arguments[1:], *operators)),
        )


def _element(arguments: tuple[str, ...]) -> str:
    """Return the element type that a fault of a program is about: that of short weights, if any."""
    if "INT4" in arguments:
        return "INT4"
    return arguments[0] if arguments else "INT32"


def _backend(
    change: Change | Callable[..., FaultyMachine], places: tuple[str, ...]
) -> Callable[[], FaultyMachine]:
    if isinstance(change, type):
        return partial(cast("Callable[..., FaultyMachine]", change), *places)
    calculate = cast("Change", change)

    @wraps(calculate)
    def quietly(at: At, results: list[Value]) -> Sequence[Value]:
        with np.errstate(all="ignore"):
            return calculate(at, results)

    return faulty(quietly, *places)


def array(value: Value) -> Array:
    """Return the value of an operand that is a plain tensor."""
    assert isinstance(value, np.ndarray)
    return value


def wide(value: Value) -> Array:
    """Return an operand in FP64, or in INT64."""
    found = array(value)
    return found.astype(np.float64 if is_float(found.dtype) else np.int64)


def again(at: At, position: int, value: Any, **attributes: Any) -> Results:
    """Compute the operator with another operand at a position."""
    operands = list(at.operands)
    before = array(operands[position])
    operands[position] = np.asarray(value).astype(before.dtype, copy=False)
    return [array(found) for found in at.again(operands, **attributes)]


def axis_of(at: At) -> int:
    """Return the axis of an operator that has one."""
    axis = at.op.attributes["axis"]
    assert isinstance(axis, int)
    return axis


def like(result: Value, found: Any) -> list[Value]:
    """Return a changed result in the type of the right one."""
    before = array(result)
    with np.errstate(all="ignore"):
        return [np.asarray(found).astype(before.dtype).reshape(before.shape)]


def limits(kind: Any) -> Any:
    """Return the limits of a floating-point type, as `numpy.finfo`."""
    find: Any = ml_dtypes.finfo
    return find(kind)


def shortened(values: Any, bits: int) -> Array:
    """Return floating point rounded to so many bits of the fraction, to nearest."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    scale = 2.0 ** (bits + 1)
    with np.errstate(all="ignore"):
        return np.asarray(np.ldexp(np.rint(mantissa * scale) / scale, exponent))


def window_sums(at: At, values: Array) -> Array:
    """Return the sums of the windows of a pooling operator, with zeros outside the image."""
    sizes: list[Any] = [at.op.attributes[name] for name in ("kernel", "stride", "pad")]
    kernel, stride, pad = sizes
    padded = np.pad(values, ((0, 0), pad[:2], pad[2:], (0, 0)))
    rows, columns = (
        (padded.shape[1 + axis] - kernel[axis]) // stride[axis] + 1 for axis in range(2)
    )
    total = np.zeros((len(values), rows, columns, values.shape[3]), values.dtype)
    for y, x in np.ndindex(*kernel):
        part = padded[:, y :: stride[0], x :: stride[1]]
        total += part[:, :rows, :columns]
    return total


# --- inputs ---------------------------------------------------------------------------------------


def _floats(random: np.random.Generator, shape: tuple[int, ...], kind: Any, style: str) -> Array:
    found = random.normal(size=shape)
    row = limits(kind)
    chance = random.random(shape)
    if style == "wide":
        found *= np.exp2(random.uniform(-6, 6, shape))
    elif style == "halves":
        found = random.integers(-6, 7, shape) / 2
        found = np.where(chance < 0.1, -0.0, found)
    elif style == "nan":
        found[chance < 0.06] = np.nan
    elif style == "infinite":
        found[chance < 0.04] = np.inf
        found[chance > 0.96] = -np.inf
    elif style == "steps":
        found = random.integers(-64, 65, shape) / 32
    elif style == "near":
        found = 0.5 + found * 0.004
    elif style == "large":
        found *= 60
    elif style == "huge":
        found *= 3000
    elif style == "negative":
        found = -np.abs(found) - 0.1
    elif style == "positive":
        found = np.abs(found) + 0.1
    elif style == "tiny":
        found *= float(row.smallest_normal)
    elif style == "offset":
        found = found * 0.05 + 20
    return found.astype(kind)


def _integers(random: np.random.Generator, shape: tuple[int, ...], kind: Any, style: str) -> Array:
    row = np.iinfo(kind)
    if style == "limits":
        return random.choice(np.array([row.min, row.min + 1, -1, 0, 1, row.max], kind), shape)
    if style in ("halves", "small"):
        return random.integers(-3, 4, shape).astype(kind)
    if style == "wide":
        size = np.exp2(random.uniform(0, row.bits - 1, shape))
        return np.asarray(random.uniform(-1, 1, shape) * size).astype(kind)
    limit = min(row.max, 1 << 20)
    low = -limit if row.max > limit else row.min
    found = random.integers(low, limit + 1, shape)
    if style == "negative":
        found = -np.abs(found)
    if style == "positive":
        found = np.minimum(np.abs(found), limit)
    return found.astype(kind)


def inputs_of(graph: Graph, style: str, seed: int) -> dict[str, Array]:
    """Return inputs of a style: "plain", "wide", "halves", "nan", and so on."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name in graph.main.inputs:
        tensor = graph.main.tensors[name]
        assert tensor.dtype is not None
        kind, shape = np.dtype(tensor.dtype.numpy), tuple(tensor.shape or ())
        if kind.kind == "b":
            found[name] = random.random(shape) < 0.6
        elif is_float(kind):
            found[name] = _floats(random, shape, kind, style)
        else:
            found[name] = _integers(random, shape, kind, style)
    return found


# --- proof ----------------------------------------------------------------------------------------

#: Operators whose result is a sum of products, and the units that others are off here: above what
#: TOSA allows.
_SUMS: Final = frozenset(
    (
        *("AVG_POOL2D", "CONV2D", "DEPTHWISE_CONV2D", "FFT2D", "MATMUL", "MATMUL_T_BLOCK_SCALED"),
        *("REDUCE_SUM", "RFFT2D", "TRANSPOSE_CONV2D"),
    )
)
_UNITS: Final = {
    **dict.fromkeys(("RECIPROCAL", "RSQRT", "REDUCE_PRODUCT"), 3.0),
    **dict.fromkeys(("ERF", "SIGMOID", "TANH", "SIN", "COS", "LOG"), 8.0),
    **dict.fromkeys(("EXP", "POW"), 8.0),
}


@dataclass(slots=True)
class _Correct(Machine):
    """A correct implementation whose errors are as large as TOSA permits, or larger.

    sign: of all errors; 0 for random ones. flushes: whether subnormal results become zero.
    """

    sign: float = 0.0
    flushes: bool = False
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        found = Machine.compute(self, block, operator, operands, where)
        name = operator.spec.name
        for key, value in found.items():
            if not isinstance(value, np.ndarray) or not is_float(value.dtype) or name == "CONST":
                continue
            row = limits(value.dtype)
            unit = 2.0 ** -int(row.nmant)
            exact = value.astype(np.float64)
            error = np.abs(exact) * unit * _UNITS.get(name, 0.0)
            if name in ("EXP", "POW"):
                error = error * (1 + np.abs(np.log(np.maximum(np.abs(exact), 1e-30))))
            if name in ("LOG", "SIN", "COS"):
                error = np.maximum(error, 4 * unit)
            if name in _SUMS:
                error = self._bound(block, operator, operands, key) * _of_sum(name, operands, unit)
            off = error * (self.sign or self.random.uniform(-1, 1, exact.shape))
            changed = np.where(off != 0, exact + off, exact)
            if self.flushes:
                is_normal = np.abs(changed) >= float(row.smallest_normal)
                changed = np.where(is_normal, changed, np.copysign(0.0, changed))
            with np.errstate(all="ignore"):
                found[key] = np.where(np.isfinite(exact), changed, exact).astype(value.dtype)
        return found

    def _bound(
        self, block: Block, operator: Operator, operands: Sequence[Value], key: str
    ) -> Array:
        sizes = [
            np.abs(value).astype(value.dtype)
            if isinstance(value, np.ndarray) and is_float(value.dtype)
            else value
            for value in operands
        ]
        if operator.spec.name in ("FFT2D", "RFFT2D"):
            total = sum(float(np.abs(array(value)).sum()) for value in operands)
            return np.full(array(operands[0]).shape[:1], total).max()  # type: ignore[no-any-return]
        bound = Machine.compute(self, block, operator, sizes, "bound")[key]
        return np.abs(np.nan_to_num(array(bound).astype(np.float64)))


def _of_sum(name: str, operands: Sequence[Value], unit: float) -> float:
    """Return the error of a sum, relative to that of the absolute values: of FP32, then of the type."""
    shape = array(operands[0]).shape
    terms = max(shape) if name == "REDUCE_SUM" else 16
    if name == "MATMUL":
        terms = shape[2]
    elif name == "DEPTHWISE_CONV2D":
        terms = int(np.prod(array(operands[1]).shape[:2]))
    elif "CONV2D" in name:
        terms = int(np.prod(array(operands[1]).shape[1:]))
    elif "FFT2D" in name:
        terms = int(np.prod(shape[1:]))
    return terms * 2.0**-24 + (unit if unit > 2.0**-20 else 0.0)


def correct_runs(graph: Graph, inputs: Inputs) -> list[dict[str, Array]]:
    """Return the outputs of correct implementations, that of the reference first."""
    machines = [
        Machine(graph),
        *(_Correct(graph, sign=sign) for sign in (1.0, -1.0)),
        *(_Correct(graph, flushes=n == 0, random=np.random.default_rng(n)) for n in range(3)),
    ]
    return [machine.run(inputs) for machine in machines]


def is_clear(runs: Sequence[Mapping[str, Array]], found: Mapping[str, Array]) -> bool:
    """Return whether an output is wrong beyond doubt, given those of correct implementations."""
    return any(_is_wrong([run[name] for run in runs], found[name]) for name in runs[0])


def _is_wrong(right: Sequence[Array], found: Array) -> bool:
    first = right[0]
    if not is_float(first.dtype):
        agreed = np.all([other == first for other in right], axis=0)
        return bool(np.any(agreed & (found != first)))
    exact, faulty = first.astype(np.float64), found.astype(np.float64)
    others = [other.astype(np.float64) for other in right]
    finite = np.all([np.isfinite(other) for other in others], axis=0)
    row = limits(first.dtype)
    with np.errstate(all="ignore"):
        spread = np.max([np.abs(other - exact) for other in others], axis=0)
        least = np.abs(exact) * 2.0 ** -int(row.nmant) + float(row.smallest_normal)
        off = ~(np.abs(faulty - exact) <= _CLEAR * np.maximum(spread, least))
    special = np.all([_same(other, exact) for other in others], axis=0) & ~np.isfinite(exact)
    return bool(np.any(finite & off) or np.any(special & ~_same(faulty, exact)))


def _same(left: Array, right: Array) -> Array:
    return np.asarray((left == right) | (np.isnan(left) & np.isnan(right)))


def faulty_run(
    backend: Callable[[], FaultyMachine], graph: Graph, inputs: Inputs
) -> dict[str, Array]:
    """Return the outputs of the faulty backend, and those of its second run if they are others."""
    machine = backend()
    with tempfile.TemporaryDirectory() as folder:
        found = machine.compute(graph, list(graph.main.outputs), dict(inputs), [], Path(folder))
        return {name: np.array(found[name]) for name in graph.main.outputs}


def find_witness(
    program: Callable[[], Graph], backend: Callable[[], FaultyMachine], styles: Sequence[str]
) -> Inputs:
    """Return inputs for which the faulty backend is wrong beyond doubt."""
    graph = program()
    for seed in range(_TRIES):
        for style in styles:
            inputs = inputs_of(graph, style, seed)
            try:
                with np.errstate(all="ignore"):
                    right = correct_runs(graph, inputs)
                    found = faulty_run(backend, graph, inputs)
            except TosaConvertError:
                continue
            if is_clear(right, found):
                return inputs
    raise AssertionError(f"no inputs of the styles {', '.join(styles)} show the fault")
