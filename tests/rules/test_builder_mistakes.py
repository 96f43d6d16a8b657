"""What the builder says about mistakes; a mistake adds nothing to the program."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder, Value

#: A call of a builder, of any types: the type checkers see most of these mistakes, too.
Call = Callable[[Any, Any], Any]
HALF = np.ones((1, 1, 1, 1), np.float16)

#: Mistakes in Python: a call with the value x (FP32 [2, 3]), and the message of its TypeError.
PYTHON: dict[str, tuple[Call, str]] = {
    "unknown argument": (
        lambda b, x: b.add(x, 1.0, axis=3),
        "add() got an unexpected keyword argument 'axis'; its arguments are input1, input2, dtype, name",
    ),
    "missing argument": (
        lambda b, x: b.argmax(x),
        "argmax() missing a required argument: 'axis'; its arguments are input, axis, nan_mode, dtype, "
        "name",
    ),
    "text as operand": (
        lambda b, x: b.add(x, "one"),
        "add() argument input2: found 'one' (str), expected numbers: an array, or nested sequences of "
        "equal lengths",
    ),
    "ragged numbers": (
        lambda b, x: b.const([[1], [1, 2]], "fp32"),
        "const() argument data: found [[1], [1, 2]] (list), expected numbers: an array, or nested "
        "sequences of equal lengths",
    ),
    "complex numbers": (
        lambda b, x: b.const([1j], "fp32"),
        "const() argument data: found [1j] (list), expected numbers: an array, or nested sequences of "
        "equal lengths",
    ),
    "no operand": (
        lambda b, x: b.add(x, None),
        "add() argument input2: found None (NoneType), expected a value, an array or numbers",
    ),
    "fraction as axis": (
        lambda b, x: b.reduce_sum(x, axis=1.0),
        "reduce_sum() argument axis: found 1.0 (float), expected an integer",
    ),
    "one number as sizes": (
        lambda b, x: b.reshape(x, 6),
        "reshape() argument shape: found 6 (int), expected a sequence of integers",
    ),
    "tensor as shape": (
        lambda b, x: b.reshape(x, x),
        "reshape() argument shape: found Value(x: FP32 [2, 3]) (Value), expected a shape: sizes, or a "
        "value of const_shape()",
    ),
    "shape as tensor": (
        lambda b, x: b.abs(b.dim(x, axis=0)),
        "abs() argument input1: found Value(dim: shape [2]) (Value), expected a tensor",
    ),
    "one value as a list": (
        lambda b, x: b.concat(x, axis=0),
        "concat() argument input1: found Value(x: FP32 [2, 3]) (Value), expected a sequence of operands",
    ),
    "unknown member": (
        lambda b, x: b.reduce_max(x, axis=0, nan_mode="KEEP"),
        "reduce_max() argument nan_mode: found 'KEEP' (str), expected one of PROPAGATE, IGNORE",
    ),
    "number as flag": (
        lambda b, x: b.rescale(x, 1, 1, per_channel=1),
        "rescale() argument per_channel: found 1 (int), expected True or False",
    ),
    "too many types": (
        lambda b, x: b.abs(x, dtype=("fp32", "fp32")),
        "abs() argument dtype: found ('fp32', 'fp32') (tuple), expected at most 1 element types",
    ),
    "too few names": (
        lambda b, x: b.fft2d(
            np.ones((1, 2, 2), np.float32), np.ones((1, 2, 2), np.float32), name="y"
        ),
        "fft2d(): found 1 names, expected 2",
    ),
    "number as name": (
        lambda b, x: b.abs(x, name=5),
        "abs() argument name: found 5 (int), expected a string or a sequence of strings",
    ),
    "region without result": (
        lambda b, x: b.cond_if(True, [x], lambda b, x: None, lambda b, x: x),
        "cond_if(): the result of then_graph: found None (NoneType), expected a sequence of values of "
        "the builder",
    ),
    "number as result": (
        lambda b, x: b.output(3),
        "output() argument: found 3 (int), expected a value of the builder, such as input() or const() "
        "returns",
    ),
    "operator of its own method": (
        lambda b, x: b.apply(tc.graph.operator("CONST"), [], {}),
        "apply() does not add CONST: use const()",
    ),
}

#: Mistakes in the program: a call, and the code or rule, message and hint of its finding.
PROGRAM: dict[str, tuple[Call, str, str, str]] = {
    "number that does not fit": (
        lambda b, x: b.clamp(b.cast(x, dtype="int8"), min_val=-128, max_val=300),
        "value-out-of-range",
        "max_val: 300 does not fit INT8",
        "",
    ),
    "fraction for integers": (
        lambda b, x: b.add(b.cast(x, dtype="int32"), 0.5),
        "value-out-of-range",
        "input2: 0.5 does not fit INT32",
        "",
    ),
    "number that overflows": (
        lambda b, x: b.add(b.cast(x, dtype="fp16"), 1e6),
        "value-out-of-range",
        "input2: 1000000.0 does not fit FP16",
        "",
    ),
    "array of float64": (
        lambda b, x: b.add(x, np.ones((2, 3))),
        "unsupported-dtype",
        "input2: the data has the element type float64, which TOSA does not have",
        "convert it, as in array.astype(np.float32)",
    ),
    "numbers without a type": (
        lambda b, x: b.const([1, 2]),
        "unsupported-dtype",
        "numbers do not say their element type",
        "pass dtype=, as in const(data, dtype='fp32')",
    ),
    "only numbers": (
        lambda b, x: b.add(1.0, 2.0),
        "option-conflict",
        "its operands leave a choice of types: input1 can be INT32 or FP32 or FP16 or BF16 or INT64",
        "pass dtype=",
    ),
    "numbers beside a condition": (
        lambda b, x: b.select(b.greater(x, x), 1, 0),
        "option-conflict",
        "its operands leave a choice of types: input2 can be BOOL or INT8 or INT16 or INT32 "
        "or FP32 or FP16 or BF16 or INT64",
        "pass dtype=",
    ),
    "numbers beside indices": (
        lambda b, x: b.gather([[[1.5], [2.5]]], b.const([[0]], "int32")),
        "option-conflict",
        "its operands leave a choice of types: values can be INT8 or INT16 or INT32 "
        "or FP32 or FP16 or BF16 or FP8E4M3 or FP8E5M2 or BOOL or INT64",
        "pass dtype=",
    ),
    "type of RESCALE": (
        lambda b, x: b.rescale(b.cast(x, dtype="int8"), 1 << 30, 30),
        "option-conflict",
        "its operands leave a choice of types: output can be INT8 or INT16 or INT32",
        "pass dtype=",
    ),
    "accumulator": (
        lambda b, x: b.avg_pool2d(HALF, kernel=(1, 1)),
        "option-conflict",
        "its operands leave a choice of types: acc_type can be FP16 or FP32",
        "pass acc_type=",
    ),
    "wrong type": (
        lambda b, x: b.conv2d(
            np.ones((1, 1, 1, 1), np.int8), np.ones((1, 1, 1, 1), np.int8), np.ones(1, np.int8)
        ),
        "conv2d-bias-type",
        "bias is INT8 with input INT8 and weight INT8 and input_zp INT8 and weight_zp INT8 and acc_type "
        "INT32 and output INT32; expected INT32",
        "",
    ),
    "too few pads": (
        lambda b, x: b.max_pool2d(HALF, kernel=(1, 1), pad=(0, 0)),
        "malformed-operator",
        "pad: 2 values, expected 4: [0, 0]",
        "",
    ),
    "empty input": (
        lambda b, x: b.input("y", "fp32", (2, 0)),
        "unsupported-shape",
        "its shape is [2, 0]: no tensor is empty",
        "sizes are 1 or more",
    ),
    "part of a block": (
        lambda b, x: b.input("y", "fp8e4m3", (2, 33), scaled=True),
        "malformed-tensor",
        "shape (2, 33) cannot be divided into blocks of 32",
        "the last dimension must be a multiple of 32",
    ),
    "scales of another shape": (
        lambda b, x: b.const(np.ones((2, 32)), "fp8e4m3", scales=np.ones((1, 2))),
        "data-length",
        "the scales have the shape [1, 2], expected [2, 1]",
        "one scale for 32 elements of the last dimension",
    ),
    "INT4 of -8": (
        lambda b, x: b.const([-8], "int4"),
        "int4-minus-8",
        "an INT4 element is -8; INT4 in TOSA goes from -7 to 7, and readers corrupt -8",
        "requantise the weight to -7..7",
    ),
    "variable of another program": (
        lambda b, x: b.read(Builder().variable("v", "fp32", (2,))),
        "undefined-name",
        'variable "v" is not declared in this program',
        "declare it with variable()",
    ),
    "initial value of another shape": (
        lambda b, x: b.variable("v", "fp32", (2,), [1, 2, 3]),
        "data-length",
        "initial has the shape [3], expected [2]",
        "pass all elements, or one number for all of them",
    ),
    "variable of unknown size": (
        lambda b, x: b.variable("v", "fp32", (-1,)),
        "unsupported-shape",
        'variable "v" has the shape [-1]',
        "its sizes must be known",
    ),
    "error inside a region": (
        lambda b, x: b.cond_if(True, [x], lambda b, x: b.abs(x), lambda b, x: b.clz(x)),
        "clz-input1-type",
        "input1 is FP32 with output INT32; expected INT32",
        "",
    ),
    "value from outside of a region": (
        lambda b, x: b.while_loop([x], lambda b, v: b.greater(x, v), lambda b, v: v),
        "captured-value",
        "Value(x: FP32 [2, 3]) belongs to another block",
        "a region uses only its arguments and values of its own builder: pass the value as an operand",
    ),
    "operands by number": (
        lambda b, x: b.apply(tc.graph.operator("ADD"), [x], {}),
        "malformed-operator",
        "it has 1 operands, expected input1, input2",
        "",
    ),
    "attributes by name": (
        lambda b, x: b.apply(tc.graph.operator("REDUCE_SUM"), [x], {"axes": 1}),
        "malformed-operator",
        'unknown attribute "axes", expected: axis',
        "",
    ),
}


def builder() -> tuple[Builder, Value]:
    b = Builder("net")
    return b, b.input("x", "fp32", (2, 3))


def state(b: Builder) -> object:
    """Everything that a builder holds, but what it keeps to save time."""
    block = b._block
    parts = (block.operators, block.inputs, block.outputs, block.tensors, block.shapes)
    counts = [len(part) for part in parts]
    return counts, len(b._regions), [*b._variables], copy.copy(b._numbers)


@pytest.mark.parametrize("name", PYTHON)
def test_a_mistake_in_python_is_a_type_error_that_names_the_argument(name: str) -> None:
    call, message = PYTHON[name]
    b, x = builder()
    with pytest.raises(TypeError) as caught:
        call(b, x)
    # Newer Pythons name the kind of argument, too.
    assert str(caught.value).replace("required keyword-only ", "required ") == message


@pytest.mark.parametrize("name", PROGRAM)
def test_a_mistake_in_the_program_says_what_was_found_and_expected(name: str) -> None:
    call, code, message, hint = PROGRAM[name]
    b, x = builder()
    with pytest.raises(tc.TosaConvertError) as caught:
        call(b, x)
    found = caught.value.findings[0]
    assert (found.rule or found.code, found.message, found.hint) == (code, message, hint)
    assert 'region "net' in found.where


@pytest.mark.parametrize(
    "call",
    [row[0] for row in (*PYTHON.values(), *PROGRAM.values())],
    ids=[*PYTHON, *PROGRAM],
)
def test_a_mistake_adds_nothing(call: Call) -> None:
    b, x = builder()
    before = state(b)
    # Calls inside the call are made before it: what they add is not part of the mistake.
    kept = ("clamp", "cast", "dim", "greater", "const")
    with pytest.raises((TypeError, tc.TosaConvertError)):
        call(b, x)
    if not any(op.spec.name.lower() in kept for op in b._block.operators):
        assert state(b) == before
    b.output(b.abs(x, name="y"))
    assert tc.validate(b.graph()) == []


def test_a_program_without_results_is_refused() -> None:
    b, _ = builder()
    with pytest.raises(tc.TosaConvertError, match="the program returns nothing"):
        b.graph()


def test_an_array_that_changes_later_does_not_change_the_program() -> None:
    b, x = builder()
    numbers = np.ones((2, 3), np.float32)
    b.output(b.add(x, numbers), name="y")
    state = b.variable("state", "fp32", (2, 3), initial=numbers)
    b.write(state, numbers)
    before = tc.dumps(b.graph())
    numbers[:] = 7
    assert tc.dumps(b.graph()) == before


def test_a_read_only_array_is_not_copied() -> None:
    numbers = np.ones((200, 300), np.float32)
    numbers.setflags(write=False)
    b = Builder()
    tensor = b._block.tensors[b.const(numbers).name]
    assert tensor.data is not None
    assert np.may_share_memory(np.asarray(tensor.data.buffer), numbers)


def test_a_value_that_was_removed_is_refused() -> None:
    b, x = builder()
    before = b.checkpoint()
    y = b.abs(x)
    b.rollback(before)
    with pytest.raises(tc.TosaConvertError, match="removed it"):
        b.exp(y)


def test_the_builder_of_a_region_is_used_only_inside_of_its_function() -> None:
    b, x = builder()
    kept: list[tuple[Builder, Value]] = []

    def region(b: Builder, x: Value) -> Value:
        kept.append((b, x))
        return x

    b.output(*b.cond_if(True, [x], region, region))
    inner, argument = kept[0]
    with pytest.raises(tc.TosaConvertError, match="the region is finished"):
        inner.abs(argument)
    assert tc.verify(b.graph()) == []
