"""A block in columns: whatever the columns accept, the rules for single operators accept."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.building import example, op, shape, tensor
from unit.building import graph as program

from tosa_convert.graph import (
    Block,
    BlockScale,
    Constant,
    Graph,
    Operator,
    ShapeValue,
    Tensor,
    dtype,
    operator,
    verify,
)
from tosa_convert.graph.columns import (
    _numbers_by_name,
    _value_numbers,
    columns_of,
    keeps_rules,
    tuples_of,
)
from tosa_convert.graph.dtypes import BlockShape, NanPropagationMode
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, OperatorSpec
from tosa_convert.qualify.random_graphs.generate import generate
from tosa_convert.rules.operator_view import TypeTable
from tosa_convert.rules.validate import Validator, is_valid, judge


def accepted(graph: Graph) -> bool:
    """Return whether the columns of the main block are accepted."""
    columns = columns_of(graph.main)
    return columns is not None and keeps_rules(graph.main, columns)


def valid(graph: Graph) -> bool:
    """Return whether TOSA allows the operators of the main block, by its columns."""
    columns = columns_of(graph.main)
    assert columns is not None
    return is_valid(graph.main, columns, TypeTable(), judge)


def copied(text: str) -> str:
    """Return an equal string that is another object."""
    return "".join(list(text))


@settings(max_examples=30)
@given(st.data())
def test_values_are_found_by_object_as_by_name(data: st.DataObject) -> None:
    texts = st.text(min_size=2, max_size=3)
    names = data.draw(st.lists(texts, unique=True, min_size=1, max_size=20))
    some = st.lists(st.sampled_from(names), max_size=4)
    lists = data.draw(st.lists(st.lists(some.map(tuple), max_size=6), max_size=3))
    expected = [numbers.tolist() for numbers in _numbers_by_name(names, *lists)]
    for every in (0, 1, 2):  # no name is another object, all are, and some are
        copies = [
            [
                tuple(map(copied, row)) if every and n % every == 0 else row
                for n, row in enumerate(rows)
            ]
            for rows in lists
        ]
        assert [numbers.tolist() for numbers in _value_numbers(names, *copies)] == expected
    with pytest.raises(KeyError):
        _value_numbers(names, *lists, [("unknown",)])


@pytest.mark.parametrize("counts", [(), (0, 0), (2, 2, 2), (1, 1), (0, 1, 3), (3,), (1, 0, 3, 1)])
def test_items_are_parted_by_their_counts(counts: tuple[int, ...]) -> None:
    items = list(range(sum(counts)))
    left = iter(items)
    expected = [tuple(next(left) for _ in range(count)) for count in counts]
    assert tuples_of(items, np.array(counts, np.int64)) == expected


def swapped(block: Block, chance: random.Random) -> None:
    first, second = chance.sample(range(len(block.operators)), 2)
    operators = block.operators
    operators[first], operators[second] = operators[second], operators[first]


def renamed(block: Block, chance: random.Random) -> None:
    chosen = chance.choice([row for row in block.operators if row.inputs])
    at = chance.randrange(len(chosen.inputs))
    name = chance.choice([*block.tensors, *block.shapes, "nobody"])
    chosen.inputs = (*chosen.inputs[:at], name, *chosen.inputs[at + 1 :])


def redirected(block: Block, chance: random.Random) -> None:
    chosen = chance.choice(block.operators)
    chosen.outputs = (chance.choice([*block.tensors, *block.shapes]),)


def shortened(block: Block, chance: random.Random) -> None:
    chosen = chance.choice(block.operators)
    if chance.random() < 0.5:
        chosen.inputs = chosen.inputs[:-1]
    else:
        chosen.outputs = ()


def lengthened(block: Block, chance: random.Random) -> None:
    chosen = chance.choice([row for row in block.operators if row.inputs])
    chosen.inputs = (*chosen.inputs, chosen.inputs[0])


def respecified(block: Block, chance: random.Random) -> None:
    chosen = chance.choice(block.operators)
    names = ("ABS", "ADD", "CONST", "CONCAT", "RESHAPE", "SELECT", "VARIABLE_READ", "COND_IF")
    chosen.spec = operator(chance.choice(names))


def without_value(block: Block, chance: random.Random) -> None:
    values: Any = chance.choice([block.tensors, block.shapes or block.tensors])
    del values[chance.choice(list(values))]


def without_data(block: Block, chance: random.Random) -> None:
    values: list[Any] = [*block.tensors.values(), *block.shapes.values()]
    if given := [value for value in values if value.data is not None]:
        chance.choice(given).data = None


def reshaped(block: Block, chance: random.Random) -> None:
    chosen = chance.choice(list(block.tensors.values()))
    chosen.shape = chance.choice([None, (), (2, 3), (-2,), (2**31,), (1,) * 65, (7, 5, 3)])


def retyped(block: Block, chance: random.Random) -> None:
    chosen = chance.choice(list(block.tensors.values()))
    chosen.dtype = dtype(chance.choice(("FP32", "INT8", "INT4", "BOOL", "INT32")))


def relabelled(block: Block, chance: random.Random) -> None:
    chosen = chance.choice(list(block.tensors.values()))
    chosen.variable_name = chance.choice(("v", ""))
    chosen.variable = chance.random() < 0.5
    chosen.name = chance.choice((chosen.name, chosen.name, "other"))


def ranked(block: Block, chance: random.Random) -> None:
    name = chance.choice(list(block.tensors))
    block.shapes[chance.choice((name, "fresh"))] = ShapeValue(name, chance.choice((-1, 2)))


def with_wrong_attribute(block: Block, chance: random.Random) -> None:
    chosen = chance.choice(block.operators)
    wrong: list[Any] = [True, 1, 63, -2, 1.5, "text", b"\xff", (1, True), (2**31,), [1], None]
    names = list(chosen.attributes) or ["axis"]
    chosen.attributes[chance.choice(names)] = chance.choice(wrong)


def with_other_number(block: Block, chance: random.Random) -> None:
    numbers = [
        (row, name)
        for row in block.operators
        for name, value in row.attributes.items()
        if type(value) in (int, tuple)
    ]
    if numbers:
        chosen, name = chance.choice(numbers)
        value: Any = chosen.attributes[name]
        chosen.attributes[name] = 63 if type(value) is int else (*value[:-1], 63)


def without_attribute(block: Block, chance: random.Random) -> None:
    chosen = [row for row in block.operators if row.attributes]
    if chosen:
        chance.choice(chosen).attributes.popitem()


def with_given(block: Block, chance: random.Random) -> None:
    names = [*block.tensors, *block.shapes, "nobody"]
    chance.choice((block.inputs, block.outputs)).append(chance.choice(names))


DAMAGES: list[Callable[[Block, random.Random], None]] = [
    swapped,
    renamed,
    redirected,
    shortened,
    lengthened,
    respecified,
    without_value,
    without_data,
    reshaped,
    retyped,
    relabelled,
    ranked,
    with_wrong_attribute,
    with_other_number,
    without_attribute,
    with_given,
]


#: Every run takes a few programs.
SOME_OR_ALL = [range(3), pytest.param(range(60), marks=pytest.mark.slow)]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seeds", SOME_OR_ALL, ids=str)
def test_blocks_that_keep_the_rules_in_columns_have_no_findings(
    damage: Callable[[Block, random.Random], None], seeds: range
) -> None:
    refused = sound = 0
    for seed in seeds[:24]:
        graph = generate(seed, 12)
        assert not verify(graph)
        sound += accepted(graph)
        damage(graph.main, random.Random(seed))
        findings = verify(graph)
        refused += bool(findings)
        if findings:
            assert not accepted(graph), findings
    if len(seeds) > 3:
        assert refused or damage is with_other_number
        # Only programs with control flow or variables are not.
        assert sound > 8


@pytest.mark.parametrize("damage", [reshaped, retyped, renamed, with_other_number, swapped])
@pytest.mark.parametrize("seeds", SOME_OR_ALL, ids=str)
def test_blocks_that_are_valid_in_columns_have_no_findings(
    damage: Callable[[Block, random.Random], None], seeds: range
) -> None:
    refused = valid_ones = 0
    for seed in seeds:
        graph = generate(seed, 12)
        if not accepted(graph):
            continue
        assert not list(Validator(graph).findings())
        valid_ones += valid(graph)
        damage(graph.main, random.Random(seed))
        if accepted(graph) and list(Validator(graph).findings()):
            refused += 1
            assert not valid(graph)
    if len(seeds) > 3:
        # Programs that compute shapes are judged one operator after the other.
        assert valid_ones > 15
        assert refused or damage is swapped


def test_a_large_block_is_checked_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tosa_convert.graph.verify"]
    graph = example()
    assert not module.refuse_unsound(graph)
    monkeypatch.setattr(module, "_MIN_COLUMNS", len(graph.main.operators) + 1)
    assert not module.refuse_unsound(graph)

    def judged(*_: object) -> None:
        raise AssertionError("an operator is judged by itself")

    monkeypatch.setattr(module, "_MIN_COLUMNS", len(graph.main.operators))
    monkeypatch.setattr(module._BlockRules, "check", judged)
    columns = module.refuse_unsound(graph)
    assert columns.keys() == {"main"}
    monkeypatch.setattr(Validator, "block", judged)
    assert not list(Validator(graph, columns=columns).findings())
    with pytest.raises(AssertionError, match="judged by itself"):
        list(Validator(graph).findings())


def drop(name: str) -> Callable[[Block], None]:
    def change(block: Block) -> None:
        values: dict[str, Any] = block.tensors if name in block.tensors else block.shapes
        del values[name]

    return change


def op_with(index: int, /, **fields: Any) -> Callable[[Block], None]:
    def change(block: Block) -> None:
        for field, value in fields.items():
            setattr(block.operators[index], field, value)

    return change


def value_with(name: str, /, **fields: Any) -> Callable[[Block], None]:
    def change(block: Block) -> None:
        value = block.tensors[name] if name in block.tensors else block.shapes[name]
        for field, content in fields.items():
            setattr(value, field, content)

    return change


def block_with(**fields: Any) -> Callable[[Block], None]:
    def change(block: Block) -> None:
        for field, value in fields.items():
            setattr(block, field, value)

    return change


def a_name_twice(block: Block) -> None:
    block.shapes["x"] = ShapeValue("x", 1)


@pytest.mark.parametrize(
    "fault",
    [
        a_name_twice,
        drop("s"),
        drop("to"),
        op_with(2, attributes={"axis": (1,) * 99}),
        value_with("x", name="other"),
        value_with("x", shape=(-2, 3)),
        value_with("w", shape=(2, 4)),
        value_with("w", variable_name="v"),
        value_with("to", rank=-1),
        value_with("to", data=None),
        value_with("w", data=None),
        block_with(inputs=["x", "x"]),
        block_with(inputs=["nobody"]),
        block_with(inputs=["x", "s"]),
        block_with(inputs=[]),
        block_with(outputs=["nobody"]),
        op_with(1, outputs=("y",)),
        op_with(4, outputs=("m",)),
        op_with(1, inputs=("x",)),
        op_with(1, inputs=("x", "w", "w")),
        op_with(4, inputs=("to", "m")),
        op_with(2, attributes={}),
        op_with(1, attributes={"axis": 0}),
        op_with(2, attributes={"dim": 0}),
        op_with(2, attributes={"axis": "0"}),
    ],
)
def test_a_block_with_a_fault_is_left_to_the_rules_that_name_it(
    fault: Callable[[Block], None],
) -> None:
    graph = example()
    assert accepted(graph)
    fault(graph.main)
    assert not accepted(graph)
    assert verify(graph)


def test_a_constant_without_its_scales_is_left_to_the_rules() -> None:
    scales = Constant(dtype("FP8UE8M0"), 1, b"\x7f")
    data = Constant(dtype("FP8E4M3"), 32, bytes(32))
    scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, scales)
    value = Tensor("mx", dtype("FP8E4M3"), (32,), data=data, scale=scale)
    made = program("", "mx", [value], [op("CONST", "", "mx")])
    assert verify(made) == []
    assert accepted(made)
    scale.data = None
    assert not accepted(made)
    assert verify(made)


def test_an_element_that_is_too_short_for_the_operand_is_left_to_the_rules() -> None:
    values = [tensor("x"), tensor("y")]
    clamp: dict[str, Any] = {
        "min_val": bytes(4),
        "max_val": bytes(4),
        "nan_mode": NanPropagationMode.PROPAGATE,
    }
    made = program("x", "y", values, [op("CLAMP", "x", "y", **clamp)])
    assert accepted(made)
    made.main.operators[0].attributes["max_val"] = bytes(2)
    assert not accepted(made)
    assert verify(made)


@pytest.mark.parametrize("wrong", [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)])
def test_elements_are_judged_for_each_type_and_bounds(wrong: tuple[int, int]) -> None:
    kinds = ("FP32", "INT32", "FP16")
    values = [tensor(f"x{number}", kind) for number, kind in enumerate(kinds)]
    operators = []
    for bounds, (number, kind) in product((0, 1), enumerate(kinds)):
        values.append(tensor(f"y{bounds}{number}", kind))
        # Two bytes suffice for FP16 alone.
        width = 2 if (bounds, number) == wrong else 4
        clamp: dict[str, Any] = {"min_val": bytes(4), "max_val": bytes([bounds] * width)}
        clamp["nan_mode"] = NanPropagationMode.PROPAGATE
        operators.append(op("CLAMP", f"x{number}", f"y{bounds}{number}", **clamp))
    made = program("x0 x1 x2", "", values, operators)
    assert accepted(made) == (not verify(made)) == (wrong[1] == 2)


#: Operators that the columns leave to the rules.
NOT_IN_COLUMNS = {
    *("VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE", "COND_IF", "WHILE_LOOP"),
    "RESHAPE_BLOCK_SCALED",
}


def some_value(row: AttributeSpec) -> Any:
    """Return a value that the attribute may have."""
    if row.enum is not None:
        return next(iter(row.enum))
    if row.kind == "i32s":
        return (0,) * max(row.length, 0)
    plain = {"i32": 0, "bool": False, "element": bytes(4), "bytes": b""}
    return row.choices[0] if row.choices else plain.get(row.kind, "")


@pytest.mark.parametrize("spec", OPERATORS, ids=str)
def test_columns_know_how_many_operands_of_which_kind_an_operator_has(spec: OperatorSpec) -> None:
    data = bytes(24) if spec.name == "CONST" else None
    values: list[Tensor | ShapeValue] = [tensor("tensor"), shape("shape", 1)]
    sides: list[list[str]] = []
    for prefix, rows in (("x", spec.operands), ("y", spec.results)):
        sides.append([f"{prefix}{number}" for number in range(len(rows))])
        for name, row in zip(sides[-1], rows, strict=True):
            values.append(shape(name, 1) if row.is_shape else tensor(name, data=data))
    shapes = {value.name for value in values if isinstance(value, ShapeValue)}
    cases = [sides]
    for side, names in enumerate(sides):
        others = [names[:-1], [*names, "tensor"], [*names, "shape"]]
        for place, name in enumerate(names):
            other = "tensor" if name in shapes else "shape"
            others.append([*names[:place], other, *names[place + 1 :]])
        cases += [[*sides[:side], other, *sides[side + 1 :]] for other in others]
    attributes = {row.name: some_value(row) for row in spec.attributes}
    sound = []
    for inputs, outputs in cases:
        given = {value.name for value in values} - {*outputs}
        made = program(" ".join(given), "", values, [])
        made.main.operators = [Operator(spec, tuple(inputs), tuple(outputs), attributes)]
        sound.append(not verify(made))
        assert accepted(made) == (sound[-1] and spec.name not in NOT_IN_COLUMNS)
    assert sound[0] == (spec.name not in NOT_IN_COLUMNS - {"RESHAPE_BLOCK_SCALED"})
    assert not all(sound)


def test_operators_of_one_code_and_other_types_are_judged_apart() -> None:
    values = [tensor(name, shape=(2,)) for name in "abc"] + [tensor("d", shape=(3,))]
    operators = [op("ADD", "a b", "c"), op("ADD", "a c", "d")]
    made = program("a b", "c d", values, operators)
    assert accepted(made)
    assert not valid(made)
    made.main.tensors["d"].shape = (2,)
    assert valid(made)
