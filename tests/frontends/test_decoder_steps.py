"""Steps of a decoder of transformers agree with torch: caches of keys and values, tied weights."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

import tosa_convert as tc
from tosa_convert.cli.main import verb

FACTORY = Path(__file__).with_name("decoder_steps.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None,
        reason="transformers is not installed",
    ),
    pytest.mark.usefixtures("refmodel"),
]


def converted(member: str, folder: Path) -> tc.Graph:
    """Convert a step with `--check`; return the program."""
    out = folder / "step.tosa"
    words = [f"{FACTORY}:{member}", "-o", str(out), "--narrow", "i64,f64", "--check"]
    result = CliRunner().invoke(verb("convert"), words)
    assert result.exit_code == 0, result.output
    return tc.load(out)


def test_a_static_cache_becomes_variables(tmp_path: Path) -> None:
    graph = converted("variables", tmp_path)
    names = {one.variable_name for one in graph.main.tensors.values() if one.variable}
    assert {f"{kind}_cache_{layer}" for kind in ("key", "value") for layer in (0, 1)} <= names


def test_a_cache_of_arguments_grows_in_the_results(tmp_path: Path) -> None:
    graph = converted("arguments", tmp_path)
    shapes = [graph.main.tensors[name].shape for name in graph.main.outputs]
    assert shapes == [(1, 1, 128), *[(1, 1, 6, 8)] * 4]


def test_a_table_tied_to_the_last_product_is_stored_once(tmp_path: Path) -> None:
    tensors = converted("arguments", tmp_path).main.tensors.values()
    assert [
        one.shape for one in tensors if one.data is not None and one.data.count == 128 * 16
    ] == [(1, 128, 16)]
