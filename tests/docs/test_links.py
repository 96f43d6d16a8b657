"""Links and file names in the documents exist, and their text is wrapped."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from frontends.groups import groups

from manual import pages

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "third_party/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)

#: Columns of text.
WIDTH = 110

_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
#: A code span that looks like a file of this repository.
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|fbs|toml|yaml|yml|mlirbc|npy))`")
#: One that names a module alone, as pages for developers do.
_MODULE = re.compile(r"`([\w-]+\.py)`")
_FOR_DEVELOPERS = ("CONTRIBUTING.md", "docs/architecture.md")


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def broken(document: Path, text: str) -> Iterator[str]:
    """Yield the links and files of a document that do not exist."""
    for path, anchor in _LINK.findall(text):
        target = (document.parent / path) if path else document
        if target.resolve() in {ROOT / "docs" / uri for uri in (pages.COMMANDS, pages.OPERATORS)}:
            continue  # pages that the build of the site makes
        if not target.exists():
            yield f"link to {path}"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"link to {path}#{anchor}"
    for name in _FILE.findall(text):
        # Paths may be relative to the package.
        places = (ROOT, ROOT / "tosa_convert", document.parent)
        if not any((place / name).exists() for place in places):
            yield f"file {name}"
    if document in {ROOT / name for name in _FOR_DEVELOPERS}:
        tops = ("tosa_convert", "tests", "schema")
        modules = {path.name for top in tops for path in (ROOT / top).rglob("*.py")}
        yield from (f"file {name}" for name in _MODULE.findall(text) if name not in modules)


def test_the_documents_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/formats.md"} <= set(DOCUMENTS)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_files_of_a_document_exist(document: str) -> None:
    path = ROOT / document
    problems = list(broken(path, path.read_text(encoding="utf-8")))
    assert not problems, f"{document}: {', '.join(problems)}"


@pytest.mark.parametrize(
    "text",
    [
        "[x](absent.md)",
        "[x](README.md#absent)",
        "[x](#absent)",
        "`tosa_convert/absent.py`",
        "`graph/absent.py`",
        "`absent.py`",
    ],
)
def test_a_broken_link_is_reported(text: str) -> None:
    assert list(broken(ROOT / "CONTRIBUTING.md", text))


def test_every_decision_is_in_the_list(root: Path) -> None:
    folder = root / "docs" / "decisions"
    listed = re.findall(r"^- \[(.+)\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    notes = [
        (path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "), path.name)
        for path in sorted(folder.glob("0*.md"))
    ]
    assert listed == notes
    for _, name in notes:
        text = (folder / name).read_text(encoding="utf-8")
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_every_required_package_is_listed_with_its_licence(root: Path) -> None:
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = set(project["dependencies"]).union(*project["optional-dependencies"].values())
    text = (root / "third_party" / "README.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    listed = {row[0] if len(row) == 3 else row[1] for row in rows} - {"package", "---"}
    frameworks = groups().values()
    listed |= {name for group in frameworks for name in group.licences}
    assert listed == set(map(package, required)) - {"tosa-convert"}
    assert all(all(row) for row in rows)
    extras = {row[0] for row in rows if len(row) == 5} - {"extra", "---"}
    extras |= {extra for group in frameworks for extra in group.extras}
    assert extras == project["optional-dependencies"].keys()


def package(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return name[0]


def test_every_nox_session_says_what_it_does_and_those_that_are_named_exist(root: Path) -> None:
    tree = ast.parse((root / "noxfile.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    sessions = {
        next(
            iter(re.findall(r"session\(name='(.+?)'", ast.unparse(node.decorator_list[0]))),
            node.name,
        ): ast.get_docstring(node)
        for node in functions
        if node.decorator_list
    }
    assert len(sessions) > 10
    assert [name for name, text in sessions.items() if not text] == []
    for document in DOCUMENTS:
        text = (root / document).read_text(encoding="utf-8")
        named = set(re.findall(r"`nox -s ([\w-]+)", text))
        assert named <= sessions.keys(), document
