"""The TOSA version that a graph needs, and why a lower one is refused."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.building import example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.formats.write import stamp
from tosa_convert.golden.running.run_options import lacking_findings
from tosa_convert.graph import Version, dtype, lowest_version
from tosa_convert.graph.dtypes import DTYPES, BlockShape, DType
from tosa_convert.graph.model import BlockScale, SoftwareVersion
from tosa_convert.graph.opset import OPERATORS, OperatorSpec, operator
from tosa_convert.graph.versions import (
    _NEW_IN_1_1,
    BY_NAME,
    DRAFTS,
    MIN_READER,
    MXFP_FEATURE,
    V1_0,
    V1_1_DRAFT,
    _is_within,
    draft_findings,
    features,
    incompatibility,
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


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_a_tensors_type_decides_the_version(row: DType) -> None:
    made = graph("x", "x", [tensor("x", row.name)], [])
    assert lowest_version(made) == {(1, 0): V1_0, (1, 1): V1_1_DRAFT}[row.since]


@pytest.mark.parametrize("row", OPERATORS, ids=str)
def test_an_operator_decides_the_version(row: object) -> None:
    made = graph("", "", [], [op(str(row))])
    expected = V1_1_DRAFT if str(row) in NEW_OPERATORS else V1_0
    assert lowest_version(made) == expected


#: The types of operands, of the first result and of the accumulator; from the availability checks of the
#: dialect. 1.1 has all of them.
@pytest.mark.parametrize(
    ("name", "kinds", "result", "accumulator", "is_new"),
    [
        ("GATHER", "FP32 INT32", "FP32", "", False),
        ("GATHER", "BOOL INT32", "BOOL", "", True),
        ("SCATTER", "INT8 INT32 INT8", "INT8", "", False),
        ("SCATTER", "BOOL INT32 BOOL", "BOOL", "", True),
        ("CAST", "INT8", "FP32", "", False),
        ("CAST", "BOOL", "INT8", "", False),
        ("CAST", "BOOL", "BF16", "", True),
        ("CAST", "FP8E5M2", "BOOL", "", True),
        ("RESIZE", "FP16", "FP16", "", False),
        ("RESIZE", "FP8E4M3", "FP8E4M3", "", True),
        ("MATMUL", "FP16 FP16 FP16 FP16", "FP32", "", False),
        ("MATMUL", "FP8E5M2 FP8E5M2 FP8E5M2 FP8E5M2", "FP16", "", False),
        ("MATMUL", "FP8E5M2 FP8E5M2 FP8E5M2 FP8E5M2", "FP32", "", True),
        ("MATMUL", "FP8E4M3 FP8E5M2 FP8E4M3 FP8E5M2", "FP16", "", True),
        *(
            (name, f"{kind} {weight} {bias} {kind} {weight}", bias, accumulator, is_new)
            for name in ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
            for kind, weight, bias, accumulator, is_new in (
                ("INT8", "INT4", "INT32", "INT32", False),
                ("FP16", "FP16", "FP16", "FP32", False),
                ("FP8E4M3", "FP8E4M3", "FP16", "FP16", False),
                ("FP8E4M3", "FP8E4M3", "FP32", "FP32", True),
                ("FP16", "FP32", "FP32", "FP32", True),
            )
        ),
    ],
)
def test_types_together_decide_the_version(
    name: str, kinds: str, result: str, accumulator: str, is_new: bool
) -> None:
    values = [tensor(f"t{number}", kind) for number, kind in enumerate(kinds.split())]
    names = " ".join(value.name for value in values)
    attributes: dict[str, Any] = {"acc_type": dtype(accumulator)} if accumulator else {}
    made = graph(names, "y", [*values, tensor("y", result)], [op(name, names, "y", **attributes)])
    assert lowest_version(made) == (V1_1_DRAFT if is_new else V1_0)
    assert list(version_findings(made, V1_1_DRAFT)) == []


def test_everything_that_is_too_new_is_reported_with_its_location() -> None:
    made = example()
    made.main.operators[1].spec = op("ADD_SHAPE").spec
    made.main.tensors["x"].dtype = dtype("INT64")
    findings = list(version_findings(made, V1_0))
    assert [finding.code for finding in findings] == ["version-too-low"] * 2
    assert findings[0].where.startswith('f.mlir:2:8: region "main" block "main" operator #')
    assert "ADD_SHAPE" in findings[0].message
    assert findings[1].where.endswith('tensor "x"')
    assert list(version_findings(made, V1_1_DRAFT)) == []


def test_the_scales_of_a_tensor_count_once_and_set_a_feature() -> None:
    made = graph("x", "x", [tensor("x", "FP8E4M3", (1, 32))], [])
    assert features(made) == 0
    assert lowest_version(made) == V1_0
    made.main.tensors["x"].scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32)
    assert features(made) == MXFP_FEATURE
    assert len(list(version_findings(made, V1_0))) == 1


def test_operators_in_regions_decide_the_version_too() -> None:
    made = example()
    inner = graph("x", "x", [tensor("x", "INT64")], []).regions[0]
    made.regions.append(inner)
    assert lowest_version(made) == V1_1_DRAFT


def test_versions_compare_and_print_in_the_usual_form() -> None:
    assert V1_0 < V1_1_DRAFT < Version(1, 2)
    assert [str(BY_NAME[name]) for name in ("1.0", "1.1")] == ["1.0.0", "1.1.0 draft"]
    assert [BY_NAME[f"1.1-{month}"] for month in DRAFTS] == [V1_1_DRAFT, V1_1_DRAFT]
    assert str(SoftwareVersion(1, 2, 3)) == "1.2.3"
    assert str(SoftwareVersion(1, 2, 3, "x")) == "1.2.3 x"


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
    ("version", "text"),
    [
        (V1_0, "1.0"),
        (V1_1_DRAFT, "1.1"),
        (Version(1, 0, 3), "1.0.3"),
        (Version(1, 0, 0, draft=True), "1.0.0 draft"),
    ],
)
def test_the_name_of_a_readable_version_is_parsed_back(version: Version, text: str) -> None:
    assert version_name(version) == text
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "text", ["", "1", "1.1.0", "2.0", "0.80", "1.0.x", "1.0.0 Draft", "1.1.0 "]
)
def test_a_version_that_cannot_be_read_is_not_parsed(text: str) -> None:
    assert parse_version(text) is None


@pytest.mark.parametrize(
    ("reader", "used", "problem"),
    [
        (None, 0, ""),
        (MIN_READER, MXFP_FEATURE, ""),
        (SoftwareVersion(2026, 8, 1), 0, "the file needs a reader of schema 2026.8.1 or later"),
        (None, 1 << 7, "the file uses the unknown features 0x80"),
    ],
)
def test_a_file_for_newer_readers_is_incompatible(
    reader: SoftwareVersion | None, used: int, problem: str
) -> None:
    assert incompatibility(reader, used).startswith(problem)
    assert bool(incompatibility(reader, used)) == bool(problem)


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
    assert (
        found.message
        == "the reference model has no GATHER with 3 operands, which TOSA has since 2026-09"
    )
    (found,) = tc.validate(made, for_reader="tosa-opt==2026.8")
    assert "GATHER with 3 operands" in found.message
    with pytest.raises(tc.TosaConvertError, match="GATHER with 3 operands"):
        tc.dumps(made, "mlir", dialect="2026-05")
    for form in ("mlir", "mlirbc", "tosa", "json"):
        assert tc.compare(made, tc.load(io.BytesIO(tc.dumps(made, form)))) is None
    x, i = np.arange(8, dtype=np.int8).reshape(1, 4, 2), np.array([[2, 0]], np.int32)
    (rows,) = tc.run(made, {"x": x, "i": i}).outputs.values()
    assert rows.tolist() == [[[4, 5], [6, 7], [0, 1], [2, 3]]]
