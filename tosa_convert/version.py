"""The version of this package, which it also stamps into the files it writes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__version__: Final = "0.1.0"
