"""Real models from the TFLite converter: we and the outside tools give the same results.

The models are beside the checkout, in ../shared/models; they are not part of the project.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import official_suite
from oracle.judge import Judge
from oracle.outside_tools import Refused, TosaOpt, reference_run

import tosa_convert as tc

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = sorted((ROOT.parent / "shared" / "models").glob("*.tflite"))
CONVERTER = shutil.which("tosa-converter-for-tflite", path=str(Path(sys.executable).parent))

#: The size of a dimension that a model leaves dynamic.
BATCH = 3

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
    pytest.mark.skipif(not MODELS, reason="there is no ../shared/models beside the checkout"),
    pytest.mark.skipif(CONVERTER is None, reason="tosa-converter-for-tflite is not installed"),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=[path.stem for path in MODELS])


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as found:
        yield found


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Return each model as MLIR bytecode."""
    folder = tmp_path_factory.mktemp("converted")
    modules = {}
    for model in MODELS:
        modules[model] = folder / f"{model.stem}.mlirbc"
        command = [str(CONVERTER), str(model), "--bytecode", "-o", str(modules[model])]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    return modules


@each_model
def test_a_model_is_exported_and_imported_as_tosa_opt_does(
    judge: Judge, converted: dict[Path, Path], model: Path
) -> None:
    verdict = judge.module(converted[model])
    assert verdict.differences == []
    assert verdict.reason == ""
    assert (verdict.exported, verdict.imported, verdict.returned) == (True, True, True)
    assert len(verdict.operators) > 3


@each_model
def test_the_reference_model_computes_the_same_bytes_from_our_file(
    judge: Judge, converted: dict[Path, Path], model: Path, tmp_path: Path
) -> None:
    module = tmp_path / "static.mlir"
    original = judge.parse(converted[model])
    module.write_text(static(str(original)), encoding="utf-8")
    parsed = judge.parse(module)
    theirs, ours, back = (tmp_path / f"{name}.tosa" for name in ("theirs", "ours", "back"))
    assert TosaOpt(tmp_path).write(module, theirs) is None
    tc.export_tosa_func_to_flatbuffer(parsed, ours, names="generate")
    tc.export_tosa_func_to_flatbuffer(judge.load(ours), back, names="generate")
    shapes = describe(tc.load(theirs), tmp_path)
    expected = reference_run(theirs, tmp_path, tmp_path / "expected")
    assert not isinstance(expected, Refused), str(expected)
    assert sum(map(len, expected.values())) > 128, "the model has no output"
    assert reference_run(ours, tmp_path, tmp_path / "found") == expected
    assert reference_run(back, tmp_path, tmp_path / "again") == expected
    if "?x" in str(original):
        # With the size given to the export, instead of replaced in the text.
        filled = tmp_path / "filled.tosa"
        tc.export_tosa_func_to_flatbuffer(original, filled, names="generate", input_shapes=shapes)
        assert reference_run(filled, tmp_path, tmp_path / "filled") == expected
    # Another program gives other bytes, so the reference model does compute something.
    spoilt = tmp_path / "spoilt.tosa"
    tc.save(with_another_output(tc.load(ours)), spoilt)
    assert reference_run(spoilt, tmp_path, tmp_path / "spoilt") != expected


def static(text: str) -> str:
    """Return the module with BATCH for the dynamic size, the first and only one in these models."""
    text = text.replace("tensor<?x", f"tensor<{BATCH}x")
    assert "?x" not in text
    return re.sub(r"(tosa\.const_shape.*dense<\[)-1, ", rf"\g<1>{BATCH}, ", text)


def describe(graph: tc.Graph, folder: Path) -> dict[str, tuple[int, ...]]:
    """Write seeded inputs for the reference model, and the description it wants of them.

    The shapes of the inputs, by position.
    """
    random = np.random.default_rng(42)
    block = graph.main
    files = []
    shapes = {}
    for index, name in enumerate(block.inputs):
        tensor = block.tensors[name]
        assert tensor.shape is not None
        shapes[f"arg{index}"] = tensor.shape
        files.append(f"input-{index}.npy")
        np.save(folder / files[-1], values(random, tensor.dtype.numpy, tensor.shape))
    outputs = [f"output-{index}.npy" for index in range(len(block.outputs))]
    description = {
        "tosa_file": "theirs.tosa",
        "ifm_name": block.inputs,
        "ifm_file": files,
        "ofm_name": block.outputs,
        "ofm_file": outputs,
        "expected_failure": False,
    }
    (folder / "desc.json").write_text(json.dumps(description), encoding="utf-8")
    return shapes


def values(random: np.random.Generator, kind: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if kind.kind == "i":
        limits = np.iinfo(kind)
        return random.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    return random.uniform(-4, 4, shape).astype(kind)


def with_another_output(graph: tc.Graph) -> tc.Graph:
    """Return the graph with one bit of its largest constant changed in every byte."""
    tensor = max(
        (one for one in graph.main.tensors.values() if one.data is not None),
        key=lambda one: one.data.nbytes if one.data is not None else 0,
    )
    assert tensor.data is not None
    changed = np.frombuffer(tensor.data.packed(), np.uint8) ^ 0x10
    tensor.data.buffer = memoryview(changed.tobytes())
    return graph
