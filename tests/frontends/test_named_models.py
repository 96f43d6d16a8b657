"""Models by their names in libraries: what is made, what is assumed, and what is refused."""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tosa_convert as tc
from tosa_convert.cli.main import verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.lower_model import FrontendOptions, lowered, write_factory
from tosa_convert.frontends.named import wanted as wanted_models
from tosa_convert.frontends.named.wanted import Wanted, imports_of
from tosa_convert.frontends.process.python_file import assumed, call_factory
from tosa_convert.frontends.table import FRONTENDS, LIBRARIES, Recognised, on_route, recognize

TINY_BERT = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
    "max_position_embeddings": 32,
    "architectures": ["BertForMaskedLM"],
}


def needs(*packages: str) -> list[pytest.MarkDecorator]:
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    skip = pytest.mark.skipif(bool(absent), reason=f"{', '.join(absent)} is not installed")
    return [skip, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def code_of(name: str, **options: object) -> tuple[str, str]:
    with pytest.raises(TosaConvertError) as caught:
        tc.frontends.from_file(name, random_weights=True, **options)  # type: ignore[arg-type]
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize("library", list(LIBRARIES))
def test_a_name_is_that_of_a_model_of_its_library(library: str) -> None:
    found = recognize(f"{library}:some/model:task")
    row = FRONTENDS[LIBRARIES[library]]
    assert found == Recognised(
        row.name, "some/model:task", f"{library}:some/model:task", "", library
    )


@pytest.mark.parametrize("name", ["other:resnet18", "c:/timm", "timm"])
def test_another_text_names_no_model(name: str) -> None:
    assert recognize(name) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [("torchvison:resnet18", "torchvision:resnet18"), ("tim:a", "timm:a"), ("timm:", "timm:NAME")],
)
def test_a_library_that_is_misspelt_is_named(name: str, meant: str) -> None:
    with pytest.raises(TosaConvertError, match=f"did you mean {meant}") as caught:
        recognize(name)
    assert caught.value.code == "unrecognised-input"


def test_a_file_of_the_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "timm:resnet18").write_bytes(b"\x1c\0\0\0TFL3".ljust(64, b"\0"))
    found = recognize("timm:resnet18")
    assert found is not None
    assert (found.frontend, found.library) == ("tflite", "")


def test_random_weights_are_for_names_only(empty_model: Path) -> None:
    code, text = code_of(str(empty_model))
    assert code == "option-conflict"
    assert "timm:resnet50" in text


def test_models_of_libraries_take_the_routes_of_their_framework() -> None:
    assert on_route("timm", "executorch").name == "executorch"
    with pytest.raises(TosaConvertError, match="expected executorch"):
        on_route("hf", "caffe")


def test_the_factory_finds_this_package_and_passes_everything_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.frontends.named import from_timm

    monkeypatch.setattr(from_timm, "make_model", lambda wanted: wanted)
    model = recognize("timm:it's")
    assert model is not None
    made = write_factory(model, {"x": (1, 2)}, tmp_path, random_weights=True, memory=5)
    wanted = Wanted("timm", "it's", {"x": (1, 2)}, random_weights=True, memory=5)
    assert call_factory(Path(made.path), made.member) == wanted


def test_an_error_of_the_factory_keeps_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.frontends.named import from_timm

    def make(wanted: Wanted) -> None:
        wanted.refuse_unused(["x"])

    monkeypatch.setattr(from_timm, "make_model", make)
    model = recognize("timm:any")
    assert model is not None
    made = write_factory(model, {"y": (1,)}, tmp_path, random_weights=True)
    with pytest.raises(TosaConvertError) as caught:
        call_factory(Path(made.path), made.member)
    assert caught.value.code == "unknown-argument"


def test_sizes_that_are_not_given_are_assumed_and_said() -> None:
    wanted = Wanted("timm", "net", {"x": (2, 3), "batch": (4,)})
    before = len(assumed)
    assert wanted.shape("x", (1, 1)) == (2, 3)
    assert wanted.size("batch", 1) == 4
    assert wanted.shape("y", (5,)) == (5,)
    assert assumed[before:] == ["timm:net: the input y is 5; --input-shape y=... changes it"]
    del assumed[before:]
    with pytest.raises(TosaConvertError, match="3 dimensions, found 2 sizes"):
        wanted.shape("x", (1, 1, 1))
    with pytest.raises(TosaConvertError, match="it is one size, found 2"):
        wanted.size("x", 1)


def test_a_download_that_fails_names_random_weights() -> None:
    message = "cannot be had: OSError: no network"
    with (
        pytest.raises(TosaConvertError, match=message) as caught,
        Wanted("hf", "org/net").made(),
    ):
        raise OSError("no\nnetwork")
    assert "--random-weights" in caught.value.findings[0].hint


class TestTimm:
    pytestmark = needs("timm")

    def test_a_model_converts_and_agrees(self, tmp_path: Path) -> None:
        words = "timm:test_resnet.r160_in1k -o m.tosa --random-weights --check --input-shape x=1x3x32x32"
        with CliRunner().isolated_filesystem(tmp_path):
            result = CliRunner().invoke(verb("convert"), words.split())
        assert result.exit_code == 0, result.output
        assert "ok   " in result.output

    def test_what_is_assumed_is_said(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING)
        options = FrontendOptions(random_weights=True)
        model = Recognised("timm", "test_efficientnet", "timm:test_efficientnet", "", "timm")
        with lowered(model, options) as found:
            assert found.graph.main.tensors["x"].shape == (1, 3, 160, 160)
        assert "timm:test_efficientnet: the input x is 1x3x160x160" in caplog.text
        assert "its weights are random, of the seed 0" in caplog.text

    def test_an_unknown_name_is_refused_with_the_nearest(self) -> None:
        code, text = code_of("timm:resnet118")
        assert (code, "did you mean resnet18?" in text) == ("frontend-failed", True)

    def test_an_unknown_input_is_refused(self) -> None:
        code, text = code_of("timm:test_vit", input_shapes={"image": (1, 3, 32, 32)})
        assert (code, "inputs: x; sizes: batch" in text) == ("unknown-argument", True)


class TestTorchvision:
    pytestmark = needs("torchvision")

    def test_a_model_takes_the_sizes_that_are_asked_for(self) -> None:
        graph = tc.frontends.from_file(
            "torchvision:squeezenet1_1", random_weights=True, input_shapes={"x": (2, 3, 32, 32)}
        )
        assert graph.main.tensors["x"].shape == (2, 3, 32, 32)

    def test_an_unknown_name_is_refused_with_the_nearest(self) -> None:
        assert "did you mean squeezenet1_1?" in code_of("torchvision:squeezenet11")[1]


class TestTransformers:
    pytestmark = needs("transformers")

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "bert"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(TINY_BERT), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        return folder

    def test_a_folder_is_found_where_the_user_works(self, folder: Path) -> None:
        graph = tc.frontends.from_file(
            "hf:./bert", random_weights=True, narrow=("i64", "f64"), input_shapes={"sequence": (8,)}
        )
        assert graph.main.inputs == ["input_ids", "attention_mask"]
        assert graph.main.tensors["input_ids"].shape == (1, 8)
        assert graph.main.outputs == ["logits"]

    def test_a_task_that_the_type_does_not_have_is_refused(self, folder: Path) -> None:
        code, text = code_of("hf:./bert:image-classification")
        assert (code, "no AutoModelForImageClassification" in text) == ("frontend-failed", True)

    def test_an_unknown_task_or_type_is_refused_with_the_nearest(self, folder: Path) -> None:
        assert "did you mean fill-mask?" in code_of("hf:./bert:fill-masks")[1]
        assert "did you mean bert?" in code_of("hf:bertt")[1]

    def test_nothing_is_downloaded_for_random_weights(self, folder: Path) -> None:
        code, text = code_of("hf:some-org/some-model")
        assert (code, "downloads nothing" in text) == ("frontend-failed", True)


class TestKeras:
    pytestmark = needs("keras", "jax")

    def test_an_application_takes_the_sizes_that_are_asked_for(self) -> None:
        graph = tc.frontends.from_file(
            "keras:MobileNet", random_weights=True, input_shapes={"image": (1, 32, 32, 3)}
        )
        assert graph.main.tensors[graph.main.inputs[0]].shape == (1, 32, 32, 3)

    def test_no_random_weight_hides_an_operator(self) -> None:
        """Zeros, ones and small weights would make all scores equal, whatever the image."""
        from tosa_convert.frontends.named.from_keras import make_model

        model = make_model(Wanted("keras", "MobileNet", {"image": (1, 32, 32, 3)}, True))
        assert all(np.ptp(weight) > 0 for weight in map(np.asarray, model.weights))
        image = np.random.default_rng(0).standard_normal((1, 32, 32, 3)).astype(np.float32)
        assert np.ptp(np.asarray(model(image))) > 1e-4

    def test_an_unknown_name_is_refused_with_the_nearest(self) -> None:
        assert "did you mean MobileNet?" in code_of("keras:MobilNet")[1]


def test_a_library_that_does_not_fit_torch_is_refused() -> None:
    with (
        pytest.raises(TosaConvertError, match="is installed and does not import") as caught,
        imports_of("torchvision"),
    ):
        raise RuntimeError("operator torchvision::nms does not exist")
    assert caught.value.code == "frontend-failed"


def test_a_model_that_memory_does_not_hold_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wanted_models, "memory_of_machine", lambda: 2**20)
    wanted, large = Wanted("hf", "large"), 1_049_600
    wanted_models.refuse_too_large(72, wanted)
    assert assumed.pop() == "hf:large: it has 72 parameters, 0.0 GiB in FP32"
    for asked, whose in (
        (wanted, "this machine has"),
        (replace(wanted, memory=1), "--limit allows"),
    ):
        with pytest.raises(TosaConvertError, match=f"1,049,600 parameters.* {whose} 0.0") as caught:
            wanted_models.refuse_too_large(large, asked)
        assert caught.value.code == "frontend-failed"
    wanted_models.refuse_too_large(large, replace(wanted, memory=1 << 30))
    assert assumed.pop().startswith("hf:large: it has 1,049,600 parameters")


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:regnet_y_400mf"])
def test_a_model_of_a_library_says_how_large_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, _, called = name.partition(":")
    pytest.importorskip(library, reason=f"{library} is not installed")
    module = importlib.import_module(f"tosa_convert.frontends.named.from_{library}")
    assumed.clear()
    made, _ = module.make_model(Wanted(library, called, random_weights=True))
    count = sum(tensor.numel() for tensor in made.parameters())
    assert f"{name}: it has {count:,} parameters, 0.0 GiB in FP32" in assumed
    monkeypatch.setattr(wanted_models, "memory_of_machine", lambda: 2**20)
    with pytest.raises(TosaConvertError, match="name a smaller model"):
        module.make_model(Wanted(library, called, random_weights=True))
