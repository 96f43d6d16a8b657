"""Test what a file may take in memory, and that columns are read as their parts are."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from unit.both_readers import IN_COLUMNS
from unit.building import PRODUCER, graph, op, region, shape, tensor
from unit.flatbuffer_by_hand import BY_HAND

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer import read
from tosa_convert.formats.flatbuffer import read as reading
from tosa_convert.formats.flatbuffer.columns import Columns
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.formats.wire.layout import TABLES
from tosa_convert.graph import Graph, ShapeValue, Tensor, dtype
from tosa_convert.graph.lazy_numpy import FEW
from tosa_convert.io.options import Limits

NAMES = tuple(field.name for field in TABLES["TosaTensor"].fields)


def encode(made: Graph, **options: Any) -> bytes:
    return b"".join(plan(made, PRODUCER, **options).pieces())


def columns_of(data: bytes) -> Columns:
    return Columns(memoryview(data), IN_COLUMNS)


# -- memory -------------------------------------------------------------------------------------


def test_all_of_the_budget_can_be_used_and_no_more() -> None:
    columns = Columns(
        memoryview(bytes(10)), Limits(flatbuffer_memory=5, flatbuffer_memory_per_byte=2)
    )
    columns.charge(20, "what")
    columns.charge(5, "what")
    columns.charge(-3, "what")
    columns.charge(3, "what")
    with pytest.raises(TosaConvertError, match="a file of 10 bytes describes more than it could"):
        columns.charge(1, "what")


def used(data: bytes) -> int:
    """Return the memory that a file has been charged once it is read."""
    columns = columns_of(data)
    before = columns.budget
    reading._Reader(columns).graph()
    return before - columns.budget


def many(count: int, **parts: object) -> Graph:
    """Return a graph with so many values or operators of a kind."""
    values: list[Tensor | ShapeValue] = [tensor("a"), tensor("b")]
    made = graph("a", "b", values, [op("ABS", "a", "b")])
    for index in range(count):
        for kind, make in parts.items():
            assert callable(make)
            if kind == "operator":
                made.main.operators.append(make(index))
            elif kind == "region":
                made.regions.append(make(index))
            else:
                value = make(f"{index:04}")
                (made.main.tensors if kind == "tensor" else made.main.shapes)[value.name] = value
    return made


#: What one more of something is charged. `test_flatbuffer_bombs` measures that this is enough; here a
#: change is seen that makes files of a kind take more of the budget, or less.
CHARGED: dict[str, tuple[int, Callable[[int], Graph]]] = {
    "tensor": (406, lambda n: many(n, tensor=lambda name: tensor(name, shape=()))),
    "name that is not ASCII": (
        423,
        lambda n: many(n, tensor=lambda name: tensor(f"é{name}", shape=())),
    ),
    "tensor with a shape of its own": (
        542,
        lambda n: many(n, tensor=lambda name: tensor(name, shape=(int(name), 2))),
    ),
    "constant": (
        792,
        lambda n: many(
            n, tensor=lambda name: tensor(name, "INT8", (int(name) + 1,), bytes(int(name) + 1))
        ),
    ),
    "shape": (736, lambda n: many(n, shape=lambda name: shape(name, 1, 2))),
    "operator": (364, lambda n: many(n, operator=lambda _: op("ABS", "a", "b"))),
    "location": (498, lambda n: many(n, operator=lambda i: op("ABS", "a", "b", f"{i:04}"))),
    "another operand": (374, lambda n: many(n, operator=lambda _: op("ADD", "a a", "b"))),
    "attribute": (484, lambda n: many(n, operator=lambda _: op("REDUCE_SUM", "a", "b", axis=1))),
    "attribute of its own": (
        604,
        lambda n: many(n, operator=lambda i: op("REDUCE_SUM", "a", "b", axis=i)),
    ),
    "attribute of numbers": (
        780,
        lambda n: many(n, operator=lambda i: op("TRANSPOSE", "a", "b", perms=(i, 2, 3))),
    ),
    "attribute of bytes": (
        680,
        lambda n: many(
            n,
            operator=lambda i: op(
                *("CUSTOM", "a", "b"),
                operator_name="x",
                domain_name="d",
                implementation_attrs=bytes(i),
            ),
        ),
    ),
    "region": (2328, lambda n: many(n, region=lambda i: region(f"{i:04}", "", "", [], []))),
}


#: Kind -> the dictionaries among what is charged. They take 184 bytes, and more in Python 3.10.
DICTIONARIES: Final = {
    "attribute": 1,
    "attribute of its own": 2,
    "attribute of numbers": 2,
    "attribute of bytes": 2,
}


@pytest.mark.parametrize("kind", CHARGED)
def test_each_object_is_charged_what_it_takes(kind: str) -> None:
    expected, make = CHARGED[kind]
    expected += DICTIONARIES.get(kind, 0) * (sys.getsizeof({"axis": 1}) - 184)
    assert used(encode(make(21))) - used(encode(make(20))) == expected


def test_strings_are_charged_alike_together_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in ("abc", "äöü", ("x" * 500, "y")):
        data = encode(graph("", "", [tensor(name) for name in names], []))
        together = used(data)
        with monkeypatch.context() as patched:
            patched.setattr(Columns, "all_at_once", lambda *_: None)
            assert used(data) == together


def test_data_after_the_file_is_charged_when_it_is_used_more_often_than_it_is_long() -> None:
    outside = pytest.importorskip("unit.outside_flatbuffer", reason="flatbuffers is not installed")

    def data(count: int) -> bytes:
        row = {"type": dtype("INT8").code, "shape": (1000,), "offset": 8, "size": 1000}
        rows = [{"name": f"{index:04}", **row} for index in range(count)]
        version = {"_major": 1, "_minor": 0, "_patch": 0, "_draft": False}
        block = {"name": "main", "tensors": rows}
        made: bytes = outside.write(
            {"version": version, "regions": [{"name": "main", "blocks": [block]}]}
        )
        return made + bytes(4000 - len(made))

    costs = [used(data(count)) for count in range(3, 7)]
    once, more = costs[1] - costs[0], costs[2] - costs[1]
    assert (more - once, costs[3] - costs[2]) == (1000, more)


def test_a_reader_of_few_tables_counts_what_it_reads() -> None:
    """The file by hand: 5 tables, 5 elements, 2 strings and a number; 13 bytes of strings."""
    reader = read._ReaderOfFew(memoryview(BY_HAND))
    parts, size = reader.parts_left, reader.bytes_left
    assert (parts, size) == (FEW * 20, len(BY_HAND))
    reader.graph()
    assert (parts - reader.parts_left, size - reader.bytes_left) == (13, 13)
    for left, is_enough in (((13, 13), True), ((12, 13), False), ((13, 12), False)):
        reader = read._ReaderOfFew(memoryview(BY_HAND))
        reader.parts_left, reader.bytes_left = left
        if is_enough:
            reader.graph()
            continue
        with pytest.raises(read._UnusualError):
            reader.graph()


@pytest.mark.parametrize("out_of_line", [False, True])
def test_a_reader_of_few_tables_counts_data(out_of_line: bool) -> None:
    def left(count: int) -> tuple[int, int]:
        made = graph("", "", [tensor("w", "INT8", (count,), bytes(count))], [])
        reader = read._ReaderOfFew(memoryview(encode(made, out_of_line=out_of_line)))
        reader.graph()
        return reader.parts_left, reader.size - reader.bytes_left

    (parts, size), (more_parts, more_size) = left(1), left(101)
    assert (parts - more_parts, more_size - size) == (0, 100)


# -- columns and their parts ----------------------------------------------------------------------


def outcome(read_rows: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return np.asarray(read_rows(*arguments)).tolist()
    except TosaConvertError as error:
        return error.findings


def one_by_one(columns: Columns, at: int, names: tuple[str, ...] = NAMES) -> list[list[int]]:
    return [columns.vtable("TosaTensor", names, at)]


def together(columns: Columns, at: int) -> Any:
    before = columns.budget
    found = columns.vtables("TosaTensor", NAMES, np.array([at]))
    assert before - columns.budget == 8 * found.size
    return found


def test_many_vtables_are_checked_as_each_of_them_alone() -> None:
    rng = random.Random(1)
    found = []
    for _ in range(400):
        numbers = rng.choices(range(40), k=24)
        # The size of a vtable, and of its table; most of them possible.
        numbers[0], numbers[1] = rng.choice((4, 6, 12, 32, 33, 48, 50)), rng.randrange(3, 60)
        columns = columns_of(struct.pack("<24H", *numbers))
        for at in (0, rng.choice((-2, 1, 2, 44, 46))):
            alone = outcome(one_by_one, columns, at)
            assert outcome(together, columns, at) == alone
            found.append(isinstance(alone, list))
    assert 40 < sum(found) < len(found) - 200


def test_a_field_may_be_the_last_bytes_of_its_table() -> None:
    """`type` of a tensor has 4 bytes, and `variable` 1."""
    for field, width in (("type", 4), ("variable", 1)):
        slot = 4 + 2 * TABLES["TosaTensor"][field].slot
        for distance, is_inside in ((4, True), (20 - width, True), (21 - width, False), (3, False)):
            words = [0] * 20
            words[0], words[1], words[slot // 2] = slot + 2, 20, distance
            columns = columns_of(struct.pack("<20H", *words))
            found = outcome(one_by_one, columns, 0, (field,))
            assert (found == [[20, distance]]) is is_inside
            # A vtable that ends before the slot does not have the field.
            columns = columns_of(struct.pack("<20H", slot, *words[1:]))
            assert columns.vtable("TosaTensor", (field,), 0) == [20, 0]


@pytest.mark.parametrize(
    ("positions", "where"),
    [
        ((0, 4, 12), None),
        ((0, 13, 4), 13),
        ((0, 4, 16), 16),
        ((0, -4, 16), -4),
        ((2, 16), 16),  # outside comes first
        ((12, 2), 2),  # where the last number begins is inside
        ((0, 2, 1), 2),
        ((), None),
    ],
)
def test_positions_outside_and_between_are_named(
    positions: tuple[int, ...], where: int | None
) -> None:
    data = struct.pack("<4I", 1, 2, 3, 2**32 - 1)
    columns, places = columns_of(data), np.array(positions, np.int64)
    if where is None:
        found = columns.values("<u4", places, "it")
        assert found.tolist() == [struct.unpack_from("<I", data, at)[0] for at in positions]
        return
    with pytest.raises(TosaConvertError) as caught:
        columns.values("<u4", places, "it")
    assert caught.value.findings[0].where == f"byte {where}"
    is_outside = not 0 <= where <= 12
    assert ("outside" in str(caught.value)) is is_outside


def test_long_numbers_are_cut_to_those_with_a_sign() -> None:
    numbers = (0, 2**63 - 1, 2**63, 2**64 - 1)
    found = columns_of(struct.pack("<4Q", *numbers)).values("<u8", np.arange(0, 32, 8), "it")
    assert found.tolist() == [0, 2**63 - 1, 2**63 - 1, 2**63 - 1]


@pytest.mark.parametrize(
    ("method", "more", "elements", "expected"),
    [
        ("copies_of", (), b"abc", b"abc"),
        ("bytes_of", (), b"abc", b"abc"),
        ("int_lists", (4,), struct.pack("<3i", -1, 7, 2**31 - 1), (-1, 7, 2**31 - 1)),
        ("int_lists", (2,), struct.pack("<3h", -1, 7, 2**15 - 1), (-1, 7, 2**15 - 1)),
        ("strings", (), b"abc\0", "abc"),
    ],
)
def test_a_vector_may_end_with_the_file(
    method: str, more: tuple[int, ...], elements: bytes, expected: object
) -> None:
    data = struct.pack("<II", 4, 3) + elements
    place = np.zeros(1, np.int64)
    assert list(getattr(columns_of(data), method)(place, "it", *more)) == [expected]
    with pytest.raises(TosaConvertError):
        list(getattr(columns_of(data[:-1]), method)(place, "it", *more))
