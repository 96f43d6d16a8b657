"""Operators that text has on lines of the commonest shape, each read with one regular expression."""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.formats.mlir.bytecode.format import HAS_ATTRIBUTES, HAS_OPERANDS, HAS_RESULTS
from tosa_convert.formats.mlir.text.parse.custom_forms import CustomForms
from tosa_convert.formats.mlir.text.parse.operations import SIGNATURE

#: An operator with one result, at most 16 operands and attributes without strings. What follows is not
#: its location.
_LINE: Final = re.compile(
    rb"[ \t\r\n]*(%[\w$.-]+) = (tosa\.\w+) (%[\w$.-]+(?:, %[\w$.-]+){0,15})"
    rb'(?: (\{[^{}"\n]{1,400}\}))? : (' + SIGNATURE.pattern + rb")"
    rb'(?: (loc\((?:#[\w$.-]+|"[^"\\\n]*":[0-9]{1,9}:[0-9]{1,9})\)))?'
    rb"(?=[ \t\r\n]*[^ \t\r\nl/])"
)


class LineParser:
    """Reads lines whose attributes and types the text had before. Others are left to the forms."""

    def __init__(self, forms: CustomForms) -> None:
        self.forms = forms
        self.operations = forms.operations
        #: The numbers of names of operations; b"" for those of other forms.
        self._names: dict[bytes, bytes] = {}

    # Fast path of CustomForms.tosa; equal by test test_ordinary_lines_equal_others
    def __call__(self) -> bool:
        """Add the operators that are next, up to one that is not ordinary; return whether any is."""
        operations, cursor = self.operations, self.operations.cursor
        region, locations = operations.region, operations.attributes.locations
        names, own, first = region.names, region.types[-1], region.first
        numbers, encoder = operations.encoder.numbers, operations.encoder
        count = region.count
        while (line := _LINE.match(cursor.data, cursor.at)) is not None:
            result, word, operands, dictionary, signature, location = line.groups()
            name = self._names.get(word) or self._name(word)
            values = [names.get(operand) for operand in operands.split(b", ")]
            known = operations.signatures.get(signature)
            if not name or result in names or known is None or None in values:
                break
            types, results = known
            if len(results) != 1 or region.types_of(values) != types or min(values) < first:  # type: ignore[arg-type,type-var,operator]
                break
            pairs = None
            if dictionary is not None:
                pairs = operations.attributes.remembered(word.decode(), dictionary)
                if pairs is None:
                    break
            if location is None:
                place = locations.here(line.start(2))
            else:
                cursor.at = line.start(6)
                place = locations.optional() or encoder.unknown
            has, attributes = HAS_RESULTS | HAS_OPERANDS, b""
            if pairs:
                has, attributes = has | HAS_ATTRIBUTES, encoder.dictionary(pairs.items())
            region.name(result, first + len(own))
            own += results
            region.count += 1
            parts = [name, bytes((has,)), place, attributes, numbers[1], *results]
            parts += numbers[len(values)], *map(numbers.__getitem__, values)  # type: ignore[arg-type]
            region.rows[-1] += b"".join(parts)
            cursor.at = line.end()
        return region.count > count

    def _name(self, word: bytes) -> bytes:
        """Return the number of an operation's name, or b"" if it has a form of its own."""
        is_ordinary = self.forms.form(word.decode()) is CustomForms.tosa
        self._names[word] = self.operations.encoder.operation(word.decode()) if is_ordinary else b""
        return self._names[word]
