"""Torch programs through ExecuTorch's Arm backend."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.quantised_modules import SOURCE, needs_packages
from frontends.run_parts import run_parts

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

pytestmark = [
    needs_packages("executorch", "torch", "torchao", "tosa_serializer"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def convert(models: Path, member: str, *words: str) -> int:
    target = str(models.with_name("m.tosa"))
    source = f"{models}:{member}"
    return run(verb("convert"), [source, "-o", target, "--via", "executorch", *words])


def test_a_quantised_program_has_integer_arithmetic(
    models: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert convert(models, "executorch_net", "--check") == 0
    assert capsys.readouterr().out.count("ok   ") == 2
    graph = tc.load(models.with_name("m.tosa"))
    # In the order and with the names of torch.
    assert (graph.main.inputs, graph.main.outputs) == (["bias", "image"], ["b", "a"])
    tensors = graph.main.tensors
    borders = [*graph.main.inputs, *graph.main.outputs]
    assert {tensors[name].dtype.name for name in borders} == {"INT8"}
    assert {row.dtype.name for row in tensors.values()} <= {"INT8", "INT32", "INT48"}
    assert "RESCALE" in {one.spec.name for one in graph.main.operators}
    told = [line for line in caplog.messages if "scale" in line]
    assert len(told) == 4
    assert told[0].startswith("the input bias is int8: scale ")


def test_a_relu_whose_zero_point_is_not_the_least_integer_stays(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(models, "executorch_joined", "--check") == 0, capsys.readouterr().out
    graph = tc.load(models.with_name("m.tosa"))
    assert [one.spec.name for one in graph.main.operators].count("CLAMP") == 1


def test_a_floating_point_model_agrees_and_keeps_its_names(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(models, "net", "--check") == 0
    assert capsys.readouterr().out.count("ok   ") == 2
    graph = tc.load(models.with_name("m.tosa"))
    assert (graph.main.inputs, graph.main.outputs) == (["bias", "image"], ["b", "a"])


def test_buffers_that_change_are_variables(models: Path) -> None:
    graph = tc.frontends.from_file(f"{models}:counter", via="executorch")
    assert graph.main.inputs == ["x"]
    states = [row for row in graph.main.tensors.values() if row.variable]
    assert [row.variable_name for row in states] == ["total"]
    assert tc.run(graph, {"x": np.ones(4, np.float32)}).outputs["mul"].tolist() == [4.0] * 4


def test_all_that_stays_in_torch_is_listed(models: Path) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(f"{models}:mixed", via="executorch")
    rows = {one.message.partition(" ")[0]: one for one in caught.value.findings}
    assert set(rows) == {"aten.embedding.default", "aten._linalg_det.default"}
    assert {one.code for one in rows.values()} == {"not-lowered"}
    assert "int64" in rows["aten.embedding.default"].message
    assert "int32" in rows["aten.embedding.default"].hint
    assert all("models.py:" in one.where for one in rows.values())


def test_several_parts_compute_what_torch_computes(models: Path) -> None:
    import torch

    assert convert(models, "mixed", "--partial") == 0
    rows = json.loads(models.with_name("m.json").read_text(encoding="utf-8"))
    assert [("program" in step) for step in rows["steps"]] == [False, True, False, True]

    def compute(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
        package, operator, overload = name.split(".")
        call = getattr(getattr(getattr(torch.ops, package), operator), overload)
        given = [torch.from_numpy(one) if hasattr(one, "dtype") else one for one in arguments]
        found = call(*given)
        return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]

    spec = importlib.util.spec_from_file_location("models", models)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    module, (ids,) = made.mixed()
    found = run_parts(models.with_name("m.json"), {"ids": ids.numpy()}, compute)
    np.testing.assert_allclose(found[0], module(ids)["out"].detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_saved_program_is_checked(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    spec = importlib.util.spec_from_file_location("models", models)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    path = models.with_name("saved.pt2")
    torch.export.save(torch.export.export(*made.executorch_net()), path)
    words = [str(path), "-o", str(models.with_name("m.tosa")), "--via", "executorch", "--check"]
    assert run(verb("convert"), words) == 0
    assert capsys.readouterr().out.count("ok   ") == 2
