"""All MLIR bindings write the same file for a program, and read the same program from a file."""

from __future__ import annotations

import functools

import pytest
from oracle import written_cases
from sampling import one_in

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings

TEXTS = {case.name: case.text for case in written_cases.cases()}
TEXTS |= {form: written_cases.constants(form)[0] for form in written_cases.FORMS}


@pytest.mark.parametrize("name", one_in(16, TEXTS))
def test_all_bindings_write_the_same_bytes_for_a_program(
    torch_mlir: Bindings, bindings: Bindings, name: str
) -> None:
    module = torch_mlir.ir.Module.parse(TEXTS[name], torch_mlir.new_context())
    export = functools.partial(tc.export_tosa_func_to_flatbuffer, validate=False)
    expected = export(module)
    context = bindings.new_context()
    again = bindings.ir.Module.parse(TEXTS[name], context)
    assert export(again) == expected
    read = tc.import_tosa_func_from_flatbuffer(expected, context=context, validate=False)
    assert export(read) == expected
    # The module that was read can be printed and parsed, in the form that all bindings share.
    printed = read.operation.get_asm(print_generic_op_form=True)
    copy = torch_mlir.ir.Module.parse(printed, torch_mlir.new_context())
    assert tc.compare(tc.load(export(copy)), tc.load(expected)) is None
