"""The version of this package, and the stamp it leaves in files."""

from __future__ import annotations

from typing import Final

from tosa_convert.graph.model import SoftwareVersion

__version__: Final = "0.1.0"

PRODUCER: Final = SoftwareVersion(*map(int, __version__.split(".")[:3]), "tosa-convert")
