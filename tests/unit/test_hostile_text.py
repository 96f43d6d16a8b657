"""Refusing hostile MLIR text takes time and memory in proportion to the text."""

from __future__ import annotations

import tracemalloc

import pytest

import tosa_convert as tc


@pytest.mark.parametrize(
    "line",
    ["  %{0} = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>\n", "\n" * 50],
    ids=["operators", "line ends"],
)
def test_a_text_that_is_cut_off_takes_little_memory(line: str) -> None:
    text = "func.func @f(%x: tensor<2xf32>) {\n" + "".join(map(line.format, range(10_000)))
    with pytest.raises(tc.TosaConvertError):
        tc.load(text[:1000].encode())
    tracemalloc.start()
    try:
        with pytest.raises(tc.TosaConvertError, match="the text ends inside a region"):
            tc.load(text.encode())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(text)
