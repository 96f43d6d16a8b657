"""The version of this package, and the stamp it leaves in files."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.model import SoftwareVersion

__version__: Final = "0.1.0"

_MAJOR, _MINOR, _MICRO = map(int, __version__.split("."))

PRODUCER: Final = SoftwareVersion(_MAJOR, _MINOR, _MICRO, "tosa-convert")
