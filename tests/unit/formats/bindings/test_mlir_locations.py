"""Locations: one line of text in a file, and the same location again in MLIR."""

from __future__ import annotations

from typing import Any

import pytest
from refusing import refused
from unit.building import graph, op, tensor

from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph import Graph
from tosa_convert.io.options import DEFAULT_LIMITS, ReadOptions

BODY = """func.func @f(%a: tensor<2xf32>) {{
  %0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32> {}
  return
}}
"""


def location_of(parse: Any, text: str, *, full_paths: bool = False) -> str:
    """Return the location in a file of an operation with this location in MLIR."""
    return (
        read(parse(BODY.format(text)), ReadOptions(full_paths=full_paths))
        .main.operators[0]
        .location
    )


def with_location(text: str) -> Graph:
    return graph("a", "", [tensor("a"), tensor("b")], [op("EXP", "a", "b", text)])


def location_in_mlir(bindings: Bindings, context: Any, text: str) -> Any:
    """Return the location in MLIR of an operator whose location in a file is `text`."""
    module = write(with_location(text), bindings, context)
    function = next(iter(module.body.operations))
    return function.regions[0].blocks[0].operations[0].location


def in_mlir(bindings: Bindings, context: Any, text: str) -> str:
    """Return the location as MLIR prints it."""
    return str(location_in_mlir(bindings, context, text))


PLAIN = [
    "loc(unknown)",
    'loc("f.mlir":2:8)',
    'loc("f.mlir":0:0)',
    'loc("f.mlir":4294967295:4294967295)',
    'loc("f.mlir":2:8 to :12)',
    'loc("f.mlir":2:8 to 3:1)',
    'loc("name")',
    'loc("name"("f.mlir":2:8))',
    'loc("outer"("inner"("f.mlir":2:8)))',
    'loc(fused["a", "b"])',
    'loc(fused["a", "f.mlir":2:8, callsite("b" at "c")])',
    'loc(callsite("f.mlir":2:8 at "g.mlir":3:4))',
    'loc(callsite("f" at callsite("g" at "h":1:2)))',
    r'loc("with \22quotes\22 and \\ backslash")',
    r'loc("a\0Ab\09c")',
    r'loc("\C3\A9\F0\9F\98\80":1:2)',
    'loc("")',
    'loc("x y.py":1:2)',
    'loc("loc":1:2)',
    'loc("at")',
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_location_is_stored_as_mlir_prints_it(parse: Any, text: str) -> None:
    assert location_of(parse, text) == text


@pytest.mark.parametrize(
    "text",
    [
        "anything",
        "loc(",
        'loc("f":1:2',
        'loc("f":1:2) ',
        'loc("f":1)',
        'loc("f":1:99999999999)',
        'loc("f":99999999999999999999:1)',
        "loc(callsite(unknown))",
        'loc("a" "b")',
        "loc()",
        'loc("unfinished)',
        "loc(#alias)",
        'LOC("f":1:2)',
        '"f":1:2',
        "\n",
        "a\0b",
        '{"a": [1, 2]}',
        "(" * 10_000,
        "loc(" * 10_000,
        '"' * 9_999,
    ],
)
def test_a_text_that_is_not_a_location_becomes_a_name(
    bindings: Bindings, context: Any, text: str
) -> None:
    location = location_in_mlir(bindings, context, text)
    assert str(location).startswith('loc("')
    assert location.name_str == text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ['callsite({} at "x")', 'callsite("x" at {})', '"n"({})'])
def test_a_deeply_nested_location_becomes_a_name_and_is_restored(
    bindings: Bindings, context: Any, kind: str
) -> None:
    def nested(depth: int) -> str:
        text = '"f.mlir":1:2'
        for _ in range(depth):
            text = kind.replace("{}", text)
        return f"loc({text})"

    most = DEFAULT_LIMITS.location_depth
    for depth in (most, most + 1, 3000):
        module = write(with_location(nested(depth)), bindings, context)
        assert read(module).main.operators[0].location == nested(depth)
        printed = in_mlir(bindings, context, nested(depth))
        assert ('loc("loc(' in printed) == (depth > most)


@pytest.mark.slow
def test_a_location_whose_shared_parts_multiply_is_refused(parse: Any) -> None:
    aliases = "".join(f"#l{i} = loc(callsite(#l{i - 1} at #l{i - 1}))\n" for i in range(1, 30))
    module = parse('#l0 = loc("f":1:2)\n' + aliases + BODY.format("loc(#l29)"))
    with refused("too-large"):
        read(module)


def test_a_location_that_another_tool_put_into_a_name_is_unwrapped(parse: Any) -> None:
    # tosa-opt reads a file's location as a name, and names the region and the file around it.
    text = r'loc("loc(\22f.mlir\22:2:8)"("main"("x.tosa":0:0)))'
    assert location_of(parse, text) == 'loc("f.mlir":2:8)'
    inner = r"loc(\22loc(\\22f.mlir\\22:2:8)\22(\22main\22(\22x.tosa\22:0:0)))"
    twice = f'loc("{inner}"("main"("y.tosa":0:0)))'
    assert location_of(parse, twice) == 'loc("f.mlir":2:8)'


@pytest.mark.parametrize("name", ["loc(", "loc(x", "loc(x)y", "loc(unknown) and more"])
def test_a_name_that_only_begins_like_a_location_survives(
    parse: Any, bindings: Bindings, context: Any, name: str
) -> None:
    stored = location_of(parse, f'loc("{name}")')
    assert stored == name
    assert in_mlir(bindings, context, stored) == f'loc("{name}")'
    nested = f'loc("{name}"("f":1:2))'
    assert location_of(parse, nested) == nested


def test_a_location_with_metadata_is_stored_as_text(
    parse: Any, bindings: Bindings, context: Any
) -> None:
    text = 'loc(fused<"meta">["a", "b"])'
    stored = location_of(parse, text)
    assert stored == text
    module = write(with_location(stored), bindings, context)
    assert read(module).main.operators[0].location == text
