"""Names of values and regions: those a module carries, and those that are generated.

They are generated as tosa-opt does, so that files of the two compare: TosaInput_k, TosaOutput_k,
Variable_k, and layer_k, which counts every result. Other names of a file are discardable attributes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import TYPE_CHECKING, Final

from tosa_convert.graph.derived import unused_name

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode
    from tosa_convert.formats.mlir.bytecode.encode import Encoder
    from tosa_convert.graph.model import Block


# -- string literals of MLIR's text ----------------------------------------------------------------

STRING: Final = r'"(?:[^"\\\n]|\\.)*"'

_ESCAPE: Final = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\nt]))')
_ESCAPES: Final = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t"}
#: Bytes that are escaped: all but printable ASCII, the quotation mark and the backslash.
_ESCAPED: Final = re.compile(rb"[^ !#-\[\]-~]")

#: The commonest location by far has no escapes and no nesting, and numbers that are known to fit.
PLAIN_LOCATION: Final = re.compile(r'(loc\("[^"\\:]*"):([0-9]{1,9}):([0-9]{1,9})\)')


def unescape(text: str) -> bytes:
    return unescape_bytes(text[1:-1].encode("utf-8", "replace"))


def unknown_escape(raw: bytes) -> int:
    """Return where the first backslash is that begins no escape; -1 if there is none."""
    at = raw.find(b"\\")
    while at >= 0:
        found = _ESCAPE.match(raw, at)
        if found is None:
            return at
        at = raw.find(b"\\", found.end())
    return at


def unescape_bytes(raw: bytes) -> bytes:
    """Return the bytes of a string literal, from what is between its quotation marks."""
    parts, end = bytearray(), 0
    for match in _ESCAPE.finditer(raw):
        parts += raw[end : match.start()]
        parts += bytes((int(match[1], 16),)) if match[1] else _ESCAPES[match[2]]
        end = match.end()
    return bytes(parts + raw[end:])


def unquote(text: str) -> str:
    """Return the text of a string literal; bytes that are not UTF-8 become U+FFFD."""
    return unescape(text).decode("utf-8", "replace")


def quote(raw: bytes) -> str:
    """Return the string literal of these bytes: printable ASCII as it is, all others in hexadecimal."""
    text = _ESCAPED.sub(lambda b: rb"\\" if b[0] == b"\\" else b"\\%02X" % ord(b[0]), raw)
    return f'"{text.decode("ascii")}"'


#: The name of an argument or a result (the dialect's own attribute), or of an operation's results:
#: a string, or an array of strings.
NAME_ATTRIBUTE: Final = "tosa.tensor_name"
#: The names of a control-flow operator's regions and of their blocks, arguments and results: an array
#: with a dictionary of `name`, `block`, `inputs` and `outputs` for each region.
REGIONS_ATTRIBUTE: Final = "tosa.regions"
#: On the module: the TOSA version of the file, if it is higher than the graph needs.
VERSION_ATTRIBUTE: Final = "tosa.version"

#: Attributes with which frontends name a function's arguments and results: TFLite's importer on the
#: function, as lists separated by commas; TensorFlow's and JAX's on each argument.
_ENTRY_FUNCTION: Final = "tf.entry_function"
_ENTRY_KEYS: Final = {"arg_attrs": "inputs", "res_attrs": "outputs"}
_ARGUMENT_ATTRIBUTES: Final = (
    NAME_ATTRIBUTE,
    "ml_program.identifier",
    "tf_saved_model.index_path",
    "jax.arg_info",
    "jax.result_info",
)

#: A generated name for a result begins with this; a number follows.
RESULT_PREFIX: Final = "layer_"

_FILE: Final = rf"loc\(({STRING}):(\d+):"


# -- names that a module carries --------------------------------------------------------------------


def text(raw: object) -> str | None:
    """Decode the text of a string attribute's bytes; None if they are not bytes or not UTF-8."""
    if not isinstance(raw, bytes):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def text_of(bytecode: Bytecode, index: int | None) -> str | None:
    """Return the text of the string attribute with this index; None if not a string or not UTF-8."""
    return text(None if index is None else bytecode.attribute(index))


def names_of(bytecode: Bytecode, index: int | None) -> list[str | None]:
    """Return the names in a string attribute or in an array of them; none in any other attribute."""
    attribute = None if index is None else bytecode.attribute(index)
    if isinstance(attribute, bytes):
        return [text_of(bytecode, index)]
    return [text_of(bytecode, entry) for entry in attribute] if isinstance(attribute, list) else []


def signature_names(bytecode: Bytecode, key: str, count: int) -> list[str | None]:
    """Return the names that a function's `count` arguments or results carry; None for those without.

    key: "arg_attrs" or "res_attrs".

    tosa.tensor_name comes first. If none of them has it, the names are what the frontend left:
    tf.entry_function, then the attributes of single arguments.
    """
    attributes = bytecode.dictionary(bytecode.root.attributes)
    names: list[str | None] = [None] * count
    listed = bytecode.attribute(attributes[key]) if key in attributes else []
    entries = [bytecode.dictionary(entry) for entry in listed] if isinstance(listed, list) else []
    for index, entry in enumerate(entries[:count]):
        for attribute in _ARGUMENT_ATTRIBUTES:
            if names[index] is None and attribute in entry:
                given = names_of(bytecode, entry[attribute])
                names[index] = (given[0] or None) if len(given) == 1 else None
        if NAME_ATTRIBUTE in entry:
            names[index] = text_of(bytecode, entry[NAME_ATTRIBUTE])
    if any(NAME_ATTRIBUTE in entry for entry in entries):
        return names
    if _ENTRY_FUNCTION in attributes:
        function = bytecode.attribute(attributes[_ENTRY_FUNCTION])
        joined = function.get(_ENTRY_KEYS[key]) if isinstance(function, dict) else None
        parts = [part.strip() for part in (text_of(bytecode, joined) or "").split(",")]
        # A list of another length names something else, and a repeated name is not a name.
        if len(parts) == count and len(set(parts)) == count and all(parts):
            return list(parts)
    # A frontend's hints need not be unique; the dialect's own names must be.
    seen: set[str | None] = set()
    for index, name in enumerate(names):
        if name in seen:
            names[index] = None
        seen.add(name)
    return names


# -- names that are written -------------------------------------------------------------------------


def written_signature(encoder: Encoder, names: list[str]) -> bytes:
    """Encode the names of a function's arguments or results in the dialect's form."""
    string, dictionary = encoder.string_attribute, encoder.dictionary
    return encoder.array([dictionary([(NAME_ATTRIBUTE, string(name))]) for name in names])


def written_regions(encoder: Encoder, blocks: Iterable[tuple[str, Block]]) -> bytes:
    """Encode the names of an operator's regions and of their blocks, arguments and results."""
    string, array = encoder.string_attribute, encoder.array
    entries = [
        encoder.dictionary(
            [
                ("name", string(name)),
                ("block", string(block.name)),
                ("inputs", array(list(map(string, block.inputs)))),
                ("outputs", array(list(map(string, block.outputs)))),
            ]
        )
        for name, block in blocks
    ]
    return array(entries)


# -- names that are generated -----------------------------------------------------------------------


class Namer:
    """The counters of one graph."""

    def __init__(self) -> None:
        self.inputs = 0
        self.outputs = 0
        self.results = 0
        self.control_flow = 0
        self.regions: set[str] = set()

    def input(self) -> str:
        self.inputs += 1
        return f"TosaInput_{self.inputs - 1}"

    def output(self) -> str:
        self.outputs += 1
        return f"TosaOutput_{self.outputs - 1}"

    def region(self, stem: str, role: str, given: str | None = None) -> str:
        """Return the name of a region, unique in the graph: readers find regions by name."""
        name = unused_name(given or f"{stem}_{role}", self.regions)
        self.regions.add(name)
        return name

    def stem(self, location: str, mlir_name: str) -> str:
        """Return the common start of names of an operator's regions: file and line, or a counter."""
        self.control_flow += 1
        match = re.match(_FILE, location)
        if match is None:
            return f"{self.control_flow - 1}_{mlir_name}"
        name = os.path.basename(unquote(match[1]))
        return f"{os.path.splitext(name)[0]}_L{match[2]}_{mlir_name}"


def result_names() -> Iterator[str]:
    # Formatting each number would take longer than everything else that is done with a name.
    digits = [f"{number:03}" for number in range(1000)]
    return chain(
        map(f"{RESULT_PREFIX}{{}}".format, range(1000)),
        chain.from_iterable(
            map(f"{RESULT_PREFIX}{thousands}".__add__, digits) for thousands in count(1)
        ),
    )
