"""The report: one HTML file with the viewer and its data, which needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from tosa_convert.views.pictures.page_data import escaped_json

if TYPE_CHECKING:
    from tosa_convert.views.pictures.page_data import Json

#: The viewer's scripts, in their order: each uses what those before it define.
SCRIPTS: Final = ("model", "placement", "drawing", "overlay", "view", "panel", "search", "main")


def html_page(data: Json) -> str:
    """Return the report of some data.

    The content security policy allows the viewer's own script and style, by their checksums, and
    nothing else: no request, and no script that a name in the program might smuggle in.
    """
    script = "".join(asset(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    style = asset("viewer.css")
    replacements = {
        "{{policy}}": (
            f"default-src 'none'; script-src '{_checksum(script)}'; style-src '{_checksum(style)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        "{{title}}": escape(data["title"]),
        "{{style}}": style,
        "{{data}}": escaped_json(data),
        "{{script}}": script,
    }
    page = asset("page.html")
    parts = []
    for mark, text in replacements.items():  # in the order of the page, so that no text is searched
        before, _, page = page.partition(mark)
        parts += [before, text]
    return "".join([*parts, page])


def asset(name: str) -> str:
    """Read a file of the viewer."""
    return (files(__package__) / "viewer" / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
