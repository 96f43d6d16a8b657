"""JSON -> Graph: fields that are wrong are refused, with their path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.json_text import OPERATOR, TENSOR, base, changed, refused, respelled

from tosa_convert.errors import MAX_FINDINGS
from tosa_convert.formats.json.read import read


@pytest.mark.parametrize("value", ["AQI=", 5, {}, True])
def test_data_that_is_not_a_list_is_refused(value: Any) -> None:
    (finding,) = refused(changed("tensor.data", value)).findings
    assert finding.where.endswith(f": {TENSOR}.data")
    assert "expected a list of bytes" in finding.message


@pytest.mark.parametrize("value", [2, -1, "true", "1", [], 1.0])
def test_a_flag_that_is_neither_true_nor_false_is_refused(value: Any) -> None:
    (finding,) = refused(changed("tensor.variable", value)).findings
    assert "expected true or false" in finding.message


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


def test_a_duplicate_field_is_refused() -> None:
    (finding,) = refused(respelled('"axis": 1', '"axis": 1, "axis": 1')).findings
    assert finding.where.endswith(f"{OPERATOR}.attribute.axis")
    assert finding.message == "duplicate field"


def test_a_missing_attribute_type_is_refused() -> None:
    assert "attribute_type is missing" in str(
        refused(changed("operator.attribute_type", drop=True))
    )
    made = base()
    row = made["regions"][0]["blocks"][0]["operators"][0]
    del row["attribute_type"], row["attribute"]
    error = refused(json.dumps(made).encode())
    assert (error.code, "attribute_type is missing" in str(error)) == ("malformed-operator", True)


def test_missing_attributes_are_refused_where_the_operator_has_some() -> None:
    assert "REVERSE has no attributes" in str(refused(changed("operator.attribute", drop=True)))


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


@pytest.mark.slow
def test_the_number_of_findings_is_limited() -> None:
    error = refused(changed("operator.inputs", [1] * 100_000))
    assert len(error.findings) == MAX_FINDINGS


@pytest.mark.parametrize("absent", [("minor",), ("minor", "patch")])
def test_a_version_without_a_part_is_said_to_be_without_it(absent: tuple[str, ...]) -> None:
    version = {"_major": 1, "_minor": 0, "_patch": 0}
    for name in absent:
        del version[f"_{name}"]
    text = str(refused(json.dumps(base() | {"version": version}).encode()))
    assert f"states {' and '.join(f'no {name}' for name in absent)} version" in text
    assert "-1" not in text
