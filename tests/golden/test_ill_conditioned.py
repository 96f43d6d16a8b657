"""Outputs about which a framework itself errs: which elements are accepted, and which are not."""

from __future__ import annotations

import numpy as np
import pytest

from tosa_convert.golden import Comparison, compare
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.models.compare_model import excused


def judged(program: Array, framework: Array, exact: Array) -> Comparison:
    def again(given: dict[str, Array]) -> Comparison:
        return compare({"y": program}, given)

    found = again({"y": framework})
    assert not found.ok
    return excused(found, {"y": program}, {"y": framework}, {"y": exact}, "torch", again)


def arrays(**places: tuple[float, float, float]) -> tuple[Array, Array, Array]:
    """Return ones with other values of the program, of torch in FP32 and of torch in FP64 in places."""
    found = np.ones((3, 2, 4), np.float32)
    for place, values in places.items():
        found[:, int(place[1]), int(place[2])] = values
    return found[0], found[1], found[2]


@pytest.mark.parametrize(
    ("places", "is_ok"),
    [
        pytest.param({"p00": (19, 11, 1)}, True, id="where torch errs"),
        pytest.param({"p00": (1, 11, 1)}, True, id="torch alone errs"),
        pytest.param({"p00": (23, 11, 1)}, False, id="more than twice as far"),
        pytest.param({"p00": (1, 11, 1), "p13": (20, 1, 1)}, False, id="in another row"),
        pytest.param({"p00": (1, 11, 1), "p01": (2, 1, 1)}, False, id="beside it"),
        pytest.param({"p00": (np.nan, 11, 1)}, False, id="NaN"),
        pytest.param({"p00": (5, np.nan, 1)}, False, id="a number where torch has NaN"),
        pytest.param({"p00": (5, np.inf, 1)}, False, id="a number where torch overflows"),
        pytest.param({"p00": (np.nan, 5, np.nan)}, True, id="NaN as in FP64"),
        pytest.param({"p00": (5, 7, np.nan)}, False, id="nothing is near NaN"),
    ],
)
def test_an_element_is_accepted_only_where_torch_itself_errs(
    places: dict[str, tuple[float, float, float]], is_ok: bool
) -> None:
    assert judged(*arrays(**places)).ok == is_ok


def test_a_wrong_element_beside_ill_conditioned_ones_is_named() -> None:
    found = judged(*arrays(p00=(19, 11, 1), p02=(2, 3, 1), p13=(5, 1, 1)))
    (row,) = found.tensors
    assert (row.ok, row.differing, row.failing) == (False, 3, 1)
    assert (row.worst, row.expected, row.found) == ((1, 3), 5, 1)
    assert row.note == (
        "ill-conditioned, and accepted: 2 elements, for which torch in FP32 differs from torch in FP64 "
        "and the program at most 2 times as much; the worst is at [0, 0]: program 19.0, torch in FP32 "
        "11.0, in FP64 1.0"
    )


def test_a_bug_where_torch_does_not_err_is_no_matter_of_condition() -> None:
    (row,) = judged(*arrays(p13=(5, 1, 1))).tensors
    assert not row.ok
    assert row.note == "torch in FP32 is right about what fails, compared with torch in FP64"


@pytest.mark.parametrize(
    ("program", "is_ok"),
    [
        pytest.param([0, 1, 2, 3, 4, 5], True, id="as torch in FP64"),
        pytest.param([1, 2, 0, 3, 4, 5], True, id="a third order"),
        pytest.param([1, 1, 0, 3, 4, 5], False, id="an index twice"),
        pytest.param([2, 7, 0, 3, 4, 5], False, id="an index of another place"),
        pytest.param([2, 0, 1, 4, 3, 5], False, id="where torch has one order"),
    ],
)
def test_indices_may_be_in_another_order_where_that_of_torch_changes(
    program: list[int], is_ok: bool
) -> None:
    exact, framework = np.arange(6, dtype=np.int32), np.array([2, 0, 1, 3, 4, 5], np.int32)
    other = np.array([1, 0, 3, 2, 5, 4], np.int32)  # its order changes everywhere
    rows = [np.stack(pair) for pair in ((program, exact), (framework, other), (exact, exact))]
    found = judged(*(np.asarray(row, np.int32) for row in rows))
    assert found.ok == is_ok


def test_a_boolean_is_accepted_where_that_of_torch_changes() -> None:
    program, framework, exact = (np.array(row, bool) for row in ([1, 0], [0, 0], [1, 0]))
    assert judged(program, framework, exact).ok
    assert not judged(exact, ~exact, np.array([1, 1], bool)).ok
