"""MLIR text without MLIR: every operator, names, numbers of values, control flow, locations.

tests/oracle/test_printed_text.py compares the same printer with tosa-opt.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from unit.building import branching, counting, example, graph, op, region, shape, tensor

import tosa_convert as tc
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.sections import sections_in_pieces
from tosa_convert.formats.mlir.text.print.module import write
from tosa_convert.formats.mlir.text.print.names import LocationAliases
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.graph import Graph, Operator, OperatorSpec, ShapeValue, Tensor, dtype
from tosa_convert.graph.opset import OPERATORS, AttributeSpec
from tosa_convert.io.options import WriteOptions

#: Two lines for each operator, its custom and its generic form, as `operator_lines` makes them.
GOLDEN: Final = Path(__file__).with_name("printed_operators.txt")


def text_of(made: Graph, **options: Any) -> str:
    return b"".join(write(made, WriteOptions(**options))).decode()


def lines_of(made: Graph, **options: Any) -> list[str]:
    """Return the lines of the text, without locations unless they are asked for."""
    return text_of(made, **{"locations": False, **options}).splitlines()


# -- every operator ---------------------------------------------------------------------------------

#: A value for an attribute of each kind. For enums it is the last member.
VALUES: Final[dict[str, Any]] = {
    "i32": -2,
    "i32s": (0, 1, 7),
    "bool": True,
    "dtype": dtype("FP16"),
    "element": b"\x00\x00\xa0\x40",
    "string": 'a "b"',
    "bytes": b"\0\xffx",
}


def value_of(row: AttributeSpec) -> Any:
    return list(row.enum)[-1] if row.enum is not None else VALUES[row.kind]


def operator_graph(spec: OperatorSpec) -> Graph:
    """Return a function of one operator, all of whose attributes differ from their defaults."""
    values: list[Tensor | ShapeValue] = []
    for role, rows in (("i", spec.operands), ("o", spec.results)):
        for index, row in enumerate(rows):
            name = f"{role}{index}"
            values.append(ShapeValue(name, 3) if row.is_shape else tensor(name))
    attributes: dict[str, Any] = {
        row.name: value_of(row) for row in spec.attributes if row.kind != "region"
    }
    regions = [region(row.name, "", "", [], []) for row in spec.regions]
    attributes.update({row.name: row.name for row in spec.regions})
    inputs = tuple(f"i{index}" for index in range(len(spec.operands)))
    outputs = tuple(f"o{index}" for index in range(len(spec.results)))
    made = graph(" ".join(inputs), " ".join(outputs), values, [])
    made.regions += regions
    made.main.operators.append(Operator(spec, inputs, outputs, attributes, ""))
    if spec.name in ("CONST", "CONST_SHAPE"):
        source = tensor("o0", data=b"\0" * 24) if spec.name == "CONST" else shape("o0", 4, 5, 6)
        made = graph("", "o0", [source], made.main.operators)
    elif spec.name.startswith("VARIABLE"):
        made = counting()
    if spec.name == "WHILE_LOOP":
        made.regions[1:] = [
            region(name, "a", "b", [tensor("a"), tensor("b")], [op("EXP", "a", "b")])
            for name in ("cond_graph", "body_graph")
        ]
    if spec.name == "COND_IF":
        made = branching()
    return made


def operator_lines(spec: OperatorSpec) -> list[str]:
    """Return where an operator is printed, in custom and in generic form."""
    made = operator_graph(spec)
    found = []
    for generic in (False, True):
        lines = lines_of(made, generic=generic, names="generate")
        found.append(next(line.strip() for line in lines if re.search(rf"{spec.mlir}\b", line)))
    return found


def golden() -> dict[str, list[str]]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return {lines[at]: lines[at + 1 : at + 3] for at in range(0, len(lines), 3)}


def write_golden() -> None:
    lines = [line for spec in OPERATORS for line in (spec.name, *operator_lines(spec))]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


@pytest.mark.parametrize("spec", OPERATORS, ids=str)
def test_an_operator_is_printed_in_both_forms(spec: OperatorSpec) -> None:
    assert operator_lines(spec) == golden()[spec.name]


def test_every_operator_has_its_lines_and_no_other_name_has() -> None:
    assert list(golden()) == [spec.name for spec in OPERATORS]


# -- modules and functions --------------------------------------------------------------------------

EXAMPLE: Final = """\
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "x"}) -> (tensor<3xf32> {tosa.tensor_name = "y"}) {
    %0 = "tosa.const"() <{values = dense<[[0.000000e+00, 1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00, 5.000000e+00]]> : tensor<2x3xf32>}> {tosa.tensor_name = "w"} : () -> tensor<2x3xf32>
    %1 = tosa.add %arg0, %0 {tosa.tensor_name = "s"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = tosa.reduce_sum %1 {axis = 0 : i32, tosa.tensor_name = "m"} : (tensor<2x3xf32>) -> tensor<1x3xf32>
    %3 = tosa.const_shape  {tosa.tensor_name = "to", values = dense<3> : tensor<1xindex>} : () -> !tosa.shape<1>
    %4 = tosa.reshape %2, %3 : (tensor<1x3xf32>, !tosa.shape<1>) -> tensor<3xf32>
    return %4 : tensor<3xf32>
  }
}

"""  # noqa: E501


def test_a_program_is_printed_in_custom_form() -> None:
    assert text_of(example(), locations=False) == EXAMPLE


def test_generic_form_separates_an_operators_own_attributes_from_others() -> None:
    lines = lines_of(example(), generic=True)
    assert lines[0] == '"builtin.module"() ({'
    assert lines[1].startswith(
        '  "func.func"() <{arg_attrs = [{tosa.tensor_name = "x"}], function_type'
    )
    assert lines[1].endswith('sym_name = "main"}> ({')
    assert lines[2] == "  ^bb0(%arg0: tensor<2x3xf32>):"
    assert '"tosa.reduce_sum"(%1) <{axis = 0 : i32}> {tosa.tensor_name = "m"} : (' in lines[5]
    assert lines[-4:] == [
        '    "func.return"(%4) : (tensor<3xf32>) -> ()',
        "  }) : () -> ()",
        '}) {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} : () -> ()',
        "",
    ]


def test_a_function_without_arguments_and_results_is_printed() -> None:
    assert lines_of(graph("", "", [], []))[1:4] == ["  func.func @main() {", "    return", "  }"]
    lines = lines_of(graph("", "", [], []), generic=True)
    assert lines[1:4] == [
        '  "func.func"() <{function_type = () -> (), sym_name = "main"}> ({',
        '    "func.return"() : () -> ()',
        "  }) : () -> ()",
    ]


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("plain.name$1", "plain.name$1"),
        ("a b", '"a b"'),
        ("7", '"7"'),
        ('quo"te', '"quo\\22te"'),
        ("back\\slash", '"back\\\\slash"'),
        ("line\nbreak\t", '"line\\0Abreak\\09"'),
        ("über", '"\\C3\\BCber"'),
        ("\0", '"\\00"'),
        ("名前", '"\\E5\\90\\8D\\E5\\89\\8D"'),
    ],
)
def test_names_are_quoted_where_they_are_not_identifiers(name: str, printed: str) -> None:
    made = counting()
    made.regions[0].name = name
    made.main.tensors["v"].variable_name = name
    made.main.tensors["big"] = tensor(name, "INT8", (400,), bytes(range(200)) * 2)
    made.main.tensors[name] = made.main.tensors.pop("big")
    made.main.operators.append(op("CONST", "", ""))
    made.main.operators[-1].outputs = (name,)
    quoted = printed if printed.startswith('"') else f'"{printed}"'
    text = text_of(made, locations=False)
    assert f"func.func @{printed}(" in text
    assert f'tosa.variable @{printed} {{tosa.tensor_name = "v"}} = dense<5> : tensor<1xi32>' in text
    assert f"= tosa.variable_read @{printed} " in text
    assert f"tosa.variable_write @{printed}, %1 : tensor<1xi32>" in text
    assert f"dense_resource<{printed}> : tensor<400xi8>}}> {{tosa.tensor_name = {quoted}}}" in text
    assert f'      {printed}: "0x01000000' in text


def test_shapes_of_any_kind_are_printed() -> None:
    values = [
        Tensor("a", dtype("INT8"), None),
        Tensor("b", dtype("INT8"), (-1, 3)),
        Tensor("c", dtype("INT8"), ()),
        Tensor("d", dtype("INT8"), (0, 2)),
    ]
    line = lines_of(graph("a b c d", "", values, []))[1]
    types = re.findall(r"%arg\d: (\S+)", line)
    assert types == ["tensor<*xi8>", "tensor<?x3xi8>", "tensor<i8>", "tensor<0x2xi8>"]


# -- values and regions -----------------------------------------------------------------------------


def nested(*, transform: bool = True) -> Graph:
    """Return a loop whose body branches, and after it an operator with two named results."""
    values = [
        tensor("n", "INT32", ()), tensor("x"), tensor("p", "INT32", ()), tensor("q"),
        tensor("r"), tensor("s"),
    ]  # fmt: skip
    made = graph(
        "n x",
        "q r s",
        values,
        [
            op("WHILE_LOOP", "n x", "p q", cond_graph="cond", body_graph="body"),
            op("FFT2D", "q q", "r s", inverse=False, local_bound=False),
        ],
    )
    if not transform:
        del (
            made.main.operators[1],
            made.main.outputs[1:],
            made.main.tensors["r"],
            made.main.tensors["s"],
        )
    pair = [tensor("a", "INT32", ()), tensor("b")]
    condition = [op("GREATER", "a a", "t")]
    made.regions += [
        region("cond", "a b", "t", [*pair, tensor("t", "BOOL", ())], condition),
        region(
            "body",
            "a b",
            "a c",
            [*pair, tensor("t", "BOOL", ()), tensor("c")],
            [*condition, op("COND_IF", "t b", "c", then_graph="then", else_graph="else")],
        ),
        region("then", "e", "f", [tensor("e"), tensor("f")], [op("EXP", "e", "f")]),
        region("else", "e", "e", [tensor("e")], []),
    ]
    return made


CUSTOM_NESTED: Final = """\
    %0:2 = tosa.while_loop (%arg2 = %arg0, %arg3 = %arg1) : (tensor<i32>, tensor<2x3xf32>) -> (tensor<i32>, tensor<2x3xf32>) {
      %1 = tosa.greater %arg2, %arg2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      tosa.yield %1 : tensor<i1>
    } do {
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<2x3xf32>):
      %1 = tosa.greater %arg2, %arg2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %2 = tosa.cond_if %1 (%arg4 = %arg3) : tensor<i1> (tensor<2x3xf32>) -> tensor<2x3xf32> {
      ^bb0(%arg4: tensor<2x3xf32>):
        %3 = tosa.exp %arg4 : (tensor<2x3xf32>) -> tensor<2x3xf32>
        tosa.yield %3 : tensor<2x3xf32>
      } else {
      ^bb0(%arg4: tensor<2x3xf32>):
        tosa.yield %arg4 : tensor<2x3xf32>
      }
      tosa.yield %arg2, %2 : tensor<i32>, tensor<2x3xf32>
    }
    %output_real, %output_imag = tosa.fft2d %0#1, %0#1 {inverse = false} : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    return %0#1, %output_real, %output_imag : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
""".splitlines()  # noqa: E501
GENERIC_NESTED: Final = """\
    %0:2 = "tosa.while_loop"(%arg0, %arg1) ({
    ^bb0(%arg6: tensor<i32>, %arg7: tensor<2x3xf32>):
      %5 = "tosa.greater"(%arg6, %arg6) : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "tosa.yield"(%5) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<2x3xf32>):
      %2 = "tosa.greater"(%arg2, %arg2) : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %3 = "tosa.cond_if"(%2, %arg3) ({
      ^bb0(%arg5: tensor<2x3xf32>):
        %4 = "tosa.exp"(%arg5) : (tensor<2x3xf32>) -> tensor<2x3xf32>
        "tosa.yield"(%4) : (tensor<2x3xf32>) -> ()
      }, {
      ^bb0(%arg4: tensor<2x3xf32>):
        "tosa.yield"(%arg4) : (tensor<2x3xf32>) -> ()
      }) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32>
      "tosa.yield"(%arg2, %3) : (tensor<i32>, tensor<2x3xf32>) -> ()
    }) : (tensor<i32>, tensor<2x3xf32>) -> (tensor<i32>, tensor<2x3xf32>)
    %1:2 = "tosa.fft2d"(%0#1, %0#1) <{inverse = false, local_bound = false}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    "func.return"(%0#1, %1#0, %1#1) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
""".splitlines()  # noqa: E501


def without_names(lines: list[str]) -> list[str]:
    """Return lines without the names that a program keeps."""
    names = re.compile(r"( attributes)? \{tosa\.(regions|tensor_name) = .*?\}(?= :|$)")
    return [names.sub("", line) for line in lines]


def test_values_in_regions_side_by_side_have_equal_names_in_custom_form() -> None:
    lines = without_names(lines_of(nested(), names="generate"))
    assert lines[2:-3] == CUSTOM_NESTED


def test_all_values_have_different_names_in_generic_form() -> None:
    lines = without_names(lines_of(nested(), names="generate", generic=True))
    assert lines[3:-3] == GENERIC_NESTED


def test_names_of_results_that_are_taken_get_a_number() -> None:
    made = branching()
    made.main.tensors.update({name: tensor(name) for name in "rstu"})
    twice = [
        op("RFFT2D", "x", "r s", local_bound=True),
        op("RFFT2D", "x", "t u", local_bound=False),
    ]
    made.main.operators = [*twice, *made.main.operators]
    for inner in made.regions[1:]:
        block = inner.blocks[0]
        block.tensors.update({name: tensor(name) for name in "rs"})
        block.operators.append(op("RFFT2D", block.inputs[0], "r s", local_bound=False))
    names = re.findall(r"(\S+, \S+) = tosa.rfft2d", "\n".join(lines_of(made)))
    assert names == [
        "%output_real, %output_imag",
        "%output_real_0, %output_imag_1",
        "%output_real_2, %output_imag_3",
        "%output_real_2, %output_imag_3",
    ]


def test_a_region_without_results_ends_in_generic_form() -> None:
    made = branching()
    made.main.operators = [op("COND_IF", "c x", "", then_graph="then", else_graph="else")]
    made.main.outputs.clear()
    for inner in made.regions[1:]:
        inner.blocks[0].outputs.clear()
    lines = without_names(lines_of(made))
    assert "tosa.cond_if %arg0 (%arg2 = %arg1) : tensor<i1> (tensor<2x3xf32>) -> () {" in lines[2]
    # tosa-opt prints `tosa.yield  : ` here, which it cannot parse.
    assert [line.strip() for line in lines if "yield" in line] == ['"tosa.yield"() : () -> ()'] * 2


def test_regions_that_are_nested_deeply_are_printed() -> None:
    depth = 200
    values = [tensor("c", "BOOL", ()), tensor("a"), tensor("b")]
    made = graph("c a", "b", list(values), [])
    made.regions.append(region("leaf", "c a", "a", values[:2], []))
    for number in range(depth):
        made.regions.append(region(f"r{number}", "c a", "b", list(values), []))
    made.regions.append(region(f"r{depth}", "c a", "a", values[:2], []))
    for number, outer in enumerate((made.regions[0], *made.regions[2:-1])):
        branch = op("COND_IF", "c c a", "b", then_graph=f"r{number}", else_graph="leaf")
        outer.blocks[0].operators.append(branch)
    for generic in (False, True):
        lines = lines_of(made, names="generate", generic=generic)
        assert max(len(line) - len(line.lstrip()) for line in lines) == 2 * (depth + 3)
        assert sum("tosa.cond_if" in line for line in lines) == depth + 1


# -- variables --------------------------------------------------------------------------------------


def test_a_variable_without_a_value_has_a_type() -> None:
    made = counting()
    declared = '  tosa.variable @counter {tosa.tensor_name = "v"}'
    for value in made.main.tensors.values():
        value.data = None
        value.shape = (-1, 3)
    assert f"{declared} : tensor<?x3xi32>" in lines_of(made)
    made.main.tensors["v"].shape = ()
    assert f"{declared} : tensor<i32>" in lines_of(made)
    made.main.tensors["v"].shape = (4, 4)
    assert f"{declared} : tensor<4x4xi32>" in lines_of(made)
    generic = lines_of(made, generic=True)[1]
    assert "var_shape = dense<4> : tensor<2xindex>}> {tosa.tensor_name" in generic


# -- locations --------------------------------------------------------------------------------------


def located(*locations: str, inputs: str = "x") -> Graph:
    """Return a chain of operators with these locations."""
    names = ["x", *(f"layer_{number}" for number in range(len(locations)))]
    operators = [
        op("EXP", source, target, location)
        for source, target, location in zip(names, names[1:], locations, strict=False)
    ]
    return graph(inputs, "", [tensor(name) for name in names], operators)


def aliases(text: str) -> tuple[list[str], list[str]]:
    """Return what defines aliases before and after the module."""
    before, _, after = text.partition("module attributes")
    return before.splitlines(), [line for line in after.splitlines() if line.startswith("#")]


def test_locations_are_aliases_numbered_by_depth_and_then_by_use() -> None:
    made = located(
        'loc("n"("f.py":1:2))',
        'loc(callsite("f.py":1:2 at "g"))',
        'loc("f.py":3:4 to 5:6)',
        'loc("f.py":1:2)',
        'loc(fused["f.py":1:2, "h", "i"("n"("f.py":1:2))])',
        "",
    )
    text = text_of(made)
    assert aliases(text) == (
        ["#loc = loc(unknown)"],
        [
            '#loc1 = loc("f.py":1:2)',
            '#loc2 = loc("g")',
            '#loc3 = loc("f.py":3:4 to 5:6)',
            '#loc4 = loc("h")',
            '#loc5 = loc("n"(#loc1))',
            "#loc6 = loc(callsite(#loc1 at #loc2))",
            '#loc7 = loc("i"(#loc5))',
            "#loc8 = loc(fused[#loc1, #loc4, #loc7])",
        ],
    )
    assert re.findall(r"tosa.exp .* loc\((.*)\)", text) == [
        "#loc5", "#loc6", "#loc3", "#loc1", "#loc8", "#loc",
    ]  # fmt: skip
    assert '%arg0: tensor<2x3xf32> {tosa.tensor_name = "x"} loc(unknown)) {' in text


def test_an_unknown_location_is_defined_at_the_end_if_no_argument_has_it() -> None:
    text = text_of(graph("", "", [], []))
    assert aliases(text) == ([], ["#loc = loc(unknown)"])
    assert text.count(" loc(#loc)\n") == 3


def test_a_text_without_locations_has_none() -> None:
    assert "loc" not in text_of(located('loc("f.py":1:2)'), locations=False)


def test_text_that_is_not_a_location_is_a_name() -> None:
    text = text_of(located('hostile "\n} loc('))
    assert aliases(text)[1] == ['#loc1 = loc("hostile \\22\\0A} loc(")']


def test_the_arguments_of_a_loops_condition_have_no_locations_in_custom_form() -> None:
    text = text_of(nested())
    assert text.count("^bb0(") == 3
    assert "tosa.while_loop (%arg2 = %arg0, %arg3 = %arg1) : " in text
    assert text_of(nested(), generic=True).count("^bb0(") == 5


def test_plain_locations_are_printed_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    locations = [f'loc("f {n % 3}.py":{n * 1000}:{n})' for n in range(40)] + [
        'loc("n"("f 1.py":1000:1))'
    ]
    made = located(*locations, *locations[:5])
    fast = text_of(made)
    monkeypatch.setattr(LocationAliases, "_plain", lambda *_: {})
    assert text_of(made) == fast
    assert fast.count("#loc2 = ") == 1


# -- reading it -------------------------------------------------------------------------------------


def test_the_sections_are_those_of_the_file() -> None:
    """The printer decodes the pieces of a file that has not been joined."""
    made = nested()
    made.main.tensors["w"] = tensor("w", "INT8", (9000,), bytes(range(250)) * 36)
    made.main.operators.append(op("CONST", "", "w"))
    pieces = encode_module(made).pieces
    bytecode = Bytecode(sections_in_pieces(pieces))
    from tosa_convert.formats.mlir.bytecode.sections import read_sections

    whole = read_sections(memoryview(b"".join(pieces)))
    assert bytecode.file.producer == whole.producer
    assert bytecode.file.sections.keys() == whole.sections.keys()
    for number, section in whole.sections.items():
        assert bytecode.file.sections[number].bytes == section.bytes
        assert {at: bytes(view) for at, view in bytecode.file.sections[number].data.items()} == {
            at: bytes(view) for at, view in section.data.items()
        }


def test_what_is_printed_is_read_back(torch_mlir: Any) -> None:
    for made in (example(), nested(transform=False), counting(), branching()):
        for generic in (False, True):
            again = tc.load(tc.dumps(made, "mlir", generic=generic))
            assert tc.compare(made, again, names=False) is None
