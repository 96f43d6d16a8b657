"""`--partial`: a TFLite model of which operators do not lower, as several programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE
from frontends.run_parts import run_parts
from frontends.tflite_models import OperatorRow, TensorRow, model
from frontends.tflite_schema import ACTIVATIONS

from tosa_convert.cli.main import run, verb

pytestmark = NEEDS_TFLITE
SHAPE = (2, 5)
SEGMENTS = TensorRow("segments", "int32", (2,), np.array([1, 1], np.int32))
TWO = TensorRow("two", "float32", (1, 5), np.full((1, 5), 2, np.float32))
#: Two sums that follow one another, each with operators before and after it.
SUMS = (
    [
        *(TensorRow("x", "float32", SHAPE), TWO, SEGMENTS),
        *(TensorRow(name, "float32", SHAPE) for name in ("twice", "sum", "more", "sum2", "out")),
    ],
    [
        OperatorRow("MUL", (0, 1), (3,)),
        OperatorRow("HASHTABLE_LOOKUP", (3, 2), (4,)),
        OperatorRow("ADD", (4, 0), (5,)),
        OperatorRow("HASHTABLE_LOOKUP", (5, 2), (6,)),
        OperatorRow("ADD", (6, 4), (7,)),
    ],
    [0],
    [7, 6],
)


def written(tmp_path: Path, *parts: Any, **options: Any) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(model(*parts, **options))
    return path


def convert(source: Path, *words: str) -> int:
    output = [] if "-o" in words else ["-o", str(source.with_suffix(".tosa"))]
    return run(verb("convert"), [str(source), *output, *words])


def by_numpy(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
    assert name == "HASHTABLE_LOOKUP"
    value, segments = arguments
    assert segments.tolist() == [1, 1]
    return [segment_sum(value)]


def segment_sum(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the sum of both rows as the second row; no row is in the first segment."""
    return np.stack([np.zeros_like(value[0]), value.sum(0)])


def image() -> npt.NDArray[Any]:
    return np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def test_a_model_of_operators_that_do_not_lower_has_no_program(tmp_path: Path) -> None:
    tensors = [TensorRow("x", "float32", SHAPE), SEGMENTS]
    tensors += [TensorRow(name, "float32", SHAPE) for name in ("sum", "sum2")]
    chain = [OperatorRow("HASHTABLE_LOOKUP", (0, 1), (2,))]
    chain += [OperatorRow("HASHTABLE_LOOKUP", (2, 1), (3,))]
    assert convert(written(tmp_path, tensors, chain, [0], [3]), "--partial") == 0
    assert not list(tmp_path.glob("*.tosa"))
    (found,) = run_parts(tmp_path / "m.json", {"x": image()}, by_numpy)
    np.testing.assert_allclose(found, segment_sum(segment_sum(image())), rtol=1e-5)


def test_a_result_whose_sizes_are_open_is_not_cut_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = [TensorRow("x", "float32", SHAPE), SEGMENTS]
    tensors += [TensorRow(name, "float32", (-1, 5)) for name in ("sum", "out")]
    rows = [OperatorRow("HASHTABLE_LOOKUP", (0, 1), (2,)), OperatorRow("MUL", (2, 2), (3,))]
    source = written(tmp_path, tensors, rows, [0], [3])
    assert convert(source, "--partial") == 4
    assert 'cannot be cut out: the model leaves the sizes of "sum" open' in capsys.readouterr().err


@pytest.mark.slow
def test_an_operator_with_which_the_converter_fails_is_cut_out(tmp_path: Path) -> None:
    """Integers with an activation that does not clamp; the caller runs another one."""
    tensors = [TensorRow(name, "int32", SHAPE) for name in ("x", "twice", "kept", "out")]
    rows = [
        OperatorRow("ADD", (0, 0), (1,)),
        OperatorRow("MUL", (1, 0), (2,), {"activation": ACTIVATIONS["tanh"]}),
        OperatorRow("SUB", (2, 0), (3,)),
    ]
    assert convert(written(tmp_path, tensors, rows, [0], [3]), "--partial") == 0

    def product(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
        assert (name, attributes) == ("MUL", {"index": 1})
        return [np.maximum(arguments[0] * arguments[1], 0)]

    x = np.arange(-5, 5, dtype=np.int32).reshape(SHAPE)
    (found,) = run_parts(tmp_path / "m.json", {"x": x}, product)
    np.testing.assert_array_equal(found, 2 * x * x - x)


def test_a_model_that_lowers_is_one_program(tmp_path: Path) -> None:
    tensors = [TensorRow("x", "float32", SHAPE), TensorRow("y", "float32", SHAPE)]
    source = written(tmp_path, tensors, [OperatorRow("ADD", (0, 0), (1,))], [0], [1])
    assert convert(source, "--partial") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"m.tflite", "m.tosa"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-o", "-"], 2, "writes several files"),
        (["--check"], 2, "--check concerns one program"),
        (["--input-names", "a"], 2, "--input-names concerns one program"),
        (["--weights", "npy"], 2, "--weights npy concerns one program"),
    ],
)
def test_options_of_one_program_are_refused(
    tmp_path: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(written(tmp_path, *SUMS), "--partial", *words) == code
    assert said in capsys.readouterr().err


def test_functions_of_jax_are_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.py").write_text("import jax\n", encoding="utf-8")
    words = [f"{tmp_path}/f.py:make", "-o", str(tmp_path / "m.tosa"), "--partial"]
    assert run(verb("convert"), words) == 2
    assert "not cut out of models for jax" in capsys.readouterr().err
