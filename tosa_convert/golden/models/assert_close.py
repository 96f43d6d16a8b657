"""Assert, in a user's own tests, that arrays are as near to a model's results as arithmetic allows."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from tosa_convert.errors import fail, printable
from tosa_convert.formats.read import with_shapes
from tosa_convert.frontends.public import from_file, from_jax, from_keras, from_onnx, from_torch
from tosa_convert.frontends.table import recognize
from tosa_convert.golden.accuracy.comparison import Comparison, TensorComparison
from tosa_convert.golden.accuracy.criteria import (
    ELEMENT_MULTIPLE,
    NO_TOLERANCES,
    Criterion,
    Spread,
    Tolerances,
)
from tosa_convert.golden.arrays import Array, Arrays, Slot, match, narrowed, scratch_folder
from tosa_convert.golden.checking.check import Reference
from tosa_convert.golden.running.programs import as_graph, input_slots, output_slots
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, RunOptions
from tosa_convert.graph.model import DYNAMIC, UNKNOWN_LOCATION, Graph, counted
from tosa_convert.io.options import narrow_types
from tosa_convert.process.child import temporary_folder

#: The module and the name of a class -> the framework whose models it is the class of.
_CLASSES: Final = {
    ("torch", "Module"): "torch",
    ("torch", "ExportedProgram"): "torch",
    ("keras", "Model"): "keras",
    ("onnx", "ModelProto"): "onnx",
    ("flax", "Module"): "jax",
}
_SHOWN: Final = 5


class Bound(NamedTuple):
    """What one output of a model may be.

    expected: what the reference computes; in FP64 where a rule or a measurement decides.
    error: how far each element may be from `expected`; 0 where only equal elements are right. Infinite
        where any number is right.
    rule: the source of the bound.
    """

    expected: Array
    error: Array
    rule: str


def assert_close(
    found: Any,
    model: Any,
    inputs: Any,
    *,
    tolerances: Tolerances = NO_TOLERANCES,
    strict: bool = False,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    **options: Any,
) -> None:
    """Assert that arrays are what a model computes, without a tolerance.

    The bound of each element is TOSA's rule for the operator, or the error that was measured of
    ordinary implementations of the whole model: other orders of sums, other roundings. Integers and what
    is exact have to be equal. Rows, channels and each whole tensor are judged as well.

    Args:
        found: an array, a sequence of arrays in the order of the model's outputs, or arrays by name.
            Anything that `numpy.asarray` takes, and tensors of torch.
        model: a TOSA program, as `golden.run` takes it; the path of a model that a frontend takes; a
            module of torch, an exported program, an ONNX ModelProto, a Keras model or a function of JAX.
        inputs: an array for each input: by name, or a sequence in the order of the model's.
        tolerances: for tensors by name, instead of the rules.
        strict: a bound of more than a hundredth of a tensor's values is a failure.
        timeout: seconds for one run of the program.
        engine: what computes the reference; see `RunOptions`.
        options: keywords of the frontend or of `tosa_convert.load`, such as `narrow="i64"`.

    Raises:
        AssertionError: an array is wrong, or missing. The message names the tensor, its worst element,
            what was allowed there, and why.
        TosaConvertError: as `golden.check` and `frontends.from_file`; `input-mismatch` for arrays
            that the model does not have.

    Warns:
        UserWarning: they agree only because the bound is more than a tenth of the values.

    Example:
        >>> import numpy as np
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> x = golden.input_arrays(graph, None, 1)
        >>> golden.assert_close(golden.run(graph, x).outputs, graph, x)
    """
    __tracebackhide__ = True  # pytest shows the line of the user's test alone
    run = RunOptions(timeout=timeout, engine=engine)
    graph, arrays = _program(model, inputs, options)
    slots = output_slots(graph)
    actual = _in_types(_named(found, [slot.key for slot in slots], "output"), slots)
    tolerances = replace(tolerances, strict=tolerances.strict or strict)
    reference = Reference(graph, arrays, run, tolerances)
    result = reference.judge(actual)
    if not result.ok:
        raise AssertionError(_message(result, _bounds(reference), _name_of(model)))
    if result.weak:
        warnings.warn(result.low_precision, stacklevel=2)


def tolerance(
    model: Any,
    inputs: Any,
    *,
    tolerances: Tolerances = NO_TOLERANCES,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    **options: Any,
) -> dict[str, Bound]:
    """Return how far each element of a model's outputs may be from what is expected.

    It is what `assert_close` allows an element; that also judges rows, channels and whole tensors, whose
    errors partly cancel.

    Args:
        model: as in `assert_close`, like the others.
        inputs: an array for each input.
        tolerances: for tensors by name, instead of the rules.
        timeout: seconds for one run of the program.
        engine: what computes the reference.
        options: keywords of the frontend or of `tosa_convert.load`.

    Returns:
        For each output the expected array, and the error that each element may have, of its shape.

    Raises:
        TosaConvertError: as `assert_close`.

    Example:
        >>> import numpy as np
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> x = golden.input_arrays(graph, None, 1)
        >>> found = golden.run(graph, x).outputs
        >>> for name, bound in golden.tolerance(graph, x).items():
        ...     assert (np.abs(found[name] - bound.expected) <= bound.error).all()
    """
    run = RunOptions(timeout=timeout, engine=engine)
    graph, arrays = _program(model, inputs, options)
    return _bounds(Reference(graph, arrays, run, tolerances))


# -- The bound of each element ---------------------------------------------------------------------


def _bounds(reference: Reference) -> dict[str, Bound]:
    golden = reference.outputs
    reference.tolerances.refuse_unmatched(golden)
    outputs = {slot.key: golden[slot.key] for slot in output_slots(reference.graph)}
    with scratch_folder() as folder:
        criteria, _ = reference.criteria(outputs, folder)
        return {key: _bound(criterion, outputs[key]) for key, criterion in criteria.items()}


def _bound(criterion: Criterion, golden: Array) -> Bound:
    """Return the bound of each element; what the reference computes is within it."""
    check, network = criterion.check, criterion.network
    spread = None if network is None else network.spread
    if check is None and spread is None:
        size = np.abs(golden.astype(np.float64))
        error = criterion.atol + criterion.rtol * np.where(np.isfinite(size), size, 0.0)
        least = np.where(size < criterion.least, size, 0.0)
        return Bound(golden, np.maximum(error, least), criterion.label)
    if spread is not None and spread.sigma is None:
        return Bound(spread.exact, _discrete_error(spread), criterion.label)
    exact, error = golden.astype(np.float64), np.full(golden.shape, np.inf)
    if spread is not None and spread.sigma is not None:
        exact, error = spread.exact, ELEMENT_MULTIPLE * spread.sigma
    if check is not None and check.exact is not None:
        exact = check.exact.astype(np.float64)
        error = np.minimum(error, check.rule.limits(exact, check.bounds, check.dtype)[2])
        if check.is_exact is not None:
            error = np.where(check.is_exact, 0.0, error)
    with np.errstate(invalid="ignore"):
        own = np.abs(golden.astype(np.float64) - exact)
    return Bound(exact, np.maximum(error, np.where(np.isnan(own), 0.0, own)), criterion.label)


def _discrete_error(spread: Spread) -> Array:
    """Return how far integers, BOOL and indices may be from those that FP64 leads to."""
    exact = spread.exact.astype(np.float64)
    if spread.possible is not None:
        distance = np.abs(np.arange(spread.possible.shape[-1]) - exact[..., np.newaxis])
        return np.asarray(np.where(spread.possible, distance, 0.0).max(axis=-1))
    assert spread.low is not None
    assert spread.high is not None
    low, high = spread.low.astype(np.float64), spread.high.astype(np.float64)
    return np.maximum(exact - low, high - exact)


# -- What failed -----------------------------------------------------------------------------------


def _message(result: Comparison, bounds: Mapping[str, Bound], name: str) -> str:
    failures = result.failures
    count = len(failures) + len(result.missing)
    all_outputs = counted(len(result.tensors) + len(result.missing), "output")
    verb = "is" if count == 1 else "are"
    lines = [f"{count} of {all_outputs} of {name} {verb} wrong:"]
    for row in failures[:_SHOWN]:
        lines += _lines_of(row, bounds.get(row.name))
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    lines += [f"  {printable(key)}: no array was given" for key in result.missing]
    lines += [f"  note: {note}" for note in result.notes]
    if not result.tensors:
        lines.append("  nothing was compared")
    return "\n".join(lines)


def _lines_of(row: TensorComparison, bound: Bound | None) -> list[str]:
    head = f"  {printable(row.name)} {row.dtype}{list(row.shape)}: "
    if row.problem:
        return [head + row.problem]
    counts = f"{row.failing} of {counted(row.elements, 'element')} too far off"
    if not row.failing:
        counts = "each element within its bound, and a row, a channel or the whole too far off"
    lines = [head + counts]
    if row.worst is not None and bound is not None:
        expected, error = bound.expected[row.worst], float(bound.error[row.worst])
        off = abs(float(row.found or 0) - float(expected))
        allowed = f"allowed {error:.3g}" if error else "no other value"
        lines.append(
            f"    at {list(row.worst)}: found {row.found}, expected {expected}; {off:.3g} off, "
            f"{allowed} [{bound.rule}]"
        )
    if row.operator:
        place = "" if row.location == UNKNOWN_LOCATION else f" {printable(row.location)}"
        lines.append(f"    computed by {row.operator}{place}")
    lines.append(f"    atol={row.needed_atol:.3g} would hide it")
    return lines + [f"    note: {row.note}"] * bool(row.note)


# -- Models and arrays, however a user has them ----------------------------------------------------


def _program(model: Any, inputs: Any, options: Mapping[str, Any]) -> tuple[Graph, dict[str, Array]]:
    """Return a model as a program of static shapes, and its inputs by name."""
    graph = _lowered(model, inputs, options)
    given = _named(inputs, graph.main.inputs, "input")
    shapes = {
        name: given[name].shape
        for name in graph.main.inputs
        if name in given and DYNAMIC in (graph.main.tensors[name].shape or (DYNAMIC,))
    }
    if shapes:
        graph = with_shapes(graph, shapes)
    slots, narrow = input_slots(graph), "f64" in narrow_types(options.get("narrow", ()))
    return graph, match(slots, _in_types(given, slots, rounds=narrow))


def _lowered(model: Any, inputs: Any, options: Mapping[str, Any]) -> Graph:
    framework = _framework_of(model)
    if framework in ("torch", "jax"):
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
        lower = from_torch if framework == "torch" else from_jax
        return lower(model, args, kwargs, **options)
    if framework == "keras":
        return from_keras(model, **options)
    if framework == "onnx":
        with temporary_folder("tosa-model-") as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            return from_onnx(path, **options)
    if isinstance(model, (str, os.PathLike)) and recognize(os.fspath(model)) is not None:
        return from_file(model, **options)
    return as_graph(model, options=options)


def _framework_of(model: Any) -> str:
    """Return the framework that an object is a model of; "" for paths and programs."""
    for base in type(model).__mro__:
        key = base.__module__.partition(".")[0], base.__name__
        if key in _CLASSES:
            return _CLASSES[key]
    return "jax" if callable(model) and not isinstance(model, (type, Graph)) else ""


def _name_of(model: Any) -> str:
    if isinstance(model, (str, os.PathLike)):
        return printable(os.path.basename(os.fspath(model)))
    return printable(getattr(model, "__name__", "") or type(model).__name__)


def _named(given: Any, names: Iterable[str], role: str) -> dict[str, Array]:
    """Return arrays by name. given: by name, in the order of the names, or one."""
    if isinstance(given, Mapping):
        return {name: _array(value, f'{role} "{name}"') for name, value in given.items()}
    keys = list(names)
    values = given if isinstance(given, (list, tuple)) else [given]
    arrays = [_array(value, f"{role} #{index}") for index, value in enumerate(values)]
    if len(arrays) != len(keys):
        message = f"found {counted(len(arrays), 'array')}, expected {len(keys)}: {', '.join(keys)}"
        hint = "give them in this order, or by name"
        raise fail("input-mismatch", f"the {role}s", message, hint)
    return dict(zip(keys, arrays, strict=True))


def _array(value: Any, where: str) -> Array:
    """Return the array of a framework's tensor, or of anything that numpy takes."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        name = str(value.dtype).removeprefix("torch.")
        if name.startswith(("bfloat16", "float8_")):  # numpy has them by ml_dtypes alone
            torch = sys.modules["torch"]
            bits = torch.int16 if value.element_size() == 2 else torch.uint8
            return np.asarray(value.view(bits).numpy()).view(np.dtype(getattr(ml_dtypes, name)))
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty((), object)
    if array.dtype == object:
        message = f"found {type(value).__name__}, expected an array"
        raise fail("input-mismatch", where, message, "give a flat sequence, or arrays by name")
    return array


def _in_types(arrays: Arrays, slots: Iterable[Slot], *, rounds: bool = False) -> dict[str, Array]:
    """Return arrays of a model in the types that its program has. rounds: FP64 becomes FP32."""
    types = {slot.key: np.dtype(slot.dtype.numpy) for slot in slots}
    return {
        key: narrowed(array, types.get(key, array.dtype), rounds=rounds)
        for key, array in arrays.items()
    }
