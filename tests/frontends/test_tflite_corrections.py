"""Each correction is needed: without it programs of the installed converter differ from TFLite."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE
from frontends.tflite_operators.programs import Program, one
from frontends.tflite_operators.values import Array, Quantized
from frontends.tflite_operators.write import all_programs, write

import tosa_convert as tc
from tosa_convert.frontends.process.request import Interface, Request
from tosa_convert.frontends.read_result import finish
from tosa_convert.frontends.tflite.lowerings import find
from tosa_convert.frontends.tflite.lowerings.find import CORRECTIONS
from tosa_convert.frontends.tflite.lowerings.lowering import Correction, is_found
from tosa_convert.frontends.tflite.read import operator_name, read_tflite
from tosa_convert.golden.backends import worker
from tosa_convert.io.options import ReadOptions

pytestmark = [
    *NEEDS_TFLITE,
    pytest.mark.skipif(
        importlib.util.find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"
    ),
]
#: Programs of an operator that are tried, until one has other numbers.
TRIED: Final = 40
ROWS: Final = list(dict.fromkeys(row for rows in CORRECTIONS.values() for row in rows))


def rare_programs() -> Iterator[Program]:
    """Iterate over programs that show a fault which others seldom show."""
    program = Program("LEAKY_RELU", "int16")
    x = program.input("int16", (4000,), quantized=Quantized((0.0006469573127105832,)))
    row = ("int16", (4000,), Quantized((0.0002492013736627996,)))
    program.returns(program.apply("LEAKY_RELU", [x], row, alpha=0.1))
    yield program
    program = Program("SOFTMAX", "int8_of_equal_elements")
    x = program.input("int8", (2, 1000), quantized=Quantized((0.02,)))
    program.arrays["x0"][...] = 7
    shares = ("int8", (2, 1000), Quantized((1 / 256,), -128))
    program.returns(program.apply("SOFTMAX", [x], shares, beta=1.0))
    yield program
    floats = np.array([0.5, 2.5, -0.5, np.inf, -np.inf, np.nan, 300], np.float32)
    for operator in ("ROUND", "SIGN", "RELU", "LOG_SOFTMAX"):
        program = one(operator, "edges", [("float32", (7,))], ("float32", (7,)))
        program.arrays["x0"] = floats if operator != "LOG_SOFTMAX" else floats[[0, 1, 2, 6] * 2][:7]
        yield program
    program = one("ATAN2", "zeros", [("float32", (2,))] * 2, ("float32", (2,)))
    program.arrays = {name: np.zeros(2, np.float32) for name in program.arrays}
    yield program
    program = one("NEG", "int32_least", [("int32", (2,))], ("int32", (2,)))
    program.arrays["x0"] = np.array([-(2**31), 5], np.int32)
    yield program


def corrected(row: Correction[Any]) -> Iterator[Program]:
    """Iterate over the programs that a correction changes."""
    operators = {name for name, rows in CORRECTIONS.items() if row in rows}
    for program in itertools.chain(rare_programs(), all_programs()):
        model = read_tflite(program.data())
        if program.operator in operators and any(
            operator_name(one.code) in operators and is_found(row.find(model, one))
            for one in model.operators
        ):
            yield program


def lowered_without(
    row: Correction[Any], program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tc.Graph | None:
    """Return the program without a correction; None if the converter fails, or writes no valid one."""
    from tosa_convert.frontends.tflite import convert

    others = {
        name: tuple(one for one in rows if one is not row) for name, rows in CORRECTIONS.items()
    }
    monkeypatch.setattr(find, "CORRECTIONS", others)
    monkeypatch.setattr(convert, "with_placeholders", lambda data, model: data)
    path = write(program, folder / "models")
    scratch = folder / program.operator / program.name
    scratch.mkdir(parents=True)
    request = Request(frontend="tflite", source=str(path))
    interface: Interface = convert.lower(request, scratch)
    try:
        return finish(request, interface, scratch, ReadOptions())
    except tc.TosaConvertError as error:
        if error.code != "not-lowered":
            raise
        return None


def is_equal_to_tflite(graph: tc.Graph, path: Path, given: list[Array]) -> bool:
    signed = [
        array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array for array in given
    ]
    try:
        found = tc.run(graph, dict(zip(graph.main.inputs, signed, strict=True))).outputs.values()
    except tc.TosaConvertError as error:
        if error.code != "refmodel-refused":
            raise
        return False
    expected, _ = worker._tflite(str(path), given, [""] * len(given))
    return all(
        np.array_equal(ours.view(theirs.dtype), theirs)
        if theirs.dtype.kind != "f"
        else np.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        for ours, theirs in zip(found, map(np.asarray, expected), strict=True)
    )


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=f"{row.operator}-{number}",
            marks=[] if row.operator == "CAST" else [pytest.mark.slow],
        )
        for number, row in enumerate(ROWS)
    ],
)
def test_without_the_correction_the_numbers_are_others(
    row: Correction[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it fails for a release, drop the row; its `seen_in` says which release had the fault."""
    for program in itertools.islice(corrected(row), TRIED):
        graph = lowered_without(row, program, tmp_path, monkeypatch)
        path = tmp_path / "models" / program.operator / f"{program.name}.tflite"
        if graph is None or not is_equal_to_tflite(graph, path, list(program.arrays.values())):
            return
    pytest.fail(f"{row.operator}: no program has the fault any more: {row.fault}")
