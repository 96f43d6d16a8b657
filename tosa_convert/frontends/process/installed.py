"""What of the frontends is installed, in this Python or in another one."""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import dataclass

from tosa_convert.frontends.table import FRONTENDS, OWN_PACKAGES, RUNTIMES, Frontend


@dataclass(frozen=True, slots=True)
class Installed:
    """The packages of a frontend.

    versions: distribution -> its version, "" if it has none, None if it is not installed.
    missing_runtime: what would run its models for `--check`; "" if that is installed.
    """

    frontend: str
    versions: dict[str, str | None]
    missing_runtime: str = ""

    @property
    def missing(self) -> list[str]:
        """Return the distributions that are not installed."""
        return [name for name, version in self.versions.items() if version is None]


def absent(row: Frontend) -> list[str]:
    """Return the distributions of a frontend that are not installed in this Python."""
    packages = {**row.packages, **(OWN_PACKAGES if row.reads_programs else {})}
    return [name for package, name in packages.items() if not _is_there(package)]


def _is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def installed(row: Frontend) -> Installed:
    """Return the packages of a frontend in this Python. Nothing is imported."""
    found = {
        distribution: _version(package, distribution)
        for package, distribution in row.packages.items()
    }
    runtimes = RUNTIMES.get(row.runtime, {})
    runs = not runtimes or any(map(_is_there, runtimes))
    return Installed(row.name, found, "" if runs else next(iter(runtimes.values())))


def all_installed() -> list[Installed]:
    """Return the packages of every frontend in this Python."""
    return [installed(row) for row in FRONTENDS.values()]


def _version(package: str, distribution: str) -> str | None:
    if not _is_there(package):
        return None
    # Takes longer to import than all else that the child process needs before its converter.
    from importlib import metadata

    # Some packages have several distributions, such as tensorflow and tensorflow-cpu.
    for name in (distribution, *metadata.packages_distributions().get(package, ())):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""
