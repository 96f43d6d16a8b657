"""The time of each phase of a large export, with lower bounds.

    python benchmarks/profile_export.py [--operators N] [--graph chain|branch] [--calls]

The bounds are what an export of text or of a module cannot avoid: MLIR's own parse and verification,
and MLIR's writing of the module as bytecode, from which we read it. A bytecode file needs neither.
Below them is the alternative, the bindings: a walk that accesses what an exporter needs of each
operation and does nothing with it.
Times are processor time of the fastest of several rounds, in microseconds per operator.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import inputs
from report import show

from tosa_convert import api
from tosa_convert.formats.bindings.modules import bytecode_of, capture
from tosa_convert.formats.bindings.packages import Bindings, default_bindings
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.formats.mlir.read.module import read_module
from tosa_convert.graph.verify import verify

ROUNDS = 5


def operations(module: Any) -> Any:
    """Return the operations of @main."""
    return module.body.operations[0].regions[0].blocks[0].operations


def walk(module: Any) -> None:
    """Touch name, operands, results, their types, attributes and location, by indexing."""
    for view in operations(module):
        operation = view.operation
        operation.name  # noqa: B018
        operands, results = operation.operands, operation.results
        for index in range(len(operands)):
            operands[index]
        for index in range(len(results)):
            results[index].type  # noqa: B018
        len(operation.attributes)
        operation.location  # noqa: B018


def walk_with_text(module: Any) -> None:
    """The same as `walk`, and the location's text, which goes into the file."""
    walk(module)
    for view in operations(module):
        str(view.location)


def walk_with_names(module: Any) -> None:
    """The same as `walk`, with values as keys of a dictionary: whose result is an operand?"""
    names: dict[Any, str] = {}
    for view in operations(module):
        operation = view.operation
        operation.name  # noqa: B018
        operands, results = operation.operands, operation.results
        for index in range(len(operands)):
            names.get(operands[index])
        for index in range(len(results)):
            result = results[index]
            result.type  # noqa: B018
            names[result] = "name"
        len(operation.attributes)
        operation.location  # noqa: B018


def captured(bindings: Bindings, module: Any) -> Any:
    """Return the bytecode of @main."""
    return capture(bindings, module.body.operations[0].operation)


def decoded(module: Any) -> Any:
    """Its operations, and its tables of attributes and types; MLIR's writing included."""
    return bytecode_of(default_bindings(), module.body.operations[0].operation)


def fastest(work: Callable[[], Any]) -> float:
    """Seconds of processor time of the fastest round; garbage is collected between rounds only."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        kept = work()
        best = min(best, time.process_time() - started)
        del kept
    return best


def main() -> None:
    """Print the profile."""
    parser = argparse.ArgumentParser(
        description="Profile the phases of an export, with lower bounds."
    )
    parser.add_argument("--operators", type=int, default=100_000)
    parser.add_argument("--graph", choices=["chain", "branch"], default="chain")
    parser.add_argument("--calls", action="store_true", help="also the calls that take the most")
    options = parser.parse_args()
    bindings = default_bindings()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.mlirbc")
        inputs.main(options.graph, str(options.operators), str(source))

        def parse() -> Any:
            return bindings.ir.Module.parseFile(str(source), bindings.new_context())

        module = parse()
        count = len(operations(module)) - 1
        # As the public functions do: the graph is many small objects and no cycles.
        gc.disable()
        graph = read_module(bytecode_of(bindings, module.operation))
        planned = plan(graph, api.producer())
        rows: list[tuple[str, float, bool]] = [
            ("bound: MLIR parses and verifies the bytecode", fastest(parse), False),
            ("bound: MLIR verifies the module", fastest(module.operation.verify), False),
            (
                "bound: MLIR writes it as bytecode",
                fastest(lambda: captured(bindings, module)),
                False,
            ),
            ("instead: a walk through the bindings", fastest(lambda: walk(module)), False),
            ("  ... with values as keys", fastest(lambda: walk_with_names(module)), False),
            ("  ... with the text of locations", fastest(lambda: walk_with_text(module)), False),
            ("ours: decode the bytecode, part of reading", fastest(lambda: decoded(module)), False),
            (
                "ours: read the module",
                fastest(lambda: read_module(bytecode_of(bindings, module.operation))),
                True,
            ),
            ("ours: read the file, without MLIR", fastest(lambda: api.load(source)), False),
            ("ours: stamp the version", fastest(lambda: api.stamp(graph)), True),
            ("ours: check the graph", fastest(lambda: verify(graph)), True),
            (
                "ours: lay out the file",
                fastest(lambda: plan(graph, api.producer())),
                True,
            ),
            ("ours: join its pieces", fastest(lambda: b"".join(planned.pieces())), True),
        ]
        total = sum(seconds for _, seconds, ours in rows if ours)
        rows.append(("ours: total, without MLIR's parse", total, False))
        whole = fastest(lambda: api.export_tosa_func_to_flatbuffer(module))
        rows.append(("export_tosa_func_to_flatbuffer(module)", whole, False))
        rates = [(name, f"{seconds / count * 1e6:.2f}") for name, seconds, _ in rows]
        title = f"{options.graph} of {count:,} operators, {bindings}; µs an operator"
        show(title, ("what", "µs/op"), rates)
        if options.calls:
            profile = cProfile.Profile()
            profile.runcall(api.export_tosa_func_to_flatbuffer, module)
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
