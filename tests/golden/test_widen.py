"""Programs whose arithmetic becomes FP32."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from golden.conftest import Builder
from golden.correct_networks import KINDS

from tosa_convert import builder, golden, save, validate
from tosa_convert.cli import main
from tosa_convert.cli.main import tosa_flatbuffer
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.checking.check import widened, widened_inputs
from tosa_convert.graph import Graph, dtype
from tosa_convert.graph.dtypes import NanPropagationMode

KEYS = 256


def attention(kind: str) -> Graph:
    """softmax(q k) v for 8 queries and 256 keys."""
    b = Builder()
    q, k = b.input("q", kind, (1, 8, 32)), b.input("k", kind, (1, 32, KEYS))
    v = b.input("v", kind, (1, KEYS, 32))
    b.const("zero", kind, [0.0])
    b.const("shift", "INT8", [0])
    scores, row = (1, 8, KEYS), (1, 8, 1)
    s = b.op("MATMUL", [q, k, "zero", "zero"], "s", kind, scores)
    nan = {"nan_mode": NanPropagationMode.PROPAGATE}
    top = b.op("REDUCE_MAX", [s], "top", kind, row, axis=2, **nan)
    e = b.op("EXP", [b.op("SUB", [s, top], "low", kind, scores)], "e", kind, scores)
    total = b.op("REDUCE_SUM", [e], "total", kind, row, axis=2)
    inverse = b.op("RECIPROCAL", [total], "inverse", kind, row)
    soft = b.op("MUL", [e, inverse, "shift"], "soft", kind, scores)
    y = b.op("MATMUL", [soft, v, "zero", "zero"], "y", kind, (1, 8, 32))
    return b.graph(y)


class Fused:
    """A kernel of attention that leaves out keys."""

    name = text = "fused"

    def __init__(self, left_out: int) -> None:
        self.left_out = left_out

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
        count = KEYS - self.left_out
        s = q @ k[:, :, :count]
        e = np.exp(s - s.max(axis=2, keepdims=True))
        y = (e / e.sum(axis=2, keepdims=True)) @ v[:, :count]
        return {"y": y.astype(graph.main.tensors["y"].dtype.numpy)}

    def inside(self, output: str, attribute: str) -> Fused:
        """See Runner."""
        return self


def test_an_attention_that_drops_one_key_in_bf16_fails_in_fp32() -> None:
    graph, random = attention("BF16"), np.random.default_rng(4)
    inputs = {
        name: random.normal(size=graph.main.tensors[name].shape or ()).astype(dtype("BF16").numpy)
        for name in "qkv"
    }
    assert golden.check(graph, Fused(1), inputs, engine="numpy").ok
    wide = golden.check(graph, Fused(1), inputs, widen=True, engine="numpy")
    assert not wide.ok
    assert any("widened" in note for note in wide.notes)
    assert golden.check(graph, Fused(0), inputs, widen=True, engine="numpy").ok


@pytest.mark.parametrize(
    "kind", ["conv FP16", "matmul BF16", "matmul FP8E4M3", "matmul FP8E5M2", "15 operators"]
)
def test_a_widened_program_is_valid_and_has_no_short_floats(kind: str) -> None:
    graph, inputs = KINDS[kind](43 if kind == "15 operators" else 3)
    wide = widened(graph)
    assert not [row for row in validate(wide) if row.code]
    kinds = {tensor.dtype.name for _, block in wide.blocks() for tensor in block.tensors.values()}
    assert not kinds & {"FP16", "BF16", "FP8E4M3", "FP8E5M2"}
    given = widened_inputs(graph, inputs)
    found = golden.run(wide, given, golden.RunOptions(engine="numpy"))
    assert golden.check(wide, found.outputs, given, engine="numpy").ok
    # Constants are the same numbers.
    for name, tensor in graph.main.tensors.items():
        if tensor.data is not None and tensor.dtype.is_float:
            data = wide.main.tensors[name].data
            assert data is not None
            one, other = tensor.data.numpy(), data.numpy()
            np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))


def test_a_clamp_keeps_its_limits_and_a_cast_becomes_an_identity() -> None:
    b = Builder()
    x = b.input("x", "BF16", (4,))
    limits = {"min_val": np.array([-1.5], dtype("BF16").numpy).tobytes()}
    limits["max_val"] = np.array([0.25], dtype("BF16").numpy).tobytes()
    nan = {"nan_mode": NanPropagationMode.PROPAGATE}
    c = b.op("CLAMP", [x], "c", "BF16", (4,), **limits, **nan)
    graph = b.graph(b.op("CAST", [c], "y", "FP32", (4,)))
    wide = widened(graph)
    assert [op.spec.name for op in wide.main.operators] == ["CLAMP", "IDENTITY"]
    given = {"x": np.array([-2, -1, 0.125, 3], np.float32)}
    found = golden.run(wide, given, golden.RunOptions(engine="numpy")).outputs["y"]
    np.testing.assert_array_equal(found, np.array([-1.5, -1, 0.125, 0.25], np.float32))


def refused(graph: Graph, against: object, inputs: Mapping[str, Array]) -> str:
    with pytest.raises(TosaConvertError) as caught:
        golden.check(graph, against, inputs, widen=True, engine="numpy")  # type: ignore[arg-type]
    assert caught.value.code == "option-conflict"
    return str(caught.value)


def test_what_cannot_be_widened_is_refused_by_name() -> None:
    graph, inputs = KINDS["matmul BF16"](1)
    right = golden.run(graph, inputs, golden.RunOptions(engine="numpy")).outputs
    assert "arrays" in refused(graph, right, inputs)
    graph, inputs = KINDS["matmul FP32"](1)
    assert "no tensor of FP16, BF16 and FP8" in refused(graph, Fused(0), inputs)
    graph, inputs = KINDS["MX FP8E4M3"](1)
    assert "blocks with scales" in refused(graph, Fused(0), inputs)


def test_the_command_line_widens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = KINDS["matmul FP16"](1)
    save(graph, tmp_path / "m.tosa")
    (tmp_path / "sim.py").write_text(
        "import sys; import numpy as np\n"
        "from tosa_convert import golden\n"
        "model, inputs, outputs = sys.argv[1:]\n"
        "given = dict(np.load(inputs))\n"
        "assert all(array.dtype == np.float32 for array in given.values())\n"
        "np.savez(outputs, **golden.run(model, given, engine='numpy').outputs)\n"
    )
    monkeypatch.chdir(tmp_path)
    options = [
        "check",
        "m.tosa",
        "--seeds",
        "1",
        "--no-edges",
        "--engine",
        "numpy",
        "--widen",
        "--against",
    ]
    found = CliRunner().invoke(tosa_flatbuffer, [*options, f"{sys.executable} sim.py"])
    assert found.exit_code == 0, found.output
    assert "widened: both sides computed in FP32" in found.output
    found = CliRunner().invoke(tosa_flatbuffer, [*options, "m.tosa"])
    assert found.exit_code != 0
    assert "option-conflict" in str(found.exception)


BACKEND = """
import numpy as np
from tosa_convert import golden, load
def run(model, inputs):
    found = golden.run(model, inputs, engine="numpy").outputs
    wide = load(model).main.tensors["y"].dtype.name == "FP32"
    return {name: own * np.ones(1, own.dtype) * (1.001 if wide else 1) for name, own in found.items()}
"""


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_check_also_runs_a_program_of_low_precision_in_fp32(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """Its backend errs by 0.1 %, which nothing shows in BF16."""
    b = builder.Builder()
    x = b.input("x", "bf16", (4, 16))
    b.output(b.tanh(b.mul(b.sigmoid(b.sub(x, 0.3)), b.exp(x))), name="y")
    save(b.graph(), tmp_path / "m.tosa")
    (tmp_path / "backend.py").write_text(BACKEND)
    words = [str(tmp_path / "m.tosa"), "--against", str(tmp_path / "backend.py"), *more]
    words += ["--random", "1", "--no-edges", "--engine", "numpy"]
    assert main.run(main.verb("check"), words) == 1
    output = capsys.readouterr().out
    assert ("\nFAIL y float32" if not more else '"widened": {') in output
    assert "low precision" in output


def test_low_precision_that_agrees_in_fp32_takes_two_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = builder.Builder()
    x = b.input("x", "bf16", (4, 16))
    b.output(b.tanh(b.mul(b.sigmoid(b.sub(x, 0.3)), b.exp(x))), name="y")
    save(b.graph(), tmp_path / "m.tosa")
    (tmp_path / "backend.py").write_text(BACKEND.replace("1.001", "1"))
    words = [str(tmp_path / "m.tosa"), "--against", str(tmp_path / "backend.py")]
    assert main.run(main.verb("check"), [*words, "--random", "1", "--engine", "numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok   5 of 5 runs agree")
    assert [line for line in lines if "small faults in FP16, BF16 and FP8 are not seen" in line]
    assert not [line for line in lines if "it may err by" in line]
