"""Open sizes, empty constants, and the -1 that MLIR accepts in the sizes of RESHAPE and SLICE."""

from __future__ import annotations

import pytest
from unit.building import example, graph, op, shape, tensor

from tosa_convert.graph import Graph, ShapeValue, Tensor, verify
from tosa_convert.graph.static_shapes import (
    fill_empty_constants,
    has_open_sizes,
    make_placeholders_static,
    open_inputs,
)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((2, 3), None),
        ((), None),
        ((0, 3), None),
        ((-1, 3, -1, 32), "?x3x?x32"),
        ((-1,), "?"),
        (None, "?"),
    ],
)
def test_open_inputs_are_named_with_their_sizes(
    sizes: tuple[int, ...] | None, text: str | None
) -> None:
    made = graph("x y lost", "x", [tensor("x", shape=sizes), tensor("y")], [])
    assert list(open_inputs(made)) == ([("x", text)] if text else [])
    assert has_open_sizes(made) == bool(text)


def test_only_constants_without_elements_get_empty_data() -> None:
    values = [tensor("none", "INT8", (2, 0)), tensor("some"), tensor("open", shape=(-1,))]
    values += [tensor("x", shape=(0,)), tensor("given", shape=(1,), data=bytes(4))]
    shapes = [ShapeValue("no", 0), ShapeValue("sizes", 2), ShapeValue("input", 0), shape("one", 1)]
    operators = [op("CONST", "", name) for name in ("none", "some", "open", "given", "lost")]
    operators += [op("CONST_SHAPE", "", name) for name in ("no", "sizes", "one")]
    operators += [op("IDENTITY", "x", "x")]
    block = graph("x input", "", [*values, *shapes], operators).main
    before = block.tensors["given"].data, block.shapes["one"].data
    fill_empty_constants(block)
    assert (block.tensors["given"].data, block.shapes["one"].data) == before
    rows: list[Tensor | ShapeValue] = [*block.tensors.values(), *block.shapes.values()]
    filled = {
        row.name: (row.data.dtype.name, row.data.count, bytes(row.data.buffer))
        for row in rows
        if row.data is not None and row.data not in before
    }
    assert filled == {"none": ("INT8", 0, b""), "no": ("INT64", 0, b"")}


def reshaping() -> Graph:
    """Return two RESHAPE and a SLICE whose sizes have -1, one RESHAPE whose sizes have none."""
    return graph(
        "x z",
        "a b c d",
        [
            *(tensor("x", shape=(4, 6)), tensor("z", shape=(-1,))),
            *(tensor("a", shape=(3, 8)), tensor("b", shape=(3, 8))),
            *(tensor("c", shape=(2, 6)), tensor("d", shape=(24,))),
            *(shape("first", -1, 8), shape("second", 3, -1), shape("start", 0, 0)),
            *(shape("size", 2, -1), shape("flat", 24)),
        ],
        [
            *(op("CONST_SHAPE", "", name) for name in ("first", "second", "start", "size", "flat")),
            op("RESHAPE", "x first", "a", "here"),
            op("RESHAPE", "x second", "b", "there"),
            op("SLICE", "x start size", "c"),
            op("RESHAPE", "x flat", "d"),
        ],
    )


def sizes_of(made: Graph) -> dict[str, tuple[int, ...] | None]:
    """Return the sizes that each RESHAPE and SLICE takes, by its result."""
    block = made.main
    return {
        row.outputs[0]: block.shapes[row.inputs[-1]].values()
        for row in block.operators
        if row.spec.name in ("RESHAPE", "SLICE")
    }


def test_what_remains_is_the_size_of_the_result() -> None:
    made = reshaping()
    make_placeholders_static(made)
    assert sizes_of(made) == {"a": (3, 8), "b": (3, 8), "c": (2, 6), "d": (24,)}
    assert verify(made) == []
    block = made.main
    # Equal sizes are one value; the ones with -1 are gone, and others remain.
    new = [name for name in block.shapes if name.endswith("_settled")]
    assert new == ["first_settled", "size_settled"]
    assert [*block.shapes] == ["start", "flat", *new]
    assert [row.outputs[0] for row in block.operators] == [
        *("start", "flat", "first_settled", "a", "b", "size_settled", "c", "d")
    ]
    assert block.operators[2].location == "here"
    assert block.operators[6].inputs == ("x", "start", "size_settled")


def test_sizes_stay_where_the_result_does_not_say_them() -> None:
    made = reshaping()
    made.main.tensors["a"].shape = (-1, 8)
    made.main.tensors["b"].shape = None
    made.main.tensors["c"].shape = (2, 6, 1)
    made.main.outputs.append("first")
    before = [(row.spec, row.inputs, row.outputs) for row in made.main.operators]
    make_placeholders_static(made)
    assert [(row.spec, row.inputs, row.outputs) for row in made.main.operators] == before
    assert len(made.main.shapes) == 5


def test_sizes_that_are_returned_or_used_elsewhere_are_kept() -> None:
    made = reshaping()
    made.main.outputs.append("second")
    made.main.tensors["b"].shape = None
    made.main.shapes["first_settled"] = ShapeValue("first_settled", 0)
    make_placeholders_static(made)
    assert sizes_of(made) == {"a": (3, 8), "b": (3, -1), "c": (2, 6), "d": (24,)}
    assert {"second", "first_settled_1"} <= made.main.shapes.keys()
    assert not {"first", "size"} & made.main.shapes.keys()


def test_an_operand_that_is_not_known_is_left_alone() -> None:
    made = example()
    del made.main.shapes["to"]
    before = [row.inputs for row in made.main.operators]
    make_placeholders_static(made)
    assert [row.inputs for row in made.main.operators] == before
