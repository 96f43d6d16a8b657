"""Open sizes, empty constants, and the -1 that MLIR accepts in the sizes of RESHAPE and SLICE."""

from __future__ import annotations

from unit.building import graph, op, shape, tensor

from tosa_convert.graph import Graph, ShapeValue
from tosa_convert.graph.static_shapes import (
    make_placeholders_static,
)


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


def test_sizes_that_are_returned_or_used_elsewhere_are_kept() -> None:
    made = reshaping()
    made.main.outputs.append("second")
    made.main.tensors["b"].shape = None
    made.main.shapes["first_settled"] = ShapeValue("first_settled", 0)
    make_placeholders_static(made)
    assert sizes_of(made) == {"a": (3, 8), "b": (3, -1), "c": (2, 6), "d": (24,)}
    assert {"second", "first_settled_1"} <= made.main.shapes.keys()
    assert not {"first", "size"} & made.main.shapes.keys()
