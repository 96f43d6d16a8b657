"""The lists of offenders contain only code that still breaks a rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs import offenders
from docs.source_rules import (
    MAX_FILE_LINES,
    OTHERS,
    PACKAGE,
    circles,
    imports,
    long_functions,
    modules_by_string,
    sources,
)


def offending(root: Path, name: str) -> list[object]:
    """Code that breaks a rule today: what could be in the list of this name."""
    package = sources(root, PACKAGE)
    everything = [*package, *sources(root, *OTHERS)]
    modules = {source.module for source in package}
    if name == "CIRCLES":
        return [*circles({s.module: imports(s, modules).running for s in package})]
    if name == "MODULES_BY_STRING":
        return [s.path for s in package if any(modules_by_string(s, modules))]
    if name == "LONG_FUNCTIONS":
        return [function for s in everything for function, _ in long_functions(s)]
    return [s.path for s in everything if len(s.lines) > MAX_FILE_LINES]


@pytest.mark.parametrize("name", ["CIRCLES", "MODULES_BY_STRING", "LONG_FUNCTIONS", "LONG_FILES"])
def test_the_lists_contain_only_current_offenders(root: Path, name: str) -> None:
    listed = getattr(offenders, name)
    current = offending(root, name) if listed else []
    settled = [row for row in listed if row not in current]
    assert not settled, f"take these off {name} in tests/docs/offenders.py: {settled}"
    assert listed == sorted(listed)
