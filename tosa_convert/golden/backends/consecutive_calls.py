"""Several calls of a model in its framework, which keeps its states from one to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import unpack_npz
from tosa_convert.golden.arrays.scratch import scratch_errors, write_scratch
from tosa_convert.golden.backends.isolated import by_position
from tosa_convert.golden.backends.process import Machine, numbered, run_worker
from tosa_convert.golden.backends.runners import in_program_types
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.variable_states import variables_of
from tosa_convert.graph.model import Graph, counted

#: Software whose models have states that are known after each call.
WITH_STATES: Final = frozenset(["torch", "jax", "tflite", "tensorflow"])
#: Software that does not show all states of a model.
HIDES_STATES: Final = frozenset(["tflite", "tensorflow"])


def call_in_a_row(
    software: str,
    original: str,
    graph: Graph,
    calls: Sequence[Mapping[str, Array]],
    *,
    machine: Machine,
    folder: Path,
) -> list[Mapping[str, Array]]:
    """Return a model's outputs, and the states of its variables, after each of several calls."""
    slots = input_slots(graph)
    given = [inputs[slot.key] for inputs in calls for slot in slots]
    asked = {"calls": len(calls), "states": list(variables_of(graph))}
    with scratch_errors(folder):
        write_scratch(folder / "calls.json", [json.dumps(asked).encode()])
        outputs, _ = run_worker(machine, software, original, given, folder)
    count, rest = divmod(len(outputs), len(calls))
    if rest:
        message = f"{counted(len(calls), 'call')} gave {counted(len(outputs), 'output')}"
        raise fail("backend-failed", software, message)
    changed = numbered(folder, "changed")
    writes = len(changed) // len(calls)
    found: list[Mapping[str, Array]] = []
    for number in range(len(calls)):
        own = by_position(
            graph,
            outputs[number * count : (number + 1) * count],
            software,
            changed[number * writes : (number + 1) * writes],
        )
        (kept := folder / f"call{number}").mkdir()
        states = unpack_npz(folder / f"call{number}.npz", kept)
        found.append(in_program_types(graph, {**own, **states}))
    return found
