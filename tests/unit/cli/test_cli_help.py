"""The text of `--help` is complete and true."""

from __future__ import annotations

import pytest

from tosa_convert.cli.main import run, tosa_flatbuffer


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the help as one line, whatever its width."""
    assert run(tosa_flatbuffer, [*arguments, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_mentions_only_verbs_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    summary = shown(capsys).partition("Options:")[0]
    assert "inspect" not in summary.lower()
