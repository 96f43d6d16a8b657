"""The public functions: their arguments, their results, and what they refuse."""

from __future__ import annotations

import gc
import io
from pathlib import Path, PurePath
from typing import Any

import pytest
from unit.building import PRODUCER, branching, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import Graph
from tosa_convert.io.formats import sniff

TEXT = """func.func @f(%a: tensor<2xf32> {tosa.tensor_name = "x"}) -> tensor<2xf32> {
  %0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @declared(tensor<2xf32>)
"""
F64 = "func.func @f(%a: tensor<2xf64>) { return }"


def encode(made: Graph) -> bytes:
    return b"".join(plan(made, PRODUCER).pieces())


def test_every_public_name_of_the_package_exists() -> None:
    for name in tc.__all__:
        assert getattr(tc, name) is not None
    assert {
        "load",
        "save",
        "export_tosa_func_to_flatbuffer",
        "import_tosa_func_from_flatbuffer",
    } < set(tc.__all__)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda d: memoryview(d).cast("I")])
def test_bytes_of_any_kind_are_loaded(kind: Any) -> None:
    data = encode(branching())
    data += bytes(-len(data) % 4)
    assert tc.compare(tc.load(kind(data)), branching()) is None


@pytest.mark.parametrize("kind", [str, Path, PurePath])
def test_paths_of_any_kind_are_loaded_and_saved(tmp_path: Path, kind: Any) -> None:
    path = kind(tmp_path / "m.tosa")
    tc.save(branching(), path)
    assert tc.compare(tc.load(path), branching()) is None


@pytest.mark.parametrize("source", [None, 7, io.StringIO(""), ["m.tosa"], {}])
def test_a_source_that_is_neither_a_path_nor_bytes_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError):
        tc.load(source)


def test_exporting_returns_bytes_or_writes_a_file(parse: Any, tmp_path: Path) -> None:
    module = parse(TEXT)
    data = tc.export_tosa_func_to_flatbuffer(module)
    assert isinstance(data, bytes)
    assert tc.export_tosa_func_to_flatbuffer(module, tmp_path / "m.tosa") is None
    assert (tmp_path / "m.tosa").read_bytes() == data
    assert tc.export_tosa_func_to_flatbuffer(module, str(tmp_path / "m.json")) is None
    assert sniff(memoryview((tmp_path / "m.json").read_bytes()), "") == "json"
    assert (
        tc.export_tosa_func_to_flatbuffer(module, to="json") == (tmp_path / "m.json").read_bytes()
    )


def test_module_operation_and_function_are_the_same_to_export(parse: Any) -> None:
    module = parse(TEXT)
    function = next(iter(module.body.operations))
    expected = tc.export_tosa_func_to_flatbuffer(module)
    for thing in (module.operation, function, function.operation):
        assert tc.export_tosa_func_to_flatbuffer(thing) == expected
    assert tc.export_tosa_func_to_flatbuffer(module, func="f") == expected
    assert tc.export_tosa_func_to_flatbuffer(function, func="f") == expected


@pytest.mark.parametrize("func", ["g", "declared", "", "F", "f "])
def test_a_function_that_does_not_exist_is_refused(parse: Any, func: str) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.export_tosa_func_to_flatbuffer(parse(TEXT), func=func)
    assert caught.value.code == "unknown-function"
    assert "found @f" in str(caught.value)


def test_a_failed_export_leaves_the_old_file_and_nothing_else(parse: Any, tmp_path: Path) -> None:
    target = tmp_path / "m.tosa"
    target.write_bytes(b"old")
    with pytest.raises(tc.TosaConvertError):
        tc.export_tosa_func_to_flatbuffer(parse(F64), target)
    with pytest.raises(tc.TosaConvertError):
        tc.export_tosa_func_to_flatbuffer(parse(F64), tmp_path / "new.tosa")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.tosa"]


def test_an_unsound_graph_is_refused_in_every_format(tmp_path: Path, torch_mlir: Any) -> None:
    made = example()
    made.main.outputs.append("nowhere")
    for kind in ("tosa", "json", "mlir", "mlirbc"):
        with pytest.raises(tc.TosaConvertError) as caught:
            tc.save(made, tmp_path / f"m.{kind}")
        assert caught.value.code == "undefined-name"
    assert list(tmp_path.iterdir()) == []


#: The package without types, to call it with wrong arguments.
ANY: Any = tc


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, p: ANY.export_tosa_func_to_flatbuffer(m, weights="beside"), "found 'beside'"),
        (lambda m, p: ANY.export_tosa_func_to_flatbuffer(m, tosa_version="2.0"), "found '2.0'"),
        (lambda m, p: ANY.export_tosa_func_to_flatbuffer(m, names="mine"), "found 'mine'"),
        (lambda m, p: ANY.export_tosa_func_to_flatbuffer(m, narrow=["i8"]), "found 'i8'"),
        (lambda m, p: ANY.export_tosa_func_to_flatbuffer(m, weights="npy"), "there is no file"),
        (lambda m, p: ANY.import_tosa_func_from_flatbuffer(p, names="mine"), "found 'mine'"),
        (lambda m, p: ANY.import_tosa_func_from_flatbuffer(p, constants="lazy"), "found 'lazy'"),
        (lambda m, p: ANY.save(example(), p, weights="beside"), "found 'beside'"),
        (lambda m, p: ANY.save(example(), p.with_suffix(".mlir"), weights="npy"), "constants inside"),
        (lambda m, p: ANY.save(example(), p.with_suffix(".json"), weights="offset"), "can be appended"),
        (lambda m, p: ANY.load(p.with_suffix(".mlir"), names="mine"), "found 'mine'"),
    ],
)  # fmt: skip
def test_a_value_that_an_option_does_not_have_is_refused(
    parse: Any, tmp_path: Path, call: Any, message: str
) -> None:
    path = tmp_path / "m.tosa"
    path.write_bytes(encode(example()))
    path.with_suffix(".mlir").write_text(TEXT)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(tc.TosaConvertError) as caught:
        call(parse(TEXT), path)
    assert caught.value.code == "option-conflict"
    assert message in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "what", ["context", "module", "location", "type", "body", "insertion point"]
)
def test_importing_builds_in_the_bindings_of_whatever_is_given(
    bindings: Bindings, what: str
) -> None:
    ir = bindings.ir
    context = bindings.new_context()
    module = ir.Module.parse(TEXT, context)
    given = {
        "context": context,
        "module": module,
        "location": module.operation.location,
        "type": ir.F32Type.get(context),
        "body": module.body,
        "insertion point": ir.InsertionPoint(module.body),
    }[what]
    made = tc.import_tosa_func_from_flatbuffer(encode(example()), context=given)
    assert isinstance(made, ir.Module)
    assert made.context == context
    assert made.operation.verify()


def test_importing_without_a_context_makes_one_of_the_first_bindings(torch_mlir: Bindings) -> None:
    made = tc.import_tosa_func_from_flatbuffer(encode(example()))
    assert isinstance(made, torch_mlir.ir.Module)


def test_importing_into_something_else_is_refused() -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.import_tosa_func_from_flatbuffer(encode(example()), context="torch_mlir")
    assert caught.value.code == "not-an-mlir-object"


def test_no_insertion_point_or_context_is_left_active(bindings: Bindings) -> None:
    ir = bindings.ir
    context = bindings.new_context()
    tc.import_tosa_func_from_flatbuffer(encode(example()), context=context)
    made = branching()
    made.regions[1].blocks[0].inputs = []
    with pytest.raises(tc.TosaConvertError):
        tc.import_tosa_func_from_flatbuffer(encode(made), context=context)
    assert ir.Context.current is None


def test_the_callers_own_context_and_insertion_point_stay_in_force(bindings: Bindings) -> None:
    ir = bindings.ir
    with bindings.new_context() as mine, ir.Location.name("mine"):
        module = ir.Module.create()
        other = bindings.new_context()
        with ir.InsertionPoint(module.body):
            tc.import_tosa_func_from_flatbuffer(encode(example()), context=other)
            assert ir.Context.current == mine
            assert ir.Location.current == ir.Location.name("mine")
            tc.import_tosa_func_from_flatbuffer(encode(example()), context=mine)
        assert len(list(module.body.operations)) == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(tmp_path: Path, enabled: bool) -> None:
    try:
        (gc.enable if enabled else gc.disable)()
        tc.load(encode(example()))
        tc.save(example(), tmp_path / "m.tosa")
        with pytest.raises(tc.TosaConvertError):
            tc.load(b"\x10\0\0\0TOSA")
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_a_version_is_stamped_as_asked_for_and_kept_otherwise() -> None:
    made = graph("x", "x", [tensor("x")], [])
    assert str(api.stamp(made).version) == "1.0.0"
    assert str(api.stamp(made, "1.1").version) == "1.1.0 draft"
    assert made.version.minor == 0
    made.main.tensors["x"].dtype = (
        tc.load(encode(graph("x", "x", [tensor("x", "INT64")], []))).main.tensors["x"].dtype
    )
    with pytest.raises(tc.TosaConvertError) as caught:
        api.stamp(made, "1.0")
    assert caught.value.code == "version-too-low"


def test_saving_does_not_change_the_graph(tmp_path: Path, torch_mlir: Any) -> None:
    made = example()
    for kind in ("tosa", "json", "mlir", "mlirbc"):
        tc.save(made, tmp_path / f"m.{kind}")
    assert tc.compare(made, example(), locations=True, version=True) is None
    assert made.producer == PRODUCER


@pytest.mark.parametrize(
    "chain", [("tosa", "json", "mlir", "mlirbc"), ("mlirbc", "tosa", "mlir", "json")]
)
def test_every_format_converts_to_every_other(tmp_path: Path, torch_mlir: Any, chain: Any) -> None:
    made = tc.load(encode(branching()))
    for step, kind in enumerate(chain):
        tc.save(made, tmp_path / f"{step}.{kind}")
        made = tc.load(tmp_path / f"{step}.{kind}")
        assert tc.compare(made, branching()) is None


def test_a_custom_operator_that_mlir_cannot_represent_is_refused_with_its_location(
    torch_mlir: Any,
) -> None:
    made = graph(
        "x", "y", [tensor("x"), tensor("y", "INT8")], [op("EXP", "x", "y", 'loc("f.py":3:4)')]
    )
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.import_tosa_func_from_flatbuffer(encode(made), validate=False)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("malformed-mlir", "f.py:3:4")
