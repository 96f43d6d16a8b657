"""CUSTOM operators whose meaning a Python file, a package or the caller gives."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.cli.main import run as run_verb
from tosa_convert.cli.main import verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import save_npz

ACME = '''
import numpy as np
from tosa_convert import Custom

def pairs(attributes, x):
    """Return the sums of pairs of neighbours, times the number in the attributes."""
    return (x[..., ::2] + x[..., 1::2]) * int(attributes or b"1")

def half(attributes, x):
    if x[-1] % 2:
        raise ValueError(f"{x[-1]} elements are not pairs")
    return [(*x[:-1], x[-1] // 2)]

CUSTOM = [Custom("acme", "PAIRS", value=pairs, shape=half, accuracy="ulp 1")]
'''
#: A backend whose PAIRS is `{value}`.
BACKEND = """
import sys
sys.path.insert(0, {folder!r})
import tosa_convert as tc
from acme import half

def run(model, inputs):
    meaning = tc.Custom("acme", "PAIRS", value={value}, shape=half)
    return tc.run(model, inputs, custom=meaning).outputs
"""
RIGHT = "lambda attributes, x: (x[..., ::2] + x[..., 1::2]) * int(attributes or b'1')"
WRONG = "lambda attributes, x: x[..., ::2] * 2"


def network(
    dtype: DTypeName = "FP32", result: tuple[int, ...] = (2, 4), attributes: bytes = b""
) -> tc.Graph:
    b = Builder()
    x = b.input("x", dtype, (2, 8))
    made = b.custom(
        [b.reverse(x, axis=0)],
        [(dtype, result)],
        domain_name="acme",
        operator_name="PAIRS",
        implementation_attrs=attributes,
    )
    b.output(b.reverse(made[0], axis=0), name="y")
    return b.graph()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, which is the working one, with a program, its meaning and two backends."""
    (tmp_path / "acme.py").write_text(ACME, encoding="utf-8")
    tc.save(network(), tmp_path / "m.tosa")
    for name, value in (("right", RIGHT), ("wrong", WRONG)):
        text = BACKEND.format(folder=str(tmp_path), value=value)
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(line: str) -> int:
    name, *words = line.split()
    return run_verb(verb(name), words)


# -- the command line ------------------------------------------------------------------------------


@pytest.mark.slow
def test_bisect_names_a_custom_operator_that_is_wrong(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("check m.tosa --custom acme.py --against right.py --random 0") == 0
    assert command("check m.tosa --custom acme.py --against wrong.py --random 0") == 1
    capsys.readouterr()
    line = "bisect m.tosa --custom acme.py --against wrong.py --random 0 --case case --json"
    assert command(line) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["engine"] == "numpy"
    assert "operator_name=PAIRS" in found["first"]["operators"][0]["signature"]
    assert found["first"]["comparison"]["tensors"][0]["rule"] == "ulp 1"
    case = json.loads((files / "case" / "case.json").read_text(encoding="utf-8"))
    assert all(text.endswith("--custom FILE.py") for text in case["commands"])


def test_run_computes_it_and_says_what_is_missing(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for engine in ("auto", "numpy"):
        line = f"run m.tosa --random 0 --engine {engine} --custom acme.py -o {engine}.npz"
        assert command(line) == 0
    assert (files / "auto.npz").read_bytes() == (files / "numpy.npz").read_bytes()
    assert command("run m.tosa --random 0 --engine numpy") == 4
    assert "--custom FILE.py" in capsys.readouterr().err
    assert command("run m.tosa --random 0 --engine reference-model --custom acme.py") == 3
    assert "the reference model has no CUSTOM" in capsys.readouterr().err


@pytest.mark.slow
def test_reduce_and_suite_know_it(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = f"{sys.executable} -m tosa_convert check {{model}} -i {{inputs}} --against wrong.py"
    words = ["m.tosa", "--random", "0", "--custom", "acme.py", "--work", "work"]
    options = ["--command", f"{judge} --custom acme.py", "--expect-exit", "1"]
    assert run_verb(verb("reduce"), [*words, *options]) == 0
    reduced = tc.load(files / "work" / "reduced.tosa")
    assert [op.spec.name for op in reduced.main.operators] == ["CUSTOM"]
    case = files / "cases" / "one"
    case.mkdir(parents=True)
    tc.save(network(), case / "model.tosa")
    save_npz(case / "inputs.npz", {"x": np.ones((2, 8), np.float32)})
    assert command("suite cases --custom acme.py --against right.py --json-report r.json -j 1") == 0
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    save_npz(case / "inputs.npz", {"x": x})
    assert command("suite cases --custom acme.py --against wrong.py --keep kept -j 1") == 1
    assert command("suite cases --against right.py --json-report r.json -j 1") == 1
    report = json.loads((files / "r.json").read_text(encoding="utf-8"))
    assert "nothing says what" in json.dumps(report) or "not registered" in json.dumps(report)


# -- Python ----------------------------------------------------------------------------------------


def doubled(accuracy: str = "none") -> tc.Custom:
    def value(attributes: bytes, x: Any) -> Any:
        return (x[..., ::2] + x[..., 1::2]) * 2

    return tc.Custom("acme", "PAIRS", value=value, accuracy=accuracy)


def test_a_graph_gets_its_meaning_where_it_is_run() -> None:
    graph = network()
    x = np.ones((2, 8), np.float32)
    assert golden.run(graph, {"x": x}, custom=doubled()).outputs["y"].max() == 4
    with pytest.raises(TosaConvertError, match="CUSTOM"):
        golden.run(graph, {"x": x})
    with pytest.raises(TosaConvertError, match="the reference model has no CUSTOM"):
        golden.run(graph, {"x": x}, custom=doubled(), engine="reference-model")
    right = {"y": np.full((2, 4), 4, np.float32)}
    assert golden.check(graph, right, {"x": x}, custom=[doubled()]).ok
    wrong = {"y": right["y"] + 1e-2}
    assert not golden.check(graph, wrong, {"x": x}, custom=[doubled("ulp 1")]).ok
    answers = golden.run(graph, {"x": x}, custom=doubled(), intermediates="*").intermediates
    assert golden.bisect(graph, answers, {"x": x}, custom=doubled()).ok


@pytest.mark.parametrize("dtype", ["BF16", "FP16", "INT8", "INT16", "INT32"])
def test_values_are_wide_and_results_rounded(dtype: DTypeName, files: Path) -> None:
    graph = network(dtype, attributes=b"3")
    inputs = golden.input_arrays(graph, None, 1)
    found = golden.run(graph, inputs, custom="acme.py").outputs["y"]
    x: Any = inputs["x"].astype(np.float32 if "F" in dtype else np.int64)
    expected = (x[:, ::2] + x[:, 1::2]) * 3
    assert found.tolist() == expected.astype(found.dtype).tolist()
    exact = golden.run(graph, inputs, custom="acme.py", precise=True).outputs["y"]
    assert exact.dtype == (np.float64 if "F" in dtype else found.dtype)


def test_shapes_follow_and_wrong_ones_are_found(files: Path) -> None:
    assert tc.validate(tc.load("m.tosa", custom="acme.py")) == []
    tc.save(network(result=(2, 5)), "wrong.tosa")
    assert tc.validate(tc.load("wrong.tosa")) == []
    (found,) = tc.validate(tc.load("wrong.tosa", custom="acme.py"))
    assert found.rule == "custom-output-list-shape"
    assert "expected [2, 4]" in found.message
    with pytest.raises(TosaConvertError, match=r"the program says \[\(2, 5\)\]"):
        golden.run("wrong.tosa", random=1, custom="acme.py")
    text = """
    func.func @main(%x: tensor<?x6xf32>) -> tensor<?x?xf32> {
      %0 = tosa.custom %x {domain_name = "acme", implementation_attrs = "",
        operator_name = "PAIRS"} : (tensor<?x6xf32>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""
    graph = tc.load(text.encode(), input_shapes={"arg0": (3, 6)}, custom="acme.py")
    assert graph.main.tensors[graph.main.outputs[0]].shape == (3, 3)
    odd = tc.load(text.replace("6", "7").encode(), input_shapes={}, custom="acme.py")
    assert tc.validate(odd) == []  # its sizes are not known yet
    with pytest.raises(TosaConvertError, match="7 elements are not pairs"):
        tc.load(text.replace("6", "7").encode(), input_shapes={"arg0": (3, 7)}, custom="acme.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CUSTOM = 1", "expected a list of tosa_convert.Custom"),
        ("", "expected a list of tosa_convert.Custom"),
        ("\nraise ValueError('no device')", "c.py:2: error: ValueError: no device"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("CUSTOM = [", "SyntaxError"),
        (
            "import tosa_convert as tc; CUSTOM = [tc.Custom('a', 'b', value=abs, accuracy='ulp')]",
            "ulp N",
        ),
        (
            "import tosa_convert as tc; CUSTOM = [tc.Custom('acme', 'PAIRS', value=abs)] * 2",
            "has two meanings",
        ),
        (
            "import tosa_convert as tc\ndef f(a, x):\n    return x.nothing\n"
            "CUSTOM = [tc.Custom('acme', 'PAIRS', value=f)]",
            "c.py:3)",
        ),
        (
            "import tosa_convert as tc\ndef f(a, x):\n    x += 1\n"
            "CUSTOM = [tc.Custom('acme', 'PAIRS', value=f)]",
            "read-only",
        ),
        (
            "import tosa_convert as tc\ndef f(a, x):\n    return x, x\n"
            "CUSTOM = [tc.Custom('acme', 'PAIRS', value=f)]",
            "its results have the shapes [(2, 8), (2, 8)], the program says [(2, 4)]",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TosaConvertError) as caught:
        golden.run(network(), random=1, custom=path)
    assert said in str(caught.value)


def test_a_missing_file_and_extension_are_errors() -> None:
    for given, said in (("no.py", "No such file"), ("extension:none", "tosa_convert.custom")):
        with pytest.raises(TosaConvertError, match=said):
            tc.load(tc.dumps(network()), custom=given)


def test_a_meaning_is_found_inside_of_regions() -> None:
    b = Builder()
    x = b.input("x", "FP32", (2,))

    def twice(inner: Any, value: Any) -> Any:
        return inner.custom([value], [("FP32", (2,))], domain_name="d", operator_name="twice")

    chosen = b.cond_if(b.input("c", "BOOL", (1,)), [x], twice, lambda inner, value: value)
    b.output(*chosen, name="y")
    meaning = tc.Custom("d", "twice", value=lambda attributes, value: 2 * value)
    inputs = {"x": np.ones(2, np.float32), "c": np.array([True])}
    assert golden.run(b.graph(), inputs, custom=meaning).outputs["y"].tolist() == [2, 2]


def square(attributes: bytes, x: Any) -> Any:
    return x * x


def test_a_meaning_goes_with_its_graph_to_other_processes() -> None:
    graph = tc.load(tc.dumps(network()), custom=tc.Custom("acme", "PAIRS", value=square))
    again = pickle.loads(pickle.dumps(graph))
    assert [op.spec.meaning.value for op in again.main.operators if op.spec.meaning] == [square]
