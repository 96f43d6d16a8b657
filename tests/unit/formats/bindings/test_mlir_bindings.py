"""The bindings of an object, and the default bindings."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from refusing import refused

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.bindings import packages
from tosa_convert.formats.bindings.modules import read
from tosa_convert.formats.bindings.packages import (
    Bindings,
    default_bindings,
)

TEXT = """
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@pytest.mark.parametrize("pick", ["context", "body", "type", "attribute", "value", "exp"])
def test_an_object_that_holds_no_function_is_refused(parse: Any, pick: str) -> None:
    module = parse(TEXT)
    function = next(iter(module.body.operations))
    exp = function.regions[0].blocks[0].operations[0]
    thing = {
        "context": module.context,
        "body": module.body,
        "type": exp.result.type,
        "attribute": function.attributes["sym_name"],
        "value": exp.result,
        "exp": exp,
    }[pick]
    with refused("not-an-mlir-object") as caught:
        read(thing)
    assert caught.value.exit_code == 2
    if pick == "exp":
        assert "'tosa.exp', expected a builtin.module or a func.func" in str(caught.value)


@pytest.mark.parametrize("name", ["", "torch_mlir", "no.such.bindings"])
def test_without_bindings_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(packages, "installed", lambda: iter(()))
    with pytest.raises(TosaConvertError) as caught:
        default_bindings(name)
    (finding,) = caught.value.findings
    assert finding.code == "missing-bindings"
    assert name in finding.message
    assert "pip install" in finding.hint


def test_the_search_for_bindings_and_for_a_current_context_imports_none() -> None:
    script = (
        "import sys\n"
        "from tosa_convert.formats.bindings.packages import current_context, installed\n"
        "list(installed())\n"
        "assert current_context() is None\n"
        "print([name for name in sys.modules if name.startswith(('torch_mlir', 'iree', 'mlir'))])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


def test_current_contexts_of_two_packages_are_refused() -> None:
    available = list(packages.installed())
    if len(available) < 2:
        pytest.skip("needs two packages of MLIR bindings")
    first, second = (default_bindings(package) for package in available[:2])
    with first.new_context(), second.new_context():
        with refused("option-conflict", match="each have a current context") as caught:
            packages.current_context()
        assert "context=" in caught.value.findings[0].hint


def test_the_library_with_the_c_api_is_found(bindings: Bindings) -> None:
    assert bindings.libraries
    assert all(path.is_file() for path in bindings.libraries)
