"""Targets: made of what users ask for, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Findings, refuse_unknown
from tosa_convert.graph.dtypes import V1_1
from tosa_convert.graph.target import Target
from tosa_convert.rules.levels import LEVEL_8K, LEVELS
from tosa_convert.rules.profiles import CAPABILITIES, EXTENSIONS, PROFILES, parse

if TYPE_CHECKING:
    from tosa_convert.errors import Finding

_DEFAULT_LEVEL: Final = LEVEL_8K.name


def parse_target(profile: str, level: str = _DEFAULT_LEVEL) -> Target:
    """Return the target of a list such as "PRO-INT,EXT-INT16" and of the name of a level.

    Raises:
        TosaConvertError: "option-conflict" for unknown names, and for an extension without its profile.

    Example:
        >>> print(parse_target("EXT-INT16,PRO-INT", "none"))
        PRO-INT,EXT-INT16 at level NONE
    """
    refuse_unknown("level", level.upper(), tuple(LEVELS))
    names = parse(profile)
    return Target(
        level.upper(),
        tuple(row.name for row in PROFILES if row.name in names),
        tuple(row.name for row in EXTENSIONS if row.name in names),
    )


def check(target: Target, version: tuple[int, int] = V1_1) -> Iterator[Finding]:
    """Report what is wrong with a target: names that TOSA lacks, at all or in a version.

    Args:
        target: Such as a module carries.
        version: The TOSA version of the target.

    Example:
        >>> for finding in check(Target("8K", ("PRO-INT",), ("EXT-BF16", "EXT-INT64")), (1, 0)):
        ...     print(finding.message)
        EXT-BF16 needs PRO-FP
        EXT-INT64 needs TOSA 1.1
    """
    findings = Findings()
    where = "target"
    if target.level not in LEVELS:
        expected = " or ".join(LEVELS)
        findings.add("option-conflict", where, f"found level {target.level}, expected {expected}")
    for name in (*target.profiles, *target.extensions):
        row = CAPABILITIES.get(name)
        if row is None:
            findings.add("option-conflict", where, f"TOSA has no {name}")
            continue
        if row.profiles and not set(row.profiles) & set(target.profiles):
            findings.add("option-conflict", where, f"{name} needs {' or '.join(row.profiles)}")
        if row.since > version:
            findings.add(
                "option-conflict", where, f"{name} needs TOSA {row.since[0]}.{row.since[1]}"
            )
    yield from findings.rows
