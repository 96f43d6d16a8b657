from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rewrites.programs import rewritten, run, single

import tosa_convert as tc
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import CONST

NAME = "narrow-integers"


@pytest.mark.usefixtures("refmodel")
def test_a_constant_that_is_converted_twice_leaves_no_tensor_behind() -> None:
    """The second conversion becomes the first; the reference model refuses tensors of no operator."""
    graph = single("GREATER", [("int16", (3,)), ("int16", (1,))], ("bool", (3,)))
    main = graph.main
    (greater,) = (op for op in main.operators if op.inputs)
    zero = constant_of(np.zeros(1), dtype("INT16"))
    main.tensors["x1"] = replace(main.tensors["x1"], data=zero)
    main.operators.insert(0, Operator(CONST, (), ("x1",), {}))
    main.inputs.remove("x1")
    main.tensors["z"] = replace(main.tensors["y"], name="z")
    main.operators.append(replace(greater, outputs=("z",)))
    main.outputs.append("z")
    made, _ = tc.rewrites.apply(graph)
    used = {name for op in made.main.operators for name in (*op.inputs, *op.outputs)}
    assert set(made.main.tensors) == used
    found = run(made, x0=np.array([-1, 0, 1], np.int16))
    assert [row.tolist() for row in found.values()] == [[False, False, True]] * 2


def test_operands_of_different_types_stay() -> None:
    graph = single("ADD", [("int8", (2,)), ("int16", (2,))], ("int8", (2,)))
    assert rewritten(graph, NAME)[0] is graph
