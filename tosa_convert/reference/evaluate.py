"""Run a program operator by operator, with control flow and variables."""

from __future__ import annotations

import inspect
import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast

import numpy as np

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.graph.dtypes import BLOCK_SCALE, INT8, INT16, MIDDLE_OF_UINT16, DType
from tosa_convert.graph.model import Block, Graph, Operator, ShapeValue, Tensor, operator_path
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    VARIABLE,
    VARIABLE_READ,
    VARIABLE_WRITE,
    Custom,
    table_of,
)
from tosa_convert.reference import (
    block_scaled,
    conversion,
    convolutions,
    elementwise,
    movement,
    products,
    reductions,
    resizing,
    windows,
)
from tosa_convert.reference.block_scaled import (
    SCALE_SUFFIX,
    Scaled,
    Value,
    by_key,
    compute_scaled,
    numbers_of,
    plain,
    scales_type,
)
from tosa_convert.reference.bounds import BOUNDS
from tosa_convert.reference.call import (
    Array,
    Call,
    Inside,
    Operation,
    Precision,
    Step,
    Type,
    integer_limits,
    is_float,
    refuse_undefined,
    store,
)
from tosa_convert.reference.parts import compute_in_parts

#: Operator -> the function that computes it. Control flow, constants and variables are not among them.
OPERATIONS: Final[dict[str, Operation]] = table_of(
    "value",
    {
        **block_scaled.OPERATIONS,
        **conversion.OPERATIONS,
        **elementwise.OPERATIONS,
        **movement.OPERATIONS,
        **resizing.OPERATIONS,
        **windows.OPERATIONS,
        **products.OPERATIONS,
        **reductions.OPERATIONS,
        **convolutions.OPERATIONS,
    },
)
if _undocumented := [name for name, function in OPERATIONS.items() if not function.__doc__]:
    raise LookupError(f"{', '.join(_undocumented)}: nothing says what the function computes")
#: A result of INT64 that wrapped around differs by 2^64 from that in FP64, whose rounding is less.
_WRAPPED: Final = 2.0**62


@dataclass(slots=True)
class Machine:
    """The state of a run: the program, the values of its variables, and how it computes.

    where: the path of the operator that is computed.
    """

    graph: Graph
    precision: Precision = "own"
    variables: dict[str, Array] = field(default_factory=dict)
    where: str = ""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the main block."""
        outputs: dict[str, Array] = {}
        for _ in self.steps(inputs, outputs):
            pass
        return outputs

    def steps(self, inputs: Mapping[str, Array], outputs: dict[str, Array]) -> Iterator[Step]:
        """Compute the main block, one operator with each step; fill `outputs` at the end.

        A value is dropped after its last use.
        """
        main = self.graph.main
        yield from self._block(
            main, [self.argument(main, name, inputs) for name in main.inputs], outputs, Inside()
        )

    def argument(self, block: Block, name: str, inputs: Mapping[str, Array]) -> Value:
        tensor = block.tensors.get(name)
        if tensor is None:
            return self._given(inputs[name], None)
        given = self._given(inputs[name], tensor.dtype)
        if tensor.scale is None:
            return given
        return Scaled(given, self._given(inputs[name + SCALE_SUFFIX], BLOCK_SCALE))

    def _block(
        self, block: Block, arguments: Sequence[Value], outputs: dict[str, Array], inside: Inside
    ) -> Iterator[Step]:
        values: dict[str, Value] = dict(zip(block.inputs, arguments, strict=True))
        where = next(path for path, found in self.graph.blocks() if found is block)
        last_use = {name: index for index, op in enumerate(block.operators) for name in op.inputs}
        kept = frozenset(block.outputs)
        for index, operator in enumerate(block.operators):
            path = self.where = operator_path(where, index, operator)
            if operator.spec is CONST or operator.spec is CONST_SHAPE:  # They are many, and simple.
                constant = self.compute(block, operator, (), path)
                yield Step(operator, index, block, {}, _arrays(constant), path, inside)
                if operator.outputs[0] in last_use or operator.outputs[0] in kept:
                    values.update(constant)
                continue
            operands = [self.value(block, values, name) for name in operator.inputs]
            results: dict[str, Value] = {}
            if operator.spec.regions:
                enter = partial(inside.enter, index, operator)
                yield from self._control_flow(operator, operands, results, enter)
            else:
                results.update(self.compute(block, operator, operands, path))
            values.update(results)
            taken = _arrays(dict(zip(operator.inputs, operands, strict=True)))
            yield Step(operator, index, block, taken, _arrays(results), path, inside)
            del operands, taken
            for name in {*operator.inputs, *results}:
                if last_use.get(name, -1) <= index and name not in kept:
                    values.pop(name, None)
        for name in block.outputs:
            outputs.update(by_key(name, self.value(block, values, name)))

    def value(self, block: Block, values: Mapping[str, Value], name: str) -> Value:
        """Return the value of an operand: one of `values`, a constant, or the state of a variable."""
        if name in values:
            return values[name]
        tensor = block.tensors.get(name)
        if tensor is not None and tensor.variable:
            return self._state(tensor.variable_name or name, tensor)
        value = tensor or block.shapes[name]
        data = value.data
        if data is None:
            raise fail("input-mismatch", f'"{name}"', "its value is not known")
        shape = (value.rank,) if isinstance(value, ShapeValue) else tuple(value.shape or ())
        array = self._given(data.numpy().reshape(shape), tensor.dtype if tensor else None)
        if tensor is None or tensor.scale is None or tensor.scale.data is None:
            return array
        scale = tensor.scale.data.numpy().reshape(scales_type(tensor).shape)
        return Scaled(array, self._given(scale, BLOCK_SCALE))

    def _state(self, name: str, tensor: Tensor) -> Array:
        if name not in self.variables:
            if tensor.data is None:
                hint = "give it an initial value"
                raise fail("input-mismatch", f'variable "{name}"', "it has no value yet", hint)
            array = tensor.data.numpy().reshape(tensor.shape or ())
            self.variables[name] = self._given(array, tensor.dtype)
        return self.variables[name]

    def _given(self, array: Array, element: DType | None) -> Array:
        """Return an array that was given in the type that this run computes it in."""
        if self.precision == "own":
            return array
        is_code = element is not None and element.name == "MXINT8"
        return numbers_of(array, element) if is_code or is_float(array.dtype) else array

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        """Return the results of an operator without regions, by name."""
        spec = operator.spec
        if spec is CONST or spec is CONST_SHAPE:
            (name,) = operator.outputs
            return {name: self.value(block, {}, name)}
        if spec is VARIABLE:
            return {}
        if spec is VARIABLE_READ:
            return {operator.outputs[0]: operands[0]}
        if spec is VARIABLE_WRITE:
            tensor = block.tensors[operator.outputs[0]]
            self.variables[tensor.variable_name or tensor.name] = plain(operands[0])
            return {}
        call = call_of(block, operator, operands, self.precision)
        targets = call.results
        function = _refusing_overflow(self._function(call, where))
        with np.errstate(all="ignore"), _errors_at(where, block, operator):
            _refuse_zero_points(call)
            first = block.tensors.get(operator.outputs[0]) if operator.outputs else None
            scales = scales_type(first) if first is not None and first.scale is not None else None
            if scales is None and not any(isinstance(value, Scaled) for value in operands):
                found: Any = compute_in_parts(call, function)
                found = function(call) if found is None else found
            else:
                found = compute_scaled(call, operands, function, scales, where)
            if scales is not None:
                data = store(found.data, targets[0], self.precision)
                return {operator.outputs[0]: Scaled(data, store(found.scale, scales, "own"))}
            arrays = found if isinstance(found, (tuple, list)) else (found,)
            rows = zip(operator.outputs, arrays, targets, strict=True)
            return {name: store(array, target, self.precision) for name, array, target in rows}

    def _function(self, call: Call, where: str) -> Operation:
        if self.precision == "bounds" and call.spec.name in BOUNDS and _is_inexact(call):
            return BOUNDS[call.spec.name]
        if call.spec.name in OPERATIONS:
            return OPERATIONS[call.spec.name]
        if call.spec.meaning is None:
            domain, name = (call.attributes[word] for word in ("domain_name", "operator_name"))
            message = (
                f"nothing says what the CUSTOM operator {name!r} of domain {domain!r} computes"
            )
            hint = "--custom FILE.py, or custom= in Python, says it"
            raise fail("unsupported-operator", where, message, hint)
        return partial(_compute_custom, call.spec.meaning, where)

    def control_flow(
        self, index: int, operator: Operator, operands: Sequence[Value]
    ) -> dict[str, Value]:
        """Return the results of an operator of the main block that has regions, by name."""
        results: dict[str, Value] = {}
        enter = partial(Inside().enter, index, operator)
        for _ in self._control_flow(operator, operands, results, enter):
            pass
        return results

    def _control_flow(
        self,
        operator: Operator,
        operands: Sequence[Value],
        results: dict[str, Value],
        enter: Callable[..., Inside],
    ) -> Iterator[Step]:
        regions = {row.name: self._region(operator, row.name) for row in operator.spec.regions}
        if "then_graph" in regions:
            taken = "then" if _is_true(operands[0]) else "else"
            state = list(operands[1:])
            state = yield from self._region_run(regions[f"{taken}_graph"], state, enter(taken))
        else:
            state = list(operands)
            for turn in itertools.count():
                place = enter(f"cond[{turn}]", turn)
                condition = yield from self._region_run(regions["cond_graph"], state, place)
                if not _is_true(condition[0]):
                    break
                place = enter(f"body[{turn}]", turn)
                state = yield from self._region_run(regions["body_graph"], state, place)
        results.update(zip(operator.outputs, state, strict=True))

    def _region_run(self, block: Block, arguments: list[Value], inside: Inside) -> Any:
        outputs: dict[str, Array] = {}
        yield from self._block(block, arguments, outputs, inside)
        return [
            Scaled(outputs[name], outputs[name + SCALE_SUFFIX])
            if name + SCALE_SUFFIX in outputs
            else outputs[name]
            for name in block.outputs
        ]

    def _region(self, operator: Operator, attribute: str) -> Block:
        name = operator.attributes[attribute]
        return next(region for region in self.graph.regions if region.name == name).blocks[0]


def _arrays(values: Mapping[str, Value]) -> dict[str, Array]:
    if Scaled not in map(type, values.values()):
        return cast(dict[str, Array], values)
    return {
        key: array for name, value in values.items() for key, array in by_key(name, value).items()
    }


def call_of(
    block: Block, operator: Operator, operands: Sequence[Value], precision: Precision
) -> Call:
    attributes = {
        name: value if (number := block.element_of(operator, name)) is None else number
        for name, value in operator.attributes.items()
    }
    targets = tuple(_type_of(block, name) for name in operator.outputs)
    types = tuple(_type_of(block, name) for name in operator.inputs)
    return Call(operator.spec, tuple(map(plain, operands)), types, attributes, targets, precision)


def _compute_custom(meaning: Custom, where: str, call: Call) -> tuple[Array, ...]:
    """Return what the function of a CUSTOM operator computes, in the shapes of the results."""
    arrays = [call.widened(operand).view() for operand in call.operands]
    for array in arrays:
        array.flags.writeable = False
    try:
        found = meaning.value(call.attributes["implementation_attrs"], *arrays)
        results = tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))
        shapes, expected = [one.shape for one in results], [one.shape for one in call.results]
        if shapes != expected:
            raise ValueError(f"its results have the shapes {shapes}, the program says {expected}")
    except Exception as error:
        code = getattr(meaning.value, "__code__", None)
        rows = traceback.extract_tb(error.__traceback__)
        lines = [row.lineno for row in rows if code and row.filename == code.co_filename]
        place = f" ({code.co_filename}:{lines[-1]})" if code and lines else ""
        message = f"{meaning.name} of {meaning.domain}: {type(error).__name__}: {error}{place}"
        raise fail("refmodel-failed", where, message, "its value= computes it") from error
    return results


def _refuse_overflow(call: Call, found: Any) -> None:
    """Refuse sums, differences and quotients that their integer type does not hold."""
    if call.spec.traits.overflow != "refused" or not call.is_integer:
        return
    if call.spec.name == "MUL" and call.number("shift") == 0:
        return  # Products of INT32 wrap around, and so do sums of products.
    if call.raw(call.spec.operands[0].name).dtype.itemsize == 8 and call.spec.name != "MUL":
        operands = tuple(operand.astype(np.float64) for operand in call.operands)
        wide = OPERATIONS[call.spec.name](replace(call, operands=operands, precision="wide"))
        wrong = np.abs(wide - found) > _WRAPPED
    else:
        low, high = integer_limits(call.result.dtype)
        wrong = (found < low) | (found > high)
    refuse_undefined(call, wrong, f"it does not fit {call.result.dtype}")


def _refuse_zero_points(call: Call) -> None:
    """Refuse a zero point of a type that has none; rules see those of constants alone."""
    for row in call.spec.operands:
        if not row.name.endswith("_zp") or not call.has(row.name):
            continue
        element, point = call.type_of(row.name).dtype, call.raw(row.name)
        if element is INT8:
            continue
        wrong = point != 0
        if element is INT16 and call.attributes.get(row.name.removesuffix("zp") + "unsigned"):
            wrong &= point != MIDDLE_OF_UINT16
        refuse_undefined(call, wrong, f"a zero point of {element}")


def _refusing_overflow(function: Operation) -> Operation:
    """Return an operation that refuses what does not fit; see `_refuse_overflow`."""

    def compute(call: Call) -> Any:
        found = function(call)
        _refuse_overflow(call, found)
        return found

    return compute


def operation_of(call: Call) -> Operation:
    """Return what computes an operator in its own precision; it refuses what TOSA leaves undefined."""
    return _refusing_overflow(OPERATIONS[call.spec.name])


def _is_inexact(call: Call) -> bool:
    element = call.result.dtype
    return element is not None and element.is_float


def _is_true(value: Value) -> bool:
    return bool(plain(value).reshape(-1)[0])


@contextmanager
def _errors_at(where: str, block: Block, operator: Operator) -> Iterator[None]:
    """Let errors of a definition, which knows its operator alone, name the operator's path."""
    try:
        yield
    except TosaConvertError as error:
        name, findings = operator.spec.name, error.findings
        if error.code == "refmodel-refused" and _is_of_constants(block, operator):
            findings = tuple(
                Finding(row.code, row.where, f"{row.message}; the operands are constants")
                for row in findings
            )
        raise TosaConvertError(
            [
                Finding(row.code, where if row.where == name else row.where, row.message, row.hint)
                for row in findings
            ]
        ) from None


def _is_of_constants(block: Block, operator: Operator) -> bool:
    """Return whether nothing that an operator computes depends on inputs or variables."""
    makers = {name: op for op in block.operators for name in op.outputs}
    pending, seen = list(operator.inputs), set(operator.inputs)
    while pending:
        maker = makers.get(pending.pop())
        if maker is None or maker.spec in (VARIABLE, VARIABLE_READ):
            return False
        pending += (name for name in maker.inputs if name not in seen)
        seen.update(maker.inputs)
    return True


def _type_of(block: Block, name: str) -> Type:
    tensor = block.tensors.get(name)
    if tensor is None:
        return Type(None, (block.shapes[name].rank,))
    if tensor.shape is None or min(tensor.shape, default=0) < 0:
        raise fail("unsupported-shape", f'tensor "{name}"', "its shape is not static")
    return Type(tensor.dtype, tensor.shape)


def definition(kind: str) -> str:
    """Return what an operator computes, in words; "" of one that computes nothing.

    Example:
        >>> definition("ABS")
        'Return the absolute value. That of the least integer is not defined.'
    """
    return inspect.getdoc(OPERATIONS[kind]) or "" if kind in OPERATIONS else ""
