"""Corrections of lowerings of TFLite's operators, without its converter: forms that are not replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.builder.values import Value
from tosa_convert.errors import fail
from tosa_convert.frontends.tflite.complete import (
    _location,
    with_corrections,
    with_unsigned_bits,
)
from tosa_convert.frontends.tflite.lowerings import (
    activations,
    functions,
    products,
    reductions,
    resize,
)
from tosa_convert.frontends.tflite.lowerings.conversions import _Scaled, _Types
from tosa_convert.frontends.tflite.lowerings.find import CORRECTIONS, Wanted
from tosa_convert.frontends.tflite.lowerings.lowering import Correction
from tosa_convert.graph.dtypes import RoundingMode
from tosa_convert.rules.families.images import ResizeAxis

Build = Callable[[Builder], "Value | list[Value]"]


def graph_of(build: Build) -> tc.Graph:
    """Return a program whose operators have the location of a tensor y."""
    b = Builder()
    b.location = 'loc("y"("m.tflite":0:0))'
    made = build(b)
    b.output(*(made if isinstance(made, list) else [made]))
    return b.graph()


def rescaled(b: Builder, x: Value, dtype: DTypeName, **more: Any) -> Value:
    """Return a value times 1/2."""
    scale32 = more.pop("scale32", True)
    channels = more.pop("channels", 1)
    multiplier = b.const([1 << (30 if scale32 else 14)] * channels, "int32" if scale32 else "int16")
    shift = b.const([31 if scale32 else 15] * channels, "int8")
    return b.rescale(
        *(x, multiplier, shift), scale32=scale32, rounding_mode="SINGLE_ROUND", dtype=dtype, **more
    )


def resized(b: Builder, x: Value, dtype: DTypeName) -> Value:
    return b.resize(x, [4, 2, 4, 2], [0, 0], [2, 2], mode="BILINEAR", dtype=dtype)


def beside(b: Builder, x: Value) -> Value:
    resized(b, x, "int32")
    return rescaled(b, x, "int8")


def squared_inverse(b: Builder, x: Value) -> Value:
    inverse = b.reciprocal(x)
    return b.mul(inverse, inverse)


def two_results(b: Builder) -> list[Value]:
    x = b.input("x", "fp32", (2, 3))
    return [b.floor(x), b.ceil(x)]


def scattered(dtype: DTypeName, number: int | None) -> Build:
    def build(b: Builder) -> Value:
        shape = (1, 4, 1)
        whole = (
            b.input("w", dtype, shape) if number is None else b.const(np.full(shape, number), dtype)
        )
        rows = b.const(np.array([[1, 2]]), "int32")
        return b.scatter(whole, rows, b.input("x", dtype, (1, 2, 1)))

    return build


AXIS: Final = ResizeAxis.between(4, 7, 4, 2, 0)
RESIZED: Final = resize._Resized([AXIS, AXIS])
SCALED: Final = reductions._Scaled((0, 0), (1 << 30, 31))
SCALES: Final = functions._Scaled(3, 0, functions._LOGISTIC)
#: Correction -> facts, and programs of which each lacks one thing that the lowering has.
OTHER_FORMS: Final[list[tuple[str, Any, Build]]] = [
    ("ROUND", True, two_results),
    ("ROUND", True, lambda b: b.floor(b.add(b.input("x", "fp32", (2,)), b.input("z", "fp32", (2,))))),
    ("ROUND", True, lambda b: b.ceil(b.input("x", "fp32", (2,)))),
    ("CAST", _Types("int32", "int8"), lambda b: b.cast(b.input("x", "int32", (2,)), dtype="int16")),
    ("CAST", _Types("float32", "int16"), lambda b: b.cast(b.input("x", "int32", (2,)), dtype="int16")),
    (
        "QUANTIZE",
        _Scaled(2.0, 0, -128, 127),
        lambda b: b.cast(b.input("x", "int32", (2,)), dtype="int8"),
    ),
    ("GELU", True, lambda b: b.tanh(b.cast(b.input("x", "int8", (2,)), dtype="fp32"))),
    ("GELU", True, lambda b: b.erf(b.input("x", "fp32", (2,)))),
    (
        "ABS of int8",
        [0] * 256,
        lambda b: b.table(b.identity(b.input("x", "int8", (2,))), b.const([1] * 256, "int8")),
    ),
    (
        "ABS of int8",
        [0] * 256,
        lambda b: b.table(b.input("x", "int16", (2,)), b.const([1] * 513, "int16")),
    ),
    (
        "the function of int16",
        True,
        lambda b: b.table(b.input("x", "int8", (2,)), b.const([1] * 256, "int8")),
    ),
    (
        "the function of int16",
        True,
        lambda b: b.table(b.identity(b.input("x", "int16", (2,))), b.const([1] * 513, "int16")),
    ),
    (
        "LOGISTIC of int16",
        SCALES,
        lambda b: b.table(b.input("x", "int8", (2,)), b.const([1] * 256, "int8")),
    ),
    (
        "BITWISE_XOR",
        True,
        lambda b: b.bitwise_xor(b.input("x", "int16", (2,)), b.input("z", "int16", (2,))),
    ),
    *(
        ("the resizing operator", facts, lambda b: beside(b, b.input("x", "int8", (1, 4, 4, 1))))
        for facts in (RESIZED, resize._Resized([]))
    ),
    ("ATAN2", True, lambda b: b.add(b.reciprocal(b.abs(b.input("x", "fp32", (2,)))), 1.0)),
    ("ATAN2", True, lambda b: b.mul(b.reciprocal(b.input("x", "fp32", (2,))), 2.0)),
    ("ATAN2", True, lambda b: squared_inverse(b, b.abs(b.input("x", "fp32", (2,))))),
    ("SCATTER_ND", True, scattered("int8", None)),
    ("SCATTER_ND", True, scattered("int16", 0)),
    ("SCATTER_ND", True, scattered("int8", 1)),
    (
        "FULLY_CONNECTED of int16",
        products._Rows((1 << 30,), (31,)),
        lambda b: rescaled(b, b.input("x", "int32", (2,)), "int16"),
    ),
    (
        "RELU",
        activations._Rescaled(((1 << 30, 30),)),
        lambda b: rescaled(b, b.input("x", "int8", (2, 3)), "int8", channels=3, per_channel=True),
    ),
    (
        "RELU",
        activations._Rescaled(((1 << 30, 30),)),
        lambda b: rescaled(b, b.input("x", "int8", (2, 3)), "int8", scale32=False),
    ),
    ("SUM", SCALED, lambda b: rescaled(b, b.input("x", "int8", (2, 3)), "int32")),
    (
        "SUM",
        SCALED,
        lambda b: rescaled(b, rescaled(b, b.input("x", "int8", (2, 3)), "int16"), "int8"),
    ),
    (
        "the resizing operator",
        RESIZED,
        lambda b: resized(b, rescaled(b, b.input("x", "int8", (1, 4, 4, 1)), "int8"), "int32"),
    ),
    (
        "the resizing operator",
        resize._Resized([]),
        lambda b: resized(b, rescaled(b, b.input("x", "int8", (1, 4, 4, 1)), "int8"), "int32"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OTHER_FORMS)))
def test_a_lowering_of_another_form_is_refused_by_name(number: int) -> None:
    operator, facts, build = OTHER_FORMS[number]
    row = next(
        one
        for rows in CORRECTIONS.values()
        for one in rows
        if one.operator == operator and one.lower is not None
    )
    with pytest.raises(tc.TosaConvertError) as caught:
        with_corrections(graph_of(build), [Wanted("y", row, facts)], "m.tflite")
    (finding,) = caught.value.findings
    assert finding.code == "not-lowered"
    assert finding.where == 'm.tflite: the operator that makes "y"'
    assert finding.message == f"{operator} would be lowered wrongly: {row.fault}"
    assert finding.hint == "write it with other operators"


@pytest.mark.parametrize(
    ("operator", "facts", "build", "kinds"),
    [
        (
            "the resizing operator",
            RESIZED,
            lambda b: b.identity(
                rescaled(b, resized(b, b.input("x", "int8", (1, 4, 4, 1)), "int32"), "int8")
            ),
            "RESIZE ARITHMETIC_RIGHT_SHIFT ADD RESCALE IDENTITY",
        ),
        (
            "the resizing operator",
            RESIZED,
            lambda b: b.identity(
                rescaled(
                    b,
                    resized(b, b.input("x", "int16", (1, 4, 4, 1)), "int48"),
                    "int16",
                    scale32=False,
                )
            ),
            "RESIZE RESCALE BITWISE_NOT RESIZE RESCALE BITWISE_NOT CAST GREATER SELECT IDENTITY",
        ),
        (
            "the resizing operator",
            RESIZED,
            lambda b: b.identity(resized(b, b.input("x", "fp32", (1, 4, 4, 1)), "fp32")),
            "RESIZE IDENTITY",
        ),
        (
            "the activation of the operator",
            activations.Bounds(-3, 5),
            lambda b: b.identity(b.clamp(b.input("x", "int8", (2,)), min_val=-1, max_val=1)),
            "CLAMP IDENTITY",
        ),
        (
            "the activation of the operator",
            activations.Bounds(-3, 5),
            lambda b: b.clamp(b.identity(b.input("x", "int8", (2,))), min_val=-1, max_val=1),
            "IDENTITY CLAMP",
        ),
    ],
)
def test_what_is_around_a_corrected_operator_stays(
    operator: str, facts: Any, build: Build, kinds: str
) -> None:
    row = next(one for rows in CORRECTIONS.values() for one in rows if one.operator == operator)
    graph = graph_of(build)
    made = with_corrections(graph, [Wanted("y", row, facts)], "m.tflite").main
    found = [one for one in made.operators if one.spec.name not in ("CONST", "CONST_SHAPE")]
    assert " ".join(one.spec.name for one in found) == kinds
    assert made.outputs == graph.main.outputs
    if operator == "the resizing operator":
        scales = [made.shapes[one.inputs[1]].values() for one in found if one.spec.name == "RESIZE"]
        assert set(scales) == {(*AXIS[:2], *AXIS[:2])}
    elif kinds.endswith("CLAMP"):
        assert found[-1].attributes["min_val"] == b"\xfd".ljust(8, b"\0")
        assert found[-1].attributes["max_val"] == b"\x05".ljust(8, b"\0")


def test_some_operators_are_changed_in_their_place() -> None:
    relu, dense = (
        next(row for row in CORRECTIONS[name] if row.change is not None)
        for name in ("RELU", "FULLY_CONNECTED")
    )
    graph = graph_of(
        lambda b: b.identity(b.clamp(b.input("x", "fp32", (2,)), min_val=0, max_val=9))
    )
    clamp, identity = with_corrections(graph, [Wanted("y", relu, True)], "m").main.operators
    assert clamp.attributes == {
        **graph.main.operators[0].attributes,
        "max_val": b"\0\0\x80\x7f\0\0\0\0",
    }
    assert identity == graph.main.operators[1]
    graph = graph_of(lambda b: b.identity(rescaled(b, b.input("x", "int32", (2,)), "int8")))
    for one in graph.main.operators:
        if one.spec.name == "RESCALE":
            one.attributes = {**one.attributes, "rounding_mode": RoundingMode.DOUBLE_ROUND}
    found = with_corrections(graph, [Wanted("y", dense, True)], "m").main.operators
    for one, other in zip(found, graph.main.operators, strict=True):
        if one.spec.name == "RESCALE":
            assert one.attributes["rounding_mode"] is RoundingMode.SINGLE_ROUND
            assert one.inputs == other.inputs
        else:
            assert one == other
    others = with_corrections(graph, [Wanted("z", dense, True)], "m").main
    assert others.operators == graph.main.operators


def failing(code: str) -> Correction[Any]:
    def lower(group: Any, facts: Any, write: Any) -> None:
        raise fail(code, "there", "it is so")

    return Correction("FLOOR", "a fault", lambda model, operator: True, lower)


def test_a_correction_that_fails_refuses_its_operator_or_is_a_defect() -> None:
    graph = graph_of(lambda b: b.floor(b.input("x", "fp32", (2,))))
    with pytest.raises(tc.TosaConvertError, match="FLOOR would be lowered wrongly: a fault"):
        with_corrections(graph, [Wanted("y", failing("option-conflict"), True)], "m")
    with pytest.raises(RuntimeError, match=r"y: a correction wrote .*it is so"):
        with_corrections(graph, [Wanted("y", failing("invalid-operator"), True)], "m")


def test_corrections_of_one_operator_follow_one_another() -> None:
    """Give added operators the location of the corrected one, and names that say so."""

    def adding(kind: str) -> Correction[Any]:
        def lower(group: Any, facts: Any, write: Any) -> None:
            before = write.like(group.result)
            write.operators += group.returning(before)
            write.emit(kind, [before], results=[group.result])

        return Correction("FLOOR", "a fault", lambda model, operator: True, lower)

    graph = graph_of(lambda b: b.negate(b.floor(b.abs(b.input("x", "fp32", (2,))))))
    (floor,) = (one for one in graph.main.operators if one.spec.name == "FLOOR")
    for one in graph.main.operators:
        if one is not floor:
            one.location = 'loc("other"("m.tflite":0:0))'
    wanted = [Wanted("y", adding(kind), True) for kind in ("CEIL", "EXP")]
    main = with_corrections(graph, wanted, "m").main
    found = [one for one in main.operators if one.location == floor.location]
    assert [one.spec.name for one in found] == ["FLOOR", "CEIL", "EXP"]
    assert found[-1].outputs == floor.outputs
    assert all(one.outputs[0].startswith("corrected_") for one in found[:2])
    assert [one.spec.name for one in main.operators if one not in found][-1] == "NEGATE"


@pytest.mark.parametrize(
    ("given", "result", "flag", "is_kept"),
    [
        ("int32", "int32", "input_unsigned", False),
        ("int16", "int16", "output_unsigned", False),
        ("int16", "int16", "per_channel", True),
        ("int32", "int16", "output_unsigned", True),
        ("int8", "int8", "output_unsigned", True),
    ],
)
def test_ends_of_wide_unsigned_integers_keep_their_bits(
    given: DTypeName, result: DTypeName, flag: str, is_kept: bool
) -> None:
    graph = graph_of(lambda b: rescaled(b, b.input("x", given, (2,)), result))
    operator = graph.main.operators[-1]
    operator.attributes = {**operator.attributes, flag: True}
    last = with_unsigned_bits(graph).main.operators[-1]
    assert last.spec.name == ("RESCALE" if is_kept else "IDENTITY")
    assert (last.outputs, last.location) == (operator.outputs, operator.location)
    assert last.inputs[0] == "x"
    assert is_kept or len(last.inputs) == 1


@pytest.mark.parametrize("name", ["y", "a/b;c:0", 'a"b', "a\\b", "a\nb"])
def test_names_that_locations_cannot_have_are_left_out(name: str) -> None:
    is_plain = name in ("y", "a/b;c:0")
    assert _location(name, "m.tflite") == (f'loc("{name}"("m.tflite":0:0))' if is_plain else "")
