"""Networks on which no correct backend may fail, and the command that runs all of them.

    PYTHONPATH=tests python tests/golden/correct_networks.py --edges 1 --journal correct.jsonl

Inputs are random or, with `--edges N`, so many of the sets of edge inputs that `check` runs by default:
another one of the four with each network, and all with 4. It continues where an earlier run with this
journal stopped, and prints a table of the backends.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.conftest import Builder
from golden.correct_backends import CORRECT
from golden.model_programs import generate_for_model

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.comparison import Comparison, compare
from tosa_convert.golden.accuracy.criteria import NO_TOLERANCES
from tosa_convert.golden.accuracy.verdict import checks_for
from tosa_convert.golden.arrays import Array, scratch_folder
from tosa_convert.golden.backends.runners import Runner
from tosa_convert.golden.checking.check import Reference
from tosa_convert.golden.edges.edge_inputs import edge_inputs, seeds_of_sets
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.run_options import Engine, RunOptions
from tosa_convert.graph import Graph, dtype
from tosa_convert.graph.dtypes import BlockSize, RoundingMode

#: A program and its inputs.
Network = tuple[Graph, dict[str, Array]]


def matmuls(size: int, length: int, seed: int, kind: str = "FP32") -> Network:
    """Return a chain of matrix products."""
    b, generator = Builder(), np.random.default_rng(seed)
    current = b.input("x", kind, (1, size, size))
    b.const("zero", kind, [0.0])
    inputs = {"x": generator.normal(size=(1, size, size)).astype(dtype(kind).numpy)}
    for number in range(length):
        scale = (size**-0.5) if seed % 2 else 1.0
        weight = generator.normal(size=(1, size, size)) * scale
        b.const(f"w{number}", kind, weight)
        operands = [current, f"w{number}", "zero", "zero"]
        wide = "FP32" if kind == "BF16" else kind
        current = b.op("MATMUL", operands, f"y{number}", wide, (1, size, size))
        if wide != kind:
            current = b.op("CAST", [current], f"c{number}", kind, (1, size, size))
        if kind != "FP32":
            current = b.op("TANH", [current], f"t{number}", kind, (1, size, size))
    return b.graph(current), inputs


def convolutions(size: int, length: int, seed: int, kind: str = "FP32") -> Network:
    """Return a chain of convolutions of 3x3 points, with TANH between them."""
    b, generator = Builder(), np.random.default_rng(seed)
    shape = (1, size, size, 8)
    current = b.input("x", kind, shape)
    b.const("zero", kind, [0.0])
    inputs = {"x": generator.uniform(-1, 1, shape).astype(dtype(kind).numpy)}
    for number in range(length):
        b.const(f"w{number}", kind, generator.normal(size=(8, 3, 3, 8)) * 0.2)
        b.const(f"b{number}", kind, generator.normal(size=8))
        operands = [current, f"w{number}", f"b{number}", "zero", "zero"]
        sizes = {"pad": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1)}
        half = kind == "FP16" and seed % 2
        more = {"local_bound": bool(seed % 3), "acc_type": dtype("FP16" if half else "FP32")}
        current = b.op("CONV2D", operands, f"c{number}", kind, shape, **sizes, **more)
        current = b.op("TANH", [current], f"t{number}", kind, shape)
    return b.graph(current), inputs


def quantised(size: int, length: int, seed: int) -> Network:
    """Convolutions of INT8 with zero points, a RESCALE after each; then a softmax in FP32."""
    b, generator = Builder(), np.random.default_rng(seed)
    shape = (1, size, size, 8)
    current = b.input("x", "INT8", shape)
    inputs = {"x": generator.integers(-128, 128, shape).astype(np.int8)}
    b.const("point", "INT8", [seed % 7 - 3])
    b.const("zero", "INT8", [0])
    b.const("zero32", "INT32", [0])
    b.const("multiplier", "INT32", [1 << 30])
    b.const("shift", "INT8", [38])
    for number in range(length):
        b.const(f"w{number}", "INT8", generator.integers(-127, 128, (8, 3, 3, 8)))
        b.const(f"b{number}", "INT32", generator.integers(-1000, 1000, 8))
        operands = [current, f"w{number}", f"b{number}", "point", "zero"]
        sizes = {"pad": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1)}
        more = {"local_bound": False, "acc_type": dtype("INT32")}
        wide = b.op("CONV2D", operands, f"c{number}", "INT32", shape, **sizes, **more)
        operands = [wide, "multiplier", "shift", "zero32", "point"]
        rounding = {"scale32": True, "rounding_mode": RoundingMode.SINGLE_ROUND}
        signs = {"per_channel": False, "input_unsigned": False, "output_unsigned": False}
        current = b.op("RESCALE", operands, f"r{number}", "INT8", shape, **rounding, **signs)
    real = b.op("CAST", [current], "real", "FP32", shape)
    b.const("scale", "FP32", np.full((1, 1, 1, 1), 0.05))
    real = b.op("MUL", [real, "scale", "zero"], "scaled", "FP32", shape)
    ex = b.op("EXP", [real], "e", "FP32", shape)
    total = b.op("REDUCE_SUM", [ex], "sum", "FP32", (*shape[:3], 1), axis=3)
    inverse = b.op("RECIPROCAL", [total], "inverse", "FP32", (*shape[:3], 1))
    soft = b.op("MUL", [ex, inverse, "zero"], "y", "FP32", shape)
    b.const("levels", "FP32", np.full((1, 1, 1, 1), 100.0))
    level = b.op("MUL", [soft, "levels", "zero"], "level", "FP32", shape)
    return b.graph(b.op("CAST", [level], "q", "INT8", shape), soft), inputs


def narrow(size: int, length: int, seed: int, kind: str = "FP8E4M3") -> Network:
    """Products of matrices of FP8 into FP16, with a cast back to FP8 after each."""
    b, generator = Builder(), np.random.default_rng(seed)
    shape = (1, size, size)
    current = b.input("x", kind, shape)
    inputs = {"x": generator.normal(size=shape).astype(dtype(kind).numpy)}
    b.const("zero", kind, [0.0])
    for number in range(length):
        b.const(f"w{number}", kind, generator.normal(size=shape) * size**-0.5)
        operands = [current, f"w{number}", "zero", "zero"]
        wide = b.op("MATMUL", operands, f"y{number}", "FP16", shape)
        current = b.op("CAST", [wide], f"c{number}", kind, shape)
    return b.graph(current, wide), inputs


def block_scaled(size: int, length: int, seed: int, kind: str = "FP8E4M3") -> Network:
    """Products of matrices of MX data, with TANH and a cast to MX after each."""
    b, generator = Builder(), np.random.default_rng(seed)
    shape, blocks = (1, size, 32), (1, size, 1)
    current = b.input("x", "FP32", shape)
    inputs = {"x": generator.normal(size=shape).astype(np.float32)}
    row = dtype(kind)
    for number in range(length):
        data = generator.normal(size=(1, 32, 32))
        codes = np.clip(np.rint(data * 40), -127, 127) if kind == "MXINT8" else data
        b.const(f"w{number}", kind, codes.astype(row.numpy))
        b.const(f"s{number}", "FP8UE8M0", np.full((1, 32, 1), 0.25))
        b.tensor(f"d{number}", kind, shape)
        b.op("CAST_TO_BLOCK_SCALED", [current], f"e{number}", "FP8UE8M0", blocks)
        made = b.block.operators.pop()
        pair = {"outputs": (f"d{number}", f"e{number}")}
        attributes = {"block_size": BlockSize.BLOCK_SIZE_32}
        b.block.operators.append(_changed(made, attributes=attributes, **pair))
        operands = [f"d{number}", f"e{number}", f"w{number}", f"s{number}"]
        y = b.op("MATMUL_T_BLOCK_SCALED", operands, f"y{number}", "FP32", shape, **attributes)
        current = b.op("TANH", [y], f"t{number}", "FP32", shape)
    return b.graph(current), inputs


def _changed(value: Any, **changes: Any) -> Any:
    from dataclasses import replace

    return replace(value, **changes)


def generated(seed: int, operators: int) -> Network:
    """Return a random network with random inputs."""
    graph = generate_for_model(seed, operators)
    return graph, random_inputs(graph, input_slots(graph), seed)


#: Kinds of networks: how the seed makes one.
KINDS: Final[Mapping[str, Callable[[int], Network]]] = {
    "12 operators": lambda seed: generated(seed, 12),
    "15 operators": lambda seed: generated(seed, 15),
    "20 operators": lambda seed: generated(seed, 20),
    "matmul FP32": lambda seed: matmuls(24 + seed % 3 * 16, 2 + seed % 3, seed),
    "conv FP32": lambda seed: convolutions(5 + seed % 4, 2 + seed % 4, seed),
    "matmul FP16": lambda seed: matmuls(24, 2 + seed % 3, seed, "FP16"),
    "conv FP16": lambda seed: convolutions(5, 2 + seed % 4, seed, "FP16"),
    "matmul BF16": lambda seed: matmuls(24, 2 + seed % 3, seed, "BF16"),
    "conv BF16": lambda seed: convolutions(5, 2 + seed % 4, seed, "BF16"),
    "quantised": lambda seed: quantised(5 + seed % 3, 1 + seed % 4, seed),
    "matmul FP8E4M3": lambda seed: narrow(16, 2 + seed % 3, seed),
    "matmul FP8E5M2": lambda seed: narrow(16, 2 + seed % 3, seed, "FP8E5M2"),
    "MX FP8E4M3": lambda seed: block_scaled(4, 1 + seed % 3, seed),
    "MX FP6E2M3": lambda seed: block_scaled(4, 1 + seed % 3, seed, "FP6E2M3"),
    "MX FP4E2M1": lambda seed: block_scaled(4, 1 + seed % 3, seed, "FP4E2M1"),
    "MX INT8": lambda seed: block_scaled(4, 1 + seed % 3, seed, "MXINT8"),
}


def networks(count: int, first: int = 0) -> Iterator[tuple[str, Callable[[], Network]]]:
    """This many networks, each with a name: a half of them random, the others of each kind in turn."""
    kinds = list(KINDS)
    for number in range(first, first + count):
        row = number // 2
        kind = kinds[row % 3] if number % 2 else kinds[3 + row % (len(kinds) - 3)]
        yield f"{kind} {number}", lambda kind=kind, number=number: KINDS[kind](number)  # type: ignore[misc]


def judge_all(
    network: Network, backends: Mapping[str, Runner], engine: Engine
) -> dict[str, Comparison | str]:
    """Return what `check` finds for each backend; the reference and the checks are computed once."""
    graph, inputs = network
    options = RunOptions(engine=engine, timeout=300.0)
    golden = Reference(graph, inputs, options).outputs
    outputs = list(dict.fromkeys(graph.main.outputs))
    results: dict[str, Comparison | str] = {}
    with scratch_folder() as folder:
        checks, notes = checks_for(
            graph, list(golden), inputs, golden, folder, NO_TOLERANCES, options
        )
        for name, backend in backends.items():
            try:
                found = backend.compute(graph, outputs, inputs, [], folder)
            except TosaConvertError as error:
                results[name] = f"the backend refuses it: {error}"
                continue
            wanted = {key: array for key, array in golden.items() if key in found}
            results[name] = compare(wanted, found, checks=checks, notes=notes)
    return results


def input_sets(network: Network, number: int, edges: int) -> dict[str, Network]:
    """Return the network with its own inputs, or with sets of edge inputs of this seed, by name."""
    graph, inputs = network
    if not edges:
        return {"": (graph, inputs)}
    seeds = seeds_of_sets(graph, number)
    chosen = [seeds[(number + more) % len(seeds)] for more in range(min(edges, len(seeds)))]
    return {f" edges-{seed}": (graph, edge_inputs(graph, seed)) for seed in chosen}


def run(
    names: Mapping[str, Callable[[], Network]], journal: Path, engine: Engine, edges: int
) -> int:
    """Judge every backend on every network that the journal does not have; print the table."""
    done: dict[str, dict[str, dict[str, str]]] = {}
    if journal.exists():
        rows = map(json.loads, journal.read_text().splitlines())
        same = (engine, edges)
        done = {
            row["network"]: row["wrong"] for row in rows if (row["engine"], row["edges"]) == same
        }
    with journal.open("a") as file:
        for name, make in names.items():
            if name in done:
                continue
            done[name] = {}
            for own, network in input_sets(make(), int(name.split()[-1]), edges).items():
                wrong = wrong_verdicts(judge_all(network, CORRECT, engine))
                done[name][own] = wrong
                for backend, text in wrong.items():
                    print(f"{name}{own}: {backend}: {text}", flush=True)
            row = {"network": name, "engine": engine, "edges": edges, "wrong": done[name]}
            file.write(json.dumps(row) + "\n")
            file.flush()
    sets = [wrong for name in names for wrong in done[name].values()]
    failures = Counter(backend for wrong in sets for backend in wrong)
    for backend in CORRECT:
        print(f"{failures[backend]:6} of {len(sets)} sets of inputs fail: {backend}")
    print(
        f"{failures.total()} of {len(sets) * len(CORRECT)} verdicts on {len(names)} networks are "
        f"false alarms ({engine})"
    )
    return 1 if failures else 0


def wrong_verdicts(found: Mapping[str, Comparison | str]) -> dict[str, str]:
    """Return what is wrong with each backend that fails."""
    return {
        backend: result if isinstance(result, str) else result.what_is_wrong
        for backend, result in found.items()
        if isinstance(result, str) or not result.ok
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Judge correct backends on networks.")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--edges", type=int, default=0, metavar="N")
    parser.add_argument("--journal", type=Path, default=Path("correct.jsonl"))
    parser.add_argument("--engine", choices=get_args(Engine), default="numpy")
    options = parser.parse_args()
    warnings.simplefilter("error")
    names = dict(networks(options.count, options.first))
    return run(names, options.journal, options.engine, options.edges)


if __name__ == "__main__":
    sys.exit(main())
