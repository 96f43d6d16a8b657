"""The shapes that a user gives for the arguments of a program."""

from __future__ import annotations

import pytest
from refusing import error_of
from unit.building import graph, op, shape, tensor

import tosa_convert as tc
from tosa_convert.graph import Graph
from tosa_convert.rules.infer import resolved

D = -1


def program() -> Graph:
    shapes = {"x": (D, 3), "y": (8, D), "u": None, "z": (D, 3)}
    values = [tensor(name, shape=sizes) for name, sizes in shapes.items()]
    return graph("x y u", "z", values, [op("ABS", "x", "z")])


def messages(**shapes: tuple[int | str, ...]) -> list[str]:
    return [finding.message for finding in error_of(resolved, program(), shapes).findings]


def test_a_symbol_gets_its_value_from_a_declared_size() -> None:
    assert resolved(program(), {"y": ("B", 2), "x": ("B", 3)}) == {"y": (8, 2), "x": (8, 3)}


def test_a_symbol_gets_its_value_from_an_entry_of_its_own() -> None:
    given: dict[str, tuple[int | str, ...]] = {"x": ("N", 3), "u": ("N", "N"), "N": (5,)}
    assert resolved(program(), given) == {"x": (5, 3), "u": (5, 5)}


def test_a_symbol_without_a_value_and_a_question_mark_stay_open() -> None:
    assert resolved(program(), {"x": ("N", 3), "u": ("?", 2)}) == {"x": (D, 3), "u": (D, 2)}


def test_a_symbol_with_two_values_is_refused() -> None:
    assert messages(x=("B", 3), y=("B", 1), B=(4,)) == [
        'the size "B" is 4 by the value given and 8 by argument "y"'
    ]


def test_the_value_of_a_symbol_is_one_number() -> None:
    assert messages(x=("B", 3), B=(4, 4)) == [
        'the size "B" is given as [4, 4], expected one number'
    ]


def test_all_shapes_that_do_not_fit_are_reported_together() -> None:
    assert messages(x=(2, 4), y=(8,), u=(2**31,), absent=(1,)) == [
        'argument "x": the shape [2, 4] does not fit its shape [?, 3]',
        'argument "y": the shape [8] does not fit its shape [8, ?]',
        f'argument "u": the shape [{2**31}] has a dimension over {2**31 - 1}',
        'no argument is called "absent"',
    ]


def test_an_argument_has_one_shape() -> None:
    assert messages(x=(1, 3), arg0=(1, 3)) == ['argument "arg0": it has a shape already']


def test_a_negative_size_is_refused() -> None:
    assert messages(x=(-2, 3)) == ['argument "x": the shape [-2, 3] has a negative size']


def test_a_shape_argument_takes_no_shape() -> None:
    made = graph("n", "n", [shape("n", 2)], [])
    with pytest.raises(tc.TosaConvertError, match="it is a shape, not a tensor"):
        resolved(made, {"n": (2,)})


def test_a_size_is_a_number_a_symbol_or_open() -> None:
    assert messages(x=("1", 3), u=("", 2)) == [
        """argument "x": the shape [1, 3] has the size '1', expected a number, a symbol or "?\"""",
        """argument "u": the shape [, 2] has the size '', expected a number, a symbol or "?\"""",
    ]
