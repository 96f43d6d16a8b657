"""What MLIR holds and its bindings cannot hand over: refused by name, not by their exceptions."""

from __future__ import annotations

import io
from typing import Any

import pytest

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.bindings.packages import Bindings

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


def code_of(source: bytes, bindings: Bindings) -> str:
    """What reading and writing a module is refused with, or "accepted"."""
    try:
        for piece in api.encode(tc.load(source, bindings=bindings.package)):
            assert len(piece)
    except tc.TosaConvertError as error:
        str(error).encode("utf-8", "backslashreplace")
        return error.code
    return "accepted"


@pytest.mark.parametrize("value", ["loc(unknown)", 'loc("a":1:2)'])
@pytest.mark.parametrize("place", PLACES)
def test_a_location_in_an_attributes_place_is_refused(
    bindings: Bindings, place: str, value: str
) -> None:
    source = text(**{place: f"{PLACES[place]} = {value}"}).encode()
    # Below the module bytecode tells that it is no string, and so no name.
    expected = "unsupported-attribute" if place == "module" else "accepted"
    assert code_of(source, bindings) == expected


def test_a_location_where_nobody_looks_is_no_matter(bindings: Bindings) -> None:
    assert code_of(text(operator="x.y = loc(unknown)").encode(), bindings) == "accepted"


@pytest.mark.parametrize(
    ("where", "code"),
    [
        # An operator's name, which MLIR repeats when it refuses it.
        ("message", "malformed-mlir"),
        # A location is printed with escapes. What is no text is no name.
        ("place", "accepted"),
        ("argument", "accepted"),
    ],
)
def test_text_that_is_not_unicode_ends_no_process(
    bindings: Bindings, where: str, code: str
) -> None:
    """It comes from bytecode."""
    filled = {"argument": 'tosa.tensor_name = "QQQQ"'} if where == "argument" else {"place": "QQQQ"}
    module = bindings.ir.Module.parse(text(**filled), bindings.new_context())
    sink: Any = io.BytesIO()
    module.operation.write_bytecode(sink)
    old = b"exp\0" if where == "message" else b"QQQQ"
    assert sink.getvalue().count(old) == 1
    data = sink.getvalue().replace(old, b"\xff" * (len(old) - 1) + old[-1:])
    assert code_of(data, bindings) == code


@pytest.mark.parametrize("name", ["\\FF", "a\\C3", "\\ED\\A0\\80.py"])
def test_a_file_name_that_is_not_unicode_is_carried(bindings: Bindings, name: str) -> None:
    """Asked for such a name, the bindings end the process."""
    found = tc.load(text(place=name).encode(), bindings=bindings.package)
    assert found.main.operators[0].location == f'loc("{name}":1:2)'
