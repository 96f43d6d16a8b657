"""Branches, loops and states."""

from __future__ import annotations

from frontends.tflite_models import OperatorRow, Subgraph, TensorRow
from frontends.tflite_operators.programs import Program, Programs, one
from frontends.tflite_operators.values import Given


def branches() -> Programs:
    """IF with a branch of each kind."""
    for dtype in ("float32", "int32"):
        program = Program("IF", dtype)
        flag, x = program.input("bool", ()), program.input(dtype, (2, 3))
        rows = [TensorRow("a", dtype, (2, 3)), TensorRow("b", dtype, (2, 3))]
        for operator in ("ABS", "NEG"):
            program.others.append(Subgraph(rows, [OperatorRow(operator, (0,), (1,))], [0], [1]))
        options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
        yield program.returns(program.apply("IF", [flag, x], (dtype, (2, 3)), **options))


def loops() -> Programs:
    """WHILE that counts, and that changes a tensor in each round."""
    for dtype in ("float32", "int32"):
        program = Program("WHILE", dtype)
        start, x = program.input("int32", (), between=(0, 3)), program.input(dtype, (2, 3))
        counter = TensorRow("i", "int32", ())
        state = TensorRow("s", dtype, (2, 3))
        condition = Subgraph(
            [counter, state, _number("n", "int32", 5), TensorRow("less", "bool", ())],
            [OperatorRow("LESS", (0, 2), (3,))],
            [0, 1],
            [3],
        )
        body = Subgraph(
            [
                *(counter, state, _number("one", "int32", 1), TensorRow("next", "int32", ())),
                *(_number("two", dtype, 2), TensorRow("changed", dtype, (2, 3))),
            ],
            [OperatorRow("ADD", (0, 2), (3,)), OperatorRow("SUB", (1, 4), (5,))],
            [0, 1],
            [3, 5],
        )
        program.others += [condition, body]
        options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
        rows = [("int32", ()), (dtype, (2, 3))]
        yield program.returns(program.apply("WHILE", [start, x], *rows, **options))


def _number(name: str, dtype: str, value: int) -> TensorRow:
    import numpy as np

    return TensorRow(name, dtype, (), np.array(value, dtype))


def states() -> Programs:
    """Yield a variable that is read, and written, in one call."""
    program = Program("ASSIGN_VARIABLE", "float32")
    x = program.input("float32", (2, 3))
    (handle,) = program.apply("VAR_HANDLE", [], ("resource", ()), shared_name="total")
    initial = program.constant([[1, 2, 3], [4, 5, 6]], "float32")
    program.apply("ASSIGN_VARIABLE", [handle, initial])
    (before,) = program.apply("READ_VARIABLE", [handle], ("float32", (2, 3)))
    (total,) = program.apply("ADD", [x, before], ("float32", (2, 3)))
    program.apply("ASSIGN_VARIABLE", [handle, total])
    yield program.returns([total])


def arguments() -> Programs:
    """Iterate over the shape that two shapes have together."""
    yield one("BROADCAST_ARGS", "int32", [("int32", (2,))] * 2, ("int32", (2,)), between=(1, 1))
    given: Given = [("int32", (1,))]
    row = [[3, 1, 2]]
    yield one("BROADCAST_ARGS", "ranks", given, ("int32", (3,)), constants=row, between=(2, 2))
