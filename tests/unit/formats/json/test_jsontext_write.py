"""Graph -> JSON: the text itself. tests/oracle compares it with flatc's."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.building import PRODUCER, branching, counting, example, graph, op, shape, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.json import write as writing
from tosa_convert.formats.json.write import PIECE, ByteListFormatter, quoted, write
from tosa_convert.graph import Constant, Graph, dtype
from tosa_convert.graph.dtypes import BlockShape, NanPropagationMode
from tosa_convert.graph.model import BlockScale
from tosa_convert.graph.versions import V1_1_DRAFT


def text(made: Graph) -> str:
    return b"".join(write(made, PRODUCER)).decode("ascii")


def parsed(made: Graph) -> Any:
    return json.loads(text(made))


def main_block(made: Graph) -> Any:
    return parsed(made)["regions"][0]["blocks"][0]


def with_name(name: str) -> Graph:
    return graph(name, name, [tensor(name)], []) if name else graph("", "", [tensor("")], [])


# Long because it contains the whole expected text.
def test_a_small_graph_is_exactly_this_text() -> None:
    made = graph("", "t", [tensor("t", "INT8", (2,), b"\x00\xff")], [op("CONST", "", "t")])
    assert (
        text(made)
        == """\
{
  "version": {
    "_major": 1,
    "_minor": 0,
    "_patch": 0,
    "_draft": false
  },
  "regions": [
    {
      "name": "main",
      "blocks": [
        {
          "name": "main",
          "operators": [
            {
              "op": "CONST",
              "attribute_type": "ConstAttribute",
              "attribute": {
              },
              "inputs": [

              ],
              "outputs": [
                "t"
              ],
              "location": {
                "text": ""
              }
            }
          ],
          "tensors": [
            {
              "name": "t",
              "shape": [
                2
              ],
              "type": "INT8",
              "data": [
                0,
                255
              ],
              "variable_name": "",
              "scale_data": [

              ]
            }
          ],
          "inputs": [

          ],
          "outputs": [
            "t"
          ],
          "shapes": [

          ]
        }
      ]
    }
  ],
  "software_version": {
    "_major": 1,
    "_minor": 2,
    "_micro": 3,
    "_modifier": "test"
  }
}
"""
    )


def test_draft_is_written_only_if_it_is_false() -> None:
    made = example()
    assert parsed(made)["version"]["_draft"] is False
    made.version = V1_1_DRAFT
    assert "_draft" not in parsed(made)["version"]


def test_compatibility_is_written_after_1_0_and_has_features_only_if_there_are_any() -> None:
    made = example()
    assert "compatibility" not in parsed(made)
    made.version = V1_1_DRAFT
    assert parsed(made)["compatibility"].keys() == {"min_reader_version"}
    value = tensor("mx", "FP8E4M3", (32,))
    value.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    made.main.tensors["mx"] = value
    assert parsed(made)["compatibility"]["features"] == 2


def test_variables_are_read_and_written_by_an_identity_with_other_attributes() -> None:
    operators = main_block(counting())["operators"]
    assert [(row["op"], row["attribute_type"]) for row in operators] == [
        ("IDENTITY", "VariableReadAttribute"),
        ("ADD", "AddAttribute"),
        ("IDENTITY", "VariableWriteAttribute"),
    ]
    (variable,) = (row for row in main_block(counting())["tensors"] if row["name"] == "v")
    assert variable["variable"] is True
    assert variable["variable_name"] == "counter"


def test_scalars_equal_to_the_default_are_left_out_and_enums_are_not() -> None:
    made = graph(
        "x",
        "y",
        [tensor("x"), tensor("y", shape=(1, 3))],
        [op("REDUCE_MAX", "x", "y", axis=0, nan_mode=NanPropagationMode.PROPAGATE)],
    )
    assert main_block(made)["operators"][0]["attribute"] == {"nan_mode": "PROPAGATE"}


def test_flags_are_written_only_where_they_are_set() -> None:
    made = graph("x", "", [tensor("x"), tensor("a"), tensor("b")], [])
    for name, inverse in (("a", True), ("b", False)):
        made.main.operators.append(
            op("FFT2D", "x x", f"{name} {name}", inverse=inverse, local_bound=not inverse)
        )
    first, second = (row["attribute"] for row in main_block(made)["operators"])
    assert first == {"inverse": True}
    assert second == {"local_bound": True}


def test_attributes_of_every_kind_are_written() -> None:
    made = graph(
        "x",
        "z",
        [tensor("x"), tensor("y"), tensor("z")],
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
                operator_name="o\n",
                domain_name="",
                implementation_attrs=b"\0\xff",
            ),
        ],
    )
    clamp, custom = (row["attribute"] for row in main_block(made)["operators"])
    assert clamp == {"min_val": [0, 0, 0, 0], "max_val": [1, 2, 3, 4], "nan_mode": "IGNORE"}
    assert custom == {
        "operator_name": "o\n",
        "domain_name": "",
        "implementation_attrs": [0, 255],
    }


def test_regions_are_written_in_order_and_referred_to_by_name() -> None:
    found = parsed(branching())
    assert [row["name"] for row in found["regions"]] == ["main", "then", "else"]
    attribute = found["regions"][0]["blocks"][0]["operators"][0]["attribute"]
    assert attribute == {"then_graph": "then", "else_graph": "else"}


def test_rank_0_and_unranked_tensors_both_have_an_empty_shape() -> None:
    made = graph("a b", "", [tensor("a", shape=()), tensor("b", shape=None)], [])
    a, b = main_block(made)["tensors"]
    assert a["shape"] == b["shape"] == []
    assert "is_unranked" not in a
    assert b["is_unranked"] is True


def test_padding_is_written_after_the_data() -> None:
    value = tensor("t", "INT8", (3,))
    value.data = Constant(dtype("INT8"), 3, b"\1\2\3", padding=5)
    made = graph("", "t", [value], [op("CONST", "", "t")])
    assert main_block(made)["tensors"][0]["data"] == [1, 2, 3, 0, 0, 0, 0, 0]


def test_shapes_have_their_rank_and_sizes() -> None:
    made = graph("", "", [shape("s", 2, -1), shape("e")], [])
    s, e = main_block(made)["shapes"]
    assert s["rank"] == 2
    assert s["data"] == [2, *[0] * 7, *[255] * 8]
    assert "rank" not in e
    assert e["data"] == []


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("", '""'),
        ("a/b", '"a/b"'),
        ('"\\', '"\\"\\\\"'),
        ("\n\t\r\b\f", '"\\n\\t\\r\\b\\f"'),
        ("\0\x01\x1f\x7f", '"\\u0000\\u0001\\u001F\\u007F"'),
        ("é\u20ac", '"\\u00E9\\u20AC"'),
        ("\U0001f600\U0010ffff", '"\\uD83D\\uDE00\\uDBFF\\uDFFF"'),
    ],
)
def test_strings_are_escaped_with_upper_case_digits(plain: str, expected: str) -> None:
    assert quoted(plain) == expected


@given(st.text())
def test_any_text_survives(plain: str) -> None:
    assert json.loads(quoted(plain)) == plain


def test_a_name_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(TosaConvertError) as caught:
        text(with_name("a\udcffb"))
    assert caught.value.code == "value-out-of-range"


@given(st.binary(max_size=300), st.integers(0, 8))
def test_bytes_are_formatted_as_json_does(data: bytes, levels: int) -> None:
    indent = "  " * levels
    pieces = ByteListFormatter(indent).pieces(iter((memoryview(data),)))
    joined = "".join(p if isinstance(p, str) else p.decode() for p in pieces)
    lines = ",\n".join(f"{indent}  {value}" for value in data)
    assert joined == f"[\n{lines}\n{indent}]"


def test_chunks_of_a_list_are_joined_by_commas() -> None:
    chunks = iter((memoryview(b"\1"), memoryview(b""), memoryview(b"\2\3")))
    pieces = ByteListFormatter("").pieces(chunks)
    joined = "".join(p if isinstance(p, str) else p.decode() for p in pieces)
    assert joined == "[\n  1,\n  2,\n  3\n]"


def constants(kind: str, count: int) -> Iterator[Constant]:
    """Iterate over the same elements in every form."""
    row = dtype(kind)
    ones = np.ones(count * row.element_bytes, np.uint8)
    if row.is_packed:
        yield Constant(row, count, ones, unpacked=True)
    yield Constant(row, count, b"\1" * row.element_bytes, splat=True)
    yield Constant(row, count, Constant(row, count, b"\1" * row.element_bytes, splat=True).packed())


@pytest.mark.parametrize("kind", ["BOOL", "INT4", "INT48", "FP6E2M3", "FP32"])
def test_the_form_of_a_constant_makes_no_difference(kind: str) -> None:
    texts = set()
    for constant in constants(kind, 5):
        value = tensor("t", kind, (5,))
        value.data = constant
        texts.add(text(graph("", "t", [value], [op("CONST", "", "t")])))
    assert len(texts) == 1


def test_weights_are_formatted_in_pieces_and_never_as_a_whole() -> None:
    count = 1 << 22
    value = tensor("t", "INT8", (count,))
    value.data = Constant(dtype("INT8"), count, b"\x7b", splat=True)
    made = graph("", "t", [value], [op("CONST", "", "t")])
    total = longest = 0
    tracemalloc.start()
    for piece in write(made, PRODUCER):
        total += len(piece)
        longest = max(longest, len(piece))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total > 20 * count
    assert longest < 2 << 20
    assert peak < 16 << 20


def test_many_operators_come_in_pieces() -> None:
    made = graph("x0", "x9999", [tensor(f"x{i}") for i in range(10000)], [])
    made.main.operators = [op("EXP", f"x{i}", f"x{i + 1}") for i in range(9999)]
    pieces = list(write(made, PRODUCER))
    assert len(pieces) > 10
    assert all(len(piece) < 2 * PIECE for piece in pieces)


def test_the_same_graph_has_the_same_bytes() -> None:
    assert text(example()) == text(example())


def test_few_bytes_are_listed_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 2
    for indent in ("", "    "):
        formatter = ByteListFormatter(indent)
        few = formatter.members(memoryview(data))
        assert few.count(b",") == len(data)
        monkeypatch.setattr(writing, "MANY_BYTES", 1)
        assert formatter.members(memoryview(data)) == few
        monkeypatch.undo()
