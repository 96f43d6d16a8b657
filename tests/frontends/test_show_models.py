"""`show` of models of frameworks, without the framework.

torch 2.13 wrote shown.pt2: relu(x) + y and the sum of x, whose first size is not fixed.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends import onnx_files
from frontends.tflite_models import OperatorRow, TensorRow, model

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.model_summary import describe_data
from tosa_convert.frontends.onnx.header import NEVER_LOWERED, RANDOM
from tosa_convert.frontends.tflite import unlowered
from tosa_convert.frontends.tflite.read import OPERATOR_NAMES
from tosa_convert.frontends.torch.header import read_pt2

HERE = Path(__file__).parent
SHOWN = HERE / "shown.pt2"
#: Files that TensorFlow, torch-mlir and JAX wrote -> what a line of the screen says.
WRITTEN = {
    "graph_defs/frozen.pb": "TensorFlow GraphDef; image  float32 [1, 6, 6, 2]; Conv2D 1; 6 of 5 kinds",
    "torch_modules/raw.mlir": "module of the torch dialect; arg0  f32 [2, 3, 6, 6]; aten.gelu 1; "
    "output  f32 [2, 5]; 10 of 9 kinds",
    "torch_modules/onnx.mlir": "module of the torch dialect; output  f32 [2, 4]; onnx.Conv 1",
    "stablehlo_releases/jax-0.4.20.mlir": "module of StableHLO; arg2  f32 [4, 5]; sort 1; "
    "output_2  f32 []; 90 of 25 kinds",
}
TFLITE = """\
m.tflite: TFLite model, SIZE
  inputs      image  float32 [?, 3]
  outputs     scores  float32 [?, 3]
  operators   4 of 3 kinds
              RELU    2
              mine    1
              UNIQUE  1
  not lowered mine    1
              UNIQUE  1
"""
ONNX = """\
m.onnx: ONNX model, SIZE
  inputs      image  uint8 [batch, ?, 3]
              kind   bfloat16 []
  outputs     label  string [1]
  operators   3 of 2 kinds
              Relu     2
              Softmax  1
  not lowered none known
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with m.tflite and m.onnx."""
    monkeypatch.chdir(tmp_path)
    x = TensorRow("x", "float32", (-1, 3))
    operators = [
        OperatorRow("RELU", (0,), (1,)),
        OperatorRow("RELU", (1,), (2,)),
        OperatorRow("mine", (2, 3), (1,)),
        OperatorRow("UNIQUE", (1,), (2,)),
    ]
    tensors = [x, x, x, TensorRow("scratch", "uint8", (2,))]
    names = (["image"], ["scores"])
    Path("m.tflite").write_bytes(model(tensors, operators, [0], [2], signature=names))
    rows = [
        onnx_files.value("image", 2, ["batch", "", 3]),
        onnx_files.value("kind", 16, []),
        onnx_files.value("weight", 1, [2]),
    ]
    outputs = [onnx_files.value("label", onnx_files.STRING, [1])]
    constants = {"weight": np.zeros(2, np.float32)}
    data = onnx_files.model(["Relu", "Softmax", "Relu"], rows, outputs, constants)
    Path("m.onnx").write_bytes(data)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(verb("show"), list(words))
    return (code, *capsys.readouterr())


@pytest.mark.parametrize(("name", "screen"), [("m.tflite", TFLITE), ("m.onnx", ONNX)])
def test_a_model_is_shown_without_its_framework(
    name: str, screen: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnx", "ai_edge_litert"):
        monkeypatch.setitem(sys.modules, package, None)
    screen = screen.replace("SIZE", f"{Path(name).stat().st_size} bytes")
    assert shown(capsys, name) == (0, screen, "")
    standard_input = io.TextIOWrapper(io.BytesIO(Path(name).read_bytes()))
    monkeypatch.setattr(sys, "stdin", standard_input)
    assert shown(capsys, "-") == (0, screen.replace(name, "<stdin>"), "")


def test_scales_of_a_quantised_model_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    x = TensorRow("x", "int8", (1, 3), None, (0.024480115622282028,), (-128,))
    y = TensorRow("y", "int8", (1, 3), None, (0.5,), (5,))
    Path("q.tflite").write_bytes(model([x, y], [OperatorRow("RELU", (0,), (1,))], [0], [1]))
    lines = shown(capsys, "q.tflite")[1].splitlines()
    assert lines[1].endswith(" x  int8 [1, 3] scale 0.0244801156 zero point -128")
    assert lines[2].endswith(" y  int8 [1, 3] scale 0.5 zero point 5")
    (row,) = json.loads(shown(capsys, "q.tflite", "--json")[1])["files"]
    assert [row["inputs"][0][key] for key in ("scale", "zero_point")] == [
        float(np.float32(x.scales[0])),
        -128,
    ]
    assert [row["outputs"][0][key] for key in ("scale", "zero_point")] == [0.5, 5]


def test_models_have_rows_in_the_table_and_objects_in_the_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = shown(capsys, "m.tflite", "m.onnx")
    assert (code, [line.split()[:2] for line in out.splitlines()[1:]]) == (
        0,
        [["m.tflite", "tflite"], ["m.onnx", "onnx"]],
    )
    for words in (["m.tflite"], ["m.onnx"], ["m.tflite", "m.onnx"]):
        code, out, _ = shown(capsys, "--json", *words)
        rows = json.loads(out)["files"]
        assert (code, [row["file"] for row in rows]) == (0, words)
        for row in rows:
            summary = tc.frontends.describe(row["file"])
            kinds = {kind["name"]: kind["count"] for kind in row["operator_kinds"]}
            assert kinds == summary.operators
            assert row["inputs"] == [
                {"name": value.name, "type": value.dtype, "shape": list(value.shape or ())}
                for value in summary.inputs
            ]
            counts = {kind["name"]: kind["count"] for kind in row["not_lowered"]}
            assert counts == summary.not_lowered


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *itertools.product(
            ("m.tflite", "m.onnx"), ("--operators", "--tensors", "--constants", "--hex")
        ),
        ("m.onnx", "--func=f"),
    ],
)
def test_an_option_for_programs_is_refused_by_name(
    option: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = shown(capsys, name, option)
    assert (code, out) == (2, "")
    assert option.partition("=")[0] in err
    assert "option-conflict" in err


def test_another_model_is_to_be_converted_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "saved").mkdir()
    (folder / "saved/saved_model.pb").write_bytes(b"")
    (folder / "net.py").write_text("import torch\n")
    (folder / "m.keras").write_bytes(b"PK\3\4 model.weights.h5")
    frontends = {
        "saved": "tensorflow",
        "net.py:make": "torch",
        "m.keras": "keras",
    }
    for name, frontend in frontends.items():
        code, out, err = shown(capsys, name)
        assert code
        assert not out
        assert f"{name}: error: the model is for {frontend}" in err
        assert "convert it first" in err


@pytest.mark.parametrize(("name", "words"), WRITTEN.items())
def test_files_that_other_tools_wrote_are_shown(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = shown(capsys, str(HERE / name))
    assert (code, err) == (0, "")
    plain = " ".join(out.split())
    assert [word for word in words.split("; ") if " ".join(word.split()) not in plain] == []


def test_a_function_of_a_module_is_chosen() -> None:
    body = "  %0 = stablehlo.{} %x : tensor<3xf32>\n  return %0 : tensor<3xf32>\n}}\n"
    kind = "tensor<?x2x!quant.uniform<i8:f32, 0.1:3>>"
    head = f'func.func {{}} @{{}}(%x: {kind} {{{{a = ", )"}}}}, %t: {{}}) -> ({{}})'
    both = ("tensor<3xf32>, tensor<i1>", "!stablehlo.token")
    text = head.format("", "f", both[1], both[0]) + " {\n" + body.format("tanh")
    text += head.format("public", "g", both[1], "tensor<3xf32>") + " {\n" + body.format("rng")
    text += head.format("private", "h", both[1], "tensor<3xf32>") + " {\n" + body.format("sine")
    Path("m.mlir").write_text(text)
    first, second = (tc.frontends.describe("m.mlir", func=name) for name in "fg")
    assert first.operators == {"tanh": 1, "sine": 1}
    assert list(map(str, first.inputs)) == [
        "!quant.uniform<i8:f32, 0.1:3> [?, 2]",
        "not a tensor of unknown shape",
    ]
    assert list(map(str, first.outputs)) == ["f32 [3]", "i1 []"]
    assert second.not_lowered == {"rng": 1}
    for func, code in (("k", "unknown-function"), (None, "ambiguous-function")):
        with pytest.raises(TosaConvertError, match=code):
            tc.frontends.describe("m.mlir", func=func)


@pytest.mark.parametrize("name", WRITTEN)
def test_damaged_files_of_other_tools_are_refused_or_described(name: str) -> None:
    whole, dice = (HERE / name).read_bytes()[:4000], random.Random(5)
    frontend = {"g": "tensorflow", "t": "torch-mlir", "s": "stablehlo"}[name[0]]
    refused = 0
    for _ in range(300):
        data = bytearray(whole[: dice.choice((len(whole), dice.randrange(len(whole))))])
        for _ in range(dice.choice((1, 4)) if data else 0):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            describe_data(memoryview(data), frontend, "m")
        except TosaConvertError as error:
            refused += error.code in ("unrecognised-input", "ambiguous-function")
    assert refused > 30


@pytest.mark.parametrize("name", ["m.tflite", "m.onnx"])
def test_a_damaged_model_is_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(name).read_bytes()
    seen = set()
    for size in range(24, len(data), 7):
        Path(name).write_bytes(data[:size])
        code, _, err = shown(capsys, name)
        assert code in (0, 1, 2, 3)
        assert name in err or not code
        seen.add(bool(code))
    assert True in seen


@pytest.mark.parametrize(
    "field", [onnx_files.part(1, b""), onnx_files.part(2, b"\x0a\x02\x0a\x00")]
)
def test_a_type_or_a_size_of_onnx_that_is_no_number_is_damaged(
    field: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    value = onnx_files.part(1, "x") + onnx_files.part(2, onnx_files.part(1, field))
    Path("m.onnx").write_bytes(onnx_files.model(["Relu"], [value], []))
    code, out, err = shown(capsys, "m.onnx")
    assert (code, out) == (3, "")
    assert "the ONNX model cannot be read: a field has bytes, expected a number" in err


def test_operators_that_never_lower_are_those_without_a_rule() -> None:
    from tosa_convert.frontends.tflite.table import RULES

    without = {name for name in OPERATOR_NAMES if name not in RULES} - {"CUSTOM"}
    others = {name for name in without if name.startswith("STABLEHLO_")}
    assert without - others == unlowered.NEVER_LOWERED


TORCH = """\
shown.pt2: torch program, 7.4 KiB
  inputs      x  float32 [s77, 3]
              y  int8 [3]
  outputs     add    float32 [s77, 3]
              sum_1  float32 []
  operators   3 of 3 kinds
              aten.relu.default  1
              aten.add.Tensor    1
              aten.sum.default   1
  not lowered none known
"""


def test_a_torch_program_is_shown(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "shown.pt2").write_bytes(SHOWN.read_bytes())
    assert run(verb("show"), ["shown.pt2"]) == 0
    assert capfd.readouterr().out == TORCH


def test_damaged_torch_programs_are_refused_or_described() -> None:
    whole, dice, refused = SHOWN.read_bytes(), random.Random(5), 0
    for _ in range(300):
        data = bytearray(whole[: dice.choice((len(whole), dice.randrange(len(whole))))])
        for _ in range(dice.choice((1, 4))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            describe_data(memoryview(data), "torch", "m.pt2")
        except tc.TosaConvertError as error:
            refused += error.code == "unrecognised-input"
    assert refused > 100


def test_a_graph_that_is_large_for_its_file_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", b" " * (6 << 20))
    with pytest.raises(ValueError, match="its graph has 6291456 bytes, expected at most"):
        read_pt2(memoryview(path.read_bytes()))


def node(operator: str, inputs: str, outputs: str, domain: str = "") -> bytes:
    rows = [(1, name) for name in inputs.split()] + [(2, name) for name in outputs.split()]
    return b"".join(onnx_files.part(*row) for row in [*rows, (4, operator), (7, domain)])


def test_operators_of_onnx_that_do_not_lower_are_counted_unless_they_are_folded() -> None:
    nodes = [
        node("NonZero", "x", "where"),
        node("Shape", "x", "sizes"),
        node("NonZero", "sizes", "folded"),
        node("Unique", "mask", "also_folded"),
        node("RandomNormal", "", "noise"),
        node("Add", "noise where", "sum"),
        node("Unique", "sum", "rows"),
        node("Unique", "sum", "mine", domain="com.example"),
    ]
    graph = b"".join(onnx_files.part(1, data) for data in nodes)
    graph += onnx_files.part(11, onnx_files.value("x", 1, [2, 3]))
    graph += onnx_files.part(11, onnx_files.value("mask", 1, [2]))
    mask = onnx_files.tensor(np.ones(2, np.float32), name="mask")
    graph += onnx_files.part(5, mask)
    data = onnx_files.number(1, 10) + onnx_files.part(2, "tests") + onnx_files.part(7, graph)
    Path("n.onnx").write_bytes(data)
    summary = tc.frontends.describe("n.onnx")
    assert summary.not_lowered == {"NonZero": 1, "RandomNormal": 1, "Unique": 1}


def test_node_tests_of_onnx_hold_the_list_of_what_never_lowers() -> None:
    text = (Path(__file__).parents[2] / "docs" / "model-suites.md").read_text(encoding="utf-8")
    text = text.partition("## ONNX's own node tests")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    agree = {operator: int(count) for operator, _, count in rows}
    known = NEVER_LOWERED | RANDOM
    assert {operator for operator, count in agree.items() if not count} - known == set()
    assert [operator for operator in known & agree.keys() if agree[operator]] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bernoulli", "multinomial", "nonzero", "unique", "rand_like", "randn_like"]
)
def test_operators_of_torch_that_do_not_lower_are_counted(name: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_mlir", reason="torch-mlir is not installed")

    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            arguments = (2,) if name == "multinomial" else ()
            return getattr(torch, name)(x.sigmoid(), *arguments)

    program = torch.export.export(Net(), (torch.rand(2, 3),))
    torch.export.save(program, "n.pt2")
    (operator,) = tc.frontends.describe("n.pt2").not_lowered
    assert name in operator
    with pytest.raises(TosaConvertError):
        tc.frontends.from_file("n.pt2")
