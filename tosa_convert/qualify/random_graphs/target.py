"""What random programs may have: the element types, profiles, extensions and level of a target.

The rows of operators decide: which operators are chosen at all, and whether one with the operands that
were chosen is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.graph.dtypes import DTYPES, V1_1, dtype
from tosa_convert.graph.model import Block, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.records import dataclass
from tosa_convert.rules.profiles import complete, fits, listed, parse
from tosa_convert.rules.types import Element, TypeRow, rows

_CONSTANTS: Final = ("CONST", "CONST_SHAPE")
#: Takes any element type, and so says which a target has.
_ANY_TYPE: Final = operator("IDENTITY")


@dataclass(frozen=True, slots=True)
class Target:
    """What a random program may have; None for anything.

    types: element types of inputs and of what operators compute. Constants have those that their
        operator needs.
    has: profiles and extensions.
    newest: the TOSA version that it is at most.
    """

    types: frozenset[str] | None = None
    has: frozenset[str] | None = None
    newest: tuple[int, int] = V1_1

    @classmethod
    def of(
        cls,
        profile: str | Iterable[str] | None,
        types: Iterable[str] | None,
        newest: tuple[int, int],
    ) -> Target:
        """Return the target that options describe. Raises TosaConvertError("option-conflict")."""
        text = profile if isinstance(profile, str) or profile is None else ",".join(profile)
        names = None if types is None else frozenset(str(name).upper() for name in types)
        for name in sorted(names or ()):
            refuse_unknown("types", name, tuple(row.name for row in DTYPES))
        return cls(names or None, None if text is None else complete(parse(text)), newest)

    def __str__(self) -> str:
        parts = [] if self.has is None else [f"--profile {listed(self.has)}"]
        parts += [] if self.types is None else [f"--types {','.join(sorted(self.types))}"]
        return " ".join(parts)

    def inputs(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return those of some element types that an input may have, in their order."""
        return _inputs(self, tuple(known))

    def takes(self, name: str) -> bool:
        """Return whether some row of an operator is within the target."""
        return any(map(self.has_row, rows(operator(name))))

    def taken(self, names: Sequence[str]) -> list[str]:
        """Return those of some operators that have a row within the target."""
        return list(_taken(self, tuple(names)))

    def has_row(self, row: TypeRow) -> bool:
        """Return whether the types of a row are within the target."""
        return self._has_needs(row) and self._has_types(row.results)

    def allows(self, block: Block, made: Operator) -> bool:
        """Return whether an operator of a block is within the target."""
        if self.has is not None and not fits(block, made, self.has):
            return False
        if self.types is None or made.spec.name in _CONSTANTS:
            return True
        results = (block.tensors.get(name) for name in made.outputs)
        return all(tensor is None or tensor.dtype.name in self.types for tensor in results)

    def refuse_impossible(self, names: Iterable[str]) -> None:
        """Raise TosaConvertError("option-conflict") for operators that the target does not have."""
        missing = [name for name in names if not self.takes(name)]
        if missing:
            message = f"{', '.join(missing)} cannot be generated with {self}"
            hint = "name other operators, or add to the target what they need"
            raise fail("option-conflict", "generate", message, hint)

    def _has_needs(self, row: TypeRow) -> bool:
        return any(
            need.since <= self.newest and (self.has is None or need.names <= self.has)
            for need in row.needs
        )

    def _has_types(self, elements: Sequence[Element]) -> bool:
        if self.types is None:
            return True
        found = (element[0] if isinstance(element, tuple) else element for element in elements)
        return all(element is None or element.name in self.types for element in found)


ANYTHING: Final = Target()


@lru_cache(maxsize=64)
def _taken(target: Target, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(target.takes, names))


@lru_cache(maxsize=64)
def _inputs(target: Target, known: tuple[str, ...]) -> tuple[str, ...]:
    found = [row.operands[0] for row in rows(_ANY_TYPE) if target.has_row(row)]
    return tuple(name for name in known if dtype(name) in found)
