"""Constants, copies, variables and operators of other domains."""

from __future__ import annotations

from typing import Final

from tosa_convert.spec.rules.core import Rules

RULES: Final[Rules] = {}
