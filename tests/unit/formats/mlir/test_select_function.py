"""Which function of a module is exported."""

from __future__ import annotations

from typing import Any

import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.bindings.modules import bytecode_of, enclosing_module, read
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.read.select_function import select

PRIVATE = (
    "func.func private @{0}(%a: tensor<2xf32>) -> tensor<2xf32> {{ return %a : tensor<2xf32> }}\n"
)
PUBLIC = PRIVATE.replace("private ", "")
CALL = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @helper(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def selected(bindings: Bindings, module: Any, func: str | None = None) -> list[str]:
    functions, _, _, findings = select(bytecode_of(bindings, module.operation), func)
    assert bool(findings) == (len(functions) > 1)
    return [function.name for function in functions]


def test_the_only_public_function_is_the_entry(bindings: Bindings, parse: Any) -> None:
    module = parse(PRIVATE.format("one") + PUBLIC.format("main") + PRIVATE.format("two"))
    assert selected(bindings, module) == ["main"]
    assert selected(bindings, module, "two") == ["two"]
    assert selected(bindings, module, "@one") == ["one"]


def test_a_declared_public_function_is_not_an_entry(bindings: Bindings, parse: Any) -> None:
    module = parse("func.func private @declared()\n" + PRIVATE.format("only"))
    assert selected(bindings, module) == ["only"]


def test_several_public_or_only_private_functions_are_ambiguous(
    bindings: Bindings, parse: Any
) -> None:
    public = parse(PUBLIC.format("a") + PRIVATE.format("b") + PUBLIC.format("c"))
    assert selected(bindings, public) == ["a", "c"]
    private = parse(PRIVATE.format("a") + PRIVATE.format("b"))
    assert selected(bindings, private) == ["a", "b"]
    with pytest.raises(TosaConvertError, match="one of 2 that could be exported: @a, @c") as caught:
        read(public)
    assert [finding.code for finding in caught.value.findings] == ["ambiguous-function"] * 2


def test_a_call_is_inlined_as_mlirs_pass_does(bindings: Bindings, parse: Any) -> None:
    module = parse(CALL + PRIVATE.format("helper"))
    ours = read(module)
    with module.context:
        bindings.pass_manager.parse("builtin.module(inline)").run(module.operation)
    assert str(read(module)) == str(ours)
    assert ours.main.operators == []


def test_the_enclosing_module_of_a_function_is_found(parse: Any) -> None:
    module = parse(PUBLIC.format("f"))
    function = next(iter(module.body.operations)).operation
    assert enclosing_module(function) == module.operation
    assert enclosing_module(module.operation) == module.operation
    with function.location:
        assert enclosing_module(function.clone(False).operation) is None


def test_a_function_that_is_not_in_a_module_is_read(parse: Any) -> None:
    module = parse(PUBLIC.format("f"))
    function = next(iter(module.body.operations)).operation
    with function.location:
        assert read(function.clone(False)).main.inputs == ["TosaInput_0"]
