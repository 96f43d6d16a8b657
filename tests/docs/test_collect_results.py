"""zoo/collect_results.py puts reports of the suite into the results of the zoo."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from collect_results import collected

OLD: dict[str, Any] = {
    "releases": {"torch": "1"},
    "answers": [
        {"case": "onnx/onnx/b.onnx", "status": "pass", "operator": "b"},
        {"case": "torch/a.py:make_a", "status": "wrong", "operator": "a", "message": "FAIL"},
    ],
}


def test_rows_of_a_report_replace_the_older_ones() -> None:
    row = {
        "case": "torch/a.py:make_a",
        "status": "pass",
        "operator": "a",
        "message": "",
        "type": "x",
    }
    new = {**row, "case": "tflite/int8/a.tflite", "message": "\n".join(map(str, range(99)))}
    found = collected(OLD, {"answers": [row, new]}, ["numpy"])
    assert found["releases"] == {"numpy": metadata.version("numpy"), "torch": "1"}
    kept, added, replaced = found["answers"]
    assert kept == OLD["answers"][0]
    assert added["message"].splitlines() == [str(number) for number in range(12)]
    assert replaced == {"case": "torch/a.py:make_a", "status": "pass", "operator": "a"}
