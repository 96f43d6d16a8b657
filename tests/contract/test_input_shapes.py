"""Dynamic shapes become static on request."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract.exporting import export, shapes

import tosa_convert as tc
from tosa_convert.cli.main import run as run_tool
from tosa_convert.cli.main import verb
from tosa_convert.formats.bindings.packages import Bindings

#: Beside the checkout; not part of the project.
MODELS = Path("../shared/models")

DYNAMIC = """
func.func @f(%x: tensor<?x4xf32> {tosa.tensor_name = "x"}, %y: tensor<1x?xf32>)
    -> (tensor<?x4xf32> {tosa.tensor_name = "z"}) {
  %0 = tosa.add %x, %y : (tensor<?x4xf32>, tensor<1x?xf32>) -> tensor<?x4xf32>
  %1 = tosa.abs %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
"""
#: A reshape whose first size is inferred.
REST = """
func.func @f(%x: tensor<?x2x3xf32> {tosa.tensor_name = "x"}) -> tensor<?x?xf32> {
  %s = tosa.const_shape {values = dense<[-1, 6]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.reshape %x, %s : (tensor<?x2x3xf32>, !tosa.shape<2>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""


def test_the_shapes_of_arguments_reach_the_results(torch_mlir: Bindings, reference: Any) -> None:
    given = {"x": (2, 4), "arg1": (1, 4)}
    graph = export(torch_mlir, DYNAMIC, input_shapes=given)
    assert set(shapes(graph).values()) == {(2, 4), (1, 4)}
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4) - 3, np.ones((1, 4), np.float32)
    (z,) = reference(graph, x, y)
    np.testing.assert_array_equal(z, np.abs(x + y))


def test_a_reshape_with_an_inferred_size_gets_its_sizes(
    torch_mlir: Bindings, reference: Any
) -> None:
    graph = export(torch_mlir, REST, input_shapes={"x": (5, 2, 3)})
    (shape,) = graph.main.shapes.values()
    assert shape.values() == (5, 6)
    x = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    np.testing.assert_array_equal(reference(graph, x)[0], x.reshape(5, 6))


TEXT = """
func.func @f(%q: tensor<?x4xf32> {t.a = "%x: ("}, // %y: no
             %arg0 : tensor<1x?xf32>, %1: tensor<?xf32>) -> tensor<?x4xf32> {
  %0 = tosa.add %q, %arg0 : (tensor<?x4xf32>, tensor<1x?xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize(
    ("name", "position"),
    [("%q", 0), ("q", 0), ("arg0", 0), ("%arg0", 1), ("arg1", 1), ("%1", 2), ("1", 2)],
)
def test_an_argument_goes_by_its_name_in_the_text(name: str, position: int) -> None:
    sizes: tuple[tuple[int, ...], ...] = ((2, 4), (1, 4), (3,))
    graph = tc.load(TEXT.encode(), input_shapes={name: sizes[position]})
    declared = graph.main.tensors[graph.main.inputs[position]].shape
    assert declared == sizes[position]


def test_an_argument_goes_by_its_name_in_generic_text() -> None:
    text = """
    "builtin.module"() ({
      "func.func"() <{function_type = (tensor<?xf32>) -> tensor<?xf32>, sym_name = "f"}> ({
      ^bb0(%q: tensor<?xf32>):
        %0 = "tosa.exp"(%q) : (tensor<?xf32>) -> tensor<?xf32>
        "func.return"(%0) : (tensor<?xf32>) -> ()
      }) : () -> ()
    }) : () -> ()
    """
    graph = tc.load(text.encode(), input_shapes={"%q": (5,)})
    assert {tensor.shape for tensor in graph.main.tensors.values()} == {(5,)}


def concatenated(first: int, second: int) -> bytes:
    """Return text with rows of `first` and of `second` elements above those of the arguments."""
    return f"""
    func.func @f(%q: tensor<3x?xf32>, %p: tensor<3x?xf32>, %a: tensor<1x{first}xf32>,
                 %b: tensor<1x{second}xf32>) -> (tensor<4x?xf32>, tensor<4x?xf32>) {{
      %0 = tosa.concat %q, %a {{axis = 0 : i32}}
        : (tensor<3x?xf32>, tensor<1x{first}xf32>) -> tensor<4x?xf32>
      %1 = tosa.concat %p, %b {{axis = 0 : i32}}
        : (tensor<3x?xf32>, tensor<1x{second}xf32>) -> tensor<4x?xf32>
      return %0, %1 : tensor<4x?xf32>, tensor<4x?xf32>
    }}
    """.encode()


def test_a_symbol_that_must_be_two_sizes_is_refused() -> None:
    given: dict[str, tuple[int | str, ...]] = {"q": (3, "B"), "p": (3, "B")}
    with pytest.raises(
        tc.TosaConvertError, match='the size "B" must be 2 here, and 7 at'
    ) as caught:
        tc.load(concatenated(2, 7), input_shapes=given)
    assert caught.value.code == "unsupported-shape"
    assert "operator #0 CONCAT" in caught.value.findings[0].where
    assert tc.load(concatenated(7, 7), input_shapes=given)
    assert tc.load(concatenated(2, 7), input_shapes={"q": (3, "B"), "p": (3, "C")})
    assert tc.load(concatenated(2, 7), input_shapes={"q": (3, "?"), "p": (3, "?")})


def test_a_symbol_that_may_be_broadcast_is_not_refused() -> None:
    text = concatenated(2, 7).replace(b"1x2x", b"3x2x").replace(b"1x7x", b"3x7x")
    text = text.replace(b"4x?", b"3x?").replace(b"tosa.concat", b"tosa.add")
    text = text.replace(b"{axis = 0 : i32}", b"")
    assert tc.load(text, input_shapes={"q": (3, "B"), "p": (3, "B")})


def test_an_unranked_argument_may_get_a_shape(torch_mlir: Bindings) -> None:
    text = (
        "func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> "
        "{ %0 = tosa.exp %x : (tensor<*xf32>) -> tensor<*xf32> return %0 : tensor<*xf32> }"
    )
    assert set(shapes(export(torch_mlir, text, input_shapes={"arg0": (2, 3)})).values()) == {(2, 3)}


def test_arguments_have_the_names_that_the_file_gets(torch_mlir: Bindings) -> None:
    for key in ("TosaInput_0", "arg1"):
        graph = export(torch_mlir, DYNAMIC, input_shapes={"x": (2, 4), key: (1, 4)})
        assert set(shapes(graph).values()) == {(2, 4), (1, 4)}


def test_all_shapes_that_do_not_fit_are_reported_together(torch_mlir: Bindings) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        export(torch_mlir, DYNAMIC, input_shapes={"absent": (1,), "x": (2, 5), "arg1": (4,)})
    assert [(f.code, f.message) for f in caught.value.findings] == [
        ("unknown-argument", 'no argument is called "absent"'),
        ("unsupported-shape", 'argument "x": the shape [2, 5] does not fit its shape [?, 4]'),
        ("unsupported-shape", 'argument "arg1": the shape [4] does not fit its shape [1, ?]'),
    ]
    assert caught.value.findings[0].hint == 'arguments: "x", "TosaInput_0"'


def test_what_stays_dynamic_is_reported_with_the_reason(
    torch_mlir: Bindings, reports: list[str]
) -> None:
    text = """
    func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>, %p: tensor<1x?x2xf32>, %i: tensor<1x3xi32>)
        -> (tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>) {
      %0 = tosa.abs %x : (tensor<?xf32>) -> tensor<?xf32>
      %1 = tosa.abs %y : (tensor<?xf32>) -> tensor<?xf32>
      %2 = tosa.custom %0 {domain_name = "d", implementation_attrs = "", operator_name = "o"}
          : (tensor<?xf32>) -> tensor<?x?xf32>
      return %0, %1, %2 : tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>
    }
    """
    graph = export(torch_mlir, text, input_shapes={"arg0": (7,)})
    assert shapes(graph)["TosaOutput_0"] == (7,)
    assert [line for line in reports if "dynamic" in line] == [
        'region "f" block "main" input "TosaInput_1" has no size in dimension 0; 2 tensors stay '
        'dynamic: "TosaInput_1", "TosaOutput_1"; of the results: "TosaOutput_1" in dimension 0',
        'region "f" block "main" input "TosaInput_2" has no size in dimension 1; 1 tensor stays '
        'dynamic: "TosaInput_2"',
        'region "f" block "main" operator #2 CUSTOM: the sizes of its result do not follow from its '
        'operands; 1 tensor stays dynamic: "TosaOutput_2"; of the results: "TosaOutput_2" in '
        "dimensions 0 and 1",
    ]


def test_nothing_is_reported_if_all_shapes_are_static(
    torch_mlir: Bindings, reports: list[str]
) -> None:
    export(torch_mlir, DYNAMIC, input_shapes={"x": (2, 4), "arg1": (1, 4)})
    assert reports == []


@pytest.mark.parametrize("text", ["x", "x=", "=2", "x=2xa-b", "x=-1x4", "x=2,4"])
def test_an_invalid_option_reports_the_expected_form(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], torch_mlir: Bindings
) -> None:
    source = tmp_path / "m.mlir"
    source.write_text(DYNAMIC, encoding="utf-8")
    target = tmp_path / "m.tosa"
    code = run_tool(verb("convert"), [str(source), "-o", str(target), "--input-shape", text])
    said = capsys.readouterr().err
    if text in ("x=", "=2"):  # no sizes: rank 0; no name: an unknown argument
        assert code in (2, 4)
        assert "error" in said.lower()
    else:
        assert code == 2
        assert "expected NAME=SIZExSIZE" in said
    assert not target.exists()


@pytest.mark.oracle
@pytest.mark.parametrize("model", ["hello_world_float", "hello_world_int8"])
def test_hello_world_runs_with_the_shape_it_is_given(
    model: str, root: Path, tmp_path: Path, torch_mlir: Bindings, oracle: Any
) -> None:
    source = (root / MODELS / f"{model}.tflite").resolve()
    if not source.exists():
        pytest.skip("there is no ../shared/models beside the checkout")
    if importlib.util.find_spec("tosa_converter_for_tflite") is None:
        pytest.skip("tosa-converter-for-tflite is not installed")
    module, target = tmp_path / "m.mlirbc", tmp_path / "m.tosa"
    converter = Path(sys.executable).with_name("tosa-converter-for-tflite")
    subprocess.run([converter, source, "--bytecode", "-o", module], check=True, capture_output=True)
    dynamic = tc.load(module)
    name = dynamic.main.inputs[0]
    assert -1 in (dynamic.main.tensors[name].shape or ())
    argument = f"{name}=1x1"
    assert run_tool(
        verb("convert"), [str(module), "-o", str(target), "--input-shape", argument]
    ) == 0  # fmt: skip
    graph = tc.load(target)
    assert all(tensor.element_count() is not None for tensor in graph.main.tensors.values())
    from tosa_convert import golden

    kind = graph.main.tensors[name].dtype.numpy
    for x in (0.0, 1.0, 3.0):
        given = np.array([[round(x / 0.02456) - 128]] if kind == np.int8 else [[x]]).astype(kind)
        (found,) = golden.run(graph, {name: given}).outputs.values()
        value = (float(found[0, 0]) - 4) * 0.0084 if kind == np.int8 else float(found[0, 0])
        assert value == pytest.approx(np.sin(x), abs=0.1)


UNSIZED = """
func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = tosa.exp %x : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


@pytest.mark.parametrize("kind", ["tosa", "json", "mlir"])
def test_a_file_of_any_format_gets_sizes_for_its_arguments(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"m.{kind}"
    tc.save(tc.load(UNSIZED.encode()), path)
    assert set(shapes(tc.load(path)).values()) == {(-1, 3)}
    assert set(shapes(tc.load(path, input_shapes={"arg0": (2, 3)})).values()) == {(2, 3)}
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(path, input_shapes={"arg7": (2, 3)})
    assert caught.value.code == "unknown-argument"


@pytest.mark.parametrize("kind", ["tosa", "mlirbc"])
def test_programs_are_run_with_the_sizes_given(kind: str, tmp_path: Path, oracle: Any) -> None:
    from tosa_convert import golden
    from tosa_convert.io.options import ReadOptions

    path = tmp_path / f"m.{kind}"
    tc.save(tc.load(UNSIZED.encode()), path)
    command = [str(path), "--random", "1", "-o", str(tmp_path / "out.npz")]
    assert run_tool(verb("run"), command) == 4
    assert run_tool(verb("run"), [*command, "--input-shape", "arg0=2x3"]) == 0
    (found,) = np.load(tmp_path / "out.npz").values()
    assert found.shape == (2, 3)
    result = golden.run(path, random=1, read=ReadOptions(input_shapes={"arg0": (2, 3)}))
    (again,) = result.outputs.values()
    assert np.array_equal(found, again)
    assert run_tool(verb("check"), [*command[:3], "--input-shape", "arg0=2x3",
                                    "--against", str(tmp_path / "out.npz")]) == 0  # fmt: skip
