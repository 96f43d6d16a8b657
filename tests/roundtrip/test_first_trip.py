"""A program that Python makes has the bytes of the one that comes back from MLIR."""

from __future__ import annotations

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.graph import Graph, Operator
from tosa_convert.io.formats import Format


def assert_stable(graph: Graph, form: Format) -> None:
    """The bytes of a file are those of the program that was in another format meanwhile."""
    assert tc.dumps(graph) == tc.dumps(tc.load(tc.dumps(graph, form)))


def scale() -> Graph:
    """Return a program with what files pad or sort: short constants, bounds, shapes, variables."""
    b = Builder("scale")
    x = b.input("x", "int8", (1, 3))
    count = b.variable("count", "int32", (), initial=0)
    last = b.variable("last", "int8", (1, 3))
    b.write(count, b.add(b.read(count), 1))
    b.write(last, x)
    y = b.clamp(b.rescale(x, 1 << 30, 30, dtype="int16"), min_val=-5, max_val=7)
    y = b.mul(y, np.array([[1, 2, 3]], np.int16), dtype="int32")
    b.output(b.reshape(b.concat([y, y], axis=1), (3, 2)), name="a")
    return b.graph()


@pytest.mark.parametrize("form", ["mlirbc", "mlir"])
def test_a_built_program_has_the_bytes_of_its_module(form: Format) -> None:
    assert_stable(scale(), form)


@pytest.mark.parametrize("form", ["mlirbc", "mlir"])
def test_scales_of_a_constant_are_not_padded(form: Format) -> None:
    b = Builder("main")
    data, scales = np.ones((1, 64), np.float32), np.ones((1, 2), np.float32)
    b.output(b.const(data, "FP8E4M3", scales=scales))
    graph = b.graph()
    (tensor,) = graph.main.tensors.values()
    assert tensor.scale is not None
    assert tensor.scale.data is not None
    # `tosa-opt` counts them: "expected 2, got 8".
    assert tensor.scale.data.padding == 0
    assert_stable(graph, form)


@pytest.mark.parametrize("seed", [4, 7, 11])
def test_a_random_program_has_the_bytes_of_its_module(seed: int) -> None:
    assert_stable(tc.generate(seed, 12), "mlirbc")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_random_programs_have_the_bytes_of_their_modules(seed: int) -> None:
    for form in ("mlirbc", "mlir"):
        assert_stable(tc.generate(seed, 15), form)


def test_a_rewritten_program_has_the_bytes_of_its_module() -> None:
    def doubled(op: Operator, edit: tc.edit.BlockEditor) -> None:
        if op.spec.name == "MUL":
            two = edit.number(2, like=op.outputs[0])
            edit.emit("MUL", [edit.emit("MUL", op.inputs[:2], dtype="int32"), two])

    assert_stable(tc.edit.rewrite(scale(), doubled), "mlirbc")


def test_a_renamed_program_has_the_bytes_of_its_module() -> None:
    assert_stable(tc.rename(scale(), ["z"], ["b"]), "mlirbc")
