"""Facts of a TFLite file, its changed bytes, and operators that fail, without the converter."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow, model
from frontends.tflite_schema import ELEMENT_TYPES, OPERATORS

import tosa_convert as tc
from tosa_convert.frontends.tflite.edit_bytes import (
    with_axes_from_start,
    with_first_subgraph,
    with_placeholders,
    without_operators,
)
from tosa_convert.frontends.tflite.failing_operators import (
    CrashError,
    failing_operators,
    in_fork,
    words_on_stderr,
)
from tosa_convert.frontends.tflite.lowerings.find import (
    cut_out,
    find_corrections,
    find_refused,
    without_decomposed,
)
from tosa_convert.frontends.tflite.read import (
    OPERATOR_NAMES,
    DamagedError,
    Operator,
    operator_name,
    read_tflite,
)
from tosa_convert.io.flatbuffer_tables import root_table

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
    x, w, axes, none, s, long, _ = file.tensors
    assert (x.shape, x.scale, x.zero_point, x.scales) == ((-1, 3), 0.5, 3, (0.5,))
    assert (w.scale, w.zero_point, w.scales) == (0.0, 0, (0.5, 0.25))
    assert [one.integers() for one in (axes, none, long, x)] == [[1, -2], [], [], []]
    assert [one.is_state for one in file.tensors] == [one is s for one in file.tensors]
    assert [one.is_empty_constant for one in file.tensors] == [one is none for one in file.tensors]
    (row,) = file.operators
    assert (row.index, row.outputs, row.intermediates, row.custom) == (0, [6], (5, 2), "")
    assert file.operands(row) == [x, w, none, s]
    assert file.operands(row, 4) == [x, w, none, s]
    with pytest.raises(ValueError, match="found 4 operands, expected 3"):
        file.operands(row, 3)
    assert file.takes(row) == {0: 0, 2: 1}
    assert (file.subgraph, file.name, file.other_signatures) == (0, "main", [])
    assert file.operator_making() == {"y": 0}
    assert file.kinds() == {"y": "ADD"}
    assert [file.output_name(one) for one in (6, 0)] == ["y", "x"]
    assert Operator(0, 0, [], []).option(3, "b", 7) == 7
    assert row.option(3, "b", 7) == 7
    axes.data = axes.data[:7]
    assert axes.integers() == []


@pytest.mark.parametrize("number", [-1, 1])
def test_a_subgraph_that_is_not_there_is_damage(number: int) -> None:
    file = read_tflite(model([X, Y], [RELU], [0], [1]))
    assert file.read_subgraph is not None
    assert file.read_subgraph(0).operators[0].code == file.operators[0].code
    with pytest.raises(DamagedError, match=f"has no subgraph {number}$"):
        file.read_subgraph(number)


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


def test_a_name_that_operators_of_two_subgraphs_make_is_ambiguous() -> None:
    """Name neither of two tensors: one of them is corrected, and both have its location."""
    with pytest.raises(tc.TosaConvertError, match='several subgraphs make "y"') as caught:
        list(find_corrections(read_tflite(called("CALL_ONCE", 1))))
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("not-lowered", 'operator 0, which makes "y"')
    assert finding.hint == "convert the model again, or rename the tensors"
    (wanted,) = find_corrections(read_tflite(called("CALL_ONCE", 2)))
    assert (wanted.name, wanted.row.operator) == ("z", "ROUND")


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
    assert found == [("z", "graph_2"), ("y", "graph_1"), ("y", "____")]


@pytest.mark.parametrize("axis", [-1, -2, 0, 1])
def test_axes_of_gather_count_from_the_start(axis: int) -> None:
    rows = [X, TensorRow("i", "int32", (2,)), TensorRow("y", "float32", (2, 2)), Z]
    gather = [OperatorRow("GATHER", (0, 1), (2,), {"axis": one}) for one in (axis, 1, -1)]
    data = model(
        rows, [RELU, *gather, OperatorRow("PACK", (0,), (3,), {"values_count": -1})], [0, 1], [2]
    )
    changed = with_axes_from_start(data, read_tflite(data))
    operators = read_tflite(changed).operators
    assert [one.option(0) for one in operators[1:]] == [axis % 2, 1, 1, -1]
    none = model(rows, gather[1:2], [0, 1], [2])
    assert with_axes_from_start(none, read_tflite(none)) is none


def test_only_a_model_whose_abs_are_all_of_int8_gets_placeholders() -> None:
    wide = TensorRow("f", "float32", (2, 3))
    rows = [BYTES, replace(BYTES, name="y"), wide, replace(wide, name="g")]
    absolute = [OperatorRow("ABS", (0,), (1,)), OperatorRow("ABS", (2,), (3,))]
    relu = OperatorRow("RELU", (2,), (3,))
    for operators, is_changed in (([absolute[0], relu], True), (absolute, False), ([relu], False)):
        data = model(rows, operators, [0, 2], [1, 3])
        found = with_placeholders(data, read_tflite(data))
        kinds = [operator_name(one.code) for one in read_tflite(found).operators]
        kept = [one.operator for one in operators]
        assert kinds == (["HARD_SWISH", *kept[1:]] if is_changed else kept)
        assert (found is data) is not is_changed


def without_field(data: bytes, position: int) -> bytes:
    """Return a model whose main subgraph lacks a field."""
    main = next(root_table(data).tables(2))
    start = main._offset - struct.unpack_from("<i", data, main._offset)[0]
    changed = bytearray(data)
    struct.pack_into("<H", changed, start + 4 + 2 * position, 0)
    return bytes(changed)


@pytest.mark.parametrize("position", [1, 2])
def test_a_subgraph_without_inputs_or_outputs_is_not_cut(position: int) -> None:
    data = without_field(model([X, Y], [RELU], [0], [1]), position)
    with pytest.raises(DamagedError, match="has no inputs or no outputs"):
        without_operators(data, read_tflite(data))


def test_a_model_is_cut_down_to_some_operators() -> None:
    """Values that others make become inputs, and what they need becomes an output."""
    rows = [X, Y, Z, replace(Z, name="w"), replace(Z, name="v")]
    chain = [("RELU", 0, 1), ("NEG", 1, 2), ("ABS", 2, 3), ("EXP", 3, 4)]
    operators = [OperatorRow(kind, (one,), (other,)) for kind, one, other in chain]
    data = model(rows, operators, [0], [2, 4], signature=(["a"], ["b", "c"]))
    file = read_tflite(data)
    rest, cut = cut_out(file, [(1, "NEG"), (3, "EXP")])
    assert (rest.inputs, rest.outputs, rest.output_names) == ([0, 2, 4], [1, 3], ["y", "w"])
    assert [rest.input_name(one) for one in rest.inputs] == ["a", "b", "c"]
    assert (cut.inputs, cut.outputs) == (1, (-2, -3))
    assert [(one.operator, one.where) for one in cut.operators] == [
        ("NEG", 'operator 1, which makes "z"'),
        ("EXP", 'operator 3, which makes "v"'),
    ]
    assert [[part.place for part in one.operands] for one in cut.operators] == [[0], [1]]
    assert [one.results for one in cut.operators] == [(1,), (2,)]
    again = read_tflite(without_operators(data, rest))
    assert (again.inputs, again.outputs, again.input_signature) == ([0, 2, 4], [1, 3], {})
    assert [operator_name(one.code) for one in again.operators] == ["RELU", "ABS"]
    assert len(without_operators(data + b"\0", rest)) % 4 == 0


def test_operators_inside_of_subgraphs_are_refused_without_a_number() -> None:
    wide = [TensorRow(name, "uint32", (2,)) for name in "ab"]
    other = Subgraph(wide, [OperatorRow("RELU", (0,), (1,))], [0], [1])
    row = OperatorRow("CALL_ONCE", (), (), {"init_subgraph_index": 1})
    operators = [OperatorRow("NEG", (0,), (1,)), row, OperatorRow("RESHAPE", (0,), (1,))]
    found = list(find_refused(read_tflite(model(wide, operators, [0], [1], others=[other]))))
    reason = "its integers of uint32 would be taken for signed ones"
    assert [(one.operator, one.index, one.where) for one in found if one.reason == reason] == [
        ("NEG", 0, 'operator 0, which makes "b"'),
        ("RELU", None, 'operator 0, which makes "b"'),
    ]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_operator_of_open_sizes_is_not_decomposed(position: int) -> None:
    """Refuse it if the converter lowers it wrongly."""
    rows = [X, Y, Z]
    rows[position] = replace(rows[position], shape=(-1, 3))
    data = model(rows, [OperatorRow("FLOOR_MOD", (0, 1), (2,))], [0, 1], [2])
    (found,) = find_refused(read_tflite(data))
    assert found.reason.endswith("; it cannot be replaced because sizes are not fixed")
    assert found.hint == "make the model with fixed sizes"
    rows[position] = replace(rows[position], shape=(0, 3))
    file = read_tflite(model(rows, [OperatorRow("FLOOR_MOD", (0, 1), (2,))], [0, 1], [2]))
    assert list(find_refused(file)) == []
    assert without_decomposed(file) == (file, None)


def test_operators_that_keep_bits_take_wide_unsigned_integers() -> None:
    """Or have a decomposition for them."""
    row = TensorRow("x", "uint16", (2, 3))
    kept = set()
    for operator in OPERATORS:
        data = model([row, Y], [OperatorRow(operator, (0, 0), (1,))], [0], [1])
        if not list(find_refused(read_tflite(data))):
            kept.add(operator)
    assert " ".join(sorted(kept)) == (
        "BITWISE_XOR BROADCAST_TO CAST CONCATENATION DYNAMIC_UPDATE_SLICE EXPAND_DIMS FILL GATHER "
        "GATHER_ND IF PACK RESHAPE REVERSE_V2 RIGHT_SHIFT SELECT SELECT_V2 SHAPE SLICE SPLIT "
        "SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE UNPACK VAR_HANDLE WHILE"
    )


def ending(number: int) -> Callable[[Path], NoReturn]:
    def convert(path: Path) -> NoReturn:
        os.write(
            2, b"m.tflite:0: remark\n1: error: Failed VHLO\n2: error: so it is\n3: error: no\n"
        )
        raise CrashError("it ends with SIGABRT") if number else RuntimeError("no")

    return convert


@pytest.mark.parametrize("handle", [13, 14])
@pytest.mark.parametrize(
    ("convert", "said"),
    [
        (ending(0), ": so it is"),
        (ending(1), ": it ends with SIGABRT"),
        (lambda path: (_ for _ in ()).throw(RuntimeError("no")), ""),
        (lambda path: None, None),
    ],
)
def test_operators_are_tried_alone(
    convert: Callable[[Path], Any],
    said: str | None,
    handle: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But those of handles, which another operator makes."""
    rows = [X, Y, TensorRow("c", "int32", (2, 3), np.zeros((2, 3), np.int32)), Z]
    rows.append(TensorRow("h", "handle", ()))
    monkeypatch.setitem(ELEMENT_TYPES, "handle", handle)
    operators = [
        RELU,
        OperatorRow("VAR_HANDLE", (), (4,), {"shared_name": "h"}),
        OperatorRow("ADD", (1, 2, 1, -1), (3,)),
    ]
    data = model(rows, operators, [0], [3])
    path = tmp_path / "m.tflite"
    tried = []

    def recorded(one: Path) -> None:
        file = read_tflite(one.read_bytes())
        kinds = [operator_name(operator.code) for operator in file.operators]
        tried.append((kinds, file.inputs, file.outputs))
        convert(one)

    found = failing_operators(read_tflite(data), data, path, recorded)
    assert tried == [(["RELU"], [0], [1]), (["ADD"], [1], [3])]
    expected = [
        ("RELU", 'operator 0, which makes "y"', f"the converter fails for float32{said}", 0),
        ("ADD", 'operator 2, which makes "z"', f"the converter fails for float32, int32{said}", 2),
    ]
    rows_found = [(one.operator, one.where, one.reason, one.index) for one in found]
    assert rows_found == ([] if said is None else expected)


@pytest.mark.skipif(sys.platform != "linux", reason="converters run in forks on Linux")
def test_a_fork_ends_without_its_parent(tmp_path: Path) -> None:
    done: list[str] = []

    def fails() -> None:
        raise RuntimeError("so it ended")

    in_fork(lambda: (tmp_path / "made").write_text("x"), lambda: done.append("meanwhile"))
    assert ((tmp_path / "made").exists(), done) == (True, ["meanwhile"])
    with pytest.raises(RuntimeError, match=r"^so it ended$"):
        in_fork(fails, lambda: None)
    with pytest.raises(CrashError, match=r"^it ends with SIGKILL$"):
        in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: None)


def test_words_of_foreign_code_are_collected(capfd: pytest.CaptureFixture[str]) -> None:
    with words_on_stderr() as words:
        os.write(2, b"one\ntwo \xff\n")
    os.write(2, b"after\n")
    assert words == ["one", "two \ufffd"]
    assert capfd.readouterr().err == "after\n"
