"""The bindings of an object, and the default bindings."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.bindings import packages
from tosa_convert.formats.bindings.modules import read
from tosa_convert.formats.bindings.packages import (
    DEFAULT_ORDER,
    Bindings,
    bindings_of,
    default_bindings,
    diagnostics,
)
from tosa_convert.formats.mlir.locations import plain_location

TEXT = """
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def test_the_bindings_of_every_object_are_found(bindings: Bindings, parse: Any) -> None:
    module = parse(TEXT)
    function = next(iter(module.body.operations))
    operation = function.regions[0].blocks[0].operations[0]
    for thing in (
        module,
        module.operation,
        module.context,
        module.body,
        function,
        function.operation,
        operation.result,
        operation.result.type,
        operation.location,
        function.attributes["sym_name"],
        bindings.ir.InsertionPoint(module.body),
    ):
        assert bindings_of(thing) is bindings


class FuncOp:
    """Has the name of an MLIR class, but is not from MLIR."""

    operation = None


@pytest.mark.parametrize(
    "thing", [None, 7, "module {}", b"ML\xefR", object(), FuncOp(), FuncOp, sys]
)
def test_a_foreign_object_is_refused_with_its_type(thing: object) -> None:
    with pytest.raises(TosaConvertError) as caught:
        bindings_of(thing)
    (finding,) = caught.value.findings
    assert finding.code == "not-an-mlir-object"
    assert type(thing).__qualname__ in finding.message
    assert "ir.Module" in finding.hint
    with pytest.raises(TosaConvertError, match="not-an-mlir-object"):
        read(thing)


def test_a_subclass_of_a_class_of_the_bindings_belongs_to_them(bindings: Bindings) -> None:
    class Mine(bindings.ir.Context):  # type: ignore[misc, name-defined]
        pass

    assert bindings_of(Mine()) is bindings


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
    with pytest.raises(TosaConvertError) as caught:
        read(thing)
    assert caught.value.code == "not-an-mlir-object"
    assert caught.value.exit_code == 2
    if pick == "exp":
        assert "'tosa.exp', expected a builtin.module or a func.func" in str(caught.value)


def test_the_first_installed_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    available = list(packages.installed())
    if not available:
        pytest.skip("no MLIR bindings are installed")
    assert available == [package for package in DEFAULT_ORDER if package in available]
    assert default_bindings().package == available[0]
    for package in available:
        assert default_bindings(package).package == package
    monkeypatch.setattr(packages, "installed", lambda: iter(available[::-1]))
    assert default_bindings().package == available[-1]


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


def test_the_search_for_installed_bindings_imports_none() -> None:
    script = (
        "import sys\n"
        "from tosa_convert.formats.bindings.packages import installed\n"
        "list(installed())\n"
        "print([name for name in sys.modules if name.startswith(('torch_mlir', 'iree', 'mlir'))])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


def test_an_unrelated_package_of_the_same_name_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A placeholder on PyPI has the name of upstream's bindings and is empty.
    (tmp_path / "mlir").mkdir()
    (tmp_path / "mlir" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert "mlir" not in packages.installed()


def test_the_current_context_is_the_innermost_that_was_entered(bindings: Bindings) -> None:
    outer, inner = bindings.new_context(), bindings.new_context()
    assert packages.current_context() is None
    with outer:
        assert packages.current_context() is outer
        with bindings.ir.Location.unknown(inner):
            assert packages.current_context() is inner
        assert packages.current_context() is outer
    assert packages.current_context() is None


def test_current_contexts_of_two_packages_are_refused() -> None:
    available = list(packages.installed())
    if len(available) < 2:
        pytest.skip("needs two packages of MLIR bindings")
    first, second = (default_bindings(package) for package in available[:2])
    with first.new_context(), second.new_context():
        with pytest.raises(TosaConvertError, match="each have a current context") as caught:
            packages.current_context()
        assert caught.value.code == "option-conflict"
        assert "context=" in caught.value.findings[0].hint


def test_the_search_for_a_current_context_imports_no_bindings() -> None:
    script = (
        "import sys\n"
        "from tosa_convert.formats.bindings.packages import current_context\n"
        "assert current_context() is None\n"
        "print([name for name in sys.modules if name.startswith(('torch_mlir', 'iree', 'mlir'))])\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert output.stdout == "[]\n"


def test_bindings_print_their_package_and_version(bindings: Bindings) -> None:
    package, _, version = str(bindings).partition(" ")
    assert package == bindings.package
    assert version[0].isdigit()


def test_the_library_with_the_c_api_is_found(bindings: Bindings) -> None:
    assert bindings.libraries
    assert all(path.is_file() for path in bindings.libraries)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('loc("f.mlir":2:8)', "f.mlir:2:8"),
        ('loc("f.mlir":2:8 to :12)', "f.mlir:2:8"),
        (r'loc("a \22b\22":2:8)', 'a "b":2:8'),
        ('loc("name")', "name"),
        ("loc(unknown)", ""),
        ('loc(fused["a", "b"])', 'loc(fused["a", "b"])'),
        ('loc("n"("f":1:2))', 'loc("n"("f":1:2))'),
    ],
)
def test_a_location_is_printed_as_file_line_and_column(text: str, expected: str) -> None:
    assert plain_location(text) == expected


def test_each_diagnostic_of_mlir_is_a_finding(bindings: Bindings) -> None:
    context = bindings.new_context()
    text = "func.func @f() {\n  %0 = tosa.exp %a\n}\n"
    with pytest.raises(bindings.ir.MLIRError) as caught:
        bindings.ir.Module.parse(text, context)
    error = diagnostics(bindings, caught.value, "m.mlir")
    assert {finding.code for finding in error.findings} == {"malformed-mlir"}
    assert error.findings[0].where == "-:2:19"
    assert str(bindings) in error.findings[0].hint


def test_an_error_without_diagnostics_keeps_its_text(bindings: Bindings) -> None:
    error = diagnostics(bindings, ValueError(" something \n"), "m.mlir")
    (finding,) = error.findings
    assert (finding.where, finding.message) == ("m.mlir", "something")
