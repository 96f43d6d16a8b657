"""Files of TOSA 0.80, written with the `flatbuffers` package, are read as programs of today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusing import error_of
from unit.both_readers import IN_COLUMNS
from unit.outside_flatbuffer import write

import tosa_convert as tc
from tosa_convert.eras.editor import Upgrade
from tosa_convert.formats.flatbuffer import tosa_080
from tosa_convert.formats.flatbuffer.columns import Columns

INT8, UINT8, INT32, FP32, BF16, BOOL = 4, 2, 6, 8, 11, 1
#: attribute_type -> table.
KINDS = {
    number: f"{name}Of080"
    for number, name in {
        1: "Pool",
        2: "Conv",
        3: "TransposeConv",
        4: "Pad",
        5: "Axis",
        6: "Reshape",
        9: "Resize",
        10: "Clamp",
        11: "Rescale",
        12: "Mul",
        17: "Table",
        18: "MatMul",
        19: "FullyConnected",
        21: "Custom",
    }.items()
}
Type = tuple[int, list[int]]


def file(
    code: int,
    kind: int,
    attribute: dict[str, Any],
    inputs: list[Type],
    output: Type,
    minor: int = 80,
    data: bytes = b"",
) -> bytes:
    """Return a program of one operator, whose last input is a constant if there is data."""
    names = [f"i{index}" for index in range(len(inputs))]
    tensors = [
        {"name": name, "shape": shape, "type": element}
        for name, (element, shape) in zip([*names, "o"], [*inputs, output], strict=True)
    ]
    operator: dict[str, Any] = {"op": code, "inputs": names, "outputs": ["o"]}
    if kind:
        operator |= {"attribute_type": kind, "attribute": attribute}
    operators = [operator]
    arguments = names
    if data:
        tensors[-2]["data"] = data
        operators.insert(0, {"op": 64, "inputs": [], "outputs": names[-1:]})
        arguments = names[:-1]
    block = {
        "name": "main",
        "operators": operators,
        "tensors": tensors,
        "inputs": arguments,
        "outputs": ["o"],
    }
    version = {"_major": 0, "_minor": minor, "_patch": 1, "_draft": False}
    graph = {"version": version, "regions": [{"name": "main", "blocks": [block]}]}
    return write(graph, KINDS)


def refused(data: bytes) -> tc.TosaConvertError:
    return error_of(tc.load, data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (file(72, 5, {"axis": 0}, [(FP32, [2])], (INT32, [1])), "cannot-upgrade"),
        (file(11, 0, {}, [(FP32, [2])], (FP32, [2])), "cannot-upgrade"),
        (file(99, 0, {}, [(FP32, [2])], (FP32, [2])), "cannot-upgrade"),
        (file(3, 0, {}, [(INT8, [1, 4, 4, 2])] * 3, (INT32, [1])), "malformed-operator"),
        (file(3, 5, {"axis": 0}, [(INT8, [1, 4, 4, 2])] * 3, (INT32, [1])), "malformed-operator"),
        (file(14, 0, {}, [(12, [2]), (FP32, [2])], (FP32, [2])), "unsupported-dtype"),
        (file(14, 0, {}, [(FP32, [-7]), (FP32, [2])], (FP32, [2])), "malformed-tensor"),
        (file(14, 0, {}, [(FP32, [2])] * 2, (FP32, [2]), data=b"123"), "data-length"),
        (file(31, 0, {}, [(UINT8, [2])], (UINT8, [2])), "cannot-upgrade"),
        (file(53, 4, {"padding": [1, 1], "pad_const_int": 300}, [(INT8, [2])], (INT8, [4])),
         "cannot-upgrade"),
    ],
)  # fmt: skip
def test_what_a_damaged_or_inexpressible_file_has_is_refused(data: bytes, code: str) -> None:
    assert code in {finding.code for finding in refused(data).findings}


def block_of(operators: list[dict[str, Any]], tensors: list[dict[str, Any]]) -> bytes:
    """Return a program of these operators, whose results are not used."""
    block = {"name": "main", "operators": operators, "tensors": tensors, "inputs": ["x"]}
    version = {"_major": 0, "_minor": 80, "_patch": 1, "_draft": False}
    return write({"version": version, "regions": [{"name": "main", "blocks": [block]}]}, KINDS)


def add(left: str, right: str = "x", result: str = "y", **changes: Any) -> dict[str, Any]:
    return {"op": 14, "inputs": [left, right], "outputs": [result]} | changes


X_AND_Y = [{"name": name, "shape": [2], "type": FP32} for name in "xy"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Two of each kind, and a sound one last: nothing ends the reading of the others."""
    operators = [
        {"op": 0, "inputs": ["x"], "outputs": ["y"]},
        {"op": 73, "inputs": ["x"], "outputs": ["y"]},
        add("x", attribute_type=5, attribute={"axis": 0}),
        {"op": 51, "inputs": ["x"], "outputs": ["y"]},
        add("nowhere"),
        add("x", result="never"),
        add("x"),
    ]
    assert [row.message for row in refused(block_of(operators, X_AND_Y)).findings] == [
        "operator code 0 (UNKNOWN) of TOSA 0.80 is not one of 1.0",
        "operator code 73 of TOSA 0.80 is not one of 1.0",
        "ADD has attributes of kind 5, expected 0",
        "REDUCE_SUM has attributes of kind 0, expected 5",
        'ADD uses "nowhere", which the block does not have',
        'ADD uses "never", which the block does not have',
    ]
    tensors = [
        {"name": "a", "shape": [2], "type": 0},
        {"name": "b", "shape": [2], "type": 12},
        {"name": "c", "shape": [-2], "type": FP32},
        {"name": "d", "shape": [1, -3], "type": FP32},
        {"name": "e", "shape": [-1], "type": INT8, "data": b"1"},
        {"name": "f", "shape": [2], "type": INT8, "data": b"1"},
    ]
    assert [
        row.message for row in refused(block_of([add("x")], [*tensors, *X_AND_Y])).findings
    ] == [
        "its type is number 0 of TOSA 0.80",
        "its type is number 12 of TOSA 0.80",
        "its shape is [-2]",
        "its shape is [1, -3]",
        "it has data, and its shape is not static",
        "it has 1 bytes of data, expected 2",
    ]


def test_an_identity_of_a_variable_reads_or_writes_it() -> None:
    state = {"name": "v", "shape": [2], "type": FP32, "variable": True, "variable_name": "s"}
    operators = [
        {"op": 65, "inputs": ["v"], "outputs": ["y"]},
        {"op": 65, "inputs": ["x"], "outputs": ["v"]},
        {"op": 65, "inputs": ["x"], "outputs": ["z"]},
        add("v", result="w"),
    ]
    names = [{"name": name, "shape": [2], "type": FP32} for name in "zw"]
    found = tc.load(block_of(operators, [*X_AND_Y, *names, state])).main
    assert [op.spec.name for op in found.operators[-4:]] == [
        *("VARIABLE_READ", "VARIABLE_WRITE", "IDENTITY", "ADD")
    ]
    assert found.tensors["v"].variable
    assert found.tensors["v"].variable_name == "s"


FOLDER = Path(__file__).parents[2] / "old_programs"


def test_two_values_of_one_name_are_a_finding() -> None:
    data = (FOLDER / "rank_broadcast-0.80.tosa").read_bytes()
    assert data.count(b"i1\0") == 1
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(data.replace(b"i1\0", b"i0\0"))
    assert "duplicate-name" in {finding.code for finding in caught.value.findings}


def test_tables_are_charged() -> None:
    def used(count: int) -> int:
        rows = [{"name": f"{index:03}", "shape": [], "type": FP32} for index in range(count)]
        columns = Columns(memoryview(block_of([], [*X_AND_Y, *rows])), IN_COLUMNS, tosa_080._TABLES)
        before = columns.budget
        tosa_080._Reader(columns, Upgrade()).graph()
        return before - columns.budget

    # 600 for the table, and what a name of three characters and its entries take.
    assert used(21) - used(20) == 861
