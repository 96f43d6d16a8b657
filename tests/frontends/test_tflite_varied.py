"""Programs of one operator, of `tflite_operators/varied.py`, give what TFLite's reference kernels gave.

What these gave is recorded as digests. With LiteRT installed, `RECORD_TFLITE=1 python -m pytest -n 0`
and this file record all of them again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from frontends.recorded_tflite import computed
from frontends.tflite_operators import varied
from frontends.tflite_operators.programs import Program
from frontends.tflite_operators.values import Array, Quantized

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.tflite.program import lower_model
from tosa_convert.frontends.tflite.read import DamagedError, read_tflite
from tosa_convert.graph.model import Graph

RECORD: Final = Path(__file__).with_name("tflite_digests.npz")
#: What a row of the record begins with: TFLite does not run the program; it is not lowered; the digests
#: of its results follow.
LEFT_OUT, REFUSED, GIVEN = range(3)
#: How far the digests of floats may differ.
NEAR: Final = 1e-5


def digests(results: Sequence[Array]) -> list[int]:
    """Return two numbers of 32 bits for each result: its checksum, or means of its floats."""
    found: list[int] = []
    for array in results:
        if array.dtype.kind == "f":
            found += means(array).view(np.uint32).tolist()
        else:
            bits = array.astype(np.int64).tobytes() + str(array.shape).encode()
            found += [zlib.crc32(bits), array.size]
    return found


def means(array: Array) -> Array:
    """Return two weighted means of numbers, of which large ones count less; NaN is a large one."""
    held = np.nan_to_num(array.astype(np.float64).reshape(-1), nan=1e20, posinf=1e25, neginf=-1e25)
    places = np.arange(1, held.size + 1)
    weights = np.stack([1 + places * root % 1 for root in (2**0.5, 5**0.5)])
    size = len(str(array.shape)) / 1e3
    return np.asarray((weights * np.arcsinh(held)).mean(1) + size, np.float32)


def lowered(data: bytes) -> Graph | None:
    """Return what a model becomes; None if it is refused."""
    try:
        return lower_model(read_tflite(data), "m.tflite", {}).graph
    except (TosaConvertError, DamagedError):
        return None


def results(graph: Graph, program: Program) -> list[Array]:
    """Return what a program gives, in the types of TFLite."""
    arrays = [
        one.view(f"i{one.itemsize}") if one.dtype.kind == "u" else one
        for one in program.arrays.values()
    ]
    given = dict(zip(graph.main.inputs, arrays, strict=True))
    found = tc.run(graph, given, engine="numpy").outputs.values()
    return [
        one.view(dtype) if one.itemsize == np.dtype(dtype).itemsize else one.astype(dtype)
        for one, dtype in zip(
            map(np.asarray, found),
            (program.tensors[number].dtype for number in program.outputs),
            strict=True,
        )
    ]


def record(operator: str, folder: Path) -> Array:
    """Return a row for each program: how it ended, its checksum, and digests."""
    rows = []
    for program in varied.programs(operator):
        row, data = [LEFT_OUT], program.data()
        try:
            theirs = computed(data, list(program.arrays.values()), folder)
            row = [REFUSED] if lowered(data) is None else [GIVEN, *digests(theirs)]
        except (RuntimeError, ValueError):
            pass  # TFLite refuses it.
        rows.append([row[0], checksum(program, data), *row[1:]])
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows], np.uint32)


def checksum(program: Program, data: bytes) -> int:
    """Return a number by which a program and its inputs are recognised."""
    return zlib.crc32(b"\0".join([data, *(a.tobytes() for a in program.arrays.values())]))


@cache
def recorded() -> dict[str, Array]:
    with np.load(RECORD) as file:
        return dict(file)


def is_near(ours: Sequence[int], theirs: Array, results_of: Sequence[Array]) -> bool:
    """Return whether digests are equal, those of floats nearly."""
    for at, array in enumerate(results_of):
        own, other = np.array(ours[2 * at :][:2], np.uint32), theirs[2 * at :][:2]
        if array.dtype.kind != "f":
            if not np.array_equal(own, other):
                return False
        elif not np.allclose(own.view("f4"), other.view("f4"), rtol=NEAR, atol=NEAR):
            return False
    return len(ours) <= len(theirs)


@pytest.mark.parametrize("operator", varied.OPERATORS)
def test_programs_give_what_tflite_gave(operator: str, tmp_path: Path) -> None:
    if os.environ.get("RECORD_TFLITE"):
        known = dict(recorded()) if RECORD.exists() else {}
        known[operator] = record(operator, tmp_path)
        np.savez_compressed(RECORD, **known)
        recorded.cache_clear()
    rows, wrong = recorded()[operator], []
    for program, row in zip(varied.programs(operator), rows, strict=True):
        data = program.data()
        assert checksum(program, data) == row[1], f"{program.name} is another one: record it again"
        if row[0] == LEFT_OUT:
            continue
        graph = lowered(data)
        if graph is None or row[0] == REFUSED:
            is_right = graph is None and row[0] == REFUSED
        else:
            found = results(graph, program)
            is_right = is_near(digests(found), row[2:], found)
        if not is_right:
            types = "/".join(one.dtype for one in program.tensors)
            wrong.append(f"{program.name}: {types} {dict(program.rows[-1].options)}")
    assert not wrong, "\n".join(wrong)


_STRIDES: Final = {"stride_h": 1, "stride_w": 1}


@pytest.mark.parametrize(
    ("operator", "given", "shape", "axis", "options"),
    [
        ("FULLY_CONNECTED", (4, 5), (3, 5), 0, {}),
        ("CONV_2D", (1, 4, 5, 2), (3, 2, 2, 2), 0, _STRIDES),
        ("DEPTHWISE_CONV_2D", (1, 4, 5, 2), (1, 2, 2, 4), 3, _STRIDES),
        ("BATCH_MATMUL", (2, 4, 5), (2, 5, 3), 0, {}),
    ],
)
@pytest.mark.parametrize("is_each", [False, True])
def test_weights_of_integers_are_the_floats_that_they_stand_for(
    operator: str,
    given: tuple[int, ...],
    shape: tuple[int, ...],
    axis: int,
    options: dict[str, int],
    is_each: bool,
) -> None:
    """TFLite's own kernels quantise the inputs, too."""
    weights = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    count, zero = (shape[axis], 0) if is_each else (1, 3)
    scales = np.arange(1, count + 1, dtype=np.float32) / np.float32(64)
    along = [-1 if at == axis else 1 for at in range(len(shape))]
    floats = (weights - np.float32(zero)) * scales.reshape(along)
    found = []
    for kind in ("int8", "float32"):
        program = Program(operator, "hybrid")
        x = program.input("float32", given)
        held = Quantized(tuple(scales.tolist()), zero, axis) if kind == "int8" else None
        y = program.constant(weights if kind == "int8" else floats, kind, quantized=held)
        program.returns(program.apply(operator, [x, y], ("float32", (1,)), **options))
        graph = lowered(program.data())
        assert graph is not None
        found += results(graph, program)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_nearly_all_programs_are_recorded() -> None:
    ends = np.concatenate([rows[:, 0] for rows in recorded().values()])
    assert set(recorded()) == set(varied.OPERATORS)
    assert (ends == GIVEN).mean() > 0.98


def test_a_digest_is_of_every_element() -> None:
    array = np.linspace(-9, 9, 300, dtype=np.float32)
    theirs = np.array(digests([array]), np.uint32)
    assert is_near(digests([array * np.float32(1.000001)]), theirs, [array])
    for at in (0, 150, 299):
        changed = array.copy()
        changed[at] += 0.02
        assert not is_near(digests([changed]), theirs, [changed])
    assert not is_near(digests([array[None]]), theirs, [array[None]])
    whole = np.arange(3, dtype=np.int8)
    assert not is_near(digests([whole[::-1]]), np.array(digests([whole]), np.uint32), [whole])
