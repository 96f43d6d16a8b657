"""Test that what frameworks keep between calls becomes variables of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from refusing import refused

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.frontends.process.request import STATE_FILE, Interface, State
from tosa_convert.frontends.read_result import with_states

COUNT = State(name="count", argument=0, result=1, array="s0")


def counting(dtype: DTypeName = "int32") -> tc.Graph:
    """Make a program (count, x) -> (count + x, new count)."""
    b = Builder("counting")
    count, x = b.input("old", dtype, (2,)), b.input("x", dtype, (2,))
    total = b.add(count, x)
    b.output(b.sub(total, x), name="y")
    b.output(total, name="new")
    return b.graph()


def test_a_state_of_opaque_bytes_has_the_type_of_the_program(tmp_path: Path) -> None:
    values = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.savez(tmp_path / STATE_FILE, s0=values.view("V2"))
    b = Builder()
    b.output(b.identity(b.input("old", "bf16", (2,))), name="new")
    graph = with_states(
        b.graph(),
        Interface(states=[State(name="kept", argument=0, result=0, array="s0")]),
        tmp_path,
    )
    (variable,) = (row for row in graph.main.tensors.values() if row.variable)
    assert variable.data is not None
    assert list(variable.data.values()) == [1.5, -2.0]


@pytest.mark.parametrize(
    ("arrays", "state", "code", "said"),
    [
        ({}, COUNT, "frontend-failed", "the state has no value"),
        ({"s0": np.zeros(3, np.int32)}, COUNT, "frontend-failed", "a value of the shape [3]"),
        ({"s0": np.array([2**40, 0])}, COUNT, "value-out-of-range", "the state has int64 values"),
        (
            {"s0": np.zeros(2, np.int32)},
            State(name="lost", argument=None, result=None, array="s0"),
            "frontend-failed",
            "neither reads nor writes it",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused(
    arrays: dict[str, Any], state: State, code: str, said: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / STATE_FILE, **arrays)
    with refused(code, said):
        with_states(counting(), Interface(states=[state]), tmp_path)


def test_states_that_cannot_be_read_are_an_error_of_the_frontend(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_bytes(b"no archive")
    with refused("frontend-failed", match="initial values of its states"):
        with_states(counting(), Interface(states=[COUNT]), tmp_path)
