"""Write man pages for `tosa-flatbuffer`, `tosa-flatbuffer-convert` and each verb.

    python -m manual.man_pages build/man

The pages have what `--help` prints, and the exit codes from docs/command-line.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from manual.commands import Documented, programs, verbs
from tosa_convert.version import __version__

ROOT: Final = Path(__file__).resolve().parents[1]


def pages(root: Path = ROOT) -> dict[str, str]:
    """Return the file name of each page, and its text in the man macros."""
    commands = (root / "docs" / "command-line.md").read_text(encoding="utf-8")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    date = release_date(changelog, __version__)
    exits = exit_codes(commands)
    every_verb = list(verbs())
    documented = {page.name: page for page in programs()}
    documented |= {f"tosa-flatbuffer-{verb.name.replace(' ', '-')}": verb for verb in every_verb}
    # The verb has the page of the program of that name.
    documented["tosa-flatbuffer-convert"] = list(programs())[1]
    result = {}
    for name, page in documented.items():
        listed = every_verb if name == "tosa-flatbuffer" else []
        result[f"{name}.1"] = "\n".join(_page(name, page, date, exits, listed)) + "\n"
    return result


def release_date(changelog: str, version: str) -> str:
    """Return the date of a version in the changelog; "not released" if it has none."""
    found = re.search(rf"^## {re.escape(version)}, (\d{{4}}-\d\d-\d\d)$", changelog, re.MULTILINE)
    return found[1] if found else "not released"


def exit_codes(commands: str) -> list[tuple[str, str]]:
    """Return the rows of the table of exit codes in docs/command-line.md."""
    section = commands.partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| (\d+) \| (.+) \|$", section, re.MULTILINE)


def _page(
    name: str,
    page: Documented,
    date: str,
    exits: list[tuple[str, str]],
    listed: list[Documented],
) -> Iterator[str]:
    yield f'.TH "{_roff(name.upper())}" 1 "{date}" "tosa-convert {__version__}"'
    yield ".SH NAME"
    yield f"{_roff(name)} \\- {_roff(_summary(page))}"
    yield ".SH SYNOPSIS"
    yield _roff(page.usage())
    yield ".SH DESCRIPTION"
    yield "\n.PP\n".join(_roff(" ".join(text.split())) for text in _split(page.paragraphs()))
    if listed:
        yield ".SH VERBS"
        for verb in listed:
            yield from _item(verb.name, _summary(verb))
    yield ".SH OPTIONS"
    for heading, rows in page.options():
        yield f".SS {_roff(heading)}"
        for names, text in rows:
            yield from _item(names, text)
    yield ".SH EXIT STATUS"
    for code, meaning in exits:
        yield from _item(code, meaning)
    if name != "tosa-flatbuffer":
        yield ".SH SEE ALSO"
        yield ".BR tosa\\-flatbuffer (1)"


def _summary(page: Documented) -> str:
    text = page.command.get_short_help_str(sys.maxsize).rstrip(".")
    return text[0].lower() + text[1:]


def _split(paragraphs: list[str]) -> list[str]:
    return [part for text in paragraphs for part in text.split("\n\n")]


def _item(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    # A long list of choices may be broken after each of them.
    yield f".B {_roff(term)}".replace("|", "|\\:")
    yield _roff(" ".join(text.split()))


def _roff(text: str) -> str:
    """Text with its signs as they are: no escape, and no macro at the beginning of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def main(folder: str) -> None:
    """Write all pages into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (target / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(pages())} man pages in {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
