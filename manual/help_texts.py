"""Write what `--help` prints, for programs that are installed: they need no parser for it then."""

from __future__ import annotations

import itertools
from pathlib import Path

from manual.commands import programs, verbs
from tosa_convert.cli.start import HELP_WIDTH


def help_texts() -> dict[str, str]:
    """Return the name of each file, and its text, on a terminal of `HELP_WIDTH` columns or more."""
    texts = {}
    for page in itertools.chain(programs(), verbs()):
        page.context.max_content_width = page.context.terminal_width = HELP_WIDTH - 2
        name = page.context.command_path.replace(" ", ".")
        texts[f"{name}.txt"] = page.command.get_help(page.context) + "\n"
    return texts


def write_help(folder: Path) -> list[str]:
    """Write the files into a folder, which is made; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = help_texts()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="ascii", newline="\n")
    return sorted(texts)
