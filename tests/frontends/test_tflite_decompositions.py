"""Operators of TFLite in models of several, or that are not lowered."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, lowered, run_program
from frontends.tflite_models import OperatorRow, TensorRow, model
from frontends.tflite_operators.programs import Program
from frontends.tflite_operators.write import write

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.io.flatbuffer_tables import FlatbufferError, root_table

pytestmark = NEEDS_TFLITE


def integers(*values: int) -> Any:
    return np.array(values, np.int32)


def numbers(shape: Sequence[int], dtype: str = "float32") -> Any:
    """Few different numbers, so that some are equal."""
    return np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)


def test_an_infinity_reaches_later_sums_only(tmp_path: Path) -> None:
    rows = [TensorRow("x", "float32", (5,)), TensorRow("axis", "int32", (), integers(0)[0])]
    rows.append(TensorRow("y", "float32", (5,)))
    graph = lowered(tmp_path, rows, [OperatorRow("CUMSUM", (0, 1), (2,))], [0], [2])
    x = np.array([1, 2, np.inf, 3, 4], np.float32)
    np.testing.assert_array_equal(tc.run(graph, {"x": x}).outputs["y"], np.cumsum(x))
    assert {one.location for one in graph.main.operators if one.spec.name == "ADD"} == {
        'loc("y"("m.tflite":0:0))'
    }


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


def test_a_window_of_channels_has_its_last_one(tmp_path: Path) -> None:
    """LiteRT's reference kernel leaves it out, its other kernel does not."""
    program = Program("LOCAL_RESPONSE_NORMALIZATION", "numpy")
    x = program.input("float32", (1, 2, 3, 8))
    options = {"radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.75}
    found = run_program(tmp_path, program, [x], ("float32", (1, 2, 3, 8)), **options)
    x0 = program.arrays["x0"]
    sums = [(x0[..., max(0, at - 2) : at + 3] ** 2).sum(-1) for at in range(8)]
    np.testing.assert_allclose(found, x0 / (1.5 + 0.5 * np.stack(sums, -1)) ** 0.75, rtol=1e-4)


def test_an_operator_with_operands_of_too_many_axes_is_named(tmp_path: Path) -> None:
    program = Program("BATCH_MATMUL", "damaged")
    x, y = program.input("float32", (2, 1, 3, 4, 5)), program.input("float32", (1, 4, 4))
    program.returns(program.apply("BATCH_MATMUL", [x, y], ("float32", (3, 4, 4))))
    with pytest.raises(tc.TosaConvertError, match=r"BATCH_MATMUL ") as caught:
        tc.frontends.from_tflite(write(program, tmp_path))
    assert caught.value.code == "not-lowered"
