"""Every byte of a `.tosa` file belongs to one row, whether the file is sound or damaged."""

from __future__ import annotations

import random
import struct

import pytest
from unit.building import PRODUCER, branching, counting, example
from unit.flatbuffer_by_hand import BY_HAND, ROWS

from tosa_convert.formats.flatbuffer.annotate import PAGE, Annotation, ByteRange, Coverage
from tosa_convert.formats.flatbuffer.builder import Plan
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import Graph


def encode(made: Graph, *, out_of_line: bool = False) -> bytes:
    planned: Plan = plan(made, PRODUCER, out_of_line=out_of_line)
    return b"".join(planned.pieces())


def rows_of(data: bytes) -> tuple[list[ByteRange], list[str]]:
    """The rows, which cover each byte once, and the errors."""
    found = Annotation(memoryview(data))
    rows = list(found.rows())
    position = 0
    for row in rows:
        assert row.start == position < row.end
        position = row.end
    assert position == len(data)
    for error in found.errors:
        assert 0 <= error.offset <= len(data)
    return rows, [f"{error.path}: {error.message}" for error in found.errors]


def row(rows: list[ByteRange], path: str, what: str = "") -> ByteRange:
    (found,) = (one for one in rows if one.path == path and one.what == what)
    return found


MADE = {"example": example, "branching": branching, "counting": counting}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("out_of_line", [False, True])
def test_every_byte_of_a_file_belongs_to_a_row(name: str, out_of_line: bool) -> None:
    rows, errors = rows_of(encode(MADE[name](), out_of_line=out_of_line))
    assert errors == []
    unknown = [one for one in rows if "refers" in one.what or "schema" in one.what]
    # If no tensor is plain, the writer leaves the vtable of plain tensors unused.
    assert sum(one.end - one.start for one in unknown) == (28 if out_of_line else 0)


def test_the_rows_of_a_file_written_by_hand_are_what_its_comments_say() -> None:
    rows, errors = rows_of(BY_HAND)
    assert errors == []
    found = [f"{one.start} {one.path}: {one.what}: {one.value}".rstrip() for one in rows]
    assert found == [line.rstrip() for line in ROWS.strip().splitlines()]


def test_rows_say_what_the_bytes_mean() -> None:
    made = example()
    made.main.operators[2].attributes["axis"] = 1
    data = encode(made)
    rows, _ = rows_of(data)
    main = "regions[0].blocks[0]"
    assert rows[0].what == "offset of the root table TosaGraph"
    assert rows[1].value == "'TOSA'"
    assert row(rows, "version._major").value == "1"
    assert row(rows, f"{main}.operators[1].op").value == "ADD (15)"
    assert row(rows, f"{main}.operators[1].attribute_type").value == "AddAttribute (15)"
    assert row(rows, f"{main}.operators[2].attribute.axis").value == "1"
    assert row(rows, f"{main}.tensors[0].type").value == "FP32 (7)"
    assert row(rows, f"{main}.tensors[0].shape", "elements").value == "[2, 3]"
    assert (
        row(rows, f"{main}.operators[1].location.text", "string").value == "'loc(\"f.mlir\":2:8)'"
    )
    (weight,) = (one for one in rows if one.path.endswith(".data") and one.value == "24 bytes")
    assert data[weight.start : weight.end] == struct.pack("<6f", *range(6))


def test_offsets_point_to_the_rows_that_they_name() -> None:
    rows, _ = rows_of(encode(branching()))
    starts = {one.start for one in rows}
    targets = [int(one.value[3:], 16) for one in rows if one.value.startswith("-> ")]
    assert len(targets) > 50
    assert starts.issuperset(targets)


def test_padding_within_a_table_belongs_to_the_table() -> None:
    rows, _ = rows_of(encode(example()))
    # Three numbers of 4 bytes and a bool of 1, in a table of 20 bytes with the offset of its vtable.
    assert row(rows, "version", "padding").end - row(rows, "version._draft").end == 3


def test_data_after_the_flatbuffer_belongs_to_its_tensor() -> None:
    rows, _ = rows_of(encode(example(), out_of_line=True))
    (found,) = (one for one in rows if one.what == "data after the flatbuffer")
    assert found.path.endswith(".data")
    assert found.end - found.start == 24


def test_bytes_that_nothing_refers_to_are_named() -> None:
    data = encode(example())
    rows, errors = rows_of(data + b"appended")
    assert errors == []
    assert rows[-1].what == "no field refers to it"
    assert (rows[-1].start, rows[-1].end) == (len(data), len(data) + 8)


@pytest.mark.slow
def test_a_file_that_is_cut_off_is_described_as_far_as_it_goes() -> None:
    data = encode(example())
    for length in range(len(data)):
        rows, errors = rows_of(data[:length])
        assert errors, length
        assert length < 8 or rows[0].what == "offset of the root table TosaGraph"


def test_a_vector_that_is_too_long_is_an_error_and_the_rest_is_described() -> None:
    data = bytearray(encode(example()))
    rows, _ = rows_of(bytes(data))
    length = row(rows, "regions[0].blocks[0].inputs", "length of the vector")
    data[length.start : length.end] = struct.pack("<I", 2**32 - 1)
    rows, errors = rows_of(bytes(data))
    assert len(errors) == 1
    assert "regions[0].blocks[0].inputs: vector [string]" in errors[0]
    assert "is outside of the file" in errors[0]
    assert row(rows, "regions[0].blocks[0].operators[1].op").value == "ADD (15)"


def test_an_object_over_another_is_an_error() -> None:
    data = bytearray(encode(example()))
    rows, _ = rows_of(bytes(data))
    outputs = row(rows, "regions[0].blocks[0].outputs", "offset")
    inputs = row(rows, "regions[0].blocks[0].inputs", "length of the vector")
    data[outputs.start : outputs.end] = struct.pack("<I", inputs.start + 2 - outputs.start)
    _, errors = rows_of(bytes(data))
    assert len(errors) == 1
    assert "regions[0].blocks[0].outputs" in errors[0]


def test_an_object_of_another_kind_at_the_same_place_is_an_error() -> None:
    data = bytearray(encode(example()))
    rows, _ = rows_of(bytes(data))
    name = row(rows, "regions[0].blocks[0].name", "offset")
    inputs = row(rows, "regions[0].blocks[0].inputs", "length of the vector")
    data[name.start : name.end] = struct.pack("<I", inputs.start - name.start)
    _, errors = rows_of(bytes(data))
    kinds = "vector [string] at the place of string", "string at the place of vector [string]"
    assert any(kind in error for error in errors for kind in kinds)


def test_another_identifier_is_an_error_and_the_rest_is_described() -> None:
    data = bytearray(encode(example()))
    data[4:8] = b"TFL3"
    rows, errors = rows_of(bytes(data))
    assert errors == [": the identifier is not TOSA"]
    assert row(rows, "version._major").value == "1"


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_mutated_files_are_covered_too(name: str) -> None:
    data = encode(MADE[name]())
    rng = random.Random(1)
    for _ in range(400):
        mutated = bytearray(data)
        for _ in range(rng.randint(1, 6)):
            mutated[rng.randrange(len(data))] = rng.choice([0, 1, 255, rng.randrange(256)])
        rows_of(bytes(mutated))


def test_shared_objects_are_described_once() -> None:
    """A file whose operators all share one table, many times over, gives as many rows as offsets."""
    count = 10_000
    vector = struct.pack("<I", count) + b"".join(
        struct.pack("<I", 4 * (count - index)) for index in range(count)
    )
    # A vtable of no fields before the vector, and one empty table after it.
    blocks = struct.pack("<II", 1, 8)
    vtable = struct.pack("<HHHH", 8, 8, 0, 4)
    block = struct.pack("<iI", len(vtable), 4)
    region_vtable = struct.pack("<HHHH", 8, 8, 0, 4)
    region = struct.pack("<iI", len(region_vtable), 4)
    root_vtable = struct.pack("<HHHH", 8, 8, 0, 4)
    root = struct.pack("<iI", len(root_vtable), 4)
    regions = struct.pack("<II", 1, 4 + len(region_vtable))
    blocks = struct.pack("<II", 1, 4 + len(vtable))
    data = b"".join(
        (
            *(struct.pack("<I", 8 + len(root_vtable)), b"TOSA", root_vtable, root),
            *(regions, region_vtable, region, blocks, vtable, block, vector),
        )
    )
    # Every element refers to what follows the vector: a table whose vtable is that of the block.
    empty = struct.pack("<i", len(data) - data.index(vtable, 56))
    rows, _ = rows_of(data + empty + bytes(4))
    assert count < len(rows) < count + 100


def test_each_byte_is_taken_once() -> None:
    size = 3 * PAGE
    rng = random.Random(2)
    for _ in range(200):
        covered, taken = Coverage(size), bytearray(size)
        for _ in range(12):
            start = rng.choice([0, PAGE, 2 * PAGE, rng.randrange(size)])
            end = min(size, start + rng.choice([1, 7, PAGE, 2 * PAGE]))
            is_free = not any(taken[start:end])
            assert covered.take(start, end) is is_free
            if is_free:
                taken[start:end] = b"\1" * (end - start)
