"""Facts of a TFLite file, its changed bytes, and operators that fail, without the converter."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends import tflite_models
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow, model
from frontends.tflite_schema import ELEMENT_TYPES, OPERATORS

import tosa_convert as tc
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.process.request import Request
from tosa_convert.frontends.tflite.convert import lower
from tosa_convert.frontends.tflite.read import (
    OPERATOR_NAMES,
    DamagedError,
    Operator,
    operator_name,
    read_tflite,
    with_first_subgraph,
)
from tosa_convert.frontends.tflite.table import RULES
from tosa_convert.frontends.tflite.walk import constant_of
from tosa_convert.io.flatbuffer_tables import FlatbufferError, root_table

X, Y, Z = (TensorRow(name, "float32", (2, 3)) for name in "xyz")
BYTES = TensorRow("x", "int8", (2, 3), scales=(0.5,), zero_points=(3,))
RELU = OperatorRow("RELU", (0,), (1,))


@pytest.mark.parametrize(
    ("dtype", "code", "shape", "size"),
    [
        *((dtype, code, (3,), 3 * np.dtype(dtype).itemsize) for dtype, code in ELEMENT_TYPES.items()
          if dtype != "resource"),
        ("int4", 17, (3,), 2),
        ("int4", 17, (2, 2), 2),
        ("bfloat16", 18, (3,), 6),
        ("complex128", 11, (3,), 48),
    ],
)  # fmt: skip
def test_a_constant_has_the_bytes_of_its_shape(
    dtype: str, code: int, shape: tuple[int, ...], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ELEMENT_TYPES, dtype, code)
    for more in (-1, 0, 1):
        constant = TensorRow("c", dtype, shape, np.zeros(size + more, np.int8))
        data = model([X, constant], [], [0], [0])
        if more:
            with pytest.raises(
                DamagedError, match=f'"c" has {size + more} bytes, .* needs {size}$'
            ):
                read_tflite(data)
        else:
            assert read_tflite(data).tensors[1].dtype == dtype


def test_operators_are_named_by_their_codes() -> None:
    last = len(OPERATOR_NAMES)
    assert operator_name(0) == "ADD"
    assert operator_name(last - 1) == "STABLEHLO_CASE"
    assert operator_name(last) == f"operator {last}"
    assert operator_name(-1) == "operator -1"


def test_facts_of_tensors_and_operators() -> None:
    rows = [
        replace(BYTES, name="x", shape=(-1, 3)),
        TensorRow("w", "int8", (2, 3), np.ones(6, np.int8), (0.5, 0.25), (0, 0)),
        TensorRow("axes", "int32", (2,), np.array([1, -2], np.int32)),
        TensorRow("none", "int32", (0,), np.zeros(0, np.int32)),
        TensorRow("s", "int16", (2,), is_variable=True),
        TensorRow("long", "int64", (1,), np.array([1], np.int64)),
        Y,
    ]
    operator = OperatorRow("ADD", (0, -1, 1, 3, 4), (6,), {}, 1, (5, 2))
    file = read_tflite(model(rows, [operator], [0], [6]))
    x, w, _, none, s, _, _ = file.tensors
    assert (x.shape, x.scale, x.zero_point, x.scales) == ((-1, 3), 0.5, 3, (0.5,))
    assert (w.scale, w.zero_point, w.scales) == (0.0, 0, (0.5, 0.25))
    assert [one.is_state for one in file.tensors] == [one is s for one in file.tensors]
    (row,) = file.operators
    assert (row.index, row.outputs, row.intermediates, row.custom) == (0, [6], (5, 2), "")
    assert file.operands(row) == [x, w, none, s]
    assert (file.subgraph, file.name, file.other_signatures) == (0, "main", [])
    assert file.operator_making() == {"y": 0}
    assert file.kinds() == {"y": "ADD"}
    assert [file.output_name(one) for one in (6, 0)] == ["y", "x"]
    assert Operator(0, 0, [], []).option(3, "b", 7) == 7
    assert row.option(3, "b", 7) == 7


def test_old_files_have_codes_of_one_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    def old(b: Any, operator: str, _: int) -> int:
        return tflite_models._table(b, 4, {}, {0: ("Int8", OPERATORS[operator][0])})

    monkeypatch.setattr(tflite_models, "_code", old)
    data = model([X, Y], [RELU], [0], [1])
    assert [operator_name(one.code) for one in read_tflite(data).operators] == ["RELU"]


def test_a_constant_that_tosa_does_not_have_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ELEMENT_TYPES, "string", 5)
    path = tmp_path / "m.tflite"
    path.write_bytes(model([X, TensorRow("c", "string", (1,), np.zeros(1, np.int8))], [], [0], [1]))
    (problem,) = lower(Request(frontend="tflite", source=str(path)), tmp_path).not_lowered
    assert (problem.operator, problem.where) == ("the model", "")
    assert problem.reason == "TOSA does not have the element type string"


@pytest.mark.parametrize(("code", "what"), [(5, "string"), (99, "of its tensor")])
def test_an_input_of_a_type_that_tosa_does_not_have_is_named(
    code: int, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ELEMENT_TYPES, "other", code)
    path = tmp_path / "m.tflite"
    path.write_bytes(model([TensorRow("x", "other", (1,)), Y], [RELU], [0], [1]))
    (problem,) = lower(Request(frontend="tflite", source=str(path)), tmp_path).not_lowered
    assert (problem.operator, problem.where) == ("an input", "x")
    assert problem.reason == f"TOSA does not have the element type {what}"


def test_damage_of_options_is_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_: object) -> None:
        raise FlatbufferError("an offset leads out of it")

    monkeypatch.setitem(RULES, "RELU", damaged)
    path = tmp_path / "m.tflite"
    path.write_bytes(model([X, Y], [RELU], [0], [1]))
    with pytest.raises(tc.TosaConvertError, match="file is damaged: an offset leads out of it"):
        lower(Request(frontend="tflite", source=str(path)), tmp_path)


def test_a_sparse_constant_is_refused() -> None:
    rows = [X, Y, TensorRow("w", "float32", (1,), np.ones(1, np.float32))]
    tensor = read_tflite(model(rows, [RELU], [0], [1])).tensors[2]
    assert constant_of(tensor).shape == (1,)
    with pytest.raises(NotLowered, match='"w" is stored as a sparse one'):
        constant_of(replace(tensor, is_sparse=True))


@pytest.mark.parametrize("row", [((2,), (1,)), ((0,), (2,)), ((-2,), (1,)), ((0,), (-2,))])
def test_tensors_that_are_not_there_are_damage(row: tuple[Any, Any]) -> None:
    with pytest.raises(DamagedError, match="names a tensor that it does not have"):
        read_tflite(model([X, Y], [OperatorRow("RELU", *row)], [0], [1]))


@pytest.mark.parametrize("number", [-1, 1])
def test_a_subgraph_that_is_not_there_is_damage(number: int) -> None:
    file = read_tflite(model([X, Y], [RELU], [0], [1]))
    assert file.read_subgraph is not None
    assert file.read_subgraph(0).operators[0].code == file.operators[0].code
    with pytest.raises(DamagedError, match=f"has no subgraph {number}$"):
        file.read_subgraph(number)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"z": (2, 3)},
            r"--input-shape z: error: the model has no input of this name; it has x \[-1, 3\]",
        ),
        ({"x": (2, 3, 1)}, r"found the shape \[2, 3, 1\], the model has \[-1, 3\]"),
        ({"x": (2, 4)}, r"found the shape \[2, 4\], the model has \[-1, 3\]"),
        ({"x": (2, 3), "arg0": (5, 3)}, r"the sizes \[2, 3\] by another of its names"),
        ({"x": (-1, 3)}, ""),
        ({"arg0": (5, 3)}, ""),
    ],
)
def test_shapes_are_those_of_inputs(
    shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(model([replace(X, shape=(-1, 3)), Y], [RELU], [0], [1]))
    request = Request(frontend="tflite", source=str(path), input_shapes=shapes)
    if message:
        with pytest.raises(tc.TosaConvertError, match=message):
            lower(request, tmp_path)
    else:
        assert lower(request, tmp_path).inputs[0].shape == (-1, 3)


@pytest.mark.parametrize("partial", [False, True])
def test_the_file_that_runs_a_signature_begins_with_its_subgraph(
    partial: bool, tmp_path: Path
) -> None:
    path, folder = tmp_path / "m.tflite", tmp_path / "made"
    folder.mkdir()
    second = Subgraph([X, Y], [OperatorRow("ABS", (0,), (1,))], [0], [1])
    path.write_bytes(model([X, Y], [RELU], [0], [1], others=[second], other_signatures=["abs"]))
    request = Request(frontend="tflite", source=str(path), func="abs", partial=partial)
    made = lower(request, folder)
    assert made.kinds == {"y": "ABS"}
    assert made.model == ("" if partial else "m.tflite")
    if not partial:
        first = read_tflite((folder / made.model).read_bytes())
        assert [operator_name(row.code) for row in first.operators] == ["ABS"]


def test_a_size_that_the_program_would_hold_is_refused_by_its_operator(tmp_path: Path) -> None:
    rows = [
        replace(X, shape=(-1, 3)),
        TensorRow("n", "int32", (2,)),
    ]
    rows += [
        TensorRow("zero", "int32", (1, 1), np.zeros((1, 1), np.int32)),
        TensorRow("y", "int32", (2, 3)),
    ]
    operators = [OperatorRow("SHAPE", (0,), (1,)), OperatorRow("TILE", (2, 1), (3,))]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(rows, operators, [0], [3]))
    (problem,) = lower(Request(frontend="tflite", source=str(path)), tmp_path).not_lowered
    assert problem.operator == "the model"
    assert "sizes that are not fixed" in problem.reason
    assert "--input-shape x=1x3" in problem.hint


def called(operator: str, *numbers: int) -> bytes:
    """Return a model whose first operator calls subgraphs, of which the last one has a body."""
    names = {
        "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
        "IF": ("then_subgraph_index", "else_subgraph_index"),
        "CALL_ONCE": ("init_subgraph_index",),
    }[operator]
    others = [
        Subgraph([X, Y], [OperatorRow("ROUND", (0,), (1,))], [0], [1]),
        Subgraph([X, Z], [OperatorRow("ROUND", (0,), (1,))], [0], [1]),
    ]
    row = OperatorRow(operator, (0,), (1,), dict(zip(names, numbers, strict=True)))
    return model([X, Y], [row], [0], [1], others=others, other_signatures=["one", "two"])


@pytest.mark.parametrize(("number", "is_called"), [(1, True), (2, False)])
def test_a_subgraph_that_is_called_does_not_change_its_place(number: int, is_called: bool) -> None:
    data = called("WHILE", 1, 1)
    if is_called:
        with pytest.raises(tc.TosaConvertError, match="WHILE calls the subgraph") as caught:
            with_first_subgraph(data, number)
        assert caught.value.findings[0].hint == "export the model with this signature alone"
        return
    first = read_tflite(with_first_subgraph(data, number))
    assert first.read_subgraph is not None
    graphs = [first, *map(first.read_subgraph, (1, 2))]
    found = [(one.tensors[1].name, one.name) for one in graphs]
    assert found == [("z", "graph_2"), ("y", "graph_1"), ("y", "main")]


def test_subgraphs_inside_of_their_list_do_not_change_places() -> None:
    data = bytearray(called("CALL_ONCE", 1))
    start, _ = root_table(data).vector(2)
    struct.pack_into("<I", data, start, 0)
    with pytest.raises(DamagedError, match="has its subgraphs inside of their list"):
        with_first_subgraph(bytes(data), 1)


@pytest.mark.parametrize("is_inside", [False, True])
def test_what_cannot_be_cut_out_is_said(is_inside: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    where = OperatorRow("WHERE", (0,), (1,))
    if is_inside:
        call = OperatorRow("CALL", (0,), (1,), {"subgraph": 1})
        data = model([X, Y], [call], [0], [1], others=[Subgraph([X, Y], [where], [0], [1])])
    else:
        state = TensorRow("s", "float32", (2, 3), is_variable=True)
        data = model([X, Y, state], [replace(where, inputs=(0, 2))], [0], [1])
    path.write_bytes(data)
    request = Request(frontend="tflite", source=str(path), partial=True)
    (problem,) = lower(request, tmp_path).not_lowered
    why = "it is inside a loop or a branch" if is_inside else "it has a state"
    assert problem.operator == "WHERE"
    assert problem.reason.startswith(f"it cannot be cut out: {why}")
