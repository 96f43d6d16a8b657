"""Which function of a module is exported."""

from __future__ import annotations

import importlib
from typing import Any

from tosa_convert.formats.bindings.modules import enclosing_module, read
from tosa_convert.formats.bindings.packages import Bindings

PRIVATE = (
    "func.func private @{0}(%a: tensor<2xf32>) -> tensor<2xf32> {{ return %a : tensor<2xf32> }}\n"
)
PUBLIC = PRIVATE.replace("private ", "")
CALL = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @helper(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def test_a_call_is_inlined_as_mlirs_pass_does(bindings: Bindings, parse: Any) -> None:
    module = parse(CALL + PRIVATE.format("helper"))
    ours = read(module)
    with module.context:
        passes = importlib.import_module(f"{bindings.package}.passmanager")
        passes.PassManager.parse("builtin.module(inline)").run(module.operation)
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
