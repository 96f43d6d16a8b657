"""`suite --against` gives the verdict of the official runner.

The backend is the reference model with a change in the results of one operator, and with changes in all
results. For all of the official tests:
 `python tests/oracle/official_suite.py DIR` and `python tests/oracle/compare_verdicts.py DIR`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from oracle import official_suite
from oracle.compare_verdicts import (
    copy_cases,
    disagreements,
    verdicts_of_runner,
    verdicts_of_suite,
)
from oracle.reference_backend import ALL

from tosa_convert.golden.running.programs import input_slots
from tosa_convert.qualify.suite.official_case import case_inputs, generate_data, read_case

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]
SAMPLE = 40


@pytest.fixture(scope="module")
def suite(official_cases: list[official_suite.Case]) -> Path:
    """Return the folder of the sample."""
    return official_cases[0].folder.parents[1]


@pytest.fixture(scope="module")
def names(suite: Path, official_cases: list[official_suite.Case]) -> list[str]:
    """Return cases of as many operators as there are, one of each at most."""
    cases = {case.operator: case.tosa.parent for case in official_cases}
    folders = [cases[name] for name in sorted(cases)]
    step = max(1, len(folders) // SAMPLE)
    return [str(folder.relative_to(suite)) for folder in folders[::step]][:SAMPLE]


@pytest.fixture(scope="module")
def copied(suite: Path, names: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sample, in whose folders the official runner writes."""
    folder = tmp_path_factory.mktemp("copied")
    copy_cases(suite, names, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["BITWISE_OR", ALL])
def test_a_case_has_the_verdict_of_the_official_runner(operator: str, copied: Path) -> None:
    ours = verdicts_of_suite(copied, operator, 2)
    official = verdicts_of_runner(copied, operator, 2)
    assert disagreements(official, ours) == []
    assert len(ours) >= 30
    wrong = [name for name, (status, _) in ours.items() if status == "wrong"]
    if operator == ALL:
        assert 10 <= len(wrong) < len(ours)
    else:
        assert [name.partition("/")[0] for name in wrong] == [operator.lower()]


def test_a_disagreement_is_found() -> None:
    official = {
        "a": ("EXPECTED_PASS", ""),
        "b": ("UNEXPECTED_FAILURE", "far"),
        "c": ("SKIPPED", ""),
    }
    ours = {"a": ("wrong", "far"), "b": ("wrong", ""), "d": ("pass", "")}
    found = disagreements(official, ours)
    assert [line.partition(":")[0] for line in found] == ["a", "c", "d"]


@pytest.mark.slow
def test_inputs_without_files_are_those_that_the_official_tools_generate(
    suite: Path, names: list[str], tmp_path: Path
) -> None:
    types = set()
    for name in names:
        case = read_case(suite / name)
        data_gen = case.description["meta"]["data_gen"]
        given = case_inputs(case)
        for slot in input_slots(case.graph):
            tensor = slot.tensor if slot.key == slot.tensor else f"{slot.tensor}_scale"
            made = generate_data(data_gen, tensor, slot)
            assert made.dtype == given[slot.key].dtype
            assert made.tobytes() == given[slot.key].tobytes(), (name, slot)
            types.add(slot.dtype.name)
    assert len(types) >= 5, types
    # Without its files a case has the same inputs.
    name = next(n for n in names if read_case(suite / n).graph.main.inputs)
    folder = tmp_path / "case"
    folder.mkdir()
    for file in ("desc.json", "test.tosa"):
        shutil.copy(suite / name / file, folder / file)
    whole, bare = case_inputs(read_case(suite / name)), case_inputs(read_case(folder))
    assert {key: array.tobytes() for key, array in whole.items()} == {
        key: array.tobytes() for key, array in bare.items()
    }
