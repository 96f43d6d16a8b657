"""The names of the tensors that stand for variables survive a trip through MLIR."""

from __future__ import annotations

import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.graph import Graph
from tosa_convert.io.options import BYTECODE_VERSIONS


def counter(*names: str) -> Graph:
    builder = Builder("net")
    x = builder.input("x", "fp32", (2,))
    for name in names:
        state = builder.variable(name, "fp32", (2,), initial=0.0)
        x = builder.add(builder.read(state), x)
        builder.write(state, x)
    builder.output(x, name="y")
    return builder.graph()


def variables(graph: Graph) -> list[str]:
    return sorted(tensor.name for tensor in graph.main.tensors.values() if tensor.variable)


@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
def test_names_are_in_bytecode_of_every_version(version: int) -> None:
    made = counter("total", "count")
    data = tc.dumps(made, "mlirbc", bytecode_version=version, verify=True)
    assert variables(tc.load(data)) == variables(made) == ["count", "total"]


@pytest.mark.parametrize("generic", [False, True])
def test_names_are_in_text(generic: bool) -> None:
    pytest.importorskip("torch_mlir", reason="parses MLIR text")
    made = counter("total", "count")
    assert variables(tc.load(tc.dumps(made, "mlir", generic=generic, verify=True))) == variables(
        made
    )


def test_generated_names_are_not_written() -> None:
    generated = tc.load(tc.dumps(counter("state"), "mlirbc", names="generate"))
    assert variables(generated) == ["Variable_0"]
    attribute = b"tosa.tensor_name"
    with_names = tc.dumps(counter("state"), "mlirbc").count(attribute)
    assert with_names == tc.dumps(generated, "mlirbc").count(attribute) == 1
    assert b"Variable_0" not in tc.dumps(generated, "mlirbc")


@pytest.mark.parametrize("size", [0, -1, 3])
def test_the_sizes_of_a_variable_are_carried(size: int) -> None:
    made = counter("state")
    for tensor in made.main.tensors.values():
        tensor.shape = (2, size)
        tensor.data = None
    again = tc.load(tc.dumps(made, "mlirbc", validate=False))
    assert tc.compare(made, again, names=True) is None
