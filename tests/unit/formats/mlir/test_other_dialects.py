"""Functions and globals of ml_program and util, and parameters of IREE."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph
from tosa_convert.graph.compare import compare
from tosa_convert.io.options import FUNCTION_OPERATIONS

ML_PROGRAM = """
ml_program.global private @w({value}) : tensor<4xf32>
ml_program.{function} @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %w = ml_program.{load} @w : tensor<4xf32>
  %0 = tosa.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  ml_program.{end} %0 : tensor<4xf32>
}}
"""
IREE = """
util.global private @w = {value} : tensor<4xf32>
util.global private mutable @state = dense<0.0> : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %w = util.global.load @w : tensor<4xf32>
  %s = util.global.load @state : tensor<4xf32>
  %0 = tosa.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  util.global.store %0, @state : tensor<4xf32>
  %1 = tosa.add %0, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}}
"""
PARAMETER = '#stream.parameter.named<"model"::"k.w">'


def kinds(graph: Graph) -> list[str]:
    return [operator.spec.name for operator in graph.main.operators]


def weighty() -> Graph:
    """Return a program with a constant that becomes a parameter, and one that is too small."""
    b = Builder("main")
    x = b.input("x", np.float32, (1, 512))
    large = b.const(np.arange(512, dtype=np.float32).reshape(1, 512), name="large")
    b.output(
        b.mul(b.add(x, large), b.const(np.full((1, 1), 2, np.float32), name="small")), name="y"
    )
    return b.graph()


@pytest.mark.parametrize(("function", "end"), [("func", "return"), ("subgraph", "output")])
@pytest.mark.parametrize(
    "value", ["dense<1.0> : tensor<4xf32>", "#ml_program.extern : tensor<4xf32>"]
)
@pytest.mark.parametrize("load", ["global_load", "global_load_const"])
@pytest.mark.parametrize("version", ["text", 1, 6])
def test_functions_of_ml_program_are_read(
    function: str, end: str, value: str, load: str, version: Any
) -> None:
    ir: Any = pytest.importorskip("torch_mlir.ir")
    source = ML_PROGRAM.format(function=function, end=end, value=value, load=load).encode()
    with ir.Context():
        module = ir.Module.parse(source.decode())
        if version != "text":
            sink = io.BytesIO()
            module.operation.write_bytecode(sink, version)
            source = sink.getvalue()
    graph = tc.load(source)
    assert kinds(graph) == ["VARIABLE_READ", "ADD"]
    (variable,) = [tensor for tensor in graph.main.tensors.values() if tensor.variable]
    assert variable.variable_name == "w"
    assert (variable.data is None) is value.startswith("#")


def stateful() -> Graph:
    """Make a program of two outputs and variables whose names need quotes or are those of values."""
    b = Builder("main")
    x = b.input("x", np.float32, (4,))
    total = b.variable("total", np.float32, (4,), np.zeros(4, np.float32))
    for name in ("arg0", "7 x", " é", "a:b"):
        b.write(total, b.add(x, b.read(b.variable(name, np.float32, (4,), np.ones(4, np.float32)))))
    b.write(total, b.add(x, b.read(total), name="sum"))
    b.output(x, b.read(total))
    return b.graph()


@pytest.mark.parametrize("operation", FUNCTION_OPERATIONS)
@pytest.mark.parametrize("package", ["torch_mlir", "iree.compiler"])
def test_functions_of_ml_program_are_written_as_other_parsers_print_them(
    operation: Any, package: str
) -> None:
    ir: Any = pytest.importorskip(f"{package}.ir")
    graph = weighty() if operation == "ml_program.subgraph" else stateful()
    text = tc.dumps(graph, "mlir", function_op=operation, locations=False)
    assert f"{operation} @main(".encode() in text
    assert (b"ml_program.global_store @total =" in text) is (operation == "ml_program.func")
    generic = tc.dumps(graph, "mlir", function_op=operation, generic=True)
    files = [
        tc.dumps(graph, "mlirbc", function_op=operation, bytecode_version=version)
        # In version 6 IREE's variables have other properties.
        for version in ((1, 4, 6) if package == "torch_mlir" else (1, 4))
    ]
    for source in (text, generic, *files):
        with ir.Context():
            module = ir.Module.parse(source)
            assert module.operation.verify()
            if package == "torch_mlir":  # IREE is built from another state of MLIR's printer.
                assert str(module).strip() == text.decode().strip()
        assert compare(graph, tc.load(source), names=True) is None


def test_a_subgraph_has_no_variables_and_an_older_dialect_no_ml_program() -> None:
    with refused("option-conflict", match="has no order of operations") as caught:
        tc.dumps(stateful(), "mlir", function_op="ml_program.subgraph")
    assert "ml_program.func" in caught.value.findings[0].hint
    with pytest.raises(TosaConvertError, match=r"expected func\.func for an older MLIR"):
        tc.dumps(stateful(), "mlir", function_op="ml_program.func", dialect="2023-02")


def test_globals_of_iree_are_constants_and_variables() -> None:
    graph = tc.load(IREE.format(value="dense<1.0>").encode())
    tensors = graph.main.tensors
    assert [row.variable_name for row in tensors.values() if row.variable] == ["state"]
    assert tensors["w"].data is not None
    assert tensors["w"].data.numpy().tolist() == [1] * 4
    assert "CONST" in kinds(graph)


def test_a_parameter_gets_its_data_from_the_archive_beside_the_module(tmp_path: Path) -> None:
    runtime: Any = pytest.importorskip("iree.runtime")
    index = runtime.ParameterIndex()
    index.add_buffer("k.w", np.arange(4, dtype="<f4").tobytes())
    index.create_archive_file(str(tmp_path / "m.irpa"))
    (tmp_path / "m.mlir").write_text(IREE.format(value=PARAMETER))
    data = tc.load(tmp_path / "m.mlir").main.tensors["k.w"].data
    assert data is not None
    assert data.numpy().tolist() == [0, 1, 2, 3]


def test_a_module_with_parameters_reads_back(tmp_path: Path) -> None:
    tc.save(weighty(), tmp_path / "m.mlir", weights="irpa")
    text = (tmp_path / "m.mlir").read_text()
    assert '#stream.parameter.named<"model"::"large"> : tensor<1x512xf32>' in text
    assert text.count("util.global.load") == 1
    assert compare(weighty(), tc.load(tmp_path / "m.mlir"), names=True) is None
    (tmp_path / "m.irpa").unlink()
    with pytest.raises(TosaConvertError, match='"large" has no data'):
        tc.dumps(tc.load(tmp_path / "m.mlir"), "tosa")


@pytest.mark.parametrize("version", [1, 4, 6])
def test_bytecode_with_parameters_reads_back(tmp_path: Path, version: int) -> None:
    path = tmp_path / "m.mlirbc"
    tc.save(weighty(), path, weights="irpa", bytecode_version=version)
    assert path.stat().st_size < sum(data.nbytes for _, data in weighty().constants())
    assert compare(weighty(), tc.load(path), names=True) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m.mlir", "m.mlirbc"])
def test_iree_runs_a_module_with_the_archive_that_we_wrote(tmp_path: Path, name: str) -> None:
    compiler: Any = pytest.importorskip("iree.compiler")
    runtime: Any = pytest.importorskip("iree.runtime")
    tc.save(weighty(), tmp_path / name, weights="irpa")
    compiled = compiler.compile_file(
        str(tmp_path / name), input_type="tosa", target_backends=["llvm-cpu"]
    )
    index = runtime.ParameterIndex()
    index.load(str(tmp_path / "m.irpa"))
    config = runtime.Config("local-sync")
    instance = config.vm_instance
    parameters = runtime.create_io_parameters_module(instance, index.create_provider("model"))
    module = runtime.VmModule.copy_buffer(instance, compiled)
    context = runtime.SystemContext(vm_modules=[parameters, module], config=config)
    x = np.ones((1, 512), np.float32)
    found = context.modules[module.name].main(x).to_host()
    np.testing.assert_array_equal(found, (x + np.arange(512, dtype=np.float32)) * 2)
