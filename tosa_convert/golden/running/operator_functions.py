"""Offer operators as functions of arrays, and `run`: the library of `tosa_convert.reference`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from inspect import Signature
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.builder import Builder
from tosa_convert.builder.calls import parameters
from tosa_convert.builder.infer_results import UNKNOWN, Known, choices_of_operand
from tosa_convert.builder.values import WrongArgument
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays import Array, Slot
from tosa_convert.golden.running.programs import (
    input_arrays,
    input_slots,
    load_program,
    output_slots,
    variables_of,
)
from tosa_convert.golden.running.run_graph import run_program
from tosa_convert.golden.running.run_options import Level, RunOptions
from tosa_convert.graph.constant import dtype_of_array
from tosa_convert.graph.dtypes import BLOCK_SCALE, INT8, INT64, DType, dtype
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import OperandSpec, OperatorSpec
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.reference.block_scaled import Scaled, scales_type
from tosa_convert.reference.call import Type
from tosa_convert.reference.evaluate import Machine, definition
from tosa_convert.rules.describe import conditions, type_lines

#: How many calls are kept as checked, and the most bytes of constants in each.
_CALLS, _BYTES = 512, 1 << 16
_INT48: Final = 1 << 47
#: Element type -> the one of the same numpy type, which is meant where an operator takes it alone.
_RARE: Final = {INT64: dtype("INT48"), INT8: dtype("MXINT8")}


class _Item(NamedTuple):
    """Hold an argument for an operand. is_data: whether rules do not read its values."""

    row: OperandSpec
    given: Any
    is_data: bool


def _items(row: OperandSpec, given: Any) -> Iterator[_Item]:
    if row.arity == "*" and isinstance(given, (list, tuple)):
        for item in given:
            yield from _items(row._replace(arity=""), item)
    elif given is not None or row.arity != "?":
        is_read = row.is_shape or row.is_constant or row.arity == "*"
        yield _Item(row, given, isinstance(given, (np.ndarray, Scaled)) and not is_read)


class _Call:
    """Hold the arguments of an operator's function; equal to others of the same types and constants."""

    def __init__(self, spec: OperatorSpec, given: dict[str, Any]) -> None:
        self.spec, self.given, self.bytes = spec, given, 0
        self.items = [item for row in spec.operands for item in _items(row, given[row.name])]
        rows = {row.name for row in spec.operands}
        attributes = [self._constant(value) for name, value in given.items() if name not in rows]
        self.key = (spec, *map(self._operand, self.items), *attributes)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Call) and self.key == other.key

    def _operand(self, item: _Item) -> tuple[Any, ...]:
        if not item.is_data:
            return item.row.name, self._constant(item.given)
        arrays = item.given if isinstance(item.given, Scaled) else (item.given,)
        return item.row.name, *((array.dtype, array.shape) for array in arrays)

    def _constant(self, given: Any) -> Any:
        if isinstance(given, np.ndarray):
            self.bytes += given.nbytes
            return given.dtype, given.shape, given.tobytes()
        if isinstance(given, (list, tuple)):
            return tuple(map(self._constant, given))
        self.bytes += 1
        return type(given), given

    def elements(self) -> Iterator[DType]:
        tensors = [item for item in self.items if not item.row.is_shape]
        known = [_element(self.spec, item) for item in tensors]
        for position, element in enumerate(known):
            if isinstance(element, DType) and (rare := _RARE.get(element)):
                others = [*known[:position], UNKNOWN, *known[position + 1 :]]
                choices = choices_of_operand(self.spec, others, position, {}, ())
                if rare in choices and element not in choices:
                    known[position] = element = rare
            if isinstance(element, tuple):
                element, _ = element
            if isinstance(element, DType):
                yield element


def _element(spec: OperatorSpec, item: _Item) -> Known:
    """Return the element type that the numpy type of data usually means."""
    if not item.is_data:
        return UNKNOWN
    array = item.given.data if isinstance(item.given, Scaled) else item.given
    element = dtype_of_array(array)
    if element is None or not array.dtype.isnative:
        hint = "convert it, as in array.astype(np.float32)"
        message = f"{item.row.name} has the element type {array.dtype}, which TOSA does not have"
        raise fail("unsupported-dtype", _where(spec), message, hint)
    if isinstance(item.given, Scaled):
        return _RARE[element] if element is INT8 else element, BLOCK_SCALE
    return element


class _Checked(NamedTuple):
    """Hold an operator that fits its rules. operands: None for data. wide: those of INT48."""

    machine: Machine
    block: Block
    operator: Operator
    operands: tuple[Any, ...]
    wide: frozenset[str]


def _check(call: _Call) -> _Checked:
    """Apply the rules of TOSA to a call, as to an operator of a program."""
    spec, where = call.spec, _where(call.spec)
    builder, elements = Builder(), call.elements()
    taken: list[str] = []
    arguments = {{"out_type": "dtype"}.get(name, name): given for name, given in call.given.items()}
    lists = {row.name for row in spec.operands if row.arity == "*"}
    listed: dict[str, list[Any]] = {}
    try:
        for row, given, is_data in call.items:
            value = given
            if is_data:
                name, element = f"{row.name}{len(taken)}", next(elements)
                if isinstance(given, Scaled):
                    value = builder.input(name, element, given.data.shape, scaled=True)
                    _check_scales(row, given, scales_type(builder.block.tensors[name]))
                else:
                    value = builder.input(name, element, given.shape)
                taken.append(name)
            if row.name in lists and row.arity != "*":
                listed.setdefault(row.name, []).append(value)
            else:
                arguments[row.name] = value
        getattr(builder, spec.name.lower())(**{**arguments, **listed})
    except WrongArgument as error:
        raise fail("malformed-operator", where, str(error).removeprefix(f"{where} ")) from None
    except TosaConvertError as error:
        found = [(row, row.hint.replace("dtype=", "out_type=")) for row in error.findings]
        raise TosaConvertError([replace(r, where=where, hint=hint) for r, hint in found]) from None
    block, operator = builder.block, builder.last_operator
    machine = Machine(Graph(V1_1_DRAFT, []))
    operands = [
        None if name in taken else machine.value(block, {}, name) for name in operator.inputs
    ]
    wide = frozenset(name for name in taken if block.tensors[name].dtype is _RARE[INT64])
    return _Checked(machine, block, operator, tuple(operands), wide)


_kept: Final = lru_cache(_CALLS)(_check)


def _check_scales(row: OperandSpec, given: Scaled, expected: Type) -> None:
    found = Type(dtype_of_array(given.scale), given.scale.shape)
    if found != expected:
        message = f"the scales of {row.name} are {found.dtype} {list(found.shape)}"
        raise fail(
            "invalid-operator", "", f"{message}; expected {expected.dtype} {list(expected.shape)}"
        )


def _where(spec: OperatorSpec) -> str:
    return f"{spec.name.lower()}()"


def function_of(spec: OperatorSpec) -> Callable[..., Any]:
    where = _where(spec)
    rows = [row for row in parameters(spec) if row.name != "name"]
    rows = [row.replace(name="out_type") if row.name == "dtype" else row for row in rows]
    signature = Signature(rows)

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            message = f"{error}; its arguments are {', '.join(signature.parameters)}"
            raise fail("malformed-operator", where, message) from None
        bound.apply_defaults()
        call = _Call(spec, bound.arguments)
        try:
            checked = (_kept if call.bytes <= _BYTES else _check)(call)
        except TypeError:  # an argument that cannot be a key is none that an operator takes
            checked = _check(call)
        machine, block, operator, fixed, wide = checked
        data = (item.given for item in call.items if item.is_data)
        operands = [next(data) if value is None else value for value in fixed]
        for name, array in zip(operator.inputs, operands, strict=True):
            if name in wide and (array.min() < -_INT48 or array.max() >= _INT48):
                message = f"a value of {name} does not fit INT48"
                raise fail("value-out-of-range", where, message)
        computed = machine.compute(block, operator, operands, where)
        parts = [part for one in operands for part in (one if isinstance(one, Scaled) else (one,))]
        found = tuple(_own(value, parts) for value in computed.values())
        return found[0] if len(found) == 1 else found or None

    function.__name__ = function.__qualname__ = spec.name.lower()
    function.__doc__ = describe(spec)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _own(value: Any, operands: Sequence[Array]) -> Any:
    """Return a result that shares no memory with an operand."""
    if isinstance(value, Scaled):
        return Scaled(*(_own(part, operands) for part in value))
    return value.copy() if any(np.may_share_memory(value, one) for one in operands) else value


def describe(spec: OperatorSpec) -> str:
    """Return what an operator's function computes, with the types that it takes and its rules."""
    lines = [definition(spec.name), "", "Types:", *(f"    {line}" for line in type_lines(spec))]
    rules = [f"    - {line}" for line in conditions(spec)]
    return "\n".join([*lines, "", "Rules:", *rules] if rules else lines)


# -- programs --------------------------------------------------------------------------------------


class GraphStatus(IntEnum):
    """Say how a run ended, as the reference model's Python package does."""

    TOSA_VALID = 0
    TOSA_UNPREDICTABLE = 1
    TOSA_ERROR = 2


_LEVELS: Final[dict[str, Level]] = {"NONE": "none", "EIGHTK": "8k"}


def run(
    tosa_binary: Any,
    inputs: Sequence[Any],
    *,
    inst_id: int = 0,
    debug_filename: str | None = None,
    is_unbuffered: bool = False,
    debug_mode: str | None = None,
    verbosity: str = "NONE",
    dump_intermediates: int = 0,
    initialize_variable_tensor_from_numpy: int = 0,
    fp_format: str = "0.5",
    precise_mode: int = 0,
    bounds_mode: bool = False,
    tosa_level: str = "NONE",
) -> tuple[list[Array], GraphStatus]:
    """Run a program in numpy, with the arguments and results of `tosa_reference_model.run`.

    As the model does, it takes an array of any type of an input's width for the bytes of the input, and
    returns BF16 and FP8, which numpy lacks, as raw bytes: `.view(ml_dtypes.bfloat16)` has the numbers.
    Inputs may be of ml_dtypes as well, and programs have every type of TOSA. `inst_id`,
    `debug_filename`, `is_unbuffered`, `debug_mode`, `verbosity` and `fp_format` are about the model's
    log, and there is none.

    Args:
        tosa_binary: the bytes of a flatbuffer, or anything else that `tosa_convert.load` reads.
        inputs: an array for each input, in order; two for a block-scaled one, its scales second.
        inst_id: has no effect.
        debug_filename: has no effect.
        is_unbuffered: has no effect.
        debug_mode: has no effect.
        verbosity: has no effect.
        dump_intermediates: must be 0; `golden.steps` has intermediate tensors.
        initialize_variable_tensor_from_numpy: must be 0 for a program with variables; `golden.run`
            takes their states.
        fp_format: has no effect.
        precise_mode: 1 to compute floating point in FP64.
        bounds_mode: return the bounds of TOSA's accuracy rules instead.
        tosa_level: "NONE", or "EIGHTK" to refuse what exceeds the limits of the level 8K.

    Returns:
        The outputs, in order, and the status. Of data for which TOSA does not define the result there
        are no outputs, the status is TOSA_UNPREDICTABLE, and a warning says which operator it is.

    Raises:
        TosaConvertError: as `golden.run`.

    Example:
        >>> import numpy as np
        >>> from tosa_convert import dumps, reference
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> b.output(b.abs(b.input("x", "INT32", (3,))), name="y")
        >>> outputs, status = reference.run(dumps(b.graph()), [np.array([-1, 2, -3], np.int32)])
        >>> outputs[0].tolist(), status.name
        ([1, 2, 3], 'TOSA_VALID')
    """
    if tosa_level not in _LEVELS:
        raise fail(
            "option-conflict", "tosa_level", f"found {tosa_level!r}, expected 'NONE' or 'EIGHTK'"
        )
    if dump_intermediates:
        raise fail("option-conflict", "dump_intermediates", "it must be 0", "use golden.steps")
    program = load_program(tosa_binary)
    if initialize_variable_tensor_from_numpy and variables_of(program.graph):
        message = "the program has variables, and no array says what is in them"
        hint = "pass 0 for the program's own values, or use golden.run(..., variables=)"
        raise fail("option-conflict", "initialize_variable_tensor_from_numpy", message, hint)
    slots = input_slots(program.graph)
    if len(inputs) != len(slots):
        names = ", ".join(map(str, slots)) or "none"
        message = f"found {len(inputs)} arrays, expected {len(slots)}: {names}"
        raise fail("input-mismatch", "inputs", message)
    arrays = {slot.key: _given(array, slot) for slot, array in zip(slots, inputs, strict=True)}
    given = input_arrays(program.graph, arrays)
    options = RunOptions(
        precise=bool(precise_mode),
        bounds=bounds_mode,
        level=_LEVELS[tosa_level],
        timeout=0,
        engine="numpy",
    )
    try:
        result = run_program(program, given, options)
    except TosaConvertError as error:
        if error.code not in ("refmodel-refused", "input-mismatch"):  # such as an index of no row
            raise
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return [], GraphStatus.TOSA_UNPREDICTABLE
    found = result.bounds if bounds_mode else result.outputs
    own, returned = output_slots(program.graph), program.graph.main.outputs
    slots = [slot for name in returned for slot in own if slot.tensor == name]
    return [_returned(found[slot.key], slot) for slot in slots], GraphStatus.TOSA_VALID


def _given(array: Any, slot: Slot) -> Any:
    """Return the bytes of an array whose elements are as wide as an input's, and others as they are."""
    target = slot.dtype.numpy
    if not isinstance(array, np.ndarray) or array.dtype == target or slot.dtype.is_in_bytes:
        return array
    return _raw(np.asarray(array, order="C")) if array.itemsize == target.itemsize else array


def _returned(array: Array, slot: Slot) -> Array:
    """Return an array in C order; those of types that numpy lacks as bytes."""
    array = np.asarray(array, order="C")
    is_of_numpy = slot.dtype.is_in_bytes or array.dtype.type.__module__ == "numpy"
    return array if is_of_numpy else _raw(array)


def _raw(array: Array) -> Array:
    return array.view(f"V{array.dtype.itemsize}")
