"""Constants of every type and form: their bits in the graph, and the same bits in MLIR again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from unit.building import graph, op, shape

from tosa_convert import api
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.bindings import modules
from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir import constants
from tosa_convert.formats.mlir.bytecode import decode
from tosa_convert.formats.mlir.read.module import read_file
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.graph import DTYPES, Constant, DType, Graph, Tensor, compare, dtype, verify
from tosa_convert.graph.constant import pack
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.graph.model import BlockScale
from tosa_convert.io.options import ReadOptions, WriteOptions
from tosa_convert.qualify.random_graphs.generate import GENERATED, generate

PLAIN = [row for row in DTYPES if row.name != "MXINT8"]


def elements(row: DType, count: int, seed: int = 3) -> bytes:
    """Return random elements in MLIR's form, without what its verifier refuses.

    Some NaNs, -8 in INT4.
    """
    raw = np.random.default_rng(seed).integers(0, 256, count * row.element_bytes).astype(np.uint8)
    if row.name == "BOOL":
        raw &= 1
    elif row.is_packed:
        raw &= (1 << row.bits) - 1
        if row.name == "INT4":
            raw[raw == 8] = 7
    return raw.tobytes()


def in_file(row: DType, raw: bytes) -> bytes:
    return pack(np.frombuffer(raw, np.uint8), row.bits).tobytes() if row.is_packed else raw


def constant(bindings: Bindings, context: Any, row: DType, sizes: list[int], raw: bytes) -> Any:
    """Return a module of one dense constant, made from raw bytes."""
    ir = bindings.ir
    with context, ir.Location.unknown():
        kind = ir.RankedTensorType.get(sizes, ir.Type.parse(row.mlir))
        values = ir.DenseElementsAttr.get(np.frombuffer(raw, np.uint8), type=kind)
        module = ir.Module.parse("func.func @f() {\n return\n}")
        with ir.InsertionPoint.at_block_begin(
            next(iter(module.body.operations)).regions[0].blocks[0]
        ):
            ir.Operation.create("tosa.const", results=[kind], attributes={"values": values})
    return module


def data_of(found: Graph) -> Constant:
    (name,) = found.main.operators[0].outputs
    data = found.main.tensors[name].data
    assert data is not None
    return data


@pytest.mark.slow
@pytest.mark.parametrize("row", PLAIN, ids=str)
@pytest.mark.parametrize("sizes", [[3, 5], [1], [], [130]])
def test_dense_constants_are_read_bit_for_bit(
    bindings: Bindings, context: Any, row: DType, sizes: list[int]
) -> None:
    count = int(np.prod(sizes, dtype=int))
    raw = elements(row, count)
    found = data_of(read(constant(bindings, context, row, sizes, raw)))
    assert found.dtype is row
    assert found.count == count
    assert bytes(found.packed()) == in_file(row, raw)


@pytest.mark.parametrize("row", PLAIN, ids=str)
def test_a_splat_stays_one_element(bindings: Bindings, context: Any, row: DType) -> None:
    raw = elements(row, 1)
    found = data_of(read(constant(bindings, context, row, [3, 5], raw)))
    assert found.splat
    assert found.elements().tobytes() == raw * 15


@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("packed", [True, False])
def test_resources_are_read_bit_for_bit(
    bindings: Bindings, context: Any, row: DType, packed: bool
) -> None:
    raw = elements(row, 15)
    blob = in_file(row, raw) if packed else raw
    text = (
        "func.func @f() {\n"
        f'%0 = "tosa.const"() <{{values = dense_resource<w> : tensor<3x5x{row.mlir}>}}> : '
        f"() -> tensor<3x5x{row.mlir}>\nreturn\n}}\n"
        f'{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{blob.hex()}" }} }} #-}}'
    )
    found = data_of(read(bindings.ir.Module.parse(text, context)))
    assert bytes(found.packed()) == in_file(row, raw)


@pytest.mark.parametrize("size", [0, 1, 59, 61, 64])
def test_a_resource_of_another_length_is_refused(
    bindings: Bindings, context: Any, size: int
) -> None:
    ir = bindings.ir
    with context, ir.Location.file("m.mlir", 3, 5):
        kind = ir.RankedTensorType.get([3, 5], ir.F32Type.get())
        values = ir.DenseResourceElementsAttr.get_from_buffer(bytes(size), "w", kind)
        module = ir.Module.parse("func.func @f() {\n return\n}")
        with ir.InsertionPoint.at_block_begin(
            next(iter(module.body.operations)).regions[0].blocks[0]
        ):
            ir.Operation.create("tosa.const", results=[kind], attributes={"values": values})
        with pytest.raises(TosaConvertError) as caught:
            read(module)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("constant-form", "m.mlir:3:5")
    if size > 1:
        assert f"it has {size} bytes of data, expected 60" in finding.message


SPECIAL = {
    "FP32": "0100807f 0000c0ff ffffffff 00000080 00000000 0100807f",
    "FP16": "017c 00fe ffff 0080 0000 007c",
    "BF16": "817f c0ff ffff 0080 0000 807f",
    "FP8E4M3": "7f ff 80 00 7e 01",
    "FP8E5M2": "7d 7f ff 80 00 7c",
    "FP8UE8M0": "ff 00 01 7f 80 fe",
    "FP6E2M3": "20 00 1f 3f 01 21",
    "FP6E3M2": "20 00 1f 3f 01 21",
    "FP4E2M1": "08 00 07 0f 01 09",
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("large", [False, True])
def test_nan_payloads_and_minus_zero_survive_both_ways(
    bindings: Bindings, context: Any, name: str, large: bool
) -> None:
    row = dtype(name)
    raw = bytes.fromhex(SPECIAL[name]) * (100 if large else 1)
    count = len(raw) // row.element_bytes
    found = read(constant(bindings, context, row, [count], raw))
    assert bytes(data_of(found).packed()) == in_file(row, raw)
    again = read(write(found, bindings, context))
    assert bytes(data_of(again).packed()) == in_file(row, raw)


def one(row: DType, sizes: tuple[int, ...], raw: bytes) -> Graph:
    count = Tensor("", row, sizes).element_count()
    assert count is not None
    made = Tensor("w", row, sizes, Constant(row, count, in_file(row, raw)))
    return graph("", "w", [made], [op("CONST", "", "w")])


@pytest.mark.slow
@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [(), (1,), (3, 5), (2, 3, 7, 11)])
@pytest.mark.parametrize("form", ["auto", "dense", "resource"])
def test_every_constant_survives_the_round_trip_through_mlir(
    bindings: Bindings, context: Any, row: DType, sizes: tuple[int, ...], form: Any
) -> None:
    made = one(row, sizes, elements(row, int(np.prod(sizes, dtype=int))))
    assert verify(made) == []
    module = write(made, bindings, context, constants=form)
    assert compare(made, read(module), names=False) is None
    # And once more through text and through bytecode, which have forms of their own.
    text = module.operation.get_asm(print_generic_op_form=True)
    assert compare(made, read(bindings.ir.Module.parse(text, context)), names=False) is None


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_a_uniform_constant_becomes_a_splat(bindings: Bindings, context: Any, row: DType) -> None:
    made = one(row, (40, 50), elements(row, 1) * 2000)
    text = str(write(made, bindings, context))
    assert "dense_resource" not in text
    assert len(text) < 1000
    assert compare(made, read(write(made, bindings, context)), names=False) is None


def test_constants_are_dense_up_to_a_size_and_resources_beyond(
    bindings: Bindings, context: Any
) -> None:
    row = dtype("INT8")
    small = one(row, (constants.DENSE_BYTES,), elements(row, constants.DENSE_BYTES))
    large = one(row, (constants.DENSE_BYTES + 1,), elements(row, constants.DENSE_BYTES + 1))
    assert "dense_resource" not in str(write(small, bindings, context))
    assert "dense_resource" in str(write(large, bindings, context))
    assert "dense_resource" not in str(write(large, bindings, context, constants="dense"))
    assert "dense_resource" in str(write(small, bindings, context, constants="resource"))


@pytest.mark.parametrize("kind", GENERATED)
def test_compile_time_constants_are_never_resources(
    bindings: Bindings, context: Any, kind: str
) -> None:
    # MLIR ends the process or hangs if it finds a resource there.
    made = generate(2, 3, kinds=[kind])
    module = write(made, bindings, context, constants="resource")
    assert module.operation.verify()
    assert compare(made, read(module), names=False) is None


@pytest.mark.parametrize("name", ["", "a b", 'q"q', "é", "line\nfeed", "w", "\0"])
def test_a_constant_may_have_any_name(bindings: Bindings, context: Any, name: str) -> None:
    row = dtype("INT8")
    made = one(row, (1000,), elements(row, 1000))
    value = made.main.tensors.pop("w")
    value.name = name
    made.main.tensors[name] = value
    made.main.operators[0].outputs = (name,)
    made.main.outputs = [name]
    module = write(made, bindings, context)
    assert compare(made, read(module)) is None
    text = str(module)
    if "\0" not in name:
        assert compare(made, read(bindings.ir.Module.parse(text, context))) is None


def test_every_nonzero_bool_becomes_true(bindings: Bindings, context: Any) -> None:
    made = one(dtype("BOOL"), (4,), b"\0\1\2\xff")
    found = data_of(read(write(made, bindings, context)))
    assert found.elements().tobytes() == b"\0\1\1\1"


def test_every_nonzero_byte_of_a_bool_in_bytecode_is_true() -> None:
    found = constants.read_dense(memoryview(b"\x0e\0\x01"), dtype("BOOL"), 3)
    assert found.elements().tobytes() == b"\1\0\1"


def test_every_nonzero_byte_of_a_bool_in_a_resource_is_true() -> None:
    text = (
        "func.func @f() -> tensor<3xi1> {\n"
        '%0 = "tosa.const"() <{values = dense_resource<k> : tensor<3xi1>}> : () -> tensor<3xi1>\n'
        "return %0 : tensor<3xi1>\n}\n"
        '{-# dialect_resources: { builtin: { k: "0x010000000E0001" } } #-}'
    )
    assert data_of(api.load(text.encode())).elements().tobytes() == b"\1\0\1"


def test_shapes_of_every_rank_survive(bindings: Bindings, context: Any) -> None:
    values = [shape("s0"), shape("s1", 7), shape("s3", 1, -1, 2**62), shape("t", 5, 5, 5)]
    made = graph("", "s0 s1 s3 t", values, [op("CONST_SHAPE", "", v.name) for v in values])
    again = read(write(made, bindings, context))
    assert compare(made, again) is None


def test_a_plain_arith_constant_is_a_constant(bindings: Bindings, context: Any) -> None:
    text = (
        "func.func @f() -> tensor<2xf32> {\n"
        "%0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>\nreturn %0 : tensor<2xf32>\n}"
    )
    found = read(bindings.ir.Module.parse(text, context))
    assert verify(found) == []
    assert found.main.operators[0].spec.name == "CONST"
    assert data_of(found).numpy().tolist() == [1.0, 2.0]


UNUSED = """
  %i = arith.constant 3 : index
  %x = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  %b = arith.constant false
  USES
  return %x : tensor<2xf32>
"""


def with_constants(uses: str) -> str:
    return f"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {{{UNUSED.replace('USES', uses)}}}"


def test_an_unused_constant_that_is_not_a_tensor_is_ignored(
    bindings: Bindings, context: Any
) -> None:
    found = read(bindings.ir.Module.parse(with_constants(""), context))
    assert verify(found) == []
    assert [op.spec.name for op in found.main.operators] == ["EXP"]
    without = "\n".join(line for line in with_constants("").splitlines() if "arith" not in line)
    plain = read(bindings.ir.Module.parse(without, context))
    assert compare(found, plain) is None


@pytest.mark.parametrize("user", ["block", "region"])
def test_a_used_constant_that_is_not_a_tensor_is_refused(
    bindings: Bindings, context: Any, user: str
) -> None:
    context.allow_unregistered_dialects = True
    use = '"x.use"(%i) : (index) -> ()'
    uses = use if user == "block" else f'"x.region"() ({{ {use} }}) : () -> ()'
    with pytest.raises(TosaConvertError) as caught:
        read(bindings.ir.Module.parse(with_constants(uses), context))
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["unsupported-type", "foreign-operator"]


def test_constants_without_elements_are_read_if_mlir_allows_them(
    bindings: Bindings, context: Any
) -> None:
    text = (
        "func.func @f() -> tensor<0x3xf32> {\n"
        "%0 = arith.constant dense<> : tensor<0x3xf32>\nreturn %0 : tensor<0x3xf32>\n}"
    )
    found = read(bindings.ir.Module.parse(text, context))
    assert verify(found) == []
    assert data_of(found).count == 0
    # The dialect's own constant may not be empty; this is reported and does not crash.
    with pytest.raises(TosaConvertError) as caught:
        write(found, bindings, context)
    assert caught.value.code == "malformed-mlir"


@pytest.mark.parametrize("name", ["FP8E4M3", "FP8E5M2", "FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"])
@pytest.mark.parametrize("splat", [False, True])
def test_block_scaled_constants_survive_with_their_scales(
    bindings: Bindings, context: Any, name: str, splat: bool
) -> None:
    row = dtype(name)
    raw = elements(row, 1) * 128 if splat else elements(row, 128)
    made = one(row, (2, 64), raw)
    scales = b"\x80" * 4 if splat else b"\x00\x01\x7f\xfe"
    scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32,
                       Constant(dtype("FP8UE8M0"), 4, scales))  # fmt: skip
    made.main.tensors["w"].scale = scale
    assert verify(made) == []
    module = write(made, bindings, context)
    assert compare(made, read(module), names=False) is None
    assert compare(made, read(bindings.ir.Module.parse(str(module), context)), names=False) is None


def test_every_scale_survives_as_text() -> None:
    assert [
        constants._e8m0_from_text(constants._e8m0_to_text(code)) for code in range(256)
    ] == list(range(256))


@pytest.mark.parametrize(
    "elements_",
    [
        '"0x1"',
        '["0x1", "0xFF"]',
        '["0x01", "0xff"]',
        '["1", "2"]',
        '["0x100", "0x1"]',
        '["", "0x1"]',
    ],
)
def test_elements_written_as_strings_are_read_or_refused(
    bindings: Bindings, context: Any, elements_: str
) -> None:
    kind = "tensor<2x!tosa.mxint8>"
    text = (
        f'func.func @f() {{\n%0 = "tosa.const"() <{{values = dense<{elements_}> : {kind}}}> : '
        f"() -> {kind}\nreturn\n}}"
    )
    try:
        module = bindings.ir.Module.parse(text, context)
    except bindings.ir.MLIRError:
        return
    good = "0x" in elements_ and "0x100" not in elements_ and '""' not in elements_
    if not good:
        with pytest.raises(TosaConvertError) as caught:
            read(module)
        assert caught.value.code == "constant-form"
        return
    expected = b"\1\1" if elements_ == '"0x1"' else b"\1\xff"
    assert data_of(read(module)).elements().tobytes() == expected


def test_without_the_c_api_the_bytes_are_read_through_bytecode(
    bindings: Bindings, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules, "_c_api", lambda _: None)
    for row in PLAIN:
        raw = elements(row, 300)
        found = data_of(read(constant(bindings, context, row, [300], raw)))
        assert bytes(found.packed()) == in_file(row, raw)
    made = one(dtype("FP32"), (300,), elements(dtype("FP32"), 300))
    assert compare(made, read(write(made, bindings, context)), names=False) is None


def test_equal_attributes_of_another_operator_are_not_a_constant(parse: Any) -> None:
    kind = "tensor<2xi32>"
    found = read(
        parse(
            f"""func.func @main(%x: {kind}) -> ({kind}, {kind}, {kind}) {{
              %0 = "tosa.const"() {{values = dense<[1, 2]> : {kind}}} : () -> {kind}
              %1 = "tosa.abs"(%x) {{values = dense<[1, 2]> : {kind}}} : ({kind}) -> {kind}
              %2 = "tosa.const"() {{values = dense<[1, 2]> : {kind}}} : () -> {kind}
              return %0, %1, %2 : {kind}, {kind}, {kind}
            }}"""
        )
    )
    data = [found.main.tensors[name].data for name in found.main.outputs]
    assert data[0] is not None
    assert data[1] is None
    assert data[2] is data[0]


@pytest.mark.slow
@pytest.mark.parametrize("retain", ["retain", "generate"])
def test_the_fast_path_of_plain_constants_is_equal(
    bindings: Bindings, context: Any, retain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For many constants of all types and sizes, with duplicates."""
    rows = [
        (row, sizes, seed)
        for row in DTYPES
        for sizes in [(), (1,), (3, 5), (9,)]
        for seed in range(3)
    ]
    operators, tensors = [], []
    for index, (row, sizes, seed) in enumerate(rows):
        count = int(np.prod(sizes))
        raw = in_file(row, elements(row, count, seed % 2))
        tensors.append(Tensor(f"c{index}", row, sizes, Constant(row, count, raw)))
        operators.append(op("CONST", "", f"c{index}"))
    whole = graph("", "", [*tensors], operators)
    module = write(whole, bindings, context, names=retain, constants="dense")
    asked: list[Any] = []
    real = decode.Bytecode.only_dense

    def noted(self: decode.Bytecode, index: int) -> Any:
        asked.append(real(self, index))
        return asked[-1]

    monkeypatch.setattr(decode.Bytecode, "only_dense", noted)
    options = ReadOptions(names=retain)
    written = WriteOptions(names=retain, constants="dense", bytecode_version=6)
    file = b"".join(encode_module(whole, written).pieces)
    readings: tuple[Callable[[], Graph], ...] = (
        lambda: read(module, options),
        lambda: read_file(memoryview(file), options=options),  # with native properties
    )
    for reading in readings:
        monkeypatch.setattr(decode.Bytecode, "only_dense", noted)
        asked.clear()
        quick = b"".join(api.encode(reading()))
        if retain == "generate":
            assert sum(answer is not None for answer in asked) > len(DTYPES)
        monkeypatch.setattr(decode.Bytecode, "only_dense", lambda self, index: None)
        assert quick == b"".join(api.encode(reading()))
