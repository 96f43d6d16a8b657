"""The software that runs models of its own, on real models.

`$TOSA_BACKENDS_PYTHON` names a Python with torch, onnx, onnxruntime and ai-edge-litert; by default it is
this one. A test is skipped if that Python has not what it needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.cli import main
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import Graph

PYTHON = os.environ.get("TOSA_BACKENDS_PYTHON", sys.executable)
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("refmodel")]

WEIGHT = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
BIAS = np.linspace(-1, 1, 4, dtype=np.float32)
TORCH = f"""
import numpy as np, torch

class Net(torch.nn.Module):
    def forward(self, x, n):
        weight = torch.tensor({WEIGHT.tolist()})
        return torch.tanh(x @ weight + torch.tensor({BIAS.tolist()})), n + 1

class Narrow(torch.nn.Module):
    def forward(self, x, y):
        return x.to(torch.float32) * 2.0, torch.exp(y)

if __name__ == "__main__":
    example = torch.zeros(3, 8), torch.zeros(3, dtype=torch.int32)
    torch.export.save(torch.export.export(Net(), example), "net.pt2")
"""
ONNX = f"""
import numpy as np, onnx
from onnx import TensorProto as types, helper, numpy_helper

def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)

constants = {{"w": {WEIGHT.tolist()}, "c": {BIAS.tolist()}}}
data = [numpy_helper.from_array(np.array(v, np.float32), k) for k, v in constants.items()]
nodes = [("MatMul", "x w", "p"), ("Add", "p c", "s"), ("Tanh", "s", "y"), ("Add", "n one", "m")]
graph = helper.make_graph(
    [helper.make_node(kind, given.split(), [result]) for kind, given, result in nodes],
    "net",
    [value("x", types.FLOAT, 3, 8), value("n", types.INT32, 3)],
    [value("y", types.FLOAT, 3, 4), value("m", types.INT32, 3)],
    [*data, numpy_helper.from_array(np.ones(1, np.int32), "one")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(model, "net.onnx")
"""


def require(*packages: str) -> None:
    code = "; ".join(f"import {name}" for name in packages)
    if subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} does not have {', '.join(packages)}")


def check_verb(*arguments: str) -> int:
    return main.run(main.verb("check"), [*arguments, "--python", PYTHON])


def program(bias: Array) -> Graph:
    """Return what the originals compute if the bias is BIAS."""
    b = Builder()
    x, n = b.input("x", "fp32", (3, 8)), b.input("n", "int32", (3,))
    product = b.reshape(b.matmul(b.reshape(x, (1, 3, 8)), WEIGHT[None]), (3, 4))
    b.output(b.tanh(b.add(product, bias[None])), name="y")
    b.output(b.add(n, [1]), name="m")
    return b.graph()


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """net.tosa, and its originals net.py, net.pt2 and net.onnx, in the working folder."""
    require("torch", "onnx", "onnxruntime")
    monkeypatch.chdir(tmp_path)
    tc.save(program(BIAS), "net.tosa")
    Path("net.py").write_text(TORCH)
    Path("make_onnx.py").write_text(ONNX)
    for script in ("net.py", "make_onnx.py"):
        subprocess.run([PYTHON, script], check=True, capture_output=True)


@pytest.mark.usefixtures("net")
def test_torch_and_onnx_runtime_agree_with_the_reference_and_with_each_other() -> None:
    backends = ["torch:net.py:Net", "torch:net.pt2", "onnxruntime:net.onnx"]
    for backend in backends:
        assert check_verb("net.tosa", "--seeds", "2", "--against", backend) == 0
    pair = ["--against", backends[0], "--reference", backends[2]]
    assert check_verb("net.tosa", "--random", "1", *pair) == 0


@pytest.mark.usefixtures("net")
@pytest.mark.parametrize("backend", ["torch:net.py:Net", "onnxruntime:net.onnx"])
def test_a_program_that_differs_from_its_original_fails(backend: str) -> None:
    tc.save(program(BIAS + np.float32(0.01)), "other.tosa")
    assert check_verb("other.tosa", "--random", "1", "--against", backend) == 1


@pytest.mark.usefixtures("net")
def test_torch_takes_and_gives_bf16_and_takes_fp8(capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder()
    x, y = b.input("x", "fp8e4m3", (4,)), b.input("y", "bf16", (4,))
    b.output(b.mul(b.cast(b.cast(x, dtype="fp16"), dtype="fp32"), 2.0), name="a")
    b.output(b.exp(y), name="b")
    tc.save(b.graph(), "narrow.tosa")
    against = ["--random", "1", "--against"]
    assert check_verb("narrow.tosa", *against, "torch:net.py:Narrow") == 0
    assert check_verb("narrow.tosa", *against, "onnxruntime:net.onnx") == 4
    assert "numpy has no type float8_e4m3fn" in capsys.readouterr().err
