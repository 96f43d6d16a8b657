"""Check a built site: every link leads somewhere, and reading it asks no other host for anything.

python manual/check_site.py build/site
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

#: Attributes of elements that a browser fetches by itself. Those of `a` are followed by readers only.
_FETCHED: Final = {"src", "srcset", "href", "data", "poster", "action"}
#: What a style sheet fetches.
_STYLE_URL: Final = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
#: Elements for which the theme's script fetches a program from another host.
_FETCHING_CLASSES: Final = {"mermaid"}


class Html(HTMLParser):
    """The anchors of a page, the links that readers follow, and what browsers fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.classes: set[str] = set()
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for name, value in attrs:
            if not value:
                continue
            if name in {"id", "name"}:
                self.anchors.add(value)
            elif name == "class":
                self.classes.update(value.split())
            elif name == "style":
                self.fetched += style_urls(value)
            elif name == "href" and tag in {"a", "area"}:
                self.links.append(value)
            elif name == "srcset":
                self.fetched += [part.split()[0] for part in value.split(",")]
            elif name in _FETCHED:
                self.fetched.append(value)

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.fetched += style_urls(data)


def style_urls(text: str) -> list[str]:
    """Return what a style sheet fetches."""
    return [url or imported for url, imported in _STYLE_URL.findall(text)]


def problems(site: Path) -> Iterator[str]:
    """Yield what is wrong in a site: links to nothing, and requests to other hosts."""
    pages = {path: Html(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: no page"
    for path, page in pages.items():
        where = path.relative_to(site).as_posix()
        # The page for addresses that do not exist is for servers, and its links begin with a slash.
        links = [] if where == "404.html" else page.links
        for link in [*links, *page.fetched]:
            if problem := _broken(link, path, site, pages):
                yield f"{where}: {link}: {problem}"
        for url in page.fetched:
            if urlsplit(url).netloc or url.startswith("//"):
                yield f"{where}: fetches {url}"
        for name in sorted(page.classes & _FETCHING_CLASSES):
            yield f"{where}: an element of class {name}, for which the theme fetches a program"
    for path in sorted(site.rglob("*.css")):
        for url in style_urls(path.read_text(encoding="utf-8")):
            if urlsplit(url).netloc:
                yield f"{path.relative_to(site).as_posix()}: fetches {url}"


def _broken(link: str, path: Path, site: Path, pages: dict[Path, Html]) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    if parts.path.startswith("/"):
        return "" if path.name == "404.html" else "begins with a slash, so not a file of the site"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file() or site.resolve() not in target.parents:
        return "no such file"
    page = pages.get(site / target.relative_to(site.resolve()))
    if parts.fragment and page is not None and unquote(parts.fragment) not in page.anchors:
        return "no such anchor"
    return ""


def main(folder: str) -> int:
    """Print what is wrong; the exit code."""
    found = list(problems(Path(folder)))
    print("\n".join(found) or f"{folder}: every link leads somewhere; no request to another host")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
