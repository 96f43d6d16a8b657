"""The TOSA reference model, out of process: run it, compare with it, find the first wrong operator.

Above `tosa_convert.api` and below the command line: what is given is read, and what runs is written,
through the public functions.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tosa_convert.golden.runner import Result, run

__all__ = ["Result", "run"]


def __getattr__(name: str) -> Any:
    # `import tosa_convert.golden` costs nothing before something of it is used.
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("tosa_convert.golden.runner"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
