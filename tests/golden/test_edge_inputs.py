"""Inputs at the edges: their values, that programs run with them, and the options for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.operator_programs import OPERATORS_WITH_FAULTS, program

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.cli import main
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import load_npz
from tosa_convert.golden.edges.edge_inputs import find_edge_inputs
from tosa_convert.golden.edges.values import ALL, NAN, codes_of, edge_codes, elements_of, limits_of
from tosa_convert.graph import Graph
from tosa_convert.graph.dtypes import DTYPES
from tosa_convert.reference.evaluate import Machine

#: Types with values that have an order.
ORDERED = [row for row in DTYPES if row.name not in ("BOOL", "FP8UE8M0")]


@pytest.mark.parametrize("row", ORDERED, ids=str)
def test_codes_are_those_of_the_values_in_their_order(row: Any) -> None:
    codes = np.array(edge_codes(row, ALL))
    elements = elements_of(codes, row)
    assert codes_of(elements, row).tolist() == codes.tolist()
    numbers = elements[codes != NAN[row.name] if row.name in NAN else slice(None)].astype(
        np.float64
    )
    assert (np.diff(numbers) >= 0).all()
    low, high = limits_of(row)
    assert {low, high, 0} <= set(codes.tolist())


def unary(kind: str, dtype: DTypeName, *shape: int) -> Graph:
    b = Builder()
    x = b.input("x", dtype, shape)
    b.output(getattr(b, kind)(x))
    return b.graph()


@pytest.mark.parametrize("kind", ["add", "sub", "intdiv"])
def test_inputs_move_away_from_results_that_tosa_leaves_open(kind: str) -> None:
    b = Builder()
    x, y = (b.input(name, "int32", (30, 30)) for name in "xy")
    b.output(getattr(b, kind)(x, y))
    found = find_edge_inputs(b.graph(), 1, {})
    assert found.repairs
    assert Machine(b.graph()).run(found.arrays)
    assert np.abs(found.arrays["x"].astype(np.int64)).max() > 1 << 16


def test_indices_are_first_and_last() -> None:
    b = Builder()
    values = b.const(np.zeros((1, 7, 2)), "fp32")
    b.output(b.gather(values, b.input("index", "int32", (1, 60))))
    index = golden.edge_inputs(b.graph(), 1)["index"]
    assert (index.min(), index.max()) == (0, 6)


@pytest.mark.parametrize("kind", OPERATORS_WITH_FAULTS)
def test_the_program_of_each_operator_runs(kind: str) -> None:
    graph = program(kind)
    Machine(graph).run(golden.edge_inputs(graph, 1))


def test_a_rescale_of_channels_that_is_nowhere_defined_is_left_alone() -> None:
    b = Builder()
    x, z = b.input("x", "int32", (4, 8)), b.input("z", "int32", (4, 8))
    multipliers = [1400000001 - channel for channel in range(8)]
    y = b.rescale(b.bitwise_xor(x, z), multipliers, [20] * 8, per_channel=True, dtype="int16")
    b.output(y)
    Machine(b.graph()).run(golden.edge_inputs(b.graph(), 0))


@pytest.mark.parametrize("is_used", [False, True])
def test_nan_is_cast_to_no_integer_that_is_computed_with(is_used: bool) -> None:
    b = Builder()
    y = b.cast(b.mul(b.input("x", "FP32", (8, 64)), np.full((1, 1), 3, np.float32)), dtype="INT8")
    b.output(b.clamp(y, min_val=-9, max_val=9) if is_used else y)
    x = find_edge_inputs(b.graph(), 0, {}).arrays["x"]
    assert bool(np.isnan(x).any()) != is_used
    assert np.isinf(x).any()


def test_weights_of_nan_bring_no_sum_to_an_edge() -> None:
    b = Builder()
    x = b.input("x", "fp32", (1, 4, 8))
    b.output(b.exp(b.matmul(x, np.full((1, 8, 3), np.nan, np.float32))))
    Machine(b.graph()).run(golden.edge_inputs(b.graph(), 0))


def test_a_range_limits_edges() -> None:
    graph = unary("abs", "fp32", 200)
    x = golden.edge_inputs(graph, 1, ranges=[("x", -2.0, 3.0)])["x"]
    assert (x.min(), x.max()) == (-2, 3)


def test_edges_need_a_seed_that_is_not_negative() -> None:
    with pytest.raises(TosaConvertError, match="-1"):
        golden.edge_inputs(unary("abs", "fp32", 4), -1)


def run(verb: str, words: str) -> int:
    return main.run(main.verb(verb), words.split())


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.tosa"
    tc.save(unary("abs", "fp32", 64), path)
    return path


def test_run_saves_the_edge_inputs(model: Path) -> None:
    assert run("run", "m.tosa --random 1 --edges --engine numpy --save-inputs in.npz") == 0
    expected = golden.edge_inputs(tc.load(model), 1)["x"]
    assert load_npz("in.npz")["x"].tobytes() == expected.tobytes()


#: A backend that is wrong for NaN alone.
NO_NAN = """import numpy as np
def run(model, inputs):
    return {NAME: np.nan_to_num(abs(inputs['x']), posinf=np.inf)}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_check_and_bisect_find_with_edges_what_random_inputs_do_not(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name,) = tc.load(model).main.outputs
    Path("b.py").write_text(NO_NAN.replace("NAME", repr(name)))
    assert run("check", "m.tosa --random 1 --no-edges --against b.py") == 0
    assert "edges" not in capsys.readouterr().out
    assert run("check", "m.tosa --random 1 --edges --against b.py") == 1
    assert "seed" not in capsys.readouterr().out
    assert run("check", "m.tosa --seeds 2 --against b.py --save runs") == 1
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if line.startswith(("seed", "edges-", "2 of"))]
    sets = [f"edges-{seed + more}:" for seed in (0, 1) for more in range(0, 4000, 1000)]
    assert lines == [*sets, "2 of 10 runs agree"]
    assert run("check", "m.tosa --seeds 2 --against b.py --verbose") == 1
    assert "8 of 8 edges of 1 operator, " in capsys.readouterr().out
    saved = load_npz("runs/edges-1/inputs.npz")["x"]
    assert saved.tobytes() == golden.edge_inputs(tc.load(model), 1)["x"].tobytes()
    assert run("bisect", "m.tosa --random 1 --no-edges --against b.py") == 0
    assert run("bisect", "m.tosa --random 1 --against b.py --case case") == 1
    said = capsys.readouterr().out
    assert "edges-1, since random inputs show nothing wrong:" in said
    assert "its own result is wrong: operator #0 ABS" in said
    assert run("check", "case/case.tosa -i case/inputs.npz --against b.py") == 1


def test_json_has_the_coverage(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "m.tosa --random 1 --engine numpy --against m.tosa --json"
    assert run("check", words) in (0, 2)  # without the reference model it is judged by itself
    np.savez("y.npz", **golden.run(model, golden.edge_inputs(model, 1)).outputs)
    words = "m.tosa --random 1 --edges --engine numpy --against y.npz --json"
    capsys.readouterr()
    assert run("check", words) == 0
    row = json.loads(capsys.readouterr().out)
    coverage = golden.edge_coverage(model, golden.edge_inputs(model, 1))
    assert row["edges"]["coverage"]["met"] == coverage.met
    assert row["ok"]


@pytest.mark.parametrize("more", ["--atol 1", "--rtol 1", "--reference out.npz", ""])
def test_recorded_results_and_tolerances_are_for_random_inputs(
    model: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    np.savez("out.npz", **golden.run(model, random=1).outputs)
    against = "out.npz" if not more or "reference" in more else "m.tosa"
    if more.startswith("--reference"):
        against = "out.npz"
    assert run("check", f"m.tosa --random 1 --engine numpy --against {against} {more}") in (0, 2)
    assert "edges" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--edges -i x=x.npy", "--edges needs --random SEED"),
        ("--no-edges -i x=x.npy", "--no-edges needs --random SEED"),
        ("--random 1 --edges -i x=x.npy", "does not apply: -i gives every input"),
        ("--random 1 -i x=x.npy", "--random does not apply: -i gives every input"),
        ("--random 1 --no-edges -i x=x.npy", "--no-edges does not apply: -i gives every input"),
        ("--random 1 --edges --no-edges", "exclude each other"),
        ("--calibration x.npz --no-edges", "exclude each other"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "bisect"])
def test_edges_that_do_not_apply_are_refused(
    model: Path, capsys: pytest.CaptureFixture[str], verb: str, options: str, message: str
) -> None:
    np.save("x.npy", np.zeros(64, np.float32))
    np.savez("x.npz", x=np.zeros((2, 64), np.float32))
    if verb == "bisect" and "calibration" in options:
        pytest.skip("bisect has no --calibration")
    assert run(verb, f"m.tosa --against m.tosa {options}") == 2
    assert message in capsys.readouterr().err
