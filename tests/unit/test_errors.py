"""Expected failures: codes, findings, and what they print."""

from __future__ import annotations

import pickle

import pytest

from tosa_convert.errors import CODES, Blame, Finding, TosaConvertError, fail


def test_every_code_is_a_slug_with_a_meaning() -> None:
    for code, (blame, meaning) in CODES.items():
        assert code == code.lower()
        assert " " not in code
        assert isinstance(blame, Blame)
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


def test_an_error_is_known_by_its_first_finding() -> None:
    error = TosaConvertError([Finding("too-large", "", "a"), Finding("file-error", "", "b")])
    assert error.code == "too-large"
    assert error.exit_code == 4
    assert str(error).count("\n") == 1


@pytest.mark.parametrize(
    ("code", "exit_code"), [("option-conflict", 2), ("data-length", 3), ("too-large", 4)]
)
def test_the_exit_code_says_who_can_mend_it(code: str, exit_code: int) -> None:
    assert fail(code, "", "").exit_code == exit_code


def test_an_error_survives_the_way_to_another_process() -> None:
    error = fail("too-large", "f:1:2", "it is", "make it smaller", "abc\n ^")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, TosaConvertError)
    assert copy.findings == error.findings
    assert str(copy) == str(error)


def test_an_enormous_text_loses_its_middle() -> None:
    finding = Finding("too-large", "w" * 10_000, "start" + "m" * 100_000 + "end", "h" * 10_000)
    assert len(str(finding)) < 7_000
    assert finding.message.startswith("start")
    assert finding.message.endswith("end")
