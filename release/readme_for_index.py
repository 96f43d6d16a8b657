"""Make the links of the README absolute, for the page of a package index, which has no other file.

The address comes from `[project.urls]` of pyproject.toml, the only place for addresses.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final

#: A link or a picture outside of code: `[text](target)`, `![text](target)`.
_LINK: Final = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def source_address(pyproject: str) -> str:
    """Return the address of the repository, as the text of pyproject.toml says it.

    Raises:
        ValueError: the text has no `Source = "https://..."`.
    """
    match = re.search(r'^Source = "(https://[^"]+)"$', pyproject, re.MULTILINE)
    if match is None:
        raise ValueError('pyproject.toml has no line `Source = "https://..."` in [project.urls]')
    return match[1].rstrip("/")


def readme_for_index(readme: str, source: str, version: str) -> str:
    """Return a README whose links and pictures are absolute, at the tag of a release.

    Args:
        readme: the text of the README, with links relative to the root of the repository.
        source: the address of the repository.
        version: the version of the release; its tag is `v` and the version.

    Example:
        >>> readme_for_index("[how](docs/a.md#b)", "https://example.org/x", "1.0.0")
        '[how](https://example.org/x/blob/v1.0.0/docs/a.md#b)'
    """

    def absolute(match: re.Match[str]) -> str:
        mark, text, target = match.group("mark", "text", "target")
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        kind = "raw" if mark else "blob"
        return f"{mark}[{text}]({source}/{kind}/v{version}/{posixpath.normpath(target)})"

    pieces = _FENCE.split(readme)
    pieces[::2] = [_LINK.sub(absolute, piece) for piece in pieces[::2]]
    return "".join(pieces)


def read_readme(root: Path) -> str:
    """Return the README of a repository as the page of an index shows it."""
    readme, project, version = (
        (root / name).read_text(encoding="utf-8")
        for name in ("README.md", "pyproject.toml", "tosa_convert/version.py")
    )
    match = re.search(r'^__version__.*"(.+)"$', version, re.MULTILINE)
    assert match is not None, "tosa_convert/version.py has no version"
    return readme_for_index(readme, source_address(project), match[1])
