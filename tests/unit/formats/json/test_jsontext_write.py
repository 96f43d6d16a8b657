"""Graph -> JSON: the text itself. tests/oracle compares it with flatc's."""

from __future__ import annotations

import pytest
from refusing import refused
from unit.building import PRODUCER, graph, tensor

from tosa_convert.formats.json import write as writing
from tosa_convert.formats.json.write import ByteListFormatter, write
from tosa_convert.graph import Graph


def text(made: Graph) -> str:
    return b"".join(write(made, PRODUCER)).decode("ascii")


def with_name(name: str) -> Graph:
    return graph(name, name, [tensor(name)], []) if name else graph("", "", [tensor("")], [])


def test_a_name_with_a_lone_surrogate_is_refused() -> None:
    with refused("value-out-of-range"):
        text(with_name("a\udcffb"))


def test_few_bytes_are_listed_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 2
    for indent in ("", "    "):
        formatter = ByteListFormatter(indent)
        few = formatter.members(memoryview(data))
        assert few.count(b",") == len(data)
        monkeypatch.setattr(writing, "MANY_BYTES", 1)
        assert formatter.members(memoryview(data)) == few
        monkeypatch.undo()
