"""Check a program on a backend with the inputs of several seeds: random ones and edge inputs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any

from tosa_convert.errors import TosaConvertError, printable
from tosa_convert.golden.accuracy.comparison import Comparison
from tosa_convert.golden.backends.runners import ORIGINALS
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.edges.edge_inputs import find_edge_inputs, seeds_of_sets
from tosa_convert.golden.running.programs import AS_IT_IS, as_graph, input_slots


def takes_edge_inputs(against: str) -> bool:
    """Return whether a backend runs on edge inputs, too: not recorded results, nor frameworks' models.

    Example:
        >>> takes_edge_inputs("simulator.py"), takes_edge_inputs("tflite:model.tflite")
        (True, False)
    """
    is_recorded = against.endswith(".npz") or os.path.isdir(against)
    return not is_recorded and against.partition(":")[0] not in ORIGINALS


def check_seeds(
    program: Any,
    against: str,
    count: int,
    note: Callable[[str], None],
    *,
    edges: bool = True,
) -> dict[str, Comparison]:
    """Check a program on random inputs of the first seeds, and on their edge inputs."""
    graph = as_graph(program, AS_IT_IS)
    edges = edges and bool(input_slots(graph)) and takes_edge_inputs(against)
    results: dict[str, Comparison] = {}
    for seed in range(count):
        results[f"seed-{seed}"] = check(graph, against, random=seed)
        for own in seeds_of_sets(graph, seed) if edges else ():
            try:
                arrays = find_edge_inputs(graph, own, {}).arrays
            except TosaConvertError as error:
                note(f"no run with edge inputs: {error.findings[0].message}")
                continue
            results[f"edges-{own}"] = check(graph, against, arrays)
    return results


def bisect_command(model: str, run: str, against: str) -> str:
    """Return the command that names the operator that is wrong in a run; "" for a run of other inputs.

    run: the name of its inputs, as `check_seeds` has them.

    Example:
        >>> bisect_command("m.tosa", "edges-1000", "sim.py")
        'tosa-flatbuffer bisect m.tosa --random 1000 --edges --against sim.py'
    """
    kind, _, seed = run.partition("-")
    if kind not in ("seed", "edges") or not seed.isdecimal():
        return ""
    words = ["tosa-flatbuffer", "bisect", model, "--random", seed]
    words += ["--edges"] if kind == "edges" else []
    return printable(shlex.join([*words, "--against", against]))
