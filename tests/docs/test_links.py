"""Links and file names in the documents lead somewhere."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "third_party/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)

_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
#: In code spans: what looks like a file of ours.
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|fbs|toml|yaml|yml|mlirbc|npy))`")


def anchors(text: str) -> set[str]:
    """What headings are called in links."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def broken(document: Path, text: str) -> Iterator[str]:
    """What the document refers to and is not there."""
    for path, anchor in _LINK.findall(text):
        target = (document.parent / path) if path else document
        if not target.exists():
            yield f"link to {path}"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"link to {path}#{anchor}"
    for name in _FILE.findall(text):
        # Files of the package go without its name where the text is about the package.
        places = (ROOT, ROOT / "tosa_convert", document.parent)
        if not any((place / name).exists() for place in places):
            yield f"file {name}"


def test_there_are_documents_to_look_at() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/formats.md"} <= set(DOCUMENTS)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_files_of_a_document_exist(document: str) -> None:
    path = ROOT / document
    found = list(broken(path, path.read_text(encoding="utf-8")))
    assert not found, f"{document}: {', '.join(found)}"


@pytest.mark.parametrize(
    "text",
    [
        "[x](absent.md)",
        "[x](README.md#absent)",
        "[x](#absent)",
        "`tosa_convert/absent.py`",
        "`graph/absent.py`",
    ],
)
def test_what_leads_nowhere_is_told(text: str) -> None:
    assert list(broken(ROOT / "README.md", text))


def test_every_decision_is_in_the_list(root: Path) -> None:
    folder = root / "docs" / "decisions"
    listed = re.findall(r"^- \[(.+)\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    found = [
        (path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "), path.name)
        for path in sorted(folder.glob("0*.md"))
    ]
    assert listed == found
    for _, name in found:
        text = (folder / name).read_text(encoding="utf-8")
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Why",
            "Consequences",
        ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_every_package_that_we_ask_for_is_listed_with_its_licence(root: Path) -> None:
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = set(project["dependencies"]).union(*project["optional-dependencies"].values())
    text = (root / "third_party" / "README.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    listed = {row[0] if len(row) == 3 else row[1] for row in rows}
    assert listed - {"package", "---"} == set(map(package, asked)) - {"tosa-convert"}
    assert all(all(row) for row in rows)
    extras = {row[0] for row in rows if len(row) == 5} - {"extra", "---"}
    assert extras == project["optional-dependencies"].keys()


def package(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0]


def test_every_session_of_nox_is_in_the_list_and_no_other(root: Path) -> None:
    tree = ast.parse((root / "noxfile.py").read_text(encoding="utf-8"))
    sessions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `nox -s (\w+)` \|", text, re.MULTILINE)) == sessions
