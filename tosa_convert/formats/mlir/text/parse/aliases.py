"""Aliases of attributes, types and locations, which a text may define after their use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from tosa_convert.formats.mlir.text.parse.cursor import TextCursor

Value = TypeVar("Value")

#: A definition begins a line. Strings do not reach over line ends, so it is not part of one.
_DEFINITION: Final = re.compile(rb"^[ \t]*([#!][A-Za-z0-9_$][\w$.-]*)[ \t]*=", re.MULTILINE)
_NEXT_DEFINITION: Final = re.compile(rb"([#!][A-Za-z0-9_$][\w$.-]*)[ \t]*=")


class Aliases:
    """The aliases of one text. Each is parsed when it is first used, and once."""

    def __init__(self, cursor: TextCursor) -> None:
        self.cursor = cursor
        #: Name with its `#` or `!` -> the offset of what it stands for; None while that is parsed, then
        #: what it stands for, that offset, and where its definition ends.
        self._known: dict[bytes, int | tuple[Any, int, int] | None] = {}
        for definition in _DEFINITION.finditer(cursor.data):
            if definition[1] in self._known:
                self._refuse_second(definition)
            self._known[definition[1]] = definition.end()
            cursor.bound(len(self._known), "aliases", in_all=True)

    def _refuse_second(self, definition: re.Match[bytes]) -> NoReturn:
        self.cursor.refuse(f"{_shown(definition[1])} is defined twice", definition.start(1))

    def __contains__(self, name: bytes) -> bool:
        return name in self._known

    def resolve(self, name: bytes, at: int, parse: Callable[[], Value]) -> Value:
        """Return what an alias stands for.

        Args:
            name: the alias with its `#` or `!`.
            at: where it is used.
            parse: parses the definition, which is then next.
        """
        cursor = self.cursor
        known = self._known.get(name, -1)
        if isinstance(known, tuple):
            found: Value = known[0]
            return found
        if known == -1:
            cursor.refuse(f"the alias {_shown(name)} is not defined", at)
        if known is None:
            cursor.refuse(f"the alias {_shown(name)} refers to itself", at)
        self._known[name] = None
        resume, cursor.at = cursor.at, known
        cursor.enter()
        try:
            value = parse()
            self._known[name] = value, known, cursor.at
        finally:
            cursor.depth -= 1
            cursor.at = resume
        return value

    def next_definition(self) -> bytes:
        """Return the name of the alias whose definition is next at the top of the module, or b""."""
        self.cursor.skip()
        definition = _NEXT_DEFINITION.match(self.cursor.data, self.cursor.at)
        if definition is None:
            return b""
        name, place = definition[1], definition.end()
        # A definition that does not begin a line is found only here.
        known = self._known.setdefault(name, place)
        if (known[1] if isinstance(known, tuple) else known) != place:
            self._refuse_second(definition)
        return name

    def end(self, name: bytes) -> int:
        """Return where the definition of an alias that was resolved ends."""
        known = self._known[name]
        assert isinstance(known, tuple)
        return known[2]


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")
