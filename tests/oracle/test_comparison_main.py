"""A comparison of a whole suite can be stopped and continued, and fails if a worker process dies."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from oracle import comparison_main, official_suite
from oracle.outside_tools import Refused, TosaOpt

MODULES = [b"func.func @f(%%a: tensor<%dxf32>) { return }" % size for size in (1, 2, 3)]


class Names:
    """A tally that keeps everything."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, found: str) -> None:
        self.found.append(found)

    @property
    def passed(self) -> bool:
        return "different" not in self.found

    def lines(self) -> Iterator[str]:
        yield " ".join(self.found)


def names_of(files: Sequence[Path]) -> list[str]:
    return [file.parent.name for file in files]


def die(files: Sequence[Path]) -> list[str]:
    os._exit(3)


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a suite of 100 empty files: three batches."""
    monkeypatch.setattr(official_suite, "missing", lambda: "")
    monkeypatch.setattr(official_suite, "operator_of", lambda folder: folder)
    for number in range(100):
        folder = tmp_path / "suite" / "abs" / f"{number:02}"
        folder.mkdir(parents=True)
        (folder / "test.tosa").touch()
    (tmp_path / "suite" / "suite.json").write_text("{}")
    return tmp_path / "suite"


def run(*arguments: object, compare: object = names_of) -> int:
    options = comparison_main.parser("d").parse_args([str(one) for one in arguments])
    return comparison_main.run(options, compare, Names())  # type: ignore[arg-type]


def test_a_stopped_comparison_continues_after_the_last_batch(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, seen = tmp_path / "state", list[str]()

    def stopped(files: Sequence[Path]) -> list[str]:
        if seen:
            raise KeyboardInterrupt
        seen.extend(names_of(files))
        return names_of(files)

    with pytest.raises(KeyboardInterrupt):
        run(suite, "--jobs", 1, "--state", state, compare=stopped)
    assert len(seen) == comparison_main.BATCH

    def counted(files: Sequence[Path]) -> list[str]:
        seen.extend(names_of(files))
        return names_of(files)

    assert run(suite, "--jobs", 1, "--state", state, compare=counted) == 0
    every = [f"{number:02}" for number in range(100)]
    assert seen == every
    assert capsys.readouterr().out == f"100 files\n{' '.join(every)}\n"


def test_the_state_of_another_comparison_is_refused(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    assert run(suite, "--jobs", 1, "--state", state) == 0
    assert run(suite, "--jobs", 1, "--state", state, "--every", 2) == 2
    assert "other options" in capsys.readouterr().err
    (suite / "suite.json").write_text("{ }")
    assert run(suite, "--jobs", 1, "--state", state) == 2


def test_a_difference_fails(suite: Path) -> None:
    assert run(suite, "--jobs", 1, compare=lambda files: ["different"]) == 1


def test_a_process_that_dies_fails_and_its_files_are_named(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(suite, compare=die) == 1
    assert f"{suite / 'abs' / '00' / 'test.tosa'}" in capsys.readouterr().err


@pytest.mark.oracle
@pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing())
def test_modules_printed_by_one_process_are_printed_as_alone(tmp_path: Path) -> None:
    opt, alone = TosaOpt(tmp_path), []
    for module in MODULES:
        (tmp_path / "one.mlir").write_bytes(module)
        alone.append(opt.print(tmp_path / "one.mlir", []))
    assert opt.print_all(MODULES, []) == alone
    assert len({*alone}) == len(MODULES)


@pytest.mark.oracle
@pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing())
def test_a_module_that_is_refused_has_its_own_message(tmp_path: Path) -> None:
    one, _, three = MODULES
    opt = TosaOpt(tmp_path)
    printed, refused, other = opt.print_all([one, b"func.func @f() { foo }", three], [])
    assert isinstance(refused, Refused)
    assert "'foo' is unknown" in refused.message
    assert [printed, other] == opt.print_all([one, three], [])
