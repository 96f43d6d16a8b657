"""numpy, imported at its first use: that takes longer than a conversion of a hundred operators."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

__all__ = ["FEW", "import_numpy", "np"]

#: Fewer operators, tables or elements are worked on one by one, which takes less time than the import:
#: `benchmarks/few.py` measures both ways.
FEW: Final = 4000


def import_numpy() -> None:
    """Import numpy in a thread, where no other function is running.

    Python 3.11 and later map memory for their frames in pieces of 16 KiB, and a call that needs a new
    piece maps it and unmaps it again. Deep inside our own calls, numpy's would do so a thousand times,
    which takes longer than the conversion of a small file.
    """
    if "numpy" in sys.modules:
        return
    import threading

    thread = threading.Thread(target=_import, daemon=True)
    thread.start()
    thread.join()


def _import() -> None:
    import numpy  # noqa: F401


class _LazyModule(ModuleType):
    """A module that is imported at the first use of one of its attributes."""

    def __getattr__(self, name: str) -> Any:
        import_numpy()
        import numpy

        vars(self).update({key: value for key, value in vars(numpy).items() if key[:2] != "__"})
        return getattr(numpy, name)


if TYPE_CHECKING:
    import numpy as np
else:
    np = _LazyModule("numpy")
