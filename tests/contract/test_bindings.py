"""The same code works with all MLIR bindings: torch_mlir's, IREE's, and upstream's layout."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contract import standin
from refusing import error_of, refused

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import (
    Bindings,
    default_bindings,
    installed,
)

MODULE = """
module {
  func.func @f(%x: tensor<2x3xf32> {tosa.tensor_name = "x"})
      -> (tensor<6xf32> {tosa.tensor_name = "y"}) {
    %0 = "tosa.const"() <{values = dense<[[1.0, -0.0, 3.0]]> : tensor<1x3xf32>}> : () -> tensor<1x3xf32>
    %1 = "tosa.add"(%x, %0) : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
    %2 = "tosa.clamp"(%1) <{min_val = 0.0 : f32, max_val = 6.0 : f32}>
        : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "tosa.const_shape"() <{values = dense<6> : tensor<1xindex>}> : () -> !tosa.shape<1>
    %4 = "tosa.reshape"(%2, %3) : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<6xf32>
    return %4 : tensor<6xf32>
  }
}
"""


@pytest.fixture(scope="session")
def iree() -> Bindings:
    """IREE's bindings."""
    if "iree.compiler" not in installed():
        pytest.skip("the MLIR bindings iree.compiler are not installed")
    return default_bindings("iree.compiler")


def generic(module: Any) -> str:
    """Return a module in the form that all versions share, locations included."""
    return str(module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True))


def bytecode(module: Any) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


# -- each of them -------------------------------------------------------------------------------


# -- IREE ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.oracle
def test_iree_compiles_what_we_import_into_its_context(iree: Bindings, example: Path) -> None:
    tools = importlib.import_module("iree.compiler.tools")
    data = tc.export_tosa_func_to_flatbuffer(
        iree.ir.Module.parseFile(str(example), iree.new_context())
    )
    module = tc.import_tosa_func_from_flatbuffer(data, context=iree.new_context())
    compiled = tools.compile_str(bytecode(module), input_type="tosa", target_backends=["vmvx"])
    # The output contains the weights, so it is not an empty module.
    assert len(compiled) > sum(c.nbytes for _, c in tc.load(data).constants() if c.nbytes > 256)
    assert b"digits_cnn" in compiled


# -- upstream's layout --------------------------------------------------------------------------

_PROGRAM = """
import json, sys
import mlir.ir as ir
import tosa_convert as tc
from tosa_convert.formats.bindings.packages import bindings_of, installed
from tosa_convert.formats.bindings.passes import add_tosa_serialize

source, target = sys.argv[1:]
context = ir.Context()
module = ir.Module.parseFile(source, context)
function = next(iter(module.body.operations))
data = tc.export_tosa_func_to_flatbuffer(module)
again = tc.import_tosa_func_from_flatbuffer(data, context=context)
default = tc.import_tosa_func_from_flatbuffer(data)
import mlir.passmanager
with context:
    manager = mlir.passmanager.PassManager()
    manager.add("canonicalize")
    add_tosa_serialize(manager, target)
    manager.run(again.operation)
try:
    with context:
        bad = ir.Module.parse('func.func @f(%x: f32) { %0 = arith.addf %x, %x : f32 return }')
        tc.export_tosa_func_to_flatbuffer(bad)
    refusal = ""
except tc.TosaConvertError as error:
    refusal = error.code
print(json.dumps({
    "class": type(module).__module__ + "." + type(module).__name__,
    "operation": type(module.operation).__module__,
    "function": type(function).__module__ + "." + type(function).__name__,
    "bindings": [str(bindings_of(x)) for x in (context, module, module.operation, function)],
    "installed": list(installed()),
    "equal": tc.export_tosa_func_to_flatbuffer(again) == data,
    "function_equal": tc.export_tosa_func_to_flatbuffer(function) == data,
    "default": type(default).__module__,
    "refusal": refusal,
    "data": data.hex(),
}))
"""


@pytest.fixture(scope="session")
def upstream(torch_mlir: Bindings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the stand-in package."""
    wheel = Path(str(torch_mlir.ir.__file__)).parent
    return standin.make(tmp_path_factory.mktemp("standin"), wheel)


@pytest.mark.slow
def test_upstreams_layout_works_without_torch_mlir(
    upstream: Path, torch_mlir: Bindings, example: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(example), str(tmp_path / "m.tosa")],
        env={**os.environ, "PYTHONPATH": str(upstream)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["class"] == "mlir._mlir_libs._mlir.ir.Module"
    assert told["operation"] == "mlir._mlir_libs._mlir.ir"
    assert told["function"] == "mlir.dialects.func.FuncOp"
    assert set(told["bindings"]) == {"mlir"}
    assert "mlir" in told["installed"]
    assert standin.WHEEL not in told["installed"]
    assert told["default"] == "mlir._mlir_libs._mlir.ir"
    assert told["equal"]
    assert told["function_equal"]
    assert told["refusal"] == "unsupported-type"
    theirs = torch_mlir.ir.Module.parseFile(str(example), torch_mlir.new_context())
    assert bytes.fromhex(told["data"]) == tc.export_tosa_func_to_flatbuffer(theirs)
    assert (tmp_path / "m.tosa").stat().st_size


# -- skew ---------------------------------------------------------------------------------------


def body(text: str, result: str, argument: str = "tensor<2x3xf32>") -> str:
    return (
        f"func.func @f(%a: {argument}) -> {result} {{\n  %1 = {text}\n  return %1 : {result}\n}}\n"
    )


CAST = body('"tosa.cast"(%a) : (tensor<2x3xf32>) -> tensor<2x3xi32>', "tensor<2x3xi32>")
UNSIGNED = body(
    '"tosa.cast"(%a) <{input_unsigned = true}> : (tensor<2xi8>) -> tensor<2xf32>',
    "tensor<2xf32>",
    "tensor<2xi8>",
)
SCALED = body(
    '"tosa.apply_scale"(%a, %a, %s) <{rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>}> : '
    "(tensor<2xi32>, tensor<2xi32>, tensor<2xi8>) -> tensor<2xi32>",
    "tensor<2xi32>",
    "tensor<2xi32>, %s: tensor<2xi8>",
)


def refusal(data: bytes) -> tc.Finding:
    return error_of(tc.load, data).findings[0]


@pytest.mark.parametrize("writer", ["torch_mlir", "iree.compiler"])
def test_text_of_all_bindings_in_both_forms_is_read(
    writer: str, torch_mlir: Bindings, iree: Bindings
) -> None:
    source = default_bindings(writer)
    module = source.ir.Module.parse(MODULE, source.new_context())
    expected = tc.load(bytecode(module))
    assert tc.compare(expected, tc.load(str(module).encode())) is None
    assert tc.compare(expected, tc.load(generic(module).encode())) is None


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (SCALED, "unsupported-operator", "'tosa.apply_scale'"),
        (UNSIGNED, "unsupported-attribute", "input_unsigned = true"),
    ],
    ids=["operator", "attribute"],
)
def test_what_a_file_cannot_hold_is_refused_in_every_form(
    iree: Bindings, text: str, code: str, message: str
) -> None:
    module = iree.ir.Module.parse(text, iree.new_context())
    for data in (str(module).encode(), generic(module).encode(), bytecode(module)):
        finding = refusal(data)
        assert finding.code == code
        assert message in finding.message
    if text is UNSIGNED:
        # The other bindings behave as if it were false.
        meaningless = tc.load(UNSIGNED.replace("true", "false").encode())
        assert meaningless.main.operators[0].attributes == {}


def test_an_operator_that_the_context_lacks_is_refused_before_anything_is_written(
    torch_mlir: Bindings, tmp_path: Path
) -> None:
    ir = torch_mlir.ir
    with torch_mlir.new_context(), ir.Location.name("here"):
        module = ir.Module.parse(CAST)
        block = next(iter(module.body.operations)).regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            ir.Operation.create("tosa.nosuch", results=[block.arguments[0].type])
    with refused("malformed-mlir") as caught:
        tc.export_tosa_func_to_flatbuffer(module, tmp_path / "m.tosa")
    assert f"{torch_mlir} does not define tosa.nosuch" in caught.value.findings[0].hint
    assert list(tmp_path.iterdir()) == []
