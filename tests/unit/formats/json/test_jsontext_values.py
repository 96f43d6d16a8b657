"""JSON -> Graph: programs and values that are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.building import PRODUCER, branching, counting, example, graph, op, shape, tensor
from unit.json_text import Json, base, changed, respelled, same, text

from tosa_convert.formats.flatbuffer.read import read as read_flatbuffer
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.formats.json.read import read
from tosa_convert.graph import DTYPES, Constant, DType, Graph, compare, dtype, operator
from tosa_convert.graph.dtypes import BlockShape, NanPropagationMode
from tosa_convert.graph.model import BlockScale, Version
from tosa_convert.graph.versions import V1_1_DRAFT


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


def test_up_to_7_bytes_of_padding_are_preserved() -> None:
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
def test_the_form_of_the_text_makes_no_difference(layout: Callable[[Json], str]) -> None:
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
def test_explicit_defaults_numbers_and_nulls_mean_the_same_as_absent_fields(
    path: str, value: Any
) -> None:
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


def test_operators_without_attributes_need_no_attribute_table() -> None:
    raw = respelled('"op": "REVERSE", "attribute_type": "ReverseAttribute", "attribute": {"axis": 1}',
                  '"op": "ABS", "attribute_type": "AbsAttribute"')  # fmt: skip
    assert read(raw).main.operators[0].spec is operator("ABS")


def test_variables_are_read_from_their_own_operator_code_too() -> None:
    raw = text(counting()).replace(b'"IDENTITY"', b'"VARIABLE_READ"', 1)
    assert compare(read(raw), counting()) is None


def test_escapes_mean_their_characters() -> None:
    raw = respelled('"name": "a"', r'"name": "\"\\\/\b\f\n\r\té\u00e9\uD83D\ude00\u0000"')
    assert '"\\/\b\f\n\r\téé\U0001f600\0' in read(raw).main.tensors
