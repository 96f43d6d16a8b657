"""Any sound graph survives the round trip through a file."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roundtrip.graphs import USABLE, graphs

from tosa_convert.formats.flatbuffer.read import read
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import Graph, OperatorSpec, compare, verify

QUICK = settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def encode(made: Graph, **options: Any) -> bytes:
    assert made.producer is not None
    return b"".join(plan(made, made.producer, **options).pieces())


def check(made: Graph, *, out_of_line: bool) -> None:
    assert verify(made) == []
    data = encode(made, out_of_line=out_of_line)
    assert encode(made, out_of_line=out_of_line) == data
    found = read(data)
    assert verify(found) == []
    assert compare(made, found, locations=True, version=True) is None
    assert compare(found, made, locations=True, version=True) is None
    assert found.producer == made.producer
    # `compare` skips this: all listed values, and the data of values that are not constants.
    for one, other in zip(made.regions, found.regions, strict=True):
        block, again = one.blocks[0], other.blocks[0]
        assert list(block.tensors) == list(again.tensors)
        assert list(block.shapes) == list(again.shapes)
        for name, value in block.tensors.items():
            copy = again.tensors[name]
            assert (value.dtype, value.shape, value.variable) == (
                copy.dtype,
                copy.shape,
                copy.variable,
            )
            assert value.variable_name == copy.variable_name
            if value.data is not None and value.data.count:
                assert copy.data is not None
                assert value.data.same_bits(copy.data)
    assert encode(found, out_of_line=out_of_line) == data


@pytest.mark.slow
@QUICK
@given(graphs(), st.booleans())
def test_a_graph_survives_exactly(made: Graph, out_of_line: bool) -> None:
    check(made, out_of_line=out_of_line)


@pytest.mark.parametrize("spec", USABLE, ids=str)
def test_every_operator_survives_exactly(spec: OperatorSpec) -> None:
    @settings(QUICK, max_examples=2, derandomize=True, database=None)
    @given(graphs([spec, spec]))
    def survives(made: Graph) -> None:
        assert [operator.spec for operator in made.main.operators] == [spec, spec]
        check(made, out_of_line=False)

    survives()


@pytest.mark.slow
@settings(QUICK, max_examples=30)
@given(graphs())
def test_data_moves_after_the_flatbuffer_and_back_without_a_difference(made: Graph) -> None:
    inside = encode(made, out_of_line=False)
    after = encode(read(inside), out_of_line=True)
    assert encode(read(after), out_of_line=False) == inside
