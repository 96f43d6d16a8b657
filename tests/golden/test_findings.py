"""Check that every kept finding is complete, and that its consumer still fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import load_npz
from tosa_convert.golden.backends.runners import ADAPTERS, open_backend
from tosa_convert.qualify.campaign.observe import Consumer, Trial, observe, says_nothing
from tosa_convert.qualify.suite.answers import Status

FINDINGS = Path(__file__).parents[2] / "findings"
FOLDERS = sorted(path.parent for path in FINDINGS.glob("*/finding.json"))
FILES = {"model.tosa", "model.mlir", "inputs.npz", "expected.npz", "finding.json", "report.md"}
#: Bytes of a folder, at most.
SIZE = 12_000


def observe_again(folder: Path) -> tuple[Status, str, str]:
    """Run the consumer of a finding on its program again; status, message and group."""
    row = json.loads((folder / "finding.json").read_text(encoding="utf-8"))
    graph = tc.load(folder / "model.tosa")
    inputs = golden.input_arrays(graph, load_npz(folder / "inputs.npz"))
    open_backend(row["against"], graph, inputs)
    # What never ends is not waited for as long as a campaign does.
    timeout = 8.0 if "it did not end within" in row["said"] else row["timeout"]
    consumer = Consumer(row["against"], timeout, row["engine"])
    return observe(Trial(graph, inputs, ""), consumer)


def test_every_folder_is_a_finding() -> None:
    names = {path.name for path in FINDINGS.iterdir() if path.is_dir()}
    assert names == {folder.name for folder in FOLDERS}
    assert len(FOLDERS) >= 10


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_finding_is_complete_and_its_program_valid(folder: Path) -> None:
    row = json.loads((folder / "finding.json").read_text(encoding="utf-8"))
    files = FILES | ({"found.npz"} if row["status"] == "wrong" else set())
    assert {path.name for path in folder.iterdir()} == files
    assert sum(path.stat().st_size for path in folder.iterdir()) < SIZE
    assert row["against"] in {"iree", "reference-model", *ADAPTERS}
    graph = tc.load(folder / "model.tosa")
    assert not tc.validate(graph)
    assert [op.spec for op in tc.load(folder / "model.mlir").main.operators] == [
        op.spec for op in graph.main.operators
    ]
    expected = dict(load_npz(folder / "expected.npz"))
    computed = golden.run(graph, dict(load_npz(folder / "inputs.npz")), engine="numpy").outputs
    assert {name: array.tobytes() for name, array in computed.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    if row["status"] == "wrong":
        found = dict(load_npz(folder / "found.npz"))
        assert any(
            not np.array_equal(found[name], array, equal_nan=array.dtype.kind == "f")
            for name, array in expected.items()
        )
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert report.startswith(f"# {row['title']}\n")
    assert (
        f"tosa-flatbuffer check ./model.tosa -i ./inputs.npz --against {row['against']}" in report
    )
    rule = report.partition("## What TOSA says\n")[2].partition("## Versions")[0]
    assert len(rule) > 200
    # The sentence that is broken, and the section that has it.
    assert "section " in rule.partition("\nThe specification: ")[2]


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_consumer_still_fails(folder: Path) -> None:
    row = json.loads((folder / "finding.json").read_text(encoding="utf-8"))
    try:
        status, said, group = observe_again(folder)
    except TosaConvertError as error:
        if error.code != "missing-backend":
            raise
        pytest.skip(str(error))
    if "No module named" in said:
        pytest.skip(said)
    assert status == row["status"], said
    if says_nothing(group):
        assert row["cause"].startswith(f"{group}: ")
    else:
        assert row["cause"] == group
