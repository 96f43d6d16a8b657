"""Models by their names in libraries: what is made, what is assumed, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.lower_model import write_factory
from tosa_convert.frontends.named import from_hf
from tosa_convert.frontends.named.wanted import Wanted, imports_of
from tosa_convert.frontends.process.python_file import assumed, call_factory
from tosa_convert.frontends.table import on_route, recognize


def code_of(name: str, **options: object) -> tuple[str, str]:
    with pytest.raises(TosaConvertError) as caught:
        tc.frontends.from_file(name, random_weights=True, **options)  # type: ignore[arg-type]
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("torchvison:resnet18", "torchvision:resnet18"), ("tim:a", "timm:a"), ("timm:", "timm:NAME")],
)
def test_a_library_that_is_misspelt_is_named(name: str, meant: str) -> None:
    with pytest.raises(TosaConvertError, match=f"did you mean {meant}") as caught:
        recognize(name)
    assert caught.value.code == "unrecognised-input"


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
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(from_hf, "_memory", lambda: 2**20)
    with torch.device("meta"):
        small, large = torch.nn.Linear(8, 8), torch.nn.Linear(1 << 10, 1 << 10)
    wanted = Wanted("hf", "large")
    from_hf._refuse_too_large(small, wanted)
    assert assumed.pop() == "hf:large: it has 72 parameters, 0.0 GiB in FP32"
    for asked, whose in (
        (wanted, "this machine has"),
        (replace(wanted, memory=1), "--limit allows"),
    ):
        with pytest.raises(TosaConvertError, match=f"1,049,600 parameters.* {whose} 0.0") as caught:
            from_hf._refuse_too_large(large, asked)
        assert caught.value.code == "frontend-failed"
    from_hf._refuse_too_large(large, replace(wanted, memory=1 << 30))
    assert assumed.pop().startswith("hf:large: it has 1,049,600 parameters")
