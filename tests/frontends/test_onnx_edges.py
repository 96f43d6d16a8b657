"""Operators of ONNX at the ends of every type, against what onnxruntime computed of them once.

onnx_edges.json has the results; `python tests/frontends/onnx_edges.py` records them again. A case is
equal, or it is refused by name; no other number may leave.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends import onnx_edges
from frontends.onnx_edges import Case

import tosa_convert as tc
from tosa_convert.frontends.lower_model import FrontendOptions, lowered
from tosa_convert.frontends.process.run import server_of
from tosa_convert.frontends.table import recognize
from tosa_convert.golden.models.compare_model import as_slot
from tosa_convert.io.options import ReadOptions
from tosa_convert.process.workers import KeptProcess

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")),
    reason="onnx or onnxruntime is not installed",
)

#: What a program may differ by, of 1 and of larger numbers: of what is not a choice among the inputs.
_TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-5}
_EXACT = ("Cast", "Abs", "Neg", "Max", "Min", "Clip", "Relu", "MaxPool", "QuantizeLinear")
#: Those that the run of every day has, of which the last are refused.
_DAILY = (
    "Cast float32 int8",
    "Neg int32",
    "Max uint32",
    "Relu float32",
    "Attention 5 23",
    "Pow int32 float32",
)


@pytest.fixture(scope="module")
def server() -> Iterator[KeptProcess | None]:
    """Return a process that lowers all models, each in a fork."""
    found = server_of("onnx")
    yield found
    if found is not None:
        found.close()


def outcome(case: Case, expected: Sequence[Any], narrow: Any, path: Path, server: Any) -> str:
    """Return "equal", "refused", or what is wrong."""
    import onnx

    onnx.save(onnx_edges.model(case), path)
    recognised = recognize(str(path))
    assert recognised is not None
    options = FrontendOptions(server=server, read=ReadOptions(narrow=narrow))
    try:
        with lowered(recognised, options) as made:
            graph = made.graph
    except tc.TosaConvertError as error:
        found = error.findings[0]
        named = found.code == "unsupported-dtype" or (
            found.code == "not-lowered"
            and (f"onnx.{case.kind} " in found.message or "--narrow" in found.hint)
        )
        return "refused" if named and "onnx.Identity" not in found.message else str(error)
    if tc.validate(graph):
        return "refused"  # What saves it says so.
    inputs = {f"x{index}": np.asarray(x) for index, x in enumerate(case.inputs)}
    slots: Any = graph.main.tensors
    fed = {name: as_slot(_held(inputs[name]), slots[name]) for name in graph.main.inputs}
    results = tc.run(graph, fed, engine="numpy").outputs.values()
    tolerance = 0.0 if case.kind in _EXACT else None
    for got, wanted in zip(results, expected, strict=True):
        problem = _difference(np.asarray(got), wanted, tolerance)
        if problem:
            return problem
    return "equal"


def _held(array: Any) -> Any:
    return array.astype(np.int8) if array.dtype.name in ("int4", "uint4") else array


def _difference(got: Any, wanted: Any, tolerance: float | None) -> str:
    if got.shape != wanted.shape:
        return f"the shape is {got.shape}, expected {wanted.shape}"
    if wanted.dtype.kind == "u" and got.dtype.itemsize == wanted.dtype.itemsize:
        got = got.view(wanted.dtype)
    if wanted.dtype.name in (*_TOLERANCE, *onnx_edges.FP8):
        if tolerance is None or wanted.dtype == np.float64:
            tolerance = _TOLERANCE.get(wanted.dtype.name, 0.0)
        pair = got.astype(np.float64), wanted.astype(np.float64)
        same = np.isclose(*pair, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = got.astype(object) == wanted.astype(object)
    where = np.argwhere(~np.asarray(same, bool))
    found = [f"{got[tuple(one)]}, expected {wanted[tuple(one)]}" for one in where[:3]]
    return "; ".join(found)


def _fits(arrays: Sequence[Any]) -> bool:
    """Return whether 32 bits hold all integers."""
    whole = [x for x in map(np.asarray, arrays) if x.dtype.kind in "iu" and x.dtype.itemsize == 8]
    return all(not x.size or (x.min() >= -(2**31) and x.max() < 2**31) for x in whole)


def _outcomes(names: Sequence[str], path: Path, server: Any) -> dict[str, str]:
    recorded = json.loads(onnx_edges.RECORDED.read_text(encoding="utf-8"))
    cases = {case.name: case for case in onnx_edges.all_cases()}
    found = {}
    for name in names or recorded:
        case, expected = cases[name], onnx_edges.unpacked(recorded[name])
        arrays = [np.asarray(x) for x in (*case.inputs, *expected) if x is not None]
        is_wide = any(x.dtype.itemsize == 8 for x in arrays)
        found[name] = outcome(case, expected, (), path, server)
        if is_wide and _fits(arrays):
            found[f"{name}, narrow"] = outcome(case, expected, ("i64", "f64"), path, server)
    return found


def test_a_sample_is_equal_to_onnxruntime_or_refused_by_name(
    tmp_path: Path, server: KeptProcess | None
) -> None:
    found = _outcomes(_DAILY, tmp_path / "m.onnx", server)
    assert found == dict.fromkeys(_DAILY, "equal") | dict.fromkeys(_DAILY[-2:], "refused")


@pytest.mark.slow
def test_every_case_is_equal_to_onnxruntime_or_refused_by_name(
    tmp_path: Path, server: KeptProcess | None
) -> None:
    found = _outcomes((), tmp_path / "m.onnx", server)
    counts = Counter(word if word in ("equal", "refused") else "wrong" for word in found.values())
    print(dict(counts))
    assert {name: word for name, word in found.items() if word not in ("equal", "refused")} == {}
    assert counts["equal"] >= 900


def test_every_case_is_recorded_once() -> None:
    names = [case.name for case in onnx_edges.all_cases()]
    assert len(names) == len(set(names))
    recorded = json.loads(onnx_edges.RECORDED.read_text(encoding="utf-8"))
    assert recorded.keys() <= set(names)
    assert set(_DAILY) <= recorded.keys()


def test_another_number_is_noticed() -> None:
    wanted = np.array([1, 255], np.uint8)
    assert _difference(wanted.view(np.int8), wanted, 0.0) == ""
    assert _difference(np.array([1, 127], np.int8), wanted, 0.0) == "127, expected 255"
    real = np.array([np.nan, np.inf], np.float32)
    assert _difference(real, real, 0.0) == ""
    assert "expected inf" in _difference(np.array([np.nan, 3.4e38], np.float32), real, None)
