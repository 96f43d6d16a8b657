"""What users are told before a public name goes: the table of such names, and the decorator that warns.

docs/deprecations.md has the policy, and shows the table.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class TosaConvertDeprecationWarning(DeprecationWarning):
    """A public name was used that a later release does not have; `DEPRECATED` says from when on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecation:
    """Says when a name goes, and what is used instead.

    since: the first release that warns. announced: its date, as "2027-03-31".
    removal: the first day on which a release may lack the name. instead: what to write.
    """

    since: str
    announced: str
    removal: str
    instead: str


#: Public name, with its module -> when it goes. A name without a row cannot be decorated.
DEPRECATED: Final[Mapping[str, Deprecation]] = {}


def deprecated(
    name: str, table: Mapping[str, Deprecation] = DEPRECATED
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function warn each time that it is called.

    Example:
        >>> row = Deprecation(
        ...     since="0.2.0", announced="2027-03-31", removal="2028-03-31", instead="golden.run"
        ... )
        >>> @deprecated("tosa_convert.old", {"tosa_convert.old": row})
        ... def old(): return 1
        >>> with warnings.catch_warnings(record=True) as found:
        ...     warnings.simplefilter("always")
        ...     _ = old()
        >>> print(found[0].message)
        tosa_convert.old is deprecated since 0.2.0, and may be gone from 2028-03-31 on: use golden.run
    """
    row = table[name]
    when = f"since {row.since}, and may be gone from {row.removal} on"
    message = f"{name} is deprecated {when}: use {row.instead}"

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> R:
            # The line of the caller is the one to change.
            warnings.warn(message, TosaConvertDeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        # As typing.deprecated does, for tools that look for it.
        warned.__deprecated__ = message  # type: ignore[attr-defined]
        return warned

    return decorate
