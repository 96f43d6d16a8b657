"""Programs built operator by operator."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import error_of

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.builder.calls import APART
from tosa_convert.graph import Graph, dtype
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.qualify.random_graphs.generate import RULES


def refusal(call: Any, *args: Any, **kwargs: Any) -> tc.Finding:
    return error_of(call, *args, **kwargs).findings[0]


def test_every_operator_is_a_function_or_has_a_reason() -> None:
    for spec in OPERATORS:
        assert hasattr(Builder, spec.name.lower()) or spec.name in APART, spec


def test_the_stub_has_the_signatures_of_the_functions(root: Path) -> None:
    command = [sys.executable, str(root / "schema" / "generate_stubs.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run schema/generate_stubs.py"


def test_arguments_have_the_names_of_the_operator_table() -> None:
    for spec in OPERATORS:
        if spec.name not in APART:
            names = inspect.signature(getattr(Builder, spec.name.lower())).parameters.keys()
            operands = [row.name for row in spec.operands]
            assert {*operands, *(row.name for row in spec.attributes)} <= names


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (0, ()),
        (1, ()),
        (1, ("output_zp", "kernel")),
        (2, ("input_zp", "kernel")),
        (4, ("kernel",)),
        (5, ("kernel",)),
        (0, ("input", "kernel", "pad", "name")),
        (1, ("kernel", "no_such")),
        (1, ("no_such",)),
    ],
)
def test_arguments_are_bound_as_python_binds_them(args: int, kwargs: tuple[str, ...]) -> None:
    b = Builder()
    known: dict[str, Any] = {"kernel": (1, 1), "pad": (0, 0, 0, 0), "name": "y"}
    given = {name: known.get(name, 0) for name in kwargs}
    operands: list[Any] = [b.input("x", "int8", (1, 2, 2, 1)), 0, 0, 0, 0][:args]
    if "input" in given:
        given["input"] = b.input("other", "int8", (1, 2, 2, 1))
    accepts = True
    try:
        inspect.signature(b.avg_pool2d).bind(*operands, **given)
    except TypeError:
        accepts = False
    if accepts:
        assert b.avg_pool2d(*operands, **given).dtype is dtype("INT8")
    else:
        with pytest.raises(TypeError, match="its arguments are input, input_zp"):
            b.avg_pool2d(*operands, **given)


def test_a_mistake_names_the_rule_and_adds_nothing() -> None:
    b = Builder("net")
    x = b.input("x", "fp32", (2, 3))
    found = refusal(b.add, x, np.ones((2, 4), np.float32))
    assert found.rule == "add-broadcast"
    assert found.where == 'region "net" block "main" operator #1 ADD'

    assert b._block.operators == []


@pytest.mark.parametrize("given", [int, float, complex, None])
def test_types_of_python_have_no_number_of_bits(given: Any) -> None:
    assert refusal(Builder("main").input, "x", given, (2,)).code == "unsupported-dtype"


def test_data_that_does_not_fit_is_refused() -> None:
    b = Builder()
    assert refusal(b.const, [300], "int8").code == "value-out-of-range"
    assert refusal(b.const, [0.5], "int8").message == "0.5 does not fit INT8"
    assert refusal(b.const, np.zeros(2)).code == "unsupported-dtype"
    assert refusal(b.input, "x", "f80", ()).code == "unsupported-dtype"


def test_a_name_that_is_taken_is_refused() -> None:
    b = Builder()
    x = b.input("x", "fp32", (2,))
    assert refusal(b.input, "x", "fp32", (2,)).code == "duplicate-name"
    assert refusal(b.abs, x, name="x").code == "duplicate-name"
    assert refusal(b.output, b.abs(x), name="x").code == "duplicate-name"
    assert refusal(b.output, b.abs(x), b.abs(x), name=("y", "y")).code == "duplicate-name"


def test_an_input_and_an_output_keep_their_names() -> None:
    b = Builder()
    x = b.input("x", "fp32", (2,))
    b.output(b.abs(x), name="y")
    y = b.graph().main.outputs[0]
    assert refusal(b.output, x, name="z").hint == "return a copy: output(identity(value), name='z')"
    b.output(x)
    assert b.graph().main.outputs == [y, "x"]


def test_variables_are_read_and_written() -> None:
    b = Builder()
    x = b.input("x", "fp32", (2,))
    state = b.variable("state", "fp32", (2,), initial=0.0)
    total = b.add(b.read(state), x)
    b.write(state, total)
    b.output(total, name="total")
    made = b.graph()
    assert tc.verify(made) == []
    assert [t.variable_name for t in made.main.tensors.values() if t.variable] == ["state"]
    kinds = [op.spec.name for op in made.main.operators]
    assert kinds == ["VARIABLE_READ", "ADD", "VARIABLE_WRITE"]
    assert tc.compare(made, tc.load(tc.dumps(made)), names=True) is None
    b.write(state, 1.5)
    assert refusal(b.write, state, np.ones(3, np.float32)).code == "data-length"
    assert refusal(b.write, state, b.reshape(x, (1, 2))).rule == "variable-write-variable-rank"
    assert refusal(b.variable, "state", "fp32", ()).code == "duplicate-name"


def test_a_region_uses_only_its_arguments() -> None:
    b = Builder()
    c, x = b.input("c", "bool", ()), b.input("x", "fp32", (4,))
    found = refusal(b.cond_if, c, [], lambda inner: inner.abs(x), lambda inner: inner.exp(x))
    assert found.code == "captured-value"


def test_branches_of_different_types_are_refused() -> None:
    b = Builder()
    c, x = b.input("c", "bool", ()), b.input("x", "fp32", (4,))
    found = refusal(b.cond_if, c, [x], lambda b, x: b.abs(x), lambda b, x: b.reshape(x, (2, 2)))
    assert found.rule.startswith("cond-if-")


@pytest.mark.parametrize("seed", range(12))
def test_a_program_built_again_is_the_same(seed: int) -> None:
    apart = {"COND_IF", "WHILE_LOOP", "VARIABLE_READ", "VARIABLE_WRITE"}
    program = golden.generate(seed, 30, kinds=[name for name in RULES if name not in apart])
    assert tc.compare(program, rebuilt(program), names=True) is None


def rebuilt(program: Graph) -> Graph:
    """Return the same program through the builder. It has neither variables nor further regions."""
    b = Builder(program.regions[0].name)
    block = program.main
    values = {}
    for name in block.inputs:
        tensor = block.tensors[name]
        values[name] = b.input(name, tensor.dtype, tensor.shape, scaled=tensor.scale is not None)
    for op in block.operators:
        if op.spec.name == "CONST":
            tensor = block.tensors[op.outputs[0]]
            assert tensor.data is not None
            values[tensor.name] = b._declare(tensor)
            b._block.operators.append(op)
        elif op.spec.name == "CONST_SHAPE":
            sizes = block.shapes[op.outputs[0]].values()
            assert sizes is not None
            values[op.outputs[0]] = b.const_shape(sizes, name=op.outputs[0])
        else:
            operands = [values[name] for name in op.inputs]
            dtypes = [block.tensors[name].dtype for name in op.outputs if name in block.tensors]
            results = b.apply(op.spec, operands, dict(op.attributes), dtypes, op.outputs)
            values |= {value.name: value for value in results}
            if op.location:
                b._block.operators[-1].location = op.location
    b.output(*(values[name] for name in block.outputs))
    return b.graph(version=program.version)
