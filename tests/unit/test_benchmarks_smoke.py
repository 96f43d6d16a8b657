"""The benchmark runs, at the smallest sizes; its times are not tested."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the benchmark reads /proc"
)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", autouse=True)
def peer() -> None:
    try:
        importlib.metadata.distribution("tosa-tools")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("tosa-tools is not installed: pip install '.[refmodel]'")


def benchmark(root: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(root / "benchmarks" / script), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def outcome(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict, str]:  # type: ignore[type-arg]
    """Return text, JSON and SVG of a run of one row."""
    folder = tmp_path_factory.mktemp("bench")
    words = ["--quick", "--repeat", "1", "--only", "export/chain/200"]
    done = benchmark(
        root, "run.py", *words, "--json", f"{folder}/b.json", "--svg", f"{folder}/b.svg"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "b.json").read_text()), (folder / "b.svg").read_text()


@pytest.mark.slow
def test_a_run_measures_ours_and_the_peer(outcome: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    text, found, _ = outcome
    assert "export chain of 200 operators" in text
    (row,) = found["rows"]
    for subject in ("ours (Python)", "ours (command)", "tosa-opt"):
        measured = row["subjects"][subject]
        assert measured["wall_min"] <= measured["wall"] <= measured["wall_max"]
        assert measured["peak_bytes"] > 1 << 20
    assert row["subjects"]["tosa-opt"]["ratio"] == 1


@pytest.mark.slow
def test_both_sides_did_the_same_work(outcome: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    (row,) = outcome[1]["rows"]
    assert row["same"] == "same program"


@pytest.mark.slow
def test_the_drawing_is_one_file_with_the_measured_points(outcome: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    drawn = ElementTree.fromstring(outcome[2])
    assert len(list(drawn.iter(f"{SVG}circle"))) >= 4
    assert "href" not in outcome[2]
    assert "prefers-color-scheme: dark" in outcome[2]


@pytest.mark.slow
def test_verbs_that_convert_nothing_are_measured(root: Path, tmp_path: Path) -> None:
    words = ["--quick", "--repeat", "1", "--json", f"{tmp_path}/found.json"]
    words += ["--only", "[sdr][hieo]*/*"]
    done = benchmark(root, "run.py", *words)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [row["id"].partition("/")[0] for row in rows] == [
        "show",
        "show",
        "doctor",
        "diff",
        "report",
    ]
    for row in rows:
        assert row["subjects"]["ours (command)"]["wall"] > 0


@pytest.mark.slow
def test_a_second_sitting_keeps_the_rows_of_the_first(root: Path, tmp_path: Path) -> None:
    for verb in ("show", "doctor", "show"):
        words = ["--repeat", "1", "--only", f"{verb}/branch/*", "--merge", f"{tmp_path}/found.json"]
        assert benchmark(root, "run.py", "--quick", *words).returncode == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["id"].partition("/")[0] for row in found["rows"]] == ["show", "doctor"]
    assert found["rows"][0]["measured"]["date"] > found["rows"][1]["measured"]["date"]


@pytest.mark.slow
def test_a_subject_that_fails_makes_the_benchmark_fail(root: Path, tmp_path: Path) -> None:
    # A folder for bytecode that cannot be made breaks nothing; a broken package does.
    broken = tmp_path / "tosa_convert"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise SystemExit(9)\n")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import os; "
        "os.environ['PYTHONPATH'] = sys.argv[2]; import run; "
        "sys.exit(run.main(['--quick', '--repeat', '1', '--only', 'one/export']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root / "benchmarks"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1
    assert "exit code 9" in done.stderr


def test_a_run_that_would_measure_nothing_is_refused(root: Path) -> None:
    done = benchmark(root, "run.py", "--quick", "--only", "export/of/nothing")
    assert done.returncode == 2
    assert "no row is called export/of/nothing" in done.stderr


# -- two checkouts against each other --------------------------------------------------------------


@pytest.mark.slow
def test_two_checkouts_are_timed_in_pairs(root: Path, tmp_path: Path) -> None:
    words = ["--quick", "--pairs", "1", "--only", "one: .tosa", "--limit", "10000"]
    found = tmp_path / "found.json"
    done = benchmark(root, "paired.py", str(root), str(root), *words, "--json", str(found))
    assert done.returncode == 0, done.stderr
    rows = json.loads(found.read_text())
    assert [row["name"] for row in rows] == ["one: .tosa to .mlirbc", "one: .tosa to .json"]
    for row in rows:
        assert row["same_bytes"]
        assert row["ratio"] > 0
        assert row["name"] in done.stdout


@pytest.mark.long
def test_a_checkout_that_writes_other_bytes_fails_the_comparison(
    root: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(root / "tosa_convert", changed / "tosa_convert")
    version = changed / "tosa_convert" / "version.py"
    version.write_text(version.read_text().replace('"0.1.0"', '"9.9.9"'))
    words = ["--quick", "--pairs", "1", "--only", "one: .mlirbc", "--limit", "10000"]
    done = benchmark(root, "paired.py", str(root), str(changed), *words)
    assert done.returncode == 1, done.stderr
    assert "OTHER BYTES" in done.stdout


@pytest.mark.long
def test_a_slower_checkout_fails_the_comparison(root: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    shutil.copytree(root / "tosa_convert", slow / "tosa_convert")
    start = slow / "tosa_convert" / "__main__.py"
    start.write_text(f"import time\n\ntime.sleep(2)\n{start.read_text()}")
    words = ["--quick", "--pairs", "1", "--only", "one: .tosa to .json", "--limit", "50"]
    done = benchmark(root, "paired.py", str(root), str(slow), *words)
    assert done.returncode == 1, done.stderr
    assert "SLOWER" in done.stdout


def test_a_folder_without_the_package_is_refused(root: Path, tmp_path: Path) -> None:
    done = benchmark(root, "paired.py", str(root), str(tmp_path), "--quick")
    assert done.returncode == 2
    assert "does not hold the package" in done.stderr
