"""The programs of tests/frontends/operators, which `suite --frontends torch` runs."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

from tosa_convert.cli.main import run, verb
from tosa_convert.qualify.suite.model_cases import find_cases

FOLDER = Path(__file__).with_name("operators")


@pytest.mark.slow
def test_every_file_has_cases_and_no_name_occurs_twice() -> None:
    cases = find_cases([str(FOLDER)], ["torch"])
    files = Counter(name.partition("/")[2].partition(":")[0] for name in cases.names)
    assert set(files) == {path.name for path in FOLDER.glob("*.py")} - {"programs.py"}
    assert len(cases.names) >= 280
    members = [name.partition(":")[2] for name in cases.names if "random_sequences" not in name]
    assert len(set(members)) == len(members)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed",
)
def test_a_sample_of_the_programs_is_equal_to_torch(tmp_path: Path) -> None:
    names = (
        *("layers.py:make_gelu", "tensors.py:make_embedding", "random_sequences.py:make_seed_0"),
        *(
            "convolutions.py:make_max_pool2d_ceil_short",
            "convolutions.py:make_max_pool2d_dilated_ceil",
        ),
    )
    words = [f"{FOLDER}/{name}" for name in names]
    report = tmp_path / "r.json"
    options = ["--frontends", "torch", "--narrow", "i64,f64", "--jobs", "1"]
    options += ["--json-report", str(report)]
    assert run(verb("suite"), [*words, *options]) == 0
    assert {row["status"] for row in json.loads(report.read_text())["answers"]} == {"pass"}
