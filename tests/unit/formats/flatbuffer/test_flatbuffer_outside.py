"""Files exchanged with the `flatbuffers` package in both directions, and one file written by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from refusing import refused
from unit.both_readers import read
from unit.building import PRODUCER, branching, counting, encode, example, graph, op, shape, tensor
from unit.flatbuffer_by_hand import BY_HAND
from unit.graph.test_verify import zoo

from tosa_convert.formats.flatbuffer import write as writing
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import (
    Block,
    Constant,
    Graph,
    Operator,
    Region,
    ShapeValue,
    Tensor,
    compare,
    dtype,
    verify,
)
from tosa_convert.graph.versions import V1_0, V1_1_DRAFT

flatbuffers = pytest.importorskip("flatbuffers", reason="the flatbuffers package is not installed")

from unit import outside_flatbuffer as outside  # noqa: E402 - it imports flatbuffers

GRAPHS = [example, branching, counting, zoo]


def constant(data: Constant | None) -> bytes:
    return b"" if data is None else bytes(data.packed())


def described(made: Graph) -> dict[str, Any]:
    """Return the expected fields of the file of a TOSA 1.0 graph, without attributes."""

    def of_tensor(value: Tensor) -> dict[str, Any]:
        fields = {
            "name": value.name,
            "shape": list(value.shape or ()),
            "type": value.dtype.code,
            "data": constant(value.data),
            "variable_name": value.variable_name,
            "scale_data": constant(value.scale.data if value.scale else None),
        }
        if value.variable:
            fields["variable"] = True
        if value.shape is None:
            fields["is_unranked"] = True
        if value.scale is not None:
            fields |= {"scale_type": value.scale.dtype.code, "block_shape": int(value.scale.shape)}
        return fields

    def of_shape(value: ShapeValue) -> dict[str, Any]:
        return {"name": value.name, "rank": value.rank, "data": constant(value.data)}

    def of_operator(value: Operator) -> dict[str, Any]:
        is_variable = value.spec.name in ("VARIABLE_READ", "VARIABLE_WRITE")
        return {
            "op": 68 if is_variable else value.spec.code,  # existing readers expect IDENTITY
            "attribute_type": value.spec.code,
            "inputs": list(value.inputs),
            "outputs": list(value.outputs),
            "location": {"text": value.location},
        }

    def of_block(value: Block) -> dict[str, Any]:
        return {
            "name": value.name,
            "inputs": value.inputs,
            "outputs": value.outputs,
            "operators": list(map(of_operator, value.operators)),
            "tensors": list(map(of_tensor, value.tensors.values())),
            "shapes": list(map(of_shape, value.shapes.values())),
        }

    regions = [{"name": r.name, "blocks": list(map(of_block, r.blocks))} for r in made.regions]
    return {
        "version": {"_major": 1, "_minor": 0, "_patch": 0, "_draft": False},
        "software_version": {"_major": 1, "_minor": 2, "_micro": 3, "_modifier": "test"},
        "regions": regions,
    }


@pytest.mark.parametrize("make", GRAPHS)
def test_the_flatbuffers_package_reads_every_field_of_our_file(make: Callable[[], Graph]) -> None:
    found = outside.read(encode(make()))
    for region in found["regions"]:
        for block in region["blocks"]:
            for operator in block["operators"]:
                del operator["attribute"]
    assert found == described(make())


def test_the_flatbuffers_package_reads_the_attributes_of_our_file() -> None:
    operators = outside.read(encode(zoo()))["regions"][0]["blocks"][0]["operators"]
    assert [row["attribute"] for row in operators if row["attribute"]] == [
        {"min_val": b"\x80", "max_val": b"\x7f" + bytes(7), "nan_mode": 2},
        {"perms": [0, 2, 1, 3]},
        {"kernel": [2, 2], "stride": [2, 2], "pad": [0, 0, 0, 0], "acc_type": 5},
        {"operator_name": "f", "domain_name": "d", "implementation_attrs": b"\0\xff"},
        {"then_graph": "then", "else_graph": "else"},
    ]


@pytest.mark.parametrize("make", GRAPHS)
def test_every_field_of_a_file_by_the_flatbuffers_package_is_read(
    make: Callable[[], Graph],
) -> None:
    found = read(outside.write(outside.read(encode(make()))))
    assert verify(found) == []
    assert compare(make(), found, locations=True, version=True) is None
    assert found.producer == PRODUCER


@pytest.mark.parametrize("make", GRAPHS)
def test_fields_that_readers_dereference_are_present_even_if_empty(
    make: Callable[[], Graph],
) -> None:
    made = make()
    made.producer = None
    for _, block in made.blocks():
        for operator in block.operators:
            operator.location = ""
    found = outside.read(encode(made))
    assert found["software_version"]["_modifier"] == "test"
    for region in found["regions"]:
        for block in region["blocks"]:
            assert block.keys() == {"name", "inputs", "outputs", "operators", "tensors", "shapes"}
            for operator in block["operators"]:
                assert {"op", "attribute_type", "attribute", "inputs", "outputs"} < operator.keys()
                assert operator["location"] == {"text": ""}
            for value in block["tensors"]:
                assert {"name", "shape", "data", "variable_name", "scale_data"} < value.keys()


def test_absent_optional_fields_mean_their_defaults() -> None:
    bare = {
        "version": {"_major": 1, "_minor": 1, "_patch": 0},
        "regions": [
            {
                "name": "main",
                "blocks": [
                    {
                        "operators": [
                            {"op": 54, "attribute_type": 54, "attribute": {}, "inputs": ["x"],
                             "outputs": ["y"]}
                        ],
                        "tensors": [{"name": "x", "type": 7}, {"name": "y", "type": 7}],
                        "inputs": ["x"],
                    }
                ],
            }
        ],
    }  # fmt: skip
    expected = graph("x", "", [tensor("x", shape=()), tensor("y", shape=())],
                     [op("REDUCE_SUM", "x", "y", axis=0)])  # fmt: skip
    expected.version, expected.main.name = V1_1_DRAFT, ""
    found = read(outside.write(bare))
    assert compare(found, expected, locations=True, version=True) is None
    assert found.producer is None


def test_a_1_1_file_states_the_reader_that_it_needs() -> None:
    made = example()
    assert "compatibility" not in outside.read(encode(made))
    made.version = V1_1_DRAFT
    found = outside.read(encode(made))
    assert found["version"] == {"_major": 1, "_minor": 1, "_patch": 0}
    assert found["compatibility"] == {
        "min_reader_version": {"_major": 2026, "_minor": 8, "_micro": 0, "_modifier": ""}
    }
    made = zoo()
    made.version = V1_1_DRAFT
    assert outside.read(encode(made))["compatibility"]["features"] == 2


def test_a_file_written_by_hand_reads_as_its_comments_say() -> None:
    assert len(BY_HAND) == 204
    expected = graph("x", "x", [tensor("x", shape=(2,))], [])
    assert compare(read(BY_HAND), expected, version=True) is None
    assert read(BY_HAND).version == V1_0


@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("out_of_line", [False, True])
def test_the_same_graph_gives_the_same_bytes(make: Callable[[], Graph], out_of_line: bool) -> None:
    one, other = make(), make()
    for operator in other.main.operators:
        operator.attributes = dict(reversed(operator.attributes.items()))
    expected = encode(one, out_of_line=out_of_line)
    assert encode(other, out_of_line=out_of_line) == expected
    assert encode(one, out_of_line=out_of_line) == expected
    assert encode(read(expected), out_of_line=out_of_line) == expected


#: The beginning of the SHA-256 of the files: data inside, and after the flatbuffer.
WRITTEN = {
    "example": ("deae7500d430", "bd6a3826198c"),
    "branching": ("67b4dc5a7311", "20c01d2ea6a3"),
    "counting": ("4172b0311908", "cb56a4eb1d85"),
    "zoo": ("1c580a1e7f23", "26639365ce72"),
}


@pytest.mark.parametrize("make", GRAPHS)
def test_files_are_those_of_earlier_releases(make: Callable[[], Graph]) -> None:
    """Pin the layout: caches compare files, so it must not change by accident."""
    found = [hashlib.sha256(encode(make(), out_of_line=out)).hexdigest() for out in (False, True)]
    assert tuple(digest[:12] for digest in found) == WRITTEN[make.__name__]


def test_data_is_aligned_to_16_bytes_and_everything_else_to_its_width() -> None:
    patterns = [bytes([value]) * size for value, size in ((17, 1), (34, 7), (51, 16), (68, 33))]
    values: list[Tensor | ShapeValue] = [
        tensor(f"k{index}", "INT8", (len(data),), data) for index, data in enumerate(patterns)
    ]
    operators = [op("CONST", "", f"k{index}") for index in range(len(patterns))]
    values.append(shape("s", 0x5555555555555555))
    operators.append(op("CONST_SHAPE", "", "s"))
    for out_of_line, align in ((False, 16), (True, 8)):
        data = encode(graph("", "", values, operators), out_of_line=out_of_line)
        places = [data.rindex(pattern) for pattern in patterns]
        assert [place % align for place in places] == [0] * len(patterns)
        assert data.index(b"\x55" * 8) % 8 == 0


def test_out_of_line_data_follows_a_complete_flatbuffer() -> None:
    made = zoo()
    made.main.tensors["k"].data.padding = 6  # type: ignore[union-attr]
    data = encode(made, out_of_line=True)
    block = outside.read(data)["regions"][0]["blocks"][0]
    tensors = {value["name"]: value for value in block["tensors"]}
    assert all("data" not in value and "scale_data" not in value for value in tensors.values())
    for name, value in tensors.items():
        expected = constant(made.main.tensors[name].data)
        if name == "k":
            expected += bytes(6)
        assert data[value["offset"] : value["offset"] + value["size"]] == expected
        # Existing readers take offsets 0 and 1 to mean that the data is inside, even if it is empty.
        assert value["offset"] > 1
        assert value["offset"] % 8 == 0 or not expected
    scaled = tensors["mx"]
    assert scaled["scale_size"] == 4
    assert scaled["scale_offset"] == scaled["offset"] + scaled["size"]
    assert {value["name"]: len(value["data"]) for value in block["shapes"]} == {"to": 32, "open": 0}
    found = read(data)
    assert compare(made, found, locations=True, version=True) is None
    assert encode(found) == encode(made)


def test_data_moves_out_of_line_at_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = tensor("w", "INT8", (4096,), bytes(range(256)) * 16)
    made = graph("", "w", [weight], [op("CONST", "", "w")])
    whole = plan(made, PRODUCER, out_of_line=False).size
    monkeypatch.setattr(writing, "SIZE_LIMIT", whole + 1)
    assert not plan(made, PRODUCER).out_of_line
    monkeypatch.setattr(writing, "SIZE_LIMIT", whole)
    assert plan(made, PRODUCER).out_of_line
    with refused("too-large"):
        plan(made, PRODUCER, out_of_line=False)
    monkeypatch.setattr(writing, "SIZE_LIMIT", 100)
    with refused("too-large", match="without weights"):
        plan(made, PRODUCER)


@pytest.mark.parametrize("out_of_line", [False, True])
def test_a_plan_has_the_size_of_the_file_and_copies_no_constant(out_of_line: bool) -> None:
    raw = bytearray(b"\7" * 5000)
    weight = Tensor("w", dtype("INT8"), (5000,), Constant(dtype("INT8"), 5000, raw, padding=3))
    made = graph("", "w", [weight], [op("CONST", "", "w")])
    laid_out = plan(made, PRODUCER, out_of_line=out_of_line)
    pieces = list(laid_out.pieces())
    assert sum(map(len, pieces)) == laid_out.size
    assert any(isinstance(piece, memoryview) and piece.obj is raw for piece in pieces)


def test_a_constant_is_a_view_of_the_buffer() -> None:
    data = bytearray(encode(example()))
    found = read(data).main.tensors["w"].data
    assert found is not None
    data[data.rindex(bytes(found.packed())) + 4] ^= 0xFF
    assert bytes(found.packed())[4] == 0xFF


@pytest.mark.parametrize("padding", range(8))
def test_padding_of_up_to_7_bytes_is_preserved_and_more_is_dropped(padding: int) -> None:
    weight = tensor("w", "INT8", (3,), b"\1\2\3")
    weight.data.padding = padding  # type: ignore[union-attr]
    made = graph("", "w", [weight], [op("CONST", "", "w")])
    data = encode(made)
    assert outside.read(data)["regions"][0]["blocks"][0]["tensors"][0]["data"] == b"\1\2\3" + bytes(
        padding
    )
    assert encode(read(data)) == data
    weight.data.padding = padding + 8  # type: ignore[union-attr]
    found = read(encode(made)).main.tensors["w"].data
    assert found is not None
    assert found.padding == 0
    assert bytes(found.packed()) == b"\1\2\3"


def test_sizes_beyond_the_rank_of_a_shape_are_dropped() -> None:
    fields = outside.read(encode(graph("", "", [shape("s", 5, 7, 9)], [])))
    (row,) = fields["regions"][0]["blocks"][0]["shapes"]
    row["rank"] = 2
    data = read(outside.write(fields)).main.shapes["s"].data
    assert data is not None
    assert (data.numpy().tolist(), data.buffer.nbytes) == ([5, 7], 16)


@pytest.mark.parametrize(("size", "is_read"), [(7, True), (8, False), (9, False)])
def test_what_follows_data_is_padding_if_it_is_short_or_zero(size: int, is_read: bool) -> None:
    fields = outside.read(encode(graph("", "w", [tensor("w", "INT8", (3,), b"abc")], [])))
    (row,) = fields["regions"][0]["blocks"][0]["tensors"]
    row["data"] = b"abc" + bytes(size - 1) + b"\1"
    if is_read:
        found = read(outside.write(fields)).main.tensors["w"].data
        assert found is not None
        assert (bytes(found.packed()), found.padding) == (b"abc", size)
        return
    with refused("data-length"):
        read(outside.write(fields))


def test_constants_without_elements_remain_constants() -> None:
    made = graph("", "e", [tensor("e", shape=(0, 3), data=b""), shape("s")],
                 [op("CONST", "", "e"), op("CONST_SHAPE", "", "s")])  # fmt: skip
    for out_of_line in (False, True):
        found = read(encode(made, out_of_line=out_of_line))
        assert verify(found) == []
        assert compare(made, found) is None


def test_equal_texts_shapes_and_attributes_are_stored_once() -> None:
    name = "a_rather_long_name_" * 3
    values: list[Tensor | ShapeValue] = [
        tensor(f"{i}", shape=(1234567, 7654321)) for i in range(50)
    ]
    operators = [op("REDUCE_SUM", f"{i}", f"{i + 1}", f'loc("{name}")', axis=77) for i in range(49)]
    data = encode(graph("0", "49", values, operators))
    assert data.count(name.encode()) == 1
    assert data.count((1234567).to_bytes(4, "little")) == 1
    assert data.count((77).to_bytes(4, "little")) == 1


def test_a_single_empty_block_can_be_written() -> None:
    made = Graph(V1_0, [Region("main", [Block("main")])])
    assert compare(made, read(encode(made))) is None


@pytest.mark.parametrize("name", ["", "é", "\N{GRINNING FACE}", "a\0b", "x" * 70_000, 'a\\"\n'])
def test_any_name_survives(name: str) -> None:
    made = graph("", "", [tensor(name)], [])
    made.main.inputs = [name]
    data = encode(made)
    assert outside.read(data)["regions"][0]["blocks"][0]["inputs"] == [name]
    assert compare(made, read(data)) is None
