"""The pages of the site: what they contain, their links, and the checks of a built site.

`nox -s site` builds the site itself; only `test_a_strict_build_...` needs MkDocs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import tosa_convert
from manual import command_reference, pages
from manual.check_site import problems
from tosa_convert import builder as build
from tosa_convert import edit, frontends, golden, rewrites
from tosa_convert.cli.main import tosa_flatbuffer
from tosa_convert.formats.bindings import passes

# -- the Python reference --------------------------------------------------------------------------

#: Public names that are not objects with a docstring.
NOT_DOCUMENTED = {
    *(
        f"tosa_convert.{name}"
        for name in ("__version__", "edit", "frontends", "golden", "reference", "rewrites")
    ),
    *(f"tosa_convert.rewrites.{name}" for name in ("CLEAN_UP", "REPAIR", "REWRITES")),
}


def public_names() -> set[str]:
    """Return all of them; what the package offers from `golden` once, with its name there."""
    modules = (golden, tosa_convert, build, edit, frontends, passes, rewrites)
    objects: dict[str, object] = {}
    for module in modules:
        for name in module.__all__:
            value = getattr(module, name)
            if not any(value is known for known in objects.values()):
                objects[f"{module.__name__}.{name}"] = value
    return set(objects) - NOT_DOCUMENTED


def test_the_reference_has_every_public_name(root: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (root / "docs/reference").glob("*.md")]
    named = set(re.findall(r"^::: ([\w.]+)$", "\n".join(texts), re.MULTILINE))
    assert public_names() - named == set()


def test_examples_of_docstrings_become_a_section_of_code() -> None:
    text = "A.\n\nExample:\n    >>> 1\n    1\n"
    assert pages.with_examples(text) == "A.\n\nExamples:\n    >>> 1\n    1\n"
    assert pages.with_examples("An Example: none\n") == "An Example: none\n"


# -- the reference of the command line -------------------------------------------------------------


def commands() -> dict[str, click.Command]:
    """Return all verbs and their verbs: `weights export` -> the command."""
    found: dict[str, click.Command] = {}

    def visit(group: click.Group, before: str) -> None:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            found[f"{before}{name}"] = command
            if isinstance(command, click.Group):
                visit(command, f"{before}{name} ")

    visit(tosa_flatbuffer, "")
    return found


def test_the_reference_has_every_verb_and_every_option() -> None:
    text = command_reference.markdown()
    sections = dict(re.findall(r"^##+ (.+?)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(commands())
    for name, command in commands().items():
        for option in command.params:
            if isinstance(option, click.Option) and "--help" not in option.opts:
                assert f"{option.opts[-1]}" in sections[name], f"{name} {option.opts}"


def test_help_is_markdown_with_its_signs_as_they_are() -> None:
    text = command_reference.markdown()
    assert r"\[required\]" in text
    # Indented text would be a block of code.
    assert not re.search(r"^ {4,}(?!\S*$)(?<!:)\S", text.replace("\n:   ", "\n"), re.MULTILINE)


# -- pages and links -------------------------------------------------------------------------------


def test_every_document_has_a_page_and_every_page_a_document(root: Path) -> None:
    for source in pages.documents(root):
        assert (root / source).is_file()
        assert pages.source_of(pages.uri_of(source)) == source
    outside = {path.name for path in root.glob("*.md")}
    assert outside <= set(pages.OUTSIDE), "a document at the top is a page of the site"


def test_the_files_that_documents_link_to_are_in_the_site(root: Path) -> None:
    linked = pages.linked_files(root)
    assert "LICENSE" in linked
    assert all((root / source).is_file() for source in linked)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("README.md", "[x](docs/builder.md#a)", "[x](../builder.md#a)"),
        ("README.md", "[x](docs/decisions)", "[x](../decisions/README.md)"),
        ("README.md", "[x](LICENSE)", "[x](../repository/LICENSE)"),
        ("docs/builder.md", "[x](golden.md)", "[x](golden.md)"),
        ("docs/builder.md", "[x](../README.md)", "[x](project/overview.md)"),
        ("docs/builder.md", "[x](#anchor)", "[x](#anchor)"),
        ("docs/builder.md", "[x](https://example.org/)", "[x](https://example.org/)"),
        ("docs/builder.md", "```sh\n[x](../README.md)\n```\n", "```sh\n[x](../README.md)\n```\n"),
    ],
)
def test_links_of_a_document_become_those_of_its_page(
    root: Path, source: str, text: str, expected: str
) -> None:
    assert pages.site_links(text, source, root) == expected


def test_a_part_of_the_readme_is_shown_with_its_links() -> None:
    readme = "a\n<!-- part -->\n[x](docs/golden.md)\n<!-- /part -->\nb\n"
    text = pages.with_readme_parts("<!-- README.md: part -->\n", "docs/index.md", readme)
    assert text == "[x](golden.md)\n"
    with pytest.raises(ValueError, match="no part <!-- absent -->"):
        pages.with_readme_parts("<!-- README.md: absent -->", "docs/index.md", readme)


def test_a_diagram_is_a_table_of_its_arrows() -> None:
    text = "```mermaid\nflowchart TD\n    a --> c & b\n    a & d --> e\n```\n"
    assert pages.diagrams_as_tables(text) == (
        "| from | to |\n|---|---|\n| `a` | `b`, `c`, `e` |\n| `d` | `e` |\n"
    )


# -- the check of a built site can fail ------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "body", "problem"),
    [
        ("", "<a href='other.html#there'>x</a><a href='#here'>x</a><p id=here>", ""),
        ("", "<a href='https://example.org/'>a reader follows it</a>", ""),
        ("", "<a href='absent.html'>x</a>", "no such file"),
        ("", "<a href='../outside.html'>x</a>", "no such file"),
        ("", "<a href='other.html#absent'>x</a>", "no such anchor"),
        ("", "<a href='#absent'>x</a>", "no such anchor"),
        ("", "<a href='/index.html'>x</a>", "begins with a slash"),
        ("", "<img src='absent.png'>", "no such file"),
        ("", "<img src='https://example.org/a.png'>", "fetches"),
        ("", "<img srcset='//example.org/a.png 2x'>", "fetches"),
        ("<script src='https://example.org/a.js'></script>", "", "fetches"),
        ("<link rel=stylesheet href='https://example.org/a.css'>", "", "fetches"),
        ("<link rel=preconnect href='https://example.org'>", "", "fetches"),
        ("<style>@import 'https://example.org/a.css';</style>", "", "fetches"),
        ("", "<p style='background: url(https://example.org/a.png)'>", "fetches"),
        ("", "<pre class='mermaid'></pre>", "an element of class mermaid"),
    ],
)
def test_a_wrong_page_is_reported(head: str, body: str, problem: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "outside.html").write_text("")
    (site / "other.html").write_text("<h1 id='there'>x</h1>", encoding="utf-8")
    (site / "index.html").write_text(f"<head>{head}</head><body>{body}</body>", encoding="utf-8")
    found = list(problems(site))
    assert bool(found) == bool(problem)
    assert all(row.startswith("index.html: ") and problem in row for row in found)


def test_a_style_sheet_that_fetches_a_font_is_reported(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("")
    (tmp_path / "a.css").write_text("@font-face { src: url('https://example.org/font') }")
    assert list(problems(tmp_path)) == ["a.css: fetches https://example.org/font"]


def test_a_folder_without_pages_is_reported(tmp_path: Path) -> None:
    assert list(problems(tmp_path)) == [f"{tmp_path}: no page"]


# -- the build is strict ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("index.md", "# Home\n\n## There\n\n[x](#there)\n", ""),
        ("stray.md", "# Stray\n", "stray.md"),
        ("index.md", "# Home\n\n[x](absent.md)\n", "absent.md"),
        ("index.md", "# Home\n\n[x](#absent)\n", "#absent"),
        ("index.md", "# Home\n\n[x](/absent.html)\n", "/absent.html"),
        ("index.md", "# Home\n\n::: tosa_convert.absent\n", "tosa_convert.absent"),
    ],
)
def test_a_build_with_the_settings_of_the_site_is_strict(
    root: Path, name: str, text: str, message: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("MkDocs and its theme are not installed: pip install '.[docs]'")
    documents = tmp_path / "documents"
    shutil.copytree(root / "docs" / "assets", documents / "assets")
    (documents / "index.md").write_text("# Home\n", encoding="utf-8")
    (documents / name).write_text(text, encoding="utf-8")
    settings = [
        f"INHERIT: {root / 'mkdocs.yml'}",
        "docs_dir: documents",
        "site_dir: site",
        "hooks: []",
        "not_in_nav: ''",
        "nav: [index.md]",
    ]
    (tmp_path / "small.yml").write_text("\n".join(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", str(tmp_path / "small.yml")],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode != 0) == bool(message), done.stderr
    assert message in done.stderr
