"""Graph -> JSON: lists of bytes. tests/oracle compares the text with flatc's."""

from __future__ import annotations

import pytest

from tosa_convert.formats.json import write as writing
from tosa_convert.formats.json.write import ByteListFormatter


def test_few_bytes_are_listed_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 2
    for indent in ("", "    "):
        formatter = ByteListFormatter(indent)
        few = formatter.members(memoryview(data))
        assert few.count(b",") == len(data)
        monkeypatch.setattr(writing, "MANY_BYTES", 1)
        assert formatter.members(memoryview(data)) == few
        monkeypatch.undo()
