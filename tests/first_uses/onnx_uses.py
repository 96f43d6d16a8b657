"""Small models of ONNX as people and exporters write them.

A model of onnx_uses.txt has a name, its opset, inputs and results, and below these its nodes in ONNX's
own text. Inputs whose names begin with `w` are initializers, `i` has indices below 3, `p` positive
numbers.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
from onnx import numpy_helper

TEXT = Path(__file__).with_name("onnx_uses.txt")
_HEAD = re.compile(r"^(\w+): (\d+) \((.*)\) => \((.*)\)\n((?:  .*\n)+)", re.MULTILINE)
_KINDS = {"float": "float32", "double": "float64"}
_INPUT = re.compile(r"(\w+)(?:\[([\d,]*)\])? (\w+)")


def data(name: str, kind: str, shape: tuple[int, ...]) -> Any:
    """Return numbers for an input by its name, the same for the same name and shape."""
    chance = np.random.default_rng(sum(map(ord, name)) + sum(shape))
    dtype = np.dtype(getattr(ml_dtypes, kind, _KINDS.get(kind, kind)))
    if kind == "bool":
        return np.asarray(chance.random(shape) < 0.5)
    if dtype.kind in "iu":
        low, high = {"i": (0, 3), "p": (1, 9)}.get(name, (0 if kind[0] == "u" else -9, 99))
        return np.asarray(chance.integers(low, high, shape)).astype(dtype)
    numbers = chance.standard_normal(shape)
    return np.asarray(np.abs(numbers) + 0.1 if name in ("p", "wp") else numbers).astype(dtype)


def use(opset: str, given: str, results: str, nodes: str) -> tuple[Any, dict[str, Any]]:
    """Return a model, and the arrays of its inputs."""
    head = f'<ir_version: 8, opset_import: ["": {opset}, "ai.onnx.ml": 3]>'
    model = onnx.parser.parse_model(f"{head} g ({given}) => ({results}) {{ {nodes} }}")
    arrays = {}
    for kind, sizes, called in _INPUT.findall(given):
        shape = tuple(map(int, sizes.split(","))) if sizes else ()
        arrays[called] = data(called, kind, shape)
    weights = [called for called in arrays if called.startswith("w")]
    kept = [info for info in model.graph.input if info.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for called in weights:
        model.graph.initializer.append(numpy_helper.from_array(arrays.pop(called), called))
    return model, arrays


USES = {
    name: partial(use, *parts) for name, *parts in _HEAD.findall(TEXT.read_text(encoding="utf-8"))
}
