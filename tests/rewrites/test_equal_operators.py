"""equal-operators: what is computed twice is computed once."""

from __future__ import annotations

from rewrites.programs import kinds, program, rewritten

from tosa_convert.builder import Builder, Value

NAME = "equal-operators"


def test_equal_operators_become_one_and_then_those_that_take_them() -> None:
    def build(b: Builder) -> Value:
        x, y = b.input("x", "fp32", (2, 3)), b.input("z", "fp32", (2, 3))
        return b.mul(b.tanh(b.add(x, y)), b.tanh(b.add(x, y)))

    made, report = rewritten(program(build), NAME)
    assert kinds(made) == ["ADD", "TANH", "MUL"]
    assert report.count(NAME) == 2


def test_other_operands_their_order_and_other_attributes_make_others() -> None:
    def build(b: Builder) -> tuple[Value, ...]:
        x, y = b.input("x", "fp32", (3, 3)), b.input("y", "fp32", (3, 3))
        turned = b.reverse(x, axis=0), b.reverse(x, axis=1)
        return *turned, b.sub(x, y), b.sub(y, x)

    graph = program(build)
    assert rewritten(graph, NAME)[0] is graph


def test_two_results_of_the_program_stay_two_values() -> None:
    graph = program(lambda b: (b.abs(x := b.input("x", "fp32", (2,))), b.abs(x)))
    made, _ = rewritten(graph, NAME)
    assert kinds(made) == ["ABS", "IDENTITY"]
    assert made.main.outputs == ["y0", "y1"]
