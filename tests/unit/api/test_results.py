"""What the public functions return shows itself alike: as text, as JSON and in a notebook."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.io.options import ReadOptions

GRAPH = golden.generate(seed=2, operators=3, kinds=["ABS"])
MLIR = """func.func @f(%x: tensor<2xi64>) -> tensor<2xi64> {
  %0 = "tosa.add"(%x, %x) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}"""


def _wrong() -> dict[str, Any]:
    return {name: array + 1 for name, array in golden.run(GRAPH, random=1).outputs.items()}


RESULTS: dict[str, Callable[[Path], Any]] = {
    "run": lambda folder: tc.run(GRAPH, random=1, engine="numpy"),
    "check": lambda folder: tc.check(GRAPH, _wrong(), random=1, engine="numpy"),
    "tensor": lambda folder: tc.check(GRAPH, _wrong(), random=1, engine="numpy").tensors[0],
    "bisect": lambda folder: tc.bisect(GRAPH, _wrong(), random=1, engine="numpy"),
    "power": lambda folder: golden.power(GRAPH, random=1, engine="numpy"),
    "edges": lambda folder: golden.edge_coverage(GRAPH, random=1),
    "reduce": lambda folder: tc.reduce(GRAPH, "false", folder, engine="numpy", runs=1),
    "summarize": lambda folder: tc.summarize(GRAPH),
    "diff": lambda folder: tc.diff(GRAPH, golden.generate(seed=3, operators=2)),
    "rewrites": lambda folder: tc.rewrites.apply(GRAPH)[1],
    "verify": lambda folder: tc.Finding("file-error", "<m>", "no"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_text_json_and_html(name: str, tmp_path: Path) -> None:
    found = RESULTS[name](tmp_path)
    text = str(found)
    assert not text.startswith(f"{type(found).__name__}("), "it is its repr"
    json.dumps(found.to_dict(), allow_nan=False)
    if name != "verify":  # a list of them, which a notebook shows as such
        assert found._repr_html_().startswith("<pre>")
        assert "<main>" not in found._repr_html_()


@pytest.mark.parametrize(
    ("to", "begin"),
    [("dot", "<pre>"), ("svg", "<svg"), ("html", "<iframe"), ("model-explorer", "<pre>")],
)
def test_a_notebook_shows_the_picture_and_not_its_source(to: Any, begin: str) -> None:
    found = tc.report(GRAPH, to=to)
    assert len(repr(found)) < 100
    assert found._repr_html_().startswith(begin)
    assert isinstance(found, str)
    assert str(found) == "".join(found)


@pytest.mark.parametrize("function", [tc.run, tc.check, tc.bisect, golden.edge_inputs])
def test_options_of_reading_are_keywords_as_those_of_load(
    function: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "m.mlir").write_text(MLIR)
    x = np.zeros(2, np.int32)
    against = () if function in (tc.run, golden.edge_inputs) else ({"TosaOutput_0": x},)

    def call(**options: Any) -> Any:
        return function(tmp_path / "m.mlir", *against, **options)

    inputs = {} if function is golden.edge_inputs else {"random": 1}
    call(narrow="i64", **inputs)
    call(read=ReadOptions(narrow=("i64",)), **inputs)
    with pytest.raises(TosaConvertError, match="both say how to read"):
        call(narrow="i64", read=ReadOptions(narrow=("i64",)))
    with pytest.raises(TypeError, match="did you mean 'narrow'"):
        call(narow="i64")


def test_options_of_a_run_are_keywords_too() -> None:
    by_value = tc.run(GRAPH, None, RunOptions(precise=True, engine="numpy"), random=1)
    by_keyword = tc.run(GRAPH, random=1, precise=True, engine="numpy")
    for name, array in by_value.outputs.items():
        assert array.dtype == by_keyword.outputs[name].dtype
        np.testing.assert_array_equal(array, by_keyword.outputs[name])
    with pytest.raises(TosaConvertError, match=r"timeout=5, and the options have timeout=7"):
        tc.run(GRAPH, None, RunOptions(timeout=7), random=1, timeout=5)


def test_check_without_inputs_takes_seed_0_and_says_so() -> None:
    right = golden.run(GRAPH, random=0, engine="numpy").outputs
    found = tc.check(GRAPH, right, engine="numpy")
    assert found.ok
    assert "the inputs are random, of seed 0" in str(found)
    assert "seed 0" not in str(tc.check(GRAPH, right, random=0, engine="numpy"))
