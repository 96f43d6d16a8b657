"""`--func` chooses a signature of a TFLite model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow, model

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.tflite.read import (
    operator_name,
    read_tflite,
    with_first_subgraph,
)

X, Y, Z = (TensorRow(name, "float32", (2, 5)) for name in "xyz")
DECODE = Subgraph(
    [X, Y, Z], [OperatorRow("NEG", (0,), (2,)), OperatorRow("ABS", (2,), (1,))], [0], [1]
)
OTHER = Subgraph([X, Y], [OperatorRow("EXP", (0,), (1,))], [0], [1])


def data(operator: str = "RELU", **options: Any) -> bytes:
    """Return a model with the signatures serving_default, decode and other, of a subgraph each."""
    names: Any = {
        "name": options.pop("name", "main"),
        "signature": (["image"], ["score"]),
        "other_signatures": ["decode", "other"],
    }
    rows = [OperatorRow(operator, (0,), (1,), options)]
    return model([X, Y], rows, [0], [1], others=[DECODE, OTHER], **names)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(data())
    return path


def kinds(graph: tc.Graph) -> list[str]:
    return [operator.spec.name for operator in graph.main.operators if operator.inputs]


@pytest.mark.parametrize(("func", "first"), [("", "RELU"), ("decode", "NEG"), ("other", "EXP")])
def test_a_signature_has_a_subgraph(func: str, first: str) -> None:
    found = read_tflite(data(), func)
    assert found.subgraph == ["", "decode", "other"].index(func)
    assert operator_name(found.operators[0].code) == first
    again = read_tflite(with_first_subgraph(data(), found.subgraph))
    assert again.other_signatures == []
    assert [one.code for one in again.operators] == [one.code for one in found.operators]


def test_a_signature_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(tc.TosaConvertError, match="it has 'serving_default', 'decode'") as caught:
        read_tflite(data(), "Decod")
    assert caught.value.code == "unknown-function"
    assert caught.value.findings[0].hint == "did you mean decode?"


def test_a_signature_whose_subgraph_is_called_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(data("CALL_ONCE", init_subgraph_index=1))
    with pytest.raises(tc.TosaConvertError, match="CALL_ONCE calls the subgraph") as caught:
        tc.frontends.from_tflite(path, func="decode")
    assert caught.value.code == "option-conflict"


def test_a_description_is_of_the_signature(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tc.frontends.describe(source, func="decode")
    assert [value.name for value in summary.inputs] == ["decode_x"]
    assert summary.operators == {"NEG": 1, "ABS": 1}
    assert run(verb("show"), [str(source), "--func", "other"]) == 0
    assert "EXP" in capsys.readouterr().out


@pytest.mark.parametrize("frontend", ["onnx", "torch"])
def test_models_without_signatures_refuse_the_choice(frontend: str, tmp_path: Path) -> None:
    from tosa_convert.frontends.lower_model import FrontendOptions, lowered
    from tosa_convert.frontends.table import Recognised
    from tosa_convert.io.options import ReadOptions

    model = Recognised(frontend, str(tmp_path / "m"), "m")
    options = FrontendOptions(read=ReadOptions(func="main"))
    match = f"--func.* does not apply to models for {frontend}"
    with pytest.raises(tc.TosaConvertError, match=match), lowered(model, options):
        pass


class TestPrograms:
    pytestmark = NEEDS_TFLITE

    def test_the_program_is_that_of_the_signature(
        self, source: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        graph = tc.frontends.from_tflite(source, func="decode")
        assert kinds(graph) == ["NEGATE", "ABS"]
        assert (graph.main.inputs, graph.main.outputs) == (["decode_x"], ["decode_y"])
        assert "signatures" not in caplog.text
        graph = tc.frontends.from_file(source)
        assert graph.main.inputs == ["image"]
        assert "'decode', 'other'; --func chooses one" in caplog.text

    def test_the_first_subgraph_may_have_another_name_than_main(self, tmp_path: Path) -> None:
        """As in models that TensorFlow makes of a SavedModel without serving_default."""
        path = tmp_path / "m.tflite"
        path.write_bytes(data(name="encode"))
        for func, found in (("", ["CLAMP"]), ("decode", ["NEGATE", "ABS"])):
            assert kinds(tc.frontends.from_tflite(path, func=func or None)) == found

    def test_the_command_compares_the_signature_with_tflite(self, source: Path) -> None:
        pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
        target = source.with_suffix(".tosa")
        words = [str(source), "-o", str(target), "--func", "other", "--check"]
        assert run(verb("convert"), words) == 0
        x = np.ones((2, 5), np.float32)
        (found,) = tc.run(tc.load(target), {"other_x": x}).outputs.values()
        np.testing.assert_allclose(found, np.exp(x), rtol=1e-5)

    def test_parts_are_of_the_signature(self, source: Path) -> None:
        target = source.with_suffix(".tosa")
        words = [str(source), "-o", str(target), "--func", "decode", "--partial"]
        assert run(verb("convert"), words) == 0
        assert tc.load(target).main.inputs == ["decode_x"]
