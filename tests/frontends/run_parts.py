"""Runs what `convert --partial` wrote: programs on the reference model, operators by a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tosa_convert as tc

Array = npt.NDArray[Any]
#: Computes the results of an operator: its name, its arguments in order, its attributes.
RunOperator = Callable[[str, list[Any], Mapping[str, Any]], list[Array]]


def run_parts(interface: Path, feed: Mapping[str, Array], run_operator: RunOperator) -> list[Array]:
    """Return the outputs of a model in parts, in order. interface: the .json file, beside the others."""
    rows = json.loads(interface.read_text(encoding="utf-8"))
    known: dict[str, Array] = dict(feed)
    assert list(known) == rows["inputs"]
    if rows["constants"]:
        with np.load(interface.with_name(rows["constants"])) as stored:
            constants = dict(stored)

    def value(row: Mapping[str, Any]) -> Any:
        ((kind, content),) = row.items()
        if kind == "list":
            return [value(one) for one in content]
        return (
            {"value": known, "constant": constants if rows["constants"] else {}}[kind][content]
            if kind != "literal"
            else content
        )

    for step in rows["steps"]:
        if "program" in step:
            graph = tc.load(interface.with_name(step["program"]))
            assert tc.validate(graph) == []
            assert graph.main.inputs == step["inputs"]
            found = tc.run(graph, {name: known[name] for name in step["inputs"]}).outputs
            known.update({name: found[name] for name in step["outputs"]})
        else:
            arguments = [value(row) for row in step["arguments"]]
            results = run_operator(step["operator"], arguments, step["attributes"])
            known.update(zip(step["results"], results, strict=True))
    for name, row in rows["values"].items():
        assert list(known[name].shape) == row["shape"], name
    return [known[name] for name in rows["outputs"]]
