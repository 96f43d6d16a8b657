"""The programs of tests/frontends/tflite_operators, which `suite --frontends tflite` runs."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from first_uses import tflite_uses
from frontends.recorded_tflite import check, merged
from frontends.tflite_operators.sequences import sequences
from frontends.tflite_operators.write import all_programs, write
from frontends.tflite_schema import OPERATORS

from tosa_convert.cli.main import run, verb
from tosa_convert.frontends.table import recognize
from tosa_convert.frontends.tflite.read import OPERATOR_NAMES, operator_name

#: Some of each kind, which run in every environment that has the packages.
SAMPLE: Final = (
    *(
        "ABS/float32_7",
        "RELU6/int8_3x40",
        "TANH/int16_3x40",
        "LOGISTIC/int16_3x40",
        "ADD/uint8_2x3_2x3",
        "MUL/int8_relu6",
    ),
    *("SUB/int16_1x4x5x3_3", "FLOOR_MOD/float32_by_-2.5", "LESS/float32_1x4x5x3_3"),
    *("CONV_2D/int8_stride", "DEPTHWISE_CONV_2D/uint8_same", "TRANSPOSE_CONV/int8_valid_stride_2"),
    *(
        "AVERAGE_POOL_2D/int8_same",
        "FULLY_CONNECTED/int8_rank_2_rows_4",
        "BATCH_MATMUL/int8_rank_3",
    ),
    *(
        "RESIZE_BILINEAR/float32_8x12_half_pixel",
        "TRANSPOSE/bool_0312",
        "TRANSPOSE/bool_constant",
        "TRANSPOSE/uint8_from_end",
        "CONCATENATION/int16_axis_1",
    ),
    *("STRIDED_SLICE/int32_step", "GATHER/uint8_axis_1_batch_1_rank_3", "MEAN/int8_spatial"),
    *("SOFTMAX/int8_rank_2_10_beta_1", "WHILE/float32", "sequences/int8_seed_0"),
    *("GELU/int8_exact", "BROADCAST_TO/float32_rank_1_to_3", "CAST/float32_to_uint8"),
    *("MAX_POOL_2D/int8_relu6", "QUANTIZE/float32_to_int8", "SOFTMAX/int16_rank_2_7_beta_1"),
    *("RESIZE_BILINEAR/int8_7x11_half_pixel", "RESIZE_NEAREST_NEIGHBOR/float32_8x12"),
    *("BITWISE_XOR/uint8", "FULLY_CONNECTED/int16_rank_2_rows_4", "SCATTER_ND/uint8"),
    *("FULLY_CONNECTED/int16_scales", "EXP/int16_3x40", "LEAKY_RELU/int16_scales"),
    "RESIZE_BILINEAR/int16_8x12_half_pixel",
    *(
        "LESS/int8_2x3_2x3",
        "EQUAL/uint8_2x1x4_1x3x1",
        "ADD/int32_relu6",
        "FLOOR_DIV/int32_2x1x4_1x3x1",
    ),
    *(
        "BATCH_MATMUL/int8_broadcast",
        "BATCH_MATMUL/int16_rank_4",
        "RIGHT_SHIFT/uint16",
        "ELU/int8_3x40",
    ),
    *("STRIDED_SLICE/int8_back", "GATHER/int8_axis_-1_batch_0_rank_2", "DYNAMIC_UPDATE_SLICE/int8"),
    *("REVERSE_SEQUENCE/uint8", "SELECT/int16_rows", "ONE_HOT/int8_axis_-1", "ABS/int16_3x40"),
    *("ARG_MIN/int32_axis_1", "REDUCE_PROD/int32_two", "L2_POOL_2D/float32_stride_same"),
    *("L2_NORMALIZATION/int8_rank_4_5", "L2_NORMALIZATION/uint8_rank_2_10"),
    *("LOG_SOFTMAX/int8_rank_4_5", "LOG_SOFTMAX/uint8_rank_2_10"),
)
#: Models into which recorded programs are merged; one of so many is recorded.
PARTS, STEP = 2, 3
#: Models into which first uses are merged.
USES: Final = 6


def test_each_program_has_a_name_of_its_own_and_is_a_model(tmp_path: Path) -> None:
    programs = list(all_programs())
    names = Counter(f"{program.operator}/{program.name}" for program in programs)
    assert max(names.values()) == 1
    assert len(names) >= 1500
    assert len({program.operator for program in programs}) >= 125
    assert set(SAMPLE) <= set(names)
    model = recognize(str(write(programs[0], tmp_path)))
    assert model is not None
    assert model.frontend == "tflite"


@pytest.mark.slow
def test_a_program_is_the_same_each_time() -> None:
    once, again = (
        {f"{one.operator}/{one.name}": one.data() for one in all_programs()} for _ in range(2)
    )
    assert once == again


@pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"
)
def test_operators_and_options_are_those_of_the_schema() -> None:
    schema = importlib.import_module("ai_edge_litert.schema_py_generated")
    codes = {name: code for name, code in vars(schema.BuiltinOperator).items() if name.isupper()}
    assert {name: operator_name(code) for name, code in codes.items()} == {
        name: name for name in codes
    }
    assert len(codes) == len(OPERATOR_NAMES)
    assert {name: code for name, (code, _, _) in OPERATORS.items()} == {
        name: codes[name] for name in OPERATORS
    }
    unions = {
        number: name for name, number in vars(schema.BuiltinOptions).items() if name[0] != "_"
    }
    source = Path(str(schema.__file__)).read_text(encoding="utf-8")
    slots = "Int8|Int32|Uint32|Float32|Bool|UOffsetTRelative"
    for _, union, text in OPERATORS.values():
        for one in text.split():
            name, _, place = one.partition(":")
            option = re.sub(r"(^|_)([a-z0-9])", lambda found: found[2].upper(), name)
            method = rf"def {unions[union]}Add\w*{option}\w*\("
            pattern = method + rf".*\n    builder\.Prepend({slots})Slot\((\d)"
            found = re.search(pattern, source)
            kinds = {"b": "Int8", "i": "Int32", "I": "Uint32", "f": "Float32", "?": "Bool"}
            assert found is not None, (union, one)
            assert found.groups() == (kinds.get(place[-1], "UOffsetTRelative"), place[:-1]), one


@pytest.mark.parametrize("part", range(PARTS))
def test_sequences_give_what_tflite_gave(part: int, tmp_path: Path) -> None:
    """Of several operators one after the other; see recorded_tflite.py."""
    check(merged(list(sequences())[part * STEP :: PARTS * STEP]), tmp_path, 3e-5, others=0.04)


@pytest.mark.parametrize("part", range(USES))
def test_first_uses_give_what_tflite_gave(part: int, tmp_path: Path) -> None:
    models = list(tflite_uses.programs())
    assert len(models) >= 150
    check(merged(models[part::USES]), tmp_path, 1e-4)


@pytest.mark.usefixtures("refmodel")
@pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed"
)
def test_a_sample_of_them_is_equal_to_tflite(tmp_path: Path) -> None:
    folder, report = tmp_path / "programs", tmp_path / "r.json"
    for program in all_programs():
        if f"{program.operator}/{program.name}" in SAMPLE:
            write(program, folder)
    options = ["--frontends", "tflite", "--jobs", "1", "--json-report", str(report)]
    run(verb("suite"), [str(folder), *options])
    answers = json.loads(report.read_text())["answers"]
    assert len(answers) == len(SAMPLE)
    assert {row["case"]: row["message"] for row in answers if row["status"] != "pass"} == {}
