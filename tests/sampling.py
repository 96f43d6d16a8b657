"""Parameters of a test of which every run takes only some; the others are marked `slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")


def one_in(number: int, values: Iterable[T]) -> list[T | ParameterSet]:
    """Return the parameters of a test: the first of every `number` runs always, the others are slow."""
    return [
        pytest.param(value, marks=pytest.mark.slow) if index % number else value
        for index, value in enumerate(values)
    ]
