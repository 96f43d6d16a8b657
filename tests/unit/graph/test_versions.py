"""The TOSA version that a graph needs, and why a lower one is refused."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.formats.write import stamp
from tosa_convert.golden.running.run_options import lacking_findings
from tosa_convert.graph import Graph, Version, dtype
from tosa_convert.graph.dtypes import DTYPES, BlockShape
from tosa_convert.graph.model import BlockScale
from tosa_convert.graph.opset import OPERATORS, OperatorSpec, operator
from tosa_convert.graph.versions import (
    _NEW_IN_1_1,
    DRAFTS,
    V1_0,
    V1_1_DRAFT,
    _is_within,
    draft_findings,
    parse_version,
    version_findings,
    version_name,
)
from tosa_convert.version import DRAFT, draft_name

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


OLD, NEW = DRAFTS
AUGUST, SEPTEMBER = "the draft of August 2026", "the draft of September 2026"


def test_drafts_are_in_order_and_rows_name_them() -> None:
    assert list(DRAFTS) == sorted(DRAFTS)
    assert (draft_name(OLD), draft_name(NEW)) == (AUGUST, SEPTEMBER)
    assert DRAFT == NEW
    for row in OPERATORS:
        assert row.removed in ("", *DRAFTS), row
        assert bool(row.removed) == bool(row.replaced_by), row
        assert row.state <= NEW, row


@pytest.mark.parametrize("row", [row for row in OPERATORS if row.removed], ids=str)
def test_an_operator_that_left_the_draft_is_only_in_the_earlier_ones(row: OperatorSpec) -> None:
    made = graph("", "", [], [op(row.name, "", "")])
    assert list(draft_findings(made, OLD)) == []
    (found,) = draft_findings(made, NEW)
    assert found.message == f"{row.name} is not in TOSA 1.1 since {SEPTEMBER}"
    assert found.hint == f"{row.replaced_by} replaces it"


def test_an_operator_is_not_in_a_draft_before_its_own() -> None:
    made = graph("", "", [], [op("MATMUL_T", "", "")])
    (found,) = draft_findings(made, "2026-07")
    assert found.message == f"MATMUL_T is in TOSA 1.1 since {AUGUST}"
    assert list(draft_findings(made, OLD)) == []


@pytest.mark.parametrize(("kind", "is_gone"), [("FP6E2M3", True), ("FP8E4M3", False)])
def test_plain_tensors_of_types_of_blocks_left_constants(kind: str, is_gone: bool) -> None:
    made = graph("", "x", [tensor("x", kind, (32,))], [op("CONST", "", "x")])
    assert list(draft_findings(made, OLD)) == []
    found = [finding.message for finding in draft_findings(made, NEW)]
    assert found == [f"CONST of plain {kind} is not in TOSA 1.1 since {SEPTEMBER}"][:is_gone]
    made.main.tensors["x"].scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    assert list(draft_findings(made, NEW)) == []


def test_the_list_of_merges_has_every_month_and_operator_that_left() -> None:
    text = (Path(__file__).parents[3] / "schema" / "merges.md").read_text()
    for row in OPERATORS:
        assert not row.removed or f"`{row.name}`" in text, row
    numbers = [int(number) for number in re.findall(r"^\| !(\d+) \|", text, re.MULTILINE)]
    assert numbers == sorted(set(numbers))
    assert NEW in text
    assert OLD in text


def test_a_program_for_a_dated_draft_has_what_that_draft_has() -> None:
    values = [tensor("x", "INT8", (1, 4, 2)), tensor("i", "INT32", (1, 3))]
    values += [tensor("c", "INT32", (1,), b"\1\0\0\0"), tensor("y", "INT8", (1, 3, 2))]
    operators = [op("CONST", "", "c"), op("ROW_GATHER", "x i c", "y")]
    made = stamp(graph("x i", "y", values, operators), "1.1-2026-08")
    assert made.version == V1_1_DRAFT
    assert tc.validate(made, spec_version="1.1-2026-08") == []
    (found,) = tc.validate(made, spec_version="1.1-2026-09")
    with pytest.raises(tc.TosaConvertError) as raised:
        stamp(made, "1.1-2026-09")
    assert raised.value.findings == (found,)
    assert found.hint == "GATHER with a row count replaces it"


def product(name: str, a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...]) -> Graph:
    """Return a product of integers, without zero points."""
    values = [tensor("a", "INT8", a), tensor("b", "INT8", b), tensor("y", "INT32", y)]
    values.append(tensor("z", "INT8", (1,), b"\0"))
    return graph("a b", "y", values, [op("CONST", "", "z"), op(name, "a b z z", "y")])


@pytest.mark.parametrize(
    ("name", "a", "b", "y", "form"),
    [
        ("MATMUL", (3, 4), (4, 5), (3, 5), "2 dimensions"),
        ("MATMUL", (2, 3, 4), (4, 5), (2, 3, 5), "2 dimensions"),
        ("MATMUL", (6, 1, 3, 4), (2, 4, 5), (6, 2, 3, 5), "4 dimensions"),
        ("MATMUL", (2, 3, 4), (1, 4, 5), (2, 3, 5), "broadcast batches"),
        ("MATMUL_T", (1, 3, 4), (2, 5, 4), (2, 3, 5), "broadcast batches"),
        ("MATMUL_T", (2, 1, 3, 4), (3, 5, 4), (2, 3, 3, 5), "4 dimensions"),
    ],
)
def test_batches_of_products_are_in_the_newest_draft_only(
    name: str, a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...], form: str
) -> None:
    made = stamp(product(name, a, b, y), "1.1-2026-09")
    assert tc.validate(made, spec_version="1.1-2026-09") == []
    lacks = f"{name} of {form}"
    (found,) = tc.validate(made, spec_version="1.1-2026-08")
    assert found.message == f"{lacks} is in TOSA 1.1 since {SEPTEMBER}"
    assert found.hint == "pass --tosa-version 1.1-2026-09"
    with pytest.raises(tc.TosaConvertError, match=re.escape(found.message)):
        stamp(made, "1.1-2026-08")
    (found,) = lacking_findings(made)
    assert f"no {lacks}, which TOSA has since 2026-09" in found.message
    (found,) = tc.validate(made, for_reader="tosa-opt==2026.8")
    assert lacks in found.message
    with pytest.raises(tc.TosaConvertError, match=lacks):
        tc.dumps(made, "mlir", dialect="2026-08")
    for written in ("mlir", "mlirbc", "tosa", "json"):
        assert tc.compare(made, tc.load(io.BytesIO(tc.dumps(made, written)))) is None
    draw = np.random.default_rng(0)
    left, right = (draw.integers(-128, 128, shape, np.int8) for shape in (a, b))
    expected = np.matmul(left.astype(int), right.swapaxes(-1, -2) if "_T" in name else right)
    older = stamp(made, "1.0")
    assert not list(tc.validate(older, spec_version="1.0"))
    for program in (made, older):
        (result,) = tc.run(program, {"a": left, "b": right}, engine="numpy").outputs.values()
        np.testing.assert_array_equal(result, expected)


def test_batches_that_may_be_equal_need_no_newer_draft() -> None:
    made = product("MATMUL", (-1, 3, 4), (2, 4, 5), (2, 3, 5))
    assert not list(draft_findings(made, "2026-08"))
    made = product("MATMUL_T", (2, 3, 4), (1, 5, 4), (2, 3, 5))
    assert not list(draft_findings(made, "2026-08"))


def test_batches_of_sums_of_48_bits_have_no_form_of_1_0() -> None:
    values = [tensor("a", "INT16", (3, 4)), tensor("b", "INT16", (4, 5))]
    values += [tensor("y", "INT48", (3, 5)), tensor("z", "INT16", (1,), b"\0\0")]
    made = graph("a b", "y", values, [op("CONST", "", "z"), op("MATMUL", "a b z z", "y")])
    with pytest.raises(tc.TosaConvertError, match=r"MATMUL of 2 dimensions needs TOSA 1\.1"):
        stamp(made, "1.0")


def test_a_row_count_of_scatter_is_refused_by_name() -> None:
    values = [tensor("x", "INT8", (1, 4, 2)), tensor("i", "INT32", (1, 2))]
    values += [tensor("u", "INT8", (1, 4, 2)), tensor("y", "INT8", (1, 4, 2))]
    values += [tensor("c", "INT32", (1,), b"\2\0\0\0")]
    made = graph("x i u", "y", values, [op("CONST", "", "c"), op("SCATTER", "x i u c", "y")])
    (finding,) = tc.verify(made)
    assert finding.message.startswith("it has 4 inputs, expected 3")
    assert "row count in the draft of TOSA 1.1 of September 2026" in finding.hint


def test_a_row_count_of_gather_is_in_the_newest_draft_only() -> None:
    values = [tensor("x", "INT8", (1, 4, 2)), tensor("i", "INT32", (1, 2))]
    values += [tensor("c", "INT32", (1,), b"\2\0\0\0"), tensor("y", "INT8", (1, 4, 2))]
    made = graph("x i", "y", values, [op("CONST", "", "c"), op("GATHER", "x i c", "y")])
    with pytest.raises(tc.TosaConvertError):
        stamp(made, "1.0")
    made = stamp(made, "1.1-2026-09")
    assert tc.validate(made, spec_version="1.1-2026-09") == []
    (found,) = tc.validate(made, spec_version="1.1-2026-08")
    assert found.message == f"GATHER with 3 operands is in TOSA 1.1 since {SEPTEMBER}"
    (found,) = lacking_findings(made)
    assert "no GATHER with 3 operands, which TOSA has since 2026-09" in found.message
    (found,) = tc.validate(made, for_reader="tosa-opt==2026.8")
    assert "GATHER with 3 operands" in found.message
    with pytest.raises(tc.TosaConvertError, match="GATHER with 3 operands"):
        tc.dumps(made, "mlir", dialect="2026-05")
    for form in ("mlir", "mlirbc", "tosa", "json"):
        assert tc.compare(made, tc.load(io.BytesIO(tc.dumps(made, form)))) is None
    x, i = np.arange(8, dtype=np.int8).reshape(1, 4, 2), np.array([[2, 0]], np.int32)
    (rows,) = tc.run(made, {"x": x, "i": i}).outputs.values()
    assert rows.tolist() == [[[4, 5], [6, 7], [0, 1], [2, 3]]]
