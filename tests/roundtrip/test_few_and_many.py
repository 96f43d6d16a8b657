"""Small programs are read, judged and written without numpy, and large ones in columns: both agree."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from roundtrip.graphs import graphs
from roundtrip.mutations import attribute, data
from roundtrip.test_flatbuffer import QUICK, encode
from unit.building import branching, counting, example
from unit.graph.test_verify import zoo

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer.read import (
    addresses_of_data_after,
    offsets_of_data_after,
    read,
    read_few,
)
from tosa_convert.formats.mlir.constants import read_boolean_bytes, read_booleans, write_booleans
from tosa_convert.formats.mlir.text.numbers import (
    BadNumber,
    _bits_of,
    _value_of,
    bits_of,
    ordinary_bytes,
)
from tosa_convert.formats.mlir.text.print.attributes import _memory
from tosa_convert.graph import DTYPES, Constant, Graph, Operator, compare, dtype
from tosa_convert.graph.constant import address_of
from tosa_convert.graph.lazy_numpy import FEW
from tosa_convert.graph.opset import operator
from tosa_convert.io.options import DEFAULT_LIMITS
from tosa_convert.qualify.random_graphs.generate import generate
from tosa_convert.rules.families.checks import first_outside
from tosa_convert.rules.operator_view import OperatorView, TensorType

#: Modules that treat few things in another way than many.
HAVE_BOTH = {
    "formats.flatbuffer.builder",
    "formats.flatbuffer.read",
    "formats.flatbuffer.write",
    "formats.mlir.constants",
    "formats.mlir.bytecode.read_sections",
    "formats.mlir.locations",
    "formats.mlir.text.print.attributes",
    "formats.mlir.write.region_body",
    "graph.constant",
    "rules.families.checks",
    "rules.operator_view",
}
#: The thresholds of blocks, by module.
BLOCKS = ("graph.verify", "formats.mlir.bytecode.operations")
ALL_FEW, ALL_MANY = sys.maxsize, 1


@contextlib.contextmanager
def threshold(number: int) -> Iterator[None]:
    """Let so many operators, tables or elements be the first that are many."""
    with pytest.MonkeyPatch.context() as patch:
        for name in HAVE_BOTH:
            patch.setattr(import_module(f"tosa_convert.{name}"), "FEW", number)
        for name in BLOCKS:
            patch.setattr(import_module(f"tosa_convert.{name}"), "_MIN_COLUMNS", number)
        yield


def both(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the results of one work on few and on many things; findings, if it raises them."""
    results = []
    for number in (ALL_FEW, ALL_MANY):
        with threshold(number):
            try:
                results.append(work(*arguments))
            except TosaConvertError as error:
                results.append(error.findings)
    return results


def test_the_list_of_modules_is_complete() -> None:
    tc.dumps(tc.load(tc.dumps(generate(1, 5), "mlir")), "mlirbc")
    tc.load(tc.dumps(generate(1, 5), "mlirbc"))
    found = {
        name.removeprefix("tosa_convert.")
        for name, module in list(sys.modules.items())
        if name.startswith("tosa_convert.") and vars(module).get("FEW") == FEW
    }
    assert found - {"graph.lazy_numpy", *BLOCKS} == HAVE_BOTH


@pytest.mark.parametrize("make", [example, branching, counting, zoo])
@pytest.mark.parametrize("out_of_line", [False, True])
def test_small_programs_are_judged_and_laid_out_as_large_ones(
    make: Callable[[], Graph], out_of_line: bool
) -> None:
    made = make()
    few, many = both(lambda: encode(made, out_of_line=out_of_line))
    assert few == many
    few, many = both(lambda: tc.validate(made))
    assert few == many
    few, many = both(lambda: tc.dumps(made, "mlirbc", validate=False))
    assert few == many


@pytest.mark.slow
@settings(QUICK, max_examples=12)
@given(graphs(), st.booleans())
def test_few_tables_are_laid_out_as_many(made: Graph, out_of_line: bool) -> None:
    few, many = both(lambda: encode(made, out_of_line=out_of_line))
    assert isinstance(few, bytes)
    assert few == many


@pytest.mark.slow
@settings(QUICK, max_examples=12)
@given(graphs(), st.booleans())
def test_few_tables_are_read_as_many(made: Graph, out_of_line: bool) -> None:
    raw = encode(made, out_of_line=out_of_line)
    few = read_few(memoryview(raw))
    assert few is not None
    many = read(raw, limits=SMALLER)
    assert compare(few, many, locations=True, version=True) is None
    assert few.producer == many.producer
    assert [*map(repr, few.regions)] == [*map(repr, many.regions)]


@pytest.mark.slow
@settings(QUICK, max_examples=12)
@given(graphs(), st.booleans())
def test_few_tables_have_the_same_data_after(made: Graph, out_of_line: bool) -> None:
    view = memoryview(encode(made, out_of_line=out_of_line))
    few = offsets_of_data_after(view)
    assert few is not None
    assert {address_of(view) + at for at in few} == addresses_of_data_after(view, SMALLER)


#: Limits below the default one: the file is read in columns.
SMALLER = tc.Limits(flatbuffer_memory=DEFAULT_LIMITS.flatbuffer_memory - 1)


@pytest.mark.slow
@settings(QUICK, max_examples=20)
@given(graphs(), st.randoms(use_true_random=False))
def test_few_tables_of_a_damaged_file_are_read_as_many(made: Graph, rng: random.Random) -> None:
    sound = encode(made)
    for _ in range(20):
        raw = bytearray(sound)
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(raw))
            raw[at] = rng.choice((0, 1, raw[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        if rng.random() < 0.1:
            del raw[rng.randrange(len(raw)) :]
        few = read_few(memoryview(bytes(raw)))
        if few is None:
            continue  # what is wrong is said by the other reader alone
        many = read(bytes(raw), limits=SMALLER)
        assert compare(few, many, locations=True, version=True) is None
        assert [*map(repr, few.regions)] == [*map(repr, many.regions)]


@pytest.mark.slow
@settings(QUICK, max_examples=12)
@given(graphs(), st.randoms(use_true_random=False))
def test_few_operations_are_treated_as_many(made: Graph, rng: random.Random) -> None:
    attribute(made, made.main, rng)
    data(made, made.main, rng)
    few, many = both(lambda: tc.validate(made))
    assert few == many
    options: dict[str, Any] = {"validate": False}
    few, many = both(lambda: tc.dumps(made, "mlirbc", **options))
    assert few == many
    if isinstance(few, bytes):
        raw = bytearray(few)
        if rng.random() < 0.7:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        few, many = both(lambda: tc.load(bytes(raw)))
        assert type(few) is type(many)
        if isinstance(few, Graph):
            assert compare(few, many, locations=True, version=True) is None
        else:
            assert few == many


@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("splat", [False, True])
def test_the_values_of_few_elements_are_those_of_numpy(row: Any, splat: bool) -> None:
    rng = random.Random(row.name)
    for count in (0, 1, 2, 7):
        size = row.element_bytes if splat else row.wire_bytes(count)
        constant = Constant(row, count, rng.randbytes(size), splat=splat)
        assert repr(constant.values()) == repr(constant.numpy().tolist())
        few, many = both(constant.values)
        assert repr(few) == repr(many)


def test_few_booleans_are_read_and_written_as_many() -> None:
    for count, raw in product((0, 1, 3, 8, 9, 17), (0, 0xFF, 0xA5, 2, None)):
        rng = random.Random(count)
        length = (count + 7) // 8
        bits = rng.randbytes(length) if raw is None else bytes([raw] * length)
        for few, many in (
            both(read_booleans, memoryview(bits), count),
            both(read_boolean_bytes, memoryview(bits)),
        ):
            assert few is many is None or bytes(few.packed()) == bytes(many.packed())
            if few is not None:
                written = [bytes(one) for one in both(write_booleans, few)]
                assert written[0] == written[1]


def test_few_bits_in_memory_are_those_of_many() -> None:
    for count in (1, 7, 8, 9, 20):
        bits = random.Random(count).randbytes((count + 7) // 8)
        few, many = both(lambda bits, count: list(map(bytes, _memory(bits, count))), bits, count)
        assert few == many
        assert len(few[0]) == count


def test_the_value_of_many_elements_is_that_of_few() -> None:
    spec, fp32 = operator("MUL"), dtype("FP32")
    for values in ([], [1.0], [2.0, 2.0], [1.0, 2.0], [0.0, -0.0], [np.nan], [np.nan, np.nan]):
        raw = np.array(values, "<f4").tobytes()
        value = TensorType(fp32, (len(values),), None, Constant(fp32, len(values), raw))
        view = OperatorView(Operator(spec, (), ()), (value, value, value), ())
        few, many = both(view.splat, "shift")
        assert (few is not None) == (values in ([1.0], [2.0, 2.0], [0.0, -0.0]))
        assert repr(few) == repr(many)


@settings(QUICK)
@given(
    st.sampled_from(["INT8", "INT16", "INT4"]),
    st.tuples(st.binary(min_size=1, max_size=1), st.binary(min_size=4, max_size=4)),
    st.integers(1, 4),
    st.booleans(),
)
def test_few_elements_are_compared_as_many(
    name: str, raws: tuple[bytes, bytes], count: int, unpacked: bool
) -> None:
    kind = dtype(name)
    byte, whole = (bytes(value & 3 for value in part) for part in raws)
    one = Constant(kind, count, byte * kind.element_bytes, unpacked=unpacked, splat=True)
    size = count * kind.element_bytes if unpacked else kind.wire_bytes(count)
    for raw in (byte * size, (whole * 2)[:size]):
        two = Constant(kind, count, raw, unpacked=unpacked)
        few, many = both(one.same_bits, two)
        assert few == many == (one.numpy().tolist() == two.numpy().tolist())


@settings(QUICK)
@given(st.lists(st.integers(-9, 9), max_size=6), st.integers(-5, 5), st.none() | st.integers(-5, 5))
def test_a_value_outside_is_found_among_few_and_many(
    values: list[int], least: int, most: int | None
) -> None:
    made = Constant(dtype("INT8"), len(values), np.array(values, np.int8))
    few, many = both(lambda: first_outside(made, least, most))
    assert few == many


@settings(QUICK, max_examples=200)
@given(st.sampled_from(["f64", "f32", "f16"]), st.integers(0, 2**64 - 1))
def test_numbers_of_python_are_those_of_numpy(element: str, number: int) -> None:
    width = int(element[1:])
    bits = number & (1 << width) - 1
    value = np.array([bits], f"<u{width // 8}").view(f"<f{width // 8}")[0]
    assert repr(_value_of(bits, element)) == repr(float(value))
    # Neighbours between two numbers are rounded, and those beyond the largest have no bits.
    with np.errstate(all="ignore"):
        between = np.float64(value) * (1 + 2**-20)
        expected = between.astype(f"<f{width // 8}")
    if np.isfinite(expected):
        raw = int.from_bytes(expected.tobytes(), "little")
        assert _bits_of(float(between), element) == raw


TOKENS = st.one_of(
    st.integers(-130, 130).map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(width=16, allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["0x7F", "true", "false", "1.", "-0.0", " 2 ", "1.5.", "", "-", "65520.0", "3.5e38"]
    ),
)


@settings(QUICK, max_examples=200)
@given(
    st.sampled_from(
        ["f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "index", "i4", "ui8", "i1"]
    ),
    st.lists(TOKENS, min_size=1, max_size=3),
)
def test_ordinary_numbers_equal_others(element: str, texts: list[str]) -> None:
    tokens = [text.encode() for text in texts]
    found = ordinary_bytes(tokens, element)
    assert found is not None or texts != ["1.0"] or element[0] != "f"
    if found is not None:
        assert found == bits_of(tokens, element).tobytes()
    else:
        with contextlib.suppress(BadNumber):
            assert element in ("bf16", "i4", "ui8", "i1") or bits_of(tokens, element).size
