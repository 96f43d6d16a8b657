"""Where the documents and files of the repository are in the site, and their text there."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

#: Document outside docs/ -> its page.
OUTSIDE: Final = {
    "README.md": "project/overview.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "GOVERNANCE.md": "project/governance.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "project/examples.md",
    "third_party/README.md": "project/third-party.md",
}
#: The page of the command line, which is made from click's commands.
COMMANDS: Final = "reference/commands.md"
#: The page of the operators, which is made from their tables.
OPERATORS: Final = "reference/operators.md"
#: Folder of the site with files of the repository that are not documents.
FILES: Final = "repository"

_SOURCES: Final = {uri: source for source, uri in OUTSIDE.items()}
_LINK: Final = re.compile(r"\]\((?![a-z]+:)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]+)?\)")
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Where a page shows a part of the README.
_PART: Final = re.compile(r"^<!-- README.md: (?P<name>\w+) -->$", re.MULTILINE)
_DIAGRAM: Final = re.compile(r"^```mermaid\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_ARROW: Final = re.compile(r"^ *(?P<tails>[\w &]+) --> (?P<heads>[\w &]+)$", re.MULTILINE)


def source_of(uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    return _SOURCES.get(uri, posixpath.join("docs", uri))


def uri_of(source: str) -> str:
    """Return the path in the site of a document or file of the repository."""
    if source in OUTSIDE:
        return OUTSIDE[source]
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    return posixpath.join(FILES, source)


def documents(root: Path) -> list[str]:
    """Return the documents that are pages of the site."""
    inside = (path.relative_to(root).as_posix() for path in sorted(root.glob("docs/**/*.md")))
    return [*OUTSIDE, *inside]


def linked_files(root: Path) -> list[str]:
    """The files outside docs/ that documents link to, and that are not documents themselves."""
    found = set()
    for source in documents(root):
        for target in targets((root / source).read_text(encoding="utf-8"), source, root):
            if target not in OUTSIDE and not target.startswith("docs/"):
                found.add(target)
    return sorted(found)


def targets(markdown: str, source: str, root: Path) -> Iterator[str]:
    """Yield the paths in the repository that a document links to."""
    for match in _LINK.finditer(_FENCE.sub("", markdown)):
        yield _target(match["path"], source, root)


def _target(path: str, source: str, root: Path) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    # A link to a folder shows its README.
    return posixpath.join(target, "README.md") if (root / target).is_dir() else target


def site_links(markdown: str, source: str, root: Path) -> str:
    """Return the text of a document with its links as they are in the site.

    Args:
        markdown: the text.
        source: the path of the document in the repository.
        root: the repository.
    """

    def link(match: re.Match[str]) -> str:
        target = uri_of(_target(match["path"], source, root))
        path = posixpath.relpath(target, posixpath.dirname(uri_of(source)))
        return f"]({path}{match['anchor'] or ''})"

    return _outside_of_code(lambda text: _LINK.sub(link, text), markdown)


def _outside_of_code(change: Callable[[str], str], markdown: str) -> str:
    result: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        result += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*result, change(markdown[end:])])


def with_readme_parts(markdown: str, source: str, readme: str) -> str:
    """Return the text of a document with the parts of the README that it asks for by name.

    `<!-- README.md: NAME -->` becomes what the README has from `<!-- NAME -->` to `<!-- /NAME -->`.

    Args:
        markdown: the text.
        source: the path of the document in the repository, to which links become relative.
        readme: the text of the README.

    Raises:
        ValueError: the README has no part of this name.
    """

    def part(match: re.Match[str]) -> str:
        name = match["name"]
        found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", readme, re.DOTALL)
        if found is None:
            raise ValueError(f"README.md has no part <!-- {name} -->")
        return _outside_of_code(lambda text: _LINK.sub(link, text), found[1].strip())

    def link(match: re.Match[str]) -> str:
        path = posixpath.relpath(match["path"], posixpath.dirname(source) or ".")
        return f"]({path}{match['anchor'] or ''})"

    return _PART.sub(part, markdown)


def diagrams_as_tables(markdown: str) -> str:
    """Diagrams of arrows as tables: the program that draws them would come from another host."""

    def table(match: re.Match[str]) -> str:
        heads: dict[str, list[str]] = defaultdict(list)
        for arrow in _ARROW.finditer(match["text"]):
            for tail in arrow["tails"].split(" & "):
                heads[tail] += arrow["heads"].split(" & ")
        rows = [
            f"| `{tail}` | {', '.join(f'`{head}`' for head in sorted(found))} |"
            for tail, found in heads.items()
        ]
        return "\n".join(["| from | to |", "|---|---|", *rows])

    return _DIAGRAM.sub(table, markdown)


def with_examples(docstring: str) -> str:
    """Return the docstring with `Examples:` for `Example:`."""
    return re.sub(r"^Example:$", "Examples:", docstring, flags=re.MULTILINE)
