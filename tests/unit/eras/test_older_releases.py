"""Programs that are written for older releases of their readers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from oracle.compare_eras import program
from refusing import refused
from unit.building import example

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.cli.main import run, verb
from tosa_convert.consumers.readers import READERS, reader_named, releases
from tosa_convert.eras.dialect_states import OPERATORS, RENAMED, STATES, state_of
from tosa_convert.eras.table import RULES
from tosa_convert.formats.read import open_input, read_upgraded
from tosa_convert.io.options import ReadOptions

OLD_PROGRAMS = Path(__file__).parents[2] / "old_programs"
FILES = sorted(OLD_PROGRAMS.glob("*.mlir"))


def today(path: Path) -> tc.Graph:
    return tc.load(path.read_text(encoding="utf-8").partition("// Today:\n")[2].encode())


def function(lines: str, arguments: str, result: str) -> tc.Graph:
    text = f"func.func @f({arguments}) -> {result} {{\n{lines}\nreturn %0 : {result}\n}}"
    return tc.load(text.encode())


def unary(name: str, operand: str = "tensor<2xf32>", result: str = "") -> tc.Graph:
    result = result or operand
    return function(f"%0 = tosa.{name} %a : ({operand}) -> {result}", f"%a: {operand}", result)


def written(graph: tc.Graph, month: str) -> str:
    return tc.dumps(graph, "mlir", dialect=month).decode()


RESCALE = function(
    """%m = "tosa.const"() <{values = dense<1> : tensor<1xi32>}> : () -> tensor<1xi32>
    %s = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %z = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %0 = tosa.rescale %a, %m, %s, %z, %z {input_unsigned = true, output_unsigned = false,
      per_channel = false, rounding_mode = SINGLE_ROUND, scale32 = true} :
      (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>""",
    "%a: tensor<4xi8>",
    "tensor<4xi8>",
)


def resized(scale: str, image: str, result: str, offset: str = "0, 0") -> tc.Graph:
    return function(
        f"""%s = tosa.const_shape {{values = dense<[{scale}]> : tensor<4xindex>}} : () -> !tosa.shape<4>
        %o = tosa.const_shape {{values = dense<[{offset}]> : tensor<2xindex>}} : () -> !tosa.shape<2>
        %b = tosa.const_shape {{values = dense<[0, 0]> : tensor<2xindex>}} : () -> !tosa.shape<2>
        %0 = tosa.resize %a, %s, %o, %b {{mode = BILINEAR}} : (tensor<{image}>, !tosa.shape<4>,
          !tosa.shape<2>, !tosa.shape<2>) -> tensor<{result}>""",
        f"%a: tensor<{image}>",
        f"tensor<{result}>",
    )


def transposed(size: str) -> tc.Graph:
    image = f"tensor<1x{size}x2x1xf32>"
    return function(
        f"""%z = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
        %0 = tosa.transpose_conv2d %a, %w, %c, %z, %z {{acc_type = f32,
          out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}} : ({image},
          tensor<1x1x1x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> {image}""",
        f"%a: {image}, %w: tensor<1x1x1x1xf32>, %c: tensor<1xf32>",
        image,
    )


AVERAGE = function(
    """%0 = tosa.avg_pool2d %a, %z, %z {acc_type = f32, kernel = array<i64: 2, 2>,
      pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} :
      (tensor<1x2x2x1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x1x1xf32>""",
    "%a: tensor<1x2x2x1xf32>, %z: tensor<1xf32>",
    "tensor<1x1x1x1xf32>",
)
VARIABLE = tc.load(
    b"tosa.variable @v = dense<[1.0, 2.0]> : tensor<2xf32>\nfunc.func @f() -> tensor<2xf32> {\n"
    b"%0 = tosa.variable_read @v : tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}"
)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(STATES)), ids=STATES)
def test_what_is_written_for_a_state_is_upgraded_to_the_same_program(number: int) -> None:
    """Each file in one of the formats, and for the next state in the other one."""
    logging.disable(logging.WARNING)
    count, state = 0, STATES[number]
    try:
        for index, path in enumerate(FILES):
            graph = today(path)
            is_text = state < "2022-09" or (index + number) % 2
            try:
                data = tc.dumps(graph, "mlir" if is_text else "mlirbc", dialect=state)
            except tc.TosaConvertError as error:
                assert error.code == "unsupported-by-reader", path  # noqa: PT017
                continue
            back, _ = read_upgraded(open_input(data), ReadOptions())
            assert program(back) == program(graph), path
            count += 1
    finally:
        logging.disable(logging.NOTSET)
    assert count >= len(FILES) * 9 // 10


@pytest.mark.parametrize(
    ("file", "month", "parts"),
    [
        ("conv2d-2022-07", "2022-06", ['"func.func"() ({', "quantization_info = {input_zp = "]),
        (
            "conv2d-2022-07",
            "2022-01",
            ['"builtin.func"() ({', '"std.return"', "= [1 : i64, 1 : i64]"],
        ),
        ("conv2d-2022-07", "2022-08", ["quantization_info = #tosa.conv_quant<input_zp = "]),
        ("conv2d-2022-07", "2023-03", ["stride = array<i64: 1, 1>"]),
        ("conv2d-2022-07", "2025-02", ["acc_type = i32"]),
        ("argmax-2022-01", "2023-09", ["axis = 1 : i64"]),
        ("argmax-2022-01", "2023-10", ["axis = 1 : i32"]),
        ("div-2022-01", "2024-06", ['"tosa.div"']),
        ("div-2022-01", "2025-01", ['"tosa.int_div"']),
        ("reduce_prod-2022-01", "2025-02", ['"tosa.reduce_prod"']),
        ("mul-2022-01", "2023-10", ["shift = 3 : i32"]),
        ("mul-2022-01", "2024-10", ["shift = 3 : i8"]),
        ("custom-2022-12", "2023-01", ["identifier = ", "config = "]),
        ("transpose-2022-01", "2025-02", ["value = dense<", '"tosa.transpose"(%arg0, %0)']),
        ("resize-2023-02", "2025-04", ['mode = "', "values = dense<"]),
    ],
)
def test_a_program_is_written_in_the_form_of_a_month(
    file: str, month: str, parts: list[str]
) -> None:
    text = written(today(OLD_PROGRAMS / f"{file}.mlir"), month)
    for part in parts:
        assert part in text
    assert "<{" not in text


@pytest.mark.parametrize(
    ("graph", "month", "parts"),
    [
        (VARIABLE, "2024-12", ['"tosa.variable.read"() {name = "v"}']),
        (transposed("?"), "2022-12", ["out_shape = [1 : i64, -1 : i64, 2 : i64, 1 : i64]"]),
        (
            resized("3, 1, 3, 1", "1x3x3x1xf32", "1x7x7x1xf32"),
            "2022-01",
            [
                "stride_fp = [0.333333343 : f32, 0.333333343 : f32]",
                "output_size = [7 : i64, 7 : i64]",
            ],
        ),
        (
            function(
                """%p = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>}
                  : () -> !tosa.shape<2>
                %0 = tosa.pad %a, %p, %v : (tensor<2xf32>, !tosa.shape<2>, tensor<1xf32>)
                  -> tensor<3xf32>""",
                "%a: tensor<2xf32>, %v: tensor<1xf32>",
                "tensor<3xf32>",
            ),
            "2025-01",
            ['"tosa.reshape"(%arg1) {new_shape = array<i64>', '"tosa.pad"(%arg0, %0, %1)'],
        ),
    ],
)
def test_operators_are_written_as_those_of_a_month(
    graph: tc.Graph, month: str, parts: list[str]
) -> None:
    text = written(graph, month)
    assert [part for part in parts if part not in text] == []


def test_operators_took_int4_in_2024() -> None:
    assert "i4" in written(unary("identity", "tensor<2xi4>"), "2024-07")
    constant = function(
        '%0 = "tosa.const"() <{values = dense<1> : tensor<2xi4>}> : () -> tensor<2xi4>',
        "",
        "tensor<2xi4>",
    )
    assert "i4" in written(constant, "2023-08")


def test_the_sign_of_out_pad_changed_in_2023() -> None:
    graph = today(OLD_PROGRAMS / "transpose_conv2d-2023-02.mlir")
    (operator,) = (op for op in graph.main.operators if op.spec.name == "TRANSPOSE_CONV2D")
    pads = operator.attributes["out_pad"]
    assert isinstance(pads, tuple)
    assert any(pads)
    assert f"out_pad = array<i64: {', '.join(map(str, pads))}>" in written(graph, "2023-02")
    negated = [-pad for pad in pads]
    assert f"out_pad = {negated}" in written(graph, "2022-12").replace(" : i64", "")


def test_a_dynamic_size_was_minus_one_in_bytecode_of_2022() -> None:
    graph = unary("abs", "tensor<?xf32>")
    old, new = (tc.dumps(graph, "mlirbc", dialect=month) for month in ("2022-09", "2023-02"))
    assert len(old) < len(new)
    assert tc.load(old).main.tensors["TosaInput_0"].shape == (-1,)


def test_constants_that_a_form_needs_are_made_once() -> None:
    b = Builder("main")
    x = b.input("x", "fp32", (2, 3))
    zero = b.const([0.0], dtype="fp32")
    for _ in range(3):
        x = b.transpose(b.pad(x, [0, 0, 0, 0], zero), perms=(1, 0))
    b.output(b.reshape(b.reshape(x, (6,)), (3, 2)))
    text = written(b.graph(), "2023-02")
    # The value of the paddings in rank 0, the paddings, and the permutation.
    assert text.count('"tosa.const"') == 3


@pytest.mark.parametrize(
    ("graph", "month", "message"),
    [
        (
            function(
                """%z = "tosa.const"() <{values = dense<0.0> : tensor<1xbf16>}> : () -> tensor<1xbf16>
                %0 = tosa.avg_pool2d %a, %z, %z {acc_type = bf16, kernel = array<i64: 2, 2>,
                  pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} :
                  (tensor<1x2x2x1xbf16>, tensor<1xbf16>, tensor<1xbf16>) -> tensor<1x1x1x1xbf16>""",
                "%a: tensor<1x2x2x1xbf16>",
                "tensor<1x1x1x1xbf16>",
            ),
            "2025-02",
            "acc_type can be BF16 only since 2026-08",
        ),
        (RESCALE, "2024-12", "input_unsigned is an attribute only since 2025-01"),
        (unary("identity", "tensor<2xi4>"), "2024-06", "has no IDENTITY of INT4"),
        (unary("identity", "tensor<2xi4>"), "2023-07", "has no element type INT4"),
        (
            unary("sin"),
            "2024-03",
            "the dialect of 2024-01 has no SIN",
        ),
        (
            function(
                "%0 = tosa.maximum %a, %a {nan_mode = IGNORE} : (tensor<2xf32>, tensor<2xf32>) "
                "-> tensor<2xf32>",
                "%a: tensor<2xf32>",
                "tensor<2xf32>",
            ),
            "2025-01",
            "nan_mode is an attribute only since 2025-02",
        ),
        (
            unary("cast", result="tensor<2xf8E4M3FN>"),
            "2024-01",
            "has no element type FP8E4M3",
        ),
        (AVERAGE, "2024-01", "its input_zp is not a constant that is zero"),
        (VARIABLE, "2023-02", "has no variables"),
        (
            resized("2, 1, 2, 1", "*xf32", "1x5x5x1xf32"),
            "2022-01",
            "the rank of an operand or result",
        ),
        (
            function("", "%0: tensor<2xf32>, %s: !tosa.shape<1>", "tensor<2xf32>"),
            "2022-01",
            "has no values of shapes",
        ),
        (
            transposed("?"),
            "2022-01",
            "the size of its result is not known, and two values of out_pad",
        ),
        (resized("2, 1, 2, 1", "1x?x3x1xf32", "1x5x5x1xf32"), "2022-01", "output_size is one"),
        (resized("3, 1, 3, 1", "1x3x3x1xi8", "1x9x9x1xi32"), "2022-01", "equal powers of two"),
        (
            resized("9, 4, 2, 1", "1x3x3x1xf32", "1x5x5x1xf32"),
            "2022-01",
            "fraction of small numbers",
        ),
        (
            # 15 + 1/2047 and 15 + 1/2048, the ratio of the sizes, are the same number of FP32.
            resized("2047, 30706, 1, 1", "1x30721x1x1xf32", "1x2048x1x1xf32"),
            "2022-01",
            "its scale is not the same as a number of FP32",
        ),
        (
            resized("1, 1, 3, 3", "1x3x3x1xf32", "1x3x3x1xf32", offset=f"0, {3 * 2**24 + 1}"),
            "2022-01",
            "its offset is not the same as a number of FP32",
        ),
    ],
)
def test_what_had_no_form_is_refused(graph: tc.Graph, month: str, message: str) -> None:
    with refused("unsupported-by-reader", message):
        tc.dumps(graph, "mlir", dialect=month, validate=False)


def test_an_unsigned_zero_point_is_written_as_it_is_read() -> None:
    assert "input_zp = 128 : i32" in written(RESCALE, "2025-01")
    assert "output_zp = -128 : i32" in written(RESCALE, "2025-01")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "2021-12"}, "expected a month from 2022-01 on"),
        ({"dialect": "yesterday"}, "expected a month"),
        ({"dialect": "2030-01"}, "the newest release that was tried is of 2026-10"),
        ({"dialect": "2022-08"}, "no MLIR of 2022-08 reads bytecode"),
        ({"dialect": "2024-01", "bytecode_version": 6}, "attributes have no names"),
        ({"dialect": "2024-01", "verify": True}, "verify does not apply"),
    ],
)
def test_options_that_contradict_a_month_are_refused(
    options: dict[str, object], message: str
) -> None:
    with refused("option-conflict", message):
        tc.dumps(example(), "mlirbc", **options)  # type: ignore[arg-type]


def test_the_newest_state_is_the_form_of_today() -> None:
    assert tc.dumps(example(), "mlir", dialect=STATES[-1]) == tc.dumps(example(), "mlir")


def test_every_rule_has_an_inverse_unless_there_is_no_operator_today() -> None:
    assert {name for name, rule in RULES.items() if rule.downgrade is None} == {
        "tosa.fully_connected",
        "tosa.reluN",
        "tosa.table",
    }


def test_states_are_in_order_and_facts_name_states() -> None:
    assert list(STATES) == sorted(STATES)
    named = {*OPERATORS.values(), *(row.until for row in RENAMED.values())}
    named.update(rule.since for rule in RULES.values())
    assert named <= {*STATES}
    assert state_of("2022-04") == "2022-01"


# -- readers ---------------------------------------------------------------------------------------


def test_a_reader_is_named_with_a_release_or_the_beginning_of_one() -> None:
    assert reader_named("iree").release == READERS["iree"].release
    assert reader_named("iree==3.1").release == "iree-base-compiler 3.1.0"
    assert reader_named("iree==20230209").release == "iree-compiler 20230209.425"
    assert reader_named("tosa-opt==2026.2").release == "tosa-tools 2026.2.1"
    assert reader_named("vela==4.3").tosa == "0.80"
    assert reader_named("vela==4.5").tosa == ""
    assert reader_named("torch-mlir==20261001").dialect == ""


@pytest.mark.parametrize("text", ["iree==9.9", "iree==", "iree==3.1.0.0", "flatc==1", "nobody==1"])
def test_an_unknown_release_is_refused_with_the_known_ones(text: str) -> None:
    with refused("option-conflict") as caught:
        reader_named(text)
    if text.startswith("iree"):
        assert "3.2.0" in str(caught.value)


def test_a_file_is_written_for_a_release(tmp_path: Path) -> None:
    source = tmp_path / "m.mlir"
    tc.save(today(OLD_PROGRAMS / "conv2d-2022-07.mlir"), source)
    for output in ("n.mlir", "n.mlirbc"):
        target = tmp_path / output
        arguments = [str(source), "-o", str(target), "--for", "iree==3.2"]
        assert run(verb("convert"), arguments) == 0
        assert run(verb("doctor"), [str(target), "--for", "iree==3.1"]) == 1
    assert "acc_type = i32" in (tmp_path / "n.mlir").read_text()
    assert "quantization_info" in (tmp_path / "n.mlir").read_text()


@pytest.mark.parametrize("reader", ["iree==3.1", "soda-opt", "torq"])
def test_a_release_reads_what_is_written_for_it(tmp_path: Path, reader: str) -> None:
    source = tmp_path / "m.mlirbc"
    tc.save(today(OLD_PROGRAMS / "conv2d-2022-07.mlir"), source)
    for output, *words in (("n.mlir",), ("n.mlir", "--no-locations"), ("n.mlirbc",)):
        target = str(tmp_path / output)
        assert run(verb("convert"), [str(source), "-o", target, "--for", reader, *words]) == 0
        assert run(verb("doctor"), [target, "--for", reader]) == 0
        assert run(verb("doctor"), [target, "--for", "iree==20220930"]) == 1


def test_doctor_knows_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "m.mlir"
    tc.save(today(OLD_PROGRAMS / "conv2d-2022-07.mlir"), source, generic=True)
    assert run(verb("doctor"), [str(source), "--for", "iree==3.2"]) == 1
    out = capsys.readouterr().out
    assert "iree-base-compiler 3.2.0 reads only the form of its TOSA dialect, of 2025-02" in out
    assert "--for iree==3.2.0" in out
    assert run(verb("doctor"), [str(source), "--for", "iree==3.9"]) == 0
    plain = tmp_path / "plain.mlirbc"
    tc.save(
        unary("abs"),
        plain,
    )
    assert run(verb("doctor"), [str(plain), "--for", "iree==20220930"]) == 0
    old = tmp_path / "old.mlir"
    old.write_text((OLD_PROGRAMS / "conv2d-2022-07.mlir").read_text().partition("// Today:")[0])
    assert run(verb("doctor"), [str(old), "--for", "iree"]) == 1
    assert "the file has the form of an older TOSA" in capsys.readouterr().out


def test_what_a_release_does_not_have_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "m.mlir"
    tc.save(
        unary("sin"),
        source,
    )
    target = tmp_path / "n.mlir"
    assert run(verb("convert"), [str(source), "-o", str(target), "--for", "iree==20240129"]) == 4
    assert "iree-compiler 20240129.785 has no SIN" in capsys.readouterr().err
    assert not target.exists()


def test_the_document_lists_the_releases() -> None:
    text = (Path(__file__).parents[3] / "docs" / "upgrade.md").read_text(encoding="utf-8")
    for name in ("iree", "tosa-opt", "vela"):
        (row,) = (
            line for line in text.splitlines() if line.startswith("|") and f"`{name}`" in line
        )
        assert row.split("|")[2].split() == list(releases(READERS[name]))
