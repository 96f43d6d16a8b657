"""The import of numpy, which takes longer than all others together."""

from __future__ import annotations

import sys


def import_numpy() -> None:
    """Import numpy in a thread, where no other function is running.

    Python 3.11 and later map memory for their frames in pieces of 16 KiB, and a call that needs a new
    piece maps it and unmaps it again. Deep inside our own imports, numpy's would do so a thousand times,
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
