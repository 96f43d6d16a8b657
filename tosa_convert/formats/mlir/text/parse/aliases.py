"""Aliases of attributes, types and locations, which a text may define after their use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tosa_convert.formats.mlir.text.parse.cursor import TextCursor

Value = TypeVar("Value")

#: A definition begins a line. Strings do not reach over line ends, so it is not part of one.
_DEFINITION: Final = re.compile(rb"^[ \t]*([#!][A-Za-z0-9_$][\w$.-]*)[ \t]*=", re.MULTILINE)
_NEXT_DEFINITION: Final = re.compile(rb"([#!][A-Za-z0-9_$][\w$.-]*)[ \t]*=")


class Aliases:
    """The aliases of one text. Each is parsed when it is first used, and once."""

    def __init__(self, cursor: TextCursor) -> None:
        self.cursor = cursor
        #: Name -> the offset of what it stands for.
        self._places: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        self._ends: dict[str, int] = {}
        self._being_parsed: set[str] = set()
        for definition in _DEFINITION.finditer(cursor.data):
            name = definition[1].decode("utf-8", "replace")
            if name in self._places:
                cursor.refuse(f"{name} is defined twice", definition.start(1))
            self._places[name] = definition.end()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def resolve(self, name: str, at: int, parse: Callable[[], Value]) -> Value:
        """Return what an alias stands for.

        Args:
            name: the alias with its `#` or `!`.
            at: where it is used.
            parse: parses the definition, which is then next.
        """
        cursor = self.cursor
        if name in self._values:
            found: Value = self._values[name]
            return found
        if name not in self._places:
            cursor.refuse(f"the alias {name} is not defined", at)
        if name in self._being_parsed:
            cursor.refuse(f"the alias {name} refers to itself", at)
        self._being_parsed.add(name)
        resume, cursor.at = cursor.at, self._places[name]
        cursor.enter()
        try:
            value = self._values[name] = parse()
            self._ends[name] = cursor.at
        finally:
            cursor.depth -= 1
            cursor.at = resume
            self._being_parsed.discard(name)
        return value

    def next_definition(self) -> str:
        """Return the name of the alias whose definition is next at the top of the module, or ""."""
        self.cursor.skip()
        definition = _NEXT_DEFINITION.match(self.cursor.data, self.cursor.at)
        if definition is None:
            return ""
        name = definition[1].decode("utf-8", "replace")
        # A definition that does not begin a line is found only here.
        if self._places.setdefault(name, definition.end()) != definition.end():
            self.cursor.refuse(f"{name} is defined twice", definition.start(1))
        return name

    def end(self, name: str) -> int:
        """Return where the definition of an alias that was resolved ends."""
        return self._ends[name]
