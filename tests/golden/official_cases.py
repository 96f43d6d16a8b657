"""Cases in the form of the official test suite, made for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from golden.conftest import Builder

import tosa_convert as tc
from tosa_convert.golden.arrays import save_npy
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.graph import Graph

Rows = Mapping[str, Mapping[str, Any]]
EXACT = {"y": {"mode": "EXACT", "data_type": "INT32"}}


def write_case(
    folder: Path,
    graph: Graph,
    inputs: Mapping[str, Any],
    rules: Rows = EXACT,
    *,
    validate: bool = True,
    **more: Any,
) -> None:
    """Write a case: `test.tosa`, `desc.json` and the inputs."""
    folder.mkdir(parents=True)
    tc.save(graph, folder / "test.tosa", validate=validate)
    for slot in input_slots(graph):
        save_npy(folder / f"{slot.key}.npy", slot, np.asarray(inputs[slot.key]))
    description = {
        "tosa_file": "test.tosa",
        "ifm_name": graph.main.inputs,
        "ifm_file": [f"{name}.npy" for name in graph.main.inputs],
        "ofm_name": graph.main.outputs,
        "ofm_file": [f"ref-{name}.npy" for name in graph.main.outputs],
        "expected_failure": False,
        "meta": {"compliance": {"version": "1.0", "tensors": rules}},
        **more,
    }
    (folder / "desc.json").write_text(json.dumps(description))


def unary(kind: str) -> Graph:
    """Return a program of one operator: x -> y, INT32[4]."""
    b = Builder()
    b.input("x", "INT32", (4,))
    if kind == "NEGATE":
        b.const("zp", "INT32", [0])
        b.op("NEGATE", ["x", "zp", "zp"], "y", "INT32", (4,))
    else:
        b.op(kind, ["x"], "y", "INT32", (4,))
    return b.graph("y")


X = {"x": np.array([3, -4, 0, 7], np.int32)}


def make_suite(root: Path, **requirements: Any) -> list[str]:
    """Four cases of three operators below `root`; returns their names."""
    more: dict[str, Any] = {"test_requirements": requirements} if requirements else {}
    for name, kind in (
        ("abs/a", "ABS"),
        ("abs/b", "ABS"),
        ("clz/a", "CLZ"),
        ("not/a", "BITWISE_NOT"),
    ):
        write_case(root / name, unary(kind), X, **more)
    return ["abs/a", "abs/b", "clz/a", "not/a"]
