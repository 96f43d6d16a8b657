"""The route of JAX through TFLite, without its packages: names, places, and the order of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model
from unit.building import example

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.jax.source import place_of_location, scope_of, unused
from tosa_convert.frontends.process.request import Interface
from tosa_convert.frontends.tflite.edit_bytes import in_order
from tosa_convert.frontends.tflite.read import read_tflite
from tosa_convert.frontends.unlowered import leftover_rows, line_of, with_places

SHAPE = (1, 2)


def two(inputs: list[str], outputs: list[str]) -> bytes:
    """ABS of the first input and NEG of the second."""
    tensors = [TensorRow(name, "float32", SHAPE) for name in ("x", "y", "a", "b")]
    operators = [OperatorRow("ABS", (0,), (2,)), OperatorRow("NEG", (1,), (3,))]
    return model(tensors, operators, [0, 1], [2, 3], signature=(inputs, outputs))


def names(data: bytes) -> tuple[list[str], list[str]]:
    found = read_tflite(data)
    return [found.input_name(tensor) for tensor in found.inputs], found.output_names


def test_arguments_and_results_are_found_by_the_signature() -> None:
    data = two(["in1", "in0"], ["out1", "out0"])
    assert names(data) == (["in1", "in0"], ["out1", "out0"])
    ordered = in_order(data, ["in0", "in1"], ["out0", "out1"])
    assert names(ordered) == (["in0", "in1"], ["out0", "out1"])
    found = read_tflite(ordered)
    assert [found.tensors[tensor].name for tensor in found.inputs] == ["y", "x"]
    assert [found.tensors[tensor].name for tensor in found.outputs] == ["b", "a"]
    assert in_order(ordered, ["in0", "in1"], ["out0", "out1"]) == ordered


def test_a_signature_with_other_names_is_refused() -> None:
    with pytest.raises(TosaConvertError, match="has the inputs") as caught:
        in_order(two(["in0", "other"], ["out0", "out1"]), ["in0", "in1"], ["out0", "out1"])
    assert caught.value.code == "frontend-failed"


CALLS = 'callsite("f"("/home/net.py":7:17) at "<module>"("/home/net.py":90:1))'


@pytest.mark.parametrize(
    ("location", "scope"),
    [
        (f'loc("jit(main)/head/mul"({CALLS}))', "head/mul"),
        (f'loc(callsite("max" at "jit(main)/head/jit(relu)"({CALLS})))', "head/max"),
        (f'loc(fused["jit(main)/add"({CALLS}), "jit(main)/mul"({CALLS})])', "add"),
        (f'loc("jit(main)/jit(<lambda>)/Dense_0/dot_general"({CALLS}))', "Dense_0/dot_general"),
        ("loc(unknown)", ""),
        (f"loc({CALLS})", ""),
    ],
)
def test_the_scope_is_in_the_name(location: str, scope: str) -> None:
    assert scope_of(location) == scope


def test_the_place_is_the_innermost_call_of_the_user() -> None:
    frozen = 'callsite("call"("<frozen runpy>":9:1) at '
    place = place_of_location(f'loc("jit(main)/mul"({frozen}{CALLS})))')
    assert (place.scope, place.file, place.line) == ("mul", "/home/net.py", 7)
    assert place_of_location('loc("jit(main)/mul")').file == ""


def test_names_are_given_once() -> None:
    taken: set[str] = set()
    assert [unused(name, taken) for name in ("a", "a", "a_1", "a")] == ["a", "a_1", "a_1_1", "a_2"]


@pytest.mark.parametrize(("has_full_paths", "file"), [(True, "/home/net.py"), (False, "net.py")])
def test_locations_have_the_places_of_the_source(has_full_paths: bool, file: str) -> None:
    graph = example()
    graph.main.operators[
        0
    ].location = 'loc(fused["head/a"("m.tflite":0:0), "other"("m.tflite":0:0)])'
    places = {"head/a": 'loc("head/abs"("/home/net.py":9:0))'}
    found = with_places(graph, places, has_full_paths=has_full_paths)
    expected = f'loc(fused["head/abs"("{file}":9:0), "other"("m.tflite":0:0)])'
    assert found.main.operators[0].location == expected


def test_what_stayed_is_named_with_its_line() -> None:
    class Stayed:
        name = "tfl.cumsum"
        where = 'loc("head/a"("m.tflite":0:0))'

    place = 'loc("head/cumsum"("/home/net.py":9:0))'
    assert line_of(place) == "/home/net.py:9"
    (row,) = leftover_rows([Stayed()], {"head/a": 3}, {"head/a": place})
    assert (row.operator, row.where, row.index) == ("CUMSUM", "/home/net.py:9", 3)
    (row,) = leftover_rows([Stayed()], {"head/a": 3})
    assert row.where == 'operator 3, which makes "head/a"'


def test_places_are_part_of_the_interface(tmp_path: Path) -> None:
    interface = Interface(places={"a": "loc(unknown)"})
    assert Interface.from_json(interface.to_json()) == interface
