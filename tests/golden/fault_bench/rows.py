"""All faults of the bench: the rows of each file."""

from __future__ import annotations

from typing import Final

from golden.fault_bench import kinds_inputs
from golden.fault_bench.fault import Fault

#: The files with rows; each has a function `faults`.
FILES: Final = (kinds_inputs,)


def all_faults() -> list[Fault]:
    """Return every fault."""
    return [fault for file in FILES for fault in file.faults()]
