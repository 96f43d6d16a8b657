"""Programs are loaded from anything with bytes, and written to bytes and modules in memory."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from unit.building import branching, graph, op, tensor

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings

DATA = tc.dumps(branching())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (io.StringIO("module {}"), "in text mode, expected binary mode"),
        (np.array([None]), "array of Python objects"),
        (3.5, "found float, expected a path, bytes or an open binary file"),
        (None, "found NoneType"),
    ],
)
def test_a_source_without_bytes_is_a_type_error_that_says_what_to_give(
    source: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        tc.load(source)


@pytest.mark.parametrize(
    "source", [np.zeros(0, np.uint8), bytearray(), io.BytesIO(), np.zeros((2, 0))]
)
def test_no_bytes_are_an_empty_input(source: Any) -> None:
    with refused("empty-input"):
        tc.load(source)


# -- copies ------------------------------------------------------------------------------------------


def large() -> tc.Graph:
    weight = tensor("w", "INT8", (1 << 21,), bytes(range(256)) * (1 << 13))
    return graph("", "w", [weight], [op("CONST", "", "w")])


@pytest.mark.parametrize("name", ["m.tosa", "o.tosa", "n.tosa", "m.mlirbc"])
def test_a_copied_file_may_be_overwritten_in_place(
    tmp_path: Path, torch_mlir: Bindings, name: str
) -> None:
    weights: Any = {"o.tosa": "offset", "n.tosa": "npy"}.get(name, "embedded")
    tc.save(large(), tmp_path / name, weights=weights)
    graphs = [tc.load(tmp_path / name, copy=True), tc.load(tmp_path / name)]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            with open(path, "r+b") as file:
                file.write(b"\0" * path.stat().st_size)
    first, second = ([bytes(data.buffer) for _, data in made.constants()] for made in graphs)
    assert first == [bytes(data.buffer) for _, data in large().constants()]
    # The test can fail: without a copy, the graph changes with the file.
    assert os.name != "posix" or first != second


def test_a_copied_buffer_may_change() -> None:
    data = bytearray(tc.dumps(large()))
    copied = tc.load(data, copy=True)
    data[:] = bytes(len(data))
    assert tc.compare(copied, large()) is None


# -- bytes and modules in memory ---------------------------------------------------------------------


def test_weights_beside_a_file_are_refused_for_bytes() -> None:
    for name, weights in (("tosa", "npy"), ("json", "npy"), ("json", "auto")):
        options: Any = {"weights": weights}
        with refused("option-conflict", match="there is no file"):
            tc.dumps(large(), name, **options)  # type: ignore[arg-type]


def test_import_uses_the_current_context(bindings: Bindings) -> None:
    with bindings.new_context() as current:
        assert tc.import_tosa_func_from_flatbuffer(DATA).context == current
        assert tc.to_module(branching()).context == current
        other = bindings.new_context()
        assert tc.import_tosa_func_from_flatbuffer(DATA, context=other).context == other
    assert tc.to_module(branching()).context not in (current, other)


# -- no work is done twice ---------------------------------------------------------------------------


def test_public_names_are_listed_and_imported_when_used() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(tc.__all__) <= set(dir(tc))
        for name in tc.__all__:
            assert getattr(tc, name) is not None
    assert callable(tc.check)
    assert callable(tc.golden.check)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tc.nothing  # noqa: B018
