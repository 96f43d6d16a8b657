"""Shapes of all values, derived from the shapes of the arguments."""

from __future__ import annotations

import pytest
from refusing import refused
from unit.building import block, graph, op, region, shape, tensor

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph, Operator, ShapeValue
from tosa_convert.graph.static_shapes import make_placeholders_static
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.rules.infer import causes, infer, refuse_impossible_symbols

D = -1


def shapes(program: Graph) -> dict[str, tuple[int, ...] | None]:
    return {name: value.shape for name, value in program.main.tensors.items()}


def dynamic(names: str, *sizes: int) -> list[tc.graph.Tensor | ShapeValue]:
    return [tensor(name, shape=sizes) for name in names.split()]


def chain() -> Graph:
    operators = [op("ADD", "x y", "s"), op("ABS", "s", "z")]
    return graph("x y", "z", dynamic("x y s z", D, D), operators)


def branches(then: str = "ABS") -> Graph:
    values = [tensor("c", "BOOL", ()), *dynamic("x z", D)]
    main = block(
        "c x",
        "z",
        values,
        [op("COND_IF", "c x", "z", then_graph="then", else_graph="else")],
        "main",
    )
    program = graph("c x", "z", [], [])
    program.regions[0].blocks[0] = main
    for name, kind in (("then", then), ("else", "FLOOR")):
        program.regions.append(region(name, "a", "b", dynamic("a b", D), [op(kind, "a", "b")]))
    return program


def test_branches_of_different_sizes_leave_the_result_open() -> None:
    program = branches()
    program.regions[2].blocks[0] = block(
        "a",
        "b",
        [*dynamic("a b", D)],
        [op("CONCAT", "a a", "b", axis=0)],
        "else",
    )
    assert shapes(infer(program, {"x": (5,)}))["z"] == (D,)


def loop(body: Operator) -> Graph:
    program = graph("x", "z", dynamic("x z", D), [])
    program.main.operators.append(op("WHILE_LOOP", "x", "z", cond_graph="cond", body_graph="body"))
    custom = op("CUSTOM", "a", "c", operator_name="o", domain_name="d", implementation_attrs=b"")
    condition = [*dynamic("a", D), tensor("c", "BOOL", ())]
    program.regions.append(region("cond", "a", "c", condition, [custom]))
    program.regions.append(region("body", "a", "b", dynamic("a b", D), [body]))
    return program


def test_a_loop_keeps_the_sizes_that_no_iteration_changes() -> None:
    inferred = infer(loop(op("ABS", "a", "b")), {"x": (5,)})
    assert shapes(inferred)["z"] == (5,)
    assert all(
        value.shape == (5,)
        for inner in inferred.regions[1:]
        for name, value in inner.blocks[0].tensors.items()
        if name != "c"
    )


def test_a_loop_that_changes_a_size_leaves_it_open() -> None:
    inferred = infer(loop(op("CONCAT", "a a", "b", axis=0)), {"x": (5,)})
    assert shapes(inferred)["z"] == (D,)
    assert inferred.regions[2].blocks[0].tensors["b"].shape == (D,)


def test_a_region_that_is_run_with_two_shapes_has_the_sizes_that_they_share() -> None:
    program = branches()
    main = program.main
    main.tensors |= {value.name: tensor(value.name, shape=(D,)) for value in dynamic("y w", D)}
    main.inputs.append("y")
    main.outputs.append("w")
    main.operators.append(op("COND_IF", "c y", "w", then_graph="then", else_graph="else"))
    inferred = infer(program, {"x": (5,), "y": (6,)})
    assert (shapes(inferred)["z"], shapes(inferred)["w"]) == ((5,), (6,))
    assert inferred.regions[1].blocks[0].tensors["b"].shape == (D,)


def nested(depth: int) -> Graph:
    """Return a COND_IF that runs a region from both branches, which does so, and so on."""
    program = branches()
    program.regions[1:] = []
    values = [tensor("c", "BOOL", ()), *dynamic("a b", D)]
    for level in range(depth):
        inside = f"r{level + 1}"
        operator = op("COND_IF", "c c a", "b", then_graph=inside, else_graph=inside)
        if level + 1 == depth:
            operator = op("ABS", "a", "b")
        program.regions.append(region(f"r{level}", "c a", "b", values, [operator]))
    program.main.operators[:] = [op("COND_IF", "c c x", "z", then_graph="r0", else_graph="r0")]
    return program


def test_regions_nested_too_deeply_are_refused() -> None:
    with refused("too-large"):
        infer(nested(400), {"x": (5,)})


def test_a_region_that_doubles_at_each_level_is_inferred_once() -> None:
    assert shapes(infer(nested(60), {"x": (5,)}))["z"] == (5,)


def test_causes_name_the_argument_and_all_that_depends_on_it() -> None:
    (first, second) = causes(infer(chain(), {"x": (2, D)}))
    assert (first.tensors, second.tensors) == (["x", "s", "z"], ["y"])
    assert str(first) == (
        'region "main" block "main" input "x" has no size in dimension 1; 3 tensors stay dynamic: '
        '"x", "s", "z"; of the results: "z" in dimension 1'
    )


def test_an_unknown_rank_follows_from_an_operand() -> None:
    program = graph(
        "x", "y", [tensor("x", shape=(D, 3)), tensor("y", shape=None)], [op("ABS", "x", "y")]
    )
    assert shapes(infer(program, {"x": (2, 3)}))["y"] == (2, 3)


def test_a_loop_whose_body_returns_too_few_values_ends_with_what_is_known() -> None:
    """Leave it to the rule `while-loop-body-outputs`, which reports it."""
    values = dynamic("x y", D, 3)
    program = graph(
        "x", "y", values, [op("WHILE_LOOP", "x", "y", cond_graph="cond", body_graph="body")]
    )
    program.regions += [
        region("cond", "a", "p", [tensor("a", shape=(D, 3)), tensor("p", "BOOL", ())], []),
        region("body", "a", "", [tensor("a", shape=(D, 3))], []),
    ]
    assert shapes(infer(program, {"x": (2, 3)}))["x"] == (2, 3)


def test_an_input_of_unknown_rank_is_a_cause_of_unknown_sizes() -> None:
    program = graph(
        "x", "y", [tensor("x", shape=None), tensor("y", shape=None)], [op("ABS", "x", "y")]
    )
    assert "any dimension, because its rank is unknown" in str(causes(program)[0])


def test_a_region_whose_argument_has_another_rank_keeps_its_own_types() -> None:
    """`validate` refuses such a program; `verify` does not."""
    program = branches()
    for inner in program.regions[1:]:
        for value in inner.blocks[0].tensors.values():
            value.shape = (D, 4)
    refuse_unsound(program)
    inferred = infer(program, {"x": (5,)})
    assert inferred.regions[1].blocks[0].tensors["b"].shape == (D, 4)
    assert shapes(inferred)["z"] == (D,)


def with_symbol(*lines: str) -> Graph:
    """Make a program whose argument x, [1, 2, n], is an operand of each operator."""
    program = graph("x", "", [tensor("x", shape=(1, 2, D))], [])
    main = program.main
    zero = tensor("zero", shape=(1,))
    main.tensors["zero"] = zero
    main.inputs.append("zero")
    for index, line in enumerate(lines):
        name, size = line.split()
        other = (1, int(size), 4) if name == "MATMUL" else (1, 2, int(size))
        result = (1, 2, 4) if name == "MATMUL" else (1, 2, D)
        main.tensors[f"k{index}"] = tensor(f"k{index}", shape=other)
        main.tensors[f"y{index}"] = tensor(f"y{index}", shape=result)
        main.inputs.append(f"k{index}")
        main.outputs.append(f"y{index}")
        zeros = " zero zero" if name == "MATMUL" else ""
        main.operators.append(op(name, f"x k{index}{zeros}", f"y{index}"))
    return program


@pytest.mark.parametrize(
    ("lines", "needed"),
    [
        ("MATMUL 3, MATMUL 5", (3, 5)),
        ("ADD 1, ADD 1", ()),  # any size does
        ("MATMUL 3, MATMUL 3", ()),  # one size does
        # No size does, and only one operator needs a single one: ADD takes 1 as well.
        ("MATMUL 3, ADD 5", ()),
    ],
)
def test_a_symbol_that_must_be_two_sizes_is_refused(lines: str, needed: tuple[int, ...]) -> None:
    program = with_symbol(*lines.split(", "))
    refuse_unsound(program)
    if not needed:
        refuse_impossible_symbols(program, {"x": (1, 2, "n")}, {})
        return
    with refused("unsupported-shape", match='the size "n" must be 3 here, and 5 at'):
        refuse_impossible_symbols(program, {"x": (1, 2, "n")}, {})


def test_symbols_of_large_programs_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tosa_convert.rules.infer._MOST_TRIED", 10)
    refuse_impossible_symbols(with_symbol("MATMUL 3", "MATMUL 5"), {"x": (1, 2, "n")}, {})


def test_a_slice_up_to_the_end_gets_its_size_with_the_size_of_its_input() -> None:
    values = [*dynamic("x z", D, 5, D), shape("start", 1, 0, 0), shape("rest", D, 5, D)]
    operators = [
        op("CONST_SHAPE", "", "start"),
        op("CONST_SHAPE", "", "rest"),
        op("SLICE", "x start rest", "z"),
    ]
    program = graph("x", "z", values, operators)
    assert tc.validate(program) == []
    for given, found in (((4, 5, 2), (3, 5, 2)), ((4, 5, D), (3, 5, D))):
        settled = infer(program, {"x": given})
        make_placeholders_static(settled)
        assert shapes(settled)["z"] == found
        (one,) = [row for row in settled.main.operators if row.spec.name == "SLICE"]
        assert settled.main.shapes[one.inputs[2]].values() == found
        assert tc.validate(settled) == []


def test_a_reshape_to_what_remains_gets_its_size_with_the_size_of_its_input() -> None:
    values = [*dynamic("x", D, 4), *dynamic("z", D), shape("rest", D)]
    operators = [op("CONST_SHAPE", "", "rest"), op("RESHAPE", "x rest", "z")]
    program = graph("x", "z", values, operators)
    assert shapes(infer(program, {}))["z"] == (D,)
    settled = infer(program, {"x": (3, 4)})
    make_placeholders_static(settled)
    assert settled.main.shapes[settled.main.operators[-1].inputs[1]].values() == (12,)


def test_a_slice_whose_start_has_another_rank_stays_open() -> None:
    values = [*dynamic("x z", D, 5), shape("start", 1), shape("rest", D, 5)]
    operators = [
        op("CONST_SHAPE", "", "start"),
        op("CONST_SHAPE", "", "rest"),
        op("SLICE", "x start rest", "z"),
    ]
    with pytest.raises(TosaConvertError, match="start"):
        infer(graph("x", "z", values, operators), {"x": (4, 5)})


@pytest.mark.parametrize("swapped", [False, True])
def test_branches_that_return_a_shape_and_a_tensor_are_read_and_refused(swapped: bool) -> None:
    returned = [
        "tosa.yield %a : tensor<4xf32>",
        """%s = tosa.const_shape {values = dense<[4]> : tensor<1xindex>} : () -> !tosa.shape<1>
        tosa.yield %s : !tosa.shape<1>""",
    ]
    first, second = reversed(returned) if swapped else returned
    text = f"""func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<?xf32> {{
      %r = tosa.cond_if %c (%a = %x) : tensor<i1> (tensor<4xf32>) -> tensor<?xf32> {{
      ^bb0(%a: tensor<4xf32>):
        {first}
      }} else {{
      ^bb0(%a: tensor<4xf32>):
        {second}
      }}
      return %r : tensor<?xf32>
    }}"""
    (finding,) = tc.validate(tc.load(text.encode()))
    assert finding.rule == f"cond-if-{'then' if swapped else 'else'}-outputs"
