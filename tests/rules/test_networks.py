"""Networks that are written with the builder."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from rules.network_by_hand import residual_block_by_hand
from rules.networks import residual_block

import tosa_convert as tc


def lines(function: Callable[[], tc.Graph]) -> int:
    return len(inspect.getsource(function).splitlines())


def test_the_builder_takes_at_most_a_third_of_the_lines() -> None:
    assert 3 * lines(residual_block) <= lines(residual_block_by_hand)
