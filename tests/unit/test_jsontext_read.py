"""JSON -> Graph: what is accepted, what is refused and where, and that nothing hostile hurts."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.building import PRODUCER, branching, counting, example, graph, op, shape, tensor

from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError
from tosa_convert.flatbuffer.read import read as read_flatbuffer
from tosa_convert.flatbuffer.write import plan
from tosa_convert.graph import DTYPES, Constant, DType, Graph, compare, dtype, operator
from tosa_convert.graph.dtypes import BlockShape, NanPropagationMode
from tosa_convert.graph.model import BlockScale, Version
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.jsontext import numbers, values
from tosa_convert.jsontext.read import read
from tosa_convert.jsontext.write import write
from tosa_convert.options import Limits

Json = Any
OPERATOR = "regions[0].blocks[0].operators[0]"
TENSOR = "regions[0].blocks[0].tensors[0]"


def text(made: Graph) -> bytes:
    return b"".join(write(made, PRODUCER))


def same(made: Graph, raw: bytes) -> None:
    found = read(raw)
    assert compare(made, found, locations=True, version=True) is None
    assert found.producer == PRODUCER
    # What the comparison does not look at, such as padding, is in the text.
    assert text(found) == text(made)


def base() -> Json:
    """A program that reverses a constant, as Python values to be changed."""
    return json.loads(
        """{
        "version": {"_major": 1, "_minor": 1, "_patch": 0},
        "regions": [{"name": "main", "blocks": [{
            "name": "main",
            "operators": [{
                "op": "REVERSE", "attribute_type": "ReverseAttribute", "attribute": {"axis": 1},
                "inputs": ["a"], "outputs": ["b"]}],
            "tensors": [
                {"name": "a", "shape": [2], "type": "INT8", "data": [1, 2]},
                {"name": "b", "shape": [2], "type": "INT8"}],
            "outputs": ["b"]}]}]
    }"""
    )


def changed(path: str, value: Any = None, *, drop: bool = False) -> bytes:
    """The program with another value at `path` of the operator, tensor or graph."""
    made = base()
    head, _, key = path.rpartition(".")
    place = {
        "": made,
        "version": made["version"],
        "region": made["regions"][0],
        "block": made["regions"][0]["blocks"][0],
        "operator": made["regions"][0]["blocks"][0]["operators"][0],
        "attribute": made["regions"][0]["blocks"][0]["operators"][0]["attribute"],
        "tensor": made["regions"][0]["blocks"][0]["tensors"][0],
    }[head]
    if drop:
        del place[key]
    else:
        place[key] = value
    return json.dumps(made).encode()


def spelled(old: str, new: str) -> bytes:
    """The program's text with one passage spelled in another way."""
    raw = json.dumps(base())
    assert raw.count(old) >= 1
    return raw.replace(old, new, 1).encode()


def refused(raw: bytes) -> TosaConvertError:
    with pytest.raises(TosaConvertError) as caught:
        read(raw)
    return caught.value


# -- what is accepted ---------------------------------------------------------------------------


@pytest.mark.parametrize("made", [example(), branching(), counting()], ids=["plain", "if", "state"])
def test_what_was_written_is_read_back(made: Graph) -> None:
    same(made, text(made))


@pytest.mark.parametrize("made", [example(), branching(), counting()], ids=["plain", "if", "state"])
def test_json_and_flatbuffer_of_a_graph_read_the_same(made: Graph) -> None:
    data = b"".join(plan(made, PRODUCER).pieces())
    found = read_flatbuffer(data)
    assert text(found) == text(read(text(made)))


def all_bits(row: DType) -> bytes:
    """Elements with every bit pattern of 8 bits or less and many of the others, in a file's form."""
    count = 1 << min(row.bits, 8)
    raw = np.random.default_rng(3).integers(0, 256, (count, row.element_bytes)).astype(np.uint8)
    raw[:, 0] = np.arange(count)
    if row.name == "INT4":
        raw[8] = 7
    if row.name == "BOOL":
        raw &= 1
    if row.bits == 16:
        # NaNs with payloads of FP16 and BF16, -0, infinity.
        raw[:6] = [[1, 0x7C], [1, 0xFE], [0x81, 0x7F], [1, 0xFF], [0, 0x80], [0, 0x7C]]
    if row.bits == 32:
        raw[:3] = [[1, 0, 0x80, 0x7F], [1, 0, 0xC0, 0xFF], [0, 0, 0, 0x80]]
    return Constant(row, count, raw.reshape(-1).data, unpacked=row.is_packed).packed().tobytes()


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_bit_of_every_type_survives(row: DType) -> None:
    data = all_bits(row)
    count = 1 << min(row.bits, 8)
    made = graph("", "t", [tensor("t", row.name, (count,), data)], [op("CONST", "", "t")])
    same(made, text(made))
    found = read(text(made)).main.tensors["t"].data
    assert found is not None
    assert found.packed().tobytes() == data


@pytest.mark.parametrize("kind", ["INT4", "FP4E2M1", "FP6E2M3", "FP6E3M2"])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_odd_counts_of_packed_elements_survive(kind: str, count: int) -> None:
    row = dtype(kind)
    value = tensor("t", kind, (count,))
    value.data = Constant(row, count, bytes(range(1, count + 1)), unpacked=True)
    made = graph("", "t", [value], [op("CONST", "", "t")])
    same(made, text(made))


@pytest.mark.parametrize("dims", [(), (0,), (2, 0, 3), (1, 1)])
def test_rank_0_and_empty_constants_survive(dims: tuple[int, ...]) -> None:
    count = int(np.prod(dims))
    made = graph("", "t", [tensor("t", "INT16", dims, bytes(2 * count))], [op("CONST", "", "t")])
    same(made, text(made))


def test_unranked_and_dynamic_values_survive() -> None:
    made = graph("a b", "", [tensor("a", shape=None), tensor("b", shape=(-1, 3))], [])
    same(made, text(made))


def test_block_scaled_values_and_constants_survive() -> None:
    value = tensor("t", "FP4E2M1", (2, 32), bytes(range(32)))
    value.scale = BlockScale(
        dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, Constant(dtype("FP8UE8M0"), 2, b"\x7f\x80")
    )
    other = tensor("u", "FP8E5M2", (64,))
    other.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    made = graph("u", "t", [value, other], [op("CONST", "", "t")])
    made.version = V1_1_DRAFT
    same(made, text(made))


def test_shapes_and_their_sizes_survive() -> None:
    made = graph(
        "", "", [shape("s", 1, -1), shape("e")], [op("CONST_SHAPE", "", n) for n in ("s", "e")]
    )
    same(made, text(made))
    assert read(text(made)).main.shapes["e"].values() == ()


def test_padding_of_a_flatbuffer_is_kept_and_more_than_that_is_not() -> None:
    found = read(changed("tensor.data", [1, 2, 9, 9, 9])).main.tensors["a"].data
    assert found is not None
    assert (found.padding, bytes(found.buffer)) == (3, b"\1\2")
    found = read(changed("tensor.data", [1, 2, *[0] * 8])).main.tensors["a"].data
    assert found is not None
    assert found.padding == 0


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_name_survives(name: str, location: str) -> None:
    made = graph("x", "y", [tensor("x"), tensor("y")], [op("EXP", "x", "y", location)])
    made.main.name = name
    same(made, text(made))


@pytest.mark.parametrize(
    "layout",
    [
        lambda made: json.dumps(made, separators=(",", ":")),
        lambda made: json.dumps(made, indent=8),
        lambda made: json.dumps(made, indent="\t").replace("\n", "\r\n"),
        lambda made: "\ufeff" + json.dumps(made),
        lambda made: json.dumps(made, sort_keys=True),
        lambda made: "// a\n/* b\n* / ** */" + json.dumps(made, indent=1).replace("\n", "//,\n"),
        lambda made: json.dumps(made).replace(":", "/* : */:/**/").replace(",", "//\r,"),
        lambda made: (
            json.dumps(made)
            .replace("]", ",]")
            .replace("}", ", }")
            .replace("[,]", "[]")
            .replace("{, }", "{}")
        ),
        lambda made: json.dumps(made).replace('"regions"', "regions").replace('"data"', "data"),
        lambda made: json.dumps(made).replace('"type"', '"\\u0074ype"'),
    ],
    ids=[
        "compact",
        "indented",
        "CRLF",
        "BOM",
        "sorted keys",
        "comments between lines",
        "comments around punctuation",
        "trailing commas",
        "bare keys",
        "escaped key",
    ],
)
def test_spelling_makes_no_difference(layout: Callable[[Json], str]) -> None:
    made = example()
    for row in made.main.operators:
        # Some of the layouts replace punctuation wherever it is.
        row.location = "here"
    assert text(read(layout(json.loads(text(made))).encode())) == text(made)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("operator.op", 58),
        ("operator.attribute_type", 58),
        ("tensor.type", 3),
        ("tensor.variable", False),
        ("tensor.variable", 0),
        ("tensor.is_unranked", False),
        ("tensor.variable_name", ""),
        ("tensor.scale_data", []),
        ("tensor.scale_type", "UNKNOWN"),
        ("tensor.block_shape", 0),
        ("tensor.offset", 1),
        ("tensor.size", 2**64 - 1),
        ("block.shapes", []),
        ("block.inputs", None),
        ("operator.location", {"text": ""}),
        ("operator.location", {}),
        ("operator.location", None),
        ("software_version", None),
        ("compatibility", {"features": 3, "min_reader_version": {"_major": 1, "_minor": 9}}),
        ("version._draft", True),
        ("version._patch", 7),
    ],
)
def test_explicit_defaults_numbers_and_nulls_are_what_they_stand_for(path: str, value: Any) -> None:
    expected = read(json.dumps(base()).encode())
    assert compare(expected, read(changed(path, value)), locations=True) is None


@pytest.mark.parametrize(
    ("path", "value", "result"),
    [("variable", 1, True), ("variable", True, True), ("variable_name", "s", "s")],
)
def test_flags_may_be_numbers(path: str, value: Any, result: Any) -> None:
    assert getattr(read(changed(f"tensor.{path}", value)).main.tensors["a"], path) == result


def test_absent_fields_have_the_defaults_of_the_schema() -> None:
    found = read(
        b'{"version": {"_major": 1, "_minor": 0, "_patch": 0}, "regions": [{"blocks": [{}]}]}'
    )
    assert found.version == Version(1, 0, 0, draft=True)
    assert found.producer is None
    assert found.main.name == found.regions[0].name == ""
    assert read(changed("software_version", {})).producer == type(PRODUCER)(-1, -1, -1)
    assert read(changed("attribute.axis", drop=True)).main.operators[0].attributes == {"axis": 0}
    assert read(changed("regions", drop=True)).regions == []


def test_attributes_may_come_before_their_type() -> None:
    made = base()
    row = made["regions"][0]["blocks"][0]["operators"][0]
    for key in ("attribute_type", "op"):
        row[key] = row.pop(key)
    assert read(json.dumps(made).encode()).main.operators[0].attributes == {"axis": 1}


def test_attributes_of_every_kind_are_read() -> None:
    made = graph(
        "x i",
        "v",
        [tensor(name) for name in "xyzwv"] + [tensor("i", "INT8")],
        [
            op(
                "CLAMP",
                "x",
                "y",
                min_val=b"\0\0\0\0",
                max_val=b"\1\2\3\4",
                nan_mode=NanPropagationMode.IGNORE,
            ),
            op(
                "CUSTOM",
                "y",
                "z",
                operator_name="o",
                domain_name="d",
                implementation_attrs=bytes(range(256)),
            ),
            op("TRANSPOSE", "z", "w", perms=(1, 0)),
            op(
                "AVG_POOL2D",
                "w i i",
                "v",
                kernel=(1, 2),
                stride=(3, 4),
                pad=(0, 0, -1, 2**31 - 1),
                acc_type=dtype("FP32"),
            ),
        ],
    )
    same(made, text(made))


def test_operators_without_attributes_need_no_table_of_them() -> None:
    raw = spelled('"op": "REVERSE", "attribute_type": "ReverseAttribute", "attribute": {"axis": 1}',
                  '"op": "ABS", "attribute_type": "AbsAttribute"')  # fmt: skip
    assert read(raw).main.operators[0].spec is operator("ABS")


def test_variables_may_be_read_by_their_own_operator_code_too() -> None:
    raw = text(counting()).replace(b'"IDENTITY"', b'"VARIABLE_READ"', 1)
    assert compare(read(raw), counting()) is None


def test_escapes_stand_for_their_characters() -> None:
    raw = spelled('"name": "a"', r'"name": "\"\\\/\b\f\n\r\té\u00e9\uD83D\ude00\u0000"')
    assert '"\\/\b\f\n\r\téé\U0001f600\0' in read(raw).main.tensors


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.0, 1.5, "3", True, [1], {}, 2**31, -(2**31) - 1])
def test_what_is_no_32_bit_number_is_refused(value: Any) -> None:
    error = refused(changed("attribute.axis", value))
    (finding,) = error.findings
    assert error.code == "malformed-json"
    assert finding.where.endswith(f": {OPERATOR}.attribute.axis")
    assert "expected a whole number from -2147483648 to 2147483647" in finding.message


@pytest.mark.parametrize(
    "spelling",
    [
        *("NaN", "Infinity", "-Infinity", "true", "INT8", "'1'", "1_0", "--1", "-", "+1"),
        *("01", "-01", "0x10", "1e3", "1.", ".5", "9" * 21, "9" * 5000, "-" + "9" * 100000),
    ],
)
def test_what_json_has_no_number_for_is_refused(spelling: str) -> None:
    error = refused(spelled('"axis": 1', f'"axis": {spelling}'))
    assert error.code == "malformed-json"
    assert len(str(error)) < 400


@pytest.mark.parametrize("value", [-1, 256, 1000, 1.0, "1", None, True, [1], 2**70])
@pytest.mark.parametrize("before", [0, 5000])
def test_what_is_no_byte_is_refused_by_its_index(value: Any, before: int) -> None:
    error = refused(changed("tensor.data", [7] * before + [value, 1]))
    (finding,) = error.findings
    assert finding.where.endswith(f"{TENSOR}.data[{before}]")
    assert "expected a whole number from 0 to 255" in finding.message


@pytest.mark.parametrize("value", ["AQI=", 5, {}, True])
def test_data_that_is_no_list_is_refused(value: Any) -> None:
    (finding,) = refused(changed("tensor.data", value)).findings
    assert finding.where.endswith(f": {TENSOR}.data")
    assert "expected a list of bytes" in finding.message


@pytest.mark.parametrize("value", [2, -1, "true", "1", [], 1.0])
def test_what_is_neither_true_nor_false_is_refused(value: Any) -> None:
    (finding,) = refused(changed("tensor.variable", value)).findings
    assert "expected true or false" in finding.message


@pytest.mark.parametrize("value", ["DType.INT8", "int8", "INT8 INT4", "3", "", -1, 2**32, 3.0, []])
def test_what_names_no_member_of_an_enum_is_refused(value: Any) -> None:
    error = refused(changed("tensor.type", value))
    assert "expected the name of a member of DType" in error.findings[0].message
    assert "INT8" in error.findings[0].hint


def test_a_type_that_is_no_element_type_is_refused() -> None:
    for value in ("UNKNOWN", "SHAPE", 10, 19, 2**32 - 1):
        assert refused(changed("tensor.type", value)).code == "malformed-tensor"
    assert refused(changed("tensor.type", drop=True)).code == "malformed-tensor"


@pytest.mark.parametrize("value", [5, None, [], {}])
def test_a_list_member_that_is_no_string_is_refused(value: Any) -> None:
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


def test_a_field_that_is_there_twice_is_refused() -> None:
    (finding,) = refused(spelled('"axis": 1', '"axis": 1, "axis": 1')).findings
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
def test_a_version_that_is_not_ours_is_refused_and_nothing_else_is_said(version: Json) -> None:
    made = base() | {"version": version, "unknown": 1}
    error = refused(json.dumps(made).encode())
    assert [row.code for row in error.findings] == ["unsupported-version"]
    assert error.exit_code == 4


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


@pytest.mark.parametrize("value", ["UNKNOWN", 0, 101, 4294967295])
def test_an_operator_that_is_none_is_refused(value: Any) -> None:
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


def test_more_elements_than_anybody_has_are_refused_at_once() -> None:
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
def test_data_that_lay_behind_a_flatbuffer_is_missed_by_name(prefix: str) -> None:
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


def test_no_more_findings_are_reported_than_anybody_reads() -> None:
    error = refused(changed("operator.inputs", [1] * 100_000))
    assert len(error.findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "found the end of the text, expected an object"),
        (b"   // only\n", "found the end of the text, expected an object"),
        (b"[]", "found a list, expected an object"),
        (b"null", "found null, expected an object"),
        (b"{", "found the end of the text, expected a field's name"),
        (b'{"version"', 'expected ":"'),
        (b'{"version" 1}', 'found 1, expected ":"'),
        (b'{"version":', "found the end of the text, expected an object"),
        (b"{,}", 'found ",", expected a field\'s name'),
        (b"{'version': {}}", "expected a field's name"),
        (b"{#", "found #, expected a field's name"),
        (b"{} {}", "found an object after the end of the graph"),
        (b"{}\0", "found \\x00 after the end of the graph"),
        (b"{} /", 'found "/"'),
        (b"{ /* }", "a comment starts here and does not end"),
        (b'{"regions": [', "found the end of the text, expected an object"),
        (b'{"regions": [{}', 'expected "," or "]"'),
        (b'{"regions": [{} {}]}', 'found an object, expected "," or "]"'),
        (b'{"regions": [,]}', 'found ",", expected an object'),
        (b'{"regions": [}', 'found "}", expected an object'),
        (b'{"x": ]}', 'found "]", expected a value'),
        (b'{"x": [}]}', 'found "}", expected a value'),
        (b'{"x": "a', "a string starts here and does not end"),
        (b'{"x": "a\\', "a string starts here and does not end"),
        (b'{"x": "a\nb"}', "found the control character 0x0A in a string"),
        (b'{"regions": [{"name": "a\tb"}]}', "found the control character 0x09 in a string"),
        (b'{"regions": [{"name": "ab', "a string starts here and does not end"),
        (
            b'{"regions": [{"name": "\\x41"}]}',
            "the escape \\x is not a character",
        ),
        (b'{"regions": [{"name": "\\ud83d"}]}', "the escape \\ud83d"),
        (b'{"regions": [{"name": "\\ud83d\\u0041"}]}', "the escape \\ud83d"),
        (b'{"regions": [{"name": "\\ude00"}]}', "the escape \\ude00"),
        (b'{"regions": [{"name": "\\u00g0"}]}', "the escape \\u00g0"),
        (b'{"regions": [{"name": "\\u0', "the escape \\u0"),
        (b'{"regions": [{"name": "\\', "the escape \\"),
        (b'{"regions": [{"name": "\xff"}]}', "a string is not UTF-8"),
        (b'{"regions": [{"name": "\\n\xc3"}]}', "a string is not UTF-8"),
        (b'{"regions": [{"name": "\xed\xa0\x80"}]}', "a string is not UTF-8"),
        ("{}".encode("utf-16"), "found"),
        (b"\xff\xfe\xfd", "found \\xff\\xfe\\xfd, expected an object"),
    ],
)
def test_text_that_cannot_be_followed_is_refused(raw: bytes, message: str) -> None:
    error = refused(raw)
    assert error.code == "malformed-json"
    assert any(message in row.message for row in error.findings)


@pytest.mark.parametrize(
    "spelling",
    ["[1 2]", "[1,,2]", "[,]", "[,1]", "[1;2]", "[1", "[1, 2", "[1 ,2 /*", "[007]", "[1\n2, 3]"],
)
@pytest.mark.parametrize("before", [0, 3000])
def test_lists_of_bytes_that_are_none_are_refused(spelling: str, before: int) -> None:
    start = "[" + "1, " * before
    raw = spelled('"data": [1, 2]', f'"data": {start}{spelling[1:]}')
    assert refused(raw).code == "malformed-json"


@pytest.mark.parametrize("spelling", ["[1 /*a,*/, 2]", "[1, 2,]", "[\n1 ,\r\n2\t]", "[//[\n1,2]"])
def test_lists_of_bytes_may_be_spelled_freely(spelling: str) -> None:
    found = read(spelled('"data": [1, 2]', f'"data": {spelling}')).main.tensors["a"].data
    assert found is not None
    assert bytes(found.buffer) == b"\1\2"


@given(
    st.binary(min_size=0, max_size=2000),
    st.sampled_from([",", ", ", " ,\n", ",\n                "]),
    st.sampled_from(["", ",", " ", "\n, "]),
)
def test_long_lists_of_bytes_are_read_as_json_does(data: bytes, comma: str, tail: str) -> None:
    listed = "[" + comma.join(map(str, data)) + (tail if data else "") + "]"
    raw = spelled('"data": [1, 2]', f'"data": {listed}').replace(b"[2]", b"[%d]" % len(data), 1)
    found = read(raw).main.tensors["a"].data
    assert (b"" if found is None else bytes(found.buffer)) == data


@given(st.text(alphabet="0123456789, \n", max_size=40), st.booleans())
def test_numbers_are_converted_all_at_once_only_if_each_of_them_is_right(
    raw: str, last: bool
) -> None:
    found = numbers.parse_byte_list(raw.encode(), last=last)
    words = [word.strip() for word in raw.split(",")]
    # The last comma is followed by nothing, unless the list may end without one.
    complete = words[-1] == "" or last
    if words[-1] == "":
        words.pop()
    right = complete and all(re.fullmatch("0|[1-9][0-9]{0,2}", word) for word in words)
    expected = list(map(int, words)) if right else [256]
    assert (None if found is None else found.tolist()) == (
        expected if all(value < 256 for value in expected) else None
    )


@pytest.mark.parametrize(
    "key",
    ['"axis"', "axis", '"\\u0061xis"', '/**/"axis"/**/', '//\n"axis"//\n', " axis /* */"],
)
def test_a_key_is_read_alike_in_every_form(key: str) -> None:
    assert read(spelled('"axis"', key)).main.operators[0].attributes == {"axis": 1}
    (finding,) = refused(spelled('"axis"', key.replace("xis", "xes"))).findings
    assert finding.where.endswith(f"{OPERATOR}.attribute.axes")
    assert finding.message == "unknown field, expected one of: axis"


@pytest.mark.parametrize("form", ["{},", "{}/**/,", "/**/{},", "//\n{}//\n,", " \t\r\n{} ,"])
def test_members_of_lists_are_read_alike_in_every_form(form: str) -> None:
    def listed(members: list[str]) -> bytes:
        made = json.dumps(base()).replace('"outputs": ["b"]}]}', '"outputs": ["b"], "x": 0}]}')
        text = "[" + "".join(form.format(member) for member in members) + "]"
        return made.replace('["a"]', text, 1).encode() if '"' in members[0] else (
            made.replace("[2]", text, 1).encode()
        )  # fmt: skip

    names, dims = ['"a"', '""', '"a"', '"\\u0062"'], ["2", "0", "-2147483648", "2147483647"]
    for members, field in ((names, f"{OPERATOR}.inputs"), (dims, f"{TENSOR}.shape")):
        error = refused(listed([*members, "2147483648"]))
        assert error.findings[0].where.endswith(f"{field}[4]")
        assert error.findings[0].message.startswith("found 2147483648, expected a")
    found = read(listed(names).replace(b', "x": 0', b"")).main.operators[0]
    assert found.inputs == ("a", "", "a", "b")
    with pytest.raises(TosaConvertError, match=re.escape("[2, 0, -2147483648, 2147483647]")):
        read(listed(dims).replace(b', "x": 0', b""))


def test_a_finding_shows_its_line_with_a_caret() -> None:
    raw = spelled('"op": "REVERSE"', '\n\t"op": "REVERSO"').replace(b'"axis": 1', b'"axis": -')
    first, second = refused(raw).findings
    line, caret = first.excerpt.split("\n")
    assert first.where.startswith("line 2:8: ")
    assert line.startswith('    "op": "REVERSO", "attribute_type"')
    assert caret == " " * 10 + "^"
    line, caret = second.excerpt.split("\n")
    assert line[len(caret) - 1 :].startswith("-}")
    assert len(line) <= 100
    assert f"\n    {line}\n    {caret}" in str(refused(raw))


def nested(depth: int) -> bytes:
    """A program with lists `depth` levels deep in a field that is read late."""
    return spelled('"op": "REVERSE", "attribute_type": "ReverseAttribute", "attribute": {"axis": 1}',
                   '"attribute": ' + "[" * (depth - 7) + "]" * (depth - 7) +
                   ', "op": "REVERSE", "attribute_type": "ReverseAttribute"')  # fmt: skip


def test_nesting_is_limited_by_the_limit() -> None:
    raw = json.dumps(base()).encode()
    for depth in (1, 5, 7):
        with pytest.raises(TosaConvertError, match=f"nested deeper than {depth}"):
            read(raw, limits=Limits(json_depth=depth))
    read(raw, limits=Limits(json_depth=8))


@pytest.mark.parametrize("depth", [20, 64, 100])
def test_values_that_are_skipped_count_towards_the_limit(depth: int) -> None:
    with pytest.raises(TosaConvertError, match=f"nested deeper than {depth}"):
        read(nested(depth + 1), limits=Limits(json_depth=depth))
    with pytest.raises(TosaConvertError) as caught:
        read(nested(depth), limits=Limits(json_depth=depth))
    assert "nested" not in str(caught.value)


# -- what is hostile ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nest",
    [
        b'{"x": ' + b"[" * 1_000_000,
        b'{"x": ' + b'{"a":' * 1_000_000,
        b'{"regions": ' + b"[" * 1_000_000,
        b"[" * 1_000_000,
        b'{"regions": [{"blocks": ' * 100_000,
    ],
)
def test_deep_nesting_is_refused(nest: bytes) -> None:
    assert refused(nest).code == "malformed-json"


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        (b'{"regions": [' + b"{}," * 50_000, 20),
        (b'{"regions": [{"blocks": [' + b"{}," * 50_000, 20),
        (b'{"regions": [{"blocks": [{"operators": [' + b"{}," * 50_000, 20),
        (b'{"regions": [{"blocks": [{"tensors": [' + b"{}," * 50_000, 20),
        (b'{"regions": [{"blocks": [{"shapes": [' + b"{}," * 50_000, 50),
        (b'{"regions": [{"blocks": [{"inputs": [' + b'"",' * 50_000, 20),
        (b'{"regions": [{"blocks": [{"inputs": [' + b"[]," * 50_000, 20),
        (b'{"x": [' + b"[]," * 50_000, 20),
        (b'{"x": ["' + b"a" * 150_000, 20),
        (b'{"regions": [{"name": "' + b"\\n" * 75_000, 20),
        (b'{"' + b"a" * 150_000 + b'": 1}', 20),
        (b"{" + b"a" * 150_000 + b": 1}", 20),
        (b'{"version": {"_major": ' + b"9" * 150_000, 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"shape": [' + b"1," * 75_000, 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"1," * 75_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"1,/**/" * 25_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b" " * 150_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"9" * 150_000 + b"]", 20),
        (b'{"regions": [{"blocks": [{"tensors": [{"data": [' + b"," * 150_000 + b"]", 20),
        (b"//" * 75_000, 20),
        (b"/**/" * 40_000, 20),
        (b'{"x":1,' * 25_000, 20),
    ],
)
def test_a_hostile_file_costs_neither_much_time_nor_much_memory(raw: bytes, limit: int) -> None:
    started = time.monotonic()
    tracemalloc.start()
    try:
        refused(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (4 << 20) + limit * len(raw)
    # Generous: tracing makes it several times slower, and what would hang takes hours.
    assert time.monotonic() - started < 60


def test_weights_take_little_more_memory_than_their_bytes() -> None:
    count = 1 << 21
    value = tensor("t", "INT8", (count,), bytes(np.arange(count, dtype=np.uint8)))
    raw = text(graph("", "t", [value], [op("CONST", "", "t")]))
    tracemalloc.start()
    found = read(memoryview(raw))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * count + (32 << 20)
    assert value.data is not None
    data = found.main.tensors["t"].data
    assert data is not None
    assert data.same_bits(value.data)


def test_no_more_strings_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "REMEMBERED", 2)
    same(example(), text(example()))


def test_nothing_of_the_buffer_is_kept() -> None:
    raw = bytearray(text(example()))
    found = read(raw)
    raw[:] = bytes(len(raw))
    raw.clear()
    assert compare(found, example()) is None


@given(st.data())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    raw = bytearray(text(data.draw(st.sampled_from([example(), counting()]))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["change", "cut", "insert", "end"]))
        if kind == "change":
            raw[at] = data.draw(st.sampled_from(list(b'{}[],:"\\/*0-9ae \n\0\xff')))
        elif kind == "cut":
            del raw[at : at + data.draw(st.integers(1, 40))]
        elif kind == "insert":
            raw[at:at] = data.draw(
                st.sampled_from([b"[", b"{", b"null", b"1e9", b"//", b"/*", b","])
            )
        else:
            del raw[at:]
        if not raw:
            break
    findings: tuple[Finding, ...] = ()
    try:
        read(bytes(raw))
    except TosaConvertError as error:
        findings = error.findings
    assert len(findings) <= MAX_FINDINGS
    assert all(len(str(row)) < 7000 for row in findings)
