"""Values that MLIR accepts and its bindings cannot convert to Python are refused with a finding."""

from __future__ import annotations

import io
from typing import Any

import pytest

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.formats.bindings.packages import Bindings

TEXT = """module attributes {{ {module} }} {{
  func.func @main(%a: tensor<2xf32> {{ {argument} }}) -> tensor<2xf32> attributes {{ {function} }} {{
    %0 = tosa.exp %a {{ {operator} }} : (tensor<2xf32>) -> tensor<2xf32> loc("{place}":1:2)
    return %0 : tensor<2xf32>
  }}
}}
"""
PLACES = {
    "module": "tosa.version",
    "argument": "tosa.tensor_name",
    "function": "tf.entry_function",
    "operator": "tosa.tensor_name",
}


def text(**filled: str) -> str:
    return TEXT.format(**(dict.fromkeys(PLACES, "") | {"place": "a.py"} | filled))


def code_of(source: bytes) -> str:
    """Return the code with which reading or writing a module is refused, or "accepted"."""
    try:
        for piece in api.encode(tc.load(source)):
            assert len(piece)
    except tc.TosaConvertError as error:
        str(error).encode("utf-8", "backslashreplace")
        return error.code
    return "accepted"


@pytest.mark.parametrize("value", ["loc(unknown)", 'loc("a":1:2)'])
@pytest.mark.parametrize("place", PLACES)
def test_a_location_as_the_value_of_an_attribute_is_not_a_name_or_a_version(
    place: str, value: str
) -> None:
    source = text(**{place: f"{PLACES[place]} = {value}"}).encode()
    assert code_of(source) == "accepted"


def test_a_location_in_an_unused_attribute_is_accepted() -> None:
    source = text(operator="x.y = loc(unknown)").encode()
    assert code_of(source) == "accepted"


@pytest.mark.parametrize(
    ("where", "code"),
    [
        # The name of an operator, which the error repeats.
        ("message", "unsupported-operator"),
        # A location is printed with escapes. An argument's name that is not UTF-8 is not used.
        ("place", "accepted"),
        ("argument", "accepted"),
    ],
)
def test_text_that_is_not_utf8_does_not_end_the_process(
    bindings: Bindings, where: str, code: str
) -> None:
    """Such text can only come from bytecode."""
    filled = {"argument": 'tosa.tensor_name = "QQQQ"'} if where == "argument" else {"place": "QQQQ"}
    module = bindings.ir.Module.parse(text(**filled), bindings.new_context())
    sink: Any = io.BytesIO()
    module.operation.write_bytecode(sink)
    old = b"exp\0" if where == "message" else b"QQQQ"
    assert sink.getvalue().count(old) == 1
    data = sink.getvalue().replace(old, b"\xff" * (len(old) - 1) + old[-1:])
    assert code_of(data) == code


@pytest.mark.parametrize("name", ["\\FF", "a\\C3", "\\ED\\A0\\80.py"])
def test_a_file_name_that_is_not_utf8_is_preserved(name: str) -> None:
    found = tc.load(text(place=name).encode())
    assert found.main.operators[0].location == f'loc("{name}":1:2)'
