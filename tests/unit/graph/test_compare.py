"""Equal graphs are equal whatever form their data has; every difference is found and located."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from unit.building import block, branching, counting, example, graph, op, region, shape, tensor
from unit.graph.test_verify import at, attribute, ends, field, scale, zoo

from tosa_convert.graph import (
    Constant,
    Difference,
    Graph,
    compare,
    dtype,
    verify,
)
from tosa_convert.graph.compare import _BlockComparison
from tosa_convert.graph.dtypes import NanPropagationMode
from tosa_convert.graph.versions import V1_1_DRAFT


def renamed(made: Graph) -> Graph:
    """Return the same graph with a prefix on every name, including those of regions and blocks."""
    for outer in made.regions:
        outer.name = f"R.{outer.name}"
        for inner in outer.blocks:
            inner.name = f"B.{inner.name}"
            inner.inputs = [f"n.{name}" for name in inner.inputs]
            inner.outputs = [f"n.{name}" for name in inner.outputs]
            for operator in inner.operators:
                operator.inputs = tuple(f"n.{name}" for name in operator.inputs)
                operator.outputs = tuple(f"n.{name}" for name in operator.outputs)
                for row in operator.spec.regions:
                    operator.attributes[row.name] = f"R.{operator.attributes[row.name]!s}"
            for value in inner.tensors.values():
                if value.variable:
                    value.variable_name = value.variable_name or value.name
                value.name = f"n.{value.name}"
            for size in inner.shapes.values():
                size.name = f"n.{size.name}"
            inner.tensors = {value.name: value for value in inner.tensors.values()}
            inner.shapes = {size.name: size for size in inner.shapes.values()}
    return made


def sharing(*regions: str) -> Graph:
    """Return a COND_IF that runs two regions.

    Those whose names begin with "e" exponentiate, others negate.
    """
    made = branching()
    made.main.operators[0].attributes = dict(
        zip(("then_graph", "else_graph"), regions, strict=True)
    )
    values = [tensor("a"), tensor("b")]
    made.regions[1:] = [
        region(name, "a", "b", list(values), [op("EXP" if name[0] == "e" else "ABS", "a", "b")])
        for name in sorted({*regions})
    ]
    assert verify(made) == []
    return made


def test_many_copies_on_both_sides_are_compared_in_linear_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def running(order: list[int]) -> Graph:
        """Return a COND_IF for each number; it runs the copy of this number."""
        made = sharing("e", "e")
        cond = made.main.operators[0]
        (copied,) = made.regions[1:]
        made.regions[1:] = [replace(copied, name=f"e{number}") for number in range(20)]
        made.main.operators = [
            replace(cond, attributes={"then_graph": f"e{number}", "else_graph": f"e{number}"})
            for number in order
        ]
        return made

    pairs = list(product(range(20), repeat=2))
    compared: list[object] = []
    real = _BlockComparison.run

    def counted(self: _BlockComparison) -> None:
        compared.append(self)
        real(self)

    monkeypatch.setattr(_BlockComparison, "run", counted)
    left, right = (running([pair[side] for pair in pairs]) for side in (0, 1))
    assert compare(left, right, names=False) is None
    assert len(compared) <= len(left.regions) + len(right.regions)


def test_bytes_after_a_bound_do_not_matter_and_its_own_do() -> None:
    other = zoo()
    at("CLAMP")(other).attributes["min_val"] = b"\x80\1\2\3"
    assert compare(zoo(), other) is None
    at("CLAMP")(other).attributes["min_val"] = b"\x81"
    assert compare(zoo(), other) is not None


def more_blocks(g: Graph) -> None:
    g.regions[1].blocks.append(block("", "", [], [], "then"))


def rename_region(g: Graph) -> None:
    g.regions[2].name = "otherwise"
    at("COND_IF")(g).attributes["else_graph"] = "otherwise"


def swap_regions(g: Graph) -> None:
    at("COND_IF")(g).attributes.update(then_graph="else", else_graph="then")


def change_bit(g: Graph) -> None:
    g.main.tensors["k"].data = Constant(dtype("INT4"), 3, b"\xe1\x06")


def drop_last(g: Graph) -> None:
    g.main.operators.pop()
    g.main.outputs.clear()


def change_kind(g: Graph) -> None:
    del g.main.shapes["to"]
    g.main.tensors["to"] = tensor("to", "INT64", (4,))


def fewer_operators(g: Graph) -> None:
    g.main.outputs[0] = "i"
    g.main.operators.pop()


def first_scale(g: Graph) -> None:
    g.main.tensors["mx"].scale.data = Constant(dtype("FP8UE8M0"), 4, b"\1\0\0\0")  # type: ignore[union-attr]


MAIN = 'region "main" block "main"'
DIFFERENT: list[tuple[str, Callable[[Graph], Any], str, str]] = [
    ("regions", lambda g: g.regions.pop(), "number of regions", "3 != 2"),
    ("region name", rename_region,
     f"{MAIN} operator #8 COND_IF attribute else_graph", "else != otherwise"),
    ("branches", swap_regions, f"{MAIN} operator #8 COND_IF attribute then_graph", "then != else"),
    ("blocks", more_blocks, 'region "then" number of blocks', "1 != 2"),
    ("block name", lambda g: setattr(g.main, "name", "b"), 'region "main" block name', "main != b"),
    ("inputs", lambda g: g.main.inputs.pop(), f"number of {MAIN} inputs", "2 != 1"),
    ("input order", lambda g: g.main.inputs.reverse(), f'{MAIN} inputs "i" name', "i != c"),
    ("output", lambda g: g.main.outputs.__setitem__(0, "i"), f'{MAIN} outputs "out" name', "!= i"),
    ("outputs", drop_last, f"{MAIN} number of operators", "9 != 8"),
    ("operators", fewer_operators, f"{MAIN} number of operators", "9 != 8"),
    ("operator", lambda g: setattr(at("TRANSPOSE")(g), "spec", op("EXP").spec),
     f"{MAIN} operator #5 TRANSPOSE operator", "TRANSPOSE != EXP"),
    ("operands", ends("CUSTOM", "i i"), f"{MAIN} operator #7 CUSTOM number of inputs", "1 != 2"),
    ("results", ends("CUSTOM", outputs=""), f"{MAIN} operator #7 CUSTOM number of outputs", "1 != 0"),
    ("operand", ends("TRANSPOSE", "i"), f'{MAIN} operator #5 TRANSPOSE "clamped" name', "clamped != i"),
    ("number", attribute("AVG_POOL2D", "pad", (0, 0, 0, 1)),
     f"{MAIN} operator #6 AVG_POOL2D attribute pad", "(0, 0, 0, 0) != (0, 0, 0, 1)"),
    ("enum", attribute("CLAMP", "nan_mode", NanPropagationMode.PROPAGATE),
     f"{MAIN} operator #4 CLAMP attribute nan_mode", "IGNORE != PROPAGATE"),
    ("bytes", attribute("CUSTOM", "implementation_attrs", b"\0"),
     f"{MAIN} operator #7 CUSTOM attribute implementation_attrs", "!= b'\\x00'"),
    ("dtype", field("i", dtype=dtype("INT16")), f'{MAIN} inputs "i" dtype', "INT8 != INT16"),
    ("shape", field("i", shape=(1, 4, 4, 1)), f'{MAIN} inputs "i" shape', "(1, 4, 4, 1)"),
    ("unranked", field("made", shape=()), f'{MAIN} operator #7 CUSTOM "made" shape', "None != ()"),
    ("rank", field("to", rank=3, data=None), f'{MAIN} operator #3 CONST_SHAPE "to" rank', "4 != 3"),
    ("sizes", field("to", data=shape("to", 1, 4, 4, 3).data),
     f'{MAIN} operator #3 CONST_SHAPE "to" data', "element 3 is 0x0000000000000002 !="),
    ("kind", change_kind, f'{MAIN} operator #3 CONST_SHAPE "to" kind', "shape != tensor"),
    ("a bit", change_bit, f'{MAIN} operator #0 CONST "k" data', "element 2 is 0x07 != 0x06"),
    ("no data", field("k", data=None), f'{MAIN} operator #0 CONST "k" data', "!= None"),
    ("no scale", field("mx", scale=None), f'{MAIN} operator #1 CONST "mx" block scale', "!= None"),
    ("a scale", first_scale, f'{MAIN} operator #1 CONST "mx" scales data', "element 0 is 0x00 != 0x01"),
    ("scale dtype", scale(dtype=dtype("FP8E4M3")), f'{MAIN} operator #1 CONST "mx" scale dtype', "!="),
]  # fmt: skip


@pytest.mark.parametrize(("change", "path", "values"), [row[1:] for row in DIFFERENT],
                         ids=[row[0] for row in DIFFERENT])  # fmt: skip
def test_a_difference_is_found_and_located(
    change: Callable[[Graph], Any], path: str, values: str
) -> None:
    other = zoo()
    change(other)
    found = compare(zoo(), other)
    assert isinstance(found, Difference)
    assert found.path == path
    assert values in str(found)
    assert compare(other, zoo()) is not None


#: The two regions of `zoo` differ in their names only.
WITHOUT_NAMES = [row for row in DIFFERENT if "name" not in row[0] and row[0] != "branches"]


@pytest.mark.parametrize("change", [row[1] for row in WITHOUT_NAMES],
                         ids=[row[0] for row in WITHOUT_NAMES])  # fmt: skip
def test_a_difference_other_than_a_name_is_found_without_names_too(
    change: Callable[[Graph], Any],
) -> None:
    other = zoo()
    change(other)
    assert compare(zoo(), other, names=False) is not None
    assert compare(other, zoo(), names=False) is not None


def test_locations_and_versions_differ_only_where_asked_for() -> None:
    other = example()
    other.main.operators[1].location = 'loc("f.mlir":3:8)'
    other.version = V1_1_DRAFT
    assert compare(example(), other) is None
    found = compare(example(), other, locations=True)
    assert found is not None
    assert found.path == f"{MAIN} operator #1 ADD location"
    found = compare(example(), other, version=True)
    assert found is not None
    assert str(found) == "version: 1.0.0 != 1.1.0 draft"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (field("v", variable_name="total"), "variables"),
        (field("v", data=None), 'variable "counter" data'),
        (
            field("v", data=Constant(dtype("INT32"), 1, b"\6\0\0\0")),
            'variable "counter" data',
        ),
        (field("v", shape=(2,), data=None), 'variable "counter" shape'),
        (field("r", variable=True, variable_name="r"), "variables"),
    ],
)
def test_variables_differ_by_symbol_type_and_initial_value(
    change: Callable[[Graph], Any], path: str
) -> None:
    other = counting()
    change(other)
    for names in (True, False):
        found = compare(counting(), other, names=names)
        assert found is not None
        assert found.path == path


def test_a_bound_that_is_too_short_is_printed_by_its_length() -> None:
    values = [tensor("x"), tensor("y")]
    bounds: dict[str, Any] = {"min_val": bytes(4), "nan_mode": NanPropagationMode.PROPAGATE}
    one, other = (
        graph("x", "y", values, [op("CLAMP", "x", "y", max_val=bytes(count), **bounds)])
        for count in (4, 2)
    )
    difference = compare(one, other)
    assert difference is not None
    assert "2 bytes" in str(difference)


def test_data_of_another_length_is_a_difference() -> None:
    one, other = (
        graph("", "k", [tensor("k", "INT8", (3,), bytes(3))], [op("CONST", "", "k")])
        for _ in range(2)
    )
    other.main.tensors["k"].data = Constant(dtype("INT8"), 4, bytes(4))
    difference = compare(one, other)
    assert difference is not None
    assert "4 elements" in str(difference)
