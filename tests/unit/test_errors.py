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


def test_findings_are_collected_up_to_a_limit() -> None:
    findings = Findings(limit=2)
    findings.raise_if_any()
    findings.add("too-large", "a", "it is")
    with pytest.raises(TosaConvertError) as caught:
        findings.extend([Finding("too-large", "b", "it is"), Finding("too-large", "c", "it is")])
    assert [row.where for row in caught.value.findings] == ["a", "b"]
    with pytest.raises(TosaConvertError):
        findings.raise_if_any()
