"""Compare `check` of whole networks with either engine: processor time and memory.

    python benchmarks/whole_networks.py [--only NAME] [--markdown FILE]
    python benchmarks/whole_networks.py --live [--only NAME]

The networks are made here, with random weights: ResNet-50 at 224 x 224, and BERT-base of 128 tokens,
from its embeddings on. What is checked are results that numpy computed before. A small program is run as
well, where the start of a process counts. Peak memory is that of the largest process.

With `--live` the memory of a run in numpy is compared with the largest set of tensors that are live at
one operator: its constants, and what it or a later operator uses.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import sysconfig
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.graph import Block, Graph
from tosa_convert.graph.model import Tensor
from tosa_convert.graph.opset import CONST

COMMAND = Path(sysconfig.get_path("scripts"), "tosa-flatbuffer")
ENGINES = ("reference-model", "numpy")
#: The blocks of each stage of ResNet-50, and its channels.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
TOKENS, WIDTH, HEADS, LAYERS = 128, 768, 12, 12


class Network:
    """A program of FP32 that is being built, with random weights."""

    def __init__(self) -> None:
        self.b = Builder("main")
        self.draw = np.random.default_rng(0)

    def weight(self, *shape: int, terms: int = 1) -> Any:
        """Return a constant, so small that sums of so many products keep their size."""
        scale = 1 / math.sqrt(terms)
        return self.b.const((self.draw.normal(0, scale, shape)).astype(np.float32))

    def conv(self, x: Any, outputs: int, size: int, stride: int = 1) -> Any:
        """Return a convolution that keeps the size of the image, but for its stride."""
        channels = x.shape[-1]
        weight = self.weight(outputs, size, size, channels, terms=size * size * channels)
        before, after = size // 2, max(0, size // 2 - (stride - 1) if size > 1 else 0)
        if stride > 1 and size == 1:
            rows = x.shape[1] // stride
            x = self.b.reshape(x, (1, rows, stride, rows, stride * channels))
            x = self.b.slice(x, (0,) * 5, (1, rows, 1, rows, channels))
            x, stride = self.b.reshape(x, (1, rows, rows, channels)), 1
        bias = self.weight(outputs)
        pad = (before, after, before, after)
        return self.b.conv2d(x, weight, bias, pad=pad, stride=(stride, stride), acc_type="FP32")

    def relu(self, x: Any) -> Any:
        """Return max(x, 0)."""
        return self.b.clamp(x, min_val=0.0, max_val=float(np.finfo(np.float32).max))


def resnet_50() -> Graph:
    """Return ResNet-50 (He and others, 2015), its normalisations folded into the convolutions."""
    net = Network()
    x = net.b.input("image", "FP32", (1, 224, 224, 3))
    x = net.relu(net.conv(x, 64, 7, 2))
    x = net.b.max_pool2d(x, kernel=(3, 3), stride=(2, 2), pad=(1, 0, 1, 0))
    for blocks, width in STAGES:
        for block in range(blocks):
            stride = 2 if block == 0 and width > STAGES[0][1] else 1
            inner = net.relu(net.conv(x, width, 1))
            inner = net.relu(net.conv(inner, width, 3, stride))
            inner = net.conv(inner, 4 * width, 1)
            beside = x if block else net.conv(x, 4 * width, 1, stride)
            x = net.relu(net.b.add(inner, beside))
    x = net.b.avg_pool2d(x, kernel=(7, 7), stride=(1, 1), pad=(0,) * 4, acc_type="FP32")
    net.b.output(net.conv(x, 1000, 1), name="logits")
    return net.b.graph()


def bert_base() -> Graph:
    """Return the 12 layers of BERT-base (Devlin and others, 2018), without masks."""
    net = Network()
    b = net.b

    def linear(x: Any, outputs: int) -> Any:
        terms = x.shape[-1]
        product = b.matmul(x, net.weight(1, terms, outputs, terms=terms), dtype="FP32")
        return b.add(product, net.weight(1, 1, outputs))

    def mean(x: Any) -> Any:
        return b.mul(b.reduce_sum(x, axis=2), b.const(np.full((1, 1, 1), 1 / WIDTH, np.float32)))

    def normalise(x: Any) -> Any:
        centred = b.sub(x, mean(x))
        epsilon = b.const(np.full((1, 1, 1), 1e-12, np.float32))
        return b.mul(centred, b.rsqrt(b.add(mean(b.mul(centred, centred)), epsilon)))

    def heads(x: Any, *perms: int) -> Any:
        apart = b.reshape(x, (TOKENS, HEADS, WIDTH // HEADS))
        return b.transpose(apart, perms=perms)

    def attend(x: Any) -> Any:
        query, key, value = (linear(x, WIDTH) for _ in range(3))
        scores = b.matmul(heads(query, 1, 0, 2), heads(key, 1, 2, 0), dtype="FP32")
        scale = b.const(np.full((1, 1, 1), math.sqrt(HEADS / WIDTH), np.float32))
        scores = b.mul(scores, scale)
        powers = b.exp(b.sub(scores, b.reduce_max(scores, axis=2)))
        parts = b.mul(powers, b.reciprocal(b.reduce_sum(powers, axis=2)))
        found = b.matmul(parts, heads(value, 1, 0, 2), dtype="FP32")
        found = b.reshape(b.transpose(found, perms=(1, 0, 2)), (1, TOKENS, WIDTH))
        return linear(found, WIDTH)

    def gelu(x: Any) -> Any:
        half, root, one = (
            b.const(np.full((1, 1, 1), number, np.float32)) for number in (0.5, math.sqrt(0.5), 1)
        )
        return b.mul(b.mul(x, half), b.add(b.erf(b.mul(x, root)), one))

    x = b.input("embeddings", "FP32", (1, TOKENS, WIDTH))
    for _ in range(LAYERS):
        x = normalise(b.add(x, attend(x)))
        x = normalise(b.add(x, linear(gelu(linear(x, 4 * WIDTH)), WIDTH)))
    b.output(x, name="states")
    return b.graph()


def small() -> Graph:
    """Return a program of one small operator."""
    b = Builder("main")
    b.output(b.abs(b.input("x", "FP32", (4, 4))), name="y")
    return b.graph()


NETWORKS: dict[str, Callable[[], Graph]] = {
    "one small operator": small,
    "ResNet-50, 224 x 224": resnet_50,
    "BERT-base, 128 tokens": bert_base,
}


def measure(words: list[str | Path]) -> tuple[float, float]:
    """Return the processor time of a command and its processes, and the peak memory in MiB."""
    pid = os.posix_spawn(
        str(COMMAND),
        [str(COMMAND), *map(str, words)],
        {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(map(str, words))} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def rows(name: str, folder: Path) -> list[str]:
    """Measure a network and return its rows of the table of docs/performance.md."""
    model, results = folder / "model.tosa", folder / "results.npz"
    tc.save(NETWORKS[name](), model)
    drawn = ["--random", "1"]
    measure(["run", model, *drawn, "--engine", "numpy", "--output", results])
    found = []
    for work in ("run", "check"):
        times = []
        for engine in ENGINES:
            words: list[str | Path] = [work, model, *drawn, "--engine", engine]
            if work == "check":
                words += ["--no-edges", "--against", results]
            times.append(measure(words))
            print(name, work, engine, *(f"{number:.2f}" for number in times[-1]), flush=True)
        (model_time, model_memory), (our_time, our_memory) = times
        found.append(
            f"| {name} | {work} | {model_time:.3g} s | {our_time:.3g} s | "
            f"{model_time / our_time:.1f}x | {model_memory:.0f} | {our_memory:.0f} |"
        )
    return found


def live_bytes(block: Block) -> int:
    """Return the size of the largest set of tensors that are live at one operator of a block."""
    sizes = {
        name: math.prod(known_shape(tensor)) * tensor.dtype.numpy.itemsize
        for name, tensor in block.tensors.items()
    }
    constants = {name for op in block.operators if op.spec is CONST for name in op.outputs}
    last = {name: index for index, op in enumerate(block.operators) for name in op.inputs}
    last |= dict.fromkeys(block.outputs, len(block.operators))
    live, most = set(block.inputs), 0
    for index, op in enumerate(block.operators):
        live.update(set(op.outputs) - constants)
        used = live | (constants & set(op.inputs))
        most = max(most, sum(sizes.get(name, 0) for name in used))
        live = {name for name in live if last.get(name, -1) > index}
    return most


def known_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor whose sizes are all known."""
    return tuple(int(size or 0) for size in tensor.shape or ())


def peak_bytes(graph: Graph) -> int:
    """Return the memory of a run in numpy: inputs, and all that it allocates, at most at a time."""
    arrays = random_inputs(graph, input_slots(graph), 1)
    golden.run(graph, arrays, engine="numpy")  # makes tables, and imports
    tracemalloc.start()
    golden.run(graph, arrays, engine="numpy")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak + sum(array.nbytes for array in arrays.values())


def main() -> int:
    """Measure every network."""
    parser = argparse.ArgumentParser(description="Compare the engines on whole networks.")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="networks whose name contains TEXT"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    parser.add_argument("--live", action="store_true", help="compare memory with live tensors")
    options = parser.parse_args()
    if options.live:
        for name in filter(lambda name: options.only in name, NETWORKS):
            if NETWORKS[name] is small:
                continue
            graph = NETWORKS[name]()
            peak, live = peak_bytes(graph), live_bytes(graph.main)
            print(f"{name}: {peak / 2**20:.1f} MiB for {live / 2**20:.1f}: {peak / live:.2f}x")
        return 0
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    head = "| network | work | reference model | numpy | ratio | MiB: reference model | numpy |"
    table = [head, "|---|---|---|---|---|---|---|"]
    for name in NETWORKS:
        if options.only in name:
            with tempfile.TemporaryDirectory() as folder:
                table += rows(name, Path(folder))
    if options.markdown:
        options.markdown.write_text("\n".join(table) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
