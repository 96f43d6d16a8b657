"""JSON -> Graph: fields that are wrong are refused, with their path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.json_text import OPERATOR, TENSOR, Json, base, changed, refused, respelled

from tosa_convert.errors import MAX_FINDINGS, TosaConvertError
from tosa_convert.formats.json.read import read
from tosa_convert.graph.dtypes import BY_CODE
from tosa_convert.graph.opset import OPERATORS


@pytest.mark.parametrize("value", [1.0, 1.5, "3", True, [1], {}, 2**31, -(2**31) - 1])
def test_a_value_that_is_not_a_32_bit_number_is_refused(value: Any) -> None:
    error = refused(changed("attribute.axis", value))
    (finding,) = error.findings
    assert error.code == "malformed-json"
    assert finding.where.endswith(f": {OPERATOR}.attribute.axis")
    assert "expected a whole number from -2147483648 to 2147483647" in finding.message


@pytest.mark.parametrize(
    "form",
    [
        *("NaN", "Infinity", "-Infinity", "true", "INT8", "'1'", "1_0", "--1", "-", "+1"),
        *("01", "-01", "0x10", "1e3", "1.", ".5", "9" * 21, "9" * 5000, "-" + "9" * 100000),
    ],
)
def test_a_number_that_json_does_not_have_is_refused(form: str) -> None:
    error = refused(respelled('"axis": 1', f'"axis": {form}'))
    assert error.code == "malformed-json"
    assert len(str(error)) < 400


@pytest.mark.parametrize("value", [-1, 256, 1000, 1.0, "1", None, True, [1], 2**70])
@pytest.mark.parametrize("before", [0, 5000])
def test_a_member_that_is_not_a_byte_is_refused_with_its_index(value: Any, before: int) -> None:
    error = refused(changed("tensor.data", [7] * before + [value, 1]))
    (finding,) = error.findings
    assert finding.where.endswith(f"{TENSOR}.data[{before}]")
    assert "expected a whole number from 0 to 255" in finding.message


@pytest.mark.parametrize("value", ["AQI=", 5, {}, True])
def test_data_that_is_not_a_list_is_refused(value: Any) -> None:
    (finding,) = refused(changed("tensor.data", value)).findings
    assert finding.where.endswith(f": {TENSOR}.data")
    assert "expected a list of bytes" in finding.message


@pytest.mark.parametrize("value", [2, -1, "true", "1", [], 1.0])
def test_a_flag_that_is_neither_true_nor_false_is_refused(value: Any) -> None:
    (finding,) = refused(changed("tensor.variable", value)).findings
    assert "expected true or false" in finding.message


@pytest.mark.parametrize("value", ["DType.INT8", "int8", "INT8 INT4", "3", "", -1, 2**32, 3.0, []])
def test_a_value_that_is_not_a_member_of_the_enum_is_refused(value: Any) -> None:
    error = refused(changed("tensor.type", value))
    assert "expected the name of a member of DType" in error.findings[0].message
    assert "INT8" in error.findings[0].hint


def test_a_type_that_is_not_an_element_type_is_refused() -> None:
    for value in ("UNKNOWN", "SHAPE", 10, max(BY_CODE) + 1, 2**32 - 1):
        assert refused(changed("tensor.type", value)).code == "malformed-tensor"
    assert refused(changed("tensor.type", drop=True)).code == "malformed-tensor"


@pytest.mark.parametrize("value", [5, None, [], {}])
def test_a_list_member_that_is_not_a_string_is_refused(value: Any) -> None:
    (finding,) = refused(changed("operator.inputs", ["a", value])).findings
    assert finding.where.endswith(f"{OPERATOR}.inputs[1]")
    assert "expected a string" in finding.message


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("operator.inputs", "a", "a list of strings"),
        ("tensor.shape", 1, "a list of numbers"),
        ("block.operators", {}, "a list of objects"),
        ("block.operators", [3], "an object"),
        ("tensor.name", 5, "a string"),
        ("version", [1, 1, 0], "an object"),
        ("operator.attribute", [], "an object"),
        ("operator.location", "f", "an object"),
        ("tensor.offset", -1, "a whole number from 0 to 18446744073709551615"),
        ("tensor.offset", 2**64, "a whole number from 0 to 18446744073709551615"),
        ("block.shapes", [{"rank": 2**32}], "a whole number from 0 to 4294967295"),
        ("tensor.shape", [2**31], "a whole number from -2147483648 to 2147483647"),
        ("operator.attribute_type", 256, "the name of a member of Attribute, or its number"),
        ("operator.op", "RESHAPE ", "the name of a member of Op, or its number"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(path: str, value: Any, expected: str) -> None:
    error = refused(changed(path, value))
    assert error.code == "malformed-json"
    assert error.findings[0].message.endswith(f"expected {expected}")


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("weights", "weights"),
        ("version.major", "version.major"),
        ("region.ops", "regions[0].ops"),
        ("operator.attributes", f"{OPERATOR}.attributes"),
        ("attribute.nan_mode", f"{OPERATOR}.attribute.nan_mode"),
        ("tensor.dtype", f"{TENSOR}.dtype"),
    ],
)
def test_an_unknown_field_is_refused_by_name(path: str, where: str) -> None:
    (finding,) = refused(changed(path, {"deep": [{"er": "}]"}, 1.5e300]})).findings
    assert finding.where.endswith(f": {where}")
    assert "unknown field, expected one of: " in finding.message


def test_a_duplicate_field_is_refused() -> None:
    (finding,) = refused(respelled('"axis": 1', '"axis": 1, "axis": 1')).findings
    assert finding.where.endswith(f"{OPERATOR}.attribute.axis")
    assert finding.message == "duplicate field"


def test_a_missing_version_is_refused() -> None:
    assert "version is missing" in str(refused(changed("version", drop=True)))
    assert "version is missing" in str(refused(changed("version", None)))


@pytest.mark.parametrize(
    "version",
    [
        {"_major": 1, "_minor": 1, "_patch": 0, "_draft": False},
        {"_major": 1, "_minor": 2, "_patch": 0},
        {"_major": 0, "_minor": 80, "_patch": 0},
        {},
    ],
)
def test_an_unreadable_version_is_the_only_finding(version: Json) -> None:
    made = base() | {"version": version, "unknown": 1}
    error = refused(json.dumps(made).encode())
    assert [row.code for row in error.findings] == ["unsupported-version"]
    assert error.exit_code == 4


@pytest.mark.parametrize("absent", [("minor",), ("minor", "patch")])
def test_a_version_without_a_part_is_said_to_be_without_it(absent: tuple[str, ...]) -> None:
    version = {"_major": 1, "_minor": 0, "_patch": 0}
    for name in absent:
        del version[f"_{name}"]
    text = str(refused(json.dumps(base() | {"version": version}).encode()))
    assert f"states {' and '.join(f'no {name}' for name in absent)} version" in text
    assert "-1" not in text


def test_a_missing_attribute_type_is_refused() -> None:
    assert "attribute_type is missing" in str(
        refused(changed("operator.attribute_type", drop=True))
    )
    made = base()
    row = made["regions"][0]["blocks"][0]["operators"][0]
    del row["attribute_type"], row["attribute"]
    error = refused(json.dumps(made).encode())
    assert (error.code, "attribute_type is missing" in str(error)) == ("malformed-operator", True)


def test_attributes_of_another_operator_are_refused() -> None:
    made = base()
    row = made["regions"][0]["blocks"][0]["operators"][0]
    row["op"] = "ABS"
    error = refused(json.dumps(made).encode())
    assert error.code == "malformed-operator"
    assert "ABS has attributes of ReverseAttribute, expected AbsAttribute" in str(error)
    row["attribute_type"] = "NONE"
    assert "attribute_type is missing, ABS has AbsAttribute" in str(
        refused(json.dumps(made).encode())
    )


@pytest.mark.parametrize("value", ["UNKNOWN", 0, len(OPERATORS) + 1, 4294967295])
def test_an_unknown_operator_is_refused(value: Any) -> None:
    assert refused(changed("operator.op", value)).code == "unsupported-operator"


def test_a_missing_operator_code_is_refused() -> None:
    assert refused(changed("operator.op", drop=True)).code == "unsupported-operator"


def test_missing_attributes_are_refused_where_the_operator_has_some() -> None:
    assert "REVERSE has no attributes" in str(refused(changed("operator.attribute", drop=True)))


@pytest.mark.parametrize("mode", ["", ', "nan_mode": "UNKNOWN"', ', "nan_mode": 9'])
def test_an_enum_attribute_that_is_unknown_or_missing_is_refused(mode: str) -> None:
    raw = (
        json.dumps(base())
        .replace('"REVERSE"', '"ARGMAX"')
        .replace("ReverseAttribute", "ArgMaxAttribute")
        .replace('"axis": 1', f'"axis": 1{mode}')
    )
    error = refused(raw.encode())
    assert error.code == "malformed-operator"
    assert "expected PROPAGATE (1), IGNORE (2)" in str(error)


def test_an_accumulator_type_that_is_missing_is_refused() -> None:
    raw = (
        json.dumps(base())
        .replace('"REVERSE"', '"AVG_POOL2D_ADAPTIVE"')
        .replace("ReverseAttribute", "AvgPool2dAdaptiveAttribute")
        .replace('"axis": 1', "")
    )
    assert '"acc_type" is UNKNOWN' in str(refused(raw.encode()))


def test_data_that_is_too_short_is_refused() -> None:
    error = refused(changed("tensor.data", [1]))
    assert error.code == "data-length"
    assert "1 bytes of data, 2 x INT8 need 2" in str(error)


def test_data_of_a_dynamic_or_unranked_tensor_is_refused() -> None:
    assert refused(changed("tensor.shape", [-1])).code == "data-length"
    made = base()
    made["regions"][0]["blocks"][0]["tensors"][0] |= {"is_unranked": True, "shape": []}
    assert refused(json.dumps(made).encode()).code == "data-length"


def test_an_unranked_tensor_with_a_shape_is_refused() -> None:
    assert refused(changed("tensor.is_unranked", True)).code == "malformed-tensor"


def test_an_enormous_number_of_elements_is_refused_at_once() -> None:
    error = refused(changed("tensor.shape", [2**31 - 1] * 100_000))
    assert error.code == "data-length"
    assert len(str(error)) < 10_000


def test_shape_data_that_is_too_short_is_refused() -> None:
    error = refused(changed("block.shapes", [{"name": "s", "rank": 2, "data": [0] * 15}]))
    assert error.code == "data-length"


@pytest.mark.parametrize(
    "fields",
    [
        {"block_shape": 7, "scale_type": "FP8UE8M0"},
        {"block_shape": "BLOCK_SHAPE_32"},
        {"block_shape": "BLOCK_SHAPE_32", "scale_type": 99},
        {"scale_type": "FP8UE8M0"},
        {"scale_data": [1]},
    ],
)
def test_block_scales_that_contradict_themselves_are_refused(fields: Json) -> None:
    made = base()
    made["regions"][0]["blocks"][0]["tensors"][0] |= fields
    assert refused(json.dumps(made).encode()).code == "malformed-tensor"


def test_scales_that_are_too_few_are_refused() -> None:
    made = base()
    made["regions"][0]["blocks"][0]["tensors"][0] |= {
        "shape": [64],
        "data": [0] * 64,
        "block_shape": "BLOCK_SHAPE_32",
        "scale_type": "FP8UE8M0",
        "scale_data": [1],
    }
    assert refused(json.dumps(made).encode()).code == "data-length"


@pytest.mark.parametrize("prefix", ["", "scale_"])
def test_data_that_lay_after_a_flatbuffer_is_reported_as_missing(prefix: str) -> None:
    made = base()
    row = made["regions"][0]["blocks"][0]["tensors"][0]
    row |= {"block_shape": "BLOCK_SHAPE_32", "scale_type": "FP8UE8M0", "shape": [32]}
    row |= {"data": [0] * 32, "scale_data": [0], f"{prefix}offset": 64, f"{prefix}size": 2}
    assert read(json.dumps(made).encode()).main.tensors["a"].data is not None
    row[f"{prefix}data"] = []
    error = refused(json.dumps(made).encode())
    assert error.code == "missing-data"
    assert "2 bytes at 64" in str(error)
    row[f"{prefix}size"] = 0
    read(json.dumps(made).encode())


@pytest.mark.parametrize("kind", ["tensors", "shapes"])
def test_two_values_of_one_name_are_refused(kind: str) -> None:
    row = {"name": "t", "type": "INT8"} if kind == "tensors" else {"name": "t"}
    error = refused(changed(f"block.{kind}", [row, row]))
    assert error.code == "duplicate-name"


def test_findings_are_reported_together_in_order_with_lines_and_columns() -> None:
    raw = (
        b'{"version": {"_major": 1, "_minor": 0, "_patch": 0},\n'
        b' "regions": [{"name": 5,\n'
        b'   "blocks": [{"inputs": ["a", 7], "what": 0,\n'
        b'\t"tensors": [{"name": "t", "type": "F32"}]}]}]}\n'
    )
    with pytest.raises(TosaConvertError) as caught:
        read(raw, "m.json")
    assert [row.where for row in caught.value.findings] == [
        "m.json:2:23: regions[0].name",
        "m.json:3:32: regions[0].blocks[0].inputs[1]",
        "m.json:3:36: regions[0].blocks[0].what",
        "m.json:4:36: regions[0].blocks[0].tensors[0].type",
    ]
    assert refused(raw).findings[0].where == "line 2:23: regions[0].name"


@pytest.mark.slow
def test_the_number_of_findings_is_limited() -> None:
    error = refused(changed("operator.inputs", [1] * 100_000))
    assert len(error.findings) == MAX_FINDINGS
