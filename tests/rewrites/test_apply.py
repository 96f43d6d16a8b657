"""The table of rewrites, the choice among them, and the report."""

from __future__ import annotations

import tosa_convert as tc
from tosa_convert.rewrites.table import GROUPS


def test_every_rewrite_has_a_name_a_group_and_a_reason() -> None:
    rows = tc.rewrites.REWRITES
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.group in GROUPS
        assert row.name == row.name.lower().replace(" ", "-")
        assert row.reason
        assert not row.reason.endswith(".")
