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
from unit.building import encode, graph, op, region, shape, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer import read as reading
from tosa_convert.formats.flatbuffer.columns import Columns
from tosa_convert.formats.wire.layout import TABLES
from tosa_convert.graph import Graph, ShapeValue, Tensor

NAMES = tuple(field.name for field in TABLES["TosaTensor"].fields)


def columns_of(data: bytes) -> Columns:
    return Columns(memoryview(data), IN_COLUMNS)


# -- memory -------------------------------------------------------------------------------------


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


# -- columns and their parts ----------------------------------------------------------------------


def outcome(read_rows: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return np.asarray(read_rows(*arguments)).tolist()
    except TosaConvertError as error:
        return error.findings


def one_by_one(columns: Columns, at: int, names: tuple[str, ...] = NAMES) -> list[list[int]]:
    """Read a vtable number by number."""
    what, buffer = "the vtable of a TosaTensor", columns.buffer
    for place in (at, at + 2):
        columns.values("<u2", np.array([place]), what)
    size, table_size = struct.unpack_from("<HH", buffer, at)
    if size < 4 or size % 2 or at + size > columns.size or table_size < 4:
        raise columns.bad(at, f"{what} has an impossible size")
    found = [table_size]
    for name in names:
        field = columns.layouts["TosaTensor"][name]
        slot = 4 + 2 * field.slot
        distance = struct.unpack_from("<H", buffer, at + slot)[0] if slot + 2 <= size else 0
        if distance and (distance < 4 or distance + field.width > table_size):
            raise columns.bad(at, f"TosaTensor.{name} lies outside its table")
        found.append(distance)
    return [found]


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
