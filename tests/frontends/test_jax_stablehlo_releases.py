"""Modules that other releases of JAX wrote, as text and as artifacts, become the same programs."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from frontends.stablehlo_operations import CASES

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError

pytest.importorskip("jax", reason="jax is not installed")
modules = pytest.importorskip("tosa_convert.frontends.stablehlo.convert")
_written = pytest.importorskip("frontends.stablehlo_releases.write_modules")
FOLDER: Path = _written.FOLDER
arguments = _written.arguments

FILES = sorted(file for file in FOLDER.iterdir() if file.suffix in (".mlir", ".mlirbc", ".jax"))
#: Releases of StableHLO for which jaxlib writes artifacts.
TARGETS = ("0.9.0", "1.0.0", "1.8.0", "1.14.0")


def test_there_are_files_of_three_releases() -> None:
    assert len({file.stem for file in FILES if file.suffix == ".mlir"}) == 3
    assert len({file.stem for file in FILES if file.suffix != ".mlir"}) == 3


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_module_of_an_older_release_computes_what_that_release_computed(file: Path) -> None:
    graph = tc.frontends.from_file(file)
    assert tc.validate(graph) == []
    inputs = dict(zip(graph.main.inputs, arguments(), strict=True))
    found = tc.golden.run(graph, inputs, engine="numpy").outputs
    made = np.concatenate([found[name].ravel() for name in graph.main.outputs])
    np.testing.assert_allclose(made, np.load(file.with_suffix(".npy")), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_artifacts_for_older_releases_are_the_same_modules(target: str) -> None:
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo
    from jax.interpreters.mlir import make_ir_context

    written = 0
    with make_ir_context() as context, ir.Location.unknown():
        for rows in CASES.values():
            read = []
            if "!quant." in rows[0].text():  # The bindings do not parse it.
                continue
            for version in (stablehlo.get_current_version(), target):
                # Writing an artifact changes the module.
                module = ir.Module.parse(rows[0].text(), context)
                with contextlib.suppress(ValueError):  # The release has no such operation.
                    data = stablehlo.serialize_portable_artifact(module, version)
                    assert f"StableHLO_v{version}".encode() in data
                    read.append(str(modules.read_module(data, "m.mlirbc", context)))
            written += len(read) == 2
            assert len(set(read)) <= 1
    assert written > 80


def test_lists_of_older_text_become_arrays() -> None:
    from jax.extend.mlir import ir
    from jax.interpreters.mlir import make_ir_context

    text = """func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2x1xf32> {
  %y = "stablehlo.transpose"(%x) {permutation = dense<[1, 0]> : tensor<2xi64>} :
      (tensor<2x3xf32>) -> tensor<3x2xf32>
  %z = "stablehlo.reverse"(%y) {dimensions = dense<> : tensor<0xi64>} :
      (tensor<3x2xf32>) -> tensor<3x2xf32>
  %w = "stablehlo.slice"(%z) {start_indices = dense<0> : tensor<2xi64>,
      limit_indices = dense<[3, 2]> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} :
      (tensor<3x2xf32>) -> tensor<3x2xf32>
  %r = stablehlo.reshape %w : (tensor<3x2xf32>) -> tensor<3x2x1xf32>
  return %r : tensor<3x2x1xf32>
}
"""
    with make_ir_context() as context, ir.Location.unknown():
        found = str(modules.read_module(text.encode(), "m.mlir", context))
        assert "dims = [1, 0]" in found
        assert "dims = []" in found
        assert "[0:3, 0:2]" in found
        damaged = text.replace("permutation = dense", "order = dense")
        with pytest.raises(TosaConvertError, match="malformed-mlir"):
            modules.read_module(damaged.encode(), "m.mlir", context)


def test_quantised_types_with_a_scale_for_each_block_are_refused_with_a_hint(
    tmp_path: Path,
) -> None:
    kind = "tensor<2x!quant.uniform<i8:f32:{0:1}, {0.5:3, 0.2:1}>>"
    (tmp_path / "m.mlir").write_text(
        f"func.func @main(%x: tensor<2xf32>) -> {kind} {{\n"
        f"  %y = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> {kind}\n  return %y : {kind}\n}}\n"
    )
    with pytest.raises(TosaConvertError, match="unsupported-dtype") as caught:
        tc.frontends.from_file(tmp_path / "m.mlir")
    assert "m.mlir" in str(caught.value)
    assert "quantised types" in str(caught.value)
