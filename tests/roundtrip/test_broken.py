"""One fault in a sound graph or file: it is refused with the right code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from roundtrip.graphs import graphs
from roundtrip.test_flatbuffer import QUICK, encode
from sampling import one_in

from tosa_convert.errors import CODES, TosaConvertError
from tosa_convert.formats.flatbuffer.read import read
from tosa_convert.graph import (
    OPERATORS,
    Block,
    Constant,
    Graph,
    Operator,
    ShapeValue,
    Tensor,
    compare,
    dtype,
    verify,
)
from tosa_convert.graph import operator as operator_row

Draw = Any

#: One operator of each kind, so that every example has a place for each fault.
RICH = [
    *map(operator_row, ("CONST", "CLAMP", "CONST_SHAPE", "RESHAPE", "COND_IF", "TRANSPOSE", "ADD"))
]


def pick(draw: Draw, things: Any) -> Any:
    """Return one of several; examples without any are skipped."""
    things = list(things)
    assume(things)
    return draw(st.sampled_from(things))


def operator(draw: Draw, made: Graph, which: Callable[[Operator], bool]) -> tuple[Block, Operator]:
    found = [(block, one) for _, block in made.blocks() for one in block.operators if which(one)]
    return pick(draw, found)  # type: ignore[no-any-return]


def tensor(draw: Draw, made: Graph, which: Callable[[Tensor], bool]) -> Tensor:
    found = [one for _, block in made.blocks() for one in block.tensors.values() if which(one)]
    return pick(draw, found)  # type: ignore[no-any-return]


def plain(one: Operator) -> bool:
    return one.spec.encoded_as == one.spec.name


# Each function breaks one thing and returns the codes of which one must be reported.
def forget_a_result(draw: Draw, made: Graph) -> set[str]:
    block, one = operator(draw, made, lambda o: bool(o.outputs))
    name = pick(draw, one.outputs)
    (block.tensors if name in block.tensors else block.shapes).pop(name)
    return {"undefined-name"}


def forget_an_input(draw: Draw, made: Graph) -> set[str]:
    block = pick(draw, [block for _, block in made.blocks() if block.inputs])
    name = pick(draw, block.inputs)
    (block.tensors if name in block.tensors else block.shapes).pop(name)
    return {"undefined-name"}


def use_what_nothing_defines(draw: Draw, made: Graph) -> set[str]:
    _, one = operator(draw, made, lambda o: bool(o.inputs))
    place = draw(st.integers(0, len(one.inputs) - 1))
    one.inputs = (*one.inputs[:place], "nowhere", *one.inputs[place + 1 :])
    return {"undefined-name"}


def return_what_nothing_defines(draw: Draw, made: Graph) -> set[str]:
    pick(draw, [block for _, block in made.blocks()]).outputs.append("nowhere")
    return {"undefined-name"}


def use_before_the_definition(draw: Draw, made: Graph) -> set[str]:
    block, one = operator(draw, made, lambda o: plain(o) and bool(o.outputs))
    name = pick(draw, one.outputs)
    later = [o for o in block.operators if name in o.inputs]
    assume(later)
    block.operators.remove(one)
    block.operators.append(one)
    return {"undefined-name"}


def define_twice(draw: Draw, made: Graph) -> set[str]:
    block, one = operator(draw, made, lambda o: plain(o) and bool(o.outputs))
    block.operators.append(one)
    return {"duplicate-name"}


def define_an_argument(draw: Draw, made: Graph) -> set[str]:
    block, one = operator(draw, made, lambda o: plain(o) and bool(o.outputs))
    block.inputs.append(pick(draw, one.outputs))
    return {"duplicate-name"}


def take_an_argument_twice(draw: Draw, made: Graph) -> set[str]:
    block = pick(draw, [block for _, block in made.blocks() if block.inputs])
    block.inputs.append(pick(draw, block.inputs))
    return {"duplicate-name"}


def lose_an_attribute(draw: Draw, made: Graph) -> set[str]:
    _, one = operator(draw, made, lambda o: bool(o.attributes))
    del one.attributes[pick(draw, one.attributes)]
    return {"malformed-operator"}


def invent_an_attribute(draw: Draw, made: Graph) -> set[str]:
    _, one = operator(draw, made, lambda o: True)
    one.attributes["invented"] = 1
    return {"malformed-operator"}


def mistake_an_attribute(draw: Draw, made: Graph) -> set[str]:
    _, one = operator(draw, made, lambda o: bool(o.attributes))
    name = pick(draw, one.attributes)
    values: list[Any] = [None, 1.5, 2**31, [1], {}, dtype("MXINT8"), (2**40,), ("a",), object()]
    one.attributes[name] = draw(st.sampled_from(values))
    return {"malformed-operator"}


def another_operator(draw: Draw, made: Graph) -> set[str]:
    _, one = operator(draw, made, lambda o: True)
    one.spec = draw(st.sampled_from(OPERATORS))
    count, results = len(one.inputs), len(one.outputs)
    fewest, most = one.spec.operand_range()
    fewest_results, most_results = one.spec.result_range()
    fits = fewest <= count and (most is None or count <= most)
    fits = fits and fewest_results <= results and (most_results is None or results <= most_results)
    assume(not fits or one.spec.name == "VARIABLE")
    return {"malformed-operator"}


def lose_data(draw: Draw, made: Graph) -> set[str]:
    block, one = operator(draw, made, lambda o: not o.spec.operands and bool(o.outputs))
    name = one.outputs[0]
    (block.tensors.get(name) or block.shapes[name]).data = None
    return {"missing-data"}


def shorten_data(draw: Draw, made: Graph) -> set[str]:
    one = tensor(draw, made, lambda t: t.data is not None and t.data.count > 0)
    assert one.data is not None
    count = one.data.count - 1
    one.data = Constant(one.dtype, count, bytes(one.dtype.wire_bytes(count)))
    return {"data-length"}


def mistake_data(draw: Draw, made: Graph) -> set[str]:
    one = tensor(draw, made, lambda t: t.data is not None)
    assert one.data is not None
    other = dtype("INT8" if one.dtype.name != "INT8" else "INT16")
    one.data = Constant(other, one.data.count, bytes(other.wire_bytes(one.data.count)))
    return {"malformed-tensor"}


def minus_8(draw: Draw, made: Graph) -> set[str]:
    one = tensor(draw, made, lambda t: t.data is not None and t.data.count > 0)
    assert one.data is not None
    one.dtype = dtype("INT4")
    one.data = Constant(one.dtype, one.data.count, b"\x08", splat=True)
    return {"int4-minus-8"}


def stretch_a_dimension(draw: Draw, made: Graph) -> set[str]:
    one = tensor(draw, made, lambda t: bool(t.shape))
    assert one.shape is not None
    place = draw(st.integers(0, len(one.shape) - 1))
    wrong = draw(st.sampled_from([-2, 2**31, 2**63, -(2**31)]))
    one.shape = (*one.shape[:place], wrong, *one.shape[place + 1 :])
    return {"unsupported-shape"}


def name_no_variable(draw: Draw, made: Graph) -> set[str]:
    one = tensor(draw, made, lambda t: not t.variable)
    one.variable_name = "v"
    return {"malformed-tensor"}


def confuse_tensor_and_shape(draw: Draw, made: Graph) -> set[str]:
    block, one = operator(draw, made, lambda o: bool(o.outputs) and plain(o))
    name = one.outputs[0]
    if name in block.tensors:
        del block.tensors[name]
        block.shapes[name] = ShapeValue(name, 1, Constant(dtype("INT64"), 1, bytes(8)))
    else:
        del block.shapes[name]
        block.tensors[name] = Tensor(name, dtype("INT8"), (1,), Constant(dtype("INT8"), 1, b"\0"))
    return {"malformed-operator"}


def call_a_region_twice_the_same(draw: Draw, made: Graph) -> set[str]:
    made.regions[-1].name = made.regions[0].name
    return {"duplicate-name"}


def run_no_region(draw: Draw, made: Graph) -> set[str]:
    _, one = operator(draw, made, lambda o: bool(o.spec.regions))
    assume("nowhere" not in {region.name for region in made.regions})
    one.attributes[pick(draw, one.spec.regions).name] = "nowhere"
    return {"undefined-name"}


def run_the_main_region(draw: Draw, made: Graph) -> set[str]:
    _, one = operator(draw, made, lambda o: bool(o.spec.regions))
    one.attributes[pick(draw, one.spec.regions).name] = made.regions[0].name
    return {"malformed-structure"}


def add_a_block(draw: Draw, made: Graph) -> set[str]:
    pick(draw, made.regions).blocks.append(Block("second"))
    return {"malformed-structure"}


BREAKS = [
    forget_a_result, forget_an_input, use_what_nothing_defines, return_what_nothing_defines,
    use_before_the_definition, define_twice, define_an_argument, take_an_argument_twice,
    lose_an_attribute, invent_an_attribute, mistake_an_attribute, another_operator, lose_data,
    shorten_data, mistake_data, minus_8, stretch_a_dimension, name_no_variable,
    confuse_tensor_and_shape, call_a_region_twice_the_same, run_no_region, run_the_main_region,
    add_a_block,
]  # fmt: skip


@pytest.mark.parametrize("change", one_in(6, BREAKS), ids=lambda change: change.__name__)
def test_one_broken_thing_is_refused_by_name(change: Callable[[Draw, Graph], set[str]]) -> None:
    @settings(QUICK, max_examples=12)
    @given(graphs(RICH), st.data())
    def refused(made: Graph, data: Any) -> None:
        expected = change(data.draw, made)
        findings = verify(made)
        codes = {finding.code for finding in findings}
        assert codes & expected, (codes, expected)
        assert codes <= CODES.keys()
        assert all(finding.where and finding.message for finding in findings)

    refused()


@pytest.mark.slow
@settings(QUICK, max_examples=40)
@given(graphs(), st.booleans(), st.data())
def test_a_file_that_is_cut_is_refused_or_lost_nothing(
    made: Graph, out_of_line: bool, data: Any
) -> None:
    whole = encode(made, out_of_line=out_of_line)
    size = data.draw(st.integers(0, len(whole) - 1))
    try:
        found = read(whole[:size])
    except TosaConvertError as error:
        found, code = None, error.code
    if found is None:
        assert code in ("malformed-flatbuffer", "missing-data")
    else:
        assert compare(made, found, locations=True, version=True) is None


@pytest.mark.slow
@settings(QUICK, max_examples=80)
@given(graphs(), st.booleans(), st.data())
def test_a_spoiled_file_is_refused_or_is_a_graph_that_can_be_written(
    made: Graph, out_of_line: bool, data: Any
) -> None:
    spoiled = bytearray(encode(made, out_of_line=out_of_line))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(spoiled) - 1))
        spoiled[place] = data.draw(st.sampled_from([0, 1, 4, 0x7F, 0x80, 0xFF, spoiled[place] ^ 1]))
    try:
        found = read(bytes(spoiled))
    except TosaConvertError:
        return
    if verify(found):
        return
    found.producer = made.producer
    again = read(encode(found))
    assert verify(again) == []
    assert compare(found, again, locations=True, version=True) is None
