"""First uses of frameworks: each program lowers, and numpy computes what the framework does.

A new use is one row of `torch_uses.py`, `jax_uses.py` or `onnx_uses.txt` in tests/first_uses. Those of
TFLite, `tflite_uses.txt`, are judged in test_tflite_operators.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.frontends.lower_model import FrontendOptions, lowered
from tosa_convert.frontends.process.run import server_of
from tosa_convert.frontends.table import recognize
from tosa_convert.io.options import ReadOptions

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

#: A program, its inputs and the framework's results.
Case = tuple[tc.Graph, list[Any], list[Any]]
FEWEST = 150


def of_torch(function: Any, arguments: Any, path: Path) -> Case:
    import torch
    from torch.utils import _pytree as pytree

    from tosa_convert.frontends.torch.convert import lower_directly

    class Called(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function(*given)

    module = (function if isinstance(function, torch.nn.Module) else Called()).eval()
    program = torch.export.export(module, arguments, strict=False)
    found = module(*pytree.tree_map(torch.clone, arguments))
    given, wanted = (
        [_array(leaf.detach()) for leaf in pytree.tree_leaves(tree)] for tree in (arguments, found)
    )
    graph = tc.rewrites.apply(lower_directly(program, ("f64", "i64")).graph).graph
    tc.save(graph, path)
    return tc.load(path, narrow=["i64", "f64"]), given, wanted


def _array(leaf: Any) -> Any:
    """Return a tensor as numpy has it; types that numpy does not have become FP32."""
    return leaf.float().numpy() if "bfloat16" in str(leaf.dtype) else leaf.numpy()


def of_jax(function: Any, arguments: Any, path: Path) -> Case:
    import jax

    graph = tc.frontends.from_jax(function, arguments)
    given, wanted = (
        [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        for tree in (arguments, function(*arguments))
    )
    return graph, given, wanted


def of_onnx(model: Any, arrays: dict[str, Any], path: Path) -> Case:
    import onnx
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    settings = onnxruntime.SessionOptions()  # Its optimisations compute with less precision.
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    onnx.save(model, path.with_suffix(".onnx"))
    recognised = recognize(str(path.with_suffix(".onnx")))
    assert recognised is not None
    options = FrontendOptions(server=_onnx_server(), read=ReadOptions(narrow=("i64", "f64")))
    with lowered(recognised, options) as made:
        graph = made.graph
    return graph, [arrays[name] for name in graph.main.inputs], session.run(None, arrays)


@cache
def _onnx_server() -> Any:
    """Return a process that lowers all models, each in a fork."""
    return server_of("onnx")


def difference(case: Case) -> str:
    """Return how the results of a program differ from the framework's; "" if they do not."""
    graph, given, wanted = case
    inputs = {}
    for name, array in zip(graph.main.inputs, given, strict=True):
        element = graph.main.tensors[name].dtype
        is_float = array.dtype.kind == "f" and array.dtype != np.float64
        kind = array.dtype if is_float else element.numpy
        is_narrowed = array.dtype.itemsize > np.dtype(kind).itemsize
        inputs[name] = array.astype(kind) if is_narrowed else array.view(kind)
    outputs = tc.golden.run(graph, inputs, engine="numpy").outputs.values()
    for number, (found, want) in enumerate(zip(outputs, wanted, strict=True)):
        if want.dtype.kind == "u" and want.dtype.itemsize == found.dtype.itemsize:
            found = found.view(want.dtype)
        try:
            np.testing.assert_allclose(
                found.astype(np.float64), want.astype(np.float64), rtol=2e-3, atol=2e-4
            )
        except AssertionError as error:
            return f"output {number}: {error}"
    return ""


def outcomes(uses: dict[str, Any], case_of: Callable[..., Case], path: Path) -> dict[str, str]:
    """Return what is wrong with each use that does not lower, or differs."""
    found = {}
    for name, use in uses.items():
        try:
            said = difference(case_of(*use(), path))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if said:
            found[name] = said
    return found


@pytest.mark.parametrize(
    ("framework", "case_of"), [("torch", of_torch), ("jax", of_jax), ("onnx", of_onnx)]
)
def test_each_use_has_the_numbers_of_the_framework(
    framework: str, case_of: Callable[..., Case], tmp_path: Path
) -> None:
    package = pytest.importorskip(framework, reason=f"{framework} is not installed")
    if framework == "torch":
        package.manual_seed(0)
    uses = importlib.import_module(f"first_uses.{framework}_uses").USES
    assert len(uses) >= FEWEST
    assert outcomes(uses, case_of, tmp_path / "program.mlirbc") == {}


def test_another_number_and_a_refusal_are_noticed(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    x = np.ones(3, np.float32)

    def wrong(function: Any, arguments: Any, path: Path) -> Case:
        graph, given, wanted = of_jax(function, arguments, path)
        return graph, given, [array + 1 for array in wanted]

    uses = {"sine": lambda: (jax.numpy.sin, (x,)), "none": lambda: (jax.lax.igamma, (x, x))}
    assert outcomes(uses, of_jax, tmp_path).keys() == {"none"}
    assert outcomes(uses, wrong, tmp_path).keys() == {"sine", "none"}
