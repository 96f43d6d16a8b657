"""The check of a release's archives finds what is missing in them and what does not belong there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from release.check_archives import sdist_problems, source_files, wheel_problems

FILES = {"README.md", "tests/a.py", "tosa_convert/api.py", "tosa_convert/py.typed"}
WHEEL = {"tosa_convert/api.py", "tosa_convert/py.typed", "tosa_convert-1.dist-info/METADATA"}


def test_a_complete_source_archive_has_no_problem() -> None:
    assert not list(sdist_problems(FILES | {"PKG-INFO", "tosa_convert.egg-info/x"}, FILES))


def test_a_file_that_is_missing_or_strange_in_the_source_archive_is_reported() -> None:
    found = list(sdist_problems(FILES - {"tests/a.py"} | {"notes.txt"}, FILES))
    assert found == [
        "the sdist lacks tests/a.py",
        "the sdist has notes.txt, which is not a file of the repository",
    ]


def test_a_wheel_has_the_package_and_nothing_else() -> None:
    assert not list(wheel_problems(WHEEL, FILES))
    found = list(wheel_problems(WHEEL - {"tosa_convert/py.typed"} | {"tests/a.py"}, FILES))
    assert found == ["the wheel lacks tosa_convert/py.typed", "the wheel has tests/a.py"]


def test_the_files_of_the_repository_are_those_of_git(root: Path) -> None:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this copy of the sources is not a git repository")
    listed = set(done.stdout.splitlines())
    assert source_files(root) - listed == set()
    assert {name for name in listed - source_files(root) if (root / name).is_file()} == set()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_the_classifiers_and_ci_name_the_same_versions_of_python(root: Path) -> None:
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert project["requires-python"] == f">={versions[0]}"
    text = (root / "README.md").read_text(encoding="utf-8")
    assert f"Python {versions[0]} to {versions[-1]} " in text
    workflow = (root / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"^ +python: \[(.+)\]$", workflow, re.MULTILINE)
    assert re.findall(r"3\.\d+", matrix) == versions
    (package,) = re.findall(r"nox -s package -- (.+)", workflow)
    assert re.findall(r"3\.\d+", package) == versions
