"""Large hostile MLIR texts for `large_files.py`: one damage many times, or nearly valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_HEAD: Final = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
_END: Final = "  return %x : tensor<4xf32>\n}\n"
_TYPES: Final = "(tensor<4xf32>) -> tensor<4xf32>"
_CONDITION: Final = "%c~ = tosa.const {values = dense<true> : tensor<i1>} : () -> tensor<i1>\n"
_YIELD: Final = "{ tosa.yield %x : tensor<4xf32> }"
#: Name -> the start of a text, what is repeated with numbers for ~, and the end.
_REPEATED: Final = {
    "foreign operators": (_HEAD, f'%~ = "other.op"(%x) : {_TYPES}\n', _END),
    "foreign operators in custom form": (_HEAD, "%~ = other.op %x, [1, 2] : tensor<4xf32>\n", _END),
    "different foreign operators": (_HEAD, f'%~ = "other.op~"(%x) : {_TYPES}\n', _END),
    "short foreign operators": (_HEAD, '"a.b"():()->()\n', _END),
    "foreign operators in a line": (_HEAD, '"other.op"() : () -> () ', _END),
    "foreign operators with locations": (_HEAD, '"a.b"() : () -> () loc("~":1:1)\n', _END),
    "lines between foreign operators": (_HEAD, '"a.b"() : () -> ()' + "\n" * 90, _END),
    "wrong element types": (_HEAD, "%~ = tosa.abs %x : (tensor<4xf32>) -> tensor<4xf64>\n", _END),
    "missing attributes": (_HEAD, "%~ = tosa.argmax %x : (tensor<4xf32>) -> tensor<i32>\n", _END),
    "captured values": (
        _HEAD,
        f"{_CONDITION}%~ = tosa.cond_if %c~ -> (tensor<4xf32>) {_YIELD} else {_YIELD}\n",
        _END,
    ),
    "the same value": (_HEAD, f"%v = tosa.abs %x : {_TYPES}\n", _END),
    "undefined values": (_HEAD, f"%~ = tosa.abs %v~ : {_TYPES}\n", _END),
    "a program without its end": (_HEAD, f"%~ = tosa.abs %x : {_TYPES}\n", ""),
    "line ends": (_HEAD, "\n", "x"),
    "spaces": (_HEAD, " ", "x"),
    "comments": (_HEAD, "//x\n", "x"),
    "functions": ("", "func.func @f~() {\n  return\n}\n", ""),
    "the same function": ("", "func.func @f() {\n  return\n}\n", ""),
    "declarations": ("", "func.func private @f~()\n", ""),
    "the same variable": ("", "tosa.variable @v = dense<1> : tensor<1xi8>\n", _HEAD + _END),
    "modules": ("", "module {}\n", ""),
    "modules in modules": ("", "module {\n", ""),
    "regions in regions": (_HEAD, '"other.op"() ({\n', ""),
    "regions": (f'{_HEAD}"other.op"() (', "{}, ", "{}) : () -> ()\n" + _END),
    "blocks": (f'{_HEAD}"other.op"() ({{', "^b~:\n", "}) : () -> ()\n" + _END),
    "arguments": ("func.func @main(", "%~: tensor<4xf64>, ", "%x: i1) { return }"),
    "operands": (f'{_HEAD}"other.op"(', "%x, ", "%x) : () -> ()\n" + _END),
    "results": (f'{_HEAD}"other.op"() : () -> (', "i32, ", "i32)\n" + _END),
    "sizes": (f'{_HEAD}"other.op"() : () -> tensor<', "1x", "f32>\n" + _END),
    "open brackets": (f"{_HEAD}other.op ", "[", ""),
    "open attributes": (f'{_HEAD}"other.op"() {{a = ', "[", ""),
    "open types": (f'{_HEAD}"other.op"() : () -> ', "tuple<", ""),
    "open locations": (f'{_HEAD}"other.op"() : () -> () ', 'loc(callsite("a" at ', ""),
    "a string": ('"', "x", ""),
    "a string of escapes": (f'{_HEAD}"other.op"() {{a = "', "\\22", '"} : () -> ()\n' + _END),
    "a symbol": ("func.func @", "x", ""),
    "a number": (f'{_HEAD}"other.op"() {{a = ', "9", ""),
    "a dictionary": (f'{_HEAD}"other.op"() {{', "a~ = ~ : i32, ", "z} : () -> ()\n" + _END),
    "an array": (f'{_HEAD}"other.op"() {{a = [', "~ : i32, ", "1]} : () -> ()\n" + _END),
    "aliases": ("", "#a~ = ~ : i32\n", "x"),
    "the same alias": ("", "#a = 1 : i32\n", "x"),
    "aliases of types": ("", "!a~ = tensor<~xf32>\n", "x"),
    "aliases of locations": ("", '#a~ = loc("a":~:1)\n', "x"),
}


def texts(size: int) -> Iterator[tuple[str, bytes]]:
    """Make texts of about `size` bytes."""
    for name, (head, unit, tail) in _REPEATED.items():
        length = len(unit) + unit.count("~") * (len(str(size // len(unit))) - 1)
        count = size // length
        parts = (unit.replace("~", str(n)) for n in range(count)) if "~" in unit else [unit * count]
        yield name, (head + "".join(parts) + tail).encode()
