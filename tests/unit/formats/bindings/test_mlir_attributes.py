"""Attributes of every kind: the value in the graph, and the same attribute in MLIR again."""

from __future__ import annotations

from typing import Any

import pytest
from unit.building import graph, op, tensor

from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph import Graph, compare, verify


def both_ways(bindings: Bindings, context: Any, made: Graph) -> None:
    assert verify(made) == []
    assert compare(made, read(write(made, bindings, context)), names=False) is None


@pytest.mark.parametrize("raw", [b"", b"\0", b'\xff\xfe\0"\\\n', bytes(range(256))])
def test_the_bytes_of_a_custom_operator_survive(
    bindings: Bindings, context: Any, raw: bytes
) -> None:
    operator = op(
        "CUSTOM", "x", "y", operator_name='né "q"', domain_name="", implementation_attrs=raw
    )
    made = graph("x", "y", [tensor("x"), tensor("y", shape=None)], [operator])
    both_ways(bindings, context, made)
