"""Branches, loops, sequences and functions of ONNX, lowered in this process, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.model import Graph

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

pytestmark = pytest.mark.quick

#: A body of Loop that adds what is around it to what it carries, and gives each sum.
BODY = """
(int64 i, bool going, float[2] carried) => (bool still, float[2] total, float[2] row) {
  still = Identity(going)
  total = Add(carried, x)
  row = Mul(total, total)
}"""
#: One that ends when the sum of what it carries is large.
UNTIL = """
(int64 i, bool going, float[2] carried) => (bool still, float[2] total) {
  limit = Constant<value = float {30}>()
  total = Add(carried, x)
  sum = ReduceSum<keepdims = 0>(total)
  still = Less(sum, limit)
}"""
#: One that counts, and takes the row at its own index.
COUNTS = """
(int64 i, bool going, float[2] carried) => (bool still, float[2] total) {
  still = Identity(going)
  row = Gather<axis = 0>(table, i)
  real = Cast<to = 1>(i)
  part = Mul(row, real)
  total = Add(carried, part)
}"""
STEP = """
(float[2] state, float[2] row) => (float[2] next, float[2] out) {
  next = Add(state, row)
  out = Mul(next, row)
}"""


def model(text: str, opset: int = 21) -> Any:
    """Return the model of a graph in ONNX's text."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}, "own" : 1]>\n'
    return onnx.parser.parse_model(head + text)


def program(given: Any) -> Graph:
    from tosa_convert.frontends.onnx.convert import lower_graph
    from tosa_convert.frontends.onnx.weights import Weights

    found = lower_graph(given, Weights(Path()), ("i64",))
    assert found.graph is not None, found.problems
    return found.graph


def operators(graph: Graph) -> set[str]:
    return {op.spec.name for _, block in graph.blocks() for op in block.operators}


def compare(given: Any, inputs: Sequence[Any], expected: set[str]) -> None:
    """Compare a model with its program, which has these operators."""
    import onnxruntime

    names = [info.name for info in given.graph.input]
    fed = dict(zip(names, inputs, strict=True))
    session = onnxruntime.InferenceSession(given.SerializeToString())
    wanted = session.run(None, fed)
    graph = program(given)
    assert expected <= operators(graph)
    found = tc.run(graph, fed, engine="numpy").outputs
    for want, got in zip(wanted, found.values(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


X = np.array([1.5, -0.25], np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(6, 2)
LONG = np.random.default_rng(0).normal(size=(1500, 2)).astype(np.float32)


@pytest.mark.parametrize("flag", [True, False])
def test_a_computed_condition_is_a_branch(flag: bool) -> None:
    text = """main (bool c, float[2] x) => (float[2] y) {
      twice = Add(x, x)
      y = If<then_branch = then () => (float[2] a) { a = Mul(twice, x) },
             else_branch = other () => (float[2] b) { b = Identity(x) }>(c)
    }"""
    compare(model(text), [np.array(flag), X], {"COND_IF"})


@pytest.mark.parametrize(
    ("text", "inputs", "expected"),
    [
        pytest.param(
            f"""main (float[2] x) => (float[2] y, float[3, 2] rows) {{
              n = Constant<value_int = 3>()
              t = Constant<value = bool {{1}}>()
              y, rows = Loop<body = b {BODY}>(n, t, x)
            }}""",
            [X],
            {"ADD", "CONCAT"},
            id="unrolled",
        ),
        pytest.param(
            f"""main (float[2] x) => (float[2] y, float[1000, 2] rows) {{
              n = Constant<value_int = 1000>()
              t = Constant<value = bool {{1}}>()
              y, rows = Loop<body = b {BODY}>(n, t, x)
            }}""",
            [X],
            {"WHILE_LOOP", "SCATTER"},
            id="long",
        ),
        pytest.param(
            f"""main (float[2] x, bool c) => (float[2] y) {{
              y = Loop<body = b {UNTIL}>(, c, x)
            }}""",
            [X, np.array(True)],
            {"WHILE_LOOP"},
            id="by a condition",
        ),
        pytest.param(
            f"""main (float[2] x, bool c) => (float[2] y) {{
              n = Constant<value_int = 3>()
              t = Constant<value = bool {{1}}>()
              y = Loop<body = b {UNTIL}>(n, t, x)
            }}""",
            [X, np.array(True)],
            {"WHILE_LOOP"},
            id="by a condition, a few times at most",
        ),
        pytest.param(
            f"""main (float[6, 2] table, float[2] x) => (float[2] y) {{
              n = Constant<value_int = 6>()
              t = Constant<value = bool {{1}}>()
              y = Loop<body = b {COUNTS}>(n, t, x)
            }}""",
            [TABLE, X],
            {"ADD", "MUL"},
            id="its index",
        ),
        pytest.param(
            f"""main (float[6, 2] rows, float[2] x) => (float[2] y, float[6, 2] z) {{
              y, z = Scan<num_scan_inputs = 1, scan_input_directions = [1], body = b {STEP}>(x, rows)
            }}""",
            [TABLE, X],
            {"ADD", "CONCAT"},
            id="scan",
        ),
        pytest.param(
            f"""main (float[1500, 2] rows, float[2] x) => (float[2] y, float[1500, 2] z) {{
              y, z = Scan<num_scan_inputs = 1, scan_output_directions = [1], body = b {STEP}>(x, rows)
            }}""",
            [LONG, X],
            {"ADD"},
            id="long scan",
        ),
    ],
)
def test_loops(text: str, inputs: Sequence[Any], expected: set[str]) -> None:
    compare(model(text), inputs, expected)


@pytest.mark.parametrize("trips", [3, 1000])
@pytest.mark.parametrize("body", ["still = Identity(x)", "still = Identity(going)"])
def test_rows_of_a_loop_that_a_condition_ends_are_refused(trips: int, body: str) -> None:
    from tosa_convert.frontends.onnx.convert import lower_graph
    from tosa_convert.frontends.onnx.weights import Weights

    given = model(f"""main (float[2] y, bool x) => (float[2] z, float[n, 2] rows) {{
      n = Constant<value_int = {trips}>()
      t = Constant<value = bool {{1}}>()
      z, rows = Loop<body = b (int64 i, bool going, float[2] carried) =>
        (bool still, float[2] total, float[2] row) {{
          {body}
          total = Add(carried, y)
          row = Identity(total)
        }}>(n, {"t" if "x" in body else "x"}, y)
    }}""")
    found = lower_graph(given, Weights(Path()))
    assert found.graph is None
    assert [row.reason for row in found.problems] == [
        "how often it runs is computed, and so is the size of its results"
    ]


def test_what_is_known_of_a_sequence_costs_no_operator() -> None:
    text = """main (float[6, 2] x) => (float[2, 2] y, int64 n) {
      two = Constant<value_int = 2>()
      one = Constant<value_int = 1>()
      parts = SplitToSequence<axis = 0>(x, two)
      n = SequenceLength(parts)
      y = SequenceAt(parts, one)
    }"""
    compare(model(text), [TABLE], {"SLICE"})


def test_a_function_of_the_model_gets_its_attributes() -> None:
    text = """main (float[2] x) => (float[2] y) { y = own.scaled<by = 3.0>(x) }
    <domain: "own", opset_import: ["" : 21]>
    scaled <by: float = 2.0> (a) => (b) {
      factor = Constant<value_float: float = @by>()
      b = Mul(a, factor)
    }"""
    compare(model(text), [X], {"MUL"})


def test_a_node_that_does_not_lower_is_named_with_its_place() -> None:
    from tosa_convert.frontends.onnx.convert import lower_graph
    from tosa_convert.frontends.onnx.weights import Weights

    given = model("main (float[2, 5, 5] x) => (int64[3, n] y) { y = NonZero(x) }")
    given.graph.node[0].name = "places"
    found = lower_graph(given, Weights(Path()))
    assert found.graph is None
    assert [(row.operator, row.where) for row in found.problems] == [("onnx.NonZero", "places")]


#: A draw in a branch and in a function, and a result whose size depends on the data.
IN_BRANCH = """
g (float[2] x, bool take) => (float[2] y) {
  y = If(take)
    <then_branch = yes () => (float[2] a) { a = Bernoulli(x) },
     else_branch = no () => (float[2] b) { b = Neg(x) }>
}"""
OF_SIZES = """
g (float[2] x) => (int64[1, N] y) {
  twice = Add(x, x)
  y = NonZero(twice)
}"""
IN_FUNCTION = """
g (float[2] x) => (float[2] y) {
  twice = own.drawn(x)
  y = Neg(twice)
}
<domain: "own", opset_import: ["" : 21]>
drawn (a) => (b) {
  c = Add(a, a)
  b = Bernoulli(c)
}"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (IN_BRANCH, "it cannot be cut out: it is inside a loop, a branch or a function"),
        (OF_SIZES, "it cannot be cut out: the sizes of what it gives are not known"),
        (IN_FUNCTION, ""),
    ],
    ids=["branch", "sizes", "function"],
)
def test_what_cannot_be_cut_out_is_refused_by_name(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Expand the functions of a model, so that their nodes can be cut out."""
    onnx.save(model(text), tmp_path / "m.onnx")
    words = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tosa"), "--partial"]
    assert run(verb("convert"), words) == (4 if said else 0)
    assert said in capsys.readouterr().err
    assert (tmp_path / "m.json").exists() is (not said)


@pytest.mark.parametrize(
    ("bound", "is_refused"), [pytest.param(50, True, id="size"), pytest.param(-1, False, id="mark")]
)
def test_a_comparison_of_an_open_size_is_not_settled_by_the_sizes_that_are_tried(
    bound: int, is_refused: bool
) -> None:
    kind = "Equal" if bound < 0 else "Greater"
    given = model(
        f"""g (float[2, T] x) => (float[2, T] y) {{
            shape = Shape (x)
            one = Constant <value = int64 {{1}}> ()
            size = Gather (shape, one)
            bound = Constant <value = int64 {{{bound}}}> ()
            is_long = {kind} (size, bound)
            e = Exp (x)
            t = Tanh (x)
            y = Where (is_long, e, t)
        }}"""
    )
    from tosa_convert.frontends.onnx.convert import lower_model
    from tosa_convert.frontends.onnx.weights import Weights

    found = lower_model(given, Weights(Path()), ("i64",))
    if is_refused:
        assert found.graph is None
        (problem,) = found.problems
        assert (
            "sizes that are not fixed: Greater (is_long) compares or rounds a size"
            in problem.reason
        )
    else:
        assert found.graph is not None


@pytest.mark.parametrize(
    ("divisor", "use", "is_refused"),
    [
        pytest.param(1000, "number = Cast<to = 1>(count) y = Add(x, number)", True, id="rounded"),
        pytest.param(
            32, "sizes = Concat<axis = 0>(count, more) y = Reshape(x, sizes)", False, id="exact"
        ),
    ],
)
def test_a_quotient_of_an_open_size_is_refused_if_it_is_rounded(
    divisor: int, use: str, is_refused: bool
) -> None:
    from tosa_convert.frontends.onnx.convert import lower_model
    from tosa_convert.frontends.onnx.weights import Weights

    given = model(
        f"""g (float[2, T] x) => (float[U, V] y) {{
            axis = Constant <value = int64[1] {{1}}> ()
            divisor = Constant <value = int64[1] {{{divisor}}}> ()
            more = Constant <value = int64[1] {{64}}> ()
            shape = Shape (x)
            size = Gather (shape, axis)
            count = Div (size, divisor)
            {use}
        }}"""
    )
    assert (lower_model(given, Weights(Path()), ("i64",)).graph is None) is is_refused


@pytest.mark.parametrize(
    ("start", "end", "is_refused"), [(-200, 2**62, True), (0, 120, True), (1, 2**62, False)]
)
def test_a_slice_that_an_open_size_may_clamp_is_refused(
    start: int, end: int, is_refused: bool
) -> None:
    from tosa_convert.frontends.onnx.convert import lower_model
    from tosa_convert.frontends.onnx.weights import Weights

    given = model(
        f"""g (float[2, T] x) => (float[2, U] y) {{
            start = Constant <value = int64[1] {{{start}}}> ()
            end = Constant <value = int64[1] {{{end}}}> ()
            axis = Constant <value = int64[1] {{1}}> ()
            y = Slice (x, start, end, axis)
        }}"""
    )
    assert (lower_model(given, Weights(Path()), ()).graph is None) is is_refused


def test_nodes_in_another_order_are_put_in_order() -> None:
    text = "main (float[2] x) => (float[2] y) { y = Add(twice, x) twice = Neg(x) }"
    compare(model(text), [X], {"NEGATE", "ADD"})


@pytest.mark.parametrize(
    ("nodes", "where", "reason"),
    [
        ("y = Add(a, x) a = Neg(y)", "", "its nodes take each other's results"),
        (
            "b = Neg(a) y = Add(b, x)",
            "b",
            'its input "a" is not defined: by no node, input or initializer',
        ),
    ],
)
def test_results_that_no_node_gives_are_named(nodes: str, where: str, reason: str) -> None:
    from tosa_convert.frontends.onnx.convert import lower_graph
    from tosa_convert.frontends.onnx.weights import Weights

    found = lower_graph(model(f"main (float[2] x) => (float[2] y) {{ {nodes} }}"), Weights(Path()))
    assert found.graph is None
    assert [(row.where, row.reason) for row in found.problems] == [(where, reason)]


def test_a_name_that_two_nodes_define_is_refused() -> None:
    from tosa_convert.frontends.onnx.convert import lower_graph
    from tosa_convert.frontends.onnx.weights import Weights

    text = "main (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) a = Exp(x) y = Add(a, b) }"
    with pytest.raises(TosaConvertError, match="a: error: two nodes of the ONNX graph define it"):
        lower_graph(model(text), Weights(Path()))
