"""Expected failures: codes, findings, and what they print."""

from __future__ import annotations

import pickle
from typing import get_args

import pytest

from tosa_convert.errors import (
    CODES,
    Category,
    ErrorCode,
    Finding,
    Findings,
    TosaConvertError,
    fail,
    lone_surrogate,
)


def test_every_code_is_a_slug_with_a_meaning() -> None:
    assert get_args(ErrorCode) == tuple(CODES)
    for code, (category, meaning) in CODES.items():
        assert code == code.lower()
        assert " " not in code
        assert isinstance(category, Category)
        assert meaning
        assert not meaning.endswith(".")


def test_a_code_without_a_row_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="'no-such-code' has no row"):
        Finding("no-such-code", "", "")


def test_an_error_without_a_finding_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="needs a finding"):
        TosaConvertError([])


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (Finding("too-large", "", "it is"), "error: it is [too-large]"),
        (Finding("too-large", "f:1:2", "it is"), "f:1:2: error: it is [too-large]"),
        (
            Finding("too-large", "f:1:2", "it is", "make it smaller"),
            "f:1:2: error: it is [too-large]\n    make it smaller",
        ),
        (
            Finding("too-large", "f:1:2", "it is", "make it smaller", "abc\n ^"),
            "f:1:2: error: it is [too-large]\n    abc\n     ^\n    make it smaller",
        ),
    ],
)
def test_a_finding_prints_where_what_and_what_to_do(finding: Finding, text: str) -> None:
    assert str(finding) == text
    assert str(TosaConvertError(finding)) == text


def test_an_error_has_the_code_of_its_first_finding() -> None:
    error = TosaConvertError([Finding("too-large", "", "a"), Finding("file-error", "", "b")])
    assert error.code == "too-large"
    assert error.exit_code == 4
    assert str(error).count("\n") == 1


@pytest.mark.parametrize(
    ("code", "exit_code"), [("option-conflict", 2), ("data-length", 3), ("too-large", 4)]
)
def test_the_exit_code_is_the_category_of_the_code(code: str, exit_code: int) -> None:
    assert fail(code, "", "").exit_code == exit_code


def test_an_error_survives_the_way_to_another_process() -> None:
    error = fail("too-large", "f:1:2", "it is", "make it smaller", "abc\n ^")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, TosaConvertError)
    assert copy.findings == error.findings
    assert str(copy) == str(error)


def test_a_very_long_text_is_shortened_in_the_middle() -> None:
    finding = Finding("too-large", "w" * 10_000, "start" + "m" * 100_000 + "end", "h" * 10_000)
    assert len(str(finding)) < 7_000
    assert finding.message.startswith("start")
    assert finding.message.endswith("end")


def f64(line: int, message: str = "TOSA has no f64", hint: str = "use f32") -> Finding:
    return Finding("unsupported-dtype", f"m.mlir:{line}:1", message, hint)


def test_equal_findings_are_one_message_with_their_places() -> None:
    error = TosaConvertError([f64(line) for line in range(1, 18)])
    assert str(error).splitlines() == [
        "m.mlir:1:1: error: TOSA has no f64 [unsupported-dtype]",
        "    also at m.mlir:2:1, m.mlir:3:1, m.mlir:4:1, m.mlir:5:1 and 12 more",
        "    use f32",
    ]
    assert len(error.findings) == 17


def test_findings_with_the_same_hint_print_it_once() -> None:
    error = TosaConvertError([f64(line, f"message {line}") for line in range(1, 18)])
    lines = str(error).splitlines()
    assert lines[0] == "m.mlir:1:1: error: message 1 [unsupported-dtype]"
    assert lines[7:] == [
        "m.mlir:8:1: error: message 8 [unsupported-dtype]",
        "    and 9 more [unsupported-dtype]",
        "    use f32",
    ]


def test_findings_without_a_place_are_counted() -> None:
    rows = [Finding("too-large", "", "it is")] * 3
    assert str(TosaConvertError(rows)) == "error: it is [too-large]\n    3 times"


@pytest.mark.parametrize(
    "other",
    [
        Finding("unsupported-type", "x", "TOSA has no f64"),
        Finding("unsupported-dtype", "x", "TOSA has no f80"),
        Finding("unsupported-dtype", "x", "TOSA has no f64", "a hint"),
    ],
)
def test_findings_that_differ_are_printed_one_by_one(other: Finding) -> None:
    one = f64(1, hint="")
    assert str(TosaConvertError([one, other])) == f"{one}\n{other}"


def test_equal_findings_show_the_excerpt_of_the_first() -> None:
    rows = [Finding("malformed-json", f"x:{i}", "bad", "", f"line {i}\n ^") for i in (1, 2)]
    assert str(TosaConvertError(rows)).splitlines() == [
        "x:1: error: bad [malformed-json]",
        "    line 1",
        "     ^",
        "    also at x:2",
    ]


def test_findings_are_collected_up_to_a_limit() -> None:
    findings = Findings(limit=2)
    findings.raise_if_any()
    findings.add("too-large", "a", "it is")
    with pytest.raises(TosaConvertError) as caught:
        findings.extend([Finding("too-large", "b", "it is"), Finding("too-large", "c", "it is")])
    assert [row.where for row in caught.value.findings] == ["a", "b"]
    with pytest.raises(TosaConvertError):
        findings.raise_if_any()


def test_a_name_with_a_lone_surrogate_says_what_to_do() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "a\udcff".encode()
    (finding,) = lone_surrogate(caught.value).findings
    assert finding.where == r"'a\udcff'"
    assert "lone surrogate" in finding.message
    assert finding.hint == "rename the value or region"
