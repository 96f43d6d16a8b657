"""Record what became of the programs of operators: `python record_operators.py REPORT.json ...`.

Each report is one that `suite --frontends ... --json-report REPORT.json` wrote; of several, later ones
count, and frontends without a report stay as they are. Writes operator_results.json, of which
docs/model-suites.md shows tables: run `python tests/docs/regenerate.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("operator_results.json")
#: Status of an answer -> what the document calls it. All others are failures of ours.
_WORDS: Final = {"pass": "equal", "refused": "named", "wrong": "differs"}


def recorded(reports: Sequence[Any]) -> dict[str, dict[str, str]]:
    """Frontend -> program -> "equal", "named", "differs" or another status."""
    found: dict[str, dict[str, str]] = {}
    for report in reports:
        for row in report["answers"]:
            frontend, _, name = row["case"].partition("/")
            status = row["status"]
            if status == "refused" and not _names_an_operator(row["message"]):
                status = "failed"
            word = _WORDS.get(status, status)
            found.setdefault(frontend, {})[name.removesuffix(".tflite")] = word
    return {frontend: dict(sorted(rows.items())) for frontend, rows in sorted(found.items())}


def _names_an_operator(message: str) -> bool:
    """Return whether a refusal says which operator it is about."""
    return "[not-lowered]" in message or "[invalid-operator: " in message


if __name__ == "__main__":
    texts = [Path(name).read_text(encoding="utf-8") for name in sys.argv[1:]]
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    found |= recorded([json.loads(text) for text in texts])
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8", newline="\n")
