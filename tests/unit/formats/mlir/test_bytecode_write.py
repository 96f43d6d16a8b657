"""Bytecode files that we write: every version, resources, and no copy of large data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from unit.building import branching, counting, example, graph, op, region, shape, tensor
from unit.graph.test_verify import zoo

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.formats.bindings.modules import read
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.read_sections import (
    Resource,
    Tables,
    decode_resources,
    read_sections,
)
from tosa_convert.formats.mlir.names import NAME_ATTRIBUTE
from tosa_convert.formats.mlir.write import columns
from tosa_convert.formats.mlir.write.function import FunctionWriter
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.graph import Constant, Graph, Operator, compare
from tosa_convert.graph.constant import in_order
from tosa_convert.graph.versions import lowest_version
from tosa_convert.io.options import BYTECODE_VERSIONS, Constants, Names, WriteOptions
from tosa_convert.qualify.random_graphs.generate import RULES, generate

FLOATS = np.arange(300, dtype="<f4").tobytes()


def weights() -> Graph:
    """Return constants of every form in a file: resources of several alignments, and dense ones."""
    values = [
        tensor("i8", "INT8", (301,), bytes(range(256)) + bytes(range(45))),
        tensor("f32", "FP32", (300,), FLOATS),
        tensor("i48", "INT48", (100,), bytes(range(100)) * 6),
        tensor("f16", "FP16", (200,), bytes(range(200)) * 2),
        tensor("shape", "FP32", (3, 100), FLOATS),
        tensor("small", "FP32", (2,), FLOATS[:8]),
        tensor("equal", "INT8", (1000,), b"\7" * 1000),
        tensor("i4", "INT4", (1001,), bytes([0x21] * 500 + [7])),
        tensor("bool", "BOOL", (1001,), bytes([1, 0, 1] * 333 + [1, 1])),
    ]
    names = " ".join(value.name for value in values)
    operators = [op("CONST", "", value.name) for value in values]
    return graph("", names, list(values), operators)


def shared() -> Graph:
    """Regions with constants of one name, one of which two operators run."""
    made = graph(
        "c x",
        "z",
        [tensor("c", "BOOL", ()), *(tensor(name, "FP32", (300,)) for name in "xyz")],
        [
            op("COND_IF", "c x", "y", then_graph="one", else_graph="other"),
            op("COND_IF", "c y", "z", then_graph="one", else_graph="one"),
        ],
    )
    for number, name in enumerate(("one", "other")):
        data = np.full(300, number, "<f4")
        data[0] = 5
        values = [
            tensor("a", "FP32", (300,)),
            tensor("w", "FP32", (300,), data.tobytes()),
            tensor("b", "FP32", (300,)),
        ]
        operators = [op("CONST", "", "w"), op("ADD", "a w", "b")]
        made.regions.append(region(name, "a", "b", values, operators))
    return made


GRAPHS = {made.__name__: made for made in (branching, counting, example, shared, weights, zoo)}


def written(made: Graph, version: int = 1, **options: Any) -> bytes:
    return b"".join(
        in_order(encode_module(made, WriteOptions(bytecode_version=version, **options)).pieces)
    )


def resources_of(data: bytes) -> list[Resource]:
    return decode_resources(Tables(read_sections(memoryview(data))))


@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_file_of_every_version_reads_back_equal(name: str, version: int) -> None:
    made = GRAPHS[name]()
    data = tc.dumps(made, "mlirbc", bytecode_version=version)
    assert read_sections(memoryview(data)).version == version
    again = tc.load(data)
    if name == "shared":  # MLIR has a copy of a region for each operator
        copies = tc.load(tc.dumps(made, "mlirbc", names="generate"), names="generate")
        assert [len(block.operators) for _, block in copies.blocks()] == [2, 2, 2, 2, 2]
    # Variables get new names.
    assert compare(made, again, names=name != "counting") is None


@pytest.mark.parametrize("kind", sorted(RULES))
def test_every_operator_is_written_in_every_version(kind: str) -> None:
    made = generate(5, 4, kinds=[kind])
    made.version = lowest_version(made)
    for version in BYTECODE_VERSIONS:
        assert compare(made, tc.load(written(made, version)), names=False) is None


@pytest.mark.slow
@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
@pytest.mark.parametrize("name", GRAPHS)
def test_mlir_reads_the_module_that_it_would_build(
    bindings: Bindings, name: str, version: int
) -> None:
    made = GRAPHS[name]()
    expected = tc.to_module(made, bindings.new_context(), constants="dense")
    data = written(made, version, constants="dense")
    if (
        bindings.package == "iree.compiler"
        and version >= code.HAS_NATIVE_PROPERTIES
        and name == "counting"
    ):
        pytest.skip("IREE's definition of a variable has one more property")
    found = bindings.ir.Module.parse(data, bindings.new_context())
    assert found.operation.get_asm(enable_debug_info=True) == expected.operation.get_asm(
        enable_debug_info=True
    )


@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
@pytest.mark.parametrize("make", [weights, shared])
def test_mlir_reads_resources(bindings: Bindings, make: Any, version: int) -> None:
    made = make()
    data = written(made, version)
    module = bindings.ir.Module.parse(data, bindings.new_context())
    assert str(module).count("dense_resource<") == (5 if make is weights else 4)
    assert compare(tc.load(data), read(module), names=True) is None


def test_the_version_says_what_a_file_has() -> None:
    sections = {
        version: read_sections(memoryview(written(zoo(), version))).sections
        for version in BYTECODE_VERSIONS
    }
    for version in BYTECODE_VERSIONS:
        assert (code.PROPERTIES in sections[version]) == (version >= 5)
        # A nested section, after the one region of the module and of the function.
        nested = sections[version][code.IR].bytes.count(bytes((1 << 2 | 3, code.IR)))
        assert (nested >= 2) == (version >= 2)
    assert sections[5][code.IR].bytes == sections[6][code.IR].bytes
    assert sections[1][code.IR].bytes == sections[0][code.IR].bytes
    assert len({bytes(sections[version][code.IR].bytes) for version in (1, 2, 3, 4, 5)}) == 5


def test_native_properties_have_no_names() -> None:
    own = {b"values", b"axis", b"function_type", b"sym_name"}
    for version in BYTECODE_VERSIONS:
        strings = set(Tables(read_sections(memoryview(written(example(), version)))).strings)
        assert b"tosa.tensor_name" in strings
        assert own & strings == (own if version < code.HAS_NATIVE_PROPERTIES else set())


def named(*names: str) -> Graph:
    """Return a chain of operators whose results have these names."""
    values = [tensor(name) for name in ("x", *names)]
    operators = [
        op("EXP", before, after) for before, after in zip(("x", *names), names, strict=False)
    ]
    operators[1] = op("REVERSE", names[0], names[1], axis=1)
    return graph("x", names[-1], list(values), operators)


NAMES = ("layer_0", "a", "layer_2", "é", "b", 'q"uote', "c")


@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
def test_names_read_in_place_equal_decoded_ones(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    real = Bytecode.only_text

    def noted(self: Bytecode, index: int, name: str) -> str | None:
        asked.append(real(self, index, name))
        return asked[-1]

    data = written(named(*NAMES), version)
    monkeypatch.setattr(Bytecode, "only_text", noted)
    found = tc.load(data)
    assert {"é", "b", 'q"uote'} & {*asked}
    monkeypatch.setattr(Bytecode, "only_text", lambda self, index, name: None)
    assert compare(found, tc.load(data), names=True) is None
    assert compare(found, named(*NAMES), names=True) is None


@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
def test_names_written_at_once_equal_others(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = written(named(*NAMES), version)

    def slow(
        self: FunctionWriter, spec: Any, operator: Any, own: Any, is_named: bool
    ) -> tuple[int, bytes]:
        string = self.encoder.string_attribute(operator.outputs[0])
        names = ((NAME_ATTRIBUTE, string),)
        return self.encoder.attributes_of(spec.mlir, own, names, unique=True)

    monkeypatch.setattr(FunctionWriter, "with_names", slow)
    assert tc.compare(tc.load(quick), tc.load(written(named(*NAMES), version)), names=True) is None
    assert quick == written(named(*NAMES), version)


# -- resources ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BYTECODE_VERSIONS)
def test_resources_are_aligned_in_the_file(version: int) -> None:
    made = weights()
    data = written(made, version)
    found = resources_of(data)
    assert [entry.name for entry in found] == [b"i8", b"f32", b"i48", b"f16", b"shape"]
    section = read_sections(memoryview(data)).sections[code.RESOURCES]
    assert section.offset % 4 == 0
    for entry in found:
        constant = made.main.tensors[entry.name.decode()].data
        assert constant is not None
        assert entry.data == constant.buffer


def test_large_resources_are_views_of_an_aligned_place_in_the_file() -> None:
    rows = (("a", "INT8", 1), ("b", "FP32", 4), ("c", "FP16", 2), ("d", "INT48", 2))
    values = [tensor(name, kind, (5001,), _bytes(kind, 5001)) for name, kind, _ in rows]
    made = graph("", "a b c d", list(values), [op("CONST", "", value.name) for value in values])
    data = np.frombuffer(written(made), np.uint8)
    start = data.__array_interface__["data"][0]
    again = tc.load(data)
    for name, _, alignment in rows:
        constant = again.main.tensors[name].data
        assert constant is not None
        place = np.frombuffer(constant.buffer, np.uint8).__array_interface__["data"][0] - start
        assert 0 < place < len(data)
        assert place % alignment == 0


def _bytes(kind: str, count: int) -> bytes:
    size = tensor("", kind, (count,)).dtype.wire_bytes(count)
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def test_resources_have_names_of_their_own_and_copied_regions_share_one() -> None:
    assert [entry.name for entry in resources_of(written(shared()))] == [b"w", b"w_1"]


def test_a_resource_without_a_name_is_called_constant() -> None:
    made = graph("", "", [tensor("", "FP32", (300,), FLOATS)], [])
    made.main.operators.append(Operator(op("CONST").spec, (), ("",)))
    (entry,) = resources_of(written(made))
    assert entry.name == b"constant"


def test_empty_constants_can_be_resources() -> None:
    made = graph("", "y", [tensor("y", "FP32", (0,), b"")], [op("CONST", "", "y")])
    data = written(made, constants="resource")
    assert [bytes(entry.data or b"") for entry in resources_of(data)] == [b""]
    assert compare(made, tc.load(data), names=True) is None


def test_every_large_constant_is_a_piece_that_is_not_copied() -> None:
    size = 1 << 16
    values = [tensor("y", "FP32", (size,), np.arange(size, dtype="<f4").tobytes())]
    values.append(tensor("bound", "INT32", (size,), np.arange(size, dtype="<i4").tobytes()))
    made = graph("", "y bound", list(values), [op("CONST", "", value.name) for value in values])
    choices: tuple[Constants, ...] = ("auto", "dense", "resource")
    for constants in choices:
        pieces = encode_module(made, WriteOptions(constants=constants)).pieces
        views = [piece for piece in in_order(pieces) if len(piece) == 4 * size]
        assert len(views) == 2
        for view, value in zip(views, values, strict=True):
            assert value.data is not None
            assert np.shares_memory(
                np.frombuffer(view, "u1"), np.frombuffer(value.data.buffer, "u1")
            )


@pytest.mark.parametrize("kind", ["INT8", "FP32", "FP8UE8M0", "INT4", "BOOL", "INT48"])
def test_the_file_does_not_depend_on_the_form_of_equal_elements(kind: str) -> None:
    files = set()
    for splat in (False, True):
        value = tensor("y", kind, (8,))
        element = bytes([1]) + bytes(value.dtype.element_bytes - 1)
        constant = Constant(value.dtype, 8, element, splat=True)
        value.data = constant if splat else Constant(value.dtype, 8, bytes(constant.packed()))
        files.add(written(graph("", "y", [value], [op("CONST", "", "y")])))
    assert len(files) == 1


_MEASURE = """
import sys
import tosa_convert as tc
graph = tc.load(sys.argv[1])
tc.save(graph, sys.argv[2])
again = tc.load(sys.argv[2])
assert [data.count for _, data in again.constants()] == [int(sys.argv[3])]
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("RssAnon")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_memory_does_not_grow_with_the_weights_that_are_written_and_read(tmp_path: Path) -> None:
    used = []
    for elements in (1 << 10, 1 << 24):
        values = tensor("y", "FP32", (elements,), np.arange(elements, dtype="<f4").tobytes())
        source = tmp_path / f"{elements}.tosa"
        tc.save(graph("", "y", [values], [op("CONST", "", "y")]), source)
        line = [sys.executable, "-c", _MEASURE, str(source), str(tmp_path / f"{elements}.mlirbc")]
        line.append(str(elements))
        used.append(int(subprocess.run(line, capture_output=True, check=True, timeout=60).stdout))
    assert used[1] - used[0] < 8 << 10, "KiB, of 64 MiB of weights"


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [-1, 7, "1", None])
def test_an_unknown_version_is_refused(version: Any, tmp_path: Path) -> None:
    for call in (
        lambda: tc.dumps(example(), "mlirbc", bytecode_version=version),
        lambda: tc.save(example(), tmp_path / "m.mlirbc", bytecode_version=version),
    ):
        with refused("option-conflict", match="expected one of 0, 1, 2"):
            call()
    assert not list(tmp_path.iterdir())


def test_a_name_with_half_a_character_is_refused() -> None:
    made = example()
    made.main.operators[1].location = 'loc("\ud800":1:2)'
    with refused("value-out-of-range", match="lone surrogate"):
        tc.dumps(made, "mlirbc")


def test_a_region_of_another_kind_of_value_is_written() -> None:
    """Shapes as constants, in a block without arguments."""
    made = graph("", "", [shape("s", 1, 2, 3)], [op("CONST_SHAPE", "", "s")])
    for version in BYTECODE_VERSIONS:
        assert compare(made, tc.load(written(made, version)), names=True) is None


def test_constants_that_are_one_object_are_one_resource() -> None:
    data = Constant(tensor("a").dtype, 300, FLOATS)
    values = [tensor("a", "FP32", (300,)), tensor("b", "FP32", (3, 100))]
    for value in values:
        value.data = data
    made = graph("", "a b", list(values), [op("CONST", "", value.name) for value in values])
    encoded = written(made)
    assert len(resources_of(encoded)) == 1
    assert compare(made, tc.load(encoded), names=True) is None


def repeated() -> Graph:
    """Return operators of equal attributes, of which some have names and some other types."""
    b = Builder("repeated")
    x, y = b.input("x", "fp32", (4,)), b.input("y", "fp16", (4,))
    for number in range(40):
        x, y = b.clamp(x, min_val=0, max_val=6), b.clamp(y, min_val=number % 2, max_val=6)
        x = b.add(x, np.full(4, number % 3, np.float32))
    b.output(x, name="x_out")
    b.output(y, name="y_out")
    generated = tc.load(tc.dumps(b.graph(), "mlirbc"), names="generate")
    text = tc.dumps(generated, "json")
    for number in range(7, 90, 3):
        text = text.replace(b'"layer_%d"' % number, b'"given_%d"' % number)
    return tc.load(text)


@pytest.mark.slow
@pytest.mark.parametrize("names", ["retain", "generate"])
def test_operators_written_all_at_once_equal_others(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = [*(generate(seed, 14) for seed in range(24)), generate(1, 150), repeated()]
    quick = columns.write_all_at_once
    taken: list[bool] = []

    def noted(*args: Any) -> bytes | None:
        encoded = quick(*args)
        taken.append(encoded is not None)
        return encoded

    monkeypatch.setattr(sys.modules["tosa_convert.graph.verify"], "_MIN_COLUMNS", 1)
    monkeypatch.setattr(columns, "write_all_at_once", noted)
    found = [tc.dumps(graph, "mlirbc", names=names) for graph in graphs]
    assert {True, False} == set(taken)
    monkeypatch.setattr(columns, "write_all_at_once", lambda *_: None)
    assert [tc.dumps(graph, "mlirbc", names=names) for graph in graphs] == found


def test_a_splat_without_elements_has_no_data() -> None:
    values = tensor("k", "FP32", (0, 3))
    values.data = Constant(values.dtype, 0, bytes(4), splat=True)
    made = graph("", "k", [values], [op("CONST", "", "k")])
    assert compare(made, tc.load(tc.dumps(made, "mlirbc", validate=False))) is None
