"""Test how the inputs and outputs of a program are paired with tensors of a TFLite model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.cli.main import run, verb
from tosa_convert.golden.backends.tflite_model import pair_with_tflite
from tosa_convert.graph.model import Graph

#: Inputs a and b, which have one shape, which TFLite returns as abs and floor, and one more.
ROWS = [
    *(TensorRow(name, "float32", (1, 4)) for name in ("a", "b", "neg", "abs")),
    TensorRow("c", "float32", (-1, 3)),
    TensorRow("floor", "float32", (-1, 3)),
]
OPERATORS = [
    OperatorRow("NEG", (0,), (2,)),
    OperatorRow("ABS", (2,), (3,)),
    OperatorRow("FLOOR", (4,), (5,)),
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "m.tflite"
    file.write_bytes(model(ROWS, OPERATORS, [0, 1, 4], [3, 5]))
    return str(file)


def program(inputs: str, outputs: str, locations: str = "", dtype: DTypeName = "fp32") -> Graph:
    """Return inputs whose names begin with c or z have another shape, and so have the first outputs."""
    b = Builder()
    values = {
        name: b.input(name, dtype, (2, 3) if name[0] in "cz" else (1, 4)) for name in inputs.split()
    }
    small = next(value for name, value in values.items() if name[0] not in "cz")
    large = next((value for name, value in values.items() if name[0] in "cz"), small)
    for name in outputs.split():
        b.output(b.negate(large if name[0] in "fz" else small), name=name)
    graph = b.graph()
    makers = {op.outputs[0]: op for op in graph.main.operators}
    for name, location in zip(outputs.split(), locations.split(), strict=bool(locations)):
        makers[name].location = f'loc("{location}"("m.tflite":0:0))'
    return graph


def test_an_output_may_be_a_tensor_between_operators(path: str) -> None:
    pairs = pair_with_tflite(program("a b c", "neg"), path)
    assert (pairs.outputs, pairs.notes) == ((2,), ())


def test_a_location_counts_before_a_position(path: str) -> None:
    pairs = pair_with_tflite(program("a b c", "x zz", "neg floor"), path)
    assert pairs.outputs == (2, 5)
    assert [note.partition(" is taken for ")[2] for note in pairs.notes] == [
        '"neg" float32[1, 4] of TFLite, which its location names: it may be a step on the way to it',
        '"floor" float32[-1, 3] of TFLite, which its location names',
    ]


def test_a_location_of_several_outputs_says_nothing(path: str) -> None:
    pairs = pair_with_tflite(program("a b c", "x zz", "floor floor"), path)
    assert pairs.outputs == (3, 5)
    assert all(note.endswith("by position") for note in pairs.notes)


def test_other_names_are_paired_by_position_and_said(path: str) -> None:
    pairs = pair_with_tflite(program("x y z", "abs floor"), path)
    assert (pairs.inputs, pairs.outputs) == (("x", "y", "z"), (3, 5))
    assert pairs.notes[0] == ('the input "x" is taken for "a" float32[1, 4] of TFLite, by position')
    assert len(pairs.notes) == 3


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (program("x", "abs"), "it is not the model of this program: its inputs are"),
        (program("x z y", "abs floor"), "it is not the model of this program: its inputs are"),
        (program("x y z", "abs floor", dtype="fp16"), "it is not the model of this program"),
        (program("a b c", "other"), 'the program\'s output "other" FP32[1, 4] is none of its'),
        (program("a b c", "floor other"), 'the program\'s output "other" FP32[1, 4] is none of'),
    ],
)
def test_another_model_is_refused(path: str, graph: Graph, message: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="option-conflict") as error:
        pair_with_tflite(graph, path)
    assert message in error.value.findings[0].message


@pytest.mark.parametrize("name", ["nosuch.tflite", "text.tflite"])
@pytest.mark.parametrize("software", ["tflite", "onnxruntime", "torch"])
def test_a_file_that_is_no_model_is_refused_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, software: str
) -> None:
    if name == "text.tflite" and software != "tflite":
        pytest.skip("the software itself reads its models")
    (tmp_path / "text.tflite").write_text("# Words\n")
    tc.save(program("a", "abs"), tmp_path / "m.tosa")
    against = f"{software}:{tmp_path / name}"
    code = run(verb("check"), [str(tmp_path / "m.tosa"), "--random", "1", "--against", against])
    err = capsys.readouterr().err
    assert code == (2 if name == "nosuch.tflite" else 3)
    assert "Traceback" not in err
    assert ("file-error" if code == 2 else "expected a TFLite model") in err


@pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"
)
def test_a_part_is_compared_with_the_tensor_of_its_location(tmp_path: Path) -> None:
    file = tmp_path / "m.tflite"
    file.write_bytes(model(ROWS[:4], OPERATORS[:2], [0, 1], [3]))
    part = program("a b", "x", "neg")
    result = tc.check(part, f"tflite:{file}", random=1)
    assert result.ok
    assert result.notes[0].endswith("it may be a step on the way to it")
    found = golden.bisect(part, f"tflite:{file}", random=1)
    assert found.ok
    assert found.notes[0] == result.notes[0]
    assert tc.check(program("b a", "neg"), f"tflite:{file}", random=1).ok is False
