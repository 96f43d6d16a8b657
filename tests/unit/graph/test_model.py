"""Graphs print in a line, list their operators on request, and can be pickled and copied."""

from __future__ import annotations

import copy
import mmap
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from refusing import refused
from unit.building import block, branching, counting, example, graph, op, shape, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import (
    Block,
    Constant,
    Graph,
    Region,
    ShapeValue,
    compare,
    dtype,
)
from tosa_convert.graph.dtypes import BlockShape, NanPropagationMode
from tosa_convert.graph.model import BlockScale, sizes
from tosa_convert.io.files import map_file


def scaled() -> Graph:
    """Return a block-scaled constant."""
    weight = tensor("w", "FP4E2M1", (2, 32), bytes(range(32)))
    scales = Constant(dtype("FP8UE8M0"), 2, b"\x7f\x80")
    weight.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, scales)
    return graph("", "w", [weight], [op("CONST", "", "w")])


def clamp() -> Graph:
    """Return a CLAMP of INT8 from -128 to 5."""
    values = [tensor("x", "INT8", (4,)), tensor("y", "INT8", (4,))]
    clamp = op("CLAMP", "x", "y", min_val=b"\x80", max_val=b"\5\0\0\0")
    clamp.attributes["nan_mode"] = NanPropagationMode.IGNORE
    return graph("x", "y", values, [clamp])


#: The signature of four values that a block does not have.
UNDEFINED = "".join(f"{name}: undefined, " for name in "abcd")

GRAPHS = [example, branching, counting, scaled, clamp]


# -- pickling and copying ----------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("make", GRAPHS)
def test_a_graph_survives_pickling(make: Callable[[], Graph], protocol: int) -> None:
    made = make()
    found = pickle.loads(pickle.dumps(made, protocol))
    assert compare(made, found, locations=True, version=True) is None
    assert found.producer == made.producer
    assert all(type(data.buffer.obj) is bytes for _, data in found.constants())


def test_constants_of_a_mapped_file_survive_pickling_and_copying(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(range(24)))
    made = example()
    view = map_file(path)
    assert isinstance(view.obj, mmap.mmap)
    made.main.tensors["w"].data = Constant(dtype("FP32"), 6, view)
    pickled = pickle.loads(pickle.dumps(made))
    copied = copy.deepcopy(made)
    assert compare(made, pickled) is None
    assert compare(made, copied) is None
    unpickled, shared = pickled.main.tensors["w"].data, copied.main.tensors["w"].data
    assert unpickled is not None
    assert type(unpickled.buffer.obj) is bytes
    # A copy shares immutable data.
    assert shared is not None
    assert shared.buffer.obj is view.obj


# -- printing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", GRAPHS)
def test_everything_prints_in_one_short_line(make: Callable[[], Graph]) -> None:
    made = make()
    parts = [
        made,
        *made.regions,
        made.main,
        *made.main.operators,
        *made.main.tensors.values(),
        *made.main.shapes.values(),
    ]
    for part in parts:
        assert "\n" not in repr(part)
        assert len(repr(part)) < 200, repr(part)


@pytest.mark.slow
def test_a_graph_of_any_size_prints_in_one_short_line() -> None:
    count = 20_000
    names = [f"value_{number}" for number in range(count)]
    made = graph(
        " ".join(names),
        " ".join(names),
        [tensor(name, shape=(1,) * 60) for name in names],
        [op("CUSTOM", " ".join(names), " ".join(names))] * count,
    )
    made.regions *= 1000
    assert len(repr(made)) < 1000
    assert len(repr(made.main.operators[0])) < 1000
    assert len(str(made)) < 150_000
    assert len(made._repr_html_()) < 3000


def test_a_name_of_a_megabyte_or_of_several_lines_prints_in_one_short_line() -> None:
    made = graph("x", "x", [tensor("x" * 1_000_000), ShapeValue("a\nb\udcff", 3)], [])
    made.main.inputs = made.main.outputs = ["x" * 1_000_000, "a\nb\udcff"]
    for text in (repr(made), repr(made.main), repr(made.main.shapes["a\nb\udcff"])):
        assert len(text) < 400
        assert "\n" not in text
        text.encode()
    made._repr_html_().encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (tensor("x"), 'Tensor("x", FP32 [2, 3])'),
        (tensor("x", "INT8", None), 'Tensor("x", INT8 unranked)'),
        (tensor("x", shape=()), 'Tensor("x", FP32 [])'),
        (tensor("w", data=bytes(24)), 'Tensor("w", FP32 [2, 3], constant)'),
        (counting().main.tensors["v"], 'Tensor("v", INT32 [1], variable "counter")'),
        (scaled().main.tensors["w"], 'Tensor("w", FP4E2M1 [2, 32] in blocks of 32, constant)'),
        (shape("to", 1, 3), 'ShapeValue("to", shape [1, 3])'),
        (ShapeValue("to", 2), 'ShapeValue("to", shape of rank 2)'),
        (example().main.operators[1], "Operator(s = ADD(x, w))"),
        (example().main.operators[2], "Operator(m = REDUCE_SUM(s) {axis = 0})"),
        (
            clamp().main.operators[0],
            "Operator(y = CLAMP(x) {min_val = 0x80, max_val = 0x00000005, nan_mode = IGNORE})",
        ),
        (example().regions[0], 'Region("main", 1 block, 5 operators)'),
        (example().main, 'Block("main", 5 operators, (x: FP32 [2, 3]) -> (y: FP32 [3]))'),
        (
            branching(),
            "Graph(TOSA 1.0.0, 3 regions, 2 operators, "
            "(c: BOOL [], x: FP32 [2, 3]) -> (y: FP32 [2, 3]))",
        ),
        (Graph(example().version), "Graph(TOSA 1.0.0, 0 regions, 0 operators)"),
        # Long ones lose their middle or their end.
        (tensor("x" * 40), f'Tensor("{"x" * 40}", FP32 [2, 3])'),
        (tensor("x" * 20 + "y" * 21), f'Tensor("{"x" * 20}...{"y" * 20}", FP32 [2, 3])'),
        (tensor("x", shape=(*range(8),)), 'Tensor("x", FP32 [0, 1, 2, 3, 4, 5, 6, 7])'),
        (tensor("x", shape=(7,) * 10), f'Tensor("x", FP32 [{"7, " * 8}... 2 more])'),
        (shape("to", *range(9)), 'ShapeValue("to", shape [0, 1, 2, 3, 4, 5, 6, 7, ... 1 more])'),
        (shape("to", *(1,) * 65), 'ShapeValue("to", shape of rank 65)'),
        (op("CONCAT", "a b c d e f g h", "y"), "Operator(y = CONCAT(a, b, c, d, e, f, g, h))"),
        (op("CONCAT", "a " * 9, "y"), f"Operator(y = CONCAT({'a, ' * 8}... 1 more))"),
        (op("CUSTOM", "", "a b c d"), "Operator(a, b, c, d = CUSTOM())"),
        (op("CUSTOM", "", "a b c d e"), "Operator(a, b, c, d, ... 1 more = CUSTOM())"),
        (op("ABS", pad=(0,) * 8), f"Operator(ABS() {{pad = [{', '.join('0' * 8)}]}})"),
        (op("ABS", pad=(0,) * 9), f"Operator(ABS() {{pad = [{'0, ' * 8}... 1 more]}})"),
        (
            op("ABS", raw=bytes(range(16))),
            f"Operator(ABS() {{raw = 0x{bytes(range(16))[::-1].hex()}}})",
        ),
        (op("ABS", raw=bytes(17)), "Operator(ABS() {raw = 17 bytes})"),
        (op("ABS", text="a\nb"), "Operator(ABS() {text = 'a\\nb'})"),
        (block("a b c d", "", [], [], "m"), f'Block("m", 0 operators, ({UNDEFINED[:-2]}) -> ())'),
        (
            block("a b c d e", "", [], [], "m"),
            f'Block("m", 0 operators, ({UNDEFINED}... 1 more) -> ())',
        ),
    ],
)
def test_a_part_of_a_graph_prints_its_name_and_type(value: object, text: str) -> None:
    assert repr(value) == text


def test_a_notebook_names_eight_operators_and_regions() -> None:
    names = ["ABS", "CEIL", "CLZ", "COS", "EXP", "FLOOR", "LOG", "SIN", "ERF"]
    for count, rest in ((8, ""), (9, ", ... 1 more")):
        made = graph("", "", [], [op(name) for name in names[:count]])
        made.regions += [Region(f"r{number}") for number in range(1, count)]
        table = made._repr_html_()
        assert f"<td>{count}: {', '.join(f'{name} 1' for name in names[:8])}{rest}</td>" in table
        assert f"<td>main, {', '.join(f'r{number}' for number in range(1, 8))}{rest}</td>" in table


def test_what_has_no_regions_or_too_many_prints_in_few_lines() -> None:
    made = branching()
    made.regions += [Region(f"r{number}") for number in range(100)]
    assert re.search(r"^\.\.\. \d+ more regions$", str(made), re.MULTILINE)
    del made.regions[5:]
    assert str(made).endswith("\n... 1 more region")
    del made.regions[4:]
    assert str(made).endswith('\nregion "r0"')
    made.regions[0].blocks += [Block(f"b{number}") for number in range(5)]
    assert "\n  ... 2 more blocks\n" in str(made)
    made.regions.clear()
    assert "inputs" not in made._repr_html_()
    assert "0 regions" in str(made)


def test_an_element_that_is_missing_or_too_short_has_no_value() -> None:
    made = clamp()
    (operator,) = made.main.operators
    assert made.main.element_of(operator, "max_val") == 5
    assert made.main.element_of(operator, "nan_mode") is None
    operator.attributes["max_val"] = b""
    assert made.main.element_of(operator, "max_val") is None


def test_a_long_shape_loses_its_end() -> None:
    assert sizes((2, 3)) == "[2, 3]"
    assert sizes((7,) * 64) == str([7] * 64)
    assert sizes((7,) * 65) == f"{str([7] * 64)[:-1]}, ... 65 dimensions]"
    assert sizes((7,) * 99).endswith("7, 7, ... 99 dimensions]")


def test_a_graph_without_a_block_has_no_main_block() -> None:
    made = example()
    made.regions[0].blocks.clear()
    with refused("malformed-structure"):
        _ = made.main
    made.regions.clear()
    with pytest.raises(TosaConvertError):
        _ = made.main


def test_attributes_are_shown_with_bounds_as_numbers() -> None:
    made = clamp().main
    shown = [("min_val", "-128"), ("max_val", "5"), ("nan_mode", "IGNORE")]
    assert made.attribute_texts(made.operators[0]) == shown
