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


@pytest.fixture(scope="module")
def offending(root: Path) -> dict[str, list[object]]:
    """Code that breaks a rule today, by the name of its list."""
    package = sources(root, PACKAGE)
    everything = [*package, *sources(root, *OTHERS)]
    modules = {source.module for source in package}
    running = {source.module: imports(source, modules).running for source in package}
    return {
        "CIRCLES": [*circles(running)],
        "MODULES_BY_STRING": [s.path for s in package if any(modules_by_string(s, modules))],
        "LONG_FUNCTIONS": [name for s in everything for name, _ in long_functions(s)],
        "LONG_FILES": [s.path for s in everything if len(s.lines) > MAX_FILE_LINES],
    }


@pytest.mark.parametrize("name", ["CIRCLES", "MODULES_BY_STRING", "LONG_FUNCTIONS", "LONG_FILES"])
def test_the_lists_contain_only_current_offenders(
    offending: dict[str, list[object]], name: str
) -> None:
    listed = getattr(offenders, name)
    current = offending[name]
    settled = [row for row in listed if row not in current]
    assert not settled, f"take these off {name} in tests/docs/offenders.py: {settled}"
    assert listed == sorted(listed)
