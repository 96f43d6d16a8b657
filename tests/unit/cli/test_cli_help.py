"""The text of `--help` is complete and true."""

from __future__ import annotations

import pytest

from tosa_convert.cli.main import SECTIONS, VERBS, run, tosa_flatbuffer, verb


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the help as one line, whatever its width."""
    assert run(tosa_flatbuffer, [*arguments, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_the_lines_of_the_verbs_are_not_cut_off(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    text = shown(capsys)
    assert "..." not in text.partition("Convert:")[2]
    for name in VERBS:
        paragraph = " ".join((verb(name).help or "").partition("\n\n")[0].split())
        assert paragraph.partition(". ")[0].rstrip(".") in text


def test_the_lines_of_verbs_within_a_verb_are_not_cut_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "..." not in shown(capsys, "weights").partition("Commands:")[2]


def test_options_and_verbs_have_headings(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "convert")
    headings = ("Output:", "MLIR input:", "Names:", "Weights:", "Framework models:", "Help and")
    places = [text.index(f" {name} ") for name in headings]
    assert places == sorted(places)
    assert text.index("--partial") > text.index("Framework models:")
    text = shown(capsys)
    for heading, names in SECTIONS.items():
        assert f"{heading}: {min(names)} " in text


@pytest.mark.parametrize("name", [name for name in VERBS if name != "weights"])
def test_more_than_a_few_options_are_in_groups(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(tosa_flatbuffer, [name, "--help"]) == 0
    groups: dict[str, int] = {}
    for line in capsys.readouterr().out.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            groups[line] = 0
        elif line.startswith("  -"):
            groups[list(groups)[-1]] += 1
    assert list(groups)[-1] == "Help and messages:"
    assert max(groups.values()) <= 10
    assert len(groups) != 2 or next(iter(groups)) == "Options:"


def test_help_mentions_only_verbs_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    summary = shown(capsys).partition("Options:")[0]
    assert "inspect" not in summary.lower()


@pytest.mark.parametrize("name", [name for name in VERBS if name != "weights"])
def test_a_timeout_says_what_it_limits(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, name)
    if "--timeout" in text:
        about = text.partition("--timeout")[2].partition("--")[0]
        assert "one run of" in about
