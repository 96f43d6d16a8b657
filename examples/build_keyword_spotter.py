# SPDX-License-Identifier: Apache-2.0
"""Build a small quantised network with `tosa_convert.builder`, and run it on the reference model.

    python build_keyword_spotter.py [FILE]   # default: keyword_spotter.tosa

The network has the structure of a keyword spotter that listens to a stream of audio: each run takes
one frame of features, and a variable holds the last frames. It is not trained: its weights come from a
fixed seed. It needs no MLIR; running it needs the reference model (pip install tosa-tools).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tosa_convert as tc
from tosa_convert.builder import Builder, Value

FRAMES, FEATURES, CHANNELS, KEYWORDS = 8, 10, 12, 4
#: The zero point of activations: int8 results of -128 stand for 0.
ZERO_POINT = -128


def network() -> tc.Graph:
    """Return the program: one frame of int8 features in, int8 scores of the keywords out."""
    random = np.random.default_rng(2026)

    def weights(*shape: int) -> np.ndarray[Any, np.dtype[np.int8]]:
        return random.integers(-90, 90, shape, np.int8)

    b = Builder("keyword_spotter")
    frame = b.input("frame", "int8", (1, 1, FEATURES, 1))
    history = b.variable("history", "int8", (1, FRAMES, FEATURES, 1), initial=0)

    last = b.slice(b.read(history), (0, 1, 0, 0), (1, FRAMES - 1, FEATURES, 1))
    window = b.concat([last, frame], axis=1)
    b.write(history, window)

    x = conv(b, window, weights(CHANNELS, 3, 3, 1), zero_point=0, shift=38)
    x = conv(b, x, weights(CHANNELS, 3, 3, CHANNELS), zero_point=ZERO_POINT, shift=39)
    x = b.max_pool2d(x, kernel=(2, 2), stride=(2, 2))
    size = FRAMES // 2 * FEATURES // 2 * CHANNELS
    x = b.reshape(x, (1, 1, size))
    x = b.matmul(x, weights(1, size, KEYWORDS), a_zp=ZERO_POINT)
    x = b.rescale(x, 1 << 30, 40, dtype="int8")
    b.output(b.reshape(x, (1, KEYWORDS)), name="scores")
    return b.graph()


def conv(b: Builder, x: Value, weight: Any, *, zero_point: int, shift: int) -> Value:
    """Return a 3x3 convolution of the same size.

    The result is scaled by 2**30 / 2**shift, back to int8.
    """
    y = b.conv2d(x, weight, 0, input_zp=zero_point, pad=(1, 1, 1, 1))
    return b.rescale(y, 1 << 30, shift, output_zp=ZERO_POINT, dtype="int8")


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "keyword_spotter.tosa")
    graph = network()
    tc.save(graph, path)
    print(f"{path.name}: {len(graph.main.operators)} operators, TOSA {graph.version}")

    random, state = np.random.default_rng(0), None
    for number in range(3):
        frame = random.integers(-128, 128, (1, 1, FEATURES, 1), np.int8)
        result = tc.run(graph, {"frame": frame}, variables=state)
        state = result.variables
        print(f"frame {number}: scores {result.outputs['scores'][0].tolist()}")


if __name__ == "__main__":
    main()
