"""What we change in a model before it is converted: if a change corrupts numbers, `--check` fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from frontends.onnx_models import node, saved

from tosa_convert.cli.main import run, verb

F32 = np.float32


class Change(NamedTuple):
    """A function that changes models, and what is planted in its place.

    needs: packages. model: makes a model, and returns how the command line names it.
    planted: Python that defines `planted`, with `original` and `module`.
    """

    needs: str
    model: Callable[[Path], str]
    module: str
    name: str
    planted: str


def calling(result: str) -> str:
    """Return the text of a function that calls the original one, and returns something else."""
    begin = "def planted(*args, **kw):\n    made = original(*args, **kw)\n"
    return f"{begin}    {result}\n    return made\n"


def tflite(operator: str, constant: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        from frontends.tflite_models import OperatorRow, TensorRow, model

        rows = [
            TensorRow("x", "float32", (2, 3)),
            TensorRow("c", str(constant.dtype), constant.shape, constant),
            TensorRow("y", "float32", (2, 3)),
        ]
        data = model(rows, [OperatorRow(operator, (0, 1), (2,))], [0], [2])
        (folder / "m.tflite").write_bytes(data)
        return str(folder / "m.tflite")

    return write


def onnx(folder: Path) -> str:
    nodes = [node("Add", ["x", "c"], ["a"]), node("Sigmoid", ["a"], ["y"])]
    weights = {"c": np.array([1, 2], F32)}
    return str(saved(folder / "m.onnx", nodes, {"x": (F32, [3, 2])}, ["y"], weights))


def of_text(text: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "nets.py").write_text(text)
        return f"{folder / 'nets.py'}:make"

    return write


KERAS = """
import keras

def make():
    x = keras.Input(batch_shape=(2, 3), name="x")
    return keras.Model(x, keras.layers.BatchNormalization()(x))
"""
TORCH = of_text("import torch\n\ndef make():\n    return torch.nn.SiLU(), (torch.rand(2, 3),)\n")
JAX = of_text(
    "import jax\nimport jax.numpy as jnp\nimport numpy as np\n\ndef make():\n"
    "    return lambda x: x + 2.5, (np.ones((2, 3), np.float32) * np.arange(3, dtype=np.float32),)\n"
)
TO_TANH = "[setattr(n, 'op_type', 'Tanh') for n in {0}.graph.node if n.op_type == 'Sigmoid']"
ONNX_CONVERT = "tosa_convert.frontends.onnx.convert"

CHANGES = {
    "keras: leave the mode": Change(
        "keras",
        of_text(KERAS),
        "tosa_convert.frontends.keras.convert",
        "inference_of",
        calling("made = {'training': True}"),
    ),
    "onnx: load": Change("onnx", onnx, ONNX_CONVERT, "load", calling(TO_TANH.format("made[0]"))),
    "onnx: hold in bytes": Change(
        "onnx", onnx, ONNX_CONVERT, "held_in_bytes", calling(TO_TANH.format("args[0]"))
    ),
    "torch: decompose": Change(
        "torch",
        TORCH,
        "tosa_convert.frontends.torch.convert",
        "decompositions",
        calling("import torch; made[torch.ops.aten.silu.default] = lambda x: x * 1.5"),
    ),
    "jax: lower": Change(
        "jax",
        JAX,
        "tosa_convert.frontends.lowering.arithmetic",
        "computed",
        "def planted(s, name, a, b):\n    return original(s, 'sub', a, b)\n",
    ),
    "tflite: read": Change(
        "ai_edge_litert",
        tflite("ADD", np.full((3,), 2.5, F32)),
        "tosa_convert.frontends.tflite.convert",
        "map_file",
        calling(r"made = memoryview(bytes(made).replace(b'\0\0\x20\x40', b'\0\0\x60\x40'))"),
    ),
    "tflite: lower": Change(
        "ai_edge_litert",
        tflite("CUMSUM", np.array(1, np.int32)),
        "tosa_convert.frontends.tflite.table",
        "RULES",
        "planted = {**original, 'CUMSUM': lambda n: n.array(0)}",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_planted", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_wrong_change_fails_the_check(
    change: Change,
    is_planted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for package in change.needs.split():
        pytest.importorskip(package, reason=f"{package} is not installed")
    words = [change.model(tmp_path), "-o", str(tmp_path / "m.tosa"), "--check"]
    if is_planted:
        # Python runs a file of this name first, also in the process that converts.
        (tmp_path / "sitecustomize.py").write_text(
            f"import importlib\n\nmodule = importlib.import_module({change.module!r})\n"
            f"original = module.{change.name}\n{change.planted}\nmodule.{change.name} = planted\n"
        )
        path = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    code = run(verb("convert"), words)
    said = capsys.readouterr()
    assert code == int(is_planted), said.out + said.err
    assert ("DIFF" in said.out or "FAIL" in said.out) is is_planted, said.out
