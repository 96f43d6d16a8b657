"""Modules of MLIR text that tests read, and why one is refused."""

from __future__ import annotations

import pytest

import tosa_convert as tc
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.read_sections import sections_in_pieces
from tosa_convert.formats.mlir.text.parse.module import parse
from tosa_convert.formats.mlir.text.print.module import module_text
from tosa_convert.io.options import WriteOptions


def bytecode(text: str) -> Bytecode:
    return Bytecode(sections_in_pieces(parse(memoryview(text.encode()))))


def printed(text: str) -> str:
    """Return the module of a text as tosa-opt prints it in generic form, without locations."""
    options = WriteOptions(generic=True, locations=False)
    return b"".join(module_text(bytecode(text), options)).decode()


def function(line: str, result: str = "tensor<2xf32>", argument: str = "tensor<2xf32>") -> str:
    return f"func.func @f(%a: {argument}) -> {result} {{\n  {line}\n  return %0 : {result}\n}}"


def constant(attribute: str, type_: str) -> str:
    return function(f'%0 = "tosa.const"() {{values = {attribute}}} : () -> {type_}', type_)


def data_of(attribute: str, type_: str) -> bytes:
    graph = tc.load(constant(attribute, type_).encode())
    data = graph.main.tensors[graph.main.outputs[0]].data
    assert data is not None
    return bytes(data.packed())


def refusal(text: str) -> tc.Finding:
    with pytest.raises(tc.TosaConvertError) as caught:
        bytecode(text)
    (finding,) = caught.value.findings
    return finding
