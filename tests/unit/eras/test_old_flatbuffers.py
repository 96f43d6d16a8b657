"""Files of TOSA 0.80, written with the `flatbuffers` package, are read as programs of today."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from unit.both_readers import IN_COLUMNS
from unit.outside_flatbuffer import write

import tosa_convert as tc
from tosa_convert.eras.old_operations import Upgrade
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


def fp32(value: float) -> bytes:
    return struct.pack("<f", value)


CONV = {"pad": [0, 0, 0, 0], "stride": [1, 1], "dilation": [1, 1]}
ZP = '%{} = "tosa.const"() <{{values = dense<{}> : tensor<1x{}>}}> : () -> tensor<1x{}>'


def zero_point(name: str, value: int | str, element: str) -> str:
    return ZP.format(name, value, element, element)


#: Name -> the file, and the program of today: arguments, lines, type of the result.
PROGRAMS: dict[str, tuple[bytes, str, list[str], str]] = {
    "conv2d": (
        file(3, 2, CONV | {"input_zp": 3, "weight_zp": -1},
             [(INT8, [1, 4, 4, 2]), (INT8, [3, 2, 2, 2]), (INT32, [3])], (INT32, [1, 3, 3, 3])),
        "%a: tensor<1x4x4x2xi8>, %b: tensor<3x2x2x2xi8>, %c: tensor<3xi32>",
        [zero_point("x", 3, "i8"), zero_point("y", -1, "i8"),
         "%r = tosa.conv2d %a, %b, %c, %x, %y {acc_type = i32, pad = array<i64: 0, 0, 0, 0>, "
         "stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x4x2xi8>, "
         "tensor<3x2x2x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x3xi32>"],
        "tensor<1x3x3x3xi32>",
    ),
    "avg_pool2d": (
        file(2, 1, {"pad": [0] * 4, "kernel": [2, 2], "stride": [2, 2], "accum_dtype": 8},
             [(FP32, [1, 4, 4, 2])], (FP32, [1, 2, 2, 2])),
        "%a: tensor<1x4x4x2xf32>",
        [zero_point("x", "0.0", "f32"), zero_point("y", "0.0", "f32"),
         "%r = tosa.avg_pool2d %a, %x, %y {acc_type = f32, kernel = array<i64: 2, 2>, "
         "pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : "
         "(tensor<1x4x4x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x2x2xf32>"],
        "tensor<1x2x2x2xf32>",
    ),
    "clamp": (
        file(10, 10, {"min_int": 0, "max_int": 0, "min_fp": fp32(-1.5), "max_fp": fp32(6.0)},
             [(FP32, [4])], (FP32, [4])),
        "%a: tensor<4xf32>",
        ["%r = tosa.clamp %a {min_val = -1.5 : f32, max_val = 6.0 : f32} : "
         "(tensor<4xf32>) -> tensor<4xf32>"],
        "tensor<4xf32>",
    ),
    "pad": (
        file(53, 4, {"padding": [1, 0], "pad_const_int": 3}, [(INT8, [2])], (INT8, [3])),
        "%a: tensor<2xi8>",
        ["%s = tosa.const_shape {values = dense<[1, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>",
         zero_point("x", 3, "i8"),
         "%r = tosa.pad %a, %s, %x : (tensor<2xi8>, !tosa.shape<2>, tensor<1xi8>) -> tensor<3xi8>"],
        "tensor<3xi8>",
    ),
    "rescale": (
        file(63, 11, {"output_zp": 0, "input_zp": 128, "multiplier": [1 << 30], "shift": [30],
                      "scale32": True}, [(UINT8, [4])], (INT8, [4])),
        "%a: tensor<4xi8>",
        ['%m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>',
         zero_point("s", 30, "i8"), zero_point("x", -128, "i8"), zero_point("y", 0, "i8"),
         "%r = tosa.rescale %a, %m, %s, %x, %y {scale32 = true, rounding_mode = SINGLE_ROUND, "
         "per_channel = false, input_unsigned = true, output_unsigned = false} : (tensor<4xi8>, "
         "tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>"],
        "tensor<4xi8>",
    ),
    "resize": (
        file(61, 9, {"scale": [4, 2, 4, 2], "offset": [0, 0], "border": [0, 0], "mode": 1},
             [(INT8, [1, 3, 3, 1])], (INT8, [1, 5, 5, 1])),
        "%a: tensor<1x3x3x1xi8>",
        ["%s = tosa.const_shape {values = dense<[4, 2, 4, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>",
         "%o = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>",
         "%b = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>",
         "%r = tosa.resize %a, %s, %o, %b {mode = NEAREST_NEIGHBOR} : (tensor<1x3x3x1xi8>, "
         "!tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x5x5x1xi8>"],
        "tensor<1x5x5x1xi8>",
    ),
    "a constant of bf16 that was stored as fp32": (
        file(14, 0, {}, [(BF16, [2]), (BF16, [2])], (BF16, [2]), data=fp32(1.0) + fp32(-2.5)),
        "%a: tensor<2xbf16>",
        ['%k = "tosa.const"() <{values = dense<[1.0, -2.5]> : tensor<2xbf16>}> : () -> tensor<2xbf16>',
         "%r = tosa.add %a, %k : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xbf16>"],
        "tensor<2xbf16>",
    ),
    "operands of different rank": (
        file(14, 0, {}, [(FP32, [2, 3]), (FP32, [1])], (FP32, [2, 3]), data=fp32(1.0)),
        "%a: tensor<2x3xf32>",
        ['%k = "tosa.const"() <{values = dense<1.0> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>',
         "%r = tosa.add %a, %k : (tensor<2x3xf32>, tensor<1x1xf32>) -> tensor<2x3xf32>"],
        "tensor<2x3xf32>",
    ),
    "custom": (
        file(66, 21, {"operator_name": "my.op", "domain_name": "d", "implementation_attrs": b"x"},
             [(FP32, [2])], (FP32, [2])),
        "%a: tensor<2xf32>",
        ['%r = tosa.custom %a {operator_name = "my.op", domain_name = "d", '
         'implementation_attrs = "x"} : (tensor<2xf32>) -> tensor<2xf32>'],
        "tensor<2xf32>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_file_of_0_80_is_read_as_a_program_of_today(name: str) -> None:
    data, arguments, lines, result = PROGRAMS[name]
    body = "\n".join(lines)
    text = f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    old, today = tc.load(data), tc.load(text.encode())
    assert tc.compare(old, today, names=False) is None
    assert str(old.version) == "1.0.0"
    assert tc.validate(old) == []


@pytest.mark.parametrize(("code", "name"), [(8, "FP32"), (10, "FP16")])
def test_a_pool_sums_in_the_type_that_it_has(code: int, name: str) -> None:
    pool = {"pad": [0] * 4, "kernel": [2, 2], "stride": [2, 2], "accum_dtype": code}
    made = file(2, 1, pool, [(10, [1, 4, 4, 2])], (10, [1, 2, 2, 2]))
    (found,) = (op for op in tc.load(made).main.operators if op.spec.name == "AVG_POOL2D")
    assert str(found.attributes["acc_type"]) == name


def refused(data: bytes) -> tc.TosaConvertError:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(data)
    return caught.value


def test_a_file_of_0_60_is_refused_by_its_version() -> None:
    error = refused(file(14, 0, {}, [(FP32, [2])] * 2, (FP32, [2]), minor=60))
    assert error.code == "unsupported-version"
    assert "0.60" in str(error)


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


def test_every_operator_that_is_not_one_of_1_0_is_named() -> None:
    known = {"op": 14, "inputs": ["x", "x"], "outputs": ["y"]}
    unknown = [{"op": code, "inputs": ["x"], "outputs": ["y"]} for code in (99, 11)]
    block = {
        "name": "main",
        "operators": [known, *unknown],
        "tensors": [{"name": name, "shape": [2], "type": FP32} for name in "xy"],
        "inputs": ["x"],
        "outputs": ["y"],
    }
    version = {"_major": 0, "_minor": 80, "_patch": 1, "_draft": False}
    graph = {"version": version, "regions": [{"name": "main", "blocks": [block]}]}
    found = [row.message for row in refused(write(graph, KINDS)).findings]
    assert [text for text in found if "operator code" in text] == [
        "operator code 99 of TOSA 0.80 is not one of 1.0",
        "operator code 11 (RESERVED) of TOSA 0.80 is not one of 1.0",
    ]


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


@pytest.mark.parametrize(
    ("data", "is_read"),
    [
        (b"123", True),
        (b"12", False),
        (b"123" + bytes(15), True),
        (b"123" + bytes(16), False),
        (b"123\0\0\1", False),
    ],
)
def test_some_zeros_may_follow_the_data_of_a_constant(data: bytes, is_read: bool) -> None:
    row = {"name": "k", "shape": [3], "type": INT8, "data": data}
    const = {"op": 64, "inputs": [], "outputs": ["k"]}
    made = block_of([const], [*X_AND_Y, row])
    if not is_read:
        assert refused(made).code == "data-length"
        return
    found = tc.load(made).main.tensors["k"].data
    assert found is not None
    assert bytes(found.packed()) == b"123"


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


def test_tables_are_charged() -> None:
    def used(count: int) -> int:
        rows = [{"name": f"{index:03}", "shape": [], "type": FP32} for index in range(count)]
        columns = Columns(memoryview(block_of([], [*X_AND_Y, *rows])), IN_COLUMNS, tosa_080._ALL)
        before = columns.budget
        tosa_080._Reader(columns, Upgrade()).graph()
        return before - columns.budget

    # 600 for the table, and what a name of three characters and its entries take.
    assert used(21) - used(20) == 861


FOLDER = Path(__file__).parents[2] / "old_programs"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.tosa")), ids=lambda path: path.name)
def test_a_stored_file_is_read(path: Path) -> None:
    # These files are never written again, whatever becomes of the programs above.
    assert tc.validate(tc.load(path)) == []


def test_two_values_of_one_name_are_a_finding() -> None:
    data = (FOLDER / "rank_broadcast-0.80.tosa").read_bytes()
    assert data.count(b"i1\0") == 1
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(data.replace(b"i1\0", b"i0\0"))
    assert "duplicate-name" in {finding.code for finding in caught.value.findings}
