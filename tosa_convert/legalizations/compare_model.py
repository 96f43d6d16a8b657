"""A model in its framework, and its program on the reference model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tosa_convert import log
from tosa_convert.errors import fail
from tosa_convert.frontends.table import frontend
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.accuracy.tolerances import NO_TOLERANCES
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import Slot, match
from tosa_convert.golden.backends.runners import open_backend
from tosa_convert.golden.checking.check import check_outputs
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.reference_model import RunOptions
from tosa_convert.graph.model import DYNAMIC, Graph
from tosa_convert.reading import with_shapes


def compare_model(
    graph: Graph,
    name: str,
    model: str,
    *,
    given: Mapping[str, Array],
    examples: Mapping[str, Array],
    seed: int | None,
    python: str,
    timeout: float,
) -> Comparison:
    """Compare a model's outputs in its framework with those of its program on the reference model.

    Args:
        graph: the program.
        name: the model's frontend.
        model: what the framework runs: a file, or `file.py:NAME`.
        given: arrays of inputs.
        examples: arrays of the other inputs, as far as there are any. Floating point whose elements are
            all equal says nothing, and is left out.
        seed: of random arrays for inputs that are not given; by default 0, after the examples.
        python: the Python that has the framework.
        timeout: seconds for one run of either.

    Returns:
        The comparison, as `check` makes it.

    Raises:
        TosaConvertError: "option-conflict" if the framework has no runtime here; what `check` raises.
    """
    runtime = frontend(name).runtime
    if not runtime:
        message = f"models for {name} cannot be run here"
        raise fail("option-conflict", "--check", message, "leave it out, and use the verb check")
    static = _static(graph, {**examples, **given})
    slots = input_slots(static)
    matched = match([slot for slot in slots if slot.key in given], given)
    for slot in slots:
        if seed is None and slot.key not in matched and slot.key in examples:
            array = as_slot(examples[slot.key], slot)
            if array.shape == slot.shape and _says_something(array):
                matched[slot.key] = array
    others = [slot for slot in slots if slot.key not in matched]
    inputs = {**matched, **random_inputs(static, others, seed or 0)}
    backend = open_backend(runtime, static, inputs, original=model, python=python, timeout=timeout)
    return check_outputs(static, inputs, backend, NO_TOLERANCES, RunOptions(timeout=timeout))


def as_slot(array: Array, slot: Slot) -> Array:
    """An array of a framework in the type that the program has for it.

    Unsigned integers keep their bits, 64-bit types are narrowed, and opaque bytes get their type.
    """
    target = np.dtype(slot.dtype.numpy)
    if array.dtype == target:
        return array
    same_size = array.dtype.itemsize == target.itemsize
    if same_size and (array.dtype.kind == "V" or (array.dtype.kind, target.kind) == ("u", "i")):
        return np.ascontiguousarray(array).view(target).reshape(array.shape)
    return array.astype(target)


def _says_something(array: Array) -> bool:
    if array.dtype.kind in "biu":
        return True
    numbers = array.astype(np.float32)
    return not array.size or bool((numbers != numbers.flat[0]).any())


def _static(graph: Graph, given: Mapping[str, Array]) -> Graph:
    """The graph with the sizes of the given arrays, and 1 for dynamic sizes of other inputs."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name in graph.main.inputs:
        shape = graph.main.tensors[name].shape
        if shape is None or DYNAMIC not in shape:
            continue
        if name in given:
            shapes[name] = given[name].shape
        else:
            shapes[name] = tuple(1 if size == DYNAMIC else size for size in shape)
            log.warning("checked with the shape %s of %s", list(shapes[name]), name)
    return with_shapes(graph, shapes) if shapes else graph
