"""TFLite models: recognised by content, named as their author named them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

Model = Callable[[str], Path]
NAMES = (
    "hello_world_float",
    "hello_world_int8",
    "micro_speech_quantized",
    "mobilenet_v2_quantized_1x3x224x224",
)


@pytest.mark.parametrize("name", ["dense_input", "serving_default_dense_input:0", "arg0"])
def test_a_dynamic_size_is_set_by_any_name_of_the_input(model: Model, name: str) -> None:
    graph = tc.frontends.from_tflite(
        model("hello_world_int8"), input_shapes={name: ("B", 1), "B": (4,)}
    )
    assert graph.main.tensors["dense_input"].shape == (4, 1)
    assert graph.main.tensors["dense_2"].shape == (4, 1)


@pytest.mark.parametrize(
    ("shapes", "code"),
    [
        ({"image": (4, 1)}, "unknown-argument"),
        ({"dense_input": (4, 2)}, "option-conflict"),
        ({"dense_input": (4,)}, "option-conflict"),
        ({"dense_input": ("?", 1)}, "option-conflict"),
        ({"dense_input": ("B", 1)}, "option-conflict"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(
    model: Model, shapes: dict[str, tuple[int | str, ...]], code: str
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_tflite(model("hello_world_int8"), input_shapes=shapes)
    assert caught.value.code == code


def test_several_models_become_flatbuffers(model: Model, tmp_path: Path) -> None:
    sources = [str(model(name)) for name in NAMES[:2]]
    assert run(verb("convert"), [*sources, "-o", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.tosa" for name in NAMES[:2]}


def test_a_model_is_converted_from_standard_input(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = model("hello_world_int8")
    assert run(verb("convert"), [str(source), "-o", str(tmp_path / "file.tosa")]) == 0
    with source.open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        assert run(verb("convert"), ["-", "-o", str(tmp_path / "pipe.tosa")]) == 0
    graphs = [tc.load(tmp_path / name) for name in ("file.tosa", "pipe.tosa")]
    assert tc.compare(*graphs) is None
    with source.open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        assert run(verb("convert"), ["-", "-o", str(tmp_path), "--to", "tosa"]) == 2
    assert "name a file for standard input" in capfd.readouterr().err
