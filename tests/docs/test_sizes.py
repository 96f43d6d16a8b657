"""A ratchet: the lines of each folder, and the words of the documents, may shrink and not grow.

A commit that makes a folder grow raises its number here, and its body says why. One that makes it
shrink by more than `SLACK` lowers the number, so that what was removed stays removed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

#: Folder -> lines of its Python files; of the package, its folders, and "." for the files beside them.
LINES: dict[str, int] = {
    "tests": 106630,
    "tosa_convert": 2120,
    "tosa_convert/builder": 2720,
    "tosa_convert/cli": 6330,
    "tosa_convert/consumers": 1345,
    "tosa_convert/eras": 2300,
    "tosa_convert/formats": 21910,
    "tosa_convert/frontends": 30780,
    "tosa_convert/golden": 15125,
    "tosa_convert/graph": 4490,
    "tosa_convert/io": 2220,
    "tosa_convert/process": 1140,
    "tosa_convert/qualify": 11550,
    "tosa_convert/reference": 3690,
    "tosa_convert/rewrites": 4375,
    "tosa_convert/rules": 5600,
    "tosa_convert/views": 4930,
}
#: Words of README.md, CONTRIBUTING.md, SECURITY.md and docs/: by hand, and by regenerate.py.
WORDS = {"words by hand": 60000, "words generated": 26000}
#: What regenerate.py writes: tables between marks; of docs/errors.md meanings and examples.
TABLE = re.compile(r"<!-- ([\w-]+) -->\n.*?<!-- /\1 -->", re.DOTALL)
EXAMPLE = re.compile(r"(?<=\n)(?:Exit code \d: [^\n]+\n|```text\n.*?\n```\n)", re.DOTALL)
#: Parts of README.md between marks, which docs/index.md shows: written by hand.
PARTS = ("introduction", "promises")
#: The share of a number that may be unused.
SLACK = 0.02


def lines(root: Path) -> dict[str, int]:
    """Return the lines of each folder."""
    counts: dict[str, int] = {}
    for top in ("tosa_convert", "tests"):
        for path in (root / top).rglob("*.py"):
            parts = path.relative_to(root).parts
            folder = "/".join(parts[:2]) if top == "tosa_convert" and len(parts) > 2 else top
            with path.open("rb") as file:
                counts[folder] = counts.get(folder, 0) + sum(1 for _ in file)
    return counts


def by_hand(text: str, is_of_errors: bool = False) -> str:
    """Return what regenerate.py does not write of a document."""
    text = TABLE.sub(lambda table: table[0] if table[1] in PARTS else "", text)
    return EXAMPLE.sub("", text) if is_of_errors else text


def words(root: Path) -> dict[str, int]:
    """Return the words of the documents, by hand and generated."""
    files = [root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    files += (root / "docs").rglob("*.md")
    hand = total = 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        hand += len(by_hand(text, path.name == "errors.md").split())
        total += len(text.split())
    return {"words by hand": hand, "words generated": total - hand}


def problems(found: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """Return what has grown, what has shrunk more than the table says, and what it does not have."""
    rows = []
    for name in sorted(found.keys() | allowed.keys()):
        count, most = found.get(name, 0), allowed.get(name, 0)
        if count > most:
            rows.append(f"{name}: {count}, at most {most}; remove, or raise it and say why")
        elif count < most * (1 - SLACK) - 20:
            rows.append(f"{name}: {count} of {most}; lower the number")
    return rows


def test_nothing_has_grown(root: Path) -> None:
    found = problems(lines(root) | words(root), LINES | WORDS)
    assert not found, "\n".join(found)


def test_what_to_audit_has_the_sizes_of_its_parts(root: Path) -> None:
    text = (root / "SECURITY.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"^\| (?:core|judge|frontends)[^|]*\|[^|]*\| ([\d,]+) \|", text, re.MULTILINE
    )
    found = {name.removeprefix("tosa_convert/"): count for name, count in lines(root).items()}
    judge, frontends = found["golden"], found["frontends"] + found["qualify"]
    core = sum(found.values()) - found["tests"] - judge - frontends
    assert [int(number.replace(",", "")) for number in shown] == pytest.approx(
        [core, judge, frontends], rel=0.05
    )


@pytest.mark.parametrize(
    ("found", "count"), [({"a": 1000}, 0), ({"a": 1001}, 1), ({"a": 900}, 1), ({"b": 1}, 2)]
)
def test_growth_and_a_loose_number_are_found(found: dict[str, int], count: int) -> None:
    assert len(problems(found, {"a": 1000})) == count


@pytest.mark.parametrize(
    ("text", "is_of_errors", "count"),
    [
        ("a\n<!-- t -->\n| b | c |\n<!-- /t -->\nd\n", False, 2),
        ("a\n<!-- t -->\nb\n<!-- /other -->\n", False, 8),
        ("<!-- promises -->\na b\n<!-- /promises -->\n", False, 8),
        ("a\n\n```text\nerror: b\n```\n", True, 1),
        ("a\n\nExit code 2: b.\n\nc\n", True, 2),
        ("a\n\n```text\nerror: b\n```\n", False, 5),
        ("a\n\n```sh\nls\n```\n", True, 4),
    ],
)
def test_tables_and_examples_of_errors_are_not_by_hand(
    text: str, is_of_errors: bool, count: int
) -> None:
    assert len(by_hand(text, is_of_errors).split()) == count
