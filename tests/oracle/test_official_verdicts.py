"""`suite --against` gives the verdict of the official runner, which `tosa_verify` gives it.

The backend is the reference model, whose results are changed in one element of some cases. For all of
the official tests:
 `python tests/oracle/official_suite.py DIR` and `python tests/oracle/compare_verdicts.py DIR`.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from oracle import official_suite
from oracle.compare_verdicts import both_verdicts, change_element, run_model

from tosa_convert.golden.data_generation import generate_data
from tosa_convert.golden.official_case import case_inputs, read_case
from tosa_convert.golden.programs import input_slots
from tosa_convert.golden.qualification import Qualification, qualify_case

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]
SAMPLE = 40


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample."""
    return official_suite.sample(request.config, tmp_path_factory.mktemp("official"))


@pytest.fixture(scope="module")
def names(suite: Path) -> list[str]:
    """Cases of as many operators as there are, one of each at most."""
    cases = {case.operator: case.tosa.parent for case in official_suite.cases(suite)}
    folders = [cases[name] for name in sorted(cases)]
    step = max(1, len(folders) // SAMPLE)
    return [str(folder.relative_to(suite)) for folder in folders[::step]][:SAMPLE]


def test_a_case_has_the_verdict_of_the_official_runner(
    suite: Path, names: list[str], tmp_path: Path
) -> None:
    verdicts: Counter[str] = Counter()
    for name in names:
        expected, found = both_verdicts(suite, name, tmp_path)
        assert (found.status, found.message) == (expected, found.message), name
        verdicts[expected] += 1
    assert verdicts["pass"] >= 10, verdicts
    assert verdicts["wrong"] >= 5, verdicts


def test_exactly_the_cases_of_a_changed_operator_fail(suite: Path, tmp_path: Path) -> None:
    cases = [
        case
        for case in official_suite.cases(suite)
        if case.operator in ("bitwise_and", "bitwise_or", "clz", "minimum")
    ]
    statuses: dict[str, Counter[str]] = {}
    for case in cases[:: max(1, len(cases) // 16)]:
        folder = case.tosa.parent
        name = str(folder.relative_to(suite))
        description = run_model(folder, tmp_path / "results" / name)
        if case.operator == "bitwise_or":
            change_element(tmp_path / "results" / name / description["ofm_file"][0], 1)
        settings = Qualification(against=str(tmp_path / "results"))
        answer = qualify_case(str(suite), name, settings=settings)
        statuses.setdefault(answer.operator, Counter())[answer.status] += 1
    wrong = statuses.pop("BITWISE_OR")
    assert set(wrong) == {"wrong"}
    assert statuses
    assert all(set(counts) == {"pass"} for counts in statuses.values())


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
