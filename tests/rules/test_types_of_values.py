"""The types of values, as the rules of operators see them."""

from __future__ import annotations

from unit.building import block, tensor

from tosa_convert.rules.operator_view import TypeTable


def test_types_of_plain_tensors_are_those_of_of_tensor() -> None:
    table = TypeTable()
    values = [tensor("x"), tensor("y", "INT8", None), tensor("z", shape=())]
    types = table.of_block(block("x y z", "", values, [], "main"))
    again = table.of_block(block("x y z", "", values, [], "main"))
    for value in values:
        assert types[value.name] is table.of_tensor(value, with_data=False) is again[value.name]


def test_equal_types_are_one_object_and_different_types_are_not() -> None:
    table = TypeTable()
    values = [tensor("a"), tensor("b"), tensor("c", shape=(2, 4)), tensor("d", "INT32")]
    a, b, c, d = table.of_block(block("a b c d", "", values, [], "main")).values()
    assert a is b
    assert len({a, c, d}) == 3
