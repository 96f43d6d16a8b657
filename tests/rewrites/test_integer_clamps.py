from __future__ import annotations

import numpy as np
import pytest
from rewrites.programs import kinds, rewritten, single

import tosa_convert as tc
from tosa_convert.graph import Graph
from tosa_convert.graph.dtypes import NanPropagationMode

NAME = "integer-clamps"


def clamp(element: str, low: int, high: int, padding: bytes = b"") -> Graph:
    return single(
        "CLAMP",
        [(element, (2, 3))],
        (element, (2, 3)),
        min_val=np.array(low, element).tobytes() + padding,
        max_val=np.array(high, element).tobytes() + padding,
        nan_mode=NanPropagationMode.PROPAGATE,
    )


@pytest.mark.parametrize("bounds", [(False, True), (False, False), (True, True)])
def test_a_clamp_of_bool_becomes_logical_operators(bounds: tuple[bool, bool]) -> None:
    graph = clamp("bool", *bounds)
    assert tc.validate(graph)
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["LOGICAL_OR", "LOGICAL_AND"]
    assert tc.validate(made) == []
    x = np.array([[0, 1, 1], [1, 0, 0]], bool)
    found = tc.golden.run(made, {"x0": x}, engine="numpy").outputs["y"]
    assert found.tolist() == np.clip(x, *bounds).tolist()


def test_bytes_after_a_bound_are_padding() -> None:
    made, _ = rewritten(clamp("int32", -3, 5, padding=b"\0\0\0\0"), NAME)
    numbers = {
        name: tensor.data.numpy().tolist()
        for name, tensor in made.main.tensors.items()
        if tensor.data is not None
    }
    assert numbers == {"y_min_val": [-3], "y_max_val": [5]}
