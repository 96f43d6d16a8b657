"""The traits of each operator, compared with what it computes: a wrong word in a row fails here.

What a trait says is measured where numbers show it, and follows from other parts of the row elsewhere.
Lists are left for what no number shows, and for operators that are exceptions, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from frontends.tflite_schema import OPERATORS as TFLITE
from golden.test_every_operator import COMPUTING
from rewrites.programs import rewritten, single

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.frontends.tflite.read import operator_name
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import OPERATORS, dtype, operator
from tosa_convert.graph.dtypes import DType, NanPropagationMode
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.reference.call import Call, Type, UndefinedResult, integer_limits
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of
from tosa_convert.rules.types import rows

NAMES: Final = [row.name for row in OPERATORS]
NAN: Final = NanPropagationMode.PROPAGATE
FP32: Final = dtype("FP32")
INT32: Final = dtype("INT32")
BOOL: Final = dtype("BOOL")

#: What pictures show alike, and levels limit alike.
FAMILIES: Final = {
    "convolution": "CONV2D CONV3D DEPTHWISE_CONV2D TRANSPOSE_CONV2D CONV2D_BLOCK_SCALED",
    "matmul": "MATMUL MATMUL_T MATMUL_T_BLOCK_SCALED",
    "fft": "FFT2D RFFT2D",
    "pooling": "AVG_POOL2D MAX_POOL2D AVG_POOL2D_ADAPTIVE MAX_POOL2D_ADAPTIVE",
    "activation": "CLAMP ERF SIGMOID TANH TABLE",
    "reduction": "ARGMAX ARGMIN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM",
    "layout": "CONCAT PAD RESHAPE REVERSE SLICE TILE TRANSPOSE IDENTITY",
    "gather": "GATHER SCATTER ROW_GATHER",
    "resize": "RESIZE",
    "conversion": "CAST RESCALE",
    "constant": "CONST CONST_SHAPE",
    "control": "CUSTOM COND_IF WHILE_LOOP VARIABLE VARIABLE_READ VARIABLE_WRITE",
    "block_conversion": "CAST_FROM_BLOCK_SCALED CAST_TO_BLOCK_SCALED",
    "block_layout": "RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED",
}


def test_families_are_those_of_the_specification() -> None:
    for family, names in FAMILIES.items():
        assert {row.name for row in OPERATORS if row.family == family} == {*names.split()}
    for row in OPERATORS:
        is_on_shapes = row.name == "DIM" or row.name.endswith("_SHAPE")
        if row.family not in FAMILIES:
            assert row.family == ("shape" if is_on_shapes else "elementwise"), row
            assert bool(row.elementwise) == (row.family == "elementwise"), row


# -- what numbers show: operators of one or two tensors, called on arrays ----------------------------


def called(
    spec: OperatorSpec, *arrays: Any, element: DType = FP32, precision: Any = "wide", **given: Any
) -> Array:
    """Return what the definition of an operator computes of arrays of one element type."""
    kind = np.float64 if precision == "wide" else element.numpy
    operands = [np.asarray(array, kind) for array in arrays]
    types = [Type(element, array.shape) for array in operands]
    for row in spec.operands[len(arrays) :]:
        operands.append(np.array([row.default or 0], np.int8))
        types.append(Type(dtype("INT8"), (1,)))
    defaults = {row.name: row.default for row in spec.attributes if row.optional}
    call = Call(spec, tuple(operands), tuple(types), {**defaults, **given}, (), precision)
    shape = np.broadcast_shapes(*(array.shape for array in operands))
    result = next(row.results[0] for row in rows(spec) if element in row.operands)
    assert isinstance(result, DType)
    call = replace(call, results=(Type(result, shape),))
    with np.errstate(all="ignore"):
        return np.asarray(OPERATIONS[spec.name](call))


def takes(spec: OperatorSpec, element: DType) -> bool:
    return any(element in row.operands for row in rows(spec))


def function(spec: OperatorSpec) -> Callable[..., Array]:
    """Return an elementwise operator as a function of FP64."""
    bounds: dict[str, Any] = {"min_val": -1.5, "max_val": 1.5} if spec.name == "CLAMP" else {}
    return lambda *arrays: called(
        spec, *(np.asarray(array, np.float64) for array in arrays), **bounds
    )


STEP: Final = 2.0**-10
#: Points in which functions are defined, on both sides of a kink where they are defined there.
POSITIVE: Final = np.linspace(0.29, 2.9, 53)
BOTH: Final = np.linspace(-2.9, 2.87, 53)


def differences(of: Callable[[Array], Array], points: Array) -> tuple[Array, Array]:
    """Return the first and the second difference of a function around points."""
    low, middle, high = (of(points + k * STEP) for k in (-1, 0, 1))
    return high - middle, high - 2 * middle + low


def is_flat(array: Array) -> bool:
    """Return whether all but a few elements, which meet a kink or a step, are zero."""
    return bool((np.abs(array) < 1e-12).mean() > 0.9)


def one_operand_response(of: Callable[..., Array], is_positive: bool) -> str:
    first, second = differences(of, POSITIVE if is_positive else BOTH)
    if abs(float(of(1e-30))) > 1e10:
        return "pole"
    if not is_flat(second):
        return "smooth"
    return "step" if is_flat(first) else "linear" if np.ptp(first) < 1e-12 else "kink"


def two_operand_response(of: Callable[..., Array], is_positive: bool) -> str:
    points = POSITIVE if is_positive else BOTH
    found = of(points, points[::-1])
    if found.dtype == bool:
        return "equality" if found.sum() == 1 else "jump"
    pairs = [differences(lambda x: of(x, 0.7), points), differences(lambda x: of(x, 1.9), points)]
    slopes, bends = zip(*pairs, strict=True)
    if not is_flat(np.array(bends)):
        return "power"
    if np.ptp(slopes[0]) > 1e-12:
        return "kink"
    return "linear" if np.allclose(slopes[0], slopes[1]) else "product"


def response(spec: OperatorSpec) -> str:
    """Return how the result follows a small error of an operand, as measured."""
    traits, letters = spec.traits, spec.types.partition("->")[0].split()
    if traits.accuracy == "operand":
        is_of_several = letters.count("T") > 1 or spec.operands[0].arity == "*"
        return "mixed" if is_of_several else "move"
    if spec.name == "COND_IF":
        return "mixed"  # of the results of its branches
    if not spec.elementwise and spec.family != "reduction":
        return "none"
    if not takes(spec, FP32):
        return "table" if any(row.name == "table" for row in spec.operands) else "none"
    if spec.family == "reduction":
        if spec.name.startswith("ARG"):
            return "position"
        total = called(spec, np.array([1.0, 2.0, 4.0]), axis=0)
        return "sum" if total.reshape(-1)[0] == 7 else "none"
    if spec.family == "conversion":
        return "cast"
    if spec.elementwise == 3:
        return "choice"
    measure = one_operand_response if spec.elementwise == 1 else two_operand_response
    return measure(function(spec), spec.operands[0].domain == "positive")


@pytest.mark.parametrize("name", NAMES)
def test_the_response_is_the_one_that_is_measured(name: str) -> None:
    assert operator(name).traits.response == response(operator(name))


SMOOTH: Final = [row.name for row in OPERATORS if response(row) in ("smooth", "power")]


@pytest.mark.parametrize("name", NAMES)
def test_the_range_of_a_function_is_as_narrow_as_its_results(name: str) -> None:
    spec = operator(name)
    if name not in SMOOTH:
        assert spec.range == (-np.inf, np.inf)
        return
    points = np.concatenate([10.0 ** np.linspace(-40, 38, 157), np.linspace(0, 7, 500)[1:]])
    if spec.operands[0].domain != "positive":
        points = np.concatenate([-points, points])
    others = [[-3.0], [3.0]] if spec.elementwise == 2 else None
    found = function(spec)(points, *([others] if others else []))
    low, high = spec.range
    assert low <= found.min() + 1e-12
    assert found.max() - 1e-12 <= high
    assert found.min() - low < 1e-3 if np.isfinite(low) else found.min() < -50
    assert high - found.max() < 1e-3 if np.isfinite(high) else found.max() > 50


def extreme(spec: OperatorSpec) -> str:
    """Return which element an operator looks for, as measured."""
    values, word = np.array([2.0, 3.0, 1.0]), {3.0: "greatest", 1.0: "least"}
    if spec.family == "pooling":
        return "greatest" if any(row.name == "nan_mode" for row in spec.attributes) else "none"
    if not takes(spec, FP32) or spec.name == "CLAMP":
        return "none"
    if spec.family == "reduction":
        found = float(called(spec, values, axis=0).reshape(-1)[0])
        return word.get(values[int(found)] if spec.name.startswith("ARG") else found, "none")
    if spec.elementwise == 2 and called(spec, 1.0, 2.0).dtype != bool:
        pairs = called(spec, values, values[::-1])
        wanted = {"greatest": [2, 3, 2], "least": [1, 3, 1]}
        return next((key for key, row in wanted.items() if pairs.tolist() == row), "none")
    return "none"


@pytest.mark.parametrize("name", NAMES)
def test_the_extreme_is_the_one_that_is_measured(name: str) -> None:
    assert operator(name).traits.extreme == extreme(operator(name))


def shape(spec: OperatorSpec) -> str:
    """Return what the shape of the result follows from."""
    if spec.elementwise > 1:
        return "broadcast"
    if spec.family == "reduction":
        element = FP32 if takes(spec, FP32) else BOOL
        precision = "wide" if element is FP32 else "own"
        found = called(spec, np.ones((2, 3)), element=element, precision=precision, axis=0)
        return "without_axis" if found.ndim == 1 else "one_at_axis"
    words = {"elementwise": "first", "activation": "first", "conversion": "first"}
    return (words | {"constant": "declared"}).get(spec.family, "own")


@pytest.mark.parametrize("name", NAMES)
def test_the_shape_follows_from_what_an_operator_computes(name: str) -> None:
    assert operator(name).traits.shape == shape(operator(name))


# -- where implementations err -----------------------------------------------------------------------


def smooth_edges(of: Callable[..., Array]) -> str:
    if np.allclose(of(POSITIVE + 2 * np.pi), of(POSITIVE)):
        return "turns"
    if of(100.0) == of(200.0):
        return "saturation"
    return "near_one" if of(1.0) == 0 else "none"


def edges(spec: OperatorSpec) -> str:
    """Return where implementations of an operator err, as it follows from what it computes."""
    domains = {row.domain for row in spec.operands}
    words = {"shift": "shift", "divisor": "quotient"}
    if found := next((word for key, word in words.items() if key in domains), ""):
        return found
    if spec.types.startswith("b") and not takes(spec, FP32) and spec.family != "control":
        return "truths" if spec.elementwise == 2 else "count" if not spec.elementwise else "none"
    if spec.family == "reduction":
        return "extremes" if extreme(spec) != "none" else "none"
    if spec.name == "RESCALE":
        return "rescale"
    how, count = response(spec), spec.elementwise
    of_two = {"kink": "comparison", "jump": "comparison", "equality": "comparison"}
    of_two |= {"linear": "sum", "product": "product", "power": "power"}
    if count == 2:
        return of_two.get(how, "none")
    if how == "kink":
        return "clamp" if spec.attributes else "none"
    if how == "smooth":
        return smooth_edges(function(spec))
    return how if how in ("step", "choice", "cast", "table") else "none"


@pytest.mark.parametrize("name", NAMES)
def test_the_edges_follow_from_what_an_operator_computes(name: str) -> None:
    assert operator(name).traits.edges == edges(operator(name))


def terms(spec: OperatorSpec) -> str:
    is_blocks = spec.name.endswith("_BLOCK_SCALED")
    if spec.family in ("convolution", "matmul"):
        return "none" if is_blocks or spec.name == "TRANSPOSE_CONV2D" else spec.family
    if spec.family == "pooling":
        return "window"
    is_searched = extreme(spec) != "none" or response(spec) == "sum"
    is_axis = spec.family == "reduction" and is_searched and not spec.name.startswith("ARG")
    return "axis" if is_axis else "none"


@pytest.mark.parametrize("name", NAMES)
def test_terms_are_those_of_sums_and_searches(name: str) -> None:
    assert operator(name).traits.terms == terms(operator(name))


#: Rules of accuracy that multiply a bound of their own.
BOUNDED: Final = ("dot-product", "abs-error", "bounds", "sin")


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_of_accuracy_has_the_bound_that_it_multiplies(name: str) -> None:
    spec = operator(name)
    is_bounded = spec.accuracy.startswith(BOUNDED) or spec.name == "CAST_FROM_BLOCK_SCALED"
    assert (spec.traits.bound == "own") == is_bounded


@pytest.mark.parametrize("name", COMPUTING)
def test_what_is_exact_needs_no_rounding(name: str) -> None:
    spec = operator(name)
    assert spec.accuracy != "none"
    if spec.accuracy not in ("exact", "operand"):
        return
    graph = golden.generate(4, 3, kinds=[name])
    arrays = golden.input_arrays(graph, None, random=1)
    for step in Machine(graph).steps(arrays, {}):
        if step.operator.spec is not spec:
            continue
        operands = [step.operands[key] for key in step.operator.inputs]
        own, wide = (
            OPERATIONS[name](call_of(step.block, step.operator, operands, precision))
            for precision in ("own", "wide")
        )
        pairs = zip(own, wide, strict=True) if isinstance(own, tuple) else [(own, wide)]
        for one, other in pairs:
            np.testing.assert_array_equal(one, np.asarray(other).astype(one.dtype))


def test_only_operators_without_numbers_have_no_accuracy() -> None:
    without = ["CUSTOM", "COND_IF", "WHILE_LOOP"]
    assert [row.name for row in OPERATORS if row.accuracy == "none"] == without


# -- folding -------------------------------------------------------------------------------------------

#: Exact operators on constants that stay, and why.
STAY: Final = {
    "pooling": "its operand is large",
    "ARITHMETIC_RIGHT_SHIFT": "no frontend gives it constants",
    "LOGICAL_LEFT_SHIFT": "no frontend gives it constants",
    "LOGICAL_RIGHT_SHIFT": "no frontend gives it constants",
    "CLZ": "no frontend gives it constants",
    "TABLE": "no frontend gives it constants",
    "SCATTER": "no frontend gives it constants",
    "IDENTITY": "another rewrite removes it",
    "RESCALE": "move-scales folds it into what it scales",
    "REDUCE_PRODUCT": "implementations differ by more than a rounding",
    "ROW_GATHER": "the draft has it for a month only",
    "block_layout": "blocks are not folded",
    "block_conversion": "blocks are not folded",
    "constant": "is one already",
    "control": "runs regions, or is unknown",
    "shape": "fold-shapes folds it",
}
#: Operators whose results implementations round, and which are folded all the same, and how.
ROUNDED: Final = {
    "REDUCE_SUM": "both",  # integers exactly
    "MUL": "exact",  # with one rounding in every implementation that is known
    "RECIPROCAL": "exact",
    "RSQRT": "exact",
    "MATMUL": "rounded",
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_exact_is_folded_and_functions_are_rounded_once(name: str) -> None:
    spec = operator(name)
    if name in STAY or spec.family in STAY:
        expected = "none"
    elif name in ROUNDED:
        expected = ROUNDED[name]
    elif spec.is_inexact:
        expected = "rounded" if name in SMOOTH else "none"
    else:
        expected = "exact"
    assert spec.traits.folding == expected


# -- arithmetic on BOOL --------------------------------------------------------------------------------

#: Operators on integers that mean nothing on truth values, and why.
NOT_ON_BOOL: Final = {
    "shift": "a bit is not shifted",
    "divisor": "false divides nothing",
    "CLZ": "counts the bits of a width",
    "NEGATE": "BOOL has no negative",
    "CLAMP": "has bounds of its type",
    "TABLE": "has as many entries as its type values",
    "REDUCE_SUM": "counts, and BOOL does not hold the count",
    "POW": "is a function of real numbers",
}


def is_arithmetic(spec: OperatorSpec) -> bool:
    """Return whether frameworks may hand BOOL to an operator, which TOSA does not take there."""
    is_of_numbers = spec.family in ("elementwise", "reduction") and not takes(spec, BOOL)
    is_function = spec.elementwise == 1 and not takes(spec, INT32)
    return is_of_numbers and not is_function


@pytest.mark.parametrize("name", [row.name for row in OPERATORS if is_arithmetic(row)])
def test_arithmetic_on_truth_values_is_that_on_0_and_1(name: str) -> None:
    spec = operator(name)
    if {name, *(row.domain for row in spec.operands)} & NOT_ON_BOOL.keys():
        assert spec.traits.on_bool == "none"
        return
    is_reduction = spec.family == "reduction"
    table = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    operands = [table] if is_reduction else [table[:1], table[1:]][: spec.elementwise]
    given: dict[str, Any] = {"axis": 0} if is_reduction else {}
    element = next(row for row in (INT32, FP32) if takes(spec, row))
    numbers = called(spec, *operands, element=element, precision="own", **given)
    bits = numbers.astype(np.int64)
    is_position = spec.traits.shape == "without_axis"
    # Operators on bits compute modulo 2; of numbers all but 0 are true.
    expected = bits if is_position else bits & 1 if name.startswith("BITWISE") else bits != 0
    if any(row.name == "nan_mode" for row in spec.attributes):
        given["nan_mode"] = NAN
    kind = "int32" if is_position else "bool"
    inputs = [("bool", row.shape) for row in operands]
    graph = single(name, inputs, (kind, expected.shape), **given)
    made, report = rewritten(graph, "boolean-arithmetic")
    assert report.count("boolean-arithmetic") == 1
    arrays = {f"x{index}": row.astype(bool) for index, row in enumerate(operands)}
    assert golden.run(made, arrays, engine="numpy").outputs["y"].tolist() == expected.tolist()


def test_only_arithmetic_has_a_form_for_truth_values() -> None:
    have = {row.name for row in OPERATORS if row.traits.on_bool != "none"}
    assert have <= {row.name for row in OPERATORS if is_arithmetic(row)}


# -- integers that do not fit ----------------------------------------------------------------------

#: Operators whose integers wrap around, as TOSA says.
WRAPS: Final = ("LOGICAL_LEFT_SHIFT",)
#: Calls of operators that are not elementwise, of integers that leave the type of the result.
POOLED: Final = {"input_zp": -128, "output_zp": 127, "stride": (1, 1), "pad": (0,) * 4}
BEYOND: Final[dict[str, tuple[Any, Callable[[Any, Any], Any]]]] = {
    "RESCALE": (
        "int32",
        lambda b, x: b.rescale(
            x, [1 << 30], [28], scale32=True, rounding_mode="SINGLE_ROUND", dtype="int8"
        ),
    ),
    "AVG_POOL2D": ("int8", lambda b, x: b.avg_pool2d(x, kernel=(1, 1), **POOLED)),
    "AVG_POOL2D_ADAPTIVE": ("int8", lambda b, x: b.avg_pool2d_adaptive(x, kernel=(1, 1), **POOLED)),
}


def overflow(spec: OperatorSpec) -> str:
    """Return what becomes of integers that do not fit, as measured."""
    if spec.name in BEYOND:
        kind, call = BEYOND[spec.name]
        b = tc.builder.Builder()
        b.output(call(b, b.input("x", kind, (1, 1, 2, 1))), name="y")
        x = np.array([100, 101], kind).reshape(1, 1, 2, 1)
        low, high = golden.run(b.graph(), {"x": x}, engine="numpy").outputs["y"].reshape(-1)
        return "saturates" if low == high == 127 else "none"
    if spec.name == "CAST":
        return "saturates" if called(spec, [3e4, 4e4]).tolist() == [127, 127] else "none"
    if any(row.name == "table" for row in spec.operands):
        return "refused"  # an index between the entries of INT16 may lead out of INT32
    if spec.elementwise not in (1, 2):
        return "none"
    found = {ends_of(spec, row) for row in (dtype("INT8"), INT32) if takes(spec, row)}
    return next((word for word in ("refused", "saturates") if word in found), "none")


def ends_of(spec: OperatorSpec, element: DType) -> str:
    """Return what becomes of the integers at the ends of a type."""
    least, most = integer_limits(element)
    ends = np.array([least, least + 1, most - 1, most])
    others = [[[3]], [[1]]] if spec.elementwise == 2 else [[]]
    if spec.elementwise == 2 and not any(row.domain == "shift" for row in spec.operands):
        others.append([[-1]])
    given = {"min_val": -9, "max_val": 9, "round": False}
    try:
        results = [
            called(spec, ends, *row, element=element, precision="own", **given) for row in others
        ]
    except UndefinedResult:
        return "none"  # its definition refuses them
    result = next(row.results[0] for row in rows(spec) if element in row.operands)
    assert isinstance(result, DType)
    low, high = result.limits
    if any(found.min() < low or found.max() > high for found in results):
        return "none" if spec.name in WRAPS else "refused"
    first, second = results[0][:2]
    return "saturates" if spec.elementwise == 1 and first == second in (low, high) else "none"


@pytest.mark.parametrize("name", NAMES)
def test_integers_that_do_not_fit_are_treated_as_measured(name: str) -> None:
    assert operator(name).traits.overflow == overflow(operator(name))


def random_operands(spec: OperatorSpec) -> str:
    """Return what makes random operands; "" of operators that have a function of their own."""
    if {row.domain for row in spec.operands} & {"shift", "divisor"}:
        return "amounts"
    if spec.elementwise == 2 and response(spec) in ("jump", "equality"):
        return "comparison"
    families = {"pooling": "pool", "gather": "row_gather" * (spec.name == "ROW_GATHER")}
    if spec.family in ("reduction", "pooling", "convolution", "fft", "matmul", "gather"):
        word = families.get(spec.family) or spec.family
        return "" if spec.name.endswith("_BLOCK_SCALED") else word
    has_more = len(spec.operands) > spec.elementwise or spec.family == "conversion"
    if has_more or spec.elementwise > 2 or spec.name in ("CLAMP", "POW"):
        return ""
    return ("", "unary", "binary")[spec.elementwise]


@pytest.mark.parametrize("name", NAMES)
def test_random_operands_are_made_for_what_an_operator_takes(name: str) -> None:
    found = random_operands(operator(name))
    others = ("own", "none", "arithmetic", "logarithm", "row_gather")
    assert operator(name).traits.random in ((found,) if found else others)


# -- TFLite ----------------------------------------------------------------------------------------

#: Names that TFLite has for operators of TOSA, where they differ by more than underscores.
IN_TFLITE: Final = {
    "SIGMOID": "LOGISTIC",
    "INTDIV": "DIV",
    "REDUCE_SUM": "SUM",
    "REDUCE_PRODUCT": "REDUCE_PROD",
    "SELECT": "SELECT_V2",
}


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_tflite_are_those_of_its_schema(name: str) -> None:
    form, _, numbers = operator(name).traits.tflite.partition(":")
    if numbers:
        code, options = map(int, numbers.split(":"))
        called_there = IN_TFLITE.get(name, name)
        assert operator_name(code) == called_there
        assert TFLITE[called_there][:2] == (code, options)
        assert (form == "axis") == (operator(name).family == "reduction")


def test_what_tflite_has_by_the_same_name_is_written() -> None:
    names = {row.name for row in OPERATORS if row.traits.tflite == "none"}
    same = {name for name in names if name in TFLITE and name not in ("CUSTOM", "RFFT2D")}
    assert same == {"RIGHT_SHIFT"} & names
