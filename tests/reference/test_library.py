"""`tosa_convert.reference` as a library: functions compute operators, and `run` runs programs."""

from __future__ import annotations

import contextlib
import inspect
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from oracle import official_suite
from refusing import refused
from rules.test_builder_operators import EXAMPLES, program

import tosa_convert as tc
from tosa_convert import golden, reference
from tosa_convert.builder import Builder, DTypeName, dtype_of
from tosa_convert.errors import TosaConvertError
from tosa_convert.qualify.suite.official_case import case_inputs, read_case
from tosa_convert.reference import GraphStatus, Scaled

#: Calls that type checkers refuse are made of it.
LIBRARY: Any = reference
NUMPY = golden.RunOptions(engine="numpy")
X = np.array([[1.5, -2.0]], np.float32)
IMAGE, WEIGHT, BIAS = (
    np.ones((1, 2, 2, 3), np.int8),
    np.ones((4, 1, 1, 3), np.int8),
    np.zeros(4, "i4"),
)
BLOCKS = Scaled(
    np.ones((1, 64), ml_dtypes.float8_e4m3fn), np.full((1, 2), 2, ml_dtypes.float8_e8m0fnu)
)


class Arrays:
    """A builder whose values are arrays: its operators are the functions of the library."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self.inputs = inputs

    def input(self, name: str, dtype: str, shape: tuple[int, ...]) -> Any:
        return self.inputs[name]

    def const(self, data: Any, dtype: Any, scales: Any = None) -> Any:
        array = np.asarray(data).astype(dtype_of(dtype).numpy)
        return array if scales is None else Scaled(array, scales.astype(ml_dtypes.float8_e8m0fnu))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            renamed = {{"dtype": "out_type"}.get(key, key): value for key, value in kwargs.items()}
            return getattr(reference, name)(*args, **renamed)

        return call


@pytest.mark.parametrize(("name", "call", "expected"), EXAMPLES)
def test_a_function_computes_what_its_operator_does(
    name: str, call: Callable[[Any], Any], expected: str
) -> None:
    graph = program(call)
    inputs = golden.input_arrays(graph, None, 1)
    found = call(Arrays(inputs))
    if found is None or expected.startswith("shape"):
        assert expected == ("" if found is None else f"shape {found.tolist()}")
        return
    arrays = found if isinstance(found, tuple) else (found,)
    outputs = golden.run(graph, inputs, NUMPY).outputs.values()
    for ours, other in zip(arrays, outputs, strict=True):
        assert (ours.dtype, ours.shape) == (other.dtype, other.shape)
        assert ours.tobytes() == other.tobytes()


def test_there_is_a_function_for_each_operator_that_computes() -> None:
    names = {name for name, *_ in (example.values for example in EXAMPLES)}
    assert names | {"GraphStatus", "Scaled", "run"} == set(LIBRARY.__all__)
    assert set(LIBRARY.__all__) <= set(dir(reference))
    with pytest.raises(AttributeError, match="const_shape"):
        LIBRARY.const_shape  # noqa: B018


def test_values_of_64_bits_are_of_the_type_that_the_operator_takes() -> None:
    wide = reference.conv2d(IMAGE.astype(np.int16), WEIGHT, np.full(4, 2**40))
    assert wide.dtype == np.int64
    assert wide.flat[0] == 2**40 + 3
    assert reference.add(np.array([2**50]), np.array([1])).tolist() == [2**50 + 1]


def test_a_result_has_memory_of_its_own() -> None:
    x = X.copy()
    reference.reshape(x, (2, 1))[...] = 7
    reference.identity(x)[...] = 7
    assert x.tolist() == X.tolist()
    for _ in range(2):
        found = reference.reshape([[1, 2]], (2, 1), out_type="FP32")
        assert found.tolist() == [[1], [2]]
        found[...] = 7
    reference.reverse(BLOCKS, axis=0).scale[...] = 7
    assert (BLOCKS.scale == 2).all()


def test_equal_calls_with_other_values_have_their_own_results() -> None:
    for offset in (3, 0, 3):
        assert reference.conv2d(IMAGE, WEIGHT, BIAS, offset).flat[0] == 3 - 3 * offset
    for value in (1.0, 2.0, -0.0, 0.0):
        assert np.signbit(reference.reciprocal(reference.add(X * 0, value))).any() == (value == 0)
    assert reference.argmax(X, axis=1, out_type="INT32").tolist() == [0]
    with pytest.raises(TosaConvertError, match="found True"):
        reference.argmax(X, axis=True, out_type="INT32")


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (lambda: LIBRARY.conv2d(IMAGE, WEIGHT), "malformed-operator", "argument: 'bias'"),
        (
            lambda: LIBRARY.abs(X, axis=1),
            "malformed-operator",
            "'axis'; its arguments are input1",
        ),
        (lambda: LIBRARY.reduce_sum(X), "malformed-operator", "argument: 'axis'"),
        (
            lambda: LIBRARY.conv2d(IMAGE, WEIGHT, BIAS, pad=1),
            "malformed-operator",
            "argument pad: found 1 (int), expected a sequence of integers",
        ),
        (
            lambda: LIBRARY.conv2d(IMAGE, WEIGHT, BIAS, stride=(1, 1, 1)),
            "malformed-operator",
            "stride: 3 values, expected 2",
        ),
        (lambda: LIBRARY.add(X, {1}), "malformed-operator", "argument input2: found {1} (set)"),
        (lambda: LIBRARY.add(X, "a"), "malformed-operator", "argument input2: found 'a' (str)"),
        (lambda: LIBRARY.concat(X, axis=0), "malformed-operator", "a sequence of operands"),
        (
            lambda: LIBRARY.conv2d(IMAGE, WEIGHT[..., :2], BIAS),
            "invalid-operator",
            "dimension 3 of weight is 2, and input has 3 channels",
        ),
        (
            lambda: LIBRARY.conv2d(IMAGE, WEIGHT, BIAS.astype("f4")),
            "invalid-operator",
            "bias is FP32",
        ),
        (lambda: LIBRARY.add(X, np.ones((1, 3), "f4")), "invalid-operator", "or 1"),
        (lambda: LIBRARY.abs(np.ones(1)), "unsupported-dtype", "float64"),
        (lambda: LIBRARY.abs(np.ones(1, ">f4")), "unsupported-dtype", "convert it"),
        (
            lambda: LIBRARY.conv2d(IMAGE.astype("i2"), WEIGHT, np.full(4, 2**47)),
            "value-out-of-range",
            "does not fit INT48",
        ),
        (
            lambda: LIBRARY.cast(Scaled(BLOCKS.data, BLOCKS.scale[:, :1]), out_type="FP32"),
            "invalid-operator",
            "the scales of input are FP8UE8M0 [1, 1]; expected FP8UE8M0 [1, 2]",
        ),
        (lambda: LIBRARY.cast(X), "option-conflict", "pass out_type="),
        (lambda: LIBRARY.cast(X, out_type="FP33"), "unsupported-dtype", "FP33"),
        (
            lambda: LIBRARY.add(np.array([2**31 - 1], "i4"), 1),
            "refmodel-refused",
            "add(): error: for this data TOSA does not define the result",
        ),
        (lambda: LIBRARY.gather(X[None], np.array([[7]], "i4")), "input-mismatch", "index 7"),
    ],
)
def test_a_wrong_call_is_an_error_that_says_what_is_expected(
    call: Callable[[], Any], code: str, text: str
) -> None:
    with refused(code, text) as caught:
        call()
    assert caught.value.findings[0].where.endswith("()")


def test_a_function_is_described_with_types_rounding_and_rules() -> None:
    text = reference.avg_pool2d.__doc__ or ""
    for part in ("rounded half up", "PRO-INT: T INT8; A INT32", "- input has rank 4", "height"):
        assert part in text


# -- programs --------------------------------------------------------------------------------------


def ran_alike(path: Path | bytes, inputs: dict[str, Any]) -> bool:
    """Return whether `run` gives what the engine in numpy does."""
    outputs, status = [], GraphStatus.TOSA_UNPREDICTABLE
    with contextlib.suppress(TosaConvertError):
        outputs = list(golden.run(path, inputs, NUMPY).outputs.values())
        status = GraphStatus.TOSA_VALID
    binary = path if isinstance(path, bytes) else path.read_bytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = reference.run(binary, list(inputs.values()))
    same = all(
        (a.shape, a.tobytes()) == (b.shape, b.tobytes()) and b.dtype in (a.dtype, f"V{a.itemsize}")
        for a, b in zip(outputs, found[0], strict=True)
    )
    return same and found[1] is status and len(caught) == (status != GraphStatus.TOSA_VALID)


def test_run_gives_what_the_engine_does() -> None:
    graph = golden.generate(seed=3, operators=20)
    assert ran_alike(tc.dumps(graph), golden.input_arrays(graph, None, 1))


@pytest.mark.slow
@pytest.mark.oracle
def test_run_gives_what_the_engine_does_for_official_cases(
    official_cases: list[official_suite.Case],
) -> None:
    cases = [read_case(case.tosa.parent) for case in official_cases[::3]]
    valid = [case for case in cases if not case.description.get("expected_failure")]
    assert len(valid) > 200
    assert [case.folder for case in valid if not ran_alike(case.source, case_inputs(case))] == []


def sum_of(dtype: DTypeName, shape: tuple[int, ...] = (2,)) -> bytes:
    b = Builder()
    x, y = b.input("x", dtype, shape), b.input("y", dtype, shape)
    b.output(b.add(x, y), b.sub(x, y), name=("sum", "difference"))
    return tc.dumps(b.graph())


@pytest.mark.oracle
@pytest.mark.parametrize("most", [1, 2**31 - 1])
def test_run_stands_for_that_of_the_reference_model(most: int) -> None:
    model = pytest.importorskip("tosa_reference_model")
    arrays = [np.array([most, 2], np.int32), np.array([1, 3], np.int32)]
    keywords: dict[str, Any] = {
        "verbosity": "LOW",
        "initialize_variable_tensor_from_numpy": True,
        "debug_mode": None,
    }
    theirs, status = model.run(sum_of("INT32"), arrays, **keywords)
    assert set(model.GraphStatus.__members__) == set(GraphStatus.__members__)
    assert inspect.signature(reference.run).parameters.keys() == set(
        re.findall(r"(\w+): ", (model.run.__doc__ or "").partition("->")[0])
    )
    with contextlib.ExitStack() as stack:
        if most > 1:
            stack.enter_context(pytest.warns(RuntimeWarning, match="does not fit INT32"))
        ours, own_status = reference.run(sum_of("INT32"), arrays, **keywords)
    assert own_status.name == status.name
    if most == 1:
        assert [a.tolist() for a in ours] == [a.tolist() for a in theirs] == [[2, 5], [0, -1]]


def test_run_takes_the_types_that_numpy_lacks() -> None:
    ones = np.ones(2, ml_dtypes.bfloat16)
    for given in (ones, ones.view(np.uint16), ones.view("V2")):
        outputs, _ = reference.run(sum_of("BF16"), [given, ones])
        assert outputs[0].dtype == "V2"
        assert outputs[0].view(ml_dtypes.bfloat16).tolist() == [2, 2]
    wide, _ = reference.run(sum_of("BF16"), [ones, ones], precise_mode=1)
    assert wide[0].dtype == np.float64
    bounds, _ = reference.run(sum_of("BF16"), [ones, -ones], precise_mode=1, bounds_mode=True)
    assert bounds[0].tolist() == [0, 0]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("BF16", np.array([0x3F80, 0x4000], np.uint16)),
        ("FP16", np.array([0x3C00, 0x4000], np.uint16)),
        ("FP8E4M3", np.array([0x38, 0x40], np.uint8)),
        ("FP8E5M2", np.array([0x3C, 0x40], np.int8)),
        ("INT8", np.array([1, 255], np.uint8)),
        ("BOOL", np.array([1, 0], np.uint8)),
        ("FP32", np.array([1, 2], np.float32)),
    ],
)
def test_run_takes_and_returns_the_bytes_that_the_reference_model_does(
    name: DTypeName, given: npt.NDArray[Any]
) -> None:
    model = pytest.importorskip("tosa_reference_model")
    b = Builder()
    b.output(b.identity(b.input("x", name, (2,))), name="y")
    (theirs,), _ = model.run(tc.dumps(b.graph()), [given])
    (ours,), _ = reference.run(tc.dumps(b.graph()), [given])
    assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes())


def test_run_returns_arrays_in_c_order() -> None:
    b = Builder()
    b.output(b.transpose(b.input("x", "INT8", (2, 3)), perms=(1, 0)), name="y")
    (found,), _ = reference.run(tc.dumps(b.graph()), [np.arange(6, dtype=np.int8).reshape(2, 3)])
    assert (found.flags.c_contiguous, found.tolist()) == (True, [[0, 3], [1, 4], [2, 5]])


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"inputs": []}, "found 0 arrays, expected 2"),
        ({"inputs": [np.ones(3, "f4"), np.ones(2, "f4")]}, "found shape [3], expected [2]"),
        ({"tosa_level": "8K"}, "expected 'NONE' or 'EIGHTK'"),
        ({"dump_intermediates": 1}, "use golden.steps"),
        ({"tosa_binary": b"rubbish"}, "malformed-mlir"),
    ],
)
def test_run_refuses_what_it_cannot_do(keywords: dict[str, Any], text: str) -> None:
    given = {"tosa_binary": sum_of("FP32"), "inputs": [np.ones(2, "f4")] * 2, **keywords}
    with pytest.raises(TosaConvertError) as caught:
        reference.run(**given)
    assert text in str(caught.value)


def test_run_says_that_no_array_is_given_for_a_variable() -> None:
    b = Builder()
    b.output(b.read(b.variable("state", "FP32", (2,), 1.0)), name="y")
    assert reference.run(tc.dumps(b.graph()), [])[0][0].tolist() == [1, 1]
    with pytest.raises(TosaConvertError, match="no array says what is in them"):
        reference.run(tc.dumps(b.graph()), [], initialize_variable_tensor_from_numpy=1)


#: Uses the library where nothing but numpy and ml_dtypes can be imported.
ALONE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = {"numpy", "ml_dtypes", "tosa_convert", *sys.stdlib_module_names}
        if top not in known:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refuse())
import numpy as np
import numpy.typing as npt
from tosa_convert import reference
print(reference.conv2d(np.ones((1, 2, 2, 1), np.int8), np.ones((1, 2, 2, 1), np.int8), [5]).item())
print(reference.run(sys.stdin.buffer.read(), [np.ones(2, np.float32)] * 2)[0][0].tolist())
"""


def test_numpy_and_ml_dtypes_are_enough() -> None:
    command = [sys.executable, "-W", "error", "-c", ALONE]
    done = subprocess.run(command, input=sum_of("FP32"), capture_output=True, check=False)
    assert done.stdout.decode().split("\n")[:2] == ["9", "[2.0, 2.0]"], done.stderr.decode()
