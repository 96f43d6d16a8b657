"""Programs of every release since 2022: one file for each operator and form, with what it is today.

The files in `tests/old_programs` are never regenerated: what was read once must always be read.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
from oracle.compare_eras import program

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.formats.read import open_input, read_upgraded
from tosa_convert.io.options import ReadOptions

FOLDER = Path(__file__).parents[2] / "old_programs"
FILES = sorted(FOLDER.glob("*.mlir"))
BYTECODE = sorted(FOLDER.glob("*.mlirbc"))


def old_and_today(path: Path) -> tuple[bytes, bytes]:
    old, _, today = path.read_text(encoding="utf-8").partition("// Today:\n")
    return old.encode(), today.encode()


def test_the_old_programs_are_all_there() -> None:
    assert len(FILES) >= 51
    assert len(BYTECODE) >= 140


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_old_program_is_read_as_that_of_today(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, today = (tc.load(text) for text in old_and_today(path))
    # The old one is reported, today's is not.
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING
    assert "upgraded from an older TOSA" in caplog.records[0].message
    assert tc.compare(old, today, names=False) is None
    assert tc.validate(old) == []


#: The result of an operation that is not a constant, in generic or custom form, and its last type.
_RESULT = re.compile(
    r"^\s*(%\w+) = \"?tosa\.(?!const|cond|while|custom|variable)\w+.*-> (tensor<[^>]*x(\w+)>)$"
)


def unranked(text: str) -> str:
    """Return an old program whose operations have results of unknown rank, one line for each."""
    types = {}
    lines = []
    for line in text.split("\n"):
        found = _RESULT.match(line)
        if found is not None:
            types[found[1]] = found[2], f"tensor<*x{found[3]}>"
            line = line[: found.start(2)] + types[found[1]][1]
        lines.append(line)
    for name, (ranked, open_type) in types.items():
        use = re.compile(rf"{re.escape(name)}\b(?! =)")
        for number, line in enumerate(lines):
            if not use.search(line):
                continue
            head, arrow, tail = line.rpartition("->")
            if "return" in line:
                lines[number] = line.replace(ranked, open_type)
                function = next(i for i, row in enumerate(lines) if "func" in row)
                start, arrow, results = lines[function].rpartition("->")
                lines[function] = start + arrow + results.replace(ranked, open_type)
            else:
                lines[number] = head.replace(ranked, open_type) + arrow + tail
    return "\n".join(lines)


def test_results_of_unknown_rank_are_settled_by_what_old_operations_say() -> None:
    changed = 0
    for path in FILES:
        old, today = old_and_today(path)
        text = unranked(old.decode())
        if text != old.decode():
            changed += 1
            found = tc.load(text.encode())
            assert tc.compare(found, tc.load(today), names=False) is None, path.name
    assert changed >= 49


@pytest.mark.parametrize("path", BYTECODE, ids=lambda path: path.name)
def test_an_old_program_is_read_from_bytecode(path: Path) -> None:
    """`OPERATION-MONTH.STATE.mlirbc` is the program of `OPERATION-MONTH.mlir` as MLIR of STATE has it.

    Those of 2022-09 and 2023-02 have dictionaries of attributes, the others native properties.
    """
    found, _ = read_upgraded(open_input(path), ReadOptions())
    _, today = old_and_today(FOLDER / f"{path.name.partition('.')[0]}.mlir")
    assert program(found) == program(tc.load(today))


def function(lines: str, arguments: str, result: str) -> bytes:
    return f"func.func @f({arguments}) -> {result} {{\n{lines}\nreturn %0 : {result}\n}}".encode()


def fully_connected(image: str, weight: str, result: str) -> str:
    bias = weight.partition("x")[0]
    return (
        '%0 = "tosa.fully_connected"(%a, %b, %c) : '
        f"(tensor<{image}xf32>, tensor<{weight}xf32>, tensor<{bias}xf32>) -> tensor<{result}xf32>"
    )


@pytest.mark.parametrize(
    ("lines", "arguments", "result", "reason"),
    [
        (
            '%0 = "tosa.pad"(%a, %b) : (tensor<2xf32>, tensor<1x2xi32>) -> tensor<4xf32>',
            "%a: tensor<2xf32>, %b: tensor<1x2xi32>",
            "tensor<4xf32>",
            "the padding is not a constant",
        ),
        (
            '%0 = "tosa.transpose"(%a, %b) : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<3x2xf32>',
            "%a: tensor<2x3xf32>, %b: tensor<2xi32>",
            "tensor<3x2xf32>",
            "the permutation is not a constant",
        ),
        (
            '%0 = "tosa.transpose_conv2d"(%a, %b, %c) {dilation = [2, 2], out_pad = [0, 0], '
            "out_shape = [1, 4, 4, 1], stride = [1, 1]} : "
            "(tensor<1x2x2x1xf32>, tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x4x4x1xf32>",
            "%a: tensor<1x2x2x1xf32>, %b: tensor<1x3x3x1xf32>, %c: tensor<1xf32>",
            "tensor<1x4x4x1xf32>",
            "its dilation is not 1",
        ),
        (
            '%0 = "tosa.transpose_conv2d"(%a, %b, %c) {out_pad = [1, 1, 0, 0], '
            "out_shape = [1, 4, 4, 1], stride = [1, 1]} : "
            "(tensor<1x2x2x1xf32>, tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x4x4x1xf32>",
            "%a: tensor<1x2x2x1xf32>, %b: tensor<1x3x3x1xf32>, %c: tensor<1xf32>",
            "tensor<1x4x4x1xf32>",
            "does not fit the size of the result",
        ),
        (
            '%0 = "tosa.rescale"(%a) {double_round = true, input_zp = 0 : i32, multiplier = [1 : i32], '
            "output_zp = 0 : i32, per_channel = false, scale32 = false, shift = [30 : i32]} : "
            "(tensor<4xi8>) -> tensor<4xi8>",
            "%a: tensor<4xi8>",
            "tensor<4xi8>",
            "double_round without scale32",
        ),
        (
            '%0 = "tosa.mul"(%a, %a) {shift = 1 : i32} : '
            "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
            "%a: tensor<4xf32>",
            "tensor<4xf32>",
            "has a shift",
        ),
        *(
            (
                f'%0 = "tosa.mul"(%a, %a) {{shift = 1 : i32}} : ({kind}, {kind}) -> {kind}',
                f"%a: {kind}",
                kind,
                "a MUL with a shift has a result of INT",
            )
            for kind in ("tensor<4xi8>", "tensor<4xi16>")
        ),
        (
            '%c = "tosa.mul"(%a, %a) {shift = 0 : i32} : '
            "(tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>\n"
            '%0 = "tosa.add"(%c, %b) : (tensor<?x?xf32>, tensor<2x?x?xf32>) -> tensor<2x?x?xf32>',
            "%a: tensor<?x?xf32>, %b: tensor<2x?x?xf32>",
            "tensor<2x?x?xf32>",
            "a RESHAPE to 2 sizes that are not known",
        ),
        (
            fully_connected("?x4", "?x4", "?x?"),
            "%a: tensor<?x4xf32>, %b: tensor<?x4xf32>, %c: tensor<?xf32>",
            "tensor<?x?xf32>",
            "a RESHAPE to 2 sizes that are not known",
        ),
        (
            '%0 = "tosa.negate"(%a) {quantization_info = {input_zp = 300 : i32}} : '
            "(tensor<4xi8>) -> tensor<4xi8>",
            "%a: tensor<4xi8>",
            "tensor<4xi8>",
            "300 does not fit INT8",
        ),
        (
            '%0 = "tosa.resize"(%a) {mode = "BILINEAR", offset = [0, 0], '
            "offset_fp = [0.0 : f32, 0.0 : f32], output_size = [5, 5], shift = 0 : i32, "
            "stride = [0, 0], stride_fp = [0.123 : f32, 0.5 : f32]} : "
            "(tensor<1x3x3x1xf32>) -> tensor<1x5x5x1xf32>",
            "%a: tensor<1x3x3x1xf32>",
            "tensor<1x5x5x1xf32>",
            "is not a fraction of small numbers",
        ),
        (
            '%b = "tosa.reduce_prod"(%a) {axis = 0 : i64} : (tensor<2xui8>) -> tensor<1xui8>\n'
            '%0 = "tosa.abs"(%b) : (tensor<1xui8>) -> tensor<1xui8>',
            "%a: tensor<2xui8>",
            "tensor<1xui8>",
            "an operand or result has an unsigned type",
        ),
    ],
)
def test_what_has_no_form_today_is_refused(
    lines: str, arguments: str, result: str, reason: str
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(function(lines, arguments, result))
    assert {finding.code for finding in caught.value.findings} == {"cannot-upgrade"}
    assert reason in caught.value.findings[0].message


def test_the_verb_takes_its_input_for_an_old_program_and_reports_each_kind_of_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target, report = tmp_path / "m.mlir", tmp_path / "m.tosa", tmp_path / "report.json"
    # Nothing but the ranks shows the age of this one.
    source.write_bytes(
        function(
            "%0 = tosa.add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
            "%a: tensor<2x3xf32>, %b: tensor<3xf32>",
            "tensor<2x3xf32>",
        )
    )
    assert run(verb("upgrade"), [str(source), "-o", str(target), "--json-report", str(report)]) == 0
    assert (
        capsys.readouterr().err == "add: operands of lower rank have leading dimensions of 1 (1)\n"
    )
    assert json.loads(report.read_text())["changes"] == [
        {
            "operation": "add",
            "what": "operands of lower rank have leading dimensions of 1",
            "number": 1,
        }
    ]
    names = [operator.spec.name for operator in tc.load(target).main.operators]
    assert names == ["CONST_SHAPE", "RESHAPE", "ADD"]
    # It is not taken for an old program by others.
    assert run(verb("convert"), [str(source), "-o", str(target)]) == 3
    assert (
        run(verb("upgrade"), [str(target.with_suffix(".tosa")), "-o", str(tmp_path / "n.tosa")])
        == 0
    )
    assert "nothing to upgrade" in capsys.readouterr().err


def test_a_large_block_of_old_operations_is_read_as_a_small_one() -> None:
    line = (
        '%p{0} = "tosa.const"() {{values = dense<[[0, 0]]> : tensor<1x2xi32>}} : () -> tensor<1x2xi32>\n'
        "%x{1} = tosa.pad %x{0}, %p{0}, %c : (tensor<2xf32>, tensor<1x2xi32>, tensor<1xf32>) "
        "-> tensor<2xf32>"
    )
    lines = ['%c = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>']
    lines += [line.format(index, index + 1) for index in range(600)]
    text = "\n".join(lines).replace("%x0", "%a").replace("%x600", "%0")
    graph = tc.load(function(text, "%a: tensor<2xf32>", "tensor<2xf32>"))
    pads = [operator for operator in graph.main.operators if operator.spec.name == "PAD"]
    assert len(pads) == 600
    assert all(operator.inputs[1] in graph.main.shapes for operator in pads)


@pytest.mark.parametrize("generic", [False, True])
def test_a_global_that_the_function_uses_is_a_variable(generic: bool) -> None:
    custom = """
      ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>
      ml_program.global private mutable @state(dense<[1.0, 2.0]> : tensor<2xf32>) : tensor<2xf32>
      func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
        %g = ml_program.global_load @state : tensor<2xf32>
        %0 = tosa.add %a, %g : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        ml_program.global_store @state = %0 : tensor<2xf32>
        return %0 : tensor<2xf32>
      }"""
    if generic:
        custom = custom.replace(
            "ml_program.global_load @state : tensor<2xf32>",
            '"ml_program.global_load"() <{global = @state}> : () -> tensor<2xf32>',
        ).replace(
            "ml_program.global_store @state = %0 : tensor<2xf32>",
            '"ml_program.global_store"(%0) <{global = @state}> : (tensor<2xf32>) -> ()',
        )
    block = tc.load(custom.encode()).main
    names = [operator.spec.name for operator in block.operators]
    assert names == ["VARIABLE_READ", "ADD", "VARIABLE_WRITE"]
    (variable,) = (tensor for tensor in block.tensors.values() if tensor.variable)
    assert variable.variable_name == "state"
    assert variable.data is not None
    assert variable.data.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (
            '%0 = "tosa.max_pool2d"() {kernel = [2], pad = [0], stride = [2]} : () -> tensor<1xf32>',
            "",
        ),
        (
            '%0 = "tosa.tile"(%a, %a, %a) {multiples = [1]} : '
            "(tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>",
            "cannot-upgrade",
        ),
        ('%0 = "tosa.conv2d"(%a) {pad = [0]} : (tensor<1xf32>) -> tensor<1xf32>', "cannot-upgrade"),
    ],
)
def test_an_operation_without_its_operands_is_refused(lines: str, code: str) -> None:
    constant = '%s = "tosa.const"() {value = dense<1> : tensor<i8>} : () -> tensor<i8>\n'
    text = function(constant + lines, "%a: tensor<1xf32>", "tensor<1xf32>")
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.dumps(tc.load(text))
    assert not code or code in {finding.code for finding in caught.value.findings}


@pytest.mark.parametrize(("month", "last"), [("", 0), ("2022-06", 1), ("2026-10", 0)])
def test_the_month_says_whether_booleans_in_hexadecimal_are_packed(month: str, last: int) -> None:
    text = function(
        '%0 = "tosa.const"() {values = dense<"0x010100000000000000"> : tensor<9xi1>} : '
        "() -> tensor<9xi1>",
        "",
        "tensor<9xi1>",
    )
    data = tc.load(text, dialect=month).main.tensors["TosaOutput_0"].data
    assert data is not None
    # Packed, the second byte is the last element; otherwise the second element.
    assert data.numpy().tolist()[8] == last
    assert data.numpy().tolist()[1] == 1 - last
