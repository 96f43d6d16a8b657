"""MLIR text without MLIR: every operator, names, numbers of values, control flow, locations.

tests/oracle/test_printed_text.py compares the same printer with tosa-opt.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from unit.building import branching, counting, graph, op, region, shape, tensor

from tosa_convert.formats.mlir.text.print.module import write
from tosa_convert.formats.mlir.text.print.names import LocationAliases
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


def test_every_operator_has_its_lines_and_no_other_name_has() -> None:
    assert list(golden()) == [spec.name for spec in OPERATORS]


# -- modules and functions --------------------------------------------------------------------------


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


def test_all_values_have_different_names_in_generic_form() -> None:
    lines = without_names(lines_of(nested(), names="generate", generic=True))
    assert lines[3:-3] == GENERIC_NESTED


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


# -- variables --------------------------------------------------------------------------------------


# -- locations --------------------------------------------------------------------------------------


def located(*locations: str, inputs: str = "x") -> Graph:
    """Return a chain of operators with these locations."""
    names = ["x", *(f"layer_{number}" for number in range(len(locations)))]
    operators = [
        op("EXP", source, target, location)
        for source, target, location in zip(names, names[1:], locations, strict=False)
    ]
    return graph(inputs, "", [tensor(name) for name in names], operators)


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
