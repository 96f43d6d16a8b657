"""Releases of packages that are installed, and whether these packages fit one another."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from tosa_convert.errors import fail

#: Packages that read or make TOSA, or models, beside those of the tables of readers and of frontends.
FURTHER: Final = (
    *("executorch", "torchao", "torchvision", "tosa-converter-for-tflite"),
    *("mlia", "mlia-ethos-u", "mlia-converters-litert", "mlia-converters-pytorch"),
    *("ai-edge-model-explorer", "jaxlib", "iree-base-runtime", "tosa-convert"),
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A requirement of an installed package that what is installed does not meet.

    package, release: what requires it. needs: the requirement, as pip takes it.
    found: the release that is installed; "" if there is none.
    """

    package: str
    release: str
    needs: str
    found: str

    def __str__(self) -> str:
        state = f"{self.found} is installed" if self.found else "it is not installed"
        return f"{self.package} {self.release} needs {self.needs}, and {state}"

    @property
    def command(self) -> str:
        """Return the command that installs what is required."""
        return f"pip install {shlex.quote(self.needs)}"


def installed_release(package: str) -> str:
    """Return the release of a package that is installed in this Python, or ""."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def misfits(packages: Iterable[str]) -> Iterator[Misfit]:
    """Find requirements of installed packages that are not met; needs the package `packaging`."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        message = "it is not installed, and doctor compares requirements with it"
        raise fail("missing-backend", "packaging", message, "pip install packaging") from None
    for package in packages:
        try:
            found = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            here = installed_release(needed.name)
            if not here or not needed.specifier.contains(here, prereleases=True):
                needs = f"{needed.name}{needed.specifier}"
                yield Misfit(package, found.version, needs, here)
