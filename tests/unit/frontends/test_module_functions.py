"""Functions of modules that are models: which is chosen, and what its values are called."""

from __future__ import annotations

from typing import Any

import pytest
from refusing import refused

from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.frontends import module_header
from tosa_convert.frontends.module_header import argument_names, choose_function
from tosa_convert.frontends.process.request import Request


def parsed(bindings: Bindings, text: str) -> Any:
    return bindings.ir.Module.parse(text, bindings.new_context())


def chosen(bindings: Bindings, text: str, func: str = "") -> str:
    request = Request(frontend="stablehlo", source="m.mlir", func=func)
    return choose_function(bindings.ir, parsed(bindings, text), request)


ONE = "func.func @one() { return }\n"
PRIVATE = "func.func private @two() { return }\n"
MAIN = "func.func @main() { return }\n"


@pytest.mark.parametrize(
    ("text", "func", "expected"),
    [
        (ONE, "", "one"),
        (ONE + PRIVATE, "", "one"),
        (ONE + MAIN, "", "main"),
        (ONE + PRIVATE, "two", "two"),
        (ONE + MAIN, "one", "one"),
    ],
)
def test_main_or_the_only_public_function_is_chosen(
    torch_mlir: Bindings, text: str, func: str, expected: str
) -> None:
    assert chosen(torch_mlir, text, func) == expected


@pytest.mark.parametrize(
    ("text", "func", "code", "message"),
    [
        (ONE + ONE.replace("one", "other"), "", "ambiguous-function", "functions one, other"),
        (PRIVATE, "", "ambiguous-function", "functions two"),
        ("", "", "ambiguous-function", "functions none"),
        (ONE, "two", "unknown-function", "functions one"),
    ],
)
def test_the_functions_are_named_if_none_is_chosen(
    torch_mlir: Bindings, text: str, func: str, code: str, message: str
) -> None:
    with refused(code, match=message):
        chosen(torch_mlir, text, func)


FUNCTION = """func.func @f(%a: tensor<?x2xf32> loc("x"), %b: tensor<2xf32> loc("m.py":1:2),
  %c: tensor<2xf32> loc("x")) -> tensor<?x2xf32> { return %a : tensor<?x2xf32> }"""


def with_sizes(bindings: Bindings, sizes: dict[str, tuple[int, ...]]) -> list[str]:
    """Return the types of the function's arguments after a change of sizes, which its type has, too."""
    ir, module = bindings.ir, parsed(bindings, FUNCTION)
    (function,) = module_header.functions(module)

    def retype(kind: Any, shape: tuple[int, ...]) -> Any:
        old = ir.RankedTensorType(kind)
        if old.rank != len(shape):
            raise ValueError(f"it has the rank {old.rank}")
        return ir.RankedTensorType.get(shape, old.element_type)

    request = Request(frontend="stablehlo", source="m.mlir", input_shapes=sizes)
    with module.context, ir.Location.unknown():
        module_header.set_argument_types(ir, function, request, retype)
    block = function.regions[0].blocks[0]
    types = [str(argument.type) for argument in block.arguments]
    assert f"({', '.join(types)}) ->" in str(function.attributes["function_type"])
    return types


def test_arguments_get_the_sizes_that_are_given(torch_mlir: Bindings) -> None:
    module = parsed(torch_mlir, FUNCTION)
    (function,) = module_header.functions(module)
    assert argument_names(function) == ["x", "arg1", "x_2"]
    sizes = {"x": (4, 2), "arg1": (3,), "x_2": (5,)}
    assert with_sizes(torch_mlir, sizes) == ["tensor<4x2xf32>", "tensor<3xf32>", "tensor<5xf32>"]


@pytest.mark.parametrize(
    ("sizes", "code", "message"),
    [
        ({"y": (1,)}, "unknown-argument", "no input of this name; it has x, arg1, x_2"),
        ({"x": (1,)}, "option-conflict", "it has the rank 2"),
    ],
)
def test_sizes_that_fit_no_argument_are_refused(
    torch_mlir: Bindings, sizes: dict[str, tuple[int, ...]], code: str, message: str
) -> None:
    with refused(code, match=message):
        with_sizes(torch_mlir, sizes)
