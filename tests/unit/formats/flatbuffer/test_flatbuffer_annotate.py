"""Every byte of a `.tosa` file belongs to one row, whether the file is sound or damaged."""

from __future__ import annotations

import random
import struct

import pytest
from unit.building import branching, counting, encode, example
from unit.flatbuffer_by_hand import BY_HAND

from tosa_convert.formats.flatbuffer.annotate import PAGE, Annotation, ByteRange, Coverage
from tosa_convert.formats.wire.layout import ATTRIBUTES


def rows_of(data: bytes) -> tuple[list[ByteRange], list[str]]:
    """Return the rows, which cover each byte once, and the errors."""
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


TENSOR = "regions[0].blocks[0].tensors[0]"
INPUTS = "regions[0].blocks[0].inputs"
OUTSIDE = "is outside of the file of 204 bytes"
OVER = "lies over something else"
OF_VERSION = "version: the vtable of Version has an impossible size"
#: What is written where in the file written by hand, and the errors, each with its offset.
DAMAGES: list[tuple[str, int, int, list[str]]] = [
    # The root table: its last place, where a vtable of 0 bytes begins, and places beyond.
    ("I", 0, 200, ["200 : the vtable of TosaGraph has an impossible size"]),
    ("I", 0, 201, ["201 : table TosaGraph at 201 is outside of the file"]),
    ("I", 0, 2**32 - 1, [f"204 : table TosaGraph at {2**32 - 1} is outside of the file"]),
    # The place of its vtable.
    ("i", 16, 16, ["0 : the vtable of TosaGraph has an impossible size"]),
    ("i", 16, 17, ["16 : its vtable of TosaGraph at -1 is outside of the file"]),
    ("i", 16, 16 - 200, ["200 : the vtable of TosaGraph has an impossible size"]),
    ("i", 16, 16 - 201, ["16 : its vtable of TosaGraph at 201 is outside of the file"]),
    # The size of the vtable at 28, which is 12: 176 reaches the end of the file.
    ("H", 28, 2, [f"28 {OF_VERSION}"]),
    ("H", 28, 4, []),
    ("H", 28, 9, [f"28 {OF_VERSION}"]),
    ("H", 28, 176, [f"40 version: table Version {OVER}",
                    f"60 regions: vector [table] TosaRegion {OVER}"]),
    ("H", 28, 178, [f"28 {OF_VERSION}"]),
    # The size of the table at 40, which is 20.
    ("H", 30, 3, [f"28 {OF_VERSION}"]),
    ("H", 30, 4, [f"44 version: field _{name} of Version lies outside of its table"
                  for name in ("major", "minor", "patch", "draft")]),
    ("H", 30, 16, ["56 version: field _draft of Version lies outside of its table"]),
    ("H", 30, 17, []),
    ("H", 30, 21, [f"60 regions: vector [table] TosaRegion {OVER}"]),
    ("H", 30, 164, [f"60 regions: vector [table] TosaRegion {OVER}"]),
    ("H", 30, 165, [f"40 version: table Version at 40 to 205 {OUTSIDE}"]),
    # The places of fields: _minor, and _draft, which has one byte.
    ("H", 34, 3, ["43 version: field _minor of Version lies over another field"]),
    ("H", 34, 16, ["56 version: field _draft of Version lies over another field"]),
    ("H", 34, 17, ["57 version: field _minor of Version lies outside of its table"]),
    ("H", 34, 21, ["60 version: field _minor of Version lies outside of its table"]),
    ("H", 38, 19, []),
    ("H", 38, 20, ["60 version: field _draft of Version lies outside of its table"]),
    # Tables that are another kind of table: a region that is a block, of which it has two slots.
    ("I", 24, 64, [f"{at} regions[0]: field {slot} of TosaRegion is not in the schema"
                   for at, slot in ((120, 2), (124, 3), (128, 4))]),
    # Strings and vectors: the string at 184 has one character, and three bytes until the next one.
    ("I", 184, 0, [f"188 {TENSOR}.name: the string is not terminated by a zero"]),
    ("I", 184, 3, []),
    ("I", 184, 4, [f"184 {TENSOR}.name: string {OVER}", f"184 {INPUTS}[0]: string {OVER}"]),
    ("I", 184, 18, [f"184 {TENSOR}.name: string at 184 to 207 {OUTSIDE}",
                    f"184 {INPUTS}[0]: string at 184 to 207 {OUTSIDE}"]),
    ("I", 192, 7, []),
    ("I", 192, 8, [f"192 regions[0].name: string at 192 to 205 {OUTSIDE}",
                   f"192 regions[0].blocks[0].name: string at 192 to 205 {OUTSIDE}"]),
    ("I", 164, 200 - 164, [f"200 {TENSOR}.name: string at 200 to 205 {OUTSIDE}"]),
    ("I", 164, 201 - 164, [f"201 {TENSOR}.name: string at 201 is outside of the file"]),
    ("I", 168, 200 - 168, [f"200 {TENSOR}.shape: vector [i32] {OVER}"]),
    ("I", 168, 204 - 168, [f"204 {TENSOR}.shape: vector [i32] at 204 is outside of the file"]),
    ("I", 176, 0, []),
    ("I", 176, 2, [f"176 {TENSOR}.shape: vector [i32] {OVER}"]),
    ("I", 176, 7, [f"176 {TENSOR}.shape: vector [i32] at 176 to 208 {OUTSIDE}"]),
    ("I", 140, 0, []),
    ("I", 140, 2, [f"140 {INPUTS}: vector [string] {OVER}",
                   f"140 {INPUTS.replace('in', 'out')}: vector [string] {OVER}"]),
    # One object for another.
    ("I", 168, 16, [f"184 {TENSOR}.shape: vector [i32] at the place of string"]),
    ("I", 124, 8, [f"132 {INPUTS}: vector [string] at the place of vector [table] TosaTensor"]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "at", "value", "expected"), DAMAGES)
def test_damage_is_an_error_at_its_offset(
    code: str, at: int, value: int, expected: list[str]
) -> None:
    data = bytearray(BY_HAND)
    struct.pack_into(f"<{code}", data, at, value)
    rows_of(bytes(data))
    errors = Annotation(memoryview(data)).errors
    assert [f"{error.offset} {error.path}: {error.message}" for error in errors] == expected


def test_long_values_are_cut_and_short_gaps_are_padding() -> None:
    made = example()
    for name, shape in (("x", (1,) * 8), ("s", (-1, *range(8)))):
        made.main.tensors[name].shape = shape
    texts = ["a" * 60, "b" * 61, "é" * 60]
    for operator, text in zip(made.main.operators, texts, strict=False):
        operator.location = text
    rows, errors = rows_of(encode(made))
    assert errors == []
    shapes = [one.value for one in rows if one.path.endswith(".shape") and one.what == "elements"]
    assert "[1, 1, 1, 1, 1, 1, 1, 1]" in shapes
    assert "[-1, 0, 1, 2, 3, 4, 5, 6, ...]" in shapes
    shown = [
        one.value for one in rows if one.path.endswith("location.text") and one.what == "string"
    ]
    assert shown[:3] == [repr(texts[0]), f"{'b' * 60!r}...", repr(texts[2])]
    for count, what in ((1, "padding"), (15, "padding"), (16, "no field refers to it")):
        rows, _ = rows_of(BY_HAND[:-3] + bytes(count))
        assert (rows[-1].what, rows[-1].end - rows[-1].start) == (what, count)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (0, "it is of the unknown type 0"),
        (1, ""),
        (len(ATTRIBUTES) - 1, ""),
        (len(ATTRIBUTES), f"it is of the unknown type {len(ATTRIBUTES)}"),
    ],
)
def test_attributes_are_described_by_their_type(number: int, error: str) -> None:
    data = bytearray(encode(example()))
    path = "regions[0].blocks[0].operators[1]"
    rows, _ = rows_of(bytes(data))
    data[row(rows, f"{path}.attribute_type").start] = number
    rows, errors = rows_of(bytes(data))
    assert errors == ([f"{path}.attribute: {error}"] if error else [])
    name = f"{ATTRIBUTES[number]} ({number})" if number < len(ATTRIBUTES) else str(number)
    assert row(rows, f"{path}.attribute_type").value == name.removeprefix(" ")
    if not error:
        what = f"table {ATTRIBUTES[number]}: offset of its vtable"
        assert row(rows, f"{path}.attribute", what).value.startswith("-> ")


def test_data_after_the_flatbuffer_belongs_to_its_tensor() -> None:
    rows, _ = rows_of(encode(example(), out_of_line=True))
    (found,) = (one for one in rows if one.what == "data after the flatbuffer")
    assert found.path.endswith(".data")
    assert found.end - found.start == 24


@pytest.mark.slow
def test_a_file_that_is_cut_off_is_described_as_far_as_it_goes() -> None:
    data = encode(example())
    for length in range(len(data)):
        rows, errors = rows_of(data[:length])
        assert errors, length
        assert length < 8 or rows[0].what == "offset of the root table TosaGraph"


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
