"""`--partial` of torch programs and ONNX models: several programs, and operators that torch runs."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.run_parts import run_parts

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed",
    ),
    pytest.mark.filterwarnings("ignore"),
]

SOURCE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x) + 4 * torch.eye(3)
        d = torch.special.i0(y).sum((1, 2))
        z = torch.relu(y * d[:, None, None])
        return {"sum": d, "out": z - torch.linalg.eigvalsh(z + z.mT)[:, None]}

def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(4, 3, 3),)

class Counted(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return torch.special.i0(x).sum((1, 2)) + self.calls

def counted():
    return Counted(), (torch.randn(4, 3, 3),)

class Random(torch.nn.Module):
    def forward(self, x):
        return torch.special.i0(x).sum((1, 2)) + torch.rand(4)

def random():
    return Random(), (torch.randn(4, 3, 3),)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "nets.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def convert(source: Path | str, target: Path) -> int:
    return run(verb("convert"), [str(source), "-o", str(target), "--partial"])


def by_torch(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
    """Return what torch's operator of the name gives."""
    torch = importlib.import_module("torch")
    _, _, packet = (
        name.partition("(")[2].rstrip(")").rpartition(".")
        if "(" in name
        else (name.rpartition("."))
    )
    given = [torch.from_numpy(one) if isinstance(one, np.ndarray) else one for one in arguments]
    found = getattr(torch.ops.aten, packet)(*given)
    results = found if isinstance(found, tuple) else (found,)
    return [result.numpy() for result in results]


def test_the_parts_and_the_operators_together_are_the_module(source: Path, tmp_path: Path) -> None:
    assert convert(f"{source}:net", tmp_path / "m.tosa") == 0
    rows = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    kinds = [step.get("operator", "program") for step in rows["steps"]]
    assert kinds == ["program", "aten.i0", "program", "aten._linalg_eigh", "program"]
    assert rows["inputs"] == ["x"]
    assert rows["outputs"] == ["sum", "out"]
    assert rows["steps"][1]["where"].endswith("nets.py:11")
    space: dict[str, Any] = {}
    exec(SOURCE, space)
    module, (x,) = space["net"]()
    expected = module(x)
    found = run_parts(tmp_path / "m.json", {"x": x.numpy()}, by_torch)
    for want, got in zip(expected.values(), found, strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("counted", "the program has the states calls, which several programs cannot share"),
        ("random", "it draws random numbers, and it cannot be cut out"),
    ],
)
def test_what_cannot_be_cut_out_is_named(
    source: Path, tmp_path: Path, member: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(f"{source}:{member}", tmp_path / "m.tosa") == 4
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("m.*"))


def test_the_parts_and_the_operators_together_are_the_onnx_model(tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
    runtime: Any = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["twice"], name="double"),
        helper.make_node("Det", ["twice"], ["det"], name="det1"),
        helper.make_node("Reshape", ["det", "shape"], ["column"], name="reshape"),
        helper.make_node("Add", ["twice", "column"], ["y"], name="add"),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.array(2, np.float32), "two"),
        onnx.numpy_helper.from_array(np.array([2, 1, 1]), "shape"),
    ]
    ports = [
        helper.make_tensor_value_info(name, float32, shape)
        for name, shape in (("x", [2, 20, 20]), ("y", [2, 20, 20]), ("det", [2]))
    ]
    graph = helper.make_graph(nodes, "main", ports[:1], ports[1:], constants)
    opset = helper.make_opsetid("", 21)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    assert convert(path, tmp_path / "m.tosa") == 0
    x = np.random.default_rng(0).normal(0, 0.3, size=(2, 20, 20)).astype(np.float32)
    expected = runtime.InferenceSession(str(path)).run(None, {"x": x})

    def by_numpy(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
        assert (name, attributes) == ("onnx.Det", {})
        return [np.linalg.det(*arguments)]

    found = run_parts(tmp_path / "m.json", {"x": x}, by_numpy)
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert tc.load(tmp_path / "m.0.tosa").main.inputs == ["x"]
