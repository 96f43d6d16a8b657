from __future__ import annotations

import numpy as np
import pytest

from tosa_convert import refmodel
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph, Operator, dtype, operator, verify
from tosa_convert.graph.extract import computed_tensors, extract
from tosa_convert.refmodel.arrays import Slot, constant_of


def kinds(graph: Graph) -> list[str]:
    return [op.spec.name for op in graph.main.operators]


def test_a_cut_keeps_what_the_outputs_need_and_nothing_else(chain: Graph) -> None:
    part = extract(chain, ["a"])
    assert kinds(part) == ["ABS"]
    assert part.main.inputs == ["x"]
    assert set(part.main.tensors) == {"x", "a"}
    assert verify(part) == []
    assert part.main.operators[0].location == 'loc("a")'


def test_what_becomes_an_input_is_not_computed(chain: Graph) -> None:
    part = extract(chain, ["c"], ["b"])
    assert kinds(part) == ["SUB"]
    assert part.main.inputs == ["x", "b"]
    assert verify(part) == []
    one = extract(chain, ["b"], ["a"])
    assert kinds(one) == ["CONST", "ADD"]
    assert one.main.inputs == ["a"]


def test_the_graph_that_is_cut_stays_as_it_was(chain: Graph) -> None:
    before = (list(chain.main.inputs), kinds(chain), list(chain.main.tensors))
    extract(chain, ["a"])
    assert before == (list(chain.main.inputs), kinds(chain), list(chain.main.tensors))


def test_an_unknown_name_is_refused_with_a_guess(builder) -> None:
    b = builder()
    b.input("image", "INT32", (1,))
    b.op("ABS", ["image"], "logits", "INT32", (1,))
    with pytest.raises(TosaConvertError, match='did you mean "logits"') as caught:
        extract(b.graph("logits"), ["logit"])
    assert caught.value.code == "undefined-name"


def test_an_input_nothing_depends_on_is_refused(chain: Graph) -> None:
    with pytest.raises(TosaConvertError, match='no output depends on "c"'):
        extract(chain, ["a"], ["c"])
    with pytest.raises(TosaConvertError, match="needs an output"):
        extract(chain, [])


def test_a_shape_cannot_be_an_input(builder) -> None:
    b = builder()
    b.input("x", "INT32", (4,))
    b.shape("s", [2, 2])
    b.op("RESHAPE", ["x", "s"], "y", "INT32", (2, 2))
    with pytest.raises(TosaConvertError, match='"s" is a shape'):
        extract(b.graph("y"), ["y"], ["s"])
    assert set(extract(b.graph("y"), ["y"]).main.shapes) == {"s"}


def test_a_read_keeps_the_write_before_it(builder) -> None:
    b = builder()
    b.input("x", "INT32", (1,))
    data = constant_of(Slot("v", "v", dtype("INT32"), (1,)), np.array([5], np.int32))
    b.tensor("v", "INT32", (1,), data=data, variable=True)
    b.block.operators.append(Operator(operator("VARIABLE_WRITE"), ("x",), ("v",)))
    b.op("VARIABLE_READ", ["v"], "now", "INT32", (1,))
    b.op("ABS", ["x"], "other", "INT32", (1,))
    graph = b.graph("now", "other")
    part = extract(graph, ["now"])
    assert kinds(part) == ["VARIABLE_WRITE", "VARIABLE_READ"]
    assert verify(part) == []
    assert kinds(extract(graph, ["other"])) == ["ABS"]


def test_constants_are_not_among_the_computed(chain: Graph) -> None:
    assert computed_tensors(chain) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.usefixtures("refmodel")
def test_a_cut_computes_what_the_whole_computes(chain: Graph) -> None:
    x = np.array([3, -4, 0, 7], np.int32)
    b = refmodel.run(extract(chain, ["b"]), {"x": x}).outputs["b"]
    rest = refmodel.run(extract(chain, ["c"], ["b"]), {"x": x, "b": b}).outputs["c"]
    assert rest.tolist() == refmodel.run(chain, {"x": x}).outputs["c"].tolist()
