"""Frameworks as backends: arguments by keyword, 64-bit types, results in dictionaries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.golden import open_backend
from tosa_convert.golden.backends.process import Machine
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.models.compare_model import compare_model

INPUTS = {
    "ids": np.arange(6, dtype=np.int32).reshape(2, 3),
    "scale": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
}


def program() -> tc.Graph:
    b = Builder()
    ids, scale = b.input("ids", "int32", (2, 3)), b.input("scale", "fp32", (2, 3))
    b.output(b.add(ids, 1), name="next")
    b.output(b.mul(scale, 2.0), name="twice")
    return b.graph()


def judged(backend: Any) -> None:
    assert isinstance(backend, Record)
    assert tc.check(program(), backend, INPUTS).ok


def test_an_exported_program_gets_arguments_by_keyword_and_in_64_bits(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")

    class Model(torch.nn.Module):
        def forward(self, *, ids: Any, scale: Any) -> dict[str, Any]:
            return {"next": ids + 1, "twice": scale * 2}

    example = {"ids": torch.zeros(2, 3, dtype=torch.int64), "scale": torch.zeros(2, 3)}
    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Model(), (), kwargs=example), path)
    judged(open_backend(f"torch:{path}", program(), INPUTS))


def test_a_factory_gives_the_arguments_of_its_torch_module(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")
    path = tmp_path / "m.py"
    path.write_text(
        "import torch\n\n\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, *, ids, scale):\n"
        "        return {'next': ids + 1, 'twice': scale * 2}\n\n\n"
        "def make():\n"
        "    ids, scale = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3)\n"
        "    return Model(), (), {'ids': ids, 'scale': scale}\n"
    )
    judged(open_backend(f"torch:{path}:make", program(), INPUTS))


#: Rounds x to 2**-10 or so in FP32, and not in FP64: a constant, a cast and a new tensor.
ROUNDING = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.large = torch.nn.Parameter(torch.tensor(10000.0))

    def forward(self, x):
        y = (x + self.large).to(torch.float32) - torch.full((1,), 10000.0, dtype=torch.float32)
        {last}
        return y

def make():
    return Model(), (torch.linspace(-1, 1, 200),)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("", "note: ill-conditioned, and accepted: 198 elements"),
        ("y[7] += 0.01", "1 too much; worst at [7]"),
        ("y[-1] += 10", "FAIL y float32[200] [exact]"),
    ],
)
def test_an_output_about_which_torch_errs_as_much_is_no_failure(
    tmp_path: Path, last: str, expected: str
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    b = Builder()
    b.output(b.identity(b.input("x", "fp32", (200,))), name="y")
    path = tmp_path / "m.py"
    path.write_text(ROUNDING.format(last=last), encoding="utf-8")
    found = compare_model(
        b.graph(),
        "torch",
        f"{path}:make",
        given={},
        examples={"x": np.linspace(-1, 1, 200, dtype=np.float32)},
        seed=None,
        machine=Machine(sys.executable, 60),
    )
    assert expected in str(found)
    assert found.ok == (not last)


@pytest.mark.parametrize("given", ["file.py", "program.pt2"])
def test_what_a_torch_model_writes_to_its_inputs_is_compared(tmp_path: Path, given: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")
    path = tmp_path / "m.py"
    path.write_text(
        "import torch\n\n\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, ids, scale, offset):\n"
        "        ids[0].fill_(7)\n"
        "        scale.mul_(2)\n"
        "        return scale + offset\n\n\n"
        "def make():\n"
        "    ids, scale = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3)\n"
        "    return Model(), (ids, scale, torch.zeros(2, 3))\n"
    )
    original = f"{path}:make"
    if given == "program.pt2":
        made: dict[str, Any] = {}
        exec(path.read_text(), made)
        original = str(tmp_path / given)
        torch.export.save(torch.export.export(*made["make"]()), original)
    inputs = {**INPUTS, "offset": np.ones((2, 3), np.float32)}
    for factor, is_same in ((2.0, True), (3.0, False)):
        b = Builder()
        ids, scale = b.input("ids", "int32", (2, 3)), b.input("scale", "fp32", (2, 3))
        offset = b.input("offset", "fp32", (2, 3))
        b.output(b.add(b.mul(scale, 2.0), offset), name="sum")
        mask = np.array([[True] * 3, [False] * 3])
        b.output(b.select(mask, np.full((2, 3), 7, np.int32), ids), name="ids_changed")
        b.output(b.mul(scale, factor), name="scale_changed")
        graph = b.graph()
        backend = open_backend(f"torch:{original}", graph, inputs)
        assert tc.check(graph, backend, inputs).ok is is_same


def test_a_function_of_a_python_file_runs_in_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")
    path = tmp_path / "f.py"
    path.write_text(
        "import numpy as np\n\n\n"
        "def make():\n"
        "    ids, scale = np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)\n"
        "    return (lambda ids, scale: {'next': ids + 1, 'twice': scale * 2}), (ids, scale)\n"
    )
    judged(open_backend(f"jax:{path}:make", program(), INPUTS))


def test_an_onnx_model_gets_its_inputs_in_64_bits(tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")
    helper, kinds = onnx.helper, onnx.TensorProto
    values = {
        name: helper.make_tensor_value_info(name, kind, [2, 3])
        for name, kind in (
            *(("ids", kinds.INT64), ("next", kinds.INT64)),
            *(("scale", kinds.FLOAT), ("twice", kinds.FLOAT)),
        )
    }
    one = helper.make_tensor("one", kinds.INT64, [], [1])
    two = helper.make_tensor("two", kinds.FLOAT, [], [2.0])
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["ids", "one"], ["next"]),
            helper.make_node("Mul", ["scale", "two"], ["twice"]),
        ],
        "main",
        [values["ids"], values["scale"]],
        [values["next"], values["twice"]],
        [one, two],
    )
    path = tmp_path / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    judged(open_backend(f"onnxruntime:{path}", program(), INPUTS))
