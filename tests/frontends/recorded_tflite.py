"""What TFLite's reference kernels give, recorded once, for tests that run without LiteRT.

With LiteRT installed, `RECORD_TFLITE=1 python -m pytest -n 0 -m "slow or not slow" FILE` records what is
missing.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from frontends.tflite_models import OperatorRow
from frontends.tflite_operators.programs import Program
from frontends.tflite_operators.values import Array

import tosa_convert as tc
from tosa_convert.frontends.tflite.program import lower_model
from tosa_convert.frontends.tflite.read import read_tflite

RECORD: Final = Path(__file__).with_name("tflite_results.npz")


def expected(
    model: bytes, inputs: Sequence[Array], folder: Path, states: Sequence[str] = ()
) -> list[Array]:
    """Return the results of a model on some inputs, in the model's order.

    Further inputs are those of later calls. folder: where LiteRT finds the model, if it is recorded now.
    states: variables whose numbers after a call follow its results.
    """
    parts = [model, *(part for one in inputs for part in (str(one.dtype).encode(), one.tobytes()))]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    known = _known()
    if key not in known:
        if not os.environ.get("RECORD_TFLITE"):
            pytest.fail(f"{RECORD.name} has no results of this model: see {Path(__file__).name}")
        known[key] = _packed(computed(model, inputs, folder, states))
        np.savez_compressed(RECORD, **known)
    return _unpacked(known[key])


def computed(
    model: bytes, inputs: Sequence[Array], folder: Path, states: Sequence[str] = ()
) -> list[Array]:
    """Return what LiteRT's reference kernels compute now."""
    from tosa_convert.golden.backends import worker

    path = folder / "recorded.tflite"
    path.write_bytes(model)
    machine = worker._tflite_interpreter(
        importlib.import_module("ai_edge_litert.interpreter"), str(path)
    )
    machine.allocate_tensors()
    rows = machine.get_input_details()
    numbers = {row["name"]: row["index"] for row in machine.get_tensor_details()}
    found = []
    for start in range(0, max(1, len(inputs)), max(1, len(rows))):
        for row, array in zip(rows, inputs[start:], strict=False):
            machine.set_tensor(row["index"], array)
        machine.invoke()
        places = [row["index"] for row in machine.get_output_details()]
        found += [machine.get_tensor(at) for at in (*places, *(numbers[one] for one in states))]
    return found


def _packed(arrays: Sequence[Array]) -> Array:
    """Return arrays as bytes: types and shapes, and elements by type, of which files are small."""
    rows = json.dumps([[str(one.dtype), one.shape] for one in arrays]).encode()
    order = sorted(arrays, key=lambda one: str(one.dtype))
    return np.frombuffer(b"\0".join([rows, b"".join(one.tobytes() for one in order)]), np.uint8)


def _unpacked(packed: Array) -> list[Array]:
    text, _, data = packed.tobytes().partition(b"\0")
    rows = [(np.dtype(dtype), tuple(shape)) for dtype, shape in json.loads(text)]
    found: list[Array] = [np.empty(0)] * len(rows)
    start = 0
    for at in sorted(range(len(rows)), key=lambda at: str(rows[at][0])):
        dtype, shape = rows[at]
        count = math.prod(shape)
        found[at] = np.frombuffer(data, dtype, count, start).reshape(shape)
        start += count * dtype.itemsize
    return found


def in_process(data: bytes) -> tc.Graph:
    """Return the program of a model without a process of its own."""
    found = lower_model(read_tflite(data), "m.tflite", {})
    assert found.graph is not None, found.problems
    return found.graph


def check(
    program: Program, folder: Path, rtol: float = 0.0, narrow: str = "", others: float = 0.0
) -> None:
    """Convert a program, run it on its inputs, and compare each result.

    others: the share of the integers of a result that may be the next one.
    """
    path = folder / "m.tflite"
    data = program.data()
    path.write_bytes(data)
    arrays = list(program.arrays.values())
    results = expected(data, arrays, folder)
    graph = tc.frontends.from_tflite(path, narrow=narrow) if narrow else in_process(data)
    signed = [
        one.astype(np.int32)
        if narrow and one.dtype == np.int64
        else one.view(f"i{one.itemsize}")
        if one.dtype.kind == "u"
        else one
        for one in arrays
    ]
    inputs = dict(zip(graph.main.inputs, signed, strict=True))
    found = tc.run(graph, inputs, engine="numpy").outputs.values()
    wrong = []
    makers = {number: row for row in program.rows for number in row.outputs}
    for number, ours, theirs in zip(program.outputs, found, results, strict=True):
        row = makers[number]
        if ours.dtype != theirs.dtype:
            same_size = ours.itemsize == theirs.itemsize
            ours = ours.view(theirs.dtype) if same_size else ours.astype(theirs.dtype)
        kind = {"rtol": rtol, "atol": rtol / 10} if ours.dtype.kind == "f" else {"rtol": 0}
        if row.operator == "ATAN2":  # The converter's table is that exact.
            kind = {"rtol": 0, "atol": 4e-5}
        if ours.dtype.kind in "iu" and others:
            steps = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
            if steps.max(initial=0) <= 1 and steps.mean() <= others:
                continue
        if not np.allclose(ours, theirs, equal_nan=ours.dtype.kind == "f", **kind):
            types = "/".join(program.tensors[one].dtype for one in (*row.inputs, number))
            at = ours != theirs
            wrong.append(f"{row.operator} {types} {dict(row.options)}: {ours[at]} for {theirs[at]}")
    assert not wrong, "\n".join(wrong)


def merged(programs: Sequence[Program]) -> Program:
    """Return one program of several: a model of many operators is converted in one go."""
    whole = Program("merged", programs[0].operator)
    for at, program in enumerate(programs):
        first = len(whole.tensors)

        def moved(numbers: Sequence[int], by: int = first) -> tuple[int, ...]:
            return tuple(one + by if one >= 0 else one for one in numbers)

        whole.tensors += [replace(one, name=f"{at}_{one.name}") for one in program.tensors]
        for row in program.rows:
            kept = OperatorRow(row.operator, moved(row.inputs), moved(row.outputs), row.options)
            inside = moved(row.intermediates)
            whole.rows.append(replace(kept, version=row.version, intermediates=inside))
        whole.inputs += moved(program.inputs)
        whole.outputs += moved(program.outputs)
        whole.arrays |= {f"{at}_{name}": array for name, array in program.arrays.items()}
    return whole


@cache
def _known() -> dict[str, Array]:
    if not RECORD.exists():
        return {}
    with np.load(RECORD) as file:
        return dict(file)
