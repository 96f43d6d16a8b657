"""Torch programs through litert-torch and TFLite."""

from __future__ import annotations

from pathlib import Path

import pytest
from frontends.quantised_modules import SOURCE, needs_packages

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

pytestmark = [
    needs_packages("litert_torch", "torch", "torchao", "tosa_converter_for_tflite"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.mark.parametrize(("member", "element"), [("litert_torch_net", "INT8"), ("net", "FP32")])
def test_a_program_has_the_names_of_torch_and_gives_what_tflite_gives(
    models: Path, member: str, element: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = models.with_name("m.tosa")
    words = [f"{models}:{member}", "-o", str(target), "--via", "litert-torch", "--check"]
    assert run(verb("convert"), words) == 0
    assert capsys.readouterr().out.count("ok   ") == 2
    graph = tc.load(target)
    assert sorted(graph.main.inputs) == ["bias", "image"]
    assert sorted(graph.main.outputs) == ["a", "b"]
    tensors = graph.main.tensors
    assert tensors["image"].shape == (1, 1, 8, 8)
    assert tensors["b"].shape == (1, 3)
    assert tensors["image"].dtype.name == element
    convolutions = [one for one in graph.main.operators if one.spec.name == "CONV2D"]
    assert convolutions
    assert {tensors[one.inputs[0]].dtype.name for one in convolutions} == {element}


def test_states_are_refused_by_name(models: Path) -> None:
    with pytest.raises(tc.TosaConvertError, match="total has no lowering to TOSA") as caught:
        tc.frontends.from_file(f"{models}:counter", via="litert-torch")
    assert caught.value.code == "not-lowered"
