"""The page of the command line in the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from manual.commands import verbs

_INTRODUCTION: Final = """\
# Command line

`tosa-flatbuffer VERB` has all verbs. `tosa-flatbuffer-convert` is the verb `convert` by itself. The text
of this page is what `--help` prints. All verbs have the same
[exit codes](../command-line.md#exit-codes). [In a shell](../guides/shell.md) says how a shell
completes verbs and options.
"""


def markdown() -> str:
    """Return the page: a section for each verb, with all arguments and options."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for verb in verbs():
        yield f"{'#' * (2 + verb.depth)} {verb.name}\n"
        yield f"```text\n{verb.usage()}\n```\n"
        for paragraph in verb.paragraphs():
            yield f"{_escaped(paragraph)}\n"
        for heading, rows in verb.options():
            yield f"**{heading}**\n"
            for names, text in rows:
                yield f"`{names}`\n:   {_escaped(text)}\n"


def _escaped(text: str) -> str:
    """Help as Markdown: names in backticks are code, all other signs are themselves."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_<>\[\]#|])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
