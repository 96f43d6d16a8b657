"""The check of a release's archives finds what is missing in them and what does not belong there."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from release.bill_of_materials import PLACE, write_bill
from release.build_archives import packed_again
from release.check_archives import sdist_problems, source_files, wheel_problems
from release.readme_for_index import read_readme, readme_for_index, source_address
from tosa_convert.version import __version__

FILES = {"README.md", "tests/a.py", "tosa_convert/api.py", "tosa_convert/py.typed"}
WHEEL = {
    "tosa_convert/api.py",
    "tosa_convert/errors.md",
    "tosa_convert/py.typed",
    "tosa_convert-1.dist-info/METADATA",
    f"tosa_convert-1.dist-info/{PLACE}",
}


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
    pages = {"tosa_convert-1.0.data/data/share/man/man1/tosa-flatbuffer.1"}
    assert not list(wheel_problems(WHEEL | pages, FILES))
    lacking = {"tosa_convert/errors.md", "tosa_convert/py.typed"}
    found = list(wheel_problems(WHEEL - lacking | {"tests/a.py"}, FILES))
    assert found == [
        *(f"the wheel lacks {name}" for name in sorted(lacking)),
        "the wheel has tests/a.py",
    ]
    (lacks,) = wheel_problems({name for name in WHEEL if "sboms" not in name}, FILES)
    assert lacks == f"the wheel lacks *.dist-info/{PLACE}"


def test_the_bill_of_materials_has_what_an_installation_adds(tmp_path: Path) -> None:
    metadata = """Metadata-Version: 2.4
Name: tosa-convert
Version: 1.2.3
Summary: Programs
License-Expression: Apache-2.0
Requires-Dist: numpy>=1.24
Requires-Dist: ml_dtypes>=0.5
Requires-Dist: torch-mlir; extra == "mlir"
"""
    (tmp_path / "METADATA").write_text(metadata)
    bill = json.loads(write_bill(tmp_path).read_text())
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/tosa-convert@1.2.3"
    found = {row["purl"]: row["properties"][0]["value"] for row in bill["components"]}
    assert found == {"pkg:pypi/ml-dtypes": ">=0.5", "pkg:pypi/numpy": ">=1.24"}
    assert bill["dependencies"][0]["dependsOn"] == sorted(found)


def test_every_action_is_pinned_by_its_commit(root: Path) -> None:
    files = [*(root / ".github/workflows").glob("*.yml"), root / "action.yml"]
    used = [
        line.strip()
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\buses: ", line)
    ]
    assert len(used) > 20
    pinned = re.compile(r"(?:- )?uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a git checkout without one of its files, and with all that commands leave."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path / "checkout"
    tracked = ("README.md", "tests/été.py", "tosa_convert/api.py", "tosa_convert/lost.py")
    left = ("digits_cnn.tosa", "my.mlir", "converted/a.tosa", "build/x", "tosa_convert/new.py")
    for name in ("tosa_convert", "tests", "converted", "build"):
        (folder / name).mkdir(parents=True)
    for name in (*tracked, *left):
        (folder / name).write_text(name)
    (folder / ".gitignore").write_text("/build/\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".gitignore", *tracked)
    git(folder, "commit", "--quiet", "--message", "files")
    (folder / "tosa_convert/lost.py").unlink()
    return folder


def test_what_commands_leave_in_a_checkout_is_not_part_of_the_repository(checkout: Path) -> None:
    files = source_files(checkout)
    package = {"tosa_convert/api.py", "tosa_convert/lost.py"}
    assert files == {".gitignore", "README.md", "tests/été.py", *package}
    archive = files - {"tosa_convert/lost.py"} | {"digits_cnn.tosa"}
    assert list(sdist_problems(archive, files)) == [
        "the sdist lacks tosa_convert/lost.py",
        "the sdist has digits_cnn.tosa, which is not a file of the repository",
    ]
    bill = f"a-1.dist-info/{PLACE}"
    wheel = {"tosa_convert/api.py", "tosa_convert/errors.md", "tosa_convert/new.py", bill}
    assert list(wheel_problems(wheel, files)) == [
        "the wheel lacks tosa_convert/lost.py",
        "the wheel has tosa_convert/new.py",
    ]


def test_a_copy_inside_another_repository_has_no_files_to_compare_with(checkout: Path) -> None:
    assert source_files(checkout / "tosa_convert") is None


def test_this_checkout_has_this_test(root: Path) -> None:
    files = source_files(root)
    if files is None:
        pytest.skip("this copy of the sources is not a git checkout")
    assert "tests/docs/test_release.py" in files


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_files_have_names_that_every_system_can_check_out(root: Path) -> None:
    # Windows has no files with these characters.
    assert not [name for name in source_files(root) or () if re.search(r'[<>:"|?*\\]', name)]


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


# -- archives that are equal bit for bit -----------------------------------------------------------


def archive(seconds: int, *names: str, owner: str) -> bytes:
    """Return a source archive as a build makes it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as target:
        for name in names:
            member = tarfile.TarInfo(f"a-1/{name}")
            member.mtime, member.uname, member.uid = seconds, owner, seconds % 1000
            member.mode = 0o775 if name == "run" else 0o664
            member.size = len(name)
            target.addfile(member, io.BytesIO(name.encode()))
    return data.getvalue()


def test_archives_of_two_builds_are_packed_equally() -> None:
    one, other = (
        packed_again(archive(1_700_000_001, "run", "b", owner="one"), 1_600_000_000),
        packed_again(archive(1_700_000_999, "b", "run", owner="other"), 1_600_000_000),
    )
    assert one == other
    assert packed_again(archive(0, "run", "c", owner="one"), 1_600_000_000) != one
    with tarfile.open(fileobj=io.BytesIO(one)) as packed:
        rows = [(row.name, row.mtime, row.uname, oct(row.mode)) for row in packed]
        assert rows == [
            ("a-1/b", 1_600_000_000, "", "0o644"),
            ("a-1/run", 1_600_000_000, "", "0o755"),
        ]
        content = packed.extractfile("a-1/b")
        assert content is not None
        assert content.read() == b"b"


# -- the README of a package index ------------------------------------------------------------------


def test_the_readme_of_an_index_has_absolute_links_and_pictures(root: Path) -> None:
    text = "[a](docs/a.md#b) ![p](docs/./p.svg) [c](#c) [d](https://e.org/)\n```sh\n[x](y)\n```\n[f](docs)\n"
    at = "https://example.org/x"
    assert readme_for_index(text, at, "1.2.3") == (
        f"[a]({at}/blob/v1.2.3/docs/a.md#b) ![p]({at}/raw/v1.2.3/docs/p.svg) [c](#c) [d](https://e.org/)\n"
        f"```sh\n[x](y)\n```\n[f]({at}/blob/v1.2.3/docs)\n"
    )
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", read_readme(root))
    assert len(targets) > 15
    at = f"{source_address(project)}/blob/v{__version__}/"
    assert [name for name in targets if not name.startswith((at, "#"))] == []


def test_an_index_gets_no_readme_without_an_address(root: Path) -> None:
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert source_address(project).startswith("https://")
    with pytest.raises(ValueError, match=r"project\.urls"):
        source_address(project.replace("\nSource", "\n# Source"))


# -- files for services ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["CITATION.cff", "release/conda/recipe.yaml"])
def test_files_that_state_the_version_state_the_same(root: Path, name: str) -> None:
    text = (root / name).read_text(encoding="utf-8")
    assert re.findall(r"^ *version: (\d.*)$", text, re.MULTILINE) == [__version__]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_files_for_services_say_what_pyproject_says(root: Path) -> None:
    import tomllib

    yaml = pytest.importorskip("yaml", reason="PyYAML, which pre-commit brings, is not installed")

    def read(name: str) -> Any:
        return yaml.safe_load((root / name).read_text(encoding="utf-8"))

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert read("CITATION.cff")["license"] == project["license"]
    (install,) = read(".readthedocs.yaml")["python"]["install"]
    assert set(install["extra_requirements"]) <= set(project["optional-dependencies"])
    recipe = read("release/conda/recipe.yaml")
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    needs = [row.replace(" ", "") for row in recipe["requirements"]["run"][1:]]
    assert needs == project["dependencies"]
    assert (recipe["about"]["license"], recipe["about"]["summary"]) == (
        project["license"],
        project["description"],
    )


def test_the_project_has_no_address_outside_of_one_place(root: Path) -> None:
    """They are placeholders until the first release."""
    names = ("CITATION.cff", "action.yml", "release/conda/recipe.yaml", ".readthedocs.yaml")
    forms = sorted((root / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    texts = [path.read_text(encoding="utf-8") for path in (*map(root.joinpath, names), *forms)]
    assert not re.findall(r"https?://\S+", "".join(texts))
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://([\w.]+)", project)) == {"example.org"}


def test_every_form_for_issues_asks_for_something(root: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML, which pre-commit brings, is not installed")
    forms = {path.stem: path for path in (root / ".github/ISSUE_TEMPLATE").glob("*.yml")}
    assert forms.keys() == {"config", "bug", "model", "idea"}
    for name in forms.keys() - {"config"}:
        form = yaml.safe_load(forms[name].read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= form.keys()
        asked = [row for row in form["body"] if row["type"] != "markdown"]
        assert all({"id", "type", "attributes"} <= row.keys() for row in asked)
        assert any(row.get("validations", {}).get("required") for row in asked)


def test_every_convention_that_waits_has_its_file(root: Path) -> None:
    page = (root / "docs/release.md").read_text(encoding="utf-8").partition("## Conventions")[2]
    rows = [re.split(r" \| ", line.strip("| ")) for line in page.splitlines() if line[:2] == "| "]
    assert rows[0] == ["convention", "where"]
    assert len(rows) > 1
    for name, where in rows[1:]:
        files = [text for text in re.findall(r"`([^`]+)`", where) if re.search(r"[./]", text)]
        assert files, name
        assert [path for path in files if not (root / path).is_file()] == [], name
