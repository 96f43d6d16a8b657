"""`explain` says what each error code means, and what TOSA asks of each operator."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tosa_convert.cli.ending import exit_code_of
from tosa_convert.cli.main import run as run_command
from tosa_convert.cli.main import tosa_flatbuffer
from tosa_convert.errors import CODES, Finding, TosaConvertError
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.io import log
from tosa_convert.rules.describe import conditions


def explained(*names: str) -> int:
    return run_command(tosa_flatbuffer, ["explain", *names])


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_its_meaning_and_an_example(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explained(code) == 0
    first, _, meaning, *rest = capsys.readouterr().out.splitlines()
    category, text = CODES[code]
    assert (first, meaning) == (code, f"Exit code {int(category)}: {text}.")
    body = "\n".join(rest)
    assert len(body) > 60
    assert "](" not in body, "a terminal does not show links"
    assert "```" not in body
    assert "###" not in body
    if not rest[1].startswith("Not raised by this version"):
        assert re.search(rf"\n\nExample:\n\n(    .*\n)*    .*error: .* \[{code}(:|\])", f"{body}\n")


def test_each_operator_has_what_tosa_asks_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    for spec in OPERATORS:
        assert explained(f"{spec.name.lower().replace('_', '-')}-some-rule") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == spec.name
        assert [line[6:] for line in lines if line.startswith("    - ")] == conditions(spec)


def test_the_end_of_a_message_can_be_given_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained("[invalid-operator: add-broadcast]") == 0
    out = capsys.readouterr().out
    assert out.startswith("invalid-operator\n")
    assert "\n\nADD\n" in out
    assert "    - sizes in each dimension are equal or 1\n" in out


def test_a_rule_of_whole_programs_is_not_taken_for_an_operator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explained("program-unused-value") == 0
    assert "not of an operator" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "rule", "at_terminal", "said"),
    [
        (
            "invalid-operator",
            "add-broadcast",
            True,
            "    more: tosa-flatbuffer explain add-broadcast\n",
        ),
        ("empty-input", "", True, "    more: tosa-flatbuffer explain empty-input\n"),
        ("empty-input", "", False, ""),
        ("option-conflict", "", True, ""),
    ],
)
def test_a_terminal_shows_the_command_after_an_error(
    code: str,
    rule: str,
    at_terminal: bool,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: at_terminal)

    def work() -> None:
        raise TosaConvertError(Finding(code, "x", "wrong", rule=rule))

    assert exit_code_of(work) == CODES[code][0]
    assert capsys.readouterr().err.partition("]\n")[2] == said


@pytest.mark.parametrize("option", ["--quiet", "--verbose"])
def test_quiet_leaves_the_command_out(
    option: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    empty = tmp_path / "m.tosa"
    empty.write_bytes(b"")
    for _ in range(2):  # the first run changes nothing for the second
        assert run_command(tosa_flatbuffer, ["show", str(empty), option]) == 3
        shown = capsys.readouterr().err
        assert ("tosa-flatbuffer explain empty-input" in shown) == (option == "--verbose")
    assert not log.is_quiet()
    assert not log.is_verbose()
