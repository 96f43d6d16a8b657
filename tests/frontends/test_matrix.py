"""Operators of torch, JAX and ONNX by element type at the ends of these, against what each computes.

The framework's numbers are recorded, see matrix.py. A program is equal, or refused by name.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from frontends import matrix

_PARTS = 4
#: Framework -> how many programs are equal at least, of all parts.
_EQUAL = {"torch": 3000, "jax": 1600, "onnx": 2000}


def _need(framework: str) -> None:
    for module in (framework, "onnxruntime")[: 1 + (framework == "onnx")]:
        pytest.importorskip(module, reason=f"{module} is not installed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("framework", _EQUAL)
def test_every_program_is_equal_or_refused_by_name(
    framework: str, part: int, tmp_path: Path
) -> None:
    _need(framework)

    def is_of_part(case: matrix.Case) -> bool:
        return crc32(case.expression.encode()) % _PARTS == part

    found = dict(matrix.outcomes(framework, tmp_path / "m.mlirbc", is_of_part))
    counts = Counter(word.partition(":")[0] for word in found.values())
    print(dict(counts))
    wrong = {name: word for name, word in found.items() if word != "equal"}
    assert {name: word for name, word in wrong.items() if not word.startswith("refused: ")} == {}
    assert counts["equal"] >= 0.8 * _EQUAL[framework] / _PARTS


@pytest.mark.parametrize("framework", _EQUAL)
def test_every_record_is_of_a_case_of_the_table(framework: str) -> None:
    _need(framework)
    _, known = matrix.table_of(framework)
    assert matrix.recorded(framework).keys() <= known.keys()


def test_another_number_is_noticed() -> None:
    case = matrix.Case("x", "x", (), False, 4)
    whole = np.array([1, 255], np.uint8)
    assert matrix.difference(case, [whole], [whole.view(np.int8)]) == ""
    assert "127, expected 255" in matrix.difference(case, [whole], [np.array([1, 127], np.int8)])
    real = np.array([np.nan, np.inf, 1, 0], np.float32)
    near = np.array([np.nan, np.inf, 1 + 2**-22, -0.0], np.float32)
    assert matrix.difference(case, [real], [near]) == ""
    for place, number in enumerate((0, 3e38, 1 + 2**-20, 1e-30)):
        other = real.copy()
        other[place] = number
        assert f"at ({place},)" in matrix.difference(case, [real], [other])
