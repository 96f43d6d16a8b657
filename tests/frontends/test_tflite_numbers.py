"""Operators with numbers of their own in TFLite, against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, run_program
from frontends.recorded_tflite import in_process
from frontends.tflite_operators.programs import Program, built
from frontends.tflite_operators.values import PLAIN, Quantized
from frontends.tflite_operators.write import write
from frontends.tflite_schema import ELEMENT_TYPES

import tosa_convert as tc
from tosa_convert.graph.dtypes import RoundingMode

Array = npt.NDArray[Any]
pytestmark = NEEDS_TFLITE


def test_softmax_of_int16_takes_numbers_that_are_far_apart(tmp_path: Path) -> None:
    program = Program("SOFTMAX", "int16")
    x = program.input("int16", (4, 9), quantized=Quantized((0.0005,)))
    found = run_program(
        tmp_path, program, [x], ("int16", (4, 9), Quantized((1 / 32768,))), beta=1.0
    )
    numbers = program.arrays["x0"].astype(float) * 0.0005
    assert np.ptp(numbers) > 10
    powers = np.exp(numbers - numbers.max(-1, keepdims=True))
    expected = np.minimum(powers / powers.sum(-1, keepdims=True) * 32768, 32767)
    assert np.abs(found - expected).max() < 64


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("size", [511, 512, 1000, 2048])
def test_softmax_of_8_bits_takes_many_equal_elements(tmp_path: Path, dtype: str, size: int) -> None:
    program = Program("SOFTMAX", dtype)
    zero_point = {"int8": -128, "uint8": 0}[dtype]
    x = program.input(dtype, (1, 3, size), quantized=Quantized((0.02,)))
    program.arrays["x0"][0, 0] = 7
    program.arrays["x0"][0, 1] = np.arange(size) == 5
    row = (dtype, (1, 3, size), Quantized((1 / 256,), zero_point))
    found = run_program(tmp_path, program, [x], row, beta=1.0)
    powers = np.exp(program.arrays["x0"] * 0.02)
    expected = np.rint(256 * powers / powers.sum(-1, keepdims=True)) + zero_point
    assert np.abs(found - expected).max() <= (size == 511)


def test_sums_of_bytes_are_rescaled_as_rarely_as_can_be(tmp_path: Path) -> None:
    program = Program("ADD", "int8")
    x, y = (program.input("int8", (3, 40), quantized=Quantized((one,), 3)) for one in (0.03, 0.05))
    program.returns(program.apply("ADD", [x, y], ("int8", (3, 40), Quantized((0.07,), -9))))
    graph = tc.frontends.from_tflite(write(program, tmp_path))
    names = [operator.spec.name for operator in graph.main.operators]
    assert sorted(set(names) - {"CONST"}) == ["ADD", "RESCALE"]
    assert names.count("RESCALE") == 3


def test_softmax_of_8_bits_has_no_operator_that_an_ethos_u55_lacks(tmp_path: Path) -> None:
    program = Program("SOFTMAX", "int8")
    x = program.input("int8", (3, 10), quantized=Quantized((0.02,)))
    row = ("int8", (3, 10), Quantized((1 / 256,), -128))
    program.returns(program.apply("SOFTMAX", [x], row, beta=1.0))
    graph = tc.frontends.from_tflite(write(program, tmp_path))
    names = {operator.spec.name for operator in graph.regions[0].blocks[0].operators}
    assert {"TABLE", "CLZ"} < names
    assert not names & {"LOGICAL_RIGHT_SHIFT", "GATHER"}


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_a_border_of_zero_points_is_the_convolutions(tmp_path: Path, dtype: str) -> None:
    """A convolution takes the place of PAD and itself, and leaves no element that it does not use."""
    given, weight = (Quantized((0.25,), 3), Quantized((0.5,))) if dtype == "int8" else (None, None)
    program = Program("CONV_2D", dtype)
    x = program.input(dtype, (1, 6, 6, 1), quantized=given, between=(-8, 8))
    borders = program.constant([[0, 0], [1, 1], [1, 1], [0, 0]], "int32")
    (padded,) = program.apply("PAD", [x, borders], (dtype, (1, 8, 8, 1), given))
    weights = program.constant(np.ones((1, 3, 3, 1)), dtype, quantized=weight)
    bias = program.constant([0], "int32" if given else dtype)
    options = {"padding": 1, "stride_h": 2, "stride_w": 2, "dilation_h": 1, "dilation_w": 1}
    row = (dtype, (1, 3, 3, 1), Quantized((0.125 * 9,)) if given else None)
    program.returns(program.apply("CONV_2D", [padded, weights, bias], row, **options))
    graph = tc.frontends.from_tflite(write(program, tmp_path))
    names = [operator.spec.name for operator in graph.regions[0].blocks[0].operators]
    assert "CONV2D" in names
    assert not {"PAD", "SLICE"} & set(names)
    (array,) = tc.run(graph, program.arrays).outputs.values()
    found = np.asarray(array)
    wide = np.pad(program.arrays["x0"][0, ..., 0] - (3.0 if given else 0.0), 1)
    sums = sum(wide[a : a + 5 : 2, b : b + 5 : 2] for a in range(3) for b in range(3))
    expected = np.floor(sums / 9 + 0.5) if given else sums
    np.testing.assert_allclose(found[0, ..., 0], expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("scale", "mode"), [(0.75, "SINGLE_ROUND"), (0.3, "DOUBLE_ROUND")])
def test_integers_are_rounded_twice_only_where_it_differs(scale: float, mode: str) -> None:
    program = Program("QUANTIZE", "int8")
    x = program.input("int8", (40,), quantized=Quantized((scale,)))
    program.returns(program.apply("QUANTIZE", [x], ("int8", (40,), Quantized((1.0,)))))
    (row,) = (
        one for one in in_process(program.data()).main.operators if one.spec.name == "RESCALE"
    )
    assert row.attributes["rounding_mode"] == RoundingMode[mode]


_F, _B, _S = "float32", "int8", "int16"
_FIRST, _SECOND = (_B, (3, 4), 0.03, 3), (_B, (3, 4), 0.05, -4)
_SHORT, _OTHER = (_S, (3, 4), 0.03), (_S, (3, 4), 0.05)
_ROUNDED = "ABS ADD CAST CLAMP FLOOR GREATER MUL NEGATE SELECT"
_MOVED = "ABS ADD CAST CLAMP FLOOR GREATER MUL NEGATE RESCALE SELECT"


@pytest.mark.parametrize(
    ("operator", "operands", "options", "expected"),
    [
        ("ADD", (_FIRST, _SECOND), {}, "ADD RESCALE RESCALE RESCALE"),
        ("ADD", (_SHORT, _OTHER), {}, "ADD LOGICAL_LEFT_SHIFT" + " RESCALE" * 4),
        ("SQUARED_DIFFERENCE", (_FIRST, _SECOND), {}, "MUL" + " RESCALE" * 4 + " SUB"),
        ("SQUARED_DIFFERENCE", (_SHORT, _OTHER), {}, "MUL" + " RESCALE" * 4 + " SUB"),
        ("EQUAL", (_FIRST, _SECOND), {"result": ("bool", (3, 4))}, "EQUAL RESCALE RESCALE"),
        ("MAXIMUM", (_FIRST, _FIRST), {}, "MAXIMUM RESCALE RESCALE RESCALE"),
        ("ARG_MIN", (_FIRST, [1]), {"result": ("int32", (3,))}, "ARGMAX BITWISE_NOT"),
        ("ARG_MAX", (_FIRST, [1]), {"result": ("int32", (3,))}, "ARGMAX"),
        ("PACK", ((_F, (2, 5)),) * 3, {"values_count": 3, "axis": 0}, "CONCAT RESHAPE"),
        ("STRIDED_SLICE", ((_F, (5,)), [3], [2], [-1]), {}, "SLICE"),
        ("STRIDED_SLICE", ((_F, (5,)), [3], [1], [-1]), {}, "REVERSE SLICE"),
        ("TILE", ((_F, (2, 5)), [1, 1]), {}, "IDENTITY"),
        ("LEAKY_RELU", (_SHORT,), {"alpha": 0.5}, "GREATER RESCALE RESCALE SELECT"),
        ("QUANTIZE", ((_F, (5,)),), {"result": (_B, (5,), Quantized((0.1,)))}, _ROUNDED),
        ("QUANTIZE", ((_F, (5,)),), {"result": (_B, (5,), Quantized((0.1,), 3))}, _MOVED),
        ("CONCATENATION", (("uint8", (2,), 0.1, 128),) * 2, {}, "CONCAT" + " RESCALE" * 3),
        (
            "CONCATENATION",
            (("uint8", (2,), 0.1, 128), ("uint8", (2,), 0.2, 128)),
            {},
            "CONCAT" + " RESCALE" * 3 + " TABLE",
        ),
        ("RELU6", ((_B, (5,), 0.01),), {}, "CLAMP"),
        ("RELU6", ((_B, (5,), 0.1, -128),), {}, "CLAMP"),
        ("RELU", ((_B, (5,), 0.1, -128),), {}, "IDENTITY"),
        *(
            ("RESIZE_NEAREST_NEIGHBOR", ((dtype, (1, 4, 4, 2), 0), [8, 8]), {}, "RESIZE")
            for dtype in (_F, "float16", _B, _S)
        ),
        ("RESIZE_NEAREST_NEIGHBOR", ((_F, (1, 4, 4, 2)), [8, 4]), {}, "RESIZE"),
        ("RESIZE_BILINEAR", ((_F, (1, 4, 4, 2)), [8, 8]), {}, "RESIZE"),
    ],
)
def test_operators_become_few_others(
    operator: str, operands: Any, options: dict[str, Any], expected: str
) -> None:
    graph = in_process(built(operator, operands, **options).data())
    names = (one.spec.name for one in graph.main.operators)
    found = sorted(name for name in names if not name.startswith("CONST"))
    assert " ".join(found) == expected


_OF_CONSTANTS = (
    *("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "EQUAL", "TANH", "PRELU"),
    "BITWISE_XOR",
)


@pytest.mark.parametrize("operator", _OF_CONSTANTS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_operators_of_constants_are_constants(operator: str, dtype: str) -> None:
    """They have the numbers that operators of inputs give."""
    rows = np.random.default_rng(0).integers(1, 120, (2, 9)).astype(dtype)
    count = 1 if operator == "TANH" else 2
    found = []
    for is_constant in (True, False):
        program = Program(operator, dtype)
        held = [Quantized((scale,), 5) for scale in (0.03, 0.05)][:count]
        values = [
            program.constant(row, dtype, quantized=one)
            if is_constant
            else program.input(dtype, row.shape, quantized=one)
            for row, one in zip(rows, held, strict=False)
        ]
        result = ("bool" if operator == "EQUAL" else dtype, (9,), Quantized((0.07,), 3))
        graph = in_process(program.returns(program.apply(operator, values, result)).data())
        kinds = {one.spec.name for one in graph.main.operators}
        assert (kinds <= {"CONST", "IDENTITY"}) is is_constant
        given = dict(zip(graph.main.inputs, rows.view("int8"), strict=False))
        (array,) = tc.run(graph, given, engine="numpy").outputs.values()
        found.append(array)
    np.testing.assert_array_equal(found[0], found[1])


def computed(program: Program) -> Array:
    graph = in_process(program.data())
    given = dict(zip(graph.main.inputs, program.arrays.values(), strict=True))
    (array,) = tc.run(graph, given, engine="numpy").outputs.values()
    return np.asarray(array)


@pytest.mark.parametrize("radius", [1, 2, 9])
def test_local_response_is_that_of_near_channels(radius: int) -> None:
    """As in TensorFlow; the reference kernel of LiteRT leaves the last channel of a window out."""
    options: dict[str, Any] = {"radius": radius, "bias": 0.5, "alpha": 0.3, "beta": 0.75}
    program = built("LOCAL_RESPONSE_NORMALIZATION", ((_F, (1, 2, 2, 5)),), **options)
    (x,) = program.arrays.values()
    near = [(x[..., max(0, c - radius) : c + radius + 1] ** 2).sum(-1) for c in range(5)]
    expected = x / (0.5 + 0.3 * np.stack(near, -1)) ** 0.75
    np.testing.assert_allclose(computed(program), expected, rtol=1e-5)


@pytest.mark.parametrize(("code", "low", "high"), [(1, 0, np.inf), (2, -1, 1), (3, 0, 6)])
def test_activations_that_no_kernel_has_are_bounds(code: int, low: float, high: float) -> None:
    for operator, count in (("CONCATENATION", 2), ("L2_NORMALIZATION", 1)):
        operands = ((_F, (2, 5)),) * count
        plain, bounded = (built(operator, operands, activation=one) for one in (0, code))
        np.testing.assert_array_equal(computed(bounded), np.clip(computed(plain), low, high))


def test_matrices_of_float16_are_multiplied() -> None:
    program = built("BATCH_MATMUL", (("float16", (2, 3)), ("float16", (3, 2))))
    x, y = (array.astype(np.float32) for array in program.arrays.values())
    found = computed(program)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, x @ y, rtol=2e-3, atol=2e-3)


def test_elements_of_bfloat16_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ELEMENT_TYPES, "bfloat16", 18)
    program = built("RESHAPE", (("bfloat16", (2, 3)), [3, 2]))
    assert computed(program).tolist() == program.arrays["x0"].reshape(3, 2).tolist()


@pytest.mark.parametrize("is_constant", [False, True])
def test_bytes_with_a_scale_and_without_are_chosen_from(is_constant: bool) -> None:
    program = Program("SELECT_V2", "bytes")
    condition = program.input("bool", (9,))
    plain = program.input("uint8", (9,), quantized=PLAIN)
    held, numbers = Quantized((0.1,), 9), np.arange(120, 138, 2)
    if is_constant:
        scaled = program.constant(numbers, "uint8", quantized=held)
    else:
        scaled = program.input("uint8", (9,), quantized=held)
        program.arrays["x2"][:] = numbers
    for pair, quantized in (((plain, scaled), PLAIN), ((scaled, plain), held)):
        row = "uint8", (9,), quantized
        program.returns(program.apply("SELECT_V2", [condition, *pair], row))
    graph = in_process(program.data())
    x, y = program.arrays["x0"], program.arrays["x1"]
    arrays = [x, y.view("int8"), numbers.astype("uint8").view("int8")]
    given = dict(zip(graph.main.inputs, arrays, strict=False))
    found = tc.run(graph, given, engine="numpy").outputs.values()
    expected = [np.where(x, *pair) for pair in ((y, numbers), (numbers, y))]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.view("uint8"), theirs)
