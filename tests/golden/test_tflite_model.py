"""Programs as TFLite models: TFLite's kernels compute them, and its converter gives them back."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re

import numpy as np
import pytest

from tosa_convert import golden
from tosa_convert.builder import Builder, dtype_of
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer.builder import DATA_ALIGN
from tosa_convert.frontends.tflite.read import read_tflite
from tosa_convert.golden.backends.tflite_model import _RULES, tflite_model
from tosa_convert.graph import Graph

#: How many programs of each operator are tried: those that have windows rarely fit.
_PROGRAMS, _WITH_WINDOWS = 6, 20


def programs(kind: str) -> list[tuple[Graph, bytes]]:
    """Return programs of one operator that are models of TFLite."""
    found = []
    for seed in range(_WITH_WINDOWS if "2D" in kind else _PROGRAMS):
        graph = golden.generate(2 * seed, 1, kinds=[kind], types=["FP32", "INT32", "BOOL"])
        with contextlib.suppress(TosaConvertError):
            found.append((graph, tflite_model(graph)))
    return found


@pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"
)
@pytest.mark.parametrize("kind", sorted(_RULES))
def test_the_kernels_of_tflite_compute_what_tosa_says(kind: str) -> None:
    interpreter = importlib.import_module("ai_edge_litert.interpreter").Interpreter
    for graph, data in programs(kind):
        inputs = golden.input_arrays(graph, None, random=1)
        wanted = golden.run(graph, inputs, engine="numpy").outputs
        model = interpreter(model_content=data)
        model.allocate_tensors()
        for row, name in zip(model.get_input_details(), graph.main.inputs, strict=True):
            model.set_tensor(row["index"], inputs[name])
        model.invoke()
        for row, array in zip(model.get_output_details(), wanted.values(), strict=True):
            found = model.get_tensor(row["index"])
            np.testing.assert_allclose(found, array, rtol=1e-4, atol=1e-4)


def test_most_operators_that_tflite_has_are_written() -> None:
    assert [kind for kind in _RULES if not programs(kind)] == []


def test_constants_are_aligned_and_read_back() -> None:
    build = Builder("main")
    x = build.input("x", "INT8", (2, 3))
    build.output(build.concat([x, build.const([[1, 2, 3]], "INT8")], axis=0), name="y")
    data = tflite_model(build.graph())
    model = read_tflite(memoryview(data))
    assert [(row.dtype, row.shape) for row in model.tensors] == [
        ("int8", (2, 3)),
        ("int8", (1, 3)),
        ("int8", (3, 3)),
    ]
    assert data.index(b"\1\2\3") % DATA_ALIGN == 0


@pytest.mark.parametrize(
    ("kind", "keywords", "why"),
    [
        ("CLZ", {}, "CLZ"),
        ("ADD", {"dtype": "FP16"}, "tensors of FP16"),
        ("MAXIMUM", {"nan_mode": "IGNORE"}, "IGNORE of NaN"),
        ("MUL", {"dtype": "INT16"}, "MUL with a wider result"),
    ],
)
def test_what_tflite_has_not_is_refused(kind: str, keywords: dict[str, str], why: str) -> None:
    build = Builder("main")
    element = keywords.pop("dtype", "INT32" if kind == "CLZ" else "FP32")
    x = build.input("x", dtype_of(element), (2,))
    operands = (x,) if kind == "CLZ" else (x, x)
    build.output(getattr(build, kind.lower())(*operands, **keywords))
    with pytest.raises(TosaConvertError, match=re.escape(f"there is none with {why}")) as raised:
        tflite_model(build.graph())
    assert raised.value.code == "backend-refused"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ADD", "TRANSPOSE", "CONCAT"])
def test_the_converter_gives_the_program_back(kind: str) -> None:
    pytest.importorskip("tosa_converter_for_tflite")
    ((graph, _), *_) = programs(kind)
    assert golden.check(graph, "tflite-converter", random=1, engine="numpy").ok
