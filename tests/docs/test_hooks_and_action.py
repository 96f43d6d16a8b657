"""The hooks for pre-commit, the action for GitHub and the configuration of lit do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from docs.blocks import environment

import tosa_convert as tc

yaml = pytest.importorskip("yaml", reason="PyYAML, which pre-commit brings, is not installed")

#: As a release of 2022 printed it.
OLD = """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "tosa.reluN"(%x) {max_fp = 6.0 : f32, max_int = 6 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>  // a comment
}
"""
HOOKS = ("tosa-validate", "tosa-upgrade")


def run(
    command: list[str], folder: Path, code: int = 0, variables: Mapping[str, str] | None = None
) -> str:
    """Return the output of a command, which must end with this exit code."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment(), "PRE_COMMIT_HOME": str(folder / ".git/cache"), **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def bad_program(root: Path) -> tc.Graph:
    """Return a program that TOSA forbids."""
    graph = tc.load(root / "examples/digits_cnn.mlirbc")
    graph.main.tensors["logits"].shape = (1, 11)
    return graph


@pytest.fixture
def repository(root: Path, tmp_path: Path) -> Path:
    """Return a git repository with a good program, a forbidden one, and one of 0.80, all staged."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "repository"
    (folder / "models").mkdir(parents=True)
    tc.save(tc.load(root / "examples/digits_cnn.mlirbc"), folder / "models/good.tosa")
    tc.save(bad_program(root), folder / "models/bad.tosa", validate=False)
    shutil.copy(root / "tests/old_programs/clamp-0.80.tosa", folder / "models/old.tosa")
    (folder / "notes.txt").write_text("not a program\n")
    run(["git", "init", "--quiet"], folder)
    run(["git", "add", "."], folder)
    return folder


def manifest(root: Path) -> dict[str, dict[str, Any]]:
    rows = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return {row["id"]: row for row in rows}


def run_hook(root: Path, repository: Path, name: str, code: int) -> str:
    """Run a hook's entry on the staged files that it takes, as pre-commit does."""
    hook = manifest(root)[name]
    files = run(["git", "diff", "--cached", "--name-only", "--diff-filter=A"], repository)
    chosen = [file for file in files.splitlines() if re.search(hook["files"], file)]
    assert len(chosen) == 3
    return run([*shlex.split(hook["entry"]), *hook.get("args", []), *chosen], repository, code)


def test_the_guide_describes_every_hook(root: Path) -> None:
    text = (root / "docs/guides/ci.md").read_text(encoding="utf-8")
    assert tuple(manifest(root)) == HOOKS
    assert all(f"| `{name}` |" in text for name in HOOKS)


@pytest.mark.slow
def test_a_commit_with_a_program_that_tosa_forbids_stops(root: Path, repository: Path) -> None:
    said = run_hook(root, repository, "tosa-validate", 1)
    assert "models/bad.tosa: " in said
    assert "add-output-shape" in said


@pytest.mark.slow
def test_an_old_program_is_rewritten_once_and_others_never(root: Path, repository: Path) -> None:
    (repository / "models/bad.tosa").write_bytes(b"not a flatbuffer")
    before = {path.name: path.read_bytes() for path in repository.glob("models/*")}
    said = run_hook(root, repository, "tosa-upgrade", 3)
    assert "models/old.tosa: brought to the form of TOSA 1.0" in said
    assert "models/bad.tosa: error: " in said
    after = {path.name: path.read_bytes() for path in repository.glob("models/*")}
    assert [name for name in before if before[name] != after[name]] == ["old.tosa"]
    assert str(tc.load(repository / "models/old.tosa").version) == "1.0.0"
    (repository / "models/bad.tosa").write_bytes(before["good.tosa"])
    assert run_hook(root, repository, "tosa-upgrade", 0) == ""


@pytest.mark.slow
def test_an_old_program_in_text_is_refused_and_stays(tmp_path: Path) -> None:
    copy = tmp_path / "old.mlir"
    copy.write_text(OLD)
    command = [sys.executable, "-m", "tosa_convert.cli.upgrade_in_place", "old.mlir"]
    said = run(command, tmp_path, 2)
    assert "not rewritten in place" in said
    assert "tosa-flatbuffer upgrade old.mlir -o NEW" in said
    assert copy.read_text() == OLD


@pytest.mark.slow
def test_precommit_itself_runs_the_hooks(root: Path, repository: Path) -> None:
    """With the commands of this environment: it would install a repository through the network."""
    if shutil.which("pre-commit", path=environment()["PATH"]) is None:
        pytest.skip("pre-commit is not installed")
    run(["pre-commit", "validate-manifest", str(root / ".pre-commit-hooks.yaml")], repository)
    hooks = [{**row, "language": "system"} for row in manifest(root).values()]
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    run(["git", "add", "."], repository)
    said = run(["pre-commit", "run", "--all-files", "--color", "never"], repository, 1)
    assert "add-output-shape" in said
    assert "files were modified by this hook" in said
    assert "notes.txt" not in said


# -- the action ------------------------------------------------------------------------------------


def action(root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((root / "action.yml").read_text(encoding="utf-8"))
    return loaded


def run_step(root: Path, name: str, folder: Path, code: int = 0, **inputs: str) -> str:
    """Run the script of a step, with inputs as GitHub gives them to it."""
    given = {key: str(row.get("default", "")) for key, row in action(root)["inputs"].items()}
    given.update({key.replace("_", "-"): value for key, value in inputs.items()})
    (step,) = [row for row in action(root)["runs"]["steps"] if row["name"] == name]
    bound = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], text)
        for key, text in step["env"].items()
    }
    assert not [text for text in bound.values() if "${{ inputs" in text]
    assert "${{" not in step["run"], "an input in a script would be run as a part of it"
    variables = {
        **bound,
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_OUTPUT": str(folder / "outputs"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return run(command, folder, code, variables)


@pytest.fixture
def runner(root: Path, tmp_path: Path) -> Path:
    """Return a folder as a runner has it, after the installation, with two programs."""
    if sys.platform == "win32":
        pytest.skip("the scripts are for bash")
    programs = tmp_path / "temp/tosa-convert/bin"
    programs.mkdir(parents=True)
    for name in ("tosa-flatbuffer", "tosa-flatbuffer-convert"):
        found = shutil.which(name, path=environment()["PATH"])
        assert found is not None
        (programs / name).symlink_to(found)
    tc.save(tc.load(root / "examples/digits_cnn.mlirbc"), tmp_path / "good.tosa")
    tc.save(bad_program(root), tmp_path / "bad.tosa", validate=False)
    return tmp_path


def test_every_input_of_the_action_is_used_and_described(root: Path) -> None:
    text = (root / "action.yml").read_text(encoding="utf-8")
    guide = (root / "docs/guides/ci.md").read_text(encoding="utf-8")
    for name in action(root)["inputs"]:
        assert f"inputs.{name}" in text
        assert f"`{name}`" in guide


@pytest.mark.slow
def test_the_action_reports_what_tosa_forbids_in_sarif_and_in_the_log(
    root: Path, runner: Path
) -> None:
    run_step(root, "validate", runner, files="good.tosa")
    said = run_step(root, "validate", runner, 1, files="*.tosa")
    assert "add-output-shape" in said
    assert (runner / "outputs").read_text().splitlines()[-1] == f"sarif={runner}/temp/tosa.sarif"
    report = json.loads((runner / "temp/tosa.sarif").read_text())
    assert report["runs"][0]["results"][0]["ruleId"] == "add-output-shape"
    said = run_step(root, "validate", runner, 1, files="good.tosa", validate="--profile PRO-INT")
    assert "outside-profile" in said


@pytest.mark.slow
def test_the_action_converts_and_checks(root: Path, runner: Path) -> None:
    run_step(root, "convert", runner, files="good.tosa", convert_to="mlirbc")
    assert (runner / "converted/good.mlirbc").exists()
    run_step(root, "check", runner, files="good.tosa", against="good.tosa")
    tc.save(tc.strip_weights(tc.load(runner / "good.tosa")), runner / "other.tosa")
    said = run_step(root, "check", runner, 1, files="good.tosa good.tosa", against="other.tosa")
    assert said.count("seed-0:\nFAIL logits") == 2


@pytest.mark.slow
def test_the_action_checks_the_programs_of_a_folder_each_against_its_own(
    root: Path, runner: Path
) -> None:
    (runner / "models/more").mkdir(parents=True)
    good = runner / "good.tosa"
    shutil.copy(good, runner / "models/a.tosa")
    shutil.copy(good, runner / "models/more/b c.tosa")
    (runner / "models/notes.txt").write_text("not a program\n")
    shutil.copy(good, runner / "a.tosa")
    tc.save(tc.strip_weights(tc.load(good)), runner / "b c.tosa")
    said = run_step(root, "check", runner, 1, files="models", against="{stem}.tosa")
    assert [line for line in said.splitlines() if line.startswith("::group::")] == [
        "::group::models/a.tosa",
        "::group::models/more/b c.tosa",
    ]
    first, second = said.split("::group::models/more")
    assert ("FAIL" in first, "FAIL" in second) == (False, True)


# -- lit -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_example_of_lit_passes_and_can_fail(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("lit", reason="lit is not installed")
    pytest.importorskip("filecheck", reason="filecheck is not installed")
    copy = tmp_path / "lit"
    shutil.copytree(root / "examples/lit", copy)
    assert "Passed: 1" in run(["lit", "lit"], tmp_path)
    test = copy / "relu.mlir"
    test.write_text(test.read_text().replace("CHECK: tosa.clamp", "CHECK: tosa.abs"))
    run(["lit", "lit"], tmp_path, 1)
    assert sorted(os.listdir(copy)) == sorted(os.listdir(root / "examples/lit"))
