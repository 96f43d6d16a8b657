"""`suite --against` gives the verdict of the official runner, which `tosa_verify` gives it.

The backend is the reference model, whose results are changed in one element of some cases. For all of
the official tests: `tosa-flatbuffer suite DIR --against results`, with results that the official runner
judged.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import official_suite

from tosa_convert.golden import model_process
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


def run_model(case: Path, folder: Path, *more: str) -> dict[str, Any]:
    """Run the reference model on a case as the official runner does; returns the descriptor."""
    folder.mkdir(parents=True)
    command = [
        str(model_process.locate()),
        f"--test_desc={case / 'desc.json'}",
        f"--output_dir={folder}",
        "--tosa_level=EIGHTK",
    ]
    ended = model_process.run([*command, *more], case, 60.0)
    assert ended.code == 0, ended.stderr
    description: dict[str, Any] = json.loads((case / "desc.json").read_text())
    return description


def change_element(path: Path, bits: int) -> None:
    """Change bits of the element in the middle of an `.npy` file."""
    data = bytearray(path.read_bytes())
    start = 10 + int.from_bytes(data[8:10], "little")
    array = np.load(path)
    if bits and array.size and array.dtype != np.bool_:
        data[start + array.size // 2 * array.dtype.itemsize] ^= bits
        path.write_bytes(bytes(data))


def official_verdict(case: Path, results: Path, reference: Path) -> str:
    """What the official runner says: each output is judged by its program."""
    description = run_model(case, reference, "--precise_mode=1")
    rows = description["meta"]["compliance"]["tensors"]
    group: list[str] = []
    owner = ""
    for name, file in zip(description["ofm_name"], description["ofm_file"], strict=True):
        scale = file.replace(".npy", "_scale.npy")
        group.append(file)
        if "scale_tensor_name" in rows[name]:
            if not (reference / scale).exists():
                owner = name
                continue  # the scales are the next output
            group.append(scale)
        command = [
            str(model_process.locate().with_name("tosa_verify")),
            f"--test_desc={case / 'desc.json'}",
            f"--ofm_name={owner or name}",
            "--imp_result_file=" + ",".join(str(results / f) for f in group),
            "--ref_result_file=" + ",".join(str(reference / f) for f in group),
        ]
        bounds = [reference / f"bounds_{f}" for f in group]
        if description["test_requirements"]["bounds_file_required"]:
            command.append("--bnd_result_file=" + ",".join(str(f) for f in bounds if f.exists()))
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode:
            return "wrong"
        group, owner = [], ""
    return "pass"


def test_a_case_has_the_verdict_of_the_official_runner(
    suite: Path, names: list[str], tmp_path: Path
) -> None:
    settings = Qualification(against=str(tmp_path / "results"))
    verdicts: Counter[str] = Counter()
    for name in names:
        results = tmp_path / "results" / name
        description = run_model(suite / name, results)
        bits = (0, 1, 3, 40)[zlib.crc32(name.encode()) % 4]
        for file in description["ofm_file"]:
            change_element(results / file, bits)
        expected = official_verdict(suite / name, results, tmp_path / "reference" / name)
        found = qualify_case(str(suite), name, settings=settings)
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
