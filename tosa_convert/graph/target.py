"""The target environment that a program names: what it is written for, besides the TOSA version."""

from __future__ import annotations

from tosa_convert.records import NamedTuple


class Target(NamedTuple):
    """A target environment; its TOSA version is that of the graph.

    level: "8K" or "NONE".
    profiles: such as ("PRO-INT",), in order.
    extensions: such as ("EXT-INT16", "EXT-CONTROLFLOW"), in order.

    The names need not be known: `spec.target.check` says which are not.

    Example:
        >>> print(Target("8K", ("PRO-INT",), ("EXT-INT16",)))
        PRO-INT,EXT-INT16 at level 8K
    """

    level: str
    profiles: tuple[str, ...]
    extensions: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Return its profiles and extensions."""
        return frozenset((*self.profiles, *self.extensions))

    def __str__(self) -> str:
        names = ",".join((*self.profiles, *self.extensions)) or "no profile"
        return f"{names} at level {self.level}"
