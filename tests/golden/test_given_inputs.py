"""Inputs that a caller gives as numbers, packed or opaque; and random ones that an operator can take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from unit.building import graph as graph_of
from unit.building import tensor

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import coerce, load_npy, slots, unpacked
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import limits_of_inputs, random_inputs
from tosa_convert.graph import Graph


def program(dtype: DTypeName, *shape: int) -> Graph:
    b = Builder("net")
    b.output(b.identity(b.input("x", dtype, shape)), name="y")
    return b.graph()


def given(dtype: DTypeName, array: Any, *shape: int) -> Any:
    (slot,) = input_slots(program(dtype, *(shape or np.shape(array))))
    return coerce(slot, array)


@pytest.mark.parametrize(
    ("dtype", "array", "expected"),
    [
        ("fp32", [1, 2.5], np.array([1, 2.5], np.float32)),
        ("fp32", [0.1, float("inf")], np.array([0.1, np.inf], np.float32)),
        ("int8", [1, -128], np.array([1, -128], np.int8)),
        ("int8", [1.0, 2.0], np.array([1, 2], np.int8)),
        ("bool", [True, False], np.array([True, False])),
        ("bf16", np.array([1.5, -2], ml_dtypes.bfloat16).view("V2"), None),
        ("fp8e4m3", np.array([0x38, 0x7E], np.uint8), None),
        ("int4", np.array([-7, 7], np.int8), np.array([-7, 7], ml_dtypes.int4)),
        ("int48", [2**47 - 1, -(2**47)], np.array([2**47 - 1, -(2**47)])),
    ],
)
def test_numbers_and_bytes_become_elements(dtype: DTypeName, array: Any, expected: Any) -> None:
    found = given(dtype, array)
    if expected is None:
        assert found.tobytes() == array.tobytes()
        assert found.dtype == tc.graph.dtype(dtype.upper()).numpy
    else:
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


@pytest.mark.parametrize(
    ("dtype", "array", "shape", "message"),
    [
        ("fp32", [[1, 2], [3]], (2, 2), "which is not an array"),
        ("int8", [1.5, 2], (2,), "which INT8 cannot hold"),
        ("int8", [300, 2], (2,), "which INT8 cannot hold"),
        ("int64", [2**70], (1,), "which INT64 cannot hold"),
        ("fp32", ["a"], (1,), "which FP32 cannot hold"),
        ("fp32", [1, 2, 3], (2,), r"found shape \[3\]"),
        ("fp32", np.zeros(2), (2,), "found float64"),
        ("int4", np.array([8], np.int8), (1,), "-7 to 7"),
        ("int48", [2**47], (1,), "48 bits"),
    ],
)
def test_what_an_input_cannot_hold_is_refused(
    dtype: DTypeName, array: Any, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(TosaConvertError, match=message) as caught:
        given(dtype, array, *shape)
    assert caught.value.code == "input-mismatch"


def test_a_name_that_the_block_does_not_have_has_no_slot() -> None:
    with pytest.raises(TosaConvertError, match='no tensor or shape "z"'):
        slots(program("fp32", 2).main, "z")


def test_elements_below_8_bits_are_unpacked_and_others_stay() -> None:
    (slot,) = input_slots(graph_of("x", "x", [tensor("x", "FP4E2M1", (3, 4))], []))
    packed = np.arange(6, dtype=np.uint8).reshape(3, 2)
    assert unpacked(slot, packed).shape == (3, 4)
    assert unpacked(slot, packed).view(np.uint8)[1].tolist() == [2, 0, 3, 0]
    for other in (packed.astype(np.int8), packed[:2]):
        assert unpacked(slot, other) is other


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    (slot,) = input_slots(program("fp32", 100))
    np.save(tmp_path / "x.npy", np.zeros(100, np.float32))
    assert load_npy(tmp_path / "x.npy", slot).shape == (100,)
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data[:-4])
    with pytest.raises(TosaConvertError, match="the file is incomplete") as caught:
        load_npy(tmp_path / "x.npy", slot)
    assert caught.value.code == "file-error"


def selected(b: Builder) -> Value:
    """Frameworks add the number of rows to indices below 0."""
    index = b.input("index", "int32", (1, 3))
    return b.select(b.greater(0, index), b.add(index, 5), index)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b: b.input("index", "int32", (1, 3)), {"index": (0, 4)}),
        (selected, {"index": (0, 4)}),
        (
            lambda b: b.concat(
                [b.input("a", "int32", (1, 2)), b.input("b", "int32", (1, 1))], axis=1
            ),
            {"a": (0, 4), "b": (0, 4)},
        ),
        (lambda b: b.cast(b.input("small", "int8", (1, 3)), dtype="int32"), {"small": (0, 4)}),
        (lambda b: b.mul(b.input("x", "int32", (1, 3)), 2), {"x": (0, 2)}),
        (lambda b: b.maximum(b.input("x", "int32", (1, 3)), 2), {}),
    ],
)
def test_inputs_that_are_moved_to_indices_are_rows(
    build: Callable[[Builder], Value], expected: dict[str, tuple[float, float]]
) -> None:
    b = Builder("net")
    b.output(b.gather(b.input("values", "fp32", (1, 5, 2)), build(b)), name="y")
    graph = b.graph()
    assert limits_of_inputs(graph.main) == expected
    arrays = random_inputs(graph, input_slots(graph), 1)
    for name, (low, high) in expected.items():
        assert low <= arrays[name].min() <= arrays[name].max() <= high


def test_random_indices_that_a_program_computes_are_in_range() -> None:
    """Compute indices as frameworks do: wrap those below 0, and count elements of rows."""
    b = Builder()
    tokens, others = b.input("tokens", "int32", (1, 50)), b.input("others", "int32", (1, 50))
    from_end = b.add(tokens, b.const(np.array([[7]], np.int32)))
    index = b.select(b.greater(b.const(np.array([[0]], np.int32)), tokens), from_end, tokens)
    index = b.reshape(b.concat([index, others], axis=1), (1, 100, 1))
    index = b.mul(b.const(np.array([[[4]]], np.int32)), index)
    index = b.sub(
        b.add(index, b.const(np.array([[[1, 2, 3, 4]]], np.int32))), np.array([[[1]]], np.int32)
    )
    values = b.const(np.arange(28, dtype=np.float32).reshape(1, 28, 1))
    b.output(b.gather(values, b.reshape(index, (1, 400))))
    graph = b.graph()
    for name, array in random_inputs(graph, input_slots(graph), 1).items():
        assert (array.min(), array.max()) == (0, 6), name
