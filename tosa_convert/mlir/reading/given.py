"""Names that a module gives: in attributes of operations, and of arguments and results."""

from __future__ import annotations

from typing import Final

from tosa_convert.mlir.bytecode.decode import Bytecode
from tosa_convert.mlir.kept import NAME_ATTRIBUTE

#: Where frontends keep the names of a function's arguments and results: TFLite's importer on the
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


def text(raw: object) -> str | None:
    """What the bytes of a string say, or None if it is no string or not UTF-8."""
    if not isinstance(raw, bytes):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def text_of(bytecode: Bytecode, index: int | None) -> str | None:
    """What the string attribute with this number says, or None if it is none or not UTF-8."""
    return text(None if index is None else bytecode.attribute(index))


def names_of(bytecode: Bytecode, index: int | None) -> list[str | None]:
    """The names in a string attribute or in an array of them; none in any other attribute."""
    found = None if index is None else bytecode.attribute(index)
    if isinstance(found, bytes):
        return [text_of(bytecode, index)]
    return [text_of(bytecode, entry) for entry in found] if isinstance(found, list) else []


def signature_names(bytecode: Bytecode, which: str, count: int) -> list[str | None]:
    """The names that a function's `count` arguments or results carry; None for those without.

    which: "arg_attrs" or "res_attrs". tosa.tensor_name comes first; where none of them has one, what
    the frontend left: tf.entry_function, then the attributes of single arguments.
    """
    attributes = bytecode.dictionary(bytecode.root.attributes)
    names: list[str | None] = [None] * count
    listed = bytecode.attribute(attributes[which]) if which in attributes else []
    entries = [bytecode.dictionary(entry) for entry in listed] if isinstance(listed, list) else []
    for index, entry in enumerate(entries):
        for key in _ARGUMENT_ATTRIBUTES:
            if names[index] is None and key in entry:
                found = names_of(bytecode, entry[key])
                names[index] = (found[0] or None) if len(found) == 1 else None
        if NAME_ATTRIBUTE in entry:
            names[index] = text_of(bytecode, entry[NAME_ATTRIBUTE])
    if any(NAME_ATTRIBUTE in entry for entry in entries):
        return names
    if _ENTRY_FUNCTION in attributes:
        function = bytecode.attribute(attributes[_ENTRY_FUNCTION])
        joined = function.get(_ENTRY_KEYS[which]) if isinstance(function, dict) else None
        parts = [part.strip() for part in (text_of(bytecode, joined) or "").split(",")]
        # A list of another length names something else; a name twice names nothing.
        if len(parts) == count and len(set(parts)) == count and all(parts):
            return list(parts)
    # A frontend's hints need not be unique; the dialect's own names must be.
    seen: set[str | None] = set()
    for index, name in enumerate(names):
        if name in seen:
            names[index] = None
        seen.add(name)
    return names
