"""Operators of TFLite: cumulative sums, largest elements, CONV_3D_TRANSPOSE."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, lowered
from frontends.tflite_models import OperatorRow, TensorRow, model

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.io.flatbuffer_tables import FlatbufferError, root_table

pytestmark = NEEDS_TFLITE


def integers(*values: int) -> Any:
    return np.array(values, np.int32)


def numbers(shape: Sequence[int], dtype: str = "float32") -> Any:
    """Few different numbers, so that some are equal."""
    return np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)


def cumulative_sum(x: Any, axis: int, *, exclusive: bool, reverse: bool) -> Any:
    if reverse:
        turned = cumulative_sum(np.flip(x, axis), axis, exclusive=exclusive, reverse=False)
        return np.flip(turned, axis)
    total = np.cumsum(x, axis, dtype=x.dtype)
    return total - x if exclusive else total


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 7), 1), ((2, 3, 4, 5), -3), ((4, 1), 1)])
def test_cumulative_sums(tmp_path: Path, dtype: str, shape: tuple[int, ...], axis: int) -> None:
    rows = [TensorRow("x", dtype, shape), TensorRow("axis", "int32", (), integers(axis)[0])]
    operators: list[OperatorRow] = []
    options: list[dict[str, bool]] = []
    for exclusive, reverse in itertools.product((False, True), repeat=2):
        rows.append(TensorRow(f"y{len(operators)}", dtype, shape))
        options.append({"exclusive": exclusive, "reverse": reverse})
        operators.append(OperatorRow("CUMSUM", (0, 1), (len(rows) - 1,), options[-1]))
    graph = lowered(tmp_path, rows, operators, [0], [2, 3, 4, 5])
    assert graph.main.outputs == ["y0", "y1", "y2", "y3"]
    x = numbers(shape, dtype)
    found = tc.run(graph, {"x": x}).outputs
    for name, given in zip(found, options, strict=True):
        np.testing.assert_array_equal(found[name], cumulative_sum(x, axis, **given))


def test_an_infinity_reaches_later_sums_only(tmp_path: Path) -> None:
    rows = [TensorRow("x", "float32", (5,)), TensorRow("axis", "int32", (), integers(0)[0])]
    rows.append(TensorRow("y", "float32", (5,)))
    graph = lowered(tmp_path, rows, [OperatorRow("CUMSUM", (0, 1), (2,))], [0], [2])
    x = np.array([1, 2, np.inf, 3, 4], np.float32)
    np.testing.assert_array_equal(tc.run(graph, {"x": x}).outputs["y"], np.cumsum(x))
    assert {one.location for one in graph.main.operators if one.spec.name == "ADD"} == {
        'loc("y"("m.tflite":0:0))'
    }


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int32", "int16", "int8"])
@pytest.mark.parametrize(("shape", "count"), [((9,), 3), ((2, 3, 6), 6), ((4, 5), 1)])
def test_the_largest_elements_and_where_they_are(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], count: int
) -> None:
    made = (*shape[:-1], count)
    rows = [
        TensorRow("x", dtype, shape),
        TensorRow("k", "int32", (), integers(count)[0]),
        TensorRow("values", dtype, made),
        TensorRow("indices", "int32", made),
    ]
    graph = lowered(tmp_path, rows, [OperatorRow("TOPK_V2", (0, 1), (2, 3))], [0], [2, 3])
    x = numbers(shape, dtype)
    order = np.argsort(-x.astype(np.int32), axis=-1, kind="stable")[..., :count]
    found = tc.run(graph, {"x": x}).outputs
    np.testing.assert_array_equal(found["indices"], order)
    np.testing.assert_array_equal(found["values"], np.take_along_axis(x, order, -1))


def transposed_convolution(
    x: Any, weights: Any, sizes: Sequence[int], strides: Sequence[int], before: Sequence[int]
) -> Any:
    """Return each element of x adds the kernel to the result, from its place times the stride."""
    result = np.zeros(sizes, np.float64)
    for at in np.ndindex(*x.shape[:4]):
        for part in np.ndindex(*weights.shape[:3]):
            to = [at[k + 1] * strides[k] + part[k] - before[k] for k in range(3)]
            if all(0 <= to[k] < sizes[k + 1] for k in range(3)):
                result[at[0], to[0], to[1], to[2]] += weights[part] @ x[at]
    return result


@pytest.mark.parametrize(
    ("padding", "strides", "sizes", "before", "activation"),
    [
        (1, (1, 1, 1), (2, 4, 5, 6, 3), (0, 0, 0), 3),
        (1, (2, 1, 3), (2, 6, 5, 12, 3), (0, 0, 0), 0),
        (0, (2, 2, 1), (2, 6, 8, 4, 3), (0, 0, 1), 3),
        (0, (3, 2, 2), (2, 8, 7, 7, 3), (0, 0, 1), 0),
        (0, (1, 1, 1), (2, 3, 1, 4, 3), (0, 2, 1), 0),
    ],
)
def test_transposed_convolutions_of_three_axes(
    tmp_path: Path,
    padding: int,
    strides: tuple[int, ...],
    sizes: tuple[int, ...],
    before: tuple[int, ...],
    activation: int,
) -> None:
    weights, bias = numbers((2, 2, 3, 3, 2)), numbers((3,))
    shape = (2, 3, 4, 4, 2)
    rows = [
        TensorRow("sizes", "int32", (5,), integers(*sizes)),
        TensorRow("w", "float32", weights.shape, weights),
        TensorRow("x", "float32", shape),
        TensorRow("b", "float32", bias.shape, bias),
        TensorRow("y", "float32", sizes),
    ]
    fields = ("stride_d", "stride_h", "stride_w")
    options = dict(zip(fields, strides, strict=True), padding=padding, activation=activation)
    options.update(dict.fromkeys(("dilation_d", "dilation_w", "dilation_h"), 1))
    operator = OperatorRow("CONV_3D_TRANSPOSE", (0, 1, 2, 3), (4,), options)
    graph = lowered(tmp_path, rows, [operator], [2], [4])
    x = numbers(shape)
    expected = transposed_convolution(x, weights, sizes, strides, before) + bias
    if activation:
        expected = np.clip(expected, 0, 6)
    found = tc.run(graph, {"x": x}).outputs["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_operators_that_follow_one_another_are_put_in_order(tmp_path: Path) -> None:
    """The model returns its input and what is made twice; sums of sums come between others."""
    rows = [
        TensorRow("x", "float32", (2, 6)),
        TensorRow("axis", "int32", (), integers(1)[0]),
        *(TensorRow(name, "float32", (2, 6)) for name in ("a", "b", "c", "d")),
    ]
    operators = [
        OperatorRow("CUMSUM", (0, 1), (2,)),
        OperatorRow("MUL", (2, 0), (3,)),
        OperatorRow("CUMSUM", (3, 1), (4,)),
        OperatorRow("CUMSUM", (4, 1), (5,)),
    ]
    graph = lowered(tmp_path, rows, operators, [0], [5, 0, 2, 5])
    assert graph.main.outputs == ["d", "x_1", "a", "d_1"]
    x = numbers((2, 6))
    first = np.cumsum(x, 1)
    last = np.cumsum(np.cumsum(first * x, 1), 1)
    found = tc.run(graph, {"x": x}).outputs.values()
    for want, got in zip((last, x, first, last), found, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", ["size", "type"])
def test_sums_of_open_sizes_and_of_64_bits(tmp_path: Path, case: str) -> None:
    shape = (-1, 3) if case == "size" else (2, 3)
    dtype = "int64" if case == "type" else "float32"
    rows = [TensorRow("x", dtype, shape), TensorRow("axis", "int32", (), integers(1)[0])]
    rows.append(TensorRow("y", dtype, shape))
    graph = lowered(tmp_path, rows, [OperatorRow("CUMSUM", (0, 1), (2,))], [0], [2])
    assert graph.main.tensors["y"].shape == shape


def test_an_axis_that_is_computed_is_refused(tmp_path: Path) -> None:
    rows = [TensorRow("x", "float32", (2, 3)), TensorRow("axis", "int32", ())]
    rows.append(TensorRow("y", "float32", (2, 3)))
    with pytest.raises(tc.TosaConvertError, match="CUMSUM has no lowering to TOSA: operand 1 is"):
        lowered(tmp_path, rows, [OperatorRow("CUMSUM", (0, 1), (2,))], [0, 1], [2])


def test_operators_stay_when_others_are_cut_out(tmp_path: Path) -> None:
    rows = [
        TensorRow("x", "float32", (2, 6)),
        TensorRow("axis", "int32", (), integers(1)[0]),
        TensorRow("a", "float32", (2, 6)),
        TensorRow("b", "float32", (2, 6)),
        TensorRow("c", "float32", (2, 6)),
    ]
    operators = [
        OperatorRow("CUMSUM", (0, 1), (2,)),
        OperatorRow("ADD", (2, 2), (3,), {"activation": 4}),
        OperatorRow("CUMSUM", (3, 1), (4,)),
    ]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(rows, operators, [0], [4]))
    assert run(verb("convert"), [str(path), "-o", str(tmp_path / "m.tosa"), "--partial"]) == 0
    first, second = tc.load(tmp_path / "m.0.tosa"), tc.load(tmp_path / "m.1.tosa")
    x = numbers((2, 6))
    (a,) = tc.run(first, {"x": x}).outputs.values()
    np.testing.assert_array_equal(a, np.cumsum(x, 1))
    (c,) = tc.run(second, {second.main.inputs[0]: x}).outputs.values()
    np.testing.assert_array_equal(c, np.cumsum(x, 1))


def test_an_operator_that_takes_its_own_result_is_named(tmp_path: Path) -> None:
    rows = [TensorRow(name, "float32", (4,)) for name in ("x", "y", "z")]
    rows.append(TensorRow("axis", "int32", (), integers(0)[0]))
    operators = [OperatorRow("ADD", (0, 2), (1,)), OperatorRow("CUMSUM", (1, 3), (2,))]
    with pytest.raises(
        tc.TosaConvertError, match=r'ADD takes "z", which is made after it'
    ) as caught:
        lowered(tmp_path, rows, operators, [0], [2])
    assert caught.value.code == "unrecognised-input"


def test_a_field_outside_of_the_file_is_damage_whenever_it_is_read() -> None:
    vtable = struct.pack("<3H", 6, 8, 60000)
    table = root_table(struct.pack("<I", 12) + vtable + bytes(2) + struct.pack("<ii", 8, 0))
    for read in (lambda: table.number(0, "b"), lambda: table.real(0), lambda: table.text(0)):
        with pytest.raises(FlatbufferError, match="an offset leads out of it"):
            read()


def test_a_matrix_that_no_memory_holds_is_refused_by_name(tmp_path: Path) -> None:
    size = 1 << 26
    rows = [TensorRow("x", "float32", (size,)), TensorRow("y", "float32", (size, size))]
    with pytest.raises(tc.TosaConvertError, match="MATRIX_DIAG of") as caught:
        lowered(tmp_path, rows, [OperatorRow("MATRIX_DIAG", (0,), (1,))], [0], [1])
    assert caught.value.code == "unrecognised-input"
