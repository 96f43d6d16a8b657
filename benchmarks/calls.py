"""Compare calls of `tosa_convert.reference` with those of the TOSA reference model's Python package.

    python benchmarks/calls.py

Of each small operator: a call of its function, `reference.run` of a program of it, and
`tosa_reference_model.run` of the same program. The least wall time of many calls, measured in turns, and
how many times as fast ours are. Exit code 1 if a function takes more than `LIMIT` milliseconds.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import places

from tosa_convert import api, reference
from tosa_convert.builder import Builder

#: Most milliseconds of a call, and the calls of each.
LIMIT: Final = 0.3
CALLS: Final = 300

_BYTES: Final = np.arange(-64, 64, dtype=np.int8).reshape(1, 4, 4, 8)
_FLOATS: Final = np.linspace(-2, 2, 128, dtype=np.float32).reshape(1, 4, 4, 8)
#: Operator -> arrays, numbers and attributes.
ROWS: Final[dict[str, tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "add": ((_FLOATS, _FLOATS), {}),
    "conv2d": ((_BYTES, np.ones((8, 3, 3, 8), np.int8), np.zeros(8, np.int32), 3), {}),
    "exp": ((_FLOATS,), {}),
    "matmul": ((_FLOATS[0], _FLOATS[0].transpose(0, 2, 1).copy()), {}),
    "max_pool2d": ((_BYTES,), {"kernel": (2, 2), "stride": (2, 2)}),
    "reduce_sum": ((_FLOATS,), {"axis": 3}),
    "rescale": ((_BYTES.astype(np.int32), 1 << 30, 30), {"out_type": "INT8"}),
    "reshape": ((_FLOATS, (8, 16)), {}),
}


def program(name: str, operands: tuple[Any, ...], attributes: dict[str, Any]) -> bytes:
    """Return a flatbuffer of the operator whose arrays are inputs."""
    b = Builder()
    values = [
        b.input(f"x{i}", one.dtype, one.shape) if isinstance(one, np.ndarray) else one
        for i, one in enumerate(operands)
    ]
    renamed = {{"out_type": "dtype"}.get(key, key): value for key, value in attributes.items()}
    b.output(getattr(b, name)(*values, **renamed), name="y")
    return api.dumps(b.graph())


def milliseconds(call: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def main() -> int:
    """Print a row for each operator; 1 if a call is slower than the limit."""
    model: Any = importlib.import_module("tosa_reference_model")
    print(f"load {os.getloadavg()[0]:.1f}; {places.machine()['processor']}; {places.versions()}")
    print(f"{'operator':12} {'function':>9} {'run':>9} {'model':>9}   times as fast")
    slowest = 0.0
    silent = os.open(os.devnull, os.O_WRONLY)
    for name, (operands, attributes) in ROWS.items():
        binary = program(name, operands, attributes)
        arrays = [one for one in operands if isinstance(one, np.ndarray)]
        function = getattr(reference, name)
        calls: list[Callable[[], object]] = [
            lambda: function(*operands, **attributes),  # noqa: B023
            lambda: reference.run(binary, arrays),  # noqa: B023
            lambda: model.run(binary, arrays),  # noqa: B023
        ]
        kept = os.dup(1)
        os.dup2(silent, 1)  # the model prints a warning for each program
        found = [[milliseconds(call) for call in calls] for _ in range(CALLS)]
        os.dup2(kept, 1)
        best = [min(column) for column in zip(*found, strict=True)]
        slowest = max(slowest, best[0])
        times = " ".join(f"{one:6.3f} ms" for one in best)
        print(f"{name:12} {times}   {best[2] / best[0]:5.1f}x {best[2] / best[1]:5.1f}x")
    return slowest > LIMIT


if __name__ == "__main__":
    sys.exit(main())
