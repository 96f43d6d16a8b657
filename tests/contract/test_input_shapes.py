"""Dynamic shapes become static on request."""

from __future__ import annotations

import pytest
from contract.exporting import export, shapes
from refusing import refused

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings

DYNAMIC = """
func.func @f(%x: tensor<?x4xf32> {tosa.tensor_name = "x"}, %y: tensor<1x?xf32>)
    -> (tensor<?x4xf32> {tosa.tensor_name = "z"}) {
  %0 = tosa.add %x, %y : (tensor<?x4xf32>, tensor<1x?xf32>) -> tensor<?x4xf32>
  %1 = tosa.abs %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
"""


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
    with refused("unsupported-shape", match='the size "B" must be 2 here, and 7 at') as caught:
        tc.load(concatenated(2, 7), input_shapes=given)
    assert "operator #0 CONCAT" in caught.value.findings[0].where
    assert tc.load(concatenated(7, 7), input_shapes=given)
    assert tc.load(concatenated(2, 7), input_shapes={"q": (3, "B"), "p": (3, "C")})
    assert tc.load(concatenated(2, 7), input_shapes={"q": (3, "?"), "p": (3, "?")})


def test_an_unranked_argument_may_get_a_shape(torch_mlir: Bindings) -> None:
    text = (
        "func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> "
        "{ %0 = tosa.exp %x : (tensor<*xf32>) -> tensor<*xf32> return %0 : tensor<*xf32> }"
    )
    assert set(shapes(export(torch_mlir, text, input_shapes={"arg0": (2, 3)})).values()) == {(2, 3)}


def test_all_shapes_that_do_not_fit_are_reported_together(torch_mlir: Bindings) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        export(torch_mlir, DYNAMIC, input_shapes={"absent": (1,), "x": (2, 5), "arg1": (4,)})
    assert [(f.code, f.message) for f in caught.value.findings] == [
        ("unknown-argument", 'no argument is called "absent"'),
        ("unsupported-shape", 'argument "x": the shape [2, 5] does not fit its shape [?, 4]'),
        ("unsupported-shape", 'argument "arg1": the shape [4] does not fit its shape [1, ?]'),
    ]
    assert caught.value.findings[0].hint == 'arguments: "x", "TosaInput_0"'
