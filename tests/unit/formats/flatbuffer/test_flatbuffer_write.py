"""The writer's fast paths do what the slow ones do."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.building import PRODUCER, branching, counting, encode, example, graph, tensor
from unit.graph.test_verify import zoo

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer import write as writing
from tosa_convert.formats.flatbuffer.builder import Builder, Interner
from tosa_convert.formats.flatbuffer.read import read
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.formats.json.write import write as write_json
from tosa_convert.formats.wire.layout import TABLES
from tosa_convert.graph import Graph, Tensor, compare, dtype
from tosa_convert.graph.columns import BlockColumns
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.qualify.random_graphs.generate import generate

KEYS = st.lists(st.text("abc", max_size=2), max_size=8)


def values_of(interner: Interner) -> list[str]:
    return [*interner.ids, *interner.last]


@given(KEYS, KEYS, KEYS)
def test_values_interned_first_get_the_same_ids(
    before: list[str], first: list[str], after: list[str]
) -> None:
    fast, slow = Interner(), Interner()
    for interner in (fast, slow):
        interner.intern_all(before)
    assert list(fast.intern_first(first)) == slow.intern_all(first)
    assert fast.intern_all(after) == slow.intern_all(after)
    assert values_of(fast) == values_of(slow)


@given(KEYS, KEYS)
def test_values_interned_last_get_the_same_ids(before: list[str], last: list[str]) -> None:
    fast, slow = Interner(), Interner()
    for interner in (fast, slow):
        interner.intern_all(before)
    keys = dict.fromkeys(last, 0)
    assert list(fast.intern_last(keys)) == slow.intern_all(keys)
    assert values_of(fast) == values_of(slow)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_many_tables_are_packed_as_each_of_them_alone(count: int) -> None:
    ranks = list(range(7, 7 + count))
    builders = [Builder(out_of_line=False) for _ in range(2)]
    many, single = builders
    for builder in builders:
        builder.out += bytes(3)
        builder.strings.intern_all(f"s{rank}" for rank in ranks)
        builder.strings.positions = [1000 + 4 * index for index in range(count)]
        builder.objects[builder.no_data] = 2000
    layout = TABLES["TosaShape"].layout(("name", "rank", "data"))
    nothing = [many.no_data] * count
    starts: Sequence[int] = many.rows(
        layout,
        {"name": (many.strings, list(range(count))), "rank": ranks, "data": (None, nothing)},
    )
    assert list(starts) == [
        single.table(
            "TosaShape",
            {"rank": rank},
            {"name": (single.strings, index), "data": (None, single.no_data)},
        )
        for index, rank in enumerate(ranks)
    ]
    if count:
        heads = [bytes(builder.finished([], 0).head) for builder in builders]
        assert heads[0] == heads[1]
        assert struct.unpack_from("<I", heads[0], starts[0] + layout.offsets["rank"]) == (7,)


@pytest.mark.parametrize("make", [example, branching, counting, zoo])
def test_plain_tensors_are_packed_as_each_of_them_alone(
    make: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(self: writing._Writer, members: range, tensors: list[Tensor]) -> None:
        for member, value in zip(members, tensors, strict=True):
            self.tensor(member, value)

    made: Graph = make()  # type: ignore[operator]
    expected = read(encode(made))
    monkeypatch.setattr(writing._Writer, "tensors", one_by_one)
    found = read(encode(made))
    assert compare(expected, found, locations=True, version=True) is None
    texts = [b"".join(write_json(one, PRODUCER)) for one in (expected, found)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("out_of_line", [None, True])
@pytest.mark.parametrize(
    "seeds", [(1, 7, 9, 12), pytest.param(range(24), marks=pytest.mark.slow)], ids=str
)
def test_blocks_are_laid_out_alike_from_their_columns(
    seeds: Sequence[int], out_of_line: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["tosa_convert.graph.verify"], "_MIN_COLUMNS", 1)
    taken: list[bool] = []
    quick = writing._Writer.tensors_in_columns

    def noted(self: writing._Writer, members: range, columns: BlockColumns) -> bool:
        taken.append(quick(self, members, columns))
        return taken[-1]

    monkeypatch.setattr(writing._Writer, "tensors_in_columns", noted)
    for seed in seeds:
        made = generate(seed, 40)
        # One that no operator refers to, and that may be unranked.
        shape = (seed,) if seed % 3 else None
        for _, block in made.blocks():
            block.tensors["unused"] = Tensor("unused", dtype("INT8"), shape)
        columns = refuse_unsound(made)
        plans = [plan(made, PRODUCER, out_of_line=out_of_line, columns=c) for c in (columns, {})]
        first, second = (b"".join(found.pieces()) for found in plans)
        assert first == second
    assert set(taken) == ({False} if out_of_line else {True, False})


def test_a_lone_surrogate_in_a_name_is_refused_alike_in_both_encodings() -> None:
    made = graph("", "", [tensor("half\ud800")], [])
    errors = []
    for write in (lambda: plan(made, PRODUCER), lambda: list(write_json(made, PRODUCER))):
        with pytest.raises(TosaConvertError, match=r"half\\ud800") as caught:
            write()
        errors.append(caught.value.findings)
    assert errors[0] == errors[1]
    assert errors[0][0].code == "value-out-of-range"
