"""Regenerate the parts of the documents that tests compare with the program.

    python tests/docs/regenerate.py

Needs what the tests need (`pip install '.[test]'`). Rewrites the tables of README.md and docs/, and the
examples of docs/errors.md; the text around them does not change. Also writes the lines of operators in
MLIR text that tests compare. Review the diff afterwards: users will see it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def with_tables(path: Path, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a document with its tables as they are now."""
    text = path.read_text(encoding="utf-8")
    for mark, make in tables.items():
        start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
        before, mark_found, rest = text.partition(start)
        assert mark_found, f"{path.name} has no {start}"
        text = f"{before}{start}\n{make()}\n{end}{rest.partition(end)[2]}"
    return text


def regenerate_errors(path: Path) -> None:
    from docs.error_examples import EXAMPLES, message_of

    from tosa_convert.errors import CODES

    text = path.read_text(encoding="utf-8")
    here = Path.cwd()
    for code in EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            shown = message_of(code)
            os.chdir(here)
        section = re.compile(
            rf"(### `{code}`\n\n)[^\n]+\n((?:(?!\n###? ).)*?\n```text\n).*?(?=\n```\n)", re.DOTALL
        )
        if not section.search(text):
            print(f"{path.name} has no section with an example for {code}", file=sys.stderr)
            continue
        category, meaning = CODES[code]
        first = f"Exit code {int(category)}: {meaning}.\n"
        text = section.sub(lambda m, f=first, s=shown: f"{m[1]}{f}{m[2]}{s}", text)  # type: ignore[misc]
    path.write_text(text, encoding="utf-8", newline="\n")


def all_tables() -> dict[str, Mapping[str, Callable[[], str]]]:
    """Return each document -> its tables by their marks, with what makes them."""
    from docs import (
        benchmark_tables,
        computation_tables,
        consumer_tables,
        finding_tables,
        house,
        network_tables,
        operator_tables,
        reference_tables,
        refusal_tables,
        test_formats_doc,
        zoo_tables,
    )
    from frontends import stablehlo_operations

    return {
        "../README": benchmark_tables.README_TABLES,
        "architecture": {"picture": house.picture},
        "computation": computation_tables.TABLES | reference_tables.TABLES,
        "conformance": refusal_tables.TABLES,
        "doctor": consumer_tables.READER_TABLES,
        "formats": test_formats_doc.TABLES,
        "model-suites": operator_tables.TABLES,
        "networks": network_tables.TABLES,
        "performance": benchmark_tables.TABLES,
        "scoreboard": finding_tables.TABLES,
        "stablehlo": stablehlo_operations.TABLES,
        "zoo": zoo_tables.TABLES | consumer_tables.TABLES,
    }


if __name__ == "__main__":
    from unit.formats.mlir import test_mlir_printer

    test_mlir_printer.write_golden()
    for name, tables in all_tables().items():
        path = ROOT / "docs" / f"{name}.md"
        path.write_text(with_tables(path, tables), encoding="utf-8", newline="\n")
    regenerate_errors(ROOT / "docs" / "errors.md")
