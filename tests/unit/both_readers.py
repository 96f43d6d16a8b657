"""Reads flatbuffers in both ways: a table at a time, as `read` does with small ones, and in columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer import read as reading
from tosa_convert.formats.flatbuffer.read import offsets_of_data_after, read_few
from tosa_convert.graph import Graph, compare
from tosa_convert.graph.constant import address_of
from tosa_convert.io.options import DEFAULT_LIMITS

#: Limits below the default ones: every file is read in columns.
IN_COLUMNS: Final = replace(DEFAULT_LIMITS, flatbuffer_memory=DEFAULT_LIMITS.flatbuffer_memory - 1)


def read(data: Any, where: str = "", *, is_old: bool = False) -> Graph:
    """Read a file of few tables in columns; to read it a table at a time gives the same graph.

    is_old: it is of TOSA 0.80, which is read in columns only.
    """
    view = memoryview(data).cast("B")
    few = read_few(view)
    try:
        many = reading.read(data, where, IN_COLUMNS)
    except TosaConvertError:
        assert few is None, "read_few took a file that read refuses"
        raise
    assert is_old or few is not None, "read_few does not take a file that read takes"
    if few is not None:
        assert compare(few, many, locations=True, version=True) is None
        assert repr(few) == repr(many)
        few_after = offsets_of_data_after(view)
        assert few_after is not None
        addresses = reading.addresses_of_data_after(view, IN_COLUMNS)
        assert {address_of(view) + at for at in few_after} == addresses
    return many
