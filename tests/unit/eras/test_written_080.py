"""Programs that are written as `.tosa` files of TOSA 0.80."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.compare_eras import program
from oracle.every_operator import examples
from refusing import refused
from unit import outside_flatbuffer
from unit.building import counting

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.cli.main import run, verb
from tosa_convert.formats.read import open_input, read_upgraded
from tosa_convert.formats.wire.layout_080 import OPERATORS
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.io.options import ReadOptions

#: Operators of 0.80 that no program of today has: it is written as others, or has a meaning of its own.
GONE = {"UNKNOWN", "RESERVED", "FULLY_CONNECTED", "DIM"}


def again(data: bytes) -> tc.Graph:
    return read_upgraded(open_input(data), ReadOptions())[0]


def old(graph: tc.Graph, **options: Any) -> bytes:
    return tc.dumps(graph, dialect="0.80", **options)


def fields(data: bytes) -> dict[str, Any]:
    """Return the first block of a file, as the `flatbuffers` package reads it."""
    kinds = {1: "Pool", 2: "Conv", 4: "Pad", 9: "Resize", 10: "Clamp", 11: "Rescale", 17: "Table"}
    found = outside_flatbuffer.read(data, {code: f"{name}Of080" for code, name in kinds.items()})
    assert found["version"] == {"_major": 0, "_minor": 80, "_patch": 1, "_draft": False}
    assert found.keys() == {"version", "regions"}
    block: dict[str, Any] = found["regions"][0]["blocks"][0]
    return block


def test_every_operator_that_0_80_has_is_read_back_as_the_same_program() -> None:
    logging.disable(logging.WARNING)
    seen: set[str] = set()
    try:
        for name, graph in examples():
            try:
                data = old(graph, validate=False)
            except tc.TosaConvertError as error:
                codes = {finding.code for finding in error.findings}
                assert codes == {"unsupported-by-reader"}, name
                continue
            assert program(again(data)) == program(graph), name
            seen.update(op.spec.encoded_as for _, block in graph.blocks() for op in block.operators)
    finally:
        logging.disable(logging.NOTSET)
    assert seen - {"CONST_SHAPE"} == {*OPERATORS} - GONE


def test_attributes_are_those_of_0_80() -> None:
    b = Builder("main")
    x = b.input("x", "int8", (1, 4, 4, 2))
    weight = b.const(np.ones((3, 2, 2, 2), np.int8), name="w")
    y = b.conv2d(x, weight, np.arange(3, dtype=np.int32), 5, -1, acc_type="int32", name="y")
    b.output(y)
    block = fields(old(b.graph()))
    (operator,) = (op for op in block["operators"] if op["op"] == OPERATORS.index("CONV2D"))
    assert operator["attribute"] == {
        "pad": [0, 0, 0, 0],
        "stride": [1, 1],
        "dilation": [1, 1],
        "input_zp": 5,
        "weight_zp": -1,
    }
    assert operator["inputs"][:2] == ["x", "w"]
    assert len(operator["inputs"]) == 3
    # The constants of the zero points are gone, and data has no zeros after it.
    assert len(block["tensors"]) == 4
    assert {len(row["data"]) for row in block["tensors"] if "data" in row} == {24, 12}


def test_tables_paddings_and_scales_are_attributes() -> None:
    b = Builder("main")
    x = b.input("x", "int16", (1, 2, 2, 1))
    b.output(b.table(x, np.arange(-256, 257, dtype=np.int16)))
    b.output(b.resize(x, (4, 2, 4, 2), (-2, 0), (0, 0), mode="NEAREST", dtype="int16"))
    b.output(b.pad(b.cast(x, dtype="fp32"), [0, 0, 1, 0, 0, 2, 0, 0], 0.5))
    found = {op["op"]: op.get("attribute") for op in fields(old(b.graph()))["operators"]}
    assert found[OPERATORS.index("TABLE")] == {"table": [*range(-256, 257)]}
    resize = found[OPERATORS.index("RESIZE")]
    assert resize == {"scale": [4, 2, 4, 2], "offset": [-2, 0], "border": [0, 0], "mode": 1}
    pad = {"padding": [0, 0, 1, 0, 0, 2, 0, 0], "pad_const_fp": b"\0\0\0\x3f"}
    assert found[OPERATORS.index("PAD")] == pad


def test_tensors_without_a_rank_and_variables_are_marked() -> None:
    made = counting()
    made.main.tensors["x"].shape = made.main.tensors["sum"].shape = None
    rows = fields(old(made, validate=False))["tensors"]
    marks = {row["name"]: (row.get("is_unranked"), row.get("variable")) for row in rows}
    assert marks == {
        **dict.fromkeys(("x", "sum"), (True, None)),
        "r": (None, None),
        "v": (None, True),
    }


def rescaled(reads_twice: bool) -> tc.Graph:
    b = Builder("main")
    x = b.input("x", "int8", (4,))
    b.output(
        b.rescale(
            x, [1 << 30], [30], -128, 0,
            dtype="int8", rounding_mode="SINGLE_ROUND", scale32=True, per_channel=False,
            input_unsigned=True, output_unsigned=False,
        )
    )  # fmt: skip
    if reads_twice:
        b.output(b.identity(x))
    return b.graph()


def test_what_0_80_does_not_have_is_named_all_at_once() -> None:
    b = Builder("main")
    x = b.input("x", "fp32", (2,))
    b.output(
        b.sin(b.maximum(x, b.cast(b.cast(x, dtype="fp8e4m3"), dtype="fp32"), nan_mode="IGNORE"))
    )
    with pytest.raises(tc.TosaConvertError) as caught:
        old(b.graph())
    assert {finding.code for finding in caught.value.findings} == {"unsupported-by-reader"}
    said = "\n".join(finding.message for finding in caught.value.findings)
    assert "TOSA 0.80 has no SIN" in said
    assert "TOSA 0.80 has no element type FP8E4M3" in said
    assert "no form for this MAXIMUM: nan_mode is an attribute only since TOSA 1.0" in said


def test_numbers_that_do_not_fit_into_a_field_are_refused() -> None:
    graph = tc.load(
        b"""func.func @main(%x: tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32> {
        %s = tosa.const_shape {values = dense<1> : tensor<4xindex>} : () -> !tosa.shape<4>
        %o = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
        %b = tosa.const_shape {values = dense<[40000, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
        %r = tosa.resize %x, %s, %o, %b {mode = NEAREST} : (tensor<1x1x1x1xf32>, !tosa.shape<4>,
          !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x1x1x1xf32>
        return %r : tensor<1x1x1x1xf32> }"""
    )
    with pytest.raises(tc.TosaConvertError, match="border has the value 40000, expected 16 bits"):
        old(graph, validate=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "0.60"}, "expected '0.80'"),
        ({"dialect": "2023-02"}, "expected '0.80'"),
        ({"dialect": "0.80", "weights": "offset"}, "stores its weights inside"),
        ({"dialect": "0.80", "verify": True}, "verify does not apply"),
        ({"dialect": "0.80", "format": "json"}, "does not apply"),
        ({"dialect": "0.80", "format": "mlir"}, "expected a month"),
    ],
)
def test_options_that_0_80_does_not_have_are_refused(options: dict[str, Any], message: str) -> None:
    with refused("option-conflict", message):
        tc.dumps(rescaled(reads_twice=False), **options)


# -- the command line --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["convert", "repack"])
def test_a_file_is_written_for_a_release_of_vela(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "m.tosa", tmp_path / "m_for_vela.tosa"
    graph = rescaled(reads_twice=False)
    tc.save(graph, source)
    assert run(verb("doctor"), [str(source), "--for", "vela==4.3.0"]) == 1
    out = capsys.readouterr().out
    assert "ethos-u-vela 4.3.0 reads only TOSA flatbuffers of version 0.80" in out
    command = f"tosa-flatbuffer repack {source} -o {target} --for vela:ethos-u55==4.3.0"
    assert f"$ {command}" in out
    assert run(verb(name), [str(source), "-o", str(target), "--for", "vela==4.3.0"]) == 0
    assert run(verb("doctor"), [str(target), "--for", "vela==4.3.0"]) == 0
    capsys.readouterr()
    assert run(verb("doctor"), [str(target), "--for", "vela==4.5.0"]) == 1
    assert "TOSA 0.80, which ethos-u-vela 4.5.0 does not read" in capsys.readouterr().out
    assert run(verb("doctor"), [str(target), "--for", "netron"]) == 0
    assert program(again(target.read_bytes())) == program(graph)


@pytest.mark.parametrize(("release", "reads"), [("4.4.0", 1), ("5.0.0", 1), ("5.1.0", 0)])
def test_a_file_of_1_1_is_not_read_by_every_release(
    release: str, reads: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = replace(rescaled(reads_twice=False), version=V1_1_DRAFT)
    tc.save(graph, tmp_path / "m.tosa")
    assert run(verb("doctor"), [str(tmp_path / "m.tosa"), "--for", f"vela=={release}"]) == reads
    said = "does not read files of TOSA 1.1.0 draft" in capsys.readouterr().out
    assert said is bool(reads)


def test_what_a_release_of_vela_does_not_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "m.tosa", tmp_path / "n.tosa"
    b = Builder("main")
    b.output(b.cos(b.input("x", "fp32", (2,))))
    tc.save(b.graph(), source)
    assert run(verb("convert"), [str(source), "-o", str(target), "--for", "vela==4.3.0"]) == 4
    err = capsys.readouterr().err
    assert "ethos-u-vela 4.3.0 has no COS" in err
    assert "vela:ethos-u55 does not read FP32 tensors" in err
    assert not target.exists()
    assert run(verb("convert"), [str(source), "-o", "n.mlir", "--for", "vela==4.3.0"]) == 2
    assert "vela reads TOSA flatbuffer, not MLIR text" in capsys.readouterr().err
