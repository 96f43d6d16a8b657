"""Networks that are written with the builder."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from rules.network_by_hand import residual_block_by_hand
from rules.networks import NETWORKS, residual_block

import tosa_convert as tc
from tosa_convert import golden


def lines(function: Callable[[], tc.Graph]) -> int:
    return len(inspect.getsource(function).splitlines())


@pytest.mark.parametrize("name", NETWORKS)
def test_tosa_allows_a_network(name: str) -> None:
    made = NETWORKS[name]()
    assert tc.validate(made) == []
    assert tc.compare(made, tc.load(tc.dumps(made)), names=True) is None


@pytest.mark.oracle
@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("name", NETWORKS)
def test_the_reference_model_runs_a_network(name: str) -> None:
    (result,) = golden.run(NETWORKS[name](), random=1).outputs.values()
    assert result.size > 1
    assert len(set(result.reshape(-1).tolist())) > 1


def test_a_network_by_hand_is_the_same_program() -> None:
    assert tc.compare(residual_block(), residual_block_by_hand(), names=True) is None


def test_the_builder_takes_at_most_a_third_of_the_lines() -> None:
    assert 3 * lines(residual_block) <= lines(residual_block_by_hand)
