"""`diff` names what differs, and only that, whatever values are called."""

from __future__ import annotations

import copy
import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from unit.building import branching, counting, example, graph, op, shape, tensor
from unit.graph.test_compare import renamed

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.graph import Constant, Graph, SoftwareVersion, Tensor, dtype, operator
from tosa_convert.graph.constant import BLOCK
from tosa_convert.graph.model import Operator, Target
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.views.structural_diff.block_changes import in_order
from tosa_convert.views.structural_diff.changes import Change, element_difference


def layers(count: int, *, equal: bool = False) -> Graph:
    """Layers of a convolution, a bound and a residual; all the same, or each with its own weights."""
    b = Builder("main")
    x = b.input("x", "fp32", (1, 4, 4, 2))
    rng = np.random.default_rng(1)
    zero = b.const(np.zeros(1, np.float32))
    bias = b.const(np.zeros(2, np.float32))
    weight = rng.normal(size=(2, 1, 1, 2)).astype(np.float32)
    for _ in range(count):
        if not equal:
            weight = rng.normal(size=(2, 1, 1, 2)).astype(np.float32)
        x = layer(b, x, weight, bias, zero)
    b.output(x, name="y")
    return b.graph()


def layer(b: Builder, x: Value, weight: Any, bias: Value, zero: Value) -> Value:
    y = b.conv2d(x, b.const(weight), bias, zero, zero, pad=(0, 0, 0, 0), acc_type="fp32")
    return b.add(b.clamp(y, min_val=0, max_val=6), x)


def texts(left: Graph, right: Graph, **options: bool) -> list[str]:
    return [str(change) for change in tc.diff(left, right, **options)]


def named(made: Graph, name: str) -> list[Operator]:
    return [op for op in made.main.operators if op.spec.name == name]


# -- equal programs --------------------------------------------------------------------------------


def test_names_are_compared_on_request() -> None:
    assert texts(example(), renamed(example()), names=True) == [
        "changed region main: name: main -> R.main",
        "changed block main: name: main -> B.main",
        "changed input #0 x: name: x -> n.x",
        "changed constant #0 CONST: name: w -> n.w",
        "changed operator #1 ADD: name: s -> n.s",
        "changed operator #2 REDUCE_SUM: name: m -> n.m",
        "changed constant #3 CONST_SHAPE: name: to -> n.to",
        "changed operator #4 RESHAPE: name: y -> n.y",
        "changed output #0 y: name: y -> n.y",
    ]


def test_locations_are_compared_on_request() -> None:
    other = example()
    other.main.operators[1].location = 'loc("g.mlir":1:1)'
    assert not tc.diff(example(), other)
    assert texts(example(), other, locations=True) == [
        'changed operator #1 ADD: location: loc("f.mlir":2:8) -> loc("g.mlir":1:1)'
    ]


def test_the_version_is_a_difference_and_the_producer_is_a_note() -> None:
    other = example()
    other.version = V1_1_DRAFT
    other.producer = SoftwareVersion(9, 0, 0, "other")
    other.target = Target("8K", ("PRO-FP",))
    found = tc.diff(example(), other)
    assert [str(change) for change in found] == [
        "changed program: TOSA version: 1.0.0 -> 1.1.0 draft"
    ]
    assert [note.what for note in found.notes] == ["producer", "target"]
    found = tc.diff(example(), other, version=False)
    assert not found
    assert len(found.notes) == 2


# -- single changes --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("index", [0, 1, 57, 99])
def test_one_changed_attribute_in_equal_layers_is_one_change(index: int, equal: bool) -> None:
    left = layers(100, equal=equal)
    right = renamed(copy.deepcopy(left))
    clamp = named(right, "CLAMP")[index]
    clamp.attributes["max_val"] = np.float32(7).tobytes()
    (change,) = tc.diff(left, right)
    assert change.right is not None
    assert change.right.index == right.main.operators.index(clamp)
    assert str(change).endswith("CLAMP: attribute max_val: 6 (0x40c00000) -> 7 (0x40e00000)")


@pytest.mark.slow
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("index", [0, 40, 99])
def test_an_inserted_operator_is_one_change(index: int, equal: bool) -> None:
    left = layers(100, equal=equal)
    right = renamed(insert(copy.deepcopy(left), named(left, "CLAMP")[index].outputs[0], "TANH"))
    (change,) = tc.diff(left, right)
    assert (change.kind, change.item.name) == ("added", "TANH")
    (change,) = tc.diff(right, left)
    assert (change.kind, change.item.name) == ("removed", "TANH")


def insert(made: Graph, after: str, name: str) -> Graph:
    """Insert a unary operator after a value, in front of everything that uses it."""
    block = made.main
    position = next(i for i, op in enumerate(block.operators) if after in op.outputs) + 1
    source = block.tensors[after]
    block.tensors["new"] = Tensor("new", source.dtype, source.shape)
    for later in block.operators[position:]:
        later.inputs = tuple("new" if name == after else name for name in later.inputs)
    block.operators.insert(position, Operator(operator(name), (after,), ("new",)))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("counts", [(99, 100), (100, 101)])
def test_an_inserted_layer_is_named_and_nothing_else(counts: tuple[int, int], equal: bool) -> None:
    found = tc.diff(layers(counts[0], equal=equal), layers(counts[1], equal=equal))
    assert sorted(change.item.name for change in found) == ["ADD", "CLAMP", "CONV2D"]
    assert {change.kind for change in found} == {"added"}
    # The weights belong to the convolution.
    assert sum(change.with_constants for change in found) == 1


@pytest.mark.parametrize("removed", [0, 30, 58, 59])
def test_a_removed_layer_with_its_own_weights_is_named(removed: int) -> None:
    left = layers(60)
    right = copy.deepcopy(left)
    conv, clamp, add = (named(right, name)[removed] for name in ("CONV2D", "CLAMP", "ADD"))
    gone = [conv, clamp, add]
    block = right.main
    block.operators = [
        row for row in block.operators if row not in gone and conv.inputs[1] not in row.outputs
    ]
    for row in block.operators:
        row.inputs = tuple(conv.inputs[0] if n == add.outputs[0] else n for n in row.inputs)
    block.outputs = [conv.inputs[0] if n == add.outputs[0] else n for n in block.outputs]
    found = tc.diff(left, renamed(right))
    expected = [left.main.operators.index(named(left, row.spec.name)[removed]) for row in gone]
    assert [change.left and change.left.index for change in found] == expected
    assert {change.kind for change in found} == {"removed"}


def test_several_changes_at_once_are_each_named() -> None:
    left = layers(100)
    right = insert(copy.deepcopy(left), named(left, "CLAMP")[30].outputs[0], "TANH")
    named(right, "CLAMP")[60].attributes["max_val"] = np.float32(7).tobytes()
    named(right, "CONV2D")[80].attributes["stride"] = (2, 2)
    found = tc.diff(left, renamed(right))
    assert [f"{change.kind} {change.item.name}" for change in found] == [
        "added TANH",
        "changed CLAMP",
        "changed CONV2D",
    ]


def test_an_operator_in_the_place_of_another_is_a_change_of_the_operator() -> None:
    right = layers(10)
    clamp = named(right, "CLAMP")[4]
    right.main.operators[right.main.operators.index(clamp)] = Operator(
        operator("TANH"), clamp.inputs, clamp.outputs
    )
    (change,) = tc.diff(layers(10), renamed(right))
    assert "operator: CLAMP -> TANH" in str(change)
    assert "attribute max_val: 6 (0x40c00000) -> none" in str(change)


def test_exchanged_operands_are_a_change_of_the_operator() -> None:
    def subtraction(operands: str) -> Graph:
        values = [tensor(name) for name in ("x", "a", "b", "y")]
        operators = [op("ABS", "x", "a"), op("EXP", "x", "b"), op("SUB", operands, "y")]
        return graph("x", "y", values, operators)

    assert texts(subtraction("a b"), renamed(subtraction("b a"))) == [
        'changed operator #2 SUB: operand input1: "a" of #0 ABS -> "n.b" of #1 EXP; '
        'operand input2: "b" of #1 EXP -> "n.a" of #0 ABS'
    ]


def test_the_types_that_follow_from_a_changed_shape_are_grouped() -> None:
    left, right = layers(20), layers(20)
    for value in right.main.tensors.values():
        if value.data is None and value.shape is not None:
            value.shape = (8, *value.shape[1:])
    found = tc.diff(left, renamed(right))
    assert found.counts() == {("operator", "retyped"): 60, ("input", "changed"): 1}
    assert str(found.changes[0]) == (
        "changed input #0 x: type of input: FP32 [1, 4, 4, 2] -> FP32 [8, 4, 4, 2]"
    )


def test_a_changed_shape_operand_is_the_change_and_its_result_follows() -> None:
    other = example()
    other.main.shapes["to"] = shape("to", 1, 3)
    other.main.tensors["y"].shape = (1, 3)
    found = tc.diff(example(), renamed(other))
    assert [f"{change.kind} {change.item.name}" for change in found] == [
        "changed CONST_SHAPE",
        "retyped RESHAPE",
    ]
    assert found.changes[0].users == ("shape of #4 RESHAPE",)


# -- order -----------------------------------------------------------------------------------------


def parallel(order: str) -> Graph:
    """Three independent operators in an order, and their sum."""
    kinds = {"a": "ABS", "e": "EXP", "t": "TANH"}
    operators = [op(kinds[letter], "x", letter) for letter in order]
    operators += [op("ADD", "a e", "s"), op("ADD", "s t", "y")]
    return graph("x", "y", [tensor(name) for name in ("x", *"aetsy")], operators)


def test_as_few_operators_as_possible_have_moved() -> None:
    assert texts(parallel("aet"), renamed(parallel("eta"))) == [
        "moved operator #0 ABS: position: 0 -> 2"
    ]
    assert texts(parallel("aet"), renamed(parallel("eta")), order=False) == []


def test_a_read_before_a_write_is_not_a_read_after_it() -> None:
    def program(*order: int) -> Graph:
        made = counting()
        made.main.operators = [
            op("VARIABLE_READ", "v", "r"),
            op("VARIABLE_WRITE", "x", "v"),
            op("ADD", "x r", "sum"),
        ]
        made.main.operators[:2] = [made.main.operators[index] for index in order]
        return made

    found = tc.diff(program(0, 1), renamed(program(1, 0)), order=False)
    assert [change.item.name for change in found] == ["VARIABLE_READ"]
    assert str(found.changes[0]).endswith(
        'operand variable: variable "counter" -> the variable after #0 VARIABLE_WRITE'
    )


def test_a_region_that_writes_a_variable_keeps_its_place_among_reads() -> None:
    def program(first: bool) -> Graph:
        made = branching()
        variable = tensor("v", data=bytes(24))
        variable.variable, variable.variable_name = True, "state"
        inner = copy.deepcopy(variable)
        made.regions[1].blocks[0].tensors["v"] = inner
        made.regions[1].blocks[0].operators.append(op("VARIABLE_WRITE", "b", "v"))
        made.main.tensors |= {"v": variable, "r": tensor("r")}
        made.main.operators.insert(0 if first else 1, op("VARIABLE_READ", "v", "r"))
        made.main.outputs.append("r")
        return made

    assert not tc.diff(program(True), renamed(program(True)))
    assert tc.diff(program(True), renamed(program(False)), order=False)


def test_a_region_that_reads_a_variable_keeps_its_place_among_writes() -> None:
    def program(first: bool) -> Graph:
        made = branching()
        variable = tensor("v", data=bytes(24))
        variable.variable, variable.variable_name = True, "state"
        inner = made.regions[1].blocks[0]
        inner.tensors["v"] = copy.deepcopy(variable)
        inner.operators = [op("VARIABLE_READ", "v", "b")]
        made.main.tensors["v"] = variable
        made.main.operators.insert(0 if first else 1, op("VARIABLE_WRITE", "x", "v"))
        return made

    assert not tc.diff(program(True), renamed(program(True)), order=False)
    (change,) = tc.diff(program(True), renamed(program(False)), order=False)
    assert "state of a variable" in str(change)


# -- constants -------------------------------------------------------------------------------------


def difference(kind: str, left: list[float], right: list[float]) -> tuple[Any, ...]:
    row = dtype(kind)
    one, other = (
        Constant(row, len(values), np.array(values).astype(row.numpy).view(np.uint8), unpacked=True)
        for values in (left, right)
    )
    found = element_difference(one, other)
    assert found is not None
    return found.different, found.first, found.nans, found.max_absolute, found.max_relative


@pytest.mark.parametrize(
    ("kind", "left", "right", "expected"),
    [
        ("FP32", [1, 2, 3, 0], [1, 3, 3, -0.5], (2, 1, 0, 1.0, 1.0)),
        ("FP32", [0.0, 1], [-0.0, 1], (1, 0, 0, 0.0, 0.0)),
        ("FP32", [np.nan, 1], [2, 1], (1, 0, 1, None, None)),
        ("FP32", [np.nan, 1], [2, 4], (2, 0, 1, 3.0, 0.75)),
        ("FP16", [np.inf, 1], [1, 1], (1, 0, 0, np.inf, None)),
        ("BF16", [1, 2], [1, 1], (1, 1, 0, 1.0, 0.5)),
        ("FP8E4M3", [1, 2], [1, 1], (1, 1, 0, 1.0, 0.5)),
        ("FP4E2M1", [1, 2, 3], [1, 2, -3], (1, 2, 0, 6.0, 2.0)),
        ("FP6E3M2", [1, 2, 3, 4, 5], [1, 2, 3, 4, 7], (1, 4, 0, 2.0, 2 / 7)),
        ("INT4", [-7, 1, 7], [7, 1, 7], (1, 0, 0, 14, 2.0)),
        ("INT8", [-128, 1], [127, 1], (1, 0, 0, 255, 255 / 128)),
        ("INT64", [-(2**63), 0], [2**62, 0], (1, 0, 0, 2**63 + 2**62, 1.5)),
        ("BOOL", [0, 1, 1], [1, 1, 0], (2, 0, 0, 1, 1.0)),
    ],
)
def test_differing_elements_are_counted_and_measured(
    kind: str, left: list[float], right: list[float], expected: tuple[Any, ...]
) -> None:
    if kind == "INT64":
        row = dtype(kind)
        data = [np.array(values, dtype=object).astype("<i8").tobytes() for values in (left, right)]
        found = element_difference(Constant(row, 2, data[0]), Constant(row, 2, data[1]))
        assert found is not None
        assert (found.different, found.max_absolute, found.max_relative) == (1, *expected[3:])
        return
    assert difference(kind, left, right) == pytest.approx(expected)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_constants() -> None:
    row, count = dtype("FP32"), 16 * BLOCK
    left = Constant(row, count, np.zeros(count, np.float32))
    right = Constant(row, count, np.ones(count, np.float32))
    tracemalloc.start()
    found = element_difference(left, right)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert found.different == count
    assert peak < left.nbytes


def test_a_huge_splat_takes_no_time() -> None:
    def program(value: int) -> Graph:
        made = example()
        big = tensor("big", "INT8", (2**31 - 1, 2**20))
        big.data = Constant(dtype("INT8"), 2**51 - 2**20, bytes([value]), splat=True)
        made.main.tensors["big"] = big
        made.main.tensors["more"] = Tensor("more", big.dtype, big.shape, big.data)
        made.main.operators += [op("CONST", "", "big"), op("CONST", "", "more")]
        return made

    assert not tc.diff(program(1), renamed(program(1)))


# -- inputs, outputs, variables --------------------------------------------------------------------


def binary(inputs: str, outputs: str = "y z", operands: str = "a b") -> Graph:
    values = [tensor(name) for name in ("a", "b", "c", "y", "z")]
    return graph(inputs, outputs, values, [op("SUB", operands, "y"), op("ABS", "y", "z")])


def test_reordered_and_added_inputs_are_named() -> None:
    assert [str(c) for c in tc.diff(binary("a b"), binary("b a"))] == [
        "moved input #0 a: position: 0 -> 1"
    ]
    for inputs in ("a b c", "c a b", "a c b"):
        (change,) = tc.diff(binary("a b"), renamed(binary(inputs)))
        assert (change.kind, change.subject, change.item.name) == ("added", "input", "n.c")


def test_reordered_added_and_removed_outputs_are_named() -> None:
    found = tc.diff(binary("a b", "y z"), renamed(binary("a b", "z y")))
    assert [change.subject for change in found] == ["output", "output"]
    (change,) = tc.diff(binary("a b", "z"), renamed(binary("a b", "y z")))
    assert (change.kind, change.subject, change.item.name) == ("added", "output", "n.y")
    (change,) = tc.diff(binary("a b", "y z"), renamed(binary("a b", "y")))
    assert (change.kind, change.subject, change.item.name) == ("removed", "output", "z")


def test_variables_are_compared_by_symbol_and_by_initial_value() -> None:
    other = counting()
    other.main.tensors["v"].variable_name = "total"
    assert texts(counting(), renamed(other)) == [
        "changed variable counter: symbol: counter -> total"
    ]
    other = counting()
    other.main.tensors["v"].data = Constant(dtype("INT32"), 1, b"\7\0\0\0")
    assert texts(counting(), renamed(other)) == [
        "changed variable counter: initial value: [5] -> [7]"
    ]


# -- parts -----------------------------------------------------------------------------------------


def test_the_heaviest_increasing_subsequence_is_found() -> None:
    for values in itertools.permutations(range(6)):
        weights = [1, 2, 3, 1, 2, 3]
        chosen = in_order(values, weights)
        kept = [value for value, keep in zip(values, chosen, strict=True) if keep]
        assert kept == sorted(kept)
        best = max(
            sum(weight for weight, bit in zip(weights, bits, strict=True) if bit)
            for bits in itertools.product((0, 1), repeat=6)
            if (part := [v for v, bit in zip(values, bits, strict=True) if bit]) == sorted(part)
        )
        assert sum(w for w, keep in zip(weights, chosen, strict=True) if keep) == best


def test_changes_as_json_have_the_fields_of_their_document() -> None:
    document = tc.diff(example(), branching()).as_dict()
    assert document["equal"] is False
    fields = {"kind", "subject", "left", "right", "details", "users", "with_constants", "place"}
    assert all(set(row) == fields for row in document["changes"])
    assert isinstance(tc.diff(example(), branching()).changes[0], Change)
