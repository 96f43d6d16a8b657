"""Every byte of official files is shown."""

from __future__ import annotations

import pytest
from oracle.official_suite import Case

import tosa_convert as tc
from tosa_convert.formats.flatbuffer.annotate import Annotation

pytestmark = pytest.mark.oracle


@pytest.mark.slow
def test_every_byte_of_official_files_belongs_to_one_field(
    official_cases: list[Case],
) -> None:
    files = [case.tosa for case in official_cases][::4]
    assert len(files) > 100
    for file in files:
        data = file.read_bytes()
        found = Annotation(memoryview(data))
        position = 0
        for row in found.rows():
            assert row.start == position < row.end, file
            position = row.end
            assert "schema" not in row.what, (file, row)
            assert "refers" not in row.what, (file, row)
        assert position == len(data), file
        assert found.errors == [], file
        assert tc.summarize(tc.load(file)).findings == (), file
