"""What programs did with the networks' files: none of ours is refused alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docs import consumer_tables, zoo_tables
from docs.consumer_tables import OURS, SHOWN, THEIRS
from oracle import compare_doctor

from tosa_convert.consumers.readers import READERS, reader_named

Row = dict[str, Any]


def wrong(row: Row) -> list[str]:
    """Return what a row says against us."""
    found = []
    if row["reads"][THEIRS] and not row["reads"][OURS]:
        found.append("only ours is refused")
    if not row.get("equal", True):
        found.append("the result differs")
    if not all(row["doctor"].values()):
        found.append("doctor is wrong")
    return found


@pytest.mark.slow
def test_every_network_was_given_to_every_program() -> None:
    networks = consumer_tables.measured()["networks"]
    by_torch = {name for name, network in networks.items() if network["frontend"] == "torch"}
    assert by_torch == {name for _, name, _ in zoo_tables.networks("torch")}
    assert any(network["frontend"] == "tflite" for network in networks.values())
    for network in networks.values():
        forms = {name: set(rows) for name, rows in network["programs"].items()}
        assert forms == {name: set(READERS[name].formats) for name in SHOWN}


def test_a_program_that_reads_the_file_of_tosa_opt_reads_ours_and_makes_the_same_of_it() -> None:
    networks = consumer_tables.measured()["networks"]
    rows = {
        (name, program, form): wrong(row)
        for name, network in networks.items()
        for program, forms in network["programs"].items()
        for form, row in forms.items()
    }
    assert {key: found for key, found in rows.items() if found} == {}


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"reads": {OURS: True, THEIRS: True}, "doctor": {OURS: True}, "equal": True}, []),
        ({"reads": {OURS: True, THEIRS: False}, "doctor": {OURS: True}}, []),
        ({"reads": {OURS: False, THEIRS: True}, "doctor": {}}, ["only ours is refused"]),
        (
            {"reads": {OURS: True, THEIRS: True}, "doctor": {}, "equal": False},
            ["the result differs"],
        ),
        ({"reads": {OURS: True, THEIRS: True}, "doctor": {THEIRS: False}}, ["doctor is wrong"]),
    ],
)
def test_what_a_row_says_against_us_is_found(row: Row, found: list[str]) -> None:
    assert wrong(row) == found


def test_the_programs_are_those_that_the_facts_are_of_and_nox_installs_them(root: Path) -> None:
    releases = consumer_tables.measured()["releases"]
    assert releases == {name: READERS[name].release for name in (*SHOWN, THEIRS)}
    pins = {
        line.replace("==", " ")
        for path in (root / "third_party/consumers").glob("*.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    assert {releases[name] for name in SHOWN if name != "iree"} <= pins


def test_doctor_agrees_with_what_readers_did_with_files(tmp_path: Path) -> None:
    found = json.loads(consumer_tables.READERS.read_text(encoding="utf-8"))
    assert tuple(found["releases"]) == compare_doctor.READERS
    assert found["releases"] == {name: reader_named(name).release for name in found["releases"]}
    assert len(found["files"]) >= 300
    compared = 0
    for path in compare_doctor.example_files(tmp_path):
        digest, did, said = found["files"].get(path.name, ("", "", ""))
        if digest != compare_doctor.digest_of(path):
            continue  # It is another file since it was measured.
        rows = zip(compare_doctor.predicted(path), did, said, strict=True)
        assert ["-" if done == "-" else "y" if row.reads else "n" for row, done, _ in rows] == [
            *said
        ]
        compared += 1
    assert compared >= 200, "run tests/oracle/compare_doctor.py"


def test_doctor_is_wrong_about_few_files() -> None:
    files = json.loads(consumer_tables.READERS.read_text(encoding="utf-8"))["files"]
    pairs = [
        (did, said)
        for row in files.values()
        for did, said in zip(row[1], row[2], strict=True)
        if did != "-"
    ]
    wrong = sum((did == "y") != (said == "y") for did, said in pairs)
    assert wrong * 200 < len(pairs)
