"""The version of this package, which it stamps into its files, and the newest TOSA that it knows."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__version__: Final = "0.1.0"
#: The month of the newest draft of TOSA 1.1 that is known here.
DRAFT: Final = "2026-09"
#: What every report in JSON begins with.
STAMP: Final = {"tool": f"tosa-convert {__version__}", "draft": DRAFT}
_MONTHS: Final = (
    "January February March April May June July August September October November December"
)


def draft_name(month: str = DRAFT) -> str:
    """Return a draft of TOSA 1.1 in words."""
    year, _, number = month.partition("-")
    return f"the draft of {_MONTHS.split()[int(number) - 1]} {year}"


def version_text(program: str) -> str:
    """Return what a command prints for --version."""
    return f"{program}, version {__version__}; TOSA 1.0, and 1.1 as {draft_name()}\n"
