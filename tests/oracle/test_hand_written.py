"""Programs that the official tests lack: we and the outside tools give the same results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import official_suite, written_cases
from oracle.judge import Judge
from refusing import refused
from sampling import one_in

import tosa_convert as tc

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as found:
        yield found


def write(judge: Judge, text: str) -> Path:
    path = judge.scratch / "case.mlir"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("case", one_in(8, written_cases.cases()), ids=str)
def test_a_module_is_exported_and_imported_as_tosa_opt_does(
    judge: Judge, case: written_cases.Case
) -> None:
    verdict = judge.module(write(judge, case.text))
    found = list(verdict.differences)
    for expected in case.differs:
        match = next((one for one in found if re.match(expected, one)), None)
        assert match is not None, f"no difference matches {expected!r}; found: {found}"
        found.remove(match)
    assert not found
    assert verdict.returned


@pytest.mark.slow
@pytest.mark.parametrize("form", written_cases.FORMS)
def test_constants_of_every_type_keep_their_bits(judge: Judge, form: str) -> None:
    text, raws = written_cases.constants(form)
    path = write(judge, text)
    verdict = judge.module(path)
    assert not verdict.differences
    assert verdict.exported
    assert verdict.imported
    data = tc.export_tosa_func_to_flatbuffer(judge.parse(path))
    assert unpacked(tc.load(data)) == raws


@pytest.mark.parametrize("constants", ["auto", "dense", "resource"])
def test_constants_keep_their_bits_in_every_form_of_import(judge: Judge, constants: Any) -> None:
    text, raws = written_cases.constants("dense")
    data = tc.export_tosa_func_to_flatbuffer(judge.parse(write(judge, text)))
    module = judge.load(data, constants=constants)
    assert unpacked(tc.load(tc.export_tosa_func_to_flatbuffer(module))) == raws


@pytest.mark.parametrize(
    "element", [one for one in written_cases.ELEMENTS if one.packed], ids=lambda one: one.mlir
)
def test_a_resource_with_an_element_in_each_byte_is_packed(
    judge: Judge, element: written_cases.Element
) -> None:
    raw = bytes(element.patterns[:7])
    kind = f"tensor<7x{element.mlir}>"
    text = (
        f'func.func @main() -> {kind} {{ %0 = "tosa.const"() <{{values = dense_resource<w> : {kind}}}>'
        f" : () -> {kind}  return %0 : {kind} }}\n"
        f'{{-# dialect_resources: {{ builtin: {{ w: "0x01000000{raw.hex()}" }} }} #-}}'
    )
    data = tc.export_tosa_func_to_flatbuffer(judge.parse(write(judge, text)))
    assert unpacked(tc.load(data)) == [raw]


def test_a_zero_point_that_is_not_constant_is_written_although_tosa_opt_cannot_read_it(
    judge: Judge,
) -> None:
    text = """func.func @main(%a: tensor<3xi8>, %z: tensor<1xi8>) -> tensor<3xi8> {
      %0 = tosa.negate %a, %z, %z : (tensor<3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<3xi8>
      return %0 : tensor<3xi8>
    }"""
    verdict = judge.module(write(judge, text))
    assert [one for one in verdict.differences if "zero points" not in one] == []
    assert verdict.exported
    assert verdict.returned
    assert not verdict.imported


def test_int4_minus_8_is_refused_where_tosa_opt_truncates_the_data(judge: Judge) -> None:
    path = write(
        judge,
        """func.func @main() -> tensor<4xi4> {
      %0 = "tosa.const"() <{values = dense<[1, -2, 7, -8]> : tensor<4xi4>}> : () -> tensor<4xi4>
      return %0 : tensor<4xi4>
    }""",
    )
    with refused("int4-minus-8"):
        tc.export_tosa_func_to_flatbuffer(judge.parse(path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (("dense<[1.0, 2.0]>", "dense<[1.0, 3.0]>"), "data"),
        (("tosa.abs", "tosa.ceil"), "op"),
        (("return %1", "return %0"), "outputs"),
    ],
)
def test_the_judge_finds_a_changed_program(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, changed: tuple[str, str], what: str
) -> None:
    text = """func.func @main() -> tensor<2xf32> {
      %0 = "tosa.const"() <{values = dense<[1.0, 2.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
      %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }"""
    assert not judge.module(write(judge, text)).differences
    other = judge.bindings.ir.Module.parse(text.replace(*changed), judge.bindings.new_context())
    parse = judge.parse
    monkeypatch.setattr(
        judge, "parse", lambda path: other if path.name == "case.mlir" else parse(path)
    )
    verdict = judge.module(write(judge, text))
    assert not verdict.exported
    assert any(one.startswith("export: ") and what in one for one in verdict.differences)


def unpacked(graph: tc.Graph) -> list[bytes]:
    """Return the elements' bytes of each constant, in the order of the graph's outputs."""
    found = []
    for name in graph.main.outputs:
        data = graph.main.tensors[name].data
        assert data is not None
        found.append(data.elements().tobytes())
    return found
