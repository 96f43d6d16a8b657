"""A backend: `--against extension:example`. It knows ABS, and refuses other operators."""

from __future__ import annotations

from typing import Any

import numpy as np

import tosa_convert as tc

TOSA_PROTOCOL = 1


def run(model: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Compute a program: the path of a `.tosa` file, and arrays by name; returns arrays by name."""
    graph = tc.load(model)
    values = dict(inputs)
    for op in graph.main.operators:
        if op.spec.name != "ABS":
            raise NotImplementedError(f"no operator {op.spec.name}")
        values[op.outputs[0]] = np.abs(values[op.inputs[0]])
    return {name: values[name] for name in graph.main.outputs}
