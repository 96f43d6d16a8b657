"""The TOSA version that a graph needs, and why a lower one is refused."""

from __future__ import annotations

from typing import Any

import pytest
from unit.building import graph, op, tensor

from tosa_convert.graph import Version, dtype
from tosa_convert.graph.dtypes import DTYPES
from tosa_convert.graph.opset import OPERATORS, OperatorSpec, operator
from tosa_convert.graph.versions import (
    _NEW_IN_1_1,
    V1_0,
    V1_1_DRAFT,
    _is_within,
    parse_version,
    version_findings,
    version_name,
)

#: The last one in the schema of TOSA 1.0; codes are appended.
LAST_OF_1_0 = operator("CONST_SHAPE")
NEW_OPERATORS = {row.name for row in OPERATORS if row.code > LAST_OF_1_0.code}


def test_the_rows_say_1_1_exactly_where_1_1_is_needed() -> None:
    assert {row.name for row in OPERATORS if row.since == (1, 1)} == NEW_OPERATORS
    assert LAST_OF_1_0.code == 75


@pytest.mark.parametrize("limit", [V1_0, V1_1_DRAFT], ids=version_name)
@pytest.mark.parametrize("row", OPERATORS, ids=str)
def test_a_graph_within_a_version_has_no_findings(
    row: OperatorSpec, limit: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = []
    for kind in DTYPES:
        values = [tensor(name, kind.name, (32,)) for name in "abc"]
        attributes: dict[str, Any] = {"acc_type": dtype("FP16")}
        graphs.append(graph("a b", "c", list(values), [op(row.name, "a b", "c", **attributes)]))
    known = limit[:2]
    for kind, made in zip(DTYPES, graphs, strict=True):
        by_types = limit is V1_0 and row.name in _NEW_IN_1_1
        assert _is_within(made.main, known) == (
            max(row.since, kind.since) <= known and not by_types
        )
    fast = [list(version_findings(made, limit)) for made in graphs]
    monkeypatch.setattr("tosa_convert.graph.versions._is_within", lambda block, limit: False)
    assert [list(version_findings(made, limit)) for made in graphs] == fast


@pytest.mark.parametrize(
    "text", ["", "1", "1.1.0", "2.0", "0.80", "1.0.x", "1.0.0 Draft", "1.1.0 "]
)
def test_a_version_that_cannot_be_read_is_not_parsed(text: str) -> None:
    assert parse_version(text) is None
