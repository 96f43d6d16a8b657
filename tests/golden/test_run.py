from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from golden.conftest import MakeBuilder

import tosa_convert as tc
from tosa_convert import api, golden
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import Slot, coerce, load_npy, save_npy
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import draw, random_inputs
from tosa_convert.golden.running.run import iterate_tensors, save_to_folder
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph import Graph, Operator, dtype, operator
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import DTYPES, BlockSize, DType

X = np.array([3, -4, 0, 7], np.int32)


def fails(code: str, call: Callable[[], object]) -> TosaConvertError:
    with pytest.raises(TosaConvertError) as caught:
        call()
    assert caught.value.code == code, caught.value
    return caught.value


@pytest.mark.usefixtures("refmodel")
def test_outputs_come_back_by_name_in_their_own_type(chain: Graph) -> None:
    result = golden.run(chain, {"x": X})
    assert list(result.outputs) == ["c"]
    assert result.outputs["c"].dtype == np.int32
    assert result.outputs["c"].tolist() == (abs(X) + 1 - X).tolist()


@pytest.mark.usefixtures("refmodel")
def test_a_file_and_its_graph_give_the_same_outputs(chain: Graph, tmp_path: Path) -> None:
    tc.save(chain, tmp_path / "m.tosa")
    result = golden.run(tmp_path / "m.tosa", {"x": X})
    assert result.outputs["c"].tolist() == [1, 9, 1, 1]
    assert golden.run((tmp_path / "m.tosa").read_bytes(), {"x": X}).outputs["c"].tolist() == [
        1,
        9,
        1,
        1,
    ]


def test_every_wrong_input_is_reported_before_anything_runs(
    chain: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_model_process, "run", None)
    error = fails("input-mismatch", lambda: golden.run(chain, {"y": X}))
    assert [f.where for f in error.findings] == ['input "x"', 'input "y"']
    assert "missing" in error.findings[0].message
    wrong_type = fails("input-mismatch", lambda: golden.run(chain, {"x": X.astype(np.int64)}))
    assert "found int64, expected int32" in str(wrong_type)
    wrong_shape = fails("input-mismatch", lambda: golden.run(chain, {"x": X[:3]}))
    assert "found shape [3], expected [4]" in str(wrong_shape)
    lossy = fails("input-mismatch", lambda: golden.run(chain, {"x": [1.5, 2, 3, 4]}))
    assert "cannot hold" in str(lossy)


def test_a_dynamic_shape_is_refused_by_name(chain: Graph) -> None:
    chain.main.tensors["x"].shape = (-1,)
    error = fails("unsupported-shape", lambda: golden.run(chain, {"x": X}))
    assert 'input "x"' in str(error)


@pytest.mark.usefixtures("refmodel")
def test_a_refusal_for_data_names_operator_rule_shapes_and_location(chain: Graph) -> None:
    largest = np.full(4, 2**31 - 1, np.int32)
    error = fails("refmodel-refused", lambda: golden.run(chain, {"x": largest}))
    text = str(error)
    assert "operator #2 ADD" in text
    assert 'loc("b")' in text
    assert 'input1 "a" INT32[4], input2 "one" INT32[4]' in text
    assert "overflow" in text
    assert "rule: " in text


@pytest.mark.usefixtures("refmodel")
def test_a_refusal_of_an_element_type_names_the_operator(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "INT64", (2, 2))
    b.op("ABS", ["x"], "y", "INT64", (2, 2))
    whole = b.graph("y")
    assert golden.run(whole, {"x": np.ones((2, 2), np.int64)}).outputs
    b.op("ERF", ["y"], "z", "INT64", (2, 2))
    x = np.ones((2, 2), np.int64)
    error = fails("refmodel-refused", lambda: golden.run(b.graph("z"), {"x": x}))
    assert "operator #1 ERF" in str(error)
    assert '"y" INT64[2, 2]' in str(error)


@pytest.mark.usefixtures("refmodel")
def test_an_abort_of_the_model_is_an_error_that_names_the_operator(builder: MakeBuilder) -> None:
    b = builder()
    b.input("v", "FP32", (1, 3, 2))
    b.input("i", "INT32", (1, 2))
    b.op("GATHER", ["v", "i"], "g", "FP32", (1, 2, 2))
    inputs = {"v": np.zeros((1, 3, 2), np.float32), "i": np.array([[1, 7]], np.int32)}
    error = fails("refmodel-refused", lambda: golden.run(b.graph("g"), inputs))
    assert "operator #0 GATHER" in str(error)
    assert "index(0, 1)=7" in str(error)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(("operator", "rows"), [("GATHER", 3), ("SCATTER", 5)])
def test_an_index_that_is_out_of_range_has_the_range_and_the_inputs_of_the_indices(
    builder: MakeBuilder, operator: str, rows: int
) -> None:
    b = builder()
    b.input("v", "FP32", (1, rows, 2))
    b.input("my tokens", "INT32", (1, 2))
    b.input("x", "FP32", (1, 2, 2))
    b.op("ADD", ["my tokens", "my tokens"], "i", "INT32", (1, 2))
    more = ["x"] if operator == "SCATTER" else []
    b.op(operator, ["v", "i", *more], "y", "FP32", (1, rows if more else 2, 2))
    error = fails("refmodel-refused", lambda: golden.run(b.graph("y"), random=1))
    (finding,) = error.findings
    expected = f'"v" has {rows} rows: indices are 0 to {rows - 1}; for random inputs: '
    assert finding.hint.endswith(f"{expected}--range 'my tokens=0:{rows - 1}'")


def _script(tmp_path: Path, body: str) -> Path:
    program = tmp_path / "model"
    program.write_text(f"#!{sys.executable}\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot run scripts as programs")
def test_a_run_that_does_not_end_is_killed_with_its_children(
    chain: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "grandchild"
    body = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        f"    time.sleep(1.2); open({str(marker)!r}, 'w')\n"
        "time.sleep(60)"
    )
    monkeypatch.setenv(reference_model_process.ENVIRONMENT, str(_script(tmp_path, body)))
    start = time.monotonic()
    fails("refmodel-timeout", lambda: golden.run(chain, {"x": X}, RunOptions(timeout=0.4)))
    assert time.monotonic() - start < 10
    time.sleep(1.2)
    assert not marker.exists()


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300, -1])
def test_a_time_limit_that_no_timer_has_is_refused(seconds: float) -> None:
    for call in (
        lambda: RunOptions(timeout=seconds),
        lambda: golden.open_backend(
            "true", golden.generate(seed=1, operators=2), {}, timeout=seconds
        ),
        lambda: tc.frontends.from_onnx("m.onnx", timeout=seconds),
    ):
        with pytest.raises(TosaConvertError, match="expected seconds from 0 to 4000000"):
            call()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot run scripts as programs")
def test_the_child_has_its_own_session_and_no_debugger(
    chain: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "import os, resource\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write("
        "repr((os.getsid(0), os.environ.get('TOSA_MODEL_NO_BACKTRACE'),"
        " os.environ.get('TOKEN'))))\n"
        "os.abort()"
    )
    monkeypatch.setenv(reference_model_process.ENVIRONMENT, str(_script(tmp_path, body)))
    monkeypatch.setenv("TOKEN", "secret")
    error = fails("refmodel-failed", lambda: golden.run(chain, {"x": X}))
    assert "SIGABRT" in str(error)
    session, no_backtrace, token = eval((tmp_path / "seen").read_text())
    assert session != os.getsid(0)
    assert no_backtrace == "1"
    assert token is None


def test_a_missing_model_is_an_error_with_the_remedy(
    chain: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(reference_model_process.ENVIRONMENT, str(tmp_path / "nothing"))
    error = fails("missing-refmodel", lambda: golden.run(chain, {"x": X}))
    assert "nothing" in str(error)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_element_type_survives_the_models_files(row: DType, builder: MakeBuilder) -> None:
    b = builder()
    generator = np.random.default_rng(7)
    b.input("x", row.name, (3, 32))
    given = {"x": draw(generator, row, (3, 32))}
    result = golden.run(b.graph("x"), given).outputs["x"]
    assert result.dtype == row.numpy
    assert result.tobytes() == given["x"].tobytes()


@pytest.mark.usefixtures("refmodel")
def test_a_block_scaled_tensor_is_two_arrays(builder: MakeBuilder) -> None:
    from tosa_convert.graph import BlockScale
    from tosa_convert.graph.dtypes import BlockShape

    b = builder()
    scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    b.block.inputs.append(b.tensor("x", "FP6E2M3", (2, 64), scale=scale))
    given = random_inputs(b.graph("x"), input_slots(b.graph("x")), 3)
    assert {k: v.shape for k, v in given.items()} == {"x": (2, 64), "x/scale": (2, 2)}
    result = golden.run(b.graph("x"), given)
    assert {k: v.tobytes() for k, v in result.outputs.items()} == {
        k: v.tobytes() for k, v in given.items()
    }


@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (5, 32)])
def test_an_npy_reads_back_bit_for_bit(row: DType, shape: tuple[int, ...], tmp_path: Path) -> None:
    slot = Slot("x", "x", row, shape)
    array = draw(np.random.default_rng(1), row, shape)
    save_npy(tmp_path / "x.npy", slot, array)
    back = load_npy(tmp_path / "x.npy", slot)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    constant = constant_of(array, slot.dtype)
    assert constant.numpy().tobytes() == array.tobytes()


def test_arrays_that_numpy_reads_as_opaque_bytes_are_accepted(tmp_path: Path) -> None:
    array = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    np.savez(tmp_path / "a.npz", x=array)
    loaded = np.load(tmp_path / "a.npz")["x"]
    assert loaded.dtype.kind == "V"
    assert (coerce(Slot("x", "x", dtype("BF16"), (2, 3)), loaded) == array).all()
    fails("input-mismatch", lambda: coerce(Slot("x", "x", dtype("FP32"), (2, 3)), loaded))
    # The same bits are other numbers in another type.
    fails("input-mismatch", lambda: coerce(Slot("x", "x", dtype("FP16"), (2, 3)), array))
    codes = np.array([1, 2], np.uint8)
    assert coerce(Slot("x", "x", dtype("FP8E5M2"), (2,)), codes).view(np.uint8).tolist() == [1, 2]
    fails("input-mismatch", lambda: coerce(Slot("x", "x", dtype("INT8"), (2,)), codes))
    eight = np.array([-8], np.int8)
    fails("input-mismatch", lambda: coerce(Slot("x", "x", dtype("INT4"), (1,)), eight))
    fails("input-mismatch", lambda: coerce(Slot("x", "x", dtype("INT48"), (1,)), np.array([2**47])))


def _counter(builder: MakeBuilder) -> Graph:
    b = builder()
    b.input("x", "INT32", (2,))
    initial = constant_of(np.array([10, 20]), dtype("INT32"))
    b.tensor("v", "INT32", (2,), data=initial, variable=True, variable_name="state")
    b.op("VARIABLE_READ", ["v"], "old", "INT32", (2,))
    b.op("ADD", ["old", "x"], "new", "INT32", (2,))
    b.block.operators.append(Operator(operator("VARIABLE_WRITE"), ("new",), ("v",)))
    return b.graph("old")


@pytest.mark.usefixtures("refmodel")
def test_variables_go_in_and_come_out_by_name(builder: MakeBuilder) -> None:
    graph = _counter(builder)
    x = np.array([1, 2], np.int32)
    first = golden.run(graph, {"x": x})
    assert first.outputs["old"].tolist() == [10, 20]
    assert list(first.outputs) == ["old"]
    assert first.variables["state"].tolist() == [11, 22]
    second = golden.run(graph, {"x": x}, variables=first.variables)
    assert second.variables["state"].tolist() == [12, 24]
    assert graph.main.tensors["v"].data is not None
    assert graph.main.tensors["v"].data.numpy().tolist() == [10, 20]
    error = fails("input-mismatch", lambda: golden.run(graph, {"x": x}, variables={"no": x}))
    assert "'state'" in str(error)


@pytest.mark.usefixtures("refmodel")
def test_a_program_with_variables_runs_whatever_its_main_block_is_called(
    builder: MakeBuilder, tmp_path: Path
) -> None:
    graph = _counter(builder)
    graph.main.name = "another"
    x = np.array([1, 2], np.int32)
    assert golden.run(graph, {"x": x}).variables["state"].tolist() == [11, 22]
    graph.main.operators.pop()  # the variable is only read, and the file is run as it is
    api.save(graph, tmp_path / "m.tosa")
    assert golden.run(tmp_path / "m.tosa", {"x": x}).outputs["old"].tolist() == [10, 20]


@pytest.mark.usefixtures("refmodel")
def test_precise_and_bounds_give_doubles(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "FP16", (1, 2, 3))
    b.op("REDUCE_SUM", ["x"], "s", "FP16", (1, 2, 1), axis=2)
    x = np.array([[[1, -2, 3], [0.1, 0.2, 0.3]]], np.float16)
    graph = b.graph("s")
    assert golden.run(graph, {"x": x}).outputs["s"].dtype == np.float16
    result = golden.run(graph, {"x": x}, RunOptions(bounds=True))
    exact = x.astype(np.float64)
    assert result.outputs["s"].dtype == np.float64
    assert np.array_equal(result.outputs["s"], exact.sum(2, keepdims=True))
    assert np.array_equal(result.bounds["s"], abs(exact).sum(2, keepdims=True))


@pytest.mark.parametrize("engine", ["numpy", "reference-model"])
def test_scales_of_blocks_are_doubles_too_if_precise(
    builder: MakeBuilder, engine: Engine, request: pytest.FixtureRequest
) -> None:
    if engine != "numpy":
        request.getfixturevalue("refmodel")
    b = builder()
    b.input("x", "FP32", (1, 32))
    b.tensor("d", "FP8E5M2", (1, 32))
    b.tensor("s", "FP8UE8M0", (1, 1))
    size: dict[str, Any] = {"block_size": BlockSize.BLOCK_SIZE_32}
    b.block.operators.append(Operator(operator("CAST_TO_BLOCK_SCALED"), ("x",), ("d", "s"), size))
    options = RunOptions(precise=True, engine=engine)
    found = golden.run(b.graph("d", "s"), {"x": np.full((1, 32), 3, np.float32)}, options).outputs
    assert {name: str(array.dtype) for name, array in found.items()} == dict.fromkeys(
        ("d", "s"), "float64"
    )


def test_random_inputs_depend_on_seed_and_name_only(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "FP32", (8,))
    one = random_inputs(b.graph("x"), input_slots(b.graph("x")), 5)["x"]
    b.input("w", "INT8", (4,))
    b.block.inputs.reverse()
    both = random_inputs(b.graph("x"), input_slots(b.graph("x")), 5)
    assert both["x"].tobytes() == one.tobytes()
    other = random_inputs(b.graph("x"), input_slots(b.graph("x")), 6)["x"]
    assert other.tobytes() != one.tobytes()


def test_random_indices_stay_within_what_they_index(builder: MakeBuilder) -> None:
    b = builder()
    b.input("v", "FP32", (1, 3, 2))
    b.input("i", "INT32", (1, 500))
    b.op("GATHER", ["v", "i"], "g", "FP32", (1, 500, 2))
    graph = b.graph("g")
    indices = random_inputs(graph, input_slots(graph), 1)["i"]
    assert (indices.min(), indices.max()) == (0, 2)


@pytest.mark.usefixtures("refmodel")
def test_intermediates_come_with_operator_and_location(chain: Graph) -> None:
    result = golden.run(chain, {"x": X}, intermediates="*")
    assert {k: v.tolist() for k, v in result.intermediates.items()} == {
        "a": [3, 4, 0, 7],
        "b": [4, 5, 1, 8],
        "c": [1, 9, 1, 1],
    }
    items = list(iterate_tensors(chain, {"x": X}, ["b"]))
    assert [(i.name, i.operator, i.location) for i in items] == [
        ("b", "operator #2 ADD", 'loc("b")')
    ]
    fails("undefined-name", lambda: list(iterate_tensors(chain, {"x": X}, ["nothing*"])))


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("batch_bytes", [1, 16, 33, 1 << 20])
def test_the_batch_size_changes_no_value(chain: Graph, batch_bytes: int) -> None:
    values = {
        i.name: i.arrays[i.name].tolist()
        for i in iterate_tensors(chain, {"x": X}, batch_bytes=batch_bytes)
    }
    assert values == {"a": [3, 4, 0, 7], "b": [4, 5, 1, 8], "c": [1, 9, 1, 1]}


@pytest.mark.usefixtures("refmodel")
def test_a_batch_starts_from_the_previous_one_and_its_files_are_removed(
    chain: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.golden.running import run_graph

    seen: list[tuple[list[str], list[str]]] = []
    real = run_graph.execute

    def spy(graph: Any, folder: Any, *given: Any, **more: Any) -> Any:
        kinds = [op.spec.name for op in graph.main.operators]
        seen.append((kinds, graph.main.inputs))
        assert len(list(folder.glob("t*.npy"))) <= 2
        return real(graph, folder, *given, **more)

    monkeypatch.setattr("tosa_convert.golden.running.run.execute", spy)
    assert len(list(iterate_tensors(chain, {"x": X}, batch_bytes=1))) == 3
    assert seen == [(["ABS"], ["x"]), (["CONST", "ADD"], ["a"]), (["SUB"], ["x", "b"])]


@pytest.mark.usefixtures("refmodel")
def test_a_folder_of_intermediates_has_safe_unique_names(
    builder: MakeBuilder, tmp_path: Path
) -> None:
    b = builder()
    b.input("x", "INT32", (1,))
    b.op("ABS", ["x"], "../a", "INT32", (1,))
    b.op("ABS", ["../a"], "_/a", "INT32", (1,))
    rows = save_to_folder(
        iterate_tensors(b.graph("_/a"), {"x": np.array([-1], np.int32)}), tmp_path / "d"
    )
    files = [str(row["file"]) for row in rows]
    assert len(set(files)) == 2
    assert all(np.load(tmp_path / "d" / f).tolist() == [1] for f in files)
    assert [row["name"] for row in rows] == ["../a", "_/a"]


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("wrong", [0, 3, 9])
def test_an_operator_that_the_model_refuses_without_a_name_is_found(
    builder: MakeBuilder, wrong: int
) -> None:
    b = builder()
    b.input("x", "FP32", (2, 3))
    b.input("y", "FP32", (2, 2))
    current = "x"
    for i in range(10):
        other = "y" if i == wrong else current
        current = b.op("ADD", [current, other], f"t{i}", "FP32", (2, 3))
    inputs = {"x": np.ones((2, 3), np.float32), "y": np.ones((2, 2), np.float32)}
    error = fails("refmodel-refused", lambda: golden.run(b.graph(current), inputs))
    assert f"operator #{wrong} ADD" in str(error)
    assert 'input2 "y" FP32[2, 2]' in str(error)
    assert "do not fit one another" in str(error)


@pytest.mark.usefixtures("refmodel")
def test_a_refused_file_is_not_touched(builder: MakeBuilder, tmp_path: Path) -> None:
    b = builder()
    b.input("x", "FP32", (2, 3))
    b.input("y", "FP32", (2, 2))
    b.op("ADD", ["x", "y"], "z", "FP32", (2, 3))
    tc.save(b.graph("z"), tmp_path / "m.tosa", validate=False)
    before = (tmp_path / "m.tosa").read_bytes()
    inputs = {"x": np.ones((2, 3), np.float32), "y": np.ones((2, 2), np.float32)}
    fails("refmodel-refused", lambda: golden.run(tmp_path / "m.tosa", inputs))
    assert (tmp_path / "m.tosa").read_bytes() == before


@pytest.mark.usefixtures("refmodel")
def test_a_variable_that_nothing_uses_does_not_prevent_a_run(
    builder: MakeBuilder, tmp_path: Path
) -> None:
    b = builder()
    b.input("x", "INT32", (2,))
    initial = constant_of(np.array([10, 20]), dtype("INT32"))
    b.tensor("v", "INT32", (2,), data=initial, variable=True, variable_name="state")
    b.op("ABS", ["x"], "y", "INT32", (2,))
    graph = b.graph("y")
    tc.save(graph, tmp_path / "m.tosa")
    for program in (graph, tmp_path / "m.tosa"):
        result = golden.run(program, {"x": np.array([-1, 2], np.int32)})
        assert result.outputs["y"].tolist() == [1, 2]
        assert result.variables["state"].tolist() == [10, 20]


@pytest.mark.usefixtures("refmodel")
def test_exponents_of_shapes_run_without_a_level(builder: MakeBuilder) -> None:
    from tosa_convert.graph import ShapeValue

    b = builder()
    b.input("x", "INT32", (8,))
    b.shape("s", [1, 2])
    b.block.shapes["t"] = ShapeValue("t", 2)
    b.block.operators.append(Operator(operator("EXP2_SHAPE"), ("s",), ("t",)))
    b.op("RESHAPE", ["x", "t"], "y", "INT32", (2, 4))
    x = np.arange(8, dtype=np.int32)
    assert golden.run(b.graph("y"), {"x": x}).outputs["y"].shape == (2, 4)


@pytest.mark.usefixtures("refmodel")
def test_an_invalid_region_is_reported_at_the_operator_that_runs_it(builder: MakeBuilder) -> None:
    from golden.test_regions import SHAPE, branches, inputs

    graph = branches()
    region = graph.regions[1].blocks[0]
    region.tensors["lonely"] = tc.graph.Tensor("lonely", dtype("INT32"), SHAPE)
    error = fails("refmodel-refused", lambda: golden.run(graph, inputs(True)))
    assert "operator #1 COND_IF" in str(error)


def test_a_file_that_is_not_an_archive_is_a_file_error(tmp_path: Path) -> None:
    from tosa_convert.golden.arrays import load_npz, open_npz

    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    (tmp_path / "text.npz").write_text("nothing")
    for name in ("a.npz", "text.npz", "missing.npz"):
        fails("file-error", partial(load_npz, tmp_path / name))
        fails("file-error", partial(open_npz, tmp_path / name))


def test_random_indices_fit_the_rows_behind_a_cast(builder: MakeBuilder) -> None:
    b = builder()
    x = b.input("x", "INT64", (1, 64))
    cast = b.op("CAST", [x], "cast", "INT32", (1, 64))
    shape = b.shape("shape", [4, 16])
    moved = b.op("RESHAPE", [cast, shape], "moved", "INT32", (4, 16))
    b.const("values", "FP32", np.zeros((4, 7, 3)))
    graph = b.graph(b.op("GATHER", ["values", moved], "y", "FP32", (4, 16, 3)))
    found = random_inputs(graph, input_slots(graph), 0)["x"]
    assert found.min() == 0
    assert found.max() == 6
