"""Constants of every type and form: their bits in the graph, and the same bits in MLIR again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusing import refused
from unit.building import graph, op

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
from tosa_convert.graph.constant import in_order, pack
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


@pytest.mark.parametrize("kind", GENERATED)
def test_compile_time_constants_are_never_resources(
    bindings: Bindings, context: Any, kind: str
) -> None:
    # MLIR ends the process or hangs if it finds a resource there.
    made = generate(2, 3, kinds=[kind])
    module = write(made, bindings, context, constants="resource")
    assert module.operation.verify()
    assert compare(made, read(module), names=False) is None


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


UNUSED = """
  %i = arith.constant 3 : index
  %x = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  %b = arith.constant false
  USES
  return %x : tensor<2xf32>
"""


def with_constants(uses: str) -> str:
    return f"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {{{UNUSED.replace('USES', uses)}}}"


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
    with refused("malformed-mlir"):
        write(found, bindings, context)


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
    file = b"".join(in_order(encode_module(whole, written).pieces))
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
