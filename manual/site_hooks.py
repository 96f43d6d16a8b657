"""Hooks of the site: pages from outside docs/, generated pages, and links between them.

MkDocs reads docs/ only. The README and other documents of the repository become pages, too, and files
that documents link to become files of the site, so that every link works in a copy without network. The
links in the documents stay as they are in the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from manual import command_reference, operator_reference, pages

ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages and files that are not in docs/."""
    for source, uri in pages.OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=text))
    made = {pages.COMMANDS: command_reference, pages.OPERATORS: operator_reference}
    for uri, module in made.items():
        files.append(File.generated(config, uri, content=module.markdown()))
    for source in pages.linked_files(ROOT):
        uri = pages.uri_of(source)
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Insert the parts of the README, and adapt links and diagrams. The search lists guides first."""
    source = pages.source_of(page.file.src_uri)
    if source.startswith("docs/guides/"):
        page.meta["search"] = {"boost": 3}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    markdown = pages.with_readme_parts(markdown, source, readme)
    return pages.diagrams_as_tables(pages.site_links(markdown, source, ROOT))
