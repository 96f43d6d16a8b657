"""Every rule of the graph accepts a sound graph and refuses one change of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from unit.building import block, branching, example, graph, op, region, shape, tensor

from tosa_convert.errors import CODES, MAX_FINDINGS
from tosa_convert.graph import Constant, Graph, Operator, ShapeValue, Tensor, dtype, verify
from tosa_convert.graph.dtypes import (
    BlockShape,
    NanPropagationMode,
    ResizeMode,
)
from tosa_convert.graph.model import INT32_MAX, MAX_RANK, MAX_UNKNOWN_SIZES, BlockScale

Break = Callable[[Graph], None]


def scaled(name: str = "s", *, data: bool = True) -> Tensor:
    """Return a block-scaled tensor of 2 x 64 elements: four scales."""
    made = tensor(name, "FP8E4M3", (2, 64), bytes(128) if data else None)
    scales = Constant(dtype("FP8UE8M0"), 4, bytes(4)) if data else None
    made.scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, scales)
    return made


def zoo() -> Graph:
    """Return every kind of attribute and value: the sound graph that the cases below break."""
    made = graph(
        "i c",
        "out",
        [
            tensor("i", "INT8", (1, 4, 4, 2)),
            tensor("c", "BOOL", ()),
            tensor("k", "INT4", (3,), b"\xe1\x07"),
            scaled("mx"),
            tensor("out", "INT8", (1, 4, 4, 2)),
            tensor("clamped", "INT8", (1, 4, 4, 2)),
            tensor("turned", "INT8", (1, 4, 4, 2)),
            tensor("zp", "INT8", (1,), b"\0"),
            tensor("pooled", "INT8", (1, 2, 2, 2)),
            tensor("made", "FP32", None),
            tensor("dyn", "INT8", (-1, 0, INT32_MAX)),
            shape("to", 1, 4, 4, 2),
            ShapeValue("open", 2),
        ],
        [
            op("CONST", "", "k"),
            op("CONST", "", "mx"),
            op("CONST", "", "zp"),
            op("CONST_SHAPE", "", "to"),
            op("CLAMP", "i", "clamped", min_val=b"\x80", max_val=b"\x7f" + bytes(7),
               nan_mode=NanPropagationMode.IGNORE),
            op("TRANSPOSE", "clamped", "turned", perms=(0, 2, 1, 3)),
            op("AVG_POOL2D", "turned zp zp", "pooled", kernel=(2, 2), stride=(2, 2),
               pad=(0, 0, 0, 0), acc_type=dtype("INT32")),
            op("CUSTOM", "i", "made", operator_name="f", domain_name="d",
               implementation_attrs=b"\0\xff"),
            op("COND_IF", "c i", "out", then_graph="then", else_graph="else"),
        ],
    )  # fmt: skip
    for name in ("then", "else"):
        made.regions.append(region(name, "a", "a", [tensor("a", "INT8", (1, 4, 4, 2))], []))
    return made


def at(name: str) -> Callable[[Graph], Operator]:
    return lambda g: next(o for o in g.main.operators if o.spec.name == name)


def attribute(operator: str, name: str, value: object) -> Break:
    def change(g: Graph) -> None:
        at(operator)(g).attributes[name] = value  # type: ignore[assignment]

    return change


def ends(operator: str, inputs: str | None = None, outputs: str | None = None) -> Break:
    def change(g: Graph) -> None:
        found = at(operator)(g)
        found.inputs = found.inputs if inputs is None else tuple(inputs.split())
        found.outputs = found.outputs if outputs is None else tuple(outputs.split())

    return change


def field(name: str, /, **values: Any) -> Break:
    def change(g: Graph) -> None:
        value = g.main.tensors.get(name) or g.main.shapes[name]
        for key, new in values.items():
            setattr(value, key, new)

    return change


def scale(**values: Any) -> Break:
    def change(g: Graph) -> None:
        for key, new in values.items():
            setattr(g.main.tensors["mx"].scale, key, new)

    return change


def drop_attribute(g: Graph) -> None:
    del at("CLAMP")(g).attributes["nan_mode"]


def extra_block(g: Graph) -> None:
    g.regions[1].blocks.append(block("", "", [], [], "second"))


def rename_region(g: Graph) -> None:
    g.regions[2].name = "then"


def shape_of_a_tensors_name(g: Graph) -> None:
    g.main.shapes["i"] = ShapeValue("i", 4)


def later(g: Graph) -> None:
    operators = g.main.operators
    operators.insert(0, operators.pop())
    operators[0].inputs = ("c", "clamped")


def variable_operator(g: Graph) -> None:
    g.main.operators.append(op("VARIABLE"))


def calls_itself(g: Graph) -> None:
    inner = g.regions[1].blocks[0]
    inner.tensors["b"] = tensor("b", "BOOL", ())
    inner.inputs.append("b")
    inner.operators.append(op("COND_IF", "b a", "x", then_graph="else", else_graph="then"))
    inner.tensors["x"] = tensor("x", "INT8", (1, 4, 4, 2))


def ints(row: str, count: int) -> Constant:
    return Constant(dtype(row), count, bytes(dtype(row).wire_bytes(count)))


REFUSED: list[tuple[str, Break, str, str]] = [
    ("no regions", lambda g: g.regions.clear(), "malformed-structure", "no regions"),
    ("a region twice", rename_region, "duplicate-name", "two regions"),
    ("two blocks", extra_block, "malformed-structure", "2 blocks"),
    ("no block", lambda g: g.regions[1].blocks.clear(), "malformed-structure", "0 blocks"),
    ("tensor and shape", shape_of_a_tensors_name, "duplicate-name", "both a tensor and a shape"),
    ("an input twice", lambda g: g.main.inputs.append("i"), "duplicate-name", "is duplicated"),
    ("unknown input", lambda g: g.main.inputs.append("q"), "undefined-name", 'input "q"'),
    ("unknown output", lambda g: g.main.outputs.append("q"), "undefined-name", 'output "q"'),
    ("output never made", lambda g: g.main.outputs.append("dyn"), "undefined-name", "never defined"),
    ("operand unknown", ends("TRANSPOSE", "q"), "undefined-name", "never defined"),
    ("operand later", later, "undefined-name", "defined only later"),
    ("defined twice", ends("TRANSPOSE", outputs="clamped"), "duplicate-name", "already defined"),
    ("an argument defined", ends("TRANSPOSE", outputs="i"), "duplicate-name", "already defined"),
    ("result unlisted", ends("TRANSPOSE", outputs="q"), "undefined-name", "neither the tensors"),
    ("a VARIABLE operator", variable_operator, "malformed-operator", "declared by its tensor"),
    ("too few operands", ends("AVG_POOL2D", "turned zp"), "malformed-operator", "2 inputs"),
    ("too many operands", ends("TRANSPOSE", "clamped i"), "malformed-operator", "2 inputs"),
    ("no operand of several", ends("COND_IF", ""), "malformed-operator", "expected 1 to any"),
    ("no result", ends("CONST", outputs=""), "malformed-operator", "0 outputs, expected 1"),
    ("shape for tensor", ends("TRANSPOSE", "to"), "malformed-operator", "is a shape, expected a"),
    ("tensor for shape", ends("CONST_SHAPE", outputs="dyn"), "malformed-operator", "is a tensor"),
    ("attribute missing", drop_attribute, "malformed-operator", '"nan_mode" is missing'),
    ("attribute unknown", attribute("CONST", "axis", 1), "malformed-operator", "expected: none"),
    ("region unknown", attribute("COND_IF", "then_graph", "q"), "undefined-name", 'region "q"'),
    ("main as branch", attribute("COND_IF", "then_graph", "main"), "malformed-structure",
     "runs it as a branch"),
    ("a cycle", calls_itself, "malformed-structure", "must not form a cycle"),
    ("list too short", attribute("AVG_POOL2D", "pad", (0,) * 3), "malformed-operator", "expected 4"),
    ("list too long", attribute("AVG_POOL2D", "pad", (0,) * 5), "malformed-operator", "expected 4"),
    ("list far too long", attribute("AVG_POOL2D", "pad", (0,) * 17), "malformed-operator",
     f"17 values, expected 4: {[0] * 16}"),
    ("list over any rank", attribute("TRANSPOSE", "perms", (0,) * 65), "malformed-operator",
     "65 values"),
    ("list over i32", attribute("TRANSPOSE", "perms", (2**31,)), "malformed-operator", "32 bits"),
    ("list of text", attribute("TRANSPOSE", "perms", ("0",)), "malformed-operator", "found"),
    ("list as list", attribute("TRANSPOSE", "perms", [0]), "malformed-operator", "expected tuple"),
    ("wrong accumulator", attribute("AVG_POOL2D", "acc_type", dtype("INT8")), "malformed-operator",
     "found INT8, expected one of INT32"),
    ("enum as number", attribute("CLAMP", "nan_mode", 1), "malformed-operator", "found 1"),
    ("another enum", attribute("CLAMP", "nan_mode", ResizeMode.NEAREST), "malformed-operator",
     "expected NanPropagationMode"),
    ("bound too short", attribute("CLAMP", "min_val", b""), "malformed-operator", "0 bytes"),
    ("bound as number", attribute("CLAMP", "min_val", 3), "malformed-operator", "expected bytes"),
    ("text as bytes", attribute("CUSTOM", "operator_name", b"f"), "malformed-operator", "str"),
    ("bytes as text", attribute("CUSTOM", "implementation_attrs", "f"), "malformed-operator", "bytes"),
    ("no data", field("k", data=None), "missing-data", '"k" has no data'),
    ("no sizes", field("to", data=None), "missing-data", '"to" has no data'),
    ("no scales", scale(data=None), "missing-data", "no scales"),
    ("another name", field("dyn", name="q"), "malformed-tensor", 'its name is "q"'),
    ("another name of a shape", field("open", name="q"), "malformed-tensor", 'its name is "q"'),
    ("dimension -2", field("dyn", shape=(-2,)), "unsupported-shape", "dimension -2"),
    ("dimension 2^31", field("dyn", shape=(2**31,)), "unsupported-shape", str(2**31)),
    ("65 dimensions", field("dyn", shape=(1,) * 65), "unsupported-shape", "65 dimensions"),
    ("symbol of no variable", field("dyn", variable_name="v"), "malformed-tensor", "not a variable"),
    ("scales of 31", field("mx", shape=(4, 31), data=None), "malformed-tensor", "blocks of 32"),
    ("scales of rank 0", field("mx", shape=(), data=None), "malformed-tensor", "blocks of 32"),
    ("scales of nothing", field("mx", shape=(2, 0), data=None), "malformed-tensor", "blocks of 32"),
    ("scales of any rank", field("mx", shape=None, data=None), "malformed-tensor", "blocks of 32"),
    ("scales of an integer", field("mx", dtype=dtype("INT8"), data=None), "malformed-tensor",
     "INT8 with scales of FP8UE8M0"),
    ("scales of a type", scale(dtype=dtype("FP8E4M3"), data=None), "malformed-tensor",
     "FP8E4M3 with scales of FP8E4M3"),
    ("too few scales", scale(data=ints("FP8UE8M0", 3)), "data-length", "3 scales"),
    ("scales' data of a type", scale(data=ints("FP8E4M3", 4)), "data-length",
     "4 scales of FP8E4M3"),
    ("too few elements", field("k", data=ints("INT4", 2)), "data-length", "2 elements"),
    ("too many elements", field("k", data=ints("INT4", 4)), "data-length", "4 elements"),
    ("data of dynamic", field("k", shape=(-1,)), "data-length", "shape [-1]"),
    ("data of unranked", field("k", shape=None), "data-length", "unranked"),
    ("data of a type", field("k", data=ints("INT8", 3)), "malformed-tensor", "INT8 data in a tensor"),
    ("INT4 of -8", field("k", data=Constant(dtype("INT4"), 3, b"\x81\x07")), "int4-minus-8", "-8"),
    ("rank -1", field("open", rank=-1), "malformed-tensor", "rank -1"),
    ("rank 2^31", field("open", rank=2**31), "malformed-tensor", "rank 2147483648"),
    ("too few sizes", field("to", rank=5), "data-length", "4 sizes in a shape of rank 5"),
    ("sizes of a type", field("to", data=ints("INT32", 4)), "malformed-tensor", "INT32"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "text"), [row[1:] for row in REFUSED],
                         ids=[row[0] for row in REFUSED])  # fmt: skip
def test_one_change_is_refused_by_its_rule(change: Break, code: str, text: str) -> None:
    made = zoo()
    change(made)
    findings = verify(made)
    assert code in [found.code for found in findings]
    assert any(found.code == code and text in str(found) for found in findings), findings
    assert all(found.code in CODES for found in findings)


def test_a_bound_has_no_bits_beyond_its_element() -> None:
    made = zoo()
    clamp = at("CLAMP")(made)
    for name, good, bad in (("BOOL", (0, 1), (2, 0xFB)), ("INT4", (0, 15, 0xF8), (0x18, 0x90))):
        made.main.tensors[clamp.inputs[0]].dtype = dtype(name)
        for byte in (*good, *bad):
            clamp.attributes["min_val"] = bytes([byte])
            wrong = [found for found in verify(made) if f"the byte 0x{byte:02x}" in found.message]
            assert bool(wrong) == (byte in bad)


def test_deep_nesting_is_sound_and_a_long_cycle_is_found() -> None:
    made = graph(
        "c", "", [tensor("c", "BOOL", ())], [op("COND_IF", "c", then_graph="1", else_graph="1")]
    )
    for number in range(1, 3000):
        inner = op("COND_IF", "c", then_graph=str(number + 1), else_graph=str(number + 1))
        made.regions.append(region(str(number), "c", "", [tensor("c", "BOOL", ())], [inner]))
    made.regions.append(region("3000", "c", "", [tensor("c", "BOOL", ())], []))
    assert verify(made) == []
    made.regions[2999].blocks[0].operators[0].attributes["then_graph"] = "17"
    assert {found.code for found in verify(made)} == {"malformed-structure"}


def test_verifying_changes_nothing() -> None:
    made = zoo()
    rename_region(made)
    before = len(made.regions), list(made.main.tensors), list(made.main.operators)
    verify(made)
    assert before == (len(made.regions), list(made.main.tensors), list(made.main.operators))


def test_a_hundred_thousand_wrong_operators_are_verified_in_linear_time() -> None:
    made = graph("", "", [tensor("y")], [op("EXP", "nowhere", "y")] * 100_000)
    findings = verify(made)
    assert findings[0].code == "undefined-name"
    # The text of an error must not outgrow the file that caused it.
    assert len(findings) == MAX_FINDINGS


def test_a_shape_of_many_wrong_dimensions_is_one_short_finding() -> None:
    made = graph("x", "", [tensor("x", shape=(-2,) * MAX_RANK)], [])
    findings = verify(made)
    assert [found.code for found in findings] == ["unsupported-shape"]
    assert len(str(findings[0])) < 5000


def test_the_elements_of_a_tensor_of_enormous_rank_are_counted_quickly() -> None:
    made = graph("x", "", [tensor("x", shape=(INT32_MAX,) * 200_000)], [])
    made.main.tensors["x"].data = Constant(dtype("FP32"), 1, bytes(4))
    assert [found.code for found in verify(made)] == ["unsupported-shape"]
    assert (made.main.tensors["x"].element_count() or 0) > 2**63
    made.main.tensors["x"].shape = (*(INT32_MAX,) * 200_000, 0)
    assert made.main.tensors["x"].element_count() == 0


def test_a_cycle_behind_a_region_that_two_operators_run_is_found() -> None:
    made = branching()
    made.main.operators.append(op("COND_IF", "c y", "z", then_graph="then", else_graph="last"))
    made.main.tensors["z"] = tensor("z")
    values = [tensor("c", "BOOL", ()), tensor("x"), tensor("y"), tensor("z")]
    operators = [
        op("COND_IF", "c x", "y", then_graph="else", else_graph="then"),
        op("COND_IF", "c y", "z", then_graph="else", else_graph="last"),
    ]
    made.regions.insert(1, region("last", "c x", "z", values, operators))
    assert [finding.message for finding in verify(made) if "cycle" in finding.message] == [
        'it runs region "last", which runs it: regions must not form a cycle'
    ]


def test_a_shape_of_unknown_sizes_has_a_limit() -> None:
    made = example()
    for rank in (MAX_UNKNOWN_SIZES, MAX_UNKNOWN_SIZES + 1):
        made.main.shapes["sizes"] = ShapeValue("sizes", rank)
        codes = {finding.code for finding in verify(made)}
        assert ("unsupported-shape" in codes) is (rank > MAX_UNKNOWN_SIZES)
