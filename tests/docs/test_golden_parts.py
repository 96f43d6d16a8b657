"""The parts of `golden/` and `qualify/`, in order: each imports only those above it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.source_rules import Source, imports, sources

PARTS = ("golden", "qualify")


def listed_parts(root: Path) -> list[str]:
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"(?m)^\| `((?:golden|qualify)/\w+)(?:/|\.py)` \|", text)


def imports_from_below(sources: list[Source], order: list[str]) -> list[str]:
    """Return the imports that a part makes from parts that come after it."""
    modules = {source.module for source in sources}
    places = {part.replace("/", "."): number for number, part in enumerate(order)}
    place = {f"tosa_convert.{part}": number for part, number in places.items()}
    found = []
    for source in sources:
        row = imports(source, modules)
        for target in sorted(row.running | row.typing):
            upper, lower = (place.get(part_of(module)) for module in (source.module, target))
            if upper is not None and lower is not None and lower > upper:
                found.append(f"{source.module} imports {target}")
    return found


def part_of(module: str) -> str:
    """`tosa_convert.golden.arrays` for tosa_convert.golden.arrays.by_name."""
    return ".".join(module.split(".")[:3])


def test_every_part_is_listed(root: Path) -> None:
    names = set()
    for part in PARTS:
        folder = root / "tosa_convert" / part
        for path in folder.rglob("*.py"):
            first = path.relative_to(folder).parts[0]
            names.add(f"{part}/{first.removesuffix('.py')}")
    names -= {f"{part}/__init__" for part in PARTS}
    assert sorted(listed_parts(root)) == sorted(names)


@pytest.mark.slow
def test_each_part_imports_only_those_above_it(root: Path) -> None:
    parts = tuple(f"tosa_convert/{part}/" for part in PARTS)
    package = [source for source in sources(root, "tosa_convert") if source.path.startswith(parts)]
    assert imports_from_below(package, listed_parts(root)) == []


@pytest.mark.parametrize(
    ("order", "found"), [(["golden/b", "golden/a"], 0), (["golden/a", "golden/b"], 1)]
)
def test_an_import_of_a_part_below_is_found(order: list[str], found: int) -> None:
    package = [
        Source("tosa_convert/golden/a/x.py", "from tosa_convert.golden.b.y import f"),
        Source("tosa_convert/golden/b/y.py", ""),
    ]
    assert len(imports_from_below(package, order)) == found
