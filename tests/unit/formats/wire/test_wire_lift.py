"""Fields -> graph: both encodings, and columns and single fields, give the same graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import pytest
from refusing import error_of
from unit.building import PRODUCER, encode, graph, tensor

from tosa_convert.formats.flatbuffer.read import read as read_flatbuffer
from tosa_convert.formats.json.read import read as read_json
from tosa_convert.formats.json.write import write as write_json
from tosa_convert.formats.wire import lift
from tosa_convert.formats.wire.layout import TABLES
from tosa_convert.formats.wire.lift import DEFAULTS
from tosa_convert.graph import Operator
from tosa_convert.graph.dtypes import DTYPES
from tosa_convert.graph.opset import (
    OPERATORS,
    AttributeSpec,
    AttributeValue,
    OperatorSpec,
)
from tosa_convert.graph.versions import V1_1_DRAFT


class Unexpected(Exception):
    """A finding that the test does not expect."""


def no_report(code: str, message: str, hint: str = "") -> NoReturn:
    raise Unexpected(code, message, hint)


def no_out_of_line(offset: int, size: int, inside: Any, report: lift.Report) -> NoReturn:
    raise Unexpected(offset, size)


# -- the layout ------------------------------------------------------------------------------------


def test_the_fields_of_a_tensor_are_those_of_the_schema_in_its_order() -> None:
    assert lift.TensorFields._fields == tuple(row.name for row in TABLES["TosaTensor"].fields)


def test_defaults_are_those_of_the_schema() -> None:
    assert DEFAULTS["Version"] == {"_major": -1, "_minor": -1, "_patch": -1, "_draft": True}
    assert DEFAULTS["TosaShape"] == {"name": "", "rank": 0, "data": b""}
    assert DEFAULTS["TosaOperator"]["location"] is None
    assert DEFAULTS["TosaOperator"]["inputs"] == ()


# -- attributes ------------------------------------------------------------------------------------


def values_of(row: AttributeSpec) -> list[AttributeValue]:
    """Return two values of an attribute that differ."""
    if row.enum is not None:
        return [min(row.enum), max(row.enum)]
    values: dict[str, list[AttributeValue]] = {
        "i32": [0, -7],
        "i32s": [(), (1, -2, 3)],
        "bool": [False, True],
        "dtype": [DTYPES[0], DTYPES[-1]],
        "element": [b"\0", b"\xff\x80"],
        "bytes": [b"", bytes(range(256))],
        "string": ["", "s"],
        "region": ["then", "else"],
    }
    return values[row.kind]


def raw(value: AttributeValue) -> Any:
    """Return the field's value for this attribute."""
    code = getattr(value, "code", None)
    if code is not None:
        return code
    return memoryview(value) if isinstance(value, bytes) else value


def operators(spec: OperatorSpec) -> list[Operator]:
    """Return the operator with each of two values of every attribute, once shared and once not."""
    choices = [
        {row.name: values_of(row)[index] for row in spec.attributes} for index in (0, 1, 1, 0)
    ]
    return [Operator(spec, ("a",), ("b",), attributes) for attributes in choices]


@pytest.mark.parametrize("spec", OPERATORS, ids=str)
def test_every_operator_is_lifted_alike(spec: OperatorSpec) -> None:
    made = graph("", "", [tensor("a"), tensor("b")], [])
    made.version = V1_1_DRAFT
    made.main.operators = operators(spec)
    expected = [row.attributes for row in made.main.operators]
    for found in (
        read_flatbuffer(encode(made)),
        read_json(b"".join(write_json(made, PRODUCER))),
    ):
        assert [row.spec for row in found.main.operators] == [spec] * 4
        assert [row.attributes for row in found.main.operators] == expected
        types = [list(map(type, row.attributes.values())) for row in found.main.operators]
        assert types == [list(map(type, row.values())) for row in expected]
    for attributes in expected:
        fields = {name: raw(value) for name, value in attributes.items()}
        assert lift.attribute_values(spec, fields, no_report) == attributes


@pytest.mark.parametrize(
    "row",
    [row for spec in OPERATORS for row in spec.attributes],
    ids=[f"{spec}-{row.name}" for spec in OPERATORS for row in spec.attributes],
)
def test_a_column_of_attributes_is_lifted_as_each_of_them(row: AttributeSpec) -> None:
    values = list(map(raw, values_of(row) * 2))
    if row.enum is not None or row.kind == "dtype":
        values += [-1, 0, 10, 99, 2**32 - 1]
    reported: list[int] = []
    single: list[AttributeValue | None] = []
    for value in values:
        before = len(reported)
        one = lift.attribute_value(row, value, lambda *_: reported.append(1))
        single.append(one if len(reported) == before else None)
    column = lift.attribute_column(row, values)
    assert column == single
    # True equals 1, and is not the same.
    assert row.kind != "bool" or {type(value) for value in column} == {bool}
    assert bool(reported) is (row.enum is not None or row.kind == "dtype")


# -- tensors ---------------------------------------------------------------------------------------


def tensors() -> Iterator[Any]:
    for index, dtype in enumerate(DTYPES):
        yield {"name": f"plain {dtype}", "shape": (index, -1), "type": dtype.code}
    yield {"name": "", "type": 7}
    yield {"name": "unranked", "type": 7, "is_unranked": True}
    yield {"name": "state", "type": 7, "variable": True, "variable_name": "s"}
    yield {"name": "symbol", "type": 7, "variable_name": "s"}
    yield {"name": "one byte", "type": 3, "shape": (1,), "data": b"\1"}
    yield {"name": "padded", "type": 3, "shape": (1,), "data": bytes(8)}
    yield {"name": "empty", "type": 3, "shape": (0,), "data": b""}
    yield {"name": "scaled", "type": 11, "shape": (32,), "scale_type": 16, "block_shape": 32}
    yield {
        "name": "scaled constant",
        "type": 11,
        "shape": (64,),
        "data": bytes(64),
        "scale_type": 16,
        "scale_data": b"\1\2",
        "block_shape": 32,
    }


def file_of(fields: list[dict[str, Any]]) -> dict[str, Any]:
    version = {"_major": 1, "_minor": 1, "_patch": 0}
    block = {"name": "main", "tensors": fields}
    return {"version": version, "regions": [{"name": "main", "blocks": [block]}]}


def described(value: Any) -> Any:
    """Return a tensor as comparable values."""
    if value is None or isinstance(value, (str, bool, int, tuple)):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "packed"):
        return (value.dtype, value.count, bytes(value.buffer), value.padding)
    return [described(getattr(value, name)) for name in value.__slots__ if name != "dtype"]


def text_of(fields: Any) -> bytes:
    """Return the same fields in JSON."""
    return json.dumps(fields, default=list).encode()


def test_every_tensor_is_lifted_alike() -> None:
    outside = pytest.importorskip("unit.outside_flatbuffer", reason="flatbuffers is not installed")
    rows = list(tensors())
    single = [
        lift.tensor(lift.TensorFields(**DEFAULTS["TosaTensor"] | row), no_out_of_line, no_report)
        for row in rows
    ]
    expected = [(described(row), row.dtype) for row in single]
    for found in (
        read_flatbuffer(outside.write(file_of(rows))),
        read_json(text_of(file_of(rows))),
    ):
        assert [(described(v), v.dtype) for v in found.main.tensors.values()] == expected


# -- what is wrong ---------------------------------------------------------------------------------


def refusal(read: Any, data: bytes) -> list[tuple[str, str, str]]:
    return [(row.code, row.message, row.hint) for row in error_of(read, data).findings]


def cases() -> list[str]:
    name = "unit.formats.flatbuffer.test_flatbuffer_meaning"
    meaning = pytest.importorskip(name, reason="needs flatbuffers")
    # JSON cannot have data after the flatbuffer.
    return [name for name, row in meaning.CASES.items() if row[1] != "missing-data"]


@pytest.mark.slow
def test_both_encodings_have_the_same_findings() -> None:
    names = cases()
    from unit import outside_flatbuffer as outside
    from unit.formats.flatbuffer import test_flatbuffer_meaning as meaning

    for name in names:
        change = meaning.CASES[name][0]
        if name == "data out of line, too short":
            continue
        changed = meaning.fields()
        change(changed)
        flatbuffer = refusal(read_flatbuffer, outside.write(changed))
        assert refusal(read_json, text_of(changed)) == flatbuffer, name


def test_a_file_for_newer_readers_is_refused_alike_in_both_encodings() -> None:
    outside = pytest.importorskip("unit.outside_flatbuffer", reason="flatbuffers is not installed")
    for needs in (
        {"min_reader_version": {"_major": 9999, "_minor": 1, "_micro": 2}},
        {"features": 1 << 40},
    ):
        fields = file_of([]) | {"compatibility": needs}
        found = refusal(read_flatbuffer, outside.write(fields))
        assert found[0][0] == "unsupported-version"
        assert refusal(read_json, text_of(fields)) == found
