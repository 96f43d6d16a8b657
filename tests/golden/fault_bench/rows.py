"""All faults of the bench: the rows of each file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from golden.fault_bench.fault import Fault
from golden.fault_bench.known_misses import KNOWN_MISSES


def files() -> list[str]:
    """Return the names of the files that may have rows, in a function `faults`."""
    here = Path(__file__).parent
    paths = [*here.glob("kinds_*.py"), *here.glob("third_party_*.py")]
    return sorted(path.stem for path in paths)


def all_faults(names: Sequence[str] = ()) -> list[Fault]:
    """Return every fault, or those of some files."""
    modules = [import_module(f"golden.fault_bench.{name}") for name in names or files()]
    return [fault for module in modules if hasattr(module, "faults") for fault in module.faults()]


def sample() -> list[Fault]:
    """Return a fault of each file and element type, of which none is missed for a known reason."""
    found = []
    for name in files():
        by_type: dict[str, list[Fault]] = defaultdict(list)
        for fault in all_faults([name]):
            if fault.title not in KNOWN_MISSES:
                by_type[fault.dtype].append(fault)
        # Kinds are in the same order for all types: each type takes another one.
        found += [rows[number * 5 % len(rows)] for number, rows in enumerate(by_type.values())]
    return found
